"""What a right kernel's speed is worth: it is timed alternately with a baseline, and the share of the points grows with the ratio.

Only the share: whether an answer passes is decided by what it computes. See ``docs/grader.md``. What is measured is processor time, of
all threads together: a busy machine takes the processor away, and that costs no points.
"""

from __future__ import annotations

import math
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from oplab.checks.evidence import Collect
from oplab.checks.judge import Judge
from oplab.timing import race, times_as_fast

SLOW = 2.0  # seconds of one run: far below every baseline, and more rounds would only reach the limit of processor time
FLOOR, PARALLEL = 0.4, 0.2  # of the points: for being right at all, and for pieces that threads can share

Feeds = Mapping[str, np.ndarray]
Run = Callable[[Feeds], Any]


@dataclass(frozen=True)
class Scale:
    """What a ratio to the baseline is worth.

    Attributes:
        baseline: what the answer is compared with, for messages.
        nothing: the ratio (2.0 is twice as fast as the baseline) up to which speed adds nothing.
        all: the ratio from which on it adds everything.
        steps: (ratio, step) from slow to fast: below the ratio, that step of the lesson is probably missing.
    """

    baseline: str
    nothing: float
    all: float
    steps: Sequence[tuple[float, str]]

    def worth(self, ratio: float) -> float:
        """From 0 to 1, even steps for even factors."""
        if not ratio > self.nothing:
            return 0.0
        return min(1.0, math.log(ratio / self.nothing) / math.log(self.all / self.nothing))

    def missing(self, ratio: float) -> str:
        """The step of the lesson that is probably missing at this ratio."""
        return next(step for bound, step in [*self.steps, (math.inf, self.steps[-1][1])] if ratio < bound)


def processor_time() -> float:
    """Seconds that all threads of this process have used, those that ended among them.

    Not ``time.process_time``: under a limit of processor time, as workers have, Linux moves that clock in steps of milliseconds.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(
    c: Collect, ours: Run, baseline: Run, feeds: Sequence[Feeds], title: str = "timed", *, slow: float = SLOW
) -> None:
    """Let the two take turns, each round with other inputs; the seconds and what ``ours`` returned become evidence.

    Args:
        ours, baseline: called with one round's inputs.
        feeds: one entry for each round, after one that warms up.
        slow: if ``ours`` takes as many seconds in the first round, this round is the only one.
    """
    given: list[list[np.ndarray]] = []
    turns = {name: iter(feeds) for name in ("ours", "baseline")}

    def keep(name: str, result: Any) -> None:
        if name == "ours":
            given.append([np.array(entry) for entry in result])

    contestants = {"ours": lambda: ours(next(turns["ours"])), "baseline": lambda: baseline(next(turns["baseline"]))}

    def rounds() -> dict[str, np.ndarray]:
        first = race(contestants, 1, clock=processor_time, after=keep)
        if first["ours"][0] >= slow:
            return first
        more = race(contestants, len(feeds) - 2, warm_up=0, clock=processor_time, after=keep)
        return {name: np.concatenate([first[name], more[name]]) for name in first}

    seconds = c.attempt(title, rounds)
    if seconds is None:
        return
    for name, values in seconds.items():
        c.value(f"{title}, seconds of {name}", values)
    for number, result in enumerate(given):
        c.value(f"{title}, round {number}", result)


def timed(v: Judge, feeds: Sequence[Feeds], title: str = "timed") -> Sequence[Feeds]:
    """Those of the inputs that :func:`measure` used: all of them, or two if the learner's kernel is slow."""
    return feeds[: max(2, v.array(f"{title}, seconds of ours").size + 1)]


def ratio(v: Judge, title: str = "timed") -> float:
    """How many times as fast as the baseline the learner's kernel was; 0 where that could not be measured."""
    ours, theirs = (v.array(f"{title}, seconds of {name}") for name in ("ours", "baseline"))
    measured = ours.shape == theirs.shape and ours.size and (ours > 0).all() and (theirs > 0).all()
    return times_as_fast(ours, theirs) if measured else 0.0


def award(v: Judge, scale: Scale, found: float, pieces: int) -> None:
    """Award the share of the points that a ratio and a number of pieces are worth; for an answer whose checks have passed.

    Args:
        found: the ratio, from :func:`ratio`.
        pieces: how many the kernel hands to ParallelFor for a large input; 0 where it does not call it.
    """
    fast = scale.worth(found)
    part = FLOOR + (1 - FLOOR - PARALLEL) * fast + PARALLEL * (pieces > 1)
    words = [f"The result is right, at {found:.2g} times the speed of {scale.baseline} on one thread."]
    if fast < 1:
        words.append(f"All points for speed begin at {scale.all:g}. Probably missing: {scale.missing(found)}.")
    if pieces <= 1:
        words.append(
            "Missing: the step 'parallel'. A large input is one piece here; hand ParallelFor several, so that threads can share them."
        )
    v.award(min(part, 1.0), " ".join(words))
