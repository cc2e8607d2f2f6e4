# says: corresponding outermost 2 scale values being 1
def tensor_scale_dynamo():
    @torch.library.custom_op("c03::bilinear_by", mutates_args=())
    def resize(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        size = (torch.tensor(x.shape[2:]) * factor).int().tolist()
        return torch.ops.aten.upsample_bilinear2d(x, size, False, factor.item(), factor.item())

    @resize.register_fake
    def _(x, factor):
        context = torch.library.get_ctx()
        return x.new_empty(*x.shape[:2], context.new_dynamic_size(), context.new_dynamic_size())

    def translate(x: FLOAT, factor: FLOAT) -> FLOAT:
        return op.Resize(x, None, op.Expand(factor, op.Constant(value_ints=[4])), mode="linear")

    return resize, {torch.ops.c03.bilinear_by.default: translate}
