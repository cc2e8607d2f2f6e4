"""What is translated: lessons, stubs, questions and hints of a course, and the sentences of the library."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from oplab import paths
from oplab.course import quiz, stubs
from oplab.course.manifest import Chapter, Course
from oplab.errors import OplabError
from oplab.translation import prose

PAGES = ("README.md", "docs/learning.md", "docs/glossary.md")
_COMMENT = re.compile(r"(?:^[ \t]*//(?!/).*\n)+", re.MULTILINE)
_TODO = re.compile(r"TODO c[\dA]\d\.\w+:")


def all_of(course: Course) -> dict[str, list[str]]:
    """The English texts of each catalogue, in the order in which a learner meets them, once each.

    Raises:
        OplabError: a file of the course cannot be read.
    """
    found = {"oplab": list(dict.fromkeys(_messages())), "course": list(dict.fromkeys(_manifest(course)))}
    found["pages"] = prose.each(unit for page in PAGES for unit in prose.units(_read(course.root / page)))
    for chapter in course.chapters:
        found[chapter.stem[:2]] = list(dict.fromkeys(_chapter(course, chapter)))
    return found


def _chapter(course: Course, chapter: Chapter) -> Iterator[str]:
    for cell in json.loads(_read(paths.part(course.root, chapter.notebook)))["cells"]:
        if cell["cell_type"] == "markdown":
            yield from prose.each(prose.units("".join(cell["source"])))
    for file in dict.fromkeys(exercise.file for exercise in chapter.exercises):
        for passage in passages(stub_of(course, file), file):
            yield from prose.each(prose.units(plain(passage), documented=True))
    file = quiz.path(course.root, chapter.stem)
    if file.is_file():
        for question in quiz.read(file).questions:
            yield question.text
            for choice in question.choices:
                yield from (choice.text, choice.why)


def _manifest(course: Course) -> Iterator[str]:
    yield course.title
    for chapter in course.chapters:
        yield from (chapter.title, chapter.able)
        for exercise in chapter.exercises:
            yield from (exercise.goal, *exercise.hints)


def _messages() -> Iterator[str]:
    """The first argument of each call of :func:`oplab.translation.language.text` in the library."""
    for file in sorted(paths.PACKAGE.rglob("*.py")):
        code = file.read_text(encoding="utf-8")
        if "translation.language import" not in code:
            continue
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "text" and node.args:
                if isinstance(node.args[0], ast.Constant):
                    yield str(node.args[0].value)


def stub_of(course: Course, file: str) -> str:
    """The English stub of a file of ``exercises/``.

    Raises:
        OplabError: its reference answer cannot be read.
    """
    return stubs.make_stub(_read(paths.part(course.root, "solutions") / file), file)


def passages(text: str, file: str) -> list[str]:
    """The docstrings of a Python stub, or the comments of a C++ stub, as they are in the file: the longest first.

    A comment is C++'s way to a docstring where it has several lines or begins the file.
    """
    if file.endswith(".cpp"):
        found = [match[0] for match in _COMMENT.finditer(text) if not _TODO.search(match[0])]
        return sorted(found, key=len, reverse=True)
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
                found.append(ast.get_source_segment(text, first) or "")
    return sorted(filter(None, found), key=len, reverse=True)


def plain(passage: str) -> str:
    """A passage without quotes, marks of a comment, and indent: the text that :func:`prose.units` cuts."""
    if passage.lstrip().startswith("//"):
        return "\n".join(re.sub(r"^[ \t]*// ?", "", line) for line in passage.rstrip("\n").split("\n"))
    body = passage[3:-3]
    first, *rest = body.split("\n")
    return "\n".join([first, *(line[indent_of(passage) :] for line in rest)])


def indent_of(passage: str) -> int:
    """How many blanks a docstring's lines begin with, or a comment's."""
    if passage.lstrip().startswith("//"):
        return len(passage) - len(passage.lstrip())
    lines = [line for line in passage[3:-3].split("\n")[1:] if line.strip()]
    return min((len(line) - len(line.lstrip()) for line in lines), default=0)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OplabError(f"{file.name} cannot be read: {error}.") from None

