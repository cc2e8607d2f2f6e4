"""Pages of a class: what is counted on them, what a learner gets back, and that nothing in them can act."""

from __future__ import annotations

import json
import re
import zipfile
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser

import jsonschema
import pytest

from oplab.classes import ideas, pages, publish
from oplab.classes.counting import count
from oplab.classes.overview import overview
from oplab.classes.records import Learner
from oplab.classes.rules import Rules
from oplab.course import manifest
from oplab.grading.results import Check
from tests.support import ROOT
from tests.support.small_class import DEADLINE, SmallClass, outcome

SCHEMA = json.loads((ROOT / "oplab" / "grading" / "results.schema.json").read_text(encoding="utf-8"))
NASTY = '<script>alert(1)</script>\ud800 & "q" \'</title>'
NUMBERS = (
    "y: 3 of 12 elements differ; first at [0, {0}] expected 1.{0}, got 2.{0}. "
    "Largest error 1.{0} absolute (allowed 1e-05 + 1e-04 of the value)."
)
LATE = Rules(deadline=DEADLINE, late_days=2, late_penalty=Decimal(10))


@pytest.fixture(scope="module")
def course():
    return manifest.load(ROOT)


@pytest.fixture
def small(tmp_path) -> SmallClass:
    return SmallClass(tmp_path / "GRADES", *(Learner(login, login.title()) for login in ("ada", "bob", "cem", "dan")))


def written(small: SmallClass, course, rules=None):
    """The grades, saved and published."""
    grades = small.save()
    return publish.publish(grades, course, rules or Rules(), "")


# --- ideas ----------------------------------------------------------------------------------------------------------

WORDS = {"The result is 2a": ("doubled",), "is 2a": ("twice", "two of them"), "got int64": ("wide",)}


def found(message: str, status: str = "failed", words=WORDS):
    return ideas.idea(outcome("c04.asinh", status, message=message), words)


def test_a_known_wrong_answer_gives_its_name():
    one = found(f"{NUMBERS.format(5)} The result is 2a + b: the factor is lost.")
    other = found(f"{NUMBERS.format(7)} The result is 2a + b: the factor is lost.")
    assert one == other
    assert one.names == ("doubled",)  # the longest of the words that fit
    assert one.sentence == "The result is 2a + b: the factor is lost."
    assert found("x: expected int32, got int64.").names == ("wide",)
    assert found("x is 2a.").names == ("twice", "two of them")


def test_a_failed_check_that_is_not_the_first_counts_too():
    checks = (Check("shape", False, "The shape is wrong."), Check("dtype", False, "expected int32, got int64"))
    assert ideas.idea(replace(outcome("c04.asinh", "failed"), checks=checks), WORDS).names == ("wide",)


def test_without_tests_the_same_message_is_the_same_mistake():
    same = [
        found(f"{NUMBERS.format(number)} The axis 'a_{number}' of node \"n{number}\" is lost.", words={})
        for number in (3, 8)
    ]
    assert same[0].key == same[1].key and same[0].names == ()
    assert same[0].sentence == "The axis 'a_3' of node \"n3\" is lost."
    assert found(f"{NUMBERS.format(3)} The batch is lost.", words={}).key != same[0].key
    assert found(NUMBERS.format(3), words={}).key == found(NUMBERS.format(4), words={}).key  # only figures: all alike
    assert found("The axis is lost.", "error", {}).key != found("The axis is lost.", words={}).key


def test_errors_are_told_apart_by_their_names():
    undefined = [found(f"NameError: name '{name}' is not defined (a.py, line {n})", "error", {}) for name, n in
                 (("torch", 3), ("torch", 99), ("np", 3))]  # fmt: skip
    assert undefined[0].key == undefined[1].key != undefined[2].key
    build = [found(f"c12_x.cpp:{n}:1: error: 'k' was not declared\n   {n} | k\n", "build_failed", {}) for n in (3, 9)]
    assert build[0].key == build[1].key
    assert found("", "crashed", {}).sentence == "crashed"


@pytest.mark.parametrize("status", ["passed", "todo", "grader_error"])
def test_what_is_no_mistake(status):
    assert found("The result is 2a", status) is None


def test_known_wrong_answers_are_read_from_the_tests(course, tmp_path):
    known = ideas.known(course)
    assert known["c07.knn_query"]["Missing neighbours are 0"] == ("padded with zero",)
    assert "without" not in {name for words in known.values() for names in words.values() for name in names}
    assert ideas.known(replace(course, root=tmp_path)) == {}


# --- what a class has in common --------------------------------------------------------------------------------------


