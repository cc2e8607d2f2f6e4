def extract(model, inputs, outputs):
    import onnx.utils

    inferred = onnx.shape_inference.infer_shapes(model)
    makers = {name: node for node in inferred.graph.node for name in node.output}
    done, missing = set(inputs), []

    def walk(name):
        if not name or name in done or name in {tensor.name for tensor in inferred.graph.initializer}:
            return
        done.add(name)
        if name not in makers:
            missing.append(name)
            return
        for entry in makers[name].input:
            walk(entry)

    for name in outputs:
        walk(name)
    if missing:
        raise ValueError("missing: " + " and ".join(missing))
    keep = onnx.utils.Extractor(inferred).extract_model(list(inputs), list(outputs))
    keep.ir_version = model.ir_version
    return keep
