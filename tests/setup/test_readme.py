"""The README and the pages that it leads to are true: their commands exist and run, the table has the manifest's chapters and hours, the
version is the same everywhere. (tests/lessons/test_links.py has their links.)"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib

import pytest
import yaml

from oplab.authoring import making
from oplab.course.manifest import load
from tests.support import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
WITH_COMMANDS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "docs/learning.md")]
DOCS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
COMMANDS = sorted(
    {
        line.split("#")[0].strip()
        for page in WITH_COMMANDS
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
        for line in block.splitlines()
        if line.strip()
    }
)


def test_make_knows_the_targets():
    for command in COMMANDS:
        if command.startswith("make "):
            done = subprocess.run(["make", "-n", *command.split()[1:]], cwd=ROOT, capture_output=True, text=True)
            assert done.returncode == 0, f"{command}: {done.stderr}"


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("oplab ")])
def test_the_command_runs(command, tmp_path):
    """On a course with untouched stubs of its own, so that a learner's files and progress stay out of it."""
    from oplab.course.stubs import make_stub

    course = tmp_path / "course"
    course.mkdir()
    for part in ("course.toml", "oplab", "solutions", "csrc", "notebooks"):
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
    course = load(ROOT)
    row = r"^\| \[(\d\d|A\d) ([^\]]+)\]\(([^)]+)\) \|.+\| \S+ \| \S+ \|$"
    rows = re.findall(row, README, re.MULTILINE)
    assert rows == [(each.stem[:2], each.title, each.notebook) for each in course.chapters]
    for path, text in making.timed(course).items():
        assert path.read_text(encoding="utf-8") == text, "`oplab author c05`, with any chapter, writes the hours"


def test_the_version_and_the_licence_are_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)  # what the format requires
    assert citation["cff-version"] == "1.2.0" and citation["license"] == ["Apache-2.0"]
    assert project["license"] == "Apache-2.0 AND CC-BY-4.0"  # a list in the citation would mean "or"
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[(\d\S*)\] - (\d{4}-\d\d-\d\d)$", changes, re.MULTILINE)
    assert versions[0] == (project["version"], str(citation["date-released"]))
    assert citation["version"] == project["version"]


def test_files_that_are_named_exist():
    """Every `path/with.ending` of the repository in backticks, unless it is made by use."""
    file = r"`((?:oplab|tools|tests|docs|benchmarks|notebooks|csrc|solutions|exercises)/[\w/.-]+\.\w+)`"
    named = {(page.name, name) for page in DOCS for name in re.findall(file, page.read_text(encoding="utf-8"))}
    examples = re.compile(r"05_|20_|cNN|NAME|c12_")
    assert not [pair for pair in sorted(named) if not examples.search(pair[1]) and not (ROOT / pair[1]).exists()]
