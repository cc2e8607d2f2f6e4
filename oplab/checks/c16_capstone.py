"""Checks of chapter 16: two networks over both exporters, and the two kernels that they need.

A model and a kernel meet in two lines, the operators ``lab::DynamicResize`` and ``lab::KNN``. The kernels are run here on models of
one node. The models are run on this judge's own definitions of the two operators, which are attached as model-local functions: so
no learner's code answers for another, and any model fits any kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from oplab.checks import graphs
from oplab.checks.errors import innermost
from oplab.checks.evidence import Collect
from oplab.checks.exporting import about
from oplab.checks.judge import Judge
from oplab.checks.kernels import expect_refusal, one_node, outputs, record, session, without_shapes
from oplab.checks.ort_errors import INPUT_TYPE, OUTPUT_TYPE, UNREGISTERED
from oplab.onnxtools.subgraphs import every_node
from oplab.parity.arrays import WrongAnswer, describe, expect_close

if TYPE_CHECKING:
    import onnx
    import torch

FILES = ("torchscript.onnx", "dynamo.onnx")
Feeds = dict[str, np.ndarray]


# --- what both projects share ------------------------------------------------------------------------------------------


def collect_delivery(c: Collect, name: str, net: torch.nn.Module) -> Any:
    """Call the learner's function on a network and a folder, and record the two files; returns the module, or None."""
    from oplab import ops
    from oplab.onnxtools.quiet import quiet_exports

    ops.load()
    quiet_exports()
    folder = c.scratch / "delivery"
    folder.mkdir()
    module = c.attempt("your function", with_cause(c.function(name)), net, folder)
    c.value("returned", type(module).__name__ if module is not None else "")
    for file in FILES:
        c.file(file, folder / file)
    c.value("callable", callable(module))
    c.value("training", getattr(module, "training", False) is True)
    return module if callable(module) else None


