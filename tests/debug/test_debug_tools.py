"""oplab.debug: tap, extract, replace, compare_layers, on models with custom operators and on what users get wrong."""

from __future__ import annotations

import io

import numpy as np
import onnx
import pytest
import torch
import torchvision
from onnx import TensorProto, helper, numpy_helper

from oplab import ops
from oplab.debug import bisect, compare_layers, drift, extract, replace, tap
from oplab.errors import OplabError
from oplab.parity import parity

FLOATS = ["n", 4]


def model_of(
    nodes, outputs=("y",), inputs=("a", "b"), constants=(), domains=(("", 20), ("oplab", 1)), **more
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, FLOATS) for name in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, FLOATS) for name in outputs],
        list(constants),
        **more,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*entry) for entry in domains], ir_version=10)


@pytest.fixture
def model() -> onnx.ModelProto:
    """y = relu(3a + 2b) - sigmoid(a), through the course's MyAdd."""
    return model_of(
        [
            helper.make_node("MyAdd", ["a", "b"], ["sum"], name="add", domain="oplab"),
            helper.make_node("Relu", ["sum"], ["cut"], name="relu"),
            helper.make_node("Sigmoid", ["a"], ["gate"], name="sigmoid"),
            helper.make_node("Sub", ["cut", "gate"], ["y"], name="sub"),
        ]
    )


@pytest.fixture
def inputs() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {name: rng.normal(size=(2, 4)).astype(np.float32) for name in "ab"}


def run(model: onnx.ModelProto, inputs) -> np.ndarray:
    return ops.session(model).run(None, inputs)[0]


# --- tap


def test_tap_sees_every_value_also_behind_a_custom_operator(model, inputs):
    values = tap(model)(inputs)
    assert list(values) == ["sum", "cut", "gate", "y"]
    np.testing.assert_allclose(values["sum"], 3 * inputs["a"] + 2 * inputs["b"], rtol=1e-6)
    np.testing.assert_array_equal(values["y"], run(model, inputs))


def test_tap_takes_names_of_values_and_of_nodes_and_inputs_in_order(model, inputs):
    before = model.SerializeToString()
    found = tap(model, ["relu", "a", "y"])([inputs["a"], torch.from_numpy(inputs["b"])])
    assert list(found) == ["cut", "a", "y"]
    np.testing.assert_array_equal(found["a"], inputs["a"])
    assert model.SerializeToString() == before


def test_tap_names_what_is_near_to_an_unknown_name(model):
    for name, words in (("sume", "no node 'sume'.\nSimilar: 'sum', 'sub'"), ("nothing at all", "The outputs are")):
        with pytest.raises(OplabError, match=words):
            tap(model, [name])


def test_a_value_in_a_loop_body_is_said_to_be_there():
    body = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["inner"], name="negate")],
        "body",
        [],
        [helper.make_tensor_value_info("inner", TensorProto.FLOAT, FLOATS)],
    )
    model = model_of(
        [
            helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
            helper.make_node("Cast", ["total"], ["flag"], to=TensorProto.BOOL),
            helper.make_node("If", ["flag"], ["y"], name="branch", then_branch=body, else_branch=body),
        ],
        inputs=["x"],
    )
    with pytest.raises(OplabError, match="is inside a body of If 'branch'"):
        tap(model, ["inner"])
    assert set(tap(model)(np.ones((1, 4), np.float32))) == {"total", "flag", "y"}
    part = extract(model, ["x"], ["y"])  # what the body takes from outside is counted
    assert [node.op_type for node in part.graph.node] == ["ReduceSum", "Cast", "If"]


def test_graphs_that_read_what_nothing_computes_are_said(model):
    with pytest.raises(OplabError, match="holds no graph"):
        tap(b"")
    model.graph.node[1].input[0] = "nobody"
    with pytest.raises(OplabError, match="Relu 'relu' reads 'nobody', and nothing computes it"):
        tap(model)
    model.graph.node[1].input[0] = "y"
    with pytest.raises(OplabError, match="reads 'y', and Sub 'sub' computes it only later"):
        tap(model)


def test_what_onnx_runtime_cannot_run_is_a_sentence(model):
    odd = {"a": np.ones((2, 4), np.float32), "b": np.ones((3, 4), np.float32)}
    with pytest.raises(OplabError, match="cannot run the model: .*must have the same shape"):
        tap(model)(odd)


# --- extract


