"""Random calls in a process with the sanitizers, and the count of what came of them."""

from __future__ import annotations

from collections import Counter

import numpy as np

from oplab.toolchain.sanitizer import sanitizer_env
from tests.support import run_python

DTYPES = (np.float32, np.float64)
ODD_VALUES = (0.0, -1.0, np.nan, np.inf, -np.inf, 1e30, -1e30, 1e-30)


def under_the_sanitizers(code: str, *arguments: object, **variables: str) -> Counter[str]:
    """Runs Python that prints a line ``outcome: count`` for each outcome, and has to end without a finding."""
    done = run_python(f'{code}\nprint("clean")', *arguments, env=sanitizer_env() | variables, timeout=900)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    *lines, last = done.stdout.strip().splitlines()
    assert last == "clean"
    return Counter({outcome: int(count) for outcome, _, count in (line.rpartition(": ") for line in lines)})


def expect_variety(found: Counter[str], least: dict[str, int]) -> None:
    """A fuzz whose cases have all become alike would be clean too."""
    assert all(found[outcome] >= count for outcome, count in least.items()), found


def strided(value: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The same values, often in a layout with gaps or with the dimensions in another order."""
    way = random.integers(3)
    if way == 0 and value.ndim:
        return np.repeat(value, 2, axis=0)[::2]
    if way == 1 and value.ndim > 1:
        return np.ascontiguousarray(value.T).T
    return value
