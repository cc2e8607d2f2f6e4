"""The site of ``make site``: complete, without a dead link, readable on a screen and a phone, in both themes, and without another host."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from oplab.course.manifest import load
from tests.support import ROOT

pytestmark = pytest.mark.nightly  # Sphinx is installed for `make test-all` and `make site`
COURSE = load(ROOT)
SITE = ROOT / "build" / "site"
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}  # fetched without a click


class Page(HTMLParser):
    """What one page links to and loads, and its anchors."""

    def __init__(self, path: Path):
        super().__init__()
        self.path, self.links, self.loaded, self.anchors = path, [], [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in LOADED and given.get(LOADED[tag]):
            self.loaded.append(given[LOADED[tag]])


@pytest.fixture(scope="module")
def built() -> str:
    done = subprocess.run([sys.executable, "tools/site.py"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def pages(built) -> dict[Path, Page]:
    found = (path for path in sorted(SITE.rglob("*.html")) if "_static" not in path.parts)  # the theme's own templates
    return {path: Page(path) for path in found}


def test_every_chapter_is_there_and_the_size_is_printed(built, pages):
    assert f"{len(pages)} pages" in built
    assert sum(path.stat().st_size for path in SITE.rglob("*") if path.is_file()) < 100e6
    for chapter in COURSE.chapters:
        lesson = pages[SITE / "notebooks" / f"{chapter.stem}.html"]
        text = lesson.path.read_text(encoding="utf-8")
        assert f">CH={chapter.stem.partition('_')[0]}<" in text
        assert "oplab-view" in text
        if chapter.exercises:
            exercises = (SITE / "exercises" / f"{chapter.stem}.html").read_text(encoding="utf-8")
            assert all(exercise.id in exercises for exercise in chapter.exercises)
            assert exercises.count('<details class="hints"') == sum(
                len(exercise.hints) for exercise in chapter.exercises
            )


def test_no_solution_is_on_the_site(pages):
    answer = "def asinh(g, x):\n    return"  # how the reference answer of c04.asinh begins
    assert "def asinh" in (ROOT / "solutions" / "c04_aten_symbolic.py").read_text(encoding="utf-8")
    assert not [path for path in SITE.rglob("*") if path.is_file() and "solutions" in path.parts]
    assert not [page for page in pages if answer in page.read_text(encoding="utf-8")]


def test_each_link_leads_to_a_page_and_an_anchor_of_it(pages):
    dead = []
    for path, page in pages.items():
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                dead.append(f"{path.relative_to(SITE)}: {link}")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                dead.append(f"{path.relative_to(SITE)}: {link} has no such anchor")
    assert dead == []


def test_nothing_is_loaded_from_another_host(pages):
    others = [
        (str(path.relative_to(SITE)), link)
        for path, page in pages.items()
        for link in page.loaded
        if urlsplit(link).netloc
    ]
    assert others == []


def test_every_page_fits_on_a_phone_and_asks_no_other_host(new_page, pages):
    page, faults = new_page(viewport={"width": 390, "height": 900}), []
    page.on(
        "console", lambda message: faults.append(f"{page.url}: {message.text}") if message.type == "error" else None
    )
    for path in pages:
        page.goto(path.as_uri())
        if (beyond := page.evaluate("document.documentElement.scrollWidth - innerWidth")) > 0:
            faults.append(f"{path.relative_to(SITE)} is {beyond} pixels wider than the screen")
    assert faults == []
    assert [url for url in page.requests if url.startswith("http")] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_follows_the_theme_of_the_system(new_page, pages, scheme):
    page = new_page(color_scheme=scheme)
    page.goto((SITE / "notebooks" / "05_writing_symbolic.html").as_uri())
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)")
    assert (sum(colour) < 200) == (scheme == "dark")


def test_the_search_finds_a_lesson_without_a_server(new_page, built):
    page = new_page()
    page.goto((SITE / "search.html").as_uri() + "?q=KNNQuery")
    page.wait_for_selector("ul.search li a")
    found = page.locator("ul.search li a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert any("notebooks/08_functions_and_plugins" in link for link in found), found
    page.locator("ul.search p.context", has_text="opens it in JupyterLab").first.wait_for()
