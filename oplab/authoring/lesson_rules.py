"""What holds for each lesson of the course, for ``oplab lint-course``: its minutes, its sections, its checks, its lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from oplab.authoring import prose
from oplab.course import quiz
from oplab.course.manifest import Chapter, Course
from oplab.course.stubs import line_of
from oplab.errors import OplabError

CORE_MINUTES = 120  # the core of a chapter fits into one sitting
COLUMNS = 96  # a code line of a lesson or a stub: what a notebook shows next to its side bar at 1280 pixels
PROSE = 72  # a line of a docstring or comment of a stub: what JupyterLab's editor shows next to the panel
_COMMENT = re.compile(r"\s*(#|//) (?!TODO |    )")  # but the goal of an exercise and, after five blanks, code
_LINK = re.compile(r"\]\(\.\./exercises/(?P<file>[\w/]+\.(?:py|cpp))#line=\d+\)")
Problem = tuple[str, str]  # where, and a sentence


def source_of(course: Course, chapter: Chapter) -> Path:
    """The source of a chapter's notebook."""
    return course.root / "notebooks" / "src" / f"{chapter.stem}.py"


def minutes(course: Course, chapter: Chapter) -> tuple[int, int]:
    """What a chapter takes, in minutes: its core, and what is deeper. Both are its exercises and reading its lesson, in steps of five."""
    source = source_of(course, chapter)
    reading = prose.reading_minutes(source) if source.is_file() else (0.0, 0.0)
    if not chapter.minutes:
        reading = 0.0, sum(reading)
    core, deeper = (
        sum(exercise.minutes for exercise in chapter.exercises if exercise.deeper == part) + int(reading[part] / 5) * 5
        for part in (False, True)
    )
    return core, deeper


def minutes_add_up(course: Course) -> Iterator[Problem]:
    """A chapter's minutes are those of its exercises and of reading its lesson, for its core and for what is deeper."""
    for chapter in course.chapters:
        core, deeper = minutes(course, chapter)
        if chapter.exercises and (core, deeper) != (chapter.minutes, chapter.deeper_minutes):
            yield (
                chapter.stem,
                f"it takes {core} minutes, and {deeper} for what is deeper; course.toml has {chapter.minutes} and "
                f"{chapter.deeper_minutes}. `oplab author c{chapter.stem[:2]}` writes them.",
            )
        if core > CORE_MINUTES:
            yield chapter.stem, f"its core takes {core} minutes; at most {CORE_MINUTES} fit into one sitting."
        if not chapter.exercises:
            yield chapter.stem, "it has no exercise, so no points."


def sections_are_those_of_the_manifest(course: Course) -> Iterator[Problem]:
    """The deeper sections are those that the manifest names, after the core, folded, and have the deeper exercises' checks."""
    for chapter in course.chapters:
        source = source_of(course, chapter)
        if not source.is_file():
            continue  # `checks_are_in_their_section` finds it
        where = source.relative_to(course.root).as_posix()
        found = prose.sections(source)
        titles = [section.title for section in found if section.deeper]
        for title in sorted(set(titles) ^ set(chapter.deeper)):
            lacks = "course.toml" if title in titles else where
            yield chapter.stem, f"the deeper section {title!r} is not in {lacks}."
        begun = False
        for section in found:
            if section.deeper and not section.folded:
                yield (
                    f"{where}, line {section.line}",
                    f"the cell of a deeper section begins with `# %% [markdown] {{{prose.FOLDED}}}` and its heading.",
                )
            begun = begun or section.deeper
            if begun and not section.deeper and re.match(r"\d+\.", section.title):
                yield f"{where}, line {section.line}", "a core section is after a deeper one."


def chapters_are_on_the_map(course: Course) -> Iterator[Problem]:
    """Each chapter says what one can do after it, and all but the first and the appendices name those that they build on."""
    needs: dict[str, set[str]] = {}
    chapters = sorted(course.chapters, key=lambda chapter: (not chapter.appendix, chapter.stem))
    first = next((chapter.id for chapter in chapters if not chapter.appendix), "")
    for chapter in chapters:
        needs[chapter.id] = set(chapter.builds_on).union(*(needs[id] for id in chapter.builds_on))
        if not chapter.able.startswith("You can "):
            yield chapter.stem, 'course.toml does not say what one can do after it: able = "You can …".'
        if not chapter.builds_on and not chapter.appendix and chapter.id != first:
            yield chapter.stem, 'course.toml does not say which chapters it builds on: builds_on = ["…"].'
        for id in chapter.builds_on:
            through = [other for other in chapter.builds_on if id in needs[other]]
            if through:
                yield chapter.stem, f"it builds on {id} through {through[0]}, so builds_on need not name {id}."


def checks_are_in_their_section(course: Course) -> Iterator[Problem]:
    """Each exercise is checked once, in a section of the core or in a deeper one as the manifest says, and the notebook is made."""
    for chapter in course.chapters:
        source = source_of(course, chapter)
        where = source.relative_to(course.root).as_posix()
        if not source.is_file():
            yield chapter.stem, f"{where} is missing."
            continue
        if not (course.root / chapter.notebook).is_file():
            yield chapter.stem, f"{chapter.notebook} is missing; `make notebooks CH={chapter.stem[:2]}` makes it."
        found = prose.sections(source)
        for exercise in chapter.exercises:
            homes = [section for section in found if exercise.name in section.checks]
            if not homes:
                yield exercise.id, f'{where} has no line `lab.check("{exercise.name}")`.'
            elif chapter.minutes and any(section.deeper != exercise.deeper for section in homes):
                kind = "deeper" if exercise.deeper else "core"
                yield exercise.id, f"it is {kind} in course.toml, and {where} checks it in another section."


