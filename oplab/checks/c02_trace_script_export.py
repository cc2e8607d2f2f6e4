"""Checks of chapter 02: what three captures keep, a branch that is kept whole, and inputs that an export has baked in.

The modules are written as text from the generator, so that their arguments, numbers and example values differ from run to run. The
judge captures them once more and looks for itself.
"""

from __future__ import annotations

import io
import linecache
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from oplab.checks import exporting, graphs
from oplab.checks.draws import Draws
from oplab.checks.evidence import Collect
from oplab.checks.judge import Judge
from oplab.checks.ort_errors import sentence
from oplab.parity.arrays import WrongAnswer, expect_close

if TYPE_CHECKING:
    import torch

MODULE = """
import torch
from torch import nn

{extra}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        {init}

    def forward(self, {arguments}):
{body}
"""
INNER = """
class Core(nn.Module):
    def forward(self, x):
        if x.sum() > {c}:
            return x * 2
        return x - 1


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.core = Core()

    def forward(self, x):
        return self.core(x) + 1

"""


def build(source: str, name: str) -> Callable[..., torch.nn.Module]:
    """The class ``Model`` of a source text. The text stays known to ``inspect``, since torch.jit.script reads it."""
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"__name__": "oplab_model"}
    exec(compile(source, file, "exec"), namespace)
    return namespace["Model"]


# predict -----------------------------------------------------------------------------------------------------------------------

# By title: the body of forward. {x} is a matrix, {k} a number between 1 and 3 in a tensor without axes, {c} a number.
BODIES = {
    "arithmetic": "return torch.relu({x}) * {k} + {c}",
    "a branch on values": "if {x}.sum() > {c}:\n    y = {x} * {k}\nelse:\n    y = {x} - {c}\nreturn y",
    "a branch on the second input": "if {k} > 2:\n    return torch.tanh({x})\nreturn {x} * {c}",
    "a branch on a size": "if {x}.shape[0] > 3:\n    return {x} * {k}\nreturn {x} - {k}",
    "a loop over an axis": "y = {x} * {c}\nfor i in range({x}.shape[0]):\n    y = y + {x}[i] * {k}\nreturn y",
    "a loop that waits for a value": "y = {x}.abs() + 1\nwhile y.sum() < {k} * 100:\n    y = y * 2\nreturn y",
    "a number taken out of a tensor": "return {x} * {k}.item()",
    "only the shape of an input": "return {x} + torch.zeros({k}.shape)",
    "a branch in a submodule": "return self.inner({x}) * {k}",
    "a branch in a scripted submodule": "return self.inner({x}) * {k}",
    "a layer with weights": "return self.linear({x}) + {k}",
    "a normalisation": "return self.norm({x}) * {k}",
    "a tensor that is not a buffer": "return ({x} + self.shift) * {c}",
    "three inputs": "return {x} * {k} + second",
    "a try block": "try:\n    return {x} * {k}\nexcept ValueError:\n    return {x}",
    "torch.cond": "return torch.cond({k} > 2, lambda a: a * {c}, lambda a: a - {c}, ({x},))",
    "a counter of calls": "self.calls += 1\nreturn {x} * {k} + self.calls",
    "torch.while_loop": "return torch.while_loop(lambda a: a.sum() < {k} * 9, lambda a: (a + 1,), ({x},))[0]",
}
INIT = {
    "a branch in a submodule": "self.inner = Inner()",
    "a branch in a scripted submodule": "self.inner = torch.jit.script(Inner())",
    "a layer with weights": "self.linear = nn.Linear(4, 5)",
    "a normalisation": "self.norm = nn.BatchNorm1d(4)",
    "a tensor that is not a buffer": "self.shift = torch.ones(4)",
    "a counter of calls": "self.calls = 0",
}
CAPTURES = {"trace": "torch.jit.trace", "script": "torch.jit.script", "export": "torch.export.export"}
Kept = tuple[bool, list[int]]


