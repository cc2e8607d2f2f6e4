"""Make ``exercises/`` from ``solutions/``, for authors. A file in ``exercises/`` that differs is replaced; ``build/backup/`` keeps it.

Run ``python tools/make_stubs.py --check`` to see whether the two agree, without ``--check`` to write. The lessons' links to a stub's line
(``../exercises/c05_writing_symbolic.py#line=59``) follow: each links to the exercise whose check is next.
"""

from __future__ import annotations

import sys
from pathlib import Path

from oplab.authoring import lesson_rules
from oplab.course import answers
from oplab.course.manifest import load
from oplab.course.stubs import make_stub

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    only_check = "--check" in sys.argv[1:]
    differ, kept = [], set()
    course = load(ROOT)
    for solution in sorted((ROOT / "solutions").rglob("*.*")):
        if solution.suffix not in (".py", ".cpp"):
            continue
        name = solution.relative_to(ROOT / "solutions")
        stub = make_stub(solution.read_text(encoding="utf-8"), str(name))
        exercise = ROOT / "exercises" / name
        if not exercise.is_file() or exercise.read_text(encoding="utf-8") != stub:
            differ.append(str(name))
            if not only_check:
                exercise.parent.mkdir(parents=True, exist_ok=True)
                if exercise.is_file():
                    kept.add(str(answers.backup_of(course, exercise, str(name)).relative_to(ROOT)))
                exercise.write_text(stub, encoding="utf-8")
    for chapter in course.chapters:
        source = lesson_rules.source_of(course, chapter)
        if not source.is_file():
            continue
        text = source.read_text(encoding="utf-8")
        linked, _ = lesson_rules.with_links(course, chapter, text)
        if linked != text and not only_check:  # `oplab lint-course` finds a wrong link
            source.write_text(linked, encoding="utf-8")
            print(
                f"Links of {chapter.stem} written: `python tools/notebooks.py --text {chapter.stem[:2]}` takes them over."
            )
    print(
        f"{len(differ)} stubs {'differ' if only_check else 'written'}: {', '.join(differ)}"
        if differ
        else "All stubs agree."
    )
    if kept:
        print(f"The files as they were: {', '.join(sorted(kept))}")
    return 1 if differ and only_check else 0


if __name__ == "__main__":
    sys.exit(main())
