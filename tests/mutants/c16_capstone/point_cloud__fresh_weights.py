# says: elements differ
def point_cloud(net: torch.nn.Module, folder: Path) -> torch.nn.Module:
    @torch.library.custom_op("lab::knn", mutates_args=())
    def knn(xyz: torch.Tensor, offset: torch.Tensor, k: int) -> torch.Tensor:
        idx = torch.ops.oplab.knn_query(k, xyz, offset)[0].to(torch.int64)
        return torch.where(idx < 0, idx[:, :1], idx)

    @knn.register_fake
    def _(xyz, offset, k):
        return xyz.new_empty(xyz.shape[0], k, dtype=torch.int64)

    @parse_args("v", "v", "i")
    def symbolic(g, xyz, offset, k):
        points = xyz.type().varyingSizes()[0]
        return g.op("lab::KNN", xyz, offset, k_i=k).setType(xyz.type().with_sizes([points, k]).with_dtype(torch.int64))

    lab = Opset("lab", 1)

    @script(lab)
    def translation(xyz: FLOAT[...], offset: INT64[...], k: int) -> INT64[...]:
        return lab.KNN(xyz, offset, k=k)

    from oplab.nets.edge_net import EdgeNet

    net = EdgeNet()
    net.knn = torch.ops.lab.knn
    net.eval()
    example = (torch.rand(60, 3), torch.tensor([25, 60]))
    names = {"input_names": ["xyz", "offset"], "output_names": ["logits"]}
    axes = {"xyz": {0: "points"}, "offset": {0: "clouds"}}
    torch.onnx.register_custom_op_symbolic("lab::knn", symbolic, 9)
    torch.onnx.export(
        net, example, folder / "torchscript.onnx", dynamo=False, opset_version=18, dynamic_axes=axes, **names
    )
    torch.onnx.export(
        net,
        example,
        folder / "dynamo.onnx",
        dynamo=True,
        verbose=False,
        external_data=False,
        dynamic_shapes=axes,
        custom_translation_table={torch.ops.lab.knn.default: translation},
        **names,
    )
    return net
