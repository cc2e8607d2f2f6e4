"""The learner's files: reading, restoring and comparing them. Nothing here runs them."""

from __future__ import annotations

import ast
import difflib
import hashlib
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from oplab.course import stubs
from oplab.course.manifest import Chapter, Course, Exercise
from oplab.course.parsing import parse
from oplab.errors import OplabError
from oplab.files import write_atomically


def stub_text(course: Course, exercise: Exercise) -> str:
    """The stub of the exercise's file."""
    return stubs.make_stub(reference_text(course, exercise), exercise.file)


def reference_text(course: Course, exercise: Exercise) -> str:
    """The solution of the exercise's file, with its ANSWER and END lines."""
    return _read(course.reference_file(exercise))


def reset(course: Course, target: Exercise | Chapter) -> list[tuple[Path, Path | None]]:
    """Put one exercise, or all files of a chapter, back to the stub. Files that existed are copied to ``build/backup/`` first.

    Args:
        target: an exercise or a chapter. Of a Python file only the exercise's function is put back, of a C++ file all of it.

    Returns:
        (file, backup) for each file; backup is None where there was no file.
    """
    from oplab.course import translated

    exercises = target.exercises if isinstance(target, Chapter) else (target,)
    folder = course.root / "build" / "backup" / time.strftime("%Y%m%d-%H%M%S")
    done: list[tuple[Path, Path | None]] = []
    try:
        for name in dict.fromkeys(exercise.file for exercise in exercises):
            exercise = next(entry for entry in exercises if entry.file == name)
            file = course.root / "exercises" / name
            stub = stub_text(course, exercise)
            text = stub
            if file.exists() and isinstance(target, Exercise) and target.kind == "python":
                try:
                    text = stubs.restore(_read(file), stub, target.name)
                except SyntaxError as error:
                    raise OplabError(
                        f"{name} is not valid Python (line {error.lineno}: {error.msg}), so one function cannot be restored.",
                        f"`oplab reset {target.id.split('.')[0]}` restores the whole file and keeps yours in build/backup/.",
                    ) from None
            backup = _backup(file, folder / name) if file.exists() else None
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(file, translated.stub(course, name, text))
            done.append((file, backup))
    except OSError as error:
        raise OplabError(
            f"{error.filename or course.root} cannot be written: {error.strerror}.",
            "Make the course's folder writable.",
        ) from None
    return done


def diff(course: Course, exercise: Exercise) -> list[str]:
    """The learner's answer against the reference, as lines of a unified diff; empty when they are the same but for comments and layout.

    The stub's own comments are left out.
    """
    from oplab.course import translated

    mark = "#" if exercise.kind == "python" else "//"
    written = _read(course.root / "exercises" / exercise.file)
    texts = (translated.stub(course, exercise.file, written, "en"), reference_text(course, exercise))
    stub = _answer(stub_text(course, exercise), exercise)
    given = {line.strip() for line in stub if line.strip().startswith(mark)}
    mine, reference = (
        [line for line in _unmarked(_answer(text, exercise)) if line.strip() not in given] for text in texts
    )
    if _code(mine, mark) == _code(reference, mark):
        return []
    return list(difflib.unified_diff(mine, reference, "yours", "reference", lineterm="", n=2))


def _code(lines: list[str], mark: str) -> str:
    """Code without comments and layout; all of it where it is not valid Python."""
    text = "\n".join(lines)
    if mark == "//":
        return "".join(re.sub("//.*", "", text).split())
    try:
        return ast.dump(parse(text))
    except SyntaxError:
        return text


