"""The C++ compiler of this machine: which one it is, and how it is run."""

from __future__ import annotations

import functools
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from oplab.errors import OplabError

INSTALL = (
    "Install one: `sudo apt install g++` (Debian, Ubuntu), `sudo dnf install gcc-c++` (Fedora), "
    "`xcode-select --install` (macOS) or `conda install -c conda-forge cxx-compiler` (conda)."
)
# The first releases whose C++20 is complete enough for PyTorch's stable headers.
OLDEST = {"gcc": (11, "g++"), "clang": (14, "clang++"), "apple": (15, "Apple clang")}

# Seconds for the course's own sources: only a compiler that hangs reaches it. A busy machine takes minutes.
OWN_SOURCES_TIMEOUT = 1800.0
# A runaway template must not take the machine with it. Shells that do not know -v go on without the limit.
_MEMORY_KB = 8 * 1024 * 1024
_FILE_BLOCKS = 256 * 1024 * 1024 // 512  # of what it writes: a precompiled header has 120 MB
_LIMITED = [
    "/bin/sh",
    "-c",
    f'ulimit -v {_MEMORY_KB} 2>/dev/null; ulimit -f {_FILE_BLOCKS} 2>/dev/null; exec "$@"',
    "sh",
]


@dataclass(frozen=True)
class Compiler:
    """A compiler that was found and asked for its version.

    Attributes:
        command: what to run, for example ``("/usr/bin/c++",)`` or ``("/usr/bin/ccache", "g++")``.
        family: ``gcc``, ``clang`` or ``apple``.
        version: ``(12, 2, 0)``.
    """

    command: tuple[str, ...]
    family: str
    version: tuple[int, int, int]

    @property
    def identity(self) -> str:
        """What a cached build depends on."""
        return f"{' '.join(self.command)} {self.family} {self.version} {platform.machine()}"

    def __str__(self) -> str:
        return f"{OLDEST[self.family][1]} {'.'.join(map(str, self.version))} ({' '.join(self.command)})"


@dataclass(frozen=True)
class Outcome:
    """How a command ended. ``returncode`` is None where it ran out of time."""

    returncode: int | None
    log: str


def run(
    command: list[str],
    *,
    timeout: float,
    cwd: Path | None = None,
    limited: bool = True,
    environ: Mapping[str, str] | None = None,
) -> Outcome:
    """Runs a command with its output merged, in plain English, and ends its whole process group when time is up.

    Args:
        limited: whether its address space is limited.
        environ: variables to add to this process's own.
    """
    process = subprocess.Popen(
        [*_LIMITED, *command] if limited else command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, **(environ or {}), "LC_ALL": "C", "CLICOLOR_FORCE": "0", "GCC_COLORS": ""},
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=timeout)
    except BaseException as error:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        output, _ = process.communicate()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        return Outcome(None, output.decode(errors="replace"))
    return Outcome(process.returncode, output.decode(errors="replace"))


def find_compiler(path: str | None = None) -> Compiler:
    """The compiler in ``$CXX``, else ``c++``, ``g++`` or ``clang++`` of the PATH."""
    return _find(os.environ.get("CXX", "").strip(), os.environ.get("PATH", "") if path is None else path)


@functools.lru_cache(maxsize=8)
def _find(named: str, path: str) -> Compiler:
    if named:
        words = shlex.split(named)
        program = _program(words[0], path)
        macros = _macros([program, *words[1:]]) if program else None
        if macros is None:
            raise OplabError(
                f"CXX is set to {named!r}, which is not a C++ compiler that can be run.",
                "Unset CXX, or set it to a C++ compiler such as g++ or clang++.",
            )
        return _checked((str(program), *words[1:]), macros)
    for name in ("c++", "g++", "clang++"):
        program = _program(name, path)
        macros = _macros([program]) if program else None
        if program and macros is not None:
            return _checked((program,), macros)
    raise OplabError("No C++ compiler was found.", INSTALL)


def _program(name: str, path: str) -> str | None:
    """The absolute path of a program: builds run in other folders."""
    found = shutil.which(name, path=path)
    return os.path.abspath(found) if found else None


def _macros(command: list[str]) -> dict[str, str] | None:
    """The compiler's predefined macros, or None where the command cannot compile C++."""
    try:
        done = run([*command, "-dM", "-E", "-x", "c++", os.devnull], timeout=120)
    except OSError:
        return None
    if done.returncode != 0:
        return None
    pairs = (line.split(" ", 2) for line in done.log.splitlines() if line.startswith("#define "))
    macros = {pair[1]: pair[2] if len(pair) > 2 else "" for pair in pairs}
    return macros if "__cplusplus" in macros else None


def _checked(command: tuple[str, ...], macros: dict[str, str]) -> Compiler:
    if "__clang__" in macros:
        family = "apple" if "__apple_build_version__" in macros else "clang"
        names = ("__clang_major__", "__clang_minor__", "__clang_patchlevel__")
    else:
        family, names = "gcc", ("__GNUC__", "__GNUC_MINOR__", "__GNUC_PATCHLEVEL__")
    major, minor, patch = (int(macros.get(name, "0")) for name in names)
    compiler = Compiler(command, family, (major, minor, patch))
    oldest, name = OLDEST[family]
    if major < oldest:
        raise OplabError(
            f"The C++ compiler is too old: {compiler}. PyTorch's headers need C++20: {name} {oldest} or newer.",
            f"{INSTALL} Or set CXX to a newer one that is already there.",
        )
    return compiler


def is_macos() -> bool:
    """True on macOS, where shared libraries and the linker's flags differ."""
    return sys.platform == "darwin"
