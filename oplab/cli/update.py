"""``oplab update``: new lessons and stubs, with the learner's work kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from oplab import paths
from oplab.cli.shared import leave, warn
from oplab.grading import last
from oplab.grading import progress as progressing
from oplab.updates import update as updates


def update(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show what would happen; change no file")] = False,
) -> None:
    """Get the course's new lessons and stubs. What you wrote is kept, and merged into stubs that have changed."""
    root = paths.root()
    done = updates.update(
        root,
        dry_run=dry_run,
        waiting=lambda owner: warn(
            f"Process {owner} is updating this folder. Waiting for it to end. Ctrl-C stops waiting."
        ),
        renaming=lambda names: move_progress(root / "build", names),
    )
    if dry_run:
        print("This is what `oplab update` would do; no file has been changed:")
    print("\n".join(done.lines))
    if done.conflicts:
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
            known.shown |= entry.shown
            known.hints = max(known.hints, entry.hints)
    for id in old:
        outcome = last.load(build, id)
        if outcome is not None and last.load(build, names[id]) is None:
            last.save(build, replace(last.to_outcome(outcome), id=names[id]), outcome["when"])
    last.remove(build, old)
