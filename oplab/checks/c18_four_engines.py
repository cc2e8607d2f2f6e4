"""Checks of chapter 18: the course's operators in other engines than ONNX Runtime."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from oplab.checks.children import alarm_when_stuck, wait_for
from oplab.checks.draws import Draws
from oplab.checks.evidence import Collect
from oplab.checks.exporting import about
from oplab.checks.guarded import guarded
from oplab.checks.judge import Judge
from oplab.checks.kernels import announce
from oplab.checks.openvino_runs import Engine, expect_interpolate, expect_refusal, installed, outputs
from oplab.checks.recordings import collect_differ, judge_differ  # noqa: F401
from oplab.checks.reentrancy import interrupted
from oplab.checks.references.resizing import alike, expect_resized, resized
from oplab.checks.references.sums import mistaken_sums, weights_of
from oplab.parity.arrays import WrongAnswer, describe, expect_close

if TYPE_CHECKING:
    import onnx


# --- conversion ----------------------------------------------------------------------------------------------------------------


Weights = tuple[float | None, float | None]  # alpha and beta


@dataclass(frozen=True)
class Added:
    """A model of one or two nodes oplab::MyAdd, and of nothing else.

    Attributes:
        weights: alpha and beta of each node; None leaves the attribute out.
        shape: what the model declares for a and b.
        runs: shapes of a and b.
        dtype: of a, b and y.
    """

    weights: tuple[Weights, ...]
    shape: tuple[int | str, ...] = ("n", "m")
    runs: tuple[tuple[int, ...], ...] = ((3, 5),)
    dtype: str = "float32"


@dataclass(frozen=True)
class Enlarged:
    """A model of one node oplab::DynamicResize, or of two in a row.

    Attributes:
        shape: what the model declares for x.
        runs: shapes of x, and height and width of y.
        dtype: of x and y.
        constant: whether scales is an initialiser, or else an input.
    """

    shape: tuple[int | str, ...]
    runs: tuple[tuple[tuple[int, ...], tuple[int, int]], ...]
    dtype: str = "float32"
    constant: bool = False


OPEN = ("n", "c", "h", "w")


def added_cases(rng: Draws) -> dict[str, Added]:
    # Quarters, so that float16 holds them; none is a default, 0 or 1, and none is there twice.
    quarters = [n / 4 for n in (-27, -22, -17, -11, -7, 5, 19, 23, 25, 30, 37)]
    p, q, r, s, t, u, w, z = (quarters[i] for i in rng.permutation(len(quarters))[:8])
    return {
        "MyAdd without attributes": Added(((None, None),), runs=((3, 5), (1, 1), (40, 33), (0, 4))),
        "MyAdd with alpha and beta": Added(((p, q),), runs=((3, 5), (7, 2))),
        "MyAdd with alpha alone": Added(((r, None),)),
        "MyAdd with beta alone": Added(((None, s),)),
        "MyAdd with alpha = 0": Added(((0.0, t),)),
        "two MyAdd with their own attributes": Added(((u, w), (z, None), (None, None))),
        "MyAdd with one axis": Added(((p, q),), shape=("n",), runs=((4,), (1000,))),
        "MyAdd with fixed axes": Added(((p, q),), shape=(2, 3, 4), runs=((2, 3, 4),)),
        "MyAdd of float64": Added(((p, q),), dtype="float64"),
        "MyAdd of float16": Added(((p, q),), dtype="float16"),
    }


def enlarged_cases() -> dict[str, Enlarged]:
    return {
        "a larger image": Enlarged(OPEN, (((1, 2, 6, 5), (13, 9)),)),
        "a smaller image": Enlarged(OPEN, (((1, 2, 17, 23), (6, 9)),)),
        "an image of another size, in the same program": Enlarged(
            OPEN, (((1, 1, 5, 4), (9, 11)), ((3, 2, 31, 40), (50, 21)), ((1, 1, 9, 7), (4, 15)))
        ),
        "an image that becomes one pixel high": Enlarged(OPEN, (((1, 1, 5, 6), (1, 9)),)),
        "scales that are an initialiser": Enlarged(OPEN, (((2, 3, 7, 8), (11, 19)),), constant=True),
        "an x with fixed axes": Enlarged((2, 3, 7, 8), (((2, 3, 7, 8), (11, 5)),)),
        "a resize of float64": Enlarged(OPEN, (((1, 2, 6, 5), (13, 4)),), dtype="float64"),
        "a resize of float16": Enlarged(OPEN, (((1, 2, 6, 5), (13, 4)),), dtype="float16"),
    }


def terms(rng: Draws, shape: tuple[int, ...], dtype: str) -> dict[str, np.ndarray]:
    return {name: np.asarray(rng.normal(size=shape)).astype(dtype) for name in "ab"}


def image(rng: Draws, shape: tuple[int, ...], sides: tuple[int, int], dtype: str) -> dict[str, np.ndarray]:
    """x, and scales that make ``sides``: side * scale is between 0.55 and 0.8 above a whole number, far from each rounding."""
    parts = rng.uniform(0.55, 0.8, size=2)
    scales = [1, 1, *((new + part) / old for new, part, old in zip(sides, parts, shape[2:], strict=True))]
    return {"x": rng.normal(size=shape).astype(dtype), "scales": np.array(scales, np.float32)}


def course_model(
    nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, tuple[str, Sequence[int | str]]], outputs: Mapping[str, str]
) -> onnx.ModelProto:
    """A model that imports opset 20 and version 1 of the domain oplab."""
    import onnx
    from onnx import helper

    def of(dtype: str) -> int:
        return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    graph = helper.make_graph(
        list(nodes),
        "four_engines",
        [helper.make_tensor_value_info(name, of(dtype), shape) for name, (dtype, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, of(dtype), None) for name, dtype in outputs.items()],
    )
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("oplab", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=10)


def added_model(case: Added) -> onnx.ModelProto:
    from onnx import helper

    nodes = []
    for number, weights in enumerate(case.weights):
        held = {name: value for name, value in zip(("alpha", "beta"), weights, strict=True) if value is not None}
        nodes.append(helper.make_node("MyAdd", ["a", "b"], [f"y{number}"], domain="oplab", **held))
    values = {name: (case.dtype, case.shape) for name in "ab"}
    return course_model(nodes, values, {node.output[0]: case.dtype for node in nodes})


def enlarged_model(case: Enlarged, scales: np.ndarray) -> onnx.ModelProto:
    from onnx import helper, numpy_helper

    node = helper.make_node("DynamicResize", ["x", "scales"], ["y"], domain="oplab")
    values = {"x": (case.dtype, case.shape), "scales": ("float32", [4])}
    if case.constant:
        del values["scales"]
    model = course_model([node], values, {"y": case.dtype})
    if case.constant:
        model.graph.initializer.append(numpy_helper.from_array(scales, "scales"))
    return model


def chained_model() -> onnx.ModelProto:
    """Both nodes in one model, in which scales are computed: 1, 1, and the input factor twice."""
    from onnx import helper

    ones = helper.make_node("Constant", [], ["ones"], value_floats=[1.0, 1.0])
    nodes = [
        ones,
        helper.make_node("Concat", ["ones", "factor", "factor"], ["scales"], axis=0),
        helper.make_node("DynamicResize", ["x", "scales"], ["large"], domain="oplab"),
        helper.make_node("Neg", ["large"], ["other"]),
        helper.make_node("MyAdd", ["large", "other"], ["y"], domain="oplab", beta=0.5),
    ]
    return course_model(nodes, {"x": ("float32", OPEN), "factor": ("float32", [1])}, {"y": "float32"})


UNEQUAL = ("MyAdd of a[2, 3] and b[1, 3]", (("float32", (2, 3)), ("float32", (1, 3))))
CHAIN = "a model with both nodes"


def unequal_model() -> onnx.ModelProto:
    from onnx import helper

    node = helper.make_node("MyAdd", ["a", "b"], ["y"], domain="oplab")
    return course_model([node], dict(zip("ab", UNEQUAL[1], strict=True)), {"y": "float32"})


def collect_conversion(c: Collect) -> None:
    openvino = installed()
    expect_interpolate()
    added = {
        title: (case, [terms(c.rng, shape, case.dtype) for shape in case.runs])
        for title, case in added_cases(c.rng).items()
    }
    enlarged = {
        title: (case, [image(c.rng, *run, case.dtype) for run in case.runs]) for title, case in enlarged_cases().items()
    }
    chain = image(c.rng, (1, 2, 6, 9), (14, 21), "float32")
    found = c.attempt("conversion()", c.function("conversion"))
    kinds = [isinstance(entry, openvino.Extension) for entry in found] if isinstance(found, (list, tuple)) else []
    c.value("conversion()", "" if kinds and all(kinds) else f"{type(found).__name__}")
    if not kinds or not all(kinds):
        return
    engine = Engine(c, list(found))

    def run(title: str, model: onnx.ModelProto, feeds: Sequence[Mapping[str, np.ndarray]]) -> None:
        read = engine.read(title, model)
        if read is not None:
            _describe(c, title, read)
        program = engine.compile(title, read)
        for number, feed in enumerate(feeds):
            engine.record(_run_title(title, number), program, feed)

    for title, (case, feeds) in added.items():
        run(title, added_model(case), feeds)
    for title, (case, feeds) in enlarged.items():
        given = [{"x": feed["x"]} for feed in feeds] if case.constant else feeds
        run(title, enlarged_model(case, feeds[0]["scales"]), given)
    run(CHAIN, chained_model(), [{"x": chain["x"], "factor": chain["scales"][2:3]}])
    read = engine.read(UNEQUAL[0], unequal_model())
    if read is not None:
        c.value(UNEQUAL[0], "read")


def _run_title(title: str, number: int) -> str:
    return f"{title}, run {number + 1}"


def _describe(c: Collect, title: str, model: Any) -> None:
    """What the converted model declares: evidence for the judge."""
    outputs = [(str(one.element_type.to_dtype()), str(one.partial_shape)) for one in model.outputs]
    kinds = [one for one in model.get_ordered_ops() if one.get_type_name() not in ("Parameter", "Result")]
    strange = [one.get_type_name() for one in kinds if not one.get_type_info().version_id.startswith("opset")]
    resizes = [one.get_attributes() for one in kinds if one.get_type_name() == "Interpolate"]
    told = ("mode", "shape_calculation_mode", "coordinate_transformation_mode", "antialias", "cube_coeff")
    said = ", ".join(f"{key} = {resizes[0].get(key)}" for key in told) if resizes else ""
    c.value(f"{title}: outputs", [[str(np.dtype(kind)), shape] for kind, shape in outputs])
    c.value(f"{title}: foreign", ", ".join(sorted(set(strange))))
    c.value(f"{title}: Interpolate", said)


def judge_conversion(v: Judge) -> None:
    added = {
        title: (case, [terms(v.rng, shape, case.dtype) for shape in case.runs])
        for title, case in added_cases(v.rng).items()
    }
    enlarged = {
        title: (case, [image(v.rng, *run, case.dtype) for run in case.runs]) for title, case in enlarged_cases().items()
    }
    chain = image(v.rng, (1, 2, 6, 9), (14, 21), "float32")
    with v.require("it returns extensions"):
        wrong = v.value("conversion()")
        if wrong:
            raise WrongAnswer(
                f"conversion() has to return a list of extensions, ConversionExtension(…) for each node; it is a {wrong}."
            )
    cases = {
        **{title: case for title, (case, _) in added.items()},
        **{title: case for title, (case, _) in enlarged.items()},
    }
    with v.require("OpenVINO reads the models"):
        for title in (*cases, CHAIN):
            with about(title):
                read_by_openvino(v, title)
    with v.check("the nodes become operators of OpenVINO"):
        for title in (*cases, CHAIN):
            if foreign := v.value(f"{title}: foreign"):
                raise WrongAnswer(
                    f"{title}: the model has {foreign}, which is not in any opset of OpenVINO. Use the functions of openvino.opset13."
                )
    with v.check("MyAdd is alpha * a + beta * b"):
        for title, (case, feeds) in added.items():
            for number, feed in enumerate(feeds):
                with about(_run_title(title, number)):
                    found = outputs(v, _run_title(title, number), len(case.weights))
                    for weights, got in zip(case.weights, found, strict=True):
                        expect_added(got, feed, weights, case.dtype)
    with v.check("DynamicResize is ONNX's cubic Resize"):
        for title, (case, feeds) in enlarged.items():
            for number, feed in enumerate(feeds):
                with about(_run_title(title, number)):
                    expect_enlarged(v, title, outputs(v, _run_title(title, number))[0], feed, case.dtype)
    with v.check("types and shapes"):
        for title, case in cases.items():
            with about(title):
                expect_declared(v, title, case)
    if v.ok:
        with v.check("one model with both nodes"), about(CHAIN):
            scales = chain["scales"][[0, 1, 2, 2]]
            expected = 2.5 * resized({"x": chain["x"], "scales": scales})
            expect_close(outputs(v, _run_title(CHAIN, 0))[0], expected, name="y", rtol=1e-3, atol=1e-3)
    with v.check("shapes that differ are refused"):
        expect_refusal(
            v, [UNEQUAL[0]], UNEQUAL[0], 'OpenVINO\'s arithmetic broadcasts unless it gets auto_broadcast="NONE".'
        )


def read_by_openvino(v: Judge, title: str) -> None:
    """Raise OpenVINO's own words if it has refused a model."""
    error = v.error(title)
    if error is not None:
        outputs(v, title)
    if not v.has(f"{title}: outputs"):
        raise WrongAnswer("OpenVINO has not read this model.")


