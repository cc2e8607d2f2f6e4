"""Compiles one C++ file, an exercise or your own operator: from a text that was read once, confined, once for each content.

Where the kernel has Landlock, the compiler can read the toolchain, the headers of the libraries, ``csrc`` and the folder of the file,
and write its own scratch folder. Elsewhere the list of what it has read decides afterwards.

A library is kept together with a record: its digest, and the digests of the project's files that the compiler has read for it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from oplab import paths
from oplab.errors import OplabError
from oplab.files import write_atomically
from oplab.toolchain import cache as caches
from oplab.toolchain import landlock
from oplab.toolchain.compile import compile_files, exercise_cache, files_read
from oplab.toolchain.compiler import Compiler, find_compiler
from oplab.toolchain.diagnostics import NOT_INCLUDED, BuildFailed, mentioned, shown
from oplab.toolchain.precompiled import precompiled
from oplab.toolchain.recipes import Kind, Recipe, Sanitizer, chosen, pieces_source, recipe
from oplab.toolchain.sanitizer import sanitizer_env

# Where toolchains are, on Linux and macOS. Of /etc only what the linker reads.
_SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix", "/dev/urandom"),
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/Library", "/Applications", "/System"),
)
# Variables with folders that compilers search in addition to their own.
_SEARCHED = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "LD_LIBRARY_PATH")
_HIDDEN = ("solutions", "oplab", "tests", ".git")  # of a course that is inside of one of those folders
_VARIANTS = 8  # libraries of one text that a record keeps: with other headers it is another library


@dataclass(frozen=True)
class Compiled:
    """A compiled file.

    Attributes:
        library: the shared library, or the program.
        read: the files of the project that the compiler has read for it, besides the source: headers of ``csrc``, neighbours.
    """

    library: Path
    read: tuple[Path, ...]


def compile_library(
    source: Path,
    kind: Kind,
    *,
    sanitize: bool | Sanitizer = False,
    cache: Path | None = None,
    timeout: float = 300.0,
    headers: Path | None = None,
    starting: Callable[[], object] = lambda: None,
) -> Path:
    """The shared library, or the program, made from one C++ file; compiled once for each content.

    Args:
        source: the C++ file. It may include the headers of ``csrc`` and its neighbours.
        kind: ``torch`` for a library of operators on PyTorch's stable ABI, ``ort`` for one of kernels for ONNX Runtime, ``openvino``
            for one of OpenVINO's extensions, ``cpp`` for one of C functions, ``host`` for a program that runs models with ONNX Runtime.
        sanitize: compile with AddressSanitizer and UndefinedBehaviorSanitizer. The process that loads the library must
            be started with :func:`sanitizer_env`. ``"thread"`` is ThreadSanitizer, for :func:`compile_driver`; ``"pieces"``
            is for :class:`oplab.checks.schedules.WatchedSession`.
        cache: where libraries are kept; ``build/cache/exercises`` by default. Several processes may share it.
        timeout: seconds that the compiler may take.
        headers: the folder of a project's copies of ``csrc``'s headers, below that of the source; ``csrc`` is not used then.
        starting: called before the compiler is, and not at all where the library is in the cache.

    Raises:
        BuildFailed: the file does not compile or link, takes longer than ``timeout``, or includes what it may not.
        OplabError: the file, the compiler or the headers are missing.
    """
    source = Path(source)
    if not source.is_file():
        raise OplabError(f"There is no C++ file {shown(source)}.", "Restore it, or correct the path.")
    text = source.read_bytes()
    return compiled(
        source, text, kind, sanitize=sanitize, cache=cache, timeout=timeout, headers=headers, starting=starting
    ).library


def compiled(
    source: Path,
    text: bytes,
    kind: Kind,
    *,
    sanitize: bool | Sanitizer = False,
    cache: Path | None = None,
    timeout: float = 300.0,
    headers: Path | None = None,
    starting: Callable[[], object] = lambda: None,
) -> Compiled:
    """As :func:`compile_library`, whose other arguments these are, from a text that was read earlier.

    Args:
        source: where the text comes from. Messages name it, and what is next to it can be included; it is not read again.
        text: what is compiled.
    """
    compiler, how = find_compiler(), recipe(kind)
    if headers:
        how = how.with_headers(headers.resolve())
    own = [pieces_source()] if sanitize == "pieces" else []
    key = _key(compiler, how, source, text, own, sanitize)
    folder = paths.created(cache or exercise_cache())
    record = folder / f"{source.stem}-{key}.json"
    if found := _kept(record, source):
        return found
    starting()
    if chosen(sanitize) == "address":
        sanitizer_env()  # no sanitizer on this machine is not the source's fault: it raises its own OplabError
    # A project's flags have its path in them: its precompiled headers would take the place of the course's.
    ready = None if headers else precompiled(compiler, how, text, sanitize=sanitize)
    with caches.scratch(folder) as scratch:
        copy = scratch / "copy" / source.name
        copy.parent.mkdir()
        name = str(source.resolve()).replace("\\", "\\\\").replace('"', '\\"')
        copy.write_bytes(f'#line 1 "{name}"\n'.encode("utf-8", "surrogateescape") + text.removeprefix(b"\xef\xbb\xbf"))
        made = scratch / f"{source.stem}-made{how.suffix}"
        readable = [
            *_readable(compiler, how, headers),
            str(source.resolve().parent),
            *_files_of(how, own, compiler, sanitize),
        ]
        if ready:
            readable.append(str(ready.folder))

        def confined(command: list[str]) -> list[str]:
            return landlock.command(readable, [str(scratch)], command) if landlock.abi() else command

        try:
            compile_files(
                [copy, *own],
                how,
                compiler,
                scratch,
                made,
                sanitize=sanitize,
                timeout=timeout,
                copy_of=source,
                first=ready.folder if ready else None,
                around=confined,
            )
        except BuildFailed as error:
            _expect_inside(mentioned(error.full_log), [*readable, str(scratch)], source)
            raise
        read = [*files_read(scratch), *(ready.read if ready else ())]
        _expect_inside(read, [*readable, str(scratch)], source)
        return _keep(record, key, made, how.suffix, source, read, scratch)


def _key(
    compiler: Compiler, how: Recipe, source: Path, text: bytes, own: Sequence[Path], sanitize: bool | Sanitizer
) -> str:
    """20 hexadecimal digits that differ where the compiler is given something else: its flags, the text, the name."""
    return caches.digest(
        *(caches.FORMAT, compiler.identity, how.versions, str(chosen(sanitize))),
        *how.compile_command(compiler, sanitize=sanitize),
        # Without its folder: a project that was moved or copied is not compiled again. What the script says counts below.
        *(flag.replace(str(source.resolve().parent), "") for flag in how.link_flags(compiler, sanitize=sanitize)),
        str(source.resolve()) if sanitize else source.name,  # a sanitizer's report names the file with its path
        text,
        *(Path(file).read_bytes() for file in _files_of(how, own, compiler, sanitize) if os.path.isfile(file)),
    )


def _files_of(how: Recipe, own: Sequence[Path], compiler: Compiler, sanitize: bool | Sanitizer) -> list[str]:
    """Files that the commands name besides the source: ours that are compiled with it, and the linker's version script."""
    scripts = [flag.partition("version-script=")[2] for flag in how.link_flags(compiler, sanitize=sanitize)]
    return [*map(str, own), *filter(None, scripts)]


