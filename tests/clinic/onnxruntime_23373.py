"""float16 for an operator with a variadic input of the lite API."""

from __future__ import annotations

import numpy as np

from tests.clinic.tools import refusal, run_custom


def result(name: str, x: np.ndarray) -> list:
    """What an operator of variadic_half.cpp computes."""
    return run_custom("variadic_half.cpp", name, "clinic", {"y": "f4"}, x=x)[0].tolist()


def happens() -> bool:
    assert result("Count", np.ones(3, np.float32)) == [3]
    # The message is ONNX Runtime's, with its spelling.
    return "unknow input type" in refusal(Exception, result, "Count", np.ones(3, np.float16))


def way_around() -> None:
    assert result("Sum", np.array([0.5, 2048, 0.5], np.float16)) == [2049]
