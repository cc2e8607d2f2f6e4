"""Checks of chapter 08: autograd Functions, the node that each call becomes, what that node says of its outputs, and what it computes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from oplab.checks import exporting, graphs, nodes
from oplab.checks.evidence import Collect
from oplab.checks.exporting import about
from oplab.checks.judge import Judge
from oplab.checks.ort_errors import explained
from oplab.checks.references.points import expect_idx, neighbours
from oplab.checks.references.resizing import expect_resized, resized
from oplab.checks.references.sums import expect_gradient, expect_gradients_apart, mistaken_sums
from oplab.checks.torch_threads import use_one_thread
from oplab.parity.arrays import WrongAnswer, describe, expect_close

if TYPE_CHECKING:
    import onnx
    import torch


# --- shared by the three exercises ---------------------------------------------------------------------------------


def the_function(c: Collect, name: str) -> type[torch.autograd.Function]:
    """The class that the learner's function returns."""
    import torch

    from oplab import ops

    ops.load()
    made = c.function(name)()
    if isinstance(made, type) and issubclass(made, torch.autograd.Function):
        return made
    shown = f"the class {made.__name__}" if isinstance(made, type) else f"a {type(made).__name__}"
    hint = " Return the class itself; the grader calls its apply." if callable(made) else ""
    raise WrongAnswer(f"{name} returned {shown}, expected a subclass of torch.autograd.Function.{hint}")


def exported(v: Judge, title: str, names: Sequence[str], opset: int, outputs: Sequence[str]) -> onnx.ModelProto:
    """The model recorded under ``title`` with these graph inputs, or what its exception means."""
    error = v.error(title)
    if error:
        raise explained(error, title, _CAUSES)
    model = v.model(title)
    graphs.expect_opset(model, opset)
    graphs.expect_inputs(model, names)
    graphs.expect_outputs(model, outputs)
    return model


SIZES = "type().sizes() is None as soon as one axis is dynamic; varyingSizes() has a None for that axis only."


_CAUSES = {
    "Couldn't export Python operator": (
        "The exporter found no symbolic in the class, traced forward, and could not map what it found there. symbolic is a "
        "static method next to forward."
    ),
    "Couldn't export operator": (
        "The exporter went on with what it had traced inside forward. That happens when symbolic returns nothing, or the class has "
        "no symbolic."
    ),
    "setType(): incompatible": (
        "setType takes a type of the graph, made from another one: x.type().with_dtype(torch.int32), "
        "x.type().with_sizes([…])."
    ),
    "produced an incorrect number of outputs": (
        "g.op makes one output unless outputs=2 is given, and symbolic returns as many values as forward."
    ),
    "incompatible function arguments": (
        "An input of g.op is a value of the graph, an attribute a Python number or text with the suffix of its type: alpha_f=…, "
        "nsample_i=…."
    ),
    "'NoneType' object is not": SIZES,
    "cannot unpack non-iterable NoneType": SIZES,
    "non-iterable torch._C.Value": "g.op makes one output unless outputs=2 is given.",
    "positional argument": (
        "symbolic is called with g and then the arguments of apply: values of the graph for tensors, Python's own numbers and None "
        "for the rest, and nothing for an argument that was left out."
    ),
    "does not have a gradient edge": "Each output of forward has to be a tensor that was made there.",
}


def only_node(model: onnx.ModelProto, name: str) -> onnx.NodeProto:
    """The one node of type ``oplab::name``, which the exported function has to be."""
    found = graphs.ops(model)
    if not found[f"oplab::{name}"]:
        standard = sorted(kind for kind in found if "::" not in kind)
        foreign = nodes.foreign(model)
        listed = ", ".join(f"{count} × {kind}" for kind, count in sorted(found.items())) or "no nodes"
        shown = f"Expected one node oplab::{name}; the graph has {listed}."
        if foreign:
            raise WrongAnswer(
                f"{shown} {foreign[0]} is another operator: domain and name, capitals included, have to be the kernel's."
            )
        if standard == [name]:
            raise WrongAnswer(
                f"{shown} Without the prefix oplab:: the name belongs to ONNX's own domain, which has no {name}."
            )
        raise WrongAnswer(
            f"{shown} These are ONNX's own operators: either symbolic composed them, or the class has no symbolic and forward was "
            "traced."
        )
    return nodes.only_node(model, f"oplab::{name}")


def depends_on(model: onnx.ModelProto, name: str, source: str) -> bool:
    """Whether a value is a graph input or is computed from it."""
    makers = {output: node for node in model.graph.node for output in node.output}
    return name == source or name in makers and any(depends_on(model, each, source) for each in makers[name].input)


