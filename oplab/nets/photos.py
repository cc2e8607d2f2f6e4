"""Real photos for the lessons. They ship inside scikit-image's wheel: nothing is downloaded.

Two layouts are in use. A *photo* is an array of height x width x 3, as matplotlib shows it. A *batch* is
N x C x H x W, as convolutions take it. ``to_nchw`` and ``to_image`` go from one to the other.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np

from oplab.errors import OplabError

# The files are read directly, not through skimage.data, whose functions go to the network for a file that is missing.
_FILES = {
    "astronaut": "astronaut.png",
    "brick": "brick.png",
    "camera": "camera.png",
    "cell": "cell.png",
    "chelsea": "chelsea.png",
    "coffee": "coffee.png",
    "coins": "coins.png",
    "grass": "grass.png",
    "gravel": "gravel.png",
    "hubble_deep_field": "hubble_deep_field.jpg",
    "immunohistochemistry": "ihc.png",
    "moon": "moon.png",
    "motorcycle_left": "motorcycle_left.png",
    "motorcycle_right": "motorcycle_right.png",
    "page": "page.png",
    "retina": "retina.jpg",
    "rocket": "rocket.jpg",
    "text": "text.png",
}
NAMES: tuple[str, ...] = tuple(_FILES)
"""The photos that ``photo`` knows, by scikit-image's names."""


def photo(name: str, size: int | tuple[int, int] | None = None) -> np.ndarray:
    """A real photo.

    Args:
        name: one of ``NAMES``, for example ``"astronaut"`` (512 x 512) or ``"chelsea"`` (300 x 451, a cat).
        size: None for the photo as it is. ``(height, width)``, or one number for a square, gives the largest centred
            window of that shape, reduced to that size (Lanczos, antialiased).

    Returns:
        float32 RGB, shape (height, width, 3), values in [0, 1]. A grey photo has three equal channels. The array
        is new: you may write into it.

    Raises:
        OplabError: the name is unknown, or the size is not positive or larger than the photo.
    """
    if name not in _FILES:
        raise OplabError(f"There is no photo named {name!r}.", f"The photos are: {', '.join(NAMES)}.")
    from PIL import Image, ImageOps

    try:
        with files("skimage").joinpath("data", _FILES[name]).open("rb") as file:
            image = Image.open(file).convert("RGB")
    except (ModuleNotFoundError, FileNotFoundError):
        raise OplabError(
            f"The photo {name!r} is missing: the installed scikit-image does not have it.",
            'Install the version that the course uses: pip install --force-reinstall "scikit-image>=0.25"',
        ) from None
    if size is not None:
        height, width = _pair(size)
        if height < 1 or width < 1 or height > image.height or width > image.width:
            raise OplabError(
                f"The photo {name!r} has {image.height} x {image.width} pixels; the size {height} x {width} is not in it.",
                "Ask for a size from 1 x 1 up to the photo's own.",
            )
        image = ImageOps.fit(image, (width, height), method=Image.Resampling.LANCZOS)
    return np.asarray(image, dtype=np.float32) / np.float32(255)


def to_nchw(image: np.ndarray) -> np.ndarray:
    """A photo as a batch of one.

    Args:
        image: numeric, shape (height, width, channels) or (height, width). uint8 is taken as 0...255 and becomes 0...1;
            floats keep their values.

    Returns:
        float32, shape (1, channels, height, width), C-contiguous: for ONNX Runtime and for ``torch.from_numpy``.

    Raises:
        OplabError: the array has another number of axes.
    """
    image = np.asarray(image)
    if image.ndim == 2:
        image = image[:, :, None]
    if image.ndim != 3:
        raise OplabError(
            f"A photo has the shape (height, width, channels); this array has the shape {image.shape}.",
            "A batch N x C x H x W is already in the layout that you ask for.",
        )
    scaled = image.astype(np.float32) / np.float32(255) if image.dtype == np.uint8 else image.astype(np.float32)
    return np.ascontiguousarray(scaled.transpose(2, 0, 1)[None])


def to_image(batch: Any) -> np.ndarray:
    """The one photo of a batch, ready for ``plt.imshow``.

    Args:
        batch: array or torch tensor (on any device, with or without gradient), floating, shape (1, C, H, W) or
            (C, H, W), C being 1 or 3, values meant for [0, 1].

    Returns:
        float32, shape (H, W, 3), clipped to [0, 1] (a resize overshoots at edges; a screen cannot). One channel becomes
        three equal ones.

    Raises:
        OplabError: the shape is another one, or the batch holds several photos.
    """
    if hasattr(batch, "detach"):
        batch = batch.detach().cpu().float().numpy()
    array = np.asarray(batch)
    if array.ndim == 4 and array.shape[0] == 1:
        array = array[0]
    if array.ndim != 3 or array.shape[0] not in (1, 3):
        raise OplabError(
            f"One photo has the shape (1, C, H, W) or (C, H, W) with C = 1 or 3; this array has {array.shape}.",
            "Take one photo of a batch with batch[i]; an H x W x 3 array needs no conversion.",
        )
    image = np.clip(array.astype(np.float32).transpose(1, 2, 0), 0, 1)
    return np.ascontiguousarray(np.broadcast_to(image, (*image.shape[:2], 3)))


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    try:
        height, width = (size, size) if np.ndim(size) == 0 else size  # type: ignore[misc]
        if int(height) == height and int(width) == width:
            return int(height), int(width)
    except (TypeError, ValueError):
        pass
    raise OplabError(f"A size is one whole number or (height, width), not {size!r}.", "For example: size=256.")
