"""SRCNN: the super-resolution net of chapters 00, 03, 08 and 16, with weights that were trained here.

C. Dong, C. C. Loy, K. He, X. Tang, "Image Super-Resolution Using Deep Convolutional Networks", TPAMI 2016
(arXiv 1501.00092). Super-resolution has two steps: enlarge the photo with a bicubic filter, which blurs, then let
the net sharpen what came out. The net does not change the size, so one net serves every factor.

``tools/train_srcnn.py`` makes the weights.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from oplab.errors import OplabError
from oplab.nets import weights

_RGB_TO_Y = (0.299, 0.587, 0.114)


class SRCNN(nn.Module):
    """Sharpens a photo that was enlarged with a bicubic filter. 57 281 parameters.

    The three convolutions are those of the paper's 9-5-5 net. As in the paper the net sees only the brightness of the
    photo, one channel, because the eye finds detail there. Two things differ. The net gives the *detail that is
    missing*, and the photo is added to it: a net that begins near zero begins at the bicubic result and can only
    improve on it, which makes training take minutes instead of days (residual learning: Kim, Lee, Lee, "VDSR",
    CVPR 2016, arXiv 1511.04587). And the same detail goes to R, G and B: that changes the brightness and keeps the
    colour differences, so no conversion to YCbCr and back is in the graph.

    Shapes:
        input: float32 (N, 3, H, W), RGB in [0, 1], already enlarged; any N, H, W >= 1.
        output: the same shape and dtype; near [0, 1], not clipped.
    """

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 64, kernel_size=9, padding=4)
        self.conv2 = nn.Conv2d(64, 32, kernel_size=5, padding=2)
        self.conv3 = nn.Conv2d(32, 1, kernel_size=5, padding=2)
        self.relu = nn.ReLU()
        # no parameter and not in state_dict, but it moves with the net to another device or dtype
        self.register_buffer("rgb_to_y", torch.tensor(_RGB_TO_Y).view(1, 3, 1, 1), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The photo with the missing detail added: (N, 3, H, W) -> (N, 3, H, W)."""
        y = (x * self.rgb_to_y).sum(dim=1, keepdim=True)  # brightness
        out = self.relu(self.conv1(y))
        out = self.relu(self.conv2(out))
        out = self.conv3(out)
        return x + out  # (N, 1, H, W) is broadcast over the three channels


def brightness(x: torch.Tensor) -> torch.Tensor:
    """Y = 0.299 R + 0.587 G + 0.114 B (ITU-R BT.601, full range): float (N, 3, H, W) -> (N, 1, H, W)."""
    return (x * x.new_tensor(_RGB_TO_Y).view(1, 3, 1, 1)).sum(dim=1, keepdim=True)


def load_srcnn() -> SRCNN:
    """SRCNN with the trained weights, on the CPU, float32, in eval mode, its parameters without gradient.

    Raises:
        OplabError: the weights file is missing or is not the one that belongs to this class.
    """
    return weights.load(SRCNN(), "srcnn")


def shrink(photo: torch.Tensor, factor: int) -> torch.Tensor:
    """The low-resolution version of a photo: antialiased bicubic, as Pillow does it.

    Keys's cubic (see ``enlarge``) with a = -0.5, widened by the factor so that it averages what it leaves out.

    Args:
        photo: float (N, C, H, W) in [0, 1].
        factor: a whole number >= 1. Rows and columns at the lower and right edge that do not fill a pixel are left out.

    Returns:
        The dtype of the input, (N, C, H // factor, W // factor), clipped to [0, 1] as a camera does.
        ``crop(photo, factor)`` is the part of the photo that it shows.

    Raises:
        OplabError: not a batch of photos, a factor that is not a whole number >= 1, or no pixel is left.
    """
    photo = crop(photo, factor)
    size = (photo.shape[2] // int(factor), photo.shape[3] // int(factor))
    return F.interpolate(photo, size=size, mode="bicubic", align_corners=False, antialias=True).clamp(0, 1)


def crop(photo: torch.Tensor, factor: int) -> torch.Tensor:
    """The upper left part of (N, C, H, W) with height and width multiples of ``factor``.

    Raises:
        OplabError: not a batch of photos, a factor that is not a whole number >= 1, or no pixel is left.
    """
    _batch(photo)
    if isinstance(factor, bool) or not isinstance(factor, (int, float, np.number)) or factor < 1 or factor % 1:
        raise OplabError(f"shrink takes a whole number of 1 or more as its factor, not {factor!r}.", "For example: 3.")
    factor = int(factor)
    height, width = photo.shape[2] // factor, photo.shape[3] // factor
    if height < 1 or width < 1:
        raise OplabError(
            f"A photo of {photo.shape[2]} x {photo.shape[3]} pixels cannot be shrunk {factor} times.",
            "Take a larger photo or a smaller factor.",
        )
    return photo[:, :, : height * factor, : width * factor]


def enlarge(photo: torch.Tensor, factor: float) -> torch.Tensor:
    """The photo, ``factor`` times as high and wide, bicubic: what SRCNN gets.

    Keys's cubic convolution ("Cubic convolution interpolation for digital image processing", IEEE TASSP 1981) with
    a = -0.75 and half-pixel centres. ONNX calls the same thing Resize with mode="cubic", cubic_coeff_a=-0.75,
    coordinate_transformation_mode="half_pixel".

    Args:
        photo: float (N, C, H, W).
        factor: any number > 0 that leaves at least one pixel.

    Returns:
        The dtype of the input, (N, C, floor(H * factor), floor(W * factor)). Not clipped: a cubic overshoots at edges.

    Raises:
        OplabError: not a batch of photos, or no pixel is left.
    """
    _batch(photo)
    factor = float(factor)
    if not (math.isfinite(factor) and min(photo.shape[2:]) * factor >= 1):
        raise OplabError(
            f"A photo of {photo.shape[2]} x {photo.shape[3]} pixels cannot be enlarged {factor} times.",
            "Take a factor above 0 that leaves at least one pixel.",
        )
    return F.interpolate(photo, scale_factor=factor, mode="bicubic", align_corners=False)


def psnr(a: Any, b: Any) -> float:
    """Peak signal-to-noise ratio of two photos in dB; more is closer, ``inf`` is equal.

    PSNR = 10 log10(peak^2 / MSE) with peak = 1, the mean squared error over all pixels and channels, computed in
    float64 (Gonzalez and Woods, "Digital Image Processing"). Clip to [0, 1] first if you compare what a screen shows.

    Args:
        a, b: arrays or tensors of the same shape, values in [0, 1].

    Raises:
        OplabError: the shapes differ (broadcasting would give a number that means nothing) or there is no pixel.
    """
    first, second = (np.asarray(v.detach().cpu() if hasattr(v, "detach") else v, dtype=np.float64) for v in (a, b))
    if first.shape != second.shape or first.size == 0:
        raise OplabError(
            f"psnr compares two photos of one shape; these have {first.shape} and {second.shape}.",
            "Cut the larger one to the size of the smaller one.",
        )
    mse = float(np.mean((first - second) ** 2))
    return math.inf if mse == 0 else -10 * math.log10(mse)


def _batch(photo: Any) -> None:
    if not isinstance(photo, torch.Tensor) or photo.ndim != 4 or not photo.is_floating_point():
        shape = tuple(getattr(photo, "shape", ()))
        raise OplabError(
            f"This needs a float tensor of shape (N, C, H, W), not {type(photo).__name__} of shape {shape}.",
            "Convert a photo with torch.from_numpy(to_nchw(photo)).",
        )
