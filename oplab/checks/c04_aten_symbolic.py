"""Checks of chapter 04: what each symbolic function writes, judged by its graph and on fresh inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from oplab.checks import exporting, graphs, nodes
from oplab.checks.evidence import Collect
from oplab.checks.expected import Expected
from oplab.checks.exporting import about
from oplab.checks.judge import Judge
from oplab.checks.ort_errors import explained, no_symbolic, refused, symbolic_causes
from oplab.parity.arrays import WrongAnswer, describe, expect_close

if TYPE_CHECKING:
    import onnx
    import torch

Case = tuple[int, str, Sequence[tuple[int, ...]]]  # one export: opset, dtype, the inputs' shapes


def collect(c: Collect, name: str, function: Callable[..., torch.Tensor], cases: Sequence[Case]) -> None:
    """Call the learner's registration ``name``, then export ``function`` for each case; every model or exception is evidence."""
    import torch

    c.function(name)()
    c.value("registered", c.attempt("registered", exporting.registrations))
    c.value("replaced", c.attempt("replaced", exporting.replaced))
    for number, (opset, dtype, shapes) in enumerate(cases):
        inputs = tuple(torch.full(shape, 0.5 + i, dtype=getattr(torch, dtype)) for i, shape in enumerate(shapes))
        title, path = title_of(opset, dtype, shapes), c.scratch / f"{number}.onnx"
        c.attempt(title, exporting.export, function, dict(zip("xy", inputs, strict=False)), opset, path)
        c.file(title, path)


def title_of(opset: int, dtype: str, shapes: Sequence[tuple[int, ...]]) -> str:
    """``opset 9, float32[2, 3]``: the key of the evidence, and what a learner reads."""
    return f"opset {opset}, " + " and ".join(f"{dtype}{list(shape)}" for shape in shapes)


def exported(v: Judge, name: str, opset: int, dtype: str, shapes: Sequence[tuple[int, ...]]) -> onnx.ModelProto:
    """The model exported from these shapes, with what holds for each of them: opset, inputs that are used and dynamic, a valid graph.

    Args:
        name: the ATen operator's name without its namespace, for messages.
    """
    title = title_of(opset, dtype, shapes)
    error = v.error(title)
    if error and error.type == "UnsupportedOperatorError":
        if error.where:  # raised by a function of the answer
            raise refused(error, title, f"aten::{name}", [str(entry) for entry in v.value("registered")], opset)
        raise no_symbolic(title, f"aten::{name}", [str(entry) for entry in v.value("registered")], opset)
    if error:
        raise explained(error, title, symbolic_causes(", ".join(["g", "x", "y"][: 1 + len(shapes)])))
    exporting.expect_only_mine(v.value("replaced"))
    model = v.model(title)
    names = ["x", "y"][: len(shapes)]
    graphs.expect_opset(model, opset)
    graphs.expect_inputs(model, names)
    graphs.expect_outputs(model, ["out"])
    graphs.expect_used(model, names)
    for value, shape in zip(names, shapes, strict=True):
        graphs.expect_dynamic(model, value, range(len(shape)))
    return model


def expect_valid(model: onnx.ModelProto) -> None:
    """onnx.checker, and the usual cause of its refusal here."""
    try:
        graphs.expect_valid(model)
    except WrongAnswer as error:
        opset, reason = graphs.opset(model), str(error).rstrip(".")
        late = [
            f"{name} (since opset {version})" for name, version in _first_versions(model).items() if version > opset
        ]
        if late:
            raise WrongAnswer(f"{reason}. Opset {opset} does not have {', '.join(late)} yet.") from None
        if "Equal" in str(error) and opset < 11:
            raise WrongAnswer(
                f"{reason}. Equal takes float tensors only since opset 11; Cast to BOOL takes them at every opset."
            ) from None
        unknown = [name for name, version in _first_versions(model).items() if version == 0]
        if unknown:
            near = {other.lower(): other for other in _onnx_names()}.get(unknown[0].lower())
            hint = f" It is spelled {near}: names of operators are case-sensitive." if near else ""
            raise WrongAnswer(
                f"{reason}. ONNX has no operator {unknown[0]}, and g.op does not check that.{hint}"
            ) from None
        raise