def expect_declared(v: Judge, title: str, case: Added | Enlarged) -> None:
    """Demand the type of each output, and the axes that are known."""
    for kind, shape in v.value(f"{title}: outputs"):
        if kind != case.dtype:
            raise WrongAnswer(f"y is {kind} in OpenVINO's model, and the inputs are {case.dtype}.")
        axes = str(shape).strip("[]").split(",")
        if str(shape) == "[...]" or len(axes) != len(case.shape):
            raise WrongAnswer(f"y has the shape {shape} in OpenVINO's model: it has {len(case.shape)} axes.")
        known = len(case.shape) if isinstance(case, Added) else 2
        for axis, (declared, got) in enumerate(zip(case.shape[:known], axes, strict=False)):
            if isinstance(declared, int) and got != str(declared):
                raise WrongAnswer(
                    f"y has the shape {shape} in OpenVINO's model. Axis {axis} is {declared}, as that of the input: what is known "
                    "about shapes is lost."
                )
            if isinstance(declared, str) and got != "?":
                raise WrongAnswer(
                    f"y has the shape {shape} in OpenVINO's model, and axis {axis} of the input is dynamic."
                )
        if isinstance(case, Enlarged) and not case.constant and axes[2:] != ["?", "?"]:
            raise WrongAnswer(f"y has the shape {shape} in OpenVINO's model: its sides follow from scales, an input.")


