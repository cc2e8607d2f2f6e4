# says: zeros came. torch.onnx.ops.symbolic is a node for an export
def translate_my_add():
    def my_add(a, b, alpha=3.0, beta=2.0):
        numbers = {"alpha": alpha, "beta": beta}
        return torch.onnx.ops.symbolic("oplab::MyAdd", (a, b), numbers, dtype=a.dtype, shape=a.shape, version=1)

    return my_add, {}
