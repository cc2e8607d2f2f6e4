"""``oplab new-exercise``: what it makes works, and nothing that exists is changed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from oplab.authoring import lint
from oplab.authoring.new import Plan, create
from oplab.course.manifest import KINDS, load
from oplab.errors import OplabError
from oplab.grading.client import Server
from tests.support.authoring_course import MANIFEST, S, add, begin, edit, finish


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    return finish(begin(tmp_path_factory.mktemp("authors") / "course"))


@pytest.fixture
def root(finished, tmp_path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "course", symlinks=True))


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        yield running


@pytest.fixture
def fresh(tmp_path) -> Path:
    return begin(tmp_path / "fresh")


@pytest.mark.parametrize("id", ["c03.first", "c09.last", "c99.end"])
def test_place_in_the_manifest(id, fresh):
    goal = 'tab\tquote" back\\slash é'
    for name in ("one", "two"):
        create(load(fresh), Plan(f"{id}_{name}", goal, "End" if "99" in id and name == "one" else ""))
    text = (fresh / "course.toml").read_text()
    rest = iter(text.splitlines())
    assert all(line in rest for line in MANIFEST.splitlines())
    assert "\n\n\n" not in text and json.dumps(goal, ensure_ascii=False) in text
    chapter = load(fresh).chapter(id[:3])
    assert [(exercise.id, exercise.goal) for exercise in chapter.exercises] == [
        (f"{id}_one", goal),
        (f"{id}_two", goal),
    ]


# In `make test` one in Python and one that is compiled.
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in ("python", "cpp") else pytest.mark.nightly) for kind in KINDS]
)
def test_the_skeleton_works_from_the_first_minute(kind, fresh, server):
    """Stub todo, solution passes, the mutant is rejected; what is unfinished is all that the lint finds."""
    if kind == "openvino":
        pytest.importorskip("openvino", reason="OpenVINO is not installed; `make deps-engines` does it")
    create(load(fresh), Plan("c05.my_copy", "copy x", "Copies", kind))
    course = load(fresh)
    outcomes = {trial.kind: trial.problem(lint.attempt(course, trial, server)) for trial in lint.trials(course)}
    assert outcomes.pop("mutant").startswith("it is rejected for another reason: 'WRITE:")
    assert outcomes == {"stub": "", "edited stub": "", "solution": ""}
    kinds = {
        re.sub(r".*?(unfinished|mutant|is missing|no exercise).*", r"\1", str(entry)) for entry in lint.lint(course)
    }
    assert kinds == {"unfinished", "mutant", "is missing", "no exercise"}  # the notebook, and the two empty chapters


def test_a_mapping_is_made_from_the_operator_s_schema(fresh, server):
    """gelu has an argument that is a text, and PyTorch's own mappings at 9 and 20."""
    create(load(fresh), Plan("c05.my_gelu", "map gelu", "Maps", "symbolic", operator="aten::gelu"))
    course = load(fresh)
    problems = {
        each.name or each.kind: each.problem(lint.attempt(course, each, server)) for each in lint.trials(course)
    }
    text = (fresh / "oplab" / "checks" / "c05_maps.py").read_text()
    assert "gelu(x, approximate=case.numbers[0])" in text and 'f"gelu(x, approximate={numbers[0]!r})"' in text
    shared = ["never_registered", "too_late", "another_operator_too", "hidden_by_pytorch"]
    assert problems == dict.fromkeys(["stub", "edited stub", "solution", *shared], "")


def test_a_file_that_somebody_works_in_only_grows(root):
    file = root / "exercises" / f"{S}.py"
    mine = file.read_text().replace('raise todo("c05.double")', "return x * 2.0")
    file.write_text(mine)
    create(load(root), Plan("c05.half", "return x / 2"))
    assert file.read_text().startswith(mine)
    assert 'raise todo("c05.half")' in file.read_text()
    assert "ANSWER c05.double" in (root / "solutions" / f"{S}.py").read_text()


def everything(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file() and "build" not in path.parts}


@pytest.mark.parametrize(
    ("plan", "before", "words"),
    [
        (Plan("c05.double", "x"), None, "c05.double exists already."),
        (Plan("c5.x", "x"), None, "'c5.x' is not an exercise's id."),
        (Plan("c05.x", "x", kind="symbolic"), None, "--kind symbolic and --operator belong together."),
        (Plan("c05.x", "x", kind="symbolic", operator="aten::gellu"), None, "PyTorch has no operator 'aten::gellu'."),
        (Plan("c07.x", "x"), None, "There is no chapter 07 yet."),
        (Plan("c05.x", "x", deeper=True), None, "Chapter 05 has no deeper section."),
        (Plan("c05.x", "x", "Another title"), None, "is called 'Twice, and more'."),
        (
            Plan("c05.x", "x"),
            add(f"solutions/{S}.py", "def x():\n    pass\n"),
            f"solutions/{S}.py is there already, with a function x.",
        ),
        (Plan("c05.x", "x", kind="ort"), add("solutions/csrc/c05_x.cpp"), "solutions/csrc/c05_x.cpp is there already"),
        (Plan("c05.x", "x"), edit(f"solutions/{S}.py", "def double(", "def double(("), ", line 13: "),
    ],
)
def test_new_exercise_refuses_and_changes_nothing(plan, before, words, root):
    if before:
        before(root)
    files = everything(root)
    with pytest.raises(OplabError, match=re.escape(words)):
        create(load(root), plan)
    assert everything(root) == files
