"""Compiles the course's operators and host program (``python -m oplab.toolchain.build``) and learners' C++ exercises.

Nothing here imports torch or onnxruntime: a build that has nothing to do ends in a fraction of a second. What is made is
put in its place by one rename, so a build that is killed leaves what was there before.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from oplab import files, paths
from oplab.errors import OplabError
from oplab.toolchain.compiler import OWN_SOURCES_TIMEOUT, Compiler, Outcome, find_compiler, run
from oplab.toolchain.diagnostics import BuildFailed, build_failed, shown
from oplab.toolchain.headers import find as find_headers
from oplab.toolchain.recipes import (
    KINDS,
    SUFFIX,
    Kind,
    Recipe,
    Sanitizer,
    chosen,
    host_folder,
    host_recipe,
    kernels_path,
    ort_runtime,
    ort_runtime_names,
    pieces_source,
    recipe,
    source_folder,
)
from oplab.toolchain.sanitizer import sanitizer_env

__all__ = [
    "BuildFailed",
    "build_all",
    "compile_driver",
    "compile_exercise",
    "compile_host_sanitized",
    "compile_sanitized",
    "host_path",
    "library_path",
    "log_path",
    "main",
    "sanitizer_env",
]

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^">]+)[">]', re.MULTILINE)
_FORMAT = "3"  # part of every cache key: raise it when the meaning of a key changes
_KEEP = 200  # compiled exercises that the cache holds


def log_path(kind: Kind | Literal["host"]) -> Path:
    """What the compiler printed when that part of ``csrc`` was compiled last: ``build/lib/ort_ops.log``. Warnings are in it."""
    return paths.build_dir() / "lib" / f"{'host' if kind == 'host' else f'{kind}_ops'}.log"


def library_path(kind: Kind) -> Path:
    """Where the course's own library of one kind is, or will be: ``build/lib/oplab_torch_ops.so``."""
    return paths.build_dir() / "lib" / f"oplab_{kind}_ops{SUFFIX}"


def compiled_library(kind: Kind) -> Path:
    """The course's own library of one kind.

    Raises:
        OplabError: it is not compiled.
    """
    library = library_path(kind)
    if not library.is_file():
        raise OplabError(
            f"The course's operators are not compiled: {library} is missing.",
            "Run `make setup` in the course's folder.",
        )
    return library


def host_path() -> Path:
    """Where the program made from ``csrc/host`` is, or will be: ``build/lib/oplab_host``."""
    return paths.build_dir() / "lib" / "oplab_host"


def compile_exercise(
    source: Path, kind: Kind, *, sanitize: bool | Sanitizer = False, cache: Path | None = None, timeout: float = 300.0
) -> Path:
    """The shared library made from a one-file C++ exercise; compiled once for each content.

    Args:
        source: the C++ file. It may include the headers of ``csrc/torch_ops`` or ``csrc/ort_ops`` and its neighbours.
        kind: ``torch`` for a library of operators on PyTorch's stable ABI, ``ort`` for one of kernels for ONNX Runtime.
        sanitize: compile with AddressSanitizer and UndefinedBehaviorSanitizer. The process that loads the library must
            be started with :func:`sanitizer_env`. ``"thread"`` is ThreadSanitizer, for :func:`compile_driver`; ``"pieces"``
            is for :class:`oplab.checks.schedules.WatchedSession`.
        cache: where libraries are kept; ``build/cache/exercises`` by default. Several processes may share it.
        timeout: seconds that the compiler may take.

    Raises:
        BuildFailed: the file does not compile or link, or takes longer than ``timeout``.
        OplabError: there is no file, no compiler, or no headers.
    """
    source = Path(source)
    if not source.is_file():
        raise OplabError(f"There is no C++ file {shown(source)}.", "Restore it, or correct the path.")
    sources = [source, pieces_source()] if sanitize == "pieces" else [source]
    return _cached(sources, (), f"{source.stem}-*{SUFFIX}", recipe(kind), sanitize, cache or _exercise_cache(), timeout)


def compile_sanitized(kind: Kind, sanitizer: Sanitizer = "address") -> Path:
    """The course's own library of one kind, compiled with a sanitizer as ``compile_exercise(sanitize=...)`` does."""
    sources, cache = sorted(source_folder(kind).glob("*.cpp")), _exercise_cache()
    # It takes half a minute, and several tests want it at once: one makes it, the others wait.
    with _lock(_folder(cache) / f".{kind}-{sanitizer}.lock", lambda line: None):
        return _cached(sources, (), f"oplab_{kind}_ops-*{SUFFIX}", recipe(kind), sanitizer, cache, 300.0)


