"""A library that says that its headers are newer than the runtime."""

from __future__ import annotations

import numpy as np

from tests.clinic.tools import refusal, run_custom


def result(domain: str) -> list:
    """What the operator computes that is in this domain of version_too_new.cpp."""
    return run_custom("version_too_new.cpp", "Same", domain, {"y": "f4"}, x=np.arange(3, dtype=np.float32))[0].tolist()


def happens() -> bool:
    return "Unsupported version" in refusal(Exception, result, "newer")


def way_around() -> None:
    assert result("older") == [0, 1, 2]
