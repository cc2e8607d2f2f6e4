"""Checks of chapter 16: two networks over both exporters, and the two kernels that they need.

A model and a kernel meet in two lines, the operators ``lab::DynamicResize`` and ``lab::KNN``. The kernels are run here on models of
one node. The models are run on this judge's own definitions of the two operators, which are attached as model-local functions: so
no learner's code answers for another, and any model fits any kernel.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from oplab.checks import graphs
from oplab.checks.errors import innermost
from oplab.checks.evidence import Collect
from oplab.checks.exporting import about
from oplab.checks.judge import Judge
from oplab.checks.kernels import expect_refusal, one_node, outputs, record, session, without_shapes
from oplab.checks.ort_errors import INPUT_TYPE, OUTPUT_TYPE, UNREGISTERED, status
from oplab.checks.references.points import expect_idx
from oplab.checks.references.resizing import expect_resized
from oplab.checks.stress import collect_stress, judge_stress, sound
from oplab.checks.stress_plan import Stress
from oplab.onnxtools.subgraphs import every_node
from oplab.parity.arrays import WrongAnswer, describe, expect_close

if TYPE_CHECKING:
    import onnx
    import torch

FILES = ("torchscript.onnx", "dynamo.onnx")
Feeds = dict[str, np.ndarray]


# --- what both projects share ------------------------------------------------------------------------------------------


def collect_delivery(c: Collect, name: str, net: torch.nn.Module) -> Any:
    """Call the learner's function on a network and a folder, and record the two files; returns the module, or None.

    ``changed`` names the parameters and buffers of the module that are not what those of the network were, as a text.
    """
    from oplab import ops
    from oplab.onnxtools.quiet import quiet_exports

    ops.load()
    quiet_exports()
    folder = c.scratch / "delivery"
    folder.mkdir()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    module = c.attempt("your function", with_cause(c.function(name)), net, folder)
    c.value("returned", type(module).__name__ if module is not None else "")
    for file in FILES:
        c.file(file, folder / file)
    c.value("callable", callable(module))
    c.value("training", getattr(module, "training", False) is True)
    c.value("changed", ", ".join(changed_state(before, module)))
    return module if callable(module) else None


def changed_state(before: Mapping[str, torch.Tensor], module: Any) -> list[str]:
    """Names of tensors in ``before`` that the module has with other values; it may have the network inside, under any name."""
    import torch

    state = module.state_dict() if isinstance(module, torch.nn.Module) else {}
    first = next(iter(before))
    for key in state:
        inside = key.removesuffix(first)
        if inside + first == key and all(inside + name in state for name in before):
            return [name for name, value in before.items() if not torch.equal(state[inside + name], value)]
    return []


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


def collect_calls(c: Collect, calls: Mapping[str, tuple[Any, Feeds, Sequence[int]]]) -> None:
    """What functions give for inputs: as evidence under each title the result, under ``title: changed`` the input that the call changed.

    ``overwritten`` is the title of a result that a later call has changed, or empty.

    Args:
        calls: by title a function of tensors, its inputs, and numbers that follow them.
    """
    import torch

    results = {}
    for title, (function, feeds, numbers) in calls.items():
        inputs = {name: torch.from_numpy(value.copy()) for name, value in feeds.items()}

        def call(function=function, inputs=inputs, numbers=numbers) -> Any:
            with torch.no_grad():
                return function(*inputs.values(), *numbers)

        found = c.attempt(title, call)
        c.value(title, found)
        changed = (name for name, value in inputs.items() if not np.array_equal(value.numpy(), feeds[name]))
        c.value(f"{title}: changed", next(changed, ""))
        if type(found) is torch.Tensor:
            results[title] = (found, found.clone())
    overwritten = (title for title, (found, kept) in results.items() if not torch.equal(found, kept))
    c.value("overwritten", next(overwritten, ""))


def expect_own_memory(v: Judge, titles: Iterable[str]) -> None:
    """Demand of these calls of :func:`collect_calls` that none has changed its inputs, or the result of an earlier one."""
    for title in titles:
        changed = v.value(f"{title}: changed")
        if changed:
            raise WrongAnswer(
                f"{title}: the call has changed its input {changed}, which belongs to the caller. Compute on a copy: methods whose name "
                "ends in _ and assignments such as -= write into the tensor that they are given."
            )
    overwritten = v.value("overwritten")
    if overwritten:
        raise WrongAnswer(
            f"{overwritten}: a later call has changed this result. Each call has to return its own memory, not a buffer that is kept."
        )


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
            "The returned module is in train mode: Dropout throws features away, and BatchNorm uses the statistics of the current batch. "
            "Call eval() before you export and before you compare."
        )


def expect_result(
    v: Judge, title: str, expected: np.ndarray, name: str, likely: Mapping[str, np.ndarray], within: float
) -> None:
    """Demand that the array under ``title`` is what the network gives, ``within`` as relative and absolute tolerance."""
    try:
        expect_close(v.array(title), expected, name=name, rtol=within, atol=within, likely=dict(likely))
    except WrongAnswer as error:
        changed = str(v.value("changed"))
        if not changed or any(str(error).endswith(cause) for cause in likely):
            raise
        cause = (
            f"{changed.partition(',')[0]} has other values than in the network that you were given. "
            + "A call in train mode changes the statistics of a BatchNorm: call eval() first."
            * all("running_" in entry or "num_batches" in entry for entry in changed.split(", "))
        )
        raise WrongAnswer(f"{error} {cause}".rstrip()) from None


def expect_interface(
    model: onnx.ModelProto, inputs: Sequence[str], output: str, dynamic: Mapping[str, Sequence[int]]
) -> None:
    graphs.expect_inputs(model, inputs)
    graphs.expect_outputs(model, [output])
    graphs.expect_used(model, inputs)
    places: dict[str, str] = {}  # of each axis, by its name
    for name, axes in dynamic.items():
        graphs.expect_dynamic(model, name, axes)
        dims = next(value for value in model.graph.input if value.name == name).type.tensor_type.shape.dim
        for axis in axes:
            place, called = f"axis {axis} of {name}", dims[axis].dim_param
            if called and places.setdefault(called, place) != place:
                raise WrongAnswer(
                    f"{places[called][0].upper()}{places[called][1:]} and {place} are both named {called!r}: axes of one name promise "
                    "to be equal. Give each its own name."
                )
    first = next(iter(model.graph.output[0].type.tensor_type.shape.dim), None)
    if first is not None and first.HasField("dim_value"):
        raise WrongAnswer(
            f"The type of {output} promises that its first axis is {first.dim_value}, the size of the example; it is dynamic."
        )


def expect_node(
    model: onnx.ModelProto, op: str, inputs: Sequence[str], attributes: Sequence[str], instead: Sequence[str]
) -> onnx.NodeProto:
    """Demand one node ``lab::op`` with these inputs, one output and these attributes, and version 1 of its domain.

    No other domain may be used, and none of the operators ``instead``.
    """
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
            else " The graph has ONNX's own operators, or a constant, in its place."
        )
        raise WrongAnswer(f"Expected a node {wanted}, the graph has none.{hint}")
    graphs.expect_ops(model, {wanted: 1})
    for name in instead:
        if found[name]:
            raise WrongAnswer(
                f"The graph has {found[name]} × {name} next to {wanted}: your operator alone does this work."
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
    node = next(node for node in every_node(model) if node.domain == "lab")
    if len(node.input) != len(inputs) or len(node.output) != 1:
        raise WrongAnswer(
            f"{wanted} has the inputs {' and '.join(inputs)}, and one output; the node has {len(node.input)} and {len(node.output)}."
        )
    found = sorted(a.name for a in node.attribute)
    if found != list(attributes):
        expected = f"the attribute {', '.join(attributes)}" if attributes else "no attribute"
        raise WrongAnswer(f"Expected {expected} of {wanted}, found {', '.join(found) or 'none'}.")
    return node


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
    "of input parameter (offset) of operator (KNNQuery)": "The inputs of lab::KNN are xyz, float, then offset, int64.",
    "of input parameter (xyz) of operator (KNNQuery)": "The inputs of lab::KNN are xyz, float, then offset, int64.",
    "tensor(double) … operator (DynamicResize)": "lab::DynamicResize takes float: your graph gives it double here.",
    "tensor(int32) … tensor(int64)": "lab::KNN gives int64: the type that your mapping or your fake promises is int32.",
    "tensor(int64) … tensor(int32)": "lab::KNN gives int64: the type that your mapping or your fake promises is int32.",
    "tensor(float) … tensor(int64)": "lab::KNN gives int64: your mapping promises float, the type of xyz. Set the dtype of idx.",
    "tensor(int64) … tensor(float)": "lab::KNN gives int64: your mapping promises float, the type of xyz. Set the dtype of idx.",
}
_EXAMPLE = "A size of the example is in the graph as a number."
_RUNNING = {
    "DynamicResize: x must have the shape … is [4]": "The inputs of lab::DynamicResize are x, then scales; here they are swapped.",
    "Got invalid dimensions": "The input's shape was written down at export: name its dynamic axes.",
    "INVALID_ARGUMENT … Expected": "The input's shape was written down at export: name its dynamic axes.",
    **dict.fromkeys(("Reshape", "Expand", "roadcast", "axis"), _EXAMPLE),
}


@contextmanager
def of(v: Judge, file: str, what: str) -> Iterator[None]:
    """One named check of one file."""
    with v.require(f"{file}: {what}"), about(file):
        yield


# --- super_resolution ----------------------------------------------------------------------------------------------------


def given_srcnn(rng: np.random.Generator) -> torch.nn.Module:
    """SRCNN with weights of this run: an answer that loads its own network gives something else."""
    import torch

    from oplab.nets.srcnn import load_srcnn

    net = load_srcnn()
    with torch.no_grad():
        net.conv3.weight *= float(rng.uniform(1.5, 2.0))
    return net


# A sum of float32 products errs by 6e-8 of their sizes for each of its terms at worst, and these convolutions have 1600 terms at most:
# about 1e-4 at worst and 3e-6 typically, for values near 1. Weights that were float16 once err by 5e-4 each.
SHARP = 1e-4


def photo_cases(rng: np.random.Generator) -> dict[str, Feeds]:
    """Photos and factors. 10 rows times 2.3 are 23 in float32 and 22 in double, so one case has them.

    The whole factors come first: after them a factor that is cut to a whole number is not one that the export has baked in.
    """
    sizes = [("2", (1, 12, 10)), ("3", (3, int(rng.integers(5, 9)), int(rng.integers(9, 20))))]
    sizes += [("2.3", (2, 10, 8)), ("0.5", (1, 9, 14)), ("1", (2, 7, 11))]
    sizes.append(
        (f"{rng.integers(110, 390) / 100 + 0.003:.3f}", (1, int(rng.integers(11, 30)), int(rng.integers(31, 50))))
    )
    cases = {
        f"{n} photo{'s' * (n > 1)} of {h} x {w}, factor {factor}": {
            "photo": rng.random((n, 3, h, w), dtype=np.float32),
            "factor": np.array(factor, np.float32),
        }
        for factor, (n, h, w) in sizes
    }
    two = np.array(2, np.float32)
    cases[AGAIN] = {"photo": rng.random((1, 3, 12, 10), dtype=np.float32), "factor": two}
    # A photo whose values a program has changed: the network does not clip, so nothing around it may.
    loud = rng.normal(0.5, 1, size=(1, 3, 6, 5)).astype(np.float32)
    cases["1 photo with values below 0 and above 1, factor 2"] = {"photo": loud, "factor": two}
    return cases


AGAIN = "another photo of 12 x 10, factor 2"


def collect_super_resolution(c: Collect) -> None:
    module = collect_delivery(c, "super_resolution", given_srcnn(c.rng))
    if module is not None:
        collect_calls(c, {title: (module, feeds, ()) for title, feeds in photo_cases(c.rng).items()})


def judge_super_resolution(v: Judge) -> None:
    net = given_srcnn(v.rng)
    cases = photo_cases(v.rng)
    expected = {title: enlarged(net, feeds) for title, feeds in cases.items()}
    with v.require("your function returns a module"):
        expect_module(v)
    with v.require("the module enlarges and sharpens, in PyTorch"):
        expect_own_memory(v, cases)
        for title, (right, likely) in expected.items():
            with about(title):
                expect_result(v, title, right, "y", likely, SHARP)
    for file in FILES:
        with of(v, file, "one file, with both inputs and the output"):
            model = v.model(file)
            expect_interface(model, ["photo", "factor"], "y", {"photo": [0, 2, 3]})
            expect_open_sizes(model)
        with of(v, file, "one node lab::DynamicResize, version 1"):
            expect_node(model, "DynamicResize", ["x", "scales"], [], ["Resize", "Upsample"])
            expect_exporter(file, model)
        with of(v, file, "other sizes and factors"):
            from onnx import helper

            body = [helper.make_node("DynamicResize", ["x", "scales"], ["y"], domain="oplab")]
            session = runnable(model, "DynamicResize", body, ["x", "scales"], "y")
            for title, (right, likely) in expected.items():
                with about(f"{file}, {title}"):
                    got = graphs.run(session, cases[title], causes=_RUNNING)[0]
                    expect_close(got, right, name="y", rtol=SHARP, atol=SHARP, likely=likely)


def enlarged(net: torch.nn.Module, feeds: Feeds) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """What the network gives, and known wrong answers."""
    import torch
    from torch.nn.functional import interpolate

    from oplab import ops
    from oplab.nets.srcnn import load_srcnn

    ops.load()
    photo, factor = torch.from_numpy(feeds["photo"]), float(feeds["factor"])

    def large(height: float, width: float, of: torch.Tensor = photo) -> torch.Tensor:
        return torch.ops.oplab.dynamic_resize(of, torch.tensor([1.0, 1.0, height, width]))

    with torch.no_grad():
        given = large(factor, factor)
        right = net(given)
        likely = {
            "The photo is enlarged, and SRCNN has not sharpened it.": given,
            "SRCNN has sharpened the photo before it was enlarged; enlarge it first.": large(
                factor, factor, net(photo)
            ),
            "The result is clipped to [0, 1]; SRCNN does not clip.": right.clip(0, 1),
            "These are the weights of load_srcnn(); deliver the network that you were given.": load_srcnn()(given),
            "The width keeps its size: the factor counts for both.": net(large(factor, 1.0)),
            "A side becomes floor(size * factor), multiplied in float32: 10 rows times 2.3 are 23, not 22.": net(
                interpolate(photo, scale_factor=factor, mode="bicubic")
            ),
        }
        for other in (2.0, 3.0) if factor.is_integer() else ():
            cause = f"It is enlarged {other:g} times, whatever the factor is: the factor of the export is baked in."
            likely[cause] = net(large(other, other))
        for whole in {max(1.0, float(int(factor))), max(1.0, float(round(factor)))}:
            likely["The factor has become a whole number; it is a float."] = net(large(whole, whole))
    return right.numpy(), {cause: wrong.numpy() for cause, wrong in likely.items()}


def expect_open_sizes(model: onnx.ModelProto) -> None:
    """Demand that the type of y does not promise the height and width of the export."""
    dims = model.graph.output[0].type.tensor_type.shape.dim
    fixed = [dim.dim_value for dim in list(dims)[2:] if dim.HasField("dim_value")]
    if fixed:
        raise WrongAnswer(
            f"The type of y promises a side of {fixed[0]} pixels. That was true at the factor of the export; the sides are data."
        )
    names = [dim.dim_param for dim in list(dims)[2:] if dim.dim_param]
    if len(set(names)) < len(names):
        raise WrongAnswer(
            f"The type of y promises that its height and width are equal, both {names[0]!r}: true for square photos only. Each side has "
            "its own size: two calls of new_dynamic_size(), or two names."
        )
    given = {dim.dim_param for value in model.graph.input for dim in value.type.tensor_type.shape.dim}
    same = [dim.dim_param for dim in list(dims)[2:] if dim.dim_param and dim.dim_param in given]
    if same:
        raise WrongAnswer(
            f"The type of y promises a side of {same[0]!r}, that of photo. It is another one: your fake or your setType gives the "
            "result the sizes of x, and they are not known before the factor is."
        )


# --- point_cloud -----------------------------------------------------------------------------------------------------------


def given_edge_net(rng: np.random.Generator) -> tuple[torch.nn.Module, int]:
    """EdgeNet as a training leaves it, whose solids have another order: an answer that loads its own network calls them by other names.

    Returns:
        the network, and by how many places the order is moved: its logit i is for solid i + places.
    """
    import torch

    from oplab.nets.edge_net import load_edge_net

    net, places = load_edge_net(), int(rng.integers(1, 8))
    with torch.no_grad():
        for parameter in (net.head.weight, net.head.bias):
            parameter.copy_(parameter.roll(-places, 0))
    return net.train(), places


def cloud_cases(rng: np.random.Generator) -> dict[str, Feeds]:
    """Clouds on a lattice, so that distances are exact and many of them are equal."""
    from oplab.nets.point_clouds import clouds

    cases = {}
    for sizes in (
        [26, 33],
        [int(n) for n in rng.integers(70, 200, size=3)],
        [5, 90, 3, 1],
        [int(rng.integers(200, 300))],
        [40] * 9,
        [26, 33],
    ):
        xyz, offset, _ = clouds(sizes, rng)
        title = f"clouds of {', '.join(map(str, sizes))} points" if len(sizes) < 6 else f"{len(sizes)} clouds"
        title = title if title not in cases else OTHER_CLOUDS
        cases[title] = {"xyz": np.round(xyz * 16).astype(np.float32) / 16, "offset": offset}
    # The last points of a small cloud are where its first one is: a row's first entry is then not the point itself.
    small = cases["clouds of 5, 90, 3, 1 points"]["xyz"]
    small[3:5] = small[1]
    return cases


OTHER_CLOUDS = "other clouds of 26, 33 points"


def far_clouds(rng: np.random.Generator) -> dict[str, Feeds]:
    """Clouds away from the origin, as a scanner's are: for ``knn`` alone.

    Each coordinate is a multiple of 1/16 below 2^18, so float32 holds it, each difference and each sum of squares exactly. The squares
    of the coordinates themselves it does not hold: |a|^2 + |b|^2 - 2ab loses the distances.
    """
    return {
        f"coordinates around {place:g}": {"xyz": feeds["xyz"] + np.float32(place), "offset": feeds["offset"]}
        for place in (1000, 2e5)
        for feeds in [cloud_cases(rng)["clouds of 5, 90, 3, 1 points"]]
    }


def labelled(rng: np.random.Generator) -> tuple[Feeds, np.ndarray]:
    """120 clouds of 100 to 150 points, and what they show."""
    from oplab.nets.point_clouds import clouds

    xyz, offset, label = clouds([int(n) for n in rng.integers(100, 151, size=120)], rng)
    return {"xyz": xyz, "offset": offset}, label


# Logits reach 60 here, after four layers of up to 128 terms: 1e-4 at worst, in relation to the largest.
LOGITS = 1e-3
ROWS = (12, 5, 20)  # neighbours asked for; the network asks for 12


def collect_point_cloud(c: Collect) -> None:
    from oplab.nets.edge_net import neighbours

    module = collect_delivery(c, "point_cloud", given_edge_net(c.rng)[0])
    if module is None:
        return
    knn = getattr(module, "knn", None)
    c.value("knn", "missing" if knn is None else "the course's" if knn is neighbours else "yours")
    cases, far = cloud_cases(c.rng), far_clouds(c.rng)
    calls = {title: (module, feeds, ()) for title, feeds in cases.items()}
    if knn is not None:
        calls |= {f"{title}, k = {k}": (knn, feeds, (k,)) for title, feeds in (cases | far).items() for k in ROWS}
    collect_calls(c, calls)


def judge_point_cloud(v: Judge) -> None:
    net, places = given_edge_net(v.rng)
    net.eval()
    cases, far = cloud_cases(v.rng), far_clouds(v.rng)
    feeds, label = labelled(v.rng)
    label = (label - places) % 8
    with v.require("your function returns a network"):
        expect_module(v)
        expect_own_knn(v)
    with v.check("knn finds the neighbours, in PyTorch"):
        rows = {(title, k): f"{title}, k = {k}" for title in cases | far for k in ROWS}
        expect_own_memory(v, [*rows.values(), *cases])
        for (title, k), name in rows.items():
            with about(name):
                expect_neighbours(v.array(name), (cases | far)[title], k)
    with v.check("the network classifies, in PyTorch"):
        for title, case in cases.items():
            with about(title):
                own = {
                    "These are the weights of load_edge_net(); deliver the network that you were given.": trained(case)
                }
                expect_result(v, title, logits(net, case), "logits", own, LOGITS)
    for file in FILES:
        with of(v, file, "one file, with both inputs and the output"):
            model = v.model(file)
            expect_interface(model, ["xyz", "offset"], "logits", {"xyz": [0], "offset": [0]})
            expect_opset(model)
        with of(v, file, "one node lab::KNN, version 1"):
            expect_k(expect_node(model, "KNN", ["xyz", "offset"], ["k"], ["TopK"]))
            expect_exporter(file, model)
        with of(v, file, "other numbers of points and clouds"):
            session = runnable(model, "KNN", knn_body(), ["xyz", "offset"], "idx")
            for title, case in cases.items():
                with about(f"{file}, {title}"):
                    got = graphs.run(session, case, causes=_RUNNING)[0]
                    expect_close(
                        got, logits(net, case), name="logits", rtol=LOGITS, atol=LOGITS, likely=baked(net, case)
                    )
        with of(v, file, "120 clouds are called by their names"):
            expect_names(graphs.run(session, feeds, causes=_RUNNING)[0], logits(net, feeds), label)


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

    (k,) = node.attribute
    if k.type != AttributeProto.INT:
        raise WrongAnswer(f"The attribute k has to be INT, it is {AttributeProto.AttributeType.Name(k.type)}.")
    if k.i != 12:
        raise WrongAnswer(
            f"The attribute k is {k.i}; the network asks for 12 neighbours (oplab.nets.edge_net.NEIGHBOURS)."
        )


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


def expect_own_knn(v: Judge) -> None:
    """Demand that the returned network asks an operator of the learner's for neighbours."""
    if v.value("knn") == "missing":
        raise WrongAnswer(
            f"The returned {v.value('returned')} has no knn: return the EdgeNet, with your operator at net.knn."
        )
    if v.value("knn") == "the course's":
        raise WrongAnswer(
            "The returned network asks the course's operator for its neighbours: put your own at net.knn."
        )


