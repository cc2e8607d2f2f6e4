"""The process that grades tasks, one after the other, with a warm grading server: ``from oplab.classes.child import main; main()``.

It reads a task as one line of JSON, and answers with one: ``{"verdict": …}``, or ``{"error": …}`` where this machine cannot grade. Its
caller runs no learner's code, and neither does this process: that happens in the workers of the grading server, under their limits and
isolated as far as the system offers it. When the input ends, also because the caller was killed, this process ends with all that it
has started.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import queue
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from oplab import paths
from oplab.classes import records, versions
from oplab.classes.records import Verdict
from oplab.course.manifest import Course, load, preloads
from oplab.errors import OplabError
from oplab.grading import processes
from oplab.grading.client import Server
from oplab.grading.grader import grade
from oplab.grading.integrity import Watch
from oplab.grading.isolation import detect
from oplab.grading.scratch import discard, scratch_folder

_GRACE = 5.0  # seconds in which a running task notices that its server is gone


def main() -> None:
    """Grade what arrives on stdin until it ends. The arguments of the command are folders that learners' code must not see."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # nothing else may print between the answers
    processes.adopt_orphans()
    course = load(paths.root())
    watch = versions.watch(course)
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    with scratch_folder() as scratch:
        submitted = scratch / "submission"
        submitted.mkdir()
        offered = detect(course.root, submitted)
        isolation = replace(offered, roots=(*offered.roots, *sys.argv[1:]))
        # PyTorch keeps the folder that it makes for compiled graphs; this one goes with the others.
        env = {"TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor")}
        server = Server(preloads(course.exercises), env=env, isolation=isolation, many=True)
        with server:
            threading.Thread(target=_listen, args=(lines, server, scratch), daemon=True).start()
            while (line := lines.get()) is not None:
                with contextlib.suppress(BrokenPipeError):
                    answers.write(json.dumps(_answered(course, json.loads(line), submitted, server, watch)) + "\n")
                    answers.flush()
        if server.work is not None:  # a task that was about to begin when the server closed has made it again
            discard(server.work)


def _listen(lines: queue.SimpleQueue[str | None], server: Server, scratch: Path) -> None:
    """Pass the lines of stdin on. At its end, stop what runs; what does not stop is killed."""
    for line in sys.stdin:
        lines.put(line)
    lines.put(None)
    server.close()
    time.sleep(_GRACE)  # main has returned by then, unless something hangs: a compiler, for example
    processes.kill_descendants()
    for folder in (scratch, server.work):
        if folder is not None:
            discard(folder)
    os._exit(1)


def _answered(course: Course, task: Mapping[str, Any], submitted: Path, server: Server, watch: Watch) -> dict[str, Any]:
    try:
        if versions.grader_version(course, course.exercise(task["exercise"])) != task["versions"]["grader"]:
            return {"error": "The course's files have changed since the run started."}
        verdict = _verdict(course, task, submitted, server)
        # The answer is not to blame, and the next process, which sees other files, refuses the task.
        if watch.changes():
            return {"error": "The course's files changed while it ran."}
        return {"verdict": records.verdict_to_dict(verdict)}
    except OplabError as error:
        return {"error": str(error)}
    except OSError as error:  # a full disk
        return {"error": f"{error.filename or submitted}: {error.strerror}."}
    except RuntimeError as error:  # the server is closed: this process is about to end
        return {"error": str(error)}


def _verdict(course: Course, task: Mapping[str, Any], submitted: Path, server: Server) -> Verdict:
    exercise = course.exercise(task["exercise"])
    file = submitted / exercise.file
    file.parent.mkdir(exist_ok=True)  # without its parents: after a killed command, the next one has removed them
    file.write_text(task["text"], encoding="utf-8", errors="surrogatepass", newline="")
    try:
        outcome = grade(course, [exercise], submitted, jobs=1, seed=task["seed"], server=server).exercises[0]
    finally:
        file.unlink(missing_ok=True)
    return Verdict(
        key=task["key"],
        exercise=exercise.id,
        outcome=replace(outcome, seconds=round(outcome.seconds, 3), graphs=()),
        seed=task["seed"],
        versions={**task["versions"], **versions.here()},
        answer=task["answer"],
        seconds=round(outcome.seconds, 3),
        machine=platform.node(),
        graded_at=datetime.now().astimezone(),
    )
