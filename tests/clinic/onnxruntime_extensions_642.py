"""A library from newer headers asks for a table of functions that the runtime does not have."""

from __future__ import annotations

import numpy as np

from tests.clinic.tools import refusal, run_custom

ONE = np.ones(1, np.float32)


def happens() -> bool:
    return "the table is null" in refusal(Exception, run_custom, "newer_table.cpp", "Any", "clinic", {"y": "f4"}, x=ONE)


def way_around() -> None:
    # Takes the newest table that both know.
    assert run_custom("17_negotiates.cpp", "MyAdd", "lesson", {"y": "f4"}, a=ONE, b=ONE)[0].tolist() == [5]
