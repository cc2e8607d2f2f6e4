"""What a Dask worker grades with: processes of their own (:class:`oplab.classes.local.Grader`). It runs no learner's code itself.

A worker is daemonic, so it may not use multiprocessing, and its death leaves its children. The processes here are ordinary ones, with the
grader's own limits, and end when their standard input does.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import dask.config
from distributed import SchedulerPlugin, WorkerPlugin, get_worker

from oplab import paths
from oplab.classes import versions
from oplab.classes.engines import Plain
from oplab.classes.local import Grader
from oplab.classes.records import Verdict, sha256
from oplab.course.manifest import load
from oplab.errors import OplabError

SLOT = "slot"  # the resource of which each running task takes one
_HERE = "import sys; sys.path.append({package!r}); from oplab.classes.dask_worker import main; main()"
_LIMIT = 120.0  # seconds for a fresh process to tell its versions


def grade(task: Plain, name: str) -> Verdict:
    """Grade a task in a worker that has the plugin ``name``."""
    return get_worker().plugins[name].grade(task)


class Graders(WorkerPlugin):
    """The processes that grade for one command in a worker, one for each of its threads; each starts with its first task.

    Args:
        name: of the plugin: the command's.
        hidden: folders that learners' code must not see, where the worker's machine has them, too.
        needed: what :func:`here` has to be in the worker.
    """

    def __init__(self, name: str, hidden: Sequence[str], needed: Mapping[str, str]):
        self.name, self._hidden, self._needed = name, hidden, needed
        self._all: list[Grader] = []
        self._refused: OplabError | None = None

    async def setup(self, worker: Any) -> None:
        """Dask calls this in each worker, and in one that joins later before its first task."""
        # Ctrl-C in a terminal reaches local workers too, but is the command's business. Not SIG_IGN, which their children would
        # inherit, as they would the mask of oplab.classes.dask_engine.
        signal.signal(signal.SIGINT, lambda number, frame: None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        added = dask.config.get("distributed.nanny.pre-spawn-environ", None) or {}
        environment = {name: value for name, value in os.environ.items() if value != str(added.get(name))}
        try:
            await asyncio.to_thread(self._compare, worker.address, environment)
        except OplabError as error:
            self._refused = error
            raise
        hidden = [folder for folder in self._hidden if os.path.isdir(folder)]
        self._all = [Grader(hidden, environment=environment) for _ in range(worker.state.nthreads)]
        self._idle: queue.SimpleQueue[Grader] = queue.SimpleQueue()
        for grader in self._all:
            self._idle.put(grader)

    def _compare(self, address: str, environment: Mapping[str, str]) -> None:
        """Refuse other versions. This process may be older than the course's files, so a fresh one reads them."""
        package = str(Path(__file__).resolve().parents[2])
        command = [sys.executable, "-P", "-c", _HERE.format(package=package)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT, env=environment)
            found = json.loads(done.stdout.splitlines()[-1])
        except subprocess.TimeoutExpired:
            raise OplabError(
                f"The machine of the worker {address} did not report its versions within {_LIMIT:.0f} s."
            ) from None
        except (ValueError, IndexError):
            last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
            raise OplabError(f"oplab does not start in the worker {address}: {last}") from None
        if other := [name for name, version in self._needed.items() if found.get(name) != version]:
            both = ", ".join(f"{name} {found.get(name)} instead of {self._needed[name]}" for name in other)
            raise OplabError(
                f"The worker {address} has other versions than this machine, so its grades could differ: {both}.",
                "Install the same packages and the same course on all machines (`course` is a digest of its checks).",
            )

    def grade(self, task: Plain) -> Verdict:
        """Grade a task, in one of the worker's threads."""
        if self._refused:
            raise self._refused
        grader = self._idle.get()
        try:
            return grader.grade(task)
        finally:
            self._idle.put(grader)

    async def teardown(self, worker: Any) -> None:
        """End the processes and what they run, at once."""
        await asyncio.gather(*(asyncio.to_thread(grader.close) for grader in self._all))


class Leaving(SchedulerPlugin):
    """Ends the processes of a command that was killed: its client is gone, and the scheduler is not."""

    def __init__(self, client: str, name: str):
        self.client, self.name = client, f"{name}-leaving"
        self._graders = name

    def remove_client(self, scheduler: Any, client: str) -> None:
        """Dask calls this in the scheduler for each client that leaves."""
        if client == self.client:
            del scheduler.plugins[self.name]
        if client == self.client and self._graders in scheduler.worker_plugins:
            scheduler.loop.add_callback(scheduler.unregister_worker_plugin, None, name=self._graders)


def here() -> dict[str, str]:
    """The versions that have to be the same on all machines; ``course`` is a digest of the checks."""
    course = load(paths.root())
    checks = sha256("".join(versions.grader_version(course, exercise) for exercise in course.exercises))
    packages = {name: metadata.version(name) for name in ("dask", "distributed")}  # both ends speak one protocol
    return {"course": checks[:12], **versions.here(), **packages}


def main() -> None:
    """Print :func:`here`."""
    try:
        print(json.dumps(here()))
    except OplabError as error:
        sys.exit(error.message)
