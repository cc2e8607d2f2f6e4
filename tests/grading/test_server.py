"""The fork server: what its workers see, and what follows when something kills it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from oplab.course.manifest import Limits
from oplab.grading import client, processes
from oplab.grading.client import Server
from oplab.grading.protocol import Job
from tests.support import ROOT, run_python


def job(folder: Path, killed: int = 0, before: str = "pass") -> Job:
    """A collect half that notes its supervisor at each of its starts, and waits at the first ``killed`` of them to be killed.

    Args:
        before: a statement that it runs before it waits.
    """
    (folder / "evidence").mkdir()
    (folder / "scratch").mkdir()
    source = (
        "import os, time\n"
        "def collect_x(c):\n"
        "    open('started', 'a').write(f'{os.getppid()}\\n')\n"
        f"    {before}\n"
        f"    if open('started').read().count('\\n') <= {killed}:\n"
        "        time.sleep(600)\n"
        "    c.value('y', 1)\n"
    )
    return Job(
        half="collect",
        id="c01.x",
        name="x",
        checks=folder / "checks.py",
        source=source,
        file=folder / "x.py",
        text="",
        library=None,
        evidence=folder / "evidence",
        scratch=folder / "scratch",
        seed=1,
        limits=Limits(),
    )


def test_a_worker_sees_no_gpu(tmp_path, monkeypatch):
    """With one, the exporter starts CUDA in the server, and right answers fail: "Cannot re-initialize CUDA in forked subprocess"."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    source = (
        "import os, torch\n"
        "def collect_x(c):\n"
        "    seen = os.environ['CUDA_VISIBLE_DEVICES'], torch.cuda.device_count()\n"
        "    open('seen', 'w').write(str(seen))\n"
    )
    task = replace(job(tmp_path), source=source)
    with Server() as server:
        assert server.run(task).report is not None
    assert (task.scratch / "seen").read_text() == "('', 0)"


def kill_noted(there: Path, times: int = 1, server: Server | None = None) -> threading.Thread:
    """Kill the process that a job's last line in ``there`` names, and ``server``, at each of so many of its starts."""

    def watch() -> None:
        for number in range(times):
            while not there.exists() or there.read_text().count("\n") <= number:
                time.sleep(0.01)
            if server is not None:  # first: without a supervisor alone it goes on
                os.kill(server._process.pid, signal.SIGKILL)
            os.kill(int(there.read_text().splitlines()[-1]), signal.SIGKILL)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


@pytest.mark.nightly
def test_a_job_whose_server_is_killed_runs_once_more_on_a_new_one(tmp_path):
    with Server() as server:
        server.start()
        task = job(tmp_path, killed=1)
        thread = kill_noted(task.scratch / "started", server=server)
        answer = server.run(task)
        thread.join(60)
    assert answer.report is not None and answer.report.outcome == "collected"
    assert (task.scratch / "started").read_text().count("\n") == 2


@pytest.mark.parametrize(
    ("victim", "times"),
    [
        pytest.param("os.getpid()", 1, id="worker, once"),
        pytest.param("os.getppid()", 1, id="supervisor, once", marks=pytest.mark.nightly),
        pytest.param("os.getpid()", client.ATTEMPTS, id="worker, each time", marks=pytest.mark.nightly),
        pytest.param("os.getppid()", client.ATTEMPTS, id="supervisor, each time", marks=pytest.mark.nightly),
    ],
)
def test_a_job_that_is_killed_from_outside_runs_again(victim, times, tmp_path):
    """As a system does that is out of memory: an answer that is right passes then, and one that kills itself does so each time."""
    task = job(tmp_path, times, before="open('victims', 'a').write(f'{" + victim + "}\\n')")
    thread = kill_noted(task.scratch / "victims", times)
    with Server() as server:
        answer = server.run(task)
        thread.join(60)
    attempts = (task.scratch / "started").read_text().count("\n")
    if times == 1:
        assert answer.report is not None and answer.report.outcome == "collected" and attempts == 2
    else:
        assert (answer.lost or answer.signal == "SIGKILL") and attempts == client.ATTEMPTS


def test_a_server_that_starts_is_not_waited_for_when_it_is_closed(slow_start):
    server = Server()
    failures = []

    def start() -> None:
        try:
            server.start()
        except RuntimeError as error:
            failures.append(str(error))

    thread = threading.Thread(target=start)
    thread.start()
    while not slow_start.exists():
        time.sleep(0.01)
    process = server._process
    server.close()
    thread.join(60)
    assert failures == ["the grading server is closed"]
    assert process.returncode == -signal.SIGKILL


@pytest.mark.skipif(not processes.LINUX, reason="only Linux tells a process that its parent has ended")
def test_a_server_that_starts_ends_with_its_client(slow_start):
    """It would go on for seconds, and make PyTorch's folder for compiled graphs where the next run has just removed it."""
    program = f"from oplab.grading import client; client._MAIN = {client._MAIN!r}; client.Server().start()"
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) as killed:
        while not slow_start.exists():
            time.sleep(0.01)
        (starting,) = processes.descendants(killed.pid)
        os.kill(starting, signal.SIGSTOP)  # it cannot end by itself
        killed.kill()
    try:
        limit = time.monotonic() + 60
        while Path(f"/proc/{starting}").exists() and _state(starting) != "Z":
            assert time.monotonic() < limit, "the server still waits to go on"
            time.sleep(0.01)
    finally:
        processes.kill(starting)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return "Z"


SLOW = """if True:
    import os, socket, sys, time
    from dataclasses import replace
    from pathlib import Path
    from oplab.course.manifest import Limits
    from oplab.grading import processes, protocol, supervisor
    from oplab.grading.protocol import Job, Report

    processes.adopt_orphans()
    ended = processes.kill_descendants
    def late(*arguments):
        time.sleep(0.5)
        return ended(*arguments)
    processes.kill_descendants = late
    here = Path(sys.argv[1])
    job = Job("judge", "c01.x", "x", here, "", here, None, None, here, here, 1, Limits())
    out, report = os.pipe(), os.pipe()
    mine, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        if "holds" in sys.argv and os.fork() == 0:  # it has the pipes open when the worker has ended
            os.close(1)
            os.close(2)
            time.sleep(600)
        os.write(out[1], b"said")
        os.write(report[1], protocol.encode(Report("judged", "x" * 7000)) * 8)
        os._exit(0)
    os.close(out[1])
    os.close(report[1])
    if "busy" in sys.argv:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    answer = supervisor._watch(pid, mine, out[0], report[0], job, time.monotonic())
    print(answer.exit, answer.output, answer.report and answer.report.outcome)
"""


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["busy", "holds", "busy holds"])
def test_what_a_worker_has_written_is_read_however_late(how, tmp_path):
    """On a busy machine the supervisor noticed a worker's end, was slow to end its descendants, and then no longer read its report."""
    done = run_python(SLOW, tmp_path, *how.split())
    assert (done.returncode, done.stdout) == (0, "0 said judged\n"), done.stderr