def with_cause(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function; what an exporter raises out of it says in its first line what caused it."""

    def call(*args: Any) -> Any:
        from torch.onnx import OnnxExporterError

        try:
            return function(*args)
        except OnnxExporterError as error:
            cause = innermost(error)
            if cause is not error:
                first = str(error).partition("\x1b")[0].strip().partition("\n")[0]
                error.args = (f"{first} {type(cause).__name__}: {cause}",)
            raise

    return call


def collect_call(c: Collect, title: str, module: Any, feeds: Feeds) -> None:
    """What the returned module gives for these inputs, as evidence under ``title``."""
    import torch

    def call() -> Any:
        with torch.no_grad():
            return module(*(torch.from_numpy(value) for value in feeds.values()))

    c.value(title, c.attempt(title, call))


def expect_module(v: Judge) -> None:
    """Demand that the function ended, and returned something that can be called."""
    error = v.error("your function")
    if error is not None:
        v.value("your function")  # raises, with the learner's line
    if not v.value("returned"):
        raise WrongAnswer("Expected the module that the two files were made from, got None: return it at the end.")
    if not v.value("callable"):
        raise WrongAnswer(f"Expected the module that the two files were made from, got a {v.value('returned')}.")
    if v.value("training"):
        raise WrongAnswer(
            "The returned module is in train mode: Dropout throws features away, and BatchNorm uses the numbers of the batch at hand. "
            "Call eval() before you export and before you compare."
        )


def expect_result(v: Judge, title: str, expected: np.ndarray, name: str, likely: Mapping[str, np.ndarray]) -> None:
    """Demand that the array under ``title`` is what the network gives."""
    expect_close(v.array(title), expected, name=name, rtol=1e-3, atol=1e-3, likely=dict(likely))


def expect_interface(
    model: onnx.ModelProto, inputs: Sequence[str], output: str, dynamic: Mapping[str, Sequence[int]]
) -> None:
    graphs.expect_inputs(model, inputs)
    graphs.expect_outputs(model, [output])
    graphs.expect_used(model, inputs)
    for name, axes in dynamic.items():
        graphs.expect_dynamic(model, name, axes)


def expect_node(model: onnx.ModelProto, op: str, instead: Sequence[str]) -> onnx.NodeProto:
    """Demand one node ``lab::op``, version 1 of its domain, no other domain, and none of the operators ``instead``."""
    found = graphs.ops(model)
    wanted = f"lab::{op}"
    if not found[wanted]:
        strange = [name for name in found if name.endswith(op)]
        if strange:
            domain = strange[0].removesuffix(op).removesuffix("::")
            raise WrongAnswer(
                f"Expected a node {wanted}, the graph has {strange[0]}: its domain is {domain or 'ai.onnx'!r}, not 'lab'."
            )
        other = next((name for name in [*instead, *found] if found[name] and (name in instead or "::" in name)), None)
        hint = (
            f" It has {other} in its place."
            if other
            else " What it computes stands there as ONNX's own operators, or as a constant."
        )
        raise WrongAnswer(f"Expected a node {wanted}, the graph has none.{hint}")
    graphs.expect_ops(model, {wanted: 1})
    for name in instead:
        if found[name]:
            raise WrongAnswer(
                f"The graph has {found[name]} × {name} beside {wanted}: your operator alone does this work."
            )
    version = graphs.opset(model, "lab")
    if version != 1:
        raise WrongAnswer(
            f"Expected version 1 of the domain lab, the model imports {version or 'none'}: your kernel is in version 1."
        )
    strange = sorted({node.domain for node in every_node(model)} - {"", "ai.onnx", "lab"})
    if strange:
        raise WrongAnswer(
            f"The graph has nodes of the domain {strange[0]!r}: a runtime that has your kernel alone cannot run them."
        )
    if found["Dropout"]:
        raise WrongAnswer(
            f"The graph has {found['Dropout']} × Dropout: it was exported in train mode. Call eval() before the export."
        )
    for node in every_node(model):
        if node.op_type == "BatchNormalization" and any(a.name == "training_mode" and a.i for a in node.attribute):
            raise WrongAnswer(
                "BatchNormalization has training_mode = 1: it was exported in train mode. Call eval() before the export."
            )
    return next(node for node in every_node(model) if node.domain == "lab")


def expect_exporter(file: str, model: onnx.ModelProto) -> None:
    """Demand that a file comes from the exporter that it is named after: the dynamo path alone writes metadata to its nodes."""
    from_dynamo = any(node.metadata_props for node in every_node(model))
    if from_dynamo != (file == "dynamo.onnx"):
        is_from = "dynamo" if from_dynamo else "TorchScript"
        raise WrongAnswer(
            f"{file} was written over the {is_from} path. Export once with dynamo=True and once with dynamo=False."
        )


def runnable(
    model: onnx.ModelProto, op: str, body: Sequence[onnx.NodeProto], inputs: Sequence[str], output: str
) -> Any:
    """A session on the model, with ``lab::op`` defined by these nodes."""
    import onnx
    from onnx import helper

    made = onnx.ModelProto.FromString(model.SerializeToString())
    for function in list(made.functions):
        if (function.domain, function.name) == ("lab", op):
            made.functions.remove(function)
    imports = [helper.make_opsetid("", graphs.opset(made) or 17), helper.make_opsetid("oplab", 1)]
    attributes = sorted({a.ref_attr_name for node in body for a in node.attribute if a.ref_attr_name})
    made.functions.append(helper.make_function("lab", op, list(inputs), [output], list(body), imports, attributes))
    return graphs.load(made, kernels=True, causes=_LOADING)


_LOADING = {
    "tensor(int32) … tensor(int64)": "lab::KNN gives int64: the type that your mapping promises is int32.",
    "tensor(int64) … tensor(int32)": "lab::KNN gives int64: the type that your mapping promises is int32.",
    "tensor(float) … tensor(int64)": "lab::KNN gives int64: your mapping promises float, the type of xyz. Set the dtype of idx.",
    "tensor(int64) … tensor(float)": "lab::KNN gives int64: your mapping promises float, the type of xyz. Set the dtype of idx.",
}
_EXAMPLE = "A size of the example stands in the graph as a number."
_RUNNING = {
    "Got invalid dimensions": "The input's shape was written down at export: name its dynamic axes.",
    "INVALID_ARGUMENT … Expected": "The input's shape was written down at export: name its dynamic axes.",
    **dict.fromkeys(("Reshape", "Expand", "roadcast", "axis"), _EXAMPLE),
}


@contextmanager
def of(v: Judge, file: str, what: str) -> Iterator[None]:
    """One named check of one file."""
    with v.check(f"{file}: {what}"), about(file):
        yield


# --- super_resolution ----------------------------------------------------------------------------------------------------


def photo_cases(rng: np.random.Generator) -> dict[str, Feeds]:
    """Photos and factors. 10 rows times 2.3 are 23 in float32 and 22 in double, so one case has them."""
    sizes = {
        "2": (1, 12, 10),
        "2.3": (2, 10, 8),
        "3": (3, int(rng.integers(5, 9)), int(rng.integers(9, 20))),
        "0.5": (1, 9, 14),
    }
    sizes[f"{rng.integers(110, 390) / 100 + 0.003:.3f}"] = (1, int(rng.integers(11, 30)), int(rng.integers(31, 50)))
    return {
        f"{n} photo{'s' * (n > 1)} of {h} x {w}, factor {factor}": {
            "photo": rng.random((n, 3, h, w), dtype=np.float32),
            "factor": np.array(factor, np.float32),
        }
        for factor, (n, h, w) in sizes.items()
    }


def collect_super_resolution(c: Collect) -> None:
    from oplab.nets.srcnn import load_srcnn

    module = collect_delivery(c, "super_resolution", load_srcnn())
    if module is not None:
        for title, feeds in photo_cases(c.rng).items():
            collect_call(c, title, module, feeds)


def judge_super_resolution(v: Judge) -> None:
    cases = photo_cases(v.rng)
    expected = {title: enlarged(feeds) for title, feeds in cases.items()}
    with v.check("your function returns a module"):
        expect_module(v)
    if not v.ok:
        return
    with v.check("the module enlarges and sharpens, in PyTorch"):
        for title in cases:
            with about(title):
                expect_result(v, title, *expected[title])
    for file in FILES:
        models = {}
        with of(v, file, "one file, with both inputs and the output"):
            models[file] = model = v.model(file)
            expect_interface(model, ["photo", "factor"], "y", {"photo": [0, 2, 3]})
            expect_open_sizes(model)
        if file not in models:
            continue
        with of(v, file, "one node lab::DynamicResize, version 1"):
            expect_node(model, "DynamicResize", ["Resize", "Upsample"])
            expect_exporter(file, model)
        if not v.ok:
            continue
        with of(v, file, "other sizes and factors"):
            from onnx import helper

            body = [helper.make_node("DynamicResize", ["x", "scales"], ["y"], domain="oplab")]
            session = runnable(model, "DynamicResize", body, ["x", "scales"], "y")
            for title, feeds in cases.items():
                with about(f"{file}, {title}"):
                    values, name, likely = expected[title]
                    expect_close(
                        graphs.run(session, feeds, causes=_RUNNING)[0],
                        values,
                        name=name,
                        rtol=1e-3,
                        atol=1e-3,
                        likely=dict(likely),
                    )


def enlarged(feeds: Feeds) -> tuple[np.ndarray, str, dict[str, np.ndarray]]:
    """What the network gives, what to call it, and known wrong answers."""
    import torch

    from oplab import ops
    from oplab.nets.srcnn import load_srcnn

    ops.load()
    net, photo, factor = load_srcnn(), torch.from_numpy(feeds["photo"]), float(feeds["factor"])

    def through(scales: Sequence[float], sharpen: bool = True) -> np.ndarray:
        large = torch.ops.oplab.dynamic_resize(photo, torch.tensor([1.0, 1.0, *scales]))
        return (net(large) if sharpen else large).numpy()

    with torch.no_grad():
        right = through([factor, factor])
        likely = {
            "The photo is enlarged, and SRCNN has not sharpened it.": through([factor, factor], sharpen=False),
            "The width keeps its size: the factor counts for both.": through([factor, 1.0]),
            "The height keeps its size: the factor counts for both.": through([1.0, factor]),
            "It is enlarged 2 times, whatever the factor is: the factor of the export is baked in.": through(
                [2.0, 2.0]
            ),
            "It is enlarged 3 times, whatever the factor is: the factor of the export is baked in.": through(
                [3.0, 3.0]
            ),
        }
        side = [int(np.floor(size * factor)) for size in photo.shape[2:]]
        in_double = torch.nn.functional.interpolate(photo, scale_factor=factor, mode="bicubic")
        likely["A side becomes floor(size * factor), multiplied in float32: 10 rows times 2.3 are 23, not 22."] = (
            net(in_double).numpy() if min(side) else right
        )
        likely["A pixel lies where the factor says, not the quotient of the two sizes."] = net(
            torch.nn.functional.interpolate(photo, size=right.shape[2:], mode="bicubic")
        ).numpy()
    return right, "y", {cause: wrong for cause, wrong in likely.items() if not _equal(wrong, right)}


def _equal(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=1e-3, atol=1e-3))


def expect_open_sizes(model: onnx.ModelProto) -> None:
    """Demand that the type of y does not promise the height and width of the export."""
    dims = model.graph.output[0].type.tensor_type.shape.dim
    fixed = [dim.dim_value for dim in list(dims)[2:] if dim.HasField("dim_value")]
    if fixed:
        raise WrongAnswer(
            f"The type of y promises a side of {fixed[0]} pixels. That was true at the factor of the export; the sides are data."
        )
    given = {dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim}
    same = [dim.dim_param for dim in list(dims)[2:] if dim.dim_param and dim.dim_param in given]
    if same:
        raise WrongAnswer(
            f"The type of y promises a side of {same[0]!r}, that of photo. It is another one: your fake or your setType gives the "
            "result the sizes of x, and they are not known before the factor is."
        )


# --- point_cloud -----------------------------------------------------------------------------------------------------------


def cloud_cases(rng: np.random.Generator) -> dict[str, Feeds]:
    """Clouds on a lattice, so that distances are exact and many of them are equal."""
    from oplab.nets.point_clouds import clouds

    cases = {}
    for sizes in (
        [25, 35],
        [int(n) for n in rng.integers(70, 200, size=3)],
        [5, 90, 3, 1],
        [int(rng.integers(200, 300))],
        [40] * 9,
    ):
        xyz, offset, _ = clouds(sizes, rng)
        title = f"clouds of {', '.join(map(str, sizes))} points" if len(sizes) < 6 else f"{len(sizes)} clouds"
        cases[title] = {"xyz": np.round(xyz * 16).astype(np.float32) / 16, "offset": offset}
    return cases


def labelled(rng: np.random.Generator) -> tuple[Feeds, np.ndarray]:
    """120 clouds of 100 to 150 points, and what they show."""
    from oplab.nets.point_clouds import clouds

    xyz, offset, label = clouds([int(n) for n in rng.integers(100, 151, size=120)], rng)
    return {"xyz": xyz, "offset": offset}, label


ROWS = (12, 5, 20)  # neighbours asked for; the network asks for 12


def collect_point_cloud(c: Collect) -> None:
    from oplab.nets.edge_net import load_edge_net

    net = load_edge_net().train()  # as the training left it
    module = collect_delivery(c, "point_cloud", net)
    if module is None:
        return
    import torch

    for title, feeds in cloud_cases(c.rng).items():
        collect_call(c, title, module, feeds)
        xyz, offset = (torch.from_numpy(value) for value in feeds.values())
        for k in ROWS:
            c.value(f"{title}, k = {k}", c.attempt(f"{title}, k = {k}", lambda k=k: module.knn(xyz, offset, k)))  # noqa: B023


def judge_point_cloud(v: Judge) -> None:
    cases = cloud_cases(v.rng)
    feeds, label = labelled(v.rng)
    with v.check("your function returns a network"):
        expect_module(v)
    if not v.ok:
        return
    with v.check("knn finds the neighbours, in PyTorch"):
        for title, case in cases.items():
            for k in ROWS:
                with about(f"{title}, k = {k}"):
                    expect_neighbours(v.array(f"{title}, k = {k}"), case, k)
    with v.check("the network classifies, in PyTorch"):
        for title, case in cases.items():
            with about(title):
                expect_result(v, title, logits(case), "logits", {})
    for file in FILES:
        models = {}
        with of(v, file, "one file, with both inputs and the output"):
            models[file] = model = v.model(file)
            expect_interface(model, ["xyz", "offset"], "logits", {"xyz": [0], "offset": [0]})
            expect_opset(model)
        if file not in models:
            continue
        with of(v, file, "one node lab::KNN, version 1"):
            expect_k(expect_node(model, "KNN", ["TopK"]))
            expect_exporter(file, model)
        if not v.ok:
            continue
        with of(v, file, "other numbers of points and clouds"):
            session = runnable(model, "KNN", knn_body(), ["xyz", "offset"], "idx")
            for title, case in cases.items():
                with about(f"{file}, {title}"):
                    got = graphs.run(session, case, causes=_RUNNING)[0]
                    expect_close(got, logits(case), name="logits", rtol=1e-3, atol=1e-3, likely=baked(case))
        if not v.ok:
            continue
        with of(v, file, "120 clouds are called by their names"):
            expect_names(graphs.run(session, feeds, causes=_RUNNING)[0], logits(feeds), label)


def expect_opset(model: onnx.ModelProto) -> None:
    """Demand an opset that has what the nodes ask for: ONNX Runtime and ``onnx.checker`` do not look."""
    if graphs.opset(model) >= 18:
        return
    for node in every_node(model):
        if node.op_type == "ScatterElements" and any(a.name == "reduction" and a.s == b"max" for a in node.attribute):
            raise WrongAnswer(
                f"The file is of opset {graphs.opset(model)} and has a ScatterElements with reduction = max. ONNX has that since "
                "opset 18, and another runtime may refuse it: export with opset_version=18."
            )


def expect_k(node: onnx.NodeProto) -> None:
    from onnx import AttributeProto

    found = {a.name: a for a in node.attribute}
    if set(found) != {"k"}:
        raise WrongAnswer(f"Expected the attribute k of lab::KNN, found {', '.join(sorted(found)) or 'none'}.")
    if found["k"].type != AttributeProto.INT:
        raise WrongAnswer(f"The attribute k has to be INT, it is {AttributeProto.AttributeType.Name(found['k'].type)}.")
    if found["k"].i != 12:
        raise WrongAnswer(
            f"The attribute k is {found['k'].i}; the network asks for 12 neighbours (oplab.nets.edge_net.NEIGHBOURS)."
        )
    if len(node.input) != 2:
        raise WrongAnswer(f"lab::KNN has the inputs xyz and offset; the node has {len(node.input)}.")


def knn_body() -> list[onnx.NodeProto]:
    """``lab::KNN`` out of ``oplab::KNNQuery``: -1 becomes the row's first entry."""
    from onnx import AttributeProto, TensorProto, helper

    query = helper.make_node("KNNQuery", ["xyz", "offset"], ["found", "dist"], domain="oplab")
    query.attribute.add(name="nsample", type=AttributeProto.INT, ref_attr_name="k")
    return [
        query,
        helper.make_node("Cast", ["found"], ["wide"], to=TensorProto.INT64),
        helper.make_node("Constant", [], ["zero"], value_ints=[0]),
        helper.make_node("Constant", [], ["one"], value_ints=[1]),
        helper.make_node("Slice", ["wide", "zero", "one", "one"], ["first"]),
        helper.make_node("Less", ["wide", "zero"], ["short"]),
        helper.make_node("Where", ["short", "first", "wide"], ["idx"]),
    ]


def logits(feeds: Feeds) -> np.ndarray:
    import torch

    from oplab import ops
    from oplab.nets.edge_net import load_edge_net

    ops.load()
    with torch.no_grad():
        return load_edge_net()(*(torch.from_numpy(value) for value in feeds.values())).numpy()


def baked(feeds: Feeds) -> dict[str, np.ndarray]:
    """Wrong answers of a model, by their cause."""
    together = {"xyz": feeds["xyz"], "offset": feeds["offset"][-1:]}
    return {"All points count as one cloud.": np.repeat(logits(together), len(feeds["offset"]), axis=0)}


def expect_names(got: np.ndarray, expected: np.ndarray, label: np.ndarray) -> None:
    """Demand that the model calls the clouds what PyTorch calls them, and that it is right as often as the training said."""
    if got.shape != expected.shape:
        raise WrongAnswer(f"logits: expected {describe(expected)}, got {describe(got)}.")
    same, right = float((got.argmax(1) == expected.argmax(1)).mean()), float((got.argmax(1) == label).mean())
    if same < 0.99:
        raise WrongAnswer(
            f"It calls {same:.0%} of the clouds what the network calls them in PyTorch; expected all of them."
        )
    if right < 0.88:
        raise WrongAnswer(
            f"It is right on {right:.0%} of the clouds; in PyTorch the network is right on more than 95 %."
        )


# --- the kernels -------------------------------------------------------------------------------------------------------------


def collect_runs(c: Collect, model: onnx.ModelProto, cases: Mapping[str, Feeds], title: str = "session") -> None:
    """Run the learner's kernel on each case, as evidence under the case's title."""
    run = session(c, title, model)
    for name, feeds in cases.items():
        record(c, name, run, feeds)


def kernel_result(v: Judge, title: str) -> np.ndarray:
    return outputs(v, "session" if v.error("session") else title, causes=_KERNEL_CAUSES)[0]


_KERNEL_CAUSES = {
    UNREGISTERED: (
        "The library has no such operator in version 1 of the domain lab: compare the name and the domain that it registers."
    ),
    OUTPUT_TYPE: "The kernel declares another type for its output: see the type of the Tensor<…>&.",
    INPUT_TYPE: "The kernel declares another type for this input: see the type of the const Tensor<…>&.",
}


# --- resize_kernel -----------------------------------------------------------------------------------------------------------

IMAGE = {"x": ("float32", ["n", "c", "h", "w"]), "scales": ("float32", ["four"])}


def resize_cases(rng: np.random.Generator) -> dict[str, Feeds]:
    around = (1 + float(rng.integers(10, 290)) / 100 + 0.003, 0.3 + float(rng.integers(1, 60)) / 100 + 0.003)
    wanted = [
        ((1, 3, 12, 10), (2, 2)),
        ((2, 3, 7, 11), (3, 1.5)),
        ((1, 1, 10, 10), (2.3, 2.3)),
        ((3, 2, 16, 9), (0.5, 0.34)),
        ((1, 4, int(rng.integers(9, 20)), int(rng.integers(21, 33))), around),
        ((2, 1, 5, 6), (1, 1)),
        ((1, 2, 9, 9), (0.12, 2)),
        ((1, 1, 1, 1), (4, 5)),
        ((0, 3, 4, 4), (2, 2)),
    ]
    return {
        f"x {list(shape)}, factors {y:.4g} and {x:.4g}": {
            "x": rng.standard_normal(shape).astype(np.float32),
            "scales": np.array([1, 1, y, x], np.float32),
        }
        for shape, (y, x) in wanted
    }


def resize_refusals(rng: np.random.Generator) -> dict[str, Feeds]:
    x = rng.standard_normal((1, 2, 6, 5)).astype(np.float32)

    def scales(*values: float) -> np.ndarray:
        return np.array(values, np.float32)

    return {
        "an x without dimensions": {"x": np.array(1, np.float32), "scales": scales(1, 1, 2, 2)},
        "an x of rank 3": {"x": x[0], "scales": scales(1, 1, 2, 2)},
        "an x without height": {"x": x[:, :, :0], "scales": scales(1, 1, 2, 2)},
        "scales without dimensions": {"x": x, "scales": np.array(2, np.float32)},
        "two scales": {"x": x, "scales": scales(2, 2)},
        "a second scale of 2": {"x": x, "scales": scales(1, 2, 2, 2)},
        "a scale of NaN": {"x": x, "scales": scales(1, 1, np.nan, 2)},
        "a scale of infinity": {"x": x, "scales": scales(1, 1, 2, np.inf)},
        "a scale of 1e15": {"x": x, "scales": scales(1, 1, 1e15, 2)},
        "a scale of 1e30": {"x": x, "scales": scales(1, 1, 2, 1e30)},
        "a scale of -2": {"x": x, "scales": scales(1, 1, -2, 2)},
        "a scale that leaves no pixel": {"x": x, "scales": scales(1, 1, 2, 0.1)},
    }


def collect_resize_kernel(c: Collect) -> None:
    output = {"y": ("float32", ["n", "c", "h2", "w2"])}
    collect_runs(c, one_node("DynamicResize", IMAGE, output), resize_cases(c.rng))
    anything = without_shapes(one_node("DynamicResize", IMAGE, output))
    collect_runs(c, anything, resize_refusals(c.rng), "refusals")


def judge_resize_kernel(v: Judge) -> None:
    cases = resize_cases(v.rng)
    found: dict[str, np.ndarray] = {}
    with v.check("ONNX Runtime takes the operator and runs it"):
        for title in cases:
            with about(title):
                found[title] = kernel_result(v, title)
    if not v.ok:
        return
    with v.check("y is x, resized with Keys' cubic"):
        for title, feeds in cases.items():
            with about(title):
                expect_resized(found[title], feeds)
    with v.check("what cannot be resized gets a status"):
        for title in resize_refusals(v.rng):
            expect_refusal(v, title, likely="Check it before you allocate or read anything.")


def resized(
    feeds: Feeds, *, a: float = -0.75, place: str = "scale", double: bool = False, border: str = "clamp"
) -> np.ndarray:
    """A bicubic resize by matrices, in double; the keywords make known wrong answers."""
    y = feeds["x"].astype(np.float64)
    for axis in (2, 3):
        matrix = _matrix(y.shape[axis], feeds["scales"][axis], a, place, double, border)
        y = np.moveaxis(np.tensordot(y, matrix, axes=([axis], [1])), -1, axis)
    return y.astype(np.float32)


def _matrix(length: int, scale: np.float32, a: float, place: str, double: bool, border: str) -> np.ndarray:
    """(new, length): the weight of each pixel of one side in each pixel of the new one."""
    exact = float(scale)
    new = int(np.floor(length * exact)) if double else int(np.floor(np.float32(length) * scale))
    i = np.arange(new)
    at = {
        "scale": (i + 0.5) / exact - 0.5,
        "quotient": (i + 0.5) * length / max(new, 1) - 0.5,
        "corners": i * (length - 1) / max(new - 1, 1),
        "no half": i / exact,
        "one at 0": (i + 0.5) / exact - 0.5 if new > 1 else np.zeros(new),
    }[place]
    matrix = np.zeros((new, length))
    whole = np.floor(at).astype(int)
    for tap in range(-1, 3):
        pixel = whole + tap
        d = np.abs(at - pixel)
        near, far = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        weight = np.where(d <= 1, near, np.where(d < 2, far, 0))
        if border == "zero":
            weight = np.where((pixel < 0) | (pixel >= length), 0, weight)
        np.add.at(matrix, (i, np.clip(pixel, 0, length - 1)), weight)
    return matrix


def expect_resized(got: np.ndarray, feeds: Feeds) -> None:
    expected = resized(feeds)
    scales = feeds["scales"]
    swapped = {"x": feeds["x"], "scales": scales[[0, 1, 3, 2]]}
    likely = {
        "These are the weights with a = -0.5; ONNX's Resize and this kernel have a = -0.75.": resized(feeds, a=-0.5),
        "Pixel i lies at (i + 0.5) / scale - 0.5; this is i / scale, without the halves.": resized(
            feeds, place="no half"
        ),
        "This is aligned at the corners: pixel i lies at (i + 0.5) / scale - 0.5.": resized(feeds, place="corners"),
        "A pixel lies where the scale says, not the quotient of the two sizes.": resized(feeds, place="quotient"),
        "A side that becomes one pixel shows the place 0 here; it lies at 0.5 / scale - 0.5, by the rule for all.": resized(
            feeds, place="one at 0"
        ),
        "Pixels beyond a border count as 0 here; the border's pixel counts in their place.": resized(
            feeds, border="zero"
        ),
        "The factors are swapped: scales[2] is the height's, scales[3] the width's.": resized(swapped),
        "Everything is enlarged 2 times, whatever scales says.": resized(
            {"x": feeds["x"], "scales": np.array([1, 1, 2, 2], np.float32)}
        ),
        "A side is floor(size * scale), multiplied in float: 10 pixels times 2.3 are 23, not 22.": resized(
            feeds, double=True
        ),
        "The width follows scales[2]; it has a factor of its own, scales[3].": resized(
            {"x": feeds["x"], "scales": scales[[0, 1, 2, 2]]}
        ),
    }
    first = resized({"x": np.repeat(feeds["x"][:, :1], feeds["x"].shape[1], axis=1), "scales": scales})
    likely["Every channel shows the first one."] = first
    likely = {cause: wrong for cause, wrong in likely.items() if not _equal(wrong, expected)}
    expect_close(got, expected, name="y", rtol=1e-3, atol=1e-4, likely=likely)


# --- knn_kernel --------------------------------------------------------------------------------------------------------------


def lattice(rng: np.random.Generator, sizes: Sequence[int], step: float = 0.5) -> Feeds:
    """Points on a coarse lattice whose step is a power of two: distances are exact, and many are equal."""
    xyz = rng.integers(-4, 5, size=(sum(sizes), 3)).astype(np.float32) * np.float32(step)
    return {"xyz": xyz, "offset": np.cumsum(sizes, dtype=np.int64)}


KNN_K = 6


def knn_cases(rng: np.random.Generator) -> dict[str, Feeds]:
    cases = {}
    for sizes in (
        [25, 35],
        [40],
        [7, 0, 90, 3],
        [1, 2, 30],
        [int(n) for n in rng.integers(5, 60, size=8)],
        [300, 211],
        [2, 3],
        [0, 0],
        [],
    ):
        cases[f"clouds of {', '.join(map(str, sizes))} points" if sizes else "no clouds"] = lattice(rng, sizes)
    cases["coordinates of 1e15"] = lattice(rng, [20, 15], 2.0**50)
    return cases


def knn_refusals(rng: np.random.Generator) -> dict[str, Feeds]:
    right = lattice(rng, [6, 8])

    def spoilt(value: float) -> Feeds:
        xyz = right["xyz"].copy()
        xyz[rng.integers(len(xyz)), rng.integers(3)] = value
        return {**right, "xyz": xyz}

    return {
        "a point that is NaN": spoilt(np.nan),
        "a point at infinity": spoilt(np.inf),
        "an xyz without dimensions": {**right, "xyz": np.array(1, np.float32)},
        "offsets without dimensions": {**right, "offset": np.array(14)},
        "points of two coordinates": {**right, "xyz": np.ascontiguousarray(right["xyz"][:, :2])},
        "offsets that fall": {**right, "offset": np.array([16, 14], np.int64)},
        "a negative offset": {**right, "offset": np.array([-3, 14], np.int64)},
        "offsets that end too early": {**right, "offset": np.array([6, 13], np.int64)},
        "offsets that end beyond the points": {**right, "offset": np.array([6, 5000], np.int64)},
        "offsets of rank 2": {**right, "offset": np.array([[6, 14]], np.int64)},
    }


def knn_model(k: int | str | None) -> onnx.ModelProto:
    inputs = {"xyz": ("float32", ["n", "three"]), "offset": ("int64", ["b"])}
    return one_node("KNN", inputs, {"idx": ("int64", ["n", "k"])}, k=k)


def collect_knn_kernel(c: Collect) -> None:
    collect_runs(c, knn_model(KNN_K), knn_cases(c.rng))
    collect_runs(c, knn_model(1), {"k = 1": lattice(c.rng, [9, 14])}, "k = 1")
    collect_runs(c, without_shapes(knn_model(3)), knn_refusals(c.rng), "refusals")
    for k in (0, None, "six"):
        session(c, f"k {k}", knn_model(k))


def judge_knn_kernel(v: Judge) -> None:
    cases = knn_cases(v.rng)
    one = lattice(v.rng, [9, 14])
    found: dict[str, np.ndarray] = {}
    with v.check("ONNX Runtime takes the operator and runs it"):
        for title in [*cases, "k = 1"]:
            with about(title):
                found[title] = kernel_result(v, title)
    if not v.ok:
        return
    with v.check("idx holds the nearest points of the same cloud, nearest first"):
        for title, feeds in cases.items():
            with about(title):
                expect_neighbours(found[title], feeds, KNN_K)
        with about("k = 1"):
            expect_neighbours(found["k = 1"], one, 1)
    with v.check("points and offsets that do not fit get a status"):
        for title in knn_refusals(v.rng):
            points = "is NaN" in title or "infinity" in title
            sort = "The distance to such a point has no place in any order: the sort leaves wrong neighbours for other points too."
            expect_refusal(v, title, likely=sort if points else "Check the offsets before you use them as indices.")
    with v.check("k is required, an int and positive"):
        expect_refusal(v, "k 0", likely="Check the attribute in the constructor.")
        expect_refusal(v, "k None", likely="The attribute k has no default.")
        expect_refusal(v, "k six", likely="The attribute k is a text.")


def nearest(
    feeds: Feeds, k: int, *, ties: int = 1, mixed: bool = False, local: bool = False, fill: str = "first"
) -> np.ndarray:
    """The neighbours by brute force; the keywords make known wrong answers."""
    xyz, offset = feeds["xyz"].astype(np.float64), feeds["offset"]
    idx = np.full((len(xyz), k), -1, np.int64)
    for q in range(len(xyz)):
        cloud = int(np.searchsorted(offset, q, side="right"))
        first, last = (0, len(xyz)) if mixed else (0 if cloud == 0 else int(offset[cloud - 1]), int(offset[cloud]))
        among = np.arange(first, last)
        order = among[np.lexsort((ties * among, ((xyz[among] - xyz[q]) ** 2).sum(1)))][:k]
        idx[q, : len(order)] = order - (first if local else 0)
        if fill != "none":
            idx[q, len(order) :] = {"first": idx[q, 0], "last": idx[q, len(order) - 1], "zero": 0, "self": q}[fill]
    return idx


def expect_neighbours(got: np.ndarray, feeds: Feeds, k: int) -> None:
    expected = nearest(feeds, k)
    itself = np.arange(len(expected))[:, None]
    likely = {
        "The clouds are mixed up: a point has neighbours in its own cloud only.": nearest(feeds, k, mixed=True),
        "Ties go to the lower index; here they went to the higher one.": nearest(feeds, k, ties=-1),
        "The indices count from the cloud's first point; they count from the first point of xyz.": nearest(
            feeds, k, local=True
        ),
        "A row that is too short repeats its first entry; these are -1.": nearest(feeds, k, fill="none"),
        "A row that is too short repeats its first entry, not its last one.": nearest(feeds, k, fill="last"),
        "A row that is too short repeats its first entry; these are 0, a point of the first cloud.": nearest(
            feeds, k, fill="zero"
        ),
        "The point itself is one of its neighbours, the first unless another lies where it lies.": _without(
            nearest(feeds, k + 1), itself, k
        ),
    }
    likely = {cause: wrong for cause, wrong in likely.items() if not np.array_equal(wrong, expected)}
    if got.dtype.kind in "iu" and got.dtype != np.int64 and np.array_equal(got, expected):
        likely = {"The indices are right; they have to be int64.": got}
    elif got.shape == expected.shape and got.dtype == np.int64 and _as_far(got, expected, feeds):
        likely = {
            "Ties go to the lower index. A sort by the distance alone, or topk, leaves them in any order.": got,
            **likely,
        }
    elif got.shape == expected.shape and got.dtype == np.int64 and _strangers(got, feeds):
        likely["The clouds are mixed up: a point has neighbours in its own cloud only."] = got
    elif got.shape == expected.shape and got.size and np.array_equal(np.sort(got), np.sort(expected)):
        likely["These are the right points in another order: the nearest comes first."] = got
    expect_close(got, expected, name="idx", likely=likely)


def _without(idx: np.ndarray, itself: np.ndarray, k: int) -> np.ndarray:
    """Each row without the point itself."""
    if not len(idx):
        return idx[:, :k]
    order = np.argsort(idx == itself, axis=1, kind="stable")
    return np.take_along_axis(idx, order, axis=1)[:, :k]


def _strangers(got: np.ndarray, feeds: Feeds) -> bool:
    """Whether the indices count through all of xyz, and some are of points of another cloud."""
    n = len(feeds["xyz"])
    if not got.size or got.min() < 0 or got.max() >= n or not (got == np.arange(n)[:, None]).any(axis=1).all():
        return False
    cloud = np.searchsorted(feeds["offset"], np.arange(n), side="right")
    return bool((cloud[got] != cloud[:, None]).any())


def _as_far(got: np.ndarray, expected: np.ndarray, feeds: Feeds) -> bool:
    """Whether every index is of a point of the same cloud, as far away as the right one."""
    if not got.size or got.min() < 0 or got.max() >= len(feeds["xyz"]):
        return False
    far = [((feeds["xyz"][rows] - feeds["xyz"][:, None]) ** 2).sum(2) for rows in (got, expected)]
    clouds = [np.searchsorted(feeds["offset"], rows, side="right") for rows in (got, expected)]
    return np.array_equal(*far) and np.array_equal(*clouds)
