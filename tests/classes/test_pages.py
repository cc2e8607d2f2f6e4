"""Pages of a class: what is counted on them, what a learner gets back, and that nothing in them can act."""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser

import jsonschema
import pytest

from oplab.classes import publish
from oplab.classes.counting import count
from oplab.classes.extraction import Answers
from oplab.classes.overview import overview
from oplab.classes.records import Learner
from oplab.classes.rules import Manual, Rules, rules_of
from oplab.course import manifest
from tests.support import ROOT
from tests.support.small_class import DEADLINE, SmallClass, outcome

SCHEMA = json.loads((ROOT / "oplab" / "grading" / "results.schema.json").read_text(encoding="utf-8"))
NASTY = '<script>alert(1)</script>\ud800 & "q" \'</title>'
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
    return publish.publish(grades, course, rules or Rules())


# --- what a class has in common --------------------------------------------------------------------------------------


def test_overview(small, course):
    undefined = "NameError: name '{}' is not defined (a.py, line 3)"
    small.hand_in("ada", [outcome("c07.knn_query", "failed", message="'a' is not 3."), outcome("c04.asinh")], hours=30)
    small.hand_in("bob", [outcome("c07.knn_query", "failed", message="'b' is not 4."), outcome("c04.asinh", "todo")])
    small.hand_in(
        "cem", {"c07.knn_query": outcome("c07.knn_query", "timeout", message="It took long."), "c04.asinh": None}
    )
    for login, name in (("dan", "np"), ("eve", "np"), ("fay", "torch")):
        small.learners[login] = Learner(login)
        small.submissions.setdefault(login, ())
        small.hand_in(login, [outcome("c00.export", "error", message=undefined.format(name))])
    state = overview(count(small.grades(), small.learners, LATE), course)
    assert (state.handed_in, state.median) == (6, 0)
    assert state.ranges == (5, 0, 1, 0, 0, 0, 0, 0, 0, 0)  # 3.2 of 12 points
    assert [(one.id, mean) for one, mean in state.chapters] == [("c00", 0), ("c04", Decimal("3.2") / 3), ("c07", 0)]
    assert state.tallies["c04.asinh"].sentence == "1 passed, 0 failed, 1 not written, 1 not graded"
    assert [one.id for one in state.hard] == ["c00.export", "c07.knn_query"]
    assert [(id, logins) for id, _, logins in state.shared] == [
        ("c00.export", ("dan", "eve")),
        ("c07.knn_query", ("ada", "bob")),
        ("c00.export", ("fay",)),
        ("c07.knn_query", ("cem",)),
    ]


def test_who_has_not_handed_in_a_file_is_not_among_those_who_failed_it(small, course):
    answers = Answers(course, course.select(["c04.asinh", "c04.hypot", "c00.export"]))
    missing = {id: answer.settled for id, answer in answers.of({}).items()}
    small.hand_in("ada", {**missing, "c00.export": outcome("c00.export")})
    small.hand_in("bob", {**missing, "c04.asinh": outcome("c04.asinh"), "c04.hypot": outcome("c04.hypot", "failed")})
    small.hand_in("cem", missing)  # only a file of an exercise that is not graded
    state = overview(count(small.grades(), small.learners, Rules()), course)
    assert {id: (tally.passed, tally.failed) for id, tally in state.tallies.items()} == {
        "c00": (1, 0),
        "c00.export": (1, 0),
        "c04": (1, 1),
        "c04.asinh": (1, 0),
        "c04.hypot": (0, 1),
    }
    assert [(one.id, mean) for one, mean in state.chapters] == [("c00", 4), ("c04", 4)]
    assert state.handed_in == 2 and len(state.shared) == 1


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
    manual = {
        ("ada", "c04.hypot"): Manual(Decimal("0.5"), 4, "a good start"),
        ("cem", "c04.asinh"): Manual(None, 4, "Why?"),
    }
    written(small, course, replace(LATE, manual=manual))
    own = small.folder / "learners" / "ada"
    results = json.loads((own / "results.json").read_text(encoding="utf-8"))
    jsonschema.validate(results, SCHEMA)
    assert [entry["id"] for entry in results["exercises"]] == ["c00.export", "c04.asinh", "c04.hypot"]
    assert (results["points"], results["seed"]) == (8, 7)

    def text(login: str) -> str:
        page = (small.folder / "learners" / login / "report.html").read_text(encoding="utf-8")
        return " ".join("".join(Reader(page).words).split())

    assert "Ada (ada): 8 of 12 points" in text("ada")
    assert "8.5 of 12 points count. Handed in 2026-11-01 17:00 UTC. 1 later submission came too late." in text("ada")
    assert "c04.hypot, from your teacher: 0.5 of 4 points. a good start" in text("ada")
    assert "c04.asinh, from your teacher: Why?" in text("cem")
    assert "hypot is wrong" in text("ada")
    assert "3.2 of 12 points count. Handed in 2026-11-02 19:00 UTC, 2 days after the deadline: 80 % of the" in text(
        "bob"
    )
    assert "0 of 12 points count. 1 submission came too late." in text("cem")
    assert "Not graded yet; their points are open: c04.asinh." in text("dan")


