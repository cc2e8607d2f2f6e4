# says: was not written
def one_file(source, target):
    onnx.save(onnx.load(source), source.parent / target.name)