def test_extract_computes_what_the_whole_did(model, inputs):
    values = tap(model)(inputs)
    part = extract(model, ["sum", "a"], ["y"])
    onnx.checker.check_model(part)
    assert [node.name for node in part.graph.node] == ["relu", "sigmoid", "sub"]
    np.testing.assert_array_equal(run(part, {"sum": values["sum"], "a": inputs["a"]}), values["y"])
    assert part.graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT  # known to ONNX Runtime alone


def test_extract_says_which_inputs_are_missing_and_who_needs_them(model):
    with pytest.raises(OplabError) as error:
        extract(model, ["sum"], ["y"])
    assert "'y' cannot be computed from these inputs alone: 'a' (read by Sigmoid 'sigmoid') is missing." in str(
        error.value
    )
    assert "inputs=['sum', 'a']" in str(error.value)
    with pytest.raises(OplabError, match="has no value and no node 'nine'"):
        extract(model, ["nine"], ["y"])
    with pytest.raises(OplabError, match="nothing in between"):
        extract(model, ["cut"], ["cut"])


def test_only_the_weights_that_are_needed_are_read(tmp_path):
    """The second weight has 4 GB, and its file is not even there."""
    small = np.random.default_rng(0).normal(size=(4, 2**15)).astype(np.float32)
    (tmp_path / "small.bin").write_bytes(small.tobytes())
    weights = []
    for name, dims in (("small", small.shape), ("large", (2**15, 2**15))):
        weight = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=dims, data_location=TensorProto.EXTERNAL)
        weight.external_data.add(key="location", value=f"{name}.bin")
        weights.append(weight)
    nodes = [
        helper.make_node("MatMul", ["x", "small"], ["a"]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "large"], ["y"]),
    ]
    model, x = model_of(nodes, inputs=["x"], constants=weights), np.ones((1, 4), np.float32)
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 2**15
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    expected = np.maximum(x @ small, 0)
    np.testing.assert_allclose(tap(path, ["b"])(x)["b"], expected, rtol=1e-4, atol=1e-5)
    part = extract(path, ["x"], ["b"])
    np.testing.assert_allclose(run(part, {"x": x}), expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(OplabError, match="keeps weights in 'large.bin', which cannot be read"):
        extract(path, ["b"], ["y"])
    with pytest.raises(OplabError, match="ONNX Runtime does not load"):
        tap(path)(x)


# --- replace


def test_replace_puts_a_custom_node_in_the_place_of_three(inputs):
    constants = [numpy_helper.from_array(np.array(k, np.float32), name) for k, name in ((3, "three"), (2, "two"))]
    before = model_of(
        [
            helper.make_node("Mul", ["a", "three"], ["a3"]),
            helper.make_node("Mul", ["b", "two"], ["b2"]),
            helper.make_node("Add", ["a3", "b2"], ["sum"]),
            helper.make_node("Relu", ["sum"], ["y"]),
        ],
        constants=constants,
        domains=[("", 20)],
    )
    before.graph.value_info.append(helper.make_tensor_value_info("a3", TensorProto.FLOAT, FLOATS))
    after = replace(
        before, ["a", "b"], ["sum"], helper.make_node("MyAdd", ["p", "q"], ["r"], name="mine", domain="oplab")
    )
    assert [(node.op_type, list(node.input), list(node.output)) for node in after.graph.node] == [
        ("MyAdd", ["a", "b"], ["sum"]),
        ("Relu", ["sum"], ["y"]),
    ]
    assert {entry.domain: entry.version for entry in after.opset_import} == {"": 20, "oplab": 1}
    assert not after.graph.initializer and "a3" not in {info.name for info in after.graph.value_info}
    np.testing.assert_allclose(run(after, inputs), run(before, inputs), rtol=1e-6)


def test_replace_keeps_versions_names_and_the_order(inputs):
    before = model_of(
        [
            helper.make_node("Neg", ["a"], ["m"], name="one"),
            helper.make_node("Add", ["m", "b"], ["n"], name="two"),
            helper.make_node("Relu", ["n"], ["y"], name="three"),
        ],
        domains=[("", 20)],
    )
    piece = model_of(
        [
            helper.make_node("Exp", ["p"], ["m"], name="one"),
            helper.make_node("MyAdd", ["m", "q"], ["y"], domain="oplab"),
        ],
        inputs=("p", "q"),
    )
    after = replace(before, ["a", "b"], ["n"], piece)
    onnx.checker.check_model(after)
    np.testing.assert_allclose(run(after, inputs), np.maximum(3 * np.exp(inputs["a"]) + 2 * inputs["b"], 0), rtol=1e-5)
    assert {entry.domain: entry.version for entry in after.opset_import} == {"": 20, "oplab": 1}
    names = [name for node in after.graph.node for name in node.output]
    assert len(set(names)) == len(names) == 3


def test_replace_keeps_what_others_still_read(inputs):
    before = model_of(
        [
            helper.make_node("Neg", ["a"], ["m"], name="shared"),
            helper.make_node("Add", ["m", "b"], ["n"], name="sum"),
            helper.make_node("Mul", ["n", "m"], ["y"], name="product"),
        ],
        domains=[("", 20)],
    )
    after = replace(before, ["a", "b"], ["n"], helper.make_node("Sub", ["p", "q"], ["r"]))
    assert [node.op_type for node in after.graph.node] == ["Neg", "Sub", "Mul"]
    np.testing.assert_allclose(run(after, inputs), (inputs["a"] - inputs["b"]) * -inputs["a"], rtol=1e-6)


def test_replace_refuses_what_cannot_be(inputs):
    split = model_of(
        [
            helper.make_node("Split", ["a"], ["m", "n"], num_outputs=2, axis=1),
            helper.make_node("Concat", ["m", "n"], ["y"], axis=1),
        ],
        inputs=["a"],
        domains=[("", 20)],
    )
    relu = helper.make_node("Relu", ["p"], ["r"])
    with pytest.raises(OplabError, match="also computes 'n', which the rest of the graph reads"):
        replace(split, ["a"], ["m"], relu)
    with pytest.raises(OplabError, match="has 1 inputs, but 2 were named"):
        replace(split, ["a", "m"], ["y"], relu)
    with pytest.raises(OplabError, match="'y' cannot be computed .* 'a' .* is missing"):
        replace(split, ["m"], ["y"], relu)

    older = model_of([helper.make_node("Relu", ["p"], ["r"])], inputs=["p"], outputs=["r"], domains=[("", 17)])
    with pytest.raises(OplabError, match="imports version 20 of the domain 'ai.onnx', the replacement version 17"):
        replace(split, ["a"], ["y"], older)
    ints = model_of(
        [helper.make_node("Cast", ["p"], ["r"], to=TensorProto.INT64)], inputs=["p"], outputs=["r"], domains=[("", 20)]
    )
    ints.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    with pytest.raises(OplabError, match="The replacement does not fit"):
        replace(split, ["a"], ["y"], ints)


# --- compare_layers


@pytest.fixture(scope="module")
def resnet():
    torch.manual_seed(0)
    module, x = torchvision.models.resnet18(weights=None).eval(), torch.randn(1, 3, 96, 96)
    for part in module.modules():  # as after training: a fresh BatchNorm changes nothing, so folding it would not show
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.normal_(0.0, 0.1)
            part.running_var.uniform_(0.5, 2.0)
    return module, x


def exported(resnet, **options) -> onnx.ModelProto:
    module, x = resnet
    file = io.BytesIO()
    torch.onnx.export(module, (x,), file, input_names=["x"], **options)
    return onnx.load_from_string(file.getvalue())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dynamo", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_every_convolution_and_relu_of_a_resnet_is_matched(resnet, dynamo):
    module, x = resnet
    model = exported(resnet, dynamo=True, verbose=False) if dynamo else exported(resnet, dynamo=False)
    found = compare_layers(module, model, x)
    assert found.first_bad is None and "None drifts" in found.text()
    matched = [row.node.split()[0] for row in found.rows]
    assert matched.count("Conv") == 20 and matched.count("Relu") == 17
    for row in found.rows:
        kind = row.node.split()[0]
        assert ("convolution" in row.layer) == (kind == "Conv") and ("(relu" in row.layer) == (kind == "Relu"), row
        assert row.expected.shape == row.got.shape
    assert all("conv" not in layer and "relu" not in layer for layer in found.unseen)


def test_the_first_layer_that_drifts_is_named(resnet):
    module, x = resnet
    model = exported(resnet, dynamo=False)
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    convolution = [node for node in model.graph.node if node.op_type == "Conv"][5]
    tensor = weights[convolution.input[1]]
    array = numpy_helper.to_array(tensor) * np.float32(1.5)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    found = compare_layers(module, model, x)
    assert found.first_bad is not None and found.first_bad.value == convolution.output[0]
    assert "layer2.0.conv1" in found.first_bad.layer
    figure = found.figure()
    right, wrong = (len(line.get_xdata()) for line in figure.axes[0].lines if line.get_marker() in ("o", "X"))
    assert (right + wrong, wrong) == (len(found.rows), sum(row.drift.bad for row in found.rows))
    with pytest.raises(OplabError, match="The torch module does not run on these inputs"):
        compare_layers(torch.nn.Linear(3, 3), model, x)


class FillThroughView(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.tensor([True, False, False, False]))

    def forward(self, x):
        y = x * 2
        y.view(1, 2, 4).masked_fill_(self.mask, 7.0)
        return y


@pytest.fixture
def doubled() -> onnx.ModelProto:
    two = numpy_helper.from_array(np.float32(2), "two")
    nodes = [
        helper.make_node("Mul", ["x", "two"], ["y"], name="mul"),
        helper.make_node("Shape", ["x"], ["s"], name="s"),
    ]
    return model_of(nodes, inputs=["x"], constants=[two])


def test_an_output_is_compared_with_what_the_module_returns_not_with_a_layer(doubled):
    x = np.ones((2, 4), np.float32)
    found = compare_layers(FillThroughView(), doubled, x)
    assert found.first_bad.value == "y" and found.first_bad.expected[0].tolist() == [7, 2, 2, 2]
    searched = bisect(doubled, FillThroughView(), x)
    assert searched.suspects == ["Mul 'mul'"]
    for text in (found.text(), searched.text()):
        assert "Operations of the module without a node: view, masked_fill_." in text
        assert "Compared: 1 of 2 nodes, 80% of the elements that they compute." in text
        assert "Not compared, no counterpart has its shape and kind of dtype: Shape 's'." in text
    with pytest.raises(OplabError, match="has 1 outputs, and the module returns 2 values"):
        compare_layers(torch.nn.LSTMCell(4, 4), doubled, x)


class Forgetful(torch.nn.Module):
    """Whatever a run in training mode changes: the statistics of a BatchNorm, a buffer that is assigned, random numbers."""

    def __init__(self):
        super().__init__()
        self.norm, self.drop = torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5)
        self.register_buffer("runs", torch.zeros(()))

    def forward(self, x):
        self.runs = self.runs + 1
        return self.drop(self.norm(x)) + 0 * torch.rand(())


