"""Death by kill -9: of a call, after a number of changes of the disk, and of a process that a test has started somewhere below."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from oplab.grading import processes
from tests.support.forks import fork

COMPILER = ("cc1plus", "-cc1")  # the part of GCC or clang that reads the source
GIT = ("fetch", "checkout-index", "reset", "read-tree", "update-ref")  # commands that write
CHANGES = ((os, "replace"), (os, "rename"), (os, "unlink"), (subprocess, "run"))


def killed_after(count: int, action: Callable[[], object]) -> bool:
    """Run in a child process that ends without any cleanup after so many renames, removals and git commands that write.

    Returns:
        whether it ended so.
    """
    done, run = 0, subprocess.run

    def counted(function):
        def call(*arguments, **options):
            nonlocal done
            result = function(*arguments, **options)
            done += function is not run or arguments[0][1] in GIT
            if done == count:
                os._exit(9)
            return result

        return call

    def work() -> None:
        for module, name in CHANGES:
            setattr(module, name, counted(getattr(module, name)))
        action()

    code = os.waitstatus_to_exitcode(os.waitpid(fork(work), 0)[1])
    assert code in (0, 9)
    return code == 9


def killer(*words: str) -> threading.Thread:
    """A thread that kills the first process below this one whose program's name begins with a word, or that has it as an argument."""

    def watch() -> None:
        while True:
            for pid in processes.descendants(os.getpid()):
                with contextlib.suppress(OSError):
                    program, *arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
                    if Path(program).name.startswith(words) or set(words) & set(arguments):
                        os.kill(pid, signal.SIGKILL)
                        return
            time.sleep(0.01)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread
