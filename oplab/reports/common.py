"""What several reports have in common: texts about the same results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from oplab.grading.text import Failure, failures, rest_of_message

Entry = Mapping[str, Any]


def chapters(results: Mapping[str, Any]) -> Iterator[tuple[str, list[Entry]]]:
    """Chapter stem and its exercises, in the order of the results."""
    groups: dict[str, list[Entry]] = {}
    for entry in results["exercises"]:
        groups.setdefault(entry["chapter"], []).append(entry)
    yield from groups.items()


def title(stem: str, titles: Mapping[str, str]) -> str:
    """``04 ATen symbolic functions``; without a title ``04 aten symbolic``."""
    return f"{stem[:2]} {titles.get(stem) or stem[3:].replace('_', ' ')}"


def points(entries: list[Entry]) -> tuple[int, int]:
    """The points of these exercises, and the points that they are worth."""
    return sum(entry["points"] for entry in entries), sum(entry["max_points"] for entry in entries)


def summary(results: Mapping[str, Any]) -> str:
    """One line: points and passed exercises of the run."""
    passed = sum(entry["status"] == "passed" for entry in results["exercises"])
    return f"{results['points']} of {results['max_points']} points, {passed} of {len(results['exercises'])} exercises passed"


def open_points(results: Mapping[str, Any]) -> str:
    """A sentence about exercises that the grader could not grade, whose points are still open; or an empty string."""
    broken = [entry["id"] for entry in results["exercises"] if entry["status"] == "grader_error"]
    if not broken:
        return ""
    return f"The grader itself failed on {', '.join(broken)}. That is not the learner's fault: grade again before you count."


def failed(entry: Entry) -> list[Failure]:
    """The failed checks in order; those with the same message are one."""
    return failures(_failed(entry))


def passed(entry: Entry) -> list[str]:
    """The names of the checks that passed."""
    return [check["name"] for check in entry["checks"] if check["passed"]]


def own_message(entry: Entry) -> str:
    """What follows in the exercise's message after its failed check, see :func:`oplab.grading.text.rest_of_message`."""
    return rest_of_message(entry["message"], _failed(entry))


def plain(entry: Entry) -> str:
    """Failed checks, message and passed checks of one exercise as lines of text."""
    lines = []
    for failure in failed(entry):
        lines.append(f"✗ {failure.name}" + (f": {failure.message}" if failure.message else ""))
        if failure.same:
            lines.append(f"  The same: {', '.join(failure.same)}.")
    lines += own_message(entry).splitlines()
    lines += [f"✓ {name}" for name in passed(entry)]
    return "\n".join(lines)


def _failed(entry: Entry) -> list[tuple[str, str]]:
    return [(check["name"], check["message"]) for check in entry["checks"] if not check["passed"]]
