"""`oplab capstone DIR`: the report about an operator project, and what is missing in one."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import environment


def capstone(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "oplab.cli", "capstone", *map(str, words)]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.mark.nightly
def test_the_report_of_a_project(copied, tmp_path):
    done = capstone(copied, "--to", tmp_path / "kept")
    assert done.returncode == 0, done.stdout + done.stderr
    for path in ("TorchScript path", "dynamo path"):
        assert re.search(rf"twist +{path} +eager, ort, host, reference on 4 inputs: .*agree with eager\.", done.stdout)
    home = tmp_path / "kept" / "report-001"
    assert sorted(file.name for file in (home / "twist").iterdir()) == ["dynamo.onnx", "kernel.so", "torchscript.onnx"]
    page = (home / "report.html").read_text()
    assert "1 × my::Twist" in page and "many rows" in page and "empty" in page
    assert all(words for words in re.findall(r'<img[^>]* alt="([^"]*)"', page)) and page.count("<img") >= 4
    assert not (copied / "build" / "capstone").exists()


@pytest.mark.nightly
def test_a_reference_that_disagrees_is_not_a_pass(copied):
    change(copied / "src" / "twist" / "reference.py", "(1 + t * t)", "(2 + t * t)")
    done = capstone(copied)
    assert done.returncode == 1 and "reference and eager differ" in done.stdout
    assert "Not all agree." in (copied / "build" / "capstone" / "report-001" / "report.html").read_text()


BROKEN = {
    "no example": (lambda p: p("tests/example.py").unlink(), "example.py"),
    "not an OpRun": (lambda p: change(p("src/twist/reference.py"), "(OpRun)", ""), "no reference"),
    "no cases": (lambda p: change(p("tests/example.py"), "def cases", "def some"), "cases"),
    "a model": (lambda p: change(p("tests/example.py"), "super().__init__()", "1 / 0"), "ZeroDivisionError"),
    "a kernel": (lambda p: p("cpp/ort_op.cpp").write_text("int broken\n"), "ort_op.cpp"),
}


@pytest.mark.nightly
@pytest.mark.parametrize("what", BROKEN)
def test_what_is_missing_is_a_sentence(copied, what):
    breaking, says = BROKEN[what]
    breaking(copied.joinpath)
    done = capstone(copied)
    assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr, done.stdout + done.stderr
    assert not (copied / "build" / "capstone").exists()