def compile_host_sanitized() -> Path:
    """The program of ``csrc/host``, compiled with the sanitizers. Start it with :func:`sanitizer_env`.

    The kernels in it are compiled without: for those there is :func:`compile_sanitized`.

    Raises:
        OplabError: the kernels are not compiled.
    """
    kernels = kernels_path()
    if not kernels.is_file():
        raise OplabError(f"The kernels are not compiled: {shown(kernels)} is missing.", "Run `make setup`.")
    sources = sorted(host_folder().glob("*.cpp"))
    program = _cached(sources, (kernels,), "oplab_host-*", host_recipe(), True, _exercise_cache(), 300.0)
    _link_runtime(program.parent)
    return program


def compile_driver(source: Path, sanitizer: Sanitizer) -> Path:
    """A program on ONNX Runtime's C++ API, compiled with a sanitizer, that loads ONNX Runtime and kernels when it runs.

    Python cannot be the process that ThreadSanitizer and LeakSanitizer watch: both want a program that was linked with them.

    Args:
        source: the C++ file with ``main``.
        sanitizer: the one that the kernels it loads were compiled with.
    """
    compiler, how = find_compiler(), recipe("ort")
    key = _key(compiler, how, [source], sanitize=sanitizer)
    folder = _folder(_exercise_cache())
    program = folder / f"{source.stem}-{key}"
    if not program.is_file():
        with _scratch(folder) as scratch:
            made = scratch / program.name
            command = [*how.compile_command(compiler, sanitize=sanitizer), str(source.resolve()), "-o", str(made)]
            _must_succeed(
                run([*command, "-pthread", "-ldl"], timeout=OWN_SOURCES_TIMEOUT, cwd=scratch),
                source,
                OWN_SOURCES_TIMEOUT,
            )
            os.replace(made, program)
    return program


def _exercise_cache() -> Path:
    return paths.build_dir() / "cache" / "exercises"


def _cached(
    sources: list[Path],
    linked: Sequence[Path],
    name: str,
    how: Recipe,
    sanitize: bool | Sanitizer,
    cache: Path,
    timeout: float,
) -> Path:
    """A compiled file of the cache; the star in ``name`` stands for its key, of which what is ``linked`` is a part."""
    compiler = find_compiler()
    key = _key(compiler, how, [*sources, *linked], sanitize=sanitize)
    folder = _folder(cache)
    library = folder / name.replace("*", key)
    if library.is_file():
        with contextlib.suppress(OSError):
            os.utime(library)  # the oldest go first when the cache is trimmed
        return library
    if chosen(sanitize) == "address":
        sanitizer_env()  # no sanitizer on this machine is not the source's fault: it raises an OplabError of its own
    with _scratch(folder) as scratch:
        made = scratch / library.name
        _compile(sources, how, compiler, scratch, made, sanitize=sanitize, timeout=timeout)
        os.replace(made, library)
    _trim(folder)
    return library


@dataclass(frozen=True)
class _Product:
    """One folder of ``csrc`` and the file that is made from it.

    Attributes:
        folder: the folder, and CMake's project where ``cmake`` says so.
        sources: the C++ files that the compiler is called for where CMake is not used.
        watched: the files whose content decides whether it is up to date; the headers that they include count too.
        file: what is made. CMake's project makes it under the same name.
        archive: where its object files are kept for others too, or None; CMake makes it under the same name.
        definitions: what CMake is told besides the headers.
    """

    folder: Path
    sources: tuple[Path, ...]
    watched: tuple[Path, ...]
    file: Path
    how: Recipe
    cmake: bool
    archive: Path | None = None
    definitions: tuple[str, ...] = ()


def _products() -> list[_Product]:
    made = []
    for kind in KINDS:
        folder = source_folder(kind)
        all_files = tuple(sorted(folder.glob("*")))
        sources = tuple(sorted(folder.glob("*.cpp")))
        archive = kernels_path() if kind == "ort" else None
        made.append(_Product(folder, sources, all_files, library_path(kind), recipe(kind), kind == "ort", archive))
    # Last: it links the archive of the kernels.
    folder = host_folder()
    watched = (*sorted(folder.glob("*")), *sorted(source_folder("ort").glob("*")))
    linked = (f"-DORT_KERNELS={kernels_path()}", f"-DORT_LIBRARY={ort_runtime()}")
    sources = tuple(sorted(folder.glob("*.cpp")))
    made.append(_Product(folder, sources, watched, host_path(), host_recipe(), True, definitions=linked))
    return made


