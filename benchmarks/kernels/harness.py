"""Measures callables next to each other: equal results first, then rounds in which all take turns.

How: every contestant gets the same number of threads. Before a measurement all results are compared; an unequal one
raises, and nothing is measured. In each round each contestant has one turn, beginning with another one each time, so that
a busy machine slows all alike. A turn is a rest until the thread pool of the one before has stopped spinning, one call
that is not measured where calls are short, and then as many calls as make a measurable time. A ratio is formed within a
round; the median of the rounds and their quartiles are what is reported. Memory that one side frees stays with the process
(``keep_memory``): otherwise some would pay for fresh pages in each call, and others, who have an arena, would not.
"""

from __future__ import annotations

import ctypes
import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .runners import simd_set

Run = Callable[[], Any]
Make = Callable[[int], Run]
Check = Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], None]

THREADS = 2
FEWEST_ROUNDS, MOST_ROUNDS = 5, 101
SHORT = 0.02  # seconds: calls below get one that is not measured before them
MEASURABLE = 0.002  # seconds that a turn should take at least
IDLE = 0.02  # seconds in which the process must be idle before a turn; Linux may count its time in ticks of 4 ms
LONGEST_REST = 0.5


class Missing(Exception):
    """A peer is not available here. The message is one line that says why, and what to do where something can be done."""


class Unequal(Exception):
    """Two contestants came to different results."""


@dataclass(frozen=True)
class Peer:
    """Somebody else's way to the same result."""

    name: str
    make: (
        Make  # make(threads) -> a callable without arguments; its result: one array or several, of numpy, torch or ORT
    )
    target: float | None = None  # how many times as long as ours it has to take, at least
    check: Check | None = None  # instead of the case's own, for example a limit that computes something else


@dataclass(frozen=True)
class Case:
    """One kernel at one size, beside its peers."""

    kernel: str  # "DeformConv2d"
    size: str  # "1×64×56×56, 64 out, 3×3, mask": the words of the table
    ours: Make
    peers: tuple[Peer, ...] = ()
    check: Check | None = None  # check(ours, theirs) raises AssertionError; close() where nothing is said
    threads: bool = False  # measured and judged with one thread as well
    has_sets: bool = False  # the kernel is compiled for several sets of instructions: it is measured with each
    simd: str = ""  # or the case is about one set alone

    @property
    def name(self) -> str:
        return f"{self.kernel}: {self.size}"


@dataclass
class Result:
    """What a case came to: seconds of each contestant in each round, "ours" among them."""

    case: Case
    threads: int
    seconds: dict[str, list[float]] = field(default_factory=dict)
    simd: str = ""  # the set that "ours" uses; "ours, plain" and its like are the sets in `lesser`
    lesser: tuple[str, ...] = ()

    @property
    def rounds(self) -> int:
        """Rounds that all contestants finished."""
        return min((len(values) for values in self.seconds.values()), default=0)

    def median(self, name: str = "ours") -> float:
        return statistics.median(self.seconds[name][: self.rounds])

    def ratios(self, name: str, to: str = "ours") -> tuple[float, float, float]:
        """First quartile, median and third quartile of (its time / ours), round by round."""
        pairs = zip(self.seconds[name][: self.rounds], self.seconds[to][: self.rounds], strict=True)
        low, middle, high = np.percentile([theirs / own for theirs, own in pairs], [25, 50, 75])
        return float(low), float(middle), float(high)

    def target(self, peer: Peer) -> float | None:
        """What the ratio to this peer must be: nothing where the kernel has faster sets, and the processor has none of them."""
        return None if self.case.has_sets and self.simd == "plain" else peer.target


