"""The course with a learner's progress: what ``oplab list``, ``oplab next``, a lesson and the panel of JupyterLab show."""

from __future__ import annotations

from typing import Any

from oplab.course.manifest import Chapter, Course, Exercise
from oplab.grading.progress import Progress


def overview(course: Course, progress: Progress) -> dict[str, Any]:
    """The course and the progress as plain values, which ``oplab list --json`` prints.

    Args:
        course: the course.
        progress: of the learner.
    """
    chapters = [_chapter(chapter, progress) for chapter in course.chapters]
    following = next_exercise(course, progress)
    return {
        "version": 1,
        "title": course.title,
        "points": sum(chapter["reached"] for chapter in chapters),
        "max_points": sum(chapter.points for chapter in course.chapters),
        "passed": sum(chapter["passed"] for chapter in chapters),
        "total": len(course.exercises),
        "next": following.id if following is not None else None,
        "chapters": chapters,
    }


def next_exercise(course: Course, progress: Progress, after: Exercise | None = None) -> Exercise | None:
    """The next exercise that has not passed: of the core path, then what is deeper, then the appendices.

    Args:
        course: the course.
        progress: of the learner.
        after: an exercise that was just worked on: the open core exercises of its chapter come first, then those after it.

    Returns:
        None when every exercise has passed.
    """
    path = list(course.path)
    if after is not None:
        order = course.exercises
        at = order.index(after)
        # The chapter's own first: a lesson may have its exercises in another order.
        near = [exercise for exercise in order if exercise.chapter == after.chapter]
        later = [*near, *order[at + 1 :]]
        path = [exercise for exercise in later if not exercise.deeper] + path
    return next((exercise for exercise in path if progress.entry(exercise.id).status != "passed"), None)


def skipped(course: Course, progress: Progress, following: Exercise, most: int = 3) -> list[Exercise]:
    """The last deeper exercises that are open in chapters before ``following``, which is on the core path."""
    if following.deeper:
        return []
    before = course.exercises[: course.exercises.index(following)]
    return [other for other in before if other.deeper and progress.entry(other.id).status != "passed"][-most:]


def _chapter(chapter: Chapter, progress: Progress) -> dict[str, Any]:
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
        "passed": sum(entry.status == "passed" for entry in entries.values()),
        "core_done": all(entries[one.id].status == "passed" for one in chapter.exercises if not one.deeper),
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
                "passed_once": entries[exercise.id].passed_once,
                "hints_shown": min(entries[exercise.id].hints, len(exercise.hints)),
                "hints_total": len(exercise.hints),
            }
            for exercise in chapter.exercises
        ],
    }
