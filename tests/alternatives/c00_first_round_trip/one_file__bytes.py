def one_file(source, target):
    with open(source, "rb") as stream:
        model = onnx.load_model_from_string(stream.read())
    onnx.load_external_data_for_model(model, str(source.parent))
    target.write_bytes(model.SerializeToString())