def test_every_tool_runs_a_module_in_eval_mode_and_gives_it_back_as_it_was():
    parts = {"scale": np.ones(4), "bias": np.zeros(4), "mean": np.zeros(4), "var": np.ones(4)}
    constants = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in parts.items()]
    model = model_of(
        [helper.make_node("BatchNormalization", ["x", *parts], ["y"], name="norm")], inputs=["x"], constants=constants
    )
    module, x = Forgetful().train(), np.float32([[1, 2, 3, 4], [4, 3, 2, 0]])
    module.drop.eval()
    before = {name: (buffer, buffer.clone()) for name, buffer in module.named_buffers()}
    random = torch.get_rng_state()
    found, searched = compare_layers(module, model, x), bisect(model, module, x)
    assert found.first_bad is None and searched.node is None
    assert all("The module was in training mode, and ran in eval mode." in str(one) for one in (found, searched))
    assert parity(model, {"x": x}, ("eager", "ort"), module=module).passed
    assert (module.training, module.norm.training, module.drop.training) == (True, True, False)
    for name, buffer in module.named_buffers():
        assert buffer is before[name][0] and torch.equal(buffer, before[name][1])
    assert torch.equal(random, torch.get_rng_state())


# --- drift


def test_drift_says_how():
    for left, right, words in (
        (np.zeros((2, 3), np.float32), np.zeros((3, 2), np.float32), "the shape is [3, 2] instead of [2, 3]"),
        (np.ones(3, np.float32), np.array([1, np.nan, 1], np.float32), "1 of 3 values are nan instead of 1"),
        (np.ones(3, np.float32), np.ones(3, np.int64), "the dtype is int64 instead of float32"),
        (np.arange(3), np.arange(3) + 1, "largest difference is 1 at values up to 2"),
    ):
        found = drift(left, right)
        assert found.bad and words in found.reason


def test_drift_is_relative_to_the_largest_value_and_as_coarse_as_the_coarser_dtype():
    wide = np.array([1000.0, 1.0], np.float32)
    assert drift(wide, wide + 0.01).error == pytest.approx(1e-5, rel=0.05)
    assert not drift(wide, wide.astype(np.float16)).bad
    assert not drift(np.array([np.nan, np.inf]), np.array([np.nan, np.inf])).bad
    assert not drift(np.zeros(0, np.float32), np.zeros(0, np.float32)).bad
