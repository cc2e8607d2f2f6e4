"""Landlock: what a process may do with files from now on, itself and all that it starts. Linux only; nothing takes it back.

The grader confines the workers that run a learner's code with it, and the compilers of that code. As a program this file confines
itself and then becomes a command, here one that may read /usr and write the current folder::

    python -I -S landlock.py /usr -- . -- c++ -c kernel.cpp

It imports little, so that it takes no more than 15 ms, and nothing of this package: it runs without ``site``.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable, Sequence

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_PR_SET_NO_NEW_PRIVS = 38
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REFER, TRUNCATE, IOCTL = (1 << bit for bit in (0, 1, 2, 3, 13, 14, 15))
CHANGE_FOLDER = sum(1 << bit for bit in range(4, 13))  # remove and make entries of each kind
READ = EXECUTE | READ_FILE | READ_DIR
_FOR_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL
DEVICES = ("/dev/null", "/dev/zero", "/dev/full")  # what every process may write to
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform.startswith("linux") else None


def abi() -> int:
    """The version of Landlock that the kernel offers, 0 for none."""
    return max(0, _syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(1))) if _libc else 0


def all_rights(version: int) -> int:
    """Every right to files that this version of Landlock knows."""
    return (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1


def write_rights(version: int) -> int:
    """The rights that change files and folders, as far as this version knows them: the first ones let ``truncate`` through."""
    return (WRITE_FILE | CHANGE_FOLDER | REFER | TRUNCATE) & all_rights(version)


def restrict(handled: int, rules: Iterable[tuple[Iterable[str], int]], *, net: int = 0, scoped: int = 0) -> None:
    """Take the rights ``handled`` from this process, except below the paths of ``rules``.

    Args:
        handled: a sum of the constants above.
        rules: paths, and what stays allowed in and below each of them. A path that does not exist is left out.
        net: rights to the network to take away (version 4).
        scoped: what is kept within this process's family, signals and abstract sockets (version 6).

    Raises:
        OSError: the kernel refused.
    """
    if _libc is None:
        raise OSError("this system has no Landlock")
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    attributes = struct.pack("=QQQ", handled, net, scoped)[: 24 if scoped else 16 if net else 8]
    ruleset = _checked(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    try:
        for paths, allowed in rules:
            for path in paths:
                _allow(ruleset, path, allowed & handled)
        _checked(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint32(0))
    finally:
        os.close(ruleset)


def around(place: str, hidden: Sequence[str]) -> list[str]:
    """``place``, or what is in it where it holds one of the folders ``hidden``: rules can only add to what is allowed.

    Args:
        hidden: absolute paths without links.
    """
    real = os.path.realpath(place)
    if not any(within(folder, [real]) for folder in hidden):
        return [place]
    if real in hidden or not os.path.isdir(real):
        return []
    return [kept for entry in sorted(os.listdir(real)) for kept in around(os.path.join(real, entry), hidden)]


def within(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of these folders, or in one."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def command(read: Sequence[str], write: Sequence[str], words: Sequence[str]) -> list[str]:
    """The command line that runs ``words`` with nothing to read but ``read`` and ``write``, and nothing to write but ``write``."""
    return [sys.executable, "-I", "-S", __file__, *read, "--", *write, "--", *words]


def _allow(ruleset: int, path: str, allowed: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # it does not exist on this machine
        return
    try:
        access = allowed if os.path.isdir(path) else allowed & _FOR_FILES
        if access:
            rule = struct.pack("=Qi", access, place)
            _checked(_ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint32(0))
    finally:
        os.close(place)


def _syscall(number: int, *args: object) -> int:
    return int(_libc.syscall(ctypes.c_long(number), *args)) if _libc else -1


def _checked(number: int, *args: object) -> int:
    result = _syscall(number, *args)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return result


def _main(words: list[str]) -> None:
    first = words.index("--")
    second = words.index("--", first + 1)
    rights = all_rights(abi())
    restrict(rights, ((words[:first], READ), ([*words[first + 1 : second], *DEVICES], rights)))
    os.execv(words[second + 1], words[second + 1 :])


if __name__ == "__main__":
    _main(sys.argv[1:])
