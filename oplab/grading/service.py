"""Grades what is asked for and what is saved, one run after the other, in the background: for ``oplab watch`` and for JupyterLab.

It imports no torch, onnx or NumPy: they are in the grading server.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from oplab.course import copies
from oplab.course.manifest import Course, Exercise
from oplab.errors import OplabError
from oplab.files import file_state
from oplab.grading import last
from oplab.grading import progress as progressing
from oplab.grading.changes import Changes
from oplab.grading.client import Server
from oplab.grading.grader import Cancelled, grade
from oplab.grading.results import Outcome, Results
from oplab.grading.shared import ProcessLock, address

Draw = Callable[[Results, Path], Results]
_LESSONS = ("notebooks", copies.FOLDER)  # a newer lesson is told of as well as a changed copy
STILL = 1.0  # seconds that a file has not changed before it is graded: an editor may save half-typed text
_INTERVAL = 500  # ms between two scans of all files, for changes without an event


class Service:
    """Grades in the background. Methods may be called from several threads.

    ``tell(kind, value)`` is called from the service's threads:

    =========== ============================== =====================================================
    kind        value                          when
    =========== ============================== =====================================================
    saved       list of exercises              saves have changed these, whether they are graded or not
    running     None                           what runs, what waits or the state of the server changed
    outcome     (Outcome, when)                an exercise was graded, and its text is still the same
    graded      tuple of outcomes              a run has ended
    pictures    (Outcome, when)                once more, with pictures of its models
    elsewhere   entry of :mod:`last`           another process has graded an exercise
    files       None                           the progress, the manifest, a lesson or a copy of one has changed
    fault       str                            nothing could be graded
    =========== ============================== =====================================================

    Args:
        course: the course.
        server: for the grading; it is started when it is first needed, and closed by its owner.
        tell: gets the news.
        jobs: how many exercises are graded at the same time.
        saves: whether what a save touches is graded.
        at_once: how many exercises one run has at most; None is all that wait.
        draw: :func:`oplab.reports.graphs.with_graphs`, where pictures of the models are wanted; ``server`` keeps the evidence then.

    Attributes:
        saves: may be changed at any time.
        started: whether :meth:`start` was called.
        problem: why the server does not start; empty when it does.
    """

    def __init__(
        self,
        course: Course,
        server: Server,
        tell: Callable[[str, Any], None],
        *,
        jobs: int = 2,
        saves: bool = True,
        at_once: int | None = None,
        draw: Draw | None = None,
    ):
        self.course, self.server, self.tell, self.saves, self.problem = course, server, tell, saves, ""
        self._jobs, self._at_once, self._draw = jobs, at_once, draw
        self._build = course.root / "build"
        self._wake = threading.Condition()
        self._stop = threading.Event()
        self._wishes: dict[str, Exercise] = {}
        self._run: _Run | None = None
        self._starting = False
        self.changes = Changes(course)
        self._looking = threading.Lock()
        self._held: dict[str, Exercise] = {}  # changed, and not graded since
        self._drafts: dict[str, str] = {}  # file -> the text that an editor has saved by itself, as far as is known
        self._changed = 0.0  # when a change was last seen
        self._on_saves = ProcessLock(address(course.root, "saves"))  # of a watch and a panel, one grades what is saved
        self._when: dict[str, float] = {}  # of the outcomes that were told
        self._latest: dict[str, Outcome] = {}
        self._noted = self._files()
        self.started = False

    def start(self) -> None:
        """Start to watch and to grade."""
        self.started = True
        with contextlib.suppress(OSError):
            (self._build / last.FOLDER).mkdir(parents=True, exist_ok=True)
        self._when = {id: entry["when"] for id, entry in self._entries(self._noted)}
        for task in (self._watch, self._grade):
            threading.Thread(target=task, name=f"oplab{task.__name__}", daemon=True).start()

    def stop(self) -> None:
        """End everything that runs. The server is closed by its owner afterwards."""
        self._stop.set()
        self.cancel()
        self._on_saves.release()

    # --- what runs ---

    @property
    def running(self) -> dict[str, float]:
        """The exercises that are being graded, each with the time at which that began (seconds since 1970)."""
        run = self._run
        return dict(run.started) if run is not None else {}

    @property
    def queued(self) -> list[str]:
        """The exercises that wait."""
        with self._wake:
            waiting = [exercise.id for exercise in self._run.left()] if self._run is not None else []
            started = self.running
            return list(dict.fromkeys([id for id in (*waiting, *self._wishes) if id not in started]))

    @property
    def grader(self) -> str:
        """The state of the grading server: ``off``, ``starting``, ``ready`` or ``failed``."""
        if self._starting:
            return "starting"
        return "ready" if self.server.warm else "failed" if self.problem else "off"

    def wish(self, exercises: Iterable[Exercise], first: bool = False) -> list[str]:
        """Have these exercises graded, ``first`` or after those that wait, and return those that wait because of it.

        One that runs already is left alone if its file is still the same, else its run is ended and it is graded again.
        """
        with self._wake:
            added, run = [], self._run
            for exercise in exercises:
                if run is not None and exercise.id in run.open:
                    if run.states[exercise.file] == file_state(self.course.root / "exercises" / exercise.file):
                        continue
                    run.cancelled.set()
                self._wishes.setdefault(exercise.id, exercise)
                self._held.pop(exercise.id, None)
                added.append(exercise.id)
            if first:
                ahead = {id: self._wishes[id] for id in added}
                self._wishes = ahead | self._wishes
            if run is not None and run.cancelled.is_set():
                self._end_jobs()
            self._wake.notify_all()
        self.tell("running", None)
        return added

    def cancel(self) -> None:
        """End what runs and forget what waits."""
        with self._wake:
            self._wishes.clear()
            if self._run is not None:
                self._run.dropped = True
                self._run.cancelled.set()
                self._end_jobs()
            self._wake.notify_all()
        self.tell("running", None)

    def _end_jobs(self) -> None:
        """End what runs on the server; while it starts there is nothing, and it would have to be waited for."""
        if not self._starting:
            self.server.cancel()

    def warm(self) -> None:
        """Start the server in the background, so that the first check is as fast as later ones."""

        def start() -> None:
            with contextlib.suppress(OplabError, RuntimeError):
                self._warm()

        threading.Thread(target=start, name="oplab-warm", daemon=True).start()

    def _warm(self) -> None:
        """Raises:
        OplabError: the server does not start.
        RuntimeError: it is closed.
        """
        if self.server.warm:
            return
        self._starting = True
        self.tell("running", None)
        try:
            self.server.start()
            self.problem = ""
        except OplabError as error:
            self.problem = str(error)
            self.tell("fault", str(error))
            raise
        finally:
            self._starting = False
            self.tell("running", None)

    # --- grading ---

    def _grade(self) -> None:
        while not self._stop.is_set():
            with self._wake:
                self._wake.wait_for(lambda: self._wishes or self._stop.is_set())
                if self._stop.is_set():
                    return
                todo = list(self._wishes.values())[: self._at_once]
                for exercise in todo:
                    del self._wishes[exercise.id]
                run = self._run = _Run(self.course, todo)
            self.tell("running", None)
            try:
                self._warm()
                self._graded(run)
            except Cancelled:
                pass
            except OplabError as error:
                if not self.problem:
                    self.tell("fault", str(error))
                run.dropped = True
            except RuntimeError:  # the server was closed: the service is over
                return
            finally:
                with self._wake:
                    self._run = None
                    if run.cancelled.is_set() and not run.dropped:  # a save has ended it: the rest follows
                        for exercise in run.left():
                            self._wishes.setdefault(exercise.id, exercise)
                self.tell("running", None)

    def _graded(self, run: _Run) -> None:
        """Raises:
        Cancelled: the run was ended.
        OplabError: nothing could be graded.
        """
        fresh: list[Outcome] = []

        def listen(exercise: Exercise, outcome: Outcome | None) -> None:
            if outcome is None:
                run.started[exercise.id] = time.time()
                self.tell("running", None)
                return
            with self._wake:
                run.started.pop(exercise.id, None)
                if run.cancelled.is_set():
                    return
                run.open.pop(exercise.id, None)
                self._latest[exercise.id] = outcome
            fresh.append(outcome)
            self._record(outcome)
            self.tell("outcome", (outcome, self._when[outcome.id]))

        folder = self.course.root / "exercises"
        try:
            results = grade(
                self.course,
                run.exercises,
                folder,
                jobs=self._jobs,
                server=self.server,
                listener=listen,
                cancelled=run.cancelled,
            )
        finally:
            if fresh:
                order = {exercise.id: number for number, exercise in enumerate(run.exercises)}
                self.tell("graded", tuple(sorted(fresh, key=lambda outcome: order[outcome.id])))
        self._precompile([exercise for exercise in run.exercises if exercise.kind != "python"])
        self._pictures(Results(tuple(outcome for outcome in results.exercises if outcome in fresh), results.seed))

    def _record(self, outcome: Outcome) -> None:
        when = time.time()
        self._when[outcome.id] = when
        progressing.record(self._build, Results((outcome,), 0), lambda _: None, when=when)

    def _precompile(self, exercises: list[Exercise]) -> None:
        """Have the headers of answers in C++ precompiled, in a thread: the next save of one takes half the time."""

        def headers() -> None:
            from oplab.toolchain.precompiled import prepare
            from oplab.toolchain.recipes import recipe

            for exercise in exercises:
                with contextlib.suppress(OSError, OplabError):
                    text = (self.course.root / "exercises" / exercise.file).read_bytes()
                    prepare(recipe(exercise.kind), text)

        if exercises:
            threading.Thread(target=headers, name="oplab-precompile", daemon=True).start()

    def _pictures(self, results: Results) -> None:
        """Draw the models that did not pass, in a thread: the next run does not wait for it."""
        kept = self.server.kept
        if self._draw is None or kept is None:
            return
        wanted = tuple(one for one in results.exercises if not one.passed and (kept / one.id).is_dir())
        if not wanted:
            return

        def draw() -> None:
            for outcome in self._draw(Results(wanted, results.seed), kept).exercises:
                plain = self._latest.get(outcome.id)
                if outcome.graphs and plain in wanted and not self._stop.is_set():
                    last.save(self._build, outcome, self._when[outcome.id])
                    self.tell("pictures", (outcome, self._when[outcome.id]))

        threading.Thread(target=draw, name="oplab-draw", daemon=True).start()

    # --- watching ---

    def _watch(self) -> None:
        """Look at the files after each event, and twice a second: network drives send no events."""
        while not self._stop.is_set():
            folders = self._folders()
            for _ in self._events(folders):
                self._look()
                if self._stop.is_set():
                    return
                if self._folders() != folders:  # one was made or removed
                    break

    def _events(self, folders: list[Path]) -> Iterator[Any]:
        from watchfiles import watch as changes

        try:
            yield from changes(
                *folders,
                step=20,
                debounce=200,
                stop_event=self._stop,
                watch_filter=None,
                rust_timeout=_INTERVAL,
                yield_on_timeout=True,
                recursive=False,
            )
        except (OSError, RuntimeError):  # a folder has gone, or the system watches no more of them
            self._stop.wait(_INTERVAL / 1000)
            yield ()

    def _folders(self) -> list[Path]:
        root = self.course.root
        exercises = root / "exercises"
        inside = {(exercises / exercise.file).parent for exercise in self.course.exercises}
        candidates = (root, self._build, self._build / last.FOLDER, *(root / name for name in _LESSONS), *inside)
        return sorted({folder for folder in candidates if folder.is_dir()})

    def _look(self) -> None:
        # An editor that saves by rename leaves no file for a moment; one that truncates leaves an empty one.
        for _ in range(10):
            if not self.changes.half_written() or self._stop.wait(0.02):
                break
        self._hold()
        if time.monotonic() - self._changed >= STILL:
            self._grade_held([one for one in self._held.values() if not self._is_draft(one.file)])
        if not self.saves:
            self._held.clear()
            self._on_saves.release()
        now = self._files()
        if now == self._noted:
            return
        before, self._noted = self._noted, now
        changed = {path: state for path, state in now.items() if state != before.get(path)}
        for id, entry in self._entries(changed):
            if entry["when"] != self._when.get(id):
                self._when[id] = entry["when"]
                self.tell("elsewhere", entry)
        self.tell("files", None)

    def draft(self, file: str, text: str) -> None:
        """An editor writes this text: it is graded when :meth:`saved` is called, or when another program changes it."""
        self._drafts[file] = text.replace("\r\n", "\n")

    def saved(self, file: str | None = None) -> None:
        """The user has saved: grade at once what has changed in ``file``, or in all files."""
        self._hold()
        for one in [file] if file else list(self._drafts):
            self._drafts.pop(one, None)
        self._grade_held([one for one in self._held.values() if file in (None, one.file)])

    def _hold(self) -> None:
        with self._looking:
            touched = self.changes.touched()
            self._held |= {exercise.id: exercise for exercise in touched}
        if touched:
            self._changed = time.monotonic()
            self.tell("saved", touched)

    def _grade_held(self, exercises: list[Exercise]) -> None:
        if exercises and self.saves and (self._on_saves.take() or not self._on_saves.path):
            self.wish(exercises, first=True)

    def _is_draft(self, file: str) -> bool:
        if file not in self._drafts:
            return False
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if (self.course.root / "exercises" / file).read_text(encoding="utf-8") == self._drafts[file]:
                return True
        del self._drafts[file]  # another program has written it since
        return False

    def _files(self) -> dict[Path, tuple[int, ...] | None]:
        """The state of each file besides the answers that the service tells of."""
        root = self.course.root
        # An update that was interrupted, and what one could not merge: a folder's state changes with each file that comes or goes.
        updates = [
            self._build / "update.begun",
            *{(root / "exercises" / each.file).parent for each in self.course.exercises},
        ]
        files = [root / "course.toml", self._build / "progress.json", *updates]
        notebooks = [(root / name, "*.ipynb") for name in _LESSONS]
        for folder, ending in ((self._build / last.FOLDER, "*.json"), *notebooks):
            files += [path for path in folder.glob(ending) if not path.name.startswith(".")]
        return {path: file_state(path) for path in files}

    def _entries(self, files: Iterable[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
        known = {exercise.id for exercise in self.course.exercises}
        for path in files:
            if path.parent.name == last.FOLDER and path.stem in known:
                entry = last.load(self._build, path.stem)
                if entry is not None:
                    yield path.stem, entry


class _Run:
    """Exercises that are graded together.

    Attributes:
        open: those without an outcome.
        started: those that are being graded, with the time.
        states: their files as they were before.
        cancelled: ends the run.
        dropped: what is left is not graded again.
    """

    def __init__(self, course: Course, exercises: list[Exercise]):
        self.exercises = exercises
        self.open = {exercise.id: exercise for exercise in exercises}
        self.started: dict[str, float] = {}
        self.states = {one.file: file_state(course.root / "exercises" / one.file) for one in exercises}
        self.cancelled = threading.Event()
        self.dropped = False

    def left(self) -> list[Exercise]:
        """The exercises without an outcome."""
        return list(self.open.values())
