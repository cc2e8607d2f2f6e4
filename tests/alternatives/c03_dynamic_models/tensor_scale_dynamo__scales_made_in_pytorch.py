"""The operator takes four scales; torch operators make them from the factor."""


@torch.library.custom_op("c03::resize_linear", mutates_args=())
def resize_linear(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    size = (torch.tensor(x.shape) * scales).int()[2:].tolist()
    return torch.ops.aten.upsample_bilinear2d(x, size, False, *scales[2:].tolist())


@resize_linear.register_fake
def _(x, scales):
    new = torch.library.get_ctx().new_dynamic_size
    return x.new_empty(x.shape[0], x.shape[1], new(), new())


def to_resize(x: FLOAT, scales: FLOAT) -> FLOAT:
    return op.Resize(x, None, scales, mode="linear")


def tensor_scale_dynamo():
    def resize(x, factor):
        one = torch.ones(())
        return resize_linear(x, torch.stack([one, one, factor, factor]))

    return resize, {torch.ops.c03.resize_linear.default: to_resize}
