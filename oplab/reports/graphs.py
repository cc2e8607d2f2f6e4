"""Pictures of the ONNX models that did not pass, for the reports.

A learner's model is not trusted: it is opened in a separate process with limits (:mod:`oplab.reports.draw`), never in the one
that prints the grades. A model that cannot be drawn has no picture; nothing else changes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from oplab.grading.results import Graph, Results

PER_EXERCISE = 2  # pictures: the model of the first failed check, and one more
MAX_SVG = 400_000  # characters; a larger drawing is unreadable on a page
TIME_LIMIT = 30.0  # seconds for all pictures of one run
# With -I and -S nothing of the current folder, of the environment or of a .pth file is imported: only what is in these folders.
_MAIN = "import sys; sys.path.extend({path!r}); from oplab.reports.draw import main; main()"


def with_graphs(results: Results, kept: Path) -> Results:
    """The same results, with pictures of the models that did not pass.

    Args:
        results: of a run with a :class:`oplab.grading.client.Server` that keeps evidence.
        kept: its folder ``kept``.
    """
    wanted = {
        outcome.id: [outcome.message, *(check.message for check in outcome.checks if not check.passed)]
        for outcome in results.exercises
        if not outcome.passed and (kept / outcome.id).is_dir()
    }
    drawn = draw(wanted, kept) if wanted else {}
    return replace(
        results,
        exercises=tuple(
            replace(outcome, graphs=tuple(drawn.get(outcome.id, outcome.graphs))) for outcome in results.exercises
        ),
    )


def draw(wanted: Mapping[str, list[str]], kept: Path) -> dict[str, list[Graph]]:
    """The pictures by exercise, at most PER_EXERCISE of each.

    Args:
        wanted: exercise to the messages about it: a model that one of them names comes first.
        kept: its folder ``kept``.
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
