"""The class to try things on, what the command says, and what it shows meanwhile."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from oplab.classes import demo, roster
from oplab.classes.extraction import Answers
from oplab.classes.submissions import scan
from oplab.cli.main import app
from oplab.course.manifest import load
from oplab.errors import OplabError
from tests.support import ROOT


@pytest.fixture(scope="module")
def course():
    return load(ROOT)


@pytest.fixture(scope="module")
def made(course, tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "class"
    return folder, demo.make(course, folder, 12)


def handed_in(folder, files):
    learners, problems = roster.read(folder / "roster.csv")
    assert problems == [] and len(learners) == 12
    found = list(scan(str(folder / "submissions"), learners, files))
    assert not [one for one in found if isinstance(one, str) or one.problems]
    return found


def test_the_class_is_read_without_a_problem_and_is_mixed(course, made):
    answers = Answers(course, course.exercises)
    files = {exercise.file for exercise in course.exercises}
    found = handed_in(made[0], files)
    assert len(found) == 12 and all(set(one.files) == files for one in found)
    every = [answers.of(one.files) for one in found]
    stubs = sum(answer.settled is not None for one in every for answer in one.values()) / (12 * len(course.exercises))
    assert 0.2 < stubs < 0.8
    for exercise in course.exercises[:10]:
        assert len({one[exercise.id].sha for one in every}) > 1, exercise.id
    assert all(compile(text, name, "exec") for one in found for name, text in one.files.items() if name.endswith(".py"))


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["grade", "nowhere", "--roster", "{roster}", "-o", "{out}"], "nowhere cannot be listed"),
        (["grade", "{in}", "--roster", "{roster}", "-o", "{roster}"], "cannot be written"),
        (["report", "{in}"], "holds no grades"),
        (["demo", "{in}"], "not an empty folder"),
    ],
)
def test_a_mistake_in_the_call_is_a_sentence(made, tmp_path, arguments, says):
    names = {"in": made[1], "roster": made[0] / "roster.csv", "out": tmp_path / "grades"}
    done = CliRunner().invoke(app, ["class", *(argument.format(**names) for argument in arguments)])
    assert isinstance(done.exception, OplabError) and says in str(done.exception)


def test_a_submission_in_which_nothing_is_recognised_has_no_grade(tmp_path):
    (tmp_path / "in" / "ada").mkdir(parents=True)
    (tmp_path / "in" / "bob").mkdir()
    stub = ROOT / "exercises" / "c00_first_round_trip.py"
    (tmp_path / "in" / "bob" / stub.name).write_bytes(stub.read_bytes())
    (tmp_path / "roster.csv").write_text("login\nada\nbob\n")
    done = CliRunner().invoke(
        app,
        ["class", "grade", f"{tmp_path}/in", "--roster", f"{tmp_path}/roster.csv", "-o", f"{tmp_path}/out"]
        + ["--exercises", "c00"],
    )
    assert done.exit_code == 2 and "no file of the course could be read: submissions of ada." in done.output
    assert (tmp_path / "out" / "grades.csv").read_text() == "login,name,c00,total\nada,,,\nbob,,0,0\n"
    assert CliRunner().invoke(app, ["class", "report", f"{tmp_path}/out"]).exit_code == 2
