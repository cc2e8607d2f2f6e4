"""What the learner's files hold, and which exercises a save has changed."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from oplab.course import answers
from oplab.course.manifest import Course, Exercise
from oplab.files import file_state


class Changes:
    """The last texts of the learner's files, and which exercises a change touches."""

    def __init__(self, course: Course):
        self._folder = course.root / "exercises"
        self._files = {exercise.file: course.in_file(exercise.file) for exercise in course.exercises}
        self._states: dict[str, tuple[int, ...] | None] = {}
        self._seen: dict[str, str] = {}
        self._lock = threading.Lock()
        self.touched()

    def touched(self) -> list[Exercise]:
        """The exercises whose own text, or whose file outside of all exercises, has changed since the last call."""
        found = []
        with self._lock:
            for file, exercises in self._files.items():
                state = file_state(self._folder / file)
                if file in self._states and state == self._states[file]:
                    continue
                self._states[file] = state
                now = self._look(file, exercises)
                found += [exercise for exercise in exercises if now[exercise.id] != self._seen.get(exercise.id)]
                self._seen.update(now)
        return found

    def half_written(self) -> bool:
        """Whether a file is missing or empty that was neither: an editor renames or truncates it when it saves."""
        for file, state in self._states.items():
            if state is not None and state[1]:
                now = file_state(self._folder / file)
                if now is None or now[1] == 0:
                    return True
        return False

    def _look(self, file: str, exercises: Sequence[Exercise]) -> dict[str, str]:
        try:
            return answers.digests((self._folder / file).read_text(encoding="utf-8"), exercises)
        except (OSError, UnicodeDecodeError) as error:
            return {exercise.id: type(error).__name__ for exercise in exercises}
