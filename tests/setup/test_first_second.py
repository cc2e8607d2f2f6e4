"""Ctrl-C while a command is still importing its modules, and what `make` lists."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support import ROOT, environment


def test_ctrl_c_during_the_first_import_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("print('importing', flush=True)\nimport time\ntime.sleep(600)\n")
    env = environment()
    env["PYTHONPATH"] = f"{tmp_path}{os.pathsep}{env['PYTHONPATH']}"
    process = subprocess.Popen(
        [sys.executable, "-m", "oplab.cli", "list"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None and process.stdout.readline() == "importing\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=90) == ("", "\nStopped.\n") and process.returncode == 130


def test_make_lists_a_learner_s_targets_and_help_all_every_one() -> None:
    shown = [
        subprocess.run(["make", *words], cwd=ROOT, capture_output=True, text=True).stdout
        for words in ([], ["help-all"])
    ]
    targets = [line.split()[0] for line in shown[0].splitlines() if line.startswith("  ")]
    assert targets == ["lab", "check", "list", "next", "watch", "update", "setup", "doctor"]
    assert {"test", "test-all", "lock", "clean", *targets} <= {line.split()[0] for line in shown[1].splitlines()}
    assert max(len(line) for text in shown for line in text.splitlines()) <= 100
