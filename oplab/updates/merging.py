"""Three-way merges of a learner's file: what the course changed in its stub, and what the learner wrote, in one text.

Where both changed the same lines, the learner's lines stay and the course's are reported as a :class:`Clash`, so the result stays
valid Python or C++. Nothing here reads or writes files.

The library for this, merge3, is licensed under the GPL and merges by lines only.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from oplab.course.parsing import parse
from oplab.course.stubs import first_line

_IMPORT = re.compile(r"(?:import |from \S+ import |#include\b).*[^(\\,]")
# What a stub has in place of an answer: a new wording of it is nothing that an answer has to take over.
_TODO = re.compile(r"\s*(?:(?:#|//) TODO c[\dA]\d\.\w+: .*|raise todo\(.*\)|#error .*)?")
_HEAD = None  # the "definition" that the first lines of a file come after


@dataclass(frozen=True)
class Clash:
    """Lines that the learner and the course both changed.

    Attributes:
        line: the first of the learner's lines in the merged text, counted from 1.
        name: the top-level function or class that they are in; None outside of all of them.
        mine: the learner's lines, which are in the merged text.
        new: the lines of the new stub.
    """

    line: int
    name: str | None
    mine: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True)
class Merge:
    """The result of a merge.

    Attributes:
        text: the merged file.
        clashes: what could not be merged, in the order of the file.
        absent: functions and classes that the learner has deleted, and whose stub has changed. They stay deleted.
    """

    text: str
    clashes: tuple[Clash, ...] = ()
    absent: tuple[str, ...] = ()


@dataclass
class _Block:
    """A definition, or the lines after one: how many blank lines precede it, and its lines without blank ones around them."""

    blank: int
    lines: list[str]


def merge_text(base: str, mine: str, new: str) -> Merge:
    """A merge by lines, for C++ and for Python that cannot be parsed.

    Args:
        base: the stub as it was delivered.
        mine: the learner's file.
        new: the new stub.
    """
    if base == new or mine == base:
        return Merge(mine if base == new else new)
    crlf = "\r\n" in mine
    lines, clashes = _merge_lines(*(_split(text) for text in (base, mine, new)))
    return _with_ends(Merge("\n".join(lines), tuple(clashes)), crlf)


def merge_python(base: str, mine: str, new: str, renamed: Mapping[str, str] | None = None) -> Merge:
    """A merge of Python files: each top-level function and class is merged by itself, and so is what is between them.

    So a function whose stub did not change stays as the learner wrote it, wherever it is in the file. Functions that only the learner
    has stay. One that the course has dropped stays if the learner changed it.

    Args:
        base: the stub as it was delivered.
        mine: the learner's file.
        new: the new stub.
        renamed: functions that the course has renamed, by their old names: the learner's `def` line gets the new name.
    """
    crlf = "\r\n" in mine
    base, mine, new = (text.replace("\r\n", "\n") for text in (base, mine, new))
    try:
        renamed_mine = rename(mine, renamed or {})
        old, own, fresh = _blocks(rename(base, renamed or {})), _blocks(renamed_mine), _blocks(new)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _with_ends(merge_text(base, mine, new), crlf)
    merge = _merge_blocks(old, own, fresh)
    if _compiles(renamed_mine) and not _compiles(merge.text):
        whole = Clash(1, None, tuple(_split(renamed_mine)), tuple(_split(new)))
        merge = Merge(renamed_mine, (whole,), merge.absent)
    return _with_ends(merge, crlf)


def rename(text: str, names: Mapping[str, str]) -> str:
    """Top-level functions with new names. Only the `def` lines change, and no name that is taken is used.

    Args:
        text: a Python file.
        names: new names by old ones.

    Raises:
        SyntaxError: the text is not valid Python.
        ValueError: it has characters that Python does not read.
    """
    if not names:
        return text
    lines, nodes = text.split("\n"), definitions(text)
    taken = {node.name for node in nodes}
    for node in nodes:
        new = names.get(node.name)
        if new is not None and new not in taken:
            head = rf"(\b(?:def|class)\s+){re.escape(node.name)}\b"
            lines[node.lineno - 1] = re.sub(head, rf"\g<1>{new}", lines[node.lineno - 1], count=1)
    return "\n".join(lines)


def definitions(text: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """The top-level functions and classes of a Python file.

    Raises:
        SyntaxError: the text is not valid Python.
        ValueError: it has characters that Python does not read.
    """
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node for node in parse(text).body if isinstance(node, kinds)]


def _split(text: str) -> list[str]:
    return text.replace("\r\n", "\n").split("\n") if text else []


def _with_ends(merge: Merge, crlf: bool) -> Merge:
    """With the learner's line ends."""
    return replace(merge, text=merge.text.replace("\n", "\r\n")) if crlf else merge


