"""Checks of chapter 19: normalisation in three types, attention as one operator, and what older runtimes need instead."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from oplab.checks import graphs
from oplab.checks.evidence import Collect
from oplab.checks.exporting import about, reasons
from oplab.checks.guarded import guarded
from oplab.checks.judge import Judge
from oplab.checks.kernels import Feeds, announce, expect_refusal, one_node, outputs, record, session
from oplab.checks.ort_errors import INPUT_TYPE, OUTPUT_TYPE, UNREGISTERED, Causes, explained
from oplab.checks.returned import record_model, recorded_model
from oplab.checks.stress import Stress, collect_stress, judge_stress, sound
from oplab.debug import tap
from oplab.onnxtools.names import normal_domain
from oplab.parity.arrays import WrongAnswer, describe, expect_close

# --- rms_norm --------------------------------------------------------------------------------------------------------

TYPES = {
    name: np.dtype(helper.tensor_dtype_to_np_dtype(number))
    for name, number in (
        ("float32", TensorProto.FLOAT),
        ("float16", TensorProto.FLOAT16),
        ("bfloat16", TensorProto.BFLOAT16),
    )
}
_DIGITS = {"float32": 23, "float16": 10, "bfloat16": 7}  # of the fraction
_LEAST = {"float32": -126, "float16": -14, "bfloat16": -126}  # exponent of the smallest normal number
EPSILON = 1e-5  # the default
UNWRITTEN = -77.5  # what y holds before the kernel writes to it

_RMS_CAUSES = {
    UNREGISTERED: (
        "The library has no such operator in the domain lab: compare the name that it registers with the one in the stub."
    ),
    INPUT_TYPE: "The operator is not declared for this type: one operator of the same name is added for each of the three types.",
    OUTPUT_TYPE: "y has the type of x: see the type of the Tensor<…>&.",
    "Could not find an implementation": "An operator of the same name is added for each of the three types.",
    "provided for output": "The kernel asks for an output of another shape than x has.",
}


@dataclass(frozen=True)
class Norm:
    """One run of RMSNorm.

    Attributes:
        title: what is special about it, for messages.
        dtype: a key of TYPES.
        x, scale: of that dtype.
        epsilon: the attribute; None where the model does not set it.
    """

    title: str
    dtype: str
    x: np.ndarray
    scale: np.ndarray
    epsilon: float | None = None

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        return {"x": self.x, "scale": self.scale}

    def exact(self, kind: str = "") -> np.ndarray:
        """y in double; ``kind`` names a wrong formula."""
        return normalised(self.x, self.scale, EPSILON if self.epsilon is None else self.epsilon, kind)


def rms_model(dtype: str, epsilon: float | None = None, scale: str = "") -> onnx.ModelProto:
    """A model of one node, which says nothing about shapes; ``scale`` is the dtype of that input where it is another one."""
    inputs = {"x": (dtype, None), "scale": (scale or dtype, None)}
    return one_node("RMSNorm", inputs, {"y": (dtype, None)}, epsilon=epsilon)


def normalised(x: np.ndarray, scale: np.ndarray, epsilon: float, kind: str = "") -> np.ndarray:
    """``x / sqrt(mean(x^2) + epsilon) * scale`` in double; ``kind`` makes known wrong answers."""
    wide, factors = x.astype(np.float64), scale.astype(np.float64)
    epsilon = float(np.float32(epsilon))
    if kind == "centred":
        wide = wide - wide.mean(axis=-1, keepdims=True)
    axis: Any = {"first axis": 0, "all": None}.get(kind, -1)
    with np.errstate(all="ignore"):
        square = (wide**2).mean(axis=axis, keepdims=True) if x.size else np.ones((*x.shape[:-1], 1))
        if kind == "sum":
            square = square * x.shape[-1]
        if kind == "half sum":
            square = (np.add.accumulate(x * x, axis=-1)[..., -1:] / np.array(x.shape[-1], x.dtype)).astype(np.float64)
        root = {
            "outside": np.sqrt(square) + epsilon,
            "left out": np.sqrt(square),
            "1e-6": np.sqrt(square + 1e-6),
        }.get(kind, np.sqrt(square + epsilon))
        if kind == "no scale":
            return wide / root
        if kind == "one scale":
            return wide / root * factors.flat[0] if factors.size else wide
        return wide / root * (factors + (kind == "1 + scale"))


_RMS_WRONG = {
    "outside": "epsilon is added to the root here; it belongs under it: sqrt(mean(x^2) + epsilon).",
    "left out": "epsilon is left out here: sqrt(mean(x^2) + epsilon).",
    "1e-6": "epsilon is 1e-6 here; it is the attribute, and 1e-5 where the model leaves it out.",
    "sum": "This is divided by the root of the sum of the squares; the mean is the sum divided by n.",
    "centred": "The mean of x is subtracted first, as LayerNorm does; RMSNorm does not.",
    "first axis": "The mean is over the first axis here; it is over the last one.",
    "all": "One mean of all elements is used here; each row along the last axis has its own.",
    "one scale": "Every element is multiplied by scale[0]; element i of a row has scale[i].",
    "no scale": "The factor scale is missing.",
    "1 + scale": "This is multiplied by 1 + scale; here the factor is scale.",
    "half sum": "The squares or their sum are computed in the half type, where a long sum stops growing and 300 squared is infinite.",
}


def rms_cases(rng: np.random.Generator) -> list[Norm]:
    """Runs for each type, with the values that are special to it."""

    def norm(title: str, dtype: str, x: np.ndarray, epsilon: float | None = None) -> Norm:
        scale = rng.uniform(0.5, 2, x.shape[-1]) * rng.choice([-1, 1], x.shape[-1])
        given = TYPES[dtype]
        return Norm(f"{dtype}, {title}", dtype, x.astype(np.float32).astype(given), scale.astype(given), epsilon)

    made = []
    for dtype in TYPES:
        for shape in ((5, 7), (9,), (2, 3, int(rng.integers(4, 9)) * 2 + 1), (2, 1, 3, 4), (6, 1)):
            made.append(norm(f"x {list(shape)}", dtype, rng.standard_normal(shape), 0.25))
        made.append(norm("small x, no attribute epsilon", dtype, rng.standard_normal((4, 33)) * 2e-3))
        made.append(norm("small x, epsilon = 1e-3", dtype, rng.standard_normal((3, 20)) * 1e-2, 1e-3))
        made.append(norm("40 rows of 257", dtype, rng.standard_normal((40, 257)), 0.0625))
        # Eight of them: in some, a root is so close to a number of the type that it does not matter whether it was rounded.
        made.append(norm("a row of 4096", dtype, 1 + rng.integers(0, 2, (8, 4096)) / 4))
        made.append(norm("two rows, the second 64 times as large", dtype, rng.standard_normal((2, 24)) * [[1], [64]]))
    made.append(norm("values of 300", "float16", 300 + rng.integers(-40, 40, (3, 12))))
    made.append(norm("values of 60000", "float16", rng.choice([-1, 1], (2, 30)) * rng.uniform(5e4, 6e4, (2, 30))))
    made.append(norm("the smallest numbers, epsilon = 0", "float16", rng.integers(1, 9, (3, 10)) * 2.0**-24, 0.0))
    made.append(norm("values of 1e15", "bfloat16", rng.standard_normal((3, 12)) * 1e15))
    made.append(norm("values of 1e-15, epsilon = 0", "bfloat16", rng.standard_normal((3, 12)) * 1e-15, 0.0))
    return made


def rms_special(rng: np.random.Generator) -> list[Norm]:
    """Rows with NaN and infinity, between rows without, and a row of zeros; epsilon is 0."""
    made = []
    for dtype, given in TYPES.items():
        x = rng.standard_normal((6, 13)).astype(np.float32).astype(given)
        x[1, 4], x[2, 0], x[3, 12], x[5] = np.nan, np.inf, -np.inf, 0
        made.append(Norm(f"{dtype}, rows with NaN and infinity", dtype, x, np.ones(13, given), 0.0))
    return made


def rms_empty() -> list[Norm]:
    shapes = ((0, 5), (3, 0), (0,), (2, 0, 4), (0, 0))
    return [
        Norm(f"{dtype}, x {list(shape)}", dtype, np.zeros(shape, given), np.ones(shape[-1], given))
        for dtype, given in TYPES.items()
        for shape in shapes
    ]


def rms_refusals(rng: np.random.Generator) -> dict[str, Feeds]:
    """Inputs that have to be refused, of a float32 model."""
    x = rng.standard_normal((4, 6)).astype(np.float32)
    shapes: dict[str, tuple[int, ...]] = {
        "5 values for an x of [4, 6]": (5,),
        "7 values for an x of [4, 6]": (7,),
        "one value for an x of [4, 6]": (1,),
        "4 values for an x of [4, 6], as many as it has rows": (4,),
        "the shape [1, 6] for an x of [4, 6]": (1, 6),
        "the shape [4, 6] of x": (4, 6),
        "no axes": (),
        "no values for an x of [4, 6]": (0,),
    }
    made = {f"scale has {what}": {"x": x, "scale": np.ones(shape, np.float32)} for what, shape in shapes.items()}
    made["scale has 2 values for an x of [3, 0]"] = {"x": x[:3, :0], "scale": np.ones(2, np.float32)}
    made["x has no axes"] = {"x": np.array(1, np.float32), "scale": np.ones(1, np.float32)}
    made["x and scale have no axes"] = {"x": np.array(1, np.float32), "scale": np.array(1, np.float32)}
    return made


RMS_MIXED = {
    f"x {x}, scale {scale}": (x, scale)
    for x, scale in (("float32", "float16"), ("float16", "float32"), ("bfloat16", "float16"), ("float16", "bfloat16"))
}
RMS_EPSILONS = {"epsilon = -0.5": -0.5, "epsilon = NaN": float("nan"), "epsilon = -1e-6": -1e-6}


def rms_stress(rng: np.random.Generator) -> Stress:
    """In float16, where a kernel is likely to keep a buffer."""

    def feeds(*shape: int) -> Feeds:
        x, scale = rng.standard_normal(shape), rng.uniform(0.5, 2, shape[-1])
        made = {"x": x.astype(np.float16), "scale": scale.astype(np.float16)}
        return made | {f"{name}32": value.astype(np.float32) for name, value in made.items()}

    wide = rms_model("float32", 0.25)
    for value, name in zip(wide.graph.input, ("x32", "scale32"), strict=True):
        value.name = name
    wide.graph.node[0].input[:] = ["x32", "scale32"]
    short = {"x": np.ones((4, 6), np.float16), "scale": np.ones(5, np.float16)}
    scalar = {"x": np.array(1, np.float16), "scale": np.ones(1, np.float16)}
    return Stress(
        {
            "float16, epsilon = 0.25": rms_model("float16", 0.25),
            "float16, epsilon = 4": rms_model("float16", 4.0),
            "float32, epsilon = 0.25": wide,
        },
        {
            "x [400, 701]": feeds(400, 701),
            "x [700, 403]": feeds(700, 403),
            "x [3, 7]": feeds(3, 7),
            "x [5, 1]": feeds(5, 1),
            "x [0, 4]": feeds(0, 4),
            "x [3, 0]": feeds(3, 0),
        },
        {
            "scale has 5 values for an x of [4, 6]": (rms_model("float16", 0.25), short),
            "x has no axes": (rms_model("float16", 0.25), scalar),
            "epsilon = -0.5": (rms_model("float16", -0.5), None),
        },
    )


def _bound(run: Any, case: Norm) -> np.ndarray:
    """y, from inputs and into an output that end at a page which no code may touch.

    The Python API has no arrays of bfloat16, so the addresses are passed.
    """
    plain = bool(os.environ.get("OPLAB_SANITIZE"))  # the sanitizer sees by itself where arrays end

    def place(array: np.ndarray) -> np.ndarray:
        bits = array if case.dtype == "float32" else array.view(np.uint16)
        return np.ascontiguousarray(bits) if plain else guarded(bits)

    number = helper.np_dtype_to_tensor_dtype(TYPES[case.dtype])
    held = {name: place(value) for name, value in case.feeds.items()}
    out = place(np.full(case.x.size, UNWRITTEN, np.float32).astype(TYPES[case.dtype]).reshape(case.x.shape))
    binding = run.io_binding()
    for name, array in held.items():
        binding.bind_input(name, "cpu", 0, number, list(array.shape), array.ctypes.data)
    binding.bind_output("y", "cpu", 0, number, list(out.shape), out.ctypes.data)
    run.run_with_iobinding(binding)
    return out.copy()


def collect_rms_norm(c: Collect) -> None:
    found: dict[str, np.ndarray] = {}
    cases = rms_cases(c.rng)
    for case in (*cases, *rms_special(c.rng), *rms_empty()):
        run = session(c, case.title, rms_model(case.dtype, case.epsilon))
        announce(case.title)
        made = c.attempt(case.title, _bound, run, case) if run else None
        if made is not None:
            found[case.title] = made
            c.value(case.title, [made])
    run = session(c, "refusals", rms_model("float32"))
    for title, feeds in rms_refusals(c.rng).items():
        record(c, title, run, feeds)
    for title, value in RMS_EPSILONS.items():
        session(c, title, rms_model("float32", value))
    for title, (x, scale) in RMS_MIXED.items():
        session(c, title, rms_model(x, None, scale))
    stress = rms_stress(c.rng)
    if sound(lambda: [expect_normalised(_typed(found[case.title], case), case) for case in cases]):
        collect_stress(c, stress)


def judge_rms_norm(v: Judge) -> None:
    cases, special, empty = rms_cases(v.rng), rms_special(v.rng), rms_empty()
    refusals, stress = rms_refusals(v.rng), rms_stress(v.rng)
    found: dict[str, np.ndarray] = {}
    with v.require("ONNX Runtime takes the operator for float, float16 and bfloat16, and runs it"):
        for case in cases:
            with about(case.title):
                found[case.title] = _typed(outputs(v, case.title, 1, _RMS_CAUSES)[0], case)
    with v.check("y is x / sqrt(mean(x^2) + epsilon) * scale"):
        for case in cases:
            if case.dtype == "float32":
                expect_normalised(found[case.title], case)
    with v.check("float16 and bfloat16 are computed in float, and rounded once"):
        telling = [case for case in cases if "300" in case.title or "4096" in case.title]  # where only one cause fits
        for case in (*telling, *cases):
            if case.dtype != "float32":
                expect_normalised(found[case.title], case)
    with v.check("NaN and infinity stay in their rows"):
        for case in special:
            with about(case.title):
                expect_special(_typed(outputs(v, case.title, 1, _RMS_CAUSES)[0], case), case)
    with v.check("an x without elements gives a y without elements"):
        for case in empty:
            with about(case.title):
                got = _typed(outputs(v, case.title, 1, _RMS_CAUSES)[0], case)
                if got.shape != case.x.shape:
                    raise WrongAnswer(f"Expected a y of the shape {case.x.shape}, got {got.shape}.")
    with v.check("what cannot be normalised gets a status"):
        for title in refusals:
            likely = (
                "x has no last axis there: look at its number of axes first."
                if title.startswith("x ")
                else "Compare scale's shape with [n] before you read: y would be made of memory after it."
            )
            expect_refusal(v, title, likely=likely)
        for title in RMS_EPSILONS:
            expect_refusal(v, title, likely="Refuse it in the constructor; a comparison with NaN is false.")
        for title in RMS_MIXED:
            expect_refusal(
                v, title, likely="Both have the type T: a kernel would read the bits of one type as the other."
            )
    if v.ok:
        runs = {
            (node, run): Norm(
                "",
                node.split(",")[0],
                stress.runs[run]["x32" if node.startswith("float32") else "x"],
                stress.runs[run]["scale32" if node.startswith("float32") else "scale"],
                float(node.rpartition(" ")[2]),
            )
            for node in stress.nodes
            for run in stress.runs
        }
        judge_stress(v, stress, lambda node, run, arrays: expect_normalised(arrays[0], runs[node, run]))


def _typed(array: np.ndarray, case: Norm) -> np.ndarray:
    """The recorded bits as numbers of the case's type."""
    bits = np.dtype(np.float32 if case.dtype == "float32" else np.uint16)
    if array.dtype != bits:
        raise WrongAnswer(f"Expected a y of {case.dtype}, got something else.")
    return array.view(TYPES[case.dtype])


