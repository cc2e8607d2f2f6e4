"""Failures that a lesson shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile

from oplab.lessons.lines import wrapped

# A label and what it is, with a number in it and no bracket, which may be closed on another line.
_NUMBERS = re.compile(r"\s*\w+: ?[^()\[\]]*\d[^()\[\]]*")
_MOST = 4  # lines below


@contextmanager
def raises(kind: type[BaseException] | tuple[type[BaseException], ...], words: str = "") -> Iterator[None]:
    """Show a failure that a lesson is about, and make sure that it happens.

    Prints the exception's type and the line of its message that contains ``words``. If that line ends without a full stop, the lines
    right below it that give numbers, such as ``index: 1 Got: 3 Expected: 1``, are printed as well.

    Args:
        kind: the expected type or types.
        words: part of the expected message.

    Raises:
        AssertionError: nothing was raised, or another type, or a message without ``words``.
    """
    names = " or ".join(entry.__name__ for entry in (kind if isinstance(kind, tuple) else (kind,)))
    try:
        yield
    except kind as error:
        text = str(error)
        if words not in text:
            raise AssertionError(
                f"{type(error).__name__} was raised, but {words!r} is not in its message: {text}"
            ) from error
        lines = text.splitlines()
        at = next((number for number, line in enumerate(lines) if words in line and line.strip()), len(lines))
        line = "".join(lines[at : at + 1]).strip()
        below = [] if line.endswith(".") else lines[at + 1 : at + 1 + _MOST]
        if len(line) > 240:
            start = max(0, line.find(words) - 80)
            line = ("… " if start else "") + line[start : start + 220] + " …"
        print(wrapped(f"{type(error).__name__}: {line}", later="    "))
        for fact in takewhile(_NUMBERS.fullmatch, below):
            print(wrapped(fact.strip(), "    "))
    except Exception as error:
        raise AssertionError(f"{names} was expected, but {type(error).__name__} was raised: {error}") from error
    else:
        raise AssertionError(f"{names} was expected; nothing was raised.")
