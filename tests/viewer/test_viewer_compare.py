"""Two graphs side by side."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import onnx
from onnx import helper, numpy_helper

from oplab.viewer import show
from tests.support import viewer_models as m


def sentence(a: onnx.ModelProto, b: onnx.ModelProto) -> str:
    view = show(a, b, title="t")
    ET.fromstring(view.svg)
    return view.text.splitlines()[0].removeprefix("t: ")


def renamed(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The same model as another exporter would name it."""
    copy = onnx.ModelProto.FromString(proto.SerializeToString())
    for node in copy.graph.node:
        node.name = "other_" + node.name
        node.input[:] = [n and f"r_{n}" for n in node.input]
        node.output[:] = [n and f"r_{n}" for n in node.output]
    for value in (*copy.graph.input, *copy.graph.output, *copy.graph.initializer):
        value.name = f"r_{value.name}"
    return copy


def test_three_nodes_become_one() -> None:
    view = show(m.decomposed(), m.custom())
    assert "3 nodes (2 Mul, 1 Add) replaced by 1 oplab::MyAdd." in view.svg
    assert view.svg.count('class="removed"') == 3 + 1 and view.svg.count('class="added"') == 1 + 1  # and the legend
    assert sentence(m.custom(), m.decomposed()) == "1 oplab::MyAdd replaced by 3 nodes (2 Mul, 1 Add)."


def test_a_model_and_itself() -> None:
    for model in (m.conv(), m.decomposed(), m.tangle(80), m.transformer(3)):
        assert sentence(model, model) == "The graphs are the same."
        assert sentence(model, renamed(model)) == "The graphs are the same."


def test_weights_alone_differ() -> None:
    other = m.conv()
    other.graph.initializer[0].raw_data = bytes(len(other.graph.initializer[0].raw_data))
    assert sentence(m.conv(), other) == "The graphs are the same; their weights differ."


def test_a_changed_attribute() -> None:
    other = m.conv()
    next(a for a in other.graph.node[0].attribute if a.name == "pads").ints[:] = [0, 0, 0, 0]
    assert sentence(m.conv(), other) == "Conv changed (pads)."
    svg = show(m.conv(), other).svg
    assert svg.count('class="changed"') == 3 and 'text-decoration="underline">pads' in svg


def test_swapped_inputs_are_seen() -> None:
    """Bias and mask exchanged: the nodes are the same, the lines are not."""
    nodes = [helper.make_node("DeformConv2d", ["x", "w", "offset", "b", "mask"], ["y"], domain="oplab")]
    inputs = [m.info(n, ["n"]) for n in ("x", "w", "offset", "b", "mask")]
    right = m.model(nodes, inputs, [m.info("y", None)], oplab=1)
    wrong = onnx.ModelProto.FromString(right.SerializeToString())
    wrong.graph.node[0].input[3:5] = ["mask", "b"]
    assert sentence(right, wrong) == "oplab::DeformConv2d changed (inputs)."
    assert "inputs come from elsewhere" in show(right, wrong).svg


def test_an_input_that_vanished_and_an_output_that_changed() -> None:
    before = m.model(
        [helper.make_node("Mul", ["x", "factor"], ["y"])],
        [m.info("x", ["n"]), m.info("factor", [1])],
        [m.info("y", ["n"])],
    )
    two = numpy_helper.from_array(np.float32([2]), "two")
    after = m.model([helper.make_node("Mul", ["x", "two"], ["y"])], [m.info("x", ["n"])], [m.info("y", [4])], (two,))
    said = sentence(before, after)
    assert "input factor is gone" in said and "output y is float32[4] instead of float32[n]" in said


def test_a_node_put_in_and_one_taken_out() -> None:
    plain = m.chain(10)
    longer = onnx.ModelProto.FromString(plain.SerializeToString())
    extra = helper.make_node("Cast", ["t5"], ["t5c"], to=11)
    longer.graph.node.insert(5, extra)
    longer.graph.node[6].input[0] = "t5c"
    assert sentence(plain, longer) == "1 Cast added."
    assert sentence(longer, plain) == "1 Cast removed."


def test_large_graphs_show_the_differences_only() -> None:
    before, after = m.transformer(10), m.transformer(10)
    after.graph.node[5 * 26 + 23].op_type = "Relu"
    view = show(before, after)
    assert "1 Gelu replaced by 1 Relu." in view.svg
    assert "nodes, the same in both" in view.svg and "260 nodes" in view.svg
    assert len(view.svg) < 60_000
