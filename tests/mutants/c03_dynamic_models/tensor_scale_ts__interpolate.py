# says: is 22.9999995 there, and float32
def tensor_scale_ts(x, factors):
    return torch.nn.functional.interpolate(x, scale_factor=factors.tolist(), mode="bicubic", align_corners=False)