def expect_normalised(got: np.ndarray, case: Norm) -> None:
    """Demand y: float32 up to the rounding of a sum in float, the halves rounded once.

    A sum of 4096 squares in float is off by 1e-5 at most here, which is 0.02 units in the last place of float16; a result that is rounded
    twice is off by up to one unit.
    """
    exact, where = case.exact(), case.title and f"{case.title}: "
    if got.shape != exact.shape or got.dtype != TYPES[case.dtype]:
        raise WrongAnswer(
            f"{where}expected y of the shape {exact.shape} and {case.dtype}, got {got.shape}, {got.dtype}."
        )
    unit = _unit(exact, case.dtype)
    limit = 0.6 if case.dtype != "float32" else 100
    away = np.abs(got.astype(np.float64) - exact) / unit
    if not (~(away <= limit)).any():
        return
    at = tuple(int(k) for k in np.argwhere(~(away <= limit))[0])
    shown = f"y[{', '.join(map(str, at))}]" if at else "y"
    reason = _rms_reason(got, case, away)
    raise WrongAnswer(f"{where}{shown} is {float(got[at])!r}, expected {exact[at]:.7g}. {reason}".rstrip())


def _unit(exact: np.ndarray, dtype: str) -> np.ndarray:
    """The distance of two neighbours among the numbers of the type, next to each value."""
    exponent = np.frexp(exact)[1] - 1
    return 2.0 ** (np.maximum(exponent, _LEAST[dtype]) - _DIGITS[dtype])


def _rms_reason(got: np.ndarray, case: Norm, away: np.ndarray) -> str:
    """The likely cause of wrong numbers; empty where none fits."""
    wide, exact = got.astype(np.float64), case.exact()
    if left := int((wide == UNWRITTEN).sum()):
        return f"{left} of {got.size} elements were not written: every row of x counts, whatever the number of axes."
    coarse = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}[case.dtype]
    for kind, sentence in _RMS_WRONG.items():
        if kind == "half sum" and case.dtype == "float32":
            continue
        with np.errstate(all="ignore"):
            wrong = case.exact(kind)
            wrong = wrong.astype(TYPES[case.dtype]).astype(np.float64) if kind == "half sum" else wrong
        differs = not np.allclose(wrong, exact, rtol=4 * coarse, atol=0, equal_nan=True)
        if wrong.shape == wide.shape and differs and np.allclose(wide, wrong, rtol=coarse, atol=0, equal_nan=True):
            return sentence
    if case.dtype != "float32" and np.nanmax(away, initial=0) < 8 and not np.isnan(away).any():
        cut = (np.abs(wide) <= np.abs(exact)).all()
        if cut:
            return "Each result is cut off towards 0: round it to the nearest number of the type."
        return (
            f"It is {np.nanmax(away):.2f} units in the last place away, and 0.5 is what one rounding costs: something is rounded to "
            f"{case.dtype} before the end. Keep the squares, the root and the products in float."
        )
    if np.isnan(wide).any() or np.isinf(wide).any():
        return "A square or a sum has no number in the type in which it is computed."
    return ""