def build_all(*, say=print) -> bool:
    """Compiles ``csrc/torch_ops``, ``csrc/ort_ops`` and ``csrc/host`` into ``build/lib`` where something changed.

    Args:
        say: called with each line of progress.

    Returns:
        True if something was compiled.

    Raises:
        OplabError: the compiler, a header or a source file is at fault.
    """
    folder = _folder(paths.build_dir() / "lib")
    with _lock(folder / ".lock", say):
        compiler = find_compiler()
        find_headers(say=say)  # says what it does when they have to be fetched
        _link_runtime(folder)
        stale = []
        for product in _products():
            key = _key(compiler, product.how, product.watched, sanitize=False)
            if not _is_current(product.file, key) or (product.archive and not product.archive.is_file()):
                stale.append((product, key))
        if not stale:
            say("The operators in build/lib are up to date.")
            return False
        say(f"The compiler is {compiler}.")
        for number, (product, key) in enumerate(stale, start=1):
            start = time.monotonic()
            say(f"[{number}/{len(stale)}] Compiling csrc/{product.folder.name} ...")
            way = _build_product(product, compiler, folder)
            _stamp(product.file).write_text(json.dumps({"key": key, "size": product.file.stat().st_size}))
            say(f"[{number}/{len(stale)}] {shown(product.file)} is ready: {time.monotonic() - start:.1f} s, {way}.")
        return True


def _build_product(product: _Product, compiler: Compiler, folder: Path, timeout: float = OWN_SOURCES_TIMEOUT) -> str:
    """Compiles one folder of ``csrc`` and puts what is made in its place. Returns how, for the reader."""
    cmake = _cmake() if product.cmake else None
    with _scratch(folder) as scratch:
        made = scratch / product.file.name
        archive = scratch / product.archive.name if product.archive else None
        if cmake and _configure(cmake, product, compiler, scratch, timeout):
            log = _build_with_cmake(cmake, product, scratch, timeout)
            way = "with CMake"
        else:
            log = _compile(
                list(product.sources), product.how, compiler, scratch, made, archive=archive, timeout=timeout
            )
            way = "one call of the compiler for each file"
        log_path(product.how.kind).write_text(log)
        if archive and product.archive:
            os.replace(archive, product.archive)
        os.replace(made, product.file)
    return way


def _link_runtime(folder: Path) -> None:
    """Links to ONNX Runtime's library, beside a program that looks for it in its own folder when it starts.

    The library is inside the installed package: a link is made again when the package has become another.
    """
    runtime = ort_runtime()
    for name in ort_runtime_names(runtime):
        link = folder / name
        if link.is_symlink() and os.readlink(link) == str(runtime):
            continue
        fresh = folder / f".{name}.{os.getpid()}"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(runtime)
        os.replace(fresh, link)


def _compile(
    sources: list[Path],
    how: Recipe,
    compiler: Compiler,
    scratch: Path,
    made: Path,
    *,
    sanitize: bool | Sanitizer = False,
    archive: Path | None = None,
    timeout: float = OWN_SOURCES_TIMEOUT,
) -> str:
    """Compiles sources to one file: one call for one source, else a call for each and one to link. Returns what they printed.

    Args:
        archive: where the object files are to be kept, in a static library.
    """
    compile_command = how.compile_command(compiler, sanitize=sanitize)
    link = ["-o", str(made), *how.link_flags(compiler, sanitize=sanitize)]

    printed: list[str] = []

    def call(command: list[str], source: Path) -> None:
        done = run(command, timeout=timeout, cwd=scratch)
        _must_succeed(done, source, timeout)
        printed.append(done.log)

    def near(source: Path) -> str:
        # __FILE__ is the name alone, so that messages are short and the same content gives the same library anywhere.
        return f"-fmacro-prefix-map={source.resolve().parent}/="

    if len(sources) == 1 and not archive:
        call([*compile_command, near(sources[0]), str(sources[0].resolve()), *link], sources[0])
        return "".join(printed)

    def to_object(source: Path) -> str:
        target = str(scratch / f"{source.stem}.o")
        call([*compile_command, near(source), "-c", str(source.resolve()), "-o", target], source)
        return target

    with ThreadPoolExecutor(min(len(sources), os.cpu_count() or 1, 4)) as pool:
        jobs = [pool.submit(to_object, source) for source in sources]
        try:
            wait(jobs, return_when=FIRST_EXCEPTION)
        finally:
            # What is compiled is waited for, what is not begun yet is left out.
            pool.shutdown(wait=True, cancel_futures=True)
        for job in jobs:
            if not job.cancelled() and (error := job.exception()):
                raise error
        objects = [job.result() for job in jobs]
    if archive:
        # The compiler knows the archiver that fits its object files.
        archiver = run([*compiler.command, "-print-prog-name=ar"], timeout=30).log.strip() or "ar"
        call([archiver, "rcs", str(archive), *objects], sources[0])
    call([*compiler.command, *objects, *link], sources[0])
    return "".join(printed)


