"""One run over exercises that end in every way there is: its answer, compared word for word with ``tests/golden/``, and what it leaves.
Each report has its reader in test_reports.py.

Regenerate after a change that is meant, and read the difference before you commit it::

    OPLAB_GOLDEN=write python -m pytest tests/grading/test_golden.py

``results.json`` is the run's own, with the seed fixed. Left out is the time of each exercise. What a machine may word differently is
replaced as :data:`VARIES` says; nothing else is.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import time
from pathlib import Path

import jsonschema
import pytest

from oplab import reports
from oplab.grading.isolation import can_signal_outside
from tests.support import ROOT
from tests.support.fixture_course import command, copy_course

GOLDEN = ROOT / "tests" / "golden" / "results.json"
SEED = 20260701

# (pattern, replacement): why
VARIES = (
    # the compiler's path to the copied course, which lies in a temporary folder
    (re.compile(r"[^\s:]*/exercises/csrc/"), "exercises/csrc/"),
    # g++ and clang++ agree on the line of the missing semicolon, but neither on its column nor on the words
    (re.compile(r"(c01_broken\.cpp:7):\d+: error: [^\n]*"), r"\1:COLUMN: error: WORDS"),
    (re.compile(r"^( +\|) +\^$", re.MULTILINE), r"\1 ^"),
    # a wild write ends in SIGSEGV or SIGBUS, and where the allocator's own checks are first, in SIGABRT
    (re.compile(r"^(The process crashed with )SIG(?:SEGV|BUS|ABRT)(\. AddressSanitizer: )"), r"\1SIGNAL\2"),
    # Python's wording of its own errors changes between versions; that it is a SyntaxError and its line do not
    (re.compile(r"^SyntaxError: [^(]*\("), "SyntaxError: WORDS ("),
    # a process that is still starting when the exercise ends may be counted or not
    (
        re.compile(r"^\(\d+ processe?s? that it left running w(?:as|ere) ended\.\)$"),
        "(PROCESSES left running were ended.)",
    ),
)


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A copy of the fixture course that the hostile ones may scribble on."""
    return copy_course(tmp_path_factory.mktemp("golden") / "course")


@pytest.fixture(scope="module")
def run(course) -> subprocess.CompletedProcess:
    line, env = command(course, "check", "--seed", str(SEED), "--json", str(course / "results.json"))
    env["TMPDIR"] = str(course / "temporary")
    (course / "temporary").mkdir()
    return subprocess.run(line, env=env, capture_output=True, text=True, timeout=900, cwd=course)


@pytest.fixture(scope="module")
def raw(course, run) -> dict:
    return json.loads((course / "results.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def results(raw) -> dict:
    """What the run said, without what another machine may word differently."""
    found = json.loads(json.dumps(raw))
    for entry in found["exercises"]:
        entry["seconds"] = 0
        entry["message"] = _plain(entry["message"])
        for check in entry["checks"]:
            check["message"] = _plain(check["message"])
        if entry["id"] == "c01.kills_parent":
            # where the kernel can keep processes apart, the signal is refused (an error); elsewhere it arrives (crashed)
            status, words = ("crashed", "killed from outside") if can_signal_outside() else ("error", "not permitted")
            assert entry["status"] == status and words in entry["message"] and not entry["points"]
            entry.update(status="crashed", message="SIGNAL REFUSED OR RECEIVED")
    return found


def test_the_answer_is_the_same_word_for_word(results):
    text = reports.render("json", results, {})
    if os.environ.get("OPLAB_GOLDEN") == "write":
        GOLDEN.write_text(text, encoding="utf-8")
    assert text.splitlines() == GOLDEN.read_text(encoding="utf-8").splitlines()


def test_the_run_ends_with_1_and_without_a_traceback(run):
    assert run.returncode == 1, run.stderr
    assert "Traceback" not in run.stdout + run.stderr


def test_results_fit_the_schema_and_points_add_up(raw):
    jsonschema.validate(raw, json.loads((ROOT / "oplab" / "grading" / "results.schema.json").read_text()))
    assert raw["points"] == sum(entry["points"] for entry in raw["exercises"]) == 3
    assert raw["max_points"] == len(raw["exercises"]) == 21


def test_no_process_survives_and_no_temporary_file(course, run):
    """c01.forks leaves two; its message counts them. All processes of the run have its course in their environment."""
    deadline = time.monotonic() + 120
    while alive := _started_for(course):
        assert time.monotonic() < deadline, f"processes {alive} outlived the run"
        time.sleep(0.05)
    assert [path.name for path in (course / "temporary").iterdir() if path.name.startswith("oplab")] == []


def test_the_forger_gained_nothing(course, run):
    """It wrote a progress file that says it passed; what the grader writes afterwards is the truth."""
    forged = json.loads((course / "build" / "progress.json").read_text())["exercises"]["c01.forges"]
    assert forged["status"] == "error" and not forged["passed_once"]


def _started_for(course: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"OPLAB_ROOT={course}\0".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


def _plain(message: str) -> str:
    for pattern, replacement in VARIES:
        message = pattern.sub(replacement, message)
    return message
