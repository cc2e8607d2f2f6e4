"""Whether the course or the grader changed while learners' code ran: noticed here, also where nothing can prevent it."""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import os
import re
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
_CHAPTER = re.compile(r"c\d\d_")
_USED = {"checks", "course", "onnxtools", "ops", "parity", "paths.py", "toolchain"}
_USED |= {f"grading/{name}.py" for name in ("guard", "isolation", "limits", "server", "worker")}
_known: dict[str, bytes] = {}


def digests() -> dict[str, str]:
    """A hash of each source file of the package, without the checks: their text is read once and handed to the workers."""
    return {path: hashlib.blake2b(text, digest_size=16).hexdigest() for path, text in _texts().items()}


def remember_package() -> None:
    """For the server, before it runs anything: the files as they are now are the grader's."""
    _known.update(_texts())


def only_known_code() -> None:
    """For the judge's worker: a module of the package is imported from its remembered text, whatever its file holds by now.

    A learner's code of the same run may have written to the source, or left a compiled file that claims to stand for it.
    """
    original = importlib.machinery.SourceFileLoader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, fullname: str) -> Any:
        path = str(Path(self.path).resolve())
        if not path.startswith(f"{PACKAGE}{os.sep}") or not _known:
            return original(self, fullname)
        if path not in _known:
            raise ImportError(f"{path} was not there when the grader started.")
        return self.source_to_code(_known[path], path)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign]


def _texts() -> dict[str, bytes]:
    found = {}
    for path in _sources():
        if path.parent.name != "checks" or not _CHAPTER.match(path.name):
            try:
                found[str(path)] = path.read_bytes()
            except OSError:
                continue
    return found


class Watch:
    """Looks at files again and again and says which of them changed since the last look.

    A change shows in the file's number, size or times. The time of the last change of its state cannot be set by a program, so
    writing the same size and restoring the time of the content is seen too.
    """

    def __init__(self, paths: Iterable[Path]):
        self._lock = threading.Lock()
        self._seen = {path: _look(path) for path in dict.fromkeys(paths)}

    def changes(self) -> dict[Path, str]:
        """``changed``, ``deleted`` or ``created`` for each file that is not as it was at the last call."""
        found = {}
        with self._lock:
            for path, before in self._seen.items():
                now = _look(path)
                if now != before:
                    found[path] = "deleted" if now is None else "created" if before is None else "changed"
                    self._seen[path] = now
        return found


def grader_files(root: Path, chapters: Iterable[str]) -> tuple[list[Path], list[Path]]:
    """What grading these chapters relies on, and what else of the course a learner's code has no business with.

    The first are the manifest, the grading code, the compiled operators, and the chapters' checks and solutions; the second the rest of
    the package and of the course. An author may be at work on those while something is graded.
    """
    names = {f"c{stem}" for stem in chapters}
    # Not every file of build/lib: a set-up at the same time touches its lock and its stamps, and that is no harm.
    libraries = [path for path in sorted((root / "build" / "lib").glob("*")) if path.suffix in (".so", ".dylib")]
    relied, other = [root / "course.toml", *libraries], []
    for path in _sources():
        inside = path.relative_to(PACKAGE)
        chapter = path.parent.name == "checks" and _CHAPTER.match(path.name)
        (relied if {inside.parts[0], inside.as_posix()} & _USED and not chapter else other).append(path)
    for path in [*(root / "oplab" / "checks").glob("*.py"), *(root / "solutions").rglob("*.*")]:
        if path.suffix in (".py", ".cpp"):
            mine = path.stem in names or any(path.stem.startswith(name[:4]) for name in names)
            (relied if mine else other).append(path)
    return relied, other


def repository_files(root: Path) -> list[Path]:
    """The few files of ``.git`` that say what a later command will do or show. Others change with every honest commit."""
    git = root / ".git"
    return [git / "HEAD", git / "config", *sorted((git / "hooks").glob("*"))] if git.is_dir() else []


@functools.lru_cache(maxsize=1)
def _sources() -> tuple[Path, ...]:
    return tuple(sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts))


def _look(path: Path) -> tuple[int, ...] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
