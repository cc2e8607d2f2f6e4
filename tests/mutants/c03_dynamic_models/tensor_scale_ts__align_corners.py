# says: This is what align_corners=True gives
def tensor_scale_ts(x, factors):
    class BicubicResize(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factors):
            size = (torch.tensor(x.shape[2:]) * factors).int().tolist()
            return torch.ops.aten.upsample_bicubic2d(x, size, False, *factors.tolist())

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
                coordinate_transformation_mode_s="align_corners",
                cubic_coeff_a_f=-0.75,
            )

    return BicubicResize.apply(x, factors)
