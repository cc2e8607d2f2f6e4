"""class.toml: what it means, and a sentence with the line for each mistake."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from oplab.classes import rules
from oplab.classes.rules import Rules
from oplab.course import manifest
from oplab.errors import OplabError
from tests.support import ROOT

ALL = """
deadline = 2026-11-01T18:00:00   # Berlin: 17:00 UTC
timezone = "Europe/Berlin"
late_days = 2
late_penalty = 12.5
submission = "best"
speed = false
chapters = ["c07", "c00", "cA1"]

[weights]
c07 = 2.5

[bonus]
exercises = ["c07.knn_query"]
most = 3

[extensions]
ada = 3
"bob.b" = 2026-11-08

[columns.canvas]
"c07.knn_query" = "Kernels (123)"
total = "Course points"
"""


@pytest.fixture(scope="module")
def course():
    return manifest.load(ROOT)


@pytest.fixture
def load(course, tmp_path):
    def read(text: str) -> Rules:
        file = tmp_path / "class.toml"
        file.write_text(text, encoding="utf-8")
        return rules.load(file, course)

    return read


def test_each_key(load):
    found = load(ALL)
    assert found.deadline == datetime(2026, 11, 1, 17, tzinfo=UTC)
    assert (found.late_days, found.late_penalty, found.submission, found.speed) == (2, Decimal("12.5"), "best", False)
    assert found.chapters == ("c00", "c07", "cA1")
    assert [found.weight(chapter) for chapter in ("c00", "c07", "c04")] == [1, Decimal("2.5"), 0]
    assert found.bonus == {"c07.knn_query"} and found.bonus_most == 3
    assert found.extensions["bob.b"] == datetime(2026, 11, 8, 22, 59, 59, tzinfo=UTC)
    assert found.columns == {"canvas": {"c07.knn_query": "Kernels (123)", "total": "Course points"}}
    assert found.strangers(["ada"]) == ["bob.b"]
    assert load("") == Rules()
    assert load('[bonus]\nexercises = ["c00"]').bonus == {"c00.export", "c00.compare", "c00.one_file"}


def test_an_extension_in_days_keeps_the_hour_of_the_day(load):
    found = load('deadline = 2026-03-28T18:00:00\ntimezone = "Europe/Berlin"\n[extensions]\nada = 1')
    assert found.deadline_of("ada") == datetime(2026, 3, 29, 16, tzinfo=UTC)  # summer time has begun: 23 hours later


@pytest.mark.parametrize(
    ("hours", "days", "part"),
    [(-1, 0, "1"), (0, 0, "1"), (0.001, 1, "0.875"), (24, 1, "0.875"), (24.5, 2, "0.75"), (49, 3, "0")],
)
def test_late_days(load, hours, days, part):
    found = load(ALL)
    at = found.deadline + timedelta(hours=hours)
    assert found.days_late("eve", at) == days
    assert found.part(days) == Decimal(part)
    assert found.days_late("ada", at + timedelta(days=3)) == days
    assert found.days_late("eve", None) == 0
    assert Rules().days_late("eve", at) == 0


def test_a_penalty_never_makes_points_negative(load):
    assert load("deadline = 2026-11-01T00:00:00Z\nlate_days = 9\nlate_penalty = 30").part(4) == 0


MISTAKES = {
    "not TOML": ("deadline = soon", "is not valid TOML: Invalid value (at line 1, column 12)"),
    "unknown key": ("\nlate_day = 3", "line 2: it has no key 'late_day'; did you mean 'late_days'?"),
    "unknown key of a table": (
        "[bonus]\nmax = 3",
        "line 2: the table bonus has no key 'max'; known are exercises, most.",
    ),
    "no table": ('weights = ["c04"]', "line 1: weights has to be a table: [weights]."),
    "a text for a time": ('deadline = "1 May"', 'line 1: deadline = "1 May" has to be a time such as 2026-'),
    "no zone": ("\n\ndeadline = 2026-11-01T18:00:00", "line 3: deadline has no time zone; add one (+01:00), or"),
    "unknown zone": ('timezone = "Mars/North"', 'line 1: timezone = "Mars/North" is not a time zone such as'),
    "a path for a zone": ('timezone = "../etc"', 'line 1: timezone = "../etc" is not a time zone such as'),
    "half a day": (
        "deadline = 2026-11-01T18:00:00Z\nlate_days = 1.5",
        "line 2: late_days = 1.5 has to be a whole number from 0 to 365.",
    ),
    "too much": (
        "deadline = 2026-11-01T18:00:00Z\nlate_days = 1\nlate_penalty = 101",
        "line 3: late_penalty = 101 has to be a number from 0 to 100.",
    ),
    "a truth for a number": ("deadline = 2026-11-01T18:00:00Z\nlate_days = true", "line 2: late_days = true has to be"),
    "no deadline": ("late_days = 3", "line 1: late_days needs a deadline."),
    "no late day": (
        "deadline = 2026-11-01T18:00:00Z\nlate_penalty = 3",
        "line 2: late_penalty needs late_days: no late submission counts otherwise.",
    ),
    "first": ('submission = "first"', 'line 1: submission = "first" has to be "last" or "best".'),
    "speed": ("speed = 1", "line 1: speed = 1 has to be true or false."),
    "chapters": ('chapters = "c04"', 'line 1: chapters has to be a list such as ["c00", "c04"].'),
    "no chapter": ('chapters = ["c40"]', "line 1: There is no chapter c40."),
    "a chapter twice": ('chapters = ["c04", "04_aten_symbolic"]', "line 1: chapters names c04 twice."),
    "weight of none": ("[weights]\nc04 = 1\nc99 = 2", "line 3: There is no chapter c99."),
    "weight": ("[weights]\nc04 = -1", "line 2: c04 = -1 has to be a number from 0 to 1000."),
    "not finite": ("[weights]\nc04 = nan", "line 2: c04 = NaN has to be a number from 0 to 1000."),
    "weight elsewhere": (
        'chapters = ["c00"]\n[weights]\nc04 = 1',
        "line 3: c04 has a weight, but chapters does not list it.",
    ),
    "the same key in another table": (
        "[columns.moodle]\ntotal = 'x'\n[weights]\nc04 = -1",
        "line 4: c04 = -1 has to be a number from 0 to 1000.",
    ),
    "two weights": ("[weights]\nc04 = 1\n04_aten_symbolic = 1", "line 3: c04 has two weights."),
    "bonus of none": ('[bonus]\nexercises = ["c04.asin"]', "line 2: There is no exercise c04.asin."),
    "bonus elsewhere": (
        'chapters = ["c00"]\n[bonus]\nexercises = ["c04.asinh"]',
        "line 3: c04.asinh is a bonus, but chapters does not list its chapter.",
    ),
    "bonus without": ("[bonus]\nmost = 3", "line 1: the table bonus needs exercises."),
    "extension without": ("[extensions]\nada = 3", "line 2: ada has an extension, and there is no deadline."),
    "extension": (
        'deadline = 2026-11-01T18:00:00Z\n[extensions]\nada = "x"',
        'line 3: ada = "x" has to be a whole number from 0 to 365.',
    ),
    "earlier": (
        "deadline = 2026-11-01T18:00:00Z\n[extensions]\nada = 2026-10-01T00:00:00Z",
        "line 3: the extension of ada ends before the deadline.",
    ),
    "system": ("[columns.ilias]\nc04 = 'x'", "line 1: the table columns has no key 'ilias'; known are canvas, moodle,"),
    "column of none": ("[columns.moodle]\nc04 = 'x'", "line 2: There is no exercise c04."),
    "column": ("[columns.moodle]\ntotal = 4", "line 2: total = 4 has to be the header of a column."),
    "one header": ("[columns.moodle]\ntotal = 'x'\n'c04.asinh' = 'x'", 'line 3: two columns have the header "x".'),
    "Canvas's own": ("[columns.canvas]\ntotal = 'Final Score'", "line 2: Canvas computes columns with Final Score in"),
    "inline table": ("columns.moodle = {total = 4}", "line 1: total = 4 has to be the header"),
}


def test_a_mistake_is_a_sentence_with_its_line(load):
    for name, (text, sentence) in MISTAKES.items():
        with pytest.raises(OplabError) as error:
            load(text)
        assert error.value.message.startswith(("class.toml, line", "/")), (name, error.value.message)
        assert sentence in error.value.message, name
        assert error.value.fix, name


def test_a_file_that_cannot_be_read(course, tmp_path):
    with pytest.raises(OplabError, match="cannot be read: No such file"):
        rules.load(tmp_path / "class.toml", course)
    (tmp_path / "class.toml").write_bytes(b"\xff")
    with pytest.raises(OplabError, match="not UTF-8"):
        rules.load(tmp_path / "class.toml", course)


def test_the_example_of_the_documentation(load):
    page = (ROOT / "docs" / "class_grades.md").read_text(encoding="utf-8")
    text = page.split("```toml\n")[1].split("```")[0]
    found = load(text)
    assert found.deadline_of("bob.b") - found.deadline == timedelta(days=3)
    assert found.columns["canvas"]["total"] == "Operator Lab (4712)"
    for key in rules._KEYS:  # each key is explained
        assert f"{key} = " in text or f"[{key}" in text, key
