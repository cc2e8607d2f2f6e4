"""Kernels for the CPU and for CUDA under one name. What runs without a GPU is shown: the session takes the CPU's."""

from __future__ import annotations

import numpy as np

from tests.clinic.tools import refusal, run_custom


def result(domain: str) -> list:
    """Scale of 1: 2 from the kernel for the CPU, 3 from that for CUDA."""
    return run_custom("two_providers.cpp", "Scale", domain, {"y": "f4"}, x=np.ones(1, np.float32))[0].tolist()


def happens() -> bool:
    return refusal(Exception, result, "both") != "" or result("both") != [2]


def way_around() -> None:
    assert "Scale" in refusal(Exception, result, "one")  # only for CUDA: no kernel on this provider
