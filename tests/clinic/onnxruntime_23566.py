"""A session that has no kernel for a node of another domain."""

from __future__ import annotations

import numpy as np
import onnxruntime
from onnx import helper

from oplab import ops
from tests.clinic.tools import refusal, run
from tests.support.models import model_of

MODEL = model_of([helper.make_node("MyAdd", ["a", "b"], ["y"], domain="oplab")], {"a": "f4", "b": "f4"}, {"y": "f4"})


def happens() -> bool:
    return "oplab:MyAdd(-1) is not a registered function/op" in refusal(Exception, run, MODEL, [1], [2])


def way_around() -> None:
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(ops.ort_library()))
    session = onnxruntime.InferenceSession(MODEL.SerializeToString(), options)
    one = np.ones(1, np.float32)
    assert session.run(None, {"a": one, "b": one})[0].tolist() == [5]
