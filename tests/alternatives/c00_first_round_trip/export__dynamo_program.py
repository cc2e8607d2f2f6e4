def export(model, example, path):
    dynamic = torch.export.Dim.DYNAMIC
    program = torch.onnx.export(
        model.eval(), (example,), input_names=["input"], output_names=["output"],
        dynamic_shapes=[{0: dynamic, 2: dynamic, 3: dynamic}], verbose=False,
    )
    program.save(path, external_data=False)
