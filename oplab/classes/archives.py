"""Reads the course's answer files, and nothing else, out of a folder, a zip or tar archive, or a git repository.

Nothing is unpacked: files are recognised by their names and read into memory, at most 1 MB each, so an archive can neither write
anywhere nor fill a disk. What an archive may cost before it is given up is limited below.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import subprocess
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from oplab.classes.answers import Unreadable
from oplab.classes.texts import decoded
from oplab.grading.submitted import MAX_BYTES

MAX_ENTRIES = 20_000
MAX_UNPACKED = 256 << 20  # bytes of a compressed tar archive that are looked through
MAX_DEPTH = 12
SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
GIT_LIMIT = 300.0  # seconds
# The course has files of the same names there; a learner may hand in all of it.
_NOT_ANSWERS = {"solutions", "checks", "tests", "build", "oplab", "__MACOSX", "__pycache__"}
_SPOILED = (OSError, EOFError, ValueError, RuntimeError, NotImplementedError, zlib.error, lzma.LZMAError, struct.error)


@dataclass(frozen=True)
class Content:
    """What was read.

    Attributes:
        files: by the course's name for the file: its text, or why there is none.
        problems: the ends of sentences about the source, each with its full stop.
    """

    files: dict[str, str | Unreadable]
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Entry:
    """A file with the name of one that the course knows; ``data`` is a reason where it cannot be read."""

    path: str
    data: bytes | str


class TooMuch(Exception):
    """A source is larger than any honest submission. The message is the end of a sentence without its full stop."""


def is_archive(name: str) -> bool:
    """Whether a file's name says that it is an archive."""
    return name.lower().endswith(SUFFIXES)


def is_repository(folder: Path) -> bool:
    """Whether a folder is a git repository, with or without a working tree."""
    return (folder / ".git").exists() or ((folder / "HEAD").is_file() and (folder / "objects").is_dir())


