# says: This is the size for the factor 3 of the export
def tensor_scale_ts(x, factors):
    class BicubicResize(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factors):
            size = (torch.tensor(x.shape[2:]) * factors).int().tolist()
            return torch.ops.aten.upsample_bicubic2d(x, size, False, *factors.tolist())

        @staticmethod
        def symbolic(g, x, factors):
            scales = g.op("Constant", value_t=torch.tensor([1.0, 1.0, 3.0, 3.0]))
            scales = g.op(
                "Mul",
                scales,
                g.op("Div", g.op("ReduceMax", factors, keepdims_i=0), g.op("ReduceMax", factors, keepdims_i=0)),
            )
            roi = g.op("Constant", value_t=torch.tensor([]))
            return g.op("Resize", x, roi, scales, mode_s="cubic", cubic_coeff_a_f=-0.75)

    return BicubicResize.apply(x, factors)
