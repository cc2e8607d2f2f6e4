"""Cards in Chromium: with JupyterLab's style sheet in both themes, as a notebook is exported, and without any style around them."""

from __future__ import annotations

import json

import nbformat
import pytest
from nbconvert import HTMLExporter

from oplab.grading.card import card_html, difference_html, hints_html, reference_html
from oplab.grading.results import Check, Outcome
from tests.support import ROOT
from tests.support.contrast import contrast

pytestmark = pytest.mark.nightly
CODE = '# why\n@once\ndef f(x: int) -> str:\n    return "a" * len(x)  # 3\n'
TEXT = (
    ".oplab-state",
    ".oplab-head .oplab-mark",
    ".oplab-score",
    "li .oplab-mark",
    "li p",
    "p",
    "a.oplab-place",
    "pre",
    "code",
    ".oplab-add",
    ".oplab-del",
    ".oplab-gap",
    *(f".oplab-card pre .{kind}" for kind in "ckptsnf"),
)


def cards() -> list[str]:
    entries = json.loads((ROOT / "tests" / "golden" / "results.json").read_text(encoding="utf-8"))["exercises"]
    outcomes = [Outcome(**{**entry, "checks": tuple(Check(**check) for check in entry["checks"])}) for entry in entries]
    failed = Outcome(
        "c07.my_add",
        "07_x",
        "failed",
        0,
        3,
        1.0,
        "",
        (
            Check("sum", False, "x" * 300 + " (c07_x.py, line 6)\nsecond\n    6 | return a\n      | ^"),
            Check("type", True),
        ),
    )
    broken = Outcome("c07.my_add", "07_x", "grader_error", 0, 3, 1.0, "KeyError")
    return [
        *(card_html(outcome, href=href, notes=["`code`"]) for outcome in (*outcomes, failed, broken)),
        hints_html("c04.asinh", ["Use `g.op`."], 3, href=href),
        difference_html("yours and the reference", ["@@ -1 +1 @@", " a", "-b", "+" + "c" * 300, "@@ -9 +9 @@", " d"]),
        reference_html("The reference", CODE + "x = 3 and int", "python"),
        reference_html("The reference", '// why\n#include <a>\nint f() { return g("a", 3); }', "cpp"),
    ]


def href(file: str, line: int) -> str:
    return f"../{file}#line={line - 1}"


def readable(page) -> None:
    for selector in TEXT:
        assert page.locator(selector).count(), selector
        assert contrast(page, selector) >= 4.5, selector
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate(
        "[...document.querySelectorAll('.oplab-card p')].every(p => p.scrollWidth <= p.clientWidth + 1)"
    )
    place = page.locator("a.oplab-place").first
    place.focus()
    assert place.evaluate("a => getComputedStyle(a).textDecorationLine") == "underline"


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_in_an_exported_notebook(theme, width, tmp_path, new_page):
    outputs = [nbformat.v4.new_output("display_data", {"text/html": card}) for card in cards()]
    cell = nbformat.v4.new_code_cell("lab.check('x')", outputs=outputs)
    exporter = HTMLExporter(theme=theme, exclude_input_prompt=True, exclude_output_prompt=True)
    file = tmp_path / "lesson.html"
    file.write_text(exporter.from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))[0], encoding="utf-8")
    page = new_page(viewport={"width": width, "height": 900})
    page.goto(file.as_uri(), wait_until="domcontentloaded")
    readable(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_page_of_its_own(scheme, new_page):
    page = new_page(color_scheme=scheme, viewport={"width": 390, "height": 900})
    page.set_content(f"<!doctype html><body>{''.join(cards())}</body>")
    readable(page)
    assert page.requests == [] and page.problems == []


def test_without_its_style_the_words_and_signs_are_there(new_page):
    """GitHub shows a notebook's output without styles, classes and scripts."""
    page = new_page()
    page.set_content("".join(cards()))
    page.evaluate("document.querySelectorAll('style').forEach(style => style.remove())")
    text = page.inner_text("body")
    assert "✗ c01.fails failed 0/1 points" in text and "✗ doubles: y: 12 of 12" in text
    assert "− b" in text and "+ ccc" in text
