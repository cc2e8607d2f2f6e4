"""A copy of the fixture course to work in, and the ``oplab`` command on it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def copy_course(folder: Path) -> Path:
    """The fixture course in ``folder``; compiled operators, their sources and ORT's headers are the real ones."""
    shutil.copytree(ROOT / "tests" / "fixtures" / "course", folder, dirs_exist_ok=True)
    (folder / "build").mkdir()
    for part in ("csrc", "build/lib", "build/cache"):
        (folder / part).symlink_to(ROOT / part)
    return folder


def command(course: Path, *args: str) -> tuple[list[str], dict[str, str]]:
    """The command line and the environment of ``oplab ARGS`` on a course."""
    env = {**os.environ, "OPLAB_ROOT": str(course), "OPLAB_TEST_PIDS": str(course / "pids"), "COLUMNS": "200"}
    env.pop("OPLAB_TRACK", None)
    return [sys.executable, "-m", "oplab.cli", *args], env


@pytest.fixture
def course(tmp_path):
    return copy_course(tmp_path / "course")


@pytest.fixture
def oplab(course):
    """Run ``oplab`` on the course and return the finished process. No user's mistake may end in a traceback."""

    def run(*args: str, **options) -> subprocess.CompletedProcess:
        line, env = command(course, *args)
        env.update(options.pop("env", {}))
        done = subprocess.run(
            line, env=env, capture_output=True, text=True, timeout=120, cwd=options.pop("cwd", course)
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return done

    return run
