"""Compiles C++ files: sanitized builds, and the lists of sources that ``build`` and ``one_file`` hand over.

What is compiled is put in its place by one rename, so a process that is killed leaves what was there before.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

from oplab import paths
from oplab.errors import OplabError
from oplab.toolchain import cache as caches
from oplab.toolchain.compiler import OWN_SOURCES_TIMEOUT, Compiler, Outcome, find_compiler, run
from oplab.toolchain.diagnostics import BuildFailed, build_failed, shown
from oplab.toolchain.recipes import (
    SUFFIX,
    Kind,
    Recipe,
    Sanitizer,
    chosen,
    host_folder,
    host_recipe,
    kernels_path,
    libtorch_recipe,
    ort_runtime,
    ort_runtime_names,
    recipe,
    source_folder,
)
from oplab.toolchain.sanitizer import sanitizer_env

# What GCC's driver, its linker's and clang's say of a program that they have started, at the beginning of a line.
# A part of the compiler, as the compiler has it; the compiler, as dash or Ninja (1.13 or newer) has it; Ninja or the linker, as
# setuptools has it.
_KILLED = re.compile(
    r"^[\w+.-]+: (?:fatal )?error: (?:Killed signal terminated program|ld terminated with signal 9|unable to execute command: Killed)"
    r"|^Killed$|^FAILED: \[code=137\] |died with <Signals\.SIGKILL: 9>",
    re.MULTILINE,
)


def compile_sanitized(kind: Kind, sanitizer: Sanitizer = "address") -> Path:
    """The course's own library of one kind, compiled with a sanitizer as ``compile_library(sanitize=...)`` does.

    Raises:
        BuildFailed: it does not compile.
        OplabError: there is no compiler, or no headers.
    """
    sources, cache = sorted(source_folder(kind).glob("*.cpp")), exercise_cache()
    # It takes half a minute, and several tests want it at once: one makes it, the others wait.
    with caches.one_build(paths.created(cache) / f".{kind}-{sanitizer}.lock"):
        return _cached(sources, (), f"oplab_{kind}_ops-*{SUFFIX}", recipe(kind), sanitizer, cache, 300.0)


def compile_host_sanitized() -> Path:
    """The program of ``csrc/host``, compiled with the sanitizers. Start it with :func:`sanitizer_env`.

    The kernels in it are compiled without: for those there is :func:`compile_sanitized`.

    Raises:
        BuildFailed: it does not compile.
        OplabError: the kernels are not compiled.
    """
    kernels = kernels_path()
    if not kernels.is_file():
        raise OplabError(f"The kernels are not compiled: {shown(kernels)} is missing.", "Run `make setup`.")
    sources = sorted(host_folder().glob("*.cpp"))
    program = _cached(sources, (kernels,), "oplab_host-*", host_recipe(), True, exercise_cache(), 300.0)
    link_runtime(program.parent)
    return program


def compile_host(
    sources: Sequence[Path], headers: Path | None = None, starting: Callable[[], object] = lambda: None
) -> Path:
    """A host program made from several C++ files, among them the kernels that are part of it; compiled once for its content.

    It looks for ONNX Runtime's library in its own folder: see :func:`link_runtime`.

    Args:
        headers: the folder of a project's copies of ``csrc``'s headers; ``csrc`` is not used then.
        starting: called before the compiler is, and not at all where the program is in the cache.
    """
    how = host_recipe(kernels=False)
    if headers:
        how = how.with_headers(headers)
    return _cached(list(sources), (), "project_host-*", how, False, exercise_cache(), OWN_SOURCES_TIMEOUT, starting)


def compile_driver(source: Path, sanitizer: Sanitizer) -> Path:
    """A program on ONNX Runtime's C++ API, compiled with a sanitizer, that loads ONNX Runtime and kernels when it runs.

    Python cannot be the process that ThreadSanitizer and LeakSanitizer watch: both want a program that was linked with them.

    Args:
        source: the C++ file with ``main``.
        sanitizer: the one that the kernels it loads were compiled with.

    Raises:
        BuildFailed: it does not compile.
        OplabError: there is no compiler, or no headers.
    """
    compiler, how = find_compiler(), recipe("ort")
    key = caches.key(compiler, how, [source], sanitize=sanitizer)
    folder = paths.created(exercise_cache())
    program = folder / f"{source.stem}-{key}"
    if not program.is_file():
        with caches.scratch(folder) as scratch:
            made = scratch / program.name
            command = [*how.compile_command(compiler, sanitize=sanitizer), str(source.resolve()), "-o", str(made)]
            must_succeed(
                run([*command, "-pthread", "-ldl"], timeout=OWN_SOURCES_TIMEOUT, cwd=scratch),
                source,
                OWN_SOURCES_TIMEOUT,
            )
            os.replace(made, program)
    return program


def compile_program(source: Path) -> Path:
    """A program on PyTorch's C++ library (``torch/script.h``), compiled once for its content."""
    return _cached([source], (), f"{source.stem}-*", libtorch_recipe(), False, exercise_cache(), OWN_SOURCES_TIMEOUT)


def exercise_cache() -> Path:
    """The folder of everything that is compiled once for its content: ``build/cache/exercises``."""
    return paths.build_dir() / "cache" / "exercises"


