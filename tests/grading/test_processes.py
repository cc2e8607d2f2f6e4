"""Processes that are left when a worker has ended: they are killed, and collected."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from oplab.grading import processes

# In a separate process, which becomes the parent of orphans and ends all its descendants.
PROGRAM = """
import os, time
from oplab.grading import processes
processes.adopt_orphans()
time.sleep = lambda seconds: None  # as where a process takes longer to end than the pause between two looks
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0:
            bytearray(30 << 20)
            while True:
                os.pread(os.open("/dev/zero", os.O_RDONLY), 1 << 16, 0)
        os._exit(0)
    os.waitpid(pid, 0)
assert processes.kill_descendants() >= 20
assert processes.children(os.getpid()) == [], "zombies are left"
"""


@pytest.mark.skipif(not processes.LINUX, reason="descendants are found in /proc")
def test_what_was_ended_is_collected_too():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not processes.LINUX, reason="there is no /proc")
def test_children_are_found_while_threads_end(monkeypatch):
    """A thread that had ended between two looks hid the children of all threads after it."""
    real, lists = os.listdir, []

    def with_an_ended_thread(folder):
        lists.append(folder)
        return ["4194305", *real(folder)] if len(lists) < 3 else real(folder)  # no thread has such a number

    child = subprocess.Popen(["sleep", "60"])
    monkeypatch.setattr(os, "listdir", with_an_ended_thread)
    try:
        assert child.pid in processes.children(os.getpid()) and len(lists) == 3
    finally:
        child.kill()
        child.wait()
