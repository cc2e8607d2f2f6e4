"""Reads submitted files: each once, without following links, and no more than a text of a sensible size."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path, PurePath

from oplab.course import stubs

MAX_BYTES = 1 << 20
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NotReadable(Exception):
    """A submitted file that is not a regular file: a link, a folder, a pipe, a device, or much too large. The message says which."""


def read(folder: Path, name: str) -> str:
    """The text of one file. Each kind of line end becomes ``\\n``.

    Args:
        folder: the submission. It may be a link itself.
        name: the file, relative to it. No part of it may be a link: it could lead to a solution.

    Raises:
        FileNotFoundError: there is no such file.
        NotReadable: it is not a plain file inside of the submission, or larger than MAX_BYTES.
        OSError: it cannot be read.
        UnicodeDecodeError: it is not UTF-8.
    """
    *folders, last = PurePath(name).parts
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in folders:
            _expect(stat.S_ISDIR, part, place, "a folder")
            inner = os.open(part, _FOLDER, dir_fd=place)
            os.close(place)
            place = inner
        _expect(stat.S_ISREG, last, place, "a plain file")
        found = os.open(last, _FILE, dir_fd=place)
    finally:
        os.close(place)
    with open(found, "rb") as stream:
        if not stat.S_ISREG(os.fstat(found).st_mode):  # it was replaced since
            raise NotReadable(f"{last} is not a plain file")
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise NotReadable("it is larger than 1 MB")
    return data.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def _expect(kind: Callable[[int], bool], name: str, place: int, what: str) -> None:
    mode = os.stat(name, dir_fd=place, follow_symlinks=False).st_mode
    if stat.S_ISLNK(mode):
        raise NotReadable(f"{name} is a link, and links are not followed")
    if not kind(mode):
        raise NotReadable(f"{name} is not {what}")


def readable(file: str, text: str | Exception) -> tuple[str | Exception, dict[str, SyntaxError]]:
    """See :func:`oplab.course.stubs.readable`; what makes the whole file unreadable is in place of its text."""
    if isinstance(text, Exception) or not file.endswith(".py"):
        return text, {}
    try:
        return stubs.readable(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return error, {}


def reason(error: Exception, file: str) -> str:
    """Why a file cannot be read, as a sentence."""
    name = file.rpartition("/")[2]
    if isinstance(error, (RecursionError, MemoryError)):
        return f"{name} is nested too deeply for Python to read."
    if isinstance(error, SyntaxError):
        quoted = f": {error.text.strip()}" if error.text else ""
        line = f", line {error.lineno}" if error.lineno else ""
        return f"{type(error).__name__}: {error.msg} ({name}{line}){quoted}"
    if isinstance(error, UnicodeDecodeError):
        return f"{file} cannot be read: it is not UTF-8 text."
    return f"{file} cannot be read: {getattr(error, 'strerror', None) or error}."
