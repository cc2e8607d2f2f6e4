"""Exceptions that a check raises or records, and what a learner reads of them: the message, shortened, and the line of the file."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from oplab.course.stubs import Todo
from oplab.errors import without_advice
from oplab.parity.arrays import WrongAnswer


class LearnerError(WrongAnswer):
    """The learner's code raised an exception; the message has its file and line."""


@dataclass(frozen=True)
class RecordedError:
    """An exception that :meth:`oplab.checks.evidence.Collect.attempt` wrote down.

    Attributes:
        type: the name of its class.
        message: ``Type: message``, from :func:`first_line`.
        where: ``file.py, line 12`` in the learner's file; empty for an exception that did not pass through it.
    """

    type: str
    message: str
    where: str

    @property
    def place(self) -> str:
        """``where`` in brackets after a space, or an empty string: for the end of a sentence."""
        return f" ({self.where})" if self.where else ""


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, then the one that it was raised from or that was being handled, and so on."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def innermost(error: BaseException) -> BaseException:
    """The reason that an exporter has wrapped in its own exceptions: the last of those that were raised ``from`` another."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def learner_line(error: BaseException, file: Path) -> str:
    """``file.py, line 12`` of the deepest frame in the learner's file, or an empty string."""
    for entry in chain(error):
        if isinstance(entry, SyntaxError) and entry.filename and Path(entry.filename) == file:
            return f"{file.name}, line {entry.lineno}"
        lines = [frame.lineno for frame in traceback.extract_tb(entry.__traceback__) if Path(frame.filename) == file]
        if lines:
            return f"{file.name}, line {lines[-1]}"
    return ""


def find_todo(error: BaseException) -> Todo | None:
    """The stub's own exception, also when an exporter has wrapped it in its own."""
    return next((entry for entry in chain(error) if isinstance(entry, Todo)), None)


def shortened(text: str, limit: int = 400) -> str:
    """The first paragraph of a message :func:`~oplab.errors.without_advice` on one line, and at most ``limit`` characters of it."""
    text = " ".join(without_advice(text).split("\n\n")[0].split())
    return text if len(text) <= limit else text[:limit] + " …"


def first_line(error: BaseException, limit: int = 400) -> str:
    """``Type: message``, :func:`shortened`."""
    text = shortened(str(error), limit)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
