"""``oplab watch``: grades again what a saved file touches, and shows where you are on one screen."""

from __future__ import annotations

import os
import queue
import re
import select
import sys
from collections.abc import Iterator
from typing import Any

from oplab.course import answers, stubs
from oplab.course.manifest import Chapter, Course, Exercise
from oplab.errors import OplabError
from oplab.grading import last
from oplab.grading import progress as progressing
from oplab.grading.client import Server
from oplab.grading.overview import open_exercises
from oplab.grading.results import Outcome
from oplab.grading.service import Service
from oplab.grading.text import outcome_lines

KEYS = "h hint   n next   l list   a all   ↑↓ scroll   q quit"
# What a terminal sends for a key, and how far it moves the list: in lines, or in pages.
_LINES = {"\x1b[A": -1, "\x1bOA": -1, "k": -1, "\x1b[B": 1, "\x1bOB": 1, "j": 1}
_PAGES = {"\x1b[5~": -1, "\x1b[6~": 1, "\x1b[H": -1000, "\x1b[1~": -1000, "\x1b[F": 1000, "\x1b[4~": 1000}
_KEY = re.compile(r"\x1b(?:\[[0-9;]*[A-Za-z~]|O[A-Za-z])|[^\x1b]", re.DOTALL)
_PART_OF_KEY = re.compile(r"\x1b(?:\[[0-9;]*|O)?\Z")


def watch(course: Course, *, jobs: int = 2) -> None:
    """Watch ``exercises/`` until q or Ctrl-C. On a terminal it is one screen with keys, else plain lines."""
    folder = course.root / "exercises"
    if not folder.is_dir():
        raise OplabError(f"The folder {folder} is missing.", "Restore it from the repository, or `oplab reset c00`.")
    with Server.shared(course, host=True) as server:
        session = Session(course, server, jobs)
        view = Screen(session) if sys.stdin.isatty() and sys.stdout.isatty() else Plain(session)
        session.run(view)


