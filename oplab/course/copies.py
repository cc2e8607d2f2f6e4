"""The learner's copies of the lessons: ``work/NN_name.ipynb`` for ``notebooks/NN_name.ipynb``.

JupyterLab opens these, in the learner's language. So running a lesson changes no file that git follows, and an update of the course
never meets a learner's edits: it replaces the copies that the learner did not change, and leaves the others alone.
``work/.lessons.json`` has a digest of what was copied: of what is in the notebook, however it is laid out, whatever is folded, and
in whichever language. Without that file, a copy that is not the lesson as it is now counts as the learner's.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from oplab.course import translated
from oplab.course.answers import backup_of
from oplab.course.manifest import Chapter, Course
from oplab.errors import OplabError
from oplab.files import file_state, lock, write_atomically

FOLDER = "work"
RECORD = ".lessons.json"
VERSION = 1
_NAMED = re.compile(rf"(?:\./)?(?:notebooks|{FOLDER})/(?P<name>[^/]+?)(?:\.ipynb)?")
# What JupyterLab adds when it saves a notebook without a change of the learner, or with one that was only unfolded.
_TRIVIAL = {"kernelspec", "language_info", "trusted", "collapsed", "scrolled", "jp-MarkdownHeadingCollapsed"}


def path(course: Course, chapter: Chapter) -> Path:
    """Where the learner's copy of a chapter's lesson is, or will be."""
    return course.root / FOLDER / f"{chapter.stem}.ipynb"


def named(course: Course, name: str) -> Chapter | None:
    """The chapter of a lesson that is named as a file: ``notebooks/05``, ``work/05_writing_symbolic.ipynb``; None for any other name."""
    match = _NAMED.fullmatch(name)
    if match is None:
        return None
    number = re.fullmatch(r"[\dA]\d", match["name"])
    return course.chapter(f"c{match['name']}" if number else match["name"])


def sync(course: Course, making: Callable[[int], object] = lambda count: None) -> list[str]:
    """Make the copies that are missing, and replace those that the learner never changed by lessons that are newer.

    Two processes may do this at the same time. A copy that somebody saves meanwhile is kept.

    Args:
        making: called with the number of copies that are to be made, before the first one.

    Returns:
        the stems of the chapters whose copy was made or replaced.

    Raises:
        OplabError: a copy cannot be written. Those that the learner has are as they were.
    """
    if not _outdated(course, _recorded(course)):
        return []
    with _changing(course) as record:  # another process may have made them meanwhile
        chapters = _outdated(course, record)
        making(len(chapters))
        return [chapter.stem for chapter in chapters if _renew(course, chapter, record)]


def states(course: Course) -> dict[str, str]:
    """How each chapter's copy is, by the chapter's stem.

    ``missing``; ``same``: as it was copied, or as the lesson is; ``changed``: the learner edited or ran it; ``newer``: so it is,
    and the lesson has changed since. Nothing is written, and what cannot be read counts as changed.
    """
    record = _recorded(course)
    return {chapter.stem: _state(course, chapter, record) for chapter in course.chapters}


def reset(course: Course, chapter: Chapter) -> tuple[Path, Path | None]:
    """Make a chapter's copy the lesson again. What is there is first copied to ``build/backup/``.

    Returns:
        the copy, and its backup; None if there was no copy.

    Raises:
        OplabError: there is no such lesson, or a file cannot be written. The copy is as it was then.
    """
    copy = path(course, chapter)
    try:
        text = translated.lesson(course, chapter)
    except OSError as error:
        raise OplabError(
            f"The lesson {chapter.notebook} cannot be read: {error.strerror}.", "Restore it from the repository."
        ) from None
    if copy.is_dir():
        raise OplabError(f"{FOLDER}/{copy.name} is a folder, not a notebook.", "Move it to another place.")
    with _changing(course) as record:
        backup = backup_of(course, copy, f"{FOLDER}/{copy.name}") if copy.exists() else None
        write_atomically(copy, text)
        record[chapter.stem] = _digest(translated.english(course, chapter, text))
    return copy, backup


def speak(course: Course, language: str) -> None:
    """Bring all copies to a language: text that is the course's is replaced, and what the learner wrote stays."""
    with _changing(course):
        for chapter in course.chapters:
            copy = path(course, chapter)
            if not copy.is_file() or copy.is_symlink():
                continue
            before = copy.read_bytes()
            words = translated.lesson_words(course, chapter, language)
            after = translated.notebook(translated.english(course, chapter, before), words)
            if after != before:
                write_atomically(copy, after)


def _state(course: Course, chapter: Chapter, record: dict[str, str]) -> str:
    copy, known = path(course, chapter), record.get(chapter.stem)
    if not os.path.lexists(copy):
        return "missing"
    now, lesson = _digest_of(copy, course, chapter), _digest_of(course.root / chapter.notebook)
    if now is not None and now in (known, lesson):
        return "same"
    return "newer" if known and lesson and known != lesson else "changed"


