"""What this machine can do at most: the bandwidth that a STREAM-like triad reaches, and multiply-adds per second."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from oplab.toolchain.compiler import find_compiler, run

from .harness import Missing
from .peers import bench_dir

SOURCE = Path(__file__).with_name("limits.cpp")
FLAGS = ("-std=c++17", "-O3", "-ffast-math", "-fPIC", "-shared", "-pthread")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())


@functools.cache
def _library() -> ctypes.CDLL:
    compiler = find_compiler()
    words = [SOURCE.read_text(), *FLAGS, str(compiler), _processor()]
    made = bench_dir() / f"limits-{hashlib.sha256(' '.join(words).encode()).hexdigest()[:12]}.so"
    if not made.exists():
        part = made.with_suffix(".part")
        for native in (["-march=native"], ["-mcpu=native"], []):  # of g++, of clang on ARM, of neither
            done = run([*compiler.command, *FLAGS, *native, str(SOURCE), "-o", str(part)], timeout=300)
            if done.returncode == 0:
                break
        else:
            raise Missing(f"{SOURCE.name} does not compile: {done.log.strip().splitlines()[0]}")
        part.replace(made)
    library = ctypes.CDLL(str(made))
    library.triad.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_float, ctypes.c_int64, ctypes.c_int]
    library.peak.argtypes = [ctypes.c_int64, ctypes.c_int]
    library.peak.restype = ctypes.c_double
    return library


def triad(a: np.ndarray, b: np.ndarray, factor: float, threads: int) -> Callable[[], np.ndarray]:
    """A callable that computes y = a + factor * b, into one array that is kept: 12 bytes are moved for each number.

    Raises:
        Missing: there is no compiler.
    """
    y = np.zeros_like(a)
    library = _library()

    def call() -> np.ndarray:
        library.triad(y.ctypes.data, a.ctypes.data, b.ctypes.data, factor, a.size, threads)
        return y

    return call


def bandwidth(threads: int, numbers: int = 1 << 24, rounds: int = 9) -> float:
    """Bytes per second of the triad on arrays that no cache holds; the median of the rounds."""
    a, b = np.ones(numbers, np.float32), np.ones(numbers, np.float32)
    call = triad(a, b, 3.0, threads)
    call()
    return 12 * numbers / statistics.median(_seconds(call) for _ in range(rounds))


def flops(threads: int, steps: int = 1 << 21, rounds: int = 9) -> float:
    """Floating-point operations per second, multiply-adds of float32 counted as two; the best of the rounds."""
    library = _library()
    library.peak(steps, threads)
    best = 0.0
    for _ in range(rounds):
        start = time.perf_counter()
        done = library.peak(steps, threads)
        best = max(best, done / (time.perf_counter() - start))
    return best


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
