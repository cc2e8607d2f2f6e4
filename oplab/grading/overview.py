"""The course with a learner's progress: what ``oplab list``, ``oplab next``, a lesson and the panel of JupyterLab show."""

from __future__ import annotations

from typing import Any

from oplab.course.manifest import Chapter, Course, Exercise
from oplab.grading.hints import reference
from oplab.grading.progress import Progress


def overview(course: Course, progress: Progress) -> dict[str, Any]:
    """The course and the progress as plain values, which ``oplab list --json`` prints.

    Args:
        course: the course.
        progress: of the learner.
    """
    chapters = [_chapter(course, chapter, progress) for chapter in course.chapters]
    return {
        "version": 1,
        "title": course.title,
        "points": sum(chapter["reached"] for chapter in chapters),
        "max_points": sum(chapter.points for chapter in course.chapters),
        "passed": sum(chapter["passed"] for chapter in chapters),
        "total": len(course.exercises),
        "next": _next(course, progress),
        "chapters": chapters,
    }


def open_exercises(course: Course, progress: Progress, chapter: str = "") -> list[Exercise]:
    """The exercises that have not passed, in the order in which every part of the course offers them.

    The core comes first, in teaching order, then what is deeper, then the appendices.

    Args:
        course: the course.
        progress: of the learner.
        chapter: the stem of the chapter that is open, by default of the one that the learner began with: its core comes first,
            then that of the chapters after it.
    """
    found = [exercise for exercise in course.path if not progress.entry(exercise.id).passed]
    chapter, stems = chapter or progress.start, [entry.stem for entry in course.chapters]
    if chapter not in stems:
        return found
    at = stems.index(chapter)
    near = {chapter, *(entry.stem for entry in course.chapters[at:] if not entry.appendix)}
    return sorted(found, key=lambda exercise: exercise.deeper or exercise.chapter not in near)


def skipped(course: Course, progress: Progress, following: Exercise, most: int = 3) -> list[Exercise]:
    """The last deeper exercises that are open in chapters before ``following``, which is on the core path."""
    if following.deeper:
        return []
    before = course.exercises[: course.exercises.index(following)]
    return [other for other in before if other.deeper and not progress.entry(other.id).passed][-most:]


def _next(course: Course, progress: Progress, chapter: str = "") -> str | None:
    return next((exercise.id for exercise in open_exercises(course, progress, chapter)), None)


def _chapter(course: Course, chapter: Chapter, progress: Progress) -> dict[str, Any]:
    entries = {exercise.id: progress.entry(exercise.id) for exercise in chapter.exercises}
    return {
        "stem": chapter.stem,
        "id": chapter.id,
        "title": chapter.title,
        "minutes": chapter.minutes,
        "deeper_minutes": chapter.deeper_minutes,
        "appendix": chapter.appendix,
        "builds_on": list(chapter.builds_on),
        "able": chapter.able,
        "notebook": chapter.notebook,
        "points": chapter.points,
        "reached": sum(entry.points for entry in entries.values()),
        "passed": sum(entry.passed for entry in entries.values()),
        "next": _next(course, progress, chapter.stem),
        "core_done": all(entries[one.id].passed for one in chapter.exercises if not (one.deeper and chapter.minutes)),
        "exercises": [
            {
                "id": exercise.id,
                "name": exercise.name,
                "goal": exercise.goal,
                "points": exercise.points,
                "reached": entries[exercise.id].points,
                "difficulty": exercise.difficulty,
                "minutes": exercise.minutes,
                "deeper": exercise.deeper,
                "kind": exercise.kind,
                "file": f"exercises/{exercise.file}",
                "status": entries[exercise.id].status,
                "sign": entries[exercise.id].look[0],
                "state": entries[exercise.id].look[1],
                "passed_once": entries[exercise.id].passed_once,
                "hints_shown": min(entries[exercise.id].hints, len(exercise.hints)),
                "hints_total": len(exercise.hints),
                "reference": reference(course, exercise, entries[exercise.id]),
            }
            for exercise in chapter.exercises
        ],
    }
