"""What this machine can do at most: the bandwidth that a STREAM-like triad reaches, and multiply-adds per second by set."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from oplab.toolchain.compiler import find_compiler, run

from .harness import Missing
from .peers import bench_dir
from .processor import per_cycle

SOURCE = Path(__file__).with_name("limits.cpp")
# Nothing of this processor, and no -ffast-math: GCC 12 would link code that makes the whole process round denormals to zero.
FLAGS = ("-std=c++17", "-O3", "-ffp-contract=fast", "-fPIC", "-shared", "-pthread")
BYTES = {"avx512": 64, "avx2": 32, "neon": 16, "plain": 16}  # of a register
AGREE = 0.2


@dataclass(frozen=True)
class Peak:
    """Multiply-adds of float32 with one set, counted as two operations.

    Attributes:
        flops: operations per second that the loop reached, on all threads together.
        cycles: clock cycles per second, of all threads together.
        starts: vector multiply-adds that a core can start in a cycle.
        known: whether ``starts`` is known for this processor, and not the number that fits best.
    """

    simd: str
    threads: int
    flops: float
    cycles: float
    starts: float
    known: bool

    @property
    def lanes(self) -> int:
        return BYTES[self.simd] // 4

    @property
    def theoretical(self) -> float:
        return self.cycles * self.starts * self.lanes * 2

    @property
    def ratio(self) -> float:
        return self.flops / self.theoretical

    def remark(self) -> str | None:
        """A sentence where the two numbers do not agree."""
        if abs(self.ratio - 1) <= AGREE:
            return None
        what = f"{self.simd}, {self.threads} thread{'s' if self.threads > 1 else ''}: measured is {self.ratio:.2f} of theory"
        if self.ratio > 1:
            return f"{what}: this processor starts more than {self.starts:g} multiply-adds in a cycle."
        if self.threads > 1:
            return (
                f"{what}: the machine is busy, or the processors share a core, or the clock is lower with all at work."
            )
        return f"{what}: the machine is busy, or a core starts fewer than {self.starts:g} multiply-adds in a cycle."


@functools.cache
def _library() -> ctypes.CDLL:
    compiler = find_compiler()
    words = [SOURCE.read_text(), *FLAGS, str(compiler)]
    made = bench_dir() / f"limits-{hashlib.sha256(' '.join(words).encode()).hexdigest()[:12]}.so"
    if not made.exists():
        part = made.with_suffix(f".{os.getpid()}")
        done = run([*compiler.command, *FLAGS, str(SOURCE), "-o", str(part)], timeout=300)
        if done.returncode:
            raise Missing(f"{SOURCE.name} does not compile: {done.log.strip().splitlines()[0]}")
        part.replace(made)
    library = ctypes.CDLL(str(made))
    library.triad.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_float, ctypes.c_int64, ctypes.c_int]
    library.copy.argtypes = [ctypes.c_void_p] * 2 + [ctypes.c_int64, ctypes.c_int]
    for function in (library.peak, library.cycles):
        function.argtypes = [ctypes.c_char_p, ctypes.c_double, ctypes.c_int]
        function.restype = ctypes.c_double
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


def bandwidth(threads: int, numbers: int = 1 << 24, rounds: int = 9) -> float:
    """Bytes per second of the triad on arrays that no cache holds; the median of the rounds."""
    a, b = np.ones(numbers, np.float32), np.ones(numbers, np.float32)
    call = triad(a, b, 3.0, threads)
    call()
    return 12 * numbers / statistics.median(_seconds(call) for _ in range(rounds))


def multiply_adds(simd: str, operations: float, threads: int) -> Callable[[], float]:
    """A callable that does so many operations of multiply-adds with one set, on all threads together.

    Raises:
        Missing: there is no compiler, or no loop for this set.
    """
    library = _library()
    if not library.peak(simd.encode(), 1, threads):
        raise Missing(f"{SOURCE.name} has no loop for {simd}")
    return lambda: library.peak(simd.encode(), operations, threads)


def peak(simd: str, threads: int, seconds: float = 1.0) -> Peak:
    """The best of many short runs, each with the clock measured after it: a busy machine leaves some of them alone."""
    library = _library()
    run_one = multiply_adds(simd, threads * 4e6 * BYTES[simd], threads)  # a millisecond or two
    flops = cycles = 0.0
    stop = time.perf_counter() + seconds
    while not flops or time.perf_counter() < stop:
        flops = max(flops, run_one())
        cycles = max(cycles, library.cycles(simd.encode(), 1e6, threads))
    width = cycles * BYTES[simd] / 4 * 2
    starts = per_cycle(simd)
    fits = min((0.5, 1.0, 1.5, 2.0, 4.0), key=lambda number: abs(flops / width - number))
    return Peak(simd, threads, flops, cycles, starts or fits, starts is not None)


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
