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
        "static method beside forward."
    ),
    "Couldn't export operator": (
        "The exporter went on with what it had traced inside forward. That happens when symbolic returns nothing."
    ),
    "setType(): incompatible": (
        "setType takes a type of the graph, made from another one: x.type().with_dtype(torch.int32), "
        "x.type().with_sizes([…])."
    ),
    "produced an incorrect number of outputs": (
        "g.op makes one output unless it is told outputs=2, and symbolic returns as many values as forward."
    ),
    "incompatible function arguments": (
        "An input of g.op is a value of the graph, an attribute a Python number or text with the suffix of its type: alpha_f=…, "
        "nsample_i=…."
    ),
    "'NoneType' object is not": SIZES,
    "cannot unpack non-iterable NoneType": SIZES,
    "non-iterable torch._C.Value": "g.op makes one output unless it is told outputs=2.",
    "positional argument": (
        "symbolic is called with g and then what apply was given: values of the graph for tensors, Python's own numbers and None "
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
                f"{shown} Without oplab:: in front the name belongs to ONNX's own domain, which has no {name}."
            )
        raise WrongAnswer(
            f"{shown} These are ONNX's own operators: either symbolic composed them, or the class has no symbolic and forward was "
            "traced."
        )
    return nodes.only_node(model, f"oplab::{name}")


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
    each = " Each of the two outputs needs it: one without a type takes the other's with it."
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


def returned(v: Judge, title: str, count: int) -> list[np.ndarray]:
    """The tensors that a call returned in PyTorch."""
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
    """One call of MyAdd: its dtype and shape, and the opset that it is exported for."""

    opset: int
    dtype: str
    shape: tuple[int, ...]
    layout: str = ""

    def title(self, alpha: float, beta: float) -> str:
        layout = f", {self.layout}" if self.layout else ""
        return f"{self.dtype}{list(self.shape)}{layout}, alpha = {alpha}, beta = {beta}"


SUMS = [
    Sum(13, "float32", (3, 4)),
    Sum(17, "float64", (2, 3, 5)),
    Sum(20, "float32", (4, 5), "transposed"),
    Sum(13, "float32", (0, 3)),
    Sum(11, "float32", (7,)),
]


def coefficients(rng: np.random.Generator) -> tuple[float, float]:
    """Two odd multiples of 1/8: exact in float32, never equal, never a default, never whole."""
    alpha, beta = rng.choice(np.arange(-31, 32, 2), size=2, replace=False) / 8
    return float(alpha), float(beta)


def pair(rng: np.random.Generator, case: Sum, shape: tuple[int, ...] | None = None) -> list[np.ndarray]:
    return [rng.normal(size=shape or case.shape).astype(case.dtype) for _ in range(2)]


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

    for number, case in enumerate(SUMS):
        alpha, beta = coefficients(c.rng)
        arrays, title = [*pair(c.rng, case), pair(c.rng, case)[0]], case.title(alpha, beta)
        inputs = {name: tensor(array, case) for name, array in zip("ab", arrays[:2], strict=True)}
        c.value(f"forward of {title}", c.attempt(f"forward of {title}", function.apply, *inputs.values(), alpha, beta))
        for wanted in ("ab", "b"):
            name = f"gradients of {wanted} {title}"
            c.value(name, c.attempt(name, gradients, case, arrays, (alpha, beta), wanted))
        path = c.scratch / f"{number}.onnx"
        axes = {name: {0: f"{name}0"} for name in "ab"}

        def added(a, b, alpha=alpha, beta=beta):
            return function.apply(a, b, alpha, beta)

        c.attempt(f"export of {title}", exporting.export, added, inputs, case.opset, path, axes=axes)
        c.file(f"export of {title}", path)


