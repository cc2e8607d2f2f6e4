"""Makes a class to try things on: learners who have come more or less far, with right, wrong and unfinished answers."""

from __future__ import annotations

import csv
import io
import random
import zipfile
from pathlib import Path

from oplab.authoring import mutants
from oplab.authoring.mutants import KnownAnswer
from oplab.course import stubs
from oplab.course.manifest import Course, Exercise
from oplab.errors import OplabError
from oplab.files import write_atomically
from oplab.paths import part

_FIRST = (
    "Ada",
    "Bo",
    "Chen",
    "Dina",
    "Emre",
    "Fay",
    "Gus",
    "Hana",
    "Ivo",
    "Jun",
    "Kim",
    "Lea",
    "Max",
    "Noor",
    "Ola",
    "Pia",
)
_LAST = (
    "Abel",
    "Berg",
    "Cruz",
    "Diaz",
    "Evans",
    "Fisher",
    "Gray",
    "Hall",
    "Ito",
    "Jones",
    "Klein",
    "Lopez",
    "Meyer",
    "Novak",
)
# How a learner's answer to an exercise that they have reached comes about, and how often.
_SHARES = {"reference": 0.35, "alternative": 0.25, "mutant": 0.25, "stub": 0.15}


def make(course: Course, folder: Path, learners: int, seed: int = 0, archives: bool = True) -> Path:
    """Write ``roster.csv`` and ``submissions/`` with a folder or an archive for each learner.

    Args:
        course: the course. Without ``solutions/`` and ``tests/`` every learner hands in stubs.
        folder: created; it must be empty.
        learners: how many.
        seed: another one makes another class; the same one makes the same.
        archives: every third learner hands in an archive.

    Returns:
        the folder of the submissions.

    Raises:
        OplabError: the folder is not empty, or cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OplabError(f"{folder} is not an empty folder.", "Name a new one.")
    chance = random.Random(seed)
    rows = [_person(number) for number in range(learners)]
    answers = _Known(course)
    submitted = folder / "submissions"
    try:
        submitted.mkdir(parents=True, exist_ok=True)
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([("login", "name", "email", "section"), *rows])
        write_atomically(folder / "roster.csv", text.getvalue())
        for number, (login, *_) in enumerate(rows):
            # Few have done everything, few have hardly begun.
            files = answers.of_learner(chance, min(1.0, max(0.0, chance.gauss(0.55, 0.3))))
            _hand_in(submitted / login, files, as_archive=archives and number % 3 == 1)
    except OSError as error:
        raise OplabError(
            f"{error.filename or folder} cannot be written: {error.strerror}.", "Name another folder."
        ) from None
    return submitted


def _person(number: int) -> tuple[str, str, str, str]:
    first, last = _FIRST[number % len(_FIRST)], _LAST[number // len(_FIRST) % len(_LAST)]
    again = number // (len(_FIRST) * len(_LAST))
    login = f"{first}.{last}".lower() + (str(again) if again else "")
    return login, f"{first} {last}", f"{login}@example.org", str(1 + number % 2)


def _hand_in(place: Path, files: dict[str, str], as_archive: bool) -> None:
    if as_archive:
        with zipfile.ZipFile(place.with_name(f"{place.name}.zip"), "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in files.items():
                archive.writestr(zipfile.ZipInfo(f"exercises/{name}"), text)
        return
    for name, text in files.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


class _Known:
    """The answers that the course knows, as texts of whole files."""

    def __init__(self, course: Course):
        self.course = course
        self._solutions = {}
        for name in dict.fromkeys(exercise.file for exercise in course.exercises):
            path = part(course.root, "solutions") / name
            self._solutions[name] = path.read_text(encoding="utf-8") if path.is_file() else None
        self._read: dict[tuple[str, str], list[KnownAnswer]] = {}

    def of_learner(self, chance: random.Random, progress: float) -> dict[str, str]:
        """The files of a learner who has worked through this part of the course, from 0 to 1."""
        reached = {exercise.id for exercise in self.course.exercises[: round(progress * len(self.course.exercises))]}
        return {name: self._file(name, reached, chance) for name in self._solutions}

    def _file(self, name: str, reached: set[str], chance: random.Random) -> str:
        exercises = [exercise for exercise in self.course.exercises if exercise.file == name]
        solution = self._solutions[name]
        if solution is None:
            return (self.course.root / "exercises" / name).read_text(encoding="utf-8")
        stub = stubs.make_stub(solution, name)
        begun = [exercise for exercise in exercises if exercise.id in reached]
        kinds = {exercise.id: chance.choices(list(_SHARES), list(_SHARES.values()))[0] for exercise in begun}
        # A file can hold one answer that is not the reference; what else was meant to differ in it is the reference.
        special = next((exercise for exercise in begun if kinds[exercise.id] in ("mutant", "alternative")), None)
        text = mutants.apply([], exercises[0], solution)
        if special is not None and (known := self._answers(special, kinds[special.id])):
            text = chance.choice(known).text
        written = [exercise for exercise in begun if kinds[exercise.id] != "stub"]
        if not written:
            return stub
        if exercises[0].kind != "python":
            return text
        for exercise in exercises:
            if exercise not in written and stubs.function_span(text, exercise.name) is not None:
                text = stubs.restore(text, stub, exercise.name)
        return text

    def _answers(self, exercise: Exercise, kind: str) -> list[KnownAnswer]:
        if (exercise.id, kind) not in self._read:
            solution = self._solutions[exercise.file] or ""
            found, _ = mutants.read(self.course, exercise, kind, solution)
            # Some mutants hang or use up the memory on purpose: a demonstration does not wait for them.
            quick = [answer for answer in found if answer.status not in ("timeout", "crashed")]
            self._read[exercise.id, kind] = quick
        return self._read[exercise.id, kind]
