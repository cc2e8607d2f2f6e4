# says: are not in the file but in
def one_file(source, target):
    import os

    model = onnx.load(source, load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = os.path.relpath(source.parent / entry.value, target.parent)
    target.write_bytes(model.SerializeToString())
