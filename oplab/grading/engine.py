"""Grades exercises: reads the learner's files, has the two halves of each check run, and says how it went."""

from __future__ import annotations

import ast
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from oplab.course import stubs
from oplab.course.manifest import Course, Exercise, preloads
from oplab.errors import OplabError
from oplab.grading import guard
from oplab.grading import limits as limiting
from oplab.grading.client import Server, Tampered
from oplab.grading.isolation import detect
from oplab.grading.results import Check, Outcome, Results
from oplab.grading.split_check import without_judges
from oplab.toolchain.findings import python_finding, sanitizer_finding
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
) -> Results:
    """Grade ``exercises`` from the files in ``submission``, a folder laid out like ``exercises/``.

    Args:
        jobs: how many exercises run at the same time.
        seed: seeds the inputs; fresh ones by default.
        sanitize: build C++ exercises with AddressSanitizer and UBSan.
        server: a warm server to use; by default one is started when the first exercise needs it, and ended afterwards.
        isolate: run the learner's code without network, with a read-only course and without solutions in sight, as far as the
            system offers it (:mod:`oplab.grading.isolation`). It needs a server of its own, so ``server`` must be None.
        listener: called with (exercise, None) when one starts and (exercise, outcome) when it is done, from worker threads.

    Raises:
        OplabError: the submission is no folder, or the server cannot start.
    """
    if not submission.is_dir():
        raise OplabError(
            f"The folder {submission} does not exist." if not submission.exists() else f"{submission} is not a folder.",
            "Name a folder that is laid out like exercises/.",
        )
    seed = secrets.randbits(31) if seed is None else seed
    with ExitStack() as stack:
        if server is None:
            found = detect(course.root, submission) if isolate else None
            server = stack.enter_context(
                Server(preloads(exercises), env=_sanitizer_env() if sanitize else None, isolation=found)
            )
        elif isolate:
            raise ValueError("an isolated run needs a server of its own")
        work = server.prepare()
        folder = tempfile.TemporaryDirectory(prefix="oplab-", dir=work, ignore_cleanup_errors=True)
        scratch = Path(stack.enter_context(folder)).resolve()
        grader = _Grader(course, submission, scratch, server, seed, sanitize, listener, exercises)
        pool = ThreadPoolExecutor(max(1, jobs))
        futures = [pool.submit(grader.one, exercise) for exercise in exercises]
        try:
            first = [future.result() for future in futures]
            # What another exercise may have disturbed is graded once more with nothing else running. Only that counts.
            outcomes = tuple(
                grader.one(exercise, alone=True) if outcome is None else outcome
                for exercise, outcome in zip(exercises, first, strict=True)
            )
        except BaseException:  # Ctrl-C: nothing may run on in the background
            for future in futures:
                future.cancel()
            server.cancel()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    return Results(outcomes, seed)


