"""``oplab update``: new lessons and stubs in a folder that a learner works in. Nothing of the learner's is lost.

A folder made by ``oplab init`` gets its files from the installed package, a git clone from its repository. What the learner has not
changed is replaced, stubs that both have changed are merged, and where that cannot be done the new stub lies next to the learner's
file, as ``NAME.new``. Each step may be repeated: an update that was killed is finished by the next one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from oplab.course import speaking
from oplab.course.manifest import Course
from oplab.errors import OplabError
from oplab.files import lock
from oplab.updates import delivery, folders
from oplab.updates.clones import Clone
from oplab.updates.placing import BEGUN, Placing
from oplab.updates.stubs import EXERCISES, Report

LOCK = "build/update.lock"
NEW = ".new"


@dataclass(frozen=True)
class Done:
    """What an update did, or would do: lines for the learner, and whether files could not be merged."""

    lines: list[str]
    conflicts: bool


def update(
    root: Path,
    *,
    dry_run: bool = False,
    waiting: Callable[[str], object] = lambda owner: None,
    renaming: Callable[[Mapping[str, str]], object] = lambda names: None,
) -> Done:
    """Update the course in a folder: a clone, or one that ``oplab init`` has made.

    Args:
        dry_run: show what would happen; change no file.
        waiting: called with the id of a process that updates the folder now, before it is waited for.
        renaming: called with the new ids of exercises by old ones. It moves the progress, and may be called again with the same ids.

    Raises:
        OplabError: the folder cannot be updated. Nothing has changed, or the next update goes on where this one stopped.
    """
    made_by_init = (root / ".oplab").is_dir()
    if not made_by_init and not (root / ".git").exists():
        raise OplabError(
            f"{root} is neither a git clone of the course nor a folder that `oplab init` has made.",
            "Make one with `oplab init course`, and copy your files from exercises/ and work/ to it.",
        )
    try:
        with contextlib.nullcontext() if dry_run else _alone(root, waiting):
            placing, report = Placing(root, dry_run), Report()
            last: list[str] = []
            with speaking.in_english(root):
                if made_by_init:
                    files, label = delivery.files(), delivery.release()
                    renamed = folders.update_folder(placing, report, label, files)
                else:
                    label, renamed = Clone(root).update(placing, report)
                    last = ["The next `make lab`, or any other `make …`, sets up what has changed."]
            if made_by_init and not dry_run:
                last = folders.renew_lessons(root)
            if renamed and not dry_run:
                renaming(renamed)
            news = report.lines() + placing.finish()
            open_ = sorted({*report.conflicts, *_conflicts(root)})
            lines = [*news, *last] if news or report.conflicts else [f"Everything is up to date ({label})."]
            return Done([*lines, *map(_sentence, open_)], bool(open_))
    except OSError as error:
        raise OplabError(
            f"The update stopped at {error.filename or root}: {error.strerror}.",
            "Fix that, and run `oplab update` again: it resumes where it left off. Your work is not lost.",
        ) from None


def problems(course: Course) -> list[str]:
    """A sentence for each new stub that could not be merged, and one for an update that was interrupted."""
    found = [_sentence(path) for path in _conflicts(course.root)]
    return (
        [*found, "An update was interrupted. `oplab update` finishes it."] if (course.root / BEGUN).exists() else found
    )


def _conflicts(root: Path) -> list[str]:
    """New stubs next to the learner's files, from the course's folder. One that is in the place of its file by now does not count."""

    def is_open(path: Path) -> bool:
        mine = path.with_suffix("")
        return not mine.is_file() or mine.read_bytes() != path.read_bytes()

    return [path.relative_to(root).as_posix() for path in sorted((root / EXERCISES).rglob(f"*{NEW}")) if is_open(path)]


def _sentence(new: str) -> str:
    mine = new.removesuffix(NEW)
    return (
        f"{mine} has your changes in lines that the course has changed, too. Your file is unchanged, and the new stub is {new}: "
        f"merge what you need (diff -u {mine} {new}), then delete {new}."
    )


@contextlib.contextmanager
def _alone(root: Path, waiting: Callable[[str], object]) -> Iterator[None]:
    """One update at a time."""
    (root / "build").mkdir(exist_ok=True)
    with lock(root / LOCK, waiting):
        yield
