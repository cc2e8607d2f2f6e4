def one_file(source, target):
    import onnx_ir

    onnx_ir.save(onnx_ir.external_data.load_to_model(onnx_ir.load(source)), target)
