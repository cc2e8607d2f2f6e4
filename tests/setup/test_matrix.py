"""``make matrix``: the plan, resuming, the table and the errors. Nothing is installed; one exercise is really graded."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import matrix
import matrix_results
import pytest

from oplab.course.manifest import load
from oplab.errors import OplabError
from tests.support import ROOT
from tests.support.learner_course import learner_course

OLD, NEW = ("2.13.0", "1.24.4"), ("2.15.0", "1.31.1")
PASSED = {"status": "passed", "why": ""}
WRONG = {"status": "failed", "why": "the output: 3 of 4 elements differ"}


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """An empty folder in place of ``build/matrix``."""
    monkeypatch.setattr(matrix, "folder", lambda: tmp_path)
    return tmp_path


class Runs:
    """Environments that are not made: each chapter's outcome is ``outcome``, and what has run is in ``done``."""

    def __init__(self, monkeypatch):
        self.done: list[tuple[str, str]] = []
        self.outcome = PASSED
        self.stop_at = ""
        monkeypatch.setattr(matrix, "base", lambda *_: [Path("lib/python3/site-packages")])
        monkeypatch.setattr(matrix, "layer", lambda *_: [])
        monkeypatch.setattr(matrix, "copy_course", lambda combination: Path("course"))
        monkeypatch.setattr(matrix, "make_environment", lambda *_: Path(sys.executable))
        monkeypatch.setattr(matrix, "versions", lambda place: {"torch": "2.13.0+cpu"})
        monkeypatch.setattr(matrix.Place, "run", lambda *_: (0, ""))
        monkeypatch.setattr(matrix, "grade", lambda place, chapter: self.one("grade", chapter))
        monkeypatch.setattr(matrix, "run_lesson", lambda place, chapter: self.one("lesson", chapter))

    def one(self, kind, chapter):
        if chapter.id == self.stop_at:
            raise KeyboardInterrupt
        self.done.append((kind, chapter.id))
        return self.outcome if kind == "lesson" else {f"{chapter.id}.a": self.outcome}


@pytest.fixture
def runs(monkeypatch, elsewhere):
    return Runs(monkeypatch)


# --- the plan --------------------------------------------------------------------------------------------------


def test_each_version_of_one_library_with_each_of_the_other():
    pairs = [(each.torch, each.onnxruntime) for each in matrix.plan([], "3.11")]
    assert len(pairs) == len(set(pairs)) == 4 and {OLD, NEW} < set(pairs)


@pytest.mark.parametrize("only", [["torch=2.13"], ["torch=2.13.0"], ["ort=1.24", "torch=2.13"]])
def test_only(only):
    found = matrix.plan(only, "3.11")
    assert {each.torch for each in found} == {"2.13.0"} and len(found) == 4 // 2 ** len(only)


@pytest.mark.parametrize("word", ["torch=2.1", "torch", "torch=", "numpy=2"])
def test_a_version_that_is_not_tried(word):
    with pytest.raises(OplabError, match="names nothing that is tried") as caught:
        matrix.plan([word], "3.11")
    assert "onnxruntime=1.31.1" in caught.value.fix


def test_the_newest_versions_are_those_of_the_lock():
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    for library, versions in matrix.VERSIONS.items():
        newest = list(versions)[-1]
        for line in (f"{library}=={newest}", *versions[newest]):
            assert f"\n{line}\n" in lock


def test_chapters():
    course = load(ROOT)
    assert [each.id for each in matrix.chapters_of(course, ["12", "c00", "4"])] == ["c00", "c04", "c12"]
    assert len(matrix.chapters_of(course, [])) == len(course.chapters)
    with pytest.raises(OplabError, match="There is no chapter 77"):
        matrix.chapters_of(course, ["77"])


def test_a_python_that_is_not_there(monkeypatch, tmp_path):
    (tmp_path / "python3.98").write_text("#!/bin/sh\necho 3.11\n")
    (tmp_path / "python3.98").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for version in ("3.99", "3.98"):
        with pytest.raises(OplabError, match=f"There is no python{version} on this machine"):
            matrix.find_python(version)
    assert matrix.find_python(None)[1] == sys.executable


# --- resuming --------------------------------------------------------------------------------------------------


def call(*words):
    return matrix.main(["--only", "torch=2.13", "--only", "ort=1.24", *words])


def test_what_is_done_is_not_done_again(runs, capsys):
    assert call("c00", "c01") == 0
    assert call("c00", "c01", "c02") == 0
    assert runs.done == [("grade", "c00"), ("grade", "c01"), ("grade", "c02")]
    assert call("c00") == 0 and "--again repeats it" in capsys.readouterr().out
    call("c00", "--again")
    assert runs.done[-1] == ("grade", "c00") and len(runs.done) == 4
    call("c00", "--lessons")
    assert runs.done[4:] == [("lesson", "c00")]


def test_ctrl_c_keeps_what_is_done(runs, elsewhere, capsys):
    runs.stop_at = "c02"
    assert call("c00", "c02") == 130
    assert "Interrupted" in capsys.readouterr().err
    (whole,) = json.loads((elsewhere / "matrix.json").read_text())["combinations"]
    assert list(whole["chapters"]) == ["c00"]
    runs.stop_at = ""
    assert call("c00", "c02") == 0 and runs.done == [("grade", "c00"), ("grade", "c02")]


def test_the_exit_status_is_about_what_was_asked_for(runs):
    runs.outcome = WRONG
    assert call("c00") == 1
    runs.outcome = PASSED
    assert matrix.main(["--only", "torch=2.15", "--only", "ort=1.24", "c00"]) == 0


# --- errors ----------------------------------------------------------------------------------------------------


