"""Checks of chapter 09: old export code that was carried to today. Calls are counted beside the learner, and graphs are read again."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oplab.checks import exporting, graphs, nodes
from oplab.checks.errors import first_line
from oplab.checks.evidence import Collect
from oplab.checks.exporting import about
from oplab.checks.judge import Judge
from oplab.checks.ort_errors import explained, no_symbolic, sentence, symbolic_causes
from oplab.onnxtools.names import node_type
from oplab.parity.arrays import WrongAnswer, describe, expect_close

if TYPE_CHECKING:
    import onnx
    import torch


def as_module(function: Callable[..., torch.Tensor]) -> torch.nn.Module:
    import torch

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    return Model().eval()


def expect_valid(model: onnx.ModelProto) -> None:
    """onnx.checker with full shape inference; custom domains are allowed."""
    graphs.expect_valid(model)


# --- port_register_op ----------------------------------------------------------------------------------------------

COSH = [(opset, (2, 3)) for opset in (9, 12, 13, 16, 20)] + [(9, ()), (20, (2, 1, 3))]
OLD = [(opset, (2, 3)) for opset in (7, 8)]
SCALE = [(opset, (2, 3), factor) for opset in (9, 15, 16, 20) for factor in (2.5, -0.125)] + [(13, (), 3.0)]


def _export(function: Callable[..., torch.Tensor], shape: tuple[int, ...], opset: int, path: Path) -> None:
    import torch

    exporting.export(function, {"x": torch.full(shape, 0.5)}, opset, path, outputs=("y",))


def _cosh_title(opset: int, shape: tuple[int, ...]) -> str:
    return f"cosh at opset {opset}, float32{list(shape)}"


def _scale_title(opset: int, shape: tuple[int, ...], factor: float) -> str:
    return f"scale by {factor:g} at opset {opset}, float32{list(shape)}"


def collect_port_register_op(c: Collect) -> None:
    import torch

    from oplab.archaeology import relics

    relics.load()
    c.function("port_register_op")()
    c.value("registered", c.attempt("registered", exporting.registrations))
    for opset, shape in COSH + OLD:
        title, path = _cosh_title(opset, shape), c.scratch / f"cosh{opset}_{len(shape)}.onnx"
        c.attempt(title, _export, torch.cosh, shape, opset, path)
        c.file(title, path)
    for opset, shape, factor in SCALE:
        title, path = _scale_title(opset, shape, factor), c.scratch / f"scale{opset}_{len(shape)}_{factor:g}.onnx"
        c.attempt(title, _export, lambda x, by=factor: torch.ops.relics.scale(x, by), shape, opset, path)
        c.file(title, path)


_PORTED_CAUSES = {
    "torch._C.Value": (
        "A number of the schema reaches the mapping as a value of the graph: parse_args makes a Python number of it."
    )
}


def _ported(v: Judge, title: str, name: str, opset: int, shape: tuple[int, ...]) -> onnx.ModelProto:
    """A model of an operator ``name``, with what holds for each: its opset, its input, dynamic axes."""
    error = v.error(title)
    if error and error.type == "UnsupportedOperatorError":
        message = no_symbolic(title, name, [str(entry) for entry in v.value("registered")], opset)
        raise WrongAnswer(
            f"{message} What counts is the full name, with the namespace of the torch operator, and a version that is not above opset "
            f"{opset}."
        )
    if error:
        raise explained(error, title, _PORTED_CAUSES)
    model = v.model(title)
    graphs.expect_opset(model, opset)
    graphs.expect_inputs(model, ["x"])
    graphs.expect_used(model, ["x"])
    graphs.expect_dynamic(model, "x", range(len(shape)))
    return model


def _only(model: onnx.ModelProto, name: str) -> None:
    graphs.expect_ops(model, {name: 1})
    others = sorted(set(graphs.ops(model)) - {name, "Constant"})
    if others:
        raise WrongAnswer(f"Expected {name} alone, the graph also has {', '.join(others)}.")


def judge_port_register_op(v: Judge) -> None:
    cosh: dict[str, onnx.ModelProto] = {}
    scale: dict[str, onnx.ModelProto] = {}
    with v.check("cosh is one Cosh at every opset from 9 on"):
        for opset, shape in COSH:
            title = _cosh_title(opset, shape)
            with about(title):
                cosh[title] = model = _ported(v, title, "aten::cosh", opset, shape)
                _only(model, "Cosh")
                expect_valid(model)
    with v.check("the plugin's scale is one Mul at every opset from 9 on"):
        for opset, shape, factor in SCALE:
            title = _scale_title(opset, shape, factor)
            with about(title):
                scale[title] = model = _ported(v, title, "relics::scale", opset, shape)
                _only(model, "Mul")
                expect_valid(model)
    with v.check("no invalid model of cosh at opsets 7 and 8"):
        for opset, shape in OLD:
            title = _cosh_title(opset, shape)
            if v.error(title):
                continue
            try:
                model = v.model(title)
                expect_valid(model)
            except WrongAnswer as error:
                raise WrongAnswer(
                    f"{title}: the export writes a model that is not valid: {str(error).rstrip('.')}. "
                    "Below opset 9 the look-up goes up, so the registration at 9 answers here too. Register a function at 8 that refuses."
                ) from None
            with about(title):
                _run_cosh(v, model, (4, 5))
    if not v.ok:
        return
    with v.check("cosh matches PyTorch, at sizes that were not exported"):
        for opset, shape in COSH:
            title = _cosh_title(opset, shape)
            with about(title):
                for size in (_sizes(v.rng, len(shape)), (0,) * len(shape)):
                    _run_cosh(v, cosh[title], size)
    with v.check("scale matches PyTorch, at sizes that were not exported"):
        for opset, shape, factor in SCALE:
            title = _scale_title(opset, shape, factor)
            with about(title):
                for size in (_sizes(v.rng, len(shape)), (0,) * len(shape)):
                    x = np.asarray(v.rng.normal(scale=3, size=size), np.float32)
                    (got,) = graphs.run(scale[title], {"x": x})
                    likely = {
                        "The result is x itself: the factor is lost.": x,
                        "The factor was cut off to an integer.": x * np.float32(int(factor)),
                    }
                    expect_close(got, x * np.float32(factor), name=f"scale of {describe(x)}", likely=likely)


def _sizes(rng: np.random.Generator, rank: int) -> tuple[int, ...]:
    """A shape that was not exported: sizes from 4 to 7."""
    return tuple(int(size) for size in rng.integers(4, 8, size=rank))


def _run_cosh(v: Judge, model: onnx.ModelProto, size: tuple[int, ...]) -> None:
    x = np.asarray(v.rng.uniform(-4, 4, size=size), np.float32)
    (got,) = graphs.run(model, {"x": x})
    expect_close(got, np.cosh(x.astype(np.float64)).astype(np.float32), name=f"cosh of {describe(x)}")


# --- port_python_op ------------------------------------------------------------------------------------------------

# Chains of Functions: (name, arguments), then an ordinary operator at "add".
CHAINS: dict[str, list[tuple[str, tuple[float, ...]]]] = {
    "clip, relu": [("MyClip", (-1.0, 0.75)), ("MyRelu", ())],
    "relu, scale, relu": [("MyRelu", ()), ("MyScale", (-2.5,)), ("add", (1.0,)), ("MyRelu", ())],
    "clip, clip, scale": [("MyClip", (-2.0, 2.0)), ("MyClip", (-0.5, 1.5)), ("MyScale", (0.3,))],
}
WIDTH = 3
_NODES = {"MyClip": "Clip", "MyRelu": "Relu", "MyScale": "relics::Scale", "add": "Add"}


def _chain(steps: Sequence[tuple[str, tuple[float, ...]]]) -> torch.nn.Module:
    from oplab.archaeology import relics

    def forward(x: torch.Tensor) -> torch.Tensor:
        for name, arguments in steps:
            x = x + arguments[0] if name == "add" else getattr(relics, name).apply(x, *arguments)
        return x

    return as_module(forward)


def _computed(steps: Sequence[tuple[str, tuple[float, ...]]], x: np.ndarray) -> np.ndarray:
    for name, arguments in steps:
        if name == "MyClip":
            x = np.clip(x, np.float32(arguments[0]), np.float32(arguments[1]))
        elif name == "MyRelu":
            x = np.maximum(x, np.float32(0))
        elif name == "MyScale":
            x = x * np.float32(arguments[0])
        else:
            x = x + np.float32(arguments[0])
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
    cases = {**CHAINS, "unknown": [("MyRelu", ()), ("MySwish", ())]}
    for number, (title, steps) in enumerate(cases.items()):
        path, seen = c.scratch / f"{number}.onnx", []
        with counted(seen), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            c.value(f"{title}: returned", _pairs(c.attempt(title, port, _chain(steps), torch.ones(2, WIDTH), path)))
        c.file(title, path)
        c.value(f"{title}: calls", seen)
        c.value(f"{title}: registered", c.attempt(f"{title}: registered", exporting.registrations))


def _names(steps: Sequence[tuple[str, tuple[float, ...]]]) -> list[str]:
    return [name for name, _ in steps if name != "add"]


def judge_port_python_op(v: Judge) -> None:
    models: dict[str, onnx.ModelProto] = {}
    with v.check("the handler is called, once for each use of a Function"):
        for title, steps in CHAINS.items():
            with about(title):
                _expect_called(v, title, _names(steps))
    with v.check("each Function is the node that the handler writes"):
        for title, steps in CHAINS.items():
            with about(title):
                _expect_returned(v, title)
                models[title] = model = v.model(title)
                _expect_chain(model, steps)
    if not v.ok:
        return
    with v.check("shapes and types are kept, with the dynamic axis"):
        for title, model in models.items():
            with about(title):
                _expect_shapes(model)
    with v.check("the calls are returned, counted for each export"):
        for title, steps in CHAINS.items():
            with about(title):
                _expect_counts(v.value(f"{title}: returned"), _names(steps))
    with v.check("matches PyTorch, at batch sizes that were not exported"):
        for title, steps in CHAINS.items():
            with about(title):
                for batch in (1, int(v.rng.integers(4, 9)), 0):
                    x = np.asarray(v.rng.normal(scale=2, size=(batch, WIDTH)), np.float32)
                    got = reference(models[title], x)
                    likely = {"This is what comes out without MyClip's upper bound.": _unbounded(steps, x)}
                    expect_close(got, _computed(steps, x), name=f"the output for {describe(x)}", likely=likely)
    with v.check("a Function that the handler does not know is an exception with its name"):
        _expect_refused(v)


def _unbounded(steps: Sequence[tuple[str, tuple[float, ...]]], x: np.ndarray) -> np.ndarray:
    return _computed([(name, (arguments[0], 1e9) if name == "MyClip" else arguments) for name, arguments in steps], x)


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
            else "The export went well all the same, because the exporter replaced each Function by what its forward did."
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


def _expect_returned(v: Judge, title: str) -> None:
    """Demand that a handler that was called gave a value back."""
    error = v.error(title)
    if error and v.value(f"{title}: calls") and "Couldn't export Python operator" in error.message:
        raise explained(error, title, _NOTHING_RETURNED)


def _expect_chain(model: onnx.ModelProto, steps: Sequence[tuple[str, tuple[float, ...]]]) -> None:
    graphs.expect_opset(model, 13)
    graphs.expect_inputs(model, ["x"])
    graphs.expect_outputs(model, ["y"])
    graphs.expect_used(model, ["x"])
    graphs.expect_dynamic(model, "x", [0])
    axis = model.graph.input[0].type.tensor_type.shape.dim[0].dim_param
    if axis != "batch":
        raise WrongAnswer(f"The first axis of x is named {axis!r}, expected 'batch'.")
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
    expect_valid(model)


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
    if abs(found["factor"].f - factor) > 1e-6:
        raise WrongAnswer(f"The attribute factor of relics::Scale is {found['factor'].f:g}, expected {factor:g}.")


def _expect_shapes(model: onnx.ModelProto) -> None:
    for value in [*model.graph.output, *model.graph.value_info]:
        dims = value.type.tensor_type.shape.dim
        if len(dims) != 2:
            continue  # a constant
        if dims[0].HasField("dim_value"):
            raise WrongAnswer(
                f"{value.name!r} has a fixed first axis of {dims[0].dim_value}, the size of the example, although x is dynamic. The "
                "original node's output has the traced sizes; the type of the handler's own input args[0] keeps the axis."
            )
        if not dims[1].HasField("dim_value"):
            raise WrongAnswer(
                f"{value.name!r} has lost its shape: axis 1 is {dims[1].dim_param!r} instead of {WIDTH}. Shape inference knows "
                "nothing about relics::Scale, so the handler has to set the type of its output."
            )


def _expect_counts(returned: Any, names: list[str]) -> None:
    wanted = [[name, names.count(name)] for name in sorted(set(names))]
    if type(returned) is not list or not all(type(pair) is list and len(pair) == 2 for pair in returned):
        raise WrongAnswer(f"Expected a dict of counts by name, got {_shown(returned)}.")
    if returned != wanted:
        more = ""
        counts = dict((str(name), count) for name, count in returned)
        if all(type(counts.get(name)) is int and counts[name] >= count for name, count in wanted):
            more = " Calls of earlier exports are counted too."
        raise WrongAnswer(f"Expected the calls {dict(map(tuple, wanted))}, got {counts}.{more}")


def _shown(value: Any) -> str:
    return "nothing (None)" if value is None else f"a {type(value).__name__}"


def _expect_refused(v: Judge) -> None:
    error = v.error("unknown")
    if error is None:
        raise WrongAnswer(
            "A model with MySwish was exported, although no mapping for it was asked for: where the handler does not know a Function, "
            "nothing may be written."
        )
    if "MySwish" not in error.message:
        raise WrongAnswer(
            f"A model with MySwish ends in {error.message}. The exception has to name the Function. A handler that returns None leaves the "
            "node to the exporter, which says something else."
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
}


def _functions() -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    import torch

    return {
        "asinh(x) * x": lambda x: torch.asinh(x) * x,
        "relu(x) * x": lambda x: torch.relu(x) * x,
        "hypot(frac(x), asinh(asinh(x)))": lambda x: torch.hypot(torch.frac(x), torch.asinh(torch.asinh(x))),
    }


# What each mode leaves of each function: the operators, and how many of ONNX's own nodes stay with them.
_LEFT = {
    "asinh(x) * x": (["aten::asinh"], ["aten::asinh", "aten::mul.Tensor"], {"Mul": 1}),
    "relu(x) * x": ([], ["aten::mul.Tensor", "aten::relu"], {"Relu": 1, "Mul": 1}),
    "hypot(frac(x), asinh(asinh(x)))": (["aten::asinh", "aten::frac", "aten::hypot"],) * 2 + ({},),
}
_NUMPY: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "asinh(x) * x": lambda x: np.arcsinh(x) * x,
    "relu(x) * x": lambda x: np.maximum(x, 0) * x,
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
        path = c.scratch / "other.onnx"
        c.value("other: returned", c.attempt("other", modes, as_module(torch.relu), torch.ones(2), path, "something"))


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
                        _expect_list(v.value(f"{title}: returned"), kind, _wanted(name, leave))
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
        error = v.error("other")
        if error is None or error.type != "ValueError" or "something" not in error.message:
            shown = error.message if error else "no exception"
            raise WrongAnswer(f"leave='something': expected a ValueError that names the word, got {shown}.")


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
    expect_valid(model)
    _, _, own = _LEFT[name]
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
        if foreign:
            raise WrongAnswer(f"Nothing was to be left, but the graph has {', '.join(sorted(foreign))}.")
        return model
    by_name = leave == "unmapped by name"
    right = {f"org.pytorch.aten::{entry}" for entry in wanted} if by_name else {"org.pytorch.aten::ATen"}
    if foreign != right:
        why = "nodes named after their operators" if by_name else "ATen nodes with the operator as an attribute"
        raise WrongAnswer(
            f"Expected {why} ({', '.join(sorted(right))}), the graph has {', '.join(sorted(found)) or 'no nodes'}."
        )
    return model


def _expect_list(returned: Any, kind: str, wanted: list[str]) -> None:
    if type(returned) is not list:
        raise WrongAnswer(f"Expected a list of names, got {'nothing (None)' if kind == 'NoneType' else f'a {kind}'}.")
    if not all(type(entry) is str for entry in returned):
        raise WrongAnswer("Expected a list of names; it holds something else than texts.")
    if returned == wanted:
        return
    cause = ""
    if sorted(set(returned)) == wanted:
        cause = " Each operator once, sorted."
    elif any("ATen" in entry for entry in returned):
        cause = " ATen is the type of the node; which operator it stands for is in its attribute `operator`."
    elif any(entry.startswith("org.pytorch.aten") for entry in returned):
        cause = " The domain org.pytorch.aten stands for PyTorch's namespace aten."
    elif sorted({entry.split(".")[0] for entry in wanted}) == sorted(returned):
        cause = " The overload is missing: it is in the attribute `overload_name`."
    elif any(entry.endswith(".") for entry in returned):
        cause = " An empty overload_name stands for no overload: no point then."
    elif set(wanted) < set(returned):
        cause = f" {', '.join(sorted(set(returned) - set(wanted)))} is ONNX's own: every runtime has it."
    raise WrongAnswer(f"Expected {wanted}, got {returned}.{cause}")