class _Grader:
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
    ):
        self.course, self.submission, self.scratch, self.server = course, submission.resolve(), scratch, server
        self.seed, self.sanitize, self.listener = seed, sanitize, listener
        # Everything is read before any learner's code runs: what it writes to the files then changes no verdict of this run.
        self._texts = {exercise.file: _read(self.submission / exercise.file) for exercise in exercises}
        self._stubs = {exercise.file: self._stub(exercise) for exercise in exercises}
        self._checks = {exercise.chapter: _read(course.checks_file(exercise)) for exercise in exercises}
        relied, other = guard.grader_files(course.root, {exercise.chapter for exercise in exercises})
        self._relied = frozenset(relied)
        mine = [self.submission / exercise.file for exercise in course.exercises]
        self._watch = guard.Watch([*relied, *other, *mine, *guard.repository_files(course.root)])
        self._lock = threading.Lock()
        self._running: dict[str, set[str]] = {}  # id -> those that ran at the same time
        self._changed: dict[str, dict[Path, str]] = {}
        self._suspected: dict[str, dict[Path, str]] = {}  # what changed while it and others ran: it is graded again
        self._waiting: dict[str, tuple[Outcome, set[str]]] = {}  # too slow, beside these others
        self._greedy: set[str] = set()  # what was stopped because it took the machine from others

    def one(self, exercise: Exercise, alone: bool = False) -> Outcome | None:
        """Grade one exercise. None: others that ran at the same time may have disturbed it, so it has to run again, alone."""
        if alone and exercise.id in self._waiting:
            outcome, others = self._waiting.pop(exercise.id)
            if not others & self._greedy:
                return self._done(exercise, outcome)
        if self.listener and not alone:
            self.listener(exercise, None)
        started = time.monotonic()
        self._begin(exercise.id)
        disturbed = ""
        try:
            outcome = self._early(exercise) or self._run(exercise)
        except _Disturbed as error:
            disturbed = str(error)
            outcome = _outcome(exercise, "grader_error", f"The grader was disturbed: {error}")
        except Tampered as error:
            outcome = _outcome(exercise, "grader_error", str(error))
        except OSError as error:
            disturbed = str(error)
            outcome = _outcome(exercise, "grader_error", f"The grader's own files: {error}")
        others, changed = self._end(exercise.id)
        serious = {path: how for path, how in changed.items() if path in self._relied}
        if others and not alone and (disturbed or serious):
            self._suspected[exercise.id] = changed
            return None
        if changed:
            outcome = self._tell(outcome, changed, ())
            if serious and outcome.points:
                lost = "No points are given for a run that changes what the grader relies on."
                outcome = replace(outcome, status="error", points=0, message=f"{outcome.message} {lost}".strip())
        elif self._suspected.get(exercise.id):
            outcome = self._tell(outcome, self._suspected[exercise.id], ("another exercise",))
        outcome = replace(outcome, seconds=time.monotonic() - started)
        if others and not alone and outcome.status in ("timeout", "crashed"):
            self._waiting[exercise.id] = outcome, others  # until it is known what the others did to this machine
            return None
        return self._done(exercise, outcome)

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
        """Who ran at the same time, and which files changed meanwhile: it concerns all that are running now."""
        with self._lock:
            found = self._watch.changes()
            for running in self._running:
                if found:
                    self._changed.setdefault(running, {}).update(found)
            return self._running.pop(id), self._changed.pop(id, {})

    def _tell(self, outcome: Outcome, changed: dict[Path, str], others: Sequence[str]) -> Outcome:
        names = [f"{_shown(path, self.course.root)} was {how}" for path, how in sorted(changed.items())]
        more = f", and {len(names) - 3} more" if len(names) > 3 else ""
        who = " and ".join(["it", *others])
        note = f"While {who} ran, {', '.join(names[:3])}{more}."
        return replace(outcome, message=f"{outcome.message} {note}".strip())

    def _early(self, exercise: Exercise) -> Outcome | None:
        """What can be told from the text alone: no file, not Python, no function, still the stub."""
        file, text = self.submission / exercise.file, self._texts[exercise.file]
        if isinstance(text, FileNotFoundError):
            return _outcome(exercise, "error", f"The file {exercise.file} is missing from {self.submission.name}/.")
        if isinstance(text, Exception):
            return _outcome(exercise, "error", f"{exercise.file} cannot be read: {_reason(text)}.")
        stub = self._stubs[exercise.file]
        if exercise.kind != "python":
            return _todo(exercise) if stub is not None and stubs.is_untouched(text, stub, None) else None
        try:
            ast.parse(text, str(file))
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            quoted = f": {error.text.strip()}" if getattr(error, "text", None) else ""
            what = f"{type(error).__name__}: {getattr(error, 'msg', error)}"
            return _outcome(
                exercise, "error", f"{what} ({file.name}, line {line}){quoted}" if line else f"{what} ({file.name})"
            )
        except (RecursionError, MemoryError):
            return _outcome(exercise, "error", f"{file.name} is nested too deeply for Python to read.")
        if stub is not None and stubs.is_untouched(text, stub, exercise.name):
            return _todo(exercise)
        return None

    def _stub(self, exercise: Exercise) -> str | None:
        solution = _read(self.course.root / "solutions" / exercise.file)
        if isinstance(solution, Exception):  # a course may be handed out without its solutions
            return None
        return stubs.make_stub(solution, exercise.file)

    def _run(self, exercise: Exercise) -> Outcome:
        checks = self._checks[exercise.chapter]
        if isinstance(checks, Exception):
            name = self.course.checks_file(exercise).name
            return _outcome(exercise, "grader_error", f"oplab/checks/{name} cannot be read: {_reason(checks)}.")
        library = watched = None
        if exercise.kind != "python":
            library = self._build(exercise, self.sanitize)
            watched = self._build(exercise, "pieces") if exercise.pieces and isinstance(library, Path) else None
            for built in (library, watched):
                if isinstance(built, Outcome):
                    return built
        home = self.scratch / exercise.id
        shutil.rmtree(home, ignore_errors=True)
        evidence, scratch, judging = home / "evidence", home / "scratch", home / "judge"
        for folder in (evidence, scratch):
            folder.mkdir(parents=True)
        if watched is not None:
            shutil.copy2(watched, scratch / "pieces.so")
        isolation = self.server.isolation
        if library is not None and isolation is not None:
            library = shutil.copy2(library, home / library.name)  # the cache is out of an isolated worker's sight
        job: dict[str, Any] = {
            "half": "collect",
            "id": exercise.id,
            "name": exercise.name,
            "checks": str(self.course.checks_file(exercise)),
            "source": _for_collect(checks, exercise.name),
            "file": str(self.submission / exercise.file),
            "text": self._texts[exercise.file] if exercise.kind == "python" else None,
            "library": str(library) if library else None,
            "evidence": str(evidence),
            "scratch": str(scratch),
            "seed": self.seed,
            "limits": asdict(exercise.limits),
            "sanitized": self.sanitize,
            "isolation": isolation.for_worker() if isolation is not None else None,
        }
        before = _numbers(home, evidence, scratch)
        answer = self.server.run(job)
        outcome = _from_collect(exercise, answer, self.submission / exercise.file, self.sanitize)
        if answer.get("killed") in ("processes", "memory", "scratch"):
            self._greedy.add(exercise.id)
        if outcome is not None and (answer.get("lost") or outcome.status == "grader_error"):
            self._if_disturbed(exercise, outcome.message)
        if _numbers(home, evidence, scratch) != before:
            self._if_disturbed(exercise, "its folders were removed while it ran")
        if outcome is None:
            judging.mkdir(
                parents=True
            )  # not the scratch folder: links that the learner's code left there lead anywhere
            seals = answer["report"].get("seals")
            verdict = self.server.run(
                {
                    **job,
                    "half": "judge",
                    "library": None,
                    "source": checks,
                    "text": None,
                    "scratch": str(judging),
                    "seals": seals if isinstance(seals, dict) else {},
                }
            )
            report = verdict.get("report") or {}
            if not (report or verdict.get("signal") or verdict.get("killed")) or report.get("outcome") == "disturbed":
                self._if_disturbed(exercise, str(report.get("message", "the judge was ended from outside")))
            outcome = _from_judge(exercise, verdict, self.sanitize)
        shutil.rmtree(home, ignore_errors=True)
        note = _left_behind(answer)
        return replace(
            outcome,
            message=f"{outcome.message} {note}".strip(),
            output=str(answer.get("output", "")),
            max_rss_kb=int(answer.get("max_rss_kb", 0)),
        )

    def _if_disturbed(self, exercise: Exercise, message: str) -> None:
        """Raise _Disturbed when another exercise ran at the same time: it may be to blame."""
        with self._lock:
            if self._running.get(exercise.id):
                raise _Disturbed(message)

    def _build(self, exercise: Exercise, sanitize: bool | Sanitizer) -> Path | Outcome:
        from oplab.toolchain.build import BuildFailed, compile_exercise

        try:
            library = compile_exercise(self.submission / exercise.file, exercise.kind, sanitize=sanitize)
            if _read(self.submission / exercise.file) != self._texts[exercise.file]:
                return _outcome(exercise, "error", f"{exercise.file} was changed after the run began. Grade it again.")
            return library
        except BuildFailed as error:
            text = str(error)
            if stubs.is_stubs_error(exercise.id, text):
                return _todo(exercise)
            return _outcome(exercise, "build_failed", text)
        except OplabError as error:
            return _outcome(exercise, "grader_error", str(error))


