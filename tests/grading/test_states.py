"""One run over exercises that end in every way there is: each gets its own state and message, and none disturbs the others."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from pathlib import Path

import jsonschema
import pytest

from oplab.grading.isolation import can_signal_outside
from tests.support import ROOT
from tests.support.fixture_course import command, copy_course

SCHEMA = ROOT / "oplab" / "grading" / "results.schema.json"

EXPECTED = {
    "c01.passes": ("passed", ""),
    "c01.fails": ("failed", "The result is 3 * x."),
    "c01.untouched": ("todo", "Goal: return 2 * x"),
    "c01.raises": ("error", "NameError: name 'undefined_name' is not defined (c01_cases.py, line "),
    "c01.hangs": ("timeout", "longer than 3 s"),
    "c01.allocates": ("error", "Out of memory: more than the limit of 2048 MB was asked for. (c01_cases.py, line "),
    "c01.segfaults": ("crashed", "SIGSEGV. Python was in segfaults (c01_cases.py, line 45)"),
    "c01.exits": ("error", "exit code 0 before the exercise was done"),
    "c01.prints": ("error", "printed more than 512 kB"),
    "c01.forks": ("passed", "2 processes that it left running were ended"),
    "c01.forges": ("error", "exit code 0 before the exercise was done"),
    "c01.missing": ("failed", "The function missing is missing from c01_cases.py"),
    "c01.signature": ("error", "signature() is called with 1 argument: too many positional arguments"),
    "c01.sysexit": ("error", "sys.exit('enough')"),
    "c01.kills_parent": ("crashed", "killed from outside") if can_signal_outside() else ("error", "not permitted"),
    "c01.burns": ("timeout", "more than 1 s of processor time"),
    "c01.compiles": ("passed", ""),
    "c01.broken": ("build_failed", "c01_broken.cpp"),
    "c01.overflows": ("crashed", "AddressSanitizer: heap-buffer-overflow, a "),
    "c02.stuck": ("timeout", "while the file was imported"),
    "c03.typo": ("error", "SyntaxError: expected ':' (c03_syntax.py, line 1): def typo(x)"),
}


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A copy of the fixture course that the hostile ones may scribble on."""
    return copy_course(tmp_path_factory.mktemp("course") / "course")


@pytest.fixture(scope="module")
def run(course):
    """The whole fixture course, graded once from the command line."""
    line, env = command(course, "check", "--json", str(course / "out.json"))
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=600, cwd=course)
    return done, json.loads((course / "out.json").read_text())


@pytest.fixture(scope="module")
def outcomes(run):
    return {entry["id"]: entry for entry in run[1]["exercises"]}


def test_each_exercise_has_an_expectation(outcomes):
    assert list(outcomes) == list(EXPECTED)


@pytest.mark.parametrize("id", EXPECTED)
def test_state_and_message(id, outcomes):
    status, words = EXPECTED[id]
    assert outcomes[id]["status"] == status, outcomes[id]["message"]
    assert words in outcomes[id]["message"]
    assert outcomes[id]["points"] == (1 if status == "passed" else 0)


@pytest.mark.parametrize(("id", "limit"), [("c01.hangs", 3), ("c02.stuck", 3), ("c01.burns", 1)])
def test_time_limits_hold(id, limit, outcomes):
    """Without them the first two would take 300 s, and the last one 120 s, its wall limit."""
    assert limit <= outcomes[id]["seconds"] < 100


def test_exit_code_is_1_and_there_is_no_traceback(run):
    done, _ = run
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_results_fit_the_schema(run):
    jsonschema.validate(run[1], json.loads(SCHEMA.read_text()))


def test_points_add_up(run):
    assert run[1]["points"] == sum(entry["points"] for entry in run[1]["exercises"]) == 3
    assert run[1]["max_points"] == len(EXPECTED)


def test_no_process_survives(course, run):
    """c01.forks leaves two; its message counts them. All processes of the run have its course in their environment."""
    deadline = time.monotonic() + 120
    while alive := _started_for(course):
        assert time.monotonic() < deadline, f"processes {alive} outlived the run"
        time.sleep(0.05)


def test_nothing_is_left_in_the_temporary_folder(tmp_path, course):
    line, env = command(course, "check", "c01.fails")
    subprocess.run(line, env={**env, "TMPDIR": str(tmp_path)}, capture_output=True, timeout=180)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("oplab")] == []


def test_the_forger_gained_nothing(course, run):
    """It wrote a progress file that says it passed; what the grader writes afterwards is the truth."""
    progress = json.loads((course / "build" / "progress.json").read_text())
    assert progress["exercises"]["c01.forges"]["status"] == "error"
    assert not progress["exercises"]["c01.forges"]["passed_once"]


def _started_for(course: Path) -> list[int]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"OPLAB_ROOT={course}\0".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found
