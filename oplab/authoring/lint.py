"""What the course promises of every exercise, as rules over its files and as trials of its answers.

``oplab lint-course`` and, in ``tests/grading``, ``test_answers.py`` with ``test_repeats.py`` are two views of the same: :data:`RULES` look
at files and run nothing of them, :func:`trials` are answers whose outcome is known before they are graded.

Wrong answers (mutants) and other right answers (alternatives) are tables of ``tests/mutants/<chapter>/<exercise>.toml`` and
``tests/alternatives/<chapter>/<exercise>.toml``; :mod:`oplab.authoring.mutants` has their form.
"""

from __future__ import annotations

import ast
import functools
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

from oplab.authoring import lesson_rules, mutants, translations, words
from oplab.course import stubs, translated
from oplab.course.manifest import NUMBER, Chapter, Course, Exercise, preloads
from oplab.course.parsing import parse
from oplab.errors import OplabError
from oplab.files import write_atomically
from oplab.grading.client import Server
from oplab.grading.grader import fresh_seed, grade
from oplab.grading.results import UNREADABLE, Outcome

MUTANTS = 3  # the least number of wrong answers for each exercise
HINTS = 2
KINDS = {  # what `lint-course --answers` can name
    "right": ("solution", "alternative"),
    "wrong": ("mutant",),
    "all": ("stub", "edited stub", "solution", "mutant", "alternative"),
}
UNFINISHED = "WRITE:"  # `oplab new-exercise` leaves it where an author has to write something
_BLOCK = re.compile(rf"^\s*(?:#|//) ANSWER (c{NUMBER}\.[a-z0-9_]+)(?:: .+)?$", re.MULTILINE)


