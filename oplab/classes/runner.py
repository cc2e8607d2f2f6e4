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
from oplab.classes.answers import Answer, Answers
from oplab.classes.engines import Engine, Plain
from oplab.classes.records import Learner, Submission, Task, Verdict
from oplab.course.manifest import Course, Exercise
from oplab.errors import OplabError
from oplab.grading.grader import fresh_seed
from oplab.grading.integrity import Watch

GO_ON = "Run the same command again to go on."


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
        slowest: exercise id and seconds of the slowest task so far.
        machines: the names of the computers that graded.
        learners_done: learners of whom everything is graded.
        engine: where the tasks run.
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
    slowest: tuple[str, float] = ("", 0.0)
    machines: set[str] = field(default_factory=set)
    learners_done: int = 0
    engine: Engine | None = None
    stopping: bool = False
    _open: dict[str, set[str]] = field(default_factory=dict)  # login -> keys that are not graded yet
    _owners: dict[str, list[str]] = field(default_factory=dict)

    def begin(self) -> None:
        """Note whose answers the open tasks are."""
        for login, handed_in in self.submissions.items():
            keys = {task.key for submission in handed_in for task in submission.tasks.values()} & self.tasks.keys()
            if keys:
                self._open[login] = keys
                for key in keys:
                    self._owners.setdefault(key, []).append(login)
        self.learners_done = len(self.learners) - len(self._open)

    def finished(self, verdict: Verdict) -> None:
        """Count a verdict that is kept."""
        self.done += 1
        self.machines.add(verdict.machine)
        if verdict.seconds > self.slowest[1]:
            self.slowest = verdict.exercise, verdict.seconds
        for login in self._owners.pop(verdict.key, ()):
            self._open[login].discard(verdict.key)
            self.learners_done += not self._open[login]


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
        course: the course.
        exercises: what to grade.
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
        seed = _seed(before, seed)
        work = Work(learners, problems=list(problems))
        answers = Answers(course, exercises)
        known = dict.fromkeys(exercise.file for exercise in course.exercises)
        by_login: dict[str, list[Submission]] = {}
        unowned: list[str] = []
        tools = _Keeper(course, exercises, folder, seed, work)
        for found in submissions.scan(where, learners, known, ignore=(roster_file, folder)):
            if isinstance(found, str):
                unowned.append(found)
                continue
            tasks = {}
            if any(isinstance(text, str) for text in found.files.values()):
                tasks = tools.tasks(answers.of(dict(found.files)))
            elif found.learner not in work.unread:
                work.unread.append(found.learner)
            by_login.setdefault(found.learner, []).append(
                Submission(found.learner, found.label, found.submitted_at, found.source, tasks, found.problems)
            )
        _unchanged(watch)
        work.submissions = {login: _in_order(by_login.get(login, ())) for login in learners}
        work.problems += unowned
        work.problems += [problem for all in work.submissions.values() for one in all for problem in one.problems]
        records.save_submissions(folder, learners, work.submissions, (*problems, *unowned))
        work.begin()
        started = datetime.now().astimezone()
        log = {
            "seed": seed,
            "versions": versions.here(),
            "exercises": [exercise.id for exercise in exercises],
            "runs": list(before.get("runs", ())),
        }
        records.save_run(folder, log)
        listener(work)
        try:
            if work.tasks:
                _grade(work, folder, make_engine(len(work.tasks)), tools, listener, watch)
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


def _grade(work: Work, folder: Path, engine: Engine, tools: _Keeper, listener: Listener, watch: Watch) -> None:
    work.engine = engine
    try:
        with first_interrupt(lambda: _finish(work, engine, listener)):
            for verdict in while_unchanged(engine.submit(tools.plain(work.tasks.values())), watch):
                if verdict.outcome.status == "grader_error":  # never final: the next run tries again
                    work.unfinished.append((verdict.exercise, verdict.outcome.message))
                else:
                    records.save_verdict(folder, verdict)
                    work.finished(verdict)
                listener(work)
    finally:
        engine.close()
        work.engine = None


def while_unchanged(verdicts: Iterable[Verdict], watch: Watch) -> Iterator[Verdict]:
    """The verdicts as they arrive, as long as they come from the course that the run began with.

    Raises:
        OplabError: a file that decides grades was changed. Learners' code cannot do that where it is isolated.
    """
    for verdict in verdicts:
        _unchanged(watch)
        yield verdict


