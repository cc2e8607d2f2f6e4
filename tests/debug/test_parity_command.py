"""``oplab parity`` on the command line: what it says, what it writes, and its exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner, Result

from oplab import OplabError
from oplab.cli.main import app
from tests.support import foo
from tests.support.my_add import model, pair

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("command")
    x = pair(3, 4)
    onnx.save(model(shape=["n", 4]), folder / "m.onnx")
    onnx.save(foo.make_model(attr1=0.5, attr2=2), folder / "foo.onnx")
    np.savez(folder / "x.npz", **x)
    np.savez(folder / "wrong.npz", **{name: array.astype(np.float64) for name, array in x.items()})

    np.save(folder / "x.npy", x["a"])
    (folder / "text.npz").write_text("not a zip")
    (folder / "mod.py").write_text(
        "import torch\n"
        "def right(a, b):\n    return 3 * a + 2 * b\n"
        "def wrong(a, b):\n    return 2 * a + b\n"
        "class Module(torch.nn.Module):\n    def forward(self, a, b):\n        return 3 * a + 2 * b\n"
        "class Needs(torch.nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
        "number = 3\n"
    )
    (folder / "op.py").write_text(OPERATOR)
    (folder / "broken.py").write_text("import nothing_of_that_name\n")
    return folder


# A file as its author has it: a function for onnxscript, which looks up its module, the operator, a reference and inputs for it.
OPERATOR = """
import numpy as np
import onnxscript
import torch
from onnx.reference.op_run import OpRun
from onnxscript import opset20 as op


@onnxscript.script(onnxscript.values.Opset("oplab", 1))
def Unused(x):
    return op.Neg(x)


torch.library.define("parity_command::my_add", "(Tensor a, Tensor b) -> Tensor")


@torch.library.impl("parity_command::my_add", "CompositeImplicitAutograd")
def my_add(a, b):
    return 3 * a + 2 * b


class Head(torch.nn.Module):
    def forward(self, a, b):
        return torch.ops.parity_command.my_add(a, b)


class MyAdd(OpRun):
    op_domain = "oplab"

    def _run(self, a, b, alpha=3.0, beta=2.0):
        return (alpha * a + beta * b,)




def cases(rng):
    return [{name: rng.random((rows, 4), np.float32) for name in "ab"} for rows in (1, 3)]



def raises(rng):
    raise ValueError("no data")


def text():
    return "text"
"""


def call(*words: str) -> Result:
    return CliRunner().invoke(app, ["parity", *words])


@pytest.fixture(autouse=True)
def _in_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def test_agreement():
    done = call("m.onnx", "--inputs", "x.npz", "--module", "mod.py:Module")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == "exported, reference, ort and host agree with eager."


def test_disagreement_and_json():
    words = ["m.onnx", "--inputs", "x.npz", "--module", "mod.py:wrong", "--backends", "eager,ort"]
    done = call(*words, "--json", "-")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["passed"] is False
    assert "ort does not agree with eager; either can be wrong" in done.stderr
    for option in (["--atol", "100"], ["--tolerance", "y=100"]):
        assert call(*words, *option).exit_code == 0


def test_random_inputs_are_said(folder: Path):
    done = call("m.onnx", "--dims", "n=2", "--seed", "7", "--json", "rows.json", "--times")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0] == "Inputs: random, --seed 7: a float32[2, 4], b float32[2, 4]"
    assert "eager                               " in done.stdout and "not available: no PyTorch module" in done.stdout
    assert " ms " in done.stdout
    assert json.loads((folder / "rows.json").read_text())["base"] == "reference"


def test_everything_from_the_author_s_file():
    """The file is executed once, whatever is taken from it: an operator can be registered only once."""
    words = ["--module", "op.py:Head", "--reference", "op.py:MyAdd", "--inputs", "op.py:cases", "--seed", "3"]
    done = call("m.onnx", *words)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == "Inputs: op.py:cases, --seed 3, case 0: a float32[1, 4], b float32[1, 4]"
    assert lines[1].startswith("Inputs: op.py:cases, --seed 3, case 1: a float32[3, 4]")
    assert lines[-1] == "exported, reference, ort and host agree with eager."


def test_onnx_runtime_alone_is_no_pass():
    done = call("m.onnx", "-i", "x.npz", "--backends", "ort,host")
    assert done.exit_code == 1 and "which proves nothing: both are ONNX Runtime" in done.stdout


def test_a_call_that_is_wrong():
    x, ort = ["-i", "x.npz"], ["--backends", "ort,host"]
    for words, sentence in (
        (["gone.onnx", *x], "There is no model"),
        (["m.onnx", "-i", "gone.npz", *ort], "There is no file"),
        (["m.onnx", "-i", "x.npy", *ort], "holds one array without a name"),
        (["m.onnx", "-i", "text.npz", *ort], "cannot be read as .npz"),
        (["m.onnx", "-i", "wrong.npz", *ort], "The input a is float64"),
        (["m.onnx"], "the size of n is unknown"),
        (["m.onnx", "--dims", "m=3"], "The model has no dimension m"),
        (["m.onnx", "--dims", "n=x"], "--dims takes a name and a size"),
        (["foo.onnx"], "its shape is not stated"),
        (["m.onnx", *x, "--dims", "n=3"], "--dims is only for random inputs"),
        (["m.onnx", *x, "--backends", "ort,cuda"], "There is no backend cuda"),
        (["m.onnx", *x, "--backends", "eager,ort"], "does not say which PyTorch module"),
        (["m.onnx", *x, "--module", "mod.py"], "--module takes FILE.py:NAME"),
        (["m.onnx", *x, "--module", "gone.py:f"], "There is no file"),
        (["m.onnx", *x, "--module", "broken.py:f"], "cannot be loaded: ModuleNotFoundError"),
        (["m.onnx", *x, "--module", "mod.py:number"], "number is a int in"),
        (["m.onnx", *x, "--module", "mod.py:Needs"], "Needs cannot be made without arguments"),
        (["m.onnx", *x, "--reference", "op.py:Head"], "Head is a class in"),
        (["m.onnx", "-i", "op.py:gone"], "op.py:gone is not there"),
        (["m.onnx", "-i", "op.py:raises"], "op.py:raises raised ValueError: no data"),
        (["m.onnx", "-i", "op.py:text"], "op.py:text returns a str, not inputs"),
        (["m.onnx", *x, "--rtol", "inf"], "A tolerance is a number"),
        (["m.onnx", *x, *ort, "--json", "no/f.json"], "cannot be written"),
    ):
        error = call(*words).exception
        assert isinstance(error, OplabError) and sentence in str(error), (words, error)


def test_a_mistake_ends_the_process_with_2():
    command = [sys.executable, "-m", "oplab.cli", "parity", "gone.onnx"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and done.stderr.startswith("oplab: There is no model") and done.stdout == ""
