"""Progress survives two writers, and a kill at any moment."""

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
    assert (entry.status, entry.points, entry.passed_once) == ("failed", 0, True)


def test_a_killed_writer_leaves_a_readable_file(tmp_path):
    progress.record(tmp_path, outcome("passed", 2))
    for number in range(8):
        running = subprocess.Popen([sys.executable, "-c", COUNT, str(tmp_path)])
        try:
            running.wait(0.12 + number * 0.01)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()
        told = []
        assert progress.load(tmp_path, told.append).entry("c01.x").passed_once
        assert told == []
