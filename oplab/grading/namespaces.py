"""An isolated worker's own namespaces, where bubblewrap is not there to make them: mounts, IPC, network, host name.

In them every file system is read-only but the worker's own folders, System V and POSIX IPC objects of other processes do not exist, and
there is no network device. Root may make them at once; an ordinary user needs a user namespace, which some systems forbid.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import struct
import sys
from collections.abc import Iterable

_NEW_MOUNTS, _NEW_HOST_NAME, _NEW_IPC, _NEW_USER, _NEW_NETWORK = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x40000000
_ALL = _NEW_MOUNTS | _NEW_HOST_NAME | _NEW_IPC | _NEW_NETWORK
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_MOUNT_SETATTR = 442  # the same on every architecture; Linux 5.12 and newer
_AT_FDCWD, _AT_RECURSIVE, _RDONLY = -100, 0x8000, 1


@functools.lru_cache(maxsize=1)
def offered() -> bool:
    """Whether a process of this user can have such namespaces. It is tried out in a fork."""
    if not sys.platform.startswith("linux"):
        return False
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            enter(())
            os._exit(0)
        os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def enter(own: Iterable[os.PathLike[str]]) -> None:
    """Move this process into its own namespaces. It has one thread, and sets its current folder afterwards.

    Args:
        own: folders that stay writable.

    Raises:
        OSError: the system refuses; the process must not go on then.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    if user != 0 or libc.unshare(_ALL) != 0:
        _checked(libc.unshare(_ALL | _NEW_USER), "unshare")
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as stream:
                stream.write(text)
    _mount(libc, "none", "/", _MS_REC | _MS_PRIVATE)
    folders = [os.fspath(folder) for folder in own]
    for folder in folders:
        _mount(libc, folder, folder, _MS_BIND)
    _set_read_only(libc, "/", True, _AT_RECURSIVE)
    for folder in folders:
        _set_read_only(libc, folder, False, 0)


def _mount(libc: ctypes.CDLL, source: str, target: str, flags: int) -> None:
    _checked(libc.mount(source.encode(), os.fsencode(target), None, ctypes.c_ulong(flags), None), "mount")


def _set_read_only(libc: ctypes.CDLL, path: str, read_only: bool, flags: int) -> None:
    attributes = struct.pack("=QQQQ", _RDONLY if read_only else 0, 0 if read_only else _RDONLY, 0, 0)
    place = ctypes.c_long(_AT_FDCWD), os.fsencode(path), ctypes.c_ulong(flags)
    size = ctypes.c_size_t(len(attributes))
    _checked(libc.syscall(ctypes.c_long(_MOUNT_SETATTR), *place, attributes, size), "mount_setattr")


def _checked(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
