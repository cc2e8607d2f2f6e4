"""Grades a class: scans the submissions, runs each different answer once on an engine, and keeps every verdict as it arrives.

What is in the folder GRADES decides what is left to do, so a run that ended early, however it ended, goes on where it stopped.
"""

from __future__ import annotations

import contextlib
import errno
import os
import platform
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from oplab import files
from oplab.classes import records, roster, submissions, versions
from oplab.classes.engines import Engine, Plain
from oplab.classes.extraction import Answer, Answers
from oplab.classes.records import Learner, Submission, Task, Verdict
from oplab.course.manifest import Course, Exercise
from oplab.errors import OplabError
from oplab.grading.grader import fresh_seed
from oplab.grading.integrity import Watch

GO_ON = "Run the same command again to resume."


@dataclass
class Work:
    """What a run has to do, and how far it is; the display looks at it.

    Attributes:
        learners: the roster, by login.
        submissions: by login.
        problems: sentences about submissions and the roster, in the order in which they were found.
        tasks: the distinct keys that have no verdict yet.
        reused: how many distinct keys had one.
        settled: how many needed no run: unchanged stubs and missing files.
        done: how many of ``tasks`` have a verdict now.
        unfinished: exercise id and reason of the tasks that could not be graded here.
        unread: the learners in one of whose submissions no file of the course could be read: it has no tasks.
        machines: the names of the computers that graded.
        engine: where the tasks run.
        stopping: whether Ctrl-C was pressed.
    """

    learners: Mapping[str, Learner]
    submissions: dict[str, tuple[Submission, ...]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    tasks: dict[str, Task] = field(default_factory=dict)
    reused: int = 0
    settled: int = 0
    done: int = 0
    unfinished: list[tuple[str, str]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    machines: set[str] = field(default_factory=set)
    engine: Engine | None = None
    stopping: bool = False


Listener = Callable[[Work], None]


def run(
    course: Course,
    exercises: Sequence[Exercise],
    where: str,
    roster_file: Path,
    folder: Path,
    make_engine: Callable[[int], Engine],
    *,
    seed: int | None = None,
    listener: Listener = lambda work: None,
) -> Work:
    """Grade a class into the folder GRADES.

    Args:
        where: the submissions, see :func:`oplab.classes.submissions.scan`.
        roster_file: see :func:`oplab.classes.roster.read`.
        folder: GRADES, created if it is missing.
        make_engine: called with the number of tasks, if there are any; the engine is closed at the end.
        seed: what inputs are made from; by default the one of the folder's earlier runs, or a new one.
        listener: called after each step: when the submissions are scanned, and for each verdict.

    Returns:
        what was done. ``stopping`` says that Ctrl-C has ended it early.

    Raises:
        OplabError: the roster or the submissions cannot be read, GRADES cannot be written, another run works on it, or the course was
            changed meanwhile.
        KeyboardInterrupt: a second Ctrl-C. What was graded is kept.
    """
    learners, problems = roster.read(roster_file)
    with writing(folder), alone(folder):
        watch = versions.watch(course)
        _remove_drafts(folder)
        before = records.load_run(folder)
        work = Work(learners)
        answers = Answers(course, exercises)
        known = dict.fromkeys(exercise.file for exercise in course.exercises)
        by_login: dict[str, list[Submission]] = {}
        planner = Planner(course, exercises, folder, _seed(before, seed), work)
        for found in submissions.scan(where, learners, known, ignore=(roster_file, folder)):
            if isinstance(found, str):
                problems.append(found)
                continue
            tasks = {}
            if any(isinstance(text, str) for text in found.files.values()):
                tasks = {id: planner.task(id, answer) for id, answer in answers.of(dict(found.files)).items()}
            elif found.learner not in work.unread:
                work.unread.append(found.learner)
            by_login.setdefault(found.learner, []).append(
                Submission(found.learner, found.label, found.submitted_at, found.source, tasks, found.problems)
            )
        _unchanged(watch)
        work.submissions = {login: tuple(sorted(by_login.get(login, ()), key=_age)) for login in learners}
        work.problems = [
            *problems,
            *(text for all in work.submissions.values() for one in all for text in one.problems),
        ]
        records.save_submissions(folder, learners, work.submissions, tuple(problems))
        started = datetime.now().astimezone()
        log = {
            "seed": planner.seed,
            "versions": versions.here(),
            "exercises": [exercise.id for exercise in exercises],
            "runs": list(before.get("runs", ())),
        }
        records.save_run(folder, log)
        listener(work)
        try:
            if work.tasks:
                grade(work, make_engine(len(work.tasks)), planner, watch, listener)
        finally:
            this = {
                "started": started.isoformat(),
                "ended": datetime.now().astimezone().isoformat(),
                "command_on": platform.node(),
                "machines": sorted(work.machines),
                "graded": work.done,
                "known": work.reused,
                "unfinished": sorted({id for id, _ in work.unfinished}),
                "left": len(work.tasks) - work.done,
            }
            records.save_run(folder, {**log, "runs": [*log["runs"], this]})
    return work


def grade(work: Work, engine: Engine, planner: Planner, watch: Watch, listener: Listener) -> None:
    """Grade the tasks of ``work``, and close the engine.

    Raises:
        OplabError: a file that decides grades was changed meanwhile. Learners' code cannot do that where it is isolated.
        KeyboardInterrupt: a second Ctrl-C. What was graded is kept.
    """

    def stop() -> None:
        work.stopping = True
        engine.finish()
        listener(work)

    work.engine = engine
    try:
        with first_interrupt(stop):
            for verdict in engine.submit(planner.plain(work.tasks.values())):
                _unchanged(watch)
                if verdict.outcome.status == "grader_error":  # never final: the next run tries again
                    work.unfinished.append((verdict.exercise, verdict.outcome.message))
                else:
                    records.save_verdict(planner.folder, verdict)
                    work.done += 1
                    work.machines.add(verdict.machine)
                listener(work)
    finally:
        engine.close()
        work.engine = None


def _unchanged(watch: Watch) -> None:
    if changed := sorted(map(str, watch.changes())):
        names = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if changed[3:] else "")
        raise OplabError(f"{names} changed during the run. Answers graded before that are kept.", GO_ON)


class Planner:
    """Makes tasks out of answers, keeps what is known without a run, and adds what is new to the work that is left."""

    def __init__(self, course: Course, exercises: Sequence[Exercise], folder: Path, seed: int, work: Work):
        self.folder, self.seed, self._work = folder, seed, work
        self._grader = {exercise.id: versions.grader_version(course, exercise) for exercise in exercises}
        self._known: dict[str, Task] = {}

    def plain(self, tasks: Iterable[Task]) -> Iterator[Plain]:
        """The tasks as an engine takes them. Sources are read when they are needed."""
        for task in tasks:
            yield {
                "exercise": task.exercise,
                "key": task.key,
                "answer": task.answer,
                "text": records.load_answer(self.folder, task.answer),
                "seed": self.seed,
                "versions": {"grader": self._grader[task.exercise], **versions.here()},
            }

    def task(self, id: str, answer: Answer) -> Task:
        """The task of an answer to the exercise ``id``."""
        grader = self._grader[id]
        key = records.task_key(id, grader, answer.sha, answer.settled)
        if key in self._known:
            return self._known[key]
        task = self._known[key] = Task(id, key, answer.sha)
        records.save_answer(self.folder, answer.sha, answer.text)
        if records.load_verdict(self.folder, key) is not None:
            self._work.reused += 1
        elif answer.settled is not None:
            self._work.settled += 1
            known, now = {"grader": grader, **versions.here()}, datetime.now().astimezone()
            verdict = Verdict(key, id, answer.settled, self.seed, known, answer.sha, 0.0, "", now)
            records.save_verdict(self.folder, verdict)
        else:
            self._work.tasks[key] = task
        return task


def _seed(before: Mapping[str, Any], asked: int | None) -> int:
    """The seed of the run: one folder has one seed, so that it does not matter in which run an answer was graded."""
    if "seed" not in before:
        return fresh_seed() if asked is None else asked
    if asked not in (None, before["seed"]):
        raise OplabError(
            f"These grades were made with --seed {before['seed']}; {asked} would give some learners different inputs.",
            "Omit --seed, or name another folder with -o.",
        )
    return before["seed"]


def _age(one: Submission) -> tuple[float, str, str]:
    """By time, those without one first, then by label."""
    return one.submitted_at.timestamp() if one.submitted_at else 0.0, one.label, one.source


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Only one run at a time writes to a folder."""

    def busy(owner: str) -> None:
        raise OplabError(
            f"Another run (process {owner}) grades into {folder}.", "Wait for it, or name another folder with -o."
        )

    folder.mkdir(parents=True, exist_ok=True)
    with files.lock(folder / ".lock", busy):
        yield


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn a folder that cannot be written into a sentence."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        fix = f"Free some space there. {GO_ON}" if full else "Name a folder that you can write to."
        raise OplabError(
            f"{error.filename or folder} cannot be written: {error.strerror}. What was graded is kept.", fix
        ) from None


def _remove_drafts(folder: Path) -> None:
    """Remove what a run that was killed while it wrote has left."""
    for path in (*folder.glob(".new-*"), *folder.glob("*/.new-*"), *folder.glob("*/??/.new-*")):
        with contextlib.suppress(OSError):
            os.unlink(path)


@contextlib.contextmanager
def first_interrupt(call: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C calls ``call``, each further one is a KeyboardInterrupt. Only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(number: int, frame: object) -> None:
        signal.signal(signal.SIGINT, before if callable(before) else signal.default_int_handler)
        call()

    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