@dataclass(frozen=True)
class Finding:
    """Something that does not hold. ``where`` is an exercise's id or a file, ``what`` a sentence."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(frozen=True)
class Trial:
    """An answer and what the grader has to say to it.

    Attributes:
        kind: ``stub``, ``edited stub``, ``solution``, ``mutant`` or ``alternative``.
        name: which mutant or alternative; empty for the others.
        text: the whole file that is graded.
        status: the state that it has to reach.
        says: words that the message must hold.
    """

    exercise: Exercise
    kind: str
    name: str
    text: str
    status: str
    says: str = ""

    @property
    def id(self) -> str:
        """``c04.asinh: mutant misspelt``."""
        return f"{self.exercise.id}: {self.kind} {self.name}".strip()

    def command(self, seed: int) -> str:
        """What repeats one run of it."""
        if self.kind == "solution":
            return f"oplab check {self.exercise.id} --track solutions --seed {seed}"
        return f"oplab lint-course {self.exercise.id} --answers {self.name or 'all'} --seed {seed}"

    def problem(self, outcome: Outcome) -> str:
        """What is wrong with the outcome, as a sentence, or an empty string."""
        points = self.exercise.points if self.status == "passed" else 0
        # Where points grow with speed, how many there are is the machine's affair, and no promise may depend on it.
        slow = self.exercise.speed and self.status == "passed" and 1 <= outcome.points <= points
        if UNREADABLE in outcome.message:  # a known answer deserves a sentence of its check
            return f"its check has no sentence for this type of result: {outcome.message}"
        if outcome.status != self.status:
            return f"expected {self.status}, got {outcome.status}: {outcome.message or 'every check passed'}"
        if self.says not in outcome.message:
            return f"it is rejected for another reason: {self.says!r} is not in {outcome.message!r}"
        if outcome.points != points and not slow:
            return f"expected {points} points, got {outcome.points}"
        return ""


def trials(course: Course) -> list[Trial]:
    """Every answer of the course that has a known outcome.

    A solution that cannot be read or has no stub gives none; a rule says what is wrong with it.
    """
    found = []
    for exercise in course.exercises:
        try:
            solution = _solution(course, exercise)
            stub = stubs.make_stub(solution, exercise.file)
        except (OSError, UnicodeDecodeError, OplabError):
            continue
        found.append(Trial(exercise, "stub", "", stub, "todo"))
        edited = _edited(stub, exercise)
        if edited != stub:
            found.append(Trial(exercise, "edited stub", "", edited, "todo"))
        found.append(Trial(exercise, "solution", "", solution, "passed"))
        for kind in mutants.FOLDERS:
            for answer in mutants.read(course, exercise, kind, solution)[0]:
                found.append(Trial(exercise, kind, answer.name, answer.text, answer.status, answer.says))
    return found


def attempt(
    course: Course, trial: Trial, server: Server, seed: int | None = None, folder: Path | None = None
) -> Outcome:
    """Grade a trial's text as if it were the learner's file, on fresh inputs unless a seed is given.

    Args:
        folder: holds this trial's text alone. Who grades it again gives the same one: what a sanitizer compiles is compiled once for
            each path. None is a folder for this call.
    """
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="oplab-lint-") as own:
            return attempt(course, trial, server, seed, Path(own))
    file = folder / trial.exercise.file
    file.parent.mkdir(parents=True, exist_ok=True)
    if not file.exists():
        write_atomically(file, trial.text, sync=False)  # another thread may grade it at the same time
    run = grade(course, [trial.exercise], folder, jobs=1, server=server, seed=seed, find_crashes=False)
    return run.exercises[0]


def run(
    course: Course,
    chosen: Iterable[Trial],
    jobs: int,
    done: Callable[[Finding | None], None] = lambda finding: None,
    repeat: int = 1,
    seed: int | None = None,
) -> list[Finding]:
    """Grade trials in parallel on one server: each once, then each a second time, and so on, always on fresh inputs.

    Args:
        done: called as each run ends, with what was wrong with it.
        seed: seeds the inputs of all runs, to repeat one.
    """
    chosen = list(chosen)
    preload = preloads(trial.exercise for trial in chosen)
    found: dict[str, list[Finding]] = {trial.id: [] for trial in chosen}
    runs = [(trial, fresh_seed() if seed is None else seed) for _ in range(repeat) for trial in chosen]
    with (
        tempfile.TemporaryDirectory(prefix="oplab-lint-") as answers,
        Server(preload, many=len(runs) > 100) as server,
        ThreadPoolExecutor(max(1, jobs)) as pool,
    ):
        folders = {trial.id: Path(answers) / str(number) for number, trial in enumerate(chosen)}
        futures = {
            pool.submit(attempt, course, trial, server, its, folders[trial.id]): (trial, its) for trial, its in runs
        }
        try:
            for future in as_completed(futures):
                trial, its = futures[future]
                problem = trial.problem(future.result())
                finding = Finding(trial.id, f"{problem}\n    {trial.command(its)}") if problem else None
                if finding:
                    found[trial.id].append(finding)
                done(finding)
        except BaseException:  # Ctrl-C: nothing may run on in the background
            pool.shutdown(wait=False, cancel_futures=True)
            server.cancel()
            raise
    return [finding for trial in chosen for finding in found[trial.id]]  # in the course's order, not as they ended


def lint(course: Course, ids: Iterable[str] | None = None) -> list[Finding]:
    """What the rules find.

    Args:
        ids: exercises, to find only what is about them, and not about other exercises, the library or the pages in ``docs/``.
    """
    if ids is None:
        return [finding for rule in RULES for finding in rule(course)]
    chosen = set(ids)
    part = only(course, chosen)
    found = [f for rule in RULES if rule not in OF_THE_COURSE for f in rule(part if rule in OF_AN_EXERCISE else course)]
    numbers = {exercise.chapter[:2] for exercise in part.exercises}
    found += [Finding(*problem) for problem in words.problems(course.root, numbers)]
    return [finding for finding in found if concerns(course, finding, chosen)]


def only(course: Course, ids: Collection[str]) -> Course:
    """The course as if it had only these exercises, in all of its chapters."""

    def kept(chapter: Chapter) -> Chapter:
        return replace(chapter, exercises=tuple(each for each in chapter.exercises if each.id in ids))

    return replace(course, chapters=tuple(map(kept, course.chapters)))


def concerns(course: Course, finding: Finding, chosen: set[str]) -> bool:
    """Whether a finding is about one of these exercises, or about a file or a chapter of theirs."""
    for exercise in course.exercises:
        if exercise.id in chosen:
            if re.search(rf"{re.escape(exercise.id)}\b", finding.where) or exercise.chapter in finding.where:
                return True
            if exercise.kind != "python" and exercise.file in finding.where:
                return True
    return not re.search(rf"\bc{NUMBER}[._][a-z]|\b{NUMBER}_[a-z]", finding.where)  # about the course as a whole


# Rules ------------------------------------------------------------------------------------------------------------------------


def ids_are_unique(course: Course) -> Iterator[Finding]:
    """No two exercises share an id or, unless they share a chapter's Python file, a file."""
    seen: set[str] = set()
    for exercise in course.exercises:
        for name in {exercise.id, exercise.file if exercise.kind != "python" else exercise.id}:
            if name in seen:
                yield Finding(exercise.id, f"{name} is there twice.")
        seen |= {exercise.id, exercise.file}


