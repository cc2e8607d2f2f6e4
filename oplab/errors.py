"""Errors that are shown to a user as a sentence instead of a traceback."""

from __future__ import annotations

import re

# Colours, the lines of a box, and sentences that send the reader to PyTorch's developers: none of them says what is wrong.
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_BOX = re.compile(r"[\u2500-\u259f]+")
_ADVICE = re.compile(
    r"submit a (?:PR|pull request)|request support|bug report|\breport (?:it|this|a bug)\b|pytorch/pytorch/issues"
    r"|\b(?:open|file|create)\b[^.]*\bissue\b|full stack trace|^next steps:$",
    re.IGNORECASE,
)
_SUMMARY = "## Exception summary"  # what torch.onnx's dynamo path puts between its advice and the cause
_CLASS = re.compile(r"<class '(?:\w+\.)*(\w+)'>: ")


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


class WrongAnswer(AssertionError):
    """An answer is not right. The message is written for the learner."""


def without_advice(text: str) -> str:
    """A library's message without colours, boxes and advice to write to its developers; the paragraphs and what went wrong stay.

    Where the dynamo path of ``torch.onnx`` summarises several exceptions, the innermost one stays, as ``Type: message``.
    """
    text = _BOX.sub("", _ANSI.sub("", text)).strip()
    if _SUMMARY in text:
        text = _CLASS.sub(r"\1: ", text.split(_SUMMARY, 1)[1].split("\u2b06")[0]).strip()
    paragraphs = []
    for paragraph in text.split("\n\n"):
        sentences = re.split(r"(?<=[.!?])\s+|\n\s*(?:- )?", paragraph)
        dropped = [_ADVICE.search(sentence) is not None for sentence in sentences]
        if any(dropped):
            paragraph = "\n".join(
                sentence for sentence, drop in zip(sentences, dropped, strict=True) if not drop and sentence
            )
        paragraphs.append(paragraph.strip())
    return "\n\n".join(filter(None, paragraphs)) or text


def first_line(error: BaseException) -> str:
    """The first line of an exception's message that is not empty, without its full stop, at most 300 characters; else the type's name.

    It is taken :func:`without_advice`.
    """
    lines = [line.strip() for line in without_advice(str(error)).splitlines() if line.strip()]
    return lines[0].rstrip(".")[:300] if lines else type(error).__name__


def printable(text: str) -> str:
    """The text with a replacement character for each control character but tab and line ends, each that turns the direction of reading, and
    each that neither UTF-8 nor XML can hold: what a model's names may do to a terminal or a picture."""
    return _CONTROL.sub("\ufffd", text)


def clean(text: str) -> str:
    """The text with a replacement character for each lone surrogate: JSON can hold one, and UTF-8 cannot."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