def close(rtol: float = 1e-5, atol: float = 1e-5) -> Check:
    """A check that shapes are equal and values close, NaN equal to NaN."""

    def check(ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> None:
        assert len(ours) == len(theirs), f"{len(ours)} outputs and {len(theirs)}"
        for mine, other in zip(ours, theirs, strict=True):
            assert mine.shape == other.shape, f"shapes {mine.shape} and {other.shape}"
            wrong = ~np.isclose(mine, other, rtol=rtol, atol=atol, equal_nan=True)
            if wrong.any():
                at = tuple(int(i) for i in np.argwhere(wrong)[0])
                raise AssertionError(
                    f"{wrong.sum()} of {wrong.size} values differ, first at {at}: {mine[at]}, {other[at]}"
                )

    return check


def arrays(result: Any) -> list[np.ndarray]:
    """One result or several, of numpy, torch or ONNX Runtime, as numpy arrays."""
    several = result if isinstance(result, (tuple, list)) else [result]
    return [np.asarray(each.numpy() if hasattr(each, "numpy") else each) for each in several]


def keep_memory() -> None:
    """Tells glibc to keep freed memory instead of giving it back page by page. Nothing where there is no glibc."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    trim_threshold, mmap_max = -1, -4  # malloc.h
    mallopt(mmap_max, 0)
    mallopt(trim_threshold, 2**31 - 1)


def set_threads(threads: int) -> None:
    """For all that take their number of threads from torch: torch itself, torchvision, torch_cluster."""
    import torch

    torch.set_num_threads(threads)


def prepare(
    case: Case, threads: int, say: Callable[[str], None], sets: Sequence[str] = ()
) -> tuple[Result, dict[str, Run]]:
    """Makes all contestants and compares their results.

    Raises:
        Unequal: a peer came to another result, or ours with another set of instructions.
    """
    set_threads(threads)
    simd, *lesser = (case.simd,) if case.simd else sets if case.has_sets and sets else ("",)
    with simd_set(simd):
        result, runs = Result(case, threads, {}, simd, tuple(lesser)), {"ours": case.ours(threads)}
    ours = arrays(runs["ours"]())
    for each in lesser:
        with simd_set(each):
            run = case.ours(threads)
        try:
            (case.check or close())(ours, arrays(run()))
        except AssertionError as difference:
            raise Unequal(f"{case.name}: {simd} and {each} are not equal: {difference}") from None
        runs[f"ours, {each}"] = run
    for peer in case.peers:
        try:
            run = peer.make(threads)
        except Missing as reason:
            say(f"  {peer.name} is not here: {reason}")
            continue
        try:
            (peer.check or case.check or close())(ours, arrays(run()))
        except AssertionError as difference:
            raise Unequal(f"{case.name}: ours and {peer.name} are not equal: {difference}") from None
        runs[peer.name] = run
    return result, runs


def rest() -> None:
    """Returns when no thread of this process computes, or after LONGEST_REST.

    A pool whose work is done spins for milliseconds while it waits for more, and what runs then has a processor less.
    """
    stop = time.perf_counter() + LONGEST_REST
    while time.perf_counter() < stop:
        began = time.process_time()
        time.sleep(IDLE)
        if time.process_time() - began < IDLE / 4:  # a thread that spins adds all of it
            return


def turn(run: Run, calls: int, warm: bool) -> float:
    """Seconds of one call."""
    rest()
    if warm:
        run()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    return (time.perf_counter() - start) / calls


def rounds(result: Result, runs: dict[str, Run], seconds: float, most: int = MOST_ROUNDS) -> None:
    """Measures for about so many seconds and adds to ``result``, which an interruption leaves with what is there."""
    once = {name: min(turn(run, 1, False), turn(run, 1, False)) for name, run in runs.items()}
    calls = {name: max(1, round(MEASURABLE / took)) for name, took in once.items()}
    for name in runs:
        result.seconds[name] = []
    names = list(runs)
    was_on = gc.isenabled()
    gc.disable()
    try:
        stop = time.perf_counter() + seconds
        for number in range(most):
            if number >= FEWEST_ROUNDS and time.perf_counter() > stop:
                break
            for name in names[number % len(names) :] + names[: number % len(names)]:
                result.seconds[name].append(turn(runs[name], calls[name], once[name] < SHORT))
    finally:
        if was_on:
            gc.enable()


def measure(
    cases: Iterable[tuple[Case, int]],
    seconds: float,
    results: list[Result],
    say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
    sets: Sequence[str] = (),
) -> None:
    """Measures (case, threads) one after the other into ``results``, the one that is under way included.

    Kernels that are compiled for several sets are measured with ``sets``, the fastest first.

    Raises:
        Unequal: two contestants came to different results. ``results`` holds the cases before.
        KeyboardInterrupt: ``results`` holds what was measured, without a case that had not FEWEST_ROUNDS.
    """
    todo = list(cases)
    for number, (case, threads) in enumerate(todo, 1):
        say(f"[{number}/{len(todo)}] {case.name}, {threads} thread{'s' if threads > 1 else ''}")
        result, runs = prepare(case, threads, say, sets)
        results.append(result)
        try:
            rounds(result, runs, seconds)
        except KeyboardInterrupt:
            if result.rounds < FEWEST_ROUNDS:
                results.pop()
            raise
        finally:
            del runs
        line = [f"ours {1e3 * result.median():.3g} ms"]
        line += [f"{each} {1e3 * result.median(f'ours, {each}'):.3g} ms" for each in result.lesser]
        line += [
            f"{peer.name} {result.ratios(peer.name)[1]:.2f}×" for peer in case.peers if peer.name in result.seconds
        ]
        say("  " + ", ".join(line) + f" ({result.rounds} rounds)")
