"""Cards: the words of the terminal as HTML, with links to places, escaped, and read without a style."""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser

import pytest

from oplab.grading.card import card_html, difference_html, hints_html, reference_html
from oplab.grading.places import of_outcome, places
from oplab.grading.results import Check, Outcome
from oplab.grading.text import outcome_lines
from tests.support import ROOT

GOLDEN = json.loads((ROOT / "tests" / "golden" / "results.json").read_text(encoding="utf-8"))["exercises"]
VOID = {"br", "hr", "img"}


def href(file: str, line: int) -> str:
    return f"../{file}#line={line - 1}"


def outcome(message: str, *checks: tuple[str, bool, str], status: str = "failed") -> Outcome:
    return Outcome(
        "c04.asinh", "04_aten_symbolic", status, 0, 2, 1.5, message, tuple(Check(*check) for check in checks)
    )


class Reader(HTMLParser):
    """What a reader sees of a card: its words; and its links and tags, which have to be closed."""

    def __init__(self, text: str):
        super().__init__()
        self.words, self.links, self.open, self.tags = "", [], [], set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "a":
            self.links.append(dict(attrs))
        if tag in ("p", "pre", "li", "div"):
            self.words += "\n"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words += data


def words(text: str) -> list[str]:
    return text.replace("`", "").split()


@pytest.mark.parametrize("entry", GOLDEN, ids=lambda entry: entry["id"])
def test_a_card_has_the_words_of_the_lines(entry):
    given = Outcome(**{**entry, "checks": tuple(Check(**check) for check in entry["checks"])})
    card = card_html(given, href=href, notes=["Stuck? lab.hint()"])
    assert words(Reader(card).words) == words("\n".join([*outcome_lines(given), "Stuck? lab.hint()"]))


def test_what_a_learner_printed_is_escaped_everywhere():
    bad = '<script>alert(1)</script>&<b>` " onmouseover=`x`'
    given = outcome(f"{bad}\n{bad}", (bad, False, f"{bad}\n   12 | {bad}\n      | ^"), ("ok " + bad, True, ""))
    texts = (
        card_html(given, href=lambda file, line: f'x"onclick="{file}', notes=[f"{bad} exercises/c04_x.py"]),
        hints_html("c04.asinh", [bad], 3, href=href, notes=[bad]),
        difference_html(bad, [f"-{bad}", f"+{bad}"]),
        reference_html(bad, f"x = 1  # {bad}", "python"),
    )
    for text in texts:
        reader = Reader(text)
        assert reader.tags <= {"div", "span", "strong", "style", "p", "pre", "ul", "li", "code", "a"}
        assert "<script" not in text and "&lt;script&gt;" in text
        assert all(set(link) <= {"class", "href", "data-oplab-file", "data-oplab-line"} for link in reader.links)


def test_source_and_caret_are_one_block_of_code_and_stay_aligned():
    message = "exercises/csrc/c12_x.cpp:31:5: error: 'alhpa' is not declared\n   31 | \tx = alhpa;\n      | \t    ^"
    card = card_html(outcome(message, status="build_failed"), href=href)
    (block,) = re.findall(r"<pre>(.*?)</pre>", card, re.DOTALL)
    source, caret = html.unescape(block).splitlines()
    assert source.index("x") + 4 == source.index("alhpa") == caret.index("^")
    assert source.index("|") == caret.index("|")


def test_a_place_is_a_link_with_its_file_and_line():
    card = card_html(outcome("NameError: name 'x' is not defined (c04_aten_symbolic.py, line 60)"), href=href)
    (link,) = Reader(card).links
    assert link == {
        "class": "oplab-place",
        "href": "../exercises/c04_aten_symbolic.py#line=59",
        "data-oplab-file": "exercises/c04_aten_symbolic.py",
        "data-oplab-line": "60",
    }
    assert Reader(card_html(outcome("(c04_aten_symbolic.py, line 60)"), href=lambda file, line: None)).links == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NameError: x (c01_cases.py, line 32)", [("exercises/c01_cases.py", 32, "NameError: x")]),
        (
            "exercises/csrc/c12_x.cpp:31:18: error: no y\n   31 | c01_cases.py",
            [("exercises/csrc/c12_x.cpp", 31, "no y")],
        ),
        (
            "AddressSanitizer: a read (c01_o.cpp, line 7):\n    7 | a",
            [("exercises/csrc/c01_o.cpp", 7, "AddressSanitizer: a read:")],
        ),
        (
            "a (cA1_x.py, line 2) b (c02_y.py, line 3)",
            [("exercises/cA1_x.py", 2, "a b (c02_y.py, line 3)"), ("exercises/c02_y.py", 3, "a (cA1_x.py, line 2) b")],
        ),
        ("solutions/c04_x.py, line 5", [("solutions/c04_x.py", 5, "solutions/c04_x.py, line 5")]),
        ("exercises/c04_x.py is missing", [("exercises/c04_x.py", 1, "exercises/c04_x.py is missing")]),
        # Not a learner's: the checks have the same names, and headers are the course's.
        ('File "/lab/oplab/checks/c04_x.py", line 3', []),
        ("csrc/common/knn.h:12:3: error: no", []),
        ("The file c04_x.py is missing", []),
    ],
)
def test_places(text, expected):
    assert [(place.file, place.line, place.message) for place in places(text)] == expected
    assert all(
        ".py" in text[place.start : place.end] or ".cpp" in text[place.start : place.end] for place in places(text)
    )


def test_places_of_an_outcome_are_those_of_its_failed_checks_and_message_once():
    told = "wrong (c04_x.py, line 3)"
    given = outcome(
        f"{told} A note.",
        ("runs", False, told),
        ("more", False, "bad (c04_x.py, line 9)"),
        ("ok", True, "(c04_x.py, line 1)"),
    )
    assert [(place.line, place.message) for place in of_outcome(given)] == [(3, "wrong"), (9, "bad")]


def test_of_many_failures_two_are_open_and_a_case_is_named_once():
    given = outcome("", *((f"case {n}: runs", False, f"case {n}: no {n}") for n in range(4)), ("shape", True, ""))
    card = card_html(given, href=href)
    open, folded = card.split("<details><summary>More checks failed: 2</summary>")
    assert "case 1: runs</strong>: no 1" in open and "case 1: no" not in card
    assert "case 2" in folded and "shape" in folded and folded.endswith("</li></ul></details></div>")


def test_code_and_symbols_of_a_difference():
    card = difference_html(
        "yours and reference",
        [
            "--- yours",
            "+++ reference",
            "@@ -1,2 +1,2 @@",
            " def f(x):",
            "-    return x",
            "+    return <x>",
            "@@ -9 +9 @@",
            "---",
            "+++",
        ],
    )
    rows = Reader(card).words.split("\n", 3)[-1].splitlines()
    assert rows == ["  def f(x):", "−     return x", "+     return <x>", "  …", "− --", "+ ++"]
    assert card.count('class="oplab-add"') == 2 and card.count('class="oplab-del"') == 2


@pytest.mark.parametrize(
    ("language", "code", "word"),
    [("python", "def f(x):\n    return x\n", "return"), ("cpp", "int f() { return 1; }", "return")],
)
def test_a_reference_is_highlighted_and_unchanged(language, code, word):
    card = reference_html("solutions/x", code, language)
    assert f'<span class="k">{word}</span>' in card
    assert Reader(card).words.endswith(code.rstrip())