def expect_special(got: np.ndarray, case: Norm) -> None:
    """Demand NaN in a row with NaN, 0 and NaN in rows with infinity, and the other rows as without them."""
    wide = got.astype(np.float64)
    if not np.isnan(wide[1]).all():
        raise WrongAnswer(
            "Row 1 has a NaN, so its mean is NaN and so is each element of y; some are not. Is NaN lost in a conversion?"
        )
    if not np.isnan(wide[5]).all():
        raise WrongAnswer("Row 5 has only zeros, and epsilon is 0: 0 / 0 is NaN.")
    for row, column in ((2, 0), (3, 12)):
        rest = np.delete(wide[row], column)
        if not np.isnan(wide[row, column]) or rest.any():
            raise WrongAnswer(
                f"Row {row} has an infinity: infinity / infinity is NaN there, and the other elements are divided by infinity, which is 0."
            )
    kept = Norm("a row between rows with NaN and infinity", case.dtype, case.x[[0, 4]], case.scale, case.epsilon)
    expect_normalised(got[[0, 4]], kept)


# --- attention_export ------------------------------------------------------------------------------------------------

ATTENTION_INPUTS = {"query": (0, 2), "key": (0, 2), "value": (0, 2), "real": (0, 1)}  # and their dynamic axes


@dataclass(frozen=True)
class Exported:
    """Arguments of one call of attention_export."""

    opset: int
    heads: int
    groups: int
    width: int

    @property
    def title(self) -> str:
        return (
            f"opset {self.opset}, {self.heads} heads, {self.groups} group{'s' * (self.groups != 1)}, width {self.width}"
        )


def attention_calls(rng: np.random.Generator) -> list[Exported]:
    groups, width = int(rng.choice([2, 3])), int(rng.choice([8, 12]))
    first = Exported(23, 2 * groups, groups, width)
    return [first, replace(first, opset=20), Exported(23, 3, 1, 20 - width)]


def attention_feeds(rng: np.random.Generator, call: Exported) -> dict[str, Feeds]:
    """Inputs by what is special about them."""

    def feeds(batch: int, new: int, total: int, kept: float = 0.6) -> dict[str, np.ndarray]:
        real = rng.random((batch, total)) < kept
        real[:, 0] = True
        if kept < 1:  # padding that each new token has before it
            real[:, 1:2] = False
        shapes = {
            "query": (batch, call.heads, new, call.width),
            "key": (batch, call.groups, total, call.width),
            "value": (batch, call.groups, total, call.width),
        }
        return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()} | {"real": real}

    made = {
        "every token is new": feeds(2, 5, 5, 1.0),
        "4 new tokens of 7": feeds(3, 4, 7, 1.0),
        "4 new tokens of 9, with padding": feeds(2, 4, 9),
        "one new token of 6": feeds(1, 1, 6),
        "one token": feeds(2, 1, 1),
        "3 new tokens of 150": feeds(2, 3, 150),
        "130 new tokens of 150": feeds(1, 130, 150),
    }
    strong = feeds(2, 4, 9)
    strong["query"] *= 100
    strong["key"][~np.broadcast_to(strong["real"][:, None], strong["key"].shape[:3])] *= 100
    strong["value"][~np.broadcast_to(strong["real"][:, None], strong["value"].shape[:3])] *= 100
    return made | {"padding with scores of 10000": strong}


def collect_attention_export(c: Collect) -> None:
    function = c.function("attention_export")
    for call in attention_calls(c.rng):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            record_model(c, call.title, _exported, function, call)


def _exported(function: Any, call: Exported) -> Any:
    with reasons(of_any=True):
        return function(call.opset, call.heads, call.groups, call.width)


_ATTENTION_CAUSES: Causes = {
    "number of heads": "Each of the groups serves heads / groups heads: enable_gqa.",
    "enable_gqa": "With fewer groups than heads, scaled_dot_product_attention needs enable_gqa=True.",
    "only 4D query": "The exporter knows attention of four dimensions: [batch, heads, tokens, width].",
    "is_causal and attn_mask": "A mask and is_causal exclude each other: write both into one mask.",
    "Explicit attn_mask should not be set when is_causal": "A mask and is_causal exclude each other: write both into one mask.",
    "Attempting to broadcast a dimension": (
        "With fewer groups than heads, scaled_dot_product_attention needs enable_gqa=True. The mask broadcasts to the scores."
    ),
    "tracing inferred a static shape": "A size of the example was used as a number: read it from the inputs, query.shape[2].",
    "Constraints violated": "A size of the example was used as a number: read it from the inputs, query.shape[2].",
    "must match the size of tensor": "An array in forward has the sizes of something else than of this call's inputs.",
    "Unexpected input data type": "query, key and value are float, real is bool.",
}


def judge_attention_export(v: Judge) -> None:
    calls = attention_calls(v.rng)
    feeds = {call: attention_feeds(v.rng, call) for call in calls}
    models: dict[Exported, onnx.ModelProto] = {}
    with v.require("the models have the inputs, and batch, new and total are dynamic"):
        for call in calls:
            with about(call.title):
                models[call] = _attention_model(v, call)
    with v.require("attention is one node at opset 23, and older operators at opset 20"):
        for call, model in models.items():
            with about(call.title):
                expect_attention(model, call)
    with v.check("every mask and every size gives the numbers of attention"):
        for call, model in models.items():
            with about(call.title):
                run = graphs.load(model, causes=_ATTENTION_CAUSES)
                # With padding first: there each mistake gives other numbers.
                for what, each in sorted(feeds[call].items(), key=lambda entry: "with padding" not in entry[0]):
                    got = graphs.run(run, each, causes=_ATTENTION_CAUSES)[0]
                    expect_attended(got, each, what)


def _attention_model(v: Judge, call: Exported) -> onnx.ModelProto:
    if error := v.error(call.title):
        raise explained(error, call.title, _ATTENTION_CAUSES)
    model = recorded_model(v, call.title)
    graphs.expect_inputs(model, list(ATTENTION_INPUTS))
    graphs.expect_outputs(model, ["out"])
    graphs.expect_used(model, list(ATTENTION_INPUTS))
    for name, axes in ATTENTION_INPUTS.items():
        graphs.expect_dynamic(model, name, axes)
    return model


def expect_attention(model: onnx.ModelProto, call: Exported) -> None:
    """Demand the opset, and one Attention or none."""
    graphs.expect_opset(model, call.opset)
    graphs.expect_valid(model)
    found = graphs.ops(model)
    if abroad := [name for name in found if "::" in name]:
        raise WrongAnswer(f"The graph has {abroad[0]}: operators of ONNX alone run in any runtime of that opset.")
    if call.opset < 23:
        return  # the checker refuses Attention there
    if by_hand := [name for name in ("MatMul", "Softmax", "Einsum") if found[name]]:
        raise WrongAnswer(
            f"Attention is decomposed: the graph has {found['Attention']} × Attention and {found[by_hand[0]]} × {by_hand[0]}. The exporter "
            "makes one node of torch.nn.functional.scaled_dot_product_attention."
        )
    graphs.expect_ops(model, {"Attention": 1})


def attended(feeds: Feeds, kind: str = "") -> np.ndarray:
    """Attention in double; ``kind`` makes known wrong answers, with NaN for a token that sees nothing."""
    query, key, value = (feeds[name].astype(np.float64) for name in ("query", "key", "value"))
    times = query.shape[1] // key.shape[1]
    if kind == "groups in turns":
        key, value = (np.tile(each, (1, times, 1, 1)) for each in (key, value))
    else:
        key, value = (np.repeat(each, times, axis=1) for each in (key, value))
    scale = {"1/d": 1 / query.shape[-1], "no scale": 1.0}.get(kind, query.shape[-1] ** -0.5)
    scores = query @ key.swapaxes(-1, -2) * scale
    new, total = scores.shape[-2:]
    first = 0 if kind == "top left" else total - new
    before = np.arange(total) - np.arange(first, first + new)[:, None]
    causal = before <= {"one more": 1, "without itself": -1}.get(kind, 0)
    real = feeds["real"][:, None, None]
    if kind == "real inverted":
        real = ~real
    if kind in ("no causal", "real alone inverted"):
        causal = np.ones_like(causal)
    seen = np.broadcast_to(causal if kind == "no padding" else causal & real, scores.shape)
    seen = ~seen if kind == "all inverted" else seen
    with np.errstate(all="ignore"):
        scores = scores + seen if kind == "added" else np.where(seen, scores, -np.inf)
        axis = -2 if kind == "queries" else -1
        weights = np.exp(scores - scores.max(axis=axis, keepdims=True))
        weights = weights / weights.sum(axis=axis, keepdims=True)
        if kind == "queries":
            weights = np.nan_to_num(weights)
    return weights @ value


