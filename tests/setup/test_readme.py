"""The README is true: its commands exist and run, its table is the manifest's. (tests/lessons/test_links.py has its links.)"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from oplab.course.manifest import load
from tests.support import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = sorted(
    {
        line.split("#")[0].strip()
        for block in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
        for line in block.splitlines()
        if line.strip()
    }
)


def test_there_are_commands():
    assert "make lab" in COMMANDS and "make test" in COMMANDS


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("make ")])
def test_make_knows_the_target(command):
    done = subprocess.run(["make", "-n", *command.split()[1:]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("oplab ")])
def test_the_command_runs(command, tmp_path):
    """On a course with untouched stubs of its own, so that a learner's files and progress stay out of it."""
    from oplab.course.stubs import make_stub

    course = tmp_path / "course"
    course.mkdir()
    for part in ("course.toml", "oplab", "solutions", "csrc"):
        (course / part).symlink_to(ROOT / part)
    (course / "build").mkdir()
    for part in ("lib", "cache"):
        (course / "build" / part).symlink_to(ROOT / "build" / part)
    for exercise in load(ROOT).exercises:
        file = course / "exercises" / exercise.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(make_stub((ROOT / "solutions" / exercise.file).read_text(), exercise.file))
    env = {**os.environ, "OPLAB_ROOT": str(course)}
    env.pop("OPLAB_TRACK", None)
    done = subprocess.run(
        [sys.executable, "-m", "oplab.cli", *command.split()[1:]], env=env, capture_output=True, text=True, timeout=300
    )
    assert "Traceback" not in done.stderr
    expected = {"oplab check c04.asinh": 1, "oplab diff c04.asinh": 1}.get(command, 0)
    assert done.returncode == expected, done.stdout + done.stderr


def test_the_table_lists_the_chapters():
    rows = re.findall(r"^\| \[(\d\d|A\d) ([^\]]+)\]\(([^)]+)\)", README, re.MULTILINE)
    assert rows == [(chapter.stem[:2], chapter.title, chapter.notebook) for chapter in load(ROOT).chapters]


@pytest.mark.parametrize("page", DOCS, ids=lambda path: path.name)
def test_files_that_are_named_exist(page):
    """Every `path/with.ending` of the repository in backticks, unless it is made by use."""
    text = page.read_text(encoding="utf-8")
    for name in re.findall(
        r"`((?:oplab|tools|tests|docs|benchmarks|notebooks|csrc|solutions|exercises)/[\w/.-]+\.\w+)`", text
    ):
        if not re.search(r"05_|cNN|NAME|c12_", name):  # examples and patterns
            assert (ROOT / name).exists(), f"{page.name} names {name}"
