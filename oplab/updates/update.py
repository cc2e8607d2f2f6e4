"""``oplab update``: new lessons and stubs in a folder that a learner works in. Nothing of the learner's is lost.

A folder made by ``oplab init`` gets its files from the installed package, a git clone from its repository. What the learner has not
changed is replaced; stubs that both have changed are merged (:mod:`oplab.updates.merging`); everything else is backed up first.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from oplab.course import copies, manifest, renaming
from oplab.course.manifest import Course
from oplab.errors import OplabError
from oplab.files import lock
from oplab.updates import conflicts, delivery, journal
from oplab.updates.clones import Clone
from oplab.updates.conflicts import Conflict
from oplab.updates.folders import delivered, expect_newer, plan_folder
from oplab.updates.journal import digest, digest_of
from oplab.updates.planning import Plan

LOCK = "build/update.lock"
Renaming = Callable[[Mapping[str, str]], object]


@dataclass
class Report:
    """What an update did, or would do.

    Attributes:
        lines: for the learner.
        conflicts: what this update could not merge.
    """

    lines: list[str] = field(default_factory=list)
    conflicts: list[Conflict] = field(default_factory=list)


def update(
    root: Path,
    *,
    dry_run: bool = False,
    waiting: Callable[[str], object] = lambda owner: None,
    renaming: Renaming = lambda names: None,
) -> Report:
    """Update the course in a folder: a clone, or one that ``oplab init`` has made.

    Args:
        root: the course's folder.
        dry_run: say what would happen, and write nothing.
        waiting: called with the id of a process that updates the folder now, before it is waited for.
        renaming: called with the new ids of exercises by old ones. It moves the progress, and may be called again with the same ids.

    Raises:
        OplabError: the folder cannot be updated. It is as it was then, unless the message says that the update goes on later.
    """
    if (root / ".oplab").is_dir():
        release, files = delivery.release(), delivery.files()
        return update_folder(root, release, files, dry_run=dry_run, waiting=waiting, renaming=renaming)
    if (root / ".git").exists():
        return update_clone(root, dry_run=dry_run, waiting=waiting, renaming=renaming)
    raise OplabError(
        f"{root} is neither a git clone of the course nor a folder that `oplab init` has made.",
        "Make one with `oplab init course`, and copy your files from exercises/ and work/ to it.",
    )


def update_folder(
    root: Path,
    release: str,
    files: Mapping[str, bytes],
    *,
    dry_run: bool = False,
    waiting: Callable[[str], object] = lambda owner: None,
    renaming: Renaming = lambda names: None,
) -> Report:
    """Update a folder that ``oplab init`` has made.

    Args:
        root: the folder.
        release: the version that ``files`` are of.
        files: the content of all files of the course, by their paths.
        dry_run, waiting, renaming: see :func:`update`.

    Raises:
        OplabError: see :func:`update`.
    """
    with _alone(root, dry_run, waiting):
        report = _unfinished(root, dry_run, renaming)
        before = delivered(root)
        expect_newer(before, release)
        plan = Plan(journal.new_backup(root))
        renamed = _renamed(files.get("course.toml", b""))
        plan_folder(plan, root, before, release, files, renamed)
        stale = _lessons_kept(root, files)
        _carry_out(plan, root, {"kind": "folder", "renamed": renamed}, report, dry_run, renaming)
        report.lines += plan.lines() if plan.news else [f"Everything is up to date ({release})."]
        if not dry_run:
            report.lines += _sync(root)
        if plan.news:
            report.lines += stale
        return report


def update_clone(
    root: Path,
    *,
    dry_run: bool = False,
    waiting: Callable[[str], object] = lambda owner: None,
    renaming: Renaming = lambda names: None,
) -> Report:
    """Update a git clone, as ``git pull --ff-only`` does, with the learner's stubs merged.

    Args:
        root: the clone.
        dry_run, waiting, renaming: see :func:`update`.

    Raises:
        OplabError: see :func:`update`.
    """
    clone = Clone(root)
    with _alone(root, dry_run, waiting):
        report = _unfinished(root, dry_run, renaming)
        plan = Plan(journal.new_backup(root))
        with clone.news(dry_run) as news:
            data = {"kind": "clone", "branch": news.branch, "old": news.old, "new": news.new}
            if news.old == news.new:
                data["renamed"] = _renamed((root / "course.toml").read_bytes())
            else:
                data["renamed"] = clone.plan(plan, news, stage=not dry_run)
            _carry_out(plan, root, data, report, dry_run, renaming)
        if not plan.news:
            report.lines.append(f"Everything is up to date ({clone.label(news.new)}).")
        else:
            report.lines += plan.lines()
            if not dry_run:
                report.lines.append("The next `make lab`, or any other `make …`, sets up what has changed.")
        return report


def problems(course: Course) -> list[str]:
    """A sentence for each conflict that is not settled, and one for an update that was interrupted.

    Args:
        course: the course.
    """
    found = [
        f"The update changed {one.exercise} in lines that you had changed, too: {one.file}, "
        f"line {conflicts.line_now(course.root, one)}. `oplab update --conflicts` shows the new stub."
        for one in conflicts.load(course.root)
    ]
    if (course.root / journal.FOLDER / "journal.json").exists():
        found.append("An update was interrupted. `oplab update` finishes it.")
    return found


@contextlib.contextmanager
def _alone(root: Path, dry_run: bool, waiting: Callable[[str], object]) -> Iterator[None]:
    """One update at a time. A dry run writes nothing, not even a lock."""
    if dry_run:
        yield
        return
    with contextlib.ExitStack() as stack:
        try:
            (root / "build").mkdir(exist_ok=True)
            stack.enter_context(lock(root / LOCK, waiting))
        except OSError as error:
            raise OplabError(
                f"The folder {root} cannot be written, so it cannot be updated: {error.strerror}.",
                "Make it writable, or copy the course to a folder that you can write to.",
            ) from None
        yield


def _unfinished(root: Path, dry_run: bool, renaming: Renaming) -> Report:
    """Finishes an update that was interrupted."""
    data = journal.pending(root)
    if data is None:
        if not dry_run:
            journal.clear(root)  # what a run has left that was killed before or after its changes
        return Report()
    if dry_run:
        return Report(["An update was interrupted, and would be finished first."])
    if data["kind"] == "clone" and Clone(root).state(data) == "moved":
        journal.clear(root)
        return Report(
            [
                f"An interrupted update is cancelled, because the branch has moved. Copies of your files are in {data['backup']}/."
            ]
        )
    lines = _finish(root, data, renaming)
    found = conflicts.from_json(data["conflicts"])
    return Report(["An update that was interrupted is finished.", *data["lines"], *lines], found)


def _carry_out(plan: Plan, root: Path, data: dict[str, Any], report: Report, dry_run: bool, renaming: Renaming) -> None:
    report.conflicts += plan.conflicts
    if dry_run:
        return
    changes = bool(plan.changes or plan.conflicts or data.get("old") != data.get("new"))
    if not changes:
        _rename(data["renamed"], renaming)
        return
    _expect_writable(root, plan)
    entries = conflicts.to_json(plan.conflicts)
    data = {**data, "backup": plan.backup, "conflicts": entries, "lines": plan.lines()}
    journal.begin(root, plan.changes, plan.backups, data)
    report.lines += _finish(root, journal.pending(root) or {}, renaming)


def _finish(root: Path, data: dict[str, Any], renaming: Renaming) -> list[str]:
    """Makes the changes of the journal, and what follows from them."""

    def last() -> None:
        if data["kind"] == "clone":
            Clone(root).forward(data)
        try:
            conflicts.add(root, conflicts.from_json(data["conflicts"]))
        except OSError as error:
            raise OplabError(
                f"The conflicts cannot be written to {conflicts.FILE}: {error.strerror}.",
                "Fix that, and run `oplab update` again.",
            ) from None
        _rename(data["renamed"], renaming)

    lines = journal.finish(root, data, last)
    journal.clear(root)
    return lines


def _rename(renamed: Mapping[str, str], renaming: Renaming) -> None:
    if renamed:
        renaming(renamed)


def _renamed(manifest: bytes) -> dict[str, str]:
    return renaming.read(manifest.decode("utf-8", "replace"))


def _expect_writable(root: Path, plan: Plan) -> None:
    """Raises OplabError if a file cannot be renamed where the plan has one."""
    for folder in dict.fromkeys((root / change.path).parent for change in plan.changes):
        while not folder.is_dir():  # it is created, or a file makes way for it
            folder = folder.parent
        if not os.access(folder, os.W_OK | os.X_OK):
            raise OplabError(
                f"The folder {folder} cannot be written, so nothing has been updated.",
                "Make it writable, and try again.",
            )


def _lessons_kept(root: Path, files: Mapping[str, bytes]) -> list[str]:
    """Sentences about copies of lessons that stay as the learner has them, although the lesson is new."""
    try:
        course = manifest.load(root)
    except OplabError:
        return []
    lines = []
    for stem, state in copies.states(course).items():
        lesson = f"notebooks/{stem}.ipynb"
        if state in ("changed", "newer") and digest_of(root / lesson) != digest(files.get(lesson, b"")):
            lines.append(
                f"work/{stem}.ipynb has your changes and stays; `oplab reset notebooks/{stem[:2]}` gets the new one."
            )
    return lines


def _sync(root: Path) -> list[str]:
    """Renews the learner's copies of the lessons."""
    try:
        copies.sync(manifest.load(root))
    except OplabError as error:
        return [f"Your copies of the lessons are not renewed: {error.message} {error.fix}"]
    return []