def modules(rng: Draws) -> Iterator[tuple[str, str, torch.nn.Module, tuple[torch.Tensor, ...]]]:
    """Title, the text of forward, module and example of each. What is random: which argument comes first, sizes, numbers, weights."""
    import torch

    for title, body in BODIES.items():
        names, c = {"x": "x", "k": "k", "c": str(round(float(rng.uniform(0.5, 3)), 2))}, rng.uniform(-1, 1)
        arguments = ["x", "k"] if rng.integers(2) else ["k", "x"]
        values = {
            "x": torch.from_numpy(rng.normal(c, 1, (int(rng.integers(2, 6)), 4)).astype(np.float32)),
            "k": torch.tensor(float(rng.uniform(1, 3))),
        }
        text = body.format(**names)
        if "second" in text:  # a name that holds the word cond
            arguments.append("second")
            values["second"] = torch.from_numpy(rng.normal(0, 1, (4,)).astype(np.float32))
        source = MODULE.format(
            extra=INNER.format(c=names["c"]) if "inner" in body else "",
            init=INIT.get(title, "pass"),
            arguments=", ".join(arguments),
            body=textwrap.indent(text, " " * 8),
        )
        torch.manual_seed(int(rng.integers(1 << 30)))
        model = build(source, f"model with {title}")().eval()
        for name, tensor in model.state_dict().items():
            rng.note(name, tensor)
        shown = f"def forward(self, {', '.join(arguments)}):\n{textwrap.indent(text, '    ')}"
        yield title, shown, model, tuple(values[name] for name in arguments)


def collect_predict(c: Collect) -> None:
    function = c.function("predict")
    for title, _, model, example in modules(c.rng):
        before = snapshot(model, example)
        with exporting.quiet():
            answer = c.attempt(title, function, model, example)
        c.value(f"{title}: changed", before != snapshot(model, example))
        c.value(title, plain(answer))


def snapshot(model: torch.nn.Module, example: tuple[torch.Tensor, ...]) -> list[bytes]:
    """The bytes of a module's weights and of its example, and which weights have gradients."""
    weights = [tensor.detach().numpy().tobytes() for tensor in (*model.state_dict().values(), *example)]
    return [*weights, bytes(parameter.requires_grad for parameter in model.parameters())]


def plain(answer: Any) -> Any:
    """A dict of the learner as lists, which the evidence can hold: one ``[key, value]`` for each entry."""
    if answer is None:
        return "None"
    if isinstance(answer, dict) and len(answer) <= 32:
        return [[key if type(key) is str else repr(key)[:50], listed(value)] for key, value in answer.items()]
    return f"a {type(answer).__name__}"


def listed(value: Any) -> Any:
    return [listed(entry) for entry in value] if isinstance(value, (tuple, list, set)) and len(value) <= 32 else value


def kept(capture: str, model: torch.nn.Module, example: tuple[torch.Tensor, ...]) -> Kept | str:
    """What a capture keeps, or the exception that it raises."""
    import torch

    try:
        with exporting.quiet():
            if capture == "export":
                program = torch.export.export(model, example)
                names = program.graph_signature.user_inputs
                places = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
                decides = any(str(node.target) in ("cond", "while_loop") for node in program.graph.nodes)
                return decides, [i for i, name in enumerate(names) if places[name].users]
            made = torch.jit.script(model) if capture == "script" else torch.jit.trace(model, example)
    except Exception as error:
        return type(error).__name__
    graph = made.inlined_graph
    inputs = list(graph.inputs())[1:]
    decides = any(node.kind() in ("prim::If", "prim::Loop") for node in graph.nodes())
    return decides, [i for i, value in enumerate(inputs) if value.uses()]


def judge_predict(v: Judge) -> None:
    for title, shown, model, example in modules(v.rng):
        with v.check(title):
            answer = entries(v, title, list(CAPTURES))
            if v.value(f"{title}: changed"):
                raise WrongAnswer(
                    f"{title}: the module or the example that was given has changed. A capture leaves both as they are."
                )
            for capture in CAPTURES:
                want, got = kept(capture, model, example), answer[capture]
                expect_kept(capture, title, want, got, f"\nThe module:\n{textwrap.indent(shown, '    ')}")