def _from_collect(exercise: Exercise, answer: dict[str, Any], file: Path, sanitize: bool) -> Outcome | None:
    """The outcome if the learner's half settles it, else None: then the evidence is judged."""
    if answer.get("lost"):
        return _outcome(
            exercise,
            "crashed",
            "The process that ran the exercise was killed from outside. Does the code send signals?",
        )
    limits, report = exercise.limits, answer.get("report")
    if answer.get("phase") == "starting" and not answer["killed"] and not answer["signal"]:
        return _outcome(exercise, "grader_error", f"The worker did not start. {answer['output'][-2000:]}".strip())
    during = " while the file was imported" if answer.get("phase") == "importing" else ""
    if answer["killed"] == "wall":
        return _outcome(
            exercise, "timeout", f"It ran longer than {limits.wall:g} s{during} and was stopped. Does a loop never end?"
        )
    if answer["killed"] == "output":
        return _outcome(exercise, "error", f"It printed more than {limits.output_kb} kB{during} and was stopped.")
    if answer["killed"] == "processes":
        return _outcome(
            exercise,
            "error",
            f"It started more than {limiting.PROCESSES} processes{during} and was stopped, with all of them.",
        )
    if answer["killed"] == "memory":
        return _outcome(
            exercise,
            "error",
            f"It and the processes that it started used more than {limits.memory_mb} MB of memory together{during} "
            "and were stopped.",
        )
    if answer["killed"] == "scratch":
        return _outcome(
            exercise,
            "error",
            f"It wrote more than {limiting.SCRATCH >> 20} MB, or a very large number of files{during}, and was stopped.",
        )
    if answer["signal"] == "SIGXCPU" or (answer["signal"] == "SIGKILL" and answer["cpu_seconds"] >= limits.cpu):
        return _outcome(
            exercise, "timeout", f"It used more than {limits.cpu:g} s of processor time{during} and was stopped."
        )
    if answer["signal"]:
        signal, output = answer["signal"], answer["output"]
        if found := sanitizer_finding(output, file) if sanitize else "":
            return _outcome(exercise, "crashed", found)
        if exercise.kind == "python" and (found := python_finding(output, file)):
            return _outcome(exercise, "crashed", f"The process crashed with {signal}{during}. {found}")
        hint = " An integer was divided by zero: a size may be 0." if signal == "SIGFPE" else ""
        if exercise.kind != "python" and not sanitize:
            hint += f" `oplab check {exercise.id} --sanitize` finds the line."
        return _outcome(exercise, "crashed", f"The process crashed with {signal}{during}.{hint}")
    if report is None or report["outcome"] not in ("collected", "wrong", "todo", "error", "grader_error"):
        if sanitize and (found := sanitizer_finding(answer["output"], file)):
            return _outcome(exercise, "crashed", found)
        return _outcome(
            exercise,
            "error",
            f"The process ended{during} with exit code {answer['exit']} before the exercise was done. Does the code call os._exit?",
        )
    outcome, message = report["outcome"], str(report.get("message", ""))
    if outcome == "collected":
        return None
    if outcome == "wrong":
        return _outcome(exercise, "failed", message, (Check("runs", False, message),))
    if outcome in ("todo", "error"):
        return _outcome(exercise, outcome, message)
    return _outcome(exercise, "grader_error", f"{message}\n{report.get('trace', '')}".strip())


