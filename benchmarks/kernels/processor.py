"""The processor under test: its name, and the sets of instructions that the kernels may use."""

from __future__ import annotations

import functools
import os
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np

from .runners import SIMD, bound, one_node, simd_set

SETS = ("avx512", "avx2", "neon", "plain")  # the values of OPLAB_SIMD, the fastest first
FEATURES = ("sse2", "avx", "avx2", "fma", "avx512f", "avx512dq", "asimd", "sve")
BASELINE = "neon" if platform.machine() in ("aarch64", "arm64") else "plain"  # what is compiled without a choice


@functools.cache
def sets() -> tuple[str, ...]:
    """The sets that run here, the fastest first. The kernels are asked: they refuse one that the processor lacks."""
    feed = {name: np.zeros(shape, np.float32) for name, shape in (("X", (1, 1, 1, 1)), ("W", (1, 1, 1, 1)))}
    feed["offset"] = np.zeros((1, 2, 1, 1), np.float32)
    found = []
    for simd in SETS:
        with simd_set(simd):
            try:
                bound(one_node("DeformConv2d", feed, {"Y": np.float32}), feed, 1)
            except Exception as refused:
                if SIMD not in str(refused):
                    raise
            else:
                found.append(simd)
    return tuple(found)


def _cpuinfo() -> dict[str, str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0].splitlines()
    except OSError:
        return {}
    pairs = (line.split(":", 1) for line in lines if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def describe() -> str:
    """Name, family, model, stepping and features: in clouds many processors have the same name. And the libraries' versions."""
    info = _cpuinfo()
    name = info.get("model name") or platform.processor() or platform.machine()
    numbers = {"family": "cpu family", "model": "model", "stepping": "stepping", "part": "CPU part"}
    words = " ".join(f"{word} {info[key]}" for word, key in numbers.items() if key in info)
    flags = (info.get("flags") or info.get("Features") or "").split()
    known = " ".join(each for each in FEATURES if each in flags)
    about = ", ".join(filter(None, (name, words, known and f"with {known}")))
    versions = ", ".join(f"{each} {version(each)}" for each in ("torch", "torchvision", "onnxruntime"))
    return f"{about}; {os.cpu_count()} processors; {versions}."


def slug() -> str:
    """The name of this processor's file of results: ``intel-6-207-avx512``."""
    info = _cpuinfo()
    vendor = {"GenuineIntel": "intel", "AuthenticAMD": "amd"}.get(info.get("vendor_id", ""), platform.machine())
    numbers = [info[key] for key in ("cpu family", "model", "CPU part") if key in info]
    return "-".join([vendor, *numbers, sets()[0]])
