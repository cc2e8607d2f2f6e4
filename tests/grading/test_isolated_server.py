"""An isolated server that outlives the thread in which it was first needed."""

from __future__ import annotations

import pytest

from oplab import paths
from oplab.course.manifest import load
from oplab.grading.client import Server
from oplab.grading.grader import grade
from oplab.grading.isolation import detect


@pytest.mark.nightly
def test_it_lives_on_between_runs():
    """bubblewrap's ``--die-with-parent`` is about the thread that started it, and each run grades in threads of its own."""
    root = paths.root()
    course, isolation = load(root), detect(root, root / "solutions")
    if not isolation.bubblewrap:
        pytest.skip("this machine offers no bubblewrap")
    with Server(isolation=isolation) as server:
        started = set()
        for _ in range(4):
            results = grade(course, [course.exercise("c04.asinh")], root / "solutions", server=server)
            assert results.exercises[0].passed, results.exercises[0].message
            started.add(server._process.pid)
    assert len(started) == 1