def hints_help(course: Course) -> Iterator[Finding]:
    """At least two hints, each different from the others and none empty."""
    for exercise in course.exercises:
        hints = [hint.strip() for hint in exercise.hints]
        if len(hints) < HINTS:
            yield Finding(
                exercise.id, f"it has {len(hints)} hint{'s' * (len(hints) != 1)}; at least {HINTS} are needed."
            )
        if len(set(hints)) < len(hints) or not all(hints):
            yield Finding(exercise.id, "a hint is empty or there twice.")


def solutions_have_one_goal(course: Course) -> Iterator[Finding]:
    """Exactly one TODO for each exercise in the stub, and no block for an exercise that is not in the manifest."""
    known = {exercise.id for exercise in course.exercises}
    for exercise in course.exercises:
        try:
            solution = _solution(course, exercise)
            stub = stubs.make_stub(solution, exercise.file)
        except OplabError as error:
            yield Finding(exercise.id, error.message)
            continue
        except (OSError, UnicodeDecodeError) as error:
            yield Finding(
                exercise.id, f"solutions/{exercise.file} cannot be read: {getattr(error, 'strerror', 'no UTF-8 text')}."
            )
            continue
        count = len(re.findall(rf"TODO {re.escape(exercise.id)}: ", stub))
        if count != 1:
            yield Finding(exercise.id, f"its stub has {count} TODOs; it has to be exactly one.")
        for id in set(_BLOCK.findall(solution)) - known:
            yield Finding(f"solutions/{exercise.file}", f"it has an ANSWER for {id}, which is not in course.toml.")
        if exercise.kind == "python":
            try:
                if stubs.function_span(solution, exercise.name) is None:
                    yield Finding(exercise.id, f"solutions/{exercise.file} has no function {exercise.name}.")
            except SyntaxError as error:
                yield Finding(exercise.id, f"solutions/{exercise.file}, line {error.lineno}: {error.msg}.")
        if not (course.root / "exercises" / exercise.file).is_file():
            yield Finding(exercise.id, f"exercises/{exercise.file} is missing; `python tools/make_stubs.py` makes it.")


def checks_have_both_halves(course: Course) -> Iterator[Finding]:
    """``collect_NAME`` and ``judge_NAME`` are there. The module is read, not run."""
    for exercise in course.exercises:
        path = course.checks_file(exercise)
        try:
            text = _read(path)
            parse(text)
        except (OSError, SyntaxError, UnicodeDecodeError) as error:
            yield Finding(exercise.id, f"{_short(course, path)} cannot be read: {error}.")
            continue
        for half in ("collect", "judge"):
            if not re.search(rf"\b{half}_{exercise.name}\b", text):
                yield Finding(exercise.id, f"{_short(course, path)} has no {half}_{exercise.name}.")


