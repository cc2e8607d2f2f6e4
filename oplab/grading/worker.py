"""What happens in a forked worker: one half of one check, and a report of how it went."""

from __future__ import annotations

import contextlib
import errno
import importlib.machinery
import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from oplab.checks.draws import InputsDiffer, rng_for
from oplab.checks.errors import LearnerError, find_todo, first_line, learner_line
from oplab.checks.evidence import Collect, EvidenceTampered
from oplab.checks.judge import Judge
from oplab.grading import guard
from oplab.parity.arrays import WrongAnswer

MAX_REPORT = 256 << 10
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def run(job: dict[str, Any], report_fd: int) -> None:
    """Run the half that ``job["half"]`` names and write a JSON report to ``report_fd``.

    The first line of the report is ``importing`` while the learner's file is imported, then ``running``: where a limit was hit is
    read from it.
    """
    tell = _Report(report_fd)
    try:
        result = collect(job, tell) if job["half"] == "collect" else judge(job)
    except BaseException as error:  # SystemExit and KeyboardInterrupt of the learner's code are answers too
        result = explain(error, job)
    tell.last(result)


def collect(job: dict[str, Any], tell: _Report) -> dict[str, Any]:
    """Import the learner's file and call ``collect_NAME``; leave the evidence in ``job["evidence"]``."""
    file = Path(job["file"])
    tell.phase("importing")
    module = None
    if job["library"] is None:
        module = import_text(job["text"], file, f"learner_{file.stem}")
    tell.phase("running")
    half = getattr(import_checks(job), f"collect_{job['name']}")
    scratch = Path(job["scratch"])
    library = Path(job["library"]) if job["library"] else None
    helper = Collect(module, file, library, rng_for(job["seed"], job["id"]), scratch, Path(job["evidence"]))
    half(helper)
    # The seals travel by the pipe, which no other exercise's worker has: what those could write is files.
    return {"outcome": "collected", "seals": helper.finish()}


def judge(job: dict[str, Any]) -> dict[str, Any]:
    """Call ``judge_NAME`` on the evidence. The learner's file is never imported here."""
    guard.only_known_code()
    half = getattr(import_checks(job), f"judge_{job['name']}")
    try:
        verdict = Judge(Path(job["evidence"]), rng_for(job["seed"], job["id"]), job["seals"])
        with contextlib.redirect_stdout(sys.stderr):
            try:
                half(verdict)
            finally:  # whatever it found, it means nothing if the inputs were others
                verdict.expect_same_inputs()
    except EvidenceTampered as error:
        return {"outcome": "disturbed", "message": str(error)}
    except WrongAnswer as error:  # outside of a named check: evidence that cannot be read
        return {
            "outcome": "judged",
            "checks": [{"name": "evidence", "passed": False, "message": str(error), "raised": False}],
        }
    checks = [
        {"name": check.name, "passed": check.passed, "message": check.message[:4000], "raised": check.raised}
        for check in verdict.results
    ]
    share = None if verdict.share is None else {"part": verdict.share[0], "reason": verdict.share[1][:4000]}
    return {"outcome": "judged", "checks": checks, "share": share}


def explain(error: BaseException, job: dict[str, Any]) -> dict[str, Any]:
    """Turn an exception into an outcome: whose is it, and where."""
    unwritten = find_todo(error)
    if job["half"] == "collect":
        if unwritten is not None:
            if unwritten.id == job["id"]:
                return {"outcome": "todo", "message": str(unwritten)}
            return {"outcome": "error", "message": f"It needs {unwritten.id}, and {unwritten}"}
        if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
            limit = job["limits"]["memory_mb"]
            return {
                "outcome": "error",
                "message": f"Out of memory: more than the limit of {limit} MB was asked for.{_at(error, job)}",
            }
        if isinstance(error, SystemExit):
            return {
                "outcome": "error",
                "message": f"The code ended the process with sys.exit({error.code!r}).{_at(error, job)}",
            }
        if isinstance(error, LearnerError):
            return {"outcome": "error", "message": str(error)}
        if isinstance(error, WrongAnswer):
            return {"outcome": "wrong", "message": str(error)}
        if isinstance(error, SyntaxError) and error.filename == job["file"]:
            quoted = f": {error.text.strip()}" if error.text else ""
            return {"outcome": "error", "message": f"{type(error).__name__}: {error.msg}{_at(error, job)}{quoted}"}
        if learner_line(error, Path(job["file"])):
            return {"outcome": "error", "message": f"{first_line(error)}{_at(error, job)}"}
    if isinstance(error, InputsDiffer):
        return {
            "outcome": "grader_error",
            "message": f"The two halves of the check made different inputs: {error}. That says nothing about your answer. "
            f"To repeat it: oplab check {job['id']} --seed {job['seed']}",
        }
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        # The parent of the scratch folder is TMPDIR, or a private one of this run.
        return {
            "outcome": "grader_error",
            "message": f"The grader cannot write to its temporary folder: {error.strerror}. Make room there, or set TMPDIR "
            "to a folder with room.",
        }
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return {
        "outcome": "grader_error",
        "message": f"{first_line(error)} (in the grader's own code)",
        "trace": trace[-4000:],
    }


def import_text(text: str, path: Path, name: str) -> ModuleType:
    """Import ``text`` as the module ``name``, as if it stood in ``path``: what lies there now may be another exercise's work."""
    loader = _TextLoader(name, str(path), text)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


def import_checks(job: dict[str, Any]) -> ModuleType:
    path = Path(job["checks"])
    return import_text(job["source"], path, f"checks_{path.stem}")


class _TextLoader(importlib.machinery.SourceFileLoader):
    """Loads a module from a text that was read earlier; its file serves for messages and for ``inspect`` only."""

    def __init__(self, name: str, path: str, text: str):
        super().__init__(name, path)
        self._text = text

    def get_code(self, fullname: str) -> Any:
        return compile(self._text, self.path, "exec", dont_inherit=True)


def _at(error: BaseException, job: dict[str, Any]) -> str:
    where = learner_line(error, Path(job["file"]))
    return f" ({where})" if where else ""


class _Report:
    def __init__(self, fd: int):
        self._fd, self._pid = fd, os.getpid()

    def phase(self, name: str) -> None:
        self._write(name.encode() + b"\n")

    def last(self, result: dict[str, Any]) -> None:
        text = json.dumps(result, ensure_ascii=True)
        self._write(
            (text if len(text) < MAX_REPORT else json.dumps({"outcome": "error", "message": "…"})).encode() + b"\n"
        )

    def _write(self, data: bytes) -> None:
        if os.getpid() != self._pid:  # a fork of the learner's code came back through our frames
            os._exit(0)
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._fd, data) :]
