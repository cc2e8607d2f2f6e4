"""The fixture course to work in, and the ``oplab`` command on it."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys

import pytest

from oplab.cli.__main__ import main
from oplab.course.manifest import load
from oplab.grading import client
from oplab.grading.client import Server
from tests.support.fixture_course import command, copy_course


@pytest.fixture
def course(tmp_path):
    return copy_course(tmp_path / "course")


@pytest.fixture(scope="session")
def host(tmp_path_factory):
    """A warm server for a course in a place that stays: a check in a terminal borrows it, as from JupyterLab."""
    course = load(copy_course(tmp_path_factory.mktemp("warm") / "course"))
    with Server.shared(course, host=True) as server:
        assert server.listen()
        server.start()
        yield course.root, server


@pytest.fixture
def warm_course(host):
    """The fixture course, fresh, in the place that ``host`` serves: a check does not have to start a server."""
    folder, _ = host
    shutil.rmtree(folder)
    return copy_course(folder)


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


@pytest.fixture
def call(course, monkeypatch, capsys):
    """Call ``oplab`` in this process, for what needs no grading: the exit code, and what it wrote to stdout and to stderr."""
    monkeypatch.setenv("OPLAB_ROOT", str(course))
    monkeypatch.chdir(course)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}

    def run(*args: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["oplab", *args])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)
