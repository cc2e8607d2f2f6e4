"""Outcomes as text for terminals and notebooks: plain lines, and the same lines wrapped and coloured."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from oplab.course.language import gettext, told
from oplab.grading.results import Outcome, Results

if TYPE_CHECKING:
    from rich.text import Text

    from oplab.course.manifest import Exercise

MARKS = {
    "passed": "✓",
    "failed": "✗",
    "todo": "○",
    "error": "!",
    "timeout": "⧖",
    "crashed": "☠",
    "build_failed": "⚒",
    "grader_error": "?",
}
_COLOURS = {"passed": "bold green", "todo": "dim", "grader_error": "bold yellow"}
FAULT = "This is a fault of the grader, not yours; it costs no points. Please report it."
# Something is not installed, or the processor lacks it: not a fault, and nothing to report.
_MISSING = re.compile(r"^Run `make |, so this exercise cannot be graded here", re.MULTILINE)
_QUOTED = re.compile(
    r"^\s*(?:\d+)? \| "
)  # a source line, or the caret under it: wrapped, the caret would point elsewhere
_MIN_WIDTH = 40


class Line(NamedTuple):
    """One line about an outcome.

    Attributes:
        kind: ``head``, ``wrong`` (a failed check), ``right``, ``message``, ``quoted`` (a source line, or the caret under it) or ``note``.
        text: the line, with its indent.
        strong: how many of its first characters are the check's mark and name; 0 in other lines.
        indent: how many blanks its kind begins with here: a message of a check is indented further than one of the outcome.
    """

    kind: str
    text: str
    strong: int = 0
    indent: int = 0


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


def word(status: str) -> str:
    """A state in words: ``to do`` or ``build failed``."""
    return gettext("to do" if status == "todo" else status.replace("_", " "))


def failures(checks: Sequence[tuple[str, str]]) -> list[Failure]:
    """Failed checks, those with the same message as one.

    A message often begins with the name of its check, or with that of the check's case (``half`` of ``half: runs``); that is left out
    here, so that it is neither read twice nor hides that two messages are the same.

    Args:
        checks: (name, message) of each failed check.
    """
    found: dict[str, Failure] = {}
    for name, message in checks:
        short = message.removeprefix(f"{name}: ").removeprefix(f"{name.split(': ')[0]}: ")
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
    for _, repeated in failed:
        if repeated and message.startswith(repeated):
            return message[len(repeated) :].strip()
    return message


def outcome_lines(outcome: Outcome, *, details: bool = True) -> list[str]:
    """One line for the exercise, then what is wrong with it: the first failed check comes first.

    No timings: the text is the same in each run.

    Args:
        outcome: what to describe.
        details: list the checks.
    """
    return [line.text for line in lines(outcome, details=details)]


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
    for kind, line, strong, _ in lines(outcome, details=details):
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
    return gettext(
        "{points} of {most} points, {passed} of {count} exercises passed",
        points=results.points,
        most=results.max_points,
        passed=passed,
        count=len(results.exercises),
    )


def lines(outcome: Outcome, *, details: bool = True, notes: Sequence[str] = ()) -> Iterator[Line]:
    """What :func:`outcome_lines`, a terminal and :mod:`oplab.grading.card` show.

    Args:
        outcome: what to describe.
        details: list the checks.
        notes: sentences that are added at the end.
    """
    score = gettext("{points} points", points=f"{outcome.points}/{outcome.max_points}")
    yield Line("head", f"{MARKS[outcome.status]} {outcome.id}  {word(outcome.status)}  {score}")
    message = outcome.message
    if details:
        failed = [(check.name, check.message) for check in outcome.checks if not check.passed]
        passed = [check.name for check in outcome.checks if check.passed]
        message = rest_of_message(message, failed)
        for failure in failures(failed):
            name = f"    ✗ {failure.name}"
            own = told(failure.message, "causes")
            first, *more = [*([own] if own else []), *failure.message.splitlines()] or [""]
            yield Line("wrong", _printable(f"{name}: {first}" if first else name), len(name), 4)
            yield from (_told(line, 6) for line in more)
            if failure.same:
                yield Line("wrong", "      " + gettext("The same: {checks}.", checks=", ".join(failure.same)), 0, 6)
        if failed and len(passed) > 3:
            yield Line("right", "    ✓ " + gettext("{count} other checks pass", count=len(passed)), 0, 4)
        else:
            yield from (Line("right", f"    ✓ {name}", 0, 4) for name in passed)
    if own := told(message, "causes"):
        yield _told(own, 4)
    yield from (_told(line, 4) for line in message.splitlines())
    if outcome.status == "grader_error":
        yield _told(gettext("It costs no points.") if _MISSING.search(outcome.message) else gettext(FAULT), 4)
    yield from (Line("note", f"    {_printable(note)}", 0, 4) for note in notes)


def next_note(exercise: Exercise, line: int | None = None) -> str:
    """The sentence that offers an exercise.

    Args:
        exercise: the next one.
        line: where it is written in its file, if that is known.
    """
    place = f"exercises/{exercise.file}" + (gettext(", line {line}", line=line) if line else "")
    if exercise.minutes == 1:
        return gettext("Next: {id} in {place}, about 1 minute.", id=exercise.id, place=place)
    return gettext(
        "Next: {id} in {place}, about {minutes} minutes.", id=exercise.id, place=place, minutes=exercise.minutes
    )


def _told(line: str, indent: int) -> Line:
    return Line("quoted" if _QUOTED.match(line) else "message", _printable(f"{' ' * indent}{line}"), 0, indent)


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
