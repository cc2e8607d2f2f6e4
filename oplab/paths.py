"""Where the course lives on this machine."""

from __future__ import annotations

import os
from pathlib import Path

from oplab.errors import OplabError

TRACKS = ("exercises", "solutions")
PACKAGE = Path(__file__).resolve().parent
# The course's files in an installed wheel, where pyproject.toml puts them. In a clone they are in the folders that are theirs.
SHIPPED = PACKAGE / "shipped"
DELIVERED = ".oplab/delivered.json"  # in a learner's folder: what `oplab init` and `oplab update` put there


def root() -> Path:
    """The course's folder: the one that holds ``course.toml``.

    It is looked for in ``OPLAB_ROOT``, in the current folder and its parents, then next to this package (an editable
    install), so a notebook may be started from anywhere.
    """
    named = os.environ.get("OPLAB_ROOT")
    if named:
        folder = Path(named).expanduser().resolve()
        if (folder / "course.toml").is_file():
            return folder
        raise OplabError(
            f"OPLAB_ROOT is set to {folder}, but there is no course.toml in it.",
            "Set OPLAB_ROOT to the folder of the course, or unset it.",
        )
    here = Path.cwd().resolve()
    for folder in (here, *here.parents, PACKAGE.parent):
        if (folder / "course.toml").is_file():
            return folder
    raise OplabError(
        f"No course was found: neither {here} nor a folder above it holds course.toml.",
        "Change to the folder of the course or set OPLAB_ROOT to it; `oplab init course` makes one.",
    )


def part(root: Path, name: str) -> Path:
    """A file or folder of the course, such as ``solutions``, which in a folder that ``oplab init`` made is the package's."""
    if (root / name).exists() or not (root / DELIVERED).is_file():
        return root / name
    return (SHIPPED if SHIPPED.is_dir() and not name.startswith("oplab/") else PACKAGE.parent) / name


def build_dir() -> Path:
    """``build/`` in the course's folder, created if it is missing. Everything that the course writes goes there."""
    return created(root() / "build")


def created(folder: Path) -> Path:
    """The folder itself, created with those above it if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OplabError(
            f"The folder {folder} cannot be created: {error.strerror}.",
            "Make the course's folder writable, or copy the course to a folder that you can write to.",
        ) from None
    return folder


def track() -> str:
    """The answers in use, set by ``OPLAB_TRACK``: ``exercises`` (the learner's, the default) or ``solutions``."""
    name = os.environ.get("OPLAB_TRACK") or "exercises"
    if name not in TRACKS:
        raise OplabError(
            f"OPLAB_TRACK is {name!r}; it can be {' or '.join(TRACKS)}.", "Unset OPLAB_TRACK to use your exercises."
        )
    return name
