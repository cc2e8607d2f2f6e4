"""A compiler's or linker's output, cut down to the one error that a reader has to fix."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from oplab.errors import OplabError

_FILE = r"(?P<file>[^\s:][^:\n]*):(?P<line>\d+)"
# g++ and clang++ agree on this form: FILE:LINE:COLUMN: error: SENTENCE
_ERROR = re.compile(rf"^{_FILE}:(?:(?P<column>\d+):)? (?:fatal )?error: (?P<text>.*)$")
# Other lines that name a place: "In file included from FILE:LINE:", "FILE:LINE:COLUMN:   required from here".
_MENTION = re.compile(rf"^(?:In file included from |\s+from )?{_FILE}(?::(?P<column>\d+))?[:,]")
_ASKED_HERE = re.compile(r"required from here|requested here")
_UNDEFINED = (
    re.compile(r"undefined reference to [`'](?P<name>.+)'"),  # GNU ld
    re.compile(r"undefined symbol: (?P<name>.+)$"),  # lld
    re.compile(r'^\s+"_?(?P<name>.+)", referenced from:'),  # Apple's ld
)
_NO_ENTRY = re.compile(
    r"undefined symbol [`']RegisterCustomOps'|symbol not found: RegisterCustomOps"  # GNU ld, lld
    r'|^\s+"_RegisterCustomOps"',  # Apple's ld
    re.MULTILINE,
)
# What precedes a name that is declared: a type at the start of a statement.
_DECLARES = re.compile(
    r"(?:^|[{};])\s*(?:(?:extern|static|inline|const)\s+)*(?!return\b|throw\b|else\b)[A-Za-z_][\w:<>, ]*[\s*&]+$"
)
_REFUSED = re.compile(
    r"(?:cannot open file ')?(?P<file>[^']+?)'?: Permission denied$"
)  # by the confinement of toolchain/one_file.py
NOT_INCLUDED = (
    "may not be included: such a file can include the headers of the toolchain, of PyTorch, of ONNX Runtime and of csrc, and the files of "
    "its own folder"
)
_FORGOTTEN_HEADER = re.compile(r"(?:#include|include the header|header) ['\"]?(?:#include )?(<\w+(?:\.h)?>)")

# Sentences of the lite API's templates that do not say what its user did.
_TRANSLATIONS = (
    (
        re.compile(r"no matching (?:member )?function for call to '.*?ParseArgs<(?P<what>.*?)(?:>\s*\(|'|>')"),
        "the lite API accepts no parameter of type {what} in Compute: an input is `const Ort::Custom::Tensor<T>&`, an output "
        "`Ort::Custom::Tensor<T>&`, an optional one `std::optional<const Ort::Custom::Tensor<T>*>`",
    ),
    (
        re.compile(r"no matching function for call to '.*ParseArgs'"),  # clang names the type only in its notes
        "the lite API does not accept a parameter type of Compute: an input is `const Ort::Custom::Tensor<T>&`, an output "
        "`Ort::Custom::Tensor<T>&`, an optional one `std::optional<const Ort::Custom::Tensor<T>*>`",
    ),
)


class BuildFailed(OplabError):
    """A source file that does not compile or link.

    Attributes:
        message: one line, ``c12_my_add.cpp:31:18: error: 'alhpa' was not declared in this scope``.
        file: the file to open, or None where the output names none.
        line: its line (from 1), or None.
        quoted_source_line: the source line with a caret under the place, or ``""``.
        full_log: everything that the compiler printed.
    """

    def __init__(self, message: str, file: Path | None, line: int | None, quoted_source_line: str, full_log: str):
        super().__init__(message, quoted_source_line)
        self.file = file
        self.line = line
        self.quoted_source_line = quoted_source_line
        self.full_log = full_log

    def __reduce__(self) -> tuple:  # it crosses process boundaries
        return type(self), (self.message, self.file, self.line, self.quoted_source_line, self.full_log)


@dataclass(frozen=True)
class _Place:
    line: int
    column: int | None


def build_failed(log: str, source: Path) -> BuildFailed:
    """The first error in ``log`` that belongs to ``source``, as an exception to raise."""
    return _compile_error(log, source) or _link_error(log, source) or _last_resort(log, source)


def shown(file: Path) -> str:
    """A path as short as it can be: relative to the current folder if it is below it."""
    try:
        return str(file.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(file)


def quote(source: Path, line: int, column: int | None = None) -> str:
    """The source line with its number, and a caret under the column where it is known."""
    text = _line(source, line)
    if text is None:
        return ""
    quoted = f"{line:5d} | {text}"
    if column is None or column > len(text) + 1:
        return quoted
    # A tab before the caret stays a tab, so that the caret is under its character in every terminal.
    gap = "".join("\t" if character == "\t" else " " for character in text[: column - 1])
    return f"{quoted}\n      | {gap}^"


def _lines(source: Path) -> list[str]:
    try:
        return source.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _line(source: Path, number: int) -> str | None:
    lines = _lines(source)
    return lines[number - 1].rstrip()[:200] if 1 <= number <= len(lines) else None


def _is(name: str, source: Path) -> bool:
    return os.path.realpath(name) == os.path.realpath(source)


def _place(found: re.Match[str]) -> _Place:
    return _Place(int(found["line"]), int(found["column"]) if found["column"] else None)


def _compile_error(log: str, source: Path) -> BuildFailed | None:
    lines = log.splitlines()
    errors = [(number, found) for number, text in enumerate(lines) if (found := _ERROR.match(text))]
    for position, (number, found) in enumerate(errors):
        # What belongs to this error: the lines around it, up to its neighbours.
        start = errors[position - 1][0] + 1 if position else 0
        end = errors[position + 1][0] if position + 1 < len(errors) else len(lines)
        sentence = _plain(found["text"], lines[number:end])
        if _is(found["file"], source):
            return _failed(source, _place(found), sentence, log)
        # The error is in a header, and one of these lines names the line of the source that includes it.
        place = _asked_by(lines[start:end], source)
        if place:
            if sentence == found["text"]:
                sentence += f" (in {Path(found['file']).name}:{found['line']}, which this line uses)"
            return _failed(source, place, sentence, log)
    if errors:  # none of them has to do with the source: a header of the project is broken
        found = errors[0][1]
        return _failed(Path(found["file"]), _place(found), found["text"], log)
    return None


def mentioned(log: str) -> list[str]:
    """The files that a compiler's output names as places, in their order."""
    found = (pattern.match(line) for line in log.splitlines() for pattern in (_ERROR, _MENTION))
    return list(dict.fromkeys(match["file"] for match in found if match))


