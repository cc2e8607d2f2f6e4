"""Checks of chapter 03: headers that tell the truth, and resizes whose factor is a graph input, on both exporters.

Every model is run at sizes and factors that its export did not see. Among them are products that float32 and float64 round to
different whole numbers (10 * 2.3), and outputs of one pixel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper

from oplab.checks import exporting, graphs, nodes
from oplab.checks.evidence import Collect
from oplab.checks.judge import Judge
from oplab.checks.ort_errors import TRANSLATION, explained, sentence
from oplab.onnxtools.subgraphs import every_node
from oplab.parity.arrays import WrongAnswer, describe, expect_close

if TYPE_CHECKING:
    import torch

Factors = tuple[float, float]
Case = tuple[tuple[int, ...], Factors]  # a photo's shape, and the factors for its height and width


def image(shape: Sequence[int], rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(0, 1, shape).astype(np.float32)


# dynamic_batch -----------------------------------------------------------------------------------------------------------------

# For each network: the example that the learner's code gets, and the photos that judge its file.
PHOTOS = {
    "sharpen": ((2, 3, 12, 16), [(1, 3, 6, 10), (5, 3, 14, 4)]),
    "shade": ((1, 3, 8, 8), [(3, 3, 10, 18), (1, 3, 22, 2)]),
}
AXES = {0: "batch", 2: "height", 3: "width"}


def network(kind: str, rng: np.random.Generator) -> torch.nn.Module:
    """A network of a photo and a gain for each photo, in eval mode, weights from ``rng``; both need an even height and width.

    ``sharpen`` works on blocks of 2 x 2 pixels. ``shade`` computes a size with Python's math, which a trace does not follow.
    """
    import math

    import torch
    from torch.nn import functional

    class Sharpen(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = torch.nn.Conv2d(12, 12, 3, padding=1)

        def forward(self, photo: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
            blocks = self.conv(functional.pixel_unshuffle(photo, 2))
            return photo + functional.pixel_shuffle(blocks, 2) * gain[:, None, None, None]

    class Shade(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tint = torch.nn.Parameter(torch.ones(3, 1, 1))

        def forward(self, photo: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
            count, _, height, width = photo.shape
            shade = math.ceil(width / 2) / height
            return self.tint * photo + shade * gain.reshape(count, 1, 1, 1)

    model = Sharpen() if kind == "sharpen" else Shade()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.from_numpy(rng.uniform(-0.4, 0.4, tuple(parameter.shape)).astype(np.float32)))
    return model.eval()


def collect_dynamic_batch(c: Collect) -> None:
    import torch

    function = c.function("dynamic_batch")
    for kind, (shape, _) in PHOTOS.items():
        model, *given = network(kind, c.rng), image(shape, c.rng), image(shape[:1], c.rng)
        exporting.record_export(c, f"the exported {kind!r}", function, model, *map(torch.from_numpy, given))


_EXPORT_CAUSES = {
    "tracing inferred a static shape": (
        "An axis of that size has a fixed size in another input, so it cannot vary here either: name the axis of each input that has it. "
        "The batch is an axis of photo and of gain."
    ),
}


def judge_dynamic_batch(v: Judge) -> None:
    import torch

    networks = {}
    for kind, (shape, _) in PHOTOS.items():
        networks[kind] = network(kind, v.rng)
        image(shape, v.rng), image(shape[:1], v.rng)  # the example: drawn so that both halves stay in step
    for kind, (example, shapes) in PHOTOS.items():
        with v.require(f"{kind}: inputs and output"):
            title = f"the exported {kind!r}"
            error = v.error(title)
            if error:
                raise explained(error, title, _EXPORT_CAUSES)
            model = v.model(title)
            graphs.expect_inputs(model, ["photo", "gain"])
            graphs.expect_outputs(model, ["output"])
            graphs.expect_used(model, ["photo", "gain"])
        with v.require(f"{kind}: the header"):
            expect_header(model, example)
            graphs.expect_valid(model)
        for shape in shapes:
            with v.check(f"{kind}: matches PyTorch at {list(shape)}"):
                photo, gain = image(shape, v.rng), image(shape[:1], v.rng)
                with torch.no_grad():
                    expected = networks[kind](torch.from_numpy(photo), torch.from_numpy(gain)).numpy()
                try:
                    (got,) = graphs.run(model, {"photo": photo, "gain": gain})
                    expect_close(got, expected, name=f"the output for a photo of {list(shape)}")
                except WrongAnswer as error:
                    raise WrongAnswer(f"{error}{_wrong_cause(model, networks[kind], example)}") from None
                promised = header(model, "output")
                if any(type(size) is int and size != came for size, came in zip(promised, got.shape, strict=False)):
                    raise WrongAnswer(
                        f"The header declares output{promised}, and for a photo of {list(shape)} the output is {list(got.shape)}: a size "
                        "of the example is not always true."
                    )


def _wrong_cause(model: onnx.ModelProto, net: torch.nn.Module, example: tuple[int, ...]) -> str:
    """Why the values are wrong at another size than the example's."""
    import torch

    rng = np.random.default_rng(0)  # for the message alone
    photo, gain = image(example, rng), image(example[:1], rng)
    with torch.no_grad():
        expected = net(torch.from_numpy(photo), torch.from_numpy(gain)).numpy()
    try:
        expect_close(graphs.run(model, {"photo": photo, "gain": gain})[0], expected)
    except WrongAnswer:
        return f" They are wrong at the example's own size, {list(example)}, too."
    return (
        f" The header promises this size, but the graph was exported from {list(example)}, and a size from that export is in it as a "
        "constant."
    )


