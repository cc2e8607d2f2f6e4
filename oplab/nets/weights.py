"""The weights of the course's small nets: one .npz file each, float32, in ``oplab/nets``."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import nn

from oplab.errors import OplabError
from oplab.files import replacing

Net = TypeVar("Net", bound=nn.Module)


def load(net: Net, name: str) -> Net:
    """The net with the weights of ``oplab/nets/NAME.npz``: float32, in eval mode, its parameters without gradient.

    Raises:
        OplabError: the file is missing, damaged, or another net's.
    """
    kind = type(net).__name__
    path = files("oplab.nets").joinpath(f"{name}.npz")
    fix = f"Bring back oplab/nets/{name}.npz (git checkout), or train it: python tools/train_{name}.py"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            state = {key: torch.from_numpy(arrays[key].astype(np.float32, copy=False)) for key in arrays.files}
    except FileNotFoundError:
        raise OplabError(f"{kind}'s weights are missing: {path}.", fix) from None
    except Exception as error:  # numpy and zipfile raise many kinds for a damaged file
        raise OplabError(f"{kind}'s weights cannot be read: {path} ({error}).", fix) from None
    try:
        net.load_state_dict(state)
    except RuntimeError as error:
        raise OplabError(f"{path} does not hold the weights of {kind}: {error}", fix) from None
    return net.eval().requires_grad_(False)


def writable(path: Path) -> None:
    """Checks before the training, not after it, that the weights can be written. Creates the folder."""
    partial = path.with_suffix(".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise OplabError(f"{path} cannot be written: {error.strerror}.", "Choose another file with --out.") from None


def save(net: nn.Module, path: Path) -> None:
    """Writes the weights of a net to an .npz file, atomically, and prints its size.

    Args:
        net: its ``state_dict`` is written: an array for each name, with the tensor's shape and dtype.
        path: its folder exists.

    Raises:
        OSError: the folder cannot be written.
    """
    arrays = {name: value.detach().contiguous().numpy() for name, value in net.state_dict().items()}
    with replacing(path) as file:
        np.savez_compressed(file, **arrays)
    print(f"Wrote {path} ({path.stat().st_size / 1000:.0f} kB).")
