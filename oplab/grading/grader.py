"""Grades exercises: reads the learner's files, has both halves of each check run, and collects the outcomes."""

from __future__ import annotations

import functools
import os
import random
import secrets
import shutil
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from oplab import paths
from oplab.course import answers, stubs
from oplab.course.manifest import Course, Exercise, preloads
from oplab.errors import OplabError
from oplab.files import remove_tree
from oplab.grading import integrity, outcomes, policy, submitted
from oplab.grading.client import GraderTampered, Server
from oplab.grading.outcomes import todo, without_points
from oplab.grading.protocol import Answer, Job
from oplab.grading.results import Outcome, Results
from oplab.grading.scratch import HalvesFolders, scratch_folder
from oplab.grading.split_check import without_judges

if TYPE_CHECKING:
    from oplab.grading.isolation import Isolation
    from oplab.toolchain.recipes import Sanitizer

Listener = Callable[[Exercise, Outcome | None], None]


def grade(
    course: Course,
    exercises: Sequence[Exercise],
    submission: Path,
    *,
    jobs: int = 2,
    seed: int | None = None,
    sanitize: bool = False,
    server: Server | None = None,
    listener: Listener | None = None,
    isolate: bool = False,
    find_crashes: bool = True,
    cancelled: threading.Event | None = None,
    doubt: bool = True,
) -> Results:
    """Grade ``exercises`` from the files in ``submission``, a folder laid out like ``exercises/``.

    Args:
        course: the course, whose checks are used.
        exercises: what to grade.
        submission: the folder with the learner's files.
        jobs: how many exercises run at the same time.
        seed: seeds the inputs; by default it differs in each run.
        sanitize: build C++ exercises with AddressSanitizer and UBSan.
        server: a warm server to use; by default one is started when the first exercise needs it, and ended afterwards.
        listener: called with (exercise, None) when one starts and (exercise, outcome) when it is done, from worker threads.
        isolate: run the learner's code without network, with a read-only course and with solutions/ hidden, as far as the
            system offers it (:mod:`oplab.grading.isolation`). It needs its own server, so ``server`` must be None.
        find_crashes: build a C++ answer that crashed again with the sanitizers, and put the line that they find into its message.
        cancelled: once it is set, nothing more is started. What runs on the server ends with :meth:`Server.cancel`.
        doubt: compare a ``grader_error`` with what the reference answer gives: where that passes, the answer is the cause.

    Returns:
        an outcome for each exercise, in the same order.

    Raises:
        OplabError: the submission is not a folder, the server cannot start, or it sent a malformed message.
        Cancelled: ``cancelled`` was set before everything was graded.
        ValueError: ``isolate`` was asked for with a ``server``.
    """
    if not submission.is_dir():
        raise OplabError(
            f"The folder {submission} does not exist." if not submission.exists() else f"{submission} is not a folder.",
            "Name a folder that is laid out like exercises/.",
        )
    seed = fresh_seed() if seed is None else seed
    with ExitStack() as stack:
        if server is None:
            found = _isolation(course.root, submission) if isolate else None
            server = stack.enter_context(
                Server(preloads(exercises), env=_sanitizer_env() if sanitize else None, isolation=found)
            )
        elif isolate:
            raise ValueError("an isolated run needs its own server")
        work = server.prepare()
        scratch = stack.enter_context(scratch_folder(work))
        grader = _Grader(
            course, submission, scratch, server, seed, sanitize, listener, exercises, find_crashes, cancelled, doubt
        )
        pool = ThreadPoolExecutor(max(1, jobs))
        futures = [pool.submit(grader.one, exercise) for exercise in exercises]
        try:
            first = [future.result() for future in futures]
            # What another exercise may have interfered with is graded again with nothing else running. Only that counts.
            final = tuple(
                grader.one(exercise, alone=True) if outcome is None else outcome
                for exercise, outcome in zip(exercises, first, strict=True)
            )
        except BaseException:  # Ctrl-C: nothing may run on in the background
            for future in futures:
                future.cancel()
            server.cancel()
            grader.cancel()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return Results(final, seed)


