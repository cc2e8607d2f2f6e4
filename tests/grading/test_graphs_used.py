"""`expect_used`: an input that is declared and never read, also where only the body of an If reads it."""

from __future__ import annotations

import onnx
import onnx.parser
import pytest

from oplab.checks import graphs
from oplab.parity.arrays import WrongAnswer

HEADER = '<ir_version: 8, opset_import: ["" : 17]>\n'


def test_unused_input_is_named():
    model = onnx.parser.parse_model(HEADER + "g (float[n] x, float[n] y) => (float[n] z) { z = Neg(x) }")
    graphs.expect_used(model, ["x"])
    with pytest.raises(WrongAnswer, match="'y'.*1 × Neg"):
        graphs.expect_used(model, ["x", "y"])


def test_a_node_that_leads_nowhere_does_not_count():
    model = onnx.parser.parse_model(HEADER + "g (float[n] x, float[n] y) => (float[n] z) { w = Abs(y) z = Neg(x) }")
    with pytest.raises(WrongAnswer, match="'y'"):
        graphs.expect_used(model, ["x", "y"])


def test_a_body_reads_from_outside():
    model = onnx.parser.parse_model(
        HEADER
        + """g (bool c, float[n] x, float[n] y) => (float[n] z) {
            z = If (c) <then_branch = a () => (float[n] t) { t = Neg(x) },
                        else_branch = b () => (float[n] e) { e = Abs(y) }>
        }"""
    )
    graphs.expect_used(model, ["c", "x", "y"])


def test_operator_of_another_domain_is_explained():
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "oplab" : 1]>\ng (float[n] x) => (float[n] z) { z = oplab.Asinh(x) }'
    )
    with pytest.raises(WrongAnswer, match="oplab::Asinh is an operator of another domain"):
        graphs.expect_ops(model, {"Asinh": 1})
