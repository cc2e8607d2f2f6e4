"""Death by kill -9: of a call, after a number of changes of the disk, and of a process that a test has started somewhere below."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from oplab.grading import processes
from oplab.updates import placing
from tests.support.forks import fork

COMPILER = ("cc1plus", "-cc1")  # the part of GCC or clang that reads the source
GIT = ("fetch", "restore", "reset")  # commands that write
CHANGES = (
    (os, "replace"),
    (os, "rename"),
    (os, "link"),
    (os, "unlink"),
    (os, "fsync"),
    (placing, "_swap"),
    (subprocess, "run"),
)


def killed_after(count: int, action: Callable[[], object]) -> bool:
    """Run in a child process that ends without any cleanup after so many changes of the disk: renames, links,
    removals, files that are written whole, and git commands that write.

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


@contextlib.contextmanager
def killed(*words: str, gate: Path) -> Iterator[list[int]]:
    """Kill the first process below this one whose program's name begins with a word, or that has it as an argument.

    Args:
        gate: where a FIFO is made that is removed just before the kill, and ends for its readers just after it. The process has
            to wait for one of them: a process that ends by itself may do so before it is seen.

    Returns:
        the process that was killed, if one was.
    """
    os.mkfifo(gate)
    held = open(gate, "r+b", buffering=0)  # who reads from the FIFO waits until this is closed
    victims: list[int] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.01):
            for pid in processes.descendants(os.getpid()):
                with contextlib.suppress(OSError):
                    program, *arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
                    meant = Path(program).name.startswith(words) or set(words) & set(arguments)
                    if meant and "-dM" not in arguments:  # not a compiler that is only asked for its version
                        gate.unlink(missing_ok=True)
                        os.kill(pid, signal.SIGKILL)
                        victims.append(pid)
                        held.close()
                        return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield victims
    finally:
        over.set()
        thread.join()
        held.close()
