"""Lessons and stubs in the learner's language. Only prose changes: code keeps its bytes, and each line of a stub its number."""

from __future__ import annotations

import ast
import base64
import functools
import json
import re
from collections.abc import Iterator, Mapping
from html import escape, unescape
from pathlib import Path
from typing import Any

from oplab import paths
from oplab.course import prose, quiz, stubs
from oplab.course.language import catalogue, chosen, file_of
from oplab.course.manifest import Chapter, Course
from oplab.errors import OplabError
from oplab.files import file_state, write_atomically

WIDTH = 72  # columns of a stub's prose
_OTHER = re.compile("[\u2e80-\uffef]")  # no English lesson has one
_IMAGE = re.compile(r"(?<=data:image/svg\+xml;base64,)[A-Za-z0-9+/=]+")
_WORDS = re.compile(r">([^<>]+)</(text|tspan)>")
_COMMENT = re.compile(r"(?:^[ \t]*//(?!/).*\n)+", re.MULTILINE)
_TODO = re.compile(r"TODO (?P<id>c[\dA]\d\.\w+): .+")


def lesson(course: Course, chapter: Chapter, language: str | None = None) -> bytes:
    """The text of a chapter's lesson, in the learner's language."""
    file = course.root / chapter.notebook
    return notebook(file.read_bytes(), lesson_words(course, chapter, language or chosen(course.root)))


def lesson_words(course: Course, chapter: Chapter, language: str) -> Mapping[str, str]:
    """The texts of a lesson's cells, and of what its questions show, by their English ones; empty for English."""
    if language == "en":
        return {}
    name = chapter.stem[:2]
    files = (
        *(course.root / chapter.notebook, quiz.path(course.root, chapter.stem)),
        *(file_of(name, language), file_of("figures", language)),
    )
    return _lesson_words(name, language, files, tuple(file_state(file) for file in files))


@functools.lru_cache(maxsize=64)
def _lesson_words(name: str, language: str, files: tuple[Path, ...], states: tuple[Any, ...]) -> Mapping[str, str]:
    known = catalogue(name, language)
    try:
        cells = json.loads(files[0].read_bytes())["cells"]
    except (OSError, ValueError, KeyError):
        return {}
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    found = {text: prose.translated(text, known) for text in texts}
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", [])]
    for html in filter(_IMAGE.search, ("".join(data.get("text/html", [])) for data in outputs)):
        found[html] = _IMAGE.sub(lambda match: _encoded(figure(_decoded(match[0]), language)), html)
    if files[1].is_file():
        english, other = quiz.read(files[1], "en"), quiz.read(files[1], language)
        found |= {english.html: other.html, english.text: other.text}
    return found


def figure(svg: str, language: str | None = None) -> str:
    """A figure whose words are those of a language, where the catalogue ``figures`` has them."""
    known = catalogue("figures", language)

    def word(match: re.Match[str]) -> str:
        text = known.get(unescape(match[1].strip()))
        return f">{escape(text)}</{match[2]}>" if text else match[0]

    return _WORDS.sub(word, svg) if known else svg


def _decoded(data: str) -> str:
    return base64.b64decode(data).decode()


def _encoded(svg: str) -> str:
    return base64.b64encode(svg.encode()).decode()


def notebook(text: bytes, words: Mapping[str, str]) -> bytes:
    """A notebook whose cells of text and whose outputs are replaced where ``words`` has them; another file as it is."""
    if not words:
        return text
    try:
        content = json.loads(text)
        for cell in content["cells"]:
            for part in (cell, *(output.get("data", {}) for output in cell.get("outputs", []))):
                for key in ("source", "text/html", "text/plain"):
                    if cell["cell_type"] == "code" and key == "source":
                        continue
                    before = "".join(part.get(key, []))
                    if before in words:
                        part[key] = words[before].splitlines(keepends=True)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return text
    return (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode()


def english(course: Course, chapter: Chapter, text: bytes) -> bytes:
    """A copy of a lesson with the course's texts in English, whichever language they have."""
    if not _OTHER.search(text.decode("utf-8", "replace")):  # most copies: nothing to look up
        return text
    for language in languages():
        text = notebook(text, {new: old for old, new in lesson_words(course, chapter, language).items()})
    return text


def languages() -> list[str]:
    """The languages that have catalogues."""
    return sorted(folder.name for folder in paths.PACKAGE.joinpath("locale").glob("*_*"))


# --- stubs ---


def stub_words(course: Course, file: str, language: str) -> Mapping[str, str]:
    """The docstrings, comments and TODOs of a stub, by their English ones, as they are in the file; empty for English."""
    if language == "en":
        return {}
    chapter = next(chapter for chapter in course.chapters if any(e.file == file for e in chapter.exercises))
    known = catalogue("course", language)
    goals = tuple((e.id, known.get(e.goal, e.goal)) for e in course.in_file(file))
    files = (paths.part(course.root, "solutions") / file, file_of(chapter.stem[:2], language))
    return _stub_words(file, language, goals, files, tuple(file_state(path) for path in files))


@functools.lru_cache(maxsize=64)
def _stub_words(
    file: str, language: str, goals: tuple[tuple[str, str], ...], files: tuple[Path, Path], states: tuple[Any, ...]
) -> Mapping[str, str]:
    try:
        stub = stubs.make_stub(files[0].read_text(encoding="utf-8"), file)
    except (OSError, UnicodeDecodeError) as error:
        raise OplabError(f"solutions/{file} cannot be read: {error}.") from None
    known, told = catalogue(files[1].stem, language), dict(goals)
    found = {passage: _passage(passage, known) for passage in passages(stub, file)}
    for match in _TODO.finditer(stub):
        if _OTHER.search(goal := told.get(match["id"], "")):
            found[match[0]] = f"TODO {match['id']}: {goal}"
    return {old: new for old, new in found.items() if new != old}


def stub(course: Course, file: str, text: str, language: str | None = None) -> str:
    """A learner's file in a language: passages that are the course's, in whichever language, are replaced."""
    for other in languages() if _OTHER.search(text) else ():
        for old, new in stub_words(course, file, other).items():
            text = text.replace(new, old)
    for old, new in stub_words(course, file, language or chosen(course.root)).items():
        text = text.replace(old, new)
    return text


def passages(text: str, file: str) -> list[str]:
    """The docstrings of a Python stub, or the comments of a C++ stub but for its TODOs, as they are in the file, the longest first."""
    if file.endswith(".cpp"):
        found = [match[0] for match in _COMMENT.finditer(text) if "TODO " not in match[0]]
    else:
        found = [
            ast.get_source_segment(text, node.body[0]) or ""
            for node in ast.walk(ast.parse(text))
            if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node)
        ]
    return sorted(filter(None, found), key=len, reverse=True)


