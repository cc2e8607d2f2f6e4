"""Compiles the operators while packages are still being installed. Standard library only.

It is the command of the step "Operators", started as soon as what it needs is installed. It changes nothing but the time: the step runs
the same command again, which then has nothing to do, or says what is wrong. A lock keeps the two apart.
"""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any


class Ahead:
    """The command that compiles, in the background; nothing runs until :meth:`start`."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: list[str], log: Path, **options: Any) -> None:
        """Start it, if it was not started before; what it prints goes to a file.

        Args:
            command: the program and its arguments.
            log: the file.
            options: of :class:`subprocess.Popen`.
        """
        if self._process is None:
            with open(log, "w", encoding="utf-8") as file:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, **options
                )

    def wait(self) -> bool:
        """Wait for it; whether it was started and succeeded."""
        return self._process is not None and self._process.wait() == 0

    def stop(self) -> None:
        """End it."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # as Ctrl-C: it ends the compilers first
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
