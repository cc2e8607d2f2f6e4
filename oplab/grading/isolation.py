"""What Linux offers an ordinary user to isolate a learner's code: bubblewrap, Landlock and seccomp.

Two things are built from it. :func:`drop_privileges` is applied to every worker, always: its code can change no file but its own,
send no signal to the grader's processes and not read their memory, and it has no capabilities of root. :class:`Isolation` is what
``oplab check --isolate`` adds: no network, a read-only course without ``solutions/``, checks, tests and ``.git``.

A check runs without any of it. What a machine does not offer is left out, and :meth:`Isolation.sentence` states what is in use.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oplab.course.manifest import NUMBER
from oplab.grading import namespaces, seccomp
from oplab.grading.protocol import Confinement
from oplab.paths import PACKAGE, SHIPPED
from oplab.toolchain import landlock

LINUX = sys.platform.startswith("linux")
TMP_BYTES = 256 << 20  # of the private /tmp
LIBRARIES = "build/lib"  # of a course: its own operators, compiled
_PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 4, 38
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2
_CHAPTER = re.compile(rf"c{NUMBER}_")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/proc", "/sys", "/dev")


@dataclass(frozen=True)
class Isolation:
    """How workers are isolated from the course and the network.

    Attributes:
        bubblewrap: path of ``bwrap`` when it works here: the server and all that it forks are in their own namespaces.
        landlock: the kernel's Landlock version, 0 for none. It binds each worker to its own folder.
        seccomp: whether a list of system calls is refused, those of the network among them.
        namespaces: whether each worker makes its own namespaces: without bubblewrap, where the system allows them.
        roots: folders that hold a course, to be hidden except for what grading needs.
        shown: folders and files in or outside of them that stay readable.
    """

    bubblewrap: str = ""
    landlock: int = 0
    seccomp: bool = False
    namespaces: bool = False
    roots: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()

    @property
    def offered(self) -> bool:
        """Whether this system isolates anything at all."""
        return bool(self.bubblewrap) or self.landlock > 0

    def sentence(self) -> str:
        """One line that states what is in use."""
        parts = {
            "bubblewrap": bool(self.bubblewrap),
            "Landlock": self.landlock > 0,
            "seccomp": self.seccomp,
            "namespaces": self.namespaces,
        }
        used = [name for name, there in parts.items() if there]
        if not self.offered:
            return "Isolation: this system offers neither bubblewrap nor Landlock; continuing with limits only."
        closed = bool(self.bubblewrap) or self.seccomp or self.namespaces
        network = "no network" if closed else "the network stays open"
        listed = " and ".join(filter(None, [", ".join(used[:-1]), used[-1]]))
        return f"Isolation: {listed}: {network}, read-only course, solutions/ hidden."

    def wrap(self, command: Sequence[str], work: Path) -> list[str]:
        """The command as bubblewrap runs it in its namespaces; without bubblewrap the command itself.

        Args:
            command: program and arguments.
            work: the only folder that it can write to.
        """
        if not self.bubblewrap:
            return list(command)
        return [*_bubblewrap(self.bubblewrap, self.roots, self.shown, work), "--", *command]

    def for_worker(self, compiled: bool = False) -> Confinement:
        """How each worker has to confine itself, beyond the namespaces that it starts in.

        Args:
            compiled: the answer is a library, and could hand on the course's own compiled operators: it does not see them.
        """
        libraries = tuple(f"{root}/{LIBRARIES}" for root in self.roots) if compiled else ()
        return Confinement(
            landlock=self.landlock,
            read=_readable(libraries, ("/",)) if self.bubblewrap else _readable((*self.roots, *libraries), self.shown),
            write=("/dev", *landlock.around("/tmp", libraries)) if self.bubblewrap else landlock.DEVICES,
            namespaces=self.namespaces,
        )


def detect(course: Path, submission: Path) -> Isolation:
    """What this machine offers for grading.

    Args:
        course: the folder of the course, to be hidden except for what grading needs.
        submission: the folder with the learner's files, which stay readable.
    """
    roots, shown = _layout(course.resolve(), submission.resolve())
    abi = landlock_abi()
    program = _working_bubblewrap()
    if program:
        return Isolation(program, abi, seccomp.offered(), False, roots, shown)
    if abi:
        return Isolation("", abi, seccomp.offered(), namespaces.offered(), roots, shown)
    return Isolation()


def drop_privileges(own: Iterable[os.PathLike[str]], traceable: bool = False) -> None:
    """For every worker: no file but its own can be changed, no signal or limit reaches processes outside, no access to their memory.

    Of root's capabilities only access to files is left. What the kernel does not offer is left out.

    Args:
        own: the folders that it may write to.
        traceable: leave what sanitizers need: to trace their own process, and memory of their own.

    Raises:
        OSError: the kernel refused, although it offered; the worker must not run then.
    """
    if not LINUX:
        return
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if version := landlock_abi():
        scoped = _SCOPE_SIGNALS | _SCOPE_ABSTRACT_SOCKETS if _scopes() else 0
        writes = landlock.write_rights(version)
        landlock.restrict(writes, (([*map(str, own), *landlock.DEVICES], writes),), scoped=scoped)
    _drop_capabilities()
    if not traceable:
        with contextlib.suppress(OSError):  # a kernel without seccomp
            seccomp.refuse_calls(isolated=False)
    _prctl(_PR_SET_DUMPABLE, 1 if traceable or _scopes() else 0)


def forbid_tracing() -> None:
    """For the server: where Landlock has no scopes, forbid other processes of the same user to read this one's memory."""
    if LINUX and not _scopes():
        _prctl(_PR_SET_DUMPABLE, 0)


