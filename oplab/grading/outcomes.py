"""What a worker's answer means for a learner: each way to end becomes an outcome with a message."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

from oplab.course.manifest import Exercise
from oplab.grading.limits import PROCESSES, SCRATCH
from oplab.grading.protocol import Answer, Report
from oplab.grading.results import Check, Outcome

_HINTS = {
    "SIGFPE": " An integer was divided by zero: a size may be 0.",
    "SIGKILL": " It was killed in each attempt: by the code itself, or by a system that is out of memory.",
}


def without_points(exercise: Exercise, status: str, message: str, checks: tuple[Check, ...] = ()) -> Outcome:
    """An outcome with no points yet.

    Args:
        exercise: what was graded.
        status: one of :data:`oplab.grading.results.STATES`.
        message: why, in words for the learner.
        checks: its named checks, if it came that far.
    """
    return Outcome(exercise.id, exercise.chapter, status, 0, exercise.points, 0.0, message, checks)


def todo(exercise: Exercise) -> Outcome:
    """The outcome of a stub."""
    return without_points(exercise, "todo", f"Not written yet. Goal: {exercise.goal}")


def sanitize_hint(exercise: Exercise) -> str:
    """What finds the line of a crash, as a sentence."""
    return f"`oplab check {exercise.id} --sanitize` finds the line."


def from_collect(exercise: Exercise, answer: Answer, file: Path, sanitize: bool) -> Outcome | None:
    """The outcome of the collect half, where it is settled by it.

    Args:
        exercise: what was graded.
        answer: of the worker that ran the learner's code.
        file: the learner's file.
        sanitize: whether it was built with sanitizers, whose findings are in the output then.

    Returns:
        an outcome without points, or None: the evidence is there to be judged.
    """
    if answer.lost:
        return without_points(
            exercise,
            "crashed",
            "The process that ran the exercise was killed from outside. Does the code send signals?",
        )
    limits, report = exercise.limits, answer.report
    if answer.phase == "starting" and not answer.killed and not answer.signal:
        return without_points(exercise, "grader_error", f"The worker did not start. {answer.output[-2000:]}".strip())
    during = " while the file was imported" if answer.phase == "importing" else ""
    if answer.killed == "wall":
        return without_points(
            exercise, "timeout", f"It ran longer than {limits.wall:g} s{during} and was stopped. Does a loop never end?"
        )
    if answer.killed == "output":
        return without_points(exercise, "error", f"It printed more than {limits.output_kb} kB{during} and was stopped.")
    if answer.killed == "processes":
        return without_points(
            exercise,
            "error",
            f"It started more than {PROCESSES} processes{during} and was stopped, with all of them.",
        )
    if answer.killed == "memory":
        return without_points(
            exercise,
            "error",
            f"It and the processes that it started used more than {limits.memory_mb} MB of memory together{during} "
            "and were stopped.",
        )
    if answer.killed == "scratch":
        return without_points(
            exercise,
            "error",
            f"It wrote more than {SCRATCH >> 20} MB, or a very large number of files{during}, and was stopped.",
        )
    if answer.signal == "SIGXCPU" or (answer.signal == "SIGKILL" and answer.cpu_seconds >= limits.cpu):
        return without_points(
            exercise, "timeout", f"It used more than {limits.cpu:g} s of processor time{during} and was stopped."
        )
    if answer.signal:
        return without_points(exercise, "crashed", _crash(exercise, answer, file, sanitize, during))
    if report is None or report.outcome not in ("collected", "wrong", "todo", "error", "grader_error"):
        if sanitize and (found := _sanitizers(answer.output, file)):
            return without_points(exercise, "crashed", found)
        return without_points(
            exercise,
            "error",
            f"The process ended{during} with exit code {answer.exit} before the exercise was done. Does the code call os._exit?",
        )
    if report.outcome == "collected":
        return None
    if report.outcome == "wrong":
        return without_points(exercise, "failed", report.message, (Check("runs", False, report.message),))
    if report.outcome in ("todo", "error"):
        return without_points(exercise, report.outcome, report.message)
    return without_points(exercise, "grader_error", f"{report.message}\n{report.trace}".strip())


def _crash(exercise: Exercise, answer: Answer, file: Path, sanitize: bool, during: str) -> str:
    """What is known of a signal that ended the worker."""
    from oplab.toolchain.findings import last_case, python_finding, thrown

    signal, output = answer.signal or "", answer.output
    if sanitize and (found := _sanitizers(output, file)):
        return found
    if exercise.kind == "python" and (found := python_finding(output, file)):
        return f"The process crashed with {signal}{during}. {found}"
    case = last_case(output)
    during += f" in this case: {case}" if case else ""
    hint = _HINTS.get(signal, "")
    if exception := thrown(output):
        hint += f" A C++ exception ({exception}) tried to leave a function that C calls: catch it inside, and return a status."
    if exercise.kind != "python" and not sanitize:
        hint += f" {sanitize_hint(exercise)}"
    return f"The process crashed with {signal}{during}.{hint}"


def _sanitizers(output: str, file: Path) -> str:
    from oplab.toolchain.findings import sanitizer_finding

    return sanitizer_finding(output, file)


def from_judge(exercise: Exercise, answer: Answer, sanitize: bool = False) -> Outcome:
    """The outcome that the judge half found.

    When the judge's process died, the evidence was the cause: such an answer gets no points.

    Args:
        exercise: what was graded.
        answer: of the worker that judged the evidence.
        sanitize: whether the answer was built with sanitizers, which make it slow.
    """
    report = answer.report
    if report is not None and report.outcome == "judged":
        if not report.checks:
            return without_points(exercise, "grader_error", "The judge made no check.")
        bad = next((check for check in report.checks if not check.passed), None)
        if bad is None:
            return _passed(exercise, report, sanitize)
        return without_points(exercise, "error" if report.raised else "failed", bad.message, report.checks)
    if report is not None and report.outcome == "grader_error":
        return without_points(exercise, "grader_error", f"{report.message}\n{report.trace}".strip())
    if answer.lost:
        return without_points(exercise, "grader_error", "The judge was killed from outside.")
    if report is not None and report.outcome == "tampered":
        return without_points(exercise, "failed", f"The evidence cannot be trusted: {report.message}")
    if answer.killed == "wall" or answer.signal in ("SIGXCPU", "SIGKILL"):
        return without_points(
            exercise,
            "failed",
            "Judging the result took longer than the exercise may: the model or arrays are too heavy.",
        )
    died = answer.signal or f"exit code {answer.exit}"
    return without_points(exercise, "failed", f"ONNX Runtime or the checker died on the result ({died}).")


def _passed(exercise: Exercise, report: Report, sanitize: bool) -> Outcome:
    """A right answer: all points, or the whole points of the part that the judge awarded, and never less than one."""
    passed = without_points(exercise, "passed", "", report.checks)
    if report.share is None:
        return replace(passed, points=exercise.points)
    if not exercise.speed:
        return without_points(
            exercise, "grader_error", "The judge awards part of the points, but course.toml has no speed = true."
        )
    points = max(1, math.floor(report.share.part * exercise.points + 1e-9))
    reason = report.share.reason
    if points < exercise.points and sanitize:
        reason = f"With --sanitize everything is slow: grade it without, for its points. {reason}"
    return replace(passed, points=points, message=reason)


def left_behind(answer: Answer) -> str:
    """A note about processes that the learner's code left running, or an empty string."""
    count = answer.left_behind
    if not count or answer.killed:
        return ""
    return f"({count} process{'es' if count > 1 else ''} that it left running {'were' if count > 1 else 'was'} ended.)"
