"""Compiles the course's operators and host program: ``python -m oplab.toolchain.build``.

Nothing here imports torch or onnxruntime: a build that has nothing to do ends in a fraction of a second. Each product is
put in its place by one rename, so a build that is killed leaves what was there before.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from oplab import paths
from oplab.errors import OplabError
from oplab.toolchain import cache
from oplab.toolchain.compile import (
    compile_driver,
    compile_files,
    compile_host_sanitized,
    compile_sanitized,
    link_runtime,
    must_succeed,
)
from oplab.toolchain.compiler import OWN_SOURCES_TIMEOUT, Compiler, find_compiler, run
from oplab.toolchain.diagnostics import BuildFailed, shown
from oplab.toolchain.headers import find as find_headers
from oplab.toolchain.one_file import compile_library
from oplab.toolchain.recipes import (
    KINDS,
    SUFFIX,
    Kind,
    Recipe,
    host_folder,
    host_recipe,
    kernels_path,
    openvino_folder,
    ort_runtime,
    recipe,
    source_folder,
)
from oplab.toolchain.sanitizer import sanitizer_env

__all__ = [
    "BuildFailed",
    "build_all",
    "compile_driver",
    "compile_library",
    "compile_host_sanitized",
    "compile_sanitized",
    "host_path",
    "library_path",
    "log_path",
    "main",
    "sanitizer_env",
]


def log_path(kind: Kind) -> Path:
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


@dataclass(frozen=True)
class _Product:
    """One folder of ``csrc`` and the file that is made from it.

    Attributes:
        folder: the folder, and CMake's project where ``cmake`` says so.
        sources: the C++ files that the compiler is called for where CMake is not used.
        watched: the files whose content decides whether it is up to date; the headers that they include count too.
        file: the product. CMake's project gives it the same name.
        archive: a static library that keeps its object files for other programs, or None; CMake gives it the same name.
        definitions: CMake's definitions besides the headers.
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
    kinds: list[Kind] = [*KINDS, *(["openvino"] if openvino_folder() else [])]
    for kind in kinds:
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


def build_all(*, say: Callable[[str], object] = print, again: bool = False) -> bool:
    """Compiles ``csrc/torch_ops``, ``csrc/ort_ops``, ``csrc/host`` and, where OpenVINO is installed, ``csrc/openvino_ops``.

    The products are in ``build/lib``; what is up to date is left alone.

    Args:
        say: called with each line of progress.
        again: compile what is up to date, too.

    Returns:
        True if something was compiled.

    Raises:
        BuildFailed: a source file does not compile.
        OplabError: there is no compiler, or no headers, or a folder cannot be written.
    """
    folder = paths.created(paths.build_dir() / "lib")
    with cache.one_build(folder / ".lock", say):
        compiler = find_compiler()
        find_headers(say=say)  # reports when it has to fetch them
        link_runtime(folder)
        stale = []
        for product in _products():
            key = cache.key(compiler, product.how, product.watched, sanitize=False)
            if again or not _is_current(product.file, key) or (product.archive and not product.archive.is_file()):
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


def _build_product(product: _Product, compiler: Compiler, folder: Path) -> str:
    """Compiles one folder of ``csrc`` and puts the product in its place. Returns how, for the line of progress."""
    cmake = _cmake() if product.cmake else None
    with cache.scratch(folder) as scratch:
        made = scratch / product.file.name
        archive = scratch / product.archive.name if product.archive else None
        if cmake and _configure(cmake, product, compiler, scratch):
            log = _build_with_cmake(cmake, product, scratch)
            way = "with CMake"
        else:
            log = compile_files(list(product.sources), product.how, compiler, scratch, made, archive=archive)
            way = "one call of the compiler for each file"
        log_path(product.how.kind).write_text(log)
        if archive and product.archive:
            os.replace(archive, product.archive)
        os.replace(made, product.file)
    return way


def _configure(cmake: str, product: _Product, compiler: Compiler, scratch: Path) -> bool:
    """Whether CMake could set up its build. Where it cannot (no make, a broken CMake), the same flags work without it."""
    headers = next(flag.removeprefix("-isystem") for flag in product.how.flags if flag.startswith("-isystem"))
    command = [
        cmake,
        *("-S", str(product.folder), "-B", str(scratch / "cmake")),
        f"-DORT_INCLUDE_DIR={headers}",
        *product.definitions,
        f"-DCMAKE_CXX_COMPILER={';'.join(compiler.command)}",
        # With flags of the environment the cache key would not describe the file.
        *("-DCMAKE_CXX_FLAGS=", "-DCMAKE_SHARED_LINKER_FLAGS=", "-DCMAKE_EXE_LINKER_FLAGS="),
    ]
    return run(command, timeout=OWN_SOURCES_TIMEOUT, cwd=scratch, limited=False).returncode == 0


def _build_with_cmake(cmake: str, product: _Product, scratch: Path) -> str:
    command = [cmake, "--build", str(scratch / "cmake"), "--parallel", str(min(os.cpu_count() or 1, 4))]
    done = run(command, timeout=OWN_SOURCES_TIMEOUT, cwd=scratch, limited=False)
    entry = next(file for file in product.sources if file.name in ("main.cpp", "register.cpp"))
    must_succeed(done, entry, OWN_SOURCES_TIMEOUT)
    for made in filter(None, (product.file, product.archive)):
        os.replace(scratch / "cmake" / made.name, scratch / made.name)
    return done.log


def _cmake() -> str | None:
    """CMake from the PATH, or the one that pip installed next to this Python."""
    return shutil.which("cmake") or shutil.which("cmake", path=str(Path(sys.executable).parent))


def _stamp(made: Path) -> Path:
    return made.with_suffix(".json")


def _is_current(made: Path, key: str) -> bool:
    try:
        stamp = json.loads(_stamp(made).read_text())
        return stamp["key"] == key and stamp["size"] == made.stat().st_size
    except (OSError, ValueError, KeyError, TypeError):
        return False


def main() -> int:
    """Builds everything and prints each step. Exit status 0, 2 after an error that was printed, 130 after Ctrl-C."""
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