def _first_versions(model: onnx.ModelProto) -> dict[str, int]:
    """The opset in which each standard operator of the model appeared; 0 for one that does not exist."""
    import onnx.defs

    first = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            first[schema.name] = min(first.get(schema.name, schema.since_version), schema.since_version)
    return {name: first.get(name, 0) for name in graphs.ops(model) if "::" not in name}


def _onnx_names() -> list[str]:
    import onnx.defs

    return [schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""]


def run(model: onnx.ModelProto, shapes: Sequence[tuple[int, ...]], **feeds: np.ndarray) -> np.ndarray:
    """Run a model that was exported from ``shapes``; say so when it fails or answers for that size only."""
    exported = np.broadcast_shapes(*shapes)
    try:
        (got,) = graphs.run(model, {name: np.asarray(feed) for name, feed in feeds.items()})
    except WrongAnswer as error:
        if any(feed.shape != shape for feed, shape in zip(feeds.values(), shapes, strict=True)):
            raise WrongAnswer(f"{str(error).rstrip('.')}.{exporting.baked(exported)}") from None
        raise
    wanted = np.broadcast_shapes(*(feed.shape for feed in feeds.values()))
    exporting.expect_shape(got, wanted, exported, " and ".join(map(describe, feeds.values())))
    return got


def expect_dtype(got: np.ndarray, dtype: str) -> None:
    """The result has the dtype of the inputs; say what usually changes it."""
    if str(got.dtype) != dtype:
        wider = str(got.dtype)
        hint = (
            f" A {wider} constant that has axes, such as torch.tensor([2.0], dtype=torch.{wider}), lifts everything to {wider}: "
            "leave the brackets out, then the exporter turns it into the dtype of x."
        )
        lifted = got.dtype.kind == "f" and got.dtype.itemsize > np.dtype(dtype).itemsize
        raise WrongAnswer(f"The inputs are {dtype}, the result is {wider}.{hint if lifted else ''}")


# --- asinh ---------------------------------------------------------------------------------------------------------

ASINH = [(opset, "float32", [(2, 3)]) for opset in range(9, 21)] + [(9, "float32", [()]), (13, "float32", [(2, 1, 3)])]


def collect_asinh(c: Collect) -> None:
    import torch

    collect(c, "asinh", torch.asinh, ASINH)


def judge_asinh(v: Judge) -> None:
    models = {}
    with v.require("one Asinh node at every opset from 9 on"):
        for case in ASINH:
            with about(title_of(*case)):
                models[title_of(*case)] = model = exported(v, "asinh", *case)
                if "Asinh" not in graphs.ops(model):  # a name that ONNX does not know is the better reason
                    expect_valid(model)
                graphs.expect_ops(model, {"Asinh": 1})
                nodes.expect_alone(model, "Asinh")
                expect_valid(model)
    with v.check("matches torch.asinh, at sizes that were not exported"):
        for case in ASINH:
            with about(title_of(*case)):
                shape = case[2][0]
                for size in (exporting.sizes(v.rng, len(shape)), (0,) * len(shape)):
                    x = np.asarray(v.rng.normal(scale=3, size=size), dtype=np.float32)
                    got = run(models[title_of(*case)], [shape], x=x)
                    expect_close(got, np.arcsinh(x), name=f"asinh of {describe(x)}")


# --- per_opset -----------------------------------------------------------------------------------------------------

PER_OPSET = [(opset, "float32", [(2, 3)]) for opset in range(7, 21)]
PER_OPSET += [(opset, "float32", [()]) for opset in (7, 8, 9, 20)]


def collect_per_opset(c: Collect) -> None:
    import torch

    collect(c, "per_opset", torch.sinh, PER_OPSET)


