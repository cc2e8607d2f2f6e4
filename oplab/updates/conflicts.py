"""What an update could not merge, in ``build/updates.json``, until the learner has settled it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from oplab.course import stubs
from oplab.errors import OplabError
from oplab.files import lock, write_atomically

FILE = "build/updates.json"
VERSION = 1


@dataclass(frozen=True)
class Conflict:
    """Lines that the learner and the course both changed. The learner's lines are in the file.

    Attributes:
        exercise: its id; the chapter's (``c05``) for lines outside of all exercises.
        file: relative to the course.
        line: where the learner's lines were when the update ended, counted from 1.
        name: the function that they are in; None outside of all functions, and in C++.
        mine: the learner's lines.
        new: the lines of the new stub.
        stub: the whole new stub of the function, or of the file where ``name`` is None.
    """

    exercise: str
    file: str
    line: int
    name: str | None
    mine: tuple[str, ...]
    new: tuple[str, ...]
    stub: tuple[str, ...]


def load(root: Path) -> list[Conflict]:
    """The conflicts that are not settled. Nothing is written: not even one that a reset has settled is removed from the file.

    Args:
        root: the course's folder.
    """
    return [conflict for conflict in _read(root) if not _is_stub(root, conflict)]


def line_now(root: Path, conflict: Conflict) -> int:
    """Where the learner's lines are now; where they were if they have changed."""
    mine = conflict.mine
    with contextlib.suppress(OSError, UnicodeDecodeError):
        lines = (root / conflict.file).read_text(encoding="utf-8").splitlines()
        starts = [at for at in range(len(lines)) if mine and tuple(lines[at : at + len(mine)]) == mine]
        if starts:
            return 1 + min(starts, key=lambda at: abs(at + 1 - conflict.line))
    return conflict.line


def add(root: Path, conflicts: Iterable[Conflict]) -> None:
    """Record conflicts. A newer one replaces those of the same exercise and file.

    Raises:
        OSError: the file cannot be written.
    """
    conflicts = list(conflicts)
    if not conflicts:
        return
    with lock(root / "build" / "updates.lock"):
        newer = {(conflict.exercise, conflict.file) for conflict in conflicts}
        kept = [conflict for conflict in load(root) if (conflict.exercise, conflict.file) not in newer]
        _write(root, [*kept, *conflicts])


def settle(root: Path, id: str) -> list[Conflict]:
    """Forget the conflicts of an exercise, or of a chapter (``c05``).

    Returns:
        what was forgotten.

    Raises:
        OplabError: there is none, or the file cannot be written.
    """
    try:
        (root / "build").mkdir(exist_ok=True)
        with lock(root / "build" / "updates.lock"):
            found = load(root)
            settled = [conflict for conflict in found if id in (conflict.exercise, conflict.exercise.split(".")[0])]
            if not settled:
                ids = dict.fromkeys(conflict.exercise for conflict in found)
                raise OplabError(
                    f"{id} has no conflict.", f"Open conflicts: {', '.join(ids)}." if ids else "No conflict is open."
                )
            _write(root, [conflict for conflict in found if conflict not in settled])
    except OSError as error:
        raise OplabError(
            f"{root / FILE} cannot be written: {error.strerror}.", "Make the course's folder writable."
        ) from None
    return settled


def _read(root: Path) -> list[Conflict]:
    """What is in the file; nothing if it is missing or broken."""
    try:
        data = json.loads((root / FILE).read_text(encoding="utf-8"))
        return from_json(data["conflicts"]) if data["version"] == VERSION else []
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []


def from_json(entries: list[dict]) -> list[Conflict]:
    """Conflicts as :func:`to_json` has made them.

    Raises:
        TypeError, KeyError, ValueError: it is not that.
    """
    return [
        Conflict(
            str(entry["exercise"]),
            str(entry["file"]),
            int(entry["line"]),
            None if entry["name"] is None else str(entry["name"]),
            *(tuple(map(str, entry[key])) for key in ("mine", "new", "stub")),
        )
        for entry in entries
    ]


def to_json(conflicts: Iterable[Conflict]) -> list[dict]:
    """Conflicts as values for JSON."""
    return [asdict(conflict) for conflict in conflicts]


def _write(root: Path, conflicts: list[Conflict]) -> None:
    text = json.dumps({"version": VERSION, "conflicts": to_json(conflicts)}, indent=1)
    write_atomically(root / FILE, text + "\n")


def _is_stub(root: Path, conflict: Conflict) -> bool:
    """Whether the file holds the new stub: after a reset, or because the learner has deleted the file."""
    stub = "\n".join(conflict.stub) + "\n"
    try:
        text = (root / conflict.file).read_text(encoding="utf-8")
        return stubs.is_untouched(text, stub, conflict.name)
    except FileNotFoundError:
        return True
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return False
