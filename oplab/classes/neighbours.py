"""Tasks that run at the same time on one machine: which of them may have spoiled another's result.

It is the rule of :mod:`oplab.grading.grader` for the exercises of one run, for runs that know nothing of each other.
"""

from __future__ import annotations

import re
import threading

from oplab.classes.engines import Plain
from oplab.classes.records import Verdict

# How an outcome begins that took the machine from others, and what is in one during which the grader's files changed.
_GREEDY = re.compile(r"It (?:started more than|and the processes that it started used|wrote more than)")
_CHANGED = "While it ran, "


class Neighbours:
    """Holds results back that a task at the same time may have spoiled. Methods may be called from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, set[str]] = {}  # key -> those that ran at the same time
        self._greedy: set[str] = set()
        self._waiting: list[tuple[Plain, Verdict, set[str]]] = []
        self._again: list[Plain] = []

    def begin(self, task: Plain) -> None:
        """A task begins to run."""
        with self._lock:
            for others in self._running.values():
                others.add(task["key"])
            self._running[task["key"]] = set(self._running)

    def end(self, task: Plain, verdict: Verdict) -> list[Verdict]:
        """The verdicts that count now: this one, unless its neighbours may have spoiled it, and earlier ones that were held back."""
        message, status = verdict.outcome.message, verdict.outcome.status
        found = []
        with self._lock:
            others = self._running.pop(task["key"])
            if _GREEDY.match(message):
                self._greedy.add(task["key"])
            if others and _CHANGED in message:
                self._again.append(task)
            elif others and status in ("timeout", "crashed", "grader_error"):
                self._waiting.append((task, verdict, others))
            else:
                found.append(verdict)
            held, self._waiting = self._waiting, []
            for entry in held:
                one, before, others = entry
                if others & self._greedy:
                    self._again.append(one)
                elif others.isdisjoint(self._running):
                    found.append(before)
                else:
                    self._waiting.append(entry)
        return found

    def suspected(self) -> list[Plain]:
        """The tasks that have to run again, alone."""
        with self._lock:
            found, self._again = self._again, []
        return found