def logits(net: torch.nn.Module, feeds: Feeds) -> np.ndarray:
    import torch

    from oplab import ops

    ops.load()
    with torch.no_grad():
        return net(*(torch.from_numpy(value) for value in feeds.values())).numpy()


def trained(feeds: Feeds) -> np.ndarray:
    """What the network with the course's own weights gives."""
    from oplab.nets.edge_net import load_edge_net

    return logits(load_edge_net(), feeds)


def baked(net: torch.nn.Module, feeds: Feeds) -> dict[str, np.ndarray]:
    """Wrong answers of a model, by their cause."""
    together = {"xyz": feeds["xyz"], "offset": feeds["offset"][-1:]}
    return {
        "All points count as one cloud.": np.repeat(logits(net, together), len(feeds["offset"]), axis=0),
        "These are the weights of load_edge_net(); deliver the network that you were given.": trained(feeds),
    }


def expect_names(got: np.ndarray, expected: np.ndarray, label: np.ndarray) -> None:
    """Demand that the model calls the clouds what PyTorch calls them, and that it is right as often as the training said."""
    if got.shape != expected.shape:
        raise WrongAnswer(f"logits: expected {describe(expected)}, got {describe(got)}.")
    same, right = float((got.argmax(1) == expected.argmax(1)).mean()), float((got.argmax(1) == label).mean())
    if same < 0.99:
        raise WrongAnswer(
            f"It gives {same:.0%} of the clouds the name that the network gives them in PyTorch; expected all of them."
        )
    if right < 0.88:
        raise WrongAnswer(
            f"It is right on {right:.0%} of the clouds; in PyTorch the network is right on more than 95 %."
        )


