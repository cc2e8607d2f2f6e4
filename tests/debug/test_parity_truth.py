"""parity() on models as people have them: who is wrong where backends disagree, and what a comparison cannot show."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from onnx.reference.op_run import OpRun

from oplab import OplabError
from oplab.onnxtools.inputs import input_specs, random_inputs
from oplab.parity import parity
from oplab.parity.arguments import dimensions, tolerances
from oplab.parity.known import FAULTS, Fault, known_faults
from oplab.parity.modules import TRAINING
from tests.support.models import model_of, one_node

pytestmark = pytest.mark.usefixtures("compiled")


class TestWhoIsWrong:
    """BatchNormalization at opset 12, which onnx.reference computes with the statistics of the batch."""

    X = {"x": np.random.default_rng(0).standard_normal((1, 4, 3, 3)).astype(np.float32)}
    WEIGHTS = np.float32([[0.5, 1, 2, 3], [1, 2, 3, 4], [0.1, 0.2, 0.3, 0.4], [1, 2, 0.5, 0.3]])

    def model(self) -> onnx.ModelProto:
        node = helper.make_node("BatchNormalization", ["x", *"sbmv"], ["y"])
        model = model_of([node], {"x": np.float32}, {"y": np.float32}, opset=12, ir_version=7)
        weights = zip(self.WEIGHTS, "sbmv", strict=True)
        model.graph.initializer.extend(numpy_helper.from_array(array, name) for array, name in weights)
        return model

    def right(self, x: torch.Tensor) -> torch.Tensor:
        scale, bias, mean, variance = torch.from_numpy(self.WEIGHTS)
        return torch.nn.functional.batch_norm(x, mean, variance, scale, bias)

    def test_a_backend_with_a_known_fault_is_not_the_base_unless_it_was_asked_for(self):
        assert parity(self.model(), self.X).base == "ort"
        report = parity(self.model(), self.X, ["reference", "ort"])
        assert report.base == "reference"
        *_, warning, summary = report.text().splitlines()
        assert warning.startswith(
            "warning: onnx.reference (seen in 1.23.2) computes BatchNormalization below opset 14 "
        )
        assert summary == "ort does not agree with reference; either can be wrong."

    def test_the_one_that_stands_alone_is_named_whichever_is_the_base(self):
        for backends in (["reference", "eager", "ort"], ["eager", "ort", "reference"]):
            report = parity(self.model(), self.X, backends, module=self.right)
            assert report.summary() == "reference alone differs: eager and ort agree." and not report.passed

    def test_a_module_in_training_mode_is_named_where_the_file_differs(self):
        model, module = one_node("Neg", {"x": IMAGE}, domain=""), torch.nn.Dropout()
        assert parity(model, {"x": IMAGE}, ["eager", "ort"], module=module).warnings == (TRAINING,)
        assert parity(model, {"x": IMAGE}, ["eager", "ort"], module=module.eval()).warnings == ()

    def test_a_softmax_over_the_last_axis_is_right_everywhere(self):
        model = one_node("Softmax", {"x": IMAGE}, domain="", opset=12, axis=3)
        assert known_faults(model) and not parity(model, {"x": IMAGE}, ["reference", "ort"]).warnings, (
            "the rank is unknown"
        )
        node = helper.make_node("Softmax", ["x"], ["y"], axis=3)
        assert not known_faults(model_of([node], {"x": np.float32}, {"y": np.float32}, {"x": ["n", 2, 4, 5]}, opset=12))

    def test_an_export_that_is_wrong_and_no_two_that_agree(self):
        nodes = [helper.make_node("Neg", ["x"], ["y"])]
        model = model_of(nodes, {"x": np.float32}, {"y": np.float32})

        class Neg(OpRun):
            def _run(self, x):
                return (x + 5,)

        names = ["eager", "reference", "ort"]
        report = parity(model, self.X, names, module=torch.abs)
        assert report.summary() == (
            "reference and ort do not agree with eager: the model computes something else than the module."
        )
        report = parity(model, self.X, names, module=torch.abs, reference=[Neg])
        assert report.summary() == "reference and ort do not agree with eager; no two implementations agree."


IMAGE = np.random.default_rng(0).standard_normal((1, 2, 4, 5)).astype(np.float32)
BOXES = {"rois": np.float32([[1, 1, 6, 6]]), "batch_indices": np.int64([0])}
GRID = np.random.default_rng(1).standard_normal((1, 3, 4, 2)).astype(np.float32)
# A model of one node for each known fault of onnx.reference: the opset, the inputs and the attributes.
FAULTY = {
    "BatchNormalization": (12, {"x": IMAGE, **{name: np.float32([1, 2]) for name in "sbmv"}}, {}),
    "Softmax": (12, {"x": IMAGE}, {"axis": 2}),
    "RoiAlign": (15, {"x": IMAGE, **BOXES}, {"output_height": 2, "output_width": 2, "sampling_ratio": 2}),
    "MaxPool": (22, {"x": IMAGE}, {"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    "GridSample": (22, {"x": IMAGE, "grid": GRID}, {"mode": "cubic", "padding_mode": "border"}),
}


@pytest.mark.parametrize(
    "fault", [fault for fault in FAULTS if fault.backend == "reference"], ids=lambda f: f.operators[0]
)
def test_a_known_fault_is_still_there(fault: Fault):
    """Where this fails, the package has been fixed: remove the entry from oplab.parity.known."""
    opset, feed, attributes = FAULTY[fault.operators[0]]
    model = one_node(fault.operators[0], feed, domain="", opset=opset, **attributes)
    report = parity(model, feed, ["ort", "reference"])
    assert report.rows[-1].verdict == "differs" and report.warnings == (fault.sentence,)


class TestFailed:
    def test_a_backend_that_failed_is_not_one_that_disagrees(self):
        class Neg(OpRun):
            def _run(self, x):
                if len(x) > 1:
                    raise ValueError("too long")
                return (-x,)

        model = model_of([helper.make_node("Neg", ["x"], ["y"], name="n")], {"x": np.float32}, {"y": np.float32})
        cases = [{"x": np.ones(size, np.float32)} for size in (2, 1)]

        def summary(cases) -> str:
            report = parity(model, cases, ["reference", "eager", "ort"], module=torch.neg, reference=[Neg])
            assert not report.passed and report.rows[0].agrees is None
            return report.summary()

        assert summary(cases[0]) == "reference failed: Neg node 'n': ValueError: too long; eager and ort agree."
        assert summary(cases) == (
            "reference failed in case 0: Neg node 'n': ValueError: too long; eager, ort and reference agree in the other cases."
        )

    def test_grid_sample_in_three_dimensions_needs_opset_20(self):
        node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode="bilinear", name="n")
        feed = {"x": np.ones((1, 1, 2, 2, 2), np.float32), "grid": np.zeros((1, 1, 1, 1, 3), np.float32)}
        shapes = {name: list(array.shape) for name, array in feed.items()}
        model = model_of([node], dict.fromkeys(feed, np.float32), {"y": np.float32}, shapes, opset=18)
        report = parity(model, feed, ["ort", "reference"])
        assert report.summary().startswith("reference failed: GridSample node 'n': ")
        assert report.summary().endswith("; nothing was compared: ort alone ran.")
        assert report.warnings == (
            "the model is not valid: GridSample takes 5-D inputs since opset 20; export it with opset_version=20",
        )


class TestSizes:
    """Paddle's exporter writes -1 for an unknown size, and ? as the name of several."""

    def test_they_are_unknown_and_given_by_their_places(self):
        node = helper.make_node("Relu", ["x"], ["y"])
        model = model_of([node], {"x": np.float32}, {"y": np.float32}, {"x": ["?", -1, "n", 3]})
        parity(model, {"x": np.ones((2, 5, 4, 3), np.float32)}, ["reference", "ort"]).expect()
        specs = input_specs(model)
        made = random_inputs(specs, 0, dimensions(["x.0=2", "x.1=5,n=4"]))
        assert made["x"].shape == (2, 5, 4, 3)
        for words, sentence in (
            (["n=4", "x.0=2"], "x.1 is unknown"),
            (["?=4"], r"no dimension \?.\nThose without a size are: n, x.0, x.1, x.2."),
            (["x.3=4"], "no dimension x.3"),
            (["n=99999,x.0=99999,x.1=1"], "too large"),
        ):
            with pytest.raises(OplabError, match=sentence):
                random_inputs(specs, 0, dimensions(words))