_ATTENTION_WRONG = {
    "real inverted": "The padding is seen, and the real tokens are not: in a boolean mask True takes part.",
    "all inverted": "What is masked is seen, and the rest is not: in a boolean mask True takes part.",
    "added": "The mask is added to the scores as 0 and 1: a float mask is added, so a token that is not seen needs -infinity; in a boolean "
    "mask it is False.",
    "no padding": "real has no effect: padding is seen.",
    "no causal": "Every token sees the tokens after it: the mask has to be causal, too.",
    "top left": "The causal mask counts from the first token here, as is_causal=True does: query i is token i. The queries are the last "
    "tokens: query i is token total - new + i.",
    "one more": "Every token sees the one after it, too.",
    "without itself": "No token sees itself; it does, unless it is padding.",
    "1/d": "The scale is 1 / width here; it is 1 / sqrt(width).",
    "no scale": "The scale is 1 here; it is 1 / sqrt(width).",
    "queries": "The softmax is over the queries; the weights of one query add up to 1, so it is over the keys.",
    "groups in turns": "Query head h uses group h % groups here; the heads of one group are next to each other, h // (heads / groups).",
}


def expect_attended(got: np.ndarray, feeds: Feeds, what: str) -> None:
    """Demand the output of one run. Scores of 10000 are 1e-3 apart in float: a weight is off by that at most."""
    expected = attended(feeds)
    strong = "scores" in what
    rtol, atol = (1e-2, 5e-3) if strong else (1e-3, 1e-4)
    likely: dict[str, np.ndarray] = {}
    if got.shape == expected.shape:
        for kind, sentence in _ATTENTION_WRONG.items():
            wrong = attended(feeds, kind)
            known = np.isfinite(wrong)  # what becomes of a token that sees nothing is the runtime's affair
            differs = not np.allclose(wrong[known], expected[known], rtol=rtol, atol=atol)
            if known.any() and differs and np.allclose(got[known], wrong[known], rtol=rtol, atol=atol):
                likely[sentence] = got
                break
    if strong and not likely:
        likely[
            "A finite number such as -10000 does not hide a token with a large score: use -infinity, or a boolean mask."
        ] = got
    expect_close(got, expected.astype(np.float32), name=what, rtol=rtol, atol=atol, likely=likely)


# --- one_opset_behind ------------------------------------------------------------------------------------------------

TARGET, TARGET_IR = 26, 13  # the newest that ONNX Runtime 1.31 reads
NO_KERNEL = frozenset({"Swish"})  # at TARGET, although the schema is of opset 24
UNKNOWN_OP = "PagedAttention"  # of a later opset, which the installed onnx does not have either
TWICE = "the first model, a second time"
ABROAD = "the operators SwiGLU and Swish of the domain lab"