# --- the kernels -------------------------------------------------------------------------------------------------------------


def collect_runs(
    c: Collect, model: onnx.ModelProto, cases: Mapping[str, Feeds], title: str = "session"
) -> dict[str, list[np.ndarray] | None]:
    """Run the learner's kernel on each case, as evidence under the case's title, and return the outputs by title."""
    run, found = session(c, title, model), {}
    for name, feeds in cases.items():
        found[name] = record(c, name, run, feeds)
    return found


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
        ((2, 0, 5, 4), (2, 3)),
        ((1, 1, 1, 5), (1, 4000)),
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
        "an x without width": {"x": x[:, :, :, :0], "scales": scales(1, 1, 2, 2)},
        "an x of rank 5": {"x": x[None], "scales": scales(1, 1, 2, 2)},
        "five scales": {"x": x, "scales": scales(1, 1, 2, 2, 2)},
        "a first scale of 2": {"x": x, "scales": scales(2, 1, 2, 2)},
        "a second scale of 1.5": {"x": x, "scales": scales(1, 1.5, 2, 2)},
        "a scale of NaN for the width": {"x": x, "scales": scales(1, 1, 2, np.nan)},
        "a scale of 0": {"x": x, "scales": scales(1, 1, 2, 0)},
        "a side of exactly a million pixels": {"x": x[:1, :1, :1], "scales": scales(1, 1, 1, 200_000)},
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
    cases = resize_cases(c.rng)
    found = collect_runs(c, one_node("DynamicResize", IMAGE, output), cases)
    anything = without_shapes(one_node("DynamicResize", IMAGE, output))
    collect_runs(c, anything, resize_refusals(c.rng), "refusals")
    stress = resize_stress(c.rng)
    if sound(lambda: [expect_resized(found[title][0], feeds) for title, feeds in cases.items()]):
        collect_stress(c, stress)


