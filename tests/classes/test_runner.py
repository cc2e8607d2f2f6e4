"""A run keeps what it has, grades each different answer once, and goes on where it stopped. The engine here only notes its tasks."""

from __future__ import annotations

import errno
import os
import shutil
import signal

import pytest

from oplab.classes import records, runner
from oplab.course.manifest import load
from oplab.errors import OplabError
from tests.support.fixture_course import COURSE, copy_course
from tests.support.noting_engine import Noting


@pytest.fixture
def course():
    return load(COURSE)


@pytest.fixture
def grade(tmp_path, course):
    """Grades `in/` of three learners, of whom two have handed in the same file, into `grades/`."""
    for login in ("ada", "bob"):
        (tmp_path / "in" / login).mkdir(parents=True)
        shutil.copy(COURSE / "exercises" / "c01_cases.py", tmp_path / "in" / login)
    (tmp_path / "roster.csv").write_text("login,name\nbob,Bob\nada,Ada\ncy,Cy\n")
    exercises = course.select(["c01.passes", "c01.fails", "c01.untouched"])

    def run(engine=None, **options):
        engine = engine or Noting(course)
        listener = options.pop("listener", lambda work: None)
        work = runner.run(
            options.pop("course", course),
            options.pop("exercises", exercises),
            str(tmp_path / "in"),
            tmp_path / "roster.csv",
            tmp_path / "grades",
            lambda tasks: engine,
            listener=listener,
            **options,
        )
        return work, engine

    return run


def status(folder):
    grades = records.load(folder)
    return {
        login: {id: grades.verdicts[task.key].outcome.status for one in all for id, task in one.tasks.items()}
        for login, all in grades.submissions.items()
    }


def test_equal_answers_are_graded_once_and_count_for_each(grade, tmp_path):
    work, engine = grade()
    assert sorted(task["exercise"] for task in engine.asked) == ["c01.fails", "c01.passes"]
    expected = {"c01.passes": "passed", "c01.fails": "failed", "c01.untouched": "todo"}
    assert status(tmp_path / "grades") == {"bob": expected, "ada": expected, "cy": {}}
    assert (work.done, work.settled, work.reused, engine.closed) == (2, 1, 0, 1)
    assert {task["seed"] for task in engine.asked} == {records.load_run(tmp_path / "grades")["seed"]}


def test_a_second_run_grades_only_what_is_new(grade, tmp_path):
    grade()
    before = {path: path.read_bytes() for path in (tmp_path / "grades").rglob("*.json") if path.name != "run.json"}
    work, engine = grade()
    assert engine.asked == [] and work.reused == 3
    assert before == {path: path.read_bytes() for path in before}
    file = tmp_path / "in" / "bob" / "c01_cases.py"
    file.write_text(file.read_text().replace("return 2 * x", "return x * 2", 1))
    work, engine = grade()
    assert len(engine.asked) == 1 and work.submissions["ada"] != work.submissions["bob"]
    assert len(records.load_run(tmp_path / "grades")["runs"]) == 3


def test_ctrl_c_finishes_what_runs_and_the_next_run_goes_on(grade, course, tmp_path):
    heard = []
    work, engine = grade(Noting(course, stop_after=1), listener=lambda work: heard.append(work.stopping))
    assert work.stopping and work.done == 1 and len(engine.asked) == 1 and engine.closed == 1
    assert heard[0] is False and heard[-1] is True
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    work, engine = grade()
    assert work.done == 1 and work.reused == 2 and not work.stopping


def test_a_second_ctrl_c_stops_at_once_and_keeps_what_is_graded(grade, course, tmp_path):
    class Twice(Noting):
        def finish(self):
            signal.raise_signal(signal.SIGINT)

    engine = Twice(course, stop_after=2)
    with pytest.raises(KeyboardInterrupt):
        grade(engine)
    assert engine.closed == 1
    work, engine = grade()
    assert work.done == 1 and work.reused == 2


def test_a_fault_of_the_grader_is_never_final(grade, course, tmp_path):
    work, _ = grade(Noting(course, fails=["c01.passes"]))
    assert work.unfinished == [("c01.passes", "no room\nat all")]
    assert records.load_run(tmp_path / "grades")["runs"][0]["unfinished"] == ["c01.passes"]
    grades = records.load(tmp_path / "grades")
    assert grades.verdict(grades.submissions["ada"][0], "c01.passes") is None
    work, engine = grade()
    assert [task["exercise"] for task in engine.asked] == ["c01.passes"] and not work.unfinished


def test_a_full_disk_is_a_sentence_and_loses_nothing(grade, course, tmp_path, monkeypatch):
    real = records.write_atomically

    def full(path, content, **more):
        if "verdicts" in path.parts and b"c01.fails" in content.encode():
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        real(path, content, **more)

    monkeypatch.setattr(records, "write_atomically", full)
    engine = Noting(course)
    with pytest.raises(OplabError, match=r"(?s)No space left on device.*Run the same command again"):
        grade(engine)
    assert engine.closed == 1
    monkeypatch.undo()
    work, engine = grade()
    assert [task["exercise"] for task in engine.asked] == ["c01.fails"] and work.done == 1


def test_what_a_changed_course_has_graded_is_not_kept(grade, tmp_path):
    course = load(copy_course(tmp_path / "course"))
    exercises = course.select(["c01.passes", "c01.fails"])

    def change(work):
        if work.done:
            with open(course.root / "course.toml", "a") as file:
                file.write("\n")

    with pytest.raises(OplabError, match=r"(?s)course.toml changed during the run.*Run the same command again"):
        grade(Noting(course), course=course, exercises=exercises, listener=change)
    work, engine = grade(Noting(course), course=course, exercises=exercises)
    assert work.reused == work.done == 1


def test_one_run_at_a_time(grade, course, tmp_path):
    def again(work):
        with pytest.raises(OplabError, match=f"process {os.getpid()}"):
            grade()

    grade(listener=again)


def test_what_a_killed_run_has_left_is_removed(grade, tmp_path):
    grade()
    folder = next((tmp_path / "grades" / "verdicts").iterdir())
    for place in (folder, folder.parent, tmp_path / "grades"):
        (place / ".new-abc").write_text("half")
    grade()
    assert not list((tmp_path / "grades").rglob(".new-*"))


def test_one_folder_has_one_seed(grade, tmp_path):
    grade(seed=7)
    assert records.load_run(tmp_path / "grades")["seed"] == 7
    grade()
    grade(seed=7)
    with pytest.raises(OplabError, match="--seed 7"):
        grade(seed=8)
