"""Changes of several files that happen all or not at all, also if the process is killed: staged, written down, then renamed.

``build/update/`` has the new files (``staged``), the learner's as they were (``before``) and ``journal.json``. Until the journal is
there nothing has changed, and from then on :func:`finish` ends what was begun.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oplab.errors import OplabError
from oplab.files import remove_tree, write_atomically
from oplab.updates.merging import merge_python, merge_text

FOLDER = "build/update"
VERSION = 1


@dataclass(frozen=True)
class Change:
    """A file that is written or removed.

    Attributes:
        path: relative to the course.
        text: its new content; a path for a file that is moved there; None if it is removed.
        was: the digest of the file that it replaces (:func:`digest_of`), or None without one.
        learner: whether learners edit it: what is saved while an update runs is merged, too.
    """

    path: str
    text: bytes | Path | None
    was: str | None
    learner: bool = False


def digest_of(path: Path) -> str | None:
    """The SHA-256 of a file's content, or of the target of a broken link; None without a file.

    Raises:
        OSError: it cannot be read.
    """
    try:
        if path.is_symlink() and not path.is_file():
            return hashlib.sha256(b"link\0" + os.readlink(path).encode()).hexdigest()
        return digest(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def digest(text: bytes) -> str:
    """The SHA-256 of a text."""
    return hashlib.sha256(text).hexdigest()


def new_backup(root: Path) -> str:
    """A folder in ``build/backup/`` that does not exist yet, relative to the course."""
    stamp = f"build/backup/{time.strftime('%Y%m%d-%H%M%S')}"
    name, number = stamp, 1
    while os.path.lexists(root / name):
        number += 1
        name = f"{stamp}-{number}"
    return name


def begin(root: Path, changes: Iterable[Change], backups: Mapping[str, Path | bytes], data: dict[str, Any]) -> None:
    """Stage changes and write the journal. After this, :func:`finish` applies them.

    Args:
        root: the course's folder.
        changes: in the order in which they are made.
        backups: what is copied to ``data["backup"]`` first, by its path there.
        data: values for JSON that :func:`finish` gives to its caller.

    Raises:
        OplabError: something cannot be written. Nothing has changed then.
    """
    folder, backup = root / FOLDER, root / data["backup"]
    steps = []
    try:
        clear(root, keep="tree")
        folder.mkdir(parents=True, exist_ok=True)
        for path, source in backups.items():
            _copy(source, backup / path)
        for change in changes:
            steps.append({"path": change.path, "was": change.was, "learner": change.learner})
            steps[-1]["remove"] = change.text is None
            if change.learner and change.was is not None:
                _copy(root / change.path, folder / "before" / change.path)
            if change.text is None:
                continue
            staged = folder / "staged" / change.path
            staged.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(change.text, Path):
                os.rename(change.text, staged)
            else:
                write_atomically(staged, change.text, sync=change.learner)
        text = json.dumps({**data, "version": VERSION, "steps": steps}, indent=1)
        write_atomically(folder / "journal.json", text + "\n")
    except BaseException as error:
        clear(root)
        if backup.exists():
            remove_tree(backup)
        if isinstance(error, OSError):
            raise OplabError(
                f"The update cannot be prepared, and nothing has changed: {error.strerror} ({error.filename or folder}).",
                "Free some disk space, and try again."
                if error.errno in (errno.ENOSPC, errno.EDQUOT)
                else "Make the course's folder writable, and try again.",
            ) from None
        raise


def pending(root: Path) -> dict[str, Any] | None:
    """The journal of an update that has not ended, or None.

    Raises:
        OplabError: it is broken, or a newer version has written it.
    """
    path = root / FOLDER / "journal.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["version"] != VERSION:
            raise ValueError("another version")
        return data
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        raise OplabError(
            f"{path} cannot be read, so the interrupted update cannot be finished.",
            f"Move {root / FOLDER} to another place, and run `oplab update` again. "
            "Your files from before are in build/backup/.",
        ) from None


def finish(root: Path, data: dict[str, Any], last: Callable[[], None] = lambda: None) -> list[str]:
    """Make the changes of a journal. What an interrupted run has made already is not made again.

    Args:
        root: the course's folder.
        data: the journal.
        last: called when all files are in their places.

    Returns:
        sentences about files that were saved meanwhile.

    Raises:
        OplabError: a file cannot be written. Running it again goes on there.
    """
    lines: list[str] = []
    path = root
    try:
        for step in data["steps"]:
            path = root / step["path"]
            lines += _remove(root, step, data) if step["remove"] else _put(root, step, data)
    except OSError as error:
        raise OplabError(
            f"The update stopped at {path}: {error.strerror}.",
            "Fix that, and run `oplab update` again: it goes on where it stopped.",
        ) from None
    last()
    return lines


def clear(root: Path, keep: str = "") -> None:
    """Remove the journal, and then what was staged, apart from one folder."""
    folder = root / FOLDER
    if not folder.is_dir():
        return
    (folder / "journal.json").unlink(missing_ok=True)
    for path in folder.iterdir():
        if path.name == keep:
            continue
        if path.is_dir() and not path.is_symlink():
            remove_tree(path)
        else:
            path.unlink()
    if not keep:
        remove_tree(folder)


def _put(root: Path, step: dict[str, Any], data: dict[str, Any]) -> list[str]:
    """Moves a staged file to its place. One that was saved since it was staged is merged again, or kept as a backup."""
    staged, target = root / FOLDER / "staged" / step["path"], root / step["path"]
    if not os.path.lexists(staged):
        return []  # an interrupted run has moved it
    lines = []
    now = digest_of(target)
    if now not in (None, step["was"], digest_of(staged)):
        kept = _backup(root, step["path"], data)
        lines.append(f"{step['path']} was saved while the update ran; what was saved is kept as {kept}.")
        before = root / FOLDER / "before" / step["path"]
        if step["learner"] and before.exists():
            texts = [file.read_text("utf-8", "surrogateescape") for file in (before, target, staged)]
            merged = (merge_python if target.suffix == ".py" else merge_text)(*texts)
            write_atomically(staged, merged.text.encode("utf-8", "surrogateescape"))
            lines[-1] = f"{step['path']} was saved while the update ran, and is merged."
    if step["learner"]:
        target = Path(os.path.realpath(target))  # the link stays where a learner has linked a file
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.replace(staged, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        write_atomically(target, staged.read_bytes())  # build/ is on another disk
        staged.unlink()
    return lines


def _remove(root: Path, step: dict[str, Any], data: dict[str, Any]) -> list[str]:
    target = root / step["path"]
    now, lines = digest_of(target), []
    if now is None:
        return []
    if now != step["was"]:
        kept = _backup(root, step["path"], data)
        lines.append(f"{step['path']} was saved while the update ran; it is kept as {kept}.")
    target.unlink()
    for folder in target.relative_to(root).parents[:-1]:  # folders that are empty now
        if any((root / folder).iterdir()):
            break
        (root / folder).rmdir()
    return lines


def _backup(root: Path, path: str, data: dict[str, Any]) -> str:
    """A further copy of a file in the update's backup, relative to the course."""
    number, copy = 1, Path(data["backup"], path)
    while (root / copy).exists():
        number += 1
        copy = Path(data["backup"], path).with_stem(f"{Path(path).stem}-{number}")
    _copy(root / path, root / copy)
    return copy.as_posix()


def _copy(source: Path | bytes, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(source, bytes):
        write_atomically(target, source)
        return
    shutil.copy2(source, target)
    descriptor = os.open(target, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