def resize_stress(rng: np.random.Generator) -> Stress:
    """The operator has no attributes, so there is one node."""
    model = one_node("DynamicResize", IMAGE, {"y": ("float32", ["n", "c", "h2", "w2"])})

    def feeds(shape: tuple[int, ...], y: float, x: float) -> Feeds:
        return {"x": rng.standard_normal(shape).astype(np.float32), "scales": np.array([1, 1, y, x], np.float32)}

    refused, anything = resize_refusals(rng), without_shapes(one_node("DynamicResize", IMAGE, {"y": ("float32", None)}))
    return Stress(
        {"": model},
        {
            "40 x 50 pixels, factors 2 and 3": feeds((1, 3, 40, 50), 2, 3),
            "30 x 60 pixels, factors 3 and 2.3": feeds((1, 3, 30, 60), 3, 2.3),
            "5 x 4 pixels, factors 0.5 and 2": feeds((2, 1, 5, 4), 0.5, 2),
            "one pixel": feeds((1, 1, 1, 1), 2, 3),
            "no photos": feeds((0, 3, 4, 5), 2, 2),
        },
        {title: (anything, refused[title]) for title in ("an x of rank 3", "a scale of NaN")},
    )


def judge_resize_kernel(v: Judge) -> None:
    cases, refusals, stress = resize_cases(v.rng), resize_refusals(v.rng), resize_stress(v.rng)
    found: dict[str, np.ndarray] = {}
    with v.require("ONNX Runtime takes the operator and runs it"):
        for title in cases:
            with about(title):
                found[title] = kernel_result(v, title)
    with v.check("y is x, resized with Keys' cubic"):
        kept = next(iter(found.values())).shape[2:]
        for title, feeds in cases.items():
            with about(title):
                expect_resized(found[title], feeds, kept)
    with v.require("what cannot be resized gets a status"):
        for title in refusals:
            expect_refusal(v, title, likely="Check it before you allocate or read anything.")
    judge_stress(v, stress, lambda node, run, arrays: expect_resized(arrays[0], stress.runs[run]))


