"""What a learner reads of real exceptions: those of ONNX Runtime and of both exporters."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper

from oplab.checks import exporting, graphs
from oplab.checks.errors import LearnerError, RecordedError, first_line
from oplab.checks.ort_errors import (
    OUTPUT_TYPE,
    RUNTIME,
    TRANSLATION,
    UNREGISTERED,
    cause,
    explained,
    no_symbolic,
    sentence,
    symbolic_causes,
)
from oplab.errors import first_line as plain_first_line
from oplab.parity.arrays import WrongAnswer


def model(op: str, domain: str = "", gives: int = TensorProto.FLOAT, takes: int = TensorProto.FLOAT) -> onnx.ModelProto:
    node = helper.make_node(op, ["x"], ["y"], domain=domain)
    x, y = (helper.make_tensor_value_info(name, kind, [3]) for name, kind in (("x", takes), ("y", gives)))
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("lab", 1)]
    return helper.make_model(helper.make_graph([node], "graph", [x], [y]), opset_imports=opsets, ir_version=10)


def refused(made: onnx.ModelProto, feeds: np.ndarray | None = None, **special: str) -> str:
    with pytest.raises(WrongAnswer) as error:
        graphs.run(made, {"x": np.zeros(3, np.float32) if feeds is None else feeds}, causes=special)
    return str(error.value)


@pytest.mark.parametrize(
    ("made", "feeds", "words"),
    [
        (model("Nope", "lab"), None, UNREGISTERED),
        (model("Nope"), None, "No Op registered for"),
        (model("Relu", "other"), None, "No opset import for domain"),
        (model("Relu", gives=TensorProto.INT64), None, OUTPUT_TYPE),
        (model("Relu", takes=TensorProto.STRING, gives=TensorProto.STRING), None, "of input parameter … is invalid"),
        (model("Asinh", takes=TensorProto.DOUBLE, gives=TensorProto.DOUBLE), None, "Could not find an implementation"),
        (model("Relu"), np.zeros(4, np.float32), "Got invalid dimensions"),
        (model("Relu"), np.zeros(3), "Unexpected input data type"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_message_of_the_runtime_gets_its_meaning(made, feeds, words):
    message = refused(made, feeds)
    assert message.endswith(f". {RUNTIME[words]}")
    assert "[ONNXRuntimeError]" in message


# --- exporters -----------------------------------------------------------------------------------------------------


def torchscript(symbolic, function=torch.asinh) -> RecordedError:
    """What the TorchScript path raises with this symbolic function of aten::asinh."""
    torch.onnx.register_custom_op_symbolic("aten::asinh", symbolic, 9)
    try:
        with pytest.raises(Exception) as error:
            exporting.export(function, {"x": torch.ones(2, 3)}, 15, Path(os.devnull))
    finally:
        torch.onnx.unregister_custom_op_symbolic("aten::asinh", 9)
    return RecordedError(error.type.__name__, first_line(error.value), "answer.py, line 3")


@pytest.mark.parametrize(
    ("symbolic", "words"),
    [
        (lambda g, x: None, "Couldn't export operator"),
        (lambda g, x: 3, "Error casting results"),
        (lambda g, x: x + 1, "unsupported operand type"),
        (lambda g, x: g.op("Relu", 3.0), "z_(): incompatible"),
        (lambda g, x: g.op("Relu", x, alpha_f=x), "f_(): incompatible"),
        (torch.onnx.symbolic_helper.parse_args("i")(lambda g, x: x), "Expected node type 'onnx::Constant'"),
        (torch.onnx.symbolic_helper.parse_args()(lambda g, x: x), "number of arguments"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_symbolic_functions_exception_gets_its_cause(symbolic, words):
    table = symbolic_causes("g, x")
    found = explained(torchscript(symbolic), "opset 15", table)
    assert str(found).startswith("opset 15: ") and str(found).endswith(f" (answer.py, line 3). {table[words]}")
    assert type(found) is WrongAnswer


def test_an_exception_without_a_known_cause_is_the_learners_own():
    error = RecordedError("KeyError", "KeyError: 'beta'", "answer.py, line 3")
    found = explained(error, "opset 15", symbolic_causes())
    assert type(found) is LearnerError and str(found) == "opset 15: KeyError: 'beta' (answer.py, line 3)."
    assert type(explained(RecordedError("KeyError", "KeyError: 1", ""), "opset 15")) is WrongAnswer
    known = {"KeyError": "It has no beta."}
    assert type(explained(error, "opset 15", known)) is WrongAnswer
    assert type(explained(error, "opset 15", known, raised=True)) is LearnerError


def test_an_operator_without_a_symbolic_function():
    with pytest.raises(torch.onnx.errors.UnsupportedOperatorError):
        exporting.export(torch.special.i0, {"x": torch.ones(2, 3)}, 15, Path(os.devnull))
    assert "Nothing is registered" in str(no_symbolic("opset 15", "aten::i0", [], 15))
    late = str(no_symbolic("opset 15", "aten::i0", ["aten::i0 from opset 17"], 15))
    assert late.endswith(
        "Registered: aten::i0 from opset 17. The version is the earliest opset that the function serves, and it has to serve opset 15."
    )
    other = str(no_symbolic("opset 15", "aten::i0", ["i0 from opset 9"], 15))
    assert other.endswith("The name has to be the operator's own, with its namespace: aten::i0.")


def test_pytorchs_own_mapping_at_a_later_opset_hides_a_registration():
    registered, own = ["aten::gelu from opset 9"], [9, 20]
    exporting.expect_in_use("opset 19", "aten::gelu", 19, registered, own)
    with pytest.raises(WrongAnswer, match="PyTorch's own mapping of aten::gelu, which is there from opset 20 on"):
        exporting.expect_in_use("opset 20", "aten::gelu", 20, registered, own)


def dynamo(function, table=None) -> str:
    """What the dynamo path gives as the reason why it does not export a function."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    with pytest.raises(exporting.ExportError) as error, warnings.catch_warnings(), exporting.reasons():
        warnings.simplefilter("ignore")
        torch.onnx.export(Model(), (torch.ones(2, 3),), dynamo=True, custom_translation_table=table, verbose=False)
    return first_line(error.value)


