"""Scratch memory for a kernel, from ONNX Runtime's arena."""

from __future__ import annotations

import numpy as np

from tests.clinic.tools import run_custom

X = np.arange(100, dtype=np.float32)


def total(name: str) -> float:
    """The sum of X through 16 floats of scratch memory, with an operator of chapter 12."""
    return float(run_custom("12_scratch.cpp", name, "lesson", {"y": "f4"}, x=X, size=16)[0][0])


def happens() -> bool:
    return total("WithScratch") != X.sum()


def way_around() -> None:
    assert total("ByHand") == X.sum()  # an allocator from the kernel's context, and its release