def read(source: Path, files: Iterable[str]) -> Content:
    """The answer files in a folder, an archive or a repository; of a repository what its newest commit holds.

    Args:
        source: the folder or archive.
        files: the files that the course knows, relative to ``exercises/``. They are recognised by their last part, wherever they are.
    """
    known = {PurePosixPath(file).name: file for file in files}
    problems: list[str] = []
    try:
        if source.is_dir() and not source.is_symlink():
            entries = list(_git(source, known) if is_repository(source) else _folder(source, known, problems))
        elif source.is_symlink() or not source.is_file():
            return Content({}, ("it is not a folder or an archive.",))
        elif zipfile.is_zipfile(source):
            entries = list(_zip(source, known, problems))
        else:
            entries = list(_tar(source, known, problems))
    except TooMuch as error:
        return Content({}, (f"{error}; nothing of it was read.",))
    except (*_SPOILED, tarfile.TarError, zipfile.BadZipFile, subprocess.SubprocessError, MemoryError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return Content({}, (f"it cannot be read ({why.strip().splitlines()[0][:200]}).",))
    return _chosen(entries, known, problems)


def _chosen(entries: list[_Entry], known: dict[str, str], problems: list[str]) -> Content:
    """For each of the course's files the entry that is most likely meant, as text."""
    found: dict[str, str | Unreadable] = {}
    by_file: dict[str, list[_Entry]] = {}
    for entry in entries:
        by_file.setdefault(known[PurePosixPath(entry.path).name], []).append(entry)
    for file, candidates in by_file.items():
        candidates.sort(key=lambda entry: (*_rank(entry.path), entry.path))
        best = candidates[0]
        if len(candidates) > 1:
            problems.append(f"{PurePosixPath(file).name} is in it {len(candidates)} times; {best.path} was graded.")
        if isinstance(best.data, str):
            found[file] = Unreadable(best.data)
            problems.append(f"{best.path} cannot be read: {best.data}.")
        elif len(best.data) > MAX_BYTES:
            found[file] = Unreadable("it is larger than 1 MB")
            problems.append(f"{best.path} is larger than 1 MB.")
        else:
            found[file], note = decoded(best.data)
            if note:
                problems.append(f"{best.path}: {note}.")
    if not entries:
        problems.append("it holds none of the course's files.")
    return Content(found, tuple(problems))


def _rank(path: str) -> tuple[bool, int]:
    parts = PurePosixPath(path).parts[:-1]
    return "exercises" not in parts, len(parts)


def _wanted(path: str, known: dict[str, str], problems: list[str]) -> bool:
    """Whether a path in a source has the name of an answer, and is not one of those that lead out of the source."""
    parts = PurePosixPath(path).parts
    if not parts or parts[-1] not in known:
        return False
    if path.startswith("/") or ".." in parts or ":" in parts[0]:
        if sum("outside" in problem for problem in problems) < 3:
            problems.append(f"{path[:200]} points outside of it and was left out.")
        return False
    return not any(part in _NOT_ANSWERS or part.startswith(".") for part in parts)


def _folder(folder: Path, known: dict[str, str], problems: list[str]) -> Iterator[_Entry]:
    """Files of a folder, and where it holds no answer but archives, those of the archives: a platform's folder for one learner."""
    count, archives, found = 0, [], False
    waiting = [(folder, PurePosixPath())]
    while waiting:
        place, inside = waiting.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                count += 1
                if count > MAX_ENTRIES:
                    raise TooMuch(f"it holds more than {MAX_ENTRIES} files")
                name = inside / entry.name
                if entry.is_dir(follow_symlinks=False):
                    if (
                        len(name.parts) < MAX_DEPTH
                        and entry.name not in _NOT_ANSWERS
                        and not entry.name.startswith(".")
                    ):
                        waiting.append((Path(entry.path), name))
                elif _wanted(str(name), known, problems):
                    found = True
                    yield _Entry(str(name), _plain_file(entry.path))
                elif is_archive(entry.name) and entry.is_file(follow_symlinks=False):
                    archives.append(Path(entry.path))
    if found:
        return
    for path in sorted(archives):
        yield from _zip(path, known, problems) if zipfile.is_zipfile(path) else _tar(path, known, problems)


def _plain_file(path: str) -> bytes | str:
    """The first bytes of a file that is neither a link nor a device, or why there are none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        return "it is a link, and links are not followed" if os.path.islink(path) else (error.strerror or "no access")
    with open(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return "it is not a plain file"
        return stream.read(MAX_BYTES + 1)


def _zip(path: Path, known: dict[str, str], problems: list[str]) -> Iterator[_Entry]:
    if _entries_of_zip(path) > MAX_ENTRIES:  # zipfile would make an object for each
        raise TooMuch(f"it holds more than {MAX_ENTRIES} files")
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            name = info.filename.replace("\\", "/")
            if info.is_dir() or not _wanted(name, known, problems):
                continue
            if stat.S_ISLNK(info.external_attr >> 16):
                yield _Entry(name, "it is a link, and links are not followed")
                continue
            try:
                with archive.open(info) as stream:
                    yield _Entry(name, stream.read(MAX_BYTES + 1))
            except (*_SPOILED, zipfile.BadZipFile) as error:
                yield _Entry(name, str(error).strip().splitlines()[0][:200] if str(error).strip() else "it is damaged")


def _entries_of_zip(path: Path) -> int:
    """The number of entries that the end of a zip archive names; 65535 where it needs the larger format."""
    with open(path, "rb") as stream:
        stream.seek(0, os.SEEK_END)
        stream.seek(-min(stream.tell(), (1 << 16) + 22), os.SEEK_END)
        end = stream.read()
    place = end.rfind(b"PK\5\6")
    return struct.unpack_from("<H", end, place + 10)[0] if 0 <= place <= len(end) - 22 else 0


def _tar(path: Path, known: dict[str, str], problems: list[str]) -> Iterator[_Entry]:
    with open(path, "rb") as raw:
        stream = _Limited(_decompressed(raw))
        # A stream that is read once, from its beginning: nothing is sought, so nothing is decompressed twice.
        with tarfile.open(fileobj=stream, mode="r|") as archive:  # type: ignore[call-overload]
            for count, member in enumerate(archive, start=1):
                if count > MAX_ENTRIES:
                    raise TooMuch(f"it holds more than {MAX_ENTRIES} files")
                archive.members = []  # a stream keeps a list of all that it has passed
                if member.isdir() or not _wanted(member.name, known, problems):
                    continue
                if member.issym() or member.islnk():
                    yield _Entry(member.name, "it is a link, and links are not followed")
                elif not member.isfile():
                    yield _Entry(member.name, "it is not a plain file")
                elif member.size > MAX_BYTES:
                    yield _Entry(member.name, "it is larger than 1 MB")
                else:
                    content = archive.extractfile(member)
                    yield _Entry(member.name, content.read(MAX_BYTES + 1) if content else b"")


def _decompressed(raw: BinaryIO) -> BinaryIO:
    start = raw.read(6)
    raw.seek(0)
    if start.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=raw)  # type: ignore[return-value]
    if start.startswith(b"BZh"):
        return bz2.BZ2File(raw)  # type: ignore[return-value]
    if start.startswith(b"\xfd7zXZ"):
        return lzma.LZMAFile(raw)  # type: ignore[return-value]
    return raw


class _Limited(io.RawIOBase):
    """A stream that gives up after MAX_UNPACKED bytes."""

    def __init__(self, stream: BinaryIO):
        self._stream, self._left = stream, MAX_UNPACKED

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(min(size, 1 << 20) if size >= 0 else 1 << 20)
        self._left -= len(data)
        if self._left < 0:
            raise TooMuch(f"it unpacks to more than {MAX_UNPACKED >> 20} MB")
        return data


# --- git --------------------------------------------------------------------------------------------------------------


def git(*arguments: str, folder: Path | None = None, limit: float = GIT_LIMIT) -> bytes:
    """What a git command prints. No hook, filter, pager or helper of the repository runs, and it asks no question.

    Raises:
        subprocess.SubprocessError: it failed or took too long.
        OSError: there is no git.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    safe = [
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "safe.directory=*",
        "-c",
        "protocol.ext.allow=never",
    ]
    where = ["-C", str(folder)] if folder is not None else []
    done = subprocess.run(
        ["git", *safe, "--no-pager", *where, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=env,
        timeout=limit,
    )
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["git failed"]
        raise subprocess.SubprocessError(lines[-1])
    return done.stdout


def clone(url: str, folder: Path) -> None:
    """A copy of the newest commit of a repository, without a working tree.

    Raises:
        subprocess.SubprocessError: it cannot be cloned.
        OSError: there is no git.
    """
    git("clone", "--quiet", "--bare", "--depth", "1", "--no-tags", "--", url, str(folder))


def commit(folder: Path) -> tuple[str, str]:
    """The short hash and the time, in ISO 8601, of a repository's newest commit; empty texts where it has none."""
    try:
        short, _, at = git("log", "-1", "--format=%h %cI", "HEAD", "--", folder=folder).decode().strip().partition(" ")
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return "", ""
    return short, at


def _git(folder: Path, known: dict[str, str]) -> Iterator[_Entry]:
    listed = git("ls-tree", "-r", "-l", "-z", "--full-tree", "HEAD", folder=folder).split(b"\0")
    if len(listed) > MAX_ENTRIES:
        raise TooMuch(f"it holds more than {MAX_ENTRIES} files")
    for line in filter(None, listed):
        about, _, raw = line.partition(b"\t")
        mode, _, sha, size = about.split()
        name = raw.decode("utf-8", "replace")
        if not _wanted(name, known, []):
            continue
        if mode == b"120000":
            yield _Entry(name, "it is a link, and links are not followed")
        elif mode == b"160000" or int(size) > MAX_BYTES:
            yield _Entry(name, "it is larger than 1 MB or not a plain file")
        else:
            yield _Entry(name, git("cat-file", "blob", sha.decode(), folder=folder))
