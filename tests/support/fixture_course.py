"""A copy of the fixture course, and the command line of ``oplab`` on it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tests.support import ROOT


def copy_course(folder: Path) -> Path:
    """The fixture course in ``folder``; compiled operators, their sources and ORT's headers are the real ones."""
    shutil.copytree(ROOT / "tests" / "support" / "course", folder, dirs_exist_ok=True)
    (folder / "build").mkdir()
    for part in ("csrc", "build/lib", "build/cache"):
        (folder / part).symlink_to(ROOT / part)
    return folder


def command(course: Path, *args: str) -> tuple[list[str], dict[str, str]]:
    """The command line and the environment of ``oplab ARGS`` on a course."""
    env = {**os.environ, "OPLAB_ROOT": str(course), "OPLAB_TEST_PIDS": str(course / "pids"), "COLUMNS": "200"}
    env.pop("OPLAB_TRACK", None)
    return [sys.executable, "-m", "oplab.cli", *args], env
