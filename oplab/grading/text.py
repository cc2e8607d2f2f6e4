"""Outcomes as plain lines, for terminals and notebooks."""

from __future__ import annotations

from oplab.grading.results import Outcome, Results

MARKS = {
    "passed": "✓",
    "failed": "✗",
    "todo": "·",
    "error": "!",
    "timeout": "⧖",
    "crashed": "☠",
    "build_failed": "⚒",
    "grader_error": "?",
}


def outcome_lines(outcome: Outcome, *, details: bool = True) -> list[str]:
    """One line for the exercise, then what is wrong with it. No timings: the text is the same in each run."""
    status = outcome.status.replace("_", " ")
    lines = [f"{MARKS[outcome.status]} {outcome.id}  {status}  {outcome.points}/{outcome.max_points} points"]
    if details and outcome.checks:
        for check in outcome.checks:
            lines.append(
                f"    {'✓' if check.passed else '✗'} {check.name}" + (f": {check.message}" if check.message else "")
            )
    told = any(check.message and outcome.message.startswith(check.message) for check in outcome.checks)
    if outcome.message and not (details and told):
        lines.extend(f"    {line}" for line in outcome.message.splitlines())
    if outcome.status == "grader_error":
        lines.append("    This is a fault of the grader, not yours; it costs no points. Please report it.")
    return lines


def summary(results: Results) -> str:
    passed = sum(outcome.passed for outcome in results.exercises)
    return f"{results.points} of {results.max_points} points, {passed} of {len(results.exercises)} exercises passed"
