"""What the grader promises of every exercise: the stub is `todo`, the solution passes, each wrong answer is rejected for its own
reason, each other right answer passes.

A mutant is a file ``tests/mutants/<chapter>/<exercise>__<what>.py`` (or ``.cpp``). Its first lines say what has to happen::

    # says: words that the message must hold
    # status: failed            (optional; `failed` if left out)

The Python text after them is added to the solution, where its function replaces the right one; a C++ file stands for itself.
An alternative has the same form and no header.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from oplab.course import Exercise, load
from oplab.grading.client import Server
from oplab.grading.engine import grade
from oplab.grading.results import Outcome
from oplab.stubs import make_stub

ROOT = Path(__file__).resolve().parents[2]
COURSE = load(ROOT)
_HEADER = re.compile(r"^(?:#|//) (says|status): (.+)$", re.MULTILINE)


def _variants(kind: str) -> list:
    found = []
    for chapter in COURSE.chapters:
        for path in sorted((ROOT / "tests" / kind / chapter.module).glob("*__*.*")):
            found.append(
                pytest.param(chapter.id + "." + path.name.split("__")[0], path, id=f"{chapter.id}.{path.stem}")
            )
    return found


MUTANTS, ALTERNATIVES = _variants("mutants"), _variants("alternatives")


@pytest.fixture(scope="session")
def server():
    with Server(preload=["dynamo"]) as running:
        yield running


@pytest.fixture
def attempt(server, tmp_path):
    """Grade one exercise as if its file were this text."""

    def run(exercise: Exercise, text: str) -> Outcome:
        file = tmp_path / exercise.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        (outcome,) = grade(COURSE, [exercise], tmp_path, server=server).exercises
        return outcome

    yield run
    shutil.rmtree(tmp_path, ignore_errors=True)


def _solution(exercise: Exercise) -> str:
    return (ROOT / "solutions" / exercise.file).read_text(encoding="utf-8")


def _text(exercise: Exercise, path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return text if path.suffix == ".cpp" else f"{_solution(exercise)}\n\n{text}"


@pytest.mark.parametrize("exercise", COURSE.exercises, ids=lambda exercise: exercise.id)
def test_stub_is_todo(exercise, attempt):
    outcome = attempt(exercise, make_stub(_solution(exercise), exercise.file))
    assert (outcome.status, outcome.points) == ("todo", 0), outcome.message


@pytest.mark.parametrize("exercise", COURSE.exercises, ids=lambda exercise: exercise.id)
def test_stub_that_was_edited_elsewhere_still_says_todo(exercise, attempt):
    """The text no longer equals the stub, so the code runs, and its own NotImplementedError has to be recognised."""
    stub = make_stub(_solution(exercise), exercise.file)
    mark = "//" if exercise.file.endswith(".cpp") else "#"
    edited = re.sub(
        rf"^(\s*){mark} TODO {re.escape(exercise.id)}: .*$", rf"\1{mark} where do I start", stub, flags=re.MULTILINE
    )
    assert edited != stub
    outcome = attempt(exercise, edited)
    assert (outcome.status, outcome.points) == ("todo", 0), outcome.message


@pytest.mark.parametrize("exercise", COURSE.exercises, ids=lambda exercise: exercise.id)
def test_solution_passes(exercise, attempt):
    outcome = attempt(exercise, _solution(exercise))
    assert (outcome.status, outcome.points) == ("passed", exercise.points), outcome.message


@pytest.mark.parametrize(("id", "path"), MUTANTS)
def test_mutant_is_rejected_for_its_own_reason(id, path, attempt):
    exercise = COURSE.exercise(id)
    header = dict(_HEADER.findall(path.read_text(encoding="utf-8")))
    assert "says" in header, f"{path.name} has to begin with the line `# says: words of the message`"
    outcome = attempt(exercise, _text(exercise, path))
    assert outcome.status == header.get("status", "failed"), outcome.message
    assert header["says"] in outcome.message
    assert outcome.points == 0


@pytest.mark.parametrize(("id", "path"), ALTERNATIVES)
def test_alternative_passes(id, path, attempt):
    exercise = COURSE.exercise(id)
    outcome = attempt(exercise, _text(exercise, path))
    assert (outcome.status, outcome.points) == ("passed", exercise.points), outcome.message


@pytest.mark.parametrize("exercise", COURSE.exercises, ids=lambda exercise: exercise.id)
def test_there_are_enough_mutants(exercise):
    mine = [param.id for param in MUTANTS if param.values[0] == exercise.id]
    assert len(mine) >= 3, f"{exercise.id} has the mutants {mine}; at least 3 are needed"


@pytest.mark.parametrize("exercise", COURSE.exercises, ids=lambda exercise: exercise.id)
def test_solution_has_one_goal(exercise):
    """Exactly one TODO in the stub, with the goal of the manifest's exercise."""
    stub = make_stub(_solution(exercise), exercise.file)
    assert len(re.findall(rf"TODO {re.escape(exercise.id)}: ", stub)) == 1
