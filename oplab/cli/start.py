"""Commands that begin the course where it was installed as a package: init, setup and lab; and ``oplab update``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from oplab import paths
from oplab.cli.shared import leave, load_course, warn
from oplab.course.language import gettext
from oplab.errors import OplabError
from oplab.grading import last
from oplab.grading import progress as progressing


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="a folder that does not exist yet")] = Path("course"),
    setup: Annotated[
        bool,
        typer.Option("--setup/--no-setup", help="compile the operators now, or at the first `oplab lab`"),
    ] = True,
) -> None:
    """Make your folder of the course."""
    from oplab.updates import delivery

    count = delivery.init(folder)
    print(f"{folder}/ has the course, release {delivery.release()} ({count} files).", flush=True)
    if setup:
        _set_up(folder.resolve())
    elsewhere = folder.resolve() != Path.cwd()
    print(f"Next: oplab lab{f' {folder}' if elsewhere else ''}")


def language(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="en or zh_CN; nothing to see the present one")
    ] = None,
) -> None:
    """Show the language, or change that of lessons, stubs and hints."""
    from oplab.course import speaking
    from oplab.course.language import NAMES, chosen

    course = load_course()
    if name is None:
        print("\n".join(f"{'*' if known == chosen() else ' '} {known:6} {own}" for known, own in NAMES.items()))
        return
    used = speaking.switch(course, name)
    try:
        from oplab.jupyter.settings import write_overrides

        write_overrides(Path(sys.prefix), used)
    except OSError as error:
        warn(f"JupyterLab's settings in {sys.prefix} cannot be written ({error.strerror}): choose its language in it.")
    print(gettext("Lessons, stubs and hints are in English."))


def setup(
    again: Annotated[bool, typer.Option("--again", help="recompile everything")] = False,
) -> None:
    """Compile the operators, and set JupyterLab up."""
    _set_up(paths.root(), again)


def wheelhouse(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="a folder for the packages: 3 GB, or 0.8 GB without CUDA")
    ],
) -> None:
    """Fetch all packages, for machines without a network."""
    from oplab.updates.wheelhouse import make

    count = make(folder)
    print(f"{folder}/ has {count} packages and the course. {folder / 'README.txt'} explains how to install from it.")


def lab(
    context: typer.Context,
    folder: Annotated[
        str | None,
        typer.Argument(metavar="[DIR]", help="your folder of the course; else the current one, or one above it"),
    ] = None,
    chapter: Annotated[str | None, typer.Option("--chapter", metavar="NN", help="open this chapter's lesson")] = None,
) -> None:
    """Open JupyterLab where you were, or on the start page. Other arguments are JupyterLab's: --no-browser --port 9000."""
    from oplab.jupyter import start

    more = list(context.args)
    if folder is not None and folder.startswith("-"):
        more.insert(0, folder)
        folder = None
    root = paths.root() if folder is None else _course_in(Path(folder))
    given = [*([f"{start.CHAPTER}{chapter}"] if chapter is not None else []), *more]
    if wrong := start.problem(root, given):
        warn(wrong)
        leave(2)
    _set_up(root, only_missing=True)
    os.environ["OPLAB_ROOT"] = str(root)
    leave(start.run(root, given))


def _course_in(folder: Path) -> Path:
    root = folder.expanduser().resolve()
    if (root / "course.toml").is_file():
        return root
    if not root.exists() or (root.is_dir() and not any(root.iterdir())):
        raise OplabError(f"There is no course in {folder} yet.", f"Create it: oplab init {folder}")
    raise OplabError(f"{folder} is not a course: it has no course.toml.", "Name the folder that `oplab init` made.")


def _set_up(root: Path, again: bool = False, only_missing: bool = False) -> None:
    """What a clone's ``make setup`` does after the packages: the operators, and JupyterLab's settings.

    Args:
        again: compile what is up to date as well.
        only_missing: print nothing where there is nothing to do.
    """
    os.environ["OPLAB_ROOT"] = str(root)
    from oplab.jupyter import settings
    from oplab.toolchain import build

    def say(line: str) -> None:
        if not (only_missing and line.endswith("are up to date.")):
            print(f"  {line}", flush=True)

    began = time.monotonic()
    compiled = build.build_all(say=say, again=again)
    try:
        settings.write_overrides(Path(sys.prefix))
    except OSError as error:
        warn(
            f"JupyterLab's settings in {sys.prefix} cannot be written ({error.strerror}): the course works without them."
        )
    settings.trust(root / "notebooks", paths.build_dir() / "jupyter")
    if compiled:
        print(f"The operators are compiled ({time.monotonic() - began:.0f} s).", flush=True)


def update(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show what would happen; change no file")] = False,
) -> None:
    """Get the course's new lessons and stubs. What you wrote is kept, and merged into stubs that have changed."""
    from oplab.updates import update as updates

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