# --- knn_kernel --------------------------------------------------------------------------------------------------------------


def lattice(rng: np.random.Generator, sizes: Sequence[int], step: float = 0.5) -> Feeds:
    """Points on a coarse lattice whose step is a power of two: distances are exact, and many are equal."""
    xyz = rng.integers(-4, 5, size=(sum(sizes), 3)).astype(np.float32) * np.float32(step)
    return {"xyz": xyz, "offset": np.cumsum(sizes, dtype=np.int64)}


KNN_K = 6


def knn_cases(rng: np.random.Generator) -> dict[str, Feeds]:
    cases = {}
    for sizes in (
        [26, 33],
        [40],
        [7, 0, 90, 3],
        [1, 2, 30],
        [int(n) for n in rng.integers(5, 60, size=8)],
        [1100, 211],
        [2, 3],
        [0, 0],
        [],
    ):
        cases[f"clouds of {', '.join(map(str, sizes))} points" if sizes else "no clouds"] = lattice(rng, sizes)
    # Points that are where the first one of a small cloud is: a row's first entry is then not the point itself.
    cases["clouds of 2, 3 points"]["xyz"][3:] = cases["clouds of 2, 3 points"]["xyz"][2]
    cases["coordinates of 1e15"] = lattice(rng, [20, 15], 2.0**50)
    for place in (
        1000,
        2e5,
    ):  # float32 holds these coordinates, their differences and the sums of squares, but not x * x
        far = lattice(rng, [60, 45])
        cases[f"coordinates around {place:g}"] = {**far, "xyz": far["xyz"] + np.float32(place)}
    return cases