def _outdated(course: Course, record: dict[str, str]) -> list[Chapter]:
    """The chapters whose copy is to be made, replaced or only written down."""
    found = []
    for chapter in course.chapters:
        copy, lesson = path(course, chapter), _digest_of(course.root / chapter.notebook)
        if lesson is None or copy.is_symlink():  # the learner has put the link there
            continue
        state = _state(course, chapter, record)
        old = state == "same" and record.get(chapter.stem) != lesson
        if state == "missing" or old or _aside(copy).exists():
            found.append(chapter)
    return found


def _renew(course: Course, chapter: Chapter, record: dict[str, str]) -> bool:
    """Makes a copy, or replaces one that is as it was copied. False if neither was needed."""
    copy, aside = path(course, chapter), _aside(path(course, chapter))
    text = translated.lesson(course, chapter)
    lesson, known = _digest_of(course.root / chapter.notebook), record.get(chapter.stem)
    if aside.exists():
        _put_back(course, aside, copy)  # an earlier run was killed
    if _digest_of(copy, course, chapter) == lesson:
        record[chapter.stem] = lesson
        return False
    draft = copy.with_name(f".{copy.stem}.new")
    write_atomically(draft, text)
    try:
        if os.path.lexists(copy):
            # The copy is moved away, and only then compared: whatever anybody saves until this moment is in it.
            os.rename(copy, aside)
            if _digest(translated.english(course, chapter, aside.read_bytes())) != known:
                return False
        if os.path.lexists(copy):
            return False
        os.rename(draft, copy)
        aside.unlink(missing_ok=True)
    finally:
        draft.unlink(missing_ok=True)
        if aside.exists():
            _put_back(course, aside, copy)
    record[chapter.stem] = lesson
    return True


def _aside(copy: Path) -> Path:
    """Where a copy is while it is replaced."""
    return copy.with_name(f".{copy.stem}.replaced")


def _put_back(course: Course, aside: Path, copy: Path) -> None:
    """Moves a copy back to its place; to the backups if another file is there by now."""
    if os.path.lexists(copy):
        backup_of(course, aside, f"{FOLDER}/{copy.name}")
        aside.unlink()
    else:
        os.rename(aside, copy)


@contextlib.contextmanager
def _changing(course: Course) -> Iterator[dict[str, str]]:
    """What was copied, for changes: one process at a time. It is written at the end, whatever has happened."""
    folder = course.root / FOLDER
    try:
        if folder.resolve() == (course.root / "notebooks").resolve():
            raise OplabError(
                f"{FOLDER}/ and notebooks/ are the same folder, so your copies would overwrite the lessons.",
                f"Remove the link: rm {FOLDER}",
            )
        folder.mkdir(exist_ok=True)
        with lock(folder / ".lessons.lock"):
            record = _recorded(course)
            try:
                yield record
            finally:
                text = json.dumps({"version": VERSION, "copies": record}, indent=1)
                write_atomically(folder / RECORD, text + "\n")
    except OSError as error:
        raise OplabError(
            f"Your copies of the lessons, in {FOLDER}/, cannot be written: {error.strerror} ({error.filename or folder}).",
            "Free some disk space, and try again."
            if error.errno in (errno.ENOSPC, errno.EDQUOT)
            else f"Make {FOLDER}/ a folder that you can write to, or copy the course to one.",
        ) from None


def _recorded(course: Course) -> dict[str, str]:
    """What was copied, by the chapter's stem; nothing if the file is missing, broken or of another version."""
    try:
        data = json.loads((course.root / FOLDER / RECORD).read_text(encoding="utf-8"))
        if data["version"] != VERSION:
            return {}
        return {stem: str(digest) for stem, digest in data["copies"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _digest_of(file: Path, course: Course | None = None, chapter: Chapter | None = None) -> str | None:
    """A file's digest, of a copy that of the English one; None if it cannot be read. A file that has not changed is not read again."""
    state = file_state(file)
    try:
        return _read_digest(file, state, course, chapter) if state is not None else None
    except OSError:
        return None


@functools.lru_cache(maxsize=256)
def _read_digest(file: Path, state: tuple[int, ...], course: Course | None, chapter: Chapter | None) -> str:
    text = file.read_bytes()
    return _digest(translated.english(course, chapter, text) if course and chapter else text)


def _digest(text: bytes) -> str:
    with contextlib.suppress(ValueError, RecursionError):  # a file that is not a notebook is taken as it is
        text = json.dumps(_plain(json.loads(text)), sort_keys=True).encode()
    return hashlib.sha256(text).hexdigest()


def _plain(notebook: Any) -> Any:
    """A notebook without what JupyterLab adds to it: texts as one string, and the metadata that people write."""
    if isinstance(notebook, dict):
        plain = {key: _plain(value) for key, value in notebook.items() if key not in _TRIVIAL}
        return {key: value for key, value in plain.items() if value not in ({}, None) and key != "nbformat_minor"}
    if isinstance(notebook, list):
        if all(isinstance(entry, str) for entry in notebook):
            return "".join(notebook)
        return [_plain(entry) for entry in notebook]
    return notebook
