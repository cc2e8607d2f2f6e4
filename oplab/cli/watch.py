"""``oplab watch``: grades again what a saved file touches, and shows where you are on one screen."""

from __future__ import annotations

import contextlib
import os
import queue
import select
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from oplab.course import answers, stubs
from oplab.course.manifest import Chapter, Course, Exercise, preloads
from oplab.errors import OplabError
from oplab.grading import progress as progressing
from oplab.grading.client import Server
from oplab.grading.grader import grade
from oplab.grading.results import Outcome, Results
from oplab.grading.text import MARKS, outcome_lines

KEYS = "h hint   n next   l list   a all   q quit"


def watch(course: Course, *, jobs: int = 2) -> None:
    """Watch ``exercises/`` until q or Ctrl-C. On a terminal it is one screen with keys, else plain lines.

    Raises:
        OplabError: there is no folder ``exercises/``.
    """
    folder = course.root / "exercises"
    if not folder.is_dir():
        raise OplabError(f"The folder {folder} is missing.", "Get it back from the repository, or `oplab reset c00`.")
    with Server(preloads(course.exercises)) as server:
        session = Session(course, server, jobs)
        view = Screen(session) if sys.stdin.isatty() and sys.stdout.isatty() else Plain(session)
        session.run(view)


class Texts:
    """The last texts of the learner's files, and which exercises a change touches."""

    def __init__(self, course: Course):
        self._course = course
        self._seen: dict[str, tuple[str | None, str]] = {}
        for exercise in course.exercises:
            self._seen[exercise.id] = self._look(exercise)

    def touched(self, names: set[str]) -> list[Exercise]:
        """The exercises whose own text, or whose file outside of all exercises, has changed. ``names`` are relative to exercises/."""
        found = []
        for exercise in self._course.exercises:
            if exercise.file in names:
                now = self._look(exercise)
                if now != self._seen[exercise.id]:
                    found.append(exercise)
                self._seen[exercise.id] = now
        return found

    def _look(self, exercise: Exercise) -> tuple[str | None, str]:
        """The exercise's own text, and the rest of its file without the other exercises."""
        try:
            text = (self._course.root / "exercises" / exercise.file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            return None, type(error).__name__
        if exercise.kind != "python":
            return text, ""
        try:
            own = stubs.function_text(text, exercise.name)
            lines = text.splitlines()
            for other in self._course.chapter(exercise.chapter).exercises:
                span = stubs.function_span(text, other.name)
                if span:
                    lines[span[0] - 1 : span[1]] = [""] * (span[1] - span[0] + 1)
            return own, "\n".join(line for line in lines if line.strip())
        except (SyntaxError, ValueError):
            return None, text  # while the file is not Python, every change concerns every exercise


class Session:
    """The state of the watch. One thread grades; saved files and keys only add exercises to its queue."""

    def __init__(self, course: Course, server: Server, jobs: int):
        self.course, self.server, self.jobs = course, server, jobs
        self.outcomes: dict[str, Outcome] = {}
        self.running: tuple[str, ...] = ()
        self.note = ""
        self.last: tuple[Outcome, ...] = ()
        self.listing = False
        self.current: Exercise | None = None
        self._events: queue.Queue[tuple[str, Any]] = queue.Queue()
        self._wishes: dict[str, Exercise] = {}
        self._version: dict[str, int] = {}  # counts the saves of an exercise: a result for an older text is dropped
        self._wake = threading.Condition()
        self._stop = threading.Event()
        self._told: list[str] = []
        self._texts = Texts(course)
        self.reached = progressing.load(course.root / "build", self._told.append)
        self.current = self.next()

    def run(self, view: Screen | Plain) -> None:
        """Start the threads and handle events until the end. KeyboardInterrupt passes through after everything is stopped."""
        threads = [threading.Thread(target=task, daemon=True) for task in (self._watch, self._grade)]
        with view:
            for thread in threads:
                thread.start()
            self._warm()
            view.update()
            try:
                while not self._stop.is_set():
                    try:
                        kind, value = self._events.get(timeout=0.1)
                    except queue.Empty:
                        view.keys(self.press)
                        continue
                    self._handle(kind, value, view)
                    view.keys(self.press)
            finally:
                self._stop.set()
                with self._wake:
                    self._wake.notify_all()
                self.server.cancel()

    def press(self, key: str) -> None:
        """React to one key."""
        self.note = ""
        if key == "q":
            self._stop.set()
        elif key == "l":
            self.listing = not self.listing
        elif key == "a":
            self.wish([exercise for exercise in self.course.exercises if not self._is_stub(exercise)] or [])
            self.note = (
                "" if self._wishes or self.running else "Every exercise is still its stub: there is nothing to grade."
            )
        elif key == "n":
            self.current = self.next(after=self.current)
        elif key == "h" and self.current is not None:
            from oplab.lessons import hint_lines

            try:
                self.note = "\n".join(hint_lines(self.course, self.current))
            except OplabError as error:
                self.note = str(error)
        self._events.put(("redraw", None))

    def wish(self, exercises: list[Exercise]) -> None:
        """Have these exercises graded. A run on an older text is cancelled."""
        with self._wake:
            for exercise in exercises:
                self._wishes[exercise.id] = exercise
                self._version[exercise.id] = self._version.get(exercise.id, 0) + 1
            if set(self.running) & {exercise.id for exercise in exercises}:
                self.server.cancel()
            self._wake.notify_all()

    def next(self, after: Exercise | None = None) -> Exercise | None:
        """The next exercise that has not passed; after the given one, around the end to the first."""
        order = list(self.course.exercises)
        if after in order:
            at = order.index(after) + 1
            order = order[at:] + order[:at]
        return next((exercise for exercise in order if self.status(exercise) != "passed"), None)

    def status(self, exercise: Exercise) -> str:
        """The last status of an exercise: of this session, else of an earlier one."""
        outcome = self.outcomes.get(exercise.id)
        return outcome.status if outcome else self.reached.entry(exercise.id).status

    def _is_stub(self, exercise: Exercise) -> bool:
        try:
            text = (self.course.root / "exercises" / exercise.file).read_text(encoding="utf-8")
            name = exercise.name if exercise.kind == "python" else None
            return stubs.is_untouched(text, answers.stub_text(self.course, exercise), name)
        except (OSError, SyntaxError, UnicodeDecodeError, OplabError):
            return False

    def _warm(self) -> None:
        """Load the libraries while the learner reads, so that the first save is graded as fast as later ones."""

        def start() -> None:
            try:
                self.server.start()
            except OplabError as error:
                self._events.put(("fault", str(error)))
            except RuntimeError:  # closed before it was warm
                pass

        threading.Thread(target=start, daemon=True).start()

    def _watch(self) -> None:
        texts = self._texts
        from watchfiles import watch as changes

        folder = self.course.root / "exercises"
        everything = {exercise.file for exercise in self.course.exercises}
        # A time-out looks at all files: it finds what was saved before the watcher was ready, and what a network drive does not tell.
        for batch in changes(
            folder,
            step=20,
            debounce=200,
            stop_event=self._stop,
            watch_filter=None,
            rust_timeout=500,
            yield_on_timeout=True,
        ):
            names = {Path(os.path.relpath(path, folder)).as_posix() for _, path in batch} or everything
            # An editor that saves by rename leaves no file for a moment; one that truncates leaves an empty one.
            for _ in range(10):
                known = [
                    folder / name for name in names if any(exercise.file == name for exercise in self.course.exercises)
                ]
                if not batch or all(path.exists() and path.stat().st_size for path in known):
                    break
                if self._stop.wait(0.02):
                    return
            touched = texts.touched(names)
            if touched:
                self._events.put(("saved", touched))

    def _grade(self) -> None:
        while not self._stop.is_set():
            with self._wake:
                self._wake.wait_for(lambda: self._wishes or self._stop.is_set())
                if self._stop.is_set():
                    return
                todo = list(self._wishes.values())
                self._wishes.clear()
                self.running = tuple(exercise.id for exercise in todo)
                versions = dict(self._version)
            self._events.put(("redraw", None))
            try:
                results = grade(self.course, todo, self.course.root / "exercises", jobs=self.jobs, server=self.server)
                self._events.put(("graded", (results, versions)))
            except OplabError as error:
                self._events.put(("fault", str(error)))
            except RuntimeError:  # the server was closed: the session is over
                return
            finally:
                self.running = ()

    def _handle(self, kind: str, value: Any, view: Screen | Plain) -> None:
        if kind == "saved":
            self.note = ""
            self.wish(value)
        elif kind == "fault":
            self.note = value
        elif kind == "graded":
            all_results, versions = value
            with self._wake:
                fresh = tuple(
                    outcome for outcome in all_results.exercises if versions[outcome.id] == self._version[outcome.id]
                )
            if fresh:
                results = Results(fresh, all_results.seed)
                self.last = fresh
                self.outcomes.update({outcome.id: outcome for outcome in fresh})
                progressing.record(self.course.root / "build", results, self._told.append)
                bad = next((outcome for outcome in fresh if not outcome.passed), None)
                self.current = (
                    self.course.exercise(bad.id) if bad else self.next(after=self.course.exercise(fresh[-1].id))
                )
                view.graded(fresh)
        view.update()


class Plain:
    """Output as lines, for a pipe or a log: no keys, no colours, no redrawing."""

    def __init__(self, session: Session):
        self.session = session

    def __enter__(self) -> Plain:
        print("Watching exercises/. Save a file and it is graded; Ctrl-C ends.", flush=True)
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def keys(self, press: Any) -> None:
        """Does nothing: there are no keys."""

    def graded(self, outcomes: tuple[Outcome, ...]) -> None:
        """Print the new outcomes and what is next."""
        for outcome in outcomes:
            print("\n".join(outcome_lines(outcome, details=not outcome.passed)), flush=True)
        following = self.session.next()
        print(f"next: {following.id}" if following else "Every exercise has passed.", flush=True)

    def update(self) -> None:
        """Print the note, once."""
        if self.session.note:
            print(self.session.note, flush=True)
            self.session.note = ""


class Screen:
    """One screen that is redrawn, with keys."""

    def __init__(self, session: Session):
        from rich.console import Console
        from rich.live import Live

        self.session = session
        self._live = Live(console=Console(highlight=False), screen=True, auto_refresh=False, vertical_overflow="crop")
        self._restore: Any = None

    def __enter__(self) -> Screen:
        import termios
        import tty

        self._restore = termios.tcgetattr(0)
        tty.setcbreak(0)  # keys without Enter; Ctrl-C still interrupts
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        import termios

        self._live.stop()
        termios.tcsetattr(0, termios.TCSADRAIN, self._restore)

    def keys(self, press: Any) -> None:
        """Call ``press`` with each key that was pressed."""
        while select.select([0], [], [], 0)[0]:
            data = os.read(0, 1)
            if not data:
                return
            with contextlib.suppress(UnicodeDecodeError):
                press(data.decode().lower())

    def graded(self, outcomes: tuple[Outcome, ...]) -> None:
        """Does nothing: :meth:`update` shows the outcomes."""

    def update(self) -> None:
        """Draw the screen."""
        from rich.text import Text

        height = self._live.console.size.height
        table, rest = list(self._table()), list(self._body())
        lines = [*_window(table, height - 2 - len(rest)), "", *rest][: height - 2]
        body = Text("\n".join([*lines, ""])) + Text(KEYS, style="reverse")
        self._live.update(body, refresh=True)

    def _table(self) -> Iterator[str]:
        """The current chapter's exercises, or all of them."""
        session = self.session
        chapters = session.course.chapters
        if session.current is not None and not session.listing:
            chapters = (session.course.chapter(session.current.chapter),)
        for chapter in chapters:
            yield from self._chapter(chapter)

    def _body(self) -> Iterator[str]:
        """What is being graded, the last result, the next exercise, and a hint that was asked for."""
        import textwrap

        session, width = self.session, max(40, self._live.console.size.width - 2)
        if session.running:
            yield f"grading {', '.join(session.running)} …"
            yield ""
        outcome = session.outcomes.get(session.current.id) if session.current else None
        if outcome is not None and not outcome.passed:
            for line in outcome_lines(outcome):
                yield from textwrap.wrap(line, width, subsequent_indent="      ", drop_whitespace=False) or [""]
        elif session.current is not None:
            for entry in session.last[:6]:
                yield from outcome_lines(entry, details=False)
            exercise = session.current
            yield f"Next: {exercise.id} in exercises/{exercise.file}"
            yield from textwrap.wrap(
                f"  {exercise.goal} ({exercise.points} points, about {exercise.minutes} minutes)", width
            )
        else:
            yield "Every exercise has passed."
        if session.note:
            yield ""
            for line in session.note.splitlines():
                yield from textwrap.wrap(line, width) or [""]
        yield ""

    def _chapter(self, chapter: Chapter) -> Iterator[str]:
        session = self.session
        passed = sum(session.status(exercise) == "passed" for exercise in chapter.exercises)
        yield f"{chapter.id}  {chapter.title}   {passed} of {len(chapter.exercises)} passed"
        for exercise in chapter.exercises:
            status = session.status(exercise)
            here = "▸" if exercise == session.current else " "
            yield f" {here} {MARKS[status]} {exercise.id:<22} {status.replace('_', ' ')}"


def _window(lines: list[str], room: int) -> list[str]:
    """At most ``room`` lines, those around the current exercise; cuts are marked."""
    if len(lines) <= room:
        return lines
    room = max(3, room)
    here = next((number for number, line in enumerate(lines) if line.startswith(" ▸")), 0)
    first = min(max(0, here - room // 2), len(lines) - room)
    shown = lines[first : first + room]
    if first:
        shown[0] = "   …"
    if first + room < len(lines):
        shown[-1] = "   …"
    return shown
