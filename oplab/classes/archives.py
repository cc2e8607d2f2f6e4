"""Reads the course's answer files, and nothing else, out of a folder or an archive.

Files are recognised by their names and read into memory: nothing is unpacked to the disk, no link is followed, and no program runs.
:class:`Reader` does that in a process with limits, because what looks through an archive believes what the archive claims.
"""

from __future__ import annotations

import functools
import io
import multiprocessing
import os
import re
import signal
import stat
import tarfile
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from oplab.classes.decoding import decoded
from oplab.classes.extraction import Unreadable
from oplab.course.manifest import Limits
from oplab.errors import first_line
from oplab.grading import limits, processes
from oplab.grading.submitted import MAX_BYTES

# What an honest submission needs a small part of.
MAX_ENTRIES = 20_000
MAX_UNPACKED = 256 << 20  # bytes of one tar archive, and of all entries of zip archives that are read
MAX_INNER = 64 << 20  # bytes of an archive in an archive
SECONDS, MEMORY_MB = 60.0, 512
MAX_DEPTH = 12
SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
# Next to course.toml they hold the course's files of the same names. Elsewhere a learner may have called a folder so.
_OF_COURSE = {"solutions", "checks", "tests", "build", "oplab"}
# What Canvas or a browser adds to the name of a file that is there already.
_AGAIN = re.compile(r"(?:-\d+| ?\(\d+\))(?=\.\w+$)")
_LINK, _SPECIAL = "it is a link, and links are not followed", "it is not a plain file"
# Opens an entry, or why it cannot be read.
_Opened = Callable[[], AbstractContextManager[IO[bytes]]] | str


@dataclass(frozen=True)
class Content:
    """What was read, by the course's name for the file, and the ends of sentences about the source, each with its full stop."""

    files: dict[str, str | Unreadable]
    problems: tuple[str, ...] = ()


class TooMuch(Exception):
    """A source is larger than any honest submission. The message is the end of a sentence without its full stop."""