def knn_refusals(rng: np.random.Generator) -> dict[str, Feeds]:
    right = lattice(rng, [6, 8])

    def spoilt(value: float) -> Feeds:
        xyz = right["xyz"].copy()
        xyz[rng.integers(5, 9), rng.integers(3)] = (
            value  # its place among the coordinates is the number of no spoilt point
        )
        xyz[rng.integers(9, 14), rng.integers(3)] = value
        return {**right, "xyz": xyz}

    return {
        "a point that is NaN": spoilt(np.nan),
        "a point at infinity": spoilt(np.inf),
        "a point at minus infinity": spoilt(-np.inf),
        "points of four coordinates": {**right, "xyz": np.ones((14, 4), np.float32)},
        "an xyz of rank 1": {**right, "xyz": right["xyz"].reshape(-1)},
        "an xyz of rank 3": {**right, "xyz": right["xyz"].reshape(2, 7, 3)},
        "points and no offsets": {**right, "offset": np.zeros(0, np.int64)},
        "offsets that fall in the middle": {**right, "offset": np.array([8, 3, 14], np.int64)},
        "an xyz without dimensions": {**right, "xyz": np.array(1, np.float32)},
        "offsets without dimensions": {**right, "offset": np.array(14)},
        "points of two coordinates": {**right, "xyz": np.ascontiguousarray(right["xyz"][:, :2])},
        "offsets that fall": {**right, "offset": np.array([16, 14], np.int64)},
        "a negative offset": {**right, "offset": np.array([-3, 14], np.int64)},
        "offsets that end too early": {**right, "offset": np.array([6, 13], np.int64)},
        "offsets that end beyond the points": {**right, "offset": np.array([6, 5000], np.int64)},
        "offsets of rank 2": {**right, "offset": np.array([[6, 14]], np.int64)},
    }


