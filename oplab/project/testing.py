"""``oplab test``: builds an operator's project and runs its tests."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from oplab.errors import OplabError
from oplab.project.build import Say, build_project
from oplab.project.layout import Project


def run_tests(project: Project, arguments: Sequence[str] = (), *, say: Say = print) -> int:
    """Build a project, and run its tests in a process for themselves.

    Args:
        arguments: further arguments of pytest, for example ``["-k", "parity"]``.

    Returns:
        0 where all passed, 1 where not, 2 where pytest could not run them: a wrong argument, no test, or a file of
        tests that cannot be imported.
    """
    tests = project.folder / "tests"
    if not any(tests.glob("test_*.py")):
        raise OplabError(
            f"The project has no tests: {tests} has no file test_*.py.", "Write one, or restore the folder."
        )
    if importlib.util.find_spec("pytest") is None:
        raise OplabError("pytest is not installed for this Python.", f"`{sys.executable} -m pip install pytest`.")
    build_project(project, say=say)
    sys.stdout.flush()
    command = [sys.executable, "-m", "pytest", "-q", "--durations=3", "tests", *arguments]
    searched = [str(project.folder / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": os.pathsep.join(searched)}
    process = subprocess.Popen(command, cwd=project.folder, env=env)
    try:
        code = process.wait()
    except KeyboardInterrupt as error:
        _end(process, told=not error.args)  # SIGTERM and SIGHUP come with their number, and to this process alone
        raise
    return code if code in (0, 1) else 2


def _end(process: subprocess.Popen, told: bool) -> None:
    """Stop pytest, which ends by itself at Ctrl-C and says what it has found so far. Ctrl-C once more takes the next step at once.

    Args:
        told: whether it should have got Ctrl-C already, as a terminal's whole foreground does. A busy machine needs a while for its
            last words, and a second Ctrl-C would cut them off.
    """
    steps = ((None if told else signal.SIGINT, 15), (signal.SIGINT, 5), (signal.SIGTERM, 5), (signal.SIGKILL, 5))
    for stop, seconds in steps:
        if stop is not None:
            process.send_signal(stop)
        try:
            process.wait(timeout=seconds)
            return
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            continue
