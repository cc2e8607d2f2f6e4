"""Outcomes as text for terminals and notebooks: plain lines, and the same lines wrapped and coloured."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from oplab.grading.results import Outcome, Results

if TYPE_CHECKING:
    from rich.text import Text

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
_COLOURS = {"passed": "bold green", "todo": "dim", "grader_error": "bold yellow"}
_FAULT = "This is a fault of the grader, not yours; it costs no points. Please report it."
_REMEDY = re.compile(r"^Run `make ", re.MULTILINE)  # something is not installed: not a fault, and nothing to report
_QUOTED = re.compile(
    r"^\s*(?:\d+)? \| "
)  # a source line, or the caret under it: wrapped, the caret would point elsewhere
_MIN_WIDTH = 40


@dataclass
class Failure:
    """A failed check.

    Attributes:
        name: the check's name.
        message: why it failed.
        same: the names of later checks that failed with the same message.
    """

    name: str
    message: str
    same: list[str] = field(default_factory=list)


def failures(checks: Sequence[tuple[str, str]]) -> list[Failure]:
    """Failed checks, those with the same message as one.

    A message often begins with the name of its check; that is left out here, so that it is neither read twice nor hides that
    two messages are the same.

    Args:
        checks: (name, message) of each failed check.
    """
    found: dict[str, Failure] = {}
    for name, message in checks:
        short = message.removeprefix(f"{name}: ")
        if short and short in found:
            found[short].same.append(name)
        else:
            found[short or name] = Failure(name, short)
    return list(found.values())


def rest_of_message(message: str, failed: Sequence[tuple[str, str]]) -> str:
    """What follows in a message after the failed check that it repeats: a note of the grader, or all of it.

    Args:
        message: the outcome's.
        failed: (name, message) of each failed check.
    """
    for _, told in failed:
        if told and message.startswith(told):
            return message[len(told) :].strip()
    return message


def outcome_lines(outcome: Outcome, *, details: bool = True) -> list[str]:
    """One line for the exercise, then what is wrong with it: the first failed check comes first.

    No timings: the text is the same in each run.

    Args:
        outcome: what to describe.
        details: list the checks.
    """
    return [line for _, line, _ in _lines(outcome, details)]


def outcome_text(outcome: Outcome, width: int, *, details: bool = True) -> Text:
    """The lines of :func:`outcome_lines` for a terminal, coloured; long ones are wrapped and indented.

    Args:
        outcome: what to describe.
        width: of the terminal, in characters.
        details: list the checks.
    """
    from rich.text import Text

    colour = _COLOURS.get(outcome.status, "bold red")
    body = Text()
    for kind, line, strong in _lines(outcome, details):
        for number, part in enumerate(_wrapped(line, max(_MIN_WIDTH, width))):
            body.append("\n" if body.plain else "")
            start = len(body.plain)
            body.append(part, style="dim" if kind == "right" else "")
            if kind == "head":
                body.stylize(colour, start)
            elif number == 0 and strong:
                body.stylize("bold red", start, start + min(strong, len(part)))
            elif kind == "quoted" and part.strip(" |\t") == "^":
                body.stylize("bold red", start)
    return body


def summary(results: Results) -> str:
    """One line: points and passed exercises of the run."""
    passed = sum(outcome.passed for outcome in results.exercises)
    return f"{results.points} of {results.max_points} points, {passed} of {len(results.exercises)} exercises passed"


def _lines(outcome: Outcome, details: bool) -> Iterator[tuple[str, str, int]]:
    """(kind, line, how many of its first characters are the check's name); a kind is head, wrong, right, message or quoted."""
    status = outcome.status.replace("_", " ")
    yield "head", f"{MARKS[outcome.status]} {outcome.id}  {status}  {outcome.points}/{outcome.max_points} points", 0
    message = outcome.message
    if details:
        failed = [(check.name, check.message) for check in outcome.checks if not check.passed]
        passed = [check.name for check in outcome.checks if check.passed]
        message = rest_of_message(message, failed)
        for failure in failures(failed):
            name = f"    ✗ {failure.name}"
            first, *more = failure.message.splitlines() or [""]
            yield "wrong", _printable(f"{name}: {first}" if first else name), len(name)
            yield from (
                ("quoted" if _QUOTED.match(line) else "message", _printable(f"      {line}"), 0) for line in more
            )
            if failure.same:
                yield "wrong", f"      The same: {', '.join(failure.same)}.", 0
        if failed and len(passed) > 3:
            yield "right", f"    ✓ {len(passed)} other checks pass", 0
        else:
            yield from (("right", f"    ✓ {name}", 0) for name in passed)
    for line in message.splitlines():
        yield "quoted" if _QUOTED.match(line) else "message", _printable(f"    {line}"), 0
    if outcome.status == "grader_error":
        whose = "It costs no points." if _REMEDY.search(outcome.message) else _FAULT
        yield "message", f"    {whose}", 0


def _printable(line: str) -> str:
    """Without control characters: a message can quote what a learner's code wrote, and a terminal would obey it."""
    return "".join(c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in line)


def _wrapped(line: str, width: int) -> list[str]:
    if len(line) <= width or _QUOTED.match(line):
        return [line]
    indent = len(line) - len(line.lstrip())
    # Under the text of a check, not under its mark.
    hang = indent + (2 if line[indent : indent + 2] in ("✗ ", "✓ ") else 0)
    return textwrap.wrap(line, width, subsequent_indent=" " * hang, break_long_words=False, break_on_hyphens=False) or [
        line
    ]