def expect_attributes(node: onnx.NodeProto, wanted: Mapping[str, tuple[str, float]]) -> None:
    """Demand exactly these attributes, each with a type (``FLOAT``, ``INT``) and a value."""
    held, types = nodes.attributes(node), nodes.attribute_types(node)
    for name, (kind, _) in wanted.items():
        if name not in held:
            has = ", ".join(sorted(held)) or "none"
            raise WrongAnswer(
                f"{node.op_type} has no attribute {name}; it has {has}. Its name in g.op carries the suffix of its type: "
                f"{name}_{'f' if kind == 'FLOAT' else 'i'}=…."
            )
        if types[name] != kind:
            suffix = {"FLOAT": "_f", "INT": "_i"}[kind]
            raise WrongAnswer(
                f"The attribute {name} of {node.op_type} has the type {types[name]}, expected {kind}: the suffix is {suffix}, "
                "for one number."
            )
    foreign = sorted(set(held) - set(wanted))
    if foreign:
        has = ", ".join(wanted) or "none"
        raise WrongAnswer(f"{node.op_type} has the attribute {foreign[0]}; the operator's attributes: {has}.")
    values = {name: float(value) for name, value in held.items()}
    right = {name: float(np.float32(value)) for name, (_, value) in wanted.items()}
    for name in wanted:
        if values[name] != right[name]:
            cause = ""
            swapped = [other for other in wanted if other != name and values[name] == right[other]]
            if swapped:
                cause = f" {name} and {swapped[0]} are swapped."
            elif values[name] == int(right[name]):
                cause = " The fraction is cut off."
            raise WrongAnswer(
                f"The attribute {name} is {values[name]:g}, expected {right[name]:g}, the number of this call.{cause}"
            )


def declared(model: onnx.ModelProto, index: int) -> tuple[str, list[int | str] | None]:
    """What the graph says of its output: the dtype's name, and each size as a number or a name (``?`` without one)."""
    import onnx

    kind = model.graph.output[index].type.tensor_type
    name = onnx.TensorProto.DataType.Name(kind.elem_type)
    if not kind.HasField("shape"):
        return name, None
    return name, [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in kind.shape.dim]


def expect_declared(model: onnx.ModelProto, index: int, dtype: str, sizes: Sequence[int | None]) -> None:
    """Demand an output of this dtype (``INT32``) and these sizes; None is a size that must stay open."""
    name = model.graph.output[index].name
    kind, found = declared(model, index)
    each = " Each of the two outputs needs it: if one has no type, the other one loses its type, too."
    if kind != dtype:
        raise WrongAnswer(
            f"The graph declares {name} as {kind}, expected {dtype}. with_dtype changes it: "
            f"setType(x.type().with_dtype(torch.{'int32' if dtype == 'INT32' else 'float32'}))."
        )
    if found is None or len(found) != len(sizes):
        raise WrongAnswer(f"The graph declares {name} with the shape {found}, expected {len(sizes)} axes.")
    for axis, (size, wanted) in enumerate(zip(found, sizes, strict=True)):
        if wanted is not None and size != wanted:
            lost = isinstance(size, str)
            raise WrongAnswer(
                f"The graph declares {name} as {found}: axis {axis} is "
                + (
                    f"unknown, and {wanted} is known at export. The shape was lost: ONNX has no rule for a foreign node, so setType has "
                    "to say it." + (each if len(model.graph.output) > 1 else "")
                    if lost
                    else f"{size}, expected {wanted}."
                )
            )
        if wanted is None and not isinstance(size, str):
            raise WrongAnswer(
                f"The graph declares {name} as {found}: axis {axis} is the number {size}, which is true for the example only. A size that "
                "is not known at export is None in with_sizes."
            )