def _compiles(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<merged>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _same(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether lines are equal; blanks at their ends do not count."""
    return len(one) == len(other) and all(a.rstrip() == b.rstrip() for a, b in zip(one, other, strict=True))


def _common(base: list[str], mine: list[str], new: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """Runs of lines that all three have, as their three places and their length; the last one is the end of each, with length 0."""
    plain = [[line.rstrip() for line in lines] for lines in (base, mine, new)]
    ours = SequenceMatcher(None, plain[0], plain[1], autojunk=False).get_matching_blocks()
    theirs = SequenceMatcher(None, plain[0], plain[2], autojunk=False).get_matching_blocks()
    i = j = 0
    while i < len(ours) and j < len(theirs):
        one, other = ours[i], theirs[j]
        start, end = max(one.a, other.a), min(one.a + one.size, other.a + other.size)
        if start < end:
            yield start, one.b + start - one.a, other.b + start - other.a, end - start
        if one.a + one.size < other.a + other.size:
            i += 1
        else:
            j += 1
    yield len(base), len(mine), len(new), 0


def _merge_lines(base: list[str], mine: list[str], new: list[str]) -> tuple[list[str], list[Clash]]:
    """Lines merged by lines; the clashes' line numbers count from 1 in the result."""
    out: list[str] = []
    clashes: list[Clash] = []
    b = m = n = 0
    for to_b, to_m, to_n, length in _common(base, mine, new):
        old, own, fresh = base[b:to_b], mine[m:to_m], new[n:to_n]
        if _same(own, old):
            out += fresh
        elif _same(fresh, old) or _same(own, fresh) or _only_todo(old, fresh):
            out += own
        elif all(_only_imports(lines) for lines in (old, own, fresh)):
            out += [*own, *(line for line in fresh if line not in own)]
        else:
            clashes.append(Clash(len(out) + 1, None, tuple(own), tuple(fresh)))
            out += own
        out += mine[to_m : to_m + length]
        b, m, n = to_b + length, to_m + length, to_n + length
    return out, clashes


def _only_todo(old: list[str], fresh: list[str]) -> bool:
    """Whether only the words of a TODO have changed."""
    return any(line.strip() for line in old) and all(_TODO.fullmatch(line) for line in (*old, *fresh))


def _only_imports(lines: list[str]) -> bool:
    return all(not line.strip() or _IMPORT.fullmatch(line.rstrip()) for line in lines)


_Key = tuple[str, int] | None


def _blocks(text: str) -> dict[tuple[str, _Key], _Block]:
    """The parts of a file: ("def", key) for each top-level function and class, ("after", key) for the lines that follow it.

    A key is a name and how often it has been defined before. The lines at the beginning are ("after", None).

    Raises:
        SyntaxError: the text is not valid Python.
        ValueError: it has characters that Python does not read, or a single carriage return as a line end.
    """
    if "\r" in text:
        raise ValueError("a line end that is not Python's")
    lines, found = text.split("\n"), dict[tuple[str, _Key], _Block]()
    key: _Key = _HEAD
    done, counts, blank = 0, dict[str, int](), 0

    def add(what: str, key: _Key, part: list[str]) -> None:
        nonlocal blank
        core = list(part)
        while core and not core[0].strip():
            del core[0]
        blank += len(part) - len(core)
        trailing = 0
        while core and not core[-1].strip():
            del core[-1]
            trailing += 1
        found[what, key] = _Block(blank, core)
        if core:
            blank = trailing

    for node in definitions(text):
        start = first_line(node) - 1
        add("after", key, lines[done:start])
        key = (node.name, counts.get(node.name, 0))
        counts[node.name] = key[1] + 1
        done = node.end_lineno or node.lineno
        add("def", key, lines[start:done])
    add("after", key, lines[done:])
    return found


def _merge_blocks(
    old: dict[tuple[str, _Key], _Block], own: dict[tuple[str, _Key], _Block], fresh: dict[tuple[str, _Key], _Block]
) -> Merge:
    out: list[str] = []
    clashes: list[Clash] = []
    absent: list[str] = []
    last = ""
    for key in _order(_keys(old), _keys(own), _keys(fresh)):
        for what in ("def", "after"):
            part = what, key
            b, m, n = old.get(part), own.get(part), fresh.get(part)
            if what == "def" and key is not None:
                if b is not None and m is None:  # the learner has deleted it
                    if n is not None and not _same(b.lines, n.lines):
                        absent.append(key[0])
                    continue
                if b is not None and m is not None and n is None and not _same(b.lines, m.lines):
                    b = None  # the course has dropped what the learner changed: it stays
            lines, found = _merge_lines(*(block.lines if block else [] for block in (b, m, n)))
            block = m or n
            if not lines or block is None:
                continue
            if out or block.blank:
                first = part == next(iter(fresh if m is None else own)) or (last == what == "def" and not block.blank)
                out += [""] * (2 if out and first else block.blank)
            clashes += [
                replace(clash, line=clash.line + len(out), name=key[0] if key is not None and what == "def" else None)
                for clash in found
                if what == "def" or any(line.strip() for line in clash.new)
            ]
            out += lines
            last = what
    return Merge("\n".join(out) + "\n" * bool(out), tuple(clashes), tuple(absent))


def _keys(blocks: dict[tuple[str, _Key], _Block]) -> list[_Key]:
    return [key for what, key in blocks if what == "after"]


def _order(old: list[_Key], own: list[_Key], fresh: list[_Key]) -> list[_Key]:
    """The order of all definitions: the learner's, unless the course has changed its own."""
    common = [key for key in old if key in fresh]
    moved = common != [key for key in fresh if key in old]
    order, others = (list(fresh), own) if moved else (list(own), fresh)
    for index, key in enumerate(others):
        if key not in order:
            before = next(other for other in reversed(others[:index]) if other in order)
            order.insert(order.index(before) + 1, key)
    return order


def cut(text: str, name: str) -> tuple[str, str]:
    """A Python file without one top-level function, and that function's text; the text is empty if there is no such function.

    Raises:
        SyntaxError: the text is not valid Python.
        ValueError: it has characters that Python does not read.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    for node in reversed(definitions("\n".join(lines))):
        if node.name == name:
            first, end = first_line(node) - 1, node.end_lineno or node.lineno
            return "\n".join([*lines[:first], *lines[end:]]), "\n".join(lines[first:end])
    return text, ""
