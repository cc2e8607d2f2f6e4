"""The folder of one run for temporary files, and in it those of each exercise.

A run that was killed leaves its folder behind; the next run removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from oplab.files import remove_tree

PREFIX = "oplab-"
_SWEPT = (
    "oplab-swept-"  # in the name of a folder that is being removed: it has no owner any more, with or without a lock
)
_LOCK = ".in-use"  # locked while the run lives: the system frees it however the run ends


@contextlib.contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """A new folder that is removed when the block ends, after those that killed runs have left next to it.

    Args:
        parent: where to make it; the system's folder for temporary files by default.

    Raises:
        OSError: it cannot be made.
    """
    where = Path(parent if parent is not None else tempfile.gettempdir())
    _sweep_once(where)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=where)).resolve()
    handle = -1
    try:
        handle = os.open(folder / ".new", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        os.rename(folder / ".new", folder / _LOCK)  # locked before another run can find it
        yield folder
    finally:
        discard(folder)
        if handle >= 0:
            os.close(handle)


@functools.cache
def _sweep_once(parent: Path) -> None:
    sweep(parent)


def sweep(parent: Path) -> int:
    """Remove the folders of runs that have ended without doing it themselves, and say how many they were.

    Only folders of this user that :func:`scratch_folder` has made, and that no living run has locked.
    """
    removed = 0
    with contextlib.suppress(OSError):
        for entry in os.scandir(parent):
            if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
                path = Path(entry.path)
                removed += _remove_swept(path) if entry.name.startswith(_SWEPT) else _remove_if_stale(path)
    return removed


def discard(folder: Path) -> bool:
    """Remove a folder, also one that a process still writes to: what is left of it then goes with the next sweep.

    It gets another name first. Else its lock could be removed before the last file in it is written, and a folder without a lock
    belongs to a run that is just beginning.
    """
    swept = folder.with_name(f"{_SWEPT}{os.getpid()}-{folder.name.removeprefix(PREFIX)}")
    try:
        os.rename(folder, swept)
    except OSError:  # it is gone, or a mount point
        return remove_tree(folder)
    return remove_tree(swept)


def _remove_swept(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        if folder.stat().st_uid == os.getuid():
            return remove_tree(folder)
    return False


def _remove_if_stale(folder: Path) -> bool:
    try:
        if folder.stat().st_uid != os.getuid():
            return False
        handle = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # another tool's folder, or one that is being made
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return discard(folder)
    except OSError:  # a living run's
        return False
    finally:
        os.close(handle)


class HalvesFolders:
    """The folders of one exercise, for the workers of its two halves.

    Args:
        home: the folder that contains them. It may exist, from an earlier run of the exercise; its parent must.
        pieces: a library to copy into the scratch folder of the collect half as ``pieces.so``.

    Raises:
        OSError: they cannot be made.
    """

    def __init__(self, home: Path, pieces: Path | None):
        self.home, self.evidence, self.scratch, self._pieces = home, home / "evidence", home / "scratch", pieces
        remove_tree(home)
        # Without parents: where the command was killed, the next one removes this run's folder, and it must not come back.
        home.mkdir(exist_ok=True)
        self.for_collect()

    def for_collect(self) -> None:
        """Make the folders of the collect half, empty."""
        for folder in (self.evidence, self.scratch):
            remove_tree(folder)
            folder.mkdir()
        if self._pieces is not None:
            shutil.copy2(self._pieces, self.scratch / "pieces.so")
        self._made = self._inodes()

    def for_judge(self) -> Path:
        """Make the scratch folder of the judge half, empty. It is not that of collect: the learner's code may have left links there."""
        folder = self.home / "judge"
        remove_tree(folder)
        folder.mkdir()
        return folder

    @property
    def removed(self) -> bool:
        """Whether a folder was removed since :meth:`for_collect`, also if it was made again: it has another inode then."""
        return self._inodes() != self._made

    def _inodes(self) -> list[int | None]:
        folders = (self.home, self.evidence, self.scratch)
        return [folder.stat().st_ino if folder.is_dir() else None for folder in folders]
