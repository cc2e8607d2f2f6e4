"""The class to try things on, what the command says, and what it shows meanwhile."""

from __future__ import annotations

import io
import time
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from oplab.classes import demo, display, roster, runner
from oplab.classes.answers import Answers
from oplab.classes.records import Learner, Submission, Task
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


def test_the_same_seed_makes_the_same_class(course, made, tmp_path):
    again = demo.make(course, tmp_path / "again", 12)
    for path in made[1].rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (again / path.relative_to(made[1])).read_bytes()
    other = demo.make(course, tmp_path / "other", 12, seed=1)
    assert any(path.read_bytes() != (other / path.relative_to(made[1])).read_bytes() for path in made[1].rglob("*.zip"))


def test_a_course_without_solutions_hands_in_stubs(tmp_path):
    course = tmp_path / "course"
    course.mkdir()
    for part in ("course.toml", "exercises", "oplab", "csrc"):
        (course / part).symlink_to(ROOT / part)
    submitted = demo.make(load(course), tmp_path / "class", 2)
    assert (submitted / "ada.abel" / "c00_first_round_trip.py").read_text() == (
        ROOT / "exercises/c00_first_round_trip.py"
    ).read_text()


@pytest.mark.parametrize(
    "arguments, says",
    [
        (["grade", "nowhere", "--roster", "{roster}", "-o", "{out}"], "nowhere cannot be listed"),
        (["grade", "{in}", "--roster", "none.csv", "-o", "{out}"], "none.csv cannot be read"),
        (["grade", "{in}", "--roster", "{roster}", "-o", "{roster}"], "cannot be written"),
        (["grade", "{in}", "--roster", "{roster}", "-o", "{out}", "--exercises", "c04.asin"], "Did you mean c04.asinh"),
        (["verify", "{in}"], "holds no grades"),
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


def work(total: int, done: int) -> runner.Work:
    tasks = {str(number): Task("c00.x", str(number), "") for number in range(total)}
    one = Submission("ada", tasks={"c00.x": tasks["0"]})
    found = runner.Work({"ada": Learner("ada"), "bob": Learner("bob")}, {"ada": (one,)}, tasks=tasks, reused=3)
    found.begin()
    found.done, found.slowest = done, ("c00.x", 4.25)
    return found


def test_plain_lines_where_there_is_no_terminal(monkeypatch):
    monkeypatch.setattr(time, "monotonic", iter(range(20, 1000, 20)).__next__)
    out = io.StringIO()
    with display.Display(out) as shown:
        step = work(4, 0)
        shown(step)
        step.done = 1
        shown(step)
        step.done = 2
        step.stopping = True
        shown(step)
        shown(step)
    text = out.getvalue()
    assert (
        "2 learners, 1 submissions. Of the different answers 3 were graded before, 0 need no run, and 4 are graded now."
        in text
    )
    assert "\n1 of 4 answers · 1 of 2 learners · slowest c00.x (4.2 s)\n" in text
    assert "\n2 of 4 answers · 1 of 2 learners · " in text and "left · slowest c00.x (4.2 s)\n" in text
    assert text.count("Press it again to stop at once") == 1 and "\x1b" not in text


def test_the_start_of_the_engine_is_not_in_the_estimate(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    out = io.StringIO()
    with display.Display(out) as shown:
        step = work(23, 0)
        shown(step)
        for clock.now, step.done in ((30.0, 0), (60.0, 1), (80.0, 3)):
            shown(step)
    _, nothing, one, three = out.getvalue().splitlines()
    assert "left" not in nothing and "left" not in one
    assert " · 10.0 s for each exercise · about 3 min left · " in three


def test_the_live_display_shows_what_runs(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    class Running:
        def running(self):
            return {"c07.setup": 12.0}

    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    with display.Display(out, "http://localhost:8787/status") as shown:
        step = work(4, 1)
        step.engine = Running()
        shown(step)
        lines = shown._lines().splitlines()
        assert lines[1:] == ["now: c07.setup 12 s", "http://localhost:8787/status"]
    assert "2 learners" in out.getvalue()
