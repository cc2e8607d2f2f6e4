"""The cache of compiled files: keys that change with the content, folders for half-made files, one build at a time."""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from oplab import files, paths
from oplab.errors import OplabError
from oplab.toolchain.compiler import Compiler
from oplab.toolchain.recipes import Recipe, Sanitizer, chosen

KEEP = 400  # files that the cache holds: compiled exercises and their records
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]', re.MULTILINE)
FORMAT = "4"  # part of every key: raise it when the meaning of a key changes


def key(compiler: Compiler, how: Recipe, sources: Sequence[Path], *, sanitize: bool | Sanitizer) -> str:
    """20 hexadecimal digits that differ where the compiled file may differ.

    They depend on the compiler, its flags, the content of the sources and of the project's headers that they include, and
    the versions of the libraries. The folder of a source counts only with a sanitizer.
    """
    parts: list[str | bytes] = [FORMAT, compiler.identity, how.versions, str(chosen(sanitize))]
    flags = [*how.compile_command(compiler, sanitize=sanitize), *how.link_flags(compiler, sanitize=sanitize)]
    # A course that was moved or copied is not compiled again, but where the file itself has the folder.
    parts += [flag if "rpath" in flag else flag.replace(str(paths.root()), "") for flag in flags]
    if sanitize:
        parts += [str(source.resolve()) for source in sources]  # a report names the file with its path
    for file in _with_headers(sources, how.includes):
        parts += [file.name, file.read_bytes()]
    return digest(*parts)


def digest(*parts: str | bytes) -> str:
    """20 hexadecimal digits of these parts, each with its length."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "little") + data)
    return found.hexdigest()[:20]


def _with_headers(sources: Sequence[Path], includes: Sequence[Path]) -> list[Path]:
    """The sources and every header of the project that they include, directly or through another."""
    seen: dict[Path, None] = {}
    waiting = [source.resolve() for source in sources if source.is_file()]
    while waiting:
        file = waiting.pop(0)
        if file in seen:
            continue
        seen[file] = None
        for name in _INCLUDE.findall(file.read_text(errors="replace")):
            for folder in (file.parent, *includes):
                header = (folder / name).resolve()
                if header.is_file():
                    waiting.append(header)
                    break
    return list(seen)


@contextlib.contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A folder for half-made files, on the disk where the result goes. One that a killed build left is removed."""
    for old in folder.glob(".making-*"):
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > 3600:
                shutil.rmtree(old, ignore_errors=True)
    try:
        made = Path(tempfile.mkdtemp(prefix=".making-", dir=folder))
    except OSError as error:
        raise OplabError(
            f"{folder} cannot be written: {error.strerror}.", "Make it writable, or free some space on the disk."
        ) from None
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def one_build(file: Path, say: Callable[[str], object] = lambda line: None) -> Iterator[None]:
    """One build at a time: holds the lock ``file``, and says so if it has to wait for another build."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(files.lock(file, lambda _: say("Another build is running; waiting for it to end.")))
        except OSError as error:
            raise OplabError(f"{file} cannot be written: {error.strerror}.", "Make the folder writable.") from None
        yield


def trim(folder: Path) -> None:
    """Keeps the cache small: removes the files that were used longest ago, never one that was used today."""
    try:
        made = [file for file in folder.glob("*-*") if file.is_file()]  # libraries, programs, records
        used = sorted((file.stat().st_mtime, file) for file in made if not file.is_symlink())
    except OSError:
        return  # another process is trimming
    for when, file in used[: max(0, len(used) - KEEP)]:
        if time.time() - when > 24 * 3600:
            file.unlink(missing_ok=True)