def answers_are_well_formed(course: Course) -> Iterator[Finding]:
    """Each table of ``tests/mutants`` and ``tests/alternatives`` can be applied to the reference, and a mutant says how it is rejected."""
    for exercise, _, _, problems in _known_answers(course):
        for problem in problems:
            yield _about(course, exercise, problem)


def mutants_are_enough(course: Course) -> Iterator[Finding]:
    """At least three wrong answers for each exercise."""
    for exercise, _, answers, _ in _known_answers(course):
        names = [answer.name for answer in answers if answer.kind == "mutant"]
        if len(names) < MUTANTS:
            shown = f" ({', '.join(names)})" if names else ""
            yield Finding(
                exercise.id,
                f"it has {len(names)} mutant{'s' * (len(names) != 1)}{shown}; at least {MUTANTS} are needed.",
            )


def answers_differ(course: Course) -> Iterator[Finding]:
    """No mutant or alternative is the reference, and no two of an exercise are the same."""
    for exercise, solution, answers, _ in _known_answers(course):
        for problem in mutants.repeated(answers, solution):
            yield _about(course, exercise, problem)


def answers_define_the_function(course: Course) -> Iterator[Finding]:
    """A Python mutant or alternative has the exercise's function: without it the reference would be graded."""
    for exercise, _, answers, _ in _known_answers(course):
        for answer in answers:
            missing = _missing(exercise, answer.code or answer.text)
            if missing and answer.status != "error":
                yield _about(course, exercise, mutants.Problem(answer.kind, answer.name, missing))


def no_file_is_orphaned(course: Course) -> Iterator[Finding]:
    """Every answer, check, mutant, alternative and notebook belongs to an exercise or a chapter."""
    answers = {exercise.file for exercise in course.exercises}
    modules = {chapter.module for chapter in course.chapters}
    stems = {chapter.stem for chapter in course.chapters}
    for folder in ("exercises", "solutions"):
        for path in _files(course.root / folder):
            if path.suffix in (".py", ".cpp") and path.relative_to(course.root / folder).as_posix() not in answers:
                yield Finding(_short(course, path), "it belongs to no exercise of course.toml.")
    for path in (course.root / "oplab" / "checks").glob("c[0-9A][0-9]_*.py"):
        if path.stem not in modules:
            yield Finding(_short(course, path), "it belongs to no chapter of course.toml.")
    for pattern in ("notebooks/src/[0-9A][0-9]_*.py", "notebooks/[0-9A][0-9]_*.ipynb"):
        for path in course.root.glob(pattern):
            if path.stem not in stems:
                yield Finding(_short(course, path), "it belongs to no chapter of course.toml.")
    for kind, folder in mutants.FOLDERS.items():
        expected = {mutants.file_of(course, exercise, kind) for exercise in course.exercises}
        for path in _files(course.root / "tests" / folder):
            if path not in expected:
                yield Finding(
                    _short(course, path),
                    "it belongs to no exercise: the name has to be <exercise>.toml in its chapter's folder.",
                )


def nothing_is_unfinished(course: Course) -> Iterator[Finding]:
    """No mark of ``oplab new-exercise`` is left."""
    folders = ("solutions", "oplab/checks", "tests/mutants", "tests/alternatives", "notebooks/src", "notebooks/quiz")
    paths = [course.root / "course.toml", *(path for folder in folders for path in _files(course.root / folder))]
    for path in paths:
        if path.suffix not in (".py", ".cpp", ".toml"):
            continue
        for number, line in enumerate(_read(path).splitlines(), start=1):
            if UNFINISHED in line:
                yield Finding(f"{_short(course, path)}, line {number}", f"unfinished: {line.strip()}")


