"""The grader's answer to the fixture course, compared word for word with ``tests/golden/``.

Regenerate after a change that is meant, and read the difference before you commit it::

    OPLAB_GOLDEN=write python -m pytest tests/grading/test_golden.py

``results.json`` is the run's own, with the seed fixed. Left out is the time of each exercise. What a machine may word differently is
replaced as :data:`VARIES` says; nothing else is.
"""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest

from oplab import reports
from tests.support import ROOT
from tests.support.fixture_course import command, copy_course

GOLDEN = ROOT / "tests" / "golden"
SEED = 20260701
TITLES = {"01_cases": "One case each", "02_import": "A file that hangs when it is imported"}

FILES = {
    "json": "results.json",
    "junit": "junit.xml",
    "html": "report.html",
    "gradescope": "gradescope.json",
    "markdown": "report.md",
}

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
def results(tmp_path_factory) -> dict:
    course = copy_course(tmp_path_factory.mktemp("golden") / "course")
    line, env = command(course, "check", "--seed", str(SEED), "--json", str(course / "results.json"))
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=900, cwd=course)
    assert done.returncode == 1, done.stderr
    found = json.loads((course / "results.json").read_text(encoding="utf-8"))
    for entry in found["exercises"]:
        entry["seconds"] = 0
        entry["message"] = _plain(entry["message"])
        for check in entry["checks"]:
            check["message"] = _plain(check["message"])
        if entry["id"] == "c01.kills_parent":
            # where the kernel can keep processes apart, the signal is refused (an error); elsewhere it arrives (crashed)
            assert entry["status"] in ("error", "crashed") and not entry["points"]
            entry.update(status="crashed", message="SIGNAL REFUSED OR RECEIVED")
    return found


@pytest.mark.parametrize("format", reports.FORMATS)
def test_the_answer_is_the_same_word_for_word(format, results):
    """One truth: every report is made from the same normalised results."""
    text = reports.render(format, results, TITLES)
    text = re.sub(
        r"<style>.*</style>", "<style></style>", text, flags=re.DOTALL
    )  # looks may change, what is said may not
    file = GOLDEN / FILES[format]
    if os.environ.get("OPLAB_GOLDEN") == "write":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text.splitlines() == file.read_text(encoding="utf-8").splitlines()


def test_nothing_of_this_machine_is_left(results):
    assert not re.search(r"/tmp|/home|/root|/private|pytest-", json.dumps(results))


def _plain(message: str) -> str:
    for pattern, replacement in VARIES:
        message = pattern.sub(replacement, message)
    return message
