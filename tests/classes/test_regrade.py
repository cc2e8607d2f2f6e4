"""One exercise graded again for all: nothing counts before it is accepted, and nothing is lost. The engine here only notes its tasks."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from oplab.classes import publish, records, regrade, runner, versions
from oplab.classes.rules import Rules, rules_of
from oplab.course.manifest import load
from tests.support.fixture_course import COURSE, command, copy_course
from tests.support.noting_engine import Noting

STUB = '# TODO c01.passes: return 2 * x\n    raise todo("c01.passes")'


@pytest.fixture
def course():
    return load(COURSE)


@pytest.fixture
def version(monkeypatch):
    """Sets the version of the checks: as if one had been fixed."""

    def change(name: str) -> None:
        monkeypatch.setattr(versions, "grader_version", lambda course, exercise: name * 64)

    change("1")
    return change


@pytest.fixture
def graded(tmp_path, course, version):
    """GRADES of four learners: ada and bob have `2 * x`, cem `3 * x`, dan the stub. Graded so that `2 * x` is right."""
    answers = {"ada": "2 * x", "bob": "2 * x", "cem": "3 * x", "dan": None}
    source = (COURSE / "exercises" / "c01_cases.py").read_text(encoding="utf-8")
    for login, answer in answers.items():
        folder = tmp_path / "in" / login
        folder.mkdir(parents=True)
        body = STUB if answer is None else f"return {answer}"
        text = source.replace("def passes(x):\n    return 2 * x", f"def passes(x):\n    {body}")
        assert answer == "2 * x" or text != source
        (folder / "c01_cases.py").write_text(text, encoding="utf-8")
    (tmp_path / "roster.csv").write_text("login,name\n" + "".join(f"{login},{login}\n" for login in answers))
    exercises = course.select(["c01.passes", "c01.fails"])
    engine = Noting(course, ["2 * x"])
    runner.run(
        course, exercises, str(tmp_path / "in"), tmp_path / "roster.csv", tmp_path / "grades", lambda n: engine, seed=5
    )
    out(tmp_path / "grades", course)
    return tmp_path / "grades"


def out(folder, course, accept=False):
    return publish.publish(records.load(folder), course, Rules(), accept=accept)


def again(folder, course, engine):
    return regrade.run(course, course.exercise("c01.passes"), folder, Rules(), lambda n: engine)


def states(folder) -> dict[str, str]:
    grades = records.load(folder)
    return {login: grades.verdict(one[-1], "c01.passes").outcome.status for login, one in grades.submissions.items()}


def everything(folder) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "verdicts" not in path.parts and path.name != ".lock"
    }


def test_grades_go_up(graded, course, version):
    assert states(graded) == {"ada": "passed", "bob": "passed", "cem": "failed", "dan": "todo"}
    before, totals = everything(graded), publish.totals(graded)
    version("2")
    engine = Noting(course, ["2 * x", "3 * x"])
    found = again(graded, course, engine)
    assert everything(graded) == before  # only verdicts that nothing refers to were added
    assert [task["text"].count("return 3 * x") for task in engine.asked] == [0, 1]  # each answer once, and no stub
    assert all(task["exercise"] == "c01.passes" and task["seed"] == 5 for task in engine.asked)
    assert (found.work.done, found.work.reused, engine.closed) == (2, 0, 1)
    assert found.diff() == [
        "failed → passed: 1",
        "the same state as before: 2",
        "0 grades go down",
        "1 grade goes up",
        "  cem: 0 → 1 (+1)",
    ]
    regrade.replace_grades(found, "it refused 3 * x", accepted=False)
    assert states(graded) == {"ada": "passed", "bob": "passed", "cem": "passed", "dan": "todo"}
    assert out(graded, course).files
    after = publish.totals(graded)
    assert after == {**totals, "cem": totals["cem"] + 1}
    (entry,) = regrade.history(graded)
    assert (entry["exercise"], entry["why"], entry["accepted_lower"]) == ("c01.passes", "it refused 3 * x", False)
    assert entry["changes"] == [{"login": "cem", "before": "0", "after": "1"}]


def test_the_check_was_not_changed(graded, course):
    engine = Noting(course, [])
    found = again(graded, course, engine)
    assert found.nothing_new and found.changes == () and engine.asked == []


def test_a_later_run_takes_the_new_verdicts(graded, course, version, tmp_path):
    version("2")
    regrade.replace_grades(again(graded, course, Noting(course, ["3 * x"])), "turned round", accepted=True)
    engine = Noting(course, [])
    runner.run(
        course, course.select(["c01.passes"]), str(tmp_path / "in"), tmp_path / "roster.csv", graded, lambda n: engine
    )
    assert engine.asked == []
    assert states(graded) == {"ada": "failed", "bob": "failed", "cem": "passed", "dan": "todo"}


def test_stopped_and_gone_on(graded, course, version):
    version("2")
    before = everything(graded)
    found = again(graded, course, Noting(course, ["3 * x"], stop_after=1))
    assert found.work.stopping and found.work.done == 1 and everything(graded) == before
    engine = Noting(course, ["3 * x"])
    found = again(graded, course, engine)
    # The stub was known after the first run, too.
    assert (found.work.stopping, found.work.done, found.work.reused) == (False, 1, 2)
    assert [str(change) for change in publish.lower(found.changes)] == ["ada: 1 → 0 (−1)", "bob: 1 → 0 (−1)"]


def test_a_teachers_points_survive_a_regrade(graded, course, version, tmp_path):
    (tmp_path / "manual.csv").write_text("login,exercise,points,comment\nada,c01.passes,1,right on paper\n")
    rules = rules_of(graded, course, records.load(graded).learners, manual=tmp_path / "manual.csv")
    assert publish.publish(records.load(graded), course, rules).files
    version("2")
    rules = rules_of(graded, course, records.load(graded).learners)  # GRADES keeps them
    found = regrade.run(course, course.exercise("c01.passes"), graded, rules, lambda n: Noting(course, []))
    assert [str(change) for change in found.changes] == ["bob: 1 → 0 (−1)"]
    regrade.replace_grades(found, "x", accepted=True)
    publish.publish(records.load(graded), course, rules, accept=True)
    assert publish.totals(graded) == {"ada": 1, "bob": 0, "cem": 0, "dan": 0}


@pytest.mark.nightly
def test_the_command(tmp_path):
    """With the real engine: a check that is fixed in the course's files, and back again."""
    course = copy_course(tmp_path / "course")
    for login in ("ada", "bob"):
        (tmp_path / "in" / login).mkdir(parents=True)
        shutil.copy(COURSE / "exercises" / "c01_cases.py", tmp_path / "in" / login)
    (tmp_path / "roster.csv").write_text("login,name\nada,Ada\nbob,Bob\n")
    grades = tmp_path / "grades"

    def oplab(*args: object) -> subprocess.CompletedProcess[str]:
        line, env = command(course, "class", *map(str, args))
        return subprocess.run(line, env=env, capture_output=True, text=True, timeout=300, cwd=tmp_path)

    done = oplab(
        "grade", "in", "--roster", "roster.csv", "-o", grades, "--exercises", "c01.passes,c01.fails", "--jobs", 1
    )
    assert done.returncode == 0, done.stderr
    assert (grades / "grades.csv").read_text() == "login,name,c01,total\nada,Ada,1,1\nbob,Bob,1,1\n"
    same = ("regrade", "c01.passes", grades, "--why", "3 * x is right", "--jobs", 1)
    done = oplab(*same)
    assert done.returncode == 0 and "Nothing changes." in done.stdout, done.stderr

    check = course / "oplab" / "checks" / "c01_cases.py"
    text = check.read_text(encoding="utf-8")
    check.write_text(text.replace('expect_close(v.array("y"), 2 * x', 'expect_close(v.array("y"), 3 * x'))
    assert check.read_text() != text
    before = everything(grades)
    done = oplab(*same)
    assert done.returncode == 1, done.stderr
    assert "2 grades go down\n  ada: 1 → 0 (−1)\n  bob: 1 → 0 (−1)" in done.stdout
    assert "No grade was changed. Run the same command with --accept" in done.stderr
    assert everything(grades) == before
    done = oplab(*same, "--accept")
    assert done.returncode == 0, done.stderr
    assert "0 different answers graded again, 1 known" in done.stdout  # the verdict of the refused run is kept
    assert (grades / "grades.csv").read_text() == "login,name,c01,total\nada,Ada,0,0\nbob,Bob,0,0\n"
    assert json.loads((grades / "regrades.json").read_text())["regrades"][0]["accepted_lower"] is True

    assert oplab("regrade", "c01.fails", grades, "--why", "the same", "--jobs", 1).returncode == 0
    (tmp_path / "class.toml").write_text("[weights]\nc01 = 3\n")
    done = oplab("report", grades, "--rules", "class.toml")
    assert done.returncode == 0 and "grades.csv written, with lms/" in done.stdout, done.stderr
    assert (grades / "grades.csv").read_text() == "login,name,c01,total\nada,Ada,3,3\nbob,Bob,3,3\n"
    assert (grades / "class.toml").read_text() == (tmp_path / "class.toml").read_text()
    (tmp_path / "class.toml").write_text("[weights]\nc01 = 2\n")
    before = everything(grades)
    done = oplab("report", grades, "--rules", "class.toml")
    assert done.returncode == 1 and "\n  ada: 3 → 2 (−1)\n" in done.stderr
    assert f"`oplab class report {grades} --rules class.toml --accept` writes them." in done.stderr
    assert everything(grades) == before
