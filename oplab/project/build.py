"""``oplab build``: one C++ file, or the two libraries and the host program of an operator's project."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from oplab import paths
from oplab.errors import OplabError
from oplab.project.layout import Project
from oplab.toolchain.build import compile_library
from oplab.toolchain.compile import compile_host, link_runtime
from oplab.toolchain.diagnostics import shown
from oplab.toolchain.recipes import SUFFIX, Kind

Say = Callable[[str], object]
KINDS: tuple[Kind, ...] = ("torch", "ort")
# What a file includes tells what it is; the first that fits counts. A program on ONNX Runtime has a main.
_INCLUDES = {
    "torch": re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"](?:torch/|.*torch_kernel\.h)', re.MULTILINE),
    "ort": re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"](?:.*/)?(?:onnxruntime_|oplab_kernel\.h)', re.MULTILINE),
}
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_MAIN = re.compile(r"^[ \t]*int[ \t]+main[ \t]*\(", re.MULTILINE)


def kind_of(source: Path) -> Kind:
    """What a C++ file is, from its includes: ``torch``, ``ort``, ``host`` (ONNX Runtime and a ``main``), or ``cpp``."""
    try:
        text = source.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise OplabError(f"{shown(source)} cannot be read: {error.strerror}.", "Correct the path.") from None
    text = _COMMENT.sub(" ", text)
    found = [kind for kind, include in _INCLUDES.items() if include.search(text)]
    if len(found) > 1:
        raise OplabError(
            f"{shown(source)} includes headers of PyTorch and of ONNX Runtime.",
            "Make two files, as each library is loaded by another program, or say which it is with --kind.",
        )
    if found == ["torch"]:
        return "torch"
    if found == ["ort"]:
        return "host" if _MAIN.search(text) else "ort"
    return "cpp"


def build_file(source: Path, kind: Kind | None = None, output: Path | None = None, *, say: Say = print) -> Path:
    """Compile one C++ file.

    Args:
        source: the file. It may include what is in its folder and below, and the headers of ``csrc``.
        kind: what it is; :func:`kind_of` tells where it is None.
        output: the file to make; by default one next to the source, with its name.
    """
    if not source.is_file():
        raise OplabError(f"There is no C++ file {shown(source)}.", "Correct the path.")
    kind = kind or kind_of(source)
    made = output or source.with_suffix("" if kind == "host" else SUFFIX)
    if made.is_dir():
        raise OplabError(f"{shown(made)} is a folder.", "Name the file that is to be made after -o.")
    if made.exists() and made.samefile(source):
        raise OplabError(f"{shown(made)} is the source itself.", "Name another file after -o.")
    if kind == "host":
        link_runtime(paths.created(paths.build_dir() / "lib"))  # where the program looks for ONNX Runtime
    headers = source.parent / "oplab"
    own = headers if any((headers / name).is_file() for name in ("oplab_kernel.h", "torch_kernel.h")) else None
    _put(lambda starting: compile_library(source, kind, headers=own, starting=starting), made, source, say)
    return made


def build_project(project: Project, *, say: Say = print) -> None:
    """Compile both libraries into the package and the host program into ``build``, where something changed.

    Args:
        project: the project. Its own copies of the headers are used, not ``csrc``.
    """
    copies = project.folder / "cpp" / "oplab"
    headers = copies if copies.is_dir() else None
    for kind in KINDS:
        source = project.source(kind)
        if not source.is_file():
            raise OplabError(
                f"The project has no {shown(source)}.", "Restore it: it has the operator for that library."
            )
        made = project.library(kind)
        _put(
            lambda starting, args=(source, kind): compile_library(*args, headers=headers, starting=starting),
            made,
            source,
            say,
        )
    if sources := project.host_sources:
        folder = paths.created(project.host_program.parent)
        kernels = project.source("ort")
        _put(
            lambda starting: compile_host([*sources, kernels], headers, starting),
            project.host_program,
            project.folder / "host",
            say,
        )
        link_runtime(folder)


def _put(compile: Callable[[Callable[[], object]], Path], made: Path, source: Path, say: Say) -> None:
    """Put what was compiled, or was in the cache, in its place by one rename, so that a build that ends early leaves the old file."""
    start = time.monotonic()
    compiled = compile(lambda: say(f"Compiling {shown(source)} ..."))
    content = compiled.read_bytes()
    fresh = None
    try:
        if made.is_file() and made.read_bytes() == content:
            say(f"{shown(made)} is up to date.")
            return
        folder = paths.created(made.parent)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{made.name}-", delete=False) as stream:
            fresh = Path(stream.name)
            stream.write(content)
        shutil.copymode(compiled, fresh)
        os.replace(fresh, made)
    except OSError as error:
        raise OplabError(f"{shown(made)} cannot be written: {error.strerror}.", "Choose another place.") from None
    finally:
        if fresh is not None:
            fresh.unlink(missing_ok=True)
    say(f"{shown(made)} is ready: {time.monotonic() - start:.1f} s.")
