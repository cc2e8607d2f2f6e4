"""The course's operators in OpenVINO, and OpenVINO as a backend of parity."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from oplab.parity import parity
from tests.support.engines import OPERATORS, F, exported, knn, numbers, only
from tests.support.models import model_of, one_node

pytest.importorskip("openvino", reason="OpenVINO is not installed; `make deps-engines` does it")

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("compiled")]
BOTH = ("ort", "openvino")


CASES = OPERATORS | {
    "empty": only("MyAdd", {"a": np.zeros((0, 3), F), "b": np.zeros((0, 3), F)}),
    "no queries": knn(new_xyz=np.zeros((0, 3), F), new_offset=np.array([0, 0])),
}


@pytest.mark.parametrize(("model", "feed"), CASES.values(), ids=CASES)
def test_the_same_bits_as_onnx_runtime(model, feed):
    report = parity(model, feed, BOTH)
    assert [row.verdict for row in report.rows if row.backend == "openvino"] == ["equal"] * len(model.graph.output), (
        report
    )


def test_one_table_over_all_engines():
    """A network with operators of the course, through today's exporter."""
    net, program, feed = exported()
    engines = ("eager", "ort", "host", "openvino")
    report = parity(program, feed, engines, module=net)
    report.expect(*engines)
    assert "ort, host and openvino agree with eager" in report.text()


def test_it_runs_only_where_it_is_named():
    model, feed = only("MyAdd", {"a": numbers(2), "b": numbers(2)})
    assert "openvino" not in {row.backend for row in parity(model, feed).rows}


def test_other_ranks_in_one_report():
    """A model that declares no shape: OpenVINO compiles it once for each number of dimensions."""
    model, _ = only("MyAdd", {"a": numbers(2), "b": numbers(2)})
    cases = [{"a": numbers(*shape), "b": numbers(*shape)} for shape in ((2,), (2, 3), (4,), (1, 2, 3))]
    parity(model, cases, BOTH).expect(*BOTH)


def test_float64_is_computed_in_float32():
    """OpenVINO's CPU does that silently, for its own operators as for ours; the comparison says so."""
    x = np.random.default_rng(0).standard_normal(50)
    model = model_of([helper.make_node("Exp", ["x"], ["y"])], {"x": "f8"}, {"y": "f8"}, {"x": [50]}, domains=())
    report = parity(model, {"x": x}, BOTH)
    assert report.rows[-1].verdict == "differs"
    assert report.rows[-1].dtype == "float64"
    assert 0 < report.rows[-1].max_rel < 1e-6


class TestErrors:
    def failed(self, model: onnx.ModelProto, feed: dict[str, np.ndarray]) -> str:
        (row,) = (row for row in parity(model, feed, BOTH).rows if row.backend == "openvino")
        assert row.verdict == "failed"
        return row.reason

    def test_the_operators_sentence_is_shown(self):
        x = numbers(50, 3)
        x[3, 0] = np.nan
        for (model, feed), words in (
            (knn(xyz=x), "KNNQuery: xyz must be finite, but coordinate 0 of point 3 is nan"),
            (knn(offset=np.array([20, 51])), "KNNQuery: offset must not exceed the 50 points of xyz"),
            (
                only("DynamicResize", {"x": numbers(1, 1, 4, 4), "scales": np.array([1, 1, -2, 1], F)}),
                "DynamicResize: scales must be positive, but scales[2] is -2",
            ),
            (
                only("MyAdd", {"a": numbers(2, 3), "b": numbers(1, 3)}),
                "a and b must have the same shape, but a is [2,3] and b is [1,3]",
            ),
        ):
            said = self.failed(model, feed)
            assert words in said
            assert "src/" not in said

    def test_attributes(self):
        feed = {"xyz": numbers(50, 3), "offset": np.array([20, 50])}
        for attributes, words in (({}, "nsample is missing"), ({"nsample": 0}, "nsample must be at least 1")):
            model = one_node("KNNQuery", feed, outputs=("idx", "dist"), **attributes)
            assert words in self.failed(model, feed)
        model, feed = only("MyAdd", {"a": numbers(2), "b": numbers(2)}, alfa=1.0)
        assert "MyAdd has no attribute alfa" in self.failed(model, feed)

    def test_an_operator_that_openvino_lacks(self):
        model, feed = only("Foo", {"input1": numbers(2), "input2": numbers(2)}, attr1=1.0, attr2=2)
        row = parity(model, feed, BOTH).rows[-1]
        assert (row.verdict, row.reason) == ("not available", "OpenVINO has no oplab.Foo")

    def test_not_installed(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "openvino", None)
        model, feed = only("MyAdd", {"a": numbers(2), "b": numbers(2)})
        row = parity(model, feed, BOTH).rows[-1]
        assert (row.verdict, row.reason) == (
            "not available",
            "OpenVINO is not installed; `make deps-engines` does it",
        )


def test_what_is_wrong_in_openvino_and_in_the_reference_is_no_majority():
    """Where this fails, OpenVINO has been fixed: remove the entry from oplab.parity.known."""
    x = numbers(2, 3, 4, 5)
    node = helper.make_node("Softmax", ["x"], ["y"], axis=1)
    model = model_of([node], {"x": F}, {"y": F}, {"x": [2, 3, 4, 5]}, opset=12)
    report = parity(model, {"x": x}, ("reference", "ort", "openvino"))
    assert report.groups == (("reference", "openvino"), ("ort",)) and len(report.warnings) == 2
    assert report.summary() == "ort does not agree with reference; either can be wrong."


def test_openvino_ignores_antialias():
    """Where this fails, OpenVINO has been fixed: remove the entry from oplab.parity.known."""
    feed = {"x": numbers(1, 1, 8, 8), "scales": np.float32([1, 1, 0.5, 0.5])}
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear", antialias=1)
    model = model_of([node], {"x": F}, {"y": F}, {"x": [1, 1, 8, 8]}, opset=18)
    model.graph.initializer.append(numpy_helper.from_array(feed.pop("scales"), "scales"))
    report = parity(model, feed, ("ort", "reference", "openvino"))
    assert report.summary() == "openvino alone differs: ort and reference agree." and len(report.warnings) == 1
