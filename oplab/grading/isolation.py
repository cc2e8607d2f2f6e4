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
import platform
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

from oplab.toolchain import landlock

LINUX = sys.platform.startswith("linux")
TMP_BYTES = 256 << 20  # of the private /tmp
_PR_SET_DUMPABLE, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 4, 22, 38
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2
_CHAPTER = re.compile(r"c\d\d_")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt", "/nix", "/proc", "/sys", "/dev")


@dataclass(frozen=True)
class Confinement:
    """What a worker needs to know to confine itself.

    Attributes:
        landlock: the kernel's Landlock version, 0 for none.
        read: folders and files that it may read.
        write: folders and files that it may write, besides its own.
        no_network: whether it has to close the network itself.
    """

    landlock: int
    read: tuple[str, ...]
    write: tuple[str, ...]
    no_network: bool


@dataclass(frozen=True)
class Isolation:
    """How workers are isolated from the course and the network.

    Attributes:
        bubblewrap: path of ``bwrap`` when it works here: the server and all that it forks live in namespaces of their own.
        landlock: the kernel's Landlock version, 0 for none. It binds each worker to its own folder.
        network: what closes the network: ``namespace``, ``seccomp`` or an empty string.
        roots: folders that hold a course, to be hidden except for what grading needs.
        shown: folders and files in or outside of them that stay readable.
    """

    bubblewrap: str = ""
    landlock: int = 0
    network: str = ""
    roots: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()

    @property
    def offered(self) -> bool:
        """Whether this system isolates anything at all."""
        return bool(self.bubblewrap) or self.landlock > 0

    def sentence(self) -> str:
        """One line that states what is in use."""
        if self.bubblewrap:
            extra = " and Landlock" if self.landlock else ""
            return f"Isolation: bubblewrap{extra}: no network, read-only course, solutions/ out of sight."
        if self.landlock:
            network = "no network" if self.network else "the network stays open"
            return f"Isolation: Landlock: {network}, read-only course, solutions/ out of sight."
        return "Isolation: this system offers neither bubblewrap nor Landlock; going on with limits only."

    def wrap(self, command: Sequence[str], work: Path) -> list[str]:
        """The command as bubblewrap runs it in its namespaces; without bubblewrap the command itself.

        Args:
            command: program and arguments.
            work: the only folder that it can write to.
        """
        if not self.bubblewrap:
            return list(command)
        return [*_bubblewrap(self.bubblewrap, self.roots, self.shown, work), "--", *command]

    def for_worker(self) -> Confinement:
        """How each worker has to confine itself, beyond the namespaces that it starts in."""
        return Confinement(
            landlock=self.landlock,
            read=("/",) if self.bubblewrap else (*_SYSTEM, *self.shown),
            write=("/dev", "/tmp") if self.bubblewrap else landlock.DEVICES,
            no_network=self.network == "seccomp",
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
        return Isolation(program, abi, "namespace", roots, shown)
    if abi:
        return Isolation("", abi, "seccomp" if _architecture() else "", roots, shown)
    return Isolation()


def drop_privileges(own: Iterable[os.PathLike[str]], traceable: bool = False) -> None:
    """For every worker: no file but its own can be changed, no signal reaches processes outside, and no access to their memory.

    Of root's capabilities only access to files is left. What the kernel does not offer is left out.

    Args:
        own: the folders that it may write to.
        traceable: leave what LeakSanitizer needs to trace its own process.

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
    _prctl(_PR_SET_DUMPABLE, 1 if traceable or _scopes() else 0)


def forbid_tracing() -> None:
    """For the server: where Landlock has no scopes, forbid other processes of the same user to read this one's memory."""
    if LINUX and not _scopes():
        _prctl(_PR_SET_DUMPABLE, 0)


def confine(plan: Confinement, own: Iterable[os.PathLike[str]]) -> None:
    """For a worker under ``--isolate``: read and write only what is allowed, and use no network.

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
    if plan.no_network:
        _no_sockets()


def landlock_abi() -> int:
    """The version of Landlock that the kernel offers, 0 for none."""
    return landlock.abi()


def can_signal_outside() -> bool:
    """Whether a worker's code can send signals to the grader's processes: the kernel has no Landlock scopes (before Linux 6.12)."""
    return not _scopes()


# --- bubblewrap ----------------------------------------------------------------------------------------------------


def _layout(course: Path, submission: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Folders to hide, and what has to stay visible: the package without the chapters' checks, Python, the submission."""
    package = Path(__file__).resolve().parents[1]
    roots = {course}
    if (package.parent / "course.toml").is_file():  # an editable install: the package is part of a course
        roots.add(package.parent)
    shown = {submission, *_parts(package)}
    for root in roots:
        for part in ("course.toml", "csrc", "build/lib"):
            shown.update((root / part, (root / part).resolve()))
    for entry in {sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path, os.environ.get("LD_LIBRARY_PATH", "")}:
        for part in entry.split(os.pathsep):
            if part and os.path.isdir(part) and Path(part).resolve() not in roots and part != str(Path.home()):
                shown.update((Path(part).absolute(), Path(part).resolve()))
    # Not a folder that would bring a hidden one back: a bind of /home would show /home/ada/course again.
    kept = {path for path in shown if not any(root.is_relative_to(path) for root in roots) or path == submission}
    return tuple(sorted(map(str, roots))), tuple(sorted(str(path) for path in kept if path.exists()))


def _parts(package: Path) -> list[Path]:
    parts = [path for path in package.iterdir() if path.name != "checks"]
    parts += [path for path in (package / "checks").glob("*.py") if not _CHAPTER.match(path.name)]
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


# --- seccomp, capabilities -----------------------------------------------------------------------------------------


def _architecture() -> tuple[int, int] | None:
    """seccomp's number for this machine, and the number of its system call ``socket``."""
    return {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}.get(platform.machine())


def _no_sockets() -> None:
    """Refuse every socket but those between processes of this machine, and io_uring, which could open one without that system call.

    Raises:
        OSError: the kernel refuses the filter.
    """
    found = _architecture()
    if found is None:
        return
    machine, socket_call = found
    load, jump_equal, jump_above, give = 0x20, 0x15, 0x35, 0x06
    refuse, allow, kill = 0x00050000 | 1, 0x7FFF0000, 0x80000000
    program = [
        (load, 0, 0, 4),  # architecture
        (jump_equal, 1, 0, machine),
        (give, 0, 0, kill),
        (load, 0, 0, 0),  # number of the call
        (jump_above, 5, 0, 0x40000000),  # x32 calls have numbers of their own
        (jump_equal, 4, 0, 425),  # io_uring_setup
        (jump_equal, 0, 2, socket_call),
        (load, 0, 0, 16),  # its first argument: the family
        (jump_equal, 0, 1, 1),  # AF_UNIX
        (give, 0, 0, allow),
        (give, 0, 0, refuse),
    ]
    code = b"".join(struct.pack("=HBBI", *line) for line in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HxxxxxxP", len(program), ctypes.addressof(buffer))
    libc = _libc()
    if libc.prctl(_PR_SET_SECCOMP, 2, header, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


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