def entries(v: Judge, title: str, keys: list[str]) -> dict[str, Any]:
    """A dict that the learner's function returned, with exactly these keys."""
    value = v.value(title)
    if value == "None":
        raise WrongAnswer(f"{title}: expected a dict, got None. Is there a return?")
    if type(value) is not list:
        raise WrongAnswer(f"{title}: expected a dict with the keys {keys}, got {value}.")
    found = {str(entry[0]): entry[1] for entry in value}
    if sorted(found) != sorted(keys):
        raise WrongAnswer(f"{title}: expected a dict with the keys {keys}, got the keys {list(found)}.")
    return found


def expect_kept(capture: str, title: str, want: Kept | str, got: Any, module: str) -> None:
    """Compare one answer with what the capture really does."""
    name = CAPTURES[capture]
    if isinstance(want, str):
        if got is not None:
            raise WrongAnswer(
                f"{title}: {name} raises {want} for this module, so {capture!r} has to be None; got {got}."
                f"{_CHECKED * (want == 'TracingCheckError')}{module}"
            )
        return
    if got is None:
        raise WrongAnswer(f"{title}: {name} captures this module, and {capture!r} is None.{module}")
    fits = type(got) is list and len(got) == 2 and type(got[0]) is bool and type(got[1]) is list
    if not fits or not all(type(place) is int for place in got[1]):
        raise WrongAnswer(f"{title}: {capture!r} has to be None or a pair (bool, list of int); got {got}.{module}")
    decides, inputs = want
    if got[0] != decides:
        raise WrongAnswer(
            f"{title}: {capture!r} says decides={got[0]}, and {name} gives decides={decides}."
            f"{_decides_cause(capture, title, decides)}{module}"
        )
    if got[1] != inputs:
        raise WrongAnswer(
            f"{title}: {capture!r} says that the inputs {got[1]} are read; in the graph of {name} they are {inputs}."
            f"{_inputs_cause(capture, title, got[1], inputs)}{module}"
        )


_CHECKED = " torch.jit.trace compares a second trace with the first, and check_trace=False leaves that out."


def _decides_cause(capture: str, title: str, decides: bool) -> str:
    if not decides and capture == "export" and title == "three inputs":
        return " The word cond in the text of a graph can be part of a name, such as second: ask what each node calls."
    if not decides and capture == "script":
        return " A script reads the source text: it has a decision only where the text has a branch or a loop."
    if not decides:
        return " This capture ran the module once and recorded the operators that it met: one way through, unrolled."
    if capture == "trace" and "scripted" in title:
        return " A trace takes a scripted submodule as it is, with its branch: look at the graph, also of a trace."
    if "submodule" in title or "normalisation" in title:
        return " The decision is in a submodule: .graph shows a prim::CallMethod in its place, .inlined_graph shows what is in it."
    if "loop" in title:
        return (
            " A loop is a decision too: it is a prim::Loop in TorchScript and a torch.while_loop in an exported graph."
        )
    return ""


def _inputs_cause(capture: str, title: str, got: list[int], inputs: list[int]) -> str:
    if capture == "export" and title == "a tensor that is not a buffer":
        return (
            " The module's tensor self.shift is a placeholder too, although it is neither a parameter nor a buffer: "
            "program.graph_signature.user_inputs names those of the example."
        )
    if got == [place + 1 for place in inputs] or (got and max(got) > 1):
        where = "weights and buffers" if capture == "export" else "the module itself, self,"
        return f" The graph's first inputs are {where} and not part of the example."
    if set(inputs) < set(got):
        return " Every argument of forward is an input of the graph; that does not mean that a node reads it."
    return ""


# control_flow ------------------------------------------------------------------------------------------------------------------

GATE = MODULE.format(
    extra="",
    init="self.calm, self.loud = nn.Linear(width, width), nn.Linear(width, width)\n"
    "        self.drop, self.limit = nn.Dropout(0.5), limit",
    arguments="x",
    body="        if x.abs().max() > self.limit:\n"
    "            return torch.tanh(self.loud(x)) * self.limit\n"
    "        return self.drop(self.calm(x))",
).replace("def __init__(self)", "def __init__(self, width, limit)")
WIDTHS = (3, 6)


