"""``oplab update``: new lessons and stubs, with the learner's work kept."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import typer

from oplab import paths
from oplab.cli.shared import leave, warn
from oplab.errors import OplabError, clean
from oplab.grading import last
from oplab.grading import progress as progressing
from oplab.updates import conflicts as recorded
from oplab.updates import update as updates
from oplab.updates.conflicts import Conflict


def update(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="say what would happen, and write nothing")] = False,
    conflicts: Annotated[
        bool, typer.Option("--conflicts", help="show your lines next to the new stub's where both have changed")
    ] = False,
    settled: Annotated[
        str | None, typer.Option("--settled", metavar="ID", help="you have settled the conflict of this exercise")
    ] = None,
) -> None:
    """Get the course's new lessons and stubs. What you wrote is kept, and merged into stubs that have changed."""
    if sum((dry_run, conflicts, settled is not None)) > 1:
        raise OplabError("--dry-run, --conflicts and --settled exclude each other.", "Use one of them.")
    root = paths.root()
    if settled is not None:
        found = recorded.settle(root, settled)
        print(f"{', '.join(dict.fromkeys(one.exercise for one in found))}: settled.")
        return
    if conflicts:
        leave(_show(root, recorded.load(root)))
    report = updates.update(
        root,
        dry_run=dry_run,
        waiting=lambda owner: warn(
            f"Process {owner} is updating this folder. Waiting for it to end. Ctrl-C stops waiting."
        ),
        renaming=lambda names: move_progress(root / "build", names),
    )
    if dry_run:
        print("This is what `oplab update` would do; nothing has been written:")
    print("\n".join(report.lines))
    if report.conflicts:
        print("In a conflict your lines stay. `oplab update --conflicts` shows the new stub's lines.")
        leave(1)


def move_progress(build: Path, names: Mapping[str, str]) -> None:
    """Move what is known of renamed exercises to their new ids. It may be called again.

    Args:
        build: the course's ``build/``.
        names: new ids by old ones.
    """
    old = {id for id in names if (build / last.FOLDER / f"{id}.json").exists()}
    if not old and not set(names) & set(progressing.load(build, warn).exercises):
        return
    with progressing.update(build, warn) as progress:
        for id, new in names.items():
            entry = progress.exercises.pop(id, None)
            if entry is None:
                continue
            known = progress.exercises.setdefault(new, entry)
            known.passed_once |= entry.passed_once
            known.hints = max(known.hints, entry.hints)
    for id in old:
        outcome = last.load(build, id)
        if outcome is not None and last.load(build, names[id]) is None:
            last.save(build, replace(last.to_outcome(outcome), id=names[id]), outcome["when"])
    last.remove(build, old)


def _show(root: Path, found: list[Conflict]) -> int:
    """Prints conflicts, and returns the exit code."""
    if not found:
        print("No conflict is open.")
        return 0
    width = max(30, (min(shutil.get_terminal_size().columns, 200) - 3) // 2)
    for conflict in found:
        inside = f", in {conflict.name}" if conflict.name else ""
        line = recorded.line_now(root, conflict)
        print(f"{conflict.exercise}: {conflict.file}, line {line}{inside}")
        print(f"  {'yours'.ljust(width - 2)} | the new stub")
        for mine, new in zip_longest(conflict.mine, conflict.new, fillvalue=""):
            print(f"  {_cell(mine, width - 2)} | {_cell(new, width).rstrip()}".rstrip())
        print()
    ids = list(dict.fromkeys(conflict.exercise for conflict in found))
    print("Your lines are in the files. Take over what you need from the new stub, then settle the conflict:")
    print("\n".join(f"  oplab update --settled {id}" for id in ids))
    return 1


def _cell(text: str, width: int) -> str:
    text = clean(text).expandtabs(4)
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"
