"""oplab.debug.bisect finds planted faults: the node itself, in few runs, whatever the fault does to the rest of the graph."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from oplab.debug import bisect, drift, tap
from oplab.errors import OplabError
from tests.support import faults
from tests.support.faults import chain


@pytest.fixture(scope="module")
def long_chain() -> onnx.ModelProto:
    return chain(300)


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(3, 8)).astype(np.float32)


def test_a_random_fault_among_300_nodes_is_found_in_at_most_12_runs(long_chain, x, seed):
    rng, healthy = np.random.default_rng(seed), tap(long_chain)(x)
    for _ in range(6):
        shows: list[bool] = []
        while True not in shows:
            broken, node, kind = faults.plant(long_chain, rng)
            values = tap(broken)(x)
            shows = [drift(right, values[name]).bad for name, right in healthy.items()]
            if shows[node:] != [True] * (
                300 - node
            ):  # equal on these inputs, or somewhere as small as a rounding error
                shows = []
        assert not any(shows[:node])
        steps = []
        found = bisect(broken, long_chain, {"x": x}, progress=steps.append)
        assert found.node == node, f"{kind}: {found}"
        assert found.runs <= 12
        assert found.suspects == [found.suspects[-1]] and f"'node{node}'" in found.suspects[0]
        word = {"attribute": "attribute alpha", "constant": "differs in 1 of 64", "wiring": "Its input"}[kind]
        assert any(word in line for line in found.details), found
        assert steps == found.steps and steps[0].cut == 300 and all(step.of == 300 for step in steps)


def test_the_same_model_has_no_drift(long_chain, x):
    found = bisect(long_chain, long_chain, x)
    assert found.node is None and found.runs == 1 and found.suspects == []
    assert "No node drifts" in str(found)


def test_inserted_casts_are_named_although_they_have_no_partner(long_chain, x):
    broken = onnx.ModelProto()
    broken.CopyFrom(long_chain)
    nodes = list(broken.graph.node)
    casts = [
        helper.make_node("Cast", ["v99"], ["half"], name="narrow", to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["half"], ["wide"], name="widen", to=TensorProto.FLOAT),
    ]
    nodes[100].input[0] = "wide"
    del broken.graph.node[:]
    broken.graph.node.extend([*nodes[:100], *casts, *nodes[100:]])
    found = bisect(broken, long_chain, x, tolerance=1e-6)
    assert found.suspects == ["Cast 'narrow'", "Cast 'widen'", "LeakyRelu 'node100'"], found
    assert found.runs <= 12


def test_a_model_that_does_not_even_load_is_searched_through_its_prefixes(long_chain, x):
    broken = onnx.ModelProto()
    broken.CopyFrom(long_chain)
    weight = next(tensor for tensor in broken.graph.initializer if tensor.name == "w150")
    weight.CopyFrom(numpy_helper.from_array(np.ones((5, 8), np.float32), "w150"))
    found = bisect(broken, long_chain, x)
    assert found.node == 150 and "ONNX Runtime does not load" in found.drift.reason
    assert any("float32[5, 8]; in the reference it is float32[8, 8]" in line for line in found.details)


def test_a_mapping_of_arrays_is_a_reference(x):
    good = chain(12)
    values = tap(good)(x)
    broken, node, _ = faults.plant(good, np.random.default_rng(4))
    assert bisect(broken, values, x).node == node
    with pytest.raises(OplabError, match="no value for the output 'v11'"):
        bisect(broken, {"v3": values["v3"]}, x)


def test_other_inputs_and_outputs_are_said(x):
    good = chain(12)
    two = onnx.ModelProto()
    two.CopyFrom(good)
    two.graph.output.append(helper.make_tensor_value_info("v3", TensorProto.FLOAT, ["n", 8]))
    with pytest.raises(OplabError, match="has 1 outputs and the reference 2"):
        bisect(good, two, x)
    other = onnx.ModelProto()
    other.CopyFrom(good)
    other.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [1]))
    with pytest.raises(OplabError, match=r"takes the inputs \['x'\] and the reference \['x', 'z'\]"):
        bisect(good, other, x)
    with pytest.raises(OplabError, match="There is no input 'y'"):
        bisect(good, good, {"x": x, "y": x})


def line(*nodes: onnx.NodeProto, size: int = 8, **constants: float) -> onnx.ModelProto:
    """Nodes from x to y."""
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size]) for name in "xy"]
    tensors = [numpy_helper.from_array(np.float32(value), name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "line", info[:1], info[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


RAMP = np.linspace(-1, 1, 8, dtype=np.float32)


@pytest.mark.parametrize(("name", "output", "input_"), [("n1", "b", "x"), ("n1", "other", "a"), ("other", "b", "a")])
def test_a_replaced_operator_is_named_and_not_its_reader(name, output, input_):
    def chain_of(op, name, output, input_):
        return line(
            helper.make_node("Relu", ["x"], ["a"], name="n0"),
            helper.make_node(op, [input_, "c"], [output], name=name),
            helper.make_node("Abs", [output], ["d"], name="n2"),
            helper.make_node("Sqrt", ["d"], ["y"], name="n3"),
            c=0.3,
        )

    found = bisect(chain_of("Sub", name, output, input_), chain_of("Add", "n1", "b", "a"), RAMP)
    assert found.suspects == [f"Sub {name!r}"], found
    assert found.details == ["It is Sub; in the reference Add makes this value."]


def test_one_name_is_not_enough_where_the_inputs_differ():
    def fed_by(op, name, source):
        return line(
            helper.make_node("Exp", ["x"], ["a"], name="n0"),
            helper.make_node(op, [source], ["b"], name=name),
            helper.make_node("Add", ["b", "a"], ["y"], name="n2"),
        )

    found = bisect(fed_by("Sin", "mine", "x"), fed_by("Neg", "n1", "a"), RAMP)
    assert found.suspects == ["Sin 'mine'", "Add 'n2'"]
    assert "Comparable: 2 of 3 nodes, 66% of the elements that they compute." in found.text()
    assert "Not compared, another kind of operation and other numbers: Sin 'mine'." in found.text()


def test_a_fault_that_sinks_below_the_tolerance_and_grows_again_is_found_where_it_is():
    def sinking(wrong):
        return line(
            helper.make_node("Add", ["x", "c"], ["a"], name="fault"),
            helper.make_node("Add", ["a", "large"], ["b"], name="sink"),
            helper.make_node("Relu", ["b"], ["d"]),
            helper.make_node("Relu", ["d"], ["e"]),
            helper.make_node("Sub", ["e", "large"], ["y"], name="grow"),
            c=wrong,
            large=1e3,
        )

    found = bisect(sinking(0.31), sinking(0.3), RAMP)
    assert found.suspects == ["Add 'fault'"] and found.runs == 5, found


def test_an_output_without_a_node_is_compared_with_what_the_module_returns():
    passed = line(helper.make_node("Neg", ["x"], ["n"]))
    passed.graph.output[0].name = "x"
    found = bisect(passed, torch.nn.ReLU(), RAMP)
    assert found.node is None and found.drift.bad
    assert "The output 'x' differs, and no node computes it" in found.text() and "No node drifts" not in found.text()


def test_a_value_without_a_partner_does_not_hide_a_fault_before_it_is_read():
    def around(factor):
        return line(
            helper.make_node("Exp", ["x"], ["unknown"], name="exp"),
            helper.make_node("Mul", ["x", "factor"], ["a"], name="fault"),
            helper.make_node("Abs", ["a"], ["b"]),
            helper.make_node("Sub", ["b", "unknown"], ["y"], name="last"),
            factor=factor,
        )

    values = tap(around(2))(RAMP)
    del values["unknown"]
    found = bisect(around(3), values, RAMP)
    assert found.suspects == ["Mul 'fault'"] and found.runs == 2, found
    assert "Not compared, without a counterpart: Exp 'exp'." in found.text()
