# says: The fake promises another shape
def tensor_scale_dynamo():
    @torch.library.custom_op("c03::bilinear_by", mutates_args=())
    def resize(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        size = (torch.tensor(x.shape[2:]) * factor).int().tolist()
        return torch.ops.aten.upsample_bilinear2d(x, size, False, factor.item(), factor.item())

    @resize.register_fake
    def _(x, factor):
        return x.new_empty(*x.shape[:2], x.shape[2] * 3, x.shape[3] * 3)

    def translate(x: FLOAT, factor: FLOAT) -> FLOAT:
        both = op.Expand(factor, op.Constant(value_ints=[2]))
        scales = op.Concat(op.Constant(value_floats=[1.0, 1.0]), both, axis=0)
        return op.Resize(x, None, scales, mode="linear", coordinate_transformation_mode="half_pixel")

    return resize, {torch.ops.c03.bilinear_by.default: translate}
