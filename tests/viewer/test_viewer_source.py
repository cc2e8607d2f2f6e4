"""What can be shown, what it is told when it cannot, and what happens to the weights."""

from __future__ import annotations

import functools
import io
import subprocess
import sys
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from oplab.errors import OplabError
from oplab.onnxtools import loading
from oplab.onnxtools.npz import read_npz
from oplab.viewer import show, wire
from oplab.viewer.source import load
from tests.support import environment
from tests.support import viewer_models as m


def said(view) -> str:
    """The picture's text, lines joined."""
    root = ET.fromstring(view.svg)
    return " ".join("".join(e.itertext()) for e in root.iter() if e.tag.endswith("}text"))


def big_matmul() -> onnx.ModelProto:
    w = numpy_helper.from_array(np.arange(64 * 2000, dtype=np.float32).reshape(64, 2000), "w")
    small = numpy_helper.from_array(np.array([1, 2], np.int64), "axes")
    v = helper.make_tensor("v", TensorProto.FLOAT, [2000], np.linspace(0, 1, 2000).tolist())  # float_data, not raw_data
    nodes = [helper.make_node("MatMul", ["x", "w"], ["t"]), helper.make_node("Add", ["t", "v"], ["y"])]
    return m.model(nodes, [m.info("x", [1, 64])], [m.info("y", [1, 2000])], (w, small, v))


def rebuilt(source) -> onnx.ModelProto:
    """The model that Netron sees, with its weights read from the file that they were written to."""
    out = io.BytesIO()
    source.write_weights(out)
    proto = onnx.ModelProto.FromString(source.payload)
    for tensor in proto.graph.initializer:
        entries = {e.key: e.value for e in tensor.external_data}
        if entries:
            assert entries["location"] == "weights"
            start, length = int(entries["offset"]), int(entries["length"])
            tensor.raw_data = out.getvalue()[start : start + length]
            del tensor.external_data[:]
            tensor.data_location = TensorProto.DEFAULT
    return proto


def arrays(proto: onnx.ModelProto) -> dict[str, np.ndarray]:
    return {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}


def test_every_form_gives_the_same_graph_and_all_weights(tmp_path: Path) -> None:
    proto, expected = big_matmul(), arrays(big_matmul())
    path, external = tmp_path / "model.onnx", tmp_path / "external.onnx"
    onnx.save(proto, path)
    onnx.save(big_matmul(), external, save_as_external_data=True, location="model.data", size_threshold=0)
    for given in (proto, proto.SerializeToString(), path, str(external), onnx_ir.from_proto(big_matmul())):
        source = load(given)
        assert len(source.payload) < 9500, "the payload holds the weights"
        assert source.model.problems == []
        assert [n.title for n in source.model.graph.nodes] == ["MatMul", "Add"]
        assert source.model.graph.nodes[0].params[0].text() == "B float32[64,2000]"
        found = arrays(rebuilt(source))
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)
    assert proto == big_matmul(), "the caller's model was changed"


def test_slim_copies_what_it_does_not_know() -> None:
    proto = m.control_flow()
    proto.graph.node[0].attribute.add(name="note", type=onnx.AttributeProto.STRING, s=b"z" * 10000)
    data = proto.SerializeToString()
    slim, ranges = wire.slim(data)
    assert ranges == [] and onnx.ModelProto.FromString(slim) == proto


def test_slim_reaches_weights_in_bodies_and_functions() -> None:
    constant = helper.make_node("Constant", [], ["k"], value=numpy_helper.from_array(np.ones(5000, np.float32), "k"))
    body = helper.make_graph([constant, helper.make_node("Add", ["x", "k"], ["z"])], "b", [], [m.info("z", None)])
    node = helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)
    proto = m.model([node], [m.info("x", [5000]), m.info("c", [], TensorProto.BOOL)], [m.info("y", None)])
    proto.functions.append(helper.make_function("f", "F", [], ["k"], [constant], [helper.make_opsetid("", 20)]))
    slim, ranges = wire.slim(proto.SerializeToString())
    assert len(ranges) == 3 and len(slim) < 2000
    assert [r.offset for r in ranges] == [0, 20000, 40000]
    onnx.ModelProto.FromString(slim)


