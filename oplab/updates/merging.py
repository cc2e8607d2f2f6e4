"""A learner's file and the new stub become one, as ``git merge-file`` does it."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from oplab.course.manifest import NUMBER

# What `make_stub` puts in the place of an answer: two lines, of which the first has the exercise's goal.
_TODO = re.compile(rb"^[ \t]*(?:#|//) TODO (c%s\.[a-z0-9_]+):.*\n.*\n" % NUMBER.encode(), re.MULTILINE)


def merge(base: bytes, mine: bytes, new: bytes, name: str, renamed: Mapping[str, str] | None = None) -> bytes | None:
    """The learner's file with what the course has changed.

    Args:
        base: the stub that the learner began with.
        mine: the learner's file. Its line ends are kept.
        new: the stub of today.
        name: the file's name; Python has to compile after the merge if it did before.
        renamed: new ids of exercises by old ones.

    Returns:
        None if both have changed the same lines (a file that a program has emptied to write it has no line left), or without git.
    """
    if b"\r\n" in mine:
        base, new = (re.sub(rb"\r?\n", b"\r\n", text) for text in (base, new))
    base = _with_todos_of(new, base, mine, renamed or {})
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, part) for part in ("mine", "base", "new")]
        for file, text in zip(files, (mine, base, new), strict=True):
            file.write_bytes(text)
        try:
            done = subprocess.run(["git", "merge-file", "--stdout", *files], capture_output=True, cwd=folder)
        except FileNotFoundError:
            return None
    if done.returncode or (name.endswith(".py") and _compiles(mine) and not _compiles(done.stdout)):
        return None
    return done.stdout


def _with_todos_of(new: bytes, base: bytes, mine: bytes, renamed: Mapping[str, str]) -> bytes:
    """The base with the new stub's TODOs where the learner has written the answer: other words are no change of it."""
    words = {match[1].decode(): match[0] for match in _TODO.finditer(new)}

    def todo(match: re.Match[bytes]) -> bytes:
        id = match[1].decode()
        return match[0] if match[0] in mine else words.get(renamed.get(id, id), match[0])

    return _TODO.sub(todo, base)


def _compiles(text: bytes) -> bool:
    try:
        compile(text, "merged", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
