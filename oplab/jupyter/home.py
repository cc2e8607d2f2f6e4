"""The course that a Jupyter server shows: found, watched, graded, and told to the pages that are open."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oplab import paths
from oplab.course import language
from oplab.errors import OplabError
from oplab.files import file_state

if TYPE_CHECKING:
    from oplab.course.manifest import Course
    from oplab.grading.client import Server
    from oplab.grading.service import Service

_INTERVAL = 0.5  # seconds between two looks for a course, while there is none


def find_course(root: Path) -> Path:
    """The folder of the course that a server with this root folder shows.

    It is ``OPLAB_ROOT``, else the root folder or one above it, else the only course in a folder of the root folder, else what
    :func:`oplab.paths.root` finds.
    """
    if not os.environ.get("OPLAB_ROOT"):
        root = root.resolve()
        for folder in (root, *root.parents):
            if (folder / "course.toml").is_file():
                return folder
        with contextlib.suppress(OSError):
            inside = [path.parent for path in root.glob("*/course.toml")]
            if len(inside) == 1:
                return inside[0]
    return paths.root()


class Home:
    """Holds the course, its grading service and its grading server. Methods may be called from several threads.

    Args:
        base_url: of the server, ending with a slash.
        tell: called from any thread, with ``state`` and None or ``outcome`` and an outcome, when there is something new.

    Attributes:
        check_on_save: whether saves are graded.
    """

    def __init__(self, root: Path, base_url: str, tell: Callable[[str, Any], None]):
        self.root, self.base_url, self.tell = root, base_url, tell
        self.check_on_save = False
        self._lock = threading.RLock()
        self._closed = threading.Event()
        self._course: Course | None = None
        self._service: Service | None = None
        self._server: Server | None = None
        self._read: tuple[Path, Any] | None = None  # the manifest that was read last, and its state
        self._problem = ""  # with the manifest
        self._fault = ""  # of the last grading
        self._copying = ""  # what went wrong with the copies of the lessons
        # The outcomes of this session: a read-only folder has no other ones.
        self._entries: dict[str, dict[str, Any]] = {}
        self._files: Any = None
        self._open = False

    def listen(self) -> None:
        """Offer the grading server to the notebooks and terminals of this course; it starts when one of them needs it."""
        with self._lock, contextlib.suppress(OplabError, OSError):
            self._load()
            if self._server is not None:
                self._server.listen()

    def open(self) -> None:
        """Start to watch the course, and make the copies of the lessons: somebody looks at it now."""
        with self._lock:
            self._load()
            if not self._open:
                self._open = True
                threading.Thread(target=self._wait_for_course, name="oplab-home", daemon=True).start()
            self._copy_lessons()
            if self._service is not None and not self._service.started:
                self._service.start()
                self._service.warm()  # while the learner reads: the first check is as fast as later ones

    def close(self) -> None:
        """End the grading and all of its processes."""
        self._closed.set()
        with self._lock:
            if self._service is not None:
                self._service.stop()
            if self._server is not None:
                self._server.close()

    def state(self) -> dict[str, Any]:
        """What the panel shows."""
        from oplab.jupyter import state

        with self._lock:
            self._load()
            course, service = self._course, self._service
            problems = [text for text in (self._problem, self._copying, self._fault) if text]
            if self._files is None:
                self._files = state.Files()
        if course is None or service is None:
            return state.empty(self.check_on_save, problems)
        return state.course_state(course, self.where(course), service, self._files, problems)

    def course(self) -> Course:
        """The course."""
        with self._lock:
            self._load()
            if self._course is None:
                message, _, fix = self._problem.partition("\n")
                raise OplabError(message, fix)
            return self._course

    def service(self) -> Service:
        """What grades the course."""
        self.course()
        self.open()
        assert self._service is not None
        return self._service

    def where(self, course: Course) -> Any:
        """The paths of the course's files in Jupyter, see :class:`oplab.jupyter.state.Paths`."""
        from oplab.jupyter.state import Paths

        return Paths(course.root, self.root, self.base_url)

    def file(self, path: str) -> str | None:
        """The file of exercises that Jupyter calls ``path``, relative to ``exercises/``; None for another document."""
        course = self._course
        where = self.where(course) if course is not None else None
        files = {exercise.file for exercise in course.exercises} if course is not None else ()
        return next((file for file in files if where.path(f"exercises/{file}") == path.strip("/")), None)

    def before_save(self, path: str, model: dict[str, Any], **_: Any) -> None:
        """Jupyter's hook: what it is about to write is not graded before the page says that its user has saved."""
        file, text = self.file(path), model.get("content")
        if file is not None and isinstance(text, str) and self._service is not None:
            self._service.draft(file, text)

    def last(self, id: str) -> dict[str, Any] | None:
        """What the last check of an exercise said, as :mod:`oplab.grading.last` has it; None if it has not been checked yet."""
        from oplab.grading import last

        saved = last.load(self.course().root / "build", id)
        known = self._entries.get(id)
        return saved if known is None or (saved and saved["when"] > known["when"]) else known

    def forget(self, ids: list[str]) -> None:
        """Forget what the last checks of these exercises said."""
        for id in ids:
            self._entries.pop(id, None)
        self.tell("state", None)

    def set_check_on_save(self, on: bool) -> None:
        """Whether what a save touches is graded."""
        self.check_on_save = on
        with self._lock:
            if self._service is not None:
                self._service.saves = on
        self.tell("state", None)

    # --- the course ---

    def _load(self) -> None:
        """Read the manifest if it has changed. What is wrong with it is a problem to show; an older course stays."""
        from oplab.course.manifest import load

        if self._closed.is_set():
            return
        try:
            folder = self._course.root if self._course is not None else find_course(self.root)
        except OplabError as error:
            self._problem, self._read = str(error), None
            return
        read = folder, (file_state(folder / "course.toml"), language.chosen(folder))
        if read == self._read:
            return
        self._read = read
        try:
            course = load(folder)
        except OplabError as error:
            self._problem = str(error)
            return
        self._problem = ""
        self._use(course)

    def _use(self, course: Course) -> None:
        from oplab.grading.client import Server
        from oplab.grading.service import Service
        from oplab.reports.graphs import with_graphs

        _name_for_children(course.root)
        if self._service is not None:
            self._service.stop()
        if self._server is None:
            self._server = Server.shared(course, host=True, keep=True)
        self._course = course
        self._service = Service(course, self._server, self._hear, saves=self.check_on_save, at_once=2, draw=with_graphs)
        if self._open:
            self._server.listen()
            self._service.start()
            self._service.warm()

    def _wait_for_course(self) -> None:
        """While there is no course, nothing else watches the manifest."""
        while not self._closed.wait(_INTERVAL):
            with self._lock:
                before = self._problem
                self._load()
                changed = self._problem != before
            if changed:
                self.tell("state", None)

    def _copy_lessons(self) -> None:
        from oplab.course import copies
        from oplab.jupyter.state import is_writable

        self._copying = ""
        if self._course is not None and is_writable(self._course):
            try:
                copies.sync(self._course)
            except OplabError as error:
                self._copying = str(error)

    def _hear(self, kind: str, value: Any) -> None:
        """News of the service."""
        if kind in ("outcome", "pictures"):
            from oplab.grading import last

            self._told(last.entry(*value))
        elif kind == "elsewhere":
            self._told(value)
        elif kind == "fault":
            self._fault = value
        self.tell("state", None)

    def _told(self, entry: dict[str, Any]) -> None:
        from oplab.jupyter.state import outcome_state

        self._fault = ""
        self._entries[entry["id"]] = entry
        course = self._course
        if course is not None:
            self.tell("outcome", outcome_state(course, self.where(course), entry))


def _name_for_children(root: Path) -> None:
    """Have this process, its kernels and its terminals find the course where they would find none, or another one."""
    try:
        found = paths.root() == root
    except OplabError:
        found = False
    if not found:
        os.environ["OPLAB_ROOT"] = str(root)
