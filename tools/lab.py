"""``make lab``: JupyterLab on the first lesson, with the project's own settings. ``--chapter=05`` first opens another one; all other
arguments go to JupyterLab.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FIRST = "notebooks/00_first_round_trip.ipynb"


def lesson_of(root: Path, chapter: str) -> str:
    """The notebook of a chapter: of ``05``, ``5``, ``c05`` or ``05_writing_symbolic``.

    Raises:
        LookupError: there is none. The message lists the chapters.
    """
    found = sorted(path.stem for path in (root / "notebooks").glob("*.ipynb"))
    number = chapter.removeprefix("c").partition("_")[0].upper().zfill(2)
    for stem in found:
        if stem.partition("_")[0] == number:
            return f"notebooks/{stem}.ipynb"
    raise LookupError(f"There is no chapter {chapter}. There are {', '.join(s.partition('_')[0] for s in found)}.")


def arguments(root: Path, uid: int, first: str = FIRST) -> list[str]:
    """JupyterLab's arguments: the lesson in front, the course in the file browser, no tabs of other work."""
    own = root / "build" / "jupyter"
    lesson = f"/lab/tree/{first}" if (root / first).is_file() else "/lab"
    chosen = [
        f"--ServerApp.root_dir={root}",
        f"--LabApp.default_url={lesson}",
        # no tabs of an earlier session or of another project
        f"--LabApp.workspaces_dir={own / 'workspaces'}",
        # the course's notebooks are signed there (tools/jupyter_settings.py)
        f"--NotebookNotary.data_dir={own}",
        # Ctrl-C stops it without a question
        "--ServerApp.answer_yes=True",
        "--LabApp.news_url=",
    ]
    if uid == 0:
        chosen.append("--allow-root")
    return chosen


def main() -> int:
    first, rest = FIRST, sys.argv[1:]
    if rest and rest[0].startswith("--chapter="):
        try:
            first = lesson_of(ROOT, rest.pop(0).partition("=")[2])
        except LookupError as error:
            print(error.args[0], file=sys.stderr)
            return 2
    if not (ROOT / FIRST).is_file():
        print(f"{FIRST} is missing; `make notebooks` makes it from notebooks/src.", file=sys.stderr)
    if os.getuid() == 0:
        print("You are root: JupyterLab runs with --allow-root.")
    os.chdir(ROOT)
    (ROOT / "build" / "jupyter" / "workspaces").mkdir(parents=True, exist_ok=True)
    # the kernel of this environment, also where the user's home has one of the same name
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    command = [sys.executable, "-m", "jupyterlab", *arguments(ROOT, os.getuid(), first), *rest]
    sys.stdout.flush()
    os.execv(sys.executable, command)


if __name__ == "__main__":
    sys.exit(main())
