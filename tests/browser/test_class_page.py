"""The page of a class and a learner's report in Chromium: no request, no script, readable in both themes and on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from oplab.classes import publish
from oplab.classes.records import Learner
from oplab.classes.rules import Rules
from oplab.course import manifest
from tests.support import ROOT
from tests.support.contrast import contrast
from tests.support.small_class import DEADLINE, SmallClass, outcome

pytestmark = pytest.mark.nightly
NASTY = "<script>alert(1)</script><img src=x onerror=alert(3)> " + "x" * 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """GRADES of a class with every part of the page: notes, shared ideas, failures, late days, answers that are not graded."""
    learners = [Learner(f"learner.{number}", f"{NASTY if number == 3 else 'Ada'} {number}") for number in range(6)]
    small = SmallClass(tmp_path_factory.mktemp("class") / "GRADES", *learners)
    for number, learner in enumerate(learners[:5]):
        answers = [outcome("c04.asinh"), outcome("c00.export", "failed", message=f"Missing neighbours are 0. {NASTY}")]
        if number % 2:
            answers.append(outcome("c07.knn_query", "failed", message="Missing neighbours are 0, and -1 is right."))
        small.hand_in(learner.login, answers, hours=12 * number - 20)
    small.hand_in("learner.5", {"c04.asinh": None, "c04.hypot": outcome("c04.hypot", "todo")})
    small.problems = (NASTY, "The folder ghost belongs to no learner of the roster.")
    grades = small.save()
    publish.publish(grades, manifest.load(ROOT), Rules(deadline=DEADLINE, late_days=5))
    return small.folder


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_class_page(scheme, width, folder, new_page):
    page = new_page(color_scheme=scheme, viewport={"width": width, "height": 900})
    alerts = []
    page.on("dialog", lambda dialog: (alerts.append(dialog.message), dialog.dismiss()))
    page.goto((folder / "class.html").as_uri())
    page.eval_on_selector_all("details", "all => all.forEach(one => one.open = true)")
    assert "<script>alert(1)</script><img" in page.inner_text("#learners")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.inner_text("#mistakes li:first-child header").split()[:2] == ["c00.export", "5"]
    for selector in (
        ".quiet",
        "th",
        "td",
        ".goal",
        "summary",
        "dt",
        "dd",
        ".legend",
        ".notice",
        "#mistakes p",
        "footer",
    ):
        assert contrast(page, selector) >= 4.5, selector
    # Each bar has its numbers as a name, no column is without a header, and the headings are nested.
    assert page.eval_on_selector_all(".bar[role=img]", "all => all.every(one => /^\\d+ passed/.test(one.ariaLabel))")
    assert page.eval_on_selector_all("th", "all => all.every(one => one.textContent.trim() && one.scope)")
    assert page.eval_on_selector_all("h1, h2, h3", "all => all.map(one => one.tagName)") == ["H1", *["H2"] * 5]
    # The parts of a bar are as wide as their counts.
    wide = page.eval_on_selector_all("#hard .bar i.failed", "all => all.map(one => one.getBoundingClientRect().width)")
    assert all(part > 3 for part in wide)
    page.click("text=learner.3 >> nth=0")
    page.wait_for_load_state()
    assert page.url.startswith((folder / "learners" / "learner.3" / "report.html").as_uri())
    assert alerts == [] and page.problems == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []
