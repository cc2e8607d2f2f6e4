"""A small course in several releases, and a folder to which one was delivered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from oplab import paths
from oplab.updates import delivery
from oplab.updates import update as updates

Release = dict[str, bytes]
PY = "exercises/c05_symbolic.py"
MANIFEST = b"""title = "T"
[[chapter]]
stem = "05_symbolic"
title = "Symbolic"
minutes = 5
[[chapter.exercise]]
name = "clip"
goal = "write clip"
points = 1
difficulty = 1
minutes = 1
hints = ["a", "b"]
[[chapter.exercise]]
name = "log"
goal = "write log"
points = 1
difficulty = 1
minutes = 1
hints = ["a", "b"]
[[chapter.exercise]]
name = "shift"
kind = "cpp"
goal = "write shift"
points = 1
difficulty = 1
minutes = 1
hints = ["a", "b"]
"""
CPP = b'int shift(int);\n\n// TODO c05.shift: write shift\n#error "c05.shift is not written yet"\n'
STUB = '''"""Chapter 05."""

from oplab import todo

LIMIT = 6


def clip(x):
    """{clip}"""

    # TODO c05.clip: write clip
    raise todo("c05.clip")


def log(x):
    """{log}"""

    # TODO c05.log: write log
    raise todo("c05.log")
'''


def notebook(text: str) -> bytes:
    """A lesson."""
    cells = [{"cell_type": "markdown", "id": "a", "metadata": {}, "source": [text]}]
    return (json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n").encode()


LESSON = notebook("first edition")


def release(clip: str = "Clip x.", log: str = "The logarithm.", lesson: str = "first edition") -> Release:
    """The files of a release, which differs in a docstring or in the lesson."""
    return {
        "course.toml": MANIFEST,
        "docs/page.md": b"# page\n",
        "exercises/c05_symbolic.py": STUB.format(clip=clip, log=log).encode(),
        "exercises/csrc/c05_shift.cpp": CPP,
        "exercises/c06_more.py": STUB.format(clip="More.", log="More.").replace("c05", "c06").encode(),
        "notebooks/05_symbolic.ipynb": notebook(lesson),
    }


def write(root: Path, files: Release) -> None:
    """Write files below a folder."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text)


def deliver(root: Path, files: Release, number: str = "0.2.0") -> Path:
    """A folder as ``oplab init`` makes it."""
    write(root, files)
    stubs = {
        f"{delivery.STUBS}/{name.removeprefix('exercises/')}": text
        for name, text in files.items()
        if name.startswith("exercises/")
    }
    write(root, stubs | {paths.DELIVERED: delivery.record(number, files).encode()})
    return root


def everything(root: Path) -> Release:
    """All files below a folder, links as their targets."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(root).parts
    }


def visible(root: Path) -> Release:
    """The files of the course and of the learner: without build/, work/ and .oplab/."""
    return {
        name: text for name, text in everything(root).items() if not name.startswith(("build/", "work/", ".oplab/"))
    }


def update(root: Path, new: Release, number: str = "0.3.0", **options) -> updates.Done:
    """An update where this release is installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delivery, "release", lambda: number)
        patch.setattr(delivery, "files", lambda: new)
        return updates.update(root, **options)


def edit(root: Path, path: str, old: str, new: str) -> bytes:
    text = (root / path).read_text()
    assert old in text
    (root / path).write_text(text.replace(old, new))
    return (root / path).read_bytes()


def answer(root: Path) -> bytes:
    """The learner writes c05.clip."""
    return edit(root, PY, '    # TODO c05.clip: write clip\n    raise todo("c05.clip")', "    return min(x, 6)")


def backups(root: Path) -> dict[str, bytes]:
    folder = root / "build" / "backup"
    return {
        "/".join(path.relative_to(folder).parts[1:]): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def renamed_release(
    table: str = '"c05.clip" = "c05.limit"\n"c05.limit" = "c05.bound"\n"c05.shift" = "c05.move"\n',
) -> Release:
    new = release()
    new["course.toml"] = f"[renamed]\n{table}\n".encode() + MANIFEST.replace(b'"clip"', b'"bound"').replace(
        b'"shift"', b'"move"'
    )
    new["course.toml"] = (
        new["course.toml"].replace(b"[renamed]", b'title = "T"\n[renamed]').replace(b'title = "T"\n[[', b"[[")
    )
    new[PY] = new[PY].replace(b"def clip", b"def bound").replace(b"c05.clip", b"c05.bound")
    new["exercises/csrc/c05_move.cpp"] = new.pop("exercises/csrc/c05_shift.cpp").replace(b"c05.shift", b"c05.move")
    return new
