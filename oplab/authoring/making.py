"""What is made from the sources: the stubs, in the lessons the links to a stub's line, and how long each chapter takes."""

from __future__ import annotations

import re
from pathlib import Path

from oplab.authoring import lesson_rules
from oplab.course import answers
from oplab.course.manifest import Course
from oplab.course.stubs import make_stub
from oplab.files import write_atomically


def make_stubs(course: Course, write: bool = True) -> tuple[list[str], list[str]]:
    """Make ``exercises/`` from ``solutions/``. A file that differs is replaced, and kept in ``build/backup/``.

    The lessons' links (``../exercises/c05_writing_symbolic.py#line=59``) follow: each leads to the exercise whose check is next.
    So do the chapters' minutes in ``course.toml`` and their hours in the README.

    Returns:
        the stubs that differed, and a sentence for each file that was kept and each other file that has changed.
    """
    differ, said = [], []
    for solution in sorted((course.root / "solutions").rglob("*.*")):
        if solution.suffix not in (".py", ".cpp"):
            continue
        name = solution.relative_to(course.root / "solutions").as_posix()
        stub, file = make_stub(solution.read_text(encoding="utf-8"), name), course.root / "exercises" / name
        if file.is_file() and file.read_text(encoding="utf-8") == stub:
            continue
        differ.append(name)
        if write:
            if file.is_file():
                said.append(f"The file as it was: {answers.backup_of(course, file, name).relative_to(course.root)}")
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, stub)
    for chapter in course.chapters if write else ():  # `oplab lint-course` finds a wrong link
        source = lesson_rules.source_of(course, chapter)
        text = source.read_text(encoding="utf-8") if source.is_file() else ""
        linked, _ = lesson_rules.with_links(course, chapter, text)
        if linked != text:
            write_atomically(source, linked)
            number = chapter.stem[:2]
            said.append(f"The links of lesson {number} have changed: `make notebooks CH={number}` takes them over.")
    for path, text in timed(course).items() if write else ():
        if path.read_text(encoding="utf-8") != text:
            write_atomically(path, text)
            said.append(f"{path.relative_to(course.root)}: how long the chapters take.")
    return differ, said


def timed(course: Course) -> dict[Path, str]:
    """The manifest, the README and the page for teachers, with the minutes and hours of their chapters as they are now."""
    manifest = course.root / "course.toml"
    texts = {manifest: manifest.read_text(encoding="utf-8")}
    pages = [course.root / "README.md", course.root / "docs" / "teaching.md"]
    texts |= {page: page.read_text(encoding="utf-8") for page in pages if page.is_file()}
    total = 0
    for chapter in course.chapters:
        core, deeper = lesson_rules.minutes(course, chapter)
        total += 0 if chapter.appendix else core
        more = f"deeper_minutes = {deeper}\n" if deeper else ""
        entry = rf'(^stem = "{chapter.stem}"\n(?:(?!\[\[|minutes).*\n)*minutes = )\d+(.*\n)(?:deeper_minutes = .*\n)?'
        texts[manifest] = re.sub(entry, rf"\g<1>{core}\2{more}", texts[manifest], flags=re.MULTILINE)
        row = rf"^(\| \[{chapter.stem[:2]} .+\) \|.+) \| \S+ \| \S+ \|$"
        for page in pages:
            if page in texts:
                texts[page] = re.sub(row, rf"\1 | {_hours(core)} | {_hours(deeper)} |", texts[page], flags=re.MULTILINE)
    for page in pages:
        if page in texts:
            texts[page] = re.sub(r"(core path takes about )\d+( hours)", rf"\g<1>{round(total / 60)}\2", texts[page])
    return texts


def _hours(minutes: int) -> str:
    """To the half hour, which no reader keeps more exactly."""
    return f"{round(minutes / 30) / 2:g}" if minutes else "–"
