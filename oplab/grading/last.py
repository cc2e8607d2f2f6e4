"""What the last check of each exercise said, in ``build/outcomes/c04.asinh.json``: terminal, notebook and panel show the same.

Nothing else depends on these files: they may be deleted, and a broken one counts as missing.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from oplab.files import write_atomically
from oplab.grading.results import STATES, Check, Graph, Outcome, as_entry

FOLDER = "outcomes"


def save(folder: Path, outcome: Outcome, when: float) -> None:
    """Write an outcome; where that cannot be done, the older one goes, or stays where not even that is possible.

    Args:
        folder: the course's ``build/``.
        outcome: the outcome, with the pictures of its models if it has some.
        when: when it was known, in seconds since 1970.
    """
    path = _path(folder, outcome.id)
    try:
        path.parent.mkdir(exist_ok=True)
        write_atomically(path, json.dumps(entry(outcome, when), indent=1) + "\n", sync=False)
    except OSError:
        remove(folder, [outcome.id])


def entry(outcome: Outcome, when: float) -> dict[str, Any]:
    """What :func:`save` writes."""
    graphs = [{"name": graph.name, "svg": graph.svg} for graph in outcome.graphs]
    return {**as_entry(outcome), "when": when, "answer": outcome.answer, "graphs": graphs}


def load(folder: Path, id: str) -> dict[str, Any] | None:
    """The last outcome of an exercise: its entry in ``results.json``, with ``when``, ``answer`` and ``graphs``; None without one.

    Args:
        folder: the course's ``build/``.
        id: an exercise of the course.
    """
    try:
        data = json.loads(_path(folder, id).read_text(encoding="utf-8"))
        outcome, when = to_outcome(data), data["when"]
        if outcome.id != id or outcome.status not in STATES or type(when) not in (int, float):
            return None
        return entry(outcome, when)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def remove(folder: Path, ids: Iterable[str]) -> None:
    """Forget the last outcomes of these exercises."""
    for id in ids:
        with contextlib.suppress(OSError):
            _path(folder, id).unlink(missing_ok=True)


def _path(folder: Path, id: str) -> Path:
    return folder / FOLDER / f"{id}.json"


def to_outcome(entry: dict[str, Any]) -> Outcome:
    """The outcome in an entry that :func:`load` has found.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is not such an entry.
    """
    return Outcome(
        id=str(entry["id"]),
        chapter=str(entry["chapter"]),
        status=str(entry["status"]),
        points=int(entry["points"]),
        max_points=int(entry["max_points"]),
        seconds=float(entry["seconds"]),
        message=str(entry["message"]),
        checks=tuple(
            Check(str(check["name"]), bool(check["passed"]), str(check["message"])) for check in entry["checks"]
        ),
        graphs=tuple(Graph(str(graph["name"]), str(graph["svg"])) for graph in entry["graphs"]),
        answer=str(entry["answer"]),
    )
