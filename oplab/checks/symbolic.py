"""What the checks of mappings to ONNX share: exports of one operator over the TorchScript path, and what is required of each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from oplab.checks import exporting, graphs, nodes
from oplab.checks.evidence import Collect
from oplab.checks.expected import Expected
from oplab.checks.exporting import about
from oplab.checks.judge import Judge
from oplab.checks.ort_errors import Causes, explained, no_symbolic, refused, symbolic_causes
from oplab.onnxtools.subgraphs import every_node
from oplab.parity.arrays import WrongAnswer, describe

if TYPE_CHECKING:
    import onnx


Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]  # numbers of a size


@dataclass(frozen=True)
class Operator:
    """A PyTorch operator that an answer maps to ONNX.

    Attributes:
        name: with its namespace, ``aten::log10``; empty where nothing is registered.
        inputs: the names of its tensors in the graph.
        arguments: of its symbolic function, for messages; empty where they are not to be told.
        outputs: the names of its results in the graph.
        causes: of an exception of the exporter or of ONNX Runtime, special to the exercise.
    """

    name: str
    inputs: Sequence[str] = "x"
    arguments: str = "g, x"
    outputs: Sequence[str] = ("out",)
    causes: Causes = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """One export: what it is exported from, and the numbers in the call of the operator."""

    opset: int
    dtype: str
    shape: tuple[int, ...]
    numbers: tuple[Any, ...] = ()
    call: str = ""  # how the operator is called, for messages
    more: tuple[tuple[int, ...], ...] = ()  # the shapes of the inputs after the first; all have one if it is empty

    @property
    def title(self) -> str:
        """``opset 13, float32[2, 3], kthvalue(x, 2)``: the key of the evidence, and what a learner reads."""
        call = f", {self.call}" if self.call else ""
        shapes = " and ".join(f"{self.dtype}{list(shape)}" for shape in (self.shape, *self.more))
        return f"opset {self.opset}, {shapes}{call}"

    def shapes(self, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """The shape of each input."""
        return dict(zip(names, (self.shape, *(self.more or [self.shape] * (len(names) - 1))), strict=True))

    def along(self, numbers: Sequence[float]) -> np.ndarray:
        """Numbers along the first axis of an input, whose other axes have size 1; the first of them for an input without axes."""
        return np.array(numbers if self.shape else numbers[:1], self.dtype).reshape(
            (-1, *[1] * (len(self.shape) - 1))[: len(self.shape)]
        )


def register(c: Collect, name: str, *operators: Operator) -> None:
    """Call the learner's function, which is to register mappings of these operators; see :func:`record_registered`."""
    before = exporting.registrations()
    c.function(name)()
    record_registered(c, before, *operators)


def record_registered(c: Collect, before: Sequence[str], *operators: Operator) -> None:
    """Record what is registered, without what was ``before`` (torchvision registers its own), and what PyTorch maps itself."""
    c.value("registered", c.attempt("registered", lambda: [x for x in exporting.registrations() if x not in before]))
    for operator in operators:  # loads all mappings of PyTorch
        c.value(f"own {operator.name}", c.attempt(f"own {operator.name}", exporting.own, operator.name))
    names = [operator.name for operator in operators]
    c.value("replaced", c.attempt("replaced", exporting.replaced, *names))


def collect(
    c: Collect, operator: Operator, cases: Sequence[Case], function: Callable[[Case], Callable[..., Any]]
) -> None:
    """Export what ``function`` makes of each case over the TorchScript path, every axis dynamic; each model or exception is evidence."""
    import torch

    if twice := [
        case.title for number, case in enumerate(cases) if case.title in [one.title for one in cases[:number]]
    ]:
        raise ValueError(f"two cases have the title {twice[0]!r}: give each its call=")
    for case in cases:
        shapes, dtype = case.shapes(operator.inputs), getattr(torch, case.dtype)
        ones = {name: torch.ones(shape, dtype=dtype) for name, shape in shapes.items()}
        exporting.record(c, case.title, function(case), ones, case.opset, outputs=operator.outputs)


