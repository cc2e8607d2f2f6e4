"""``make matrix``: the plan, what is installed, what is kept, and the errors. No test installs anything."""

from __future__ import annotations

import sys

import matrix
import pytest

from oplab.errors import OplabError


@pytest.fixture
def ran(monkeypatch, tmp_path):
    """``build/matrix`` is an empty folder, nothing is installed, and each chapter's outcome is the last of ``ran``."""
    outcomes = ["passed"]

    def run(combination, chapter):
        if outcomes[-1] == "Ctrl-C":
            raise KeyboardInterrupt
        return {f"{chapter.id}.a": outcomes[-1]}

    def prepare(combination):
        if outcomes[-1] == "no 2.13" and combination.torch == "2.13.0":
            raise OplabError("uv could not make the environment.", "")
        combination.home.mkdir(exist_ok=True)

    monkeypatch.setattr(matrix, "folder", lambda: tmp_path)
    monkeypatch.setattr(matrix, "prepare", prepare)
    monkeypatch.setattr(matrix, "grade", run)
    return outcomes


@pytest.mark.parametrize(("only", "count"), [([], 4), (["torch=2.13"], 2), (["ort=1.24", "torch=2.13.0"], 1)])
def test_the_combinations(only, count):
    assert len(set(matrix.plan(only, "3.11"))) == count


def test_the_newest_versions_are_those_of_the_lock_and_others_leave_its_cuda_libraries_out():
    oldest, *_, newest = (matrix.requirements(each).splitlines() for each in matrix.plan([], "3.11"))
    lock = (matrix.ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    assert {line for line in newest if not line.startswith("openvino==")} <= set(lock)
    assert {"torch==2.13.0", "torchvision==0.28.0", "onnxruntime==1.24.4"} <= set(oldest) and len(oldest) > 100
    assert not any(line.startswith(("torch==2.15", "nvidia", "triton")) for line in oldest)


def test_what_has_run_is_kept_whatever_comes_after(ran):
    calls = [("passed", 0), ("failed: 3 differ", 1), ("no 2.13", 2), ("Ctrl-C", 130)]
    for number, (outcome, status) in enumerate(calls):
        ran.append(outcome)
        assert matrix.main([f"c0{number}", "--only", "ort=1.24"]) == status
    text = (matrix.folder() / "matrix.md").read_text(encoding="utf-8")
    for torch, count in (("2.13.0", "1 of 2"), ("2.15.0", "1 of 3")):
        assert f"| torch {torch}, ONNX Runtime 1.24.4, Python 3.{sys.version_info[1]} | {count} | 0 of 0 |" in text
    assert "- `c01.a: failed: 3 differ` (torch 2.13.0, ONNX Runtime 1.24.4" in text


DIFFERS = "Cell 1: Cell outputs differ\n mismatch 'stdout'\n  - 2\n  + 1\n"
RAISES = "Cell 3: Cell execution caused an exception\n\nZeroDivisionError: division by zero\n"


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        ("", "passed"),
        (DIFFERS, "differs: Cell 4: - 2; + 1"),
        (RAISES, "failed: Cell 4: ZeroDivisionError: division by zero"),
    ],
)
def test_what_a_lesson_comes_to(tmp_path, failure, outcome):
    cell = f'<testcase name="Cell 4">{failure and f"<failure>{failure}</failure>"}</testcase>'
    (tmp_path / "junit.xml").write_text(f'<testsuite><testcase name="Cell 0"/>{cell}</testsuite>')
    assert matrix.lesson_outcome(tmp_path / "junit.xml") == outcome
