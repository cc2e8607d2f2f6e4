"""Chapter 00: from PyTorch to an ONNX file, to ONNX Runtime, and a
proof that both agree.

Check one with ``make check EX=c00.export``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch

from oplab import todo


def run(path: Path, x: np.ndarray) -> np.ndarray:
    """Run an ONNX file in ONNX Runtime.

    Args:
        path: the file. Its input is named ``"input"``; it has one
            output. Its weights may be in a second file next to it.
        x: the input, float32, any shape.

    Returns:
        The output.
    """
    # TODO c00.run: load the file, run it on x, and return the output
    raise todo("c00.run")


def export(model: torch.nn.Module, example: torch.Tensor, path: Path) -> None:
    """Write ``model`` as an ONNX file.

    You may use either exporter, and the weights may be in the file or
    next to it. The file

    - has one input named ``"input"`` and one output named ``"output"``;
    - takes any batch size, height and width: these three axes of the
      input are dynamic, each with its own name;
    - computes what the model computes in eval mode, even if the model
      arrives in train mode.

    Args:
        model: any model of one image batch; the name of its forward's
            argument is not known.
        example: float32 ``[N, C, H, W]``, one possible input.
        path: the file to write.
    """
    # TODO c00.export: write the file, with named and dynamic inputs, for inference
    raise todo("c00.export")


def compare(model: torch.nn.Module, path: Path, x: torch.Tensor) -> tuple[bool, float]:
    """Run a PyTorch model and an ONNX file on the same input and report
    whether they agree.

    They agree when both outputs have the same shape and the same dtype,
    every value is finite, and for every element
    ``|onnx - torch| <= 1e-5 + 1e-4 * |torch|``.

    Args:
        model: a model of one tensor, in eval mode. It may compute in
            place.
        path: an ONNX file with one input of any name, and one output.
        x: the input, float32, any shape without a 0, not always
            contiguous. Do not modify it.

    Returns:
        ``(agrees, max_abs)``: a bool, and the largest
        ``|onnx - torch|`` as a float. Where the two cannot be compared
        (another shape, another dtype, a value that is NaN or infinite)
        the answer is ``(False, inf)``.
    """
    # TODO c00.compare: run both on x, and write a comparison that detects real mismatches
    raise todo("c00.compare")


def one_file(source: Path, target: Path) -> None:
    """Turn an ONNX model whose weights are in a second file into a
    single, complete file.

    ``source`` and everything next to it stay unchanged. ``target``
    holds the same graph and the same weights, bit for bit, and needs no
    other file: it can be moved anywhere.

    A branch of the graph may hold its own weights, and not every weight
    is float32.

    Args:
        source: an ``.onnx`` file; its larger weights are in the same
            folder, in a file of the same name plus ``.data``.
        target: the file to write, in another folder, which exists.
    """
    # TODO c00.one_file: write the model and its weights into the one file `target`
    raise todo("c00.one_file")
