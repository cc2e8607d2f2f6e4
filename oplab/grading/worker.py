"""What runs in a forked worker: one half of one check. It ends with a report of how it went."""

from __future__ import annotations

import contextlib
import errno
import importlib.machinery
import importlib.util
import linecache
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from oplab.checks.draws import InputsDiffer, rng_for
from oplab.checks.errors import LearnerError, find_todo, first_line, learner_line
from oplab.checks.evidence import Collect, EvidenceTampered
from oplab.checks.judge import CheckResult, Enough, Judge
from oplab.errors import OplabError, WrongAnswer
from oplab.grading import policy, protocol
from oplab.grading.protocol import Job, Report, Share
from oplab.grading.results import UNREADABLE, Check

MAX_REPORT = 256 << 10
# What Python raises where a value is not of the type that the code expects.
_CONFUSIONS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def run(job: Job, report_fd: int) -> None:
    """Run the half that ``job.half`` names and write a report to ``report_fd``.

    Its lines are ``importing`` when the learner's file is imported, then ``running``, then the :class:`Report`: from the first two it
    is known where a limit was hit.

    Args:
        job: what to run.
        report_fd: descriptor of a pipe to the supervisor.
    """
    pipe = _ReportPipe(report_fd)
    try:
        report = collect(job, pipe) if job.half == "collect" else judge(job)
    except BaseException as error:  # SystemExit and KeyboardInterrupt of the learner's code are answers too
        report = explain(error, job)
    pipe.report(report)


def collect(job: Job, pipe: _ReportPipe) -> Report:
    """Import the learner's file, call ``collect_NAME``, and leave the evidence in ``job.evidence``.

    Args:
        job: what to run.
        pipe: receives the phases.

    Returns:
        a report with the outcome ``collected`` and the digests of the evidence. What the learner's code or the check raises goes on to
        the caller.
    """
    pipe.phase("importing")
    module = None
    if job.library is None:
        module = import_text(job.text or "", job.file, f"learner_{job.file.stem}")
    pipe.phase("running")
    half = getattr(import_checks(job), f"collect_{job.name}")
    policy.enforce(job.id, job.not_allowed, job.file)
    helper = Collect(module, job.file, job.library, rng_for(job.seed, job.id), job.scratch, job.evidence)
    half(helper)
    # The digests go through the pipe, which no other exercise's worker has: such a worker could write to files.
    return Report("collected", digests=helper.finish())


def judge(job: Job) -> Report:
    """Call ``judge_NAME`` on the evidence. The learner's file is never imported here.

    Returns:
        a report with the outcome ``judged``, or ``tampered`` for evidence that cannot be trusted. What else the check raises goes on
        to the caller.
    """
    half = getattr(import_checks(job), f"judge_{job.name}")
    try:
        verdict = Judge(job.evidence, rng_for(job.seed, job.id), job.digests)
        with contextlib.redirect_stdout(sys.stderr):
            try:
                with contextlib.suppress(Enough):
                    half(verdict)
            finally:  # whatever it found, it means nothing if the inputs were others
                verdict.expect_same_inputs()
    except EvidenceTampered as error:
        return Report("tampered", str(error))
    except WrongAnswer as error:  # outside of a named check: evidence that cannot be read
        return Report("judged", checks=(Check("evidence", False, str(error)),))
    except _CONFUSIONS as error:
        # A bug of the check shows in its known answers, where `lint-course` refuses this sentence. Else the evidence is of a type
        # that the check does not expect: forged, or returned by an answer that no one has thought of.
        if not verdict.last_read:
            raise
        verdict.results.append(CheckResult("evidence", False, _unreadable(verdict, error, job)))
    bad = next((check for check in verdict.results if not check.passed), None)
    return Report(
        "judged",
        checks=tuple(Check(check.name, check.passed, check.message[:4000]) for check in verdict.results),
        raised=bad is not None and bad.raised,
        share=None if verdict.share is None else Share(verdict.share[0], verdict.share[1][:4000]),
    )