def gate(width: int, rng: np.random.Generator) -> torch.nn.Module:
    """A gate with weights and a limit from ``rng``, in train mode.

    The limit is a binary fraction of four digits after the decimal point, so that an input can hit it exactly, and miss it by little.
    """
    import torch

    model = build(GATE, "gate")(width, (2 * float(rng.integers(10, 24)) + 1) / 16)
    with torch.no_grad():
        for tensor in model.parameters():
            tensor.copy_(torch.from_numpy(rng.uniform(-1, 1, tuple(tensor.shape)).astype(np.float32)))
    return model.train()


def export(module: torch.nn.Module, x: torch.Tensor, path: Path) -> None:
    """Export over the dynamo path, batch dynamic, if it is a module."""
    import torch

    if not isinstance(module, torch.nn.Module):
        came = "None. Is there a return?" if module is None else f"a {type(module).__name__}."
        raise WrongAnswer(f"expected a torch.nn.Module, got {came}")
    exporting.export_dynamo(module, (x,), path, ["x"], ({0: "batch"},), outputs=["y"])


def collect_control_flow(c: Collect) -> None:
    import torch

    function = c.function("control_flow")
    modules = {width: c.attempt(f"width {width}", function, gate(width, c.rng)) for width in WIDTHS}
    for width, module in modules.items():  # all are made before one is exported
        name, path = f"width {width}", c.scratch / f"{width}.onnx"
        c.attempt(name, export, module, torch.full((2, width), 0.25), path)
        c.file(name, path)


def judge_control_flow(v: Judge) -> None:
    references = {width: gate(width, v.rng).eval() for width in WIDTHS}  # first of all, as in collect
    for width, reference in references.items():
        name = f"width {width}"
        with v.require(f"{name}: exports"):
            if error := v.error(name):
                raise WrongAnswer(sentence(error.message, _CAUSES, place=error.place))
            model = v.model(name)
            graphs.expect_inputs(model, ["x"])
            graphs.expect_outputs(model, ["y"])
            graphs.expect_used(model, ["x"])
        with v.require(f"{name}: both ways are in the file"):
            expect_both(model, reference)
            graphs.expect_dynamic(model, "x", [0])
            graphs.expect_valid(model)
        for side, batch in SIDES.items():
            with v.check(f"{name}: {side}, batch of {batch}"):
                x = signal(side, (batch, width), reference.limit, v.rng)
                expect_way(graphs.run(model, {"x": x})[0], reference, x)


def expect_way(got: np.ndarray, reference: torch.nn.Module, x: np.ndarray) -> None:
    """Demand what a gate gives for ``x``."""
    import torch

    with torch.no_grad():
        t, limit = torch.from_numpy(x), reference.limit
        plain, calm = reference.loud(t).numpy(), reference.calm(t).numpy()
        expected = reference(t).numpy()
    loud = np.tanh(plain) * np.float32(limit)
    place = tuple(int(i) for i in np.unravel_index(np.abs(x).argmax(), x.shape))
    other = f"The largest |x| is that of x{list(place)} = {x[place]:g}, and each row and both signs count."
    likely = {
        f"This is what the other way gives. {other}": calm if np.abs(x).max() > limit else loud,
        "The factor gate.limit is missing.": np.tanh(plain),
        "The tanh is missing.": plain * np.float32(limit),
        "The tanh comes after the factor.": np.tanh(plain * np.float32(limit)),
    }
    times = f"{np.abs(x).max() / limit:.6g} × limit"
    expect_close(got, expected, name=f"y where the largest |x| is {times}", likely=likely)


SIDES = {  # with the batch: of one row, the tanh is sometimes 1 or -1 everywhere, and causes look alike
    "loud": 5,
    "calm": 1,
    "at the limit": 4,
    "loud, far below zero": 3,
    "just above the limit": 2,
}