class Reader:
    """Reads submissions in a process with limits on memory and on the ``seconds`` for each; it is replaced when one was too much for it."""

    def __init__(self, seconds: float = SECONDS):
        self._seconds = seconds
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def read(self, sources: Sequence[Path], files: Iterable[str]) -> Content:
        """As :func:`read`."""
        if self._pool is None:
            spawn = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, spawn, _limit, (os.getpid(),))
        # A process that starts would answer Ctrl-C with a traceback.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            task = self._pool.submit(_read_in_time, sources, tuple(files), self._seconds)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return task.result()
        except BrokenProcessPool:
            self._pool = None
            return _too_much(self._seconds)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _limit(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C ends it without a traceback
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    processes.die_with_parent(parent)
    limits.apply(Limits(cpu=1e9, memory_mb=MEMORY_MB))


def _read_in_time(sources: Sequence[Path], files: tuple[str, ...], seconds: float) -> Content:
    signal.setitimer(signal.ITIMER_REAL, seconds)  # without a handler it ends the process, wherever that is
    try:
        return read(sources, files)
    except MemoryError:
        return _too_much(seconds)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _too_much(seconds: float) -> Content:
    return Content({}, (f"it cannot be read in {seconds:g} s and {MEMORY_MB} MB of memory; nothing of it was read.",))


def is_archive(name: str) -> bool:
    """Whether a file's name says that it is an archive."""
    return name.lower().endswith(SUFFIXES)


def answer_in(name: str, files: Iterable[str]) -> str:
    """Which of the course's file names a name such as ``abelada_12_345_c00_first-1.py`` ends with; empty if none."""
    plain = _AGAIN.sub("", name)
    known = (PurePosixPath(file).name for file in files)
    return next((one for one in known if plain == one or plain.endswith(("_" + one, "-" + one, " " + one))), "")


def read(sources: Sequence[Path], files: Iterable[str]) -> Content:
    """The answer files of one submission.

    Args:
        sources: its folders, archives and single files; mostly one.
        files: the files that the course knows, relative to ``exercises/``. They are recognised by their last part, wherever they are.

    Raises:
        MemoryError: it needs too much.
    """
    found = _Reading(files)
    try:
        for source in sources:
            found.source(source, "it" if len(sources) == 1 else source.name)
    except TooMuch as error:
        return Content({}, (f"{error}; nothing of it was read.",))
    return found.content()


class _Reading:
    """What was found in one submission: of each of the course's files the copy that is most likely meant."""

    def __init__(self, files: Iterable[str]):
        self._known = {PurePosixPath(file).name: file for file in files}
        self._entries = self._bytes = self._sources = 0
        self._copies: Counter[str] = Counter()
        # file -> rank, content or why there is none
        self._best: dict[str, tuple[tuple[bool, bool, int, int, str], bytes | str]] = {}
        self._courses: list[tuple[str, ...]] = []  # folders with a course.toml
        self._problems: list[str] = []

    def content(self) -> Content:
        files: dict[str, str | Unreadable] = {}
        for file, ((aside, *_, path), data) in self._best.items():
            if self._of_course(PurePosixPath(path).parts[:-1]):
                continue
            if aside and "solutions" in PurePosixPath(path).parts:
                self._problems.append(f"{path} was graded: there is no other {PurePosixPath(file).name}.")
            if (copies := self._copies[file]) > 1:
                self._problems.append(f"{PurePosixPath(file).name} is in it {copies} times; {path} was graded.")
            if isinstance(data, str):
                files[file], note = Unreadable(data), f" cannot be read: {data}"
            else:
                files[file], note = decoded(data)
                note = note and f": {note}"
            if note:
                self._problems.append(f"{path}{note}.")
        if not files and not self._problems:
            self._problems.append("it holds none of the course's files.")
        return Content(files, tuple(self._problems))

    def source(self, path: Path, it: str) -> None:
        """A folder, archive or file of the submission, which messages call ``it``. Of what is spoiled nothing is taken."""
        self._sources += 1
        before = dict(self._best), self._copies.copy()
        try:
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                self._problems.append(f"{it} is not a folder or an archive.")
            elif path.is_dir():
                self.folder(path)
            elif is_archive(path.name):
                with open(path, "rb") as stream:
                    self.archive(stream)
            else:
                self._entry(path.name, functools.partial(_opened, str(path)), answer_in(path.name, self._known))
        except (TooMuch, MemoryError):
            raise
        except Exception as error:  # a barrier: what a spoiled archive raises is not documented
            self._best, self._copies = before
            self._problems.append(f"{it} cannot be read ({_why(error)}).")

    def folder(self, folder: Path) -> None:
        """Files of a folder, and where it holds no answer but archives, those of the archives: a platform's folder for one learner."""
        archives = []
        waiting = [(folder, PurePosixPath())]
        while waiting:
            place, inside = waiting.pop()
            if self._of_course(inside.parts):
                continue
            with os.scandir(place) as entries:
                for entry in entries:
                    self._count()
                    name = inside / entry.name
                    if entry.is_dir(follow_symlinks=False):
                        if len(name.parts) < MAX_DEPTH and not _left_out(entry.name):
                            waiting.append((Path(entry.path), name))
                    elif is_archive(entry.name) and entry.is_file(follow_symlinks=False):
                        archives.append(Path(entry.path))
                    else:
                        plain = entry.is_file(follow_symlinks=False)
                        why = "" if plain else _LINK if entry.is_symlink() else _SPECIAL
                        self._entry(str(name), why or functools.partial(_opened, entry.path))
        if not self._best:
            for path in sorted(archives):
                with open(path, "rb") as stream:
                    self.archive(stream)

    def archive(self, stream: IO[bytes], inner: bool = False) -> None:
        """Files of an archive, which is not unpacked, and where a zip archive holds no answer but archives, those of the archives."""
        if zipfile.is_zipfile(stream):
            archives = []
            with zipfile.ZipFile(stream) as archive:
                for info in archive.infolist():
                    self._count()
                    if info.is_dir():
                        continue
                    kind = stat.S_IFMT(info.external_attr >> 16)  # 0 where it comes from a system without such kinds
                    why = "" if kind in (0, stat.S_IFREG) else _LINK if kind == stat.S_IFLNK else _SPECIAL
                    name = info.filename.replace("\\", "/")
                    if is_archive(name) and not why and not any(map(_left_out, PurePosixPath(name).parts)):
                        archives.append(info)
                    self._entry(name, why or functools.partial(archive.open, info))
                for info in () if self._best or inner else archives:
                    data = self._loaded(functools.partial(archive.open, info), MAX_INNER)
                    if isinstance(data, str):
                        self._problems.append(f"{info.filename[:200]} cannot be read: {data}.")
                    else:
                        self.archive(io.BytesIO(data), inner=True)
            return
        stream.seek(0)
        # As a stream: nothing is sought, so nothing is decompressed twice.
        with tarfile.open(fileobj=stream, mode="r|*") as tar:
            for member in tar:
                self._count()
                if tar.offset > MAX_UNPACKED:  # where the next entry begins, as this one claims
                    raise TooMuch(f"it unpacks to more than {MAX_UNPACKED >> 20} MB")
                if not member.isdir():
                    why = _LINK if member.issym() or member.islnk() else "" if member.isfile() else _SPECIAL
                    self._entry(member.name, why or functools.partial(tar.extractfile, member))

    def _count(self) -> None:
        self._entries += 1
        if self._entries > MAX_ENTRIES:
            raise TooMuch(f"it holds more than {MAX_ENTRIES} files")

    def _entry(self, path: str, opened: _Opened, answer: str = "") -> None:
        """Look at an entry, and read it if it is the best copy so far of a file of the course: ``answer``, or one of its name."""
        *place, name = PurePosixPath(path).parts or ("",)
        if name == "course.toml":
            self._courses.append(tuple(place))
        if (name := answer or name) not in self._known:
            return
        if path.startswith("/") or ".." in place or ":" in (*place, name)[0]:
            if sum("outside" in problem for problem in self._problems) < 3:
                self._problems.append(f"{path[:200]} points outside of it and was left out.")
            return
        if any(map(_left_out, place)):
            return
        file, elsewhere = self._known[name], "exercises" not in place
        aside = elsewhere and not _OF_COURSE.isdisjoint(place)
        rank = (aside, elsewhere, len(place), -self._sources, path)
        self._copies[file] += not aside
        if file not in self._best or rank < self._best[file][0]:
            self._best[file] = rank, self._loaded(opened)

    def _of_course(self, place: tuple[str, ...]) -> bool:
        """Whether a folder is one of those in which the whole course, handed in with the answers, has its own files."""
        roots = (root for root in self._courses if place[: len(root)] == root)
        return any(not _OF_COURSE.isdisjoint(place[len(root) :][:1]) for root in roots)

    def _loaded(self, opened: _Opened, most: int = MAX_BYTES) -> bytes | str:
        if isinstance(opened, str):
            return opened
        try:
            with opened() as stream:
                data = stream.read(most + 1)
        except MemoryError:
            raise
        except Exception as error:  # a barrier, as in read
            return _why(error)
        self._bytes += len(data)
        if self._bytes > MAX_UNPACKED:
            raise TooMuch(f"it unpacks to more than {MAX_UNPACKED >> 20} MB")
        return data if len(data) <= most else f"it is larger than {most >> 20} MB"


def _left_out(folder: str) -> bool:
    return folder in ("__MACOSX", "__pycache__") or folder.startswith(".")


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or first_line(error)


def _opened(path: str) -> IO[bytes]:
    """A file, unless it has become a link since; one that has become a pipe is empty."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY), "rb")