def _unreadable(verdict: Judge, error: Exception, job: Job) -> str:
    name = verdict.last_read
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == job.checks]
    line = f"line {frames[-1].lineno} of {job.checks.name}" if frames else job.checks.name
    return f"{name}: {UNREADABLE}, {verdict.described(name)} ({first_line(error, 200)}; {line})."


def explain(error: BaseException, job: Job) -> Report:
    """The report for an exception: is the learner's code or the grader at fault, and where."""
    unwritten = find_todo(error)
    if job.half == "collect":
        if unwritten is not None:
            if unwritten.id == job.id:
                return Report("todo", str(unwritten))
            return Report("error", f"It needs {unwritten.id}, and {unwritten}")
        if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
            limit = job.limits.memory_mb
            return Report("error", f"Out of memory: more than the limit of {limit} MB was asked for.{_at(error, job)}")
        if isinstance(error, SystemExit):
            return Report("error", f"The code ended the process with sys.exit({error.code!r}).{_at(error, job)}")
        if isinstance(error, LearnerError):
            return Report("error", str(error))
        if isinstance(error, WrongAnswer):
            return Report("wrong", str(error))
        if isinstance(error, SyntaxError) and error.filename == str(job.file):
            quoted = f": {error.text.strip()}" if error.text else ""
            return Report("error", f"{type(error).__name__}: {error.msg}{_at(error, job)}{quoted}")
        if learner_line(error, job.file):
            return Report("error", f"{first_line(error)}{_at(error, job)}")
    if isinstance(error, InputsDiffer):
        return Report(
            "grader_error",
            f"The two halves of the check made different inputs: {error}. That says nothing about your answer. "
            f"To repeat it: oplab check {job.id} --seed {job.seed}",
        )
    if isinstance(error, OplabError):  # what this machine lacks, with the command that gets it
        return Report("grader_error", str(error))
    if isinstance(error, OSError) and error.errno in _NO_SPACE:
        # The parent of the scratch folder is TMPDIR, or a private one of this run.
        return Report(
            "grader_error",
            f"The grader cannot write to its temporary folder: {error.strerror}. Free some space there, or set TMPDIR "
            "to a folder with free space.",
        )
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return Report("grader_error", f"{first_line(error)} (in the grader's own code)", trace[-4000:])


def import_text(text: str, path: Path, name: str) -> ModuleType:
    """Import ``text`` as the module ``name``, as if it were the content of ``path``: another exercise may have changed that file.

    Raises:
        Exception: whatever the text raises when it runs, and SyntaxError for text that is not Python.
    """
    linecache.cache[str(path)] = (
        len(text),
        None,
        text.splitlines(keepends=True),
        str(path),
    )  # what inspect.getsource reads
    loader = _TextLoader(name, str(path), text)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def import_checks(job: Job) -> ModuleType:
    """The chapter's checks, imported from the text in the job, after what they share."""
    for name, text in job.references.items():
        import_text(text, job.checks.parent.joinpath("references", f"{name.rpartition('.')[2]}.py"), name)
    return import_text(job.source, job.checks, f"checks_{job.checks.stem}")


class _TextLoader(importlib.machinery.SourceFileLoader):
    """Loads a module from a text that was read earlier; the path is only for messages and for ``inspect``."""

    def __init__(self, name: str, path: str, text: str):
        super().__init__(name, path)
        self._text = text

    def get_code(self, fullname: str) -> Any:
        return compile(self._text, self.path, "exec", dont_inherit=True)


def _at(error: BaseException, job: Job) -> str:
    where = learner_line(error, job.file)
    return f" ({where})" if where else ""


class _ReportPipe:
    """The worker's end of the pipe to its supervisor."""

    def __init__(self, fd: int):
        self._fd, self._pid = fd, os.getpid()

    def phase(self, name: str) -> None:
        self._write(name.encode() + b"\n")

    def report(self, report: Report) -> None:
        line = protocol.encode(report)
        self._write(line if len(line) < MAX_REPORT else protocol.encode(Report("error", "…")))

    def _write(self, data: bytes) -> None:
        if os.getpid() != self._pid:  # a fork of the learner's code came back through our frames
            os._exit(0)
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._fd, data) :]
