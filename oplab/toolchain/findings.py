"""What a sanitizer or Python's fault handler printed before a process died, in a sentence about the learner's file."""

from __future__ import annotations

import re
from pathlib import Path

CASE = "oplab runs: "  # before the title of a case, in what a check prints
_ASAN = re.compile(r"ERROR: AddressSanitizer: ([\w-]+)")
_ACCESS = re.compile(r"^(READ|WRITE) of size (\d+)", re.MULTILINE)
_BLOCK = re.compile(r"is located (\d+) bytes (after|before|inside of|to the right of|to the left of) (\d+)-byte region")
_FRAME = re.compile(r"^\s*#\d+ 0x[0-9a-f]+ in (.+?) (\S+?):(\d+)(?::\d+)?\s*$", re.MULTILINE)
_UBSAN = re.compile(r"^(\S+?):(\d+)(?::\d+)?: runtime error: (.+)$", re.MULTILINE)
_ADDRESS = re.compile(r" 0x[0-9a-f]{6,}")
_PYTHON = re.compile(r'^  File "(.+?)", line (\d+) in (\S+)$', re.MULTILINE)
_CASE = re.compile(rf"^{CASE}(.+)$", re.MULTILINE)
_THROWN = re.compile(r"terminate called after throwing an instance of '(.+?)'(?:\s+what\(\):\s*(.*))?")
_SIDES = {"after": "after", "to the right of": "after", "before": "before", "to the left of": "before"}


def sanitizer_finding(report: str, file: Path) -> str:
    """The finding of AddressSanitizer or UndefinedBehaviorSanitizer, and the line of ``file`` in which it happened.

    Args:
        file: the learner's source. Its line is quoted where it can be read.

    Returns:
        a sentence and, under it, the source line; empty where the report holds no finding.
    """
    if undefined := _UBSAN.search(report):
        what = f"UndefinedBehaviorSanitizer: {_ADDRESS.sub('', undefined[3])}"
        if Path(undefined[1]).name == file.name:
            return _placed(what, file, int(undefined[2]))
        rest = report[undefined.end() :]
    elif memory := _ASAN.search(report):
        rest = report[memory.end() :]
        what = f"AddressSanitizer: {memory[1]}"
        if access := _ACCESS.search(rest):
            what += f", a {access[1].lower()} of {access[2]} bytes"
            if (block := _BLOCK.search(rest)) and block[2] in _SIDES:
                what += f" that begins {block[1]} bytes {_SIDES[block[2]]} a block of {block[3]} bytes"
    else:
        return ""
    for frame in _FRAME.finditer(rest):
        if Path(frame[2]).name == file.name:
            return _placed(what, file, int(frame[3]))
    return f"{what}. The report names no line of {file.name}."


_NONE_IN_OP = "None among the inputs of g.op is a null pointer in C++: an input that is left out is a none node (chapter 05, section 8)."


def python_finding(report: str, file: Path) -> str:
    """Where in the learner's ``file`` Python was when a signal ended it, from :mod:`faulthandler`; empty if it was not in there."""
    _, fatal, rest = report.rpartition("Fatal Python error: ")
    for frame in _PYTHON.finditer(rest) if fatal else ():
        if Path(frame[1]) == file:
            found = _placed(f"Python was in {frame[3]}", file, int(frame[2]))
            return f"{found}\n{_NONE_IN_OP}" if "g.op(" in found else found
    return ""


def last_case(report: str) -> str:
    """The title of the case that ran last, from the lines that begin with :data:`CASE`; empty where a check has printed none."""
    found = _CASE.findall(report)
    return found[-1][:300] if found else ""


def thrown(report: str) -> str:
    """The type and the text of the C++ exception that ended the process, from what the C++ library prints; empty where none did."""
    found = _THROWN.search(report)
    return f"{found[1]}, {found[2] or ''}".rstrip(", ") if found else ""


def _placed(what: str, file: Path, line: int) -> str:
    try:
        text = file.read_text(encoding="utf-8", errors="replace").splitlines()[line - 1].strip()
    except (OSError, IndexError):
        return f"{what} ({file.name}, line {line})."
    return f"{what} ({file.name}, line {line}):\n{line:5d} | {text}"