def _unchanged(watch: Watch) -> None:
    if changed := sorted(map(str, watch.changes())):
        names = ", ".join(changed[:3]) + (f" and {len(changed) - 3} more" if changed[3:] else "")
        raise OplabError(f"{names} changed during the run. What was graded before is kept, and nothing since.", GO_ON)


def _finish(work: Work, engine: Engine, listener: Listener) -> None:
    work.stopping = True
    engine.finish()
    listener(work)


class _Keeper:
    """Makes tasks out of answers, and keeps what is known without a run."""

    def __init__(self, course: Course, exercises: Sequence[Exercise], folder: Path, seed: int, work: Work):
        self._folder, self._seed, self._work = folder, seed, work
        self._grader = {exercise.id: versions.grader_version(course, exercise) for exercise in exercises}
        self._known: dict[str, Task] = {}

    def tasks(self, answers: Mapping[str, Answer]) -> dict[str, Task]:
        """A task for each answer; new ones are added to the work that is left."""
        return {id: self._task(id, answer) for id, answer in answers.items()}

    def plain(self, tasks: Iterable[Task]) -> Iterator[Plain]:
        """The tasks as an engine takes them. Sources are read when they are needed."""
        for task in tasks:
            yield plain(self._folder, task, self._seed, self._grader[task.exercise])

    def _task(self, id: str, answer: Answer) -> Task:
        # What is known from the text alone has its own keys: a file with the text of a stub's function only is another answer.
        sha = (
            answer.sha
            if answer.settled is None
            else records.sha256(f"{answer.settled.status}: {answer.settled.message}")
        )
        key = records.task_key(id, self._grader[id], sha)
        if key in self._known:
            return self._known[key]
        task = self._known[key] = Task(id, key, answer.sha)
        records.save_answer(self._folder, answer.sha, answer.text)
        if records.load_verdict(self._folder, key) is not None:
            self._work.reused += 1
        elif answer.settled is not None:
            self._work.settled += 1
            now = datetime.now().astimezone()
            known = {"grader": self._grader[id], **versions.here()}
            records.save_verdict(
                self._folder, Verdict(key, id, answer.settled, self._seed, known, answer.sha, 0.0, "", now)
            )
        else:
            self._work.tasks[key] = task
        return task


def plain(folder: Path, task: Task, seed: int, grader: str) -> Plain:
    """A task with the source that GRADES keeps, as an engine takes it.

    Raises:
        OplabError: the source is missing or was changed.
    """
    return {
        "exercise": task.exercise,
        "key": task.key,
        "answer": task.answer,
        "text": records.load_answer(folder, task.answer),
        "seed": seed,
        "versions": {"grader": grader, **versions.here()},
    }


def _seed(before: Mapping[str, Any], asked: int | None) -> int:
    """The seed of the run: one folder has one seed, so that it does not matter in which run an answer was graded.

    Raises:
        OplabError: another one is asked for.
    """
    if "seed" not in before:
        return fresh_seed() if asked is None else asked
    if asked not in (None, before["seed"]):
        raise OplabError(
            f"These grades were made with --seed {before['seed']}; {asked} would give learners other inputs than their neighbours.",
            "Leave --seed out, or name another folder with -o.",
        )
    return before["seed"]


def _in_order(handed_in: Iterable[Submission]) -> tuple[Submission, ...]:
    """By time, those without one first, then by label."""
    return tuple(
        sorted(
            handed_in,
            key=lambda one: (one.submitted_at.timestamp() if one.submitted_at else 0.0, one.label, one.source),
        )
    )


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Only one run at a time writes to a folder.

    Raises:
        OplabError: another one does.
    """

    def busy(owner: str) -> None:
        raise OplabError(
            f"Another run (process {owner}) grades into {folder}.", "Wait for it, or name another folder with -o."
        )

    folder.mkdir(parents=True, exist_ok=True)
    with files.lock(folder / ".lock", busy):
        yield


@contextlib.contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Turn a folder that cannot be written into a sentence.

    Raises:
        OplabError: it cannot.
    """
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
