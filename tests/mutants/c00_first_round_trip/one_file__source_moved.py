# says: was changed or deleted
def one_file(source, target):
    model = onnx.load(source)
    onnx.save(model, target)
    source.unlink()
    source.with_name(source.name + ".data").unlink()
