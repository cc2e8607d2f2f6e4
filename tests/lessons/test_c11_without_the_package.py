"""Chapter 11 where onnxruntime_extensions has no wheel (Python 3.14): one sentence, no error of the grader, and a stub is still a stub."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from pathlib import Path

import pytest

from oplab.checks import c11_kernels_without_a_compiler as checks
from oplab.checks.draws import rng_for
from oplab.checks.evidence import Collect
from oplab.checks.judge import Enough, Judge
from oplab.course.stubs import Todo
from tests.support import ROOT

ID = "c11.pyop_my_add"


def load(folder: str):
    """The chapter's module from ``solutions`` or ``exercises``-like text, under a name of its own."""
    path = ROOT / folder / "c11_kernels_without_a_compiler.py"
    spec = importlib.util.spec_from_file_location(f"{folder}_c11", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, path


@pytest.fixture
def no_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime_extensions", None)  # an import fails, as where it is not installed


def graded(module, path, folder: Path) -> Judge:
    (folder / "scratch").mkdir()
    collect = Collect(module, path, None, rng_for(1, ID), folder / "scratch", folder)
    checks.collect_pyop_my_add(collect)
    collect.finish()
    verdict = Judge(folder, rng_for(1, ID))
    with contextlib.suppress(Enough):
        checks.judge_pyop_my_add(verdict)
    return verdict


def test_the_answer_is_told_why_it_cannot_be_graded(no_package, tmp_path):
    (result,) = graded(*load("solutions"), tmp_path).results
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert not result.passed and not result.raised
    assert result.message.startswith(f"onnxruntime_extensions has no package for Python {python}, so this exercise")


def test_a_stub_is_a_todo_all_the_same(no_package, tmp_path):
    from oplab.course.stubs import make_stub

    module, path = load("solutions")
    exec(compile(make_stub(path.read_text(encoding="utf-8"), path.name), str(path), "exec"), module.__dict__)
    with pytest.raises(Todo):
        graded(module, path, tmp_path)
