"""Grades exercises: reads the learner's files, has the two halves of each check run, and says how it went."""

from __future__ import annotations

import ast
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from oplab import stubs
from oplab.course import Course, Exercise
from oplab.errors import OplabError
from oplab.grading.client import Server
from oplab.grading.results import Check, Outcome, Results

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
) -> Results:
    """Grade ``exercises`` from the files in ``submission``, a folder laid out like ``exercises/``.

    Args:
        jobs: how many exercises run at the same time.
        seed: seeds the inputs; fresh ones by default.
        sanitize: build C++ exercises with AddressSanitizer and UBSan.
        server: a warm server to use; by default one is started when the first exercise needs it, and ended afterwards.
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
            preload = sorted({name for exercise in exercises for name in exercise.preload})
            server = stack.enter_context(Server(preload, env=_sanitizer_env() if sanitize else None))
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="oplab-", ignore_cleanup_errors=True)))
        grader = _Grader(course, submission, scratch, server, seed, sanitize, listener)
        pool = ThreadPoolExecutor(max(1, jobs))
        futures = [pool.submit(grader.one, exercise) for exercise in exercises]
        try:
            outcomes = tuple(future.result() for future in futures)
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
    ):
        self.course, self.submission, self.scratch, self.server = course, submission.resolve(), scratch, server
        self.seed, self.sanitize, self.listener = seed, sanitize, listener

    def one(self, exercise: Exercise) -> Outcome:
        if self.listener:
            self.listener(exercise, None)
        started = time.monotonic()
        outcome = self._early(exercise) or self._run(exercise)
        outcome = replace(outcome, seconds=time.monotonic() - started)
        if self.listener:
            self.listener(exercise, outcome)
        return outcome

    def _early(self, exercise: Exercise) -> Outcome | None:
        """What can be told from the text alone: no file, not Python, no function, still the stub."""
        file = self.submission / exercise.file
        try:
            text = file.read_text(encoding="utf-8")
        except FileNotFoundError:
            return _outcome(exercise, "error", f"The file {exercise.file} is missing from {self.submission.name}/.")
        except (OSError, UnicodeDecodeError) as error:
            return _outcome(exercise, "error", f"{exercise.file} cannot be read: {_reason(error)}.")
        stub = self._stub(exercise)
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
        solution = self.course.root / "solutions" / exercise.file
        try:
            return stubs.make_stub(solution.read_text(encoding="utf-8"), exercise.file)
        except OSError:  # a course may be handed out without its solutions
            return None

    def _run(self, exercise: Exercise) -> Outcome:
        library = None
        if exercise.kind != "python":
            built = self._build(exercise)
            if isinstance(built, Outcome):
                return built
            library = str(built)
        home = self.scratch / exercise.id
        evidence, scratch = home / "evidence", home / "scratch"
        evidence.mkdir(parents=True)
        scratch.mkdir()
        job: dict[str, Any] = {
            "half": "collect",
            "id": exercise.id,
            "name": exercise.name,
            "checks": str(self.course.checks_file(exercise)),
            "file": str(self.submission / exercise.file),
            "library": library,
            "evidence": str(evidence),
            "scratch": str(scratch),
            "seed": self.seed,
            "limits": asdict(exercise.limits),
            "sanitized": self.sanitize,
        }
        answer = self.server.run(job)
        outcome = _from_collect(exercise, answer, self.sanitize)
        if outcome is None:
            judging = self.server.run({**job, "half": "judge", "library": None})
            outcome = _from_judge(exercise, judging)
        shutil.rmtree(home, ignore_errors=True)
        note = _left_behind(answer)
        return replace(
            outcome,
            message=f"{outcome.message} {note}".strip(),
            output=str(answer.get("output", "")),
            max_rss_kb=int(answer.get("max_rss_kb", 0)),
        )

    def _build(self, exercise: Exercise) -> Path | Outcome:
        from oplab.toolchain.build import BuildFailed, compile_exercise

        try:
            return compile_exercise(self.submission / exercise.file, exercise.kind, sanitize=self.sanitize)
        except BuildFailed as error:
            text = str(error)
            if f"{exercise.id} is not written yet" in text:
                return _todo(exercise)
            return _outcome(exercise, "build_failed", text)
        except OplabError as error:
            return _outcome(exercise, "grader_error", str(error))


def _from_collect(exercise: Exercise, answer: dict[str, Any], sanitize: bool) -> Outcome | None:
    """The outcome if the learner's half settles it, else None: then the evidence is judged."""
    if answer.get("lost"):
        return _outcome(
            exercise,
            "crashed",
            "The process that ran the exercise was killed from outside. Does the code send signals?",
        )
    limits, report = exercise.limits, answer.get("report")
    during = " while the file was imported" if answer.get("phase") == "importing" else ""
    if answer["killed"] == "wall":
        return _outcome(
            exercise, "timeout", f"It ran longer than {limits.wall:g} s{during} and was stopped. Does a loop never end?"
        )
    if answer["killed"] == "output":
        return _outcome(exercise, "error", f"It printed more than {limits.output_kb} kB{during} and was stopped.")
    if answer["signal"] == "SIGXCPU" or (answer["signal"] == "SIGKILL" and answer["cpu_seconds"] >= limits.cpu):
        return _outcome(
            exercise, "timeout", f"It used more than {limits.cpu:g} s of processor time{during} and was stopped."
        )
    if answer["signal"]:
        hint = ""
        if exercise.kind != "python" and not sanitize:
            hint = f" `oplab check {exercise.id} --sanitize` finds the line."
        detail = _sanitizer_summary(answer["output"]) if sanitize else ""
        return _outcome(exercise, "crashed", f"The process crashed with {answer['signal']}{during}.{hint}{detail}")
    if report is None or report["outcome"] not in ("collected", "wrong", "todo", "error", "grader_error"):
        if sanitize and (detail := _sanitizer_summary(answer["output"])):
            return _outcome(exercise, "crashed", f"The sanitizer stopped it.{detail}")
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


