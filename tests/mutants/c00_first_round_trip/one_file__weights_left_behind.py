# says: are not in the file but in
def one_file(source, target):
    onnx.save(onnx.load(source, load_external_data=False), target)
