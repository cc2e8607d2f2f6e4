"""Messages between the grader's processes: what is encoded comes back, and anything else is one clear error."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from oplab.course.manifest import Limits
from oplab.grading import protocol
from oplab.grading.protocol import Answer, Confinement, Job, MalformedMessage, Report, Share
from oplab.grading.results import Check

JOB = Job(
    half="collect",
    id="c04.asinh",
    name="asinh",
    checks=Path("checks/c04_aten_symbolic.py"),
    source="def collect_asinh(c): ...",
    file=Path("exercises/c04_aten_symbolic.py"),
    text="x = 'ä\\n'\n",
    library=None,
    evidence=Path("/tmp/evidence"),
    scratch=Path("/tmp/scratch"),
    seed=3,
    limits=Limits(wall=1.5),
    isolation=Confinement(landlock=6, read=("/usr", "/lib"), write=(), namespaces=True),
)
REPORT = Report(
    "judged", checks=(Check("runs", True), Check("is right", False, "no")), raised=True, share=Share(0.5, "slow")
)
ANSWER = Answer(signal="SIGSEGV", killed="wall", phase="running", report=REPORT, output="\x1b ä", cpu_seconds=1.0)


@pytest.mark.parametrize(
    "message",
    [
        JOB,
        dataclasses.replace(JOB, half="judge", library=Path("a.so"), digests={"f1.bin": "12"}),
        REPORT,
        ANSWER,
        Answer(lost=True),
    ],
    ids=["collect", "judge", "report", "answer", "lost"],
)
def test_a_message_comes_back_as_it_was(message):
    line = protocol.encode(message)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert protocol.decode(type(message), line) == message


def _edited(message, path, value):
    data = json.loads(protocol.encode(message))
    inner = data
    *outer, last = path.split(".")
    for name in outer:
        inner = inner[name]
    inner[last] = value
    return json.dumps(data).encode()


@pytest.mark.parametrize(
    ("message", "path", "value", "says"),
    [
        (JOB, "half", "both", "Job: half is 'both'"),
        (JOB, "limits.wall", [], "Job: limits.wall is of type list"),
        (JOB, "isolation.read", ["/", 1], "Job: isolation.read[1] is of type int"),
        (REPORT, "share", {"part": 1.0}, "Report: share.reason is missing"),
        (ANSWER, "points", 100, "Answer: points is unknown"),
    ],
)
def test_a_malformed_message_is_one_clear_error(message, path, value, says):
    with pytest.raises(MalformedMessage) as raised:
        protocol.decode(type(message), _edited(message, path, value))
    assert str(raised.value) == f"The grader received a malformed {says}."


def test_what_is_no_json_object_is_the_same_error():
    for line in (b"", b"{", b"\xff", b"[" * 100_000, b'{"seed": ' + b"9" * 10_000 + b"}", b"[]", b"3", b"null"):
        with pytest.raises(MalformedMessage, match="^The grader received a malformed Job: "):
            protocol.decode(Job, line)


def test_what_utf8_cannot_encode_is_replaced():
    line = protocol.encode(dataclasses.replace(REPORT, message="a\ud800b", checks=(Check("\udfff", False, "ä"),)))
    report = protocol.decode(Report, line)
    assert (report.message, report.checks[0].name, report.checks[0].message) == ("a\ufffdb", "\ufffd", "ä")


@pytest.mark.parametrize(
    "changes",
    [
        {"message": "x" * (protocol.MAX_TEXT + 1)},
        {"checks": (Check("runs", False, "x" * (protocol.MAX_TEXT + 1)),)},
        {"checks": (Check("runs", True),) * (protocol.MAX_ENTRIES + 1)},
        {"digests": {str(number): "" for number in range(protocol.MAX_ENTRIES + 1)}},
    ],
)
def test_a_report_that_is_too_long_is_malformed(changes):
    """A learner's process could write one, and all of it would be in every report of the run."""
    with pytest.raises(MalformedMessage, match="it is too long"):
        protocol.decode(Report, protocol.encode(dataclasses.replace(REPORT, **changes)))
