# says: is 22.9999995 there, and float32
def tensor_scale_dynamo():
    @torch.library.custom_op("c03::bilinear_by", mutates_args=())
    def resize(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x, scale_factor=factor.item(), mode="bilinear")

    @resize.register_fake
    def _(x, factor):
        context = torch.library.get_ctx()
        return x.new_empty(*x.shape[:2], context.new_dynamic_size(), context.new_dynamic_size())

    def translate(x: FLOAT, factor: FLOAT) -> FLOAT:
        both = op.Expand(factor, op.Constant(value_ints=[2]))
        scales = op.Concat(op.Constant(value_floats=[1.0, 1.0]), both, axis=0)
        return op.Resize(x, None, scales, mode="linear", coordinate_transformation_mode="half_pixel")

    return resize, {torch.ops.c03.bilinear_by.default: translate}