def expect_added(got: np.ndarray, feed: Mapping[str, np.ndarray], weights: Weights, dtype: str = "float32") -> None:
    """Demand alpha * a + beta * b."""
    a, b = feed["a"].astype(np.float64), feed["b"].astype(np.float64)
    alpha, beta = weights_of(weights)
    # OpenVINO's CPU computes float64 in float32, and its result of float16 is rounded once or more.
    within = 2e-2 if dtype == "float16" else 1e-4
    right, likely = (alpha * a + beta * b).astype(dtype), mistaken_sums(a, b, weights)
    expect_close(got, right, name="y", rtol=within, atol=within, likely=likely)


def expect_enlarged(v: Judge, title: str, got: np.ndarray, feed: Mapping[str, np.ndarray], dtype: str) -> None:
    if str(got.dtype) != dtype:
        raise WrongAnswer(f"y is {describe(got)}, and x is {describe(feed['x'])}.")
    given = {"x": feed["x"].astype(np.float32), "scales": feed["scales"]}
    expected = resized(given)
    if dtype == "float16" and got.shape == expected.shape and np.allclose(got, expected, rtol=2e-2, atol=2e-2):
        return
    try:
        expect_resized(got.astype(np.float32), given)
    except WrongAnswer as error:
        said = v.value(f"{title}: Interpolate")
        raise WrongAnswer(f"{error} Its Interpolate has {said}." if said else str(error)) from None


