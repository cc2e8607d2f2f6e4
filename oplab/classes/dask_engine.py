"""The engine of ``oplab class grade --cluster``: tasks on the workers of a Dask cluster.

Dask moves tasks and results; what runs where is decided here. Each task is sent to a worker by name, one more than the worker runs at a
time, so that the client knows which tasks a dead worker had. They are sent again from here: Dask would blame every task that waited on that
worker, forget all of them with its scheduler, and try a task as often as somebody has set the scheduler's ``allowed-failures``.
"""

from __future__ import annotations

import itertools
import queue
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from oplab.classes.dask_cluster import Cluster, Found, refuse_versions
from oplab.classes.engines import Plain
from oplab.classes.probe import probe
from oplab.classes.records import Verdict, verdict_from_dict
from oplab.course.manifest import Course
from oplab.errors import OplabError
from oplab.grading.outcomes import without_points

ATTEMPTS = 2  # of one task whose worker ended while it had no other
PATIENCE = 60.0  # seconds without a worker that can be used, before the run ends
POLL = 0.5  # seconds between two looks at the scheduler
FETCH = 10.0  # seconds to fetch a verdict from its worker
READ = 16  # tasks that are read at a time, when no waiting one fits a worker
AGAIN = "What is graded is kept, and the same command goes on from there."


@dataclass(eq=False)
class _Task:
    plain: Plain
    cpp: bool
    blamed: int = 0


@dataclass
class _Sent:
    task: _Task
    future: Any
    since: float = 0.0  # when nothing was left before it on its worker; 0 until then


@dataclass
class _Worker:
    found: Found
    sent: dict[str, _Sent] = field(default_factory=dict)  # in the order in which it runs them
    alone: bool = False

    @property
    def began(self) -> list[_Sent]:
        return list(self.sent.values())[: self.found.slots]

    def note(self) -> None:
        for sent in self.began:
            sent.since = sent.since or time.monotonic()