def confine(plan: Confinement, own: Iterable[os.PathLike[str]]) -> None:
    """For a worker under ``--isolate``: read and write only what is allowed, use no network and few system calls.

    Args:
        plan: what it may read and write.
        own: its own folders, which it may write to as well.

    Raises:
        OSError: the kernel refused, although it offered; the worker must not run then.
    """
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if plan.landlock:
        rights = landlock.all_rights(plan.landlock)
        rules = ((plan.read, landlock.READ), ([*plan.write, *map(str, own)], rights))
        landlock.restrict(rights, rules, net=3 if plan.landlock >= 4 else 0)
    seccomp.refuse_calls()


def landlock_abi() -> int:
    """The version of Landlock that the kernel offers, 0 for none."""
    return landlock.abi()


def can_signal_outside() -> bool:
    """Whether a worker's code can send signals to the grader's processes: the kernel has no Landlock scopes (before Linux 6.12)."""
    return not _scopes()


# --- bubblewrap ----------------------------------------------------------------------------------------------------


def _layout(course: Path, submission: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Folders to hide, and what has to stay visible: the package without the chapters' checks, Python, the submission."""
    # An editable install is part of a course. Of a package among others, the checks and the reference answers are hidden.
    inside = (PACKAGE.parent / "course.toml").is_file()
    roots = {course, PACKAGE.parent if inside else PACKAGE}
    shown = {submission, *_parts(PACKAGE)}
    for root in roots:
        for part in ("course.toml", "csrc", LIBRARIES, "build/cache/ort-headers"):
            shown.update((root / part, (root / part).resolve()))
    for entry in {sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path, os.environ.get("LD_LIBRARY_PATH", "")}:
        for part in entry.split(os.pathsep):
            if part and os.path.isdir(part) and Path(part).resolve() not in roots and part != str(Path.home()):
                shown.update((Path(part).absolute(), Path(part).resolve()))
    # Not a folder that would bring a hidden course back: a bind of /home would show /home/ada/course again.
    courses = roots - {PACKAGE}
    kept = {path for path in shown if not any(root.is_relative_to(path) for root in courses) or path == submission}
    return tuple(sorted(map(str, roots))), tuple(sorted(str(path) for path in kept if path.exists()))


@functools.lru_cache(maxsize=16)
def _readable(roots: tuple[str, ...], shown: tuple[str, ...]) -> tuple[str, ...]:
    """What Landlock lets a worker read: the system and ``shown``, without what else is in ``roots``."""
    return tuple(kept for place in (*_SYSTEM, *shown) for kept in landlock.around(place, roots))


def _parts(package: Path) -> list[Path]:
    parts = [path for path in package.iterdir() if path.name not in ("checks", SHIPPED.name)]
    parts += [path for path in (package / "checks").glob("*.py") if not _CHAPTER.match(path.name)]
    parts += (package / "checks").glob("*.cpp")  # compiled while a check runs
    return parts


def _bubblewrap(program: str, roots: Sequence[str], shown: Sequence[str], work: Path | None) -> list[str]:
    mounts: dict[str, list[str]] = {}
    for hidden in ("/var/tmp", "/run", str(Path.home()), *roots):
        if os.path.isdir(hidden) and hidden != "/":
            mounts[hidden] = ["--tmpfs", hidden]
    mounts["/tmp"] = ["--perms", "1777", "--size", str(TMP_BYTES), "--tmpfs", "/tmp"]
    for path in shown:
        if path not in mounts:
            mounts[path] = ["--ro-bind", path, path]
    if work is not None:
        mounts[str(work)] = ["--bind", str(work), str(work)]
    command = [program, "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--ro-bind", "/", "/"]
    command += ["--dev", "/dev", "--proc", "/proc"]
    for path in sorted(mounts, key=lambda path: path.count("/")):  # an outer mount first: it would hide an inner one
        command += mounts[path]
    for path in sorted(mounts):
        if mounts[path][0] == "--tmpfs":  # /tmp, with its options before it, stays writable
            command += ["--remount-ro", path]
    return [*command, "--chdir", "/"]


@functools.lru_cache(maxsize=1)
def _working_bubblewrap() -> str:
    """``bwrap`` if it can make namespaces here: it may be installed and yet be forbidden, as in many containers."""
    program = shutil.which("bwrap") if LINUX else None
    if not program:
        return ""
    try:
        with tempfile.TemporaryDirectory() as folder:
            test = _bubblewrap(program, (), (), Path(folder).resolve())
            done = subprocess.run([*test, "--", "/bin/true"], capture_output=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return program if done.returncode == 0 else ""


@functools.lru_cache(maxsize=1)
def _scopes() -> bool:
    return landlock_abi() >= 6


# --- capabilities -----------------------------------------------------------------------------------------


def _drop_capabilities() -> None:
    """Drop the capabilities of root, except those that concern files: the course may belong to another user."""
    keep = sum(1 << number for number in (0, 1, 2, 3))  # CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER
    header = struct.pack("=Ii", 0x20080522, 0)
    data = ctypes.create_string_buffer(24)
    libc = _libc()
    if libc.capget(header, data) != 0:
        return
    _, low, _, _, high, _ = struct.unpack("=6I", data.raw)
    if low | high << 32:
        libc.capset(header, struct.pack("=6I", low & keep, low & keep, 0, 0, 0, 0))


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        _libc().prctl(option, value, 0, 0, 0)


@functools.lru_cache(maxsize=1)
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
