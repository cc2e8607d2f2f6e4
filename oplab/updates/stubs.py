"""What an update does in ``exercises/``: a stub as it was delivered is replaced, one with an answer is merged, a conflict is NAME.new."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from oplab.errors import OplabError
from oplab.updates.merging import merge
from oplab.updates.placing import Placing

EXERCISES = "exercises/"
_ID = re.compile(rb"TODO (c(?:\d\d|A\d)\.[a-z][a-z0-9_]*):")
_TRIES = 50


@dataclass
class Report:
    """What an update did, or would do.

    Attributes:
        added: how many files of each kind (stub, lesson, other file) are new.
        changed: how many are replaced by newer ones.
        merged: how many stubs have the learner's changes and the course's.
        removed: how many the course no longer has.
        conflicts: files of the course's, ``exercises/NAME.new``, that could not be merged into the learner's.
        notes: sentences.
    """

    added: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    merged: int = 0
    removed: int = 0
    conflicts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """For the learner: one line for all numbers, then the sentences. Nothing if there is no news."""
        parts = []
        for counts, verb in ((self.added, ("is", "are", "new")), (self.changed, ("has", "have", "changed"))):
            if total := counts.total():
                names = [_count(counts[kind], kind) for kind in ("lesson", "stub", "other file") if counts[kind]]
                parts.append(f"{' and '.join(names)} {verb[total > 1]} {verb[2]}")
        if self.removed:
            parts.append(f"{_count(self.removed, 'file')} removed")
        if self.merged:
            parts.append(f"{_count(self.merged, 'stub')} merged with your changes")
        return [*(["; ".join(parts)] if parts else []), *self.notes]


def kind_of(path: str) -> str:
    """What a file of the course is called: stub, lesson or other file."""
    if path.startswith(EXERCISES):
        return "stub"
    return "lesson" if path.startswith("notebooks/") and path.endswith(".ipynb") else "other file"


def update_stubs(
    placing: Placing,
    report: Report,
    base: Mapping[str, bytes | None],
    new: Mapping[str, bytes],
    renamed: Mapping[str, str],
    done: Callable[[str], object] = lambda path: None,
) -> None:
    """Bring the learner's files to another release. A run that was killed is repeated: what is done is not done again.

    Args:
        base: the stubs as they were delivered, by their paths from the course; None for one whose text is not known any more.
        renamed: new ids of exercises by old ones.
        done: called with each path of ``new`` when the learner's file is up to date.
    """
    earlier = _earlier(base, new, renamed)
    for path in new:
        tries = (
            _update(placing, report, path, earlier.get(path, path), base, new[path], renamed) for _ in range(_TRIES)
        )
        if not any(tries):
            raise OplabError(
                f"{path} keeps changing during the update.",
                "Close the program that saves it, and run `oplab update` again.",
            )
        done(path)
    today = {old: path for path, old in earlier.items()}
    for path in (path for path in base if path not in new):
        if (mine := placing.read(path)) is None:
            continue
        placing.remove(path, mine, keep=mine != base[path])
        if path not in today:
            report.removed += 1
        what = f"{path} is now {today[path]}" if path in today else f"The course no longer has {path}"
        if mine != base[path]:
            report.notes.append(f"{what}; your version is saved in {placing.backup}/{path}.")


def _earlier(base: Mapping[str, bytes | None], new: Mapping[str, bytes], renamed: Mapping[str, str]) -> dict[str, str]:
    """The delivered file that a stub with a new name was: it had one of its exercises."""
    dropped = {path: {renamed.get(id, id) for id in _ids(text)} for path, text in base.items() if path not in new}
    found = {}
    for path in (path for path in new if path not in base):
        for old, ids in dropped.items():
            if Path(old).suffix == Path(path).suffix and ids & set(_ids(new[path])):
                found[path] = old
                del dropped[old]
                break
    return found


def _ids(text: bytes | None) -> list[str]:
    return [id.decode() for id in _ID.findall(text or b"")]


def _update(
    placing: Placing,
    report: Report,
    path: str,
    old: str,
    base: Mapping[str, bytes | None],
    new: bytes,
    renamed: Mapping[str, str],
) -> bool:
    """Brings one file up to date. False if somebody has saved it meanwhile."""
    mine, known, here = placing.read(path), base.get(old), path
    if mine is None and old != path:
        mine, here = placing.read(old), old
    if mine is None and old in base:
        if known != new:
            back = next(iter(_ids(new)), Path(path).name[:3])
            report.notes.append(f"{path} stays deleted; `oplab reset {back}` restores it.")
        return True
    if mine is None:
        report.added["stub"] += 1
        return placing.put(path, None, new)
    if here == path and (new in (known, mine) or placing.has_merged(new, mine)):
        return True
    merged = new if mine == known else merge(known, mine, new, path, renamed) if known is not None else None
    if merged is None and here == path:
        beside = f"{path}.new"
        if not placing.put(beside, placing.read(beside), new):
            return False
        report.conflicts.append(beside)
        return True
    text = new if merged is None else merged
    if text != new:
        placing.merging(new, text)
    if not placing.put(path, mine if here == path else None, text, keep=mine != known):
        return False
    if mine == known:
        report.changed["stub"] += 1
    elif text not in (new, mine):
        report.merged += 1
    return True


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
