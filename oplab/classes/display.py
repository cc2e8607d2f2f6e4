"""Shows how far a run is: a live display on a terminal, a line from time to time elsewhere."""

from __future__ import annotations

import time
from typing import TextIO

from oplab.classes.runner import Work

_EVERY = 10.0  # seconds between two lines where there is no terminal


class Display:
    """A listener of :func:`oplab.classes.runner.run`, to be used in a ``with`` block; ``out`` is where to show it."""

    def __init__(self, out: TextIO):
        from rich.console import Console
        from rich.live import Live

        self._console = Console(file=out, highlight=False, markup=False, soft_wrap=True)
        self._work: Work | None = None
        self._live = Live(console=self._console, get_renderable=self._lines, refresh_per_second=2, transient=True)
        self._said = 0.0
        self._first: tuple[int, float] | None = None  # how many had ended when the first end was seen, and when
        self._told_to_stop = False

    def __enter__(self) -> Display:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __call__(self, work: Work) -> None:
        """Note a step of the run."""
        if self._work is None:
            self._work = work
            graded = f"{work.reused} were graded before, " if work.reused else ""
            self._console.print(
                f"{len(work.learners)} learners, {sum(map(len, work.submissions.values()))} submissions. Of the different answers "
                f"{graded}{work.settled} need no run, and {len(work.tasks)} are graded now."
            )
            return
        if work.stopping and not self._told_to_stop:
            self._told_to_stop = True
            self._console.print(
                "Ctrl-C: finishing the running answers. Press it again to stop at once; graded answers are kept."
            )
        now, finished = time.monotonic(), work.done + len(work.unfinished)
        if finished and self._first is None:
            self._first = finished, now
        if not self._console.is_terminal and (finished == len(work.tasks) or now - self._said > _EVERY):
            self._said = now
            self._console.print(self._line(work))

    def _line(self, work: Work) -> str:
        finished = work.done + len(work.unfinished)
        line = f"{finished} of {len(work.tasks)} answers"
        # Before the first end, the engine has started: that takes as long as many answers.
        before, since = self._first or (finished, 0.0)
        if left := finished > before and len(work.tasks) - finished:
            line += f" · about {_duration(left * (time.monotonic() - since) / (finished - before))} left"
        return line

    def _lines(self) -> str:
        """What a terminal shows now."""
        work = self._work
        if work is None:
            return "reading the submissions …"
        lines = [self._line(work)]
        if work.engine is not None and (running := work.engine.running()):
            lines.append("now: " + ", ".join(f"{id} {seconds:.0f} s" for id, seconds in running.items()))
        return "\n".join(lines)


def _duration(seconds: float) -> str:
    """``40 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