def _plain(sentence: str, notes: list[str]) -> str:
    if refused := _REFUSED.match(sentence):
        return f"{refused['file']} {NOT_INCLUDED}"
    for pattern, translation in _TRANSLATIONS:
        found = pattern.search(sentence)
        if found:
            return translation.format(**{name: _inner(value) for name, value in found.groupdict().items()})
    if "did you mean" not in sentence:
        for note in notes:
            header = _FORGOTTEN_HEADER.search(note)
            if header and "note:" in note:
                return f"{sentence}; is `#include {header[1]}` missing?"
    return sentence


def _inner(types: str) -> str:
    """The first of a list of template arguments, with its brackets closed."""
    depth = 0
    for position, character in enumerate(types):
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            return types[:position].strip()
    return types.strip() + ">" * depth


def _asked_by(lines: list[str], source: Path) -> _Place | None:
    """The place in ``source`` that these lines name: where a template was asked for, else where a header was included."""
    first = None
    for text in lines:
        found = _MENTION.match(text)
        if found and _is(found["file"], source):
            if _ASKED_HERE.search(text):
                return _place(found)
            first = first or _place(found)
    return first


def _link_error(log: str, source: Path) -> BuildFailed | None:
    if _NO_ENTRY.search(log):
        what = "ONNX Runtime calls RegisterCustomOps first, and this library has no function of that name"
        if any("RegisterCustomOps" in line for line in _lines(source)):
            what += ' that is declared extern "C" and not static'
        return BuildFailed(f"{shown(source)}: error: {what}", source, None, "", log)
    for text in log.splitlines():
        for pattern in _UNDEFINED:
            found = pattern.search(text)
            if found:
                name = found["name"].strip()
                sentence = f"{name} is declared and used, but not defined"
                place = _first_use(name, source)
                if place:
                    return _failed(source, place, sentence, log)
                return BuildFailed(f"{shown(source)}: error: {sentence}", source, None, "", log)
    return None


def _first_use(symbol: str, source: Path) -> _Place | None:
    """Where a demangled symbol is used: ``ns::f(int)`` is looked for as ``f``; a line that only declares it comes last."""
    bare = re.split(r"[(<\[]", symbol, maxsplit=1)[0].split("::")[-1].strip()
    if not bare.isidentifier():
        return None
    uses = []
    for number, text in enumerate(_lines(source), start=1):
        code = text.split("//")[0]
        found = re.search(rf"(?:\w+::)*\b(?P<name>{bare})\b", code)
        if found:
            uses.append((bool(_DECLARES.search(code[: found.start()])), number, found.start("name") + 1))
    return _Place(*min(uses)[1:]) if uses else None


def _last_resort(log: str, source: Path) -> BuildFailed:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    for line in lines:  # __has_include has no place
        if refused := re.search(r"fatal error: (?P<text>\S+: Permission denied)$", line):
            return BuildFailed(f"{shown(source)}: error: {_plain(refused['text'], [])}", source, None, "", log)
    telling = [line for line in lines if re.search(r"\berror\b|[Ee]rror:|cannot|not found|ld: |Killed", line)]
    sentence = (telling or lines or ["the compiler failed and said nothing"])[0]
    return BuildFailed(f"{shown(source)}: {sentence[:300]}", source, None, "", log)


def _failed(file: Path, place: _Place, sentence: str, log: str) -> BuildFailed:
    quoted = quote(file, place.line, place.column)
    before = _code_before(file, place)
    if before and re.match(r"expected .*';'.* before", sentence):
        # g++ points at the token that it did not expect; the semicolon belongs at the end of the line before.
        sentence += f" (look at the end of line {before})"
        quoted = f"{quote(file, before)}\n{quoted}"
    column = f":{place.column}" if place.column else ""
    message = f"{shown(file)}:{place.line}{column}: error: {sentence[:400]}"
    return BuildFailed(message, file, place.line, quoted, log)


def _code_before(file: Path, place: _Place) -> int | None:
    """The last line with code before a place that is the first on its own line; None where it is not."""
    lines = _lines(file)
    if not 1 <= place.line <= len(lines) or not place.column or lines[place.line - 1][: place.column - 1].strip():
        return None
    for number in range(place.line - 1, 0, -1):
        code = lines[number - 1].split("//")[0].strip()
        if code:
            return number
    return None
