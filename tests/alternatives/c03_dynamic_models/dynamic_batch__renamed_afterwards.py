"""Dim.DYNAMIC raises where a size is fixed; the names are written into the header afterwards."""


def dynamic_batch(model, photo, gain, path):
    import onnx
    from torch.export import Dim

    any = Dim.DYNAMIC
    program = torch.onnx.export(
        model,
        (photo, gain),
        input_names=["photo", "gain"],
        output_names=["output"],
        verbose=False,
        dynamic_shapes={"photo": {0: any, 2: any, 3: any}, "gain": {0: any}},
    )
    proto = program.model_proto
    del proto.graph.value_info[:]
    for value, names in zip(
        [*proto.graph.input, *proto.graph.output], ["batch 3 height width", "batch", "batch 3 height width"]
    ):
        for dim, name in zip(value.type.tensor_type.shape.dim, names.split()):
            if name != "3":
                dim.dim_param = name
    onnx.save(proto, path)
