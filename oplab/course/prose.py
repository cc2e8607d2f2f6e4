"""Prose in units that are translated one by one: a paragraph, a heading, an item of a list, a row of a table.

The lines of a unit are joined, so that a paragraph that is only wrapped anew is still the same. Code is not prose.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_FENCE = re.compile(r"\s*(```|~~~)")
_MARKER = re.compile(r"(\s*(?:[-*]|\d+\.)\s+|#+\s+)")
_SECTION = re.compile(r"\s*(Args|Returns|Raises|Yields|Attributes):$")
_LISTED = ("Args", "Raises", "Attributes")  # the sections in which each entry begins at the indent
_LINE = re.compile(r"(?<=#line)=\d+")
# What stays as it is in each language: code, formulas, the targets of links.
_KEPT = re.compile(r"``[^`]+``|`[^`]+`|\$[^$]+\$|\]\([^)]*\)|<[^>]+>|\{\w*\}")
_WORD = re.compile(r"[A-Za-z]{2}")
_PIECE = re.compile(r" ?(?:``[^`]*``|[\u2e80-\uffef]|[^\s\u2e80-\uffef]+)")  # what a line is not broken in
_WIDE = "WF"
# No line begins with these.
_CLOSING = "，。：；！？）》”’、,.:;!?)]}"


@dataclass
class Unit:
    """A piece of text: prose, or what lies between prose.

    Attributes:
        text: prose with its lines joined; or lines as they are.
        prefix: what precedes prose on its first line, such as ``- ``; its continuation is indented as far.
        prose: whether it is translated.
    """

    text: str
    prefix: str = ""
    prose: bool = False


def units(text: str, documented: bool = False) -> Iterator[Unit]:
    """Cut a text.

    Args:
        text: Markdown; or, with ``documented``, a docstring or a comment without its marks, where what is indented is code,
            but for the sections ``Args:``, ``Returns:`` and ``Raises:``.
    """
    unit: Unit | None = None
    fenced, section, listed = False, -1, False
    for line in text.split("\n"):
        indent = len(line) - len(line.lstrip())
        if section >= 0 and line.strip() and indent <= section:
            section = -1
        inside = fenced or bool(_FENCE.match(line))
        fenced ^= bool(_FENCE.match(line))
        marker = _MARKER.match(line)
        entry = listed and 0 <= section == indent - 4
        left = documented and unit is not None and bool(unit.prefix.strip()) and indent < len(unit.prefix)
        begins = bool(marker) or unit is None or line.startswith("|") or entry or left
        code = documented and begins and not marker and indent >= 2 and section < 0
        if inside or not line.strip() or code or _SECTION.match(line):
            if unit is not None:
                yield _made(unit)
                unit = None
            if documented and (head := _SECTION.match(line)):
                section, listed = indent, head[1] in _LISTED
            yield Unit(line)
        elif begins:
            if unit is not None:
                yield _made(unit)
            prefix = marker[1] if marker else line[:indent]
            unit = Unit(line[len(prefix) :].strip(), prefix, True)
            if prefix.lstrip().startswith("#") or line.startswith("|"):
                yield _made(unit)
                unit = None
        else:
            assert unit is not None
            unit.text += " " + line.strip()
    if unit is not None:
        yield _made(unit)


def _made(unit: Unit) -> Unit:
    """A unit without a word is not prose."""
    unit.prose = bool(_WORD.search(_KEPT.sub("", unit.text)))
    return unit


def key(text: str) -> str:
    """A unit as a catalogue has it: without the numbers of lines in links, which change with the files that they point to."""
    return _LINE.sub("", text)


def kept(text: str) -> list[str]:
    """The code, formulas, link targets and placeholders of a unit, sorted: a translation has the same ones."""
    return sorted(_KEPT.findall(text))


def translated(text: str, catalogue: Mapping[str, str], documented: bool = False, width: int = 0) -> str:
    """A text in which each unit that the catalogue has is replaced.

    Args:
        catalogue: translations by English units.
        width: wrap units at this many columns, where a Chinese character takes two; 0: do not wrap.
    """
    lines = []
    for unit in units(text, documented):
        if not unit.prose:
            lines.append(unit.text)
            continue
        if found := catalogue.get(key(unit.text)):
            for number in _LINE.findall(unit.text):
                found = re.sub(r"#line(?!=)", f"#line{number}", found, count=1)
            unit.text = found
        lines += _wrapped(unit, width) if width else [unit.prefix + unit.text]
    return "\n".join(lines)


def _wrapped(unit: Unit, width: int) -> list[str]:
    """The lines of a unit: between two Chinese characters a line may end anywhere, but none begins with a closing mark."""
    lines, used = [unit.prefix], columns(unit.prefix)
    hang, empty = used, True
    for piece in _PIECE.findall(unit.text):
        size = columns(piece)
        if not empty and used + size > width and piece.strip() not in _CLOSING:
            lines.append(" " * hang)
            used, empty = hang, True
        piece = piece.lstrip() if empty else piece
        lines[-1] += piece
        used, empty = used + columns(piece), False
    return [line.rstrip() for line in lines]


def columns(text: str) -> int:
    """The width of a text in a terminal."""
    return len(text) + sum(unicodedata.east_asian_width(c) in _WIDE for c in text if c > "\u1100")


def each(found: Iterator[Unit]) -> list[str]:
    """The prose of units as catalogues have it, once each."""
    return list(dict.fromkeys(key(unit.text) for unit in found if unit.prose))
