"""One warm server for several processes: who has it, who borrows it, and what happens when one of them ends."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from oplab.course.manifest import load
from oplab.grading import processes, shared
from oplab.grading.client import Server
from oplab.grading.grader import grade
from oplab.grading.shared import address
from tests.support.dask_lab import command_of
from tests.support.fixture_course import copy_course

HOST = """
import sys, time
from pathlib import Path
from oplab.course.manifest import load
from oplab.grading import shared
from oplab.grading.client import Server
shared._PATIENCE = 30.0
with Server.shared(load(Path(sys.argv[1])), host=True) as server:
    print(server.listen(), flush=True)
    for line in sys.stdin:
        pass
"""


_others: set[int] = set()


@pytest.fixture
def small(course):
    return load(course)


@pytest.fixture(autouse=True)
def patience(monkeypatch):
    """A host that answers late is asked all the same: who starts which server does not depend on how busy the machine is."""
    monkeypatch.setattr(shared, "_PATIENCE", 30.0)


@pytest.fixture(autouse=True)
def others():
    """Fork servers that tests of other modules have in this process."""
    _others.clear()
    _others.update(fork_servers(os.getpid()))


@contextlib.contextmanager
def hosting(course):
    """A host in its own process; ``stdin`` closed ends it."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOST, str(course.root)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "True\n"
        yield process
    finally:
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.wait(60)


@pytest.fixture
def host(small):
    with hosting(small) as process:
        yield process


@pytest.fixture(scope="module")
def common(tmp_path_factory):
    """A course and its host, for the tests that leave both as they are."""
    course = load(copy_course(tmp_path_factory.mktemp("common") / "course"))
    with hosting(course) as process:
        yield course, process


def write(course, text):
    (course.root / "exercises" / "c01_cases.py").write_text(textwrap.dedent(text))


def check(course, server, name="passes"):
    exercise = course.exercise(f"c01.{name}")
    return grade(course, [exercise], course.root / "exercises", server=server).exercises[0].status


def fork_servers(pid):
    """The process ids of the fork servers that ``pid`` has started, without those of other modules' tests."""
    found = []
    for child in set(processes.children(pid)) - _others:
        with contextlib.suppress(OSError), open(f"/proc/{child}/cmdline", "rb") as stream:
            if b"oplab.grading.fork_server" in stream.read():
                found.append(child)
    return found


def test_a_client_uses_the_hosts_server(common):
    small, host = common
    write(small, "def passes(x):\n    return 2 * x\n\n\ndef fails(x):\n    return 3 * x\n")
    with Server.shared(small) as client:
        assert not client.listen()
        assert check(small, client) == "passed"
        assert check(small, client, "fails") == "failed"
        assert len(fork_servers(host.pid)) == 1
        assert not fork_servers(os.getpid())
        assert client.warm
    with Server.shared(small, keep=True) as server:  # with a second client, which keeps evidence as well
        assert check(small, server, "fails") == "failed"
        assert (server.kept / "c01.fails" / "evidence.json").is_file()
        assert not fork_servers(os.getpid())
        write(small, "def fails(x):\n    return 2 * x\n")
        assert check(small, server, "fails") == "passed"
        assert not (server.kept / "c01.fails").exists(), "what was kept of the wrong answer stays"


def test_only_its_user_can_open_the_socket(small, host):
    place = address(small.root, "exercises.sock")
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    host.stdin.close()
    assert host.wait(60) == 0
    assert not place.exists()
    assert not address(small.root, "exercises.host").exists()


def test_a_folder_that_others_can_open_is_not_used(monkeypatch, tmp_path):
    loose = tmp_path / "loose"
    loose.mkdir()
    loose.chmod(0o755)
    monkeypatch.setattr(shared, "Path", lambda _: tmp_path)
    link = tmp_path / f".oplab-shared-{os.getuid()}"
    link.symlink_to(loose)
    assert shared.folder() is None
    link.unlink()
    loose.rename(link)
    assert shared.folder() is None
    link.chmod(0o700)
    assert shared.folder() == link
    link.rmdir()
    assert shared.folder() == link and stat.S_IMODE(link.stat().st_mode) == 0o700


def kill_with_server(host):
    """Kill a host, and wait for the end of its server: that notices it a moment later, and a client's job may still run there."""
    (server,) = fork_servers(host.pid)
    host.kill()
    host.wait(60)
    wait_for(lambda: not command_of(server))


