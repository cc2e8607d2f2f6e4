"""Where a definition of a C++ file begins and ends: as much of the grammar as a lesson's file needs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

# What holds characters that are not code, and what may hold them: a raw string before a string, a comment before both.
_OTHER = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<![\w])'(?:\\.|[^'\\\n])+'""",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_ACCESS = re.compile(r"\s*(?:public|private|protected)\s*:(?!:)")
_TEMPLATE = re.compile(r"\s*template\s*<")


@dataclass(frozen=True)
class Definition:
    """A function, class, namespace or table: everything with a body in braces that is not inside a function.

    Attributes:
        heading: its first line; a ``template <…>`` before it does not count.
        first: the number of its first line, counted from 1, the ``template`` included.
        last: the number of the line with its closing brace.
    """

    heading: str
    first: int
    last: int


def definitions(text: str) -> list[Definition]:
    """The definitions of a file, in the order in which they begin."""
    code = _code(text)
    return sorted(_inside(text, code, 0, len(code)), key=lambda entry: (entry.first, -entry.last))


def _code(text: str) -> str:
    """The text with a space for each character of a comment, a literal or a directive; lines stay where they are."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    return _DIRECTIVE.sub(blank, _OTHER.sub(blank, text))


def _inside(text: str, code: str, start: int, end: int) -> Iterator[Definition]:
    """The definitions between two places of a scope that is a namespace or a class."""
    begin = at = start
    depth = 0  # of round brackets
    while at < end:
        sign = code[at]
        depth += (sign in "([") - (sign in ")]")
        if sign in ";}" and not depth:
            begin = at + 1
        elif sign == "{" and not depth:
            close = _closing(code, at)
            head = code[begin:at]
            if not _value(head):
                yield from _named(text, code, begin, at, close)
                at, begin = close, close + 1
            else:
                at = close
        at += 1


def _value(head: str) -> bool:
    """Whether the brace after this holds the value of a member, ``int a{1}``, also in a constructor's list: ``X() : a_{1} {``."""
    if not re.search(r"[\w>]\s*$", head):
        return False
    if "(" in head:
        return bool(re.search(r"\)\s*(?:noexcept\s*)?:(?!:)", head))
    return not re.search(r"\b(?:namespace|class|struct|union|enum|extern)\b", head)


def _named(text: str, code: str, begin: int, brace: int, close: int) -> Iterator[Definition]:
    while match := _ACCESS.match(code, begin, brace):
        begin = match.end()
    head = code[begin:brace]
    first = begin + len(head) - len(head.lstrip())
    name = first
    while match := _TEMPLATE.match(code, name, brace):
        name = _angle(code, match.end() - 1) + 1
        name += len(code[name:brace]) - len(code[name:brace].lstrip())
    if "extern" in text[begin:brace] and not head.replace("extern", "").strip():  # extern "C" {
        yield from _inside(text, code, brace + 1, close)
        return
    heading = text[name : text.find("\n", name) if "\n" in text[name:] else len(text)].strip()
    yield Definition(heading.rstrip("{ ").strip() or heading, _line(text, first), _line(text, close))
    bare = code[name:brace]
    if re.match(r"(?:inline\s+)?namespace\b", bare) or (
        re.match(r"(?:class|struct|union)\b", bare) and "(" not in bare
    ):
        yield from _inside(text, code, brace + 1, close)


def _closing(code: str, brace: int) -> int:
    depth = 0
    for at in range(brace, len(code)):
        depth += (code[at] == "{") - (code[at] == "}")
        if not depth:
            return at
    return len(code) - 1  # a file that does not compile


def _angle(code: str, opening: int) -> int:
    depth = 0
    for at in range(opening, len(code)):
        depth += (code[at] == "<") - (code[at] == ">")
        if not depth:
            return at
    return len(code) - 1


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