def _kept(record: Path, source: Path) -> Compiled | None:
    """What the cache has for this text, if all that was read for it is as it was then, and so is the library."""
    try:
        variants = json.loads(record.read_bytes())["variants"]
        for variant in variants:
            read = {_place(name, source): digest for name, digest in variant["read"].items()}
            library = record.parent / variant["library"]
            if (
                all(_digest(file) == digest for file, digest in read.items())
                and _nearer(variant["names"], read, source) == variant["nearer"]
                and _digest(library) == variant["digest"]
            ):
                with contextlib.suppress(OSError):
                    os.utime(library)  # the oldest go first when the cache is trimmed
                    os.utime(record)
                return Compiled(library, tuple(read))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # there is none, or it is not ours
    return None


def _keep(
    record: Path, key: str, made: Path, suffix: str, source: Path, names: Sequence[str], scratch: Path
) -> Compiled:
    """Put a library and its record into the cache."""
    ours = [str((paths.root() / "csrc").resolve()), str(source.resolve().parent)]
    found = {os.path.realpath(name) for name in names}
    found = {name for name in found if not landlock.within(name, [os.path.realpath(scratch)])}
    read = {Path(name) for name in found if landlock.within(name, ours)}
    digests = {_name(file, source): _digest(file) for file in sorted(read)}
    parts = sorted({part for name in found for part in Path(name).parts})
    library = record.parent / f"{source.stem}-{caches.digest(key, *map(str, digests.items()))}{suffix}"
    variant = {
        "library": library.name,
        "digest": _digest(made),
        "read": digests,
        "names": parts,
        "nearer": _nearer(parts, read, source),
    }
    os.replace(made, library)
    try:
        others = [entry for entry in json.loads(record.read_bytes())["variants"] if entry["library"] != library.name]
    except (OSError, ValueError, KeyError, TypeError):
        others = []
    write_atomically(record, json.dumps({"variants": [variant, *others[: _VARIANTS - 1]]}), sync=False)
    caches.trim(record.parent)
    return Compiled(library, tuple(sorted(read)))