def test_every_truncation_is_told_as_one(tmp_path: Path) -> None:
    data = big_matmul().SerializeToString()
    path = tmp_path / "cut.onnx"
    for size in (1, 10, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises(OplabError, match="cut off|no graph inside"):
            show(path)


def test_what_is_no_model_gets_a_sentence() -> None:
    for given, words in (
        (b"", "empty"),
        (b"PK\x03\x04" + b"x" * 100, "zip archive"),
        (b"<!DOCTYPE html><html></html>", "not an ONNX model"),
        (bytes(100), "not an ONNX model"),
        (onnx.ModelProto(ir_version=10).SerializeToString(), "no graph inside"),
        (None, "None"),
        ({}, "dict"),
    ):
        with pytest.raises(OplabError, match=words) as error:
            show(given)
        assert error.value.fix


def test_random_bytes_never_end_in_a_traceback(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = bytearray(big_matmul().SerializeToString())
    for _ in range(300):
        broken = bytearray(data)
        for _ in range(rng.integers(1, 6)):
            broken[rng.integers(0, 400)] = rng.integers(0, 256)
        try:
            show(bytes(broken))
        except OplabError:
            pass


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    onnx.save(m.conv(), tmp_path / "real.onnx")
    with pytest.raises(OplabError, match="no file") as error:
        show(tmp_path / "reel.onnx")
    assert "real.onnx" in error.value.fix
    with pytest.raises(OplabError, match="is a folder"):
        show(tmp_path)
    (tmp_path / "empty.onnx").touch()
    with pytest.raises(OplabError, match="empty.onnx is empty"):
        show(tmp_path / "empty.onnx")


def test_missing_external_data_is_said_above_the_picture(tmp_path: Path) -> None:
    onnx.save(big_matmul(), tmp_path / "a.onnx", save_as_external_data=True, location="a.data", size_threshold=0)
    (tmp_path / "a.data").unlink()
    view = show(tmp_path / "a.onnx")
    assert "a.data next to the model is missing: 2 tensors" in said(view) and "B float32[64,2000]" in view.text


@pytest.mark.parametrize("location", ["../secret", "/etc/hostname", "link"])
def test_a_model_cannot_name_files_outside_its_folder(location: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"s" * 512000)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "secret")
    proto = big_matmul()
    tensor = proto.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", "0"), ("length", "512000")):
        tensor.external_data.add(key=key, value=value)
    (tmp_path / "in" / "a.onnx").write_bytes(proto.SerializeToString())
    source = load(tmp_path / "in" / "a.onnx")
    out = io.BytesIO()
    source.write_weights(out)
    assert b"sss" not in out.getvalue()
    assert "next to the model is missing" in source.model.problems[0]


@pytest.mark.parametrize(
    ("offset", "length"), [("x", "4"), ("-4", "4"), (str(2**70), "4"), ("0", str(2**70)), ("0", "-4"), ("4", "12")]
)
def test_external_data_that_lies_is_said_above_the_picture(offset: str, length: str, tmp_path: Path) -> None:
    (tmp_path / "w.data").write_bytes(bytes(12))
    weight = TensorProto(name="w", data_type=1, data_location=TensorProto.EXTERNAL, dims=[3])
    for key, value in (("location", "w.data"), ("offset", offset), ("length", length)):
        weight.external_data.add(key=key, value=value)
    onnx.save(
        m.model([helper.make_node("Add", ["x", "w"], ["y"])], [m.info("x", [3])], [m.info("y", [3])], (weight,)),
        tmp_path / "a.onnx",
    )
    source = load(tmp_path / "a.onnx")
    assert source.weights == [] and "w.data has no such place: 1 tensor with" in source.model.problems[0]


def test_bytes_that_are_no_text_are_a_sentence_wherever_a_name_is(tmp_path: Path) -> None:
    weight = TensorProto(name="w", data_type=1, data_location=TensorProto.EXTERNAL, dims=[3])
    weight.external_data.add(key="location", value="NAME.data")
    proto = m.model([helper.make_node("Add", ["x", "w"], ["y"])], [m.info("x", [3])], [m.info("y", [3])], (weight,))
    proto.functions.append(
        helper.make_function(
            "my", "F", ["a"], ["NAME"], [helper.make_node("Relu", ["a"], ["NAME"])], [helper.make_opsetid("", 20)]
        )
    )
    data = proto.SerializeToString()
    pieces = data.split(b"NAME")
    for k in range(1, len(pieces)):
        broken = b"NAME".join(pieces[:k]) + b"\xff\xfe\x80\x81" + b"NAME".join(pieces[k:])
        (tmp_path / "a.onnx").write_bytes(broken)
        for read in (show, functools.partial(loading.load, weights=False)):
            with pytest.raises(OplabError, match="a name inside is not text"):
                read(tmp_path / "a.onnx")
    (tmp_path / "a.onnx").write_bytes(data.replace(b"NAME", b"N\x00\x00E"))
    assert "N\ufffd\ufffdE.data next to the model is missing" in show(tmp_path / "a.onnx").text


def test_an_npz_that_claims_terabytes_is_a_sentence(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (10**12,)})
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", header.getvalue())
    with pytest.raises(OplabError, match="cannot be read as .npz: Unable to allocate 3.64 TiB"):
        read_npz(tmp_path / "x.npz")