# --- openvino_extension --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sum:
    """A model of nodes oplab::MyAdd in OpenVINO, run on the CPU.

    Attributes:
        a, b: the shapes that the model declares; None is any rank.
        y: the shape that OpenVINO has to know then, as it prints it.
        runs: shapes of a and b. OpenVINO's CPU does not run a model whose inputs have any rank.
        weights: alpha and beta of each node; None leaves the attribute out.
        by: how the model that runs is made: ``reading`` the ONNX file, reading a ``file`` that OpenVINO has written, ``cloning`` the
            model, or giving a model with open axes the ``shape`` of the run.
        constant: whether a and b are in the model.
    """

    a: tuple[int | str, ...] | None
    b: tuple[int | str, ...] | None
    y: str
    runs: tuple[tuple[int, ...], ...]
    weights: tuple[Weights, ...] = ((None, None),)
    by: str = "reading"
    constant: bool = False


def sum_cases(rng: Draws) -> dict[str, Sum]:
    quarters = [n / 4 for n in (-27, -22, -17, -11, -7, 5, 19, 23, 25, 30, 37)]
    p, q, r, s, t, u, w, z = (quarters[i] for i in rng.permutation(len(quarters))[:8])
    two = (2, 3)
    open_axes = ("n", "m")
    return {
        "a[2, 3] and b[2, 3]": Sum(two, two, "[2,3]", (two,)),
        "a[?, 3] and b[2, ?]": Sum(("n", 3), (2, "m"), "[2,3]", (two,), ((p, q),)),
        "a of any rank and b[2, ?]": Sum(None, (2, "m"), "[2,?]", (), ((p, q),)),
        "a[?, ?] and b[?, ?], several sizes": Sum(
            open_axes, open_axes, "[?,?]", ((3, 5), (1, 1), (160, 133), (0, 4), (2, 9)), ((r, s),)
        ),
        "one axis": Sum(("n",), ("n",), "[?]", ((4,), (5000,))),
        "no axes": Sum((), (), "[]", ((),), ((p, q),)),
        "four axes": Sum((2, 3, "h", "w"), (2, 3, "h", "w"), "[2,3,?,?]", ((2, 3, 4, 5),), ((t, None),)),
        "three nodes with their own attributes": Sum(
            open_axes, open_axes, "[?,?]", ((3, 5),), ((u, w), (None, z), (0.0, None))
        ),
        "a and b that are constants": Sum(two, two, "[2,3]", (two,), ((p, q),), constant=True),
        "a copy of the model": Sum(open_axes, open_axes, "[?,?]", ((3, 5),), ((q, r),), "cloning"),
        "a file that OpenVINO has written (its attributes come from visit_attributes)": Sum(
            open_axes, open_axes, "[?,?]", ((3, 5),), ((s, t),), "file"
        ),
        "a model with a new shape": Sum(open_axes, open_axes, "[4,5]", ((4, 5),), ((w, z),), "shape"),
    }


