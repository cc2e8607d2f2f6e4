# says: promises a side of 'height', that of photo
def super_resolution(net: torch.nn.Module, folder: Path) -> torch.nn.Module:
    @torch.library.custom_op("lab::dynamic_resize", mutates_args=())
    def dynamic_resize(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        return torch.ops.oplab.dynamic_resize(x, scales)

    @dynamic_resize.register_fake
    def _(x, scales):
        return torch.empty_like(x)

    class SuperResolution(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, photo, factor):
            scales = torch.cat([torch.ones(2), factor.expand(2)])
            return self.net(torch.ops.lab.dynamic_resize(photo, scales))

    def symbolic(g, x, scales):
        batch, channels, _, _ = x.type().varyingSizes()
        return g.op("lab::DynamicResize", x, scales).setType(x.type().with_sizes([batch, channels, None, None]))

    lab = Opset("lab", 1)

    @script(lab)
    def translation(x: FLOAT[...], scales: FLOAT[...]) -> FLOAT[...]:
        return lab.DynamicResize(x, scales)

    module = SuperResolution().eval()
    example = (torch.rand(2, 3, 12, 10), torch.tensor(2.0))
    names = {"input_names": ["photo", "factor"], "output_names": ["y"]}
    axes = {0: "batch", 2: "height", 3: "width"}
    torch.onnx.register_custom_op_symbolic("lab::dynamic_resize", symbolic, 9)
    torch.onnx.export(
        module,
        example,
        folder / "torchscript.onnx",
        dynamo=False,
        opset_version=17,
        dynamic_axes={"photo": axes},
        **names,
    )
    torch.onnx.export(
        module,
        example,
        folder / "dynamo.onnx",
        dynamo=True,
        verbose=False,
        external_data=False,
        dynamic_shapes={"photo": axes, "factor": {}},
        custom_translation_table={torch.ops.lab.dynamic_resize.default: translation},
        **names,
    )
    return module
