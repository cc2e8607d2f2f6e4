# says: the source has to stay as it is
def one_file(source, target):
    model = onnx.load(source)
    onnx.save(model, source)
    target.write_bytes(source.read_bytes())
