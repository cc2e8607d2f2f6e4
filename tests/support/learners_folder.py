"""A whole copy of the course, on which `make lab` runs; :mod:`tests.support.learner_course` has links to the repository instead."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support import ROOT
from tests.support.learner_course import write_stubs

FILES = (".gitignore", "course.toml", "Makefile", "README.md")
FOLDERS = ("csrc", "docs", "notebooks", "solutions", "tools")


class LearnersFolder:
    """The course in ``root``; what a test does there leaves no trace in the repository, nor in an author's own ``work/``."""

    def __init__(self, root: Path):
        self.root = root
        root.mkdir()
        for name in FILES:
            shutil.copy(ROOT / name, root / name)
        for name in FOLDERS:
            skipped = shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
            shutil.copytree(ROOT / name, root / name, ignore=skipped)
        (root / "build").mkdir()
        write_stubs(root)

    def build(self) -> None:
        """The operators and compiled pieces of this machine."""
        for name in ("lib", "cache"):
            (self.root / "build" / name).symlink_to(ROOT / "build" / name)

    def git(self, *arguments: str) -> str:
        """What git prints."""
        line = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
        return subprocess.run(line, cwd=self.root, check=True, capture_output=True, text=True).stdout

    def commit(self) -> None:
        """Make the folder a repository, as it is now."""
        self.git("init", "-q")
        self.git("add", "-A")
        self.git("commit", "-qm", "all")

    @contextlib.contextmanager
    def lab(self, port: int, env: dict[str, str], *more: str) -> Iterator[tuple[str, subprocess.Popen, Path]]:
        """JupyterLab as ``make lab`` starts it after the set-up: its address, its process and its log."""
        log = Path(env["HOME"]) / "log.txt"
        # A terminal, as a user has one: without it the server leaves SIGINT to Python, and its threads may then never end.
        keyboard, terminal = pty.openpty()
        options = ["--no-browser", f"--port={port}", "--ServerApp.port_retries=0", *more]
        command = [sys.executable, "-m", "oplab.jupyter.start", *options]
        with log.open("w") as stream:
            process = subprocess.Popen(
                command,
                cwd=self.root,
                env={**env, "PYTHONPATH": str(ROOT)},
                stdin=terminal,
                stdout=stream,
                stderr=subprocess.STDOUT,
            )
        try:
            deadline = time.monotonic() + 240
            while not log.read_text().endswith("ends JupyterLab.\n"):
                assert process.poll() is None and time.monotonic() < deadline, log.read_text()[-2000:]
                time.sleep(0.1)
            yield re.search(r"http://localhost:\S+", log.read_text())[0], process, log
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(120)
            os.close(keyboard)
            os.close(terminal)

    @staticmethod
    def ask(base: str, token: str, path: str, method: str = "GET", body: Any = None) -> bytes:
        """The server's own interface, logged in."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{base}/{path}", data=data, method=method, headers={"Authorization": f"token {token}"}
        )
        with urllib.request.urlopen(request, timeout=240) as answer:
            return answer.read()
