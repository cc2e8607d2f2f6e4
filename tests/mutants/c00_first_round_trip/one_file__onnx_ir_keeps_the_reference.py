# says: without that file the model cannot be loaded
def one_file(source, target):
    import onnx_ir

    onnx_ir.save(onnx_ir.load(source), target)