class TestFloat16:
    """The CPU's kernels compute it in float32, and the square of 300 is beyond its range."""

    def warnings(self, value: float, backends: list[str]) -> tuple[str, ...]:
        nodes = [
            helper.make_node("Mul", ["x", "x"], ["s"], name="square"),
            helper.make_node("Sqrt", ["s"], ["r"]),
            helper.make_node("Cast", ["r"], ["y"], to=onnx.TensorProto.FLOAT),
        ]
        model = model_of(nodes, {"x": np.float16}, {"y": np.float32})
        return parity(model, {"x": np.float16([value, 1])}, backends).warnings

    def test_an_overflow_is_reported_at_the_node_where_it_happens(self):
        (warning,) = self.warnings(300, ["reference", "ort"])
        assert warning.startswith(
            "Mul node 'square' overflows in float16 (onnx.reference), the first of 1; ONNX Runtime"
        )
        assert not self.warnings(200, ["reference", "ort"])
        assert not self.warnings(np.inf, ["reference", "ort"]), "an infinity that was there before"

    def test_without_the_reference_it_is_not_known(self):
        (warning,) = self.warnings(200, ["ort", "host"])
        assert warning.endswith("an overflow does not show here; the backend reference would show it")


class TestCancellation:
    def test_the_error_is_seen_at_the_scale_of_what_cancels(self):
        model = model_of(
            [helper.make_node("Sub", ["a", "b"], ["y"])], dict.fromkeys("ab", np.float32), {"y": np.float32}
        )
        feed = {"a": np.float32([1000.001, 3]), "b": np.float32([1000, 2])}

        def report(**options):
            rounded = lambda a, b: a + torch.tensor([6e-5, 0]) - b  # noqa: E731
            return parity(model, feed, ["reference", "eager"], module=rounded, **options)

        assert report().rows[1].reason.endswith("; the largest error is 6.1e-08 of the largest term, 1e+03")
        assert report(tolerances=tolerances(None, None, ["y=1e-3"])).passed
