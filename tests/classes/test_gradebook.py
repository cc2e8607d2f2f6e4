"""Points under the rules of a course, and the files that grade books import."""

from __future__ import annotations

import csv
import io
import itertools
import random
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from oplab.classes import gradebook
from oplab.classes.counting import count
from oplab.classes.records import Learner
from oplab.classes.rules import Manual, Rules
from tests.support.small_class import DEADLINE, SmallClass, outcome

ADA = Learner("ada", "Ada Lovelace", "ada@example.org", "Monday")
BOB = Learner("bob", "de Vries, Bob")
LATE = Rules(deadline=DEADLINE, late_days=2, late_penalty=Decimal(10))


@pytest.fixture
def small(tmp_path) -> SmallClass:
    return SmallClass(tmp_path / "GRADES", BOB, ADA)


def totals(small: SmallClass, rules: Rules) -> dict[str, Decimal]:
    return {row.learner.login: row.total for row in count(small.grades(), small.learners, rules).rows}


def written(small: SmallClass, rules: Rules) -> list[Path]:
    return gradebook.write(count(small.grades(), small.learners, rules), rules, small.folder)


def table(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def test_points_by_chapter(small):
    small.hand_in("ada", [outcome("c04.one"), outcome("c04.two", "failed"), outcome("c00.three", points=2, of=3)])
    files = written(small, Rules())
    assert [file.name for file in files] == ["grades.csv", "canvas.csv", "moodle.csv", "blackboard.csv"]
    assert files[0].read_bytes() == (
        b'login,name,c00,c04,total\nada,Ada Lovelace,2,4,6\nbob,"de Vries, Bob",0,0,0\n'  # sorted by login
    )


def test_the_same_verdicts_give_the_same_bytes(small):
    small.hand_in("ada", [outcome("c04.one"), outcome("c00.two", "failed")])
    small.hand_in("bob", [outcome("c00.two"), outcome("c07.three", points=1)])
    first = [file.read_bytes() for file in written(small, LATE)]
    grades = small.grades()
    verdicts = list(grades.verdicts.items())
    random.Random(1).shuffle(verdicts)
    other = replace(grades, verdicts=dict(verdicts), submissions=dict(reversed(small.submissions.items())))
    learners = dict(reversed(small.learners.items()))
    assert [file.read_bytes() for file in gradebook.write(count(other, learners, LATE), LATE, small.folder)] == first


def test_last_and_best(small):
    small.hand_in("ada", [outcome("c00.one", points=4)], hours=-50)
    small.hand_in("ada", [outcome("c00.one", points=3)], hours=-2)
    small.hand_in("ada", [outcome("c00.one", points=4, of=4, message="late")], hours=30)
    small.hand_in("ada", [outcome("c00.one", points=4, message="too late")], hours=49)
    assert totals(small, Rules())["ada"] == 4  # without a deadline, the newest
    assert totals(small, Rules(deadline=DEADLINE))["ada"] == 3  # the newest before it
    assert totals(small, LATE)["ada"] == Decimal("3.2")  # the newest that counts, two days late
    best = count(small.grades(), small.learners, replace(LATE, submission="best")).rows[0]
    assert (best.total, best.days_late, best.submission.label, best.too_late) == (4, 0, "0", 1)
    extended = replace(LATE, extensions={"ada": DEADLINE + timedelta(days=7)})
    assert totals(small, extended)["ada"] == 4
    nothing = count(small.grades(), small.learners, Rules(deadline=DEADLINE - timedelta(days=9))).rows[0]
    assert (nothing.submission, nothing.total, nothing.too_late) == (None, 0, 4)


def test_weights_and_speed(small):
    small.hand_in("ada", [outcome("c00.one"), outcome("c04.two", points=1, of=4), outcome("c07.three", "failed", 0)])
    assert totals(small, Rules(weights={"c04": Decimal("2.5")}))["ada"] == Decimal("6.5")
    assert totals(small, Rules(speed=False))["ada"] == 8  # only right answers get all of their points
    book = count(
        small.grades(), small.learners, Rules(weights={"c00": Decimal(0), "c04": Decimal("0.5"), "c07": Decimal(0)})
    )
    assert book.possible == {"c04": 2} and book.total == 2


def test_bonus(small):
    small.hand_in("ada", [outcome("c00.one"), outcome("c04.two"), outcome("c04.three", points=3)])
    small.hand_in("bob", [outcome("c00.one")])
    rules = Rules(bonus=frozenset({"c04.two", "c04.three"}))
    book = count(small.grades(), small.learners, rules)
    assert book.possible == {"c00": 4} and book.bonus  # without the bonus no points are lost
    assert [row.total for row in book.rows] == [11, 4]
    assert table(gradebook.plain(book)) == [
        ["login", "name", "c00", "bonus", "total"],
        ["ada", "Ada Lovelace", "4", "7", "11"],
        ["bob", "de Vries, Bob", "4", "0", "4"],
    ]


def test_a_teachers_points_count_in_place_of_the_graders(small):
    small.hand_in("ada", [outcome("c00.one", "failed"), outcome("c04.two", "grader_error")], hours=1)
    manual = {
        ("ada", "c00.one"): Manual(Decimal("2.5"), 4, "half of it"),
        ("ada", "c04.two"): Manual(Decimal(4), 4, ""),
        ("bob", "c00.one"): Manual(Decimal(3), 4, "on paper"),  # he has no submission
        ("bob", "c04.two"): Manual(None, 4, "a comment alone"),
    }
    book = count(small.grades(), small.learners, replace(LATE, manual=manual, weights={"c04": Decimal(2)}))
    assert [row[2:] for row in table(gradebook.plain(book))[1:]] == [["2.25", "7.2", "9.45"], ["3", "0", "3"]]
    for system, render in gradebook.SYSTEMS.items():
        last = ["78.75", "25"] if system == "moodle" else ["9.45", "3"]
        assert [row[-1] for row in table(render(book, {}, False))[-2:]] == last


def test_each_row_adds_up(small):
    graded = [outcome("c00.one", points=1), outcome("c04.two", points=1), outcome("c07.three", points=1)]
    small.hand_in("ada", graded, hours=1)
    rules = replace(LATE, late_penalty=Decimal("33.335"))  # 0.66665 of a point in each chapter
    _, row, _ = table(gradebook.plain(count(small.grades(), small.learners, rules)))
    assert row[2:] == ["0.67", "0.67", "0.67", "2.01"]


def test_notes(small):
    small.learners["=cmd"] = Learner("=cmd")
    small.submissions["=cmd"] = ()
    small.hand_in("ada", {"c00.one": None, "c04.two": outcome("c04.two", "grader_error")}, hours=None)
    small.hand_in("bob", [outcome("c00.one")], hours=100)
    rules = replace(LATE, extensions={"eve": DEADLINE})
    assert list(count(small.grades(), small.learners, rules).notes) == [
        "The points of ada are not complete, so cells stay empty. Not graded yet: c00.one, c04.two.",
        "The submission of ada has no time, and counts as in time.",
        "bob handed in only after the last late day; that does not count.",
        "class.toml has an extension for eve, and the roster does not.",
        "A spreadsheet would take the login =cmd for a formula. The CSV files have an apostrophe before it, "
        "so a grade book will not find that learner: enter these grades by hand.",
    ]
    small.submissions = {login: () for login in small.learners}
    assert count(small.grades(), {"ada": ADA}, LATE).notes == ()


# --- the formats ----------------------------------------------------------------------------------------------------


@pytest.fixture
def book(small):
    small.hand_in("ada", [outcome("c00.one"), outcome("c04.two", points=1, of=3)])
    small.hand_in("bob", [outcome("c00.one", "failed"), outcome("c04.two", of=3)])
    return count(small.grades(), small.learners, Rules())


def test_canvas(book):
    text = gradebook.canvas(book, {"total": "Lab (4711)"})
    assert text.endswith("\r\n")
    header, possible, ada, bob = table(text)
    # What Canvas's importer asks of a header, and where it looks for the row of possible points.
    assert "Student" in header[0] and "ID" in header[1]
    assert header[2:5] == ["SIS User ID", "SIS Login ID", "Section"]
    assert header[5:] == ["Lab (4711)"]
    assert "Points Possible" in possible[0] and possible[1:] == ["", "", "", "", "7"]
    assert ada == ["Ada Lovelace", "", "", "ada", "Monday", "5"]
    assert bob == ["de Vries, Bob", "", "", "bob", "", "3"]


def test_moodle(book):
    header, ada, bob = table(gradebook.moodle(book, {"total": "Course"}))
    assert header == ["First name", "Last name", "Username", "Email address", "Course"]
    assert ada == ["Ada", "Lovelace", "ada", "ada@example.org", "71.43"]
    assert bob == ["Bob", "de Vries", "bob", "", "42.86"]


def test_blackboard(book):
    text = gradebook.blackboard(book, {"total": "Lab [Total Pts: 7 Score] |534283"})
    lines = text.split("\r\n")
    assert lines == [
        '"Last Name","First Name","Username","Lab [Total Pts: 7 Score] |534283"',
        '"Lovelace","Ada","ada","5"',
        '"de Vries","Bob","bob","3"',
        "",
    ]


def test_a_column_for_each_exercise_and_none_for_their_sum(small):
    small.hand_in("ada", [outcome("c00.one"), outcome("c04.two", points=1, of=3)], hours=1)
    small.hand_in("bob", [outcome("c00.one")])
    rules = replace(LATE, weights={"c04": Decimal(2)}, columns={"blackboard": {"c04.two": "Two |534283"}})
    book = count(small.grades(), small.learners, rules)
    files = gradebook.write(book, rules, small.folder, exercises=True)
    canvas, moodle, blackboard = (table(file.read_text()) for file in files[1:])
    assert [row[5:] for row in canvas] == [
        ["Operator Lab c00.one", "Operator Lab c04.two"],
        ["4", "6"],
        ["3.6", "1.8"],
        ["4", "0"],
    ]
    assert [row[4:] for row in moodle[1:]] == [["90", "30"], ["100", "0"]]
    assert blackboard[0][3:] == ["Operator Lab c00.one [Total Pts: 4 Score]", "Two |534283"]


def test_ungraded_is_not_zero(small):
    small.learners["cem"] = Learner("cem")
    small.submissions["cem"] = ()
    small.hand_in("ada", {"c00.one": outcome("c00.one"), "c04.two": outcome("c04.two", "grader_error")})
    small.hand_in("bob", [])  # nothing was recognised in it
    book = count(small.grades(), small.learners, Rules(bonus=frozenset({"c07.three"})))
    cells = {"ada": ["4", "", ""], "bob": ["", "", ""], "cem": ["0", "0", "0"]}
    assert {row[0]: row[2:] for row in table(gradebook.plain(book))[1:]} == cells
    for system, render in gradebook.SYSTEMS.items():
        assert [row[-1] for row in table(render(book, {}, False))[-3:]] == ["", "", "0"]
        first = "100" if system == "moodle" else "4"
        assert [row[-2:] for row in table(render(book, {}, True))[-3:]] == [[first, ""], ["", ""], ["0", "0"]]


def test_no_cell_is_a_formula(small):
    starts = ("=", "+", "-", "@", "\t=", "\r", " =", "\n@", "\x00+", "＝", "＋", " －", "＠")
    small.hand_in("ada", [outcome("c00.one")])
    for system, start in itertools.product([*gradebook.SYSTEMS, "plain"], starts):
        evil = f'{start}cmd|"/c calc"!A1;=1+1,=2|=3；＝4'
        small.learners["ada"] = Learner("ada", f"{evil} {evil}", evil, evil)
        book = count(small.grades(), small.learners, Rules())
        text = gradebook.plain(book) if system == "plain" else gradebook.SYSTEMS[system](book, {}, False)
        rows = table(text)
        assert len({len(row) for row in rows}) == 1
        for row in rows:
            for cell in row:
                assert cell.lstrip()[:1] not in {*"=+-@＝＋－＠\t\r\0"}
                assert cell.isprintable()
        assert any("calc" in cell for row in rows for cell in row)
        for line, split in itertools.product(
            text.splitlines()[1:], ";|；"
        ):  # a reader that splits there finds none either
            cells = next(csv.reader([line], delimiter=split))
            assert not any(cell.lstrip().startswith(("=", "＝")) for cell in cells)


@pytest.mark.parametrize("name", ["Zoë Žižek", "O'Brien, Pat", 'Ann "Q" Roe', "李小龙", ""])
def test_names_survive(name, small):
    small.learners["ada"] = Learner("ada", name)
    files = written(small, Rules())
    rows = table(files[0].read_text(encoding="utf-8"))
    assert rows[1][:2] == ["ada", name]
    first, last = gradebook.names(name)
    assert (f"{last}, {first}" if "," in name else f"{first} {last}".strip()) == name
