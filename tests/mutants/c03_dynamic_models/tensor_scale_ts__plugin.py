# says: use operators of ONNX alone
def tensor_scale_ts(x, factors):
    class BicubicResize(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factors):
            size = (torch.tensor(x.shape[2:]) * factors).int().tolist()
            return torch.ops.aten.upsample_bicubic2d(x, size, False, *factors.tolist())

        @staticmethod
        def symbolic(g, x, factors):
            y = g.op("oplab::Resize", x, factors)
            roi = g.op("Constant", value_t=torch.tensor([]))
            return g.op("Resize", y, roi, g.op("Concat", factors, factors, axis_i=0), mode_s="cubic")

    return BicubicResize.apply(x, factors)