class Session:
    """The state of the watch: what the service tells, and what the keys change."""

    def __init__(self, course: Course, server: Server, jobs: int):
        self.course = course
        self.outcomes: dict[str, Outcome] = {}
        self.note = ""
        self.last: tuple[Outcome, ...] = ()
        self.listing = False
        self.scrolled = [0, 0]  # the list, from where the current exercise is in sight: by lines and by pages
        self.current: Exercise | None = None
        self._events: queue.Queue[tuple[str, Any]] = queue.Queue()
        self._ended = False
        self.service = Service(course, server, lambda kind, value: self._events.put((kind, value)), jobs=jobs)
        self.reached = progressing.load(course.root / "build")
        self.current = self.next()

    @property
    def running(self) -> list[str]:
        """The ids of what is being graded, and of what waits for it."""
        return [*self.service.running, *self.service.queued]

    def run(self, view: Screen | Plain) -> None:
        """Start the service and handle events until the end. KeyboardInterrupt passes through after everything is stopped."""
        with view:
            try:
                self.service.start()
                self.service.warm()  # while the learner reads: the first save is graded as fast as later ones
                view.update()
                while not self._ended:
                    try:
                        kind, value = self._events.get(timeout=0.1)
                    except queue.Empty:
                        view.keys(self.press)
                        continue
                    self._handle(kind, value, view)
                    view.keys(self.press)
            finally:
                self.service.stop()

    def press(self, key: str) -> None:
        """React to one key: a character, or what a terminal sends for an arrow."""
        if key in _LINES or key in _PAGES:
            self.scrolled[0] += _LINES.get(key, 0)
            self.scrolled[1] += _PAGES.get(key, 0)
            self._events.put(("redraw", None))
            return
        self.note, self.scrolled = "", [0, 0]
        key = key.lower()
        if key == "q":
            self._ended = True
        elif key == "l":
            self.listing = not self.listing
        elif key == "a":
            self.service.wish([exercise for exercise in self.course.exercises if not self._is_stub(exercise)])
            self.note = "" if self.running else "Every exercise is still its stub: there is nothing to grade."
        elif key == "n":
            self.current = self.next(after=self.current)
        elif key == "h" and self.current is not None:
            from oplab.grading.hints import hint_lines

            try:
                self.note = "\n".join(hint_lines(self.course, self.current))
            except OplabError as error:
                self.note = str(error)
        self._events.put(("redraw", None))

    def next(self, after: Exercise | None = None) -> Exercise | None:
        """The next exercise that has not passed; one after the given one, around the end to the first."""
        order = open_exercises(self.course, self.reached, after.chapter if after else "")
        at = order.index(after) + 1 if after in order else 0
        return (order[at:] + order[:at] or [None])[0]

    def _is_stub(self, exercise: Exercise) -> bool:
        try:
            text = (self.course.root / "exercises" / exercise.file).read_text(encoding="utf-8")
            name = exercise.name if exercise.kind == "python" else None
            return stubs.is_untouched(text, answers.stub_text(self.course, exercise), name)
        except (OSError, SyntaxError, UnicodeDecodeError, OplabError):
            return False

    def _handle(self, kind: str, value: Any, view: Screen | Plain) -> None:
        if kind == "saved":
            self.note = ""
        elif kind == "fault":
            self.note = value
        elif kind == "graded":
            self._graded(value, view)
        elif kind == "elsewhere":
            self._graded((last.to_outcome(value),), view)
        view.update()

    def _graded(self, fresh: tuple[Outcome, ...], view: Screen | Plain) -> None:
        self.last, self.scrolled = fresh, [0, 0]
        for outcome in fresh:
            self.outcomes[outcome.id] = outcome
            if outcome.status != "grader_error":
                self.reached.exercises.setdefault(outcome.id, progressing.Entry()).take(outcome)
        bad = next((outcome for outcome in fresh if not outcome.passed), None)
        self.current = self.course.exercise(bad.id) if bad else self.next(after=self.course.exercise(fresh[-1].id))
        view.graded(fresh)


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
        following = self.session.current
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
        self._typed = ""  # the beginning of a key whose rest has not come yet

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
            data = os.read(0, 1024)
            if not data:
                return
            pressed, self._typed = keys(self._typed + data.decode("utf-8", "ignore"))
            for key in pressed:
                press(key)

    def graded(self, outcomes: tuple[Outcome, ...]) -> None:
        """Does nothing: :meth:`update` shows the outcomes."""

    def update(self) -> None:
        """Draw the screen."""
        from rich.text import Text

        height = self._live.console.size.height
        table, rest = list(self._table()), list(self._body())
        if self.session.listing:  # it was asked for, so it has half of the screen at least
            rest = rest[: max(0, height - 3 - min(len(table), height // 2))]
        shown = window(table, height - 3 - len(rest), self.session.scrolled)
        lines = [*shown, "", *rest][: height - 2]
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
        passed = sum(session.reached.entry(exercise.id).passed for exercise in chapter.exercises)
        yield f"{chapter.id}  {chapter.title}   {passed} of {len(chapter.exercises)} passed"
        for exercise in chapter.exercises:
            sign, state = session.reached.entry(exercise.id).look
            here = "▸" if exercise == session.current else " "
            yield f" {here} {sign} {exercise.id:<22} {state}"


def keys(typed: str) -> tuple[list[str], str]:
    """The keys in what a terminal has sent, and the beginning of one that is not complete yet."""
    part = _PART_OF_KEY.search(typed)
    whole, rest = (typed[: part.start()], part[0]) if part else (typed, "")
    return _KEY.findall(whole), rest


def window(lines: list[str], room: int, scrolled: list[int]) -> list[str]:
    """At most ``room`` lines, those around the current exercise; cuts are marked.

    Args:
        lines: all of them.
        room: how many fit; 3 are shown at least.
        scrolled: by how many lines and pages the window is moved. What would move it beyond an end is taken out.
    """
    room = max(3, room)
    if len(lines) <= room:
        scrolled[:] = 0, 0
        return lines
    here = next((number for number, line in enumerate(lines) if line.startswith(" ▸")), 0)
    last = len(lines) - room
    start = min(max(0, here - room // 2), last)
    first = min(max(0, start + scrolled[0] + scrolled[1] * (room - 2)), last)
    scrolled[:] = first - start, 0
    shown = lines[first : first + room]
    if first:
        shown[0] = "   …"
    if first + room < len(lines):
        shown[-1] = "   …"
    return shown
