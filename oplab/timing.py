"""Timing for a busy machine: contestants take turns, and ratios are taken round by round."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np

# Begins a line that depends on the processor or its load: nbval leaves it out (notebooks/conftest.py).
CLOCK = "⏱"


def race(
    contestants: Mapping[str, Callable[[], object]],
    rounds: int = 9,
    *,
    warm_up: int = 1,
    clock: Callable[[], float] = time.perf_counter,
    after: Callable[[str, object], None] = lambda name, result: None,
) -> dict[str, np.ndarray]:
    """The seconds of each contestant in each round.

    In a round each of them runs once, and every other round goes through them backwards: what disturbs the machine for longer
    than a run disturbs all of them, and no contestant always runs after the same other one.

    Args:
        contestants: calls without arguments, by name.
        rounds: how often each is measured.
        warm_up: runs before the first round that are not counted.
        clock: what gives the seconds.
        after: called with the name and the result of each run, also of those that warm up, while no clock runs. A result that is
            kept keeps its memory, and the next run has to take fresh memory from the system: copy it.

    Returns:
        float64 arrays [rounds] by name.
    """
    names = list(contestants)
    for name in names:
        for _ in range(warm_up):
            after(name, contestants[name]())
    seconds = {name: np.zeros(rounds) for name in names}
    for turn in range(rounds):
        for name in names if turn % 2 == 0 else reversed(names):
            started = clock()
            result = contestants[name]()
            seconds[name][turn] = clock() - started
            after(name, result)
            del result
    return seconds


def times_as_fast(ours: np.ndarray, theirs: np.ndarray) -> float:
    """How many times as fast as ``theirs`` ``ours`` is: the median of the rounds' ratios, 2.0 for half the seconds."""
    return float(np.median(np.asarray(theirs) / np.asarray(ours)))