def _value(name: str, shape: Sequence[Any], dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def _weight(rng: np.random.Generator, name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)


def _number(rng: np.random.Generator) -> float:
    """An attribute that is far from each default."""
    return float(np.float32(np.round(rng.uniform(1.5, 3.0), 2)))


def _file(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    constants: Sequence[onnx.TensorProto] = (),
    *,
    opset: int = 28,
    imports: Mapping[str, int] | None = None,
    value_info: Sequence[onnx.ValueInfoProto] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(list(nodes), "net", inputs, outputs, list(constants), value_info=list(value_info))
    entries = [helper.make_opsetid(domain, version) for domain, version in (imports or {}).items()]
    model = helper.make_model(graph, opset_imports=[*entries, helper.make_opsetid("", opset)], ir_version=14)
    model.metadata_props.add(key="trained", value="here")
    return model


def _opset_models(rng: np.random.Generator) -> dict[str, onnx.ModelProto]:
    """The models that can be run at opset 26, by what is special about each of them."""
    node = helper.make_node
    n4 = ["n", 4]
    models = {}
    models["SwiGLU twice, once without alpha"] = _file(
        [  # values and nodes have the names that definitions have, too
            node("LeakyRelu", ["a"], ["SwishGate"], "act"),
            node("SwiGLU", ["SwishGate", "b"], ["Alpha"], "first", alpha=_number(rng)),
            node("SwiGLU", ["b", "Alpha"], ["h"], "second"),
            node("MatMul", ["h", "AlphaCast"], ["p"], "product"),
            node("Add", ["p", "SwishGate"], ["y"], "sum"),
        ],
        [_value("a", n4), _value("b", n4)],
        [_value("y", n4)],
        [_weight(rng, "AlphaCast", 4, 4)],
        value_info=[_value("h", n4), _value("SwishGate", n4)],
    )
    models["Swish with and without alpha, in float64"] = _file(
        [
            node("Swish", ["a"], ["s"], "plain"),
            node("Swish", ["s"], ["t"], "steep", alpha=_number(rng)),
            node("SwiGLU", ["t", "a"], ["y"], "gate", alpha=1.1),
        ],
        [_value("a", n4, TensorProto.DOUBLE)],
        [_value("y", n4, TensorProto.DOUBLE)],
    )
    three, wide = ["n", 4, "l"], ["n", "c", "l"]  # only the weight has the number of channels
    models["CausalConvWithState twice"] = _file(
        [
            node("CausalConvWithState", ["x", "w", "bias"], ["h", "kept"], "first", activation="silu"),
            node("Elu", ["h"], ["e"], "act"),
            node("CausalConvWithState", ["e", "v", "", "kept"], ["y", "present"], "second"),
        ],
        [_value("x", wide)],
        [_value("y", three), _value("present", ["n", 4, 2])],
        [_weight(rng, "w", 4, 1, 3), _weight(rng, "v", 4, 1, 3), _weight(rng, "bias", 4)],
        opset=27,
    )
    packed = {"q": 12, "k": 6, "v": 10, "decay": 6, "beta": 2}
    models["LinearAttention with and without update_rule"] = _file(
        [
            node(
                "LinearAttention",
                ["q", "k", "v", "", "decay", "beta"],
                ["y", "state"],
                "a",
                q_num_heads=4,
                kv_num_heads=2,
            ),
            node(
                "LinearAttention",
                ["q", "k", "v", "state"],
                ["z", "end"],
                "b",
                q_num_heads=4,
                kv_num_heads=2,
                update_rule="linear",
                scale=_number(rng),
            ),
        ],
        [_value(name, ["n", "l", size]) for name, size in packed.items()],
        [_value("y", ["n", "l", 20]), _value("z", ["n", "l", 20]), _value("end", ["n", 2, 3, 5])],
        opset=27,
    )
    models["in the bodies of If and Loop"] = _bodies_model(rng)
    models["next to an operator of the domain oplab"] = _file(
        [
            node("MyAdd", ["a", "b"], ["m"], "mixed", domain="oplab", alpha=_number(rng)),
            node("SwiGLU", ["m", "b"], ["y"], "gate"),
        ],
        [_value("a", n4), _value("b", n4)],
        [_value("y", n4)],
        imports={"oplab": 1},
        value_info=[_value("m", n4)],
    )
    models[ABROAD] = _file(
        [
            node("SwiGLU", ["a", "b"], ["m"], "mine", domain="lab"),
            node("Swish", ["m"], ["t"], "mine_too", domain="lab"),
            node("SwiGLU", ["t", "b"], ["y"], "gate", alpha=_number(rng)),
        ],
        [_value("a", n4), _value("b", n4)],
        [_value("y", n4)],
        imports={"lab": 3},
        value_info=[_value("m", n4), _value("t", n4)],
    )
    models["nothing newer"] = _file(
        [node("Gelu", ["a"], ["g"], "act"), node("MatMul", ["g", "w"], ["y"], "product")],
        [_value("a", n4)],
        [_value("y", n4)],
        [_weight(rng, "w", 4, 4)],
        opset=27,
    )
    return models


def _bodies_model(rng: np.random.Generator) -> onnx.ModelProto:
    """An If with two bodies that use the same names; one of them has a Loop, the other a weight."""
    node, three = helper.make_node, ["n", 4, "l"]
    each = helper.make_graph(
        [
            node("Identity", ["go"], ["on"], "still"),
            node("SwiGLU", ["at", "b"], ["next"], "inner", alpha=_number(rng)),
        ],
        "each",
        [_value("i", [], TensorProto.INT64), _value("go", [], TensorProto.BOOL), _value("at", three)],
        [_value("on", [], TensorProto.BOOL), _value("next", three)],
    )
    then = helper.make_graph(
        [
            node("SwiGLU", ["a", "b"], ["gate"], "outer"),
            node("Loop", ["count", "", "gate"], ["looped"], "twice", body=each),
        ],
        "then",
        [],
        [_value("looped", three)],
        [numpy_helper.from_array(np.array(2, np.int64), "count")],
    )
    other = helper.make_graph(
        [
            node("CausalConvWithState", ["a", "w"], ["gate", "kept"], "conv"),
            node("SwiGLU", ["gate", "b"], ["gated"], "outer_too"),
        ],
        "else",
        [],
        [_value("gated", three)],
        [_weight(rng, "w", 4, 1, 2)],
    )
    return _file(
        [
            node("If", ["c"], ["chosen"], "choice", then_branch=then, else_branch=other),
            node("Mul", ["chosen", "factor"], ["y"], "scaled"),
        ],
        [_value("a", three), _value("b", three), _value("c", [], TensorProto.BOOL)],
        [_value("y", three)],
        [_weight(rng, "factor", 4, 1)],
    )


def _refused_models() -> dict[str, tuple[onnx.ModelProto, str]]:
    """Models without a way to opset 26, and the operator that the error has to name."""
    node, n4 = helper.make_node, ["n", 4]
    then = helper.make_graph([node(UNKNOWN_OP, ["a"], ["t"], "paged")], "then", [], [_value("t", n4)])
    other = helper.make_graph([node("Identity", ["a"], ["e"], "same")], "else", [], [_value("e", n4)])
    shape = ["n", "c", "l"]
    return {
        f"{UNKNOWN_OP}, which no opset has": (
            _file(
                [node("SwiGLU", ["a", "a"], ["s"], "gate"), node(UNKNOWN_OP, ["s"], ["y"], "paged")],
                [_value("a", n4)],
                [_value("y", n4)],
            ),
            UNKNOWN_OP,
        ),
        f"{UNKNOWN_OP} in the body of an If": (
            _file(
                [node("If", ["c"], ["y"], "choice", then_branch=then, else_branch=other)],
                [_value("a", n4), _value("c", [], TensorProto.BOOL)],
                [_value("y", n4)],
            ),
            UNKNOWN_OP,
        ),
        "CausalConvWithState with an unknown number of channels": (
            _file(
                [node("CausalConvWithState", ["x", "w"], ["y", "kept"], "conv")],
                [_value("x", shape), _value("w", ["c", 1, 3])],
                [_value("y", shape)],
                opset=27,
            ),
            "CausalConvWithState",
        ),
    }


def collect_one_opset_behind(c: Collect) -> None:
    lower = c.function("one_opset_behind")
    models = _opset_models(c.rng)
    for name, model in models.items():
        record_model(c, name, lower, model)
    record_model(c, TWICE, lower, next(iter(models.values())))
    for name, (model, _) in _refused_models().items():
        record_model(c, name, lower, model)


def judge_one_opset_behind(v: Judge) -> None:
    models = _opset_models(v.rng)
    feeds = {name: [_feeds_of(v.rng, model, *size) for size in ((3, 5), (1, 2))] for name, model in models.items()}
    models[TWICE] = next(iter(models.values()))
    feeds[TWICE] = next(iter(feeds.values()))
    found: dict[str, onnx.ModelProto] = {}
    with v.check("returns a model of opset 26, and leaves the given one as it is"):
        for name, model in models.items():
            try:
                got = recorded_model(v, name)
            except WrongAnswer as error:
                if "One and only one of the attributes" in str(error):
                    raise WrongAnswer(
                        f"{error} A Constant has no value: the inliner does not know the defaults of attributes."
                    ) from None
                raise
            _expect_versions(name, got, model)
            found[name] = got
    if found:  # else these would pass without a model
        with v.check("no operator is newer than ONNX Runtime 1.31"):
            for name, got in found.items():
                _expect_older(name, got)
        with v.check("keeps everything else"):
            for name, got in found.items():
                _expect_kept(name, got, models[name])
        with v.check("onnx.checker accepts the model"):
            for name, got in found.items():
                _expect_checked(name, got)
    if v.ok:
        with v.check("computes the same in ONNX Runtime"):
            for name, got in found.items():
                _expect_same(name, got, models[name], feeds[name])
    with v.check("refuses an operator without a definition"):
        for name, (_, op) in _refused_models().items():
            _expect_named_refusal(v, name, op)


def _feeds_of(rng: np.random.Generator, model: onnx.ModelProto, n: int, length: int) -> dict[str, np.ndarray]:
    feeds = {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        shape = [dim.dim_value or {"n": n, "l": length, "c": 4}[dim.dim_param] for dim in kind.shape.dim]
        if dtype == np.bool_:
            feeds[value.name] = np.array(n == 1)  # each branch of an If runs once
        else:
            feeds[value.name] = rng.normal(size=shape).astype(dtype)
    if "decay" in feeds:
        feeds["decay"] = -np.abs(feeds["decay"])  # the logarithm of a factor below 1
        feeds["k"] /= 3
        feeds["beta"] = np.abs(feeds["beta"]) / 3  # else errors grow from step to step
    return feeds


def _is_newer(node: onnx.NodeProto) -> bool:
    if normal_domain(node.domain):
        return False
    return node.op_type in NO_KERNEL or not _schema_at(node.op_type, TARGET)


def _schema_at(op: str, opset: int) -> Any:
    try:
        return onnx.defs.get_schema(op, opset)
    except onnx.defs.SchemaError:
        return None


def _imported(model: onnx.ModelProto) -> list[tuple[str, int]]:
    return sorted((normal_domain(entry.domain), entry.version) for entry in model.opset_import)


def _expect_versions(name: str, got: onnx.ModelProto, model: onnx.ModelProto) -> None:
    if got.functions:
        entry = got.functions[0]
        raise WrongAnswer(
            f"{name}: the model has a model-local function, {entry.domain}::{entry.name}: the definition was not inlined."
        )
    wanted = sorted((domain, version if domain else TARGET) for domain, version in _imported(model))
    if _imported(got) != wanted:
        raise WrongAnswer(f"{name}: expected the imports {wanted}, got {_imported(got)}.")
    if got.ir_version != TARGET_IR:
        raise WrongAnswer(
            f"{name}: expected IR version {TARGET_IR}, got {got.ir_version}. ONNX Runtime 1.31 refuses files with a newer one."
        )


def _expect_older(name: str, got: onnx.ModelProto) -> None:
    for place, graph in enumerate(graphs.graphs(got)):
        where = " in the body of an If, Loop or Scan" if place else ""
        for node in graph.node:
            _expect_older_node(name, node, where)


def _expect_older_node(name: str, node: onnx.NodeProto, where: str) -> None:
    if _is_newer(node):
        why = (
            "ONNX Runtime 1.31 has no kernel for it at opset 26. Definitions contain it, too"
            if node.op_type in NO_KERNEL
            else "opset 26 does not have it: a lower number in opset_import does not change the nodes"
        )
        raise WrongAnswer(f"{name}: there is still a node {node.op_type}{where}; {why}.")
    if node.op_type == "Constant" and not node.attribute:
        raise WrongAnswer(
            f"{name}: the Constant that makes {node.output[0]!r} has no value: it comes from an attribute that the node "
            "did not have. The inliner does not know the defaults of a schema, so add them to the node first."
        )


def _without_bodies(node: onnx.NodeProto) -> bytes:
    bare = type(node)()
    bare.CopyFrom(node)
    for attribute in bare.attribute:
        attribute.ClearField("g")
    return bare.SerializeToString(deterministic=True)


def _expect_kept(name: str, got: onnx.ModelProto, model: onnx.ModelProto) -> None:
    for field in ("metadata_props", "producer_name", "doc_string"):
        if getattr(got, field) != getattr(model, field):
            raise WrongAnswer(f"{name}: {field} of the model has changed or is missing.")
    _expect_graph_kept(name, "the graph", got.graph, model.graph)


def _expect_ends_kept(name: str, what: str, got: onnx.GraphProto, graph: onnx.GraphProto) -> None:
    for field, word in (("input", "inputs"), ("output", "outputs")):
        before, after = (list(getattr(of, field)) for of in (graph, got))
        if [value.name for value in before] != [value.name for value in after]:
            raise WrongAnswer(
                f"{name}: expected the {word} {[value.name for value in before]} of {what}, got {[value.name for value in after]}."
            )
        for old, new in zip(before, after, strict=True):
            if old.type != new.type:
                raise WrongAnswer(
                    f"{name}: the type of {old.name!r}, one of the {word} of {what}, has changed: {_shown(old)} is now {_shown(new)}."
                )


def _expect_graph_kept(name: str, what: str, got: onnx.GraphProto, graph: onnx.GraphProto) -> None:
    _expect_ends_kept(name, what, got, graph)
    tensors = {tensor.name: tensor for tensor in got.initializer}
    for tensor in graph.initializer:
        if tensors.get(tensor.name) != tensor:
            why = "has changed" if tensor.name in tensors else "is missing"
            raise WrongAnswer(f"{name}: the initialiser {tensor.name!r} of {what} {why}.")
    _expect_nodes_kept(name, what, got, graph)
    made = {entry for node in got.node for entry in node.output} | set(tensors)
    made |= {value.name for value in got.input} | {value.name for value in got.output}
    for value in got.value_info:
        if value.name not in made:
            raise WrongAnswer(f"{name}: value_info of {what} names {value.name!r}, which is not a value of the copy.")
    types = {value.name: value.type for value in got.value_info}
    for value in graph.value_info:
        if types.get(value.name) != value.type:
            raise WrongAnswer(
                f"{name}: value_info of {what} had {_shown(value)} for {value.name!r}, which has changed or is missing."
            )


def _shown(value: onnx.ValueInfoProto) -> str:
    kind = value.type.tensor_type
    shape = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in kind.shape.dim]
    return f"{helper.tensor_dtype_to_np_dtype(kind.elem_type)}{shape}" if kind.elem_type else "no type"


def _expect_nodes_kept(name: str, what: str, got: onnx.GraphProto, graph: onnx.GraphProto) -> None:
    """Demand the nodes that are not replaced, with their names and attributes, in their order, and the same of their bodies."""
    wanted = [node for node in graph.node if not _is_newer(node)]
    left = [_without_bodies(node) for node in got.node]
    place = -1
    for node in wanted:
        key = _without_bodies(node)
        if key not in left:
            raise WrongAnswer(
                f"{name}: the node {node.name!r}, a {node.op_type}, is missing from {what} or was changed."
            )
        if left.index(key) < place:
            raise WrongAnswer(
                f"{name}: the node {node.name!r}, a {node.op_type}, has another place among the nodes of {what}."
            )
        place = left.index(key)
        inner = {attribute.name: attribute.g for attribute in got.node[place].attribute if attribute.HasField("g")}
        for attribute in node.attribute:
            if attribute.HasField("g"):
                body = f"{attribute.name} of {node.name!r}"
                if attribute.name not in inner:
                    raise WrongAnswer(f"{name}: {body} is missing.")
                _expect_graph_kept(name, body, inner[attribute.name], attribute.g)


def _expect_checked(name: str, got: onnx.ModelProto) -> None:
    try:
        graphs.expect_valid(got)
    except WrongAnswer as error:
        why = ""
        if "SSA" in str(error) or "single assignment" in str(error) or "already been used" in str(error):
            why = " Two definitions, or a definition and the model, use the same names: the inliner renames them."
        elif "topologically sorted" in str(error):
            why = (
                " A definition has to be where its node was, and each of its values needs to be made before it is read."
            )
        raise WrongAnswer(f"{name}: {error}{why}") from None


def _expect_same(name: str, got: onnx.ModelProto, model: onnx.ModelProto, runs: Sequence[Feeds]) -> None:
    if name == ABROAD:  # there is no kernel: what _expect_kept has seen is enough
        return
    loaded = graphs.load(got, f"{name}: ONNX Runtime", kernels=True)
    for feeds in runs:
        found, wanted = graphs.run(loaded, feeds, f"{name}: ONNX Runtime"), _meant(model, feeds)
        for value, left, right in zip(model.graph.output, found, wanted, strict=True):
            close = 1e-10 if right.dtype == np.float64 else 1e-4
            expect_close(left, right, name=f"{name}: {value.name}", rtol=close, atol=close)


def _meant(model: onnx.ModelProto, feeds: Feeds) -> list[np.ndarray]:
    """What ONNX's reference computes from the model, except where a body has a Loop.

    The reference of onnx 1.23 computes other numbers for a Loop in the body of an If.
    """
    from onnx.reference import ReferenceEvaluator

    from oplab.ops import reference

    if not feeds.get("c", False):
        evaluator = ReferenceEvaluator(model, new_ops=[reference.MyAdd])
        return [np.asarray(array) for array in evaluator.run(None, dict(feeds))]
    then = next(entry.g for entry in model.graph.node[0].attribute if entry.name == "then_branch")
    body = then.node[1].attribute[0].g
    alpha = body.node[1].attribute[0].f
    value = _swiglu(feeds["a"], feeds["b"], 1.0)
    for _ in range(int(numpy_helper.to_array(then.initializer[0]))):
        value = _swiglu(value, feeds["b"], alpha)
    return [value * numpy_helper.to_array(model.graph.initializer[0])]


def _swiglu(a: np.ndarray, b: np.ndarray, alpha: float) -> np.ndarray:
    return (a / (1 + np.exp(-alpha * a)) * b).astype(a.dtype)


def _expect_named_refusal(v: Judge, name: str, op: str) -> None:
    error = v.error(name)
    if error is None:
        kind = v.value(f"{name}: type")
        raise WrongAnswer(f"{name}: expected a ValueError, but no error was raised: a {kind} came back.")
    if error.type != "ValueError":
        raise WrongAnswer(f"{name}: expected a ValueError that names {op}, got {error.message}{error.place}")
    if op not in error.message:
        raise WrongAnswer(f"{name}: the message of the ValueError does not contain {op}: {error.message}")
    if v.value(f"{name}: changed"):
        raise WrongAnswer(f"{name}: the model that was given has changed before it was refused.")


# --- quantize_around -------------------------------------------------------------------------------------------------

WEIGHT_LIMIT = 64  # of int8: sums of uint8 times int8 fit into 16 bits on processors that add two products in 16 bits
SIZE_LEFT = 0.4  # of the file with float32 weights; int8 weights leave 0.3
FAR = 0.2  # relative error of the output; a right answer has about a tenth of it
PAIR = ("QuantizeLinear", "DequantizeLinear")


def _quantized_nets(rng: np.random.Generator) -> dict[str, tuple[onnx.ModelProto, list[Feeds], Feeds]]:
    """Models, with what to calibrate on and what to compare on. Each first and last calibration input has a small range."""
    return {
        "between two convolutions": _middle_net(rng),
        "a value that two nodes read": _shared_net(rng),
        "SRCNN": _srcnn_net(rng),
    }


def _filters(
    rng: np.random.Generator, name: str, count: int, channels: int, side: int, factors: Any
) -> onnx.TensorProto:
    values = rng.uniform(-1, 1, (count, channels, side, side)) * np.reshape(factors, (-1, 1, 1, 1)) / (channels * side)
    return numpy_helper.from_array(values.astype(np.float32), name)


def _factors(height: float, width: float) -> np.ndarray:
    return np.array([1, 1, height, width], np.float32)


def _middle_net(rng: np.random.Generator) -> tuple[onnx.ModelProto, list[Feeds], Feeds]:
    """Conv, Relu, DynamicResize, Conv; filters of different magnitudes, one of them all zeros."""
    node = helper.make_node
    model = _file(
        [
            node("Conv", ["x", "w1", "b1"], ["c"], "first", pads=[1] * 4),
            node("Relu", ["c"], ["r"], "act"),
            node("DynamicResize", ["r", "scales"], ["big"], "resize", domain="oplab"),
            node("Conv", ["big", "w2", "b2"], ["y"], "second", pads=[1] * 4),
        ],
        [_value("x", ["n", 3, "h", "w"]), _value("scales", [4])],
        [_value("y", ["n", 3, "H", "W"])],
        [
            _filters(rng, "w1", 5, 3, 3, [1, 0.02, 1.5, 0, 0.7]),
            _filters(rng, "w2", 3, 5, 3, [0.01, 1, 2]),
            numpy_helper.from_array(rng.uniform(0.05, 0.3, 5).astype(np.float32), "b1"),
            numpy_helper.from_array(rng.uniform(-0.1, 0.1, 3).astype(np.float32), "b2"),
        ],
        opset=20,
        imports={"oplab": 1},
        value_info=[_value("big", ["n", 5, "H", "W"])],
    )
    model.ir_version = 10

    def feeds(n: int, h: int, w: int, size: float, *by: float) -> Feeds:
        return {"x": (rng.uniform(-0.5, 1, (n, 3, h, w)) * size).astype(np.float32), "scales": _factors(*by)}

    few = [feeds(1, 12, 10, 0.2, 2, 2), feeds(2, 14, 16, 2.0, 2.25, 1.5), feeds(1, 9, 9, 0.5, 3, 2)]
    return model, few, feeds(2, 16, 12, 1.6, 2.25, 2.25)


def _shared_net(rng: np.random.Generator) -> tuple[onnx.ModelProto, list[Feeds], Feeds]:
    """A value that a Conv and a DynamicResize read, a weight of two Conv, a result that is a graph output, and no bias."""
    node = helper.make_node
    model = _file(
        [
            node("DynamicResize", ["x", "scales"], ["large"], "resize_x", domain="oplab"),
            node("Conv", ["x", "w"], ["a"], "of_x", pads=[1] * 4),
            node("Mul", ["x", "x"], ["m"], "square"),
            node("Conv", ["m", "w"], ["b"], "of_square", pads=[1] * 4),
            node("Sub", ["a", "b"], ["s"], "difference"),
            node("DynamicResize", ["s", "scales"], ["t"], "resize_s", domain="oplab"),
            node("Conv", ["t", "v"], ["y"], "last"),
        ],
        [_value("x", ["n", 2, "h", "w"]), _value("scales", [4])],
        [_value("y", ["n", 2, "H", "W"]), _value("large", ["n", 2, "H", "W"])],
        [_filters(rng, "w", 4, 2, 3, [1, 0.03, 2, 0.5]), _filters(rng, "v", 2, 4, 1, [1, 0.05])],
        opset=20,
        imports={"oplab": 1},
        value_info=[_value("t", ["n", 4, "H", "W"])],
    )
    model.ir_version = 10

    def feeds(n: int, h: int, w: int, size: float, *by: float) -> Feeds:
        # No x is near 0, which a range has to contain nevertheless.
        return {"x": (rng.uniform(0.3, 1, (n, 2, h, w)) * size).astype(np.float32), "scales": _factors(*by)}

    few = [feeds(1, 8, 8, 0.3, 1.5, 2), feeds(1, 16, 12, 1.5, 2, 2), feeds(2, 8, 11, 0.4, 2.25, 1.75)]
    return model, few, feeds(2, 12, 12, 1.3, 1.75, 2.25)


def _srcnn_net(rng: np.random.Generator) -> tuple[onnx.ModelProto, list[Feeds], Feeds]:
    """The course's network for photos, with weights of this run."""
    from oplab.nets.photos import photo, to_nchw
    from oplab.nets.srcnn import load_srcnn

    node = helper.make_node
    state = {name: value.numpy() for name, value in load_srcnn().state_dict().items()}
    state = {name: (value * rng.uniform(0.95, 1.05, value.shape)).astype(np.float32) for name, value in state.items()}
    nodes, at = [], "grey"
    for place, pad in ((1, 4), (2, 2), (3, 2)):
        conv = [at, f"conv{place}.weight", f"conv{place}.bias"]
        nodes.append(node("Conv", conv, [f"c{place}"], f"conv{place}", pads=[pad] * 4))
        at = f"c{place}"
        if place < 3:
            nodes.append(node("Relu", [at], [f"r{place}"], f"relu{place}"))
            at = f"r{place}"
    model = _file(
        [
            node("DynamicResize", ["photo", "scales"], ["large"], "enlarge", domain="oplab"),
            node("Mul", ["large", "rgb"], ["weighted"], "weigh"),
            node("ReduceSum", ["weighted", "axis"], ["grey"], "brightness", keepdims=1),
            *nodes,
            node("Add", ["large", at], ["sharp"], "add"),
        ],
        [_value("photo", ["n", 3, "h", "w"]), _value("scales", [4])],
        [_value("sharp", ["n", 3, "H", "W"])],
        [
            *(numpy_helper.from_array(value, name) for name, value in state.items()),
            numpy_helper.from_array(np.float32([0.299, 0.587, 0.114]).reshape(1, 3, 1, 1), "rgb"),
            numpy_helper.from_array(np.array([1]), "axis"),
        ],
        opset=20,
        imports={"oplab": 1},
        value_info=[_value("large", ["n", 3, "H", "W"])],
    )
    model.ir_version = 10

    def feeds(name: str, size: float, *by: float) -> Feeds:
        pixels = to_nchw(photo(name, 24)) * size * rng.uniform(0.97, 1.0)
        return {"photo": pixels.astype(np.float32), "scales": _factors(*by)}

    few = [feeds("coffee", 0.4, 2, 2), feeds("astronaut", 1.0, 2, 3), feeds("rocket", 0.5, 1.5, 2)]
    return model, few, feeds("chelsea", 0.95, 2.25, 2.25)


def collect_quantize_around(c: Collect) -> None:
    quantize = c.function("quantize_around")
    nets = _quantized_nets(c.rng)
    calls = {**nets, TWICE: next(iter(nets.values()))}
    for name, (model, few, _) in calls.items():
        given = [{key: array.copy() for key, array in feeds.items()} for feeds in few]
        record_model(c, name, quantize, model, given)
        same = len(given) == len(few) and all(
            set(left) == set(right) and all(np.array_equal(left[key], right[key]) for key in right)
            for left, right in zip(given, few, strict=True)
        )
        c.value(f"{name}: feeds kept", same)


def judge_quantize_around(v: Judge) -> None:
    nets = _quantized_nets(v.rng)
    nets[TWICE] = next(iter(nets.values()))
    wirings: dict[str, _Quantized] = {}
    with v.check("returns a model with the same inputs, outputs and operators"):
        for name, (model, few, _) in nets.items():
            got = recorded_model(v, name)
            if not v.value(f"{name}: feeds kept"):
                raise WrongAnswer(f"{name}: the list of inputs, or an array in it, has changed.")
            _expect_net_kept(name, got, model)
            wirings[name] = _Quantized(name, got, model, few)
    if not wirings:
        return
    with v.check("DynamicResize computes in uint8, and its factors are float"):
        for wiring in wirings.values():
            for node in wiring.nodes("DynamicResize"):
                wiring.expect_resize(node)
    with v.check("each Conv reads its data after a pair"):
        for wiring in wirings.values():
            for node in wiring.nodes("Conv"):
                wiring.expect_data(node)
    with v.check("each weight is int8 in the file, with a scale for each filter"):
        for wiring in wirings.values():
            for node in wiring.nodes("Conv"):
                wiring.expect_weight(node)
            wiring.expect_small()
    with v.check("onnx.checker accepts the model"):
        for wiring in wirings.values():
            _expect_checked(wiring.name, wiring.got)
    if v.ok:
        with v.check("computes nearly the same"):
            for name, (model, _, feeds) in nets.items():
                _expect_near(name, wirings[name].got, model, feeds)


def _expect_net_kept(name: str, got: onnx.ModelProto, model: onnx.ModelProto) -> None:
    _expect_ends_kept(name, "the graph", got.graph, model.graph)
    missing = [entry for entry in _imported(model) if entry not in _imported(got)]
    if missing:
        raise WrongAnswer(f"{name}: expected the imports {_imported(model)}, got {_imported(got)}.")
    before, after = graphs.ops(model), graphs.ops(got)
    for op in PAIR:
        after.pop(op, None)
    after.pop("Constant", None)
    if before != after:
        lost, extra = sorted((before - after).elements()), sorted((after - before).elements())
        what = " and ".join(
            [f"{lost[0]} is missing"] * bool(lost) + [f"there is a {extra[0]} that was not there"] * bool(extra)
        )
        raise WrongAnswer(f"{name}: apart from {' and '.join(PAIR)}, the operators have changed: {what}.")
    kept = {node.name for node in got.graph.node}
    for node in model.graph.node:
        if node.name not in kept:
            raise WrongAnswer(f"{name}: there is no node {node.name!r} any more: keep the names of the nodes.")


class _Quantized:
    """A model with pairs, next to the one that it was made from.

    Args:
        name: for messages.
        got: the learner's model.
        model: the float model.
        few: the inputs to calibrate on.
    """

    def __init__(self, name: str, got: onnx.ModelProto, model: onnx.ModelProto, few: Sequence[Feeds]):
        self.name, self.got, self.model = name, got, model
        self.before = {node.name: node for node in model.graph.node}
        self.after = {node.name: node for node in got.graph.node if node.op_type not in PAIR}
        self.makers = {output: node for node in got.graph.node for output in node.output}
        self.tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in got.graph.initializer}
        for node in got.graph.node:
            if node.op_type == "Constant":
                value = helper.get_attribute_value(node.attribute[0])
                if hasattr(value, "dims"):
                    self.tensors[node.output[0]] = numpy_helper.to_array(value)
        values = tap(
            model, [*(node.output[0] for node in model.graph.node), *(entry.name for entry in model.graph.input)]
        )
        self.ranges: list[dict[str, tuple[float, float]]] = []
        for feeds in few:
            found = {key: (float(array.min()), float(array.max())) for key, array in values(dict(feeds)).items()}
            self.ranges.append(found)

    def nodes(self, op: str) -> list[onnx.NodeProto]:
        """The learner's nodes of this type, in the order of the float model."""
        return [self.after[name] for name, node in self.before.items() if node.op_type == op]

    def limits(self, *values: str, of: Sequence[int] | None = None) -> tuple[float, float]:
        """The range of these values over the calibration, with 0 in it."""
        chosen = self.ranges if of is None else [self.ranges[index] for index in of]
        pairs = [found[value] for found in chosen for value in values]
        return min(0.0, *(low for low, _ in pairs)), max(0.0, *(high for _, high in pairs))

    def expect_resize(self, node: onnx.NodeProto) -> None:
        """Demand QuantizeLinear, the node and DequantizeLinear, with one scale that fits both sides."""
        old = self.before[node.name]
        where = f"{self.name}: {node.name!r}"
        if len(node.input) < 2 or node.input[1] != old.input[1]:
            reads = self.makers.get(node.input[1]) if len(node.input) > 1 else None
            why = ": the factors went through a pair, so 2.25 is rounded to a step" if reads is not None else ""
            raise WrongAnswer(f"{where} does not read {old.input[1]!r}{why}. The factors stay float32.")
        to_8 = self.makers.get(node.input[0])
        if to_8 is None or to_8.op_type != "QuantizeLinear":
            why = (
                "reads the result of a DequantizeLinear: it computes in float between two pairs"
                if to_8 is not None and to_8.op_type == "DequantizeLinear"
                else "was left in float32"
            )
            raise WrongAnswer(
                f"{where} {why}. It has a kernel for uint8: put it between QuantizeLinear and DequantizeLinear."
            )
        if self.source(to_8.input[0]) != old.input[0]:
            raise WrongAnswer(f"{where} reads {self.source(to_8.input[0])!r} instead of {old.input[0]!r}.")
        readers = [entry for entry in self.got.graph.node if node.output[0] in entry.input]
        if node.output[0] in {value.name for value in self.got.graph.output}:
            raise WrongAnswer(f"{where}: its uint8 result is a graph output; the output was float32.")
        for reader in readers:
            if reader.op_type != "DequantizeLinear":
                raise WrongAnswer(
                    f"{where}: its result is uint8, and {reader.name or reader.op_type} reads it without a DequantizeLinear."
                )
            left, right = self.parameters(to_8), self.parameters(reader)
            if not all(np.array_equal(one, other) for one, other in zip(left, right, strict=True)):
                raise WrongAnswer(
                    f"{where}: the DequantizeLinear after it has the scale {_pair_text(right)}, the QuantizeLinear before it "
                    f"{_pair_text(left)}. The kernel gives its result the scale and zero point of its input."
                )
        both = (old.input[0], old.output[0])
        self.expect_range(f"{where}: the QuantizeLinear before it", to_8, [both])

    def expect_data(self, node: onnx.NodeProto) -> None:
        """Demand DequantizeLinear before the data, of the value that the node read, with its range."""
        old = self.before[node.name]
        where = f"{self.name}: the data of {node.name!r}"
        back = self.makers.get(node.input[0])
        if back is None or back.op_type != "DequantizeLinear":
            raise WrongAnswer(f"{where} does not come from a DequantizeLinear, so the node computes in float32.")
        if self.source(node.input[0]) != old.input[0]:
            raise WrongAnswer(f"{where} comes from {self.source(node.input[0])!r}, expected {old.input[0]!r}.")
        allowed = [(old.input[0],)]
        for other in self.model.graph.node:
            if other.op_type == "DynamicResize" and old.input[0] in (other.input[0], other.output[0]):
                allowed.append((other.input[0], other.output[0]))
        made = self.makers.get(back.input[0])
        if made is not None and made.op_type == "QuantizeLinear":
            self.expect_range(f"{where}: its QuantizeLinear", made, allowed)
            left, right = self.parameters(made), self.parameters(back)
            if not all(np.array_equal(one, other) for one, other in zip(left, right, strict=True)):
                raise WrongAnswer(f"{where}: QuantizeLinear and DequantizeLinear have different scales or zero points.")

    def source(self, value: str) -> str:
        """The float value before pairs and DynamicResize nodes in uint8, by its name in the float model."""
        for _ in self.got.graph.node:
            back = self.makers.get(value)
            made = self.makers.get(back.input[0]) if back is not None and back.op_type == "DequantizeLinear" else None
            if made is not None and made.op_type == "QuantizeLinear":
                value = made.input[0]
            elif made is not None and made.name in self.before and made.op_type == "DynamicResize":
                return self.before[made.name].output[0]
            else:
                return value
        return value

    def parameters(self, node: onnx.NodeProto) -> tuple[np.ndarray, np.ndarray]:
        """The scale and the zero point of one of a pair; uint8 zero where it is left out."""
        found = [self.tensors.get(entry) for entry in node.input[1:]]
        if not found or any(entry is None for entry in found):
            raise WrongAnswer(
                f"{self.name}: the scale or zero point of the {node.op_type} that makes {node.output[0]!r} is not a constant."
            )
        return found[0], found[1] if len(found) > 1 else np.zeros(found[0].shape, np.uint8)

    def expect_range(self, what: str, node: onnx.NodeProto, allowed: Sequence[tuple[str, ...]]) -> None:
        """Demand one scale and zero point of uint8, for the range of one of these groups of values."""
        scale, zero = self.parameters(node)
        if zero.dtype != np.uint8:
            raise WrongAnswer(
                f"{what} has a zero point of type {zero.dtype}, so its result has that type; expected uint8."
            )
        if scale.size != 1 or zero.size != 1:
            raise WrongAnswer(f"{what} has {scale.size} scales; a value, unlike a weight, has one.")
        step, start = float(scale.reshape(-1)[0]), int(zero.reshape(-1)[0])
        for values in allowed:
            if _fits(step, start, self.limits(*values)):
                return
        low, high = self.limits(*allowed[0])
        shown = " and ".join(map(repr, dict.fromkeys(allowed[0])))
        cause = self.cause(step, start, allowed[0])
        raise WrongAnswer(
            f"{what}: {shown} go from {low:.4g} to {high:.4g} over all inputs, 0 included, so the scale is "
            f"{(high - low) / 255:.4g} and the zero point {round(-low / (high - low) * 255)}; got {step:.4g} and {start}.{cause}"
        )

    def cause(self, step: float, start: int, values: tuple[str, ...]) -> str:
        """A sentence about where these parameters come from, if they are known."""
        last = len(self.ranges) - 1
        low, high = self.limits(*values)
        known = {
            " That is the range for the first of the inputs alone.": self.limits(*values, of=[0]),
            " That is the range for the last of the inputs alone.": self.limits(*values, of=[last]),
            **{f" That is the range of {value!r} alone.": self.limits(value) for value in self.ranges[0]},
            " That is a range with 0 in its middle: half of the steps can be unused.": (
                -max(-low, high),
                max(-low, high),
            ),
        }
        fitting = {cause: limits for cause, limits in known.items() if _fits(step, start, limits)}
        # Several may fit within a percent by chance. The one that it was made from fits in all digits.
        return min(fitting, key=lambda cause: _step_off(step, fitting[cause]), default="")

    def expect_weight(self, node: onnx.NodeProto) -> None:
        """Demand int8 numbers in the file and DequantizeLinear with a scale for each filter."""
        old = self.before[node.name]
        where = f"{self.name}: the weight of {node.name!r}"
        wanted = next(
            numpy_helper.to_array(entry) for entry in self.model.graph.initializer if entry.name == old.input[1]
        )
        back = self.makers.get(node.input[1])
        if back is None or back.op_type != "DequantizeLinear":
            raise WrongAnswer(f"{where} does not come from a DequantizeLinear.")
        stored = self.tensors.get(back.input[0])
        if stored is None:
            raise WrongAnswer(
                f"{where} is not a constant before its DequantizeLinear: quantise it now and store the int8 numbers."
            )
        if stored.dtype != np.int8:
            raise WrongAnswer(f"{where} is {stored.dtype} in the file, expected int8.")
        scale, zero = self.parameters(back) if len(back.input) > 2 else (self.tensors.get(back.input[1]), np.int8([0]))
        if scale is None or scale.shape != wanted.shape[:1]:
            count = 0 if scale is None else scale.size
            raise WrongAnswer(
                f"{where} has {wanted.shape[0]} filters and {count} scale{'s' * (count != 1)}: filters of different magnitudes "
                "need a scale each."
            )
        if not (np.isfinite(scale).all() and (scale > 0).all()):
            raise WrongAnswer(f"{where} has a scale that is not a number above 0: a filter can be all zeros.")
        if zero.dtype != np.int8 or zero.any():
            raise WrongAnswer(f"{where}: its zero points are {zero.dtype} numbers; expected int8 zeros.")
        axis = next((entry.i for entry in back.attribute if entry.name == "axis"), 1)
        if axis not in (0, -wanted.ndim):
            raise WrongAnswer(
                f"{where}: its DequantizeLinear has axis {axis} (1 if left out); filters are along axis 0."
            )
        if stored.shape != wanted.shape:
            raise WrongAnswer(f"{where} has the shape {list(stored.shape)}, expected {list(wanted.shape)}.")
        largest = int(np.abs(stored.astype(np.int32)).max())
        if largest > WEIGHT_LIMIT:
            raise WrongAnswer(
                f"{where} has the number {largest}; expected at most {WEIGHT_LIMIT}: with all 8 bits, processors without VNNI "
                "saturate when they add two products in 16 bits."
            )
        most = np.abs(wanted).reshape(len(wanted), -1).max(axis=1)
        wrong = np.flatnonzero((most > 0) & (np.abs(scale * WEIGHT_LIMIT / np.where(most > 0, most, 1) - 1) > 0.02))
        if wrong.size:
            place = int(wrong[0])
            raise WrongAnswer(
                f"{where}: the largest number of filter {place} is {most[place]:.4g}, so its scale is {most[place] / WEIGHT_LIMIT:.4g}; "
                f"got {scale[place]:.4g}."
            )
        step = scale.reshape(-1, *[1] * (wanted.ndim - 1))
        error = np.abs(stored * step - wanted) / step
        if error.max() > 0.55:
            raise WrongAnswer(
                f"{where}: a number is {error.max():.3g} steps from the original; rounding makes at most half a step."
            )

    def expect_small(self) -> None:
        """Demand that the float weights are gone from the file."""
        weights = {node.input[1]: node.name for node in self.model.graph.node if node.op_type == "Conv"}
        shapes = {entry.name: tuple(entry.dims) for entry in self.model.graph.initializer if entry.name in weights}
        for key, array in self.tensors.items():
            if array.dtype == np.float32 and array.ndim == 4 and array.shape in shapes.values():
                raise WrongAnswer(
                    f"{self.name}: the float32 weight {key!r} is still in the file, and it is not needed any more."
                )
        size, before = self.got.ByteSize(), self.model.ByteSize()
        if before > 100_000 and size > SIZE_LEFT * before:
            raise WrongAnswer(
                f"{self.name}: the file has {size} bytes, and {before} with float32 weights; expected at most {SIZE_LEFT:.0%} of it."
            )


def _pair_text(pair: tuple[np.ndarray, np.ndarray]) -> str:
    """A scale and a zero point for a message."""
    scale, zero = pair
    return f"{scale.reshape(-1)[0]:.4g} and the zero point {zero.reshape(-1)[0]}"


def _fits(step: float, start: int, limits: tuple[float, float]) -> bool:
    low, high = limits
    if high == low:
        return False
    wanted = (high - low) / 255
    return _step_off(step, limits) < 0.01 and abs(start + low / wanted) < 1.5


def _step_off(step: float, limits: tuple[float, float]) -> float:
    """By which part a step differs from that of the range."""
    return abs(step * 255 / (limits[1] - limits[0]) - 1)


def _expect_near(name: str, got: onnx.ModelProto, model: onnx.ModelProto, feeds: Feeds) -> None:
    """Compare with the float model: as the file states it, in float arithmetic between pairs, then with ONNX Runtime's integer kernels."""
    from oplab.ops import session

    wanted = graphs.run(model, feeds, f"{name}: the float model", kernels=True)
    fused = graphs.load(got, f"{name}: ONNX Runtime", kernels=True)  # first: it has a sentence for what it refuses
    plain = session(got, threads=1, optimize=False)
    for loaded, what in ((plain, "without optimisation"), (fused, "optimised")):
        found = graphs.run(loaded, feeds, f"{name}: ONNX Runtime, {what}")
        for value, left, right in zip(model.graph.output, found, wanted, strict=True):
            if left.shape != right.shape or left.dtype != right.dtype:
                raise WrongAnswer(f"{name}: {value.name!r} is {describe(left)}, expected {describe(right)}.")
            error = float(np.sqrt(np.mean((left - right) ** 2)) / np.sqrt(np.mean(right**2)))
            if not error < FAR:
                raise WrongAnswer(
                    f"{name}: {value.name!r} differs from that of the float model by {error:.2g} of its magnitude ({what}); with 8 bits, "
                    "0.01 is usual."
                )