def _from_judge(exercise: Exercise, answer: dict[str, Any], sanitize: bool = False) -> Outcome:
    """The outcome that the judge found. A judge that died was given something it could not survive: no points, and not our fault."""
    report = answer.get("report") or {}
    if report.get("outcome") == "judged":
        checks = tuple(Check(entry["name"], entry["passed"], entry["message"]) for entry in report["checks"])
        if not checks:
            return _outcome(exercise, "grader_error", "The judge made no check.")
        bad = next((entry for entry in report["checks"] if not entry["passed"]), None)
        if bad is None:
            return _passed(exercise, checks, report.get("share"), sanitize)
        return _outcome(exercise, "error" if bad["raised"] else "failed", bad["message"], checks)
    if report.get("outcome") == "grader_error":
        return _outcome(exercise, "grader_error", f"{report.get('message')}\n{report.get('trace', '')}".strip())
    if answer.get("lost"):
        return _outcome(exercise, "grader_error", "The judge was killed from outside.")
    if report.get("outcome") == "disturbed":
        return _outcome(exercise, "failed", f"The evidence cannot be trusted: {report.get('message')}")
    if answer.get("killed") == "wall" or answer.get("signal") in ("SIGXCPU", "SIGKILL"):
        return _outcome(
            exercise,
            "failed",
            "Judging the result took longer than the exercise may: the model or arrays are too heavy.",
        )
    died = answer.get("signal") or f"exit code {answer.get('exit')}"
    return _outcome(exercise, "failed", f"ONNX Runtime or the checker died on the result ({died}).")


