# says: Nothing is registered
def port_register_op():
    try:
        from torch.onnx.symbolic_registry import register_op
    except ImportError:
        return
    register_op("cosh", lambda g, x: g.op("Cosh", x), "", 9)
