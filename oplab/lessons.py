"""What a notebook of the course uses: its chapter's exercises, the grader, hints and graphs."""

from __future__ import annotations

import ast
import atexit
import importlib.metadata
import importlib.util
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from oplab import paths
from oplab.course import answers, quiz
from oplab.course.manifest import Chapter, Course, Exercise, load, preloads
from oplab.errors import OplabError
from oplab.figures import listing, palette
from oplab.figures import picture as pictures
from oplab.grading import progress as progressing
from oplab.grading.client import Server
from oplab.grading.grader import grade
from oplab.grading.text import outcome_lines

_VERSIONS = ("torch", "onnx", "onnxruntime", "onnxscript")
_servers: dict[tuple[str, ...], Server] = {}


def lesson(stem: str) -> Lesson:
    """Open a chapter in its notebook: prints the versions in use and the chapter's exercises.

    Args:
        stem: the notebook's name without its ending, for example ``"04_aten_symbolic"``.

    Raises:
        OplabError: there is no such chapter, or the manifest is broken.
    """
    return Lesson(stem)


class Lesson:
    """A chapter, as its notebook uses it.

    Attributes:
        chapter: the chapter's entry in the manifest.
        exercises: the learner's module, which is read again when its file was saved (``OPLAB_TRACK=solutions``: the reference).
        build: a folder for the files that this notebook writes.
    """

    def __init__(self, stem: str):
        self._root = paths.root()
        self.course = load(self._root)
        self.chapter: Chapter = self.course.chapter(stem)
        self.exercises = Answers(self._root / paths.track() / f"{self.chapter.module}.py")
        self.build = paths.build_dir() / "notebooks" / self.chapter.stem
        self.build.mkdir(parents=True, exist_ok=True)
        palette.use()
        print(f"Operator Lab, chapter {self.chapter.stem[:2]}: {self.chapter.title}")
        print("  ".join(f"{name} {_version(name)}" for name in _VERSIONS))
        for exercise in self.chapter.exercises:
            depth = ", deeper" if exercise.deeper else ""
            print(f"  {exercise.id:<16} {exercise.points} points, about {exercise.minutes} minutes{depth}")
            print(_wrapped(exercise.goal, "      "))

    def check(self, name: str) -> None:
        """Grade one exercise, in a separate process, and print the outcome.

        A reference answer (``OPLAB_TRACK=solutions``) that passes prints nothing: the saved notebooks show no pass before the
        learner has one.

        Args:
            name: the exercise's name (``"asinh"``), or its id (``"c04.asinh"``).

        Raises:
            OplabError: there is no such exercise, the grading server does not start, or a reference answer does not pass.
        """
        exercise = self._find(name)
        results = grade(self.course, [exercise], self._root / paths.track(), jobs=1, server=_warm_server(self.chapter))
        lines = "\n".join(outcome_lines(results.exercises[0]))
        if paths.track() == "solutions":
            if not results.exercises[0].passed:
                raise OplabError(f"The reference answer of {exercise.id} does not pass.", lines)
            return
        print(lines)
        if not results.exercises[0].passed:
            print(f'    Stuck? lab.hint("{name}")')
        progressing.record(paths.build_dir(), results, _warn)

    def hint(self, name: str) -> None:
        """Print the next hint. After a pass: all hints, and how the reference differs from your answer.

        Args:
            name: the exercise's name (``"asinh"``), or its id (``"c04.asinh"``).

        Raises:
            OplabError: there is no such exercise.
        """
        exercise = self._find(name)
        print("\n".join(hint_lines(self.course, exercise)))

    def show(self, *models: Any, **options: Any) -> Any:
        """The graph of a model, see :func:`oplab.viewer.show`."""
        from oplab.viewer import show

        return show(*models, **options)

    def figure(self, figure: Any, alt: str) -> pictures.Picture:
        """A matplotlib figure or the text of an SVG with its alt text, see :func:`oplab.figures.picture.picture`."""
        return pictures.picture(figure, alt)

    def cpp(self, name: str) -> Path:
        """The file ``name`` of ``notebooks/cpp``.

        Raises:
            OplabError: there is none.
        """
        return listing.find(self._root / "notebooks" / "cpp", name)

    def source(self, name: str, part: str | None = None) -> listing.Listing:
        """A file of ``notebooks/cpp``, or one definition of it, see :func:`oplab.figures.listing.source`."""
        return listing.source(self.cpp(name), part)

    def diff(self, before: str, after: str) -> listing.Listing:
        """What changes between two files of ``notebooks/cpp``, see :func:`oplab.figures.listing.diff`."""
        return listing.diff(self.cpp(before), self.cpp(after))

    def quiz(self) -> quiz.Quiz:
        """The chapter's five questions, from ``notebooks/quiz``, see :mod:`oplab.course.quiz`."""
        return quiz.read(quiz.path(self._root, self.chapter.stem))

    def fresh(self, name: str) -> Path:
        """Make an empty folder ``name`` in :attr:`build`; what an earlier run left there is removed."""
        folder = self.build / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def _find(self, name: str) -> Exercise:
        return self.course.exercise(name if "." in name else f"{self.chapter.id}.{name}")


