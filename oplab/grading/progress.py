"""What a learner has reached so far, in ``build/progress.json``. Nothing else depends on this file: it may be deleted."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oplab import files
from oplab.course.language import gettext
from oplab.grading import last
from oplab.grading.results import STATES, Outcome, Results
from oplab.grading.text import MARKS, word

VERSION = 1


@dataclass
class Entry:
    """One exercise.

    Attributes:
        status: its last one, of :data:`oplab.grading.results.STATES`.
        points: its best ones since it was last reset; half of them, rounded up, where ``shown``.
        passed_once: whether it has ever passed.
        hints: how many were shown.
        shown: whether the reference was shown before it has passed.
    """

    status: str = "todo"
    points: int = 0
    passed_once: bool = False
    hints: int = 0
    shown: bool = False

    @property
    def passed(self) -> bool:
        """Whether it has passed since it was last reset; a later failure changes nothing."""
        return self.points > 0

    @property
    def look(self) -> tuple[str, str]:
        """Its sign and its state in words, the same wherever progress is shown."""
        half = gettext(", counts half") if self.shown else ""
        if self.passed and self.status != "passed":
            return MARKS["passed"], gettext("passed earlier, does not pass now") + half
        return MARKS[self.status], f"{word(self.status)}{half}"

    def take(self, outcome: Outcome) -> None:
        """Take over the result of a run."""
        points = (outcome.points + 1) // 2 if self.shown else outcome.points
        self.status, self.points = outcome.status, max(self.points, points)
        self.passed_once = self.passed_once or outcome.passed


@dataclass
class Progress:
    """All exercises that were ever graded, by id, and the stem of the chapter that the learner has chosen to begin with."""

    exercises: dict[str, Entry] = field(default_factory=dict)
    start: str = ""

    def entry(self, id: str) -> Entry:
        """The exercise's entry; one for an exercise that was never graded if there is none."""
        return self.exercises.get(id, Entry())


def load(folder: Path, warn: Callable[[str], None] = lambda _: None) -> Progress:
    """Read the progress.

    Args:
        folder: the course's ``build/``.
        warn: called with a sentence when the file cannot be read. One that is broken or of another version is renamed first.
    """
    path = folder / "progress.json"
    try:
        return _parse(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return Progress()
    except OSError as error:
        warn(f"{path} cannot be read ({error.strerror}): your progress is not shown.")
        return Progress()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        aside = path.with_name(f"progress.broken-{time.strftime('%Y%m%d-%H%M%S')}.json")
        try:
            path.rename(aside)
            warn(
                f"build/progress.json could not be read. It was set aside as build/{aside.name}; your progress starts from zero."
            )
        except OSError:
            warn("build/progress.json could not be read and is ignored.")
        return Progress()


@contextlib.contextmanager
def update(folder: Path, warn: Callable[[str], None] = lambda _: None) -> Iterator[Progress]:
    """Read the progress, have it changed in a ``with`` block, and write it, under a lock: two runs at once lose nothing.

    Args:
        folder: the course's ``build/``.
        warn: called with a sentence when the progress cannot be read or written.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(files.lock(folder / "progress.lock"))
        except OSError as error:
            warn(f"Progress is not saved: {folder} cannot be written ({error.strerror}).")
            yield Progress()
            return
        progress = load(folder, warn)
        yield progress
        entries = {id: vars(entry) for id, entry in sorted(progress.exercises.items())}
        data = {"version": VERSION, "start": progress.start, "exercises": entries}
        try:
            files.write_atomically(folder / "progress.json", json.dumps(data, indent=1) + "\n")
        except OSError as error:
            warn(f"Progress is not saved: {error.strerror}.")


def record(
    folder: Path, results: Results, warn: Callable[[str], None] = lambda _: None, when: float | None = None
) -> None:
    """Write the outcomes of a run to the progress, and what each check said (:mod:`oplab.grading.last`).

    Points are never taken back, and a ``grader_error`` changes no progress.

    Args:
        folder: the course's ``build/``.
        results: the run.
        when: its time in seconds since 1970; now by default.
        warn: called with a sentence when the progress cannot be read or written.
    """
    when = time.time() if when is None else when
    with update(folder, warn) as progress:
        for outcome in results.exercises:
            last.save(folder, outcome, when)
            if outcome.status == "grader_error":
                continue
            progress.exercises.setdefault(outcome.id, Entry()).take(outcome)


def forget(folder: Path, ids: Iterable[str], warn: Callable[[str], None] = lambda _: None) -> None:
    """Note that exercises are stubs again: no points, and nothing that a check has said. The rest is remembered.

    Args:
        folder: the course's ``build/``.
        ids: the exercises.
        warn: called with a sentence when the progress cannot be read or written.
    """
    ids = list(ids)
    with update(folder, warn) as progress:
        for id in ids:
            if id in progress.exercises:
                progress.exercises[id].status, progress.exercises[id].points = "todo", 0
        last.remove(folder, ids)


def _parse(data: Any) -> Progress:
    if data["version"] != VERSION:
        raise ValueError("another version")
    progress = Progress(start=str(data.get("start", "")))
    for id, entry in data["exercises"].items():
        if entry["status"] not in STATES:
            raise ValueError("unknown state")
        progress.exercises[str(id)] = Entry(
            entry["status"],
            int(entry["points"]),
            bool(entry["passed_once"]),
            int(entry["hints"]),
            bool(entry.get("shown")),
        )
    return progress
