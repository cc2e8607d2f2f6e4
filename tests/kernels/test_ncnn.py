"""ncnn as a backend of parity: pnnx converts a model's pieces, and the course's operators are layers."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper

from oplab.parity import ncnn, parity
from tests.support import ROOT, environment
from tests.support.engines import OPERATORS, F, knn, numbers, only, resized
from tests.support.models import model_of

MISSING = [name for name in ("ncnn", "pnnx") if importlib.util.find_spec(name) is None]

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(bool(MISSING), reason="ncnn is not installed; `make deps-engines` does it"),
    pytest.mark.usefixtures("compiled"),
]
BOTH = ("ort", "ncnn")


def stock(op: str, shape: list, kind: str = "f4", gives: str = "f4", **attributes) -> onnx.ModelProto:
    node = helper.make_node(op, ["x"], ["y"], **attributes)
    return model_of([node], {"x": kind}, {"y": gives}, {"x": shape}, domains=())


def row_of(model: onnx.ModelProto, feed: dict[str, np.ndarray]):
    return next(row for row in parity(model, feed, BOTH).rows if row.backend == "ncnn")


class Net(torch.nn.Module):
    """A network of PyTorch's own operators."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x):
        y = torch.nn.functional.max_pool2d(torch.relu(self.conv(x)), 2)
        return self.linear(y.mean((2, 3)))


CASES = OPERATORS | {
    "six dimensions": only("MyAdd", {"a": numbers(1, 2, 1, 3, 2, 2), "b": numbers(1, 2, 1, 3, 2, 2)}),
    "padding": knn(20, offset=np.array([10, 50])),
}


@pytest.mark.parametrize("title", CASES)
def test_the_operators_agree_with_onnx_runtime(title):
    report = parity(*CASES[title], BOTH)
    report.expect(*BOTH)
    if title in ("scalars", "nan"):
        assert report.rows[-1].verdict == "equal", report


@pytest.mark.parametrize("batch", [1, 2])
def test_a_network_of_stock_operators(batch):
    """The largest error is 1e-4 where pnnx stores the weights in float16."""
    net, x = Net().eval(), torch.from_numpy(numbers(batch, 3, 8, 6))
    program = torch.onnx.export(net, (x,), dynamo=True, verbose=False)
    report = parity(program, {"x": x}, ("eager", "ncnn"), module=net)
    report.expect("eager", "ncnn")
    assert report.rows[-1].max_abs < 1e-6


def test_one_table_over_all_engines(tmp_path):
    """The program and the commands of docs/parity.md."""
    page = (ROOT / "docs" / "parity.md").read_text(encoding="utf-8")
    (tmp_path / "upscale.py").write_text(re.search(r"in `upscale.py`:\n```python\n(.*?)```", page, re.DOTALL)[1])
    make, compare = re.search(r"```\n(python upscale.py)\noplab (parity .*?)\n```", page).groups()
    engines = "reference,eager,ort,host,openvino,ncnn"
    assert compare.endswith(engines)
    if not importlib.util.find_spec("openvino"):
        compare = compare.replace("openvino,", "")
    for command in (make.split()[1:], ["-m", "oplab.cli", *compare.split()]):
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path,
            env=environment(OPLAB_ROOT=str(ROOT)),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert "and ncnn agree with reference" in done.stdout


def test_other_sizes_in_one_report():
    """pnnx fixes all sizes; the model is converted for each."""
    nodes = [
        helper.make_node("Shape", ["x"], ["size"], start=1),
        helper.make_node("ConstantOfShape", ["size"], ["ones"], value=numpy_helper.from_array(np.ones(1, F))),
        helper.make_node("Sub", ["x", "ones"], ["y"]),
    ]
    model = model_of(nodes, {"x": "f4"}, {"y": "f4"}, {"x": ["n", "m"], "y": ["n", "m"]}, domains=())
    cases = [{"x": numbers(*shape)} for shape in ((1, 3), (2, 3), (5, 4), (1, 3))]
    report = parity(model, cases, BOTH)
    report.expect(*BOTH)
    assert [row.shape for row in report.rows if row.backend == "ncnn"] == [(1, 3), (2, 3), (5, 4), (1, 3)]