def reference(course: Course, exercise: Exercise) -> str:
    """The reference answer as a reader wants it: without ANSWER and END lines.

    Of a Python file it is the exercise's function, after those definitions and imports that it uses and that the stub lacks.
    """
    text = reference_text(course, exercise)
    if exercise.kind != "python":
        return "\n".join(_unmarked(text.splitlines())) + "\n"
    given = set(_definitions(stubs.make_stub(text, exercise.file)))
    own = {name: node for name, node in _definitions(text).items() if name not in given or name == exercise.name}
    if exercise.name not in own:
        raise OplabError(
            f"solutions/{exercise.file} has no function {exercise.name}.", "Restore the file from the repository."
        )
    wanted, waiting = set[str](), [exercise.name]
    while waiting:
        name = waiting.pop()
        wanted.add(name)
        used = {node.id for node in ast.walk(own[name]) if isinstance(node, ast.Name)}
        waiting += [other for other in used & set(own) if other not in wanted]
    lines = text.splitlines()
    spans = sorted({_span(own[name], lines) for name in wanted})
    return "\n\n\n".join("\n".join(_unmarked(lines[first:last])).strip("\n") for first, last in spans) + "\n"


def _definitions(text: str) -> dict[str, ast.stmt]:
    """The top-level names of a file, each with the statement that defines it last."""
    found: dict[str, ast.stmt] = {}
    for node in parse(text).body:
        found.update(dict.fromkeys(stubs.names_of(node), node))
    return found


def _span(node: ast.stmt, lines: list[str]) -> tuple[int, int]:
    """The lines of a statement, from 0, with its decorators and the comment above it."""
    first = stubs.first_line(node) - 1
    while first and lines[first - 1].startswith("#"):
        first -= 1
    return first, node.end_lineno or node.lineno


def _unmarked(lines: list[str]) -> list[str]:
    return [line for line in lines if not line.strip().startswith(("# ANSWER", "# END", "// ANSWER", "// END"))]


def digests(text: str, exercises: Sequence[Exercise]) -> dict[str, str]:
    """A digest for each exercise of one file: it changes with the exercise's own text, and with the file outside of all exercises."""
    if exercises[0].kind != "python":
        return {exercise.id: _digest(stubs.bare(text, "//")) for exercise in exercises}
    text = stubs.bare(text)
    lines = text.splitlines()
    try:
        spans = stubs.function_spans(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # while the file is not Python, every change concerns every exercise
        return {exercise.id: _digest(f"not Python\0{text}") for exercise in exercises}
    own = {exercise.id: spans[exercise.name] for exercise in exercises if exercise.name in spans}
    for first, last in own.values():
        lines[first - 1 : last] = [""] * (last - first + 1)
    rest = "\n".join(line for line in lines if line.strip())
    original = text.splitlines()

    def own_text(first: int, last: int) -> str:
        return "\n".join(line for line in original[first - 1 : last] if line.strip())

    return {
        exercise.id: _digest(own_text(*own[exercise.id]) if exercise.id in own else "", rest) for exercise in exercises
    }


def _digest(*texts: str) -> str:
    return hashlib.blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=16).hexdigest()


def backup_of(course: Course, file: Path, name: str) -> Path:
    """A copy of a file of the learner's in ``build/backup/``, called ``name`` there.

    Raises:
        OSError: it cannot be written, or the file cannot be read.
    """
    return _backup(file, course.root / "build" / "backup" / time.strftime("%Y%m%d-%H%M%S") / name)


def _answer(text: str, exercise: Exercise) -> list[str]:
    if exercise.kind != "python":
        return text.splitlines()
    try:
        found = stubs.function_text(text, exercise.name)
    except SyntaxError as error:
        raise OplabError(f"{exercise.file} is not valid Python: line {error.lineno}, {error.msg}.") from None
    return (found or "").splitlines()


def _backup(file: Path, copy: Path) -> Path:
    number = 1
    while copy.exists():  # two resets within one second
        number += 1
        copy = copy.with_name(f"{file.stem}-{number}{file.suffix}")
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(file, copy)
    return copy


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise OplabError(f"The file {path} is missing.", "Restore it from the repository.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise OplabError(
            f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is not UTF-8 text'}."
        ) from None