def test_overview(small, course):
    wrong = "Missing neighbours are 0, and -1 is right."
    small.hand_in("ada", [outcome("c07.knn_query", "failed", message=wrong), outcome("c04.asinh")], hours=30)
    small.hand_in("bob", [outcome("c07.knn_query", "failed", message=f"Again. {wrong}"), outcome("c04.asinh", "todo")])
    small.hand_in(
        "cem", {"c07.knn_query": outcome("c07.knn_query", "timeout", message="It took long."), "c04.asinh": None}
    )
    grades = small.grades()
    state = overview(grades, count(grades, small.learners, LATE), course, ideas.known(course))
    assert (state.learners, state.handed_in, state.median) == (4, 3, 0)
    assert state.ranges == (2, 0, 0, 0, 1, 0, 0, 0, 0, 0)  # 3.2 of 8 points
    assert [(one.id, one.mean, one.possible) for one in state.chapters] == [
        ("c04", Decimal("3.2") / 3, 4),
        ("c07", 0, 4),
    ]
    asinh, knn = state.exercises
    assert asinh.tally.sentence == "1 passed, 0 failed, 1 not written, 1 not graded"
    assert (knn.tally.failed, knn.tally.tried) == (3, 3)
    assert [one.exercise.id for one in state.hard] == ["c07.knn_query"]
    first, second = state.shared
    assert first.idea.names == ("padded with zero",) and first.logins == ("ada", "bob") and first.tried == 3
    assert second.logins == ("cem",)
    assert state.verdicts == state.answers == 5
    assert [(one.name, one.answers, one.seconds) for one in state.machines] == [("lab-1", 5, 10.0)]
    assert state.ungraded and not state.mixed


def test_equal_answers_cost_once_and_count_twice(small, course):
    for login in ("ada", "bob"):
        small.hand_in(login, [outcome("c04.asinh")])
    grades = small.grades()
    state = overview(grades, count(grades, small.learners, Rules()), course, {})
    assert (state.verdicts, state.answers, state.exercises[0].tally.passed) == (1, 2, 2)


def test_a_class_without_a_submission(small, course):
    done = written(small, course)
    assert [path.name for path in done.files] == [
        "grades.csv",
        "canvas.csv",
        "moodle.csv",
        "blackboard.csv",
        "class.html",
        "learners",
        "feedback",
    ]
    text = (small.folder / "class.html").read_text(encoding="utf-8")
    assert "No answer failed." in text and "No code had to run." in text and "4 learners" in text


# --- pages and archives ------------------------------------------------------------------------------------------------


