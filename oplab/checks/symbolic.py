"""What the checks of mappings to ONNX share: exports of one operator over the TorchScript path, and what is required of each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from oplab.checks import exporting, graphs, nodes
from oplab.checks.evidence import Collect
from oplab.checks.expected import Expected
from oplab.checks.exporting import about
from oplab.checks.judge import Judge
from oplab.checks.ort_errors import NO_CAUSES, Causes, explained, symbolic_causes
from oplab.onnxtools.subgraphs import every_node
from oplab.parity.arrays import WrongAnswer, describe

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class Case:
    """One export: what it is exported from, and the numbers in the call of the operator."""

    opset: int
    dtype: str
    shape: tuple[int, ...]
    numbers: tuple[Any, ...] = ()
    call: str = ""  # how the operator is called, for messages

    @property
    def title(self) -> str:
        """``opset 13, float32[2, 3], kthvalue(x, 2)``: the key of the evidence, and what a learner reads."""
        call = f", {self.call}" if self.call else ""
        return f"opset {self.opset}, {self.dtype}{list(self.shape)}{call}"


def collect(
    c: Collect,
    cases: Sequence[Case],
    function: Callable[[Case], Callable[..., Any]],
    names: Sequence[str],
    outputs: Sequence[str] = ("out",),
) -> None:
    """Export what ``function`` makes of each case over the TorchScript path, every axis dynamic; each model or exception is evidence."""
    import torch

    for number, case in enumerate(cases):
        ones = torch.ones(case.shape, dtype=getattr(torch, case.dtype))
        path = c.scratch / f"{number}.onnx"
        c.attempt(
            case.title, exporting.export, function(case), dict.fromkeys(names, ones), case.opset, path, outputs=outputs
        )
        c.file(case.title, path)


def register(c: Collect, name: str, operator: str) -> None:
    """Call the learner's function, which is to register a mapping of ``operator``, and record what is registered afterwards."""
    c.function(name)()
    c.value("registered", c.attempt("registered", exporting.registrations))
    c.value("replaced", c.attempt("replaced", exporting.replaced, operator))
    c.value("own", c.attempt("own", exporting.own, operator))


def exported(
    v: Judge,
    case: Case,
    operator: str,
    names: Sequence[str],
    arguments: str,
    outputs: Sequence[str] = ("out",),
    used: Sequence[str] | None = None,
    causes: Causes = NO_CAUSES,
) -> onnx.ModelProto:
    """The model of a case, with what holds for each: its opset, inputs that are used and dynamic, its outputs.

    Args:
        used: the inputs that an output depends on, if not all of them.
        operator: the PyTorch operator, ``aten::log10``; its mapping has to be the learner's. An empty text: nothing is registered.
        arguments: the arguments of its symbolic function, for messages.
        causes: of an exception, special to the exercise.
    """
    if operator:
        registered = [str(entry) for entry in v.value("registered")]
        exporting.expect_in_use(case.title, operator, case.opset, registered, v.value("own"))
    error = v.error(case.title)
    if error and error.type != "LearnerError":
        raise explained(error, case.title, causes, symbolic_causes(arguments, len(outputs)))
    if operator:
        exporting.expect_only_mine(v.value("replaced"))
    model = v.model(case.title)
    graphs.expect_opset(model, case.opset)
    graphs.expect_inputs(model, names)
    graphs.expect_outputs(model, outputs)
    graphs.expect_used(model, names if used is None else used)
    for name in names:
        graphs.expect_dynamic(model, name, range(len(case.shape)))
    return model


def run(
    model: onnx.ModelProto, case: Case, feeds: dict[str, np.ndarray], causes: Causes = NO_CAUSES
) -> list[np.ndarray]:
    """Run a model, with the course's kernels if it has foreign nodes, and demand the shape of the first input for each result."""
    first = next(iter(feeds.values()))
    try:
        results = graphs.run(model, feeds, kernels=bool(nodes.foreign(model)), causes=causes)
    except WrongAnswer as error:
        cause = exporting.baked(case.shape) if "cannot run" in str(error) else ""
        raise WrongAnswer(f"{str(error).rstrip('.')}.{cause}") from None
    for got in results:
        exporting.expect_shape(got, first.shape, case.shape, describe(first))
    return results


