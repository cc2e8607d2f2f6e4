"""Pictures of the ONNX models that did not pass, for the reports.

A learner's model is not trusted: it is opened in a separate process with limits (:mod:`oplab.reports.draw`), never in the one
that prints the grades. A model that cannot be drawn has no picture; nothing else changes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from oplab.checks.evidence import MAX_FILE, MAX_JSON
from oplab.grading.client import Server
from oplab.grading.protocol import Answer, Job
from oplab.grading.results import Graph, Outcome, Results
from oplab.grading.scratch import scratch_folder

PER_EXERCISE = 2  # pictures: the model of the first failed check, and one more
MAX_SVG = 400_000  # characters; a larger drawing is unreadable on a page
TIME_LIMIT = 30.0  # seconds for all pictures of one run
# With -I and -S nothing of the current folder, of the environment or of a .pth file is imported: only what is in these folders.
_MAIN = "import sys; sys.path.extend({path!r}); from oplab.reports.draw import main; main()"


class Keeper(Server):
    """A grading server that keeps the evidence of what the judge rejected, until the end of its ``with`` block.

    Attributes:
        kept: a folder with one folder of evidence for each exercise that was rejected.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self._folders = ExitStack()
        self.kept = self._folders.enter_context(scratch_folder())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._folders.close()

    def run(self, job: Job) -> Answer:
        """As :meth:`Server.run`. Afterwards the evidence is kept if its judge did not find all checks passed."""
        answer = super().run(job)
        if job.half == "judge":
            checks = answer.report.checks if answer.report is not None else ()
            if not checks or not all(check.passed for check in checks):
                keep(job.evidence, self.kept / job.id)
        return answer


def keep(evidence: Path, folder: Path) -> None:
    """Copy the evidence of one exercise, as far as it is plain files of at most MAX_FILE bytes together.

    Args:
        evidence: the folder of the evidence.
        folder: the copy; what an earlier run left there is removed.
    """
    try:
        items = evidence / "evidence.json"
        if items.is_symlink() or not items.is_file() or items.stat().st_size > MAX_JSON:
            return
        shutil.rmtree(folder, ignore_errors=True)  # an exercise may be graded twice
        folder.mkdir(parents=True)
        shutil.copyfile(items, folder / items.name)
        room = MAX_FILE
        for file in sorted(evidence.glob("f*.bin")):
            if file.is_symlink() or not file.is_file():
                continue
            room -= file.stat().st_size
            if room < 0:
                return
            shutil.copyfile(file, folder / file.name)
    except OSError:  # a full disk: the page has one picture less
        shutil.rmtree(folder, ignore_errors=True)


def with_graphs(results: Results, kept: Path) -> Results:
    """The same results, with pictures of the models that did not pass.

    Args:
        results: of a run with a :class:`Keeper`.
        kept: :attr:`Keeper.kept`.
    """
    wanted = {
        outcome.id: [outcome.message, *(check.message for check in outcome.checks if not check.passed)]
        for outcome in results.exercises
        if not outcome.passed and (kept / outcome.id).is_dir()
    }
    drawn = draw(wanted, kept) if wanted else {}
    return replace(results, exercises=tuple(_with(outcome, drawn) for outcome in results.exercises))


def _with(outcome: Outcome, drawn: Mapping[str, list[Graph]]) -> Outcome:
    return replace(outcome, graphs=tuple(drawn[outcome.id])) if outcome.id in drawn else outcome


def draw(wanted: Mapping[str, list[str]], kept: Path) -> dict[str, list[Graph]]:
    """The pictures by exercise, at most PER_EXERCISE of each.

    Args:
        wanted: exercise to the messages about it: a model that one of them names comes first.
        kept: :attr:`Keeper.kept`.
    """
    drawn: dict[str, list[Graph]] = {}
    waiting = dict(wanted)
    deadline = time.monotonic() + TIME_LIMIT
    while waiting and (remaining := deadline - time.monotonic()) > 0:
        tried: set[str] = set()
        for line in _child(waiting, kept, remaining).splitlines():
            try:
                entry = json.loads(line)
                tried.add(entry["id"])
                svg = entry.get("svg")
                if entry["id"] in waiting and type(svg) is str and len(svg) <= MAX_SVG:
                    graphs = drawn.setdefault(entry["id"], [])
                    if len(graphs) < PER_EXERCISE:
                        graphs.append(Graph(str(entry["name"])[:200], svg))
            except (ValueError, KeyError, TypeError):
                continue  # a line that was cut off
        # Either all are done, or the last one that was tried has crashed the process: it is not tried again.
        left = {id: messages for id, messages in waiting.items() if id not in tried}
        if len(left) == len(waiting):
            break
        waiting = left
    return drawn


def _child(wanted: Mapping[str, list[str]], kept: Path, timeout: float) -> str:
    job = json.dumps({"folder": str(kept), "exercises": wanted, "each": PER_EXERCISE})
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-B", "-c", _MAIN.format(path=[entry for entry in sys.path if entry])],
            input=job,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=timeout,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            cwd="/",
        )
        return done.stdout
    except subprocess.TimeoutExpired as error:
        text = error.stdout or b""
        return text.decode("utf-8", "replace") if isinstance(text, bytes) else text
