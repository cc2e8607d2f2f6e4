"""What this machine can do at most: the bandwidth that a STREAM-like triad reaches, and multiply-adds per second by set."""

from __future__ import annotations

import ctypes
import functools
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from oplab.toolchain.compiler import find_compiler

from .harness import Missing
from .peers import compiled

SOURCE = Path(__file__).with_name("limits.cpp")
# Nothing of this processor, and no -ffast-math: GCC 12 would link code that makes the whole process round denormals to zero.
FLAGS = ("-std=c++17", "-O3", "-ffp-contract=fast", "-fPIC", "-shared", "-pthread")


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(compiled(SOURCE, [*find_compiler().command, *FLAGS])))
    library.triad.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_float, ctypes.c_int64, ctypes.c_int]
    library.copy.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_int64, ctypes.c_int]
    library.peak.argtypes = [ctypes.c_char_p, ctypes.c_double, ctypes.c_int]
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


def copy(size: int, threads: int) -> Callable[[], np.ndarray]:
    """A callable that copies so many bytes with memcpy, into one array that is kept.

    Raises:
        Missing: there is no compiler.
    """
    given, made = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    library = _library()

    def call() -> np.ndarray:
        library.copy(made.ctypes.data, given.ctypes.data, size, threads)
        return made

    return call


def multiply_adds(simd: str, operations: float, threads: int) -> Callable[[], float]:
    """A callable that does so many operations of multiply-adds with one set, on all threads together.

    Raises:
        Missing: there is no compiler, or no loop for this set.
    """
    library = _library()
    if not library.peak(simd.encode(), 1, threads):
        raise Missing(f"{SOURCE.name} has no loop for {simd}")
    return lambda: library.peak(simd.encode(), operations, threads)


def peak(simd: str, threads: int, seconds: float) -> float:
    """Operations per second, the best of many short runs: a busy machine leaves some of them alone."""
    run_one = multiply_adds(simd, threads * 1e8, threads)  # a millisecond or two
    stop = time.perf_counter() + seconds
    found = [run_one()]
    while time.perf_counter() < stop:
        found.append(run_one())
    return max(found)


def describe(sets: Sequence[str], steps: Sequence[int], seconds: float) -> str:
    """Measures, and puts it in one line: each set's multiply-adds on each number of threads, and the triad's bytes.

    Raises:
        Missing: there is no compiler.
    """
    parts = []
    for simd in sets:
        flops = " and ".join(f"{peak(simd, threads, seconds) / 1e9:.1f}" for threads in steps)
        parts.append(f"{simd} {flops}")
    threads = steps[-1]
    a, b = np.ones(1 << 24, np.float32), np.ones(1 << 24, np.float32)
    call, took = triad(a, b, 3.0, threads), []
    for _ in range(6):
        start = time.perf_counter()
        call()
        took.append(time.perf_counter() - start)
    bandwidth = 12 * a.size / statistics.median(took[1:]) / 1e9
    count = " and ".join(map(str, steps))
    return f"Multiply-adds in GFLOP/s with {count} threads: {', '.join(parts)}; triad: {bandwidth:.1f} GB/s."