def signal(side: str, shape: tuple[int, ...], limit: float, rng: np.random.Generator) -> np.ndarray:
    """An input whose largest absolute value is above, below or exactly at the limit."""
    x = rng.uniform(-0.9, 0.9, shape).astype(np.float32) * np.float32(limit)
    place = tuple(int(rng.integers(size)) for size in shape)
    if side.startswith("loud,"):  # in the last row, and once in the first: no row alone decides
        place = (shape[0] - 1, place[1])
    elif side == "just above the limit":
        place = (0, place[1])
    if side == "loud":
        x[place] = np.float32(limit * rng.uniform(1.1, 2))
    elif side == "at the limit":
        x[place] = limit
    elif side == "just above the limit":  # exact in float32; float16 and bfloat16 round it to the limit
        x[place] = limit * (1 + 2**-12)
    elif side != "calm":
        x[place] = np.float32(-limit * rng.uniform(1.1, 2))
    return x


_CAUSES = {
    "data-dependent": (
        "torch.export stops at a Python decision on a tensor's value. It has no number for it while it captures. torch.cond takes the "
        "condition as a tensor, and both ways as functions."
    ),
    "ScriptModule": (
        "A ScriptModule was returned. Only the TorchScript path takes one; torch.export does not, and so neither does the dynamo path."
    ),
    "unbacked symbols": (
        "The condition reached torch.cond as a Python bool or number. Leave it a tensor: no bool(), no .item()."
    ),
}


def expect_both(model: onnx.ModelProto, reference: torch.nn.Module) -> None:
    """One If with a layer on either side, none outside, no Dropout, and the weights of the gate."""
    found = graphs.ops(model)
    if found["Dropout"]:
        raise WrongAnswer(
            "The graph has a Dropout node: the module was exported in train mode, so every answer of the file is random. "
            "The gate arrives in train mode; return a module that is ready for inference."
        )
    if not found["If"]:
        layers = sum(found[name] for name in ("Gemm", "MatMul"))
        cause = (
            "Both layers are computed for every input, and one result is thrown away, as torch.where does."
            if layers > 1
            else "One way was taken at the export and is baked in; the other one is not in the file."
        )
        raise WrongAnswer(f"Expected one If node, the graph has none: {', '.join(sorted(found))}. {cause}")
    graphs.expect_ops(model, {"If": 1})
    outside = [node.op_type for node in model.graph.node if node.op_type in ("Gemm", "MatMul")]
    if outside:
        raise WrongAnswer(
            f"{len(outside)} of the layers are outside the If node: they are computed for every input, whichever way it takes."
        )
    (node,) = (node for node in model.graph.node if node.op_type == "If")
    for body in (attribute.g for attribute in node.attribute):
        if not any(inner.op_type in ("Gemm", "MatMul") for inner in body.node):
            names = [inner.op_type for inner in body.node]
            raise WrongAnswer(f"{body.name} has no layer in it, only {names}: each way has to compute its own layer.")
    have = [numpy_helper.to_array(tensor) for tensor in graphs.tensors(model)]
    for name, tensor in reference.named_parameters():
        wanted = tensor.detach().numpy()
        if not any(np.array_equal(array, way) for array in have for way in (wanted, wanted.T)):
            raise WrongAnswer(
                f"The file does not hold {name} of the gate that was given: the layers have other weights."
            )


# frozen ------------------------------------------------------------------------------------------------------------------------

F32, BOOL, I64 = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64
POOL = ("image", "mask", "scale", "factor", "shift", "gain", "level", "bias")