def test_asymmetric_is_found():
    """pnnx converts the mode asymmetric as if it were half_pixel, and says nothing."""

    def verdict(mode: str) -> str:
        node = helper.make_node(
            "Resize", ["x", "", "scales"], ["y"], mode="linear", coordinate_transformation_mode=mode
        )
        model = model_of([node], {"x": "f4"}, {"y": "f4"}, {"x": [1, 1, 4, 4]}, domains=())
        model.graph.initializer.append(numpy_helper.from_array(np.array([1, 1, 2, 2], F), "scales"))
        return row_of(model, {"x": numbers(1, 1, 4, 4)}).verdict

    assert (verdict("half_pixel"), verdict("asymmetric")) == ("close", "differs")


class TestWhatNcnnCannotDo:
    def unavailable(self, model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> str:
        row = row_of(model, feed)
        assert row.verdict == "not available", row.reason
        return row.reason

    def test_operators_of_the_course(self):
        model, feed = only("Foo", {"input1": numbers(2), "input2": numbers(2)}, attr1=1.0, attr2=2)
        assert self.unavailable(model, feed) == "ncnn has no oplab.Foo"

    def test_a_layer_that_ncnn_lacks(self):
        said = self.unavailable(stock("Det", [1, 3, 4, 4]), {"x": numbers(1, 3, 4, 4)})
        assert said == "ncnn has no layer for Det (layer Det not exists or registered)"

    def test_a_node_that_ends_pnnx(self):
        said = self.unavailable(stock("Nonsense", [1, 3]), {"x": numbers(1, 3)})
        assert said.startswith("pnnx does not convert Nonsense: it says ")
        assert "No Op registered for Nonsense" in said

    def test_dtypes(self):
        double = np.random.default_rng(0).standard_normal((1, 3))
        for (model, feed), words in (
            ((stock("Abs", [1, 3], "f8", "f8"), {"x": double}), "it takes no float64 (x)"),
            ((stock("Abs", [1, 3], "i8", "i8"), {"x": np.array([[1, -2, 3]])}), "it takes no int64 (x)"),
            (only("MyAdd", {"a": double, "b": double}), "it takes no float64 (a)"),
            ((stock("ArgMax", [1, 3], gives="i8"), {"x": numbers(1, 3)}), "it gives no int64 (y)"),
            ((stock("IsNaN", [1, 3], gives="?"), {"x": numbers(1, 3)}), "it gives no bool (y)"),
        ):
            assert self.unavailable(model, feed) == f"ncnn computes in float32: {words}"
        model, feed = knn(offset=np.array([20, 2**40]))
        assert self.unavailable(model, feed) == "ncnn has no int64, and offset does not fit in int32"

    def test_empty_tensors(self):
        for (model, feed), words in (
            (only("MyAdd", {"a": np.zeros((0, 3), F), "b": np.zeros((0, 3), F)}), "a is float32[0, 3]"),
            ((stock("Relu", [1, 0]), {"x": np.zeros((1, 0), F)}), "x is float32[1, 0]"),
            (knn(new_xyz=np.zeros((0, 3), F), new_offset=np.array([0, 0])), "new_xyz is float32[0, 3]"),
        ):
            assert self.unavailable(model, feed) == f"ncnn has no empty tensors ({words})"

    def test_numbers_of_dimensions(self):
        for shape, count in (((1, 2, 3, 4, 5), 5), ((), 0)):
            said = self.unavailable(stock("Abs", list(shape)), {"x": numbers(*shape)})
            assert said == f"ncnn has tensors of 1 to 4 dimensions besides the batch, and x has {count}"

    @pytest.mark.parametrize(("absent", "said"), [(["ncnn"], "ncnn is"), (["ncnn", "pnnx"], "ncnn and pnnx are")])
    def test_not_installed(self, monkeypatch, absent, said):
        for name in absent:
            monkeypatch.setitem(sys.modules, name, None)
        model, feed = only("MyAdd", {"a": numbers(2), "b": numbers(2)})
        assert self.unavailable(model, feed) == f"{said} not installed; `make deps-engines` does it"


class TestErrors:
    def failed(self, model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> str:
        row = row_of(model, feed)
        assert row.verdict == "failed", row.reason
        return row.reason

    def test_the_operators_sentence_is_shown(self):
        x = numbers(50, 3)
        x[3, 0] = np.nan
        for (model, feed), words in (
            (knn(xyz=x), "KNNQuery: xyz must be finite, but coordinate 0 of point 3 is nan"),
            (
                knn(offset=np.array([20, 51])),
                "KNNQuery: offset must not exceed the 50 points of xyz, but offset[1] is 51",
            ),
            (knn(31), "KNNQuery: nsample must not be larger than the largest batch, which has 30 points"),
            (knn(0), "KNNQuery: nsample must be at least 1, but it is 0"),
            (resized([1, 1, -2, 1], 1, 1, 4, 4), "DynamicResize: scales must be positive, but scales[2] is -2"),
            (
                resized([1, 2, 1, 1], 1, 1, 4, 4),
                "DynamicResize: scales must leave N and C as they are, but scales[1] is 2",
            ),
            (
                only("MyAdd", {"a": numbers(2, 3), "b": numbers(3, 2)}),
                "MyAdd: a and b must have the same shape, but a is [2,3] and b is [3,2]",
            ),
        ):
            assert self.failed(model, feed) == words
        model, feed = only("MyAdd", {"a": numbers(2), "b": numbers(2)}, alfa=1.0)
        assert "MyAdd has no attribute alfa" in self.failed(model, feed)

    @pytest.mark.parametrize(
        ("mistake", "said"),
        [
            ("ctypes.string_at(0)", "ncnn's process ended with SIGSEGV (KNNQuery)"),
            ("os._exit(3)", "ncnn's process ended with the status 3 (KNNQuery)"),
        ],
    )
    def test_a_crash_is_a_sentence(self, monkeypatch, mistake, said):
        """A layer whose memory access is wrong ends the process in which ncnn runs, and not this one."""
        code = (
            "import ctypes, os, pathlib, sys; from oplab.parity import ncnn_child, ncnn_layers;"
            f"ncnn_layers.LAYERS['KNNQuery'] = lambda *a, **k: {mistake}; ncnn_child.main(pathlib.Path(sys.argv[1]))"
        )
        monkeypatch.setattr(ncnn, "CHILD", ("-c", code))
        assert self.failed(*knn()) == said


def written(folder: Path) -> Path:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("MyAdd", ["h", "h"], ["y"], domain="oplab"),
    ]
    model = model_of(nodes, {"x": "f4"}, {"y": "f4"}, {"x": ["n", 3], "y": ["n", 3]})
    model.graph.initializer.append(numpy_helper.from_array(numbers(3, 3), "w"))
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def test_the_command(tmp_path):
    """A file ncnn.py in the current folder is not taken for the package."""
    written(tmp_path)
    (tmp_path / "ncnn.py").write_text("raise SystemExit(5)", encoding="utf-8")
    words = ["parity", "model.onnx", "--dims", "n=4", "--backends", "reference,ort,ncnn"]
    done = subprocess.run(
        [str(Path(sys.executable).parent / "oplab"), *words],
        cwd=tmp_path,
        env=environment(OPLAB_ROOT=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ort and ncnn agree with reference" in done.stdout


@pytest.mark.skipif(
    not Path("/proc/self/cmdline").exists(), reason="looks for processes in /proc, which only Linux has"
)
def test_ctrl_c_leaves_no_process(tmp_path):
    """The signal goes to the command alone, which ends ncnn's process and what that has started, and removes its folder."""
    waits = "import pathlib, subprocess, sys; subprocess.run(['sh', '-c', 'touch at; sleep 600'], cwd=sys.argv[1])"
    code = f"from oplab.parity import ncnn; ncnn.CHILD = ('-c', {waits!r}); from oplab.cli.main import main; main()"
    words = ["parity", str(written(tmp_path)), "--dims", "n=4", "--backends", "ort,ncnn"]
    env = environment(OPLAB_ROOT=str(ROOT), TMPDIR=str(tmp_path))
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", code, *words]
    with subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        until = time.monotonic() + 120
        while not list(tmp_path.glob("oplab-ncnn-*/*/at")):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < until
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGINT)
        out, said = process.communicate(timeout=60)
    assert process.returncode == 130, out + said
    assert "Traceback" not in said
    left = []
    for one in Path("/proc").glob("[0-9]*"):
        try:
            if str(tmp_path).encode() in (one / "cmdline").read_bytes() + os.readlink(one / "cwd").encode():
                left.append(one.name)
        except OSError:
            continue
    assert not left
    assert not list(tmp_path.glob("oplab-ncnn-*"))