def judge_per_opset(v: Judge) -> None:
    models = {}
    with v.check("a composition at opsets 7 and 8"):
        for case in PER_OPSET:
            opset = case[0]
            if opset < 9:
                with about(title_of(*case)):
                    models[title_of(*case)] = model = exported(v, "sinh", *case)
                    if "Sinh" in graphs.ops(model):
                        raise WrongAnswer(
                            "the graph has Sinh, which ONNX has only since opset 9. Below opset 9 the exporter's look-up goes up: "
                            f"it takes the nearest registration from {opset} to 9, so the one at 9 answers for opset {opset} too. "
                            f"Opset {opset} needs its own."
                        )
                    nodes.expect_standard(model)
                    expect_valid(model)
    with v.require("the native Sinh from opset 9 on"):
        for case in PER_OPSET:
            if case[0] >= 9:
                with about(title_of(*case)):
                    models[title_of(*case)] = model = exported(v, "sinh", *case)
                    found, composed = graphs.ops(model), models.get(title_of(8, "float32", [(2, 3)]))
                    if "Sinh" not in found:
                        # only where the graph is that of opset 8
                        cause = (
                            " From opset 9 on the look-up goes down to the nearest registration, so one at 7 or 8 stays in use until a "
                            "higher version is registered."
                        )
                        same = composed is not None and graphs.ops(composed) == found
                        raise WrongAnswer(
                            f"expected the native Sinh, the graph has {', '.join(sorted(found))}.{cause if same else ''}"
                        )
                    nodes.expect_alone(model, "Sinh")
                    expect_valid(model)
    with v.check("matches torch.sinh, at sizes that were not exported"):
        for case in PER_OPSET:
            with about(title_of(*case)):
                shape = case[2][0]
                size = exporting.sizes(v.rng, len(shape))
                # Up to 80: e^80 is 5e34, and its square leaves the range of float32. The composition of the docstring holds to 88.
                for bound, shown in ((6, size), (80, size), (6, (0,) * len(shape))):
                    x = np.asarray(v.rng.uniform(-bound, bound, size=shown), dtype=np.float32)
                    got = run(models[title_of(*case)], [shape], x=x)
                    EXPECTED_SINH.judge(got, x, name=f"sinh of {describe(x)}, numbers up to {bound}")


EXPECTED_SINH = Expected(
    np.sinh,
    {
        "The result is e^x - e^-x: the half is missing.": lambda x: 2 * np.sinh(x),
        "The result is cosh(x): the two powers are added instead of subtracted.": np.cosh,
        "The result is -sinh(x): the two powers are swapped.": lambda x: -np.sinh(x),
        "The result is sinh(|x|): the sign is lost.": lambda x: np.sinh(np.abs(x)),
        "This is (e^2x - 1) / (2 e^x): e^2x leaves the range of float32 from x = 44.4 on.": lambda x: (
            (np.exp(x.astype(np.float32)) ** 2 - 1) / (2 * np.exp(x))
        ),
        **{
            f"The base is {e}: Exp has all digits of e.": lambda x, e=e: (float(e) ** x - float(e) ** -x) / 2
            for e in ("2.718", "2.71828")
        },
    },
    tolerance={"float32": (1e-5, 1e-5)},  # 2.71828 is wrong by 5e-5 at 80
)


# --- sinc ----------------------------------------------------------------------------------------------------------

SINC = [(opset, "float32", [(2, 3)]) for opset in (9, 10, 11, 13, 20)]
SINC += [(13, "float64", [(2, 3)]), (13, "float16", [(2, 3)]), (9, "float64", [(4,)])]
SINC += [(13, "float32", [()]), (17, "float32", [(2, 1, 3, 1)])]


def collect_sinc(c: Collect) -> None:
    import torch

    collect(c, "sinc", torch.sinc, SINC)