def expect_header(model: onnx.ModelProto, example: tuple[int, ...]) -> None:
    """Demand the names of :data:`AXES` in the header of ``photo``, the same batch in ``gain``, and three channels."""
    photo, gain = header(model, "photo"), header(model, "gain")
    if len(photo) != 4 or len(gain) != 1:
        raise WrongAnswer(f"The header declares photo{photo} and gain{gain}; expected four axes and one.")
    for axis, word in AXES.items():
        size = photo[axis]
        if isinstance(size, int):
            raise WrongAnswer(
                f"Input 'photo' has the shape {photo} in the header: axis {axis}, the {word}, is the number {size}, so only that size can "
                f"be run.{_fixed(photo, gain, axis, example)}"
            )
        if word not in size.lower():
            made_up = " That is a name which the exporter made up." if size[:1] == "s" and size[1:].isdigit() else ""
            raise WrongAnswer(
                f"Input 'photo' has the shape {photo} in the header: axis {axis} is called {size!r}, expected a name that holds the word "
                f"{word!r}.{made_up} The name tells the readers of the file what may change."
            )
    for axis in (2, 3):
        factor = re.match(r"(\d+)\s*\*", photo[axis])
        if factor and int(factor[1]) > 2:
            raise WrongAnswer(
                f"Input 'photo' has the shape {photo} in the header: {photo[axis]!r} promises multiples of {factor[1]} only, and "
                f"the file has to take every even {AXES[axis]}."
            )
    if photo[2] == photo[3]:
        raise WrongAnswer(f"Height and width are both called {photo[2]!r}: axes of one name always have the same size.")
    if photo[1] != 3:
        raise WrongAnswer(
            f"Axis 1 of 'photo' is {photo[1]!r} in the header. The weights fit three channels only, so the header has to declare 3."
        )
    if gain[0] != photo[0]:
        raise WrongAnswer(
            f"The batch is {photo[0]!r} in 'photo' and {gain[0]!r} in 'gain'. There is one gain for each photo: the two axes need the "
            "same name."
        )


def _fixed(photo: list[Any], gain: list[Any], axis: int, example: tuple[int, ...]) -> str:
    if axis == 0 and photo[2:] != list(example[2:]) and gain[0] == example[0]:
        return (
            " Was the batch dynamic in 'photo' and not in 'gain'? Then the code makes both the same, and `Dim(\"batch\")` silently becomes "
            "a number: the exporter takes torch.export's suggested fix. A name as text fails loudly instead."
        )
    return ""


def header(model: onnx.ModelProto, name: str) -> list[Any]:
    """The shape of a graph input or output as the file states it: numbers, and names for what may change."""
    (value,) = [value for value in [*model.graph.input, *model.graph.output] if value.name == name]
    return [
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in value.type.tensor_type.shape.dim
    ]


# What both resizes have in common ----------------------------------------------------------------------------------------------


def sizes(shape: Sequence[int], factors: Factors, dtype: type = np.float32) -> tuple[int, int]:
    """Height and width after the resize: the product in float32, as ONNX Runtime computes it, then rounded down."""
    height, width = (
        int(np.floor(dtype(size) * dtype(np.float32(factor)))) for size, factor in zip(shape[2:], factors, strict=True)
    )
    return height, width


