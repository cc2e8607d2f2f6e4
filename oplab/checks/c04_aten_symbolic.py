"""Checks of chapter 04: what each symbolic function writes, judged by its graph and on fresh inputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from oplab.checks import exporting, graphs, nodes
from oplab.checks.evidence import Collect
from oplab.checks.expected import Expected
from oplab.checks.exporting import about
from oplab.checks.judge import Judge
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
    standard,
)
from oplab.parity.arrays import WrongAnswer, describe

if TYPE_CHECKING:
    import onnx

# --- asinh ---------------------------------------------------------------------------------------------------------

ASINH_OP = Operator("aten::asinh")
ASINH = [Case(opset, "float32", (2, 3)) for opset in range(9, 21)]
ASINH += [Case(9, "float32", ()), Case(13, "float32", (2, 1, 3))]


def collect_asinh(c: Collect) -> None:
    import torch

    register(c, "asinh", ASINH_OP)
    collect(c, ASINH_OP, ASINH, lambda case: torch.asinh)


def judge_asinh(v: Judge) -> None:
    models = {}
    with v.require("one Asinh node at every opset from 9 on"):
        for case in ASINH:
            with about(case.title):
                models[case] = model = exported(v, ASINH_OP, case)
                expect_single(model, "Asinh")
                expect_valid(model)
    with v.check("matches torch.asinh, at sizes that were not exported"):
        expect_numbers(v, ASINH_OP, models, lambda case: Expected(np.arcsinh, {}))


# --- per_opset -----------------------------------------------------------------------------------------------------

SINH_OP = Operator("aten::sinh")
PER_OPSET = [Case(opset, "float32", (2, 3)) for opset in range(7, 21)]
PER_OPSET += [Case(opset, "float32", ()) for opset in (7, 8, 9, 20)]


def collect_per_opset(c: Collect) -> None:
    import torch

    register(c, "per_opset", SINH_OP)
    collect(c, SINH_OP, PER_OPSET, lambda case: torch.sinh)


def judge_per_opset(v: Judge) -> None:
    models: dict[Case, onnx.ModelProto] = {}
    with v.check("a composition at opsets 7 and 8"):
        models |= standard(v, SINH_OP, [case for case in PER_OPSET if case.opset < 9], also=_expect_composed)
    with v.require("the native Sinh from opset 9 on"):
        for case in PER_OPSET:
            if case.opset >= 9:
                with about(case.title):
                    models[case] = model = exported(v, SINH_OP, case)
                    found, composed = graphs.ops(model), models.get(Case(8, "float32", (2, 3)))
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
            with about(case.title):
                rank = len(case.shape)
                size = exporting.sizes(v.rng, rank)
                # Up to 80: e^80 is 5e34, and its square leaves the range of float32. The composition of the docstring holds to 88.
                for bound, shown in ((6, size), (80, size), (6, (0,) * rank)):
                    x = np.asarray(v.rng.uniform(-bound, bound, size=shown), dtype=np.float32)
                    name = f"sinh of {describe(x)}, numbers up to {bound}"
                    expect(models[case], SINH_OP, case, {"x": x}, EXPECTED_SINH, name)


def _expect_composed(model: onnx.ModelProto, case: Case) -> None:
    if "Sinh" in graphs.ops(model):
        raise WrongAnswer(
            "the graph has Sinh, which ONNX has only since opset 9. Below opset 9 the exporter's look-up goes up: "
            f"it takes the nearest registration from {case.opset} to 9, so the one at 9 answers for opset {case.opset} too. "
            f"Opset {case.opset} needs its own."
        )


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

SINC_OP = Operator("aten::sinc")
SINC = [Case(opset, "float32", (2, 3)) for opset in (9, 10, 11, 13, 20)]
SINC += [Case(13, "float64", (2, 3)), Case(13, "float16", (2, 3)), Case(9, "float64", (4,))]
SINC += [Case(13, "float32", ()), Case(17, "float32", (2, 1, 3, 1))]


def collect_sinc(c: Collect) -> None:
    import torch

    register(c, "sinc", SINC_OP)
    collect(c, SINC_OP, SINC, lambda case: torch.sinc)


def judge_sinc(v: Judge) -> None:
    with v.require("valid graphs of standard operators from opset 9 on"):
        models = standard(v, SINC_OP, SINC)
    with v.check("matches torch.sinc, at sizes that were not exported"):
        expect_numbers(v, SINC_OP, models, lambda case: EXPECTED_SINC, both_signs)
    with v.check("1 at x = 0, smooth around it, and NaN stays NaN"):
        for case, model in models.items():
            x = _around_zero(case)
            with about(case.title):
                got = run(model, SINC_OP, case, {"x": x})
                expect_at_zero(model, got, x)
                EXPECTED_SINC.judge(got, x, name="sinc around 0, and of NaN")


def both_signs(rng: np.random.Generator, size: tuple[int, ...]) -> np.ndarray:
    return rng.uniform(0.05, 4, size) * rng.choice([-1, 1], size)


def _around_zero(case: Case) -> np.ndarray:
    """0 and numbers near it of every size, and NaN. At 9e-5 sinc is 1 - 1.3e-8: a float64 is not 1 there, within 1e-9."""
    tiny = float(np.finfo(case.dtype).smallest_normal)
    numbers = [0.0, -0.0, 1.0, 4 * tiny, -4 * tiny, 1e-3, -1e-3, 9e-5, 5e-4, 9e-3, 0.04, -0.04, np.nan]
    return case.along(numbers if case.shape else [0.0])


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

HYPOT_OP = Operator("aten::hypot", "xy", "g, x, y")
HYPOT = [Case(opset, dtype, (2, 3), more=((2, 3),)) for opset in (9, 13, 20) for dtype in ("float32", "float64")]
HYPOT += [
    Case(13, "float32", x, more=(y,))
    for x, y in (((2, 3), (3,)), ((2, 1), (1, 3)), ((3,), ()), ((3,), (2, 3)), ((), ()))
]
HYPOT += [Case(9, "float64", (2, 1), more=((1, 3),))]


def collect_hypot(c: Collect) -> None:
    import torch

    register(c, "hypot", HYPOT_OP)
    collect(c, HYPOT_OP, HYPOT, lambda case: torch.hypot)


def judge_hypot(v: Judge) -> None:
    with v.require("valid graphs of standard operators from opset 9 on"):
        models = standard(v, HYPOT_OP, HYPOT)

    def expect_right(case: Case, x: np.ndarray, y: np.ndarray, name: str = "") -> None:
        expect(models[case], HYPOT_OP, case, {"x": x, "y": y}, EXPECTED_HYPOT, name)

    with v.check("matches torch.hypot, at sizes that were not exported"):
        for case in HYPOT:
            with about(case.title):
                expect_right(case, *hypot_pair(v.rng, case))
    for word, powers in (("large", EXPONENT), ("tiny", TINY)):
        with v.check(f"{word} numbers, whose squares leave the range of the dtype"):
            for case in HYPOT:
                with about(case.title):
                    power = powers[case.dtype]
                    x, y = (part * np.asarray(10.0**power, part.dtype) for part in hypot_pair(v.rng, case))
                    expect_right(case, x, y, f"hypot of numbers around 1e{power}")
    with v.check("zeros, and two numbers far apart"):
        for case in HYPOT:
            most = EXPONENT[case.dtype]
            with about(case.title):
                x, y = hypot_pair(v.rng, case)
                spread = 10.0 ** (v.rng.uniform(-0.9, 0.9, size=np.broadcast_shapes(x.shape, y.shape)) * most)
                if x.shape == y.shape:  # pairs of very different size in one array: each needs its own divisor
                    x, y = (np.asarray(part * spread, case.dtype) for part in (x, y))
                    expect_right(case, x, y, f"hypot of pairs from 1e-{most} to 1e{most} in one array")
            big, tiny = 10.0**most, 10.0**-most
            pairs = (0, 0), (0, -4), (-0.0, -0.0), (3, 0), (-3, -0.0), (big, tiny), (tiny, big), (1, tiny), (-tiny, 1)
            limits = np.finfo(case.dtype)
            pairs += (0.6 * limits.max,) * 2, (limits.tiny / 8,) * 2
            for length, pair in [*((1, pair) for pair in pairs), (0, (3, 4))]:  # and an empty tensor
                x, y = (
                    np.full((length,) * len(shape), value, case.dtype)
                    for shape, value in zip((case.shape, *case.more), pair, strict=True)
                )
                with about(case.title):
                    expect_right(case, x, y, f"hypot({pair[0]:g}, {pair[1]:g})")


EXPONENT = {"float32": 30, "float64": 200}
TINY = {"float32": -36, "float64": -300}  # normal numbers; an epsilon in the divisor shows


def hypot_pair(rng: np.random.Generator, case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Fresh numbers of both signs: other sizes than at export, axes of size 1 where the exported shapes have one."""
    shapes = case.shape, *case.more
    common = exporting.sizes(rng, max(map(len, shapes)))
    made = []
    for shape in shapes:
        size = tuple(1 if old == 1 else new for old, new in zip(shape, common[len(common) - len(shape) :], strict=True))
        made.append(np.asarray(rng.normal(scale=3, size=size), case.dtype))
    return made[0], made[1]


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
