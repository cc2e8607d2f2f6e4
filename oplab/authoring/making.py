"""What is made from the sources: the stubs, and in the lessons the links to a stub's line."""

from __future__ import annotations

from oplab.authoring import lesson_rules
from oplab.course import answers
from oplab.course.manifest import Course
from oplab.course.stubs import make_stub
from oplab.files import write_atomically


def make_stubs(course: Course, write: bool = True) -> tuple[list[str], list[str]]:
    """Make ``exercises/`` from ``solutions/``. A file that differs is replaced, and kept in ``build/backup/``.

    The lessons' links (``../exercises/c05_writing_symbolic.py#line=59``) follow: each leads to the exercise whose check is next.

    Returns:
        the stubs that differed, and a sentence for each file that was kept and each lesson that has changed.
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
            said.append(
                f"The links of lesson {number} have changed: `python tools/notebooks.py --text {number}` takes them over."
            )
    return differ, said
