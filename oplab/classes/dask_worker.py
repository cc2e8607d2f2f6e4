"""What runs in a Dask worker: it hands tasks to processes that grade (:class:`oplab.classes.local.Grader`), and runs no learner's code.

Dask knows nothing of those processes. Its memory limit sees the worker alone, a worker that is killed leaves its children, and being
daemonic it may not use multiprocessing. So they are ordinary processes with the grader's own limits, which end when their standard input
does. The functions here are called by name: a worker needs oplab, and the course in its current folder or ``OPLAB_ROOT``.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from oplab.classes.engines import Plain
from oplab.classes.local import Closed, Grader
from oplab.classes.records import verdict_to_dict

SLOT = "slot"  # the resource of which each running task takes one
IDLE = 60.0  # seconds without a task, after which the processes of a command end: it may have been killed
PROBE_LIMIT = 120.0  # seconds for a fresh process to say what this machine has


class _Pool:
    """The processes that grade for one command: as many as its tasks run here at the same time."""

    def __init__(self, hidden: list[str]) -> None:
        self._hidden = [folder for folder in hidden if os.path.isdir(folder)]
        self._lock = threading.Lock()
        self._idle: list[Grader] = []
        self._all: list[Grader] = []
        self._used = time.monotonic()
        self._ended = False
        self.expired = False  # it ended because it was idle, and not because somebody asked for it
        threading.Thread(target=self._watch, daemon=True).start()

    def grade(self, task: Plain) -> dict[str, Any]:
        with self._lock:
            if self._ended:
                raise Closed
            grader = self._idle.pop() if self._idle else None
            if grader is None:
                grader = Grader(self._hidden, environment=environment())
                self._all.append(grader)
        try:
            return verdict_to_dict(grader.grade(task))
        finally:
            with self._lock:
                self._idle.append(grader)
                self._used = time.monotonic()

    def end(self) -> None:
        with self._lock:
            ending, self._all, self._idle, self._ended = self._all, [], [], True
        if ending:
            with ThreadPoolExecutor(len(ending)) as pool:
                list(pool.map(lambda grader: grader.close(), ending))

    def _watch(self) -> None:
        while not self._ended:
            time.sleep(IDLE / 6)
            with self._lock:  # no task comes between the look and the decision
                rests = 0 < len(self._all) == len(self._idle)  # without any, its first task is on the way
                if rests and time.monotonic() - self._used > IDLE:
                    self._ended = self.expired = True
        if self.expired:
            _forget(self)
            self.end()


_pools: dict[str, _Pool] = {}
_pools_lock = threading.Lock()


def run(task: Plain, command: str, hidden: list[str]) -> dict[str, Any] | None:
    """Grade a task.

    Args:
        task: what to grade.
        command: names the command that asks, for :func:`end`.
        hidden: folders that learners' code must not see, where they are on this machine, too.

    Returns:
        the verdict as plain values; None where :func:`end` was called meanwhile.
    """
    while True:
        with _pools_lock:
            if command not in _pools:
                _pools[command] = _Pool(hidden)
            pool = _pools[command]
        try:
            return pool.grade(task)
        except Closed:
            if not pool.expired:
                return None
            _forget(pool)  # it was idle for long and ended at this moment: the next one takes the task


async def end(command: str) -> None:
    """End the processes that grade for a command, and what they run, at once."""
    with _pools_lock:
        pool = _pools.pop(command, None)
    if pool is not None:
        await asyncio.to_thread(pool.end)


async def probe(exercises: Iterable[str]) -> dict[str, Any]:
    """What this worker's machine has to grade with, as :func:`oplab.classes.probe.probe`; or ``error``, why it cannot be said."""
    return await asyncio.to_thread(_probe, list(exercises))


def _probe(exercises: list[str]) -> dict[str, Any]:
    command = [sys.executable, "-P", "-m", "oplab.classes.probe", *exercises]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PROBE_LIMIT, env={**environment(), "PYTHONPATH": _path()}
        )
        return json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"error": f"its machine did not say within {PROBE_LIMIT:.0f} s what it has"}
    except (OSError, ValueError, IndexError):
        last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        return {"error": f"oplab does not start on its machine: {last}"}


def environment() -> dict[str, str]:
    """This process's variables without those that Dask's nanny has added, such as OMP_NUM_THREADS=1: `--jobs` grades without them."""
    import dask.config

    added = dask.config.get("distributed.nanny.pre-spawn-environ", None) or {}
    return {name: value for name, value in os.environ.items() if name not in added or str(added[name]) != value}


def dask_setup(worker: Any) -> None:
    """Dask calls this in a worker that preloads this module. Ctrl-C in a terminal reaches it too, but is the command's business."""
    signal.signal(signal.SIGINT, lambda number, frame: None)  # not SIG_IGN, which its children would inherit
    signal.pthread_sigmask(
        signal.SIG_UNBLOCK, {signal.SIGINT}
    )  # blocked since its start, as it would be in its children


def _path() -> str:
    """The folders of this process's modules, so that a fresh one finds the same."""
    return os.pathsep.join(part for part in sys.path if part)


def _forget(pool: _Pool) -> None:
    with _pools_lock:
        for command in [name for name, known in _pools.items() if known is pool]:
            del _pools[command]