# What a model must not be read with: shapes, element types, and words of the sentence.
Refused = tuple[tuple[int, ...], tuple[int, ...], str, str, tuple[str, ...]]
REFUSED: dict[str, Refused] = {
    "a model with a[2, 3] and b[1, 3]": ((2, 3), (1, 3), "float32", "float32", ("[2,3]", "[1,3]")),
    "a model with a[2, 3] and b[3]": ((2, 3), (3,), "float32", "float32", ("[2,3]", "[3]")),
    "a model with a float32 and b int32": ((2, 3), (2, 3), "float32", "int32", ("i32|int32",)),
    "a model with a and b float64": ((2, 3), (2, 3), "float64", "float64", ("f64|float64|double",)),
    "a model with a and b float16": ((2, 3), (2, 3), "float16", "float16", ("f16|float16|half",)),
}
# What evaluate() must not compute: the same, called directly.
WRONG_CALLS: dict[str, Refused] = {
    "evaluate() with a[700, 3] and b[1, 3]": ((700, 3), (1, 3), "float32", "float32", ("[700,3]", "[1,3]")),
    "evaluate() with a[2, 3] and b[3, 2]": ((2, 3), (3, 2), "float32", "float32", ("[2,3]", "[3,2]")),
    "evaluate() with a float32 and b int32": ((2, 3), (2, 3), "float32", "int32", ("i32|int32",)),
    "evaluate() with a and b float64": ((2, 3), (2, 3), "float64", "float64", ("f64|float64|double",)),
}
LATE = "a run with a[4, 3] and b[1, 3]"
CALLS: dict[
    str, tuple[tuple[int, ...], Literal["behind", "before"]]
] = {  # shapes of a and b, and the side of the page that must not be read
    "evaluate() at the end of memory": ((37, 5), "behind"),
    "evaluate() at the beginning of memory": ((37, 5), "before"),
    "evaluate() of empty tensors": ((0, 5), "behind"),
}
LARGER = "evaluate() with a y that had another shape"
TURNED = "evaluate() with a y of [3, 4]"
TURNS = "two infer requests in turn"
TOGETHER = "two calls of evaluate() at the same time"
_NEVER = 10  # seconds for two calls of less than a millisecond, where it is not seen earlier that they are stuck
CALL_WEIGHTS = (0.5, -4.0)


