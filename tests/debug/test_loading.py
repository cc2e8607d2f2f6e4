"""A model in each of its forms, and sentences for what is not one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import TensorProto, helper, numpy_helper

from oplab.errors import OplabError
from oplab.onnxtools import loading, names


@pytest.fixture
def model() -> onnx.ModelProto:
    weight = numpy_helper.from_array(np.ones((4, 4), np.float32), "w")
    side = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy"}
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    return helper.make_model(helper.make_graph([node], "g", [side["x"]], [side["y"]], [weight]), ir_version=10)


@pytest.fixture
def external(tmp_path: Path, model: onnx.ModelProto) -> Path:
    """The same model with its weights in another file."""
    path = tmp_path / "external.onnx"
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    onnx.save(copy, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def test_each_form_gives_the_same_model(tmp_path: Path, model: onnx.ModelProto) -> None:
    path, data = tmp_path / "m.onnx", model.SerializeToString()
    path.write_bytes(data)
    for form in (path, str(path), data, bytearray(data), memoryview(data), model):
        assert loading.load(form) == model
        assert loading.source(form) == (str(path) if form in (path, str(path)) else data)
    program = onnx_ir.from_proto(model)
    assert loading.load(program).graph.node == model.graph.node
    assert loading.parse(loading.source(program)).graph.initializer == model.graph.initializer
    assert loading.load(model) is model


def test_weights_in_another_file(external: Path, model: onnx.ModelProto) -> None:
    assert loading.load(external).graph.initializer[0].raw_data == model.graph.initializer[0].raw_data
    light = loading.load(external, weights=False)
    assert light.graph.initializer[0].data_location == TensorProto.EXTERNAL
    for form in (light, light.SerializeToString()):
        assert loading.load(form, weights=False) == light
        with pytest.raises(OplabError, match="the first one keeps its weights in a file next to the model") as caught:
            loading.load(form, "the first one")
        assert "path of the .onnx file" in caught.value.fix
    with pytest.raises(OplabError, match="This ModelProto keeps its weights in a file"):
        loading.source(light)
    (external.parent / "weights.bin").unlink()
    with pytest.raises(OplabError, match=r"external.onnx keeps weights in 'weights.bin', which cannot be read"):
        loading.load(external)
    assert loading.load(external, weights=False) == light and loading.source(external) == str(external)


def test_what_is_not_a_model_is_a_sentence(tmp_path: Path, model: onnx.ModelProto) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"\xff" * 40)
    for bad, words in (
        (tmp_path / "gone.onnx", "There is no model .*gone.onnx.\nCorrect the path"),
        (tmp_path, "There is no model"),
        (3, "^A model is a path, bytes, .*, not int.\nExport a torch module first"),
        (model.graph, "not GraphProto"),
    ):
        for read in (loading.load, loading.source):
            with pytest.raises(OplabError, match=words):
                read(bad)
    with pytest.raises(OplabError, match=r"broken.onnx is not an ONNX model \(40 bytes\)"):
        loading.load(broken, weights=False)
    with pytest.raises(OplabError, match=r"^the good one is not an ONNX model \(2 bytes\)"):
        loading.load(b"\xff\xff", "the good one")
    with pytest.raises(OplabError, match="^the good one: a model is a path, .* not NoneType"):
        loading.load(None, "the good one")


def test_types_are_written_with_their_domain() -> None:
    for domain, text in (("", "Relu"), ("ai.onnx", "Relu"), ("oplab", "oplab::Relu")):
        assert names.node_type(helper.make_node("Relu", ["x"], ["y"], domain=domain)) == text
        assert names.normal_domain(domain) == domain.removeprefix("ai.onnx")
