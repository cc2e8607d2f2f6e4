"""The course as a learner has it after cloning: stubs, no progress. The library, the lessons' sources and the operators are ROOT's."""

from __future__ import annotations

import shutil
from pathlib import Path

from oplab.course.manifest import load
from oplab.course.stubs import make_stub
from tests.support import ROOT

HEADERS = "build/cache/ort-headers"


def learner_course(folder: Path) -> Path:
    """Fill a folder; what is not written to is a link."""
    (folder / "build" / "cache").mkdir(parents=True)
    parts = ["course.toml", "oplab", "solutions", "csrc", "build/lib"]
    if (ROOT / HEADERS).is_dir():  # where the set-up has found no others
        parts.append(HEADERS)
    for part in parts:
        (folder / part).symlink_to(ROOT / part)
    shutil.copytree(ROOT / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns("src", ".*"))
    write_stubs(folder)
    return folder


def write_stubs(folder: Path) -> None:
    """``exercises/`` in a folder, as a fresh clone has it."""
    for file in {exercise.file for exercise in load(ROOT).exercises}:
        stub = folder / "exercises" / file
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.write_text(make_stub((ROOT / "solutions" / file).read_text(), file))
