"""Precompiled headers: half of the time that a C++ exercise takes to compile goes into the one large header that it begins with.

GCC looks for ``name.h.gch`` in each folder of its search path before it looks for ``name.h`` there, and uses it where nothing but
comments comes before the ``#include``. So a folder of such files at the front of the path changes nothing but the time: a header that
does not begin the file, or a neighbour of the same name, is read as usual.

A precompiled header costs as much as three compilations and 60 to 120 MB. It is made when a header is asked for the second time; who
knows that this will come can have it made before (:func:`prepare`).
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from oplab import paths
from oplab.errors import OplabError
from oplab.toolchain import cache as caches
from oplab.toolchain.compile import files_read
from oplab.toolchain.compiler import Compiler, find_compiler, run
from oplab.toolchain.recipes import Recipe, Sanitizer, chosen

HEADERS = (
    "torch/csrc/stable/library.h",
    "onnxruntime_lite_custom_op.h",
    "onnxruntime_cxx_api.h",
    "oplab_kernel.h",
    "openvino/frontend/onnx/extension/conversion.hpp",
)
# Blank lines, comments, and the include that comes after them.
_FIRST = re.compile(rb'(?:\s|//[^\n]*\n|/\*.*?\*/)*#[ \t]*include[ \t]*[<"]([^">\n]+)[">]', re.DOTALL)
_TIMEOUT = 300.0  # seconds on the clock for one header


@dataclass(frozen=True)
class Precompiled:
    """A header that is precompiled for one set of flags.

    Attributes:
        folder: the folder for the front of the search path; it has the header's path, with ``.gch``.
        read: the files that the compiler read for it, which its list for a source that uses it leaves out.
    """

    folder: Path
    read: tuple[str, ...]


def precompiled(
    compiler: Compiler, how: Recipe, text: bytes, *, sanitize: bool | Sanitizer = False, asking: bool = True
) -> Precompiled | None:
    """The precompiled form of the header that a source begins with.

    Args:
        compiler: GCC; other compilers do not look for such files on their own.
        asking: if False, this does not count as a time that the header was asked for; it is made if there was one before.

    Returns:
        None where there is none: another compiler, a source that begins with something else, the first time that the header is asked
        for, a header that is being made just now, or that could not be precompiled (a full disk). The source compiles without it.
    """
    begins = _FIRST.match(text.removeprefix(b"\xef\xbb\xbf"))
    name = begins[1].decode(errors="replace") if begins else ""
    if compiler.family != "gcc" or name not in HEADERS:
        return None
    header = next((file for folder in _searched(how) if (file := folder / name).is_file()), None)
    if header is None:
        return None
    with contextlib.suppress(OSError, OplabError):
        key = caches.key(compiler, how, [header], sanitize=sanitize)
        # One folder for each header, kind and sanitizer: what another state of it left is replaced, and cannot fill the disk.
        place = paths.created(headers_folder() / f"{Path(name).stem}-{how.kind}-{chosen(sanitize) or 'plain'}")
        if found := _kept(place / key):
            return found
        if not (asked := place / f"{key}.asked").exists():
            if not asking:
                return None
            for old in place.iterdir():
                shutil.rmtree(old) if old.is_dir() else old.unlink()
            asked.touch()
        elif not asked.read_text():
            # Several want it at once: one makes it, which takes longer than what the others need without it.
            with caches.one_build(place.with_suffix(".lock"), _busy):
                return _kept(place / key) or _make(place / key, asked, name, header, compiler, how, sanitize)
    return None


def prepare(how: Recipe, text: bytes) -> None:
    """Make the precompiled form of the header that a source begins with, if it has been asked for once: it will be again."""
    precompiled(find_compiler(), how, text, asking=False)


def headers_folder() -> Path:
    """The folder of all precompiled headers: ``build/cache/precompiled``."""
    return paths.build_dir() / "cache" / "precompiled"


def _busy(line: str) -> None:
    raise OplabError("It is being made.")


def _make(
    folder: Path, asked: Path, name: str, header: Path, compiler: Compiler, how: Recipe, sanitize: bool | Sanitizer
) -> Precompiled | None:
    with caches.scratch(folder.parent) as scratch:
        made = scratch / folder.name / f"{name}.gch"
        made.parent.mkdir(parents=True)
        # A second include of it finds the .gch, too, and GCC then reads this: the header itself, further along the path.
        made.with_suffix("").write_text(f"#pragma GCC system_header\n#include_next <{name}>\n")
        # The header itself is included and is not the file that is compiled, so that it stays a system header, without warnings.
        source = scratch / "header.h"
        include = f'"{header}"' if header.parent in how.includes else f"<{name}>"
        # Messages name no file of a folder that an exercise may not read.
        source.write_text(f'#line 1 "<precompiled>"\n#include {include}\n')
        command = [*how.compile_command(compiler, sanitize=sanitize), "-x", "c++-header", str(source)]
        listed = ["-MD", "-MF", str(scratch / "header.d"), "-o", str(made)]
        done = run([*command, *listed], timeout=_TIMEOUT, cwd=scratch, environ={"CCACHE_DISABLE": "1"})
        if done.returncode != 0:
            asked.write_text("failed")  # not again: a compilation without it takes less time than one more attempt
            return None
        read = [file for file in files_read(scratch) if file != str(source)]
        (scratch / folder.name / "read.txt").write_text("\n".join(read), errors="surrogateescape")
        os.rename(scratch / folder.name, folder)
    return _kept(folder)


def _kept(folder: Path) -> Precompiled | None:
    try:
        return Precompiled(folder, tuple((folder / "read.txt").read_text(errors="surrogateescape").splitlines()))
    except OSError:
        return None


def _searched(how: Recipe) -> list[Path]:
    """The folders in which a compiler looks for headers, in its order."""
    own = [flag[2:] for flag in how.flags if flag.startswith("-I")]
    return [Path(folder) for folder in (*own, *(flag[8:] for flag in how.flags if flag.startswith("-isystem")))]