def _cached(
    sources: list[Path],
    linked: Sequence[Path],
    name: str,
    how: Recipe,
    sanitize: bool | Sanitizer,
    cache: Path,
    timeout: float,
    starting: Callable[[], object] = lambda: None,
) -> Path:
    """A compiled file of the cache. Its key replaces the star in ``name``; the files in ``linked`` are part of the key."""
    compiler = find_compiler()
    key = caches.key(compiler, how, [*sources, *linked], sanitize=sanitize)
    folder = paths.created(cache)
    library = folder / name.replace("*", key)
    if library.is_file():
        with contextlib.suppress(OSError):
            os.utime(library)  # the oldest go first when the cache is trimmed
        return library
    starting()
    if chosen(sanitize) == "address":
        sanitizer_env()  # no sanitizer on this machine is not the source's fault: it raises its own OplabError
    with caches.scratch(folder) as scratch:
        made = scratch / library.name
        compile_files(sources, how, compiler, scratch, made, sanitize=sanitize, timeout=timeout)
        os.replace(made, library)
    caches.trim(folder)
    return library


def compile_files(
    sources: list[Path],
    how: Recipe,
    compiler: Compiler,
    scratch: Path,
    made: Path,
    *,
    sanitize: bool | Sanitizer = False,
    archive: Path | None = None,
    timeout: float = OWN_SOURCES_TIMEOUT,
    copy_of: Path | None = None,
    first: Path | None = None,
    around: Callable[[list[str]], list[str]] = list,
) -> str:
    """Compiles sources to one file: one call for one source, else a call for each and one to link.

    Each call that compiles leaves the list of the files that it read in ``scratch``, for :func:`files_read`.

    Args:
        scratch: a folder for object files.
        archive: a static library to write that keeps the object files.
        timeout: seconds that one call of the compiler may take.
        copy_of: the file that the first source is a copy of. Messages are about it, and what is next to it can be included.
        first: a folder that is searched for headers before all others but those of the sources.
        around: makes of each command the one that runs it, for example in a confinement.

    Returns:
        What the compiler printed.
    """
    flags = how.compile_command(compiler, sanitize=sanitize)[len(compiler.command) :]
    compile_command = [*compiler.command, *([f"-I{first}"] if first else []), *flags]
    link = ["-o", str(made), *how.link_flags(compiler, sanitize=sanitize)]

    printed: list[str] = []

    # What is not an argument, and may be a folder that a confined compiler cannot use.
    environ = {"TMPDIR": str(scratch), "CCACHE_DISABLE": "1"} if copy_of else None

    def call(command: list[str], source: Path) -> None:
        about = copy_of if copy_of and source == sources[0] else source
        done = run(around(command), timeout=timeout, cwd=scratch, environ=environ)
        must_succeed(done, about, timeout)
        printed.append(done.log)

    def command_for(source: Path) -> list[str]:
        folder = (copy_of if copy_of and source == sources[0] else source).resolve().parent
        # __FILE__ is the name alone, so that messages are short and the same content gives the same library anywhere.
        near = [f"-iquote{folder}", f"-fmacro-prefix-map={folder}/="]
        return [*compile_command, *near, "-MD", "-MF", str(scratch / f"{source.stem}.d"), str(source.resolve())]

    if len(sources) == 1 and not archive:
        call([*command_for(sources[0]), *link], sources[0])
        return "".join(printed)

    def to_object(source: Path) -> str:
        target = str(scratch / f"{source.stem}.o")
        call([*command_for(source), "-c", "-o", target], source)
        return target

    with ThreadPoolExecutor(min(len(sources), os.cpu_count() or 1, 4)) as pool:
        jobs = [pool.submit(to_object, source) for source in sources]
        try:
            wait(jobs, return_when=FIRST_EXCEPTION)
        finally:
            # Wait for running compilers; leave out those that have not started.
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


def files_read(scratch: Path) -> list[str]:
    """Every file that the calls of :func:`compile_files` in ``scratch`` read, as the compiler names it (its option ``-MD``)."""
    found: dict[str, None] = {}
    for rule in sorted(scratch.glob("*.d")):
        _, _, names = rule.read_text(errors="surrogateescape").replace("\\\n", " ").partition(": ")
        for name in re.findall(r"(?:\\.|\$\$|[^\s\\])+", names):
            found[re.sub(r"\\([ #\\])", r"\1", name).replace("$$", "$")] = None
    return list(found)


def must_succeed(done: Outcome, source: Path, timeout: float) -> None:
    """Raises what the outcome of a compiler's run calls for.

    Raises:
        BuildFailed: it failed, or was ended at its time limit.
        OplabError: the disk is full, or something has killed the compiler.
    """
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
        if done.returncode == -signal.SIGKILL or compiler_was_killed(done.log):
            raise OplabError(
                "The compiler was killed from outside, as by a system that is out of memory.",
                "Close what else needs memory, and try again.",
            )
        raise build_failed(done.log, source)


def compiler_was_killed(log: str) -> bool:
    """Whether the output of a compiler, or of a build that starts one, says that something has killed a program of it."""
    return bool(_KILLED.search(log))


def link_runtime(folder: Path) -> None:
    """Puts links to ONNX Runtime's library into the folder of a program that looks for it there when it starts.

    The library is inside the installed package: a link is replaced when the package has moved or has another version.
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
