"""Notices when the course or the grader changes while a learner's code runs, also where nothing can prevent it."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.machinery
import os
import re
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from oplab.course.manifest import NUMBER
from oplab.files import file_state
from oplab.grading.imports import reachable
from oplab.paths import PACKAGE, SHIPPED, part

# What a run executes, besides the chapters' checks and the answers.
_ROOTS = ("oplab.grading.fork_server", "oplab.grading.grader")
_CHAPTER = re.compile(rf"c{NUMBER}_")
_REFERENCES = PACKAGE / "checks" / "references"
_known: dict[str, bytes] = {}


def digests() -> dict[str, str]:
    """Path and BLAKE2b digest of each source file of the package, without the chapters' checks: workers get their text with a job."""
    return {path: hashlib.blake2b(text, digest_size=16).hexdigest() for path, text in _shared_texts().items()}


def only_known_code() -> None:
    """For the server, before it runs anything: from now on it and its workers import the package's modules as their sources are now.

    A learner's code may write to a source later, where nothing prevents it, or leave a compiled file that claims to belong to it.
    """
    _known.update(_shared_texts())
    original = importlib.machinery.SourceFileLoader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, fullname: str) -> Any:
        path = str(Path(self.path).resolve())
        if not path.startswith(f"{PACKAGE}{os.sep}"):
            return original(self, fullname)
        if path not in _known:
            raise ImportError(f"{path} was not there when the grader started.")
        return self.source_to_code(_known[path], path)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


class Watch:
    """Looks at files again and again, and tells which of them have changed since the last look.

    A change shows in the inode, size or times. No program can set the time of the last change of the inode (ctime), so writing
    the same size and restoring the modification time is noticed too. Methods may be called from several threads.

    Args:
        paths: the files; one that does not exist may be created later.
    """

    def __init__(self, paths: Iterable[Path]):
        self._lock = threading.Lock()
        self._seen = {path: file_state(path) for path in dict.fromkeys(paths)}

    def changes(self) -> dict[Path, str]:
        """``changed``, ``deleted`` or ``created`` for each file that is not as it was at the last call."""
        found = {}
        with self._lock:
            for path, before in self._seen.items():
                now = file_state(path)
                if now != before:
                    found[path] = "deleted" if now is None else "created" if before is None else "changed"
                    self._seen[path] = now
        return found


class CourseFiles:
    """The files of the package and of a course that a learner's code must not change, as they are when this object is made.

    Args:
        root: the course.
        chapters: the stems of the chapters to be graded.
        answers: the texts of the Python files to be graded.

    Attributes:
        paths: all of the files.
    """

    def __init__(self, root: Path, chapters: Iterable[str], answers: Iterable[str] = ()):
        names = tuple(f"c{stem[:2]}_" for stem in chapters)
        checks = list(part(root, "oplab/checks").glob("c??_*.py"))
        solutions = [path for path in part(root, "solutions").rglob("*.*") if path.suffix in (".py", ".cpp")]
        graded = [path for path in [*checks, *solutions] if path.name.startswith(names)]
        # Not every file of build/lib: a set-up at the same time touches its lock and its stamps, which does no harm.
        libraries = [path for path in (root / "build" / "lib").glob("*") if path.suffix in (".so", ".dylib")]
        self._always = {root / "course.toml", *libraries, *graded}
        self._texts: dict[str, str | bytes] = {
            _module(path): text for path, text in _remembered(_package_files()).items()
        }
        chosen = {f"oplab.checks.{path.stem}": text for path, text in _remembered(graded).items() if path in checks}
        given = {f"answers.{number}": text for number, text in enumerate(answers)}
        self._texts.update(chosen | given)
        self._roots = [*_ROOTS, *chosen, *given]
        self.paths = (*self._always, *_package_files(), *checks, *solutions)

    @functools.cached_property
    def relied_on(self) -> frozenset[Path]:
        """The files that a verdict of this run depends on. An author may be at work on the others meanwhile.

        They are the manifest, the compiled operators, the chapters' checks and solutions, every module that the server, a check or an
        answer can import, and the data next to such modules. The modules are found in the texts of before the run, and not before
        this is asked for: it takes a tenth of a second, and only a run whose files have changed needs it.
        """
        modules = reachable(self._roots, self._texts)
        found = {path for path in _package_files() if path.suffix == ".py" and _module(path) in modules}
        folders = {path.parent for path in found}
        found |= {path for path in _package_files() if path.suffix != ".py" and path.parent in folders}
        return frozenset(found | self._always)


def repository_files(root: Path) -> list[Path]:
    """The few files of ``.git`` that decide what a later command does or shows. Others change with every honest commit."""
    git = root / ".git"
    return [git / "HEAD", git / "config", *sorted((git / "hooks").glob("*"))] if git.is_dir() else []


@functools.lru_cache(maxsize=1)
def _package_files() -> tuple[Path, ...]:
    """The package's modules and data, without the course that an installed wheel brings."""
    found = (path for path in PACKAGE.rglob("*.*") if "__pycache__" not in path.parts and path.is_file())
    return tuple(sorted(path for path in found if not path.is_relative_to(SHIPPED)))


def _texts(paths: Iterable[Path]) -> dict[Path, bytes]:
    """The content of the Python files among ``paths``, as far as they can be read."""
    found = {}
    for path in paths:
        if path.suffix == ".py":
            with contextlib.suppress(OSError):
                found[path] = path.read_bytes()
    return found


def _remembered(paths: Iterable[Path]) -> dict[Path, bytes]:
    """As :func:`_texts`, but a file that has not changed since the last call is not read again: every run asks for 250 of them.

    For what modules import only. What is executed, and what is compared before a server starts again, is always read.
    """
    found = {}
    for path in paths:
        if path.suffix == ".py":
            with contextlib.suppress(OSError):
                found[path] = _text(path, file_state(path))
    return found


@functools.lru_cache(maxsize=1024)
def _text(path: Path, state: tuple[int, ...] | None) -> bytes:
    """The content of a file in this state: it is read again when that is another one, see :class:`Watch`.

    Raises:
        OSError: it cannot be read; then that is not remembered.
    """
    return path.read_bytes()


def _shared_texts() -> dict[str, bytes]:
    """The package's source files without the chapters' checks and their references."""
    shared = [path for path in _package_files() if path.parent.name != "checks" or not _CHAPTER.match(path.name)]
    return {str(path): text for path, text in _texts(shared).items() if path.parent != _REFERENCES}


def references() -> dict[str, str]:
    """The texts of :mod:`oplab.checks.references` by module: like the chapters' checks, they come with a job."""
    found = (path for path in _package_files() if path.parent == _REFERENCES and path.name != "__init__.py")
    return {_module(path): text.decode() for path, text in _texts(found).items()}


@functools.lru_cache(maxsize=1024)
def _module(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