def sum_model(case: Sum, feed: Mapping[str, np.ndarray]) -> onnx.ModelProto:
    from onnx import numpy_helper

    model = added_model(Added(case.weights))
    for value, shape in zip(list(model.graph.input), (case.a, case.b), strict=True):
        held = value.type.tensor_type
        held.ClearField("shape")
        for size in shape or ():
            dim = held.shape.dim.add()
            if isinstance(size, int):
                dim.dim_value = size
            else:
                dim.dim_param = size
        if shape == ():
            held.shape.SetInParent()
    if case.constant:
        del model.graph.input[:]
        model.graph.initializer.extend(numpy_helper.from_array(feed[name], name) for name in "ab")
    return model


def wrong_terms(case: Refused, rng: Draws) -> list[np.ndarray]:
    return [rng.normal(size=shape).astype(dtype) for shape, dtype in zip(case[:2], case[2:4], strict=True)]


def collect_openvino_extension(c: Collect) -> None:
    installed()
    cases = {
        title: (case, [terms(c.rng, shape, "float32") for shape in case.runs])
        for title, case in sum_cases(c.rng).items()
    }
    calls = {title: terms(c.rng, shape, "float32") for title, (shape, _) in CALLS.items()}
    calls |= {title: terms(c.rng, (4, 3), "float32") for title in (LARGER, TURNED, LATE)}
    turns = [terms(c.rng, (40, 30), "float32") for _ in range(2)]
    together = [terms(c.rng, (rows, 64), "float32") for rows in (200, 200)]
    wrong = {title: wrong_terms(case, c.rng) for title, case in WRONG_CALLS.items()}
    engine = Engine(c, str(c.library))

    # First what ends the process where it is wrong: there a message names the case.
    direct = engine.read("evaluate()", sum_model(Sum(OPEN[:2], OPEN[:2], "", (), (CALL_WEIGHTS,)), {}))
    nodes = [node for node in direct.get_ordered_ops() if node.get_type_name() == "MyAdd"] if direct else []
    if nodes:
        _call_evaluate(c, engine, nodes[0], calls, wrong, together)
    for title, (case, feeds) in cases.items():
        model = engine.read(title, sum_model(case, feeds[0] if feeds else {}))
        if model is not None and case.by != "reading":
            model = c.attempt(title, _made_by, c, engine, case, model, feeds[0])
        if model is not None:
            _describe(c, title, model)
        program = engine.compile(title, model) if feeds else None
        for number, feed in enumerate(feeds):
            engine.record(_run_title(title, number), program, {} if case.constant else feed)

    for title, (a, b, a_type, b_type, _) in REFUSED.items():
        from onnx import helper

        node = helper.make_node("MyAdd", ["a", "b"], ["y"], domain="oplab")
        if engine.read(title, course_model([node], {"a": (a_type, a), "b": (b_type, b)}, {"y": a_type})) is not None:
            c.value(title, "read")

    program = engine.compile("evaluate()", direct)
    if program is None:
        return
    feed = calls[LATE]
    engine.record(LATE, program, {"a": feed["a"], "b": feed["b"][:1]})
    engine.record(f"{LATE}, and then a right one", program, feed)
    requests = [program.create_infer_request() for _ in turns]
    announce(TURNS)
    for request, feed in zip(requests, turns, strict=True):
        c.attempt(TURNS, engine.said, request.infer, {name: array.copy() for name, array in feed.items()})
    c.value(TURNS, [np.array(request.get_output_tensor(0).data) for request in requests])


