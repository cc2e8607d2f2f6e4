"""The front door of the set-up: old Pythons, wrong Pythons, and what is said when the set-up is interrupted."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support import ROOT, environment

BOOTSTRAP = ROOT / "tools" / "bootstrap.py"


def test_an_old_python_can_read_it() -> None:
    """Nothing newer than Python 3.2, so that even a very old python3 prints the sentence instead of a SyntaxError."""
    tree = ast.parse(BOOTSTRAP.read_text(), feature_version=(3, 4))
    newer = (ast.JoinedStr, ast.AnnAssign, ast.NamedExpr, ast.AsyncFunctionDef, ast.Starred, ast.Match)
    found = [node for node in ast.walk(tree) if isinstance(node, newer)]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            found += [part for part in [node.returns, *(arg.annotation for arg in node.args.args)] if part]
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            found.append(node)
    assert not found


def run_as(version: tuple[int, int, int], path: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs bootstrap.py in a Python that takes itself for another version, with another PATH."""
    code = f"""
        import runpy, sys
        sys.version_info = {version!r}
        sys.argv = [{str(BOOTSTRAP)!r}, "--as-is", "--", "-c", "import sys; print('in', sys.version_info[:2])"]
        runpy.run_path({str(BOOTSTRAP)!r}, run_name="__main__")
    """
    env = {key: value for key, value in os.environ.items() if not key.startswith("OPLAB_")} | {"PATH": path} | environ
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], env=env, capture_output=True, text=True)


@pytest.mark.parametrize("version", [(3, 10, 13), (3, 15, 0)])
def test_a_python_that_is_too_old_or_too_new(version: tuple[int, int, int], tmp_path: Path) -> None:
    done = run_as(version, str(tmp_path))
    assert done.returncode == 2
    said = f"Set-up stopped: Python 3.11 or newer, up to 3.14, is needed; this is Python {'.'.join(map(str, version))}"
    assert said in done.stderr and "To fix it: install one" in done.stderr and "Traceback" not in done.stderr


def test_a_fitting_python_on_the_path_is_used(tmp_path: Path) -> None:
    (tmp_path / "python3.13").write_text("#!/bin/sh\nexit 127\n")  # a shim with no Python behind it
    (tmp_path / "python3.11").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for shim in tmp_path.iterdir():
        shim.chmod(0o755)
    done = run_as((3, 9, 6), str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert f"python3 is Python 3.9.6; {sys.executable} is used instead." in done.stdout
    assert f"in {sys.version_info[:2]}" in done.stdout


def test_oplab_python_is_the_environment() -> None:
    done = run_as((3, 8, 1), os.environ["PATH"], OPLAB_PYTHON=sys.executable)
    assert (done.returncode, done.stdout) == (0, f"in {sys.version_info[:2]}\n")


def test_an_interrupted_set_up_says_one_sentence(tmp_path: Path) -> None:
    code = f"""
        import sys, pathlib, setup_engine, setup_steps
        context = setup_steps.Context(pathlib.Path({str(tmp_path)!r}))
        def endless(before):
            context.child(["sh", "-c", "echo up; sleep 60"], on_line=lambda line: print(line, flush=True))
        step = setup_engine.Step("Endless", pathlib.Path({str(tmp_path)!r}, "stamp"), lambda: "", bool, endless)
        setup_steps.Context = lambda: context
        setup_steps.all_steps = lambda context: [step]
        sys.exit(setup_steps.main([]))
    """
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", textwrap.dedent(code)],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # a shell that starts things in the background makes them ignore Ctrl-C
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    while process.stdout.readline().strip() != "up":
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    errors = process.communicate(timeout=90)[1]
    assert process.returncode == 130
    assert errors == "\nSet-up was interrupted. Run the same command again: it continues where it stopped.\n"
    assert not (tmp_path / "stamp").exists()
