"""What several reports say about the same results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Entry = Mapping[str, Any]

WORDS = {
    "passed": "passed",
    "failed": "failed",
    "todo": "not written yet",
    "error": "error",
    "timeout": "time limit",
    "crashed": "crashed",
    "build_failed": "does not compile",
    "grader_error": "fault of the grader",
}


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
    """Points reached and points there are."""
    return sum(entry["points"] for entry in entries), sum(entry["max_points"] for entry in entries)


def summary(results: Mapping[str, Any]) -> str:
    passed = sum(entry["status"] == "passed" for entry in results["exercises"])
    return f"{results['points']} of {results['max_points']} points, {passed} of {len(results['exercises'])} exercises passed"


def open_points(results: Mapping[str, Any]) -> str:
    """A sentence about exercises that the grader could not grade, or an empty string: those points are not lost but open."""
    broken = [entry["id"] for entry in results["exercises"] if entry["status"] == "grader_error"]
    if not broken:
        return ""
    return f"The grader itself failed on {', '.join(broken)}. That is not the learner's fault: grade again before you count."


def first_failures_first(entry: Entry) -> list[Entry]:
    """The named checks: what failed, in order, then what passed."""
    return sorted(entry["checks"], key=lambda check: check["passed"])


def told_by_checks(entry: Entry) -> bool:
    """Whether the exercise's message is already that of one of its checks."""
    return any(check["message"] and entry["message"] == check["message"] for check in entry["checks"])


def plain(entry: Entry) -> str:
    """Message and checks of one exercise as lines of text."""
    lines = [] if told_by_checks(entry) or not entry["message"] else entry["message"].splitlines()
    for check in first_failures_first(entry):
        mark = "✓" if check["passed"] else "✗"
        lines.append(f"{mark} {check['name']}" + (f": {check['message']}" if check["message"] else ""))
    return "\n".join(lines)