def _call_evaluate(
    c: Collect,
    engine: Engine,
    node: Any,
    calls: Mapping[str, Mapping[str, np.ndarray]],
    wrong: Mapping[str, Sequence[np.ndarray]],
    together: Sequence[Mapping[str, np.ndarray]],
) -> None:
    """Call the learner's function without a model, on memory that ends at a page that no code may touch."""
    import openvino

    guarding = not os.environ.get("OPLAB_SANITIZE")  # a sanitizer sees by itself where arrays end, and knows the line

    def placed(array: np.ndarray, side: Literal["behind", "before"] = "behind") -> np.ndarray:
        return guarded(array, side) if guarding else array.copy()

    def evaluate(y: Any, a: np.ndarray, b: np.ndarray) -> None:
        tensors = [openvino.Tensor(array, shared_memory=True) for array in (a, b)]
        if not engine.said(node.evaluate, [y], tensors):
            raise RuntimeError("evaluate() returned false.")

    for title, (shape, side) in CALLS.items():
        announce(title)
        held = {name: placed(array, side) for name, array in calls[title].items()}
        y = placed(np.full(shape, np.nan, np.float32), side)
        c.attempt(title, evaluate, openvino.Tensor(y, shared_memory=True), held["a"], held["b"])
        c.value(title, [y, held["a"], held["b"]])
    for title, arrays in wrong.items():
        announce(title)
        y = placed(np.zeros(arrays[0].shape, arrays[0].dtype))
        c.attempt(title, evaluate, openvino.Tensor(y, shared_memory=True), *map(placed, arrays))
        c.value(title, "computed")
    for title, shape in ((LARGER, [9, 8]), (TURNED, [3, 4])):
        announce(title)
        other = openvino.Tensor(openvino.Type.f32, openvino.Shape(shape))
        c.attempt(title, evaluate, other, *calls[title].values())
        c.value(title, np.array(other.data))
    if not guarding:
        return
    announce(TOGETHER)

    def computed(feed: Mapping[str, np.ndarray]) -> np.ndarray:
        y = openvino.Tensor(openvino.Type.f32, openvino.Shape(list(feed["a"].shape)))
        evaluate(y, **feed)
        return np.array(y.data)

    # OpenVINO's Python keeps its lock while evaluate() runs: two calls that wait for each other never end. Such an answer has a
    # lock around what it shares, and is right. The fork is ended then, and leaves no result.
    kept = c.scratch / "together.npy"
    child = os.fork()
    if child == 0:
        with contextlib.suppress(Exception):
            signal.alarm(_NEVER)
            sys.setswitchinterval(2 * _NEVER)  # who waits for Python's lock would look for it 200 times a second
            with interrupted(together[0], lambda: computed(together[1])) as copies:
                np.save(kept, computed(copies))
        os._exit(0)
    alarm_when_stuck(child)
    ended = max(0, -wait_for(child))
    if ended != signal.SIGALRM:
        c.value(TOGETHER, np.load(kept) if kept.is_file() and not ended else f"ended by signal {ended}")


def _made_by(c: Collect, engine: Engine, case: Sum, model: Any, feed: Mapping[str, np.ndarray]) -> Any:
    """Another model, made of one that was read."""
    import openvino

    if case.by == "cloning":
        return model.clone()
    if case.by == "shape":
        engine.said(model.reshape, {name: list(array.shape) for name, array in feed.items()})
        return model
    engine.said(openvino.serialize, model, str(c.scratch / "written.xml"))
    return engine.said(engine.core.read_model, str(c.scratch / "written.xml"))


