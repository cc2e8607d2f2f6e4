"""Watch mode: saves of every kind are graded once and for their last text, with keys on a terminal and plain lines without one."""

from __future__ import annotations

import os
import pty
import queue
import re
import signal
import subprocess
import threading
import time

import pytest

from oplab.cli.watch import keys, window
from tests.support.fixture_course import command

RIGHT, WRONG = "def passes(x):\n    return 2 * x\n", "def passes(x):\n    return 3 * x\n"


class Watcher:
    """``oplab watch`` in a process, its lines as they come."""

    def __init__(self, course, terminal: bool = False, height: int = 50):
        line, env = command(course, "watch")
        self.file = course / "exercises" / "c01_cases.py"
        self.lines: queue.Queue[str] = queue.Queue()
        out = subprocess.PIPE
        stdin = subprocess.DEVNULL
        if terminal:
            self.keyboard, theirs = pty.openpty()
            out = stdin = theirs
            env.update(TERM="xterm", LINES=str(height))
        self.process = subprocess.Popen(line, env=env, stdin=stdin, stdout=out, stderr=subprocess.STDOUT, cwd=course)
        if terminal:
            os.close(theirs)
        threading.Thread(target=self._read, args=(terminal,), daemon=True).start()

    def _read(self, terminal: bool) -> None:
        source = self.keyboard if terminal else self.process.stdout.fileno()
        try:
            while data := os.read(source, 1 << 16):
                for line in re.split(
                    r"[\r\n]+", re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"\n", data).decode("utf-8", "replace")
                ):
                    self.lines.put(line)
        except OSError:  # the terminal was closed
            pass

    def wait(self, words: str, seconds: float = 300) -> str:
        return self.until(words, seconds)[-1]

    def until(self, words: str, seconds: float = 300) -> list[str]:
        """The lines that come up to the one with these words."""
        deadline, seen = time.monotonic() + seconds, []
        while time.monotonic() < deadline:
            try:
                seen.append(self.lines.get(timeout=0.2))
            except queue.Empty:
                continue
            if words in "".join(seen[-2:]):  # a terminal's line may come in two parts
                return seen
        raise AssertionError(f"{words!r} did not come; seen: {seen[-40:]}")

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(120)


@pytest.fixture
def watching(course):
    watchers = []

    def start(**options):
        watchers.append(Watcher(course, **options))
        return watchers[-1]

    yield start
    for watcher in watchers:
        if watcher.process.poll() is None:
            watcher.process.kill()


def test_saves_are_graded_and_ctrl_c_ends(watching):
    watcher = watching()
    watcher.wait("Watching exercises/")
    watcher.file.write_text(WRONG)
    watcher.wait("c01.passes  failed")
    watcher.wait("The result is 3 * x.")
    watcher.file.write_text(RIGHT)
    watcher.wait("c01.passes  passed")
    assert watcher.end() == 130


@pytest.mark.nightly
def test_an_editor_that_renames_and_temporary_files(watching):
    watcher = watching()
    watcher.wait("Watching")
    draft = watcher.file.with_name(".c01_cases.py.swp")
    draft.write_text(WRONG)
    watcher.file.rename(watcher.file.with_name("c01_cases.py~"))
    draft.rename(watcher.file)
    watcher.wait("c01.passes  failed")


@pytest.mark.nightly
def test_keys_on_a_terminal(watching):
    watcher = watching(terminal=True, height=14)
    watcher.wait("h hint   n next   l list")
    os.write(watcher.keyboard, b"h")
    watcher.wait("Hint 1 of 2: Multiply.")
    os.write(watcher.keyboard, b"l")
    watcher.wait("c01.untouched")
    for typed, seen in (
        (b"\x1b[6~", "c01.segfaults"),
        (b"\x1b[F", "c03.typo"),
        (b"k", "c02.stuck"),
        (b"\x1b[H", "▸ ○ c01.passes"),
    ):
        os.write(watcher.keyboard, typed)
        watcher.wait(seen)
    os.write(watcher.keyboard, b"n")
    watcher.wait("▸ ○ c01.fails")
    watcher.file.write_text(RIGHT)
    watcher.wait("✓ c01.passes")
    os.write(watcher.keyboard, b"q")
    assert watcher.process.wait(120) == 0


LINES = [f" {'▸' if number == 3 else ' '} {number}" for number in range(20)]


@pytest.mark.parametrize(
    ("scrolled", "first", "after"),
    [([1, 0], 1, [1, 0]), ([0, 1], 6, [6, 0]), ([0, 1000], 12, [12, 0]), ([12, -1], 6, [6, 0])],
)
def test_a_window_is_moved_and_stays_on_the_list(scrolled, first, after):
    shown = window(LINES, 8, scrolled)
    expected = LINES[first : first + 8]
    if first:
        expected[0] = "   …"
    if first + 8 < 20:
        expected[-1] = "   …"
    assert shown == expected and scrolled == after
    assert window(shown, 8, scrolled) == shown and scrolled == [0, 0]


def test_keys_are_told_from_what_a_terminal_sends():
    assert keys("hj\x1b[A\x1bOB\x1b[5~é") == (["h", "j", "\x1b[A", "\x1bOB", "\x1b[5~", "é"], "")
    assert keys("h\x1b[") == (["h"], "\x1b[") and keys("\x1b[" + "A") == (["\x1b[A"], "")
    assert keys("\x1b") == ([], "\x1b") and keys("\x1b" + "q") == (["q"], "")
