# says: expected a tensor, got nothing (None)
def tensor_scale_ts(x, factors):
    torch.ops.aten.upsample_bicubic2d(x, None, False, factors.tolist())
