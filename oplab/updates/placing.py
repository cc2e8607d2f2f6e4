"""Files of a learner's are replaced and removed here: each is kept in the backup, and nothing that is saved meanwhile is lost."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import stat
import tempfile
import time
from hashlib import sha256
from pathlib import Path

from oplab.errors import OplabError

BEGUN = "build/update.begun"  # is there from the first change of an update to its end, and has a line for each merge
DRAFTS = "build/update.drafts"  # files before they are in their places
_EXCHANGE = 2  # RENAME_EXCHANGE of linux/fs.h
_HERE = -100  # AT_FDCWD of fcntl.h


class Placing:
    """Writes into the course's folder.

    Args:
        dry_run: nothing is written, and each change counts as made.

    Attributes:
        backup: the folder of the learner's files as they were, relative to ``root``. It is made when there is something to keep.
    """

    def __init__(self, root: Path, dry_run: bool):
        self.root, self.dry_run = root, dry_run
        stamp = f"build/backup/{time.strftime('%Y%m%d-%H%M%S')}"
        names = (stamp, *(f"{stamp}-{number}" for number in range(2, 1000)))
        self.backup = next(name for name in names if not os.path.lexists(root / name))
        self._kept: dict[str, tuple[bytes, bool]] = {}

    def begin(self) -> None:
        """Say on the disk that an update has begun, until :meth:`finish`. What a killed one was just replacing is kept."""
        if self.dry_run:
            return
        (self.root / BEGUN).touch()
        drafts = self.root / DRAFTS
        drafts.mkdir(exist_ok=True)
        if any(drafts.iterdir()):
            os.rename(drafts, self.root / self._free("interrupted"))
            drafts.mkdir()

    def merging(self, new: bytes, merged: bytes) -> None:
        """Write down what a stub is merged to, before it is: a merge of its own result may be a conflict."""
        if not self.dry_run:
            with open(self.root / BEGUN, "a") as file:
                file.write(f"{_digest(new, merged)}\n")

    def has_merged(self, new: bytes, mine: bytes) -> bool:
        """Whether an update that was killed has made ``mine`` by merging ``new``."""
        return _digest(new, mine) in (self.read(BEGUN) or b"").decode().split()

    def read(self, path: str) -> bytes | None:
        """A file's content; None without one."""
        try:
            return (self.root / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def put(self, path: str, seen: bytes | None, text: bytes, keep: bool = True) -> bool:
        """Write a file whose content is ``seen``, or that does not exist (None).

        Args:
            seen: what was there when ``text`` was made.
            keep: whether the backup keeps the file; without it only if somebody saves the file meanwhile.

        Returns:
            False: it was saved meanwhile, and is as it was saved.

        Raises:
            OSError: it cannot be written. What was there still is.
        """
        if self.dry_run or seen == text:
            return True
        target = Path(os.path.realpath(self.root / path))  # where a learner has linked a file, the link stays
        target.parent.mkdir(parents=True, exist_ok=True)
        kept = self._keep(path, seen, keep) if seen is not None else None
        drafts = self.root / DRAFTS
        near = drafts if drafts.stat().st_dev == target.parent.stat().st_dev else target.parent
        handle, name = tempfile.mkstemp(dir=near, prefix=f".{target.name}-")
        draft = Path(name)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text)
                file.flush()
                os.fchmod(handle, stat.S_IMODE(target.stat().st_mode) if seen is not None else 0o644)
                os.fsync(handle)
            done = _add(draft, target) if seen is None else _exchange(draft, target, seen)
        finally:
            draft.unlink(missing_ok=True)
        if not done and kept is not None:
            del self._kept[kept]
            (self.root / kept).unlink()
        return done

    def remove(self, path: str, seen: bytes, keep: bool = True) -> None:
        """Move a file to the backup, which forgets it at the end if it is still ``seen`` and not to be kept."""
        if self.dry_run:
            return
        target, copy = self.root / path, self._free(path)
        try:
            os.rename(target, self.root / copy)
        except OSError:
            shutil.copy2(target, self.root / copy)
            target.unlink()
        self._kept[copy] = seen, keep
        self._remove_empty(path)

    def finish(self) -> list[str]:
        """Empty the backup of what need not be kept.

        Returns:
            sentences about files that a program has written in place while they were replaced.
        """
        late = []
        for path, (seen, keep) in self._kept.items():
            copy = self.root / path
            if copy.read_bytes() != seen:
                late.append(f"A program wrote to a file while it was updated; what it wrote is {path}.")
            elif not keep:
                copy.unlink()
                self._remove_empty(path)
        if not self.dry_run:
            (self.root / DRAFTS).rmdir()
            (self.root / BEGUN).unlink(missing_ok=True)
        return late

    def _keep(self, path: str, seen: bytes, keep: bool) -> str:
        """Gives the file a second name in the backup: a program that has it open writes into the backup from now on."""
        source, copy = os.path.realpath(self.root / path), self._free(path)
        try:
            os.link(source, self.root / copy)
        except OSError:  # build/ is on another disk, or on one without links
            shutil.copy2(source, self.root / copy)
        self._kept[copy] = seen, keep
        return copy

    def _free(self, path: str) -> str:
        """Where the backup of a file goes."""
        copy = Path(self.backup, path)
        (self.root / copy).parent.mkdir(parents=True, exist_ok=True)
        names = (copy, *(copy.with_stem(f"{copy.stem}-{number}") for number in range(2, 1000)))
        return next(name for name in names if not os.path.lexists(self.root / name)).as_posix()

    def _remove_empty(self, path: str) -> None:
        """Removes the folders of a file that is gone, up to the first that has something in it."""
        for folder in Path(path).parents[:-1]:
            with contextlib.suppress(OSError):
                (self.root / folder).rmdir()


def _digest(*texts: bytes) -> str:
    return sha256(b"\0".join(texts)).hexdigest()


def expect_file(root: Path, path: str, leaving: set[str]) -> None:
    """Check that a path is free, or that of a file.

    Args:
        leaving: files that are removed before. A folder with no others is removed with them.
    """
    folder = root / path
    if folder.is_dir():
        inside = {inner.relative_to(root).as_posix() for inner in folder.rglob("*") if not inner.is_dir()}
        if not inside or not inside <= leaving:
            raise OplabError(
                f"{path} is a folder, and the course has a file of this name.", "Move it to another place."
            )


def _add(draft: Path, target: Path) -> bool:
    try:
        os.link(draft, target)
    except FileExistsError:
        return False
    return True


def _exchange(draft: Path, target: Path, seen: bytes) -> bool:
    """Swaps two files, and back if the target was not what was seen: at each moment the target is a whole file."""
    placed = draft.stat().st_ino
    if not _swap(draft, target):
        if not target.exists() or target.read_bytes() != seen:
            return False
        os.replace(draft, target)
        return True
    if draft.read_bytes() == seen:
        return True
    while True:  # more than once if an editor that saves by renaming saves again
        back = draft.stat().st_ino
        if not _swap(draft, target):
            os.replace(draft, target)
            return False
        if draft.stat().st_ino == placed:
            return False
        placed = back


def _swap(one: Path, other: Path) -> bool:
    """Exchanges two files' names in one step; False where the system cannot."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    return rename is not None and rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0
