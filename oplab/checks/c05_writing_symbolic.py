"""Checks of chapter 05: the nodes, constants, attributes and dtypes that a symbolic function writes, and their numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from oplab.checks import exporting, graphs, nodes
from oplab.checks.evidence import Collect
from oplab.checks.expected import Expected
from oplab.checks.exporting import about
from oplab.checks.judge import Judge
from oplab.checks.ort_errors import OUTPUT_TYPE, UNREGISTERED
from oplab.checks.symbolic import (
    Case,
    Operator,
    collect,
    expect,
    expect_no_cast,
    expect_numbers,
    expect_single,
    expect_valid,
    exported,
    judge,
    register,
    run,
    standard,
)
from oplab.onnxtools.subgraphs import every_node
from oplab.parity.arrays import WrongAnswer, describe, expect_close

if TYPE_CHECKING:
    import onnx
    import torch

TYPE_NAMES = {"float16": "FLOAT16", "float32": "FLOAT", "float64": "DOUBLE", "int32": "INT32", "int64": "INT64"}


def constant(model: onnx.ModelProto, name: str) -> np.ndarray | None:
    """The constant tensor called ``name``: an initialiser or what a Constant node gives; None if it is computed."""
    from onnx import numpy_helper

    for tensor in model.graph.initializer:
        if tensor.name == name:
            return numpy_helper.to_array(tensor)
    for node in model.graph.node:
        if node.op_type == "Constant" and name in node.output and node.attribute[0].HasField("t"):
            return numpy_helper.to_array(node.attribute[0].t)
    return None


# --- my_add and plugin ---------------------------------------------------------------------------------------------


MY_ADD = Operator("oplab::my_add", "ab", "g, a, b, alpha, beta")
PLUGIN = replace(
    MY_ADD,
    causes={
        OUTPUT_TYPE: "The kernel gives the dtype that it was fed: setType wrote another one into the graph.",
        UNREGISTERED: "The operator is named oplab::MyAdd, case and domain included.",
    },
)


def _coefficients(rng: np.random.Generator) -> tuple[float, float]:
    """Two different numbers with one decimal, none of them an integer: float32 cannot hold them, and "i" truncates them.

    Neither is the other's negative: then a difference would look like two equal factors.
    """
    alpha, beta = (rng.integers(-3, 2) + rng.integers(1, 3) / 10 + part for part in (0.0, 0.5))
    return round(float(alpha), 1), round(float(beta), 1)


def _my_add_cases(rng: np.random.Generator, dtypes: Sequence[str]) -> list[Case]:
    cases = []

    def add(opset: int, dtype: str, shape: tuple[int, ...], *numbers: float | None, call: str = "") -> None:
        call = call or f"my_add({', '.join(map(str, ('a', 'b', *numbers)))})"
        cases.append(Case(opset, dtype, shape, numbers, call))

    for opset in (9, 13, 20):
        for dtype in dtypes:
            add(opset, dtype, (2, 3), *_coefficients(rng))
    add(13, "float32", (2, 3))
    for dtype in ("float16", "float32"):
        add(13, dtype, (), *_coefficients(rng))
    add(17, "float64", (2, 1, 3), *_coefficients(rng))
    alpha, beta = _coefficients(rng)
    add(11, "float32", (2, 3), 1 / 3)
    add(14, "float32", (2, 3), None, beta, call=f"my_add(a, b, beta={beta})")
    for numbers in ((0.0, beta), (-1.0, beta), (alpha, -1.0), (-1.0, -1.0)):
        add(10, "float32", (2, 3), *numbers)
    add(18, "float64", (2, 3), 1 - 1e-10, 1.0)
    alpha, beta = _coefficients(rng)
    first = _coefficients(rng)
    while first == (alpha, beta):  # what keeps the first call's would be right
        first = _coefficients(rng)
    text = f"my_add(my_add(a, b, {first[0]}, {first[1]}), b, {alpha}, {beta})"
    add(13, "float32", (2, 3), *first, alpha, beta, call=text)
    return cases


def _calls(case: Case) -> list[tuple[float, float]]:
    """The alpha and beta of each call in a case."""
    given = case.numbers
    if len(given) == 4:
        return [(given[0], given[1]), (given[2], given[3])]
    alpha, beta = (*given, None, None)[:2]
    return [(3.0 if alpha is None else alpha, 2.0 if beta is None else beta)]


def _my_add_function(case: Case) -> Callable[..., Any]:
    import torch

    my_add = torch.ops.oplab.my_add
    if len(case.numbers) == 4:
        return lambda a, b: my_add(my_add(a, b, *case.numbers[:2]), b, *case.numbers[2:])
    if case.numbers[:1] == (None,):
        return lambda a, b: my_add(a, b, beta=case.numbers[1])
    return lambda a, b: my_add(a, b, *case.numbers)


def _used(case: Case) -> str:
    """The inputs that the result depends on: 0 times a need not be computed."""
    return "b" if case.numbers[:1] == (0.0,) else "ab"


def _within_4(rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(-4, 4, size=size)


_MY_ADD_TOLERANCE = {"float16": (1e-2, 3e-2), "float32": (1e-5, 1e-5), "float64": (1e-12, 1e-12)}


def expected_sum(case: Case, attribute: bool) -> Expected:
    """``alpha a + beta b``; in a plugin the coefficients are attributes, and a FLOAT attribute is a float32."""
    calls = _calls(case)

    def each(change: Callable[[float, float], tuple[float, float]]) -> Callable[..., np.ndarray]:
        """The sum with other coefficients; a second call takes the result of the first one instead of a."""
        return lambda a, b: functools.reduce(lambda x, call: call[0] * x + call[1] * b, (change(*c) for c in calls), a)

    single = each(lambda s, t: (float(np.float32(s)), float(np.float32(t))))
    if attribute:  # a wrong coefficient has been found in the node
        return Expected(single, {}, tolerance=_MY_ADD_TOLERANCE)
    mistakes = {
        "alpha = -1 has lost its sign: without a Mul, Neg or Sub has to give it.": each(
            lambda s, t: (1 if s == -1 else s, t)
        ),
        "beta = -1 has lost its sign: without a Mul, Neg or Sub has to give it.": each(
            lambda s, t: (s, 1 if t == -1 else t)
        ),
        "A number near 1 is taken for 1: without a Mul it has to be 1 exactly.": each(
            lambda s, t: (1 if abs(s - 1) < 1e-6 else s, t)
        ),
        "alpha and beta are swapped.": each(lambda s, t: (t, s)),
        'alpha and beta have lost what follows the point: "i" in parse_args silently truncates a float.': each(
            lambda s, t: (int(s), int(t))
        ),
        "This is a + b: alpha and beta are missing.": each(lambda s, t: (1, 1)),
        "alpha is missing.": each(lambda s, t: (1, t)),
        "beta is missing.": each(lambda s, t: (s, 1)),
        "alpha is 3, its default, and not the number of the call; a 0 is a coefficient too.": each(
            lambda s, t: (s or 3, t)
        ),
        "alpha is the factor of b, too.": each(lambda s, t: (s, s)),
        "This is alpha a - beta b.": each(lambda s, t: (s, -t)),
        "The second call has the coefficients of the first one.": each(lambda s, t: calls[0]),
        "The coefficients were float32 once and lost digits. They arrive as float64 constants.": single,
    }
    return Expected(each(lambda s, t: (s, t)), mistakes, tolerance=_MY_ADD_TOLERANCE)


MY_ADD_DTYPES = ("float16", "float32", "float64")


def collect_my_add(c: Collect) -> None:
    from oplab import ops

    ops.load()
    register(c, "my_add", MY_ADD)
    collect(c, MY_ADD, _my_add_cases(c.rng, MY_ADD_DTYPES), _my_add_function)


def judge_my_add(v: Judge) -> None:
    cases = _my_add_cases(v.rng, MY_ADD_DTYPES)
    with v.require("valid graphs of standard operators from opset 9 on, with no Mul for 1 and -1"):
        models = standard(v, MY_ADD, cases, used=_used, also=_expect_few_products)
    with v.check("alpha a + beta b in the dtype of a and b, at sizes that were not exported"):
        expect_numbers(v, MY_ADD, models, lambda case: expected_sum(case, attribute=False), _within_4)
    with v.check("no Cast"):
        for case, model in models.items():
            with about(case.title):
                expect_no_cast(model)


def _expect_few_products(model: onnx.ModelProto, case: Case) -> None:
    most = sum(abs(number) != 1 for call in _calls(case) for number in call)
    if (found := graphs.ops(model)["Mul"]) > most:
        raise WrongAnswer(f"The graph has {found} Mul, at most {most} are needed: 1 and -1 need none.")


PLUGIN_DTYPES = ("float32", "float64", "float16")


def collect_plugin(c: Collect) -> None:
    from oplab import ops

    ops.load()
    register(c, "plugin", PLUGIN)
    collect(c, PLUGIN, _my_add_cases(c.rng, PLUGIN_DTYPES), _my_add_function)


def judge_plugin(v: Judge) -> None:
    cases, models = _my_add_cases(v.rng, PLUGIN_DTYPES), {}
    with v.require("one oplab::MyAdd node with two FLOAT attributes"):
        for case in cases:
            with about(case.title):
                models[case] = model = exported(v, PLUGIN, case)
                earlier = [number for other in cases[: cases.index(case)] for call in _calls(other) for number in call]
                _expect_my_add_nodes(model, _calls(case), earlier)
                _expect_casts(model, case)
                expect_valid(model)
                _expect_any_size(model)
    with v.check("the graph has the type of the node's output"):
        for case in cases:
            with about(case.title):
                _expect_typed(models[case])
    with v.check("alpha a + beta b from the course's kernel, at sizes that were not exported"):
        expect_numbers(v, PLUGIN, models, lambda case: expected_sum(case, attribute=True), _within_4)


def _expect_my_add_nodes(
    model: onnx.ModelProto, calls: Sequence[tuple[float, float]], earlier: Sequence[float]
) -> None:
    """One node for each call, with its coefficients; ``earlier`` are those of the exports before."""
    found = graphs.ops(model)
    if "MyAdd" in found:
        raise WrongAnswer(
            "The node is MyAdd of ONNX's own domain, which has no such operator: its name needs its domain, oplab::MyAdd."
        )
    graphs.expect_ops(model, {"oplab::MyAdd": len(calls)})
    if graphs.opset(model, "oplab") is None:
        raise WrongAnswer("The model does not import the domain oplab.")
    made = [node for node in every_node(model) if node.op_type == "MyAdd"]
    for number, (node, (alpha, beta)) in enumerate(zip(made, calls, strict=True), start=1):
        with about(f"MyAdd node {number} of {len(made)}" if len(made) > 1 else ""):
            others = [*earlier, *(other for call in calls if len(calls) > 1 for other in call)]
            _expect_my_add_node(model, node, alpha, beta, others)


def _expect_my_add_node(
    model: onnx.ModelProto, node: onnx.NodeProto, alpha: float, beta: float, others: Sequence[float]
) -> None:
    if len(node.input) != 2:
        raise WrongAnswer(
            f"MyAdd has {len(node.input)} inputs, expected 2: a and b. alpha and beta are attributes, written with the suffix _f."
        )
    held = nodes.attributes(node)
    for name in ("alpha", "beta"):
        if name not in held:
            raise WrongAnswer(
                f"MyAdd has no attribute {name}; it has {', '.join(sorted(held)) or 'none'}. The kernel would take its default."
            )
        kind = nodes.attribute_types(node)[name]
        if kind != "FLOAT":
            raise WrongAnswer(
                f"The attribute {name} is of type {kind}, expected FLOAT: the suffix _f and a single Python float."
            )
    found = [_source(model, name) for name in node.input]
    if found == ["b", "a"]:
        raise WrongAnswer("The inputs of MyAdd are b, a: the first one is multiplied by alpha, so the order is a, b.")
    if (held["alpha"], held["beta"]) == (np.float32(beta), np.float32(alpha)) != (np.float32(alpha), np.float32(beta)):
        raise WrongAnswer(f"alpha and beta are swapped: the node has alpha={beta:g} and beta={alpha:g}.")
    for name, number, default in (("alpha", alpha, 3.0), ("beta", beta, 2.0)):
        wanted, value = float(np.float32(number)), held[name]
        if value != wanted:
            cause = ""
            if value == int(number) and number:
                cause = ' "i" in parse_args silently truncates a float.'
            elif number == 0 and value == default:
                cause = " 0 is a coefficient too: `or` takes it for a missing one."
            elif value == default:
                cause = " That is the default: the coefficients of the call arrive as the last two arguments."
            elif abs(value - wanted) < 0.06:
                cause = " It was rounded."
            elif value in (np.float32(other) for other in others):
                cause = " That is a coefficient of an earlier call: the symbolic function keeps something between two calls."
            raise WrongAnswer(f"The attribute {name} is {value:.7g}, the call has {number:.7g}.{cause}")


def _source(model: onnx.ModelProto, name: str) -> str:
    """Where a value comes from, before Casts and Identities."""
    makers = {output: node for node in model.graph.node for output in node.output}
    while name in makers and makers[name].op_type in ("Cast", "Identity"):
        name = makers[name].input[0]
    return name


def _expect_any_size(model: onnx.ModelProto) -> None:
    """No value has a fixed axis: all axes of the inputs have names. The type of an own node is believed as it was set."""
    for value in [*model.graph.output, *model.graph.value_info]:
        fixed = [dim.dim_value for dim in value.type.tensor_type.shape.dim if dim.HasField("dim_value")]
        if fixed:
            raise WrongAnswer(
                f"The graph declares the fixed size {fixed[0]} for {value.name!r}, that of the example, and the inputs are dynamic: "
                "the type of a value of the graph, a.type(), keeps the axes; the type of the original node has the traced sizes."
            )


def _expect_casts(model: onnx.ModelProto, case: Case) -> None:
    casts = graphs.ops(model)["Cast"]
    others = sorted(set(graphs.ops(model)) - {"Cast", "oplab::MyAdd", "Constant", "Identity"})
    if others:
        raise WrongAnswer(
            f"Expected MyAdd alone, with Casts around it for float16; the graph also has {', '.join(others)}."
        )
    if case.dtype != "float16" and casts:
        raise WrongAnswer(f"The kernel takes {case.dtype} as it is, and the graph has {casts} × Cast.")
    if case.dtype == "float16" and casts == 0:
        raise WrongAnswer(
            "The file has to run where MyAdd takes only float32 and float64: a float16 has to be cast before it, and the result back."
        )
    if case.dtype == "float16" and casts != 3:
        raise WrongAnswer(f"Expected 3 × Cast for float16 (a, b and the result), the graph has {casts}.")
    if case.dtype == "float16":
        targets = [nodes.attributes(node)["to"] for node in every_node(model) if node.op_type == "Cast"]
        if targets[:2] == [11, 11]:
            raise WrongAnswer("The graph casts float16 to double; float32 holds every float16, and it is enough.")


def _expect_typed(model: onnx.ModelProto) -> None:
    import onnx

    typed = {value.name: value.type.tensor_type.elem_type for value in [*model.graph.value_info, *model.graph.output]}
    for node in (node for node in every_node(model) if node.op_type == "MyAdd"):
        kind = typed.get(node.output[0], 0)
        if kind == 0:
            raise WrongAnswer(
                "The type of MyAdd's output is unknown in the graph: ONNX has no rule for a foreign operator. Set it with setType, "
                "for example with the type() of an input of the node."
            )
        if kind not in (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE):
            raise WrongAnswer(
                f"The graph declares MyAdd's output as {onnx.TensorProto.DataType.Name(kind)}, but the node is fed FLOAT: "
                "setType has to take the type of the node's inputs, not of the function's."
            )


# --- clip ----------------------------------------------------------------------------------------------------------

CLIP = Operator(
    "",  # the symbolic method of a Function is not registered
    arguments="g, x, low, high",
    causes={
        "not NoneType": "A bound that is None is left out. The none node keeps its place: a prim::Constant of the type Optional.",
    },
)
_NO_NUMBERS = "the dtype of x is x.type().dtype()"


def _clip_cases(rng: np.random.Generator) -> list[Case]:
    cases = []

    def add(opset: int, dtype: str, low: Any, high: Any, shape: tuple[int, ...] = (2, 3)) -> None:
        cases.append(Case(opset, dtype, shape, (low, high), f"low={low}, high={high}"))

    def bounds() -> tuple[float, float]:
        return float(rng.integers(-8, 0)) / 4, float(rng.integers(1, 9)) / 4  # exact in every float dtype

    for opset in (9, 10, 11, 12, 13, 17, 20):
        add(opset, "float32", *bounds())
    for opset in (9, 11, 13, 20):
        add(opset, "float32", 0, int(rng.integers(2, 7)))  # Python ints
    for opset in (10, 11, 13):
        add(opset, "float32", None, bounds()[1])
        add(opset, "float32", bounds()[0], None)
    for opset in (9, 10, 11, 12, 20):
        add(opset, "float16", *bounds())
        add(opset, "float64", *bounds())
    for opset in (12, 13, 20):
        add(opset, "int64", -int(rng.integers(1, 4)), int(rng.integers(2, 7)))
    add(13, "int32", None, int(rng.integers(2, 7)))
    add(10, "float32", *bounds(), shape=())
    add(13, "float32", *bounds(), shape=())
    add(10, "float32", -int(rng.integers(2, 7)), 0)
    add(13, "float32", -int(rng.integers(2, 7)), 0)
    add(12, "int32", -int(rng.integers(2, 7)), None)
    # Bounds that only the dtype of x holds: 0.1 is not a float32, and 2^53 + 1 is not a float64.
    for opset in (11, 13):
        add(opset, "float64", -0.1, 1 / 3)
    add(13, "int64", -(2**53) - 1, 2**53 + 1)
    return cases


def _clip_twice_cases() -> list[Case]:
    """Two Clips in one model, a Neg between them: each has its own bounds."""
    numbers = (-2.0, 3.5, -1.5, 0.25)
    return [Case(opset, "float32", (2, 3), numbers, "clip(-clip(x, -2, 3.5), -1.5, 0.25)") for opset in (10, 13)]


def collect_clip(c: Collect) -> None:
    import torch

    answer = c.function("clip")

    class MyClip(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, low: Any, high: Any) -> torch.Tensor:
            return x.clamp(low, high)

        symbolic = staticmethod(answer)

    def function(case: Case) -> Callable[..., Any]:
        if len(case.numbers) == 4:
            return lambda x: MyClip.apply(-MyClip.apply(x, *case.numbers[:2]), *case.numbers[2:])
        return lambda x: MyClip.apply(x, *case.numbers)

    collect(c, CLIP, [*_clip_cases(c.rng), *_clip_twice_cases()], function)


def judge_clip(v: Judge) -> None:
    cases, models = _clip_cases(v.rng), {}
    for words, wanted in (("attributes up to opset 10", range(9, 11)), ("inputs from opset 11 on", range(11, 21))):
        with v.check(f"one Clip node, its bounds are {words}"):
            for case in cases:
                if case.opset in wanted:
                    with about(case.title):
                        models[case] = model = exported(v, CLIP, case)
                        expect_no_cast(model)
                        expect_single(model, "Clip")
                        _expect_bounds(model, case)
                        expect_valid(model)
    if not v.ok:
        return
    with v.check("matches clamp, at sizes that were not exported"):
        for case in cases:
            if case.dtype == "float64" and case.opset < 12:
                continue  # ONNX Runtime has no such kernel
            for size in (exporting.sizes(v.rng, len(case.shape)), (0,) * len(case.shape)):
                with about(case.title):
                    reach = max(9, *(2 * abs(number) for number in case.numbers if number is not None))
                    x = np.asarray(v.rng.uniform(-reach, reach, size=size)).astype(case.dtype)
                    got = run(models[case], CLIP, case, {"x": x})
                    expect_close(got, x.clip(*case.numbers).astype(case.dtype), name=f"clip of {describe(x)}")
        for case in _clip_twice_cases():
            with about(case.title):
                model = exported(v, CLIP, case)
                first, second = case.numbers[:2], case.numbers[2:]
                x = np.asarray(v.rng.uniform(-9, 9, size=exporting.sizes(v.rng, 2))).astype(case.dtype)
                got = run(model, CLIP, case, {"x": x})
                right = x.clip(*first) * np.float32(-1)
                expect_close(got, right.clip(*second), name=f"both clips of {describe(x)}")


def _expect_bounds(model: onnx.ModelProto, case: Case) -> None:
    (node,) = (node for node in every_node(model) if node.op_type == "Clip")
    held = nodes.attributes(node)
    for place, name, number in ((1, "min", case.numbers[0]), (2, "max", case.numbers[1])):
        given = node.input[place] if place < len(node.input) else ""
        other = case.numbers[1 if name == "min" else 0]
        if case.opset < 11 and given:
            raise WrongAnswer(
                f"{name} is an input of Clip; up to opset 10 it is an attribute. g.opset is the opset of the export."
            )
        if case.opset >= 11 and name in held:
            raise WrongAnswer(
                f"{name} is an attribute of Clip. It has been one up to opset 10; from opset 11 on it is an input, and ONNX Runtime says "
                f'"Unrecognized attribute: {name}".'
            )
        if number is None:
            if given or name in held:
                value = held[name] if name in held else constant(model, given)
                raise WrongAnswer(f"{name} is None and has to be left out; the graph has {name}={value}.")
            continue
        if not given and name not in held:
            bound = "low" if name == "min" else "high"
            cause = (
                " Up to opset 10 the bounds are min and max." if case.opset < 11 else f" Expected a constant {number}."
            )
            if number == 0:
                cause = f" 0 is a bound too: `if {bound}` is false for it, `if {bound} is not None` is true."
            raise WrongAnswer(f"Clip has no {'attribute' if case.opset < 11 else 'input'} {name}.{cause}")
        if case.opset < 11:
            kind = nodes.attribute_types(node)[name]
            if kind != "FLOAT" or held[name] != number:
                cause = " That is the other bound." if kind == "FLOAT" and held[name] == other else ""
                raise WrongAnswer(
                    f"The attribute {name} is {kind} {held[name]}, expected FLOAT {float(number):g}.{cause}"
                )
            continue
        tensor = constant(model, given)
        if tensor is None:
            raise WrongAnswer(f"The input {name} of Clip is computed in the graph, expected a Constant.")
        if str(tensor.dtype) != case.dtype:
            cause = "A Python int becomes an int64: " if tensor.dtype == np.int64 else ""
            raise WrongAnswer(
                f"{name} is {describe(tensor)} and x is {case.dtype}: Clip needs one dtype. {cause}The exporter converts the constants of "
                f"Mul and Add, not those of Clip; {_NO_NUMBERS}."
            )
        if tensor.shape != ():
            raise WrongAnswer(f"{name} is {describe(tensor)}; a bound of Clip is a tensor without axes, expected [].")
        if tensor != np.asarray(number, case.dtype):
            cause = ""
            if other is not None and tensor == np.asarray(other, case.dtype):
                cause = " That is the other bound."
            elif tensor.dtype == np.float64 and tensor == np.float32(number):
                cause = f" It was a float32 once: give torch.tensor the dtype when it makes the tensor; {_NO_NUMBERS}."
            elif tensor.dtype == np.int64 and tensor == np.int64(float(number)):
                cause = " It was a float once, which holds integers up to 2^53 alone."
            raise WrongAnswer(f"{name} is {tensor!s} in the graph, expected {number!r}.{cause}")


# --- dtypes --------------------------------------------------------------------------------------------------------

LOG10 = Operator("aten::log10")
DTYPES = [Case(opset, dtype, (2, 3)) for opset in (9, 13, 20) for dtype in ("float32", "float16", "float64")]
DTYPES += [Case(11, "float32", ()), Case(13, "float16", ()), Case(17, "float64", (2, 1, 3, 1))]


def collect_dtypes(c: Collect) -> None:
    import torch

    register(c, "dtypes", LOG10)
    collect(c, LOG10, DTYPES, lambda case: torch.log10)


def judge_dtypes(v: Judge) -> None:
    models = judge(v, LOG10, DTYPES, lambda case: EXPECTED_LOG10, _magnitudes)
    if not v.ok:
        return
    with v.check("at 1, at 0 and below it"):
        for case, model in models.items():
            with about(case.title):
                ends = _ENDS[case.dtype]  # an epsilon that is added to x, or a bound, shows at the small one
                numbers = [1.0, 0.0, -2.0, *ends, np.inf, np.nan] if case.shape else [0.0]
                expect(model, LOG10, case, {"x": case.along(numbers)}, EXPECTED_LOG10, f"log10 of {numbers}")


def _magnitudes(rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    return 10 ** rng.uniform(-3, 3, size=size)


_ENDS = {"float16": (6.2e-5, 6e4), "float32": (1e-37, 1e38), "float64": (1e-300, 1e300)}


def _why_log10(got: np.ndarray, right: np.ndarray, x: np.ndarray) -> str:
    with np.errstate(all="ignore"):
        ratio = (got / right)[np.isfinite(right) & (right != 0)]
    if got.dtype != np.float64 or ratio.size < 2 or not np.abs(ratio - 1).max() < 1e-4:
        return ""
    if np.ptp(ratio) < 1e-12:  # one factor for all
        return "The numbers are nearly right: the constant has too few digits. math.log(10) has all."
    return "The numbers are nearly right, but not by one factor, so it is not the constant."


EXPECTED_LOG10 = Expected(
    np.log10,
    {
        "This is the natural logarithm.": np.log,
        "This is log2.": np.log2,
        "The natural logarithm is multiplied by ln 10 instead of divided.": lambda x: np.log(x) * math.log(10),
        "This is ln 10 / ln x: the two are the wrong way round.": lambda x: math.log(10) / np.log(x),
        "This is log10 of |x|: below 0 the logarithm is NaN.": lambda x: np.log10(np.abs(x)),
        "This is what ln 10 in float32 gives: the digits were lost before the constant became a double.": lambda x: (
            np.log(x) / float(np.float32(math.log(10)))
        ),
        "This is what 1 / ln 10 in float32 gives: the digits were lost before the constant became a double.": lambda x: (
            np.log(x) * float(np.float32(1 / math.log(10)))
        ),
    },
    _why_log10,
    {"float16": (1e-2, 5e-3), "float32": (1e-5, 1e-5), "float64": (1e-12, 1e-12)},
)


# --- kthvalue ------------------------------------------------------------------------------------------------------


KTHVALUE = Operator("aten::kthvalue", arguments="g, x, k, dim, keepdim", outputs=("values", "indices"))


def _kth_cases(rng: np.random.Generator) -> list[Case]:
    cases = []

    def add(opset: int, dtype: str, shape: tuple[int, ...], dim: int, keepdim: bool) -> None:
        k = int(rng.integers(2, 4))
        numbers = (k, dim, keepdim)
        cases.append(Case(opset, dtype, shape, numbers, f"kthvalue(x, {k}, {dim}, {keepdim})"))

    for opset in (11, 13, 18, 20):
        add(opset, "float32", (4, 5), -1, False)
        add(opset, "float32", (4, 5, 3), 0, True)
    for dtype in ("float64", "int64"):
        add(13, dtype, (4, 5, 3), 1, False)
        add(12, dtype, (4, 5, 3), -2, True)
    add(13, "float32", (5,), 0, False)
    add(13, "float32", (5,), -1, True)
    for k, shape in ((1, (4, 5)), (130, (2, 140))):
        cases.append(Case(13, "float32", shape, (k, 1, False), f"kthvalue(x, {k}, 1, False)"))
    cases.append(Case(13, "float32", (4, 5), (2, -1, False), "kthvalue(x, 2)"))
    return cases


def collect_kthvalue(c: Collect) -> None:
    import torch

    def function(case: Case) -> Callable[..., Any]:
        given = case.numbers[:1] if case.call == "kthvalue(x, 2)" else case.numbers
        return lambda x: tuple(torch.kthvalue(x, *given))

    register(c, "kthvalue", KTHVALUE)
    collect(c, KTHVALUE, _kth_cases(c.rng), function)


def judge_kthvalue(v: Judge) -> None:
    cases = _kth_cases(v.rng)
    with v.require("valid graphs with two outputs from opset 11 on"):
        models = standard(v, KTHVALUE, cases, also=_expect_kth_nodes)
    with v.check("the k-th value and its index, at sizes that were not exported"):
        for case in cases:
            size = list(exporting.sizes(v.rng, len(case.shape)))
            # 7 or more: then the k-th largest is neither the k-th smallest nor the one after it
            size[case.numbers[1]] += 3 if case.numbers[0] < 4 else case.numbers[0]
            with about(case.title):
                _expect_kth(models[case], case, tuple(size), v.rng)
    with v.check("sizes that just fit, and an empty tensor"):
        for case in cases:
            k, dim, _ = case.numbers
            with about(case.title):
                exact = list(exporting.sizes(v.rng, len(case.shape)))
                exact[dim] = k  # k is the whole axis: the largest element
                _expect_kth(models[case], case, tuple(exact), v.rng)
                if len(case.shape) > 1:
                    other = 0 if dim not in (0, -len(case.shape)) else 1
                    for length in (1, 0):
                        exact[other] = length
                        _expect_kth(models[case], case, tuple(exact), v.rng)


def _expect_kth_nodes(model: onnx.ModelProto, case: Case) -> None:
    """The dtypes of the outputs, and a K with one axis."""
    import onnx

    for value, wanted in zip(model.graph.output, (TYPE_NAMES[case.dtype], "INT64"), strict=True):
        found = onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type)
        if found != wanted:
            cause = (
                " The outputs come in the order of the schema: values, indices."
                if "INT64" in (found, wanted) and case.dtype != "int64"
                else ""
            )
            raise WrongAnswer(f"The output {value.name} is {found}, expected {wanted}.{cause}")
    for node in every_node(model):
        if node.op_type == "TopK" and len(node.input) > 1:
            count = constant(model, node.input[1])
            if count is not None and count.shape != (1,):
                raise WrongAnswer(
                    f"K of TopK is {describe(count)}, expected int64[1]: torch.tensor([k]), in a Constant. (A torch tensor that is itself "
                    "an input of g.op loses its axes.)"
                )


def _distinct(rng: np.random.Generator, size: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers that all differ, in random order, as near to each other as the dtype allows: in a smaller one many are equal."""
    count = math.prod(size)
    places = (rng.permutation(count) - count // 2).reshape(size)
    if dtype == "int64":
        return places + 2**53  # every second one is not a float64
    if dtype == "float64":
        return 1e6 + places * 2.0**-30  # a float32 has steps of 1/16 here
    return places.astype(dtype)


def _expect_kth(
    model: onnx.ModelProto,
    case: Case,
    size: tuple[int, ...],
    rng: np.random.Generator,
) -> None:
    x = _distinct(rng, size, case.dtype)
    unsorted = any(nodes.attributes(node).get("sorted") == 0 for node in every_node(model) if node.op_type == "TopK")
    got = run_kth(model, case, x, _kth(case, 0, 0)(x).shape)
    for place, name in enumerate(KTHVALUE.outputs):
        expected = expected_kth(case, place)
        if unsorted:
            why = "TopK has sorted=0: the last of its k elements is any of them."
            expected = replace(expected, mistakes={}, explain=lambda *_, why=why: why)
        expected.judge(got[place], x, name=f"{name} of {describe(x)}")


def _kth(case: Case, number: int, place: int) -> Callable[[np.ndarray], np.ndarray]:
    """The values (place 0) or the indices (1) of one element along the axis, counted from 0, from the smallest."""
    _, dim, keepdim = case.numbers

    def take(x: np.ndarray) -> np.ndarray:
        index = np.take(np.argsort(x, axis=dim), [number % x.shape[dim]], axis=dim)
        found = index if place else np.take_along_axis(x, index, axis=dim)
        return found if keepdim else found.squeeze(dim)

    return take


def expected_kth(case: Case, place: int) -> Expected:
    """The k-th smallest (place 0) or its index (1), exactly: TopK and Gather copy."""
    k = case.numbers[0]
    right = _kth(case, k - 1, place)
    mistakes = {
        "This is the k-th largest: TopK takes the largest elements unless largest is 0.": _kth(case, -k, place),
        "This is the next larger one: k counts from 1, the place in TopK's result from 0.": _kth(case, k, place),
        "This is the smallest one: of the k smallest (largest_i=0), the last is wanted.": _kth(case, 0, place),
    }
    if place == 0:
        mistakes["These are the values of Neg(x): the sign has to come back."] = lambda x: -right(x)
        mistakes["The values went through float32, which cannot hold each of them."] = lambda x: (
            right(x).astype(np.float32).astype(x.dtype)
        )
    return Expected(right, mistakes, tolerance=dict.fromkeys(TYPE_NAMES, (0.0, 0.0)), wide=False)


def _gathers_at_0(model: onnx.ModelProto) -> bool:
    return any(node.op_type == "Gather" and not nodes.attributes(node).get("axis") for node in every_node(model))


def _gathered_at_0(shape: tuple[int, ...], dim: int, k: int) -> tuple[tuple[int, ...], ...]:
    found = tuple(k if axis == dim else size for axis, size in enumerate(shape))
    return found[1:], (1, *found[1:])


def run_kth(model: onnx.ModelProto, case: Case, x: np.ndarray, wanted: tuple[int, ...]) -> list[np.ndarray]:
    """Run, and say which of keepdim, dim and the exported size a wrong shape points to."""
    k, dim, keepdim = case.numbers
    try:
        got = graphs.run(model, {"x": x})
    except WrongAnswer as error:
        if "out of data bounds" in str(error):
            raise WrongAnswer(f"{error} TopK's result has the places 0 to k - 1 along dim: k counts from 1.") from None
        raise
    for name, result in zip(KTHVALUE.outputs, got, strict=True):
        if result.shape == wanted:
            continue
        kept = tuple(1 if axis == dim % x.ndim else size for axis, size in enumerate(x.shape))
        dropped = tuple(size for axis, size in enumerate(x.shape) if axis != dim % x.ndim)
        cause = ""
        if keepdim and result.shape == dropped:
            cause = (
                " With keepdim the axis stays, with size 1: Gather with an index that has one axis does that. "
                "(A torch tensor that is itself an input of g.op loses its axes, a Constant keeps them.)"
            )
        elif not keepdim and result.shape == kept:
            cause = " Without keepdim the axis is dropped: Gather with an index that has no axes does that."
        elif result.shape == tuple(k if axis == dim % x.ndim else size for axis, size in enumerate(x.shape)):
            cause = " These are all the k smallest; the last of them is wanted."
        elif keepdim and sorted(result.shape) == sorted(wanted):
            cause = f" The axis of size 1 is in another place than dim = {dim}."
        elif 1 in wanted and result.shape == tuple(size for size in wanted if size != 1):
            cause = " Squeeze without axes drops every axis of size 1, not dim alone."
        elif _gathers_at_0(model) and dim % x.ndim and result.shape in _gathered_at_0(x.shape, dim % x.ndim, k):
            cause = " This is what Gather takes along axis 0, its default: give it axis_i as well."
        raise WrongAnswer(
            f"{name} of {describe(x)}: expected the shape {list(wanted)}, got {list(result.shape)}.{cause}"
        )
    return got


# --- gelu_tanh -----------------------------------------------------------------------------------------------------


GELU_OP = Operator("aten::gelu", arguments="g, x, approximate")


def _gelu_case(opset: int, dtype: str, shape: tuple[int, ...], way: str) -> Case:
    return Case(opset, dtype, shape, (way,), f'gelu(x, approximate="{way}")')


GELU = [_gelu_case(opset, "float32", (2, 3), way) for opset in (9, 13, 19, 20) for way in ("tanh", "none")]
GELU += [_gelu_case(opset, "float16", (2, 3), way) for opset in (9, 20) for way in ("tanh", "none")]
GELU += [_gelu_case(opset, "float64", (2, 3), "tanh") for opset in (9, 13, 20)]
GELU += [_gelu_case(13, dtype, (), "tanh") for dtype in ("float32", "float16")]
GELU += [_gelu_case(17, "float64", (2, 1, 3, 1), "tanh"), Case(11, "float32", (2, 3), (), "gelu(x)")]
EXACT_DOUBLE = [
    _gelu_case(opset, "float64", (2, 3), "none") for opset in (9, 13, 20)
]  # no Erf of ONNX Runtime takes it


def collect_gelu_tanh(c: Collect) -> None:
    import torch

    def function(case: Case) -> Callable[..., Any]:
        return lambda x: torch.ops.aten.gelu(x, **dict(zip(["approximate"], case.numbers, strict=False)))

    register(c, "gelu_tanh", GELU_OP)
    collect(c, GELU_OP, GELU + EXACT_DOUBLE, function)


def judge_gelu_tanh(v: Judge) -> None:
    with v.require("valid graphs for the exact formula in float64"):
        models = standard(v, GELU_OP, EXACT_DOUBLE, also=lambda model, case: expect_no_cast(model))
    judge(v, GELU_OP, GELU, expected_gelu, _both_signs, special=_far_from_0, native=("Gelu", 20))
    with v.check("one Gelu for the exact formula in float64, too"):
        expect_single(models[EXACT_DOUBLE[-1]], "Gelu")


def _far_from_0(case: Case) -> list[float]:
    """Where x cubed, its exponential or (float32) x * 2 overflows."""
    return [40.0, 8.0, -8.0, 0.0, -40.0, 1e4, *([3e38] if case.dtype == "float32" and case.opset < 20 else [])]


def _both_signs(rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(0.5, 3, size) * rng.choice([-1, 1], size)


def _by_tanh(
    x: np.ndarray, factor: float = math.sqrt(2 / math.pi), cubic: float = 0.044715, power: int = 3
) -> np.ndarray:
    return x / 2 * (1 + np.tanh(factor * (x + cubic * x**power)))


def _by_erf(x: np.ndarray, factor: float = math.sqrt(0.5)) -> np.ndarray:
    return x / 2 * (1 + np.vectorize(math.erf, otypes=[float])(factor * x))


def expected_gelu(case: Case) -> Expected:
    """The formula that the call asks for; in float64 at opset 20, the constants of Gelu are float32 in ONNX Runtime."""
    tanh = case.numbers == ("tanh",)
    right, other = (_by_tanh, _by_erf) if tanh else (_by_erf, _by_tanh)
    mistakes: dict[str, Callable[..., np.ndarray]] = {
        f'This is approximate="{"none" if tanh else "tanh"}": the string of the call decides.': other,
        "This is x * Sigmoid(1.702 x), a third formula.": lambda x: x / (1 + np.exp(-1.702 * x)),
        "The result is twice as large: x is not halved.": lambda x: 2 * right(x),
    }
    if tanh:
        mistakes["x is squared where its cube is needed."] = lambda x: _by_tanh(x, power=2)
        mistakes["The factor is sqrt(2 / pi), this is sqrt(2) / pi."] = lambda x: _by_tanh(x, math.sqrt(2) / math.pi)
    else:
        mistakes["This is erf(x): x is divided by sqrt(2) first."] = lambda x: _by_erf(x, 1.0)
    double = (1e-7, 1e-7) if case.opset >= 20 else (1e-11, 1e-12)
    return Expected(right, mistakes, tolerance={"float16": (1e-2, 2e-3), "float32": (1e-5, 1e-5), "float64": double})
