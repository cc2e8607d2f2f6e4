"""A list of strings as an attribute of a custom operator."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import numpy_helper

from tests.clinic.tools import refusal, run_custom

TEXTS = ["a", "bc"]


def read(texts: Any) -> list[str]:
    """What the operator of string_list.cpp reads from its attribute."""
    x = np.zeros(1, np.float32)
    return run_custom("string_list.cpp", "Strings", "clinic", {"y": str}, x=x, texts=texts)[0].tolist()


def happens() -> bool:
    return "a tensor of strings, not a list" in refusal(Exception, read, TEXTS)


def way_around() -> None:
    assert read(numpy_helper.from_array(np.array(TEXTS, object))) == TEXTS