def knn_model(k: float | str | None) -> onnx.ModelProto:
    inputs = {"xyz": ("float32", ["n", "three"]), "offset": ("int64", ["b"])}
    return one_node("KNN", inputs, {"idx": ("int64", ["n", "k"])}, k=k)


def collect_knn_kernel(c: Collect) -> None:
    cases = knn_cases(c.rng)
    found = collect_runs(c, knn_model(KNN_K), cases)
    for k in OTHER_K:
        collect_runs(c, knn_model(k), {f"k = {k}": lattice(c.rng, [9, 150])}, f"k = {k}")
    collect_runs(c, without_shapes(knn_model(3)), knn_refusals(c.rng), "refusals")
    for k in (0, -1, None, 2.5, "six"):
        session(c, f"k {k}", knn_model(k))
    stress = knn_stress(c.rng)
    if sound(lambda: [expect_neighbours(found[title][0], feeds, KNN_K) for title, feeds in cases.items()]):
        collect_stress(c, stress)


OTHER_K = (1, 130)


def knn_stress(rng: np.random.Generator) -> Stress:
    refused, anything = knn_refusals(rng), without_shapes(knn_model(3))
    return Stress(
        {f"k = {k}": knn_model(k) for k in STRESSED_K},
        {
            "1300 points": lattice(rng, [1100, 200]),
            "1200 points": lattice(rng, [1200]),
            "9 points": lattice(rng, [2, 7]),
            "no points": lattice(rng, [0, 0]),
        },
        {
            "offsets that fall": (anything, refused["offsets that fall"]),
            "a point that is NaN": (anything, refused["a point that is NaN"]),
            "k = 0": (knn_model(0), None),
        },
    )


