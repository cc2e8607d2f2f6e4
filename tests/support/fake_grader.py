"""A Dask worker that preloads this grades nothing: its tasks say what happens to it. For tests of what is sent where."""

from __future__ import annotations

import os
import platform
import signal
import time
from datetime import UTC, datetime
from pathlib import Path

from oplab.classes import dask_worker
from oplab.classes.records import Verdict
from oplab.grading.results import Outcome


class FakeGrader:
    """In the place of :class:`oplab.classes.local.Grader`; a task's text is ``sleep SECONDS``, ``wait FILE``, ``kill`` or empty.

    Of the tasks that wait for a file the first is done at once.
    """

    def __init__(self, hidden, environment):
        self.environment = environment

    def grade(self, task):
        with Path(os.environ["OPLAB_TEST_LOG"]).open("a") as log:
            log.write(f"{task['key']} {os.getpid()}\n")
        word, _, rest = task["text"].partition(" ")
        if word == "sleep":
            time.sleep(float(rest))
        elif word == "wait" and not self._first(Path(f"{rest}.first")):
            while not Path(rest).exists():
                time.sleep(0.02)
        elif word == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        chapter, _, _ = task["exercise"].partition(".")
        threads = self.environment.get("OMP_NUM_THREADS", "not set")
        outcome = Outcome(task["exercise"], chapter, "passed", 1, 1, 0.0, f"OMP_NUM_THREADS {threads}")
        name, now = platform.node(), datetime.now(UTC)
        return Verdict(
            task["key"], task["exercise"], outcome, task["seed"], task["versions"], task["answer"], 0.0, name, now
        )

    def _first(self, mark: Path) -> bool:
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True

    def close(self):
        with Path(os.environ["OPLAB_TEST_LOG"]).open("a") as log:
            log.write(f"closed {os.getpid()}\n")


def dask_setup(worker) -> None:
    dask_worker.Grader = FakeGrader