def with_links(course: Course, chapter: Chapter, text: str) -> tuple[str, set[str]]:
    """A lesson's source whose links to stubs have the right lines, and the exercises that they lead to.

    ``../exercises/c05_writing_symbolic.py#line=59`` (counted from 0, as JupyterLab does) leads to the exercise of that file which
    is checked next, or if there is none, to the one that was checked last.
    """
    checks = [
        (match.start(), exercise)
        for exercise in chapter.exercises
        for match in re.finditer(rf"""(?m)^lab\.check\(["'](?:c\w\w\.)?{exercise.name}["']""", text)
    ]
    linked = set()

    def line(link: re.Match[str]) -> str:
        near = sorted((place, exercise.id) for place, exercise in checks if exercise.file == link["file"])
        if not near:
            return link[0]
        exercise = course.exercise(next((id for place, id in near if place > link.start()), near[-1][1]))
        stub = course.root / "exercises" / exercise.file
        number = line_of(stub.read_text(encoding="utf-8"), exercise.id, exercise.name) if stub.is_file() else None
        linked.add(exercise.id)
        return f"](../exercises/{exercise.file}#line={(number or 1) - 1})"

    return _LINK.sub(line, text), linked


def stubs_are_linked(course: Course) -> Iterator[Problem]:
    """A lesson links to the line of each of its exercises' stubs. ``python tools/make_stubs.py`` writes the numbers."""
    for chapter in course.chapters:
        source = source_of(course, chapter)
        if not source.is_file():
            continue
        where = source.relative_to(course.root).as_posix()
        text = source.read_text(encoding="utf-8")
        right, linked = with_links(course, chapter, text)
        if right != text:
            yield where, "a link to a stub has the wrong line: run `python tools/make_stubs.py`."
        for exercise in chapter.exercises:
            if exercise.id not in linked:
                yield exercise.id, f"{where} has no link before its check: [...](../exercises/{exercise.file}#line=0)."


def lines_are_short(course: Course) -> Iterator[Problem]:
    """No line of code of a lesson or a stub is longer than :data:`COLUMNS`, and no prose of a stub longer than :data:`PROSE`."""
    for chapter in course.chapters:
        source = source_of(course, chapter)
        lines = (
            [(number, line) for number, line, is_prose in prose.lesson(source) if not is_prose]
            if source.is_file()
            else []
        )
        yield from _long(source.relative_to(course.root).as_posix(), lines)
    folders = ("exercises", "notebooks/cpp")
    for path in sorted(path for folder in folders for path in (course.root / folder).rglob("*.*")):
        if path.suffix in (".py", ".cpp"):
            text = path.read_text(encoding="utf-8")
            where = path.relative_to(course.root).as_posix()
            yield from _long(where, enumerate(text.splitlines(), start=1))
            if where.startswith("exercises/"):
                yield from _long(where, _stub_prose(text), PROSE)


def quizzes_ask(course: Course) -> Iterator[Problem]:
    """Each lesson ends with five questions of three or four choices: one right, each with a reason, and not always in the same place."""
    expected = {quiz.path(course.root, chapter.stem): chapter for chapter in course.chapters}
    for path, chapter in expected.items():
        where = path.relative_to(course.root).as_posix()
        if not path.is_file():
            yield chapter.stem, f"{where} is missing: its five questions."
            continue
        try:
            for problem in quiz.problems(quiz.read(path)):
                yield chapter.stem, f"{where}: {problem}"
        except OplabError as error:
            yield chapter.stem, error.message
        lesson = source_of(course, chapter)
        if lesson.is_file() and not re.search(r"^lab\.quiz\(\)", lesson.read_text(encoding="utf-8"), re.MULTILINE):
            yield chapter.stem, f"{lesson.relative_to(course.root).as_posix()} has no line `lab.quiz()`."
    for path in sorted((course.root / "notebooks" / "quiz").glob("*")):
        if path not in expected:
            yield path.relative_to(course.root).as_posix(), "it belongs to no chapter of course.toml."


def _stub_prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines of docstrings, without the code after ``::``, and of comments. A line with one word can be any length."""
    in_docstring, code = False, None  # code: the indent of the line that ends with ::
    for number, line in enumerate(text.splitlines(), start=1):
        words, indent = line.split(), len(line) - len(line.lstrip())
        if code is not None and words and indent <= code:
            code = None
        quoted = in_docstring or line.lstrip().startswith('"""')
        prose = code is None if quoted else _COMMENT.match(line)
        if prose and len(words) > (1 if quoted else 2):
            yield number, line
        if quoted and code is None and line.endswith("::"):
            code = indent
        if line.count('"""') % 2:
            in_docstring, code = not in_docstring, None


def _long(where: str, lines: Iterable[tuple[int, str]], columns: int = COLUMNS) -> Iterator[Problem]:
    for number, line in lines:
        if len(line) > columns:
            made = " Shorten it in solutions/, of which this is made." if where.startswith("exercises/") else ""
            yield f"{where}, line {number}", f"it has {len(line)} columns; at most {columns}.{made}"


RULES = (
    minutes_add_up,
    chapters_are_on_the_map,
    sections_are_those_of_the_manifest,
    checks_are_in_their_section,
    stubs_are_linked,
    lines_are_short,
    quizzes_ask,
)