def _configure(cmake: str, product: _Product, compiler: Compiler, scratch: Path, timeout: float) -> bool:
    """Whether CMake could set up its build. Where it cannot (no make, a broken CMake), the same flags work without it."""
    headers = next(flag.removeprefix("-isystem") for flag in product.how.flags if flag.startswith("-isystem"))
    command = [
        cmake,
        *("-S", str(product.folder), "-B", str(scratch / "cmake")),
        f"-DORT_INCLUDE_DIR={headers}",
        *product.definitions,
        f"-DCMAKE_CXX_COMPILER={';'.join(compiler.command)}",
        # Flags of the environment would make a file that its cache key does not describe.
        *("-DCMAKE_CXX_FLAGS=", "-DCMAKE_SHARED_LINKER_FLAGS=", "-DCMAKE_EXE_LINKER_FLAGS="),
    ]
    return run(command, timeout=timeout, cwd=scratch, limited=False).returncode == 0


def _build_with_cmake(cmake: str, product: _Product, scratch: Path, timeout: float) -> str:
    command = [cmake, "--build", str(scratch / "cmake"), "--parallel", str(min(os.cpu_count() or 1, 4))]
    done = run(command, timeout=timeout, cwd=scratch, limited=False)
    entry = next(file for file in product.sources if file.name in ("main.cpp", "register.cpp"))
    _must_succeed(done, entry, timeout)
    for made in filter(None, (product.file, product.archive)):
        os.replace(scratch / "cmake" / made.name, scratch / made.name)
    return done.log


def _cmake() -> str | None:
    """CMake from the PATH, or the one that pip put beside this Python."""
    return shutil.which("cmake") or shutil.which("cmake", path=str(Path(sys.executable).parent))


def _must_succeed(done: Outcome, source: Path, timeout: float) -> None:
    if done.returncode is None:
        raise BuildFailed(
            f"{shown(source)}: error: the compiler did not finish within {timeout:g} s and was ended",
            source,
            None,
            "",
            done.log,
        )
    if done.returncode:
        if "No space left on device" in done.log:
            raise OplabError(
                "The compiler could not write its output: No space left on device.", "Free some space and try again."
            )
        raise build_failed(done.log, source)


def _key(compiler: Compiler, how: Recipe, sources: Sequence[Path], *, sanitize: bool | Sanitizer) -> str:
    digest = hashlib.sha256()

    def add(*parts: str | bytes) -> None:
        for part in parts:
            data = part.encode() if isinstance(part, str) else part
            digest.update(len(data).to_bytes(8, "little") + data)

    add(_FORMAT, compiler.identity, how.versions, str(chosen(sanitize)))
    add(*how.compile_command(compiler, sanitize=sanitize), *how.link_flags(compiler, sanitize=sanitize))
    if sanitize:
        add(*(str(source.resolve()) for source in sources))  # a report names the file with its path
    for file in _with_headers(sources, how.includes):
        add(file.name, file.read_bytes())
    return digest.hexdigest()[:20]


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


def _stamp(made: Path) -> Path:
    return made.with_suffix(".json")


def _is_current(made: Path, key: str) -> bool:
    try:
        stamp = json.loads(_stamp(made).read_text())
        return stamp["key"] == key and stamp["size"] == made.stat().st_size
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _folder(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OplabError(
            f"The folder {folder} cannot be made: {error.strerror}.",
            "Make the course's folder writable, or copy the course to a folder of your own.",
        ) from None
    return folder


@contextlib.contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder for half-made files, on the disk where the result goes. One that a killed build left is removed."""
    for old in folder.glob(".making-*"):
        with contextlib.suppress(OSError):
            if time.time() - old.stat().st_mtime > 3600:
                shutil.rmtree(old, ignore_errors=True)
    try:
        scratch = Path(tempfile.mkdtemp(prefix=".making-", dir=folder))
    except OSError as error:
        raise OplabError(
            f"{folder} cannot be written to: {error.strerror}.", "Make it writable, or free some space on the disk."
        ) from None
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def _lock(file: Path, say) -> Iterator[None]:
    """One build at a time."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(files.lock(file, lambda _: say("Another build is running; waiting for it to end.")))
        except OSError as error:
            raise OplabError(f"{file} cannot be written: {error.strerror}.", "Make the folder writable.") from None
        yield


def _trim(folder: Path) -> None:
    """Keeps the cache small: the libraries that were used longest ago go, never one that was used today."""
    try:
        made = [*folder.glob(f"*{SUFFIX}"), *folder.glob("oplab_host-*")]
        used = sorted((file.stat().st_mtime, file) for file in made if not file.is_symlink())
    except OSError:
        return  # another process is trimming
    for when, file in used[: max(0, len(used) - _KEEP)]:
        if time.time() - when > 24 * 3600:
            file.unlink(missing_ok=True)


def main() -> int:
    try:
        build_all(say=lambda line: print(line, flush=True))
    except OplabError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted. What was compiled before is untouched; the same command goes on.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
