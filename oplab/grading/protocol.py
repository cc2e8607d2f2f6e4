"""What the grader's processes send each other: a :class:`Job`, the worker's :class:`Report`, and the supervisor's :class:`Answer`.

Each message is one line of JSON. It is encoded and decoded here and nowhere else. What a worker's report may hold is limited
(:data:`MAX_TEXT`, :data:`MAX_ENTRIES`): a learner's code could write one. Text is clean: what UTF-8 cannot encode is replaced.
"""

from __future__ import annotations

import functools
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from oplab.course.manifest import Limits
from oplab.errors import OplabError, clean
from oplab.grading.results import Check

MAX_TEXT = 8000  # characters of a text in a report
MAX_ENTRIES = 1000  # entries of a list or a mapping in a report
M = TypeVar("M", "Job", "Report", "Answer")


class MalformedMessage(OplabError):
    """A line is not the message that it should be: no JSON, or a field is missing, unknown or of another type."""


@dataclass(frozen=True)
class Confinement:
    """What a worker needs to know to confine itself.

    Attributes:
        landlock: the kernel's Landlock version, 0 for none.
        read: folders and files that it may read.
        write: folders and files that it may write, besides its own.
        namespaces: whether it has to make its own; with bubblewrap it starts in some.
    """

    landlock: int
    read: tuple[str, ...]
    write: tuple[str, ...]
    namespaces: bool


@dataclass(frozen=True)
class Job:
    """One half of one check, for a worker to run.

    Attributes:
        half: ``collect`` runs the learner's code, ``judge`` looks at its evidence.
        id: the exercise, for example ``c04.asinh``.
        name: the exercise's name in the checks: ``collect_NAME``, ``judge_NAME``.
        checks: the file of the chapter's checks. It serves for messages; what runs is ``source``.
        source: the text of the checks, for ``collect`` without what only the judge needs.
        file: the learner's file.
        text: the text of a learner's Python file; None for C++ and for ``judge``.
        library: the compiled library of a C++ exercise; None for Python and for ``judge``.
        evidence: the folder with the evidence.
        scratch: the worker's current folder, for temporary files.
        seed: seeds the inputs.
        limits: what the worker may use.
        sanitized: the library was built with AddressSanitizer, which needs all of the address space.
        isolation: how the worker confines itself; None without ``--isolate``.
        not_allowed: modules that the learner's code may not import: :attr:`oplab.course.manifest.Exercise.not_allowed`.
        digests: for ``judge``, what :attr:`Report.digests` of the collect half was.
        references: the texts of :mod:`oplab.checks.references` by module, for a source that imports them: a worker cannot read them.
    """

    half: Literal["collect", "judge"]
    id: str
    name: str
    checks: Path
    source: str
    file: Path
    text: str | None
    library: Path | None
    evidence: Path
    scratch: Path
    seed: int
    limits: Limits
    sanitized: bool = False
    isolation: Confinement | None = None
    not_allowed: tuple[str, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    references: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Share:
    """The part of the points, from 0 to 1, that a judge gave a right answer, and why it is not all of them."""

    part: float
    reason: str


@dataclass(frozen=True)
class Report:
    """What a worker reports about its half.

    Attributes:
        outcome: ``collected`` or ``judged`` when the half ran to its end; ``wrong``, ``todo`` or ``error`` when the learner's code
            did not; ``tampered`` when the evidence cannot be trusted; ``grader_error`` when the check is at fault.
        message: why, in words for the learner.
        trace: the traceback of a ``grader_error``.
        digests: for ``collected``, a digest of each file of the evidence.
        checks: for ``judged``, the named checks in their order.
        raised: for ``judged``, whether the first check that failed did so because the learner's code raised an exception.
        share: for ``judged``, the part of the points; None gives all of them.
    """

    outcome: Literal["collected", "judged", "wrong", "todo", "error", "tampered", "grader_error"]
    message: str = ""
    trace: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)
    checks: tuple[Check, ...] = ()
    raised: bool = False
    share: Share | None = None