def translated(v: Judge, operator: Operator, title: str, opset: int) -> onnx.ModelProto:
    """The model recorded under ``title``, in which the learner's mapping was used, or why there is none."""
    registered = [str(entry) for entry in v.value("registered")] if operator.name else []
    if operator.name:
        exporting.expect_in_use(title, operator.name, opset, registered, v.value(f"own {operator.name}"))
    error = v.error(title)
    if error and error.type == "UnsupportedOperatorError" and operator.name:
        if error.where:  # raised by a function of the answer
            raise refused(error, title, operator.name, registered, opset)
        raise no_symbolic(title, operator.name, registered, opset)
    if error and error.type != "LearnerError":
        raise explained(
            error, title, operator.causes, symbolic_causes(operator.arguments, outputs=len(operator.outputs))
        )
    if operator.name:
        exporting.expect_only_mine(v.value("replaced"))
    model = v.model(title)
    if operator.name in graphs.ops(model):  # a library's operator is left as it is, without an error
        raise WrongAnswer(
            f"The graph has the PyTorch operator {operator.name}, untranslated: the symbolic function returned None, or it wrote a node "
            "of that name."
        )
    return model


def exported(v: Judge, operator: Operator, case: Case, used: Sequence[str] | None = None) -> onnx.ModelProto:
    """The model of a case, with what holds for each: its opset, inputs that are used and dynamic, its outputs.

    Args:
        used: the inputs that an output depends on, if not all of them.
    """
    model = translated(v, operator, case.title, case.opset)
    graphs.expect_opset(model, case.opset)
    graphs.expect_inputs(model, operator.inputs)
    graphs.expect_outputs(model, operator.outputs)
    graphs.expect_used(model, operator.inputs if used is None else used)
    for name, shape in case.shapes(operator.inputs).items():
        graphs.expect_dynamic(model, name, range(len(shape)))
    return model


def standard(
    v: Judge,
    operator: Operator,
    cases: Sequence[Case],
    *,
    used: Callable[[Case], Sequence[str] | None] = lambda case: None,
    also: Callable[[onnx.ModelProto, Case], None] = lambda model, case: None,
) -> dict[Case, onnx.ModelProto]:
    """The models of all cases: valid graphs of ONNX's own operators.

    Args:
        used: as for :func:`exported`.
        also: what else is required of a model, before onnx.checker.
    """
    models = {}
    for case in cases:
        with about(case.title):
            models[case] = model = exported(v, operator, case, used(case))
            nodes.expect_standard(model)
            also(model, case)
            expect_valid(model)
    return models


def run(model: onnx.ModelProto, operator: Operator, case: Case, feeds: Mapping[str, np.ndarray]) -> np.ndarray:
    """Run a model, with the course's kernels if it has foreign nodes, and demand the shape and dtype of the inputs for its result."""
    exported = np.broadcast_shapes(case.shape, *case.more)
    feeds = {name: np.asarray(feed) for name, feed in feeds.items()}  # NumPy computes scalars from arrays without axes
    try:
        (got,) = graphs.run(model, feeds, kernels=bool(nodes.foreign(model)), causes=operator.causes)
    except WrongAnswer as error:
        others = any(feeds[name].shape != shape for name, shape in case.shapes(operator.inputs).items())
        cause = exporting.baked(exported) if others and "cannot run" in str(error) else ""
        raise WrongAnswer(f"{str(error).rstrip('.')}.{cause}") from None
    wanted = np.broadcast_shapes(*(feed.shape for feed in feeds.values()))
    exporting.expect_shape(got, wanted, exported, " and ".join(map(describe, feeds.values())))
    if (found := str(got.dtype)) != case.dtype:
        hint = (
            f" A {found} constant that has axes, such as torch.tensor([2.0], dtype=torch.{found}), lifts everything to {found}: "
            "leave the brackets out, then the exporter turns it into the dtype of x."
        )
        lifted = got.dtype.kind == "f" and got.dtype.itemsize > np.dtype(case.dtype).itemsize
        raise WrongAnswer(
            f"The inputs are {case.dtype}, the result is {found}.{hint if lifted and not nodes.foreign(model) else ''}"
        )
    return got


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


def expect_single(model: onnx.ModelProto, name: str) -> None:
    """One operator of ONNX, and apart from it only constants."""
    if name not in graphs.ops(model):  # a name that ONNX does not know is the better reason
        expect_valid(model)
    graphs.expect_ops(model, {name: 1})
    nodes.expect_alone(model, name)