def test_invalid_onnx_is_shown_with_the_checkers_sentence() -> None:
    proto = m.model([helper.make_node("ASinh", ["x"], ["y"])], [m.info("x", [1])], [m.info("y", [1])])
    view = show(proto)
    assert "onnx.checker rejects this model: No Op registered for ASinh" in said(view)
    assert "ASinh" in view.text
    assert show(m.conv()).svg.count("onnx.checker") == 0


def test_unsorted_and_cyclic_graphs_are_drawn_too() -> None:
    nodes = [helper.make_node("Relu", ["b"], ["y"]), helper.make_node("Neg", ["x"], ["b"])]
    view = show(m.model(nodes, [m.info("x", [1])], [m.info("y", [1])]))
    assert "Relu" in view.svg and "Neg" in view.svg and "onnx.checker rejects" in said(view)
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Neg", ["a"], ["b"])]
    view = show(m.model(nodes, [m.info("x", [1])], [m.info("b", [1])]))
    assert "Add" in view.svg and "Neg" in view.svg


@pytest.mark.nightly
def test_modules_sessions_and_scripted_code() -> None:
    import torch

    with pytest.raises(OplabError, match="no graph yet"):
        show(torch.nn.ReLU())
    program = torch.onnx.export(torch.nn.ReLU(), (torch.ones(2),), dynamo=True, verbose=False)
    assert "Relu" in show(program).text
    traced = torch.jit.trace(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ELU()), torch.ones(1, 3))
    source = load(traced)
    assert [n.title for n in source.model.graph.nodes] == ["aten::linear", "aten::elu"]
    assert source.model.graph.nodes[0].params[0].text() == "weight float32[2,3]"
    assert b'"netron:pytorch"' in source.payload

    @torch.jit.script
    def loop(x, n: int):
        for i in range(n):
            if i > 2:
                x = x * 2
        return x

    text = show(loop).text
    assert "prim::Loop" in text and "prim::If" in text and "aten::mul" in text


@pytest.mark.nightly
def test_memory_of_a_100_mb_model_is_not_doubled(tmp_path: Path) -> None:
    """In a process of its own, because memory that was once used is not given back."""
    code = """
import sys, resource
import numpy as np, onnx
from tests.support import viewer_models as m
from onnx import helper, numpy_helper
from oplab.viewer import show
from oplab.viewer.store import Store
from oplab.viewer import view
show(m.conv())
if sys.argv[1] == "make":
    ws = [numpy_helper.from_array(np.full((2500, 1000), k, np.float32), f"w{k}") for k in range(10)]
    nodes = [helper.make_node("Gemm", [f"t{k}" if k else "x", f"w{k}"], [f"t{k + 1}"]) for k in range(10)]
    onnx.save(m.model(nodes, [m.info("x", [1, 2500])], [m.info("t10", None)], tuple(ws)), sys.argv[2])
else:
    def peak():
        return int([l for l in open("/proc/self/status") if l.startswith("VmHWM")][0].split()[1]) / 1024
    before = peak()
    given = onnx.load(sys.argv[2]) if sys.argv[1] == "proto" else sys.argv[2]
    if sys.argv[1] == "proto":
        before = peak()
    view.kernel_store = lambda: Store(sys.argv[3])
    v = show(given)
    print(peak() - before, len(v.html))
"""
    if sys.platform != "linux":
        pytest.skip("peak memory is read from /proc")
    model = tmp_path / "big.onnx"
    subprocess.run([sys.executable, "-c", code, "make", str(model)], check=True, env=environment())
    assert model.stat().st_size > 100e6
    for how in ("path", "proto"):
        command = [sys.executable, "-c", code, how, str(model), str(tmp_path)]
        grown, size = subprocess.run(
            command, check=True, capture_output=True, text=True, env=environment()
        ).stdout.split()
        assert float(grown) < 60, f"{how}: memory grew by {grown} MB"
        assert int(size) < 300_000
    weights = [f for f in (tmp_path / "oplab-viewer").iterdir() if f.suffix == ".weights"]
    assert weights and weights[0].stat().st_size == 100_000_000
