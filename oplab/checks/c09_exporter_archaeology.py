"""Checks of chapter 09: old export code, carried to today. Calls are counted without the learner's help, and graphs are read again."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from oplab.checks import exporting, graphs, nodes
from oplab.checks.errors import first_line
from oplab.checks.evidence import Collect, shown
from oplab.checks.expected import Expected
from oplab.checks.exporting import about
from oplab.checks.judge import Judge
from oplab.checks.ort_errors import explained, sentence, symbolic_causes
from oplab.checks.symbolic import (
    Case,
    Operator,
    collect,
    expect,
    expect_numbers,
    expect_single,
    expect_valid,
    exported,
    register,
    run,
)
from oplab.onnxtools.names import node_type
from oplab.parity.arrays import WrongAnswer, describe, expect_close

if TYPE_CHECKING:
    import onnx
    import torch


def as_module(function: Callable[..., torch.Tensor]) -> torch.nn.Module:
    import torch

    class Model(torch.nn.Module):
        def forward(
            self, points: torch.Tensor
        ) -> torch.Tensor:  # not x: the input's name has to be given to the export
            return function(points)

    return Model().eval()


# --- port_register_op ----------------------------------------------------------------------------------------------

COSH_OP = Operator("aten::cosh", outputs=("y",))
COSH = [Case(opset, "float32", (2, 3), call="cosh(x)") for opset in range(9, 21)]
COSH += [Case(9, "float32", (), call="cosh(x)"), Case(20, "float32", (2, 1, 3), call="cosh(x)")]
OLD = [Case(opset, "float32", (2, 3), call="cosh(x)") for opset in (7, 8)]


def _scale_case(opset: int, shape: tuple[int, ...], factor: float) -> Case:
    return Case(opset, "float32", shape, (factor,), f"scale(x, {factor:g})")


SCALE_OP = Operator("relics::scale", arguments="g, x, factor", outputs=("y",))
SCALE = [_scale_case(opset, (2, 3), factor) for opset in (9, 15, 16, 20) for factor in (2.5, -0.125)]
SCALE += [_scale_case(13, (), 3.0), _scale_case(10, (2, 3), 0.0), _scale_case(12, (2, 3), 1 / 3)]
SCALE += [_scale_case(18, (2, 3), 1e-3)]
TWICE = Case(13, "float32", (2, 3), (2.5, -0.75), "scale(scale(x, 2.5) + 1, -0.75)")


def _scale_function(case: Case) -> Callable[..., torch.Tensor]:
    import torch

    scale, (first, *second) = torch.ops.relics.scale, case.numbers
    return lambda x: scale(scale(x, first) + 1, *second) if second else scale(x, first)


def collect_port_register_op(c: Collect) -> None:
    import torch

    from oplab.archaeology import relics

    relics.load()
    register(c, "port_register_op", COSH_OP, SCALE_OP)
    collect(c, COSH_OP, COSH + OLD, lambda case: torch.cosh)
    collect(c, SCALE_OP, [*SCALE, TWICE], _scale_function)


def judge_port_register_op(v: Judge) -> None:
    cosh: dict[Case, onnx.ModelProto] = {}
    scale: dict[Case, onnx.ModelProto] = {}
    with v.check("cosh is one Cosh at every opset from 9 on"):
        for case in COSH:
            with about(case.title):
                cosh[case] = model = exported(v, COSH_OP, case)
                expect_single(model, "Cosh")
                expect_valid(model)
    with v.check("the plugin's scale is one Mul at every opset from 9 on"):
        for case in SCALE:
            with about(case.title):
                scale[case] = model = exported(v, SCALE_OP, case)
                expect_single(model, "Mul")
                expect_valid(model)
        with about(TWICE.title):
            twice = exported(v, SCALE_OP, TWICE)
            graphs.expect_ops(twice, {"Mul": 2, "Add": 1})
    with v.require("no invalid model of cosh at opsets 7 and 8"):
        for case in OLD:
            if v.error(case.title):
                continue
            try:
                model = v.model(case.title)
                graphs.expect_valid(model)
            except WrongAnswer as error:
                raise WrongAnswer(
                    f"{case.title}: the export writes a model that is not valid: {str(error).rstrip('.')}. "
                    "Below opset 9 the look-up goes up, so the registration at 9 answers here too. Register a function at 8 that refuses."
                ) from None
            with about(case.title):
                _run_cosh(v, model, case, (4, 5))
    with v.check("cosh matches PyTorch, at sizes that were not exported"):
        for case, model in cosh.items():
            with about(case.title):
                for size in (exporting.sizes(v.rng, len(case.shape)), (0,) * len(case.shape)):
                    _run_cosh(v, model, case, size)
    with v.check("scale matches PyTorch, at sizes that were not exported"):
        expect_numbers(v, SCALE_OP, scale, lambda case: expected_scale(*case.numbers))
        with about(TWICE.title):
            first, second = map(np.float32, TWICE.numbers)
            x = np.asarray(v.rng.normal(scale=3, size=exporting.sizes(v.rng, 2)), np.float32)
            got = run(twice, SCALE_OP, TWICE, {"x": x})
            expect_close(got, (x * first + 1) * second, name=f"the result for {describe(x)}")


def expected_scale(factor: float) -> Expected:
    """One product in float32: the factor is rounded once, and the product once, so 2^-23 of the value and less than 1e-6."""
    return Expected(
        lambda x: x * np.float32(factor),
        {
            "The result is x itself: the factor is lost.": lambda x: x,
            "The factor was cut off to an integer.": lambda x: x * int(factor),
        },
        tolerance={"float32": (1e-6, 0.0)},
    )


def _run_cosh(v: Judge, model: onnx.ModelProto, case: Case, size: tuple[int, ...]) -> None:
    for bound in (4, 80):  # e^80 is 5e34, and its square leaves the range of float32
        x = np.asarray(v.rng.uniform(-bound, bound, size=size), np.float32)
        x.flat[:1] = bound  # the largest is always there
        name = f"cosh of {describe(x)}, numbers up to {bound}"
        expect(model, COSH_OP, case, {"x": x}, EXPECTED_COSH, name)


EXPECTED_COSH = Expected(
    np.cosh,
    {
        "The result is sinh(x).": np.sinh,
        "The result is e^x + e^-x: the half is missing.": lambda x: 2 * np.cosh(x),
        "This is (e^2x + 1) / (2 e^x): e^2x leaves the range of float32 from x = 44.4 on.": lambda x: (
            (np.exp(x.astype(np.float32)) ** 2 + 1) / (2 * np.exp(x))
        ),
    },
)


# --- port_python_op ------------------------------------------------------------------------------------------------

# Chains of Functions: (name, arguments), with ordinary operators at "add" and "relu".
CHAINS: dict[str, list[tuple[str, tuple[float, ...]]]] = {
    "clip, relu": [("MyClip", (-1.0, 0.75)), ("MyRelu", ())],
    "relu, scale, relu": [("MyRelu", ()), ("MyScale", (-2.5,)), ("add", (1.0,)), ("MyRelu", ())],
    "clip, clip, scale": [("MyClip", (-2, 2)), ("relu", ()), ("MyClip", (-0.5, 1.5)), ("MyScale", (0.3,))],
    "clip from 0, scale, clip to 0": [
        ("MyClip", (0.0, 1.25)),
        ("MyScale", (-1e-3,)),
        ("MyClip", (-1.0, 0.0)),
        ("MyScale", (1 / 3,)),
    ],
}
# The shape of each example: its second axis is fixed.
EXAMPLES = dict(zip(CHAINS, ((2, 3), (4, 3), (2, 5), (3, 1)), strict=True))
# A Function that no handler was asked for, by itself, after a known one, and with a name that begins or ends like a known one.
UNKNOWN: dict[str, list[tuple[str, tuple[float, ...]]]] = {
    "unknown": [("MyRelu", ()), ("MySwish", ())],
    "unknown, a longer name": [("MyRelu6", ())],
    "unknown, a name at the end": [("NotMyScale", ())],
}
_NODES = {"MyClip": "Clip", "MyRelu": "Relu", "MyScale": "relics::Scale", "add": "Add", "relu": "Relu"}


def _chain(steps: Sequence[tuple[str, tuple[float, ...]]]) -> torch.nn.Module:
    import torch

    from oplab.archaeology import relics

    class MyRelu6(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clamp(0, 6)

    class NotMyScale(MyRelu6):
        pass

    functions = {name: getattr(relics, name) for name in ("MyClip", "MyRelu", "MyScale", "MySwish")} | {
        "MyRelu6": MyRelu6,
        "NotMyScale": NotMyScale,
    }

    def forward(x: torch.Tensor) -> torch.Tensor:
        for name, arguments in steps:
            ordinary = {"add": torch.add, "relu": torch.relu}.get(name)
            x = ordinary(x, *arguments) if ordinary else functions[name].apply(x, *arguments)
        return x

    return as_module(forward)


def _computed(steps: Sequence[tuple[str, tuple[float, ...]]], x: np.ndarray) -> np.ndarray:
    for name, arguments in steps:
        numbers = [np.float32(value) for value in arguments]
        if name == "MyClip":
            x = np.clip(x, *numbers)
        elif name in ("MyRelu", "relu"):
            x = np.maximum(x, np.float32(0))
        else:
            x = x * numbers[0] if name == "MyScale" else x + numbers[0]
    return x


@contextmanager
def counted(seen: list[str]) -> Iterator[None]:
    """Writes down each call of a handler that is registered for Functions inside the block, whatever the handler itself counts."""
    from torch.onnx._internal.torchscript_exporter.registration import SymbolicRegistry

    plain = SymbolicRegistry.register

    def register(self: Any, name: str, opset: int, func: Callable[..., Any], custom: bool = False) -> None:
        def call(g: Any, *args: Any, **kwargs: Any) -> Any:
            seen.append(str(kwargs.get("name", "?")))
            return func(g, *args, **kwargs)

        plain(self, name, opset, call if name == "prim::PythonOp" else func, custom)

    SymbolicRegistry.register = register
    try:
        yield
    finally:
        SymbolicRegistry.register = plain


def _pairs(value: Any) -> Any:
    """A dict as a list of pairs: evidence knows no dicts."""
    return [[key, entry] for key, entry in sorted(value.items(), key=str)] if isinstance(value, dict) else value


def collect_port_python_op(c: Collect) -> None:
    import torch

    port = c.function("port_python_op")
    seen: list[str] = []
    with counted(seen), warnings.catch_warnings():  # one list: a handler that is registered once serves every export
        warnings.simplefilter("ignore")
        for number, (title, steps) in enumerate({**CHAINS, **UNKNOWN}.items()):
            path, shape = c.scratch / f"{number}.onnx", EXAMPLES.get(title, (2, 3))
            seen.clear()
            c.value(f"{title}: returned", _pairs(c.attempt(title, port, _chain(steps), torch.ones(shape), path)))
            c.file(title, path)
            c.value(f"{title}: written", path.exists())
            c.value(f"{title}: calls", list(seen))
            c.value(f"{title}: registered", c.attempt(f"{title}: registered", exporting.registrations))


def _names(steps: Sequence[tuple[str, tuple[float, ...]]]) -> list[str]:
    return [name for name, _ in steps if name.startswith("My")]


def judge_port_python_op(v: Judge) -> None:
    models: dict[str, onnx.ModelProto] = {}
    with v.check("the handler is called, once for each use of a Function"):
        for title, steps in CHAINS.items():
            with about(title):
                _expect_called(v, title, _names(steps))
    with v.require("each Function is the node that the handler writes"):
        for title, steps in CHAINS.items():
            with about(title):
                error = v.error(title)
                if error and "Couldn't export Python operator" in error.message:
                    raise explained(error, title, _NOTHING_RETURNED)
                models[title] = model = v.model(title)
                _expect_chain(model, steps)
    with v.check("shapes and types are kept, with the dynamic axis"):
        for title, model in models.items():
            with about(title):
                _expect_shapes(model, EXAMPLES[title])
    with v.check("the calls are returned, counted for each export"):
        before: list[str] = []
        for title, steps in CHAINS.items():
            with about(title):
                _expect_counts(v.value(f"{title}: returned"), _names(steps), before)
            before += _names(steps)
    with v.check("matches PyTorch, at batch sizes that were not exported"):
        for title, steps in CHAINS.items():
            with about(title):
                for batch in (1, int(v.rng.integers(4, 9)), 0):
                    x = np.asarray(v.rng.normal(scale=2, size=(batch, EXAMPLES[title][1])), np.float32)
                    if batch > 1:  # beyond all bounds, on both sides: random signs alone are sometimes all the same
                        x[0], x[1] = -v.rng.uniform(2.5, 4), v.rng.uniform(2.5, 4)
                    got = reference(models[title], x)
                    expect_close(
                        got, _computed(steps, x), name=f"the output for {describe(x)}", likely=_likely_chain(steps, x)
                    )
    with v.check("a Function that the handler does not know is an exception with its name"):
        _expect_refused(v)


def _likely_chain(steps: Sequence[tuple[str, tuple[float, ...]]], x: np.ndarray) -> dict[str, np.ndarray]:
    def clips(change: Callable[[float, float], tuple[float, float]]) -> np.ndarray:
        return _computed(
            [(name, change(*arguments) if name == "MyClip" else arguments) for name, arguments in steps], x
        )

    return {
        "This is the result without MyClip's upper bound.": clips(lambda low, high: (low, 1e9)),
        "This is the result without MyClip's lower bound.": clips(lambda low, high: (-1e9, high)),
        "A bound of MyClip that is 0 is lost: 0 is a bound too.": clips(lambda low, high: (low or -1e9, high or 1e9)),
    }


def _expect_called(v: Judge, title: str, names: list[str]) -> None:
    calls = [str(name) for name in v.value(f"{title}: calls")]
    if calls == names:
        return
    error = v.error(title)
    if not calls:
        if not error:
            v.model(title)  # raises where no file was written
        registered = [str(entry) for entry in v.value(f"{title}: registered")]
        how = (
            f"The export failed: {error.message}."
            if error
            else "The export succeeded all the same, because the exporter replaced each Function by what its forward did."
        )
        raise WrongAnswer(
            f"No handler was called, expected calls for {', '.join(names)}. {how} "
            f"Registered: {', '.join(registered) or 'nothing'}. {_why_nobody_asked(registered, bool(error))}"
        )
    if error:
        raise explained(error, title, _HANDLER_CAUSES, dict.fromkeys(_SHIFTED, _HANDLER), raised=True)
    raise WrongAnswer(f"The handler was called for {', '.join(calls)}, expected {', '.join(names)}.")


def _why_nobody_asked(registered: list[str], failed: bool) -> str:
    """Why a handler that is registered like this is never called."""
    versions = [int(entry.split()[-1]) for entry in registered if entry.startswith("prim::PythonOp ")]
    if not registered:
        return "The registration has to come before the export."
    if versions and min(versions) > 13:
        return "The version is the earliest opset that a handler serves, and the file has opset 13."
    if versions and not failed:
        return "The name is right, and the dynamo path does not look for it: the export needs dynamo=False."
    return "Functions are nodes of the kind prim::PythonOp, and the dynamo path has no such nodes."


_HANDLER_CAUSES = {
    "torch._C.Node … 'type'": "A node has no type today. A value has one: its output, and the handler's own input args[0].",
    "z_(): incompatible function arguments": (
        "g.op was given a Python number as an input. An input is a value of the graph: make a Constant of the number, "
        'g.op("Constant", value_t=…).'
    ),
    "must be suffixed": symbolic_causes()["must be suffixed with type"],
}
_SHIFTED = ("TypeError: ", "IndexError: ", "AttributeError: ", "ValueError: ")
_HANDLER = (
    "Today a handler is called as handler(g, *args, **kwargs): a parameter for the node between g and args would take the first input, "
    "and shift the others."
)
_NOTHING_RETURNED = {
    "Couldn't export Python operator": (
        "The handler was called and returned nothing, so the Function is still there: it has to return the value that g.op made."
    )
}


def _expect_chain(model: onnx.ModelProto, steps: Sequence[tuple[str, tuple[float, ...]]]) -> None:
    graphs.expect_opset(model, 13)
    graphs.expect_inputs(model, ["x"])
    graphs.expect_outputs(model, ["y"])
    graphs.expect_used(model, ["x"])
    graphs.expect_dynamic(model, "x", [0])
    axis = model.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    if axis != "batch":
        raise WrongAnswer(f"The first axis of x is named {axis!r}, expected 'batch'.")
    if any(dim.HasField("dim_param") for dim in model.graph.input[0].type.tensor_type.shape.dim[1:]):
        raise WrongAnswer("The second axis of x is dynamic, too; the first alone was asked for.")
    wanted = [_NODES[name] for name, _ in steps]
    found = [name for name in map(node_type, model.graph.node) if name != "Constant"]
    if found != wanted:
        raise WrongAnswer(f"Expected the nodes {', '.join(wanted)}, the graph has {', '.join(found)}.")
    factors = [arguments[0] for name, arguments in steps if name == "MyScale"]
    for node, factor in zip((node for node in model.graph.node if node.op_type == "Scale"), factors, strict=True):
        _expect_factor(node, factor)
    if "relics::Scale" in wanted and graphs.opset(model, "relics") is None:
        raise WrongAnswer("The model does not import the domain relics.")
    for node in model.graph.node:
        if node.op_type == "Clip" and node.attribute:
            raise WrongAnswer(
                f"Clip has the attribute {node.attribute[0].name!r}. Since opset 11 its bounds are inputs; "
                "`min_f` was right up to opset 10."
            )
    _expect_bounds(model)
    graphs.expect_valid(model)


def _expect_bounds(model: onnx.ModelProto) -> None:
    """A bound of Clip has the dtype of x and no axes: ONNX Runtime refuses another one, when the model runs."""
    from onnx import numpy_helper

    held = {tensor.name: tensor for tensor in model.graph.initializer}
    held |= {node.output[0]: node.attribute[0].t for node in model.graph.node if node.op_type == "Constant"}
    for node in model.graph.node:
        for name in node.input[1:] if node.op_type == "Clip" else ():
            if name not in held:
                continue
            bound = numpy_helper.to_array(held[name])
            if bound.ndim:
                raise WrongAnswer(
                    f"A bound of Clip is {describe(bound)}; it has no axes: torch.tensor(number), without brackets."
                )
            if bound.dtype != np.float32:
                raise WrongAnswer(
                    f"A bound of Clip is {bound.dtype}, and x is float32: the bounds of a call may be ints, those of Clip have x's dtype."
                )


def _expect_factor(node: onnx.NodeProto, factor: float) -> None:
    import onnx

    found = {entry.name: entry for entry in node.attribute}
    if "factor" not in found or len(node.input) != 1:
        raise WrongAnswer(
            f"relics::Scale has {len(node.input)} inputs and the attributes {sorted(found) or 'none'}, expected one input and the "
            "attribute factor."
        )
    if found["factor"].type != onnx.AttributeProto.FLOAT:
        kind = onnx.AttributeProto.AttributeType.Name(found["factor"].type)
        raise WrongAnswer(
            f"The attribute factor of relics::Scale is {kind}, expected FLOAT: the suffix of its name decides."
        )
    if found["factor"].f != np.float32(factor):
        raise WrongAnswer(f"The attribute factor of relics::Scale is {found['factor'].f:.7g}, expected {factor:.7g}.")


def _expect_shapes(model: onnx.ModelProto, example: tuple[int, int]) -> None:
    for value in [*model.graph.output, *model.graph.value_info]:
        dims = value.type.tensor_type.shape.dim
        if len(dims) != 2:
            continue  # a constant
        if dims[0].HasField("dim_value"):
            raise WrongAnswer(
                f"{value.name!r} has a fixed first axis of {dims[0].dim_value}, the size of the example, although x is dynamic. The "
                "original node's output has the traced sizes; the type of the handler's own input args[0] keeps the axis."
            )
        if dims[1].HasField("dim_value") and dims[1].dim_value != example[1]:
            raise WrongAnswer(
                f"{value.name!r} is declared with {dims[1].dim_value} columns, and x has {example[1]}: the type of the handler's own "
                "input, args[0].type(), has the right ones for every model."
            )
        if not dims[1].HasField("dim_value"):
            raise WrongAnswer(
                f"{value.name!r} has lost its shape: axis 1 is {dims[1].dim_param!r} instead of {example[1]}. Shape inference knows "
                "nothing about relics::Scale, so the handler has to set the type of its output, with its sizes."
            )


def _expect_counts(returned: Any, names: list[str], before: Sequence[str]) -> None:
    """How often each Function was mapped in this export; a 0 is as good as no entry.

    Args:
        before: the names in earlier exports.
    """
    wanted = {name: names.count(name) for name in sorted(set(names))}
    if type(returned) is not list or not all(type(pair) is list and len(pair) == 2 for pair in returned):
        raise WrongAnswer(f"Expected a dict of counts by name, got {shown(returned)}.")
    counts = {str(name): count for name, count in returned}
    if {name: count for name, count in counts.items() if type(count) is not int or count} != wanted:
        more = ""
        every = [*before, *names]
        if before and all(counts.get(name) == every.count(name) for name in every):
            more = " Calls of earlier exports are counted too."
        elif strange := sorted(set(counts) - {"MyClip", "MyRelu", "MyScale"}):
            more = f" {', '.join(strange)} is not the name of a Function."
        elif counts == wanted | {"MyRelu": names.count("MyRelu") + 1}:
            more = (
                " PyTorch's own relu is not a Function, and is counted: count the calls of the handler, not the nodes."
            )
        elif all(counts.get(name) == 1 for name in names):
            more = " Each call counts, not each name."
        raise WrongAnswer(f"Expected the calls {wanted}, got {counts}.{more}")


def _expect_refused(v: Judge) -> None:
    for title, steps in UNKNOWN.items():
        name, error = steps[-1][0], v.error(title)
        if error is None:
            known = next((known for known in _NODES if known in name), "")
            like = f" {known} is a part of its name alone: compare the whole name." if known else ""
            raise WrongAnswer(
                f"A model with {name} was exported, although no mapping for it was asked for: where the handler does not know a Function, "
                f"nothing may be written.{like}"
            )
        if name not in error.message:
            silent = (
                ""
                if error.where
                else (" A handler that returns None leaves the node to the exporter, which raises another error.")
            )
            raise WrongAnswer(
                f"A model with {name} ends in {error.message.rstrip('.')}. The exception has to name the Function.{silent}"
            )
        if v.value(f"{title}: written"):
            raise WrongAnswer(
                f"A model with {name} ends in an exception, as it should, but a file was written before it."
            )


def reference(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    """Run a model with relics and PyTorch's own nodes, in onnx's reference implementation."""
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class Scale(OpRun):
        op_domain = "relics"

        def _run(self, x: np.ndarray, factor: float = 1.0) -> tuple[np.ndarray]:
            return (x * np.float32(factor),)

    class ATen(OpRun):
        op_domain = "org.pytorch.aten"

        def _run(self, *inputs: np.ndarray, operator: str = "", overload_name: str = "") -> tuple[np.ndarray]:
            return (_aten(operator, *inputs),)

    def named(operator: str) -> type:
        body = {"op_domain": "org.pytorch.aten", "_run": lambda self, *inputs: (_aten(operator, *inputs),)}
        return type(operator, (OpRun,), body)

    try:
        evaluator = ReferenceEvaluator(model, new_ops=[Scale, ATen, *(named(name) for name in _ATEN)])
        return evaluator.run(None, {"x": x})[0]
    except Exception as error:
        raise WrongAnswer(f"The model cannot be run on {describe(x)}: {sentence(first_line(error))}") from None


_ATEN: dict[str, Callable[..., np.ndarray]] = {
    "asinh": np.arcsinh,
    "frac": lambda x: x - np.trunc(x),
    "hypot": np.hypot,
    "mul": np.multiply,
    "max": lambda x, *other: np.maximum(x, *other) if other else x.max(),
    "relu": lambda x: np.maximum(x, 0),
}


def _aten(operator: str, *inputs: np.ndarray) -> np.ndarray:
    if operator not in _ATEN:
        raise WrongAnswer(f"the node's operator is {operator!r}")
    return np.asarray(_ATEN[operator](*inputs), np.float32)


# --- export_modes --------------------------------------------------------------------------------------------------

MODES = ("nothing", "unmapped", "unmapped by name", "everything")
# Which functions are tried in which mode. Not all in all: the dynamo path, a plausible mistake, takes a second for each.
CASES = {
    "asinh(x) * x": MODES,
    "relu(x) * x": ("nothing", "unmapped", "everything"),
    "hypot(frac(x), asinh(asinh(x)))": ("unmapped", "unmapped by name"),
    "max(asinh(x), max(x))": ("unmapped", "everything"),
    "asinh(x) if sum(x) > 0 else frac(x)": ("unmapped",),
    "one of frac(x), asinh(x) and relu(x), by its sum": ("unmapped",),
}
OTHER = ("something", "Everything", "unmapped by")


def _functions() -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    import torch

    scripted = torch.jit.CompilationUnit("""
        def branch(x):
            if bool(x.sum() > 0):
                y = torch.asinh(x)
            else:
                y = torch.frac(x)
            return y
        def nested(x):
            if bool(x.sum() > 0):
                if bool(x.sum() > 5):
                    y = torch.frac(x)
                else:
                    y = torch.asinh(x)
            else:
                y = torch.relu(x)
            return y
    """)
    return {
        "asinh(x) * x": lambda x: torch.asinh(x) * x,
        "relu(x) * x": lambda x: torch.relu(x) * x,
        "max(asinh(x), max(x))": lambda x: torch.max(torch.asinh(x), torch.max(x)),
        "asinh(x) if sum(x) > 0 else frac(x)": lambda x: scripted.branch(x),
        "one of frac(x), asinh(x) and relu(x), by its sum": lambda x: scripted.nested(x),
        "hypot(frac(x), asinh(asinh(x)))": lambda x: torch.hypot(torch.frac(x), torch.asinh(torch.asinh(x))),
    }


# What each mode leaves of each function: the operators, and how many of ONNX's own nodes stay with them.
_LEFT = {
    "asinh(x) * x": (["aten::asinh"], ["aten::asinh", "aten::mul.Tensor"], {"Mul": 1}),
    "relu(x) * x": ([], ["aten::mul.Tensor", "aten::relu"], {"Relu": 1, "Mul": 1}),
    "hypot(frac(x), asinh(asinh(x)))": (["aten::asinh", "aten::frac", "aten::hypot"],) * 2 + ({},),
    "max(asinh(x), max(x))": (["aten::asinh"], ["aten::asinh", "aten::max", "aten::max.other"], {"Max": 1}),
    "asinh(x) if sum(x) > 0 else frac(x)": (["aten::asinh", "aten::frac"], [], {"If": 1}),
    "one of frac(x), asinh(x) and relu(x), by its sum": (["aten::asinh", "aten::frac"], [], {"If": 2, "Relu": 1}),
}
_NUMPY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "asinh(x) * x": lambda x: np.arcsinh(x) * x,
    "relu(x) * x": lambda x: np.maximum(x, 0) * x,
    "max(asinh(x), max(x))": lambda x: np.maximum(np.arcsinh(x), x.max()),
    "asinh(x) if sum(x) > 0 else frac(x)": lambda x: np.arcsinh(x) if x.sum() > 0 else x - np.trunc(x),
    "one of frac(x), asinh(x) and relu(x), by its sum": lambda x: (
        np.maximum(x, 0) if x.sum() <= 0 else np.arcsinh(x) if x.sum() <= 5 else x - np.trunc(x)
    ),
    "hypot(frac(x), asinh(asinh(x)))": lambda x: np.hypot(x - np.trunc(x), np.arcsinh(np.arcsinh(x))),
}


def collect_export_modes(c: Collect) -> None:
    import torch

    modes = c.function("export_modes")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, (name, function) in enumerate(_functions().items()):
            for leave in CASES[name]:
                title, path = f"{name}, leave {leave!r}", c.scratch / f"{number}_{MODES.index(leave)}.onnx"
                x = torch.full((2, 3), 0.5)
                returned = c.attempt(title, modes, as_module(function), x, path, leave)
                c.value(f"{title}: kind", type(returned).__name__)
                c.value(f"{title}: returned", returned if type(returned) is list else None)
                c.file(title, path)
        for number, word in enumerate(OTHER):
            path = c.scratch / f"other{number}.onnx"
            c.attempt(f"other {word}", modes, as_module(torch.relu), torch.ones(2), path, word)
            c.value(f"other {word}: written", path.exists())


def judge_export_modes(v: Judge) -> None:
    models: dict[str, onnx.ModelProto] = {}
    for leave in MODES:
        with v.check(f"leave {leave!r}: the nodes of the mode"):
            for name in (name for name, tried in CASES.items() if leave in tried):
                title = f"{name}, leave {leave!r}"
                with about(title):
                    if leave == "nothing" and _LEFT[name][0]:
                        _expect_error(v, title, _LEFT[name][0])
                    else:
                        models[title] = _expect_mode(v, title, name, leave)
    if not v.ok:
        return
    for leave in MODES:
        with v.check(f"leave {leave!r}: the list of what is left"):
            for name in _LEFT:
                title = f"{name}, leave {leave!r}"
                if title in models:
                    with about(title):
                        kind = str(v.value(f"{title}: kind"))[:100]
                        _expect_list(v.value(f"{title}: returned"), kind, name, leave)
    with v.check("the files compute what the model does"):
        for title, model in models.items():
            name = title.split(", leave")[0]
            x = np.asarray(v.rng.normal(scale=3, size=(2, 3)), np.float32)
            with about(title):
                got = reference(model, x)
                expect_close(got, _NUMPY[name](x.astype(np.float64)).astype(np.float32), name="the output")
                if not nodes.foreign(model):
                    (again,) = graphs.run(model, {"x": x})
                    expect_close(again, got, name="ONNX Runtime's output")
    with v.check("another word is a ValueError that names it"):
        for word in OTHER:
            error = v.error(f"other {word}")
            if error is None or error.type != "ValueError" or word not in error.message:
                shown = error.message if error else "no exception"
                raise WrongAnswer(f"leave={word!r}: expected a ValueError that names the word, got {shown}.")
            if v.value(f"other {word}: written"):
                raise WrongAnswer(f"leave={word!r}: the ValueError is right, but a file was written before it.")


def _wanted(name: str, leave: str) -> list[str]:
    unmapped, everything, _ = _LEFT[name]
    return {"nothing": [], "everything": everything}.get(leave, unmapped)


def _expect_error(v: Judge, title: str, names: list[str]) -> None:
    error = v.error(title)
    if error is None:
        found = sorted(graphs.ops(v.model(title)))
        cause = " That is the dynamo path, which ignores the mode." if "Asinh" in found else ""
        raise WrongAnswer(
            f"{', '.join(names)} has no mapping at opset 13, and the exporter's error was expected; none came, and the file has "
            f"{', '.join(found)}.{cause}"
        )
    if error.type != "UnsupportedOperatorError":
        got = sentence(error.message, _MODE_CAUSES, place=error.place)
        raise WrongAnswer(f"Expected the exporter's UnsupportedOperatorError, got {got}")


_MODE_CAUSES = {
    "OperatorExportTypes": "operator_export_type takes a member of torch.onnx.OperatorExportTypes.",
}


def _expect_mode(v: Judge, title: str, name: str, leave: str) -> onnx.ModelProto:
    model = v.model(title)
    graphs.expect_opset(model, 13)
    graphs.expect_inputs(model, ["x"])
    graphs.expect_outputs(model, ["y"])
    graphs.expect_used(model, ["x"])
    _, _, own = _LEFT[name]
    if "If" not in own:  # the checker asks for types, and the exporter writes none for what a body returns
        graphs.expect_valid(model)
    found = {key: count for key, count in graphs.ops(model).items() if key != "Constant"}
    foreign = {key for key in found if "::" in key}
    wanted = [entry.split("::")[1].split(".")[0] for entry in _wanted(name, leave)]
    if leave == "everything":
        plain = sorted(set(found) - foreign)
        if plain:
            raise WrongAnswer(f"Every operator was to stay an ATen node, but {', '.join(plain)} was converted.")
        own = {}
    lost = sorted(key for key in own if found.get(key, 0) != own[key])
    if lost:
        raise WrongAnswer(
            f"{', '.join(lost)} has a mapping and was to be converted; the graph has {', '.join(sorted(found))}. "
            "Another mode converts what it can and leaves only the rest."
        )
    if not wanted:
        nodes.expect_standard(model)
        return model
    by_name = leave == "unmapped by name"
    right = {f"org.pytorch.aten::{entry}" for entry in wanted} if by_name else {"org.pytorch.aten::ATen"}
    if foreign != right:
        why = "nodes named after their operators" if by_name else "ATen nodes with the operator as an attribute"
        raise WrongAnswer(
            f"Expected {why} ({', '.join(sorted(right))}), the graph has {', '.join(sorted(found)) or 'no nodes'}."
        )
    return model


def _roots(names: list[str]) -> set[str]:
    return {name.split(".")[0] for name in names}


def _expect_list(returned: Any, kind: str, name: str, leave: str) -> None:
    wanted, by_name = _wanted(name, leave), leave == "unmapped by name"
    if type(returned) is not list or not all(type(entry) is str for entry in returned):
        raise WrongAnswer(f"Expected a list of names, got {'nothing (None)' if kind == 'NoneType' else f'a {kind}'}.")
    if returned == wanted:
        return
    cause = ""
    if sorted(set(returned)) == wanted:
        cause = " Each operator once, sorted."
    elif " if " in name and not returned:
        cause = " They are in the bodies of the node If, which its attributes hold."
    elif wanted and set(returned) < set(wanted) and _roots(wanted) == _roots(returned):
        cause = " Two overloads of one operator are two operators."
    elif any("ATen" in entry for entry in returned):
        cause = " ATen is the type of the node; its attribute `operator` names the operator."
    elif any(entry.startswith("org.pytorch.aten") for entry in returned):
        cause = " The domain org.pytorch.aten represents PyTorch's namespace aten."
    elif any(entry.endswith(".") for entry in returned):
        cause = " An empty overload_name means no overload: write no point then."
    elif sorted(entry.split(".")[0] for entry in wanted) == sorted(entry.split(".")[0] for entry in returned):
        cause = " The overload is the value of the node's attribute `overload_name`."
    elif more := sorted(set(returned) - set(wanted)):
        own = not any(entry.startswith("aten::") for entry in more)
        cause = f" {', '.join(more)} is " + ("ONNX's own: every runtime has it." if own else "not in this file.")
    elif by_name:
        cause = " Here the type of the node is the operator's name; a node of the type ATen is not in this file."
    else:
        cause = " Here the type of each such node is ATen, and its attribute `operator` names the operator."
    raise WrongAnswer(f"Expected {wanted}, got {returned}.{cause}")
