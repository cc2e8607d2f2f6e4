"""parity(): what an agreement proves, and what is left of a backend that fails a case."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx import helper

from oplab.parity import parity
from oplab.parity.arrays import WrongAnswer
from tests.support import my_add as operands
from tests.support.models import model_of

pytestmark = pytest.mark.usefixtures("compiled")

MODEL = operands.model(shape=["n", 4])


def my_add(a, b):
    return torch.ops.oplab.my_add(a, b)


class TestProof:
    """Two backends with one implementation agree even where it is wrong."""

    def test_onnx_runtime_twice_is_no_proof(self):
        node = helper.make_node("Sin", ["a"], ["y"])
        model = model_of([node], {"a": np.float32}, {"y": np.float32})
        report = parity(model, {"a": np.ones(2, np.float32)}, ["ort", "host"])
        assert [row.verdict for row in report.rows] == ["base", "equal"] and not report.passed
        assert report.summary() == (
            "host agrees with ort, which proves nothing: both are ONNX Runtime with the same kernels. "
            "Give the PyTorch module, or a reference."
        )
        with pytest.raises(WrongAnswer, match="proves nothing"):
            report.expect()
        assert report.expect("ort", "host") is report, "who names both asks whether these two agree"
        assert report.as_dict()["summary"] == report.summary()

    def test_pytorch_twice_is_no_proof(self):
        report = parity(MODEL, operands.pair(3, 4), ["eager", "exported"], module=my_add)
        assert not report.passed
        assert report.summary() == (
            "exported agrees with eager, which proves nothing about the ONNX model: no backend ran it."
        )

    def test_two_implementations_are(self):
        for backends in (["eager", "ort"], ["reference", "host"], ["exported", "reference"]):
            assert parity(MODEL, operands.pair(3, 4), backends, module=my_add).passed


class TestFailedCases:
    def test_a_case_that_fails_leaves_the_others(self):
        def small(a, b):
            if len(a) > 2:
                raise ValueError(f"{len(a)} rows")
            return my_add(a, b)

        report = parity(
            MODEL,
            [operands.pair(2, 4), operands.pair(3, 4), operands.pair(1, 4)],
            ["eager", "reference", "ort"],
            module=small,
        )
        assert report.base == "reference", "the first that has outputs for all cases"
        found = [(row.backend, row.case, row.verdict) for row in report.rows]
        assert [(case, verdict != "failed") for name, case, verdict in found if name == "eager"] == [
            (0, True),
            (1, False),
            (2, True),
        ]
        assert ("ort", 1, "differs") not in found and not report.passed
        assert report.rows[1].reason == "ValueError: 3 rows"
        with pytest.raises(WrongAnswer, match=r"^eager failed.*: ValueError: 3 rows\.$"):
            report.expect("eager")
