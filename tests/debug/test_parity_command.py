"""``oplab parity`` on the command line: what it says, what it writes, and its exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

from oplab import OplabError
from tests.support import ROOT, foo
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
    np.savez(folder / "names.npz", a=x["a"], c=x["b"])
    np.savez(folder / "objects.npz", a=np.array([{}], object), b=x["b"])
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


class Wrong(MyAdd):
    pass


class Stock(OpRun):
    pass


def cases(rng):
    return [{name: rng.random((rows, 4), np.float32) for name in "ab"} for rows in (1, 3)]


def one():
    return {name: np.ones((2, 4), np.float32) for name in "ab"}


def raises(rng):
    raise ValueError("no data")


def text():
    return "text"


Wrong.__name__ = "MyAdd"
Wrong._run = lambda self, a, b, alpha=3.0, beta=2.0: (a,)
"""


class TestCommand:
    def call(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "oplab.cli", "parity", *words]
        env = {**os.environ, "OPLAB_ROOT": str(ROOT)}
        return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=folder, env=env)

    def test_agreement(self, folder: Path):
        done = self.call(folder, "m.onnx", "--inputs", "x.npz", "--module", "mod.py:Module")
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "exported, reference, ort and host agree with eager."

    def test_disagreement_and_json(self, folder: Path):
        done = self.call(folder, "m.onnx", "--inputs", "x.npz", "--module", "mod.py:wrong", "--json", "-")
        assert done.returncode == 1
        assert json.loads(done.stdout)["passed"] is False
        assert "do not agree with eager" in done.stderr

    def test_random_inputs_are_said(self, folder: Path):
        done = self.call(folder, "m.onnx", "--dims", "n=2", "--seed", "7", "--json", "rows.json", "--times")
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[0] == "Inputs: random, --seed 7: a float32[2, 4], b float32[2, 4]"
        assert (
            "eager                               " in done.stdout and "not available: no PyTorch module" in done.stdout
        )
        assert json.loads((folder / "rows.json").read_text())["base"] == "reference"

    def test_tolerances(self, folder: Path):
        words = ["m.onnx", "--inputs", "x.npz", "--module", "mod.py:wrong"]
        assert self.call(folder, *words, "--atol", "100").returncode == 0

    def test_everything_from_the_author_s_file(self, folder: Path):
        """The file is executed once, whatever is taken from it: an operator can be registered only once."""
        words = ["--module", "op.py:Head", "--reference", "op.py:MyAdd", "--inputs", "op.py:cases", "--seed", "3"]
        done = self.call(folder, "m.onnx", *words)
        assert done.returncode == 0, done.stderr + done.stdout
        lines = done.stdout.splitlines()
        assert lines[0] == "Inputs: op.py:cases, --seed 3, case 0: a float32[1, 4], b float32[1, 4]"
        assert lines[1].startswith("Inputs: op.py:cases, --seed 3, case 1: a float32[3, 4]")
        assert lines[-1] == "exported, reference, ort and host agree with eager."

    def test_a_reference_that_is_wrong(self, folder: Path):
        done = self.call(folder, "m.onnx", "-i", "op.py:one", "--reference", "op.py:Wrong")
        assert done.returncode == 1
        assert done.stdout.splitlines()[-1] == "ort and host do not agree with reference."

    def test_onnx_runtime_alone_is_no_pass(self, folder: Path):
        done = self.call(folder, "m.onnx", "-i", "x.npz", "--backends", "ort,host")
        assert done.returncode == 1 and "which proves nothing: both are ONNX Runtime" in done.stdout

    def test_a_call_that_is_wrong(self, folder: Path, capsys: pytest.CaptureFixture[str]):
        """In one process: what is asked is the sentence, and not the start of Python twenty times."""
        from oplab.cli.models import parity as command

        def call(
            model="m.onnx",
            inputs="x.npz",
            dims=(),
            backends="ort,host",
            module="",
            reference=None,
            rtol=None,
            json_file=None,
        ):
            path = None if inputs is None else folder / inputs
            references = reference and [f"{folder}/{reference}"]
            command(folder / model, path, list(dims), 0, backends, module, references, rtol=rtol, json_file=json_file)

        for change, sentence in (
            ({"model": "gone.onnx"}, "There is no model"),
            ({"model": "x.npz"}, "is not an ONNX model"),
            ({"inputs": "gone.npz"}, "There is no file"),
            ({"inputs": "x.npy"}, "holds one array without a name"),
            ({"inputs": "text.npz"}, "cannot be read as .npz"),
            ({"inputs": "objects.npz"}, "cannot be read as .npz"),
            ({"inputs": "wrong.npz"}, "The input a is float64"),
            ({"inputs": "names.npz"}, "There is no input 'c'"),
            ({"inputs": None}, "n is not known"),
            ({"inputs": None, "dims": ["m=3"]}, "The model has no dimension m"),
            ({"inputs": None, "dims": ["n=x"]}, "--dims takes a name and a size"),
            ({"inputs": None, "model": "foo.onnx"}, "its shape is not stated"),
            ({"dims": ["n=3"]}, "--dims is for random inputs"),
            ({"backends": "ort,cuda"}, "There is no backend cuda"),
            ({"backends": "eager,ort"}, "does not say which PyTorch module"),
            ({"module": "mod.py"}, "--module takes FILE.py:NAME"),
            ({"module": f"{folder}/gone.py:f"}, "There is no file"),
            ({"module": f"{folder}/broken.py:f"}, "cannot be loaded: ModuleNotFoundError"),
            ({"module": f"{folder}/mod.py:f"}, "f is not there in"),
            ({"module": f"{folder}/mod.py:number"}, "number is a int in"),
            ({"module": f"{folder}/mod.py:Needs"}, "Needs cannot be made without arguments"),
            ({"reference": "op.py"}, "--reference takes FILE.py:NAME"),
            ({"reference": "op.py:Gone"}, "Gone is not there in"),
            ({"reference": "op.py:Head"}, "Head is a class in"),
            ({"reference": "op.py:Stock"}, "Stock in"),
            ({"inputs": "op.py:gone"}, "op.py:gone is not there"),
            ({"inputs": "op.py:"}, "--inputs takes FILE.py:NAME"),
            ({"inputs": "op.py:raises"}, "op.py:raises raised ValueError: no data"),
            ({"inputs": "op.py:text"}, "op.py:text returns a str, not inputs"),
            ({"rtol": float("nan")}, "A tolerance is a number"),
            ({"json_file": folder / "no" / "f.json"}, "cannot be written"),
        ):
            with pytest.raises(OplabError) as caught:
                call(**change)
            assert sentence in str(caught.value), change
        done = self.call(folder, "gone.onnx")
        assert done.returncode == 2 and done.stderr.startswith("oplab: There is no model") and done.stdout == ""
