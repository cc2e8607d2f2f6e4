"""Checks of chapter 01: models that a learner builds, reads, repairs and lists.

The models that the exercises work on are drawn from the generator, in both halves alike: their names, sizes and numbers differ from
run to run.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper, parser

from oplab.checks import exporting, graphs
from oplab.checks.errors import LearnerError
from oplab.checks.evidence import Collect
from oplab.checks.judge import Judge
from oplab.checks.returned import record_model, recorded_model
from oplab.onnxtools.names import normal_domain
from oplab.onnxtools.subgraphs import reads
from oplab.parity.arrays import WrongAnswer, describe, expect_close

MAX_IR, MAX_OPSET = 13, 26  # what ONNX Runtime 1.31 takes; tests/lessons/test_c01_facts.py holds it to that


def expect_versions(model: onnx.ModelProto) -> None:
    """An IR version and an opset that ONNX Runtime takes."""
    if model.ir_version > MAX_IR:
        raise WrongAnswer(
            f"The model has IR version {model.ir_version}; ONNX Runtime takes {MAX_IR} at most. make_model's default is the newest "
            "that the package onnx knows; `ir_version=` sets another."
        )
    found = graphs.opset(model)
    if found is None:
        raise WrongAnswer('The model imports no opset of ai.onnx: opset_import has no entry for the domain "".')
    if found < 7:
        raise WrongAnswer(
            f"The model imports opset {found}, whose Mul and Add broadcast only where the node has broadcast=1; from opset 7 on they "
            "always do."
        )
    if found > MAX_OPSET:
        raise WrongAnswer(
            f"The model imports opset {found}, ONNX Runtime takes {MAX_OPSET} at most. make_model's default is the newest that the "
            "package onnx knows; `opset_imports=` sets another."
        )


def given(model: onnx.ModelProto) -> set[str]:
    """What is there before the first node runs."""
    return {entry.name for entry in [*model.graph.input, *model.graph.initializer]}


def expect_sorted(model: onnx.ModelProto) -> None:
    """Each node after those that it reads from, and no input without a producer."""
    made = given(model) | {name for node in model.graph.node for name in node.output}
    ready = given(model)
    for node in model.graph.node:
        for name in sorted(set(reads(node)) - ready):
            if name not in made:
                raise WrongAnswer(f"The node {node.op_type} reads {name!r}, which no node produces.")
            inside = "" if name in node.input else " One of its bodies reads it, at any depth: that counts too."
            raise WrongAnswer(
                f"The node {node.op_type} comes before the node that produces {name!r}, which it reads.{inside}"
            )
        ready |= set(node.output)


# --- build ---------------------------------------------------------------------------------------------------------------------

LINES = [  # dtype, the shapes of a and b, the rank of x
    ("float32", (5,), (), 2),
    ("float32", (4, 1), (6,), 3),
    ("float64", (3, 1, 2), (2,), 3),
    ("float16", (), (7,), 1),
    ("int64", (2, 5), (2, 1), 2),
    ("int32", (), (), 1),
    ("float32", (), (), 0),
    ("float32", (2,), (3, 1, 1), 6),
]
HUGE = 1 << 53  # from here on float64 does not hold every integer


def line_title(dtype: str, a: tuple[int, ...], b: tuple[int, ...], rank: int) -> str:
    return f"build({dtype}{list(a)}, {dtype}{list(b)}, rank={rank})"


def numbers(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Numbers that are neither 0 nor 1; integers for an integer dtype. Two axes or more come in Fortran's order, not contiguous."""
    values = np.asarray(rng.uniform(1.5, 9, shape) * rng.choice([-1, 1], shape))
    return np.asarray(np.round(values) if "int" in dtype else values).astype(dtype, order="F")