def words_are_plain(course: Course) -> Iterator[Finding]:
    """No word of :data:`oplab.authoring.words.WORDS` in what is read, unless ``tests/allowed_words.toml`` has the line."""
    for where, what in words.problems(course.root):
        yield Finding(where, what)


def _findings(rule: Callable[[Course], Iterator[tuple[str, str]]]) -> Callable[[Course], Iterator[Finding]]:
    """A rule of another module as one of this module's."""

    @functools.wraps(rule)
    def found(course: Course) -> Iterator[Finding]:
        return (Finding(where, what) for where, what in rule(course))

    return found


def translations_are_whole(course: Course) -> Iterator[Finding]:
    """Each translation has the code, links and placeholders of its English text, and the glossary's terms."""
    for language in translated.languages():
        yield from (Finding(language, problem) for problem in translations.broken(course, language))


RULES: tuple[Callable[[Course], Iterator[Finding]], ...] = (
    ids_are_unique,
    hints_help,
    solutions_have_one_goal,
    checks_have_both_halves,
    answers_are_well_formed,
    mutants_are_enough,
    answers_differ,
    answers_define_the_function,
    no_file_is_orphaned,
    nothing_is_unfinished,
    *map(_findings, lesson_rules.RULES),
    words_are_plain,
    translations_are_whole,
)
# The expensive rules: those that look at each exercise alone, and those that read the whole library.
OF_AN_EXERCISE = (
    checks_have_both_halves,
    answers_are_well_formed,
    mutants_are_enough,
    answers_differ,
    answers_define_the_function,
)
OF_THE_COURSE = (words_are_plain, translations_are_whole)


# Files ------------------------------------------------------------------------------------------------------------------------


def _missing(exercise: Exercise, text: str) -> str:
    """Why a text does not replace the exercise's function, as a sentence; empty if it does."""
    if exercise.kind != "python":
        return ""
    try:
        return (
            "" if exercise.name in _bound(text) else f"it does not define {exercise.name}, so the reference is graded."
        )
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}."


def _about(course: Course, exercise: Exercise, problem: mutants.Problem) -> Finding:
    where = _short(course, mutants.file_of(course, exercise, problem.kind))
    return Finding(f"{where}, {problem.name}" if problem.name else where, problem.sentence)


def _known_answers(
    course: Course,
) -> Iterator[tuple[Exercise, str, list[mutants.KnownAnswer], list[mutants.Problem]]]:
    """Each exercise with its solution, its mutants and alternatives, and the tables that are neither.

    Exercises whose solution cannot be read are left out.
    """
    for exercise in course.exercises:
        try:
            solution = _solution(course, exercise)
        except (OSError, UnicodeDecodeError):
            continue  # `solutions_have_one_goal` finds it
        answers, problems = [], []
        for kind in mutants.FOLDERS:
            more = mutants.read(course, exercise, kind, solution)
            answers += more[0]
            problems += more[1]
        yield exercise, solution, answers, problems


def _bound(text: str) -> set[str]:
    """The names that a file's top level binds."""
    names = set()
    for node in parse(text).body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.Delete, ast.Import, ast.ImportFrom)):
            names |= {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names


def _edited(stub: str, exercise: Exercise) -> str:
    """The stub with another comment: the text is no longer the stub's, so its own exception has to be recognised."""
    mark = "#" if exercise.kind == "python" else "//"
    pattern = rf"^(\s*){mark} TODO {re.escape(exercise.id)}: .*$"
    return re.sub(pattern, rf"\1{mark} where do I start", stub, flags=re.MULTILINE)


def _solution(course: Course, exercise: Exercise) -> str:
    return _read(course.root / "solutions" / exercise.file)


def _files(folder: Path) -> list[Path]:
    """The files below a folder; what tools leave there is not one of them."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    )


def _short(course: Course, path: Path) -> str:
    return path.relative_to(course.root).as_posix()


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
