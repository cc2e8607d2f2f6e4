# says: An autograd.Function is called with its method apply
class _TS(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factors):
        size = torch.tensor(x.shape[-2:]) * factors
        return torch.ops.aten.upsample_bicubic2d(x, size.int().tolist(), False, *factors.tolist())

def tensor_scale_ts(x, factors):
    return _TS(x, factors)