def _from_judge(exercise: Exercise, answer: dict[str, Any]) -> Outcome:
    """The outcome that the judge found. A judge that died was given something it could not survive: no points, and not our fault."""
    report = answer.get("report") or {}
    if report.get("outcome") == "judged":
        checks = tuple(Check(entry["name"], entry["passed"], entry["message"]) for entry in report["checks"])
        if not checks:
            return _outcome(exercise, "grader_error", "The judge made no check.")
        bad = next((entry for entry in report["checks"] if not entry["passed"]), None)
        if bad is None:
            return replace(_outcome(exercise, "passed", "", checks), points=exercise.points)
        return _outcome(exercise, "error" if bad["raised"] else "failed", bad["message"], checks)
    if report.get("outcome") == "grader_error":
        return _outcome(exercise, "grader_error", f"{report.get('message')}\n{report.get('trace', '')}".strip())
    if answer.get("killed") == "wall" or answer.get("signal") in ("SIGXCPU", "SIGKILL"):
        return _outcome(
            exercise,
            "failed",
            "Judging the result took longer than the exercise may: the model or arrays are too heavy.",
        )
    died = answer.get("signal") or f"exit code {answer.get('exit')}"
    return _outcome(exercise, "failed", f"ONNX Runtime or the checker died on the result ({died}).")


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


def _sanitizer_summary(output: str) -> str:
    lines = output.splitlines()
    for index, line in enumerate(lines):
        if "ERROR: AddressSanitizer" in line or "runtime error:" in line:
            frame = next(
                (
                    entry.strip()
                    for entry in lines[index + 1 :]
                    if "exercises" in entry or "/c" in entry and ".cpp:" in entry
                ),
                "",
            )
            return " " + line.split("==")[-1].strip() + (f" at {frame.split(' in ')[-1]}" if frame else "")
    return ""