def judge_openvino_extension(v: Judge) -> None:
    cases = {
        title: (case, [terms(v.rng, shape, "float32") for shape in case.runs])
        for title, case in sum_cases(v.rng).items()
    }
    calls = {title: terms(v.rng, shape, "float32") for title, (shape, _) in CALLS.items()}
    calls |= {title: terms(v.rng, (4, 3), "float32") for title in (LARGER, TURNED, LATE)}
    turns = [terms(v.rng, (40, 30), "float32") for _ in range(2)]
    together = [terms(v.rng, (rows, 64), "float32") for rows in (200, 200)]
    with v.require("y has the type and the shape that are known"):
        for title, (case, _) in cases.items():
            if not v.has(f"{title}: outputs"):
                with about(title):
                    read_by_openvino(v, title)
            for kind, shape in v.value(f"{title}: outputs"):
                if (kind, shape) != ("float32", case.y):
                    raise WrongAnswer(
                        f"{title}: OpenVINO's model has a y of {kind}{shape}, and float32{case.y} follows from a and b. "
                        "validate_and_infer_types decides that."
                    )
    with v.require("evaluate() changes no input"):
        for title in CALLS:
            if v.has(title) and not v.error(title):
                _, *inputs = outputs(v, title, 3)
                if not all(np.array_equal(got, calls[title][name]) for name, got in zip("ab", inputs, strict=True)):
                    raise WrongAnswer(f"{title}: an input was changed. Write to outputs[0] alone.")
    with v.require("OpenVINO takes the operator"):
        for title in cases:
            with about(title):
                read_by_openvino(v, title)
    with v.check("y = alpha * a + beta * b"):
        for title, (case, feeds) in cases.items():
            for number, feed in enumerate(feeds):
                with about(_run_title(title, number)):
                    found = outputs(v, _run_title(title, number), len(case.weights))
                    for weights, got in zip(case.weights, found, strict=True):
                        expect_added(got, feed, weights)
    with v.check("what does not fit is refused when a model is read"):
        for title, (*_, words) in REFUSED.items():
            expect_sentence(v, title, words, "validate_and_infer_types is called for each model that is read.")
    if v.error("evaluate()"):
        with v.require("evaluate"), about("evaluate()"):
            outputs(v, "evaluate()")

    def expect(title: str, got: np.ndarray, feed: Mapping[str, np.ndarray]) -> None:
        with about(title):
            expect_added(got, feed, CALL_WEIGHTS)

    with v.check("what does not fit is refused when it runs"):
        expect_sentence(v, LATE, ("[4,3]", "[1,3]"), "Compare the shapes of the tensors.")
        title = f"{LATE}, and then a right one"
        expect(title, outputs(v, title)[0], calls[LATE])
        for title, (*_, words) in WRONG_CALLS.items():
            expect_sentence(v, title, words, "evaluate() is also called without a model.")
    with v.check("evaluate() computes y, and gives it its shape"):
        for title in CALLS:
            with about(title):
                y = outputs(v, title, 3)[0]
            expect(title, y, calls[title])
        for title in (LARGER, TURNED):
            found = outputs(v, title, 0) if v.error(title) else v.array(title)
            if found.shape != (4, 3):
                raise WrongAnswer(
                    f"{title}: y has the shape {list(found.shape)} afterwards, not [4, 3]: outputs[0].set_shape(…)."
                )
            expect(title, found, calls[title])
    with v.check("calls share nothing"):
        found = outputs(v, TURNS, 2)
        for got, feed in zip(found, turns, strict=True):
            expect(TURNS, got, feed)
        if v.has(TOGETHER):
            expected = 0.5 * together[0]["a"] - 4 * together[0]["b"]
            found = v.value(TOGETHER)
            if type(found) is not np.ndarray or not alike(found, expected):
                raise WrongAnswer(
                    f"{TOGETHER}: y has values of the other call, or the process crashed. Keep nothing that evaluate() changes "
                    "outside of the function."
                )


def expect_sentence(v: Judge, title: str, words: Sequence[str], likely: str) -> None:
    """Demand a refusal whose sentence has each of the words, or one of those between which there is a |."""
    said = expect_refusal(v, [title], title, likely)
    plain = said.replace(" ", "").lower()
    for choice in words:
        if not any(word in plain for word in choice.split("|")):
            raise WrongAnswer(
                f"{title}: the exception says {said!r}. Say what is wrong: {choice.split('|')[0]} has to be in the sentence."
            )
