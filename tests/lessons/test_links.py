"""Links lead somewhere: those of the lessons, of docs/, of the README and the pages next to it. The glossary agrees with the chapters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
from markdown_it import MarkdownIt
from markdown_it.token import Token

from oplab.course.manifest import load
from tests.support import ROOT

CHAPTERS = load(ROOT).chapters
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
GLOSSARY = ROOT / "docs" / "glossary.md"
TERMS = [line for line in GLOSSARY.read_text(encoding="utf-8").splitlines() if line.startswith("| **")]
APPENDICES = {"A1_cpp_in_an_hour": "07_cpp_operators"}  # and the chapter that needs it first
PARSER = MarkdownIt("commonmark").enable("table")


def texts(page: Path) -> list[str]:
    """The Markdown of a page: that of its cells, if it is a notebook."""
    if page.suffix != ".ipynb":
        return [page.read_text(encoding="utf-8")]
    notebook = nbformat.read(page, as_version=4)
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def tokens(text: str) -> Iterator[Token]:
    for token in PARSER.parse(text):
        yield token
        yield from token.children or ()


def links(page: Path) -> list[str]:
    """Where the links and pictures of a page point to, as written; what is in code is not a link."""
    found = []
    for text in texts(page):
        for token in tokens(text):
            found += [str(token.attrs[name]) for name in ("href", "src") if name in token.attrs]
            if token.type.startswith("html"):
                found += re.findall(r"""\b(?:href|src)=["']([^"']*)["']""", token.content)
    return found


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them: a heading that occurs again gets -1, -2, …"""
    found, seen = set(), Counter()
    for text in texts(page):
        parsed = PARSER.parse(text)
        for opening, inline in zip(parsed, parsed[1:], strict=False):
            if opening.type == "heading_open":
                words = "".join(child.content for child in inline.children if child.type in ("text", "code_inline"))
                slug = re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")
                found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
                seen[slug] += 1
    return found


def fault(page: Path, link: str, root: Path = ROOT) -> str:
    """What is wrong with a link of a page, or an empty string. Addresses of other sites are not checked."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return ""
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if parts.path.startswith("/") or not target.is_relative_to(root):
        return "leads out of the course"
    if not target.exists():
        return "there is no such file"
    if line := re.fullmatch(r"line=(\d+)", parts.fragment):
        lines = len(target.read_text(encoding="utf-8").splitlines())
        return "" if int(line[1]) <= lines else f"the file has {lines} lines"
    if parts.fragment and (target.suffix not in (".md", ".ipynb") or unquote(parts.fragment) not in anchors(target)):
        return "there is no such heading"
    return ""


def test_links_lead_somewhere(tmp_path):
    pages = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), *LESSONS]
    found = [(page, link) for page in pages for link in links(page)]
    assert len(found) > 500
    assert {(page.name, link): wrong for page, link in found if (wrong := fault(page, link))} == {}
    # A wrong link would be noticed.
    wrong = ("missing.md", "../page.md", "/etc/hostname", "#three", "code.py#again", "code.py#line=4")
    page = tmp_path / "page.md"
    page.write_text(
        "## One `two`, *three*!\n\n`[b](code.md)` [a](#one-two-three)\n" + "".join(f"[a]({w})" for w in wrong)
    )
    (tmp_path / "code.py").write_text("# again\n")
    assert [link for link in links(page) if fault(page, link, tmp_path)] == list(wrong)


def test_links_of_a_lesson_hold_in_the_learner_s_copy():
    """The copy is in work/, next to the copies of the other lessons and nothing else."""
    others = {path.name for path in LESSONS}
    for lesson in LESSONS:
        local = {link for link in links(lesson) if not urlsplit(link).scheme and not link.startswith(("../", "#"))}
        assert {link for link in local if urlsplit(link).path not in others} == set(), lesson.name


def test_each_lesson_ends_with_links_to_its_neighbours_and_the_glossary():
    def label(number: int) -> str:
        return f"[{CHAPTERS[number].stem[:2]}: {CHAPTERS[number].title}]({CHAPTERS[number].stem}.ipynb)"

    for number, chapter in enumerate(CHAPTERS):
        parts = [f"Previous: {label(number - 1)}"] if number > 0 else []
        follows = number + 1 < len(CHAPTERS) and not CHAPTERS[number + 1].appendix
        parts += [f"Next: {label(number + 1)}"] if follows else []
        if chapter.appendix:
            parts = [
                f"Next: {label(next(i for i, each in enumerate(CHAPTERS) if each.stem == APPENDICES[chapter.stem]))}"
            ]
        last = nbformat.read(ROOT / chapter.notebook, as_version=4).cells[-1]
        assert last.cell_type == "markdown"
        assert last.source.split("\n\n")[-1] == "\n· ".join([*parts, "[Glossary](../docs/glossary.md)"])


def test_the_terms_are_in_alphabetical_order():
    names = [re.sub("[*`]", "", row.split(" | ")[0][2:]).casefold() for row in TERMS]
    assert len(names) >= 70
    assert names == sorted(set(names))


def test_the_chapter_of_a_term_has_it():
    """A row has a name, perhaps a second one in parentheses, the Chinese term, the meaning and the link to a chapter."""
    words = {}
    for chapter in CHAPTERS:
        cells = nbformat.read(ROOT / chapter.notebook, as_version=4).cells
        words[chapter.notebook] = re.sub(r"[*`\s]+", " ", " ".join(cell.source for cell in cells)).casefold()
    for row in TERMS:
        cells = re.fullmatch(r"\| \*\*(.+?)\*\*(?: \((.+)\))? \| (.+) \| (.+) \| \[(\d\d|A\d)\]\(\.\./(.+)\) \|", row)
        assert cells, row
        *names, chinese, _, number, notebook = cells.groups()
        assert chinese.strip(), row  # some stay English
        assert (number, notebook) in [(chapter.stem[:2], chapter.notebook) for chapter in CHAPTERS], row
        assert any(name and name.strip("`").casefold() in words[notebook] for name in names), row
