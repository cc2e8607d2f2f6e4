# says: expected the text
def shapes(model: onnx.ModelProto) -> dict[str, str]:

    def text(elem_type: int, sizes: list[object] | None) -> str:
        dtype = str(helper.tensor_dtype_to_np_dtype(elem_type))
        return dtype if sizes is None else f"{dtype}[{', '.join(map(str, sizes))}]"

    def size(dim: onnx.TensorShapeProto.Dimension) -> object:
        # A size of 0 is a size: ask which field is set, not whether its value is true.
        return dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?"

    graph = onnx.shape_inference.infer_shapes(model).graph
    found = {tensor.name: text(tensor.data_type, list(tensor.dims)) for tensor in graph.initializer}
    for value in [*graph.input, *graph.value_info, *graph.output]:
        kind = value.type.tensor_type
        if value.name not in found and kind.elem_type:
            found[value.name] = text(
                kind.elem_type, [size(d) for d in kind.shape.dim] if kind.HasField("shape") else None
            )
    return {name: (kind.split('[')[0], kind) for name, kind in found.items()}