def test_feedback_has_the_names_that_a_platform_takes_back(small, course):
    """``assignfeedback_file_zip_importer`` of Moodle (``importziplib.php``): the number after the name, and the plugin, in the name of a
    folder or a file. ``infer_comment_context_from_filename`` of Canvas: the ids of user and file; the file keeps its handed-in name.
    """
    sources = {
        "ada": ("Ada Abel_12_assignsubmission_file_", "Ada Abel_12_assignsubmission_file_/report.html"),
        "bob": ("Bob_13_assignsubmission_file_c00.py and 1 more", "Bob_13_assignsubmission_file_/report.html"),
        "cem": ("cem_LATE_14_345_work-1.zip", "cem_LATE_14_345_work-1.zip"),
        "dan": ("dan_15_346_c00_first.py and 2 more", "dan_15_346_c00_first.py"),
        "eve": ("dan_15_346_c00_first.py and 2 more", None),  # of dan's group: Canvas shows it to both
        "fay": ("fay.zip", "fay/report.html"),
    }
    for login, (source, _) in sources.items():
        small.learners.setdefault(login, Learner(login))
        small.submissions[login] = ()
        made = small.hand_in(login, [outcome("c04.asinh", "failed", message=f"wrong in {login}")])
        small.submissions[login] = (replace(made, source=source),)
    written(small, course)
    with zipfile.ZipFile(small.folder / "feedback.zip") as archive:
        assert archive.namelist() == [name for _, name in sources.values() if name]
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}  # the same bytes tomorrow
        for login, (_, name) in sources.items():
            report = archive.read(name) if name else b""
            if name and name.endswith(".zip"):
                report = zipfile.ZipFile(io.BytesIO(report)).read("report.html")
            assert not name or f"wrong in {login}".encode() in report
            assert (
                not name
                or name.endswith(".py")
                or report == (small.folder / "learners" / login / "report.html").read_bytes()
            )


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
    assert len(links) == 5 + 2 + 4  # sections, those who share a mistake, learners
    for link in links:
        file, _, anchor = link.partition("#")
        target = small.folder / (file or "class.html")
        assert target.is_file(), link
        assert not anchor or f'id="{anchor}"' in target.read_text(encoding="utf-8"), link


# --- what is out stays --------------------------------------------------------------------------------------------------


def test_no_grade_goes_down_unless_it_is_accepted(small, course):
    small.hand_in("ada", [outcome("c04.asinh"), outcome("c04.hypot")])
    small.hand_in("bob", [outcome("c04.asinh")])
    assert written(small, course).changes == ()
    before = (small.folder / "grades.csv").read_bytes(), (small.folder / "class.html").read_bytes()
    small.hand_in("ada", [outcome("c04.asinh")])
    small.hand_in("bob", [outcome("c04.asinh"), outcome("c04.hypot")])
    done = written(small, course)
    assert done.files == () and [str(change) for change in publish.lower(done.changes)] == ["ada: 8 → 4 (−4)"]
    assert [str(change) for change in done.changes] == ["ada: 8 → 4 (−4)", "bob: 4 → 8 (+4)"]
    assert ((small.folder / "grades.csv").read_bytes(), (small.folder / "class.html").read_bytes()) == before
    rules = Rules(files={"class.toml": "submission = 'last'\n"})
    done = publish.publish(small.save(), course, rules, accept=True)
    assert done.files and publish.totals(small.folder)["ada"] == 4
    assert rules_of(small.folder, course, small.learners) == rules
    assert (small.folder / "class.toml").read_text() == "submission = 'last'\n"


def test_a_grade_book_that_was_changed(small, course):
    for text in ("", "login,total\nada,eight\n", "a,b\n1,2\n"):
        small.folder.mkdir(exist_ok=True)
        (small.folder / "grades.csv").write_text(text)
        if not text:
            assert publish.totals(small.folder) == {}
        else:
            with pytest.raises(publish.OplabError, match="was changed after it was written"):
                written(small, course)