def judge_sinc(v: Judge) -> None:
    models = {}
    with v.require("valid graphs of standard operators from opset 9 on"):
        for case in SINC:
            with about(title_of(*case)):
                models[title_of(*case)] = model = exported(v, "sinc", *case)
                nodes.expect_standard(model)
                expect_valid(model)
    with v.check("matches torch.sinc, at sizes that were not exported"):
        for case in SINC:
            _, dtype, (shape,) = case
            for size in (exporting.sizes(v.rng, len(shape)), (0,) * len(shape)):
                x = v.rng.uniform(0.05, 4, size) * v.rng.choice([-1, 1], size)
                with about(title_of(*case)):
                    _expect_sinc(models[title_of(*case)], shape, np.asarray(x, dtype=dtype))
    with v.check("1 at x = 0, smooth around it, and NaN stays NaN"):
        for case in SINC:
            _, dtype, (shape,) = case
            x = _around_zero(dtype, shape)
            with about(title_of(*case)):
                got = run(models[title_of(*case)], [shape], x=x)
                expect_at_zero(models[title_of(*case)], got, x)
                EXPECTED_SINC.judge(got, x, name="sinc around 0, and of NaN")


def _around_zero(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """0 and numbers near it of every size, and NaN. At 9e-5 sinc is 1 - 1.3e-8: a float64 is not 1 there, within 1e-9."""
    tiny = float(np.finfo(dtype).smallest_normal)
    numbers = [0.0, -0.0, 1.0, 4 * tiny, -4 * tiny, 1e-3, -1e-3, 9e-5, 5e-4, 9e-3, 0.04, -0.04, np.nan]
    return np.array(numbers if shape else 0.0, dtype=dtype).reshape((-1,) + (1,) * (len(shape) - 1) if shape else ())


def _expect_sinc(model: onnx.ModelProto, shape: tuple[int, ...], x: np.ndarray) -> None:
    got = run(model, [shape], x=x)
    expect_dtype(got, str(x.dtype))
    EXPECTED_SINC.judge(got, x, name=f"sinc of {describe(x)}")


EXPECTED_SINC = Expected(
    np.sinc,
    {
        "The result is sin(x) / x: torch.sinc has the factor pi.": lambda x: np.sin(x) / x,
        "The result is sin(pi x) / x: the factor pi is missing in the denominator.": lambda x: np.pi * np.sinc(x),
        "The result is sin(x) / (pi x): the factor pi is missing in the sine.": lambda x: np.sin(x) / (np.pi * x),
        "The result is 1 where x is not 0: Where(condition, X, Y) takes X where the condition is true.": np.ones_like,
        "Negative numbers are taken for 0.": lambda x: np.where(x > 0, np.sinc(x), 1),
        "Numbers between -1 and 1 are taken for 0: the graph compares with 0 what it has cut to an integer.": lambda x: (
            np.where(np.trunc(x) == 0, 1, np.sinc(x))
        ),
        "This is what pi in float32 gives: it lost digits before it became a double.": lambda x: np.sinc(
            x * (float(np.float32(math.pi)) / math.pi)
        ),
        **{
            f"This is what pi = {pi} gives: math.pi has all digits.": lambda x, pi=pi: np.sinc(
                x * (float(pi) / math.pi)
            )
            for pi in ("3.14", "3.1416", "3.14159", "3.14159265")
        },
    },
)


def expect_at_zero(model: onnx.ModelProto, got: np.ndarray, x: np.ndarray) -> None:
    """1 at 0 alone, and NaN where x is NaN."""
    bad = (x == 0) & (got != 1)
    if bad.any():
        value = got[bad].flat[0]
        cause = " The graph divides 0 by 0 there." if np.isnan(value) and "Div" in graphs.ops(model) else ""
        raise WrongAnswer(f"sinc(0) is 1, got {value:g}.{cause}")
    lost = np.isnan(x) & ~np.isnan(got)
    visible = {"float16": 1.1e-2, "float32": 1.1e-4, "float64": 1.1e-9}[str(x.dtype)]  # outside of the tolerance
    near = (x != 0) & (got == 1) & (1 - np.sinc(x.astype(np.float64)) > visible)
    if near.any():
        raise WrongAnswer(
            f"sinc({x[near].flat[0]:g}) is {np.sinc(float(x[near].flat[0])):.9g}, got 1: numbers near 0 are taken for 0, as a threshold "
            "does. Only 0 itself needs the 1."
        )
    if lost.any():
        raise WrongAnswer(
            f"sinc(NaN) is NaN, got {got[lost].flat[0]:g}: NaN is taken for 0. Every comparison with NaN is false."
        )


# --- hypot ---------------------------------------------------------------------------------------------------------

HYPOT = [(opset, dtype, [(2, 3), (2, 3)]) for opset in (9, 13, 20) for dtype in ("float32", "float64")]
HYPOT += [
    (13, "float32", shapes) for shapes in ([(2, 3), (3,)], [(2, 1), (1, 3)], [(3,), ()], [(3,), (2, 3)], [(), ()])
]
HYPOT += [(9, "float64", [(2, 1), (1, 3)])]


def collect_hypot(c: Collect) -> None:
    import torch

    collect(c, "hypot", torch.hypot, HYPOT)


def judge_hypot(v: Judge) -> None:
    models = {}
    with v.require("valid graphs of standard operators from opset 9 on"):
        for case in HYPOT:
            with about(title_of(*case)):
                models[title_of(*case)] = model = exported(v, "hypot", *case)
                nodes.expect_standard(model)
                expect_valid(model)
    with v.check("matches torch.hypot, at sizes that were not exported"):
        for case in HYPOT:
            with about(title_of(*case)):
                x, y = hypot_pair(v.rng, case)
                _expect_hypot(models[title_of(*case)], case, x, y, f"hypot of {describe(x)} and {describe(y)}")
    for word, sign in (("large", 1), ("tiny", -1)):
        with v.check(f"{word} numbers, whose squares leave the range of the dtype"):
            for case in HYPOT:
                with about(title_of(*case)):
                    power = EXPONENT[case[1]] if sign > 0 else TINY[case[1]]
                    x, y = (part * np.asarray(10.0**power, part.dtype) for part in hypot_pair(v.rng, case))
                    _expect_hypot(models[title_of(*case)], case, x, y, f"hypot of numbers around 1e{power}")
    with v.check("zeros, and two numbers far apart"):
        for case in HYPOT:
            with about(title_of(*case)):
                x, y = hypot_pair(v.rng, case)
                spread = 10.0 ** (
                    v.rng.uniform(-0.9, 0.9, size=np.broadcast_shapes(x.shape, y.shape)) * EXPONENT[case[1]]
                )
                if x.shape == y.shape:  # pairs of very different size in one array: each needs its own divisor
                    x, y = (np.asarray(part * spread, case[1]) for part in (x, y))
                    name = f"hypot of pairs from 1e-{EXPONENT[case[1]]} to 1e{EXPONENT[case[1]]} in one array"
                    _expect_hypot(models[title_of(*case)], case, x, y, name)
            big, tiny = 10.0 ** EXPONENT[case[1]], 10.0 ** -EXPONENT[case[1]]
            pairs = (0, 0), (0, -4), (-0.0, -0.0), (3, 0), (-3, -0.0), (big, tiny), (tiny, big), (1, tiny), (-tiny, 1)
            limits = np.finfo(case[1])
            pairs += (0.6 * limits.max,) * 2, (limits.tiny / 8,) * 2
            for length, pair in [*((1, pair) for pair in pairs), (0, (3, 4))]:  # and an empty tensor
                x, y = (
                    np.full((length,) * len(shape), value, case[1]) for shape, value in zip(case[2], pair, strict=True)
                )
                with about(title_of(*case)):
                    _expect_hypot(models[title_of(*case)], case, x, y, f"hypot({pair[0]:g}, {pair[1]:g})")


EXPONENT = {"float32": 30, "float64": 200}
TINY = {"float32": -36, "float64": -300}  # normal numbers; an epsilon in the divisor shows


def hypot_pair(rng: np.random.Generator, case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Fresh numbers of both signs: other sizes than at export, axes of size 1 where the exported shapes have one."""
    _, dtype, shapes = case
    common = exporting.sizes(rng, max(len(shape) for shape in shapes))
    made = []
    for shape in shapes:
        size = tuple(1 if old == 1 else new for old, new in zip(shape, common[len(common) - len(shape) :], strict=True))
        made.append(np.asarray(rng.normal(scale=3, size=size), dtype))
    return made[0], made[1]


def _expect_hypot(model: onnx.ModelProto, case: Case, x: np.ndarray, y: np.ndarray, name: str) -> None:
    got = run(model, case[2], x=x, y=y)
    expect_dtype(got, case[1])
    EXPECTED_HYPOT.judge(got, x, y, name=name)


def _why_hypot(got: np.ndarray, right: np.ndarray, x: np.ndarray, y: np.ndarray) -> str:
    if got.size == 1:
        zeros = not x.any() or not y.any()
        if not np.isfinite(got).all() and zeros:
            return "The graph divides 0 by 0 there: the divisor needs another value where both numbers are 0."
        if right.max() > np.finfo(right.dtype).max / 2:
            return "The divisor leaves the range of the dtype: it is the larger of |x| and |y|, not their sum."
        if 0 < right.max() < np.finfo(right.dtype).tiny:
            return "Below the smallest normal number there are others: only a divisor of 0 needs another value."
        if not np.isfinite(got).all():
            return "A quotient leaves the range of the dtype there: divide the smaller number by the larger one."
        if not right.any() and got.flat[0] == 1:
            return "The 1 that replaces the divisor at (0, 0) is a factor of the result, too."
    large = np.maximum(np.abs(x), np.abs(y))
    if got.size > 1 and (got >= large * 0.99999).all() and (got <= right).all():
        return (
            "The quotient is too small: what is added to the divisor changes every quotient of numbers near its size."
        )
    return ""


def _larger(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A function of M and m, the larger and the smaller of two numbers, as a function of the two."""
    return lambda x, y: function(np.maximum(np.abs(x), np.abs(y)), np.minimum(np.abs(x), np.abs(y)))


# Relative to each value alone: with an absolute tolerance 1e-30 would equal 0.
EXPECTED_HYPOT = Expected(
    np.hypot,
    {
        "This is the plain square root of x*x + y*y: the squares leave the range of the dtype. "
        "Computing it in double helps float32 only: for float64 there is no wider type.": lambda x, y: np.sqrt(
            x * x + y * y
        ),
        "This is |x| + |y|.": lambda x, y: np.abs(x) + np.abs(y),
        "This is x*x + y*y: the square root is missing.": lambda x, y: x * x + y * y,
        "A negative number is taken for the smaller one: Max and Min need Abs(x) and Abs(y).": lambda x, y: (
            np.maximum(x, y) * np.sqrt(1 + (np.minimum(x, y) / np.maximum(x, y)) ** 2)
        ),
        "This is the smaller of |x| and |y|, times the root: the factor is the larger one, M.": _larger(
            lambda M, m: m * np.sqrt(1 + (m / M) ** 2)
        ),
        "This is M (1 + (m / M)^2): the square root is missing.": _larger(lambda M, m: M * (1 + (m / M) ** 2)),
        "This is M sqrt(1 + m / M): the quotient is not squared.": _larger(lambda M, m: M * np.sqrt(1 + m / M)),
        "This is M sqrt((M / m)^2 + 1): the larger number is divided by the smaller one.": _larger(
            lambda M, m: M * np.sqrt(1 + (M / m) ** 2)
        ),
    },
    _why_hypot,
    {"float32": (1e-5, 0.0), "float64": (1e-12, 0.0)},
    wide=False,
)