def expect_valid(model: onnx.ModelProto) -> None:
    """onnx.checker with full shape inference, and the usual cause of its refusal here."""
    try:
        graphs.expect_valid(model)
    except WrongAnswer as error:
        reason = str(error).rstrip(".")
        if cause := _why_invalid(model, reason):
            raise WrongAnswer(f"{reason}. {cause}") from None
        raise


def _why_invalid(model: onnx.ModelProto, reason: str) -> str:
    import onnx.defs

    opset, first = graphs.opset(model), dict[str, int]()
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            first[schema.name] = min(first.get(schema.name, schema.since_version), schema.since_version)
    found = [name for name in graphs.ops(model) if "::" not in name]
    if late := [f"{name} (since opset {first[name]})" for name in found if first.get(name, 0) > opset]:
        return f"Opset {opset} does not have {', '.join(late)} yet."
    if "Equal" in reason and opset < 11:
        return "Equal takes float tensors only since opset 11; Cast to BOOL takes them at every opset."
    if unknown := [name for name in found if name not in first]:
        near = {other.lower(): other for other in first}.get(unknown[0].lower())
        hint = f" It is spelled {near}: names of operators are case-sensitive." if near else ""
        return f"ONNX has no operator {unknown[0]}, and g.op does not check that.{hint}"
    return next((cause for words, cause in _INVALID.items() if all(word in reason for word in words)), "")


_INVALID = {  # what the checker's reason contains, and the usual cause
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


def normal(rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    """Numbers of both signs, of which 2 in 3 are at most 3 from 0."""
    return rng.normal(scale=3, size=size)


def expect_numbers(
    v: Judge,
    operator: Operator,
    models: Mapping[Case, onnx.ModelProto],
    expected: Callable[[Case], Expected],
    draw: Draw = normal,
) -> None:
    """Demand the right numbers where all inputs have one shape: at a size that was not exported, and of empty tensors.

    Args:
        expected: the right result of a case, and its mistakes.
        draw: numbers for one input.
    """
    for case, model in models.items():
        for size in (exporting.sizes(v.rng, len(case.shape)), (0,) * len(case.shape)):
            with about(case.title):
                feeds = {name: np.asarray(draw(v.rng, size), case.dtype) for name in operator.inputs}
                expect(model, operator, case, feeds, expected(case))


def expect(
    model: onnx.ModelProto,
    operator: Operator,
    case: Case,
    feeds: Mapping[str, np.ndarray],
    expected: Expected,
    name: str = "",
) -> None:
    """Run a model, and demand the dtype of its inputs and the expected numbers; ``name`` is what a message calls the result."""
    short = operator.name.rpartition(":")[2]
    name = name or f"{short} of {' and '.join(map(describe, feeds.values()))}"
    expected.judge(run(model, operator, case, feeds), *feeds.values(), name=name)


def judge(
    v: Judge,
    operator: Operator,
    cases: Sequence[Case],
    expected: Callable[[Case], Expected],
    draw: Draw = normal,
    *,
    special: Callable[[Case], Sequence[float]] = lambda case: (),
    native: tuple[str, int] | None = None,
) -> dict[Case, onnx.ModelProto]:
    """Judge a mapping to ONNX's own nodes whose inputs and result have one shape; the models are for what else is to hold.

    Args:
        expected, draw: as for :func:`expect_numbers`.
        special: numbers that are tried, too: where something overflows, 0, NaN.
        native: ONNX's own operator and the opset from which the graph has to be this one node.
    """
    models: dict[Case, onnx.ModelProto] = {}
    with v.check("valid graphs of standard operators at each opset, without a Cast"):
        models = standard(v, operator, cases, also=lambda model, case: expect_no_cast(model))
    if v.ok:
        with v.check("the numbers of PyTorch in the dtype of the inputs, at sizes that were not exported"):
            expect_numbers(v, operator, models, expected, draw)
    tried = [(case, numbers) for case in cases if (numbers := list(special(case)))]
    if v.ok and tried:
        with v.check("special numbers"):
            for case, numbers in tried:
                with about(case.title):
                    feeds = {name: case.along(numbers) for name in operator.inputs}
                    name = f"{operator.name.rpartition(':')[2]} of {numbers}"
                    expect(models[case], operator, case, feeds, expected(case), name)
    if v.ok and native:
        with v.check(f"one {native[0]} from opset {native[1]} on"):
            for case, model in models.items():
                if case.opset >= native[1]:
                    with about(case.title):
                        expect_single(model, native[0])
    return models
