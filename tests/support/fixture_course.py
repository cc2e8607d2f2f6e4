"""A copy of the fixture course, and the command line of ``oplab`` on it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from tests.support import ROOT

COURSE = ROOT / "tests" / "support" / "course"
# What the learner wrote in the place of a text of the reference, one C++ exercise each.
LEARNERS = {"compiles": ("", ""), "broken": ("2 * in[i];", "2 * in[i]"), "overflows": ("i < n;", "i < (n << 24);")}


def copy_course(folder: Path) -> Path:
    """The fixture course in ``folder``; compiled operators, their sources and ORT's headers are the real ones."""
    shutil.copytree(COURSE, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("twice.cpp"))
    _add_cpp(folder)
    (folder / "build").mkdir()
    for part in ("csrc", "build/lib", "build/cache"):
        (folder / part).symlink_to(ROOT / part)
    return folder


def own_libraries(course: Path) -> Path:
    """Give a course its own folder of compiled operators, for files that an answer waits for: an isolated answer sees no other folder
    that a test can change.
    """
    folder = course / "build" / "lib"
    folder.unlink()
    folder.mkdir()
    for library in (ROOT / "build" / "lib").iterdir():
        (folder / library.name).symlink_to(library)
    return folder


def _add_cpp(folder: Path) -> None:
    """The C++ exercises share one solution, ``twice.cpp``; the learner's answers are edits of it."""
    template = (COURSE / "twice.cpp").read_text(encoding="utf-8")
    answer = re.sub(r"^ *// (?:ANSWER|END).*\n", "", template, flags=re.MULTILINE)
    for track in ("solutions", "exercises"):
        (folder / track / "csrc").mkdir()
    for name, (find, replacement) in LEARNERS.items():
        assert find in answer
        solution = template.replace("c01.NAME", f"c01.{name}")
        (folder / "solutions" / "csrc" / f"c01_{name}.cpp").write_text(solution, encoding="utf-8")
        wrote = answer.replace(find, replacement)
        (folder / "exercises" / "csrc" / f"c01_{name}.cpp").write_text(wrote, encoding="utf-8")


def command(course: Path, *args: str) -> tuple[list[str], dict[str, str]]:
    """The command line and the environment of ``oplab ARGS`` on a course."""
    env = {**os.environ, "OPLAB_ROOT": str(course), "COLUMNS": "200"}
    env.pop("OPLAB_TRACK", None)
    return [sys.executable, "-m", "oplab.cli", *args], env