def reference(
    x: np.ndarray, factors: Factors, mode: str, align_corners: bool = False, ratio: bool = False
) -> np.ndarray:
    """The resize in PyTorch.

    Args:
        mode: ``bicubic`` or ``bilinear``.
        ratio: compute the scale from the two sizes, as ``interpolate(size=…)`` does.
    """
    import torch

    operator = torch.ops.aten.upsample_bicubic2d if mode == "bicubic" else torch.ops.aten.upsample_bilinear2d
    scales = (None, None) if ratio else tuple(float(np.float32(factor)) for factor in factors)
    return operator(torch.from_numpy(x), list(sizes(x.shape, factors)), align_corners, *scales).numpy()


def expect_resized(
    got: np.ndarray, x: np.ndarray, factors: Factors, mode: str, name: str, hint: str = "", earlier: Sequence[Case] = ()
) -> None:
    """Demand the result of :func:`reference`.

    Args:
        hint: is added to the message when the values are wrong.
        earlier: what the learner's function was called with before.
    """
    expected = reference(x, factors, mode)
    wanted, found = expected.shape, got.shape
    if found != wanted:
        raise WrongAnswer(
            f"{name}: expected {describe(expected)}, got {describe(got)}."
            f"{_shape_cause(x.shape, factors, found) or _kept_cause(x.shape, found, earlier) or hint}"
        )
    likely = {}
    if mode == "bicubic":
        likely["This is the bilinear result."] = reference(x, factors, "bilinear")
    else:
        likely["This is the bicubic result; the exercise asks for the bilinear one."] = reference(x, factors, "bicubic")

    likely |= {
        "The result was clamped to the range from 0 to 1. A cubic overshoots, and PyTorch leaves that as it is.": expected.clip(
            0, 1
        ),
        "This is what the ratio of the two sizes gives. Where the floor cuts something off, that is not the factor: the operator needs the "
        "factor too.": reference(x, factors, mode, ratio=True),
        "This is what align_corners=True gives.": reference(x, factors, mode, align_corners=True),
    }
    try:
        expect_close(got, expected, name=name, likely=likely)
    except WrongAnswer as error:
        raise WrongAnswer(f"{error}{hint}") from None


def _kept_cause(shape: Sequence[int], found: tuple[int, ...], earlier: Sequence[Case]) -> str:
    for before, factors in earlier:
        if found[2:] in (sizes(before, factors), sizes(shape, factors)):
            return (
                f" This is the size of an earlier call, for {list(before)} with the factors {list(factors)}, or the size of this input "
                "with those factors: something is kept."
            )
    return ""


def _shape_cause(shape: Sequence[int], factors: Factors, found: tuple[int, ...]) -> str:
    exact = [size * float(np.float32(factor)) for size, factor in zip(shape[2:], factors, strict=True)]
    if found[2:] == sizes(shape, factors, np.float64) != sizes(shape, factors):
        axis = next(k for k in (0, 1) if found[2 + k] != sizes(shape, factors)[k])
        factor = np.float32(factors[axis])
        return (
            f" The product was computed in double precision: {shape[2 + axis]} * {factor:.8f} is {exact[axis]:.7f} there, and float32, "
            f"which ONNX Runtime uses, rounds it to {np.float32(shape[2 + axis]) * factor:g}."
        )
    if found[2:] == sizes(shape, factors[::-1]):
        return " Height and width have each other's factor."
    if any(found[2:] == tuple(int(way(size)) for size in exact) for way in (np.ceil, np.rint)):
        return f" {exact[0]:g} and {exact[1]:g} were rounded up or to the nearest whole number. They are rounded down."
    return ""


def expect_resize(model: onnx.ModelProto, names: Sequence[str]) -> None:
    """Demand a valid graph of standard operators with one Resize that reads its scales from the graph inputs."""
    graphs.expect_inputs(model, names)
    graphs.expect_used(model, names)
    graphs.expect_ops(model, {"Resize": 1})
    nodes.expect_standard(model)
    inputs = [*resize_node(model).input, "", "", ""][:4]
    if inputs[3]:
        raise WrongAnswer(
            f"Resize reads {inputs[3]!r} as its fourth input, `sizes`: whole numbers, the height and width of the output. The factor "
            "belongs to the third one, `scales`."
        )
    if not inputs[2]:
        raise WrongAnswer(
            "Resize has no third input, `scales`; the second one is `roi`. Its inputs are X, roi, scales, sizes."
        )
    graphs.expect_valid(model)


