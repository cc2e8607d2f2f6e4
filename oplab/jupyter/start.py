"""``make lab`` and ``oplab lab``: JupyterLab where one was, or on the course's start page, with the course's own settings.

``--chapter=05`` opens that chapter's lesson; all other arguments go to JupyterLab. Standard library only until the server starts:
``tools/setup_steps.py`` asks :func:`problem` before it installs anything.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from oplab import paths
from oplab.course import copies, language, speaking
from oplab.course.language import gettext
from oplab.course.manifest import Chapter, Course, load
from oplab.errors import OplabError
from oplab.jupyter import settings

CHAPTER = "--chapter="


def chapter_of(course: Course, name: str) -> Chapter:
    """The chapter that is meant by ``05``, ``5``, ``c05`` or ``05_writing_symbolic``."""
    number = name.removeprefix("c").partition("_")[0].upper().zfill(2)
    for chapter in course.chapters:
        if name and chapter.id == f"c{number}":
            return chapter
    numbers = ", ".join(chapter.id[1:] for chapter in course.chapters)
    raise OplabError(f"There is no chapter {name}.", f"There are {numbers}: make lab CH={course.chapters[0].id[1:]}")


def problem(root: Path, arguments: list[str]) -> str:
    """What is wrong with the arguments for the course in ``root``, or an empty string."""
    try:
        course = load(root)
        for argument in arguments:
            if argument.startswith(CHAPTER):
                chapter_of(course, argument.removeprefix(CHAPTER))
    except OplabError as error:
        return str(error)
    return ""


def first_page(course: Course, chapter: Chapter | None, workspaces: Path) -> str:
    """The address of what JupyterLab shows: the lesson that is asked for, else what was open, else the start page."""
    if chapter is None:
        has_start_page = paths.part(course.root, "oplab/jupyter/labextension/package.json").is_file()
        if has_start_page or any(workspaces.glob("*")) or not course.chapters:
            return "/lab"
        chapter = course.chapters[0]
    copy = copies.path(course, chapter)
    shown = copy if copy.is_file() else course.root / chapter.notebook
    return f"/lab/tree/{shown.relative_to(course.root).as_posix()}"


def copy_lessons(course: Course) -> None:
    """The learner's copies, up to date. What prevents it is a sentence: the lessons themselves can still be read."""
    try:
        copies.sync(course, lambda count: print(f"Copying {count} lesson{'s' * (count != 1)} to work/ …", flush=True))
    except OplabError as error:
        print(error, file=sys.stderr)


def follow_copies(course: Course, workspaces: Path) -> None:
    """In a session that was saved when the lessons themselves were opened, take their copies."""
    for file in workspaces.glob("*"):
        text = new = file.read_text(encoding="utf-8")
        for chapter in course.chapters:
            new = new.replace(chapter.notebook, copies.path(course, chapter).relative_to(course.root).as_posix())
        if new != text:
            file.write_text(new, encoding="utf-8")


def own_folder(root: Path) -> Path:
    """Where JupyterLab keeps what is open: ``build/jupyter``, or a folder that is empty each time if that cannot be written."""
    folder = root / "build" / "jupyter"
    try:
        (folder / "workspaces").mkdir(parents=True, exist_ok=True)
        if os.access(folder / "workspaces", os.W_OK):
            return folder
    except OSError:
        pass
    print(f"{folder} cannot be written, so JupyterLab will not restore this session.", file=sys.stderr)
    folder = Path(tempfile.mkdtemp(prefix="oplab-jupyter-"))
    (folder / "workspaces").mkdir()
    return folder


def arguments(root: Path, own: Path, uid: int, page: str, more: list[str]) -> list[str]:
    """JupyterLab's arguments: its first page, the course in the file browser, no tabs of other work, and what the user adds."""
    chosen = [
        f"--ServerApp.root_dir={root}",
        f"--LabApp.default_url={page}",
        "--ServerApp.contents_manager_class=oplab.jupyter.contents.CourseFiles",
        # no tabs of another project
        f"--LabApp.workspaces_dir={own / 'workspaces'}",
        # the course's notebooks are signed there (oplab.jupyter.settings)
        f"--NotebookNotary.data_dir={own}",
        # what Jupyter sets instead of its own default of 90 s, with a warning
        "--ServerApp.websocket_ping_timeout=30000",
        # between the server and its kernels; without it, each kernel prints a warning
        "--KernelManager.transport_encryption=auto",
        # Ctrl-C stops it without a question
        "--ServerApp.answer_yes=True",
        "--LabApp.news_url=",
    ]
    if not any("log" in argument.lower() or argument == "--debug" for argument in more):
        chosen.append("--Application.log_level=WARN")  # not the list of extensions and of language servers
    if uid == 0:
        chosen.append("--allow-root")
    return [*chosen, *more]


def last_lines(address: str) -> str:
    """What is printed when JupyterLab listens."""
    return "\n".join(
        (
            gettext("Open {address}", address=address),
            gettext("The panel on the left has the exercises; Ctrl-C here ends JupyterLab."),
        )
    )


def run(root: Path, given: list[str]) -> int:
    """Open JupyterLab on the course in ``root``, until Ctrl-C. Returns the exit status: 0, or 2 for a chapter that does not exist."""
    if wrong := problem(root, given):
        print(wrong, file=sys.stderr)
        return 2
    course = load(root)
    named = [argument.removeprefix(CHAPTER) for argument in given if argument.startswith(CHAPTER)]
    more = [argument for argument in given if not argument.startswith(CHAPTER)]
    if os.getuid() == 0:
        print("Running as root, so JupyterLab starts with --allow-root.")
    try:
        if speaking.follow_environment(course):
            course = load(root)
        settings.write_overrides(Path(sys.prefix), language.chosen(root))
    except (OplabError, OSError) as error:
        print(error, file=sys.stderr)
    copy_lessons(course)
    own = own_folder(root)
    follow_copies(course, own / "workspaces")
    page = first_page(course, chapter_of(course, named[-1]) if named else None, own / "workspaces")
    os.chdir(root)
    # the kernel of this environment, also where the user's home has one of the same name
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    from oplab.jupyter.contents import serve

    serve(arguments(root, own, os.getuid(), page, more), last_lines)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(run(paths.root(), sys.argv[1:]))
    except KeyboardInterrupt:  # before JupyterLab listens
        print("\nStopped.", file=sys.stderr)
        sys.exit(130)
