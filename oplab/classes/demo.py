"""Makes a class to try things on: learners who have come more or less far, with right, wrong and unfinished answers."""

from __future__ import annotations

import csv
import functools
import random
from pathlib import Path

from oplab.authoring import mutants
from oplab.authoring.mutants import KnownAnswer
from oplab.course import stubs
from oplab.course.manifest import Course, Exercise
from oplab.errors import OplabError
from oplab.paths import part

_FIRST = "Ada Bo Chen Dina Emre Fay Gus Hana Ivo Jun Kim Lea Max Noor Ola Pia".split()
_LAST = "Abel Berg Cruz Diaz Evans Fisher Gray Hall Ito Jones Klein Lopez Meyer Novak".split()
# How a learner's answer to an exercise that they have reached comes about, and how often.
_SHARES = {"reference": 0.35, "alternative": 0.25, "mutant": 0.25, "stub": 0.15}


def make(course: Course, folder: Path, learners: int, seed: int = 0) -> Path:
    """Write ``roster.csv`` and ``submissions/`` with a folder for each learner.

    Args:
        course: the course. Without ``solutions/`` and ``tests/`` every learner hands in stubs.
        seed: another one makes another class; the same one makes the same.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OplabError(f"{folder} is not an empty folder.", "Name a new one.")
    chance = random.Random(seed)
    rows = [_person(number) for number in range(learners)]
    submitted = folder / "submissions"
    names = list(dict.fromkeys(exercise.file for exercise in course.exercises))
    try:
        for login, *_ in rows:
            # Few have done everything, few have hardly begun.
            progress = min(1.0, max(0.0, chance.gauss(0.55, 0.3)))
            reached = {exercise.id for exercise in course.exercises[: round(progress * len(course.exercises))]}
            for name in names:
                path = submitted / login / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(_file(course, name, reached, chance), encoding="utf-8")
        with open(folder / "roster.csv", "w", encoding="utf-8", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows([("login", "name", "email", "section"), *rows])
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


def _file(course: Course, name: str, reached: set[str], chance: random.Random) -> str:
    """A file of a learner who has come as far as the exercises ``reached``."""
    path = part(course.root, "solutions") / name
    if not path.is_file():
        return (course.root / "exercises" / name).read_text(encoding="utf-8")
    solution = path.read_text(encoding="utf-8")
    stub = stubs.make_stub(solution, name)
    exercises = [exercise for exercise in course.exercises if exercise.file == name]
    begun = [exercise for exercise in exercises if exercise.id in reached]
    kinds = {exercise.id: chance.choices(list(_SHARES), list(_SHARES.values()))[0] for exercise in begun}
    # A file can hold one answer that is not the reference; what else was meant to differ in it is the reference.
    special = next((exercise for exercise in begun if kinds[exercise.id] in ("mutant", "alternative")), None)
    text = mutants.apply([], exercises[0], solution)
    if special is not None and (known := _known(course, special, kinds[special.id], solution)):
        text = chance.choice(known).text
    written = [exercise for exercise in begun if kinds[exercise.id] != "stub"]
    if not written:
        return stub
    for exercise in exercises if exercises[0].kind == "python" else ():
        if exercise not in written and stubs.function_span(text, exercise.name) is not None:
            text = stubs.restore(text, stub, exercise.name)
    return text


@functools.lru_cache(maxsize=1024)
def _known(course: Course, exercise: Exercise, kind: str, solution: str) -> list[KnownAnswer]:
    found, _ = mutants.read(course, exercise, kind, solution)
    # Some mutants hang or use up the memory on purpose: a demonstration does not wait for them.
    return [answer for answer in found if answer.status not in ("timeout", "crashed")]
