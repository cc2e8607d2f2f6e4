"""Exercises by their name alone: found where one chapter has it, and listed with the commands to type where several do."""

from __future__ import annotations

import pickle

import pytest

from oplab.course.manifest import SeveralExercises, load
from oplab.errors import OplabError
from tests.support import ROOT

COURSE = load(ROOT)


def test_a_name_that_one_chapter_has_is_its_exercise():
    assert COURSE.exercise("asinh") is COURSE.exercise("c04.asinh")
    assert COURSE.target("asinh") is COURSE.exercise("c04.asinh")
    assert COURSE.target("c04") is COURSE.target("04_aten_symbolic") is COURSE.chapter("c04")
    assert [exercise.id for exercise in COURSE.select(["sinc", "c04.asinh"])] == ["c04.asinh", "c04.sinc"]


def test_a_name_of_several_chapters_lists_them():
    several = [exercise.id for exercise in COURSE.exercises if exercise.name == "my_add"]
    assert len(several) > 1
    for find in (COURSE.exercise, COURSE.target, lambda id: COURSE.select([id])):
        with pytest.raises(SeveralExercises, match="have an exercise my_add") as raised:
            find("my_add")
        assert raised.value.ids == several and f"Name one: {' or '.join(several)}." in str(raised.value)
    copy = pickle.loads(pickle.dumps(raised.value))
    assert (copy.ids, str(copy)) == (several, str(raised.value))


def test_a_name_means_the_chapter_that_is_open_first():
    for id in (exercise.id for exercise in COURSE.exercises if exercise.name == "my_add"):
        assert COURSE.exercise("my_add", COURSE.chapter(id.split(".")[0])).id == id
    assert COURSE.exercise("asinh", COURSE.chapter("c05")).id == "c04.asinh"
    with pytest.raises(SeveralExercises):
        COURSE.exercise("my_add", COURSE.chapter("c04"))


@pytest.mark.parametrize(
    ("id", "chapter", "words"),
    [
        ("c04.asin", None, r"There is no exercise c04\.asin\.\nDid you mean c04\.asinh"),
        ("asin", "c04", r"There is no exercise c04\.asin\.\nDid you mean c04\.asinh"),
        ("zzzzzz", None, r"There is no exercise zzzzzz\.\n`oplab list`"),
    ],
)
def test_an_unknown_name_suggests_near_ones(id, chapter, words):
    with pytest.raises(OplabError, match=words):
        COURSE.exercise(id, COURSE.chapter(chapter) if chapter else None)


@pytest.fixture
def course(warm_course):
    return warm_course


@pytest.fixture
def twice(course):
    """The fixture course with an exercise of chapter 02 that has the name of one of chapter 01."""
    manifest = course / "course.toml"
    before, after = manifest.read_text().split('stem = "02')
    manifest.write_text(
        f'{before}stem = "02{after.replace(after.split("name = ")[1].splitlines()[0], chr(34) + "passes" + chr(34), 1)}'
    )
    return course


def test_commands_take_a_name(course, oplab):
    assert "c01.fails  failed" in oplab("check", "fails").stdout
    assert "Hint 1 of" in oplab("hint", "fails").stdout
    assert "c01.fails has not passed yet" in oplab("diff", "fails").stderr
    assert "c01.fails reset to the stub." in oplab("reset", "fails").stdout
    assert 'raise todo("c01.fails")' in (course / "exercises" / "c01_cases.py").read_text()


def test_a_name_of_two_chapters_is_answered_with_the_commands_to_type(twice, call):
    for before in (("check", "--jobs", "1"), ("hint",), ("diff",), ("reset",)):
        line = " ".join(["oplab", *before])
        assert call(*before, "passes") == (
            2,
            "",
            f"oplab: Chapters c01 and c02 have an exercise passes.\nType `{line} c01.passes` or `{line} c02.passes`.\n",
        )
    assert "Name one: c01.passes or c02.passes." in call("check", "fails,passes")[2]


def test_a_hint_without_an_id_is_for_the_next_exercise(oplab):
    assert oplab("hint").stdout.startswith("c01.passes: return 2 * x\nHint 1 of 2: Multiply.")
    oplab("check", "c01.passes")
    assert oplab("hint").stdout.startswith("c01.fails: return 2 * x\nHint 1 of")