def _nearer(names: Iterable[str], read: Iterable[Path], source: Path) -> list[str]:
    """What is in the folders that are searched first and has a name that an include could have meant.

    The compiler's list says what was found, and not what would have come before it: a new file there can change the result.
    """
    wanted, found = set(names), set()
    for folder in {source.resolve().parent, *(file.parent for file in read)}:
        with contextlib.suppress(OSError):
            found |= {_name(folder / name, source) for name in wanted.intersection(os.listdir(folder))}
    return sorted(found)


def _name(file: Path, source: Path) -> str:
    """A path as records have it: that of a neighbour is relative to the source, so that a copy of both finds the library too."""
    return os.path.relpath(file, folder) if file.is_relative_to(folder := source.resolve().parent) else str(file)


def _place(name: str, source: Path) -> Path:
    return source.resolve().parent / name


def _digest(file: Path) -> str | None:
    try:
        return caches.digest(file.read_bytes())
    except OSError:
        return None


def _expect_inside(names: Iterable[str], allowed: Sequence[str], source: Path) -> None:
    """Refuse files outside of the folders ``allowed``; none of their lines is in the message."""
    allowed = [os.path.realpath(place) for place in allowed]
    for name in names:
        if name.startswith("/") and not landlock.within(os.path.realpath(name), allowed):
            raise BuildFailed(f"{shown(source)}: error: {name} {NOT_INCLUDED}", source, None, "", "")


def _readable(compiler: Compiler, how: Recipe, headers: Path | None) -> list[str]:
    """The folders that a compiler needs, and those whose headers a file may include, besides its own."""
    named = [re.sub(r"^-(?:isystem|I|L)", "", flag) for flag in (*how.flags, *how.link)]
    named = [name for flag, name in zip((*how.flags, *how.link), named, strict=True) if name != flag]
    searched = [part for variable in _SEARCHED for part in os.environ.get(variable, "").split(os.pathsep) if part]
    programs = _programs(compiler.command)
    root = paths.root().resolve()
    places = [*_SYSTEM, *programs, *named, *searched, str(headers or root / "csrc")]
    hidden = [*(str(root / part) for part in _HIDDEN), str(paths.PACKAGE)]
    return [kept for place in dict.fromkeys(places) for kept in landlock.around(place, hidden)]


@functools.cache
def _programs(command: tuple[str, ...]) -> tuple[str, ...]:
    """Where the compiler is, with and without links, which can be in a home folder: all of its installation, or its folder."""
    folders = [
        Path(place).parent for word in command if os.path.isabs(word) for place in (word, os.path.realpath(word))
    ]
    return tuple(str(folder.parent if folder.name == "bin" else folder) for folder in folders)