def resize_node(model: onnx.ModelProto) -> onnx.NodeProto:
    return next(node for node in every_node(model) if node.op_type == "Resize")


def attributes_hint(model: onnx.ModelProto, mode: str) -> str:
    """What is wrong with Resize's attributes, as a sentence, or an empty string."""
    found: Mapping[str, Any] = {a.name: helper.get_attribute_value(a) for a in resize_node(model).attribute}
    text = {name: value.decode() for name, value in found.items() if isinstance(value, bytes)}
    if text.get("mode", "nearest") != mode:
        return f" Resize has mode={text.get('mode', 'nearest')!r}, expected {mode!r}."
    coordinates = text.get("coordinate_transformation_mode", "half_pixel")
    if coordinates == "pytorch_half_pixel":
        return (
            " Resize has coordinate_transformation_mode='pytorch_half_pixel'. Despite its name PyTorch does not do that: it differs from "
            "half_pixel where the output is one pixel long."
        )
    if coordinates != "half_pixel":
        return (
            f" Resize has coordinate_transformation_mode={coordinates!r}; output pixel i has to be at (i + 0.5) / factor - 0.5 of the "
            "input, which is half_pixel."
        )
    for name in ("exclude_outside", "antialias"):
        if found.get(name):
            return f" Resize has {name}={found[name]}, which PyTorch's resize does not do."
    coefficient = found.get("cubic_coeff_a", -0.75)
    if mode == "cubic" and abs(coefficient + 0.75) > 1e-6:
        return f" Resize has cubic_coeff_a={coefficient:g}; PyTorch's cubic has a = -0.75."
    return ""


def run(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], exported: str) -> list[np.ndarray]:
    """Run a model that was exported from ``exported``."""
    try:
        return graphs.run(model, feeds)
    except WrongAnswer as error:
        raise WrongAnswer(f"{error} (Exported from {exported}.)") from None


def record_eager(c: Collect, function: Callable[..., Any], case: Case, factor: Any) -> None:
    """The result in PyTorch, for an image that is not contiguous, and whether the call has changed its inputs."""
    import torch

    array, title = image(case[0], c.rng), eager_title(*case)
    x, scale = torch.from_numpy(array).transpose(2, 3).contiguous().transpose(2, 3), torch.tensor(factor)
    c.value(title, c.attempt(title, function, x, scale))
    same = np.array_equal(array, x.numpy()) and np.array_equal(np.float32(factor), scale.numpy())
    c.value(f"{title}: untouched", same)


def recorded_eager(v: Judge, case: Case) -> np.ndarray:
    """What :func:`record_eager` recorded."""
    got = v.array(eager_title(*case))
    if v.value(f"{eager_title(*case)}: untouched") is False:
        raise WrongAnswer(
            f"{eager_title(*case)}: x or the factor has changed. Compute without writing into the inputs."
        )
    return got


def eager_title(shape: Sequence[int], factors: Factors) -> str:
    return f"the result in PyTorch for {list(shape)} and the factors {list(factors)}"


# tensor_scale_ts ---------------------------------------------------------------------------------------------------------------

TS_EXAMPLE: Case = ((1, 3, 6, 8), (3.0, 3.0))
TS_OPSETS = (11, 13, 17, 20)
TS_CASES: list[Case] = [
    ((2, 3, 7, 5), (3.0, 3.0)),
    ((1, 1, 9, 12), (1.5, 2.25)),
    ((1, 2, 10, 20), (2.3, 1.3)),
    ((2, 1, 11, 13), (0.6, 1.0)),
    ((1, 2, 7, 9), (0.15, 2.7)),  # one row comes out
    ((0, 3, 6, 4), (2.0, 1.5)),
    ((2, 3, 7, 5), (2.0, 1.5)),  # the shape of the first case
    ((1, 1, 40, 50), (0.05, 0.04)),
    ((1, 2, 3, 2), (1.0, 60.5)),
]


