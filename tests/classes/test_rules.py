"""class.toml and manual.csv: what they mean, and a sentence for each mistake."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from oplab.classes import rules
from oplab.classes.records import Learner
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

[weights]
c07 = 2.5

[bonus]
exercises = ["c07.knn_query"]

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
    assert [found.weight(chapter) for chapter in ("c00", "c07")] == [1, Decimal("2.5")]
    assert found.bonus == {"c07.knn_query"} and found.files == {"class.toml": ALL}
    assert found.extensions["bob.b"] == datetime(2026, 11, 8, 22, 59, 59, tzinfo=UTC)
    assert found.columns == {"canvas": {"c07.knn_query": "Kernels (123)", "total": "Course points"}}
    assert found.strangers(["ada"]) == ["bob.b"]
    assert replace(load(""), files={}) == Rules()
    assert load('[bonus]\nexercises = ["c00"]').bonus == {"c00.run", "c00.export", "c00.compare", "c00.one_file"}


def test_an_extension_in_days_keeps_the_hour_of_the_day(load):
    found = load('deadline = 2026-03-28T18:00:00\ntimezone = "Europe/Berlin"\n[extensions]\nada = 1')
    assert found.extensions["ada"] == datetime(2026, 3, 29, 16, tzinfo=UTC)  # summer time has begun: 23 hours later


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


NOON = "deadline = 2026-11-01T12:00:00Z\n"
MISTAKES = [
    ("deadline = soon", "is not valid TOML: Invalid value (at line 1, column 12)"),
    ("late_day = 3", "it has no key 'late_day'; did you mean late_days?"),
    ("deadline = 2026-11-01T18:00:00", "deadline has no time zone; add one (+01:00), or"),
    (f"{NOON}late_days = 1.5", "late_days = 1.5 has to be a whole number from 0 to 365."),
    (f"{NOON}late_penalty = 3", "late_penalty needs late_days: no late submission counts otherwise."),
    ('submission = "first"', 'submission = "first" has to be "last" or "best".'),
    ("[weights]\nc99 = 2", "There is no chapter c99."),
    ("[weights]\nc04 = -1", "weights.c04 = -1 has to be a number from 0 to 1000."),
    ('[bonus]\nexercises = ["c04.asin"]', "There is no exercise c04.asin."),
    ("[extensions]\nada = 3", "ada has an extension, and there is no deadline."),
    (f'{NOON}[extensions]\nada = "x"', 'extensions.ada = "x" has to be a whole number from 0 to 365.'),
    (f"{NOON}[extensions]\nada = 2026-10-01T00:00:00Z", "the extension of ada ends before the deadline."),
    ("[columns.ilias]\nc04 = 'x'", "the table columns has no key 'ilias'; known are canvas, moodle,"),
    ("[columns.moodle]\ntotal = 'x'\n'c04.asinh' = 'x'", 'two columns have the header "x".'),
    ("[columns.canvas]\ntotal = 'Final Score'", "Canvas computes columns with Final Score in"),
]


@pytest.mark.parametrize(("text", "sentence"), MISTAKES)
def test_a_mistake_is_a_sentence(load, text, sentence):
    with pytest.raises(OplabError) as error:
        load(text)
    assert "class.toml" in error.value.message and sentence in error.value.message and error.value.fix


def test_a_teachers_own_points(course, tmp_path):
    file = tmp_path / "any.csv"
    file.write_text('Learner;Exercise;Score;Feedback\nADA;c04.asinh;1,5;"well, tried"\nbob;c04.asinh;;see me\n')
    found = rules.rules_of(tmp_path, course, {"ada": Learner("ada"), "bob": Learner("bob")}, manual=file)
    worth = course.exercise("c04.asinh").points
    assert found.manual == {
        ("ada", "c04.asinh"): rules.Manual(Decimal("1.5"), worth, "well, tried"),
        ("bob", "c04.asinh"): rules.Manual(None, worth, "see me"),
    }
    assert found.files == {"manual.csv": file.read_text()}


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("eve,c04.asinh,1,", "line 3: eve is not in the roster."),
        ("ada,c04.asin,1,", "line 3: There is no exercise c04.asin."),
        ("ada,c04.asinh,99,", "line 3: points for c04.asinh are from 0 to "),
        ("bob,c04.asinh,0,", "line 3: bob has points for c04.asinh twice."),
    ],
)
def test_a_wrong_row_is_a_sentence_with_its_line(course, tmp_path, row, sentence):
    (tmp_path / "manual.csv").write_text(f"login,exercise,points,comment\nbob,c04.asinh,0,\n{row}\n")
    with pytest.raises(OplabError) as error:
        rules.rules_of(tmp_path, course, {"ada": Learner("ada"), "bob": Learner("bob")})
    assert sentence in error.value.message and "manual.csv" in error.value.message and error.value.fix


def test_the_example_of_the_documentation(load):
    page = (ROOT / "docs" / "class_grades.md").read_text(encoding="utf-8")
    text = page.split("```toml\n")[1].split("```")[0]
    found = load(text)
    assert found.extensions["bob.b"] - found.deadline == timedelta(days=3)
    assert found.columns["canvas"]["total"] == "Operator Lab (4712)"
    for key in rules._KEYS:  # each key is explained
        assert f"{key} = " in text or f"[{key}" in text, key