def fresh_seed() -> int:
    """What seeds the inputs of a run for which no seed was asked.

    With the variable ``OPLAB_SEED``, a process that runs again gets the same numbers in the same order: tests repeat a run with it.

    Raises:
        OplabError: the variable is not a number.
    """
    fixed = os.environ.get("OPLAB_SEED", "")
    if not fixed:
        return secrets.randbits(31)
    if not fixed.isdecimal():
        raise OplabError(f"OPLAB_SEED is {fixed!r}, which is not a number.", "Set it to a whole number, or unset it.")
    return _repeatable(fixed).getrandbits(31)


@functools.cache
def _repeatable(seed: str) -> random.Random:
    return random.Random(seed)


class Cancelled(Exception):
    """A run has ended early because that was asked for."""


class _Grader:
    """Grades the exercises of one run. :meth:`one` may be called from several threads."""

    def __init__(
        self,
        course: Course,
        submission: Path,
        scratch: Path,
        server: Server,
        seed: int,
        sanitize: bool,
        listener: Listener | None,
        exercises: Sequence[Exercise],
        find_crashes: bool,
        cancelled: threading.Event | None,
        doubt: bool,
    ):
        self.find_crashes = find_crashes and not sanitize
        self._sanitizing: set[Server] = set()
        self._cancelled, self._doubt, self._planned = cancelled, doubt, server.cancels
        self.course, self.submission, self.scratch, self.server = course, submission.resolve(), scratch, server
        self.seed, self.sanitize, self.listener = seed, sanitize, listener
        # Everything is read before any learner's code runs: what that writes to the files then changes no outcome of this run.
        self._texts = {exercise.file: self._submitted(exercise.file) for exercise in exercises}
        self._digests = self._digested()
        self._broken: dict[str, dict[str, SyntaxError]] = {}  # file -> the functions that are not Python
        for file, text in self._texts.items():
            self._texts[file], self._broken[file] = submitted.readable(file, text)
        self._stubs = {exercise.file: self._stub(exercise) for exercise in exercises}
        self._checks = {exercise.chapter: _read(course.checks_file(exercise)) for exercise in exercises}
        python = (text for file, text in self._texts.items() if file.endswith(".py") and isinstance(text, str))
        self._files = integrity.CourseFiles(course.root, {exercise.chapter for exercise in exercises}, python)
        mine = [self.submission / exercise.file for exercise in course.exercises]
        self._watch = integrity.Watch([*self._files.paths, *mine, *integrity.repository_files(course.root)])
        self._lock = threading.Lock()
        self._running: dict[str, set[str]] = {}  # id -> those that ran at the same time
        self._changed: dict[str, dict[Path, str]] = {}
        self._suspected: dict[str, dict[Path, str]] = {}  # what changed while it and others ran: it is graded again
        self._waiting: dict[str, tuple[Outcome, set[str]]] = {}  # timed out or crashed while these others ran
        self._greedy: set[str] = set()  # what was stopped because it took the machine from others

    def one(self, exercise: Exercise, alone: bool = False) -> Outcome | None:
        """Grade one exercise. None: others that ran at the same time may have interfered, so it has to run again, alone."""
        if alone and exercise.id in self._waiting:
            outcome, others = self._waiting.pop(exercise.id)
            if not others & self._greedy:
                return self._done(exercise, outcome)
        if self._cancelled is not None and self._cancelled.is_set():
            raise Cancelled
        if self.listener and not alone:
            self.listener(exercise, None)
        started = time.monotonic()
        self._begin(exercise.id)
        interference = ""
        try:
            outcome = self._early(exercise) or self._run(exercise)
        except _Interference as error:
            interference = str(error)
            outcome = without_points(exercise, "grader_error", f"Something interfered with the grader: {error}")
        except GraderTampered as error:
            outcome = without_points(exercise, "grader_error", str(error))
        except OSError as error:
            interference = str(error)
            outcome = without_points(exercise, "grader_error", f"The grader's own files: {error}")
        except Exception as error:  # a barrier: whatever goes wrong here, the other exercises get their outcome
            trace = "".join(traceback.format_exception(error))[-4000:]
            outcome = without_points(exercise, "grader_error", f"{type(error).__name__}: {error}\n{trace}")
        others, changed = self._end(exercise.id)
        serious = bool(changed) and not self._files.relied_on.isdisjoint(changed)
        if others and not alone and (interference or serious):
            self._suspected[exercise.id] = changed
            return None
        if self._doubt and outcome.status == "grader_error" and not serious:
            outcome = self._doubted(exercise, outcome)
        if changed:
            outcome = self._with_note(outcome, changed, ())
            if serious and outcome.points:
                lost = "No points are given for a run that changes what the grader relies on."
                outcome = replace(outcome, status="error", points=0, message=f"{outcome.message} {lost}".strip())
        elif self._suspected.get(exercise.id):
            outcome = self._with_note(outcome, self._suspected[exercise.id], ("another exercise",))
        outcome = replace(outcome, seconds=time.monotonic() - started, answer=self._digests.get(exercise.id, ""))
        if others and not alone and outcome.status in ("timeout", "crashed"):
            self._waiting[exercise.id] = outcome, others  # until it is known what the others did to this machine
            return None
        return self._done(exercise, outcome)

    def _doubted(self, exercise: Exercise, outcome: Outcome) -> Outcome:
        """The outcome, or where the fault is the answer's: its code and its compiler can say what they like about the grader."""
        solutions = paths.part(self.course.root, "solutions")
        if self.submission == solutions.resolve():
            return outcome
        again = functools.partial(
            grade,
            self.course,
            [exercise],
            jobs=1,
            seed=self.seed,
            sanitize=self.sanitize,
            server=self.server,
            doubt=False,
        )
        try:
            reference = again(solutions, cancelled=self._cancelled).exercises[0]
            if not reference.passed:
                return outcome
            second = again(self.submission, cancelled=self._cancelled).exercises[0]
        except (OplabError, RuntimeError):  # there is no reference, or the server does not start
            return outcome
        if second.status != "grader_error":
            return second
        blame = "The check cannot be finished with this answer, and can be with the reference answer: "
        return replace(second, status="error", message=f"{blame}{second.message}")

    def _done(self, exercise: Exercise, outcome: Outcome) -> Outcome:
        if self.listener:
            self.listener(exercise, outcome)
        return outcome

    def _begin(self, id: str) -> None:
        with self._lock:
            for others in self._running.values():
                others.add(id)
            self._running[id] = set(self._running)

    def _end(self, id: str) -> tuple[set[str], dict[Path, str]]:
        """Who ran at the same time, and which files changed meanwhile: any of those that run now may have changed them."""
        with self._lock:
            found = self._watch.changes()
            for running in self._running:
                if found:
                    self._changed.setdefault(running, {}).update(found)
            return self._running.pop(id), self._changed.pop(id, {})

    def _with_note(self, outcome: Outcome, changed: dict[Path, str], others: Sequence[str]) -> Outcome:
        """The outcome with a sentence about the files that changed; ``others`` may have changed them as well."""
        names = [f"{_shown(path, self.course.root)} was {how}" for path, how in sorted(changed.items())]
        more = f", and {len(names) - 3} more" if len(names) > 3 else ""
        who = " and ".join(["it", *others])
        note = f"While {who} ran, {', '.join(names[:3])}{more}."
        return replace(outcome, message=f"{outcome.message} {note}".strip())

    def _early(self, exercise: Exercise) -> Outcome | None:
        """The outcome that follows from the text alone: no file, not Python, still the stub. Else None."""
        text: str | Exception = self._texts[exercise.file]
        if isinstance(text, FileNotFoundError):
            return without_points(
                exercise, "error", f"The file {exercise.file} is missing from {self.submission.name}/."
            )
        text = self._broken[exercise.file].get(exercise.name, text)
        if isinstance(text, Exception):
            return without_points(exercise, "error", submitted.reason(text, exercise.file))
        stub = self._stubs[exercise.file]
        if exercise.kind != "python":
            return todo(exercise) if stub is not None and stubs.is_untouched(text, stub, None) else None
        if stub is not None and stubs.is_untouched(text, stub, exercise.name):
            return todo(exercise)
        if used := policy.imported(exercise, text):
            return without_points(exercise, "failed", used)
        return None

    def _submitted(self, name: str) -> str | Exception:
        try:
            return submitted.read(self.submission, name)
        except (OSError, UnicodeDecodeError, submitted.NotReadable) as error:
            return error

    def _digested(self) -> dict[str, str]:
        """A digest of each answer, as far as it can be read."""
        found: dict[str, str] = {}
        for file, text in self._texts.items():
            if isinstance(text, str):
                found.update(answers.digests(text, self.course.in_file(file)))
        return found

    def _stub(self, exercise: Exercise) -> str | None:
        """The stub of the exercise's file; None where the course has no solutions to make it from."""
        solution = _read(self.course.reference_file(exercise))
        if isinstance(solution, Exception):
            return None
        return stubs.make_stub(solution, exercise.file)

    def _run(self, exercise: Exercise) -> Outcome:
        """The outcome of a compiled answer's two halves, each in a worker."""
        checks = self._checks[exercise.chapter]
        if isinstance(checks, Exception):
            file = f"oplab/checks/{self.course.checks_file(exercise).name}"
            return without_points(exercise, "grader_error", submitted.reason(checks, file))
        library, watched = self._builds(exercise)
        for built in (library, watched):
            if isinstance(built, Outcome):
                return built
        folders = HalvesFolders(self.scratch / exercise.id, watched)
        job = self._job(exercise, checks, library, folders)
        answer = self.server.run(_with_references(job), folders.for_collect, self._planned)
        outcome = self._collected(exercise, answer, folders)
        if outcome is None:
            digests = answer.report.digests if answer.report is not None else {}
            scratch = folders.for_judge()
            half = replace(job, half="judge", library=None, source=checks, text=None, scratch=scratch, digests=digests)
            outcome = self._judged(exercise, self.server.run(_with_references(half), folders.for_judge, self._planned))
        remove_tree(folders.home)
        if outcome.status == "crashed" and self.find_crashes and exercise.kind != "python":
            outcome = self._with_line(exercise, outcome)
        message = f"{outcome.message} {outcomes.left_behind(answer)}".strip()
        return replace(outcome, message=message, output=answer.output, max_rss_kb=answer.max_rss_kb)

    def _job(self, exercise: Exercise, checks: str, library: Path | None, folders: HalvesFolders) -> Job:
        """The collect half."""
        isolation = self.server.isolation
        if library is not None and isolation is not None:
            # The cache is out of an isolated worker's sight.
            library = shutil.copy2(library, folders.home / library.name)
        return Job(
            half="collect",
            id=exercise.id,
            name=exercise.name,
            checks=self.course.checks_file(exercise),
            source=without_judges(checks, exercise.name),
            file=self.submission / exercise.file,
            text=self._texts[exercise.file] if exercise.kind == "python" else None,
            library=library,
            evidence=folders.evidence,
            scratch=folders.scratch,
            seed=self.seed,
            limits=exercise.limits,
            sanitized=self.sanitize,
            isolation=isolation.for_worker(exercise.kind != "python") if isolation is not None else None,
            not_allowed=exercise.not_allowed,
        )

    def _collected(self, exercise: Exercise, answer: Answer, folders: HalvesFolders) -> Outcome | None:
        """The outcome, where the collect half settles it.

        Raises:
            _Interference: see :meth:`_unless_alone`.
        """
        outcome = outcomes.from_collect(exercise, answer, self.submission / exercise.file, self.sanitize)
        if answer.killed in ("processes", "memory", "scratch"):
            self._greedy.add(exercise.id)
        if outcome is not None and (answer.lost or outcome.status == "grader_error"):
            self._unless_alone(exercise, outcome.message)
        if folders.removed:
            self._unless_alone(exercise, "its folders were removed while it ran")
        return outcome

    def _judged(self, exercise: Exercise, answer: Answer) -> Outcome:
        """What the judge half found.

        Raises:
            _Interference: see :meth:`_unless_alone`.
        """
        report = answer.report
        if report is not None and report.outcome == "tampered":
            self._unless_alone(exercise, report.message)
        elif report is None and not (answer.signal or answer.killed):
            self._unless_alone(exercise, "the judge was ended from outside")
        return outcomes.from_judge(exercise, answer, self.sanitize)

    def _with_line(self, exercise: Exercise, outcome: Outcome) -> Outcome:
        """The outcome of an answer that crashed, with what the sanitizers find in it, if they do."""
        try:
            server = Server(preloads([exercise]), env=_sanitizer_env(), isolation=self.server.isolation)
        except OplabError:  # the compiler has none
            return outcome
        with server:
            self._sanitizing.add(server)
            try:
                again = grade(
                    self.course, [exercise], self.submission, jobs=1, seed=self.seed, sanitize=True, server=server
                ).exercises[0]
            except (OplabError, RuntimeError):  # no such server here, or Ctrl-C has closed it
                return outcome
            finally:
                self._sanitizing.discard(server)
        if again.status != "crashed" or outcomes.sanitize_hint(exercise) in again.message:
            return outcome
        first = outcome.message.replace(outcomes.sanitize_hint(exercise), "").strip()
        return replace(outcome, message=f"{first} {again.message}")

    def cancel(self) -> None:
        """End what :meth:`one` has started besides the run's own server."""
        for server in list(self._sanitizing):
            server.close()

    def _unless_alone(self, exercise: Exercise, message: str) -> None:
        """Return only if no other exercise runs at the same time: another one may be the cause of the problem.

        Raises:
            _Interference: others run, too.
        """
        with self._lock:
            if self._running.get(exercise.id):
                raise _Interference(message)

    def _builds(self, exercise: Exercise) -> tuple[Path | Outcome | None, Path | Outcome | None]:
        """The library of a C++ answer and, where its check watches one, the library in pieces: compiled at the same time."""
        if exercise.kind == "python":
            return None, None
        if not exercise.pieces:
            return self._build(exercise, self.sanitize), None
        with ThreadPoolExecutor(1) as other:
            watched = other.submit(self._build, exercise, "pieces")
            return self._build(exercise, self.sanitize), watched.result()

    def _build(self, exercise: Exercise, sanitize: bool | Sanitizer) -> Path | Outcome:
        from oplab.toolchain.build import BuildFailed
        from oplab.toolchain.one_file import compiled

        file, text = self.submission / exercise.file, self._texts[exercise.file]
        assert isinstance(text, str)
        try:
            made = compiled(file, text.encode(), exercise.kind, sanitize=sanitize)
            if used := policy.included(exercise, made.read, self.course.root):
                return without_points(exercise, "failed", used)
            return made.library
        except BuildFailed as error:
            text = str(error)
            if stubs.is_stubs_error(exercise.id, text):
                return todo(exercise)
            return without_points(exercise, "build_failed", text)
        except OplabError as error:
            return without_points(exercise, "grader_error", str(error))


class _Interference(Exception):
    """Something outside of the exercise went wrong while others ran."""


def _read(path: Path) -> str | Exception:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return error


def _with_references(job: Job) -> Job:
    """The job with what its source imports of :mod:`oplab.checks.references`."""
    return replace(job, references=integrity.references() if "oplab.checks.references" in job.source else {})


def _shown(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path.is_relative_to(root) else "/".join(path.parts[-3:])


def _isolation(root: Path, submission: Path) -> Isolation:
    from oplab.grading.isolation import detect

    return detect(root, submission)


def _sanitizer_env() -> dict[str, str]:
    from oplab.toolchain.build import sanitizer_env

    return sanitizer_env()
