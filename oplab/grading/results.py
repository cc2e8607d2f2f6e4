"""The outcome of grading: one truth from which every report is made."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from oplab.files import write_atomically

VERSION = 1
STATES = ("passed", "failed", "todo", "error", "timeout", "crashed", "build_failed", "grader_error")


@dataclass(frozen=True)
class Check:
    """One named check of an exercise."""

    name: str
    passed: bool
    message: str = ""


@dataclass(frozen=True)
class Graph:
    """A picture of an ONNX model that was graded. ``name`` is the evidence's own, ``svg`` a whole SVG document."""

    name: str
    svg: str


@dataclass(frozen=True)
class Outcome:
    """How one exercise went. ``status`` is one of :data:`STATES`; ``message`` says why, in words for the learner.

    ``graphs`` is filled for reports only, see :mod:`oplab.reports.graphs`.
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

    @property
    def passed(self) -> bool:
        return self.status == "passed"


@dataclass(frozen=True)
class Results:
    """All exercises of one run, in the course's order."""

    exercises: tuple[Outcome, ...]
    seed: int

    @property
    def points(self) -> int:
        return sum(outcome.points for outcome in self.exercises)

    @property
    def max_points(self) -> int:
        return sum(outcome.max_points for outcome in self.exercises)

    @property
    def exit_code(self) -> int:
        """0 all passed, 1 not all, 2 the grader itself failed."""
        if any(outcome.status == "grader_error" for outcome in self.exercises):
            return 2
        return 0 if all(outcome.passed for outcome in self.exercises) else 1

    def as_dict(self) -> dict[str, Any]:
        """As ``results.schema.json`` describes it."""
        exercises = []
        for outcome in self.exercises:
            entry = asdict(outcome)
            entry["seconds"] = round(outcome.seconds, 3)
            del entry["max_rss_kb"], entry["output"]
            entry["checks"] = list(entry["checks"])
            graphs = entry.pop("graphs")
            if graphs:
                entry["graphs"] = list(graphs)
            exercises.append(entry)
        return {
            "version": VERSION,
            "points": self.points,
            "max_points": self.max_points,
            "seed": self.seed,
            "exercises": exercises,
        }

    def write(self, path: Path) -> None:
        write_atomically(path, json.dumps(self.as_dict(), indent=1) + "\n")
