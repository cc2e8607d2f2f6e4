"""Files that several processes share: atomic writes, locks, and whether one has changed; and folders that are removed whatever is in them.

Standard library only: ``tools/setup_*.py`` use it before anything is installed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO


def file_state(path: Path) -> tuple[int, ...] | None:
    """Inode, size and times of a file, which change with its content; None without one."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


@contextlib.contextmanager
def replacing(path: Path, *, mode: int = 0o644, sync: bool = True) -> Iterator[BinaryIO]:
    """A binary file to write. It takes the place of ``path`` when the block ends; if the block raises, ``path`` is unchanged.

    A reader, a crash or a kill at any moment finds the old content or the new, never a part. A killed process may leave a
    hidden file ``.new-…`` in the folder.

    Args:
        path: its folder exists. A link is replaced by a file.
        mode: the file's permissions; the umask does not apply.
        sync: wait until the content is on the disk, so that this also holds for a power failure.

    Raises:
        OSError: the folder cannot be written, or the disk is full.
    """
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fchmod(handle, mode)
            if sync:
                os.fsync(handle)
        os.replace(draft, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise


def write_atomically(path: Path, content: str | bytes, *, mode: int = 0o644, sync: bool = True) -> None:
    """Writes a whole file or nothing, as :func:`replacing` does; text is written as UTF-8."""
    with replacing(path, mode=mode, sync=sync) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextlib.contextmanager
def lock(path: Path, waiting: Callable[[str], object] = lambda owner: None) -> Iterator[int]:
    """Holds a lock, which a file represents. The system frees it when its holder ends, however it ends.

    Args:
        path: the lock's file, created where it is missing; its folder exists. It holds the process id of its last owner.
        waiting: called once with the owner's process id, or "unknown", if another process has the lock.

    Yields:
        The file's descriptor. A child process that inherits it holds the lock too.

    Raises:
        OSError: the file cannot be opened.
        KeyboardInterrupt: Ctrl-C, also while it waits.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting(os.read(handle, 32).decode(errors="replace").strip() or "unknown")
            fcntl.flock(handle, fcntl.LOCK_EX)
        with contextlib.suppress(OSError):  # a full disk: the id is only for the message
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        yield handle
    finally:
        os.close(handle)


def remove_tree(folder: Path) -> bool:
    """Removes a folder and all that is in it, without following links.

    Each folder inside is moved up to ``folder`` before it is emptied, so neither the depth nor the length of a path matters:
    ``shutil.rmtree`` recurses, and 1 000 nested folders end it. Nothing else may use the folder meanwhile.

    Returns:
        whether it is gone. What cannot be removed stays.
    """
    try:
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    moved, stuck = 0, set()
    try:
        while waiting := set(os.listdir(top)) - stuck:
            for name in waiting:
                try:
                    moved = _remove(top, name, moved)
                except OSError:
                    stuck.add(name)
        with contextlib.suppress(OSError):
            os.rmdir(folder)
    finally:
        os.close(top)
    return not os.path.lexists(folder)


def _remove(top: int, name: str, moved: int) -> int:
    """Removes one entry of the folder ``top``; folders in it become entries of ``top``. ``moved`` counts these, for their names."""
    if not _opened(top, name):
        os.unlink(name, dir_fd=top)
        return moved
    here = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    try:
        for inner in os.listdir(here):
            if _opened(here, inner):
                moved += 1
                os.rename(inner, f".removed-{os.getpid()}-{moved}", src_dir_fd=here, dst_dir_fd=top)
            else:
                os.unlink(inner, dir_fd=here)
    finally:
        os.close(here)
    os.rmdir(name, dir_fd=top)
    return moved


def _opened(parent: int, name: str) -> bool:
    """Whether an entry is a folder; if so, its owner may list and change it from now on."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        return False
    os.chmod(name, 0o700, dir_fd=parent)
    return True
