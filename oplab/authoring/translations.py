"""For translators: the catalogues brought up to the sources, and what is wrong in them."""

from __future__ import annotations

import ast
import io
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po, write_po

from oplab import paths
from oplab.course import prose
from oplab.course.language import file_of
from oplab.course.manifest import Course
from oplab.course.translated import chapter_texts
from oplab.files import write_atomically
from oplab.grading.hints import SAME
from oplab.grading.text import FAULT, MARKS, word

PAGES = ("README.md", "docs/learning.md", "docs/glossary.md", "docs/site/index.md")
_NOT = re.compile(r"^\| (?P<term>[^|*]+?) \| (?P<right>[^|]+?) \| (?P<wrong>[^|]+?) \|$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_SPACE = re.compile(r"[\u4e00-\u9fff][A-Za-z0-9`]|[A-Za-z0-9`][\u4e00-\u9fff]")
_HALF = re.compile(r"[\u4e00-\u9fff](?:[,;?!]|:(?!:))|[\u4e00-\u9fff]\.(?!\w)")


def texts(course: Course) -> dict[str, list[str]]:
    """The English texts of each catalogue, in the order in which a learner meets them, once each."""
    found = {"oplab": list(_messages(course)), "course": list(_manifest(course))}
    pages = ((course.root / page).read_text(encoding="utf-8") for page in PAGES)
    found["pages"] = [text for page in pages for text in prose.each(prose.units(page))]
    found |= {chapter.stem[:2]: list(chapter_texts(course, chapter)) for chapter in course.chapters}
    return {name: list(dict.fromkeys(entries)) for name, entries in found.items()}


def _manifest(course: Course) -> Iterator[str]:
    """From the file: a course that was loaded is in the author's own language."""
    manifest = tomllib.loads((course.root / "course.toml").read_text(encoding="utf-8"))
    yield manifest["title"]
    for chapter in manifest["chapter"]:
        yield from (chapter["title"], chapter["able"])
        for exercise in chapter["exercise"]:
            yield from (exercise["goal"], *exercise["hints"])


def _messages(course: Course) -> Iterator[str]:
    """The first argument of each call of :func:`oplab.course.language.gettext` in the library."""
    yield from (*map(word, MARKS), FAULT, SAME)
    for file in (*sorted(paths.PACKAGE.rglob("*.py")), course.root / "tools" / "site.py"):
        code = file.read_text(encoding="utf-8") if file.is_file() else ""
        for node in ast.walk(ast.parse(code)) if "course.language import" in code else ():
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "gettext"
                and node.args
            ):
                if isinstance(node.args[0], ast.Constant):
                    yield str(node.args[0].value)


def read(file: Path) -> Catalog:
    """A catalogue; an empty one where there is no file."""
    if not file.is_file():
        return Catalog()
    with file.open("rb") as stream:
        return read_po(stream)


def write(file: Path, catalogue: Catalog) -> None:
    """Write a catalogue, without dates and places, so that only translations change."""
    out = io.BytesIO()
    write_po(out, catalogue, width=96, no_location=True, omit_header=True, ignore_obsolete=True)
    head = b'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=utf-8\\n"\n\n'
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, head + out.getvalue())


def update(course: Course, language: str) -> dict[str, tuple[int, int]]:
    """Bring all catalogues up to the sources: new texts are empty, the translation of a changed text is fuzzy.

    Returns:
        (texts, those without a valid translation) of each catalogue.
    """
    counts = {}
    for name, entries in texts(course).items():
        old, template = read(file_of(name, language)), Catalog()
        for text in entries:
            template.add(text)
        old.update(template)
        write(file_of(name, language), old)
        counts[name] = len(entries), sum(not entry.string or entry.fuzzy for entry in old if entry.id)
    return counts


def stale(course: Course, language: str) -> Iterator[str]:
    """One line for each text that is shown in English, as it is new or has changed."""
    for name, entries in texts(course).items():
        known = {entry.id: entry for entry in read(file_of(name, language)) if entry.id}
        for text in entries:
            entry = known.get(text)
            if entry is None or not entry.string or entry.fuzzy:
                yield f"{name}.po: {text}"


def broken(course: Course, language: str) -> Iterator[str]:
    """One line for each translation that a learner must not see: other code, links, formulas or placeholders, or another term."""
    wrong = _wrong_terms(course)
    for file in sorted(file_of("oplab", language).parent.glob("*.po")):
        for entry in read(file):
            if not entry.id or not entry.string or entry.fuzzy or entry.id == entry.string:
                continue
            where = f"{file.name}: {entry.string}\n    of: {entry.id}\n   "
            before, after = prose.kept(entry.id), prose.kept(entry.string)
            if before != after:
                lost = [part for part in before if part not in after] or before
                more = [part for part in after if part not in before] or after
                yield f"{where} has {', '.join(more) or 'no code'} instead of {', '.join(lost) or 'none'}"
            bare = _LINK.sub(r"\1", re.sub(r"``[^`]+``|`[^`]+`", "`", entry.string))
            for pattern, right in wrong:
                if pattern in bare:
                    yield f"{where} says {pattern}; docs/glossary.md has {right}"
            if match := _SPACE.search(bare.replace("**", "").replace("*", "")):
                yield f"{where} has no space in {match[0]}"
            if match := _HALF.search(bare):
                yield f"{where} has {match[0]}: Chinese punctuation is ，。：；？！"


def _wrong_terms(course: Course) -> list[tuple[str, str]]:
    """Words that are not written, and the term of the glossary in their place: its second table."""
    glossary = course.root / "docs" / "glossary.md"
    text = glossary.read_text(encoding="utf-8") if glossary.is_file() else ""
    return [
        (word, match["right"])
        for match in _NOT.finditer(text.partition("## ")[2])
        for word in match["wrong"].split("、")
        if "---" not in word and match["wrong"] != "not written"
    ]
