"""``oplab debug``: the tools on files, with exit codes and sentences."""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from typer.testing import CliRunner

from oplab.cli.main import app
from oplab.errors import OplabError
from tests.support.faults import chain


@pytest.fixture
def folder(tmp_path):
    good, bad = chain(40), chain(40)
    weight = next(tensor for tensor in bad.graph.initializer if tensor.name == "w18")
    weight.CopyFrom(numpy_helper.from_array(np.zeros((8, 8), np.float32), "w18"))
    onnx.save(good, tmp_path / "good.onnx")
    onnx.save(bad, tmp_path / "bad.onnx")
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).normal(size=(2, 8)).astype(np.float32))
    return tmp_path


def call(*words: object):
    return CliRunner().invoke(app, ["debug", *map(str, words)])


def test_bisect_prints_each_step_once_and_exits_with_1(folder):
    done = call("bisect", folder / "bad.onnx", folder / "good.onnx", "--inputs", folder / "x.npz")
    assert done.exit_code == 1, done.output
    lines = done.output.splitlines()
    assert lines[0].startswith("after   40 of 40 nodes: differs")
    assert "First node that drifts: MatMul 'node18', node 18." in done.output
    assert "Its constant 'w18' (input 1) differs in 64 of 64 values" in done.output
    assert len(lines) == len(set(lines))
    done = call("bisect", folder / "good.onnx", folder / "good.onnx", "-i", folder / "x.npz")
    assert done.exit_code == 0 and "No node drifts" in done.output


def test_tap_shows_ranges_and_keeps_arrays(folder):
    done = call("tap", folder / "good.onnx", "v3", "node5", "-i", folder / "x.npz", "-o", folder / "out.npz")
    assert done.exit_code == 0, done.output
    assert "v3  float32[2, 8]  " in done.output
    assert sorted(np.load(folder / "out.npz").files) == ["v3", "v5"]


def test_extract_writes_a_model_that_passes_the_checker(folder):
    done = call("extract", folder / "good.onnx", "--inputs", "v3", "--outputs", "v5", "-o", folder / "part.onnx")
    assert done.exit_code == 0, done.output
    onnx.checker.check_model(onnx.load(folder / "part.onnx"))
    assert "2 nodes from v3 to v5" in done.output


def test_a_mistake_is_a_sentence(folder, monkeypatch):
    monkeypatch.chdir(folder)
    np.savez("wrong.npz", z=np.ones(3))
    for words, said in (
        ("bisect bad.onnx good.onnx -i gone.npz", "There is no file"),
        ("tap good.onnx nine -i x.npz", "good.onnx has no value and no node 'nine'"),
        ("tap good.onnx -i wrong.npz", "There is no input 'z'"),
        ("tap good.onnx -i x.npz -o no/such/folder/out.npz", "cannot be written"),
        ("extract good.onnx --inputs v4 --outputs v2 -o part.onnx", "'x' (read by MatMul 'node0') is missing"),
    ):
        done = call(*words.split())
        assert isinstance(done.exception, OplabError) and said in str(done.exception)  # main() makes it exit code 2


def test_the_command_line_starts_without_onnx_and_torch():
    code = "import sys, oplab.cli; print([name for name in ('onnx', 'torch', 'numpy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def stopped(number, folder):
    """A command that loads stop.py, which sends this signal."""
    words = ["parity", "good.onnx", "--inputs", "x.npz", "--module", "stop.py:f"]
    command = [sys.executable, "-m", "oplab.cli", *words]
    # A program inherits that a signal is ignored: SIGHUP under nohup, SIGINT in a job of a shell's background.
    before = signal.signal(number, signal.SIG_DFL)
    try:
        return subprocess.run(command, cwd=folder, capture_output=True, text=True)
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_any_command_with_a_sentence(number, folder):
    (folder / "stop.py").write_text(f"import os\nos.kill(os.getpid(), {int(number)})\nopen('went_on', 'w')\n")
    done = stopped(number, folder)
    assert done.returncode == 128 + number
    assert done.stderr.strip() == "Stopped. Nothing was lost." and not (folder / "went_on").exists()


def test_the_help_has_a_whole_sentence_for_each_command():
    for group in ([], ["debug"]):
        text = CliRunner().invoke(app, [*group, "--help"], terminal_width=80).output
        assert "..." not in text.replace("[ARGS]...", "")
