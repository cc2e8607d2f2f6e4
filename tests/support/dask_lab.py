"""A Dask cluster in separate processes with certificates, as a teacher starts one, and tasks for it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from oplab.classes import records, versions
from oplab.grading import processes
from tests.support import ROOT

SECONDS = 300.0  # that something may take to happen on a busy machine


def certificates(folder: Path) -> dict[str, Path]:
    """A new authority and one certificate for all, by role."""
    from distributed import Security

    made = Security.temporary()
    parts = {"ca": made.tls_ca_file, "cert": made.tls_client_cert, "key": made.tls_client_key}
    for name, text in parts.items():
        (folder / f"{name}.pem").write_text(text, encoding="ascii")
    return {name: folder / f"{name}.pem" for name in parts}


class Lab:
    """Processes of a cluster on the fixture course.

    Args:
        folder: for what they write.
        course: the course of the workers.
        keys: the certificates; without them the cluster speaks tcp.
    """

    def __init__(self, folder: Path, course: Path, keys: Mapping[str, Path] | None = None):
        self.folder, self.course, self.keys = folder, course, keys
        self.log = folder / "log.txt"
        self._started: list[subprocess.Popen] = []
        self.address = ""
        self.scheduler: subprocess.Popen | None = None

    def start_scheduler(self) -> str:
        file = self.folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file))
        wait(lambda: file.exists() and file.read_text().endswith("}"))
        self.address = json.loads(file.read_text())["address"]
        return self.address

    def start_worker(self, *, fake: bool = True, slots: int = 1, nanny: bool = True, **variables: str):
        """A worker; ``fake`` replaces the process that grades by :mod:`tests.support.fake_grader`."""
        options = ["--resources", f"slot={slots}"] if slots else []
        options += ["--preload", "tests.support.fake_grader"] if fake else []
        options += [] if nanny else ["--no-nanny"]
        place = ["--local-directory", str(self.folder), "--no-dashboard", "--memory-limit", "0"]
        return self._start("worker", self.address, "--nthreads", "1", *place, *options, **variables)

    def _start(self, what: str, *arguments: str, **variables: str) -> subprocess.Popen:
        tls = []
        for name, option in (("ca", "--tls-ca-file"), ("cert", "--tls-cert"), ("key", "--tls-key")):
            tls += [option, str(self.keys[name])] if self.keys else []
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--host", "127.0.0.1", *arguments, *tls]
        # Without OMP_NUM_THREADS, which `make test` sets: what Dask's nanny sets in its place is a test's subject.
        given = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        env = {**given, "OPLAB_ROOT": str(self.course), "PYTHONPATH": str(ROOT), "OPLAB_TEST_LOG": str(self.log)}
        with (self.folder / f"{what}.log").open("ab") as out:
            process = subprocess.Popen(command, env={**env, **variables}, stdout=out, stderr=out, cwd=self.folder)
        self._started.append(process)
        return process

    def workers(self) -> list[int]:
        """The process ids of the workers: what the nannies have started."""
        found = []
        for process in self._started:
            found += [pid for pid in processes.children(process.pid) if "spawn_main" in command_of(pid)]
        return found

    def runs(self) -> list[tuple[str, int]]:
        """Which keys were graded by which worker process, in order, as the fake grader wrote them when it began."""
        if not self.log.exists():
            return []
        return [(key, int(pid)) for key, pid in map(str.split, self.log.read_text().splitlines())]

    def close(self) -> None:
        for process in self._started:
            for pid in processes.descendants(process.pid):
                processes.kill(pid)
            process.kill()
            process.wait()


@contextlib.contextmanager
def lab(folder: Path, course: Path, keys: Mapping[str, Path] | None = None) -> Iterator[Lab]:
    made = Lab(folder, course, keys)
    try:
        made.start_scheduler()
        yield made
    finally:
        made.close()


def task(number: int, text: str = "", exercise: str = "c01.passes") -> dict:
    """A task as an engine takes it."""
    answer = records.sha256(f"{number} {text}")
    key = records.task_key(exercise, "grader", answer)
    known = {"grader": "grader", **versions.here()}
    return {"exercise": exercise, "key": key, "answer": answer, "text": text, "seed": 1, "versions": known}


def wait(condition, seconds: float = SECONDS) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "it did not happen"
        time.sleep(0.05)


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
