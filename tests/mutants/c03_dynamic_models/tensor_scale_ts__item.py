# says: it takes the scales as constants only
def tensor_scale_ts(x, factors):
    import numpy as np

    height, width = factors.tolist()
    size = [
        int(np.float32(int(n)) * np.float32(factor)) for n, factor in zip(x.shape[2:], (height, width), strict=True)
    ]
    return torch.ops.aten.upsample_bicubic2d(x, size, False, height, width)
