"""What an update does to a course's folder: which files it writes, removes and backs up, and what it says about them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from oplab.course.stubs import function_text
from oplab.errors import OplabError
from oplab.updates import merging
from oplab.updates.conflicts import Conflict
from oplab.updates.journal import Change, digest, digest_of

EXERCISES = "exercises/"
_ID = re.compile(r"TODO (c(?:\d\d|A\d)\.[a-z][a-z0-9_]*):")
_CHAPTER = re.compile(r"(?:.*/)?(c(?:\d\d|A\d))_")


@dataclass
class Plan:
    """An update, before anything is written.

    Attributes:
        backup: the folder for copies of the learner's files, relative to the course.
        changes: files to write and to remove, in this order.
        backups: files to copy first: their source by their path in the backup.
        conflicts: what could not be merged.
        added: how many files of each kind (stub, lesson, other file) are new.
        changed: how many are replaced by newer ones.
        merged: how many stubs have the learner's changes and the course's.
        removed: how many the course no longer has.
        notes: sentences.
        deleted: sentences about stubs that the learner has deleted.
    """

    backup: str
    changes: list[Change] = field(default_factory=list)
    backups: dict[str, Path | bytes] = field(default_factory=dict)
    conflicts: list[Conflict] = field(default_factory=list)
    added: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    merged: int = 0
    removed: int = 0
    notes: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)

    @property
    def news(self) -> bool:
        """Whether there is anything to tell the learner about."""
        return bool(self.added or self.changed or self.merged or self.removed or self.conflicts or self.notes)

    def lines(self) -> list[str]:
        """What happens, for the learner: one line for all numbers, then the sentences."""
        parts = []
        for counts, verb in ((self.added, ("is", "are", "new")), (self.changed, ("has", "have", "changed"))):
            if total := counts.total():
                names = [count_of(counts[kind], kind) for kind in ("lesson", "stub", "other file") if counts[kind]]
                parts.append(f"{_and(names)} {verb[total > 1]} {verb[2]}")
        if self.removed:
            parts.append(f"{count_of(self.removed, 'file')} removed")
        if self.merged:
            parts.append(f"{count_of(self.merged, 'stub')} merged with your changes")
        if self.conflicts:
            places = [f"{one.file}, line {one.line} ({one.exercise})" for one in self.conflicts]
            parts.append(f"{count_of(len(places), 'conflict')}: {'; '.join(places)}")
        return [*(["; ".join(parts)] if parts else []), *self.notes, *self.deleted]


def kind_of(path: str) -> str:
    """What a file of the course is called: stub, lesson or other file."""
    if path.startswith(EXERCISES):
        return "stub"
    return "lesson" if path.startswith("notebooks/") and path.endswith(".ipynb") else "other file"


def count_of(number: int, noun: str) -> str:
    """A number and a noun: ``1 stub``, ``2 stubs``."""
    return f"{number} {noun}{'s' * (number != 1)}"


def _and(parts: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def expect_file(root: Path, path: str, leaving: Collection[str] = ()) -> None:
    """Check that a path is free, or that of a file.

    Args:
        root: the course's folder.
        path: relative to it.
        leaving: files that are removed before. A folder with no others is removed with them.

    Raises:
        OplabError: a folder is there.
    """
    folder = root / path
    if not folder.is_dir():
        return
    inside = [inner for inner in folder.rglob("*") if inner.is_symlink() or not inner.is_dir()]
    if not inside or not {inner.relative_to(root).as_posix() for inner in inside}.issubset(leaving):
        raise OplabError(f"{path} is a folder, and the course has a file of this name.", "Move it to another place.")


def plan_stubs(
    plan: Plan,
    root: Path,
    base: Mapping[str, bytes | None],
    new: Mapping[str, bytes],
    renamed: Mapping[str, str],
    pristine: Callable[[str, bytes], bool],
) -> None:
    """Add to a plan what happens in ``exercises/``. Files are named relative to it.

    Args:
        plan: is extended.
        root: the course's folder.
        base: the stubs as they were delivered; None for one whose text is not known any more.
        new: the stubs as they are now.
        renamed: new ids of exercises by old ones.
        pristine: tells from a name and a content whether the learner's file is as it was delivered.

    Raises:
        OplabError: a folder is where a stub belongs, or a file cannot be read.
    """
    _Stubs(plan, root, base, new, renamed, pristine).plan_all()


class _Stubs:
    """The learner's files, the stubs that they began as and those of today, by their names."""

    def __init__(self, plan: Plan, root: Path, base, new, renamed, pristine):
        self.plan, self.root, self.new, self.renamed = plan, root, new, renamed
        self.raw: dict[str, bytes] = {}
        for path in {**base, **new}:
            expect_file(root, EXERCISES + path)
            if (text := _read(root / EXERCISES / path)) is not None:
                self.raw[path] = text
        self.mine = {path: _text(text) for path, text in self.raw.items()}
        self.pristine = {path for path, text in self.raw.items() if path in base and pristine(path, text)}
        self.base = {
            path: self.mine[path] if path in self.pristine else _text(text or b"") for path, text in base.items()
        }
        self.unchanged = {path for path in new if base.get(path) == new[path]}
        self.fresh = {path: _text(text) for path, text in new.items()}
        self.earlier = self._earlier()
        self.names = {path: dict[str, str]() for path in new}
        self._follow_names()

    def plan_all(self) -> None:
        for path in self.new:
            self._plan(path)
        for path in self.base:
            if path not in self.new and path not in self.earlier.values() and path in self.raw:
                self._drop(path)

    def _earlier(self) -> dict[str, str]:
        """The delivered file that each stub was, which may have had another name."""
        found = {path: path for path in self.new if path in self.base}
        dropped = [path for path in self.base if path not in self.new]
        for path in self.new:
            if path in found:
                continue
            ids = set(_ID.findall(self.fresh[path]))
            shared = {
                old: len(ids & {self.renamed.get(id, id) for id in _ID.findall(self.base[old])})
                for old in dropped
                if Path(old).suffix == Path(path).suffix
            }
            old = max(shared, key=lambda name: shared[name], default=None)
            if old is not None and shared[old]:
                found[path] = old
                dropped.remove(old)
        return found

    def _follow_names(self) -> None:
        """Functions with new names, in their file or in another one."""
        places = {id: path for path, text in self.base.items() for id in _ID.findall(text)}
        targets = {id: path for path, text in self.fresh.items() for id in _ID.findall(text)}
        for old, new in self.renamed.items():
            source, target = places.get(old), targets.get(new)
            if source is None or target is None or Path(source).suffix != ".py" or Path(target).suffix != ".py":
                continue
            if self.earlier.get(target) == source:
                self.names[target][old.split(".")[1]] = new.split(".")[1]
            else:
                self._move(source, target, old.split(".")[1], new.split(".")[1])

    def _move(self, source: str, target: str, old: str, new: str) -> None:
        """Takes the learner's function from one file to another."""
        into = self.earlier.get(target, target)
        if source not in self.mine or (into in self.base and into not in self.mine):
            return
        try:
            rest, function = merging.cut(self.mine[source], old)
            base_rest, base_function = merging.cut(self.base[source], old)
            if not function or function == base_function:
                return
            function, base_function = (merging.rename(text, {old: new}) for text in (function, base_function))
        except (SyntaxError, ValueError):
            self.plan.notes.append(
                f"{EXERCISES}{source} is not valid Python, so {old} cannot be moved to {EXERCISES}{target}."
            )
            return
        self.mine[source], self.base[source] = rest, base_rest
        self.mine[into] = _joined(self.mine.get(into, ""), function)
        self.base[into] = _joined(self.base.get(into, ""), base_function)
        self.unchanged.discard(target)
        self.pristine -= {source, into}
        self.plan.notes.append(f"Your {old} is now {new} in {EXERCISES}{target}.")

    def _plan(self, path: str) -> None:
        old, name = self.earlier.get(path), EXERCISES + path
        here = old or path
        if here not in self.mine:
            if old is None:
                self.plan.changes.append(Change(name, self.new[path], None, learner=True))
                self.plan.added["stub"] += 1
            else:
                back = (_ID.findall(self.fresh[path]) or [_chapter(path)])[0]
                self.plan.deleted.append(f"{name} stays deleted; `oplab reset {back}` brings it back.")
            return
        if path in self.unchanged and old == path:
            return
        mine, fresh, base = self.mine[here], self.fresh[path], self.base.get(here, "")
        merge = self._merge(path, base, mine, fresh)
        text = merge.text.encode("utf-8", "surrogateescape")
        self._note_clashes(path, merge)
        if text == self.raw.get(path) and here == path:
            return
        self.plan.changes.append(Change(name, text, digest_of(self.root / name), learner=True))
        if here != path:
            self.plan.changes.append(Change(EXERCISES + here, None, digest(self.raw[here]), learner=True))
            self.plan.notes.append(f"{EXERCISES}{here} is now {name}.")
        for kept in {here, path} & set(self.raw):
            if kept not in self.pristine:
                self.plan.backups[EXERCISES + kept] = self.root / EXERCISES / kept
        if here in self.pristine:
            self.plan.changed["stub"] += 1
        elif text != mine.encode("utf-8", "surrogateescape"):
            self.plan.merged += 1

    def _merge(self, path: str, base: str, mine: str, fresh: str) -> merging.Merge:
        if path.endswith(".py"):
            return merging.merge_python(base, mine, fresh, self.names[path])
        return merging.merge_text(base, mine, fresh)

    def _note_clashes(self, path: str, merge: merging.Merge) -> None:
        ids = _ID.findall(self.fresh[path])
        python = path.endswith(".py")

        def id_of(name: str | None) -> str:
            own = [id for id in ids if not python or id.split(".")[1] == name]
            return own[0] if own else _chapter(path)

        for clash in merge.clashes:
            function = function_text(self.fresh[path], clash.name) if clash.name else None
            whole = (function if function is not None else self.fresh[path]).splitlines()
            where = id_of(clash.name), EXERCISES + path, clash.line, clash.name
            self.plan.conflicts.append(Conflict(*where, clash.mine, clash.new, tuple(whole)))
        for name in merge.absent:
            if (id := id_of(name)) in ids:
                self.plan.deleted.append(
                    f"{id} is not in {EXERCISES}{path}, where it has changed; `oplab reset {id}` brings it back."
                )

    def _drop(self, path: str) -> None:
        name = EXERCISES + path
        self.plan.changes.append(Change(name, None, digest(self.raw[path]), learner=True))
        self.plan.removed += 1
        if path not in self.pristine:
            self.plan.backups[name] = self.root / name
            self.plan.notes.append(f"The course no longer has {name}; yours is kept as {self.plan.backup}/{name}.")


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise OplabError(f"{path} cannot be read: {error.strerror}.", "Make it readable, and try again.") from None


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _joined(text: str, function: str) -> str:
    return f"{text.rstrip()}\n\n\n{function}\n".lstrip("\n") if function else text


def _chapter(path: str) -> str:
    match = _CHAPTER.match(path)
    return match[1] if match else path
