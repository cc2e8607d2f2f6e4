"""The fixture course to work in, and the ``oplab`` command on it."""

from __future__ import annotations

import subprocess

import pytest

from oplab.grading import client
from tests.support.fixture_course import command, copy_course


@pytest.fixture
def course(tmp_path):
    return copy_course(tmp_path / "course")


@pytest.fixture
def slow_start(tmp_path, monkeypatch):
    """A server that is started stays where it would load its libraries; the file that it makes there."""
    there = tmp_path / "loads"
    stays = f"import time; from oplab.grading import warm; warm.warm_up = lambda _: (open({str(there)!r}, 'x'), time.sleep(600))"
    monkeypatch.setattr(client, "_MAIN", client._MAIN.replace("\nmain()", f"\n{stays}\nmain()"))
    return there


@pytest.fixture
def oplab(course):
    """Run ``oplab`` on the course and return the finished process. No user's mistake may end in a traceback."""

    def run(*args: str, **options) -> subprocess.CompletedProcess:
        line, env = command(course, *args)
        env.update(options.pop("env", {}))
        done = subprocess.run(
            line, env=env, capture_output=True, text=True, timeout=300, cwd=options.pop("cwd", course)
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return done

    return run