def test_one_combination_that_cannot_be_made_leaves_the_others(runs, monkeypatch, capsys):
    def layer(library, version, *_):
        if version == "1.24.4":
            raise OplabError("onnxruntime 1.24.4 could not be installed: the package index cannot be reached.", "")
        return []

    monkeypatch.setattr(matrix, "layer", layer)
    assert matrix.main(["c00"]) == 2
    assert len(runs.done) == 2 and capsys.readouterr().err.count("cannot be reached") == 2


def test_a_full_disk(runs, monkeypatch, capsys):
    def full(path, text, **_):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(matrix.files, "write_atomically", full)
    assert call("c00") == 2
    assert "the disk is full" in capsys.readouterr().err


def test_a_version_that_the_course_has_needs_no_layer(elsewhere):
    sites = [Path(path) for path in sys.path if Path(path).name == "site-packages"]
    assert matrix.layer("onnxruntime", "1.31.1", sys.executable, "3.11", sites, lambda line: None) == []


# --- the results -----------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_a_real_exercise_is_graded_and_collected(tmp_path):
    """With the environment that runs this test, and a course with its own ``build``."""
    course = learner_course(tmp_path / "course")
    place = matrix.Place(Path(sys.executable), course, Path(sys.executable).parent)
    chapter = load(ROOT).chapter("c04")
    assert matrix.grade(place, chapter, ["c04.asinh"]) == {"c04.asinh": PASSED}


def test_what_a_failed_exercise_and_one_without_a_result_say(tmp_path):
    out = tmp_path / "results.json"
    checks = [{"name": "runs", "passed": False, "message": "the output:\n3 differ"}]
    failed = {"id": "c00.a", "status": "failed", "message": "", "checks": checks}
    out.write_text(json.dumps({"exercises": [failed]}))
    found = matrix_results.collect(out, ["c00.a", "c00.b"], "Traceback …\nImportError: no torch\n")
    assert found["c00.a"] == {"status": "failed", "why": "the output:"}
    assert found["c00.b"] == {"status": "not graded", "why": "ImportError: no torch"}


DIFFERS = (
    "Notebook cell execution failed\nCell 1: Cell outputs differ\n\nTraceback:\n mismatch 'stdout'\n  - 2\n  + 1\n"
)
VERSIONS = DIFFERS.replace("- 2", "- torch 2.13.0  onnx 1.23.2  onnxruntime 1").replace(
    "+ 1", "+ torch 2.15.0  onnx 1.23.2  onnxruntime 1"
)
CUT = [  # where one version alone differs
    DIFFERS.replace("- 2", "- torch 2.13.0  onnx").replace("+ 1", "+ torch 2.15.0  onnx"),
    DIFFERS.replace("- 2", "- runtime 1.24.4  onnxscr").replace("+ 1", "+ runtime 1.31.1  onnxscr"),
]
RAISES = "Notebook cell execution failed\nCell 3: Cell execution caused an exception\n\nZeroDivisionError: division by zero\n"


@pytest.mark.parametrize(
    ("cells", "status", "why"),
    [
        (["", ""], "passed", ""),
        ([VERSIONS], "passed", ""),
        (CUT, "passed", ""),
        (["", DIFFERS], "differs", "cell 1: prints something else (- 2; + 1)"),
        ([DIFFERS, RAISES], "failed", "cell 1: ZeroDivisionError: division by zero, and 1 more cells"),
        ([RAISES, DIFFERS], "failed", "cell 0: ZeroDivisionError: division by zero, and 1 more cells"),
    ],
    ids=["passed", "versions", "one version", "differs", "raises", "raises first"],
)
def test_what_a_lesson_says(tmp_path, cells, status, why):
    inside = "".join(
        f'<testcase name="Cell {number}">' + (f"<failure>{text}</failure>" if text else "") + "</testcase>"
        for number, text in enumerate(cells)
    )
    (tmp_path / "junit.xml").write_text(f"<testsuites><testsuite>{inside}</testsuite></testsuites>")
    assert matrix_results.lesson_outcome(tmp_path / "junit.xml", "") == {"status": status, "why": why}


def test_a_lesson_that_did_not_run(tmp_path):
    found = matrix_results.lesson_outcome(tmp_path / "none.xml", "ImportError: no nbval\n")
    assert found == {"status": "failed", "why": "it did not run: ImportError: no nbval"}


def test_the_table(runs, elsewhere):
    runs.outcome = WRONG
    call("c00", "--lessons")
    runs.outcome = PASSED
    matrix.main(["--only", "torch=2.15", "--only", "ort=1.31", "c00", "c01"])
    text = (elsewhere / "matrix.md").read_text(encoding="utf-8").splitlines()
    assert text[0] == "| | torch 2.13.0, ORT 1.24.4 | torch 2.15.0, ORT 1.31.1 |"
    assert "| c00.a | failed | passed |" in text and "| c01.a | – | passed |" in text
    assert "| c00 (lesson) | failed | – |" in text
    assert f"- `c00.a, failed: {WRONG['why']}` (torch 2.13.0, ORT 1.24.4)" in text
    shown = matrix_results.table(matrix.all_results())
    assert (
        shown.startswith("0 of 3 exercises and lessons pass in all 2") and "2 cells of the table have not run" in shown
    )


@pytest.mark.nightly
def test_the_environment_sees_the_layers_before_the_course(elsewhere):
    combination = matrix.Combination(*OLD, f"{sys.version_info[0]}.{sys.version_info[1]}")
    for name in ("layer", "course"):
        (elsewhere / name).mkdir()
        (elsewhere / name / "which.py").write_text(f"name = {name!r}\n")
    python = matrix.make_environment(combination, sys.executable, [elsewhere / "layer", elsewhere / "course"])
    place = matrix.Place(python, elsewhere, elsewhere)
    assert place.run("-c", "import which; print(which.name)") == (0, "layer")