def plain(passage: str) -> str:
    """A passage without its quotes, the marks of its comment, and its indent: what :func:`oplab.course.prose.units` cuts."""
    if passage.lstrip().startswith("//"):
        return "\n".join(re.sub(r"^[ \t]*// ?", "", line) for line in passage.rstrip("\n").split("\n"))
    first, *rest = passage[3:-3].split("\n")
    return "\n".join([first, *(line[_indent(passage) :] for line in rest)])


def _indent(passage: str) -> int:
    """How many blanks the lines of a passage begin with."""
    if passage.lstrip().startswith("//"):
        return len(passage) - len(passage.lstrip())
    lines = [line for line in passage[3:-3].split("\n")[1:] if line.strip()]
    return min((len(line) - len(line.lstrip()) for line in lines), default=0)


def _passage(passage: str, known: Mapping[str, str]) -> str:
    """A passage in another language, with as many lines: a Chinese one needs fewer, so it is as narrow as that allows."""
    comment, indent = passage.lstrip().startswith("//"), _indent(passage)
    text, length = plain(passage), passage.count("\n") + (not passage.endswith("\n"))
    new = prose.translated(text, known, documented=True)
    if new == prose.translated(text, {}, documented=True):
        return passage
    margin = indent + 3 * comment
    tries = [prose.translated(text, known, documented=True, width=width - margin) for width in (44, 52, 60, WIDTH)]
    lines = next((new for new in tries if new.count("\n") < length), tries[-1]).split("\n")
    blank = " " * indent
    if comment:
        lines += [""] * (length - len(lines))
        return "".join(f"{blank}// {line}".rstrip() + "\n" for line in lines)
    body = lines if len(lines) == 1 else lines[:-1]  # the last one has the quotes
    body += [""] * (length - len(body) - (len(lines) > 1)) if length > 1 else []
    body = [body[0], *((blank + line).rstrip() for line in body[1:])]
    return '"""' + "\n".join([*body, blank] if len(lines) > 1 or length > 1 else body) + '"""'


def use(course: Course, language: str) -> None:
    """Bring the learner's files in ``exercises/`` to a language. Answers and what else was written there stay."""
    for file in dict.fromkeys(exercise.file for exercise in course.exercises):
        path = course.root / "exercises" / file
        try:
            text = path.read_text(encoding="utf-8")
            if (new := stub(course, file, text, language)) != text:
                write_atomically(path, new)
        except (FileNotFoundError, UnicodeDecodeError):
            continue
        except OSError as error:
            raise OplabError(f"exercises/{file} cannot be written: {error.strerror}.", "Make it writable.") from None


# --- what is translated ---


def chapter_texts(course: Course, chapter: Chapter) -> Iterator[str]:
    """The English texts of a chapter's catalogue, in the order in which a learner meets them."""
    for cell in json.loads((course.root / chapter.notebook).read_bytes())["cells"]:
        if cell["cell_type"] == "markdown":
            yield from prose.each(prose.units("".join(cell["source"])))
    for file in dict.fromkeys(exercise.file for exercise in chapter.exercises):
        text = (paths.part(course.root, "solutions") / file).read_text(encoding="utf-8")
        for passage in passages(stubs.make_stub(text, file), file):
            yield from prose.each(prose.units(plain(passage), documented=True))
    file = quiz.path(course.root, chapter.stem)
    if file.is_file():
        for question in quiz.read(file, "en").questions:
            yield question.text
            for choice in question.choices:
                yield from (choice.text, choice.why)