def torchscript(rng: np.random.Generator, names: list[str], kind: str) -> bytes:
    """A model as the TorchScript path really writes it."""
    import torch

    class Model(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
            if kind == "a number taken out":
                return a * b.item() + c
            if kind == "a branch on a value":
                return a + c if b.sum() > 0 else a - c
            return a * b + c

    inputs = tuple(torch.from_numpy(rng.uniform(1, 2, shape).astype(np.float32)) for shape in ((2, 3), (), (3,)))
    buffer = io.BytesIO()
    with exporting.quiet():
        torch.onnx.export(Model(), inputs, buffer, dynamo=False, input_names=names, output_names=["out"])
    return buffer.getvalue()


def made(rng: np.random.Generator, names: list[str], kind: str) -> bytes:
    """A model of ONNX nodes: a chain in which each of the inputs is where ``kind`` puts the second one.

    ``names`` holds three inputs a, b, c; a and c are always used.
    """
    a, b, c = names
    nodes, inputs, initialisers = [helper.make_node("Add", [a, c], ["t0"])], [a, b, c], []
    last, outputs = "t0", ["out"]
    if kind == "used, with a default":
        initialisers.append(numpy_helper.from_array(rng.uniform(1, 2, (1,)).astype(np.float32), b))
        nodes.append(helper.make_node("Mul", [last, b], ["t1"]))
    elif kind == "read by a node that nothing needs":
        nodes += [helper.make_node("Mul", [last, b], ["t1"]), helper.make_node("Dropout", ["t1"], ["t2", ""])]
        nodes.append(helper.make_node("Clip", [last, "", ""], ["t3"]))
    elif kind in ("declared and never read", "an output of the graph, with no node"):
        nodes.append(helper.make_node("Neg", [last], ["t1"]))
        outputs += [b] if "output" in kind else []
    elif kind == "a node's output whose name begins with it":
        nodes.append(helper.make_node("Neg", [last], [f"{b}_1"]))
    elif kind == "the second output needs it":
        nodes += [helper.make_node("Mul", [last, b], ["also"]), helper.make_node("Neg", [last], ["t1"])]
        outputs.append("also")
    elif kind == "the second output of a node needs it":
        nodes += [
            helper.make_node("Concat", [last, b], ["both"], axis=0),
            helper.make_node("Split", ["both"], ["unread", "rest"], axis=0, num_outputs=2),
            helper.make_node("Add", ["rest", last], ["t1"]),
        ]
    elif kind == "a constant of the same name":
        inputs = [a, c]
        initialisers.append(numpy_helper.from_array(rng.uniform(1, 2, (1,)).astype(np.float32), b))
        nodes.append(helper.make_node("Mul", [last, b], ["t1"]))
    elif kind == "a node's output of the same name":
        inputs = [a, c]
        nodes += [helper.make_node("Exp", [last], [b]), helper.make_node("Mul", [last, b], ["t1"])]
    elif kind in BRANCHES:
        then = helper.make_graph([helper.make_node("Mul", [last, b], ["u0"])], "read", [], [_info("u0")])
        for depth in range(1, BRANCHES.index(kind) + 1):
            away = helper.make_node("Abs", [last], [f"w{depth}"])
            other = helper.make_graph([away], "other", [], [_info(f"w{depth}")])
            # The way that reads it is the else branch inside, and the then branch in the main graph.
            nested = helper.make_node("If", ["test"], [f"u{depth}"], then_branch=other, else_branch=then)
            then = helper.make_graph([nested], "around", [], [_info(f"u{depth}")])
        otherwise = helper.make_graph([helper.make_node("Neg", [last], ["n"])], "otherwise", [], [_info("n")])
        initialisers.append(numpy_helper.from_array(np.float32(0), "zero"))
        nodes += [
            helper.make_node("ReduceMax", [last], ["top"], keepdims=0),
            helper.make_node("Greater", ["top", "zero"], ["test"]),
            helper.make_node("If", ["test"], ["t1"], then_branch=then, else_branch=otherwise),
        ]
    else:
        assert kind == "read in a loop"
        state = [helper.make_tensor_value_info(name, dtype, []) for name, dtype in (("i", I64), ("go", BOOL))]
        body = [helper.make_node("Mul", ["s", b], ["s2"]), helper.make_node("Identity", ["go"], ["go2"])]
        ends = [helper.make_tensor_value_info("go2", BOOL, []), _info("s2")]
        loop = helper.make_graph(body, "body", [*state, _info("s")], ends)
        initialisers.append(numpy_helper.from_array(np.int64(rng.integers(2, 5)), "count"))
        nodes.append(helper.make_node("Loop", ["count", "", last], ["t1"], body=loop))
    shown = [_info(name) for name in inputs]
    rng.shuffle(shown)  # the order of a graph's inputs says nothing
    last = nodes[-1].output[0]
    nodes.append(helper.make_node("Relu", [last], ["out"]))
    graph = helper.make_graph(nodes, "g", shown, [_info(name) for name in outputs], initialisers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def _info(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, F32, ["n"])


BRANCHES = (  # one level deeper each
    "read in a branch",
    "read in a branch inside a branch",
    "read in a branch inside a branch inside a branch",
)
TORCHSCRIPT = ("plain arithmetic", "a number taken out", "a branch on a value")
MADE = (
    "declared and never read",
    "a node's output whose name begins with it",
    "read by a node that nothing needs",
    "a constant of the same name",
    "a node's output of the same name",
    *BRANCHES,
    "read in a loop",
    "the second output needs it",
    "the second output of a node needs it",
    "an output of the graph, with no node",
    "used, with a default",
)


def frozen_models(rng: np.random.Generator) -> Iterator[tuple[str, bytes, list[str], str]]:
    """Title, file, the declared names in random order, and which of them the title is about."""
    for kinds, make in ((TORCHSCRIPT, torchscript), (MADE, made)):
        for kind in kinds:
            *names, absent = (str(name) for name in rng.choice(POOL, 4, replace=False))
            data = make(rng, names, kind)
            declared = [*names, absent]
            rng.shuffle(declared)
            yield kind, data, declared, names[1]


def collect_frozen(c: Collect) -> None:
    function = c.function("frozen")
    for title, data, declared, _ in frozen_models(c.rng):
        c.value(title, plain(c.attempt(title, function, data, declared)))


def state(model: onnx.ModelProto, name: str) -> str:
    if name not in [value.name for value in model.graph.input]:
        return "missing"
    return "used" if name in graphs.needed(model) else "unused"


def judge_frozen(v: Judge) -> None:
    for title, data, declared, about in frozen_models(v.rng):
        with v.check(title):
            model, answer = graphs.parse(data), entries(v, title, declared)
            states = {name: state(model, name) for name in declared}
            # Where several names are wrong, what is said must not depend on the order in which they are declared.
            for name in sorted(declared, key=lambda name: (states[name] != "missing", name != about)):
                want, got = states[name], answer[name]
                if got != want:
                    text = helper.printable_graph(model.graph)
                    raise WrongAnswer(
                        f"{title}: {name!r} is {want}, your answer is {got!r}.{_frozen_cause(model, name, want, got)}\n"
                        f"The graph, declared inputs {declared}:\n{textwrap.indent(text, '    ')}"
                    )


def _frozen_cause(model: onnx.ModelProto, name: str, want: str, got: Any) -> str:
    if got not in ("used", "unused", "missing"):
        return " The answers are 'used', 'unused' and 'missing'."
    if want == "missing":
        return " The name is not among graph.input, so it cannot be fed."
    if got == "missing":
        default = any(tensor.name == name for tensor in model.graph.initializer)
        return " The name is among graph.input." + " The initialiser of the same name is its default." * default
    read = any(name in node.input for node in model.graph.node)
    if name in [value.name for value in model.graph.output]:
        return " It is an output of the graph itself."
    if want == "used" and read and len(model.graph.output) > 1:
        return " The graph has two outputs, and one of them depends on it."
    if want == "used" and read and any(len(node.output) > 1 for node in model.graph.node):
        return " A node with two outputs reads it, and the second of them is needed."
    if want == "used" and read:
        return " Go backwards from the graph's outputs, over every node that they need."
    if want == "used":
        return " The body of an If or Loop node reads it from the graph around; it is not among that node's inputs."
    if not read and any(name in other for node in model.graph.node for other in node.output):
        return " No node reads it. The name of another value begins with its name: compare whole names."
    if read:
        omitted = " An empty name is not a value: an optional input or output is left out." * any(
            "" in n.output for n in model.graph.node
        )
        return f" A node reads it, but no output needs that node: go backwards from the graph's outputs.{omitted}"
    return " No node reads it. Being listed in graph.input is not enough."
