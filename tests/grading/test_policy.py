"""``not_allowed`` in course.toml: what contains an exercise's answer is refused, and what another exercise needs is not."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from oplab.course.manifest import load
from oplab.grading import grader, policy
from oplab.grading.client import Server
from tests.support import ROOT

COURSE = load(ROOT)
RESTRICTED = [exercise for exercise in COURSE.exercises if exercise.not_allowed]


def test_the_stub_names_each_entry_and_each_exists():
    assert RESTRICTED
    for exercise in RESTRICTED:
        text = (ROOT / "exercises" / exercise.file).read_text()
        if exercise.kind == "python":
            (function,) = [node for node in ast.parse(text).body if getattr(node, "name", "") == exercise.name]
            text = ast.get_docstring(function)
        for entry in exercise.not_allowed:
            assert entry in text
            if entry.startswith("csrc/"):
                assert list(ROOT.glob(entry)), entry
            elif entry.startswith("oplab."):
                place = ROOT / entry.replace(".", "/")
                assert place.is_dir() or place.with_suffix(".py").is_file(), entry


def used(text: str) -> str:
    return policy.imported(COURSE.exercise("c11.reference_knn"), text)


@pytest.mark.parametrize(
    "text",
    [
        "from oplab.ops import reference\ndef reference_knn():\n    return reference.KNNQuery\n",
        "import oplab\ndef helper():\n    return oplab.ops.reference.KNNQuery\ndef reference_knn():\n    return helper()\n",
        "import oplab.ops.reference as r\nFOUND = r.KNNQuery\ndef reference_knn():\n    return FOUND\n",
        "def reference_knn():\n    import torch_cluster\n    return torch_cluster.knn\n",
    ],
)
def test_what_the_function_uses_is_found(text):
    assert "and c11.reference_knn does not allow that" in used(text)


@pytest.mark.parametrize(
    "text",
    [
        "from oplab.ops import reference\ndef other():\n    return reference.KNNQuery\ndef reference_knn():\n    return 1\n",
        "import torch_cluster_of_mine\ndef reference_knn():\n    return torch_cluster_of_mine\n",
    ],
)
def test_what_another_function_uses_is_not(text):
    assert used(text) == ""


CHECKS = """
import numpy as np
from oplab.parity.arrays import expect_close
def collect_{name}(c):
    c.value("y", np.full(3, c.function("{name}")(1), np.float32))
def judge_{name}(v):
    with v.check("matches"):
        expect_close(v.array("y"), np.full(3, 5, np.float32), name="y")
"""


def test_a_module_that_is_loaded_while_the_function_runs(tmp_path: Path):
    (tmp_path / "course.toml").write_text(
        'title = "t"\n[[chapter]]\nstem = "00_x"\ntitle = "t"\nminutes = 1\n[[chapter.exercise]]\nname = "five"\ngoal = "5"\n'
        'points = 1\ndifficulty = 1\nminutes = 1\nhints = ["a", "b"]\nnot_allowed = ["oplab.debug"]\n'
    )
    checks = tmp_path / "oplab" / "checks"
    checks.mkdir(parents=True)
    (checks / "c00_x.py").write_text(CHECKS.format(name="five"))
    course = load(tmp_path)
    with Server() as server:
        for module, status in (("oplab.debug.surgery", "error"), ("oplab.viewer.wire", "passed")):
            text = f"import importlib\ndef five(x):\n    importlib.import_module('{module}')\n    return 5\n"
            (tmp_path / "c00_x.py").write_text(text)
            (outcome,) = grader.grade(course, course.exercises, tmp_path, server=server).exercises
            assert outcome.status == status, outcome.message
            assert status == "passed" or "oplab.debug is used, and c00.five does not allow that" in outcome.message


def test_a_header_counts_whoever_includes_it():
    exercise = replace(COURSE.exercise("c13.knn_query"), not_allowed=("csrc/common/knn*.h",))
    allowed = [ROOT / "csrc/ort_ops/oplab_kernel.h", ROOT / "csrc/common/text.h"]
    assert policy.included(exercise, allowed, ROOT) == ""
    found = policy.included(exercise, [*allowed, ROOT / "csrc/common/knn_tree.h"], ROOT)
    assert found.startswith("csrc/common/knn_tree.h is included, and c13.knn_query does not allow that")