class DaskEngine:
    """An engine (:class:`oplab.classes.engines.Engine`) that runs tasks on a Dask cluster.

    Args:
        course: what is graded.
        where: ``local:N``, or the address of a scheduler: ``tcp://…``, ``tls://…``.
        hidden: folders that learners' code must not see, where a worker's machine has them, too.
        say: told in sentences what the teacher should know: a worker that is not used, a worker that was lost.
        patience: seconds without a worker that can be used, before the run ends.

    Raises:
        OplabError: ``where`` is neither, or Dask is not installed.
    """

    def __init__(
        self,
        course: Course,
        where: str,
        hidden: Sequence[Path] = (),
        say: Callable[[str], None] = lambda line: None,
        patience: float = PATIENCE,
    ):
        self.course, self.say, self.patience = course, say, patience
        self._cluster = Cluster(where, [str(folder.resolve()) for folder in hidden])
        self._events: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()  # may be filled from a signal handler
        self._workers: dict[str, _Worker] = {}
        self._seen: set[str] = set()  # addresses that were asked already, or are being asked
        self._unused: dict[str, str] = {}  # why a worker is not used
        self._tasks: Iterator[Plain] = iter(())
        self._waiting: deque[_Task] = deque()  # read from the above, and not sent yet
        self._suspects: deque[_Task] = deque()  # each runs again with nothing else on its worker
        self._numbers = itertools.count()
        self._machines: set[str] = set()
        self._finishing = False
        self._closed = False
        self._wake: Any = None
        self._useful_at = 0.0
        self._asker = ThreadPoolExecutor(1, thread_name_prefix="oplab-probe")

    @property
    def machines(self) -> tuple[str, ...]:
        """The names of the computers that have taken part, sorted."""
        return tuple(sorted(self._machines))

    @property
    def dashboard(self) -> str:
        """The address of Dask's page about the cluster; empty where there is none."""
        return self._cluster.dashboard

    def running(self) -> Mapping[str, float]:
        """What runs now, to seconds so far, as :meth:`oplab.classes.engines.Engine.running`."""
        now, found = time.monotonic(), {}
        for worker in list(self._workers.values()):
            for sent in worker.began:
                plain = sent.task.plain
                name = plain["exercise"] if plain["exercise"] not in found else plain["key"][:12]
                found[name] = now - (sent.since or now)
        return found

    def finish(self) -> None:
        """Begin no further task. It may be called from a signal handler."""
        self._finishing = True
        self._events.put(("finish",))

    def close(self) -> None:
        """End all that runs, on all machines, and the cluster if it is a local one. It may be called again."""
        if self._closed:
            return
        self._closed = True
        self._asker.shutdown(wait=False, cancel_futures=True)
        self._cluster.close()

    def submit(self, tasks: Iterable[Plain]) -> Iterator[Verdict]:
        """Run tasks, as :meth:`oplab.classes.engines.Engine.submit`.

        Raises:
            OplabError: the cluster cannot be reached, has other versions, has no worker that can be used, or its scheduler has ended.
        """
        self._tasks = iter(tasks)
        if not self._fill():
            return
        self._begin()
        while self._open:
            self._feed()
            if verdicts := self._without_compiler():
                yield from verdicts
                continue
            try:
                event = self._events.get(timeout=POLL)
            except queue.Empty:
                event = ("nothing",)
            yield from self._handle(*event)
            self._check()

    # --- the cluster's workers ------------------------------------------------------------------------------------

    @property
    def _open(self) -> bool:
        sent = any(worker.sent for worker in self._workers.values())
        return sent or (not self._finishing and (bool(self._suspects) or self._fill()))

    def _fill(self) -> bool:
        """Whether a task waits; the next one is read if none does."""
        if not self._waiting:
            self._waiting.extend(self._read(1))
        return bool(self._waiting)

    def _read(self, count: int) -> list[_Task]:
        plain = itertools.islice(self._tasks, count)
        return [_Task(one, self.course.exercise(one["exercise"]).kind != "python") for one in plain]

    def _begin(self) -> None:
        """Start or reach the cluster, and see that its workers have the versions of this machine."""
        self._exercises = [exercise.id for exercise in self.course.exercises]
        self._mine = probe(self._exercises)["versions"]
        self._cluster.open(self._events.put)
        found = self._cluster.wait_for_workers(self._exercises, self.patience)
        self._seen.update(found)
        refuse_versions(self._mine, found, self._cluster.where)
        for address, worker in found.items():
            self._join(address, worker)
        self._useful_at = time.monotonic()
        if not self._workers:
            raise OplabError(
                f"No worker of {self._cluster.where} can be used: {_any(self._unused)}.",
                "docs/class_cluster.md shows how workers are started.",
            )

    def _join(self, address: str, found: Found) -> None:
        """Use a worker from now on, or say why not."""
        reason = found.problem
        if not reason and found.versions != self._mine:
            changed = [name for name in self._mine if found.versions.get(name) != self._mine[name]]
            reason = f"it has other versions of {', '.join(changed)}"
        if reason:
            self._unused[address] = f"{address}: {reason}"
            self.say(f"The worker {address} gets no tasks: {reason}.")
            return
        self._workers[address] = _Worker(found)
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None

    def _leave(self, address: str, expected: bool) -> list[Verdict]:
        """A worker is no more. Its tasks run again: each alone, or as before where the worker was asked to leave."""
        self._unused.pop(address, None)
        self._seen.discard(address)
        worker = self._workers.pop(address, None)
        if worker is None:
            return []
        self._useful_at = time.monotonic()
        lost = [sent.task for sent in worker.sent.values()]
        self._cluster.cancel([sent.future for sent in worker.sent.values()])
        if expected:
            self._waiting.extendleft(reversed(lost))
            return []
        many = f"{len(lost)} exercises run" if len(lost) != 1 else f"{lost[0].plain['exercise']} runs"
        self.say(f"The worker {address} was lost; {many} again.")
        if len(lost) == 1:
            lost[0].blamed += 1
            if lost[0].blamed >= ATTEMPTS:
                reason = f"Its worker was lost {ATTEMPTS} times while nothing else ran there, so it is not graded yet."
                return [self._not_graded(lost[0], reason)]
        self._suspects.extend(lost)
        return []

    def _check(self) -> None:
        """See that the scheduler is there, and that there are workers, or will be."""
        if not self._cluster.alive:
            raise OplabError(f"The scheduler of {self._cluster.where} has ended, or cannot be reached any more.", AGAIN)
        if self._workers or not self._open:
            self._useful_at = time.monotonic()
            return
        if (
            self._wake is None or self._wake.status != "pending"
        ):  # a cluster that adapts starts a worker when it sees a task that none can run
            self._wake = self._cluster.wake()
        if time.monotonic() - self._useful_at > self.patience:
            why = f" ({_any(self._unused)})" if self._unused else ""
            raise OplabError(f"{self._cluster.where} has had no worker for {self.patience:.0f} s{why}.", AGAIN)

    def _without_compiler(self) -> list[Verdict]:
        """When only answers in C++ are left, and no worker can compile: they cannot be graded here."""
        if not self._workers or any(worker.sent or worker.found.compiler for worker in self._workers.values()):
            return []
        left = [*self._suspects, *self._waiting]
        if not left or not all(task.cpp for task in left):
            return []
        if more := self._read(READ):
            self._waiting.extend(more)
            return []
        self._suspects.clear()
        self._waiting.clear()
        reason = f"No worker of {self._cluster.where} has a C++ compiler, so answers in C++ are not graded yet."
        return [self._not_graded(task, reason) for task in left]

    # --- tasks ----------------------------------------------------------------------------------------------------

    def _feed(self) -> None:
        """Send tasks to workers that have room: one more than they run, so that none waits for the next."""
        if self._finishing:
            return
        for address, worker in list(self._workers.items()):
            if worker.alone and worker.sent:
                continue
            worker.alone = False
            if task := _first(self._suspects, worker):
                if not worker.sent:
                    self._suspects.remove(task)
                    worker.alone = True
                    self._send(address, worker, task)
                continue  # else it becomes idle, for this one
            while len(worker.sent) <= worker.found.slots and (task := self._next(worker)):
                self._send(address, worker, task)

    def _next(self, worker: _Worker) -> _Task | None:
        """The next task for a worker: one in C++ only where there is a compiler."""
        while True:
            if task := _first(self._waiting, worker):
                self._waiting.remove(task)
                return task
            more = self._read(READ)
            if not more:
                return None
            self._waiting.extend(more)

    def _send(self, address: str, worker: _Worker, task: _Task) -> None:
        name = f"oplab-grade-{next(self._numbers)}"
        future = self._cluster.send(task.plain, name, address)
        worker.sent[name] = _Sent(task, future)
        worker.note()
        future.add_done_callback(lambda done: self._events.put(("done", address, name)))

    def _handle(self, what: str, *details: Any) -> list[Verdict]:
        """React to an event. What a worker sent that has left meanwhile is not looked at."""
        if what == "done":
            return self._done(*details)
        if what == "left":
            return self._leave(*details)
        if what == "joined":
            (address,) = details
            if address not in self._seen:
                self._seen.add(address)
                self._asker.submit(self._ask, address)
        elif what == "asked":
            address, found = details
            if address in self._seen:
                self._join(address, found)
        elif what == "finish":
            for worker in self._workers.values():
                behind = list(worker.sent)[worker.found.slots :]
                self._cluster.cancel([worker.sent.pop(name).future for name in behind])
        return []

    def _ask(self, address: str) -> None:
        found = self._cluster.ask([address], self._exercises)
        if address in found:
            self._events.put(("asked", address, found[address]))

    def _done(self, address: str, name: str) -> list[Verdict]:
        """A task has ended, well or not."""
        worker = self._workers.get(address)
        sent = worker.sent.get(name) if worker else None
        if worker is None or sent is None:
            return []
        how, answer = self._cluster.fetch(sent.future, FETCH)
        if how == "killed":  # the event that says so is late
            return self._leave(address, False)
        del worker.sent[name]
        worker.note()
        if how == "verdict" and answer is not None:
            self._machines.add(worker.found.machine)
            return [verdict_from_dict(answer)]
        if how == "failed":
            sent.task.blamed += 1
            if sent.task.blamed >= ATTEMPTS:
                return [self._not_graded(sent.task, f"It could not be graded: {answer}")]
        self._suspects.append(sent.task)
        return []

    def _not_graded(self, task: _Task, reason: str) -> Verdict:
        exercise = self.course.exercise(task.plain["exercise"])
        outcome = without_points(exercise, "grader_error", reason)
        return Verdict(
            key=task.plain["key"],
            exercise=exercise.id,
            outcome=replace(outcome, seconds=0.0),
            seed=task.plain["seed"],
            versions=task.plain["versions"],
            answer=task.plain["answer"],
            seconds=0.0,
            machine="",
            graded_at=datetime.now(UTC),
        )


def _first(tasks: Iterable[_Task], worker: _Worker) -> _Task | None:
    """The first of these tasks that the worker can run."""
    return next((task for task in tasks if worker.found.compiler or not task.cpp), None)


def _any(reasons: Mapping[str, str]) -> str:
    return next(iter(reasons.values()), "it has none")
