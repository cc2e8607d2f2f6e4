"""A learner's folder without the repository: ``oplab init`` fills it from the installed package.

The folder has the lessons, the stubs, the C++ sources and the pages that the lessons link to. The checks and the reference answers
stay in the package. ``.oplab/`` holds what was delivered: ``delivered.json`` with the release and a digest of each file, and in
``stubs/`` the stubs as they were. ``oplab update`` tells from it what the learner has changed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import oplab
from oplab import paths
from oplab.course import manifest, stubs
from oplab.errors import OplabError

STUBS = ".oplab/stubs"
VERSION = 1
_OWN = Path(__file__).parent / "folder"  # README.md and Makefile of a learner's folder
_FILES = ("course.toml", "LICENSE", "LICENSE-docs")
_FOLDERS = ("csrc", "docs", "notebooks")
_NOT_DELIVERED = ("notebooks/src/", "docs/site/")
_LEFT_OVER = re.compile(r"__pycache__|\.ipynb_checkpoints|\.(?:pyc|so)$")


def release() -> str:
    """The version of the course that is installed, such as ``0.2.0``."""
    return oplab.__version__


def source() -> Path:
    """The folder with the files of this version: in the installed package, or the clone that the package is part of."""
    return paths.SHIPPED if paths.SHIPPED.is_dir() else paths.PACKAGE.parent


def files() -> dict[str, bytes]:
    """What a learner's folder gets from this release: the content of each file, by its path there. The stubs are made anew."""
    origin = source()
    course = manifest.load(origin)
    names = [*_FILES]
    for folder in _FOLDERS:
        found = (path.relative_to(origin).as_posix() for path in (origin / folder).rglob("*") if path.is_file())
        names += [name for name in found if not name.startswith(_NOT_DELIVERED) and not _LEFT_OVER.search(name)]
    try:
        texts = {name: (origin / name).read_bytes() for name in names}
        texts |= {path.name: path.read_bytes() for path in sorted(_OWN.iterdir())}
        for name in dict.fromkeys(exercise.file for exercise in course.exercises):
            solution = (origin / "solutions" / name).read_text(encoding="utf-8")
            texts[f"exercises/{name}"] = stubs.make_stub(solution, name).encode()
    except OSError as error:
        raise OplabError(
            f"{error.filename} cannot be read: {error.strerror}.",
            "Install operator-lab again: its files are incomplete.",
        ) from None
    return dict(sorted(texts.items()))


def record(release: str, texts: Mapping[str, bytes]) -> str:
    """The text of ``delivered.json`` for these files."""
    digests = {name: hashlib.sha256(text).hexdigest() for name, text in sorted(texts.items())}
    return json.dumps({"version": VERSION, "release": release, "files": digests}, indent=1) + "\n"


def init(folder: Path) -> int:
    """Make a learner's folder. It appears at once and whole: a run that is killed leaves at most a hidden folder next to it.

    Args:
        folder: it does not exist yet, or it is empty.
    """
    folder = folder.expanduser().absolute()
    _expect_room(folder)
    texts = files()
    contents = {**texts, paths.DELIVERED: record(release(), texts).encode()}
    contents |= {
        f"{STUBS}/{name.removeprefix('exercises/')}": text
        for name, text in texts.items()
        if name.startswith("exercises/")
    }
    draft = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))
        for name, text in contents.items():
            path = draft / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
        draft.chmod(0o755)
        os.rename(draft, folder)  # also onto an empty folder
    except OSError as error:
        raise OplabError(*_why(error, folder)) from None
    finally:
        if draft is not None and draft.exists():
            shutil.rmtree(draft, ignore_errors=True)
    return len(texts)


def _expect_room(folder: Path) -> None:
    """Raises OplabError for a folder that has something in it, or that is not a folder."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise OplabError(f"{folder} is a file.", "Name a folder that does not exist yet: oplab init course")
    try:
        inside = sorted(os.listdir(folder))
    except OSError as error:
        raise OplabError(*_why(error, folder)) from None
    if "course.toml" in inside:
        raise OplabError(
            f"{folder} is already a folder of the course.", "`oplab lab` opens it, and `oplab update` updates it."
        )
    if inside:
        listed = ", ".join(inside[:3]) + (", …" if len(inside) > 3 else "")
        raise OplabError(
            f"{folder} is not empty: {listed}.", "Name a folder that does not exist yet: oplab init course"
        )


def _why(error: OSError, folder: Path) -> tuple[str, str]:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{folder} cannot be written: the disk is full.", "Free 20 MB, and run the same command again."
    return f"{folder} cannot be written: {error.strerror}.", "Name a folder that you can write to."
