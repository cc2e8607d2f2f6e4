"""The results of one run: the only source of every report."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from oplab.files import write_atomically

VERSION = 1
STATES = ("passed", "failed", "todo", "error", "timeout", "crashed", "build_failed", "grader_error")
UNREADABLE = "the check cannot read this result"  # in the message about evidence of a type that a judge does not expect


@dataclass(frozen=True)
class Check:
    """One named check of an exercise.

    Attributes:
        name: what it checks, in words for the learner.
        passed: whether it passed.
        message: why not, in words for the learner.
    """

    name: str
    passed: bool
    message: str = ""


@dataclass(frozen=True)
class Graph:
    """A picture of an ONNX model that was graded.

    Attributes:
        name: the name that the check recorded the model under.
        svg: a whole SVG document.
    """

    name: str
    svg: str


@dataclass(frozen=True)
class Outcome:
    """How grading one exercise ended.

    Attributes:
        id: the exercise.
        chapter: the stem of its chapter.
        status: one of :data:`STATES`.
        points: the points that it got.
        max_points: the points that it is worth.
        seconds: wall time of grading it.
        message: why, in words for the learner.
        checks: its named checks, if it came that far.
        output: the end of what it printed.
        max_rss_kb: peak resident memory of its worker in KiB.
        graphs: for reports only, see :mod:`oplab.reports.graphs`.
        answer: a digest of the learner's text that was graded, see :func:`oplab.course.answers.digests`; "" if there was none.
    """

    id: str
    chapter: str
    status: str
    points: int
    max_points: int
    seconds: float
    message: str = ""
    checks: tuple[Check, ...] = ()
    output: str = field(default="", repr=False)
    max_rss_kb: int = field(default=0, repr=False)
    graphs: tuple[Graph, ...] = field(default=(), repr=False)
    answer: str = field(default="", repr=False)

    @property
    def passed(self) -> bool:
        """Whether every check passed; the points may still be part of all."""
        return self.status == "passed"


@dataclass(frozen=True)
class Results:
    """All exercises of one run, in the order of the course.

    Attributes:
        exercises: an outcome for each.
        seed: what the inputs were made from.
    """

    exercises: tuple[Outcome, ...]
    seed: int

    @property
    def points(self) -> int:
        """The points of all exercises."""
        return sum(outcome.points for outcome in self.exercises)

    @property
    def max_points(self) -> int:
        """The points that all exercises are worth."""
        return sum(outcome.max_points for outcome in self.exercises)

    @property
    def exit_code(self) -> int:
        """0 all passed, 1 not all, 2 the grader itself failed."""
        if any(outcome.status == "grader_error" for outcome in self.exercises):
            return 2
        return 0 if all(outcome.passed for outcome in self.exercises) else 1

    def as_dict(self) -> dict[str, Any]:
        """The content of ``results.json``, as ``results.schema.json`` describes it."""
        return {
            "version": VERSION,
            "points": self.points,
            "max_points": self.max_points,
            "seed": self.seed,
            "exercises": [as_entry(outcome) for outcome in self.exercises],
        }

    def write(self, path: Path) -> None:
        """Write ``results.json`` to ``path``, whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        write_atomically(path, json.dumps(self.as_dict(), indent=1) + "\n")


def as_entry(outcome: Outcome) -> dict[str, Any]:
    """The outcome's entry in ``results.json``."""
    entry = asdict(outcome)
    entry["seconds"] = round(outcome.seconds, 3)
    del entry["max_rss_kb"], entry["output"], entry["answer"]
    entry["checks"] = list(entry["checks"])
    graphs = entry.pop("graphs")
    if graphs:
        entry["graphs"] = list(graphs)
    return entry