def collect_tensor_scale_ts(c: Collect) -> None:
    import torch

    function = c.function("tensor_scale_ts")
    for case in TS_CASES:
        record_eager(c, function, case, case[1])
    shape, factors = TS_EXAMPLE
    inputs = {"x": torch.full(shape, 0.5), "factors": torch.tensor(factors)}
    axes = {"x": dict(enumerate(["batch", "channels", "height", "width"])), "out": dict(enumerate("nchw"))}
    for opset in TS_OPSETS:
        exporting.record(c, f"opset {opset}", function, inputs, opset, axes=axes)


def judge_tensor_scale_ts(v: Judge) -> None:
    images = [image(shape, v.rng) for shape, _ in TS_CASES]
    with v.check("resizes in PyTorch"):
        for number, (shape, factors) in enumerate(TS_CASES):
            got = _eager_ts(v, (shape, factors))
            name = f"tensor_scale_ts of {list(shape)} with the factors {list(factors)} in PyTorch"
            expect_resized(got, images[number], factors, "bicubic", name, earlier=TS_CASES[:number])
    models = {}
    with v.require("one Resize that reads its scales from the graph input, at every opset from 11 to 20"):
        for opset in TS_OPSETS:
            error = v.error(f"opset {opset}")
            if error and "upsample_bicubic2d" in error.message:
                raise explained(error, f"opset {opset}", _SCALES)
            with exporting.about(f"opset {opset}"):
                models[f"opset {opset}"] = model = v.model(f"opset {opset}")
                expect_resize(model, ["x", "factors"])
                graphs.expect_opset(model, opset)
    with v.check("matches PyTorch at factors and sizes that were not exported"):
        for opset in TS_OPSETS:
            model = models[f"opset {opset}"]
            for number, (shape, factors) in enumerate(TS_CASES):
                feeds = {"x": images[number], "factors": np.float32(factors)}
                (got,) = run(model, feeds, "factors [3, 3]")
                name = f"opset {opset}, ONNX Runtime, {list(shape)} with the factors {list(factors)}"
                hint = _exported_cause(got, shape, factors, TS_EXAMPLE[1]) + attributes_hint(model, "cubic")
                expect_resized(got, images[number], factors, "bicubic", name, hint)


_SCALES = {
    "upsample_bicubic2d": (
        "The exporter has a mapping for that operator, and it takes the scales as constants only. Put the operator into an "
        "autograd.Function with its own symbolic."
    )
}


def _eager_ts(v: Judge, case: Case) -> np.ndarray:
    try:
        return recorded_eager(v, case)
    except WrongAnswer as error:
        refused = v.error(f"opset {TS_OPSETS[0]}")
        if refused and "input of unsupported type" in refused.message:
            raise WrongAnswer(
                f"{error} An autograd.Function is called with its method apply: NewInterpolate.apply(x, scales)."
            ) from None
        raise


def _exported_cause(got: np.ndarray, shape: Sequence[int], right: Factors, factors: Factors) -> str:
    if got.shape[2:] == sizes(shape, factors) != sizes(shape, right):
        return f" This is the size for the factor {factors[0]:g} of the export: it is in the graph as a constant."
    return ""


# tensor_scale_dynamo -----------------------------------------------------------------------------------------------------------

DYNAMO_EXAMPLE: Case = ((2, 3, 6, 8), (3.0, 3.0))
DYNAMO_CASES: list[Case] = [
    ((1, 3, 7, 5), (3.0, 3.0)),
    ((2, 3, 9, 13), (1.5, 1.5)),
    ((1, 3, 10, 20), (2.3, 2.3)),
    ((3, 3, 11, 8), (0.6, 0.6)),
    ((1, 3, 7, 9), (0.15, 0.15)),  # one pixel comes out
    ((0, 3, 6, 4), (2.0, 2.0)),
    ((1, 3, 7, 5), (2.5, 2.5)),  # the shape of the first case
    ((1, 3, 6, 4), (1.0, 1.0)),
    ((1, 3, 50, 80), (0.04, 0.04)),
]


def collect_tensor_scale_dynamo(c: Collect) -> None:
    import torch

    result = c.function("tensor_scale_dynamo")()
    if not exporting.record_pair(c, result):
        return
    function, table = result

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, factor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            y = function(x, factor)
            return y, (y * torch.arange(y.shape[3])).sum(dim=(1, 2, 3))

    for case in DYNAMO_CASES:
        record_eager(c, function, case, case[1][0])
    c.attempt("opcheck", _opcheck, function)
    shape, factors = DYNAMO_EXAMPLE
    inputs, axes = (torch.full(shape, 0.5), torch.tensor(factors[0])), ({0: "batch", 2: "height", 3: "width"}, None)
    title, path, ends = "the exported model", c.scratch / "model.onnx", {"outputs": ["out", "sums"], "table": table}
    c.attempt(title, exporting.export_dynamo, Model(), inputs, path, ["x", "factor"], axes, **ends)
    c.file(title, path)


