"""What the last check of each exercise said, and the course with the progress."""

from __future__ import annotations

import pytest

from oplab.course.manifest import load
from oplab.grading import last, progress
from oplab.grading.overview import open_exercises, overview, skipped
from oplab.grading.results import Check, Graph, Outcome

FAILED = Outcome(
    "c01.fails",
    "01_cases",
    "failed",
    0,
    1,
    0.25,
    "y is wrong.",
    (Check("runs", True), Check("doubles", False, "y is wrong.")),
    output="printed",
    graphs=(Graph("model", "<svg/>"),),
    answer="abc",
)


@pytest.fixture
def course(warm_course):
    return warm_course


def test_an_outcome_is_read_as_it_was_written(tmp_path):
    last.save(tmp_path, FAILED, 12.5)
    entry = last.load(tmp_path, "c01.fails")
    assert (entry["when"], entry["answer"], entry["graphs"]) == (12.5, "abc", [{"name": "model", "svg": "<svg/>"}])
    assert "output" not in entry and "max_rss_kb" not in entry
    again = last.to_outcome(entry)
    assert (again.id, again.status, again.message, again.checks) == (
        "c01.fails",
        "failed",
        "y is wrong.",
        FAILED.checks,
    )
    assert again.graphs == FAILED.graphs and again.answer == "abc"
    assert last.load(tmp_path, "c01.passes") is None
    last.remove(tmp_path, ["c01.fails", "c01.passes"])
    assert last.load(tmp_path, "c01.fails") is None


@pytest.mark.parametrize("text", ["", "{", "[]", "\ud800", '{"id": "c01.fails", "status": "odd"}'])
def test_a_broken_file_counts_as_missing(tmp_path, text):
    (tmp_path / last.FOLDER).mkdir()
    path = tmp_path / last.FOLDER / "c01.fails.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    assert last.load(tmp_path, "c01.fails") is None


def test_a_check_in_a_terminal_leaves_its_outcome_and_a_reset_takes_it_away(course, oplab):
    oplab("check", "c01.fails", "c03")
    entry = last.load(course / "build", "c01.fails")
    assert entry["status"] == "failed" and entry["answer"]
    assert "SyntaxError" in last.load(course / "build", "c03.typo")["message"]
    oplab("reset", "c03")
    assert last.load(course / "build", "c03.typo") is None and last.load(course / "build", "c01.fails")


def test_the_overview_counts_what_was_reached(course):
    plan, reached = load(course), progress.Progress()
    reached.exercises["c01.passes"] = progress.Entry("passed", 1, True, 7)
    reached.exercises["c02.stuck"] = progress.Entry("passed", 1, True, 0)
    shown = overview(plan, reached)
    assert (shown["version"], shown["passed"], shown["total"], shown["points"], shown["next"]) == (
        1,
        2,
        21,
        2,
        "c01.fails",
    )
    first, second, _ = shown["chapters"]
    assert (first["reached"], first["passed"], first["core_done"]) == (1, 1, False)
    assert (second["reached"], second["passed"], second["core_done"], second["next"]) == (1, 1, True, "c03.typo")
    assert first["exercises"][0]["hints_shown"] == first["exercises"][0]["hints_total"] == 2


def test_the_next_exercise_is_the_next_of_the_chapter_then_of_the_core(course):
    manifest = course / "course.toml"
    text = manifest.read_text().replace('name = "untouched"\n', 'name = "untouched"\ndeeper = true\n')
    manifest.write_text(text)
    plan, reached = load(course), progress.Progress()

    def passed(*ids):
        for id in ids:
            reached.exercises[id] = progress.Entry("passed", 1, True, 0)

    def following(after=None):
        found = open_exercises(plan, reached, plan.exercise(after).chapter if after else "")
        return found[0].id if found else None

    assert following() == "c01.passes"
    passed("c01.passes", "c01.fails")
    assert following() == "c01.raises", "what is deeper comes after the core"
    assert following("c02.stuck") == "c02.stuck", "the chapter's own first"
    passed("c02.stuck")
    assert following("c02.stuck") == "c03.typo"
    assert [one.id for one in skipped(plan, reached, plan.exercise("c02.stuck"))] == ["c01.untouched"]
    reached.start = "03_syntax"
    assert following() == "c03.typo", "where the learner chose to begin"
    reached.start = "04_gone"
    passed(*(one.id for one in plan.exercises if not one.deeper))
    assert following() == following("c03.typo") == "c01.untouched"
    passed("c01.untouched")
    assert following() is None and following("c01.passes") is None