STRESSED_K = (4, 7)


def judge_knn_kernel(v: Judge) -> None:
    cases = knn_cases(v.rng)
    others = {k: lattice(v.rng, [9, 150]) for k in OTHER_K}
    refusals, stress = knn_refusals(v.rng), knn_stress(v.rng)
    found: dict[str, np.ndarray] = {}
    with v.require("ONNX Runtime takes the operator and runs it"):
        for title in [*cases, *(f"k = {k}" for k in OTHER_K)]:
            with about(title):
                found[title] = kernel_result(v, title)
    with v.check("idx holds the nearest points of the same cloud, nearest first"):
        for title, feeds in cases.items():
            with about(title):
                expect_neighbours(found[title], feeds, KNN_K)
        for k, feeds in others.items():
            with about(f"k = {k}"):
                expect_neighbours(found[f"k = {k}"], feeds, k)
    with v.check("points and offsets that do not fit get a status"):
        for title, feeds in refusals.items():
            points = "is NaN" in title or "infinity" in title
            sort = (
                "The distance to such a point cannot be ordered: the sort leaves wrong neighbours for other points too."
            )
            shape = "xyz" in title or "coordinates" in title
            likely = (
                "Check the shape of xyz: it is [n, 3]."
                if shape
                else "Check the offsets before you use them as indices."
            )
            expect_refusal(v, title, likely=sort if points else likely)
            if points:
                expect_first_named(v, title, feeds["xyz"])
    with v.require("k is required, an int and positive"):
        expect_refusal(v, "k 0", likely="Check the attribute in the constructor.")
        expect_refusal(v, "k -1", likely="Check in the constructor that k is at least 1.")
        expect_refusal(v, "k 2.5", likely="The attribute k is a float.")
        expect_refusal(v, "k None", likely="The attribute k has no default.")
        expect_refusal(v, "k six", likely="The attribute k is a text.")

    def expect(node: str, run: str, arrays: list[np.ndarray]) -> None:
        expect_neighbours(arrays[0], stress.runs[run], int(node.removeprefix("k = ")))

    judge_stress(v, stress, expect)


def expect_first_named(v: Judge, title: str, xyz: np.ndarray) -> None:
    """Demand that the sentence has the index of the first point that is not finite."""
    error = v.error(title)
    says = status(error.message) if error else ""
    numbers = {int(number) for number in re.findall(r"\d+", says)}
    first, *later = np.flatnonzero(~np.isfinite(xyz).all(axis=1)).tolist()
    if first in numbers:
        return
    instead = next((index for index in later if index in numbers), None)
    coordinate = int(np.flatnonzero(~np.isfinite(xyz))[0])
    why = "" if instead is None else f" It names point {instead}, which is not the first."
    if coordinate in numbers:
        why = f" It names {coordinate}, the index of the coordinate."
    raise WrongAnswer(f"{title}: the sentence has to name the first point that is not finite, {first}: {says!r}.{why}")


def expect_neighbours(got: np.ndarray, feeds: Feeds, k: int) -> None:
    """Demand the neighbours as lab::KNN has them."""
    expect_idx(got, feeds, k, fill="its first entry", dtype=np.int64)