@pytest.mark.nightly
def test_a_host_that_is_killed_leaves_clients_working(small, host):
    with Server.shared(small) as client:
        assert check(small, client) == "passed"
        kill_with_server(host)
        assert address(small.root, "exercises.sock").exists(), "a killed process cannot remove its socket"
        assert check(small, client) == "passed"  # on its own server
        assert len(fork_servers(os.getpid())) == 1
    with Server.shared(small, host=True) as second:  # the old socket is not in the way
        assert second.listen()
        with Server.shared(small) as client:
            assert check(small, client) == "passed"
            assert len(fork_servers(os.getpid())) == 1


@pytest.mark.nightly
def test_the_second_host_is_a_client_and_takes_over(small, host):
    with Server.shared(small, host=True) as second:
        assert not second.listen()
        assert check(small, second) == "passed"
        assert not fork_servers(os.getpid())
        kill_with_server(host)
        assert check(small, second) == "passed"
        assert len(fork_servers(os.getpid())) == 1
        assert second.listen()
        with Server.shared(small) as client:
            assert check(small, client) == "passed"
            assert len(fork_servers(os.getpid())) == 1


@pytest.mark.nightly
def test_a_job_that_was_lost_with_the_server_runs_again(small, host, tmp_path):
    killed = tmp_path / "killed"
    wait = f"    while not os.path.exists({str(killed)!r}):\n        time.sleep(0.01)\n"
    write(small, f"import os\nimport time\n\n\ndef passes(x):\n{wait}    return 2 * x\n")

    def kill():
        wait_for(lambda: len(processes.descendants(first)) == 2)  # supervisor and worker
        kill_family(first)
        killed.touch()

    with Server.shared(small) as client:
        client.start()
        (first,) = fork_servers(host.pid)
        killer = threading.Thread(target=kill)
        killer.start()
        assert check(small, client) == "passed"
        killer.join()
        assert killed.exists() and fork_servers(host.pid) not in ([], [first])


def test_a_client_that_is_killed_leaves_no_process(common):
    small, host = common
    write(small, "import time\n\n\ndef passes(x):\n    time.sleep(50)\n    return 2 * x\n")
    code = f"""
    from pathlib import Path
    from oplab.course.manifest import load
    from oplab.grading.grader import grade
    from oplab.grading.client import Server
    course = load(Path({str(small.root)!r}))
    server = Server.shared(course)
    server.start()
    print("begins", flush=True)
    grade(course, [course.exercise("c01.passes")], course.root / "exercises", server=server)
    """
    client = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE)
    client.stdout.readline()
    (server,) = fork_servers(host.pid)
    wait_for(lambda: len(processes.descendants(server)) == 2)  # supervisor and worker
    client.kill()
    client.wait()
    wait_for(lambda: not processes.descendants(server))


@pytest.mark.nightly
def test_other_sources_are_not_shared(small, host, monkeypatch):
    with Server.shared(small) as client:
        monkeypatch.setattr(shared, "_package", lambda: "other sources")
        assert check(small, client) == "passed"
        assert len(fork_servers(os.getpid())) == 1


@pytest.mark.skipif(not processes.LINUX, reason="only Linux tells who is at the other end of a socket")
def test_a_learners_code_gets_no_supervisor(common):
    """It would have neither limits nor a confinement there: the job names its folders."""
    small, _ = common
    attack = f"""
    import json, socket, subprocess, sys

    ASK = '''
    import json, socket, sys
    from oplab.grading import integrity, shared
    conn = socket.socket(socket.AF_UNIX)
    conn.connect({str(address(small.root, "exercises.sock"))!r})
    conn.sendall(shared._line(dict(package=shared._package(), python=sys.prefix)))
    print(conn.recv(1000).decode().strip())
    '''

    def passes(x):
        import textwrap
        asked = subprocess.run([sys.executable, "-c", textwrap.dedent(ASK)], capture_output=True, text=True)
        raise RuntimeError(asked.stdout + asked.stderr[-300:])
    """
    write(small, attack)
    with Server.shared(small) as client:
        exercise = small.exercise("c01.passes")
        outcome = grade(small, [exercise], small.root / "exercises", server=client).exercises[0]
    assert outcome.status == "error" and '{"heard": false}' in outcome.message, outcome.message


def kill_family(pid):
    for one in (pid, *processes.descendants(pid)):
        processes.kill(one)


def wait_for(true, seconds=60):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)