def coefficients(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> np.ndarray:
    """:func:`numbers`; those of int64 are odd and above ``HUGE``, and times an x of at most 9 they fit."""
    values = numbers(shape, dtype, rng)
    return np.asarray(HUGE + 21 + 2 * values, order="F") if dtype == "int64" else values


def collect_build(c: Collect) -> None:
    function = c.function("build")
    for dtype, a, b, rank in LINES:
        given = coefficients(a, dtype, c.rng), coefficients(b, dtype, c.rng)
        record_model(c, line_title(dtype, a, b, rank), function, *given, rank)


def judge_build(v: Judge) -> None:
    lines = {line: [coefficients(shape, line[0], v.rng) for shape in line[1:3]] for line in LINES}
    models = {}
    with v.require("a model with versions that ONNX Runtime takes"):
        for line in lines:
            models[line] = recorded_model(v, line_title(*line))
            expect_versions(models[line])
    with v.require("one Mul and one Add, from x to y"):
        for model in models.values():
            graphs.expect_inputs(model, ["x"])
            graphs.expect_outputs(model, ["y"])
            graphs.expect_ops(model, {"Mul": 1, "Add": 1})
            others = sorted(set(graphs.ops(model)) - {"Mul", "Add", "Constant"})
            if others:
                raise WrongAnswer(f"Expected one Mul and one Add, the graph also has {', '.join(others)}.")
    with v.check("x and y have the dtype of a, and rank dynamic axes"):
        for line, model in models.items():
            expect_ends(model, line)
    with v.require("a valid graph"):
        for line, model in models.items():
            expect_sorted(model)
            graphs.expect_used(model, ["x"])
            with exporting.about(line_title(*line)):
                graphs.expect_valid(model)
    with v.check("computes a * x + b"):
        for line, (a, b) in lines.items():
            with exporting.about(line_title(*line)):
                expect_line(models[line], line, a, b, v.rng)
                _expect_both(models[line], a, b)


def expect_ends(model: onnx.ModelProto, line: tuple) -> None:
    """Types and shapes of the input and the output."""
    dtype, _, _, rank = line
    title = line_title(*line)
    for value in [model.graph.input[0], model.graph.output[0]]:
        kind = value.type.tensor_type
        if kind.elem_type != helper.np_dtype_to_tensor_dtype(np.dtype(dtype)):
            found = {number: name for name, number in TensorProto.DataType.items()}.get(kind.elem_type, "?")
            raise WrongAnswer(f"{title}: {value.name!r} has the element type {found}, a and b are {dtype}.")
        if not kind.HasField("shape") or len(kind.shape.dim) != rank:
            shape = f"{len(kind.shape.dim)} axes" if kind.HasField("shape") else "no shape"
            cause = " An empty list is rank 0; None is an unknown rank." if rank == 0 else ""
            raise WrongAnswer(f"{title}: {value.name!r} has {shape}, expected {rank} axes.{cause}")
    graphs.expect_dynamic(model, "x", range(rank))
    names = [dim.dim_param for dim in model.graph.input[0].type.tensor_type.shape.dim]
    if len(set(names)) < rank or "" in names:
        raise WrongAnswer(
            f"{title}: the axes of 'x' are named {names}. Give each its own name: one name means one size."
        )


def _expect_both(model: onnx.ModelProto, a: np.ndarray, b: np.ndarray) -> None:
    """Demand that the model holds a and b, and no larger copies of them."""
    have = [list(tensor.dims) for tensor in graphs.tensors(model)]
    if sum(map(math.prod, have)) > a.size + b.size:
        raise WrongAnswer(
            f"a and b are {describe(a)} and {describe(b)}, and the model holds tensors of {' and '.join(map(str, have))}, which are "
            "copies of their numbers. Mul and Add broadcast by themselves."
        )


def expect_line(model: onnx.ModelProto, line: tuple, a: np.ndarray, b: np.ndarray, rng: np.random.Generator) -> None:
    """Run the model at sizes that fit a and b; where they leave an axis free, at several, and empty."""
    dtype, _, _, rank = line
    fixed = np.broadcast_shapes(a.shape, b.shape, (1,) * rank)
    for free in (int(rng.integers(2, 6)), int(rng.integers(6, 9)), 0):
        x = numbers(tuple(free if size == 1 else size for size in fixed), dtype, rng)
        (got,) = graphs.run(model, {"x": x})
        ends = model.graph.output[0].type.tensor_type.shape.dim
        shown = [dim.dim_value if dim.HasField("dim_value") else "?" for dim in ends]
        if any(size not in ("?", came) for size, came in zip(shown, got.shape, strict=False)):
            raise WrongAnswer(
                f"The header promises the shape {shown} for 'y', and for x {describe(x)} it is {list(got.shape)}. y has x's size where "
                "a and b have 1 or no axis."
            )
        expect_sum(got, a, b, x)


def expect_sum(got: np.ndarray, a: np.ndarray, b: np.ndarray, x: np.ndarray) -> None:
    likely = {
        "The result is b * x + a: the two are swapped.": b * x + a,
        "The result is a * (x + b): the Add comes first.": a * (x + b),
        "The numbers of a are in the wrong order: a is not contiguous, and these are its bytes in memory order.": (
            np.ravel(a, order="K").reshape(a.shape) * x + b
        ),
    }
    narrow = {"int64": (np.float64, "integers beyond 2^53"), "float64": (np.float32, "them")}
    if a.dtype.name in narrow:
        kind, lost = narrow[a.dtype.name]
        p, q = (np.asarray(v.astype(kind)).astype(a.dtype) for v in (a, b))
        name = np.dtype(kind).name
        likely[f"a and b went through {name}, and {name} does not hold {lost}."] = p * x + q
    right = np.asarray(a * x + b)
    # a * x and b can nearly cancel: what is left then has the rounding error of the larger ones
    atol = 200 * float(np.finfo(right.dtype).eps) if right.dtype.kind == "f" else None
    expect_close(got, right, name=f"y for x {describe(x)}", atol=atol, likely=likely)


# --- shapes --------------------------------------------------------------------------------------------------------------------


def shape_models(rng: np.random.Generator) -> dict[str, onnx.ModelProto]:
    """Models whose tensors have sizes, names of axes, and unknown sizes and ranks."""
    n, k, h = (int(size) for size in rng.integers(3, 9, 3))
    letter = str(rng.choice(list("pqrst")))
    texts = {
        "a small network": f"""
            <ir_version: 10, opset_import: ["" : 20]>
            net (float[batch, {k}, {h}, width] image) => (float[batch, {n}] {letter}_scores)
            <float[{n}, {k}, 1, 1] weight, float[{n}] bias, float[{n}] {letter}_removed>
            {{
                {letter}_conv = Conv(image, weight, bias)
                {letter}_positive = Relu({letter}_conv)
                pooled = GlobalAveragePool({letter}_positive)
                {letter}_scores = Flatten(pooled)
            }}""",
        "other dtypes": f"""
            <ir_version: 9, opset_import: ["" : 18]>
            casts (float16[{n}, k] {letter}, int64 count) => (bool[{n}, k] large, double doubled, int64[2] sizes)
            <double[] weight_scalar, float[0] weight_none>
            {{
                tiny = Cast<to = 3>(count)
                byte = Cast<to = 2>(count)
                short = Cast<to = 5>(count)
                unsigned = Cast<to = 13>(count)
                zero = Sub({letter}, {letter})
                large = Greater({letter}, zero)
                wide = Cast<to = 11>(count)
                doubled = Add(wide, wide)
                sizes = Shape({letter})
            }}""",
        "sizes and ranks that are not known": f"""
            <ir_version: 10, opset_import: ["" : 20, "lab" : 1]>
            unknown (float[n, {k}, ?, 0] data, int64[m] target) => (int32 {letter}, float[n] last)
            {{
                called = lab.Twice(data)
                same = Neg(data)
                reshaped_{letter} = Reshape(same, target)
                mystery = lab.Mystery(data)
                again = lab.Mystery(mystery)
                {letter} = lab.Count(again)
                last = lab.Reduce(reshaped_{letter})
            }}
            <domain: "lab", opset_import: ["" : 20]>
            Twice (p) => (q)
            {{
                of_function = Neg(p)
                q = Add(of_function, p)
            }}""",
        "a body, and an output that is left out": f"""
            <ir_version: 8, opset_import: ["" : 17]>
            body (float[{n}, b, {k}] data, bool flag) => (float[1, b, {h}] result)
            <float[1, {3 * h}, {k}] weight_{letter}, float[1, {3 * h}, {h}] weight_again>
            {{
                , hidden = GRU<hidden_size = {h}>(data, weight_{letter}, weight_again)
                result = If(flag) <
                    then_branch = yes () => (float[1, b, {h}] a) {{ inner = Neg(hidden) a = Neg(inner) }},
                    else_branch = no () => (float[1, b, {h}] o) {{ o = Relu(hidden) }}
                >
            }}""",
    }
    models = {}
    for title, text in texts.items():
        model = parser.parse_model(text)
        for value in [entry for entry in model.graph.value_info if entry.name.startswith(("weight", "bias"))]:
            model.graph.value_info.remove(value)  # declared like any value in the text form: give it numbers
            dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            model.graph.initializer.append(
                numpy_helper.from_array(np.asarray(rng.normal(size=tuple(dims))).astype(dtype), value.name)
            )
        models[title] = model
    return models


def shapes_of(model: onnx.ModelProto) -> dict[str, str]:
    """What is right: dtype and shape of every tensor of the main graph that shape inference knows something about."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    right = {}
    made = _made(graph.node)
    for value in [*graph.input, *(entry for entry in graph.value_info if entry.name in made), *graph.output]:
        kind = value.type.tensor_type
        if kind.elem_type:
            right[value.name] = str(helper.tensor_dtype_to_np_dtype(kind.elem_type))
            if kind.HasField("shape"):
                sizes = [str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in kind.shape.dim]
                right[value.name] += f"[{', '.join(sizes)}]"
    for tensor in graph.initializer:
        right[tensor.name] = f"{helper.tensor_dtype_to_np_dtype(tensor.data_type)}{list(tensor.dims)}"
    return right


def collect_shapes(c: Collect) -> None:
    function = c.function("shapes")
    for title, model in shape_models(c.rng).items():
        record_model(c, title, function, model)


def judge_shapes(v: Judge) -> None:
    for title, model in shape_models(v.rng).items():
        with v.check(title):
            expect_shapes(recorded_model(v, title, "dict"), model, title)


def expect_shapes(got: dict[str, Any], model: onnx.ModelProto, title: str) -> None:
    """Compare two dicts of shapes, and say what usually causes a difference."""
    right = shapes_of(model)
    initial = {tensor.name for tensor in model.graph.initializer}
    ends = {value.name for value in [*model.graph.input, *model.graph.output]}
    for name, text in right.items():
        if name not in got:
            cause = "It is the output of a node: shape inference finds its type, and writes it into value_info."
            if name in initial:
                cause = "It is an initialiser: it holds its own dtype and dims, and has no value_info."
            elif name in ends:
                cause = "It is an input or output of the graph: those are in their own lists, not in value_info."
            raise WrongAnswer(f"{title}: {name!r} is missing, expected {text!r}. {cause}")
        came = got[name]
        if type(came) is not str:
            raise WrongAnswer(f"{title}: {name!r} has {json.dumps(came)[:100]}, expected the text {text!r}.")
        if _no_invented_names(came) != _no_invented_names(text):
            raise WrongAnswer(f"{title}: {name!r} is {text!r}, got {came[:100]!r}.{_why(text, came)}")
    for name in sorted(set(got) - set(right)):
        places = {
            " The empty name says that an output is left out.": [""],
            " Nothing is known about it.": _made(model.graph.node),
            " No node gives it: value_info still has an entry of a node that was removed.": [
                value.name for value in model.graph.value_info
            ],
            " It belongs to a body, not to the main graph.": _made(n for g in graphs.graphs(model) for n in g.node),
            " It belongs to a model-local function, not to the main graph.": _made(
                node for function in model.functions for node in function.node
            ),
        }
        cause = next((why for why, names in places.items() if name in names), "")
        raise WrongAnswer(f"{title}: {name!r} should not be there, it has {str(got[name])[:100]!r}.{cause}")


def _made(nodes: Iterable[onnx.NodeProto]) -> list[str]:
    return [name for node in nodes for name in node.output]


def _no_invented_names(text: str) -> str:
    """Shape inference calls a size that it cannot know ``unk__0``; the number is of no importance."""
    return re.sub(r"unk__\d+", "?", text).replace(" ", "")


def _why(right: str, got: str) -> str:
    dtype, _, sizes = right.partition("[")
    if got.partition("[")[0] != dtype:
        return " Write the dtype in NumPy's spelling: `helper.tensor_dtype_to_np_dtype(elem_type)`."
    if not sizes and "[" in got:
        return ' Its shape is not set, so not even the rank is known: ask `HasField("shape")`.'
    if right.endswith("[]"):
        return " Its shape is set and has no dims: rank 0 is not an unknown rank."
    if "0]" in right and "0]" not in got:
        return ' A size of 0 is a size: ask `HasField("dim_value")`, not whether the value is true.'
    if "?" in right:
        return " A size with neither a value nor a name is '?'."
    return ""


# --- repair --------------------------------------------------------------------------------------------------------------------

BROKEN = {  # what is wrong with each model, and the steps between its input and its output
    "nothing is wrong": ([], "scale add if clip"),
    "versions": (["ir", "opset"], "scale gelu leaky"),
    "the opset alone": (["opset"], "add scale"),
    "the opset, under the long name ai.onnx": (["long name", "opset"], "add scale"),
    "no import of ai.onnx": (["ai.onnx"], "leaky gelu add scale"),
    "a domain without an import": (["others"], "scale gelu add function"),
    "a domain that only a body uses": (["others"], "add foreign_if scale"),
    "order": (["order"], "scale add clip leaky sub"),
    "order, with bodies": (["order"], "add scale if gelu if"),
    "order, with bodies in bodies": (["order"], "add deep_if scale deep_if"),
    "order, with loops": (["order"], "loop add loop clip"),
    "order of many": (["order"], "scale add leaky sub " * 8),
    "a domain that only a body in a body uses": (["others"], "add foreign_deep_if scale"),
    "a misspelt node output": (["node"], "add clip scale gelu leaky"),
    "a misspelt second output": (["second"], "scale split add"),
    "a misspelt name that only a body reads": (["body"], "scale if add"),
    "a misspelt initialiser": (["initialiser"], "leaky add clip scale"),
    "a misspelt graph input": (["input"], "scale shift leaky"),
    "a misspelt graph output": (["output"], "scale clip add"),
    "all four": (["ir", "ai.onnx", "order", "node"], "scale if clip gelu add"),
    "all four, others": (["opset", "others", "order", "initialiser"], "function add foreign_if split clip loop"),
}
SOFTEN = """
    <domain: "{domain}", opset_import: ["" : {opset}]>
    Soften <factor>(p) => (q) {{
        r = LeakyRelu<alpha: float = @factor>(p)
        q = Neg(r)
    }}"""


def healthy(steps: str, rng: np.random.Generator) -> onnx.ModelProto:
    """A valid model, one step after the other, in which everything that is made is read. Names, numbers and sizes are random."""
    tag, opset, domain = int(rng.integers(10, 100)), int(rng.integers(19, 22)), f"lab{int(rng.integers(10, 100))}"
    nodes, initializers, now = [], [], "x"
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])]
    imports = {"": opset}

    def constant(shape: tuple[int, ...]) -> str:
        name = f"const{tag}_{len(initializers)}"
        initializers.append(numpy_helper.from_array(np.asarray(rng.uniform(0.5, 2, shape), np.float32), name))
        return name

    def add(op: str, reads: list[str], **attributes: Any) -> str:
        made = f"step{tag}_{len(nodes)}"
        name = f"{op}_{len(nodes)}"
        nodes.append(helper.make_node(op, reads, [made], name, **attributes))
        return made

    def body(name: str, op: str, reads: list[str], domain: str = "") -> onnx.GraphProto:
        out = helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None)
        inner = helper.make_node(op, reads, [f"{name}_in"], domain=domain)
        return helper.make_graph([inner, helper.make_node("Neg", [f"{name}_in"], [out.name])], name, [], [out])

    def deep_body(name: str, op: str, reads: list[str], domain: str = "") -> onnx.GraphProto:
        """A body whose If has the body that reads from outside."""
        inner = {
            "then_branch": body(f"{name}_a", op, reads, domain),
            "else_branch": body(f"{name}_b", "Neg", reads[:1]),
        }
        out = helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, None)
        return helper.make_graph([helper.make_node("If", ["flag"], [out.name], **inner)], name, [], [out])

    for step in steps.split():
        if step.endswith("if"):
            if not any(value.name == "flag" for value in inputs):
                inputs.append(helper.make_tensor_value_info("flag", TensorProto.BOOL, []))
            foreign = {"domain": "com.microsoft"} if step.startswith("foreign") else {}
            make = deep_body if "deep" in step else body
            imports |= {"com.microsoft": 1} if foreign else {}
            branches = {
                "then_branch": make(f"bright{len(nodes)}", "Add", [now, constant((3,))]),
                "else_branch": make(f"dark{len(nodes)}", "Gelu" if foreign else "Relu", [now], **foreign),
            }
            now = add("If", ["flag"], **branches)
        elif step == "loop":  # the body has its own inputs and initialiser, and reads one more from outside
            ends = [("k", TensorProto.INT64), ("go", TensorProto.BOOL), ("old", TensorProto.FLOAT)]
            shapes = [[], [], None]
            own = [
                helper.make_tensor_value_info(f"{name}{len(nodes)}", kind, shape)
                for (name, kind), shape in zip(ends, shapes, strict=True)
            ]
            gone, new, shift = f"gone{len(nodes)}", f"new{len(nodes)}", f"shift{len(nodes)}"
            inner = [
                helper.make_node("Identity", [own[1].name], [gone]),
                helper.make_node("Mul", [own[2].name, constant((3,))], [f"{new}_"]),
                helper.make_node("Add", [f"{new}_", shift], [new]),
            ]
            outs = [
                helper.make_tensor_value_info(gone, TensorProto.BOOL, []),
                helper.make_tensor_value_info(new, TensorProto.FLOAT, None),
            ]
            kept = numpy_helper.from_array(rng.uniform(0.5, 2, (3,)).astype(np.float32), shift)
            loop = helper.make_graph(inner, f"again{len(nodes)}", own, outs, [kept])
            trips = f"trips{tag}_{len(nodes)}"
            initializers.append(numpy_helper.from_array(np.int64(2), trips))
            now = add("Loop", [trips, "", now], body=loop)
        elif step == "split":
            first = add("Split", [now], axis=1, num_outputs=2)
            nodes[-1].output.append(f"{first}_rest")
            now = add("Concat", [first, f"{first}_rest"], axis=1)
        elif step == "clip":
            now = add("Clip", [now, "", constant(())])  # the lower bound is left out
        elif step == "leaky":
            now = add("LeakyRelu", [now], alpha=float(rng.uniform(0.1, 0.9)))
        elif step == "gelu":
            now, imports["com.microsoft"] = add("Gelu", [now], domain="com.microsoft"), 1
        elif step == "function":
            now, imports[domain] = add("Soften", [now], domain=domain, factor=float(rng.uniform(0.1, 0.9))), 1
        elif step == "sub":
            now = add("Sub", [now, nodes[0].output[0]])
        elif step == "shift":
            inputs.append(helper.make_tensor_value_info("shift", TensorProto.FLOAT, [3]))
            now = add("Sum", [now, "shift", "shift"])
        else:
            now = add({"scale": "Mul", "add": "Add"}[step], [now, constant((3,))])
    nodes[-1].output[0] = "y"

    graph = helper.make_graph(
        nodes,
        f"graph{tag}",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
        initializers,
        doc_string=f"model {tag}",
    )
    functions = []
    if domain in imports:
        text = '<ir_version: 10, opset_import: ["" : 20]> g (float x) => (float y) { y = Neg(x) }'
        functions = parser.parse_model(text + SOFTEN.format(domain=domain, opset=opset)).functions
    opsets = [helper.make_opsetid(name, version) for name, version in imports.items()]
    model = helper.make_model(
        graph, opset_imports=opsets, ir_version=int(rng.integers(9, 12)), functions=functions, producer_name="careless"
    )
    helper.set_model_props(model, {"author": f"tool {tag}"})
    return model


def break_it(model: onnx.ModelProto, faults: list[str], rng: np.random.Generator) -> onnx.ModelProto:
    """A copy of a healthy model with these faults."""
    broken = onnx.ModelProto()
    broken.CopyFrom(model)
    graph = broken.graph
    for fault in faults:
        if fault == "long name":
            broken.opset_import[0].domain = "ai.onnx"
        elif fault == "ir":
            broken.ir_version = int(rng.integers(14, 16))
        elif fault == "opset":
            broken.opset_import[0].version = int(rng.integers(27, 29))
        elif fault in ("ai.onnx", "others"):
            keep = [entry for entry in broken.opset_import if (entry.domain == "") == (fault == "others")]
            del broken.opset_import[:]
            broken.opset_import.extend(keep)
        elif fault == "order":
            _shuffle(broken, rng)
        else:
            _misspell(graph, fault, rng)
    return broken


def _shuffle(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Put the nodes in a random order in which one of them comes before a node that makes what it reads: what only its body reads, if
    there is such a node. Otherwise a sort that does not look into bodies would sometimes be right.
    """
    nodes = list(model.graph.node)
    makers = {name: place for place, node in enumerate(nodes) for name in node.output}
    readings = [(name, place) for place, node in enumerate(nodes) for name in reads(node) if name in makers]
    by_bodies = [(name, place) for name, place in readings if name not in nodes[place].input]
    pairs = [(makers[name], place) for name, place in by_bodies or readings]
    maker, reader = pairs[int(rng.integers(len(pairs)))]
    order = [int(place) for place in rng.permutation(len(nodes))]
    first, second = sorted((order.index(maker), order.index(reader)))
    order[first], order[second] = reader, maker
    del model.graph.node[:]
    model.graph.node.extend(nodes[place] for place in order)


def _misspell(graph: onnx.GraphProto, where: str, rng: np.random.Generator) -> None:
    """Rename a name at its maker only, or, for a graph input, at its reader only."""

    def typo(name: str) -> str:
        return name.replace("_", "-", 1) if "_" in name else name.upper() + "_"

    if where == "initialiser":
        read = {name for node in graph.node for name in node.input}
        tensors = [tensor for tensor in graph.initializer if tensor.name in read]
        tensor = tensors[int(rng.integers(len(tensors)))]
        tensor.name = typo(tensor.name)
    elif where == "input":
        reader = next(node for node in graph.node if "shift" in node.input)
        reader.input[1:] = [typo("shift")] * 2
    elif where == "second":
        maker = next(node for node in graph.node if len(node.output) > 1)
        maker.output[1] = typo(maker.output[1])
    else:
        by_nodes = {name for node in graph.node for name in node.input}
        by_bodies = {name for node in graph.node for name in reads(node)} - by_nodes
        pool = {"node": by_nodes, "body": by_bodies, "output": {"y"}}[where]
        makers = [node for node in graph.node if node.output[0] in pool]
        maker = makers[int(rng.integers(len(makers)))]
        maker.output[0] = typo(maker.output[0])


def broken_models(rng: np.random.Generator) -> dict[str, tuple[onnx.ModelProto, onnx.ModelProto]]:
    """By title: a healthy model, and the same one with its faults."""
    pairs = {}
    for title, (faults, steps) in BROKEN.items():
        model = healthy(steps, rng)
        pairs[title] = (model, break_it(model, faults, rng))
    return pairs


def collect_repair(c: Collect) -> None:
    function = c.function("repair")
    for title, (_, broken) in broken_models(c.rng).items():
        record_model(c, title, function, broken)


def judge_repair(v: Judge) -> None:
    for title, (model, broken) in broken_models(v.rng).items():
        with v.check(title), exporting.about(title):
            got = recorded_model(v, title)
            expect_imports(got, broken)
            expect_all_nodes(got, model)
            expect_names(got, model)
            expect_sorted(got)
            expect_nothing_else(got, model)
            graphs.expect_valid(got)
            for flag in (True, False):
                draws = {"x": v.rng.normal(size=(4, 3)), "shift": v.rng.normal(size=3), "flag": np.array(flag)}
                kinds = {"flag": bool}
                feeds = {n: draws[n].astype(kinds.get(n, np.float32)) for n in (i.name for i in model.graph.input)}
                expect_close(graphs.run(got, feeds)[0], graphs.run(model, feeds)[0], name="the repaired model's y")


def expect_imports(got: onnx.ModelProto, broken: onnx.ModelProto) -> None:
    """Versions lowered where they were too new, imports added where they were missing, and no others."""
    ir = min(broken.ir_version, MAX_IR)
    if got.ir_version != ir:
        cause = "It was too new." if broken.ir_version > MAX_IR else "Nothing was wrong with it."
        raise WrongAnswer(f"The IR version was {broken.ir_version}, expected {ir}, got {got.ir_version}. {cause}")
    right, found = ({normal_domain(e.domain): e.version for e in of.opset_import} for of in (broken, got))
    there = dict(right)
    for graph in graphs.graphs(broken):
        for node in graph.node:
            right.setdefault(node.domain, 1 if node.domain else 20)
    right[""] = min(right[""], MAX_OPSET)
    if set(found) - set(right) or len(got.opset_import) != len(found):
        raise WrongAnswer(
            f"The imports are {[(e.domain, e.version) for e in got.opset_import]}: one entry for each domain in use, and no more. "
            "'' and 'ai.onnx' are two spellings of one domain."
        )
    in_main = {node.domain for node in got.graph.node}
    for domain, version in right.items():
        shown = domain or "ai.onnx"
        if domain not in found:
            cause = " Only a node inside a body uses it." if domain not in in_main else ""
            raise WrongAnswer(f"{shown} is used and not imported.{cause}")
        if found[domain] != version:
            cause = " Nothing was wrong with it." if there.get(domain) == version else ""
            raise WrongAnswer(f"{shown} is imported with version {found[domain]}, expected {version}.{cause}")


def expect_all_nodes(got: onnx.ModelProto, model: onnx.ModelProto) -> None:
    """No node is lost. Without one, names look misspelt that are not."""
    lost = sorted({node.name for node in model.graph.node} - {node.name for node in got.graph.node})
    if lost:
        raise WrongAnswer(
            f"The model had {len(model.graph.node)} nodes, it has {len(got.graph.node)} now. Lost: {', '.join(lost)}. If your "
            'sort keeps the nodes whose inputs are all produced: an empty name "" is not an input, and a misspelt name is never produced.'
        )


def expect_names(got: onnx.ModelProto, model: onnx.ModelProto) -> None:
    """Graph inputs and outputs keep their names; every name that is read is made; nothing that is made is unread."""
    graphs.expect_inputs(got, [value.name for value in model.graph.input])
    graphs.expect_outputs(got, [value.name for value in model.graph.output])
    outputs = {value.name for value in got.graph.output}
    made = given(got) | {name for node in got.graph.node for name in node.output}
    read = outputs | {name for node in got.graph.node for name in reads(node)}
    if read - made:
        name = min(read - made)
        raise WrongAnswer(f"{name!r} is read and no node produces it. Produced and not read: {sorted(made - read)}.")
    if made - read:
        raise WrongAnswer(f"{min(made - read)!r} is produced and not read now.")


def expect_nothing_else(got: onnx.ModelProto, model: onnx.ModelProto) -> None:
    """Apart from versions, imports, the order of nodes and one name, the two are the same."""

    def nodes(of: onnx.ModelProto) -> dict[str, tuple]:
        found = {}
        for node in of.graph.node:
            rest = sorted(attribute.SerializeToString() for attribute in node.attribute)
            empty = tuple(name == "" for name in node.input)
            found[node.name] = (node.domain, node.op_type, rest, empty, len(node.output), node.doc_string)
        return found

    left, right = nodes(got), nodes(model)
    if len(got.graph.node) != len(model.graph.node):
        raise WrongAnswer(f"The model had {len(model.graph.node)} nodes, it has {len(got.graph.node)} now.")
    for name in right:
        if left.get(name) != right[name]:
            raise WrongAnswer(
                f"The node {name} has changed: its operator, domain, attributes with their bodies, and number of inputs have to "
                'stay. An empty input name "" says that an optional input is left out.'
            )

    def tensors(of: onnx.ModelProto) -> Counter:
        return Counter((tuple(t.dims), t.data_type, numpy_helper.to_array(t).tobytes()) for t in of.graph.initializer)

    if tensors(got) != tensors(model):
        raise WrongAnswer("The initialisers have changed: every tensor has to stay as it was.")
    left, right = _outside(got), _outside(model)
    changed = sorted(name for name in right.keys() | left.keys() if left.get(name) != right.get(name))
    if changed:
        raise WrongAnswer(
            f"{', '.join(changed)} of the model is not what it was. A copy with CopyFrom keeps every field."
        )


def _outside(model: onnx.ModelProto) -> dict[str, bytes]:
    """Every field except those that a repair touches, serialised."""
    fields = {}
    for prefix, message in (("", model), ("graph.", model.graph)):
        for field, value in message.ListFields():
            if prefix + field.name not in ("ir_version", "opset_import", "graph", "graph.node", "graph.initializer"):
                entries = value if field.is_repeated else [value]
                fields[prefix + field.name] = b"|".join(
                    entry.SerializeToString() if hasattr(entry, "SerializeToString") else str(entry).encode()
                    for entry in entries
                )
    return fields


# --- inventory -----------------------------------------------------------------------------------------------------------------

Row = tuple[str, str, int, str, str, Any]


def inventory_models(rng: np.random.Generator) -> dict[str, onnx.ModelProto]:
    """Models with attributes of many types, with bodies in bodies, and with functions."""
    f, i, j = round(float(rng.uniform(0.1, 2)), 2), int(rng.integers(2, 9)), int(rng.integers(2, 9))
    domain = f"lab{int(rng.integers(10, 100))}"
    texts = {
        "one graph": f"""
            <ir_version: 10, opset_import: ["ai.onnx" : 20, "{domain}" : {i}]>
            plain (float[n, 3, h, w] x, float[{j}, 3, 3, 3] k) => (float y)
            {{
                c = Conv<auto_pad = "SAME_UPPER", strides = [{i}, 1], group = 1>(x, k)
                r0 = Relu(c)
                r1 = Relu(r0)
                r = Selu<gamma = 0.0>(r1)
                t = Constant<value = float[2] {{{f}, 2.0}}>()
                o = Constant<value = int64 {{{i}}}>()
                n = InstanceNormalization<epsilon = 0.0000123456789>(r, t, t)
                l = LeakyRelu<alpha = {f}>(n)
                s = Gather<axis = 0>(l, o)
                y = {domain}.Mix<mode = "soft", weights = [{f}, {f + 1}], names = ["a", "b"], depth = {j}>(l, t)
            }}""",
        "bodies in bodies": f"""
            <ir_version: 9, opset_import: ["" : {i + 13}, "com.microsoft" : 1]>
            outer (float[n] x, bool flag, int64 trips) => (float y)
            {{
                a = If(flag) <
                    then_branch = first () => (float p) {{
                        p = If(flag) <
                            then_branch = second () => (float q) {{ q = LeakyRelu<alpha = {f}>(x) }},
                            else_branch = third () => (float r) {{ r = com.microsoft.Gelu(x) }}
                        >
                    }},
                    else_branch = fourth () => (float s) {{ s = Selu<gamma = {f}>(x) }}
                >
                y = Loop(trips, flag, a) <body = again (int64 k, bool go, float v) => (bool on, float w) {{
                    on = Identity(go)
                    w = Elu<alpha = {f}>(v)
                }}>
            }}""",
        "functions": f"""
            <ir_version: 10, opset_import: ["" : 21, "{domain}" : {j}]>
            caller (float[n] x, bool flag) => (float y)
            {{
                s = {domain}.Scale<factor = {f}>(x)
                y = {domain}.Choose<steps = [{i}, {j}]>(s, flag)
            }}
            <domain: "{domain}", opset_import: ["" : {i + 14}]>
            Scale <factor>(p) => (q)
            {{
                g = LeakyRelu<alpha: float = @factor>(p)
                q = Mul(p, g)
            }}
            <domain: "{domain}", opset_import: ["" : 22, "{domain}" : {j}]>
            Choose <steps>(p, flag) => (q)
            {{
                q = If(flag) <
                    then_branch = deep () => (float a) {{ c = Abs(p) a = {domain}.Scale<factor = 2.0>(c) }},
                    else_branch = shallow () => (float b) {{ b = {domain}.Walk<steps: ints = @steps>(p) }}
                >
            }}""",
    }
    models = {title: parser.parse_model(text) for title, text in texts.items()}
    empty = helper.make_attribute("axes", [], attr_type=AttributeProto.INTS)
    models["one graph"].graph.node[-1].attribute.append(empty)  # an empty list has a type all the same
    return models


def rows_of(model: onnx.ModelProto, *, bodies: bool = True) -> list[Row]:
    """What is right; without ``bodies`` only the nodes of the main graph and of the functions."""

    def walk(place: str, nodes: Iterable[onnx.NodeProto], versions: dict[str, int]) -> Iterator[Row]:
        for node in nodes:
            operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
            head = (place, operator, versions[node.domain])
            if not node.attribute:
                yield (*head, "", "", None)
            for attribute in node.attribute:
                yield (*head, attribute.name, AttributeProto.AttributeType.Name(attribute.type), value(attribute))
                if bodies and attribute.HasField("g"):
                    yield from walk(place, attribute.g.node, versions)

    def value(attribute: AttributeProto) -> Any:
        if attribute.ref_attr_name:
            return "@" + attribute.ref_attr_name
        kind = AttributeProto.AttributeType.Name(attribute.type)
        if kind == "TENSOR":
            return describe(numpy_helper.to_array(attribute.t))
        if kind == "GRAPH":
            return attribute.g.name
        raw = {"FLOAT": attribute.f, "INT": attribute.i, "STRING": attribute.s}
        raw |= {"FLOATS": list(attribute.floats), "INTS": list(attribute.ints), "STRINGS": list(attribute.strings)}
        found = raw[kind]
        if kind == "STRING":
            return found.decode()
        return [entry.decode() for entry in found] if kind == "STRINGS" else found

    def imports(owner: Any) -> dict[str, int]:
        return {entry.domain.replace("ai.onnx", ""): entry.version for entry in owner.opset_import}

    found = list(walk("main", model.graph.node, imports(model)))
    for function in model.functions:
        found += walk(f"{function.domain}::{function.name}", function.node, imports(function))
    return found


def collect_inventory(c: Collect) -> None:
    function = c.function("inventory")
    for title, model in inventory_models(c.rng).items():
        record_model(c, title, function, model)


def judge_inventory(v: Judge) -> None:
    for title, model in inventory_models(v.rng).items():
        with v.check(title):
            try:
                rows = recorded_model(v, title, "list")
            except LearnerError as error:
                long = "KeyError: ''" in str(error) and "ai.onnx" in {entry.domain for entry in model.opset_import}
                why = " This model imports ai.onnx under its long name; its nodes say ''. Both are that domain."
                raise LearnerError(f"{error}{why * long}") from None
            expect_rows(rows, model, title)


def expect_rows(got: list[Any], model: onnx.ModelProto, title: str) -> None:
    """Compare rows in any order, and say what usually causes a difference."""
    right = rows_of(model)
    for row in got:
        if type(row) is not list or len(row) != 6:
            raise WrongAnswer(
                f"{title}: a row is (place, operator, version, attribute, type, value), got {json.dumps(row)[:120]}."
            )
        entries = [entry for part in row for entry in (part if type(part) is list else [part])]
        for kind in (str(entry.get("strange", "dict")) for entry in entries if type(entry) is dict):
            cause = " A STRING is stored as bytes: decode it." if kind == "bytes" else ""
            raise WrongAnswer(
                f"{title}: the row {json.dumps(row[:5])} holds something of type {kind}: a value is plain Python.{cause}"
            )
    left = [tuple(row) for row in got]
    for row in right:
        match = next((other for other in left if same_row(other, row)), None)
        if match is None:
            alike = any(same_row(tuple(other), row) for other in got)
            cause = " Two nodes are alike, and each has its row." if alike else why_row(row, left, right, model)
            raise WrongAnswer(f"{title}: the row {shown(row)} is missing.{cause}")
        left.remove(match)
    if left:
        twice = any(same_row(left[0], row) for row in right)
        cause = " It is there twice." if twice else " Is something kept from an earlier call?"
        raise WrongAnswer(f"{title}: the row {shown(left[0])} should not be there.{cause}")


def same_row(left: tuple, right: tuple) -> bool:
    """Whether two rows say the same; floats to seven digits, which a float32 has."""
    return left[:5] == right[:5] and same_value(left[5], right[5])


def same_value(left: Any, right: Any) -> bool:
    if type(left) is list and type(right) is list:
        return len(left) == len(right) and all(map(same_value, left, right))
    if type(right) is float and type(left) in (int, float):
        return math.isclose(left, right, rel_tol=1e-7)
    return type(left) is type(right) and (
        left == right or (type(left) is str and left.replace(" ", "") == right.replace(" ", ""))
    )


def shown(row: tuple) -> str:
    return str(tuple(row))[:160]


WHY = {  # by what alone differs in a row, the surest first
    2: ". The version is the one that its place imports: a function has its own opset_import.",
    4: ". Write the type as the format spells it: `AttributeProto.AttributeType.Name(attribute.type)`.",
    0: ". The place is wrong.",
    1: ". The operator is written with its domain, except for those of ai.onnx.",
    3: ". The attribute is wrong.",
    5: ": the value is wrong.",
}


def why_row(row: Row, left: list[tuple], right: list[Row], model: onnx.ModelProto) -> str:
    """The usual cause of a missing row."""
    near = [other for other in left if not any(same_row(other, entry) for entry in right)]
    for index, cause in WHY.items():
        for other in near:
            if [i for i in range(6) if not same_value(other[i], row[i])] == [index]:
                return f" There is {shown(other)}{cause}{_why_value(row, other[5]) if index == 5 else ''}"
    if row[3] == "":
        return " A node without attributes has a row too."
    if row[0] != "main" and not any(other[0] == row[0] for other in left):
        return " It is in a model-local function: `model.functions`."
    if not any(same_row(row, other) for other in rows_of(model, bodies=False)):
        return " It is in a body: an attribute of type GRAPH holds nodes too, and those can hold bodies again."
    return ""


def _why_value(row: Row, got: Any) -> str:
    if row[5] in (0, "", []) and got is None:
        return " A value of 0 is a value, and so is an empty list: what counts is the attribute's type."
    if type(row[5]) is float and type(got) is float and abs(got - row[5]) < 1e-4:
        return " It was rounded. Return the float32 that is stored."
    kinds = {"TENSOR": " For a tensor, it is its dtype and its sizes.", "GRAPH": " For a graph, it is its name."}
    return kinds.get(row[4], "")