def run(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Run a model with the course's kernels; an input that no node reads is not in the file."""
    wanted = {value.name for value in model.graph.input}
    return graphs.run(model, {name: value for name, value in feeds.items() if name in wanted}, kernels=True)


_QUERY_CAUSES = {
    "must come together": (
        "With new_xyz or new_offset alone the points of xyz are the queries: give the operator None for both."
    )
}


def returned(v: Judge, title: str, count: int) -> list[np.ndarray]:
    """The tensors that a call returned in PyTorch."""
    error = v.error(title)
    if error and "must come together" in error.message:
        raise explained(error, title, _QUERY_CAUSES)
    value = v.value(title)
    values = value if isinstance(value, list) else [value]
    if len(values) != count or not all(isinstance(entry, np.ndarray) for entry in values):
        shown = ", ".join("None" if entry is None else describe(entry) for entry in values)
        raise WrongAnswer(f"{title}: expected {count} tensor{'s' * (count != 1)}, got {shown}.")
    return values


# --- my_add_function -----------------------------------------------------------------------------------------------

NAMES = {"float32": "FLOAT", "float64": "DOUBLE"}


@dataclass(frozen=True)
class Sum:
    """One call of MyAdd: its dtype and shape, whether b is a single row, and the opset that it is exported for."""

    opset: int
    dtype: str
    shape: tuple[int, ...]
    layout: str = ""
    row: bool = False

    def title(self, alpha: float, beta: float) -> str:
        layout = f", {self.layout}" if self.layout else ", b is one row" if self.row else ""
        return f"{self.dtype}{list(self.shape)}{layout}, alpha = {alpha}, beta = {beta}"


SUMS = [
    Sum(13, "float32", (3, 4)),
    Sum(17, "float64", (2, 3, 5)),
    Sum(20, "float32", (4, 5), "transposed"),
    Sum(13, "float32", (0, 3)),
    Sum(11, "float32", (7,)),
    Sum(11, "float32", (3, 4), row=True),
    Sum(17, "float64", (2, 3, 5), row=True),
]


def coefficients(rng: np.random.Generator, count: int = 2) -> tuple[float, ...]:
    """Numbers that float32 cannot hold, never equal, never a default, never whole, with more than three decimals."""
    drawn = rng.choice(np.arange(-31, 32, 2), size=count, replace=False) / 8 + 1 / 32 + 1e-4
    return tuple(float(number) for number in drawn)


# Four calls in one model, each on the result of the one before; 3 and 2 are defaults elsewhere, 1 and 0 leave a as it is.
CHAIN_SHAPE = (3, 4)
CHAIN_ENDS = [(3.0, 2.0), (1.0, 0.0)]
CHAIN = "four calls in one model"


def chain_numbers(rng: np.random.Generator) -> list[tuple[float, float]]:
    alpha, beta, second_alpha, second_beta = coefficients(rng, 4)
    return [(alpha, beta), (second_alpha, second_beta), *CHAIN_ENDS]


def pair(rng: np.random.Generator, case: Sum, shape: tuple[int, ...] | None = None) -> list[np.ndarray]:
    shape = shape or case.shape
    return [rng.normal(size=size).astype(case.dtype) for size in (shape, shape[-1:] if case.row else shape)]


def collect_my_add_function(c: Collect) -> None:
    import torch

    use_one_thread()
    function = the_function(c, "my_add_function")

    def tensor(array: np.ndarray, case: Sum) -> torch.Tensor:
        x = torch.from_numpy(array)
        return x.t().contiguous().t() if case.layout else x

    def gradients(case: Sum, arrays: list[np.ndarray], numbers: tuple[float, float], wanted: str) -> list[Any]:
        a, b = (
            tensor(array, case).requires_grad_(name in wanted) for name, array in zip("ab", arrays[:2], strict=True)
        )
        y = function.apply(a, b, *numbers)
        asked = [x for x in (a, b) if x.requires_grad]
        return list(torch.autograd.grad(y, asked, tensor(arrays[2], case), allow_unused=True))

    def twice(arrays: list[np.ndarray], numbers: list[tuple[float, float]]) -> list[Any]:
        """Two calls and then their gradients, the first ones twice."""
        a, b, upstream = (torch.from_numpy(array.copy()).requires_grad_() for array in arrays)
        results = [function.apply(a, b, *pair) for pair in numbers]
        order = (0, 1, 0)
        return [
            entry
            for place in order
            for entry in torch.autograd.grad(results[place], (a, b), upstream, retain_graph=True, allow_unused=True)
        ]

    for case in SUMS:
        alpha, beta = coefficients(c.rng)
        arrays, title = [*pair(c.rng, case), pair(c.rng, case)[0]], case.title(alpha, beta)
        inputs = {name: tensor(array, case) for name, array in zip("ab", arrays[:2], strict=True)}
        c.value(f"forward of {title}", c.attempt(f"forward of {title}", function.apply, *inputs.values(), alpha, beta))
        for wanted in ASKED:
            name = f"gradients of {wanted} {title}"
            c.value(name, c.attempt(name, gradients, case, arrays, (alpha, beta), wanted))
        axes = {name: {0: f"{name}0"} for name in ("a" if case.row else "ab")}

        def added(a, b, alpha=alpha, beta=beta):
            return function.apply(a, b, alpha, beta)

        exporting.record(c, f"export of {title}", added, inputs, case.opset, axes=axes)
    arrays = [c.rng.normal(size=CHAIN_SHAPE) for _ in range(3)]
    numbers = chain_numbers(c.rng)
    kept = [torch.from_numpy(array.copy()) for array in arrays[:2]]
    c.attempt(KEPT, function.apply, *kept, *numbers[0])
    c.value(KEPT, kept)
    c.value(TWICE, c.attempt(TWICE, twice, arrays, numbers[:2]))

    def chained(a, b):
        for alpha, beta in numbers:
            a = function.apply(a, b, alpha, beta)
        return a

    inputs = {name: array.astype(np.float32) for name, array in zip("ab", arrays, strict=False)}
    exporting.record(c, CHAIN, chained, inputs, 13, axes={})


ASKED = ("ab", "a", "b")  # the inputs that want a gradient
KEPT, TWICE = "the inputs after a call", "two calls, then their gradients"


def judge_my_add_function(v: Judge) -> None:
    drawn = []
    for case in SUMS:
        numbers = coefficients(v.rng)
        drawn.append((case, numbers, [*pair(v.rng, case), pair(v.rng, case)[0]]))
    arrays = [v.rng.normal(size=CHAIN_SHAPE) for _ in range(3)]
    chained = chain_numbers(v.rng)
    with v.require("computes alpha * a + beta * b in PyTorch"):
        if v.error(KEPT) is None:
            for name, before, after in zip("ab", arrays, returned(v, KEPT, 2), strict=False):
                if not np.array_equal(before, after):
                    raise WrongAnswer(
                        f"{name} has other values after apply: forward makes a new tensor and leaves its inputs."
                    )
        for case, (alpha, beta), (a, b, _) in drawn:
            (got,) = returned(v, f"forward of {case.title(alpha, beta)}", 1)
            likely = mistaken_sums(a, b, (alpha, beta), double=True)
            expect_close(got, alpha * a + beta * b, name=case.title(alpha, beta), likely=likely)
    with v.check("has the gradients of a and b"):
        for case, numbers, made in drawn:
            for wanted in ASKED:
                expect_gradients(v, case, numbers, made[2], wanted)
        if v.error(TWICE):
            raise explained(v.error(TWICE), TWICE, _GRADIENT_CAUSES, _AGAIN_CAUSES)
        expect_gradients_apart(returned(v, TWICE, 6), chained[:2], arrays[2])
    models = {}
    with v.require("one oplab::MyAdd with the attributes of each call"):
        for case, (alpha, beta), _ in drawn:
            title = f"export of {case.title(alpha, beta)}"
            with about(title):
                models[title] = model = exported(v, title, ["a", "b"], case.opset, ["out"])
                node = only_node(model, "MyAdd")
                if case.row:
                    expect_row(model, node)
                elif list(node.input) != ["a", "b"]:
                    raise WrongAnswer(
                        f"The node's inputs are {list(node.input)}, expected ['a', 'b'].{_sum_inputs(node)}"
                    )
                expect_attributes(node, {"alpha": ("FLOAT", alpha), "beta": ("FLOAT", beta)})
                if not case.row:
                    nodes.expect_alone(model, "oplab::MyAdd")
        with about(CHAIN):
            chain = exported(v, CHAIN, ["a", "b"], 13, ["out"])
            expect_chain(chain, chained)
    with v.require("says the dtype and shape of its output"):
        for case, numbers, _ in drawn:
            title = f"export of {case.title(*numbers)}"
            with about(title):
                expect_declared(models[title], 0, NAMES[case.dtype], [None, *case.shape[1:]])
                graphs.expect_valid(models[title])
        with about(f"{CHAIN}, of fixed shape"):
            expect_declared(chain, 0, "FLOAT", CHAIN_SHAPE)
    with v.check("runs in ONNX Runtime, at sizes that were not exported"):
        for case, (alpha, beta), _ in drawn:
            title = f"export of {case.title(alpha, beta)}"
            for rows in (1, 9, 0):
                a, b = pair(v.rng, case, (rows, *case.shape[1:]))
                with about(title):
                    (got,) = run(models[title], {"a": a, "b": b})
                    # The attributes are FLOAT, for float64 tensors too.
                    right = float(np.float32(alpha)) * a + float(np.float32(beta)) * b
                    expect_close(got, right, name=f"MyAdd of {describe(a)}")


_GRADIENT_CAUSES = {
    "incorrect number of gradients": (
        "backward returns one entry for each argument of forward, ctx not counted: alpha and beta get None."
    ),
    "implement either the backward": "The class has no backward.",
    "can only save variables": "save_for_backward is for tensors; a number is kept as an attribute, ctx.alpha = alpha.",
    "does not require grad": "What forward returned is cut off from its inputs.",
}


def expect_gradients(v: Judge, case: Sum, numbers: tuple[float, float], upstream: np.ndarray, wanted: str) -> None:
    """alpha and beta times the incoming gradient, for each of the inputs that ask for a gradient."""
    title = f"gradients of {wanted} {case.title(*numbers)}"
    error = v.error(title)
    if error:
        raise explained(error, title, _GRADIENT_CAUSES)
    found = v.value(title)
    found = found if isinstance(found, list) else [found]
    right = dict(zip("ab", numbers, strict=True))
    sums = {"a": upstream, "b": upstream.sum(axis=tuple(range(upstream.ndim - 1))) if case.row else upstream}
    for name, got in zip(wanted, found, strict=True):
        upstream = sums[name]
        if not isinstance(got, np.ndarray):
            raise WrongAnswer(
                f"{title}: backward gave no gradient for {name}; it is {right[name]} times the incoming gradient."
            )
        expect_gradient(got, name, numbers, upstream, f"{title}: ")


_AGAIN_CAUSES = {
    "Error: ": "backward may run again for the same call (retain_graph=True): it must leave what it finds in ctx as it is."
}


def expect_chain(model: onnx.ModelProto, numbers: list[tuple[float, float]]) -> None:
    """One node for each call, each with its own numbers."""
    found = [node for node in model.graph.node if (node.domain, node.op_type) == ("oplab", "MyAdd")]
    if len(found) != len(numbers):
        raise WrongAnswer(f"expected {len(numbers)} nodes oplab::MyAdd, the graph has {len(found)}.")
    written = [tuple(nodes.attributes(node).get(name) for name in ("alpha", "beta")) for node in found]
    for place, (node, (alpha, beta)) in enumerate(zip(found, numbers, strict=True)):
        wanted = {"alpha": ("FLOAT", alpha), "beta": ("FLOAT", beta)}
        try:
            expect_attributes(node, wanted)
        except WrongAnswer as error:
            all_one = " Every node has the numbers of one call: symbolic receives those of its own call." * (
                len(set(written)) == 1
            )
            raise WrongAnswer(f"node {place + 1}: {error}{all_one}") from None
        before = "a" if not place else found[place - 1].output[0]
        if list(node.input) != [before, "b"]:
            raise WrongAnswer(f"node {place + 1} has the inputs {list(node.input)}, expected [{before!r}, 'b'].")


def expect_row(model: onnx.ModelProto, node: onnx.NodeProto) -> None:
    """A single row b is brought to the shape that a has when the file runs."""
    if len(node.input) != 2 or node.input[0] != "a" or not depends_on(model, node.input[1], "b"):
        raise WrongAnswer(f"The node's inputs are {list(node.input)}, expected a, and what b is expanded to.")
    if node.input[1] == "b":
        raise WrongAnswer("The node gets the single row b as it is. Its kernel takes two tensors of one shape.")
    if not depends_on(model, node.input[1], "a"):
        raise WrongAnswer(
            "The shape that b is expanded to does not come from a: it is that of the example, and the file runs at no other number of "
            "rows. A shape that is known when the file runs is a value of the graph."
        )


def _sum_inputs(node: onnx.NodeProto) -> str:
    if list(node.input) == ["b", "a"]:
        return " They are swapped."
    if len(node.input) > 2:
        return " alpha and beta came as inputs: an attribute is written as alpha_f=alpha."
    return ""


# --- dynamic_resize_plugin -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Resized:
    """One export of DynamicResize: what follows it, and whether the axes of ``x`` are dynamic."""

    opset: int
    behind: str
    dynamic: bool = True

    @property
    def title(self) -> str:
        return f"opset {self.opset}, {self.behind}{'' if self.dynamic else ', x of a fixed size'}"


RESIZED = [
    Resized(13, "dynamic_resize alone"),
    Resized(11, "dynamic_resize alone", dynamic=False),
    Resized(17, "dynamic_resize, then InstanceNorm2d"),
    Resized(20, "dynamic_resize, then the upper half"),
]
EXPORTED_AT = (2, 3, 8, 6)
FACTORS = [1.5, 2.3, 0.5]


def factors(rng: np.random.Generator) -> list[float]:
    """Three factors that every run has, 10 rows times 2.3 among them, and one that is new."""
    return [*FACTORS, float(2 * rng.integers(4, 13) + 1) / 8]  # odd eighths have three decimals


def images(rng: np.random.Generator, channels: int, fixed: bool) -> list[np.ndarray]:
    """Batches to run with: 10 rows, because float32(10) * float32(2.3) is 23 and other rules say 22."""
    shapes = [EXPORTED_AT] if fixed else [(1, channels, 10, 7), (3, channels, 5, 10)]
    return [rng.uniform(size=shape).astype(np.float32) for shape in shapes]


TWO = "two calls in one model"
TWO_SHAPES = {"x": (2, 3, 8, 6), "z": (1, 5, 7, 4)}


def two_images(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Two batches of other channels, and the factor of each."""
    made = {name: rng.uniform(size=shape).astype(np.float32) for name, shape in TWO_SHAPES.items()}
    return {**made, "factor": np.float32([1.5]), "factor_z": np.float32([2.5])}


def collect_dynamic_resize_plugin(c: Collect) -> None:
    import torch

    function = the_function(c, "dynamic_resize_plugin")
    for number, x in enumerate(images(c.rng, 3, False)):
        for factor in factors(c.rng):
            title = f"image {number + 1}, factor {factor}"
            c.value(title, c.attempt(title, function.apply, torch.from_numpy(x), torch.tensor([factor])))
    norm = torch.nn.InstanceNorm2d(3)
    behind = {
        "dynamic_resize alone": lambda y: y,
        "dynamic_resize, then InstanceNorm2d": norm,
        "dynamic_resize, then the upper half": lambda y: y[:, :, : y.shape[2] // 2],
    }
    for case in RESIZED:
        inputs = {"x": c.rng.uniform(size=EXPORTED_AT).astype(np.float32), "factor": torch.tensor([2.0])}

        def taller(x, factor, then=behind[case.behind]):
            return then(function.apply(x, factor))

        axes = {"x": {0: "n", 2: "h", 3: "w"}} if case.dynamic else {}
        exporting.record(c, case.title, taller, inputs, case.opset, axes=axes)

    def both(x, z, factor, factor_z):
        return function.apply(x, factor), function.apply(z, factor_z)

    exporting.record(c, TWO, both, two_images(c.rng), 13, outputs=("y", "w"), axes={})


def judge_dynamic_resize_plugin(v: Judge) -> None:
    eager = [(number, x, factors(v.rng)) for number, x in enumerate(images(v.rng, 3, False))]
    for _ in RESIZED:
        v.rng.uniform(size=EXPORTED_AT)
    pairs_of_two = two_images(v.rng)
    with v.require("resizes the height in PyTorch, as torch.ops.oplab.dynamic_resize does"):
        for number, x, chosen in eager:
            for factor in chosen:
                (got,) = returned(v, f"image {number + 1}, factor {factor}", 1)
                with about(f"{describe(x)}, factor {factor}"):
                    expect_taller(got, x, factor)
    models: dict[str, onnx.ModelProto] = {}
    with v.require("one oplab::DynamicResize with scales that come from the factor"):
        for case in RESIZED[:2]:
            with about(case.title):
                models[case.title] = model = exported(v, case.title, ["x", "factor"], case.opset, ["out"])
                node = only_node(model, "DynamicResize")
                expect_resize_inputs(model, node, "x", "factor")
                expect_attributes(node, {})
        with about(TWO):
            two = exported(v, TWO, list(pairs_of_two), 13, ["y", "w"])
            found = [node for node in two.graph.node if (node.domain, node.op_type) == ("oplab", "DynamicResize")]
            if len(found) != 2:
                raise WrongAnswer(f"expected 2 nodes oplab::DynamicResize, the graph has {len(found)}.")
            for node, names in zip(found, (("x", "factor"), ("z", "factor_z")), strict=True):
                expect_resize_inputs(two, node, *names)
    with v.require("says what is known of its output at every factor"):
        for case in RESIZED[:2]:
            with about(case.title):
                expect_open_sizes(models[case.title], case)
                graphs.expect_valid(models[case.title])
        with about(TWO):
            for index, shape in enumerate(TWO_SHAPES.values()):
                try:
                    expect_declared(two, index, "FLOAT", [*shape[:2], None, shape[3]])
                except WrongAnswer as error:
                    raise WrongAnswer(
                        f"{error} The type of a node is that of its own call: it comes from x.type()."
                    ) from None
        for case in RESIZED[2:]:
            with about(case.title):
                models[case.title] = model = exported(v, case.title, ["x", "factor"], case.opset, ["out"])
                graphs.expect_used(model, ["x", "factor"])
    with v.check("runs in ONNX Runtime, at factors and sizes that were not exported"):
        for case in RESIZED:
            for x in images(v.rng, 3, not case.dynamic):
                for factor in factors(v.rng):
                    with about(f"{case.title}, run on {describe(x)} with factor {factor}"):
                        (got,) = run(models[case.title], {"x": x, "factor": np.float32([factor])})
                        expect_taller(got, x, factor, case.behind)
        with about(TWO):
            for name, factor, got in zip("xz", (1.5, 2.5), run(two, pairs_of_two), strict=True):
                expect_taller(got, pairs_of_two[name], factor)


def expect_resize_inputs(model: onnx.ModelProto, node: onnx.NodeProto, x: str, factor: str) -> None:
    """x as it is, and scales that the graph makes of the factor."""
    names = list(node.input)
    cause = " They are swapped." if names[1:] == [x] else ""
    if len(names) == 2 and names[1] == factor:
        cause = " The kernel takes four numbers: 1, 1, the factor of the height, and 1."
    elif len(names) == 2 and names[0] == x and depends_on(model, names[1], factor):
        return
    elif names[:1] == [x]:
        cause = " The factor of the example was baked into the graph: make the scales of the value that symbolic gets."
    raise WrongAnswer(f"The node's inputs are {names}, expected {x}, and four numbers made of {factor}.{cause}")


def expect_taller(got: np.ndarray, x: np.ndarray, factor: float, behind: str = "dynamic_resize alone") -> None:
    """The bicubic result, and what a tail makes of it."""
    feeds = {"x": x, "scales": np.array([1, 1, factor, 1], np.float32)}
    if behind == "dynamic_resize alone":
        return expect_resized(got, feeds)
    right = resized(feeds)
    if "half" in behind:
        right = right[:, :, : right.shape[2] // 2]
    else:
        right = (right - right.mean((2, 3), keepdims=True)) / np.sqrt(right.var((2, 3), keepdims=True) + 1e-5)
    expect_close(got, right, name="the result", rtol=0, atol=1e-3 if "Norm" in behind else 5e-5)


def expect_open_sizes(model: onnx.ModelProto, case: Resized) -> None:
    """All sizes of x but the height, which is open and not said to be that of the input."""
    _, found = declared(model, 0)
    if found is not None and len(found) == 4 and found[2] == ("h" if case.dynamic else EXPORTED_AT[2]):
        raise WrongAnswer(
            f"The graph declares the output as {found}: as high as the input, which is wrong at every factor but 1. with_sizes takes "
            "None for a size that is not known."
        )
    batch, channels, _, width = EXPORTED_AT
    known = [None, channels, None, None] if case.dynamic else [batch, channels, None, width]
    expect_declared(model, 0, "FLOAT", known)


# --- knn_plugin ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Query:
    """One way to call knn_query.

    Attributes:
        given: the tensors after ``offset`` that the call has; ``None`` is for one that is passed as None.
        both: whether the distances are wanted, too.
    """

    opset: int
    nsample: int
    given: tuple[str | None, ...]
    both: bool = True

    @property
    def names(self) -> list[str]:
        return ["xyz", "offset", *(name for name in self.given if name)]

    @property
    def outputs(self) -> list[str]:
        return ["idx", "dist"][: 1 + self.both]

    @property
    def asks(self) -> bool:
        """Whether other points ask."""
        return self.given == ("new_xyz", "new_offset")

    @property
    def call(self) -> str:
        return f"knn({', '.join(str(entry) for entry in (self.nsample, self.both, 'xyz', 'offset', *self.given))})"

    @property
    def title(self) -> str:
        return f"opset {self.opset}, {self.call}"


QUERIES = [
    Query(13, 4, ()),
    Query(17, 3, ("new_xyz", "new_offset")),
    Query(20, 5, (None, None), both=False),
    Query(13, 2, (None, "new_offset")),
    Query(11, 6, ("new_xyz", None)),
    Query(17, 1, ("new_xyz", "new_offset"), both=False),
    Query(13, 130, ()),
]
BOTH = "two calls in one model"
BOTH_COUNTS = ((7, 9), (3, 4))


def cloud(
    rng: np.random.Generator, case: Query, sizes: Sequence[int], asked: Sequence[int], shift: float = 0
) -> dict[str, np.ndarray]:
    """Points with whole coordinates around ``shift``: every distance is exact, so ties are ties in both runtimes, and there are some."""
    made = {}
    if case.nsample > max(sizes):  # the kernels want one batch with as many points
        sizes = (case.nsample + 9, *sizes[1:])
    for points, ends, counts in (("xyz", "offset", sizes), ("new_xyz", "new_offset", asked)):
        made[points] = (shift + rng.integers(-6, 7, size=(sum(counts), 3))).astype(np.float32)
        made[ends] = np.cumsum(counts).astype(np.int64)
    return {name: made[name] for name in case.names}


EXAMPLE = ((7, 9), (3, 4))
SHIFTS = (0, 200_000)  # what the coordinates of the clouds that PyTorch is run on are around
CLOUDS = [((9, 3, 140), (2, 8, 1)), ((6, 1), (5, 2)), ((4, 0, 6), (1, 2, 3)), ((30, 8), (0, 6))]


def collect_knn_plugin(c: Collect) -> None:
    import torch

    function = the_function(c, "knn_plugin")
    for case in QUERIES:

        def query(*tensors, case=case):
            rest = iter(tensors[2:])
            return function.apply(
                case.nsample, case.both, *tensors[:2], *(None if name is None else next(rest) for name in case.given)
            )

        for index, counts in enumerate(CLOUDS[:2]):
            arrays = cloud(c.rng, case, *counts, SHIFTS[index])
            title, tensors = (
                f"{case.call}, cloud {index + 1}",
                [torch.from_numpy(value.copy()) for value in arrays.values()],
            )
            c.value(title, c.attempt(title, query, *tensors))
            c.value(f"{title}: inputs afterwards", tensors)
        inputs = cloud(c.rng, case, *EXAMPLE)
        axes = {name: {0: name[0] + str(place)} for place, name in enumerate(inputs)}
        exporting.record(c, case.title, query, inputs, case.opset, outputs=case.outputs, axes=axes)
    inputs = cloud(c.rng, QUERIES[1], *BOTH_COUNTS)

    def both(xyz, offset, new_xyz, new_offset):
        return *function.apply(3, True, xyz, offset), function.apply(2, False, xyz, offset, new_xyz, new_offset)

    exporting.record(c, BOTH, both, inputs, 13, outputs=("idx", "dist", "idx2"), axes={})


def judge_knn_plugin(v: Judge) -> None:
    drawn = []
    for case in QUERIES:
        drawn.append(
            (case, [cloud(v.rng, case, *counts, shift) for counts, shift in zip(CLOUDS, SHIFTS, strict=False)])
        )
        cloud(v.rng, case, *EXAMPLE)
    arrays_of_both = cloud(v.rng, QUERIES[1], *BOTH_COUNTS)
    with v.require("gives torch.ops.oplab.knn_query in PyTorch, or its first result"):
        for case, clouds in drawn:
            for index, arrays in enumerate(clouds):
                found = returned(v, f"{case.call}, cloud {index + 1}", len(case.outputs))
                after = returned(v, f"{case.call}, cloud {index + 1}: inputs afterwards", len(arrays))
                for name, before, now in zip(arrays, arrays.values(), after, strict=True):
                    if not np.array_equal(before, now):
                        raise WrongAnswer(
                            f"{case.call}: {name} has other values after apply: forward leaves its inputs as they are."
                        )
                with about(f"{case.call}, coordinates around {SHIFTS[index]}" if SHIFTS[index] else case.call):
                    expect_neighbours(found, case, arrays)
    models: dict[str, onnx.ModelProto] = {}
    with v.require("one oplab::KNNQuery with nsample, two outputs, and each input in its own place"):
        for case in QUERIES:
            with about(case.title):
                models[case.title] = model = exported_query(v, case)
                node = only_node(model, "KNNQuery")
                expect_query_inputs(node, case)
                expect_attributes(node, {"nsample": ("INT", case.nsample)})
                if len(node.output) != 2 or list(node.output)[: len(case.outputs)] != case.outputs:
                    raise WrongAnswer(
                        f"The node's outputs are {list(node.output)}, expected idx and dist: the kernel always makes both, in this order."
                    )
                nodes.expect_alone(model, "oplab::KNNQuery")
        with about(BOTH):
            two = expect_both(v)
    with v.require("says the dtypes and shapes of both outputs"):
        for case in QUERIES:
            with about(case.title):
                expect_declared(models[case.title], 0, "INT32", [None, case.nsample])
                if case.both:
                    expect_declared(models[case.title], 1, "FLOAT", [None, case.nsample])
                graphs.expect_valid(models[case.title])
        with about(f"{BOTH}, of fixed shapes"):
            for index, (rows, nsample) in enumerate([(16, 3), (16, 3), (7, 2)]):
                expect_rows(two, index, rows, nsample)
    with v.check("finds the neighbours in ONNX Runtime, in clouds that were not exported"):
        for case in QUERIES:
            for counts in CLOUDS:
                arrays = cloud(v.rng, case, *counts)
                with about(f"{case.title}, run on {describe(arrays['xyz'])}"):
                    expect_neighbours(run(models[case.title], arrays), case, arrays)
        with about(BOTH):
            found = run(two, arrays_of_both)
            expect_neighbours(found[:2], Query(13, 3, ()), arrays_of_both)
            expect_neighbours(found[2:], Query(13, 2, QUERIES[1].given), arrays_of_both)


def expect_both(v: Judge) -> onnx.ModelProto:
    """The model with a self-query of 3 and a query of 2: a node for each, with its own number and inputs."""
    error = v.error(BOTH)
    if error:
        raise explained(error, BOTH, _CAUSES)
    model = v.model(BOTH)
    graphs.expect_outputs(model, ["idx", "dist", "idx2"])
    found = [node for node in model.graph.node if (node.domain, node.op_type) == ("oplab", "KNNQuery")]
    if len(found) != 2:
        raise WrongAnswer(f"expected 2 nodes oplab::KNNQuery, the graph has {len(found)}.")
    for node, nsample, given in zip(found, (3, 2), ((), QUERIES[1].given), strict=True):
        number = nodes.attributes(node).get("nsample")
        if number != nsample:
            raise WrongAnswer(
                f"nsample is {number}, expected {nsample}: each node has the number of its own call, which symbolic receives."
            )
        expect_query_inputs(node, Query(13, nsample, given))
    return model


def expect_rows(model: onnx.ModelProto, index: int, rows: int, nsample: int) -> None:
    """What is declared of an output whose sizes are all known: the first may be left open, and may not be wrong."""
    kind, found = declared(model, index)
    if found is not None and len(found) == 2 and isinstance(found[0], int) and found[0] != rows:
        raise WrongAnswer(
            f"The graph declares {model.graph.output[index].name} as {found}, expected [{rows}, {nsample}]: there is a row for each query "
            "point."
        )
    if found is None or found[1:] != [nsample]:
        raise WrongAnswer(
            f"The graph declares {model.graph.output[index].name} as {found}, expected [{rows}, {nsample}]."
        )


def exported_query(v: Judge, case: Query) -> onnx.ModelProto:
    """The model of a query. The exporter drops a graph input that no node reads, so the node's inputs are judged instead."""
    error = v.error(case.title)
    if error:
        raise explained(error, case.title, _CAUSES)
    model = v.model(case.title)
    graphs.expect_opset(model, case.opset)
    graphs.expect_outputs(model, case.outputs)
    return model


def expect_query_inputs(node: onnx.NodeProto, case: Query) -> None:
    """xyz, offset and, if other points ask, new_xyz, new_offset."""
    inputs = nodes.inputs(node)
    expected = ["xyz", "offset", *(["new_xyz", "new_offset"] if case.asks else [])]
    if inputs == expected:
        return
    cause = ""
    known = {"", "xyz", "offset", "new_xyz", "new_offset"}
    foreign = next((name for name in inputs if name not in known), None)
    if foreign:
        cause = (
            f" {foreign} is made in the graph: nsample is an attribute, and a tensor is passed on as symbolic got it."
        )
    elif not case.asks and inputs == ["xyz", "offset", "xyz", "offset"]:
        cause = " The result would be the same, but the inputs state that other points are the queries: leave the new points out."
    elif not case.asks and len(inputs) == 3:
        cause = (
            f" {inputs[2]} moved into the place of new_xyz. One of the two is None here, so this is a self-query, and both are left out."
            if inputs[2] == "new_offset"
            else " new_offset is None here, so this is a self-query, and new_xyz is left out too."
        )
    elif not case.asks and len(inputs) > 2:
        cause = " In a self-query the new points are left out; a constant or another tensor in their place means something else."
    elif sorted(inputs) == sorted(expected):
        cause = " The inputs are known by their places: xyz, offset, new_xyz, new_offset."
    elif len(inputs) < len(expected):
        cause = f" {next(name for name in expected if name not in inputs)} is given in PyTorch and lost in ONNX."
    raise WrongAnswer(f"The node's inputs are {inputs}, expected {expected}.{cause}")


def expect_neighbours(found: Sequence[np.ndarray], case: Query, arrays: Mapping[str, np.ndarray]) -> None:
    """The neighbours by brute force: idx, and dist where it is there."""
    feeds = arrays if case.asks else {name: arrays[name] for name in ("xyz", "offset")}
    expect_idx(found[0], feeds, case.nsample)
    right = neighbours(feeds, case.nsample)[1]
    for dist in found[1:]:
        likely = {"The distances are squared.": right.astype(np.float64) ** 2}
        expect_close(dist, right, name="dist", likely=likely)