def _opcheck(function: Callable[..., Any]) -> None:
    import torch

    exporting.check_operators(function, torch.linspace(0, 1, 5 * 7).reshape(1, 1, 5, 7), torch.tensor(1.7))
    # Where nothing changes, an operator may be tempted to return its input.
    image = torch.linspace(0, 1, 4 * 6).reshape(1, 1, 4, 6)
    exporting.check_operators(function, image, torch.tensor(1.0), fake=False)


def judge_tensor_scale_dynamo(v: Judge) -> None:
    images = [image(shape, v.rng) for shape, _ in DYNAMO_CASES]
    with v.require("returns a function and a table"):
        exporting.expect_pair(v, "resize")
    with v.check("resizes in PyTorch"):
        for number, (shape, factors) in enumerate(DYNAMO_CASES):
            error = v.error(eager_title(shape, factors))
            if error and "must not also be an input" in error.message:
                raise WrongAnswer(
                    f"resize of {list(shape)} with the factor {factors[0]} returns its input x, which is not allowed: return a copy."
                )
            got = recorded_eager(v, (shape, factors))
            name = f"resize of {list(shape)} with the factor {factors[0]} in PyTorch"
            hint = " torch.onnx.ops.symbolic gives zeros in PyTorch." if got.size and not got.any() else ""
            expect_resized(got, images[number], factors, "bilinear", name, hint, DYNAMO_CASES[:number])
    with v.check("torch.library.opcheck passes"):
        error = v.error("opcheck")
        if error:
            raise WrongAnswer(sentence(error.message, _fake_causes(error.message), _OPCHECK_CAUSES))
    with v.require("one Resize that reads its scales from the graph input"):
        error = v.error("the exported model")
        if error:
            raise WrongAnswer(f"The export fails: {sentence(error.message, TRANSLATION)}")
        model = v.model("the exported model")
        expect_resize(model, ["x", "factor"])
        graphs.expect_dynamic(model, "x", [0, 2, 3])
    with v.check("matches PyTorch at factors and sizes that were not exported, and so does what follows"):
        for number, (shape, factors) in enumerate(DYNAMO_CASES):
            feeds = {"x": images[number], "factor": np.array(factors[0], np.float32)}
            try:
                got, total = run(model, feeds, "the factor 3")
            except WrongAnswer as error:
                if "running Mul node" not in str(error):
                    raise
                raise WrongAnswer(
                    f"{error} Resize has run; the nodes after it use the sizes that the fake gives. Does the fake give height and "
                    "width an unknown size each?"
                ) from None
            name = f"ONNX Runtime, {list(shape)} with the factor {factors[0]}"
            hint = _exported_cause(got, shape, factors, DYNAMO_EXAMPLE[1]) + attributes_hint(model, "linear")
            expect_resized(got, images[number], factors, "bilinear", name, hint)
            y = reference(images[number], factors, "bilinear").astype(np.float64)
            expected = (y * np.arange(y.shape[3])).sum(axis=(1, 2, 3)).astype(np.float32)
            expect_close(total, expected, name=f"{name}: the sum of its columns, each times its number")


def _fake_causes(message: str) -> dict[str, str]:
    """The cause where the fake's batch or channels are at fault, which do not depend on the factor."""
    shapes = [found.split(", ")[:2] for found in re.findall(r"torch\.Size\(\[([^\]]*)\]\)", message)]
    if len(shapes) == 2 and shapes[0] != shapes[1]:
        return {"are not equal": "Batch and channels of the fake are not those of x: they are x.shape[:2]."}
    return {}


_OPCHECK_CAUSES = {
    "alias": "A custom operator must not return its input: where nothing changes, return a copy.",
    "Dtypes": "The fake promises another dtype than the operator gives: the dtype is that of x.",
    "no fake impl": "register_fake gives the operator one.",
    "are not equal": (
        "The fake promises another shape than the operator gives. Height and width depend on the value of the factor, which a fake "
        "cannot read: each is a new_dynamic_size()."
    ),
}