def _passed(
    exercise: Exercise, checks: tuple[Check, ...], share: dict[str, Any] | None, sanitize: bool = False
) -> Outcome:
    """A right answer: all points, or the part that the judge awarded, rounded and never less than one."""
    if share is None:
        return replace(_outcome(exercise, "passed", "", checks), points=exercise.points)
    if not exercise.speed:
        return _outcome(
            exercise, "grader_error", "The judge shares the points out, but course.toml has no speed = true."
        )
    points = max(1, min(exercise.points, round(share["part"] * exercise.points)))
    reason = share["reason"] if points < exercise.points else ""
    if reason and sanitize:
        reason = f"With --sanitize everything is slow: grade it without, for its points. {reason}"
    return replace(_outcome(exercise, "passed", reason, checks), points=points)


class _Disturbed(Exception):
    """Something outside of the exercise went wrong while others ran."""


def _read(path: Path) -> str | Exception:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return error


def _numbers(*folders: Path) -> list[int | None]:
    """The inode of each folder: another one of the same name is not the same."""
    found: list[int | None] = []
    for folder in folders:
        try:
            found.append(folder.stat().st_ino)
        except OSError:
            found.append(None)
    return found


def _for_collect(checks: str, name: str) -> str:
    try:
        return without_judges(checks, name)
    except (SyntaxError, ValueError):
        return checks  # the worker says what is wrong with it


def _shown(path: Path, root: Path) -> str:
    try:
        return str(path.relative_to(root))
    except ValueError:
        return "/".join(path.parts[-3:])


def _outcome(exercise: Exercise, status: str, message: str, checks: tuple[Check, ...] = ()) -> Outcome:
    return Outcome(exercise.id, exercise.chapter, status, 0, exercise.points, 0.0, message, checks)


def _todo(exercise: Exercise) -> Outcome:
    return _outcome(exercise, "todo", f"Not written yet. Goal: {exercise.goal}")


def _left_behind(answer: dict[str, Any]) -> str:
    count = answer.get("left_behind", 0)
    if not count or answer.get("killed"):
        return ""
    return f"({count} process{'es' if count > 1 else ''} that it left running {'were' if count > 1 else 'was'} ended.)"


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or (
        "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else str(error)
    )


def _sanitizer_env() -> dict[str, str]:
    from oplab.toolchain.build import sanitizer_env

    return sanitizer_env()
