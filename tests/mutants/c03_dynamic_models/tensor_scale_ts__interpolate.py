# says: The product was computed in double precision
def tensor_scale_ts(x, factors):
    return torch.nn.functional.interpolate(x, scale_factor=factors.tolist(), mode="bicubic", align_corners=False)
