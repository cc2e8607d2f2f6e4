"""A compiler's or linker's output, cut down to the one error that a reader has to mend."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from oplab.errors import OplabError

# g++ and clang++ agree on this form: FILE:LINE:COLUMN: error: SENTENCE
_ERROR = re.compile(r"^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? (?:fatal )?error: (?P<text>.*)$")
# Where a template of a library's header came from: the line of the learner that asked for it.
_CONTEXT = re.compile(
    r"^(?:In file included from |\s+from )?(?P<file>[^\s:][^:\n]*):(?P<line>\d+)(?::(?P<column>\d+))?[:,]"
)
_UNDEFINED = (
    re.compile(r"undefined reference to [`'](?P<name>.+)'"),  # GNU ld
    re.compile(r"undefined symbol: (?P<name>.+)$"),  # lld
    re.compile(r'^\s+"_?(?P<name>.+)", referenced from:'),  # Apple's ld
)
_NO_ENTRY = re.compile(
    r"required symbol [`']?RegisterCustomOps|undefined.*: _?RegisterCustomOps|^\s+\"_RegisterCustomOps\""
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

    def __reduce__(self) -> tuple:
        return type(self), (self.message, self.file, self.line, self.quoted_source_line, self.full_log)


@dataclass(frozen=True)
class _Place:
    line: int
    column: int | None


def build_failed(log: str, source: Path) -> BuildFailed:
    """The first error in ``log`` that belongs to ``source``, as an exception to raise."""
    return _compile_error(log, source) or _link_error(log, source) or _last_resort(log, source)


def shown(file: Path) -> str:
    """A path as short as it can be: relative to the current folder where it lies below it."""
    try:
        return str(file.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(file)


def quote(source: Path, line: int, column: int | None) -> str:
    """The source line with its number, and a caret under the column where it is known."""
    try:
        lines = source.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    if not 1 <= line <= len(lines):
        return ""
    text = lines[line - 1].rstrip()[:200]
    quoted = f"{line:5d} | {text}"
    if column is None or column > len(text) + 1:
        return quoted
    # A tab before the caret stays a tab, so that the caret stands under its character in every terminal.
    gap = "".join("\t" if character == "\t" else " " for character in text[: column - 1])
    return f"{quoted}\n      | {gap}^"


def _is(name: str, source: Path) -> bool:
    return os.path.realpath(name) == os.path.realpath(source)


def _compile_error(log: str, source: Path) -> BuildFailed | None:
    lines = log.splitlines()
    errors = [(number, found) for number, text in enumerate(lines) if (found := _ERROR.match(text))]
    elsewhere = None
    for position, (number, found) in enumerate(errors):
        sentence = found["text"]
        column = int(found["column"]) if found["column"] else None
        if _is(found["file"], source):
            return _failed(source, _Place(int(found["line"]), column), f"error: {sentence}", log)
        # In a header: the learner's line stands in the lines around it, up to the neighbouring errors.
        start = errors[position - 1][0] + 1 if position else 0
        end = errors[position + 1][0] if position + 1 < len(errors) else len(lines)
        place = _nearest(lines[start:end], source)
        if place:
            where = f"{Path(found['file']).name}:{found['line']}"
            return _failed(source, place, f"error: {sentence} (in {where}, which this line uses)", log)
        elsewhere = elsewhere or found
    if elsewhere is None:
        return None
    file, line = Path(elsewhere["file"]), int(elsewhere["line"])
    column = int(elsewhere["column"]) if elsewhere["column"] else None
    return _failed(file, _Place(line, column), f"error: {elsewhere['text']}", log)


def _nearest(lines: list[str], source: Path) -> _Place | None:
    """The last place in ``source`` that these lines name: the innermost "required from here" is the closest to it."""
    place = None
    for text in lines:
        found = _CONTEXT.match(text)
        if found and _is(found["file"], source):
            here = _Place(int(found["line"]), int(found["column"]) if found["column"] else None)
            if "required from here" in text or "requested here" in text:
                return here
            place = place or here
    return place


def _link_error(log: str, source: Path) -> BuildFailed | None:
    if _NO_ENTRY.search(log):
        return BuildFailed(
            f'{shown(source)}: error: the library has no extern "C" function RegisterCustomOps, which ONNX Runtime calls first',
            source,
            None,
            "",
            log,
        )
    for text in log.splitlines():
        for pattern in _UNDEFINED:
            found = pattern.search(text)
            if found:
                name = found["name"].strip()
                sentence = f"error: {name} is declared and used, but not defined"
                place = _first_use(name, source)
                if place:
                    return _failed(source, place, sentence, log)
                return BuildFailed(f"{shown(source)}: {sentence}", source, None, "", log)
    return None


def _first_use(symbol: str, source: Path) -> _Place | None:
    """Where a demangled symbol is used first: ``ns::f(int)`` is looked for as a call of ``f``."""
    bare = re.split(r"[(<\[]", symbol, maxsplit=1)[0].split("::")[-1].strip()
    if not bare.isidentifier():
        return None
    uses = []
    for number, text in enumerate(source.read_text(errors="replace").splitlines(), start=1):
        found = re.search(rf"\b{bare}\b", text.split("//")[0])
        if found:
            declares = text.rstrip().endswith(";") and re.match(rf"^\s*(extern\s+)?[\w:<>*&]+[\s*&]+{bare}\s*\(", text)
            is_return = text.lstrip().startswith("return ")
            uses.append((bool(declares) and not is_return, number, found.start() + 1))
    if not uses:
        return None
    _, line, column = min(uses)
    return _Place(line, column)


def _last_resort(log: str, source: Path) -> BuildFailed:
    telling = [line.strip() for line in log.splitlines() if re.search(r"\berror\b|cannot|not found|ld: ", line)]
    sentence = (
        telling or [line.strip() for line in log.splitlines() if line.strip()] or ["the compiler said nothing"]
    )[0]
    return BuildFailed(f"{shown(source)}: {sentence[:300]}", source, None, "", log)


def _failed(file: Path, place: _Place, sentence: str, log: str) -> BuildFailed:
    column = f":{place.column}" if place.column else ""
    message = f"{shown(file)}:{place.line}{column}: {sentence[:400]}"
    return BuildFailed(message, file, place.line, quote(file, place.line, place.column), log)
