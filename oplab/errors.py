"""The one kind of error that is shown to a user as a sentence instead of a traceback."""

from __future__ import annotations


class OplabError(Exception):
    """Something the user did, or something the machine lacks.

    Args:
        message: one sentence that names what is wrong.
        fix: one sentence, or one command, that fixes it; may be empty.
    """

    def __init__(self, message: str, fix: str = ""):
        super().__init__(message if not fix else f"{message}\n{fix}")
        self.message = message
        self.fix = fix

    def _render_traceback_(self) -> list[str]:  # IPython calls this instead of printing its own traceback
        return [str(self)]


def first_line(error: BaseException) -> str:
    """The first line of an exception's message that is not empty, without its full stop, at most 300 characters; else the type's name."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0].rstrip(".")[:300] if lines else type(error).__name__


def clean(text: str) -> str:
    """The text with a replacement character for each lone surrogate: JSON can hold one, and UTF-8 cannot."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