def judge_my_add_function(v: Judge) -> None:
    drawn = []
    for case in SUMS:
        numbers = coefficients(v.rng)
        drawn.append((case, numbers, [*pair(v.rng, case), pair(v.rng, case)[0]]))
    with v.check("computes alpha * a + beta * b in PyTorch"):
        for case, (alpha, beta), (a, b, _) in drawn:
            (got,) = returned(v, f"forward of {case.title(alpha, beta)}", 1)
            likely = {
                "alpha and beta are swapped.": beta * a + alpha * b,
                "These are the numbers 3 and 2, not those of the call.": 3 * a + 2 * b,
                "This is alpha * (a + b).": alpha * (a + b),
            }
            expect_close(got, alpha * a + beta * b, name=case.title(alpha, beta), likely=likely)
    if not v.ok:
        return
    with v.check("has the gradients of a and b"):
        for case, numbers, arrays in drawn:
            for wanted in ("ab", "b"):
                expect_gradients(v, case, numbers, arrays[2], wanted)
    models = {}
    with v.check("one oplab::MyAdd with the attributes of each call"):
        for case, (alpha, beta), _ in drawn:
            title = f"export of {case.title(alpha, beta)}"
            with about(title):
                models[title] = model = exported(v, title, ["a", "b"], case.opset, ["out"])
                node = only_node(model, "MyAdd")
                if list(node.input) != ["a", "b"]:
                    raise WrongAnswer(
                        f"The node's inputs are {list(node.input)}, expected ['a', 'b'].{_sum_inputs(node)}"
                    )
                expect_attributes(node, {"alpha": ("FLOAT", alpha), "beta": ("FLOAT", beta)})
                nodes.expect_alone(model, "oplab::MyAdd")
    if len(models) < len(drawn) or not v.results[-1].passed:
        return
    with v.check("says the dtype and shape of its output"):
        for case, numbers, _ in drawn:
            title = f"export of {case.title(*numbers)}"
            with about(title):
                expect_declared(models[title], 0, NAMES[case.dtype], [None, *case.shape[1:]])
                graphs.expect_valid(models[title])
    if not v.results[-1].passed:
        return
    with v.check("runs in ONNX Runtime, at sizes that were not exported"):
        for case, (alpha, beta), _ in drawn:
            title = f"export of {case.title(alpha, beta)}"
            for rows in (1, 9, 0):
                a, b = pair(v.rng, case, (rows, *case.shape[1:]))
                with about(title):
                    (got,) = run(models[title], {"a": a, "b": b})
                    expect_close(got, alpha * a + beta * b, name=f"MyAdd of {describe(a)}")


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
    for name, got in zip(wanted, found, strict=True):
        if not isinstance(got, np.ndarray):
            raise WrongAnswer(
                f"{title}: backward gave no gradient for {name}; it is {right[name]} times what comes in."
            )
        other, coefficient = right["b" if name == "a" else "a"], "alpha" if name == "a" else "beta"
        likely = {
            f"The coefficient is missing: it is {coefficient} times what backward gets.": upstream,
            "alpha and beta are swapped.": other * upstream,
            f"What backward gets is not used: it is {right[name]} everywhere.": np.full_like(upstream, right[name]),
            "These are the numbers 3 and 2, not those of the call.": (3 if name == "a" else 2) * upstream,
        }
        expect_close(
            got, (right[name] * upstream).astype(case.dtype), name=f"{title}: gradient of {name}", likely=likely
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
FACTORS = [(1.5, 2.3), (2.3, 1.0), (0.5, 3.0)]


def scales_of(pair: Sequence[float]) -> np.ndarray:
    return np.float32([1, 1, *pair])


def factors(rng: np.random.Generator) -> list[tuple[float, float]]:
    """Three factors that every run has, 10 rows times 2.3 among them, and one that is new."""
    fresh = rng.integers(9, 27, size=2) / 8
    return [*FACTORS, (float(fresh[0]), float(fresh[1]))]


def images(rng: np.random.Generator, channels: int, fixed: bool) -> list[np.ndarray]:
    """Batches to run with: 10 rows, because float32(10) * float32(2.3) is 23 and other rules say 22."""
    shapes = [EXPORTED_AT] if fixed else [(1, channels, 10, 7), (3, channels, 5, 10)]
    return [rng.uniform(size=shape).astype(np.float32) for shape in shapes]


def collect_dynamic_resize_plugin(c: Collect) -> None:
    import torch

    function = the_function(c, "dynamic_resize_plugin")
    for number, x in enumerate(images(c.rng, 3, False)):
        for pair_of in factors(c.rng):
            title = f"image {number + 1}, factors {pair_of}"
            scales = torch.from_numpy(scales_of(pair_of))
            c.value(title, c.attempt(title, function.apply, torch.from_numpy(x), scales))
    norm = torch.nn.InstanceNorm2d(3)
    behind = {
        "dynamic_resize alone": lambda y: y,
        "dynamic_resize, then InstanceNorm2d": norm,
        "dynamic_resize, then the upper half": lambda y: y[:, :, : y.shape[2] // 2],
    }
    for number, case in enumerate(RESIZED):
        x = torch.from_numpy(c.rng.uniform(size=EXPORTED_AT).astype(np.float32))
        inputs = {"x": x, "scales": torch.from_numpy(scales_of((2.0, 2.0)))}
        path = c.scratch / f"{number}.onnx"

        def resized(x, scales, then=behind[case.behind]):
            return then(function.apply(x, scales))

        axes = {"x": {0: "n", 2: "h", 3: "w"}} if case.dynamic else {}
        c.attempt(case.title, exporting.export, resized, inputs, case.opset, path, axes=axes)
        c.file(case.title, path)


def judge_dynamic_resize_plugin(v: Judge) -> None:
    eager = [(number, x, factors(v.rng)) for number, x in enumerate(images(v.rng, 3, False))]
    for _ in RESIZED:
        v.rng.uniform(size=EXPORTED_AT)
    with v.check("gives torch.ops.oplab.dynamic_resize in PyTorch"):
        for number, x, pairs in eager:
            for pair_of in pairs:
                title = f"image {number + 1}, factors {pair_of}"
                (got,) = returned(v, title, 1)
                with about(f"{describe(x)}, factors {pair_of}"):
                    expect_resized(got, x, pair_of)
    if not v.ok:
        return
    models: dict[str, onnx.ModelProto] = {}
    with v.check("one oplab::DynamicResize that reads the scales"):
        for case in RESIZED[:2]:
            with about(case.title):
                models[case.title] = model = exported(v, case.title, ["x", "scales"], case.opset, ["out"])
                node = only_node(model, "DynamicResize")
                if list(node.input) != ["x", "scales"]:
                    raise WrongAnswer(
                        f"The node's inputs are {list(node.input)}, expected ['x', 'scales'].{_resize_inputs(node)}"
                    )
                expect_attributes(node, {})
                nodes.expect_alone(model, "oplab::DynamicResize")
    if len(models) < 2 or not v.results[-1].passed:
        return
    with v.check("says what is known of its output at every factor"):
        for case in RESIZED[:2]:
            with about(case.title):
                expect_open_sizes(models[case.title], case)
                graphs.expect_valid(models[case.title])
        for case in RESIZED[2:]:
            with about(case.title):
                models[case.title] = model = exported(v, case.title, ["x", "scales"], case.opset, ["out"])
                graphs.expect_used(model, ["x", "scales"])
    if not v.results[-1].passed:
        return
    with v.check("runs in ONNX Runtime, at factors and sizes that were not exported"):
        for case in RESIZED:
            for x in images(v.rng, 3, not case.dynamic):
                for pair_of in factors(v.rng):
                    with about(f"{case.title}, run on {describe(x)} with factors {pair_of}"):
                        (got,) = run(models[case.title], {"x": x, "scales": scales_of(pair_of)})
                        expect_resized(got, x, pair_of, case.behind)


SIZED = (
    "This is a resize to a size: its factor is new size / old size, so every place in the image is a little off. The factors "
    "themselves decide which place a pixel looks at."
)


def expect_resized(got: np.ndarray, x: np.ndarray, pair_of: tuple[float, float], behind: str = "") -> None:
    """The bicubic result, and what a tail makes of it."""
    right = bicubic_by_hand(x, pair_of)
    if "InstanceNorm2d" in behind:
        mean, var = right.mean((2, 3), keepdims=True), right.var((2, 3), keepdims=True)
        right = (right - mean) / np.sqrt(var + 1e-5)
    if "half" in behind:
        right = right[:, :, : right.shape[2] // 2]
    if got.shape != right.shape and got.ndim == 4:
        cause = ""
        whole = [n * float(np.float32(factor)) for n, factor in zip(x.shape[2:], pair_of, strict=True)]
        if not behind and list(got.shape[2:]) == [int(np.floor(size)) for size in whole]:
            cause = " The sizes are those of torch.nn.functional.interpolate: it multiplies in float64, ONNX and dynamic_resize in float32."
        elif "half" in behind:
            cause = " The height of the example stands in the graph as a number."
        raise WrongAnswer(f"expected the shape {list(right.shape)}, got {list(got.shape)}.{cause}")
    tolerance = 1e-3 if "InstanceNorm2d" in behind else 5e-5
    likely = {} if behind else {SIZED: bicubic_by_hand(x, pair_of, by_size=True)}
    expect_close(got, right.astype(np.float32), name="the result", rtol=0, atol=tolerance, likely=likely)


def expect_open_sizes(model: onnx.ModelProto, case: Resized) -> None:
    """Channels known, height and width open, and not said to be those of the input."""
    _, found = declared(model, 0)
    if found is not None and len(found) == 4 and isinstance(found[1], int):
        same = found[2:] == ["h", "w"] if case.dynamic else tuple(size for size in found[2:]) == tuple(EXPORTED_AT[2:])
        if same:
            raise WrongAnswer(
                f"The graph declares the output as {found}: as high and wide as the input, which is wrong at every factor but 1. "
                "x.type() is the type of x; with_sizes makes another of it."
            )
    batch = None if case.dynamic else EXPORTED_AT[0]
    expect_declared(model, 0, "FLOAT", [batch, EXPORTED_AT[1], None, None])


def _resize_inputs(node: onnx.NodeProto) -> str:
    if list(node.input) == ["scales", "x"]:
        return " They are swapped."
    if "scales" not in node.input:
        return " The factors of the example were baked into the graph: pass on the value that symbolic gets."
    return ""


def bicubic_by_hand(x: np.ndarray, pair_of: Sequence[float], by_size: bool = False) -> np.ndarray:
    """Bicubic resize in float64 as ONNX's Resize defines it: half_pixel, cubic_coeff_a = -0.75, borders repeated, sizes floored.

    Source: R. Keys, "Cubic convolution interpolation for digital image processing", IEEE TASSP 1981, with a = -0.75.

    Args:
        x: (N, C, H, W).
        pair_of: the factors of height and width.
        by_size: compute the places from new size / old size instead of the factors, as a resize to a size does.
    """
    axes = zip(x.shape[2:], np.float32(pair_of), strict=True)
    rows, columns = (_weights(size, factor, by_size) for size, factor in axes)
    return np.einsum("ih,nchw,jw->ncij", rows, x.astype(np.float64), columns)


def _weights(size: int, factor: np.float32, by_size: bool, a: float = -0.75) -> np.ndarray:
    """The matrix (new size, size) that resizes one axis."""
    new = int(np.floor(np.float32(size) * factor))
    place = (np.arange(new) + 0.5) / (new / size if by_size else float(factor)) - 0.5
    matrix = np.zeros((new, size))
    for tap in range(-1, 3):
        near = np.floor(place) + tap
        t = np.abs(place - near)
        close = ((a + 2) * t - (a + 3)) * t * t + 1
        far = ((a * t - 5 * a) * t + 8 * a) * t - 4 * a
        np.add.at(matrix, (np.arange(new), np.clip(near, 0, size - 1).astype(int)), np.where(t <= 1, close, far))
    return matrix


# --- knn_plugin ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Query:
    """One way to call knn_query.

    Attributes:
        given: the tensors behind ``offset`` that the call has; ``None`` stands for one that is passed as None.
    """

    opset: int
    nsample: int
    given: tuple[str | None, ...]

    @property
    def names(self) -> list[str]:
        return ["xyz", "offset", *(name for name in self.given if name)]

    @property
    def asks(self) -> bool:
        """Whether other points ask."""
        return self.given == ("new_xyz", "new_offset")

    @property
    def call(self) -> str:
        return f"knn({', '.join(str(entry) for entry in (self.nsample, 'xyz', 'offset', *self.given))})"

    @property
    def title(self) -> str:
        return f"opset {self.opset}, {self.call}"


QUERIES = [
    Query(13, 4, ()),
    Query(17, 3, ("new_xyz", "new_offset")),
    Query(20, 5, (None, None)),
    Query(13, 2, (None, "new_offset")),
    Query(11, 6, ("new_xyz", None)),
    Query(17, 1, ("new_xyz", "new_offset")),
]


def cloud(rng: np.random.Generator, case: Query, sizes: Sequence[int], asked: Sequence[int]) -> dict[str, np.ndarray]:
    """Points with whole coordinates: every distance is exact, so ties are ties in both runtimes, and there are some."""
    made = {}
    for points, ends, counts in (("xyz", "offset", sizes), ("new_xyz", "new_offset", asked)):
        made[points] = rng.integers(-6, 7, size=(sum(counts), 3)).astype(np.float32)
        made[ends] = np.cumsum(counts).astype(np.int64)
    return {name: made[name] for name in case.names}


EXAMPLE = ((7, 9), (3, 4))
CLOUDS = [((9, 3, 20), (2, 8, 1)), ((6, 1), (5, 2)), ((4, 0, 6), (1, 2, 3)), ((30, 8), (0, 6))]


def collect_knn_plugin(c: Collect) -> None:
    import torch

    function = the_function(c, "knn_plugin")
    for number, case in enumerate(QUERIES):

        def query(*tensors, case=case):
            rest = iter(tensors[2:])
            return function.apply(
                case.nsample, *tensors[:2], *(None if name is None else next(rest) for name in case.given)
            )

        for index, counts in enumerate(CLOUDS[:2]):
            arrays = cloud(c.rng, case, *counts)
            title = f"{case.call}, cloud {index + 1}"
            c.value(title, c.attempt(title, query, *(torch.from_numpy(value) for value in arrays.values())))
        inputs = {name: torch.from_numpy(value) for name, value in cloud(c.rng, case, *EXAMPLE).items()}
        axes = {name: {0: name[0] + str(place)} for place, name in enumerate(inputs)}
        path = c.scratch / f"{number}.onnx"
        c.attempt(case.title, exporting.export, query, inputs, case.opset, path, outputs=("idx", "dist"), axes=axes)
        c.file(case.title, path)


def judge_knn_plugin(v: Judge) -> None:
    drawn = []
    for case in QUERIES:
        drawn.append((case, [cloud(v.rng, case, *counts) for counts in CLOUDS[:2]]))
        cloud(v.rng, case, *EXAMPLE)
    with v.check("gives torch.ops.oplab.knn_query in PyTorch"):
        for case, clouds in drawn:
            for index, arrays in enumerate(clouds):
                idx, dist = returned(v, f"{case.call}, cloud {index + 1}", 2)
                with about(case.call):
                    expect_neighbours(idx, dist, case, arrays)
    if not v.ok:
        return
    models: dict[str, onnx.ModelProto] = {}
    with v.check("one oplab::KNNQuery with nsample, two outputs, and each input in its own place"):
        for case in QUERIES:
            with about(case.title):
                models[case.title] = model = exported_query(v, case)
                node = only_node(model, "KNNQuery")
                expect_query_inputs(node, case)
                expect_attributes(node, {"nsample": ("INT", case.nsample)})
                if list(node.output) != ["idx", "dist"]:
                    raise WrongAnswer(f"The node's outputs are {list(node.output)}, expected ['idx', 'dist'].")
                nodes.expect_alone(model, "oplab::KNNQuery")
    if len(models) < len(QUERIES) or not v.results[-1].passed:
        return
    with v.check("says the dtypes and shapes of both outputs"):
        for case in QUERIES:
            with about(case.title):
                expect_declared(models[case.title], 0, "INT32", [None, case.nsample])
                expect_declared(models[case.title], 1, "FLOAT", [None, case.nsample])
                graphs.expect_valid(models[case.title])
    if not v.results[-1].passed:
        return
    with v.check("finds the neighbours in ONNX Runtime, in clouds that were not exported"):
        for case in QUERIES:
            for counts in CLOUDS:
                arrays = cloud(v.rng, case, *counts)
                with about(f"{case.title}, run on {describe(arrays['xyz'])}"):
                    idx, dist = run(models[case.title], arrays)
                    expect_neighbours(idx, dist, case, arrays)


def exported_query(v: Judge, case: Query) -> onnx.ModelProto:
    """The model of a query. The exporter drops a graph input that no node reads, so the node's inputs are judged instead."""
    error = v.error(case.title)
    if error:
        raise explained(error, case.title, _CAUSES)
    model = v.model(case.title)
    graphs.expect_opset(model, case.opset)
    graphs.expect_outputs(model, ["idx", "dist"])
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
        cause = (
            " The same numbers would come out, but the kernel is told that other points ask: leave the new points out."
        )
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


def expect_neighbours(idx: np.ndarray, dist: np.ndarray, case: Query, arrays: Mapping[str, np.ndarray]) -> None:
    """The neighbours by brute force."""
    right_idx, right_dist = neighbours_by_hand(case.nsample, **(arrays if case.asks else _own(arrays)))
    likely = {"The distances are squared.": right_dist.astype(np.float64) ** 2}
    expect_close(idx, right_idx, name="idx")
    expect_close(dist, right_dist, name="dist", likely=likely)


def _own(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: arrays[name] for name in ("xyz", "offset")}


def neighbours_by_hand(
    nsample: int,
    xyz: np.ndarray,
    offset: np.ndarray,
    new_xyz: np.ndarray | None = None,
    new_offset: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The nsample nearest points of the same batch, by brute force in float64: nearest first, ties by index, -1 and 0 where there are
    fewer.

    Args:
        xyz: float (n, 3); offset: int64 (b,), the number of points in batches 0…i. new_xyz, new_offset: the points that ask.
    """
    asking, ends = (xyz, offset) if new_xyz is None or new_offset is None else (new_xyz, new_offset)
    idx = np.full((len(asking), nsample), -1, np.int32)
    dist = np.zeros((len(asking), nsample), np.float32)
    first = start = 0
    for last, stop in zip(ends, offset, strict=True):
        gap = asking[first:last, None].astype(np.float64) - xyz[None, start:stop]
        length = np.sqrt((gap**2).sum(2))
        near = np.argsort(length, axis=1, kind="stable")[:, :nsample]
        idx[first:last, : near.shape[1]] = near + start
        dist[first:last, : near.shape[1]] = np.take_along_axis(length, near, 1)
        first, start = last, stop
    return idx, dist