@dataclass(frozen=True)
class Answer:
    """How a worker's process ended, and its report.

    Attributes:
        lost: the supervisor was killed, so nothing else is known.
        exit: the exit code; None after a signal.
        signal: the name of the signal that ended the worker, for example ``SIGSEGV``.
        killed: the limit for which the supervisor stopped it.
        phase: how far it came; ``starting`` means that it never reached the learner's file.
        report: the worker's report; None if it wrote none, or one that is malformed.
        printed: bytes written to stdout and stderr, all counted.
        output: the end of what was printed.
        left_behind: processes that were still running when the worker had ended.
        max_rss_kb: peak resident memory in KiB.
        cpu_seconds: processor time in seconds.
        seconds: wall time in seconds.
    """

    lost: bool = False
    exit: int | None = None
    signal: str | None = None
    killed: Literal["wall", "output", "processes", "memory", "scratch"] | None = None
    phase: Literal["starting", "importing", "running"] = "starting"
    report: Report | None = None
    printed: int = 0
    output: str = ""
    left_behind: int = 0
    max_rss_kb: int = 0
    cpu_seconds: float = 0.0
    seconds: float = 0.0


LOST = Answer(lost=True)


def killed_from_outside(answer: Answer, limits: Limits) -> bool:
    """Whether the worker or its supervisor was killed, and not for a limit. The learner's code may have done it, or the system."""
    if answer.killed:
        return False
    return answer.lost or (answer.signal == "SIGKILL" and answer.cpu_seconds < limits.cpu)


def encode(message: Job | Report | Answer) -> bytes:
    """The message as one line of JSON in ASCII, with its line end."""
    return json.dumps(asdict(message), default=str).encode("ascii") + b"\n"  # the only other type is Path


def decode(kind: type[M], line: bytes | bytearray) -> M:
    """The message in ``line``.

    Args:
        kind: :class:`Job`, :class:`Report` or :class:`Answer`.
        line: what :func:`encode` made of such a message.

    Raises:
        MalformedMessage: it is anything else, or a report that is too long.
    """
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MalformedMessage(f"The grader received a malformed {kind.__name__}: {error}.") from None
    message = _value(kind, data, kind.__name__)
    if isinstance(message, Report):
        _limited(message)
    return message


def _limited(report: Report) -> None:
    """Raises:
    MalformedMessage: a text, a list or a mapping in the report is too long.
    """
    checks = [text for check in report.checks for text in (check.name, check.message)]
    texts = [report.message, report.trace, *checks, *report.digests, *report.digests.values()]
    if report.share is not None:
        texts.append(report.share.reason)
    if max(len(report.checks), len(report.digests)) > MAX_ENTRIES or any(len(text) > MAX_TEXT for text in texts):
        raise MalformedMessage("The grader received a malformed Report: it is too long.")


def _value(kind: Any, data: Any, where: str) -> Any:
    """``data`` as an object of type ``kind``; ``where`` names it in errors, for example ``Job.limits.wall``.

    Raises:
        MalformedMessage: it is not of that type.
    """
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):  # only `… | None`
        return None if data is None else _value(parts[0], data, where)
    if is_dataclass(kind) and isinstance(data, dict):
        hints = _hints(kind)
        needed = {entry.name for entry in fields(kind) if entry.default is entry.default_factory is MISSING}
        if unclear := (data.keys() - hints.keys()) | (needed - data.keys()):
            problem = "is missing" if min(unclear) in needed else "is unknown"
            raise MalformedMessage(_malformed(f"{where}.{min(unclear)}", problem))
        return kind(**{name: _value(hints[name], value, f"{where}.{name}") for name, value in data.items()})
    if origin is tuple and isinstance(data, list):
        return tuple(_value(parts[0], entry, f"{where}[{number}]") for number, entry in enumerate(data))
    if origin is Mapping and isinstance(data, dict):  # JSON's keys are always text
        return {clean(key): _value(parts[1], entry, f"{where}.{key}") for key, entry in data.items()}
    if origin is Literal and type(data) is str and data in parts:
        return data
    if kind is Path and type(data) is str:
        return Path(data)
    if kind is float and type(data) is int and abs(data) < 1 << 1023:
        return float(data)
    if kind is str and type(data) is str:
        return clean(data)
    if isinstance(kind, type) and type(data) is kind:
        return data
    raise MalformedMessage(
        _malformed(where, f"is {data[:40]!r}" if type(data) is str else f"is of type {type(data).__name__}")
    )


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _malformed(where: str, problem: str) -> str:
    message, _, name = where.partition(".")
    return f"The grader received a malformed {message}: {name or 'it'} {problem}."
