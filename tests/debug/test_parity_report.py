"""parity(): who agrees, who does not and why, who cannot be used."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper

from oplab import OplabError
from oplab.onnxtools.inputs import input_specs, random_inputs
from oplab.parity import parity
from oplab.parity.arrays import WrongAnswer
from oplab.parity.comparison import compared
from oplab.parity.report import BackendOutput, Report
from oplab.toolchain import build
from tests.support import grid
from tests.support import my_add as operands
from tests.support.models import model_of

ALL = ("eager", "exported", "reference", "ort", "host")


pytestmark = pytest.mark.usefixtures("compiled")


def my_add_model() -> onnx.ModelProto:
    return operands.model(shape=["n", 4])


def pair(rows: int = 3) -> dict[str, np.ndarray]:
    return operands.pair(rows, 4)


def my_add(a, b):
    return torch.ops.oplab.my_add(a, b)


def verdicts(report: Report) -> dict[str, str]:
    return {row.backend: row.verdict for row in report.rows}


class TestAgreement:
    def test_my_add_everywhere(self):
        report = parity(my_add_model(), pair(), module=my_add).expect(*ALL)
        assert report.passed and report.base == "eager" and report.ran == ALL
        assert [row.verdict for row in report.rows][0] == "base"
        assert all(row.agrees and row.max_abs < 1e-6 and row.max_ulp < 100 for row in report.rows[1:])
        assert all((row.dtype, row.shape, row.output) == ("float32", (3, 4), "y") for row in report.rows)
        assert report.summary() == "exported, reference, ort and host agree with eager."

    def test_grid_with_an_input_left_out_goes_by_name(self):
        """``end`` is the fourth parameter of grid and the third input of the model."""
        model, feed = grid.make_model(("pos", "size", "", "end")), grid.cloud(200, 3, corner="end")
        report = parity(model, feed, module=torch.ops.oplab.grid).expect(*ALL)
        assert {row.verdict for row in report.rows} == {"base", "equal"}
        assert {row.max_ulp for row in report.rows} == {None}

    def test_an_onnx_program_brings_its_exported_program(self):
        class Model(torch.nn.Module):
            def forward(self, x, factor=2.0):
                return x.sin() * factor, x > 0

        program = torch.onnx.export(Model().eval(), (torch.ones(2, 3),), dynamo=True, verbose=False)
        x = np.linspace(-3, 3, 6, dtype=np.float32).reshape(2, 3)
        (name,) = [value.name for value in program.model_proto.graph.input]
        report = parity(program, {name: x}).expect("exported", "ort", "host")
        assert verdicts(report)["eager"] == "not available"
        assert report.base == "exported" and {row.dtype for row in report.rows if row.dtype} == {"float32", "bool"}

    def test_weights_in_a_file_beside_the_model(self, tmp_path: Path):
        weight = onnx.numpy_helper.from_array(np.random.default_rng(0).random((64, 64), np.float32), "w")
        node = helper.make_node("MatMul", ["x", "w"], ["y"])
        model = model_of([node], {"x": np.float32}, {"y": np.float32}, {"x": [None, 64]})
        model.graph.initializer.append(weight)
        onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)
        x = np.ones((2, 64), np.float32)
        parity(tmp_path / "m.onnx", {"x": x}).expect("reference", "ort", "host")
        with pytest.raises(OplabError, match="keeps its weights in a file next to the model"):
            parity(onnx.load(tmp_path / "m.onnx", load_external_data=False), {"x": x})

    def test_the_inputs_survive_a_backend_that_writes_into_them(self):
        def careless(a, b):
            return a.mul_(3).add_(b, alpha=2)

        feed = pair()
        kept = {name: array.copy() for name, array in feed.items()}
        parity(my_add_model(), feed, ["eager", "ort", "host"], module=careless).expect()
        assert all(np.array_equal(feed[name], kept[name]) for name in feed)


class TestDisagreement:
    def test_wrong_coefficients(self):
        report = parity(my_add_model(), pair(), module=lambda a, b: 2 * a + b)
        assert not report.passed
        assert verdicts(report) == {
            "eager": "base",
            "exported": "equal",
            "reference": "differs",
            "ort": "differs",
            "host": "differs",
        }
        assert report.summary() == (
            "reference, ort and host do not agree with eager and exported: the model computes something else than the module."
        )
        with pytest.raises(
            WrongAnswer, match=r"^reference and eager differ in y: 12 of 12 elements differ, first at \[0, 0\]"
        ):
            report.expect()

    def test_dtype_shape_and_count(self):
        def row(module) -> BackendOutput:
            return parity(my_add_model(), pair(), ["ort", "eager"], module=module).rows[-1]

        double = row(lambda a, b: my_add(a, b).double())
        assert (double.verdict, double.agrees, double.dtype) == ("differs", False, "float64")
        assert double.reason == "it is float64[3, 4], and the base is float32[3, 4]"
        assert row(lambda a, b: my_add(a, b)[:1]).reason == "it is float32[1, 4], and the base is float32[3, 4]"
        two = row(lambda a, b: (my_add(a, b), a))
        assert (two.verdict, two.reason) == ("failed", "it gives 2 outputs, and the model has 1")


class TestVerdict:
    ONE = np.array([1.0, -2.0, 0.0], np.float32)

    def test_equal_bits_and_equal_values(self):
        assert compared(self.ONE, self.ONE.copy(), 0, 0) == ("equal", "the same bits", (0.0, 0.0, 0.0))
        zeros = np.array([1.0, -2.0, -0.0], np.float32)
        assert compared(self.ONE, zeros, 0, 0)[:2] == ("equal", "the same values")

    def test_close_says_what_is_allowed(self):
        got = np.nextafter(self.ONE, np.float32(9))
        verdict, reason, (_, _, ulp) = compared(self.ONE, got, 1e-4, 1e-5)
        assert verdict == "close" and ulp == 1
        assert reason == "float32 within 1e-05 + 1e-04 of the value (sums are rounded in another order)"

    def test_integers_and_bools_are_exact(self):
        big = np.array([2**62 + 1])
        assert compared(big, big - 1, 0, 0)[:2] == (
            "differs",
            f"1 of 1 elements differ, first at [0]: {2**62} instead of {2**62 + 1}; int64 has to be exact",
        )
        assert compared(np.array([True]), np.array([False]), 0, 0)[0] == "differs"

    def test_a_tolerance_by_dtype_and_by_output(self):
        def slightly(a, b):
            return my_add(a, b) + 0.01

        def verdict(tolerances):
            return parity(my_add_model(), pair(), ["ort", "eager"], module=slightly, tolerances=tolerances).rows[1]

        assert verdict(None).verdict == "differs"
        assert verdict({"float32": (0, 0.02)}).verdict == "close"
        assert verdict({"float32": (0, 0.02), "y": (0, 0.001)}).verdict == "differs"
        assert "1e-03 + 0e+00 of the value is allowed" in verdict({"y": (0, 0.001)}).reason


class TestUnavailable:
    def test_each_has_its_reason(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        monkeypatch.setattr(build, "host_path", lambda: tmp_path / "oplab_host")
        node = helper.make_node("Nothing", ["a"], ["y"], domain="somewhere")
        model = model_of([node], {"a": np.float32}, {"y": np.float32}, domains=[("somewhere", 1)])
        report = parity(model, {"a": np.ones(2, np.float32)})
        reasons = {row.backend: row.reason for row in report.rows if row.verdict == "not available"}
        assert reasons["eager"] == "no PyTorch module or function was given (module=)"
        assert reasons["exported"] == "neither a PyTorch module (module=) nor an ONNXProgram was given"
        assert reasons["reference"].startswith("onnx.reference: ") and "Nothing" in reasons["reference"]
        assert reasons["host"] == "build/lib/oplab_host is not compiled; `make setup` does it"
        assert verdicts(report)["ort"] == "failed"
        assert not any("\n" in row.reason for row in report.rows)

    def test_torch_export_that_refuses(self):
        def branches(a, b):
            return my_add(a, b) if a.sum() > 0 else my_add(a, b)

        report = parity(my_add_model(), pair(), module=branches)
        row = next(row for row in report.rows if row.backend == "exported")
        assert row.verdict == "not available" and row.reason.startswith("torch.export: ")
        assert report.passed

    def test_one_backend_is_no_comparison(self):
        report = parity(my_add_model(), pair(), ["eager", "ort"])
        assert not report.passed and report.ran == ("ort",)
        assert report.summary() == "Nothing was compared: ort alone ran."
        with pytest.raises(WrongAnswer, match=r"ort alone ran \(eager: no PyTorch module"):
            report.expect()
        assert "Nothing was compared: no backend ran." in parity(my_add_model(), pair(), ["eager"]).text()

    def test_a_backend_that_is_demanded(self):
        report = parity(my_add_model(), pair(), ["eager", "reference", "ort"])
        report.expect("ort")
        with pytest.raises(WrongAnswer, match="eager did not run: no PyTorch module"):
            report.expect("ort", "eager")
        with pytest.raises(WrongAnswer, match="host did not run: it was not asked for"):
            report.expect("host")


class TestWrongCalls:
    def test_inputs(self):
        feed = pair()
        for wrong, sentence in (
            (feed | {"c": feed["a"]}, "There is no input 'c'"),
            ({"a": feed["a"]}, r"The input b \(float32\[n, 4\]\) is missing"),
            (
                feed | {"a": feed["a"].astype(np.float64)},
                r"The input a is float64, and the model takes float32\[n, 4\]",
            ),
            (feed | {"a": feed["a"][:, :3]}, r"The input a has the shape \[3, 3\], and the model takes"),
            (feed | {"a": "text"}, "not an array of numbers"),
            (feed | {"a": torch.ones(3, 4, dtype=torch.bfloat16)}, "which NumPy does not have"),
            ([], "There are no inputs"),
            ([feed, {}], r"The input a \(.*\) of case 1 is missing"),
            ([3], "The inputs are a int"),
        ):
            with pytest.raises(OplabError, match=sentence):
                parity(my_add_model(), wrong)

    def test_options(self):
        for options, sentence in (
            ({"backends": "ort"}, "backends is the text 'ort'"),
            ({"backends": ["ort", "ort"]}, "Name each backend once"),
            ({"tolerances": {"float23": (0, 0)}}, "neither a dtype nor an output of the model"),
            ({"tolerances": {"float32": 1e-3}}, "The tolerance for float32 is 0.001"),
            ({"libraries": ["gone.so"]}, "There is no library gone.so"),
        ):
            with pytest.raises(OplabError, match=sentence):
                parity(my_add_model(), pair(), **options)


class TestText:
    def test_the_table(self):
        report = parity(
            my_add_model(), pair(), ["ort", "eager", "host", "reference"], module=lambda a, b: my_add(a, b) + 1
        )
        lines = report.text().splitlines()
        assert lines[0].split() == ["backend", "output", "type", "max", "abs", "max", "rel", "max", "ULP", "verdict"]
        assert re.match(r"ort +y +float32\[3, 4\] +base$", lines[1])
        assert re.match(
            r"eager +y +float32\[3, 4\] +1(\.0e\+00)? +\S+ +\S+ +differs: 12 of 12 elements differ", lines[2]
        )
        assert re.match(r"host +y +float32\[3, 4\] +0 +0 +0 +equal$", lines[3])
        assert (
            lines[-1]
            == "ort, host and reference do not agree with eager: the model computes something else than the module."
        )
        assert str(report) == report.text() and "do not agree with eager" in repr(report)

    BASE = np.float32([1, 2, 3])

    def test_without_errors_equal_floats_are_close_and_integers_are_equal(self):
        """On another processor the floats may be one rounding apart, and a notebook prints the same table there."""

        def shown(got, rtol=1e-5):
            verdict, reason, errors = compared(self.BASE.astype(got.dtype), got, rtol, rtol)
            row = BackendOutput("ort", "y", 0, str(got.dtype), got.shape, *errors, True, verdict, reason)
            return verdict, Report((row,), "eager", 1).text(errors=False).splitlines()[1].split()[-1]

        assert shown(self.BASE) == ("equal", "close")
        assert shown(np.nextafter(self.BASE, np.float32(9))) == ("close", "close")
        assert shown(self.BASE.astype(np.int64), 0) == ("equal", "equal")

    def test_html_and_markdown_hold_the_same_rows_and_names_are_escaped(self):
        def fails(a, b):
            raise ValueError("<b>|")

        report = parity(my_add_model(), pair(), ["ort", "eager"], module=fails)
        assert "&lt;b&gt;|" in report._repr_html_() and report._repr_html_().count("<tr>") == 3
        assert "<b>" not in report._repr_html_() and r"<b>\|" in report.markdown()
        assert len([line for line in report.markdown().splitlines() if line.startswith("|")]) == 4

    def test_json_has_every_field_and_no_infinity(self):
        report = parity(my_add_model(), pair(), ["ort", "eager"], module=lambda a, b: my_add(a, b) / 0)
        data = json.loads(json.dumps(report.as_dict(), allow_nan=False))
        assert data["passed"] is False and data["base"] == "ort"
        assert set(data["rows"][0]) == {field.name for field in dataclasses.fields(BackendOutput)}
        assert data["rows"][1]["max_abs"] == "inf"


class TestRandomInputs:
    def test_they_are_seeded_and_fit(self):
        ports = input_specs(my_add_model())
        one, same, other = (random_inputs(ports, seed, {"n": 5}) for seed in (1, 1, 2))
        assert all(np.array_equal(one[name], same[name]) for name in one)
        assert not np.array_equal(one["a"], other["a"]) and not np.array_equal(one["a"], one["b"])
        parity(my_add_model(), one).expect("ort", "host")
