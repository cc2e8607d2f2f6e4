# says: is 22.9999995 there, and float32
def tensor_scale_ts(x, factors):
    class BicubicResize(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factors):
            return torch.nn.functional.interpolate(x, scale_factor=factors.tolist(), mode="bicubic")

        @staticmethod
        def symbolic(g, x, factors):
            scales = g.op("Concat", g.op("Constant", value_t=torch.ones(2)), factors, axis_i=0)
            roi = g.op("Constant", value_t=torch.tensor([]))
            return g.op(
                "Resize",
                x,
                roi,
                scales,
                mode_s="cubic",
                coordinate_transformation_mode_s="half_pixel",
                cubic_coeff_a_f=-0.75,
            )

    return BicubicResize.apply(x, factors)
