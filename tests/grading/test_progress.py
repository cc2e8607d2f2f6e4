"""Progress survives two writers, and a file that is broken. test_nothing_lost.py has what kills and full disks do to it."""

from __future__ import annotations

import subprocess
import sys

from oplab.grading import progress
from oplab.grading.results import Outcome, Results

COUNT = """
import sys
from pathlib import Path
from oplab.grading import progress
for _ in range(60):
    with progress.update(Path(sys.argv[1])) as data:
        data.exercises.setdefault("c01.x", progress.Entry()).hints += 1
"""


def outcome(status, points=0):
    return Results((Outcome("c01.x", "01_x", status, points, 2, 0.1),), seed=1)


def test_two_writers_lose_nothing(tmp_path):
    running = [subprocess.Popen([sys.executable, "-c", COUNT, str(tmp_path)]) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert progress.load(tmp_path).entry("c01.x").hints == 180


def test_a_pass_is_remembered_also_after_a_later_failure(tmp_path):
    for step in (outcome("passed", 2), outcome("failed"), outcome("grader_error")):
        progress.record(tmp_path, step)
    entry = progress.load(tmp_path).entry("c01.x")
    assert (entry.status, entry.points, entry.passed_once) == ("failed", 2, True)
    assert entry.look == ("✓", "passed earlier, does not pass now")
    progress.forget(tmp_path, ["c01.x"])
    entry = progress.load(tmp_path).entry("c01.x")
    assert (entry.look, entry.points, entry.passed_once) == (("○", "to do"), 0, True), "a reset starts again"


def test_a_shown_reference_halves_the_points(tmp_path):
    with progress.update(tmp_path) as data:
        data.exercises["c01.x"] = progress.Entry(shown=True)
    progress.record(tmp_path, outcome("passed", 3))
    progress.forget(tmp_path, ["c01.x"])
    progress.record(tmp_path, outcome("passed", 3))
    entry = progress.load(tmp_path).entry("c01.x")
    assert (entry.points, entry.look) == (2, ("✓", "passed, counts half"))


def test_a_broken_file_is_set_aside(tmp_path):
    for content in ("{", "[]", '{"version": 99, "exercises": {}}', "", '{"version": 1, "exercises": {"c01.x": 3}}'):
        (tmp_path / "progress.json").write_text(content)
        told = []
        assert progress.load(tmp_path, told.append).exercises == {}
        assert "It was set aside as build/progress.broken-" in told[0]
        (aside,) = tmp_path.glob("progress.broken-*.json")
        assert aside.read_text() == content
        aside.unlink()
