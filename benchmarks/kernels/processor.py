"""The processor under test: its name, the sets of instructions that the kernels may use, and what it could do at most."""

from __future__ import annotations

import functools
import platform
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
    """Name, family, model, stepping and the features that matter here: in clouds many processors have the same name."""
    info = _cpuinfo()
    name = info.get("model name") or platform.processor() or platform.machine()
    numbers = {"family": "cpu family", "model": "model", "stepping": "stepping", "part": "CPU part"}
    words = " ".join(f"{word} {info[key]}" for word, key in numbers.items() if key in info)
    flags = (info.get("flags") or info.get("Features") or "").split()
    known = " ".join(each for each in FEATURES if each in flags)
    return ", ".join(filter(None, (name, words, known and f"with {known}")))


def per_cycle(simd: str) -> float | None:
    """Vector multiply-adds that a core of this processor can start in a cycle; None where this is not known.

    For ``plain``, pairs of a multiplication and an addition. From the makers' optimisation manuals and uops.info.
    """
    info = _cpuinfo()
    numbers = [info.get("vendor_id"), *(int(info.get(key, -1)) for key in ("cpu family", "model"))]
    match numbers:
        case ["GenuineIntel", 6, model]:
            return _intel(simd, model)
        case ["AuthenticAMD", 23 | 25 | 26 as family, model]:
            if simd == "plain":
                return 2.0  # two multipliers and two adders
            if simd == "avx512":
                return 2.0 if family == 26 and model not in range(0x20, 0x40) else 1.0
            return 1.0 if family == 23 and model < 0x30 else 2.0
    if simd == "neon":
        return {"0xd0c": 2.0, "0xd49": 2.0, "0xd40": 4.0, "0xd4f": 4.0}.get(info.get("CPU part", ""))
    return None


def _intel(simd: str, model: int) -> float | None:
    golden_cove = model in (143, 207, 173, 174, 151, 154, 183, 186, 191, 170)
    if simd == "plain":  # three ports, of which one does both; before, both on two ports
        return 1.5 if golden_cove else 1.0
    if simd == "avx2":
        return 2.0
    if model in (106, 108, 143, 207, 173, 174):  # servers since Ice Lake
        return 2.0
    return 1.0 if model in (102, 125, 126, 140, 141, 167) else None  # Skylake's servers had one or two
