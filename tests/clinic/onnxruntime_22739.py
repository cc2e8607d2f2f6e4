"""A model's function that holds a custom operator: its types are lost."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper
from onnx.inliner import inline_local_functions

from oplab import ops
from tests.clinic.tools import refusal
from tests.support.models import model_of


def model() -> onnx.ModelProto:
    """Relu of a function of one MyAdd."""
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("oplab", 1)]
    body = [helper.make_node("MyAdd", ["x", "x"], ["y"], domain="oplab")]
    made = model_of(
        [helper.make_node("Twice", ["a"], ["h"], domain="local"), helper.make_node("Relu", ["h"], ["y"])],
        {"a": "f4"},
        {"y": "f4"},
        {"a": [2], "y": [2]},
        domains=(("oplab", 1), ("local", 1)),
    )
    made.functions.append(helper.make_function("local", "Twice", ["x"], ["y"], body, opsets))
    return made


def happens() -> bool:
    return "type inference failed" in refusal(Exception, ops.session, model())


def way_around() -> None:
    session = ops.session(inline_local_functions(model()))
    assert session.run(None, {"a": np.array([1, -1], np.float32)})[0].tolist() == [5, 0]
