"""The point-cloud classifier with its committed weights, the script that trains it, and the report that a learner keeps."""

from __future__ import annotations

import importlib.util
from importlib.resources import files
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

from oplab import capstone, ops
from oplab.capstone import answers
from oplab.capstone.figures import figure
from oplab.nets import edge_net
from oplab.nets.point_clouds import clouds
from tests.support import ROOT
from tests.support.cpp import library

WEIGHTS = files("oplab").joinpath("nets", "edge_net.npz")


@pytest.fixture(scope="module")
def trainer():
    spec = importlib.util.spec_from_file_location("train_edge_net", ROOT / "tools" / "train_edge_net.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    ops.load()
    return module


# --- the clouds and the network


@pytest.mark.nightly
def test_weights_are_small_and_reach_the_stated_accuracy(trainer):
    assert Path(str(WEIGHTS)).stat().st_size < 300_000
    found = trainer.confusion(edge_net.load_edge_net(), 640, trainer.HELD_OUT)
    assert np.trace(found) / found.sum() > 0.95
    assert (np.diag(found) / found.sum(axis=1) > 0.8).all()  # no solid is given up


def test_a_cloud_does_not_see_the_others():
    ops.load()
    net = edge_net.load_edge_net()
    xyz, offset, _ = (torch.from_numpy(part) for part in clouds([90, 13, 70], np.random.default_rng(5)))
    together = net(xyz, offset)
    alone = [net(part, torch.tensor([len(part)])) for part in torch.tensor_split(xyz, offset[:-1])]
    torch.testing.assert_close(together, torch.cat(alone), rtol=1e-4, atol=1e-4)


# --- the report


def project(folder: Path, alpha: float = 3.0) -> capstone.Project:
    """The smallest project that there is: MyAdd, on the course's kernel."""
    node = helper.make_node("MyAdd", ["a", "b"], ["y"], domain="oplab", alpha=alpha)
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n"]) for name in "aby"]
    graph = helper.make_graph([node], "add", values[:2], values[2:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("oplab", 1)]
    for exporter in capstone.EXPORTERS:
        onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), folder / f"{exporter}.onnx")
    case = {"a": np.ones(3, np.float32), "b": np.arange(3, dtype=np.float32)}

    def picture(run):
        drawn, (axes,) = figure(1, 1, (2, 2))
        axes.plot(run("dynamo", case))
        return drawn

    return capstone.Project("add", lambda a, b: 3 * a + 2 * b, folder, None, "oplab::MyAdd", {"three": case}, picture)


def test_a_report_says_what_agrees_and_replaces_no_other(tmp_path):
    made = project(tmp_path)
    first, second = (capstone.write([made], tmp_path / "kept") for _ in range(2))
    assert first.passed and first.path != second.path and first.path.is_file() and second.path.is_file()
    assert "ort and host agree with eager" in first.summary()
    page = first.path.read_text()
    assert "All agree" in page and page.count("data:image/png") == 2 and page.count("data:image/svg+xml") == 2
    assert "http" not in page.replace("http://www.w3.org", "")  # it asks for nothing from elsewhere
    assert (first.path.parent / "add" / "dynamo.onnx").is_file()


def test_a_wrong_model_is_reported_in_a_report_that_is_kept(tmp_path):
    kept = capstone.write([project(tmp_path, alpha=2.0)], tmp_path / "kept")
    assert not kept.passed and "ort and eager differ in y" in kept.problems[0]
    assert "Not all agree" in kept.path.read_text() and kept.problems[0] in kept.summary()


def test_what_is_not_written_yet_is_named(tmp_path, monkeypatch, capsys):
    from oplab.course.stubs import make_stub

    for name in ("c16_capstone.py", "csrc/c16_resize_kernel.cpp", "csrc/c16_knn_kernel.cpp"):
        file = tmp_path / "exercises" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(make_stub((ROOT / "solutions" / name).read_text(), name))
    monkeypatch.setattr(answers, "_track_folder", lambda: tmp_path / "exercises")
    assert capstone.report(tmp_path / "kept") is None
    said = capsys.readouterr().out
    for name, kernel in (("super_resolution", "resize_kernel"), ("point_cloud", "knn_kernel")):
        assert (
            f"{name}: c16.{kernel} is not written yet: csrc/c16_{kernel}.cpp. `oplab hint c16.{kernel}` helps." in said
        )
    assert "#error" not in said
    assert not (tmp_path / "kept").exists()


CRASH = """\
struct MyAdd {
  MyAdd(const OrtApi*, const OrtKernelInfo*) {}
  Ort::Status Compute(const oplab::Tensor<float>& a, const oplab::Tensor<float>&, oplab::Tensor<float>& y) {
    y.Allocate(a.Shape());
    std::abort();
  }
};
"""


@pytest.mark.nightly
def test_a_kernel_that_crashes_does_not_end_this_process(tmp_path):
    from oplab.toolchain.build import compile_library

    source = tmp_path / "crash.cpp"
    source.write_text(library(CRASH, "MyAdd", "lab"))
    made = project(tmp_path)
    for exporter in capstone.EXPORTERS:
        model = onnx.load(tmp_path / f"{exporter}.onnx")
        model.graph.node[0].domain = model.opset_import[1].domain = "lab"
        onnx.save(model, tmp_path / f"{exporter}.onnx")
    made.library = compile_library(source, "ort")
    assert answers.crash(made) == "your kernel crashes: the C++ program was ended by SIGABRT."
