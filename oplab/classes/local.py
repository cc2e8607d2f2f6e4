"""The engine for one machine: a few grading processes, each of which runs one task at a time."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

from oplab.classes import records
from oplab.classes.engines import Plain
from oplab.classes.neighbours import Neighbours
from oplab.classes.records import Verdict
from oplab.course.manifest import load
from oplab.grading import outcomes, scratch
from oplab.paths import root

ATTEMPTS = 3
_MAIN = "import sys; sys.path.append({package!r}); from oplab.classes.child import main; main()"
_END = 8.0  # seconds that a process has to end by itself


class Grader:
    """A process that grades one task at a time (:mod:`oplab.classes.child`). It is started when it is first needed, and again when it died.

    Use it from one thread; :meth:`close` may be called from another.

    Args:
        hidden: folders that learners' code must not see.
        temporary: for temporary files; by default the system's folder.
        environment: the process's variables; by default this process's own.
    """

    def __init__(
        self,
        hidden: Sequence[Path | str] = (),
        temporary: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ):
        self._hidden = [str(Path(folder).resolve()) for folder in hidden]
        self._env = {} if temporary is None else {"TMPDIR": str(temporary)}
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()  # what it prints on stderr, for the message when it ends by itself
        self._lock = threading.Lock()
        self._closed = False
        # A process in which learners' code runs underneath gets a thread that lives as long as this object: some systems end a child
        # together with the thread that has started it.
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="oplab-class")

    def grade(self, task: Plain) -> Verdict:
        """Grade a task; after ATTEMPTS in vain the verdict's state is ``grader_error``."""
        why = ""
        for _ in range(ATTEMPTS):
            try:
                answer = self._ask(task)
            except (OSError, ValueError, subprocess.TimeoutExpired) as error:
                why = f"The process that grades was ended from outside ({error})."
                self._stop()
                continue
            if "verdict" not in answer:
                why = answer["error"]
                self._stop()
                continue
            verdict = records.verdict_from_dict(answer["verdict"])
            if verdict.outcome.status != "grader_error":
                return verdict
            why = verdict.outcome.message
        return failed(task, why)

    def close(self) -> None:
        """End the process and all that it has started."""
        with self._lock:
            self._closed = True
        self._stop()
        self._starter.shutdown(wait=False)
        self._log.close()

    def _ask(self, task: Plain) -> Mapping[str, object]:
        process = self._started()
        assert process.stdin is not None and process.stdout is not None
        # A process that has ended by now closed both pipes; which of the two shows it first is chance. Its exit code says why.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(json.dumps(dict(task)).encode() + b"\n")
            process.stdin.flush()
        line = process.stdout.readline()
        if not line.endswith(b"\n"):
            if self._closed:
                raise Closed
            raise OSError(f"exit code {process.wait(_END)}{self._last_words()}")
        return json.loads(line)

    def _last_words(self) -> str:
        self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 2000))
        lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._closed:
                raise Closed
            if self._process is None or self._process.poll() is not None:
                package = str(Path(__file__).resolve().parents[2])
                given = os.environ if self._environment is None else self._environment
                self._process = self._starter.submit(
                    subprocess.Popen,
                    [sys.executable, "-c", _MAIN.format(package=package), *self._hidden],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=self._log,
                    env={**given, **self._env, "OPLAB_ROOT": str(root()), "PYTHONDONTWRITEBYTECODE": "1"},
                    start_new_session=True,  # Ctrl-C is for the command, which decides what ends
                    cwd="/",
                ).result()
            return self._process

    def _stop(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.stdin.close()  # type: ignore[union-attr]
        try:
            process.wait(_END)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()  # type: ignore[union-attr]


class Closed(Exception):
    """The engine was closed while a task ran."""


def failed(task: Plain, why: str) -> Verdict:
    """The verdict of a task that could not be graded here."""
    exercise = load(root()).exercise(task["exercise"])
    outcome = outcomes.without_points(exercise, "grader_error", why)
    now = datetime.now().astimezone()
    return Verdict(
        task["key"],
        exercise.id,
        outcome,
        task["seed"],
        dict(task["versions"]),
        task["answer"],
        0.0,
        platform.node(),
        now,
    )


class LocalEngine:
    """Runs tasks on this machine.

    Args:
        jobs: how many run at the same time, each in its own process.
        hidden: folders that learners' code must not see, as those of the submissions and the grades.
    """

    def __init__(self, jobs: int, hidden: Sequence[Path] = ()):
        self.jobs = max(1, jobs)
        self._folders = contextlib.ExitStack()
        # Whatever a grading process leaves that is killed at any moment is in one folder, and goes with it.
        temporary = self._folders.enter_context(scratch.scratch_folder())
        self._graders = [Grader(hidden, temporary) for _ in range(self.jobs)]
        self._stopping = threading.Event()
        self._began: dict[str, tuple[str, float]] = {}
        self._next = threading.Lock()
        self._neighbours = Neighbours()

    def running(self) -> Mapping[str, float]:
        """Exercise id to seconds so far."""
        now = time.monotonic()
        return {id: now - since for id, since in self._began.copy().values()}

    def finish(self) -> None:
        """Begin no further task."""
        self._stopping.set()

    def close(self) -> None:
        """End all that runs, at once."""
        self._stopping.set()
        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(Grader.close, self._graders))
        self._folders.close()
        scratch.sweep(Path(tempfile.gettempdir()))  # what a killed command has left

    def submit(self, tasks: Iterable[Plain]) -> Iterator[Verdict]:
        """Run tasks; see :class:`oplab.classes.engines.Engine`.

        What another task may have interfered with runs again at the end, with nothing else at the same time. Only that counts.
        """
        yield from self._all(iter(tasks), self._graders)
        again = self._neighbours.suspected()
        if again and not self._stopping.is_set():
            yield from self._all(iter(again), self._graders[:1])

    def _all(self, waiting: Iterator[Plain], graders: Sequence[Grader]) -> Iterator[Verdict]:
        results: queue.SimpleQueue[Verdict | BaseException | None] = queue.SimpleQueue()
        for grader in graders:
            threading.Thread(target=self._work, args=(grader, waiting, results), daemon=True).start()
        working = len(graders)
        while working:
            found = results.get()
            if found is None:
                working -= 1
            elif isinstance(found, BaseException):
                self.finish()
                raise found
            else:
                yield found

    def _work(
        self,
        grader: Grader,
        waiting: Iterator[Plain],
        results: queue.SimpleQueue[Verdict | BaseException | None],
    ) -> None:
        try:
            while not self._stopping.is_set():
                with self._next:
                    task = next(waiting, None)
                if task is None:
                    break
                self._began[task["key"]] = task["exercise"], time.monotonic()
                self._neighbours.begin(task)
                try:
                    verdict = grader.grade(task)
                finally:
                    self._began.pop(task["key"], None)
                for counts in self._neighbours.end(task, verdict):
                    results.put(counts)
        except Closed:
            pass
        except BaseException as error:  # a barrier: the thread that reads the results raises it
            results.put(error)
        finally:
            results.put(None)