class Reader(HTMLParser):
    """The text, the tags that could load or run something, and the links of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        names = dict(attrs)
        if tag in ("script", "link", "iframe", "object", "embed", "img", "form", "base"):
            self.loads.append(tag)
        self.loads += [name for name in names if name.startswith("on") or name == "src"]
        if tag == "a":
            self.links.append(names["href"])

    def handle_data(self, data):
        self.words.append(data)


def test_what_a_learner_gets(small, course):
    small.hand_in(
        "ada", [outcome("c04.hypot", "failed", message="hypot is wrong"), outcome("c04.asinh"), outcome("c00.export")]
    )
    small.hand_in("ada", [outcome("c00.export")], hours=200)
    small.hand_in("bob", [outcome("c04.asinh")], hours=25)
    small.hand_in("cem", [outcome("c04.asinh")], hours=200)
    small.hand_in("dan", {"c04.asinh": None})
    written(small, course, LATE)
    own = small.folder / "learners" / "ada"
    results = json.loads((own / "results.json").read_text(encoding="utf-8"))
    jsonschema.validate(results, SCHEMA)
    assert [entry["id"] for entry in results["exercises"]] == ["c00.export", "c04.asinh", "c04.hypot"]
    assert (results["points"], results["seed"]) == (8, 7)
    with zipfile.ZipFile(small.folder / "feedback" / "ada.zip") as archive:
        assert archive.namelist() == ["report.html", "results.json"]
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}  # the same bytes tomorrow
        assert archive.read("report.html") == (own / "report.html").read_bytes()

    def text(login: str) -> str:
        page = (small.folder / "learners" / login / "report.html").read_text(encoding="utf-8")
        return " ".join("".join(Reader(page).words).split())

    assert "Ada (ada): 8 of 12 points" in text("ada")
    assert "8 of 12 points count. Handed in 2026-11-01 17:00 UTC. 1 later submission came too late." in text("ada")
    assert "hypot is wrong" in text("ada")
    assert "3.2 of 12 points count. Handed in 2026-11-02 19:00 UTC, 2 days after the deadline: 80 % of the" in text(
        "bob"
    )
    assert "0 of 12 points count. 1 submission came too late." in text("cem")
    assert "Not graded yet, so that their points are open: c04.asinh." in text("dan")


def test_the_same_verdicts_give_the_same_pages(small, course):
    small.hand_in("ada", [outcome("c04.asinh")])
    small.hand_in("bob", [outcome("c04.asinh", "failed", message="no")])
    written(small, course)
    files = [path for path in small.folder.rglob("*") if path.is_file()]
    before = {path: path.read_bytes() for path in files}
    for path in (small.folder / "class.html", *small.folder.rglob("report.html"), *small.folder.rglob("*.zip")):
        path.unlink()
    written(small, course)
    assert {path: path.read_bytes() for path in files} == before


def test_nothing_on_a_page_can_act(small, course):
    small.learners["ada"] = Learner("ada", NASTY, NASTY, NASTY)
    small.problems = (NASTY,)
    made = small.hand_in("ada", [outcome("c04.asinh", "failed", message=NASTY)])
    small.submissions["ada"] = (replace(made, problems=(NASTY,), source=NASTY),)
    small.hand_in("bob", [outcome("c04.asinh", "failed", message=NASTY)])
    written(small, course)
    for path in (small.folder / "class.html", small.folder / "learners" / "ada" / "report.html"):
        text = path.read_text(encoding="utf-8")
        page = Reader(text)
        assert page.loads == [], path
        assert "default-src 'none'" in text and "https:" not in text and "http:" not in text
        assert NASTY.replace("\ud800", "\ufffd") in "".join(page.words)


def test_each_link_of_the_class_page_leads_somewhere(small, course):
    for login in ("ada", "bob"):
        small.hand_in(login, [outcome("c04.asinh", "failed", message="The axis is lost.")])
    written(small, course)
    text = (small.folder / "class.html").read_text(encoding="utf-8")
    links = Reader(text).links
    assert len(links) == 6 + 2 + 4  # sections, those who share an idea, learners
    for link in links:
        file, _, anchor = link.partition("#")
        target = small.folder / (file or "class.html")
        assert target.is_file(), link
        assert not anchor or f'id="{anchor}"' in target.read_text(encoding="utf-8"), link


def test_long_lists_are_cut(small, course, monkeypatch):
    monkeypatch.setattr(pages, "SHARED", 1)
    monkeypatch.setattr(pages, "HARD", 1)
    for login in ("ada", "bob"):
        small.hand_in(login, [outcome(id, "failed", message="no") for id in ("c04.asinh", "c04.hypot", "c00.export")])
    text = pages.class_page(small.grades(), count(small.grades(), small.learners, Rules()), course)
    assert text.count('<li>\n<header><strong class="id">') == 1
    assert "2 more are not shown; at most 2 learners share each." in text
    hard = re.search(r'id="hard">(.+?)<details>', text, re.DOTALL)[1]
    assert hard.count('class="goal"') == 1


# --- what is out stays --------------------------------------------------------------------------------------------------


def test_no_grade_goes_down_unless_it_is_accepted(small, course):
    small.hand_in("ada", [outcome("c04.asinh"), outcome("c04.hypot")])
    small.hand_in("bob", [outcome("c04.asinh")])
    assert written(small, course).changes == ()
    before = (small.folder / "grades.csv").read_bytes(), (small.folder / "class.html").read_bytes()
    small.hand_in("ada", [outcome("c04.asinh")])
    small.hand_in("bob", [outcome("c04.asinh"), outcome("c04.hypot")])
    done = written(small, course)
    assert done.files == () and [str(change) for change in done.lower] == ["ada: 8 → 4 (−4)"]
    assert [str(change) for change in done.changes] == ["ada: 8 → 4 (−4)", "bob: 4 → 8 (+4)"]
    assert ((small.folder / "grades.csv").read_bytes(), (small.folder / "class.html").read_bytes()) == before
    done = publish.publish(small.save(), course, Rules(), "submission = 'last'\n", accept=True)
    assert done.files and publish.totals(small.folder)["ada"] == 4
    assert publish.rules_of(small.folder, course)[0] == Rules()
    assert (small.folder / "class.toml").read_text() == "submission = 'last'\n"


def test_a_grade_book_that_was_changed(small, course):
    for text in ("", "login,total\nada,eight\n", "a,b\n1,2\n"):
        small.folder.mkdir(exist_ok=True)
        (small.folder / "grades.csv").write_text(text)
        if not text:
            assert publish.totals(small.folder) == {}
        else:
            with pytest.raises(publish.OplabError, match="is not as it was written"):
                written(small, course)
