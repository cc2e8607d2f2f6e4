# says: it takes the scales as constants only
def tensor_scale_ts(x, factors):
    class BicubicResize(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factors):
            size = (torch.tensor(x.shape[2:]) * factors).int().tolist()
            return torch.ops.aten.upsample_bicubic2d(x, size, False, *factors.tolist())

    return BicubicResize.apply(x, factors)