class Answers:
    """A module that is read again whenever its file has changed, so that ``ex.asinh`` is what was saved last.

    An attribute raises OplabError when the file cannot be read, is not valid Python, or does not define it.
    """

    def __init__(self, file: Path):
        self._file, self._stamp, self._module = file, None, None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        module = self._load()
        if not hasattr(module, name):
            raise OplabError(
                f"{self._file.name} has no function {name}.",
                f"`oplab reset c{self._file.stem[1:3]}.{name}` restores its stub.",
            )
        return getattr(module, name)

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._load()) if not name.startswith("_")]

    def _load(self) -> ModuleType:
        try:
            seen = self._file.stat()
            text = self._file.read_text(encoding="utf-8")
        except OSError as error:
            raise OplabError(
                f"{self._file} cannot be read: {error.strerror}.", f"`oplab reset c{self._file.stem[1:3]}` restores it."
            ) from None
        stamp = (seen.st_mtime_ns, seen.st_size)
        if stamp != self._stamp:
            try:
                ast.parse(text)
            except SyntaxError as error:
                raise OplabError(
                    f"{self._file.name}, line {error.lineno}: {error.msg}.", "Fix that line and save the file."
                ) from None
            spec = importlib.util.spec_from_file_location(f"answers_{self._file.stem}", self._file)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[module.__name__] = module
            exec(compile(text, str(self._file), "exec"), module.__dict__)  # not the loader: its cache is by the second
            self._module, self._stamp = module, stamp
        assert self._module is not None
        return self._module


def hint_lines(course: Course, exercise: Exercise) -> list[str]:
    """The next hint as lines of text, counted as shown. After a pass: all hints, and a diff to the reference or why there is none."""
    folder = paths.build_dir()
    with progressing.update(folder, _warn) as progress:
        entry = progress.exercises.setdefault(exercise.id, progressing.Entry())
        total = len(exercise.hints)
        if entry.passed_once:
            lines = [f"Hint {number} of {total}: {text}" for number, text in enumerate(exercise.hints, start=1)]
            try:
                changes = answers.diff(course, exercise)
            except OplabError as error:  # a teacher may have taken the references out
                return [*lines, "", str(error)]
            lines += ["", *changes] if changes else ["", "Your answer and the reference are the same."]
            return lines
        shown = min(entry.hints, total - 1)
        entry.hints = min(entry.hints + 1, total)
    more = "" if entry.hints == total else "  (again for the next one)"
    return [f"Hint {shown + 1} of {total}: {exercise.hints[shown]}{more}"]


@contextmanager
def raises(kind: type[BaseException] | tuple[type[BaseException], ...], words: str = "") -> Iterator[None]:
    """Show a failure that a lesson is about, and make sure that it happens.

    Prints the exception's type and the line of its message that contains ``words``.

    Args:
        kind: the expected type or types.
        words: part of the expected message.

    Raises:
        AssertionError: nothing was raised, or another type, or a message without ``words``.
    """
    names = " or ".join(entry.__name__ for entry in (kind if isinstance(kind, tuple) else (kind,)))
    try:
        yield
    except kind as error:
        text = str(error)
        if words not in text:
            raise AssertionError(
                f"{type(error).__name__} was raised, but {words!r} is not in its message: {text}"
            ) from error
        line = next((line for line in text.splitlines() if words in line and line.strip()), "").strip()
        if len(line) > 240:
            start = max(0, line.find(words) - 80)
            line = ("… " if start else "") + line[start : start + 220] + " …"
        print(_wrapped(f"{type(error).__name__}: {line}", later="    "))
    except Exception as error:
        raise AssertionError(f"{names} was expected; {type(error).__name__} came: {error}") from error
    else:
        raise AssertionError(f"{names} was expected; nothing was raised.")


def _wrapped(text: str, first: str = "", *, later: str | None = None) -> str:
    """Lines that fit between JupyterLab's side bar and the edge of a window of 1280 pixels, which would break inside a word."""
    return textwrap.fill(
        text,
        92,
        initial_indent=first,
        subsequent_indent=first if later is None else later,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _warm_server(chapter: Chapter) -> Server:
    """One server for the life of the notebook's kernel: the second check takes a fraction of the first."""
    key = preloads(chapter.exercises)
    if key not in _servers:
        _servers[key] = Server(key)
        atexit.register(_servers[key].close)
    return _servers[key]


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name).split("+")[0]  # a CPU build says +cpu
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _warn(message: str) -> None:
    print(message, file=sys.stderr)