@pytest.fixture(scope="module")
def custom():
    @torch.library.custom_op("test_ort_errors::double", mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    return torch.ops.test_ort_errors.double, double


@pytest.mark.nightly  # two of them are in wrong answers of chapters 03 and 16, too
def test_the_dynamo_paths_reasons_get_their_causes(custom):
    operator, definition = custom
    message = dynamo(operator)
    assert cause(message, TRANSLATION) == TRANSLATION["no fake impl"]
    definition.register_fake(torch.empty_like)
    message = dynamo(operator)
    assert cause(message, TRANSLATION) == TRANSLATION["No ONNX function found"]
    assert sentence(message, TRANSLATION).startswith("DispatchError: No ONNX function found")  # not ExportError: …
    assert cause(dynamo(lambda x: x if x.sum() > 0 else -x), TRANSLATION) == TRANSLATION["data-dependent"]


# --- one rule for all messages -------------------------------------------------------------------------------------


def summarised(function) -> tuple[str, str]:
    """What a learner reads where the dynamo path's own exception is recorded, with its advice around the cause, and the whole text."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    with pytest.raises(torch.onnx.OnnxExporterError) as error, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(Model(), (torch.ones(2, 3),), dynamo=True, verbose=False)
    return first_line(error.value), str(error.value)


def test_the_dynamo_paths_advice_is_left_out_and_the_cause_is_kept():
    message, whole = summarised(lambda x: x if x.sum() > 0 else -x)
    assert (
        "\x1b[96m" in whole and "submit a PR" in whole and "Create an issue" in whole
    )  # else there is nothing to leave out
    assert message.startswith(
        "TorchExportError: GuardOnDataDependentSymNode: Could not guard on data-dependent expression"
    )
    assert not any(words in message for words in ("\x1b", "submit a PR", "issue", "Next steps", "step 1/3"))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (
            "It is not supported. Please feel free to request support or submit a pull request on PyTorch GitHub: "
            "https://github.com/pytorch/pytorch/issues.",
            "It is not supported.",
        ),
        ("\x1b[31;1mred\x1b[0m", "red"),
        ("The reported issue is fine. Shapes [2, 3] and [3].", "The reported issue is fine. Shapes [2, 3] and [3]."),
    ],
)
def test_colours_boxes_and_advice_are_left_out(text, left):
    assert first_line(ValueError(text)) == f"ValueError: {left}"
    assert sentence(text) == f"{left.rstrip('.')}."
    assert plain_first_line(ValueError(text)) in left
