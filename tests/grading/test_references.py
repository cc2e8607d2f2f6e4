"""The reference answer as a reader sees it: one function and what it needs that the stub does not have."""

from __future__ import annotations

import ast

import pytest

from oplab.course import answers, stubs
from oplab.course.manifest import load
from oplab.errors import OplabError
from tests.support import ROOT

COURSE = load(ROOT)


def test_a_reference_has_no_marks_and_all_that_it_needs():
    for exercise in COURSE.exercises:
        text = answers.reference(COURSE, exercise)
        whole = answers.reference_text(COURSE, exercise)
        assert "ANSWER" not in text and "# END" not in text and "// END" not in text, exercise.id
        assert set(text.splitlines()) <= set(whole.splitlines()), exercise.id
        if exercise.kind != "python":
            continue
        stub = stubs.make_stub(whole, exercise.file)
        nodes = ast.parse(text).body
        mine = {name for node in nodes for name in stubs.names_of(node)}
        given = {name for node in ast.parse(stub).body for name in stubs.names_of(node)}
        known = {name for node in ast.parse(whole).body for name in stubs.names_of(node)}
        used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
        assert exercise.name in mine, exercise.id
        assert used & known <= mine | given, exercise.id
        assert mine & given <= {exercise.name}, exercise.id


def test_helpers_are_shown_and_what_others_use_is_not():
    assert "def read_by(" in answers.reference(COURSE, COURSE.exercise("c01.repair"))
    assert "def rows(" not in answers.reference(COURSE, COURSE.exercise("c01.repair"))


def test_comments_decorators_and_imports_of_a_helper_come_along(tmp_path):
    (tmp_path / "solutions").mkdir()
    (tmp_path / "solutions" / "c04_aten_symbolic.py").write_text(
        "import os\n\n# ANSWER c04.asinh\nimport math as m\n\n\n# Why.\n@cached\ndef half(x):\n    return x / m.pi\n# END\n\n\n"
        "def asinh():\n    # ANSWER c04.asinh: say it\n    return half(os)\n    # END\n"
    )
    course = type(COURSE)(tmp_path, COURSE.title, COURSE.chapters)
    text = answers.reference(course, COURSE.exercise("c04.asinh"))
    assert text == (
        "import math as m\n\n\n# Why.\n@cached\ndef half(x):\n    return x / m.pi\n\n\ndef asinh():\n    return half(os)\n"
    )
    with pytest.raises(OplabError, match="has no function hypot"):
        answers.reference(course, COURSE.exercise("c04.hypot"))