def expect_no_cast(model: onnx.ModelProto) -> None:
    """No conversion between dtypes: where there is one, a constant of another dtype has usually asked for it."""
    if "Cast" not in graphs.ops(model):
        return
    (first, *_) = (node for node in every_node(model) if node.op_type == "Cast")
    target = next((attribute.i for attribute in first.attribute if attribute.name == "to"), 0)
    import onnx

    name = onnx.TensorProto.DataType.Name(target)
    cause = (
        "The exporter adds one where two inputs of a node differ in dtype and one of them is a constant with axes, or is computed: "
        "give the constant the dtype of x, or leave its axes out."
    )
    if name == "DOUBLE":
        cause = (
            "The exporter silently adds it where x meets a float64 constant with axes, such as "
            + "torch.tensor([2.0], dtype=torch.float64). Without the brackets the constant takes the dtype of x."
        )
    raise WrongAnswer(f"The graph has a Cast to {name}, none is needed. {cause}")


def expect_valid(model: onnx.ModelProto) -> None:
    """onnx.checker with full shape inference, and the usual cause of its refusal here."""
    try:
        graphs.expect_valid(model)
    except WrongAnswer as error:
        reason = str(error).rstrip(".")
        cause = next((cause for words, cause in _INVALID.items() if all(word in reason for word in words)), None)
        if cause is None:
            raise
        raise WrongAnswer(f"{reason}. {cause.format(opset=graphs.opset(model))}") from None


_INVALID = {  # what the checker's reason contains, and the usual cause
    ("No Op registered for",): "g.op does not check whether ONNX has an operator of that name at opset {opset}.",
    ("Unrecognized attribute", "Clip"): (
        "Clip has the attributes min and max up to opset 10; from opset 11 on they are inputs."
    ),
    ("schema(::Clip:6) has input size",): (
        "Clip takes its bounds as inputs only since opset 11; before that they are attributes."
    ),
    ("Unrecognized attribute: axes", "Squeeze"): (
        "From opset 13 on the axes of Squeeze are an input. Gather with an index without axes needs no Squeeze."
    ),
    ("inconsistent type",): (
        "Inputs that share a type need constants of exactly that dtype: torch.tensor(number, dtype=x.type().dtype())."
    ),
}


def judge(
    v: Judge,
    cases: Sequence[Case],
    operator: str,
    names: Sequence[str],
    arguments: str,
    expected: Callable[[Case], Expected],
    draw: Callable[[np.random.Generator, tuple[int, ...]], np.ndarray] = lambda rng, size: rng.normal(
        scale=3, size=size
    ),
) -> dict[Case, onnx.ModelProto]:
    """Judge a mapping to ONNX's own nodes whose inputs and result have one shape; the models are for what else is to hold.

    Args:
        operator, names, arguments: as for :func:`exported`.
        expected: the right result of a case, and its mistakes.
        draw: numbers for one input.
    """
    models = {}
    with v.check("valid graphs of standard operators at each opset, without a Cast"):
        for case in cases:
            with about(case.title):
                models[case] = model = exported(v, case, operator, names, arguments)
                nodes.expect_standard(model)
                expect_no_cast(model)
                expect_valid(model)
    if not v.ok:
        return models
    with v.check("the numbers of PyTorch in the dtype of the inputs, at sizes that were not exported"):
        for case in cases:
            for size in (exporting.sizes(v.rng, len(case.shape)), (0,) * len(case.shape)):
                with about(case.title):
                    feeds = {name: np.asarray(draw(v.rng, size), case.dtype) for name in names}
                    expect(models[case], case, feeds, expected(case))
    return models


def expect(
    model: onnx.ModelProto, case: Case, feeds: dict[str, np.ndarray], expected: Expected, name: str = ""
) -> None:
    """Run a model, and demand the dtype of its inputs and the expected numbers; ``name`` is what a message calls the result."""
    (got,) = run(model, case, feeds)
    if str(got.dtype) != case.dtype:
        raise WrongAnswer(f"{' and '.join(feeds)} is {case.dtype}, the result is {got.dtype}.")
    expected.judge(got, *feeds.values(), name=name or f"the result for {' and '.join(map(describe, feeds.values()))}")
