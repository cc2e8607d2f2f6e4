"""Checks of chapter 15: a part of a model, the first wrong node, other nodes in the place of some.

All models are drawn from the generator, in both halves alike.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from oplab.checks import graphs, nodes
from oplab.checks.evidence import Collect
from oplab.checks.judge import Judge
from oplab.checks.returned import record_model, recorded_model
from oplab.debug import tap
from oplab.onnxtools.names import normal_domain
from oplab.parity.arrays import WrongAnswer, expect_close

WORDS = tuple("ash bay cove dale elm fern glen hill isle june kelp loch moor oak pine reed".split())
CALLS, NAMES, ROUNDING = 12, 8, 1e-3
LIMIT = "errors around the limit"
AGAIN = "the whole, a second time"
PHONE = 5e-6  # the least error that rounding makes: none is 0


# --- shared


def _model(nodes: Sequence[onnx.NodeProto], inputs: Any, outputs: Any, constants: Any, **more: Any) -> onnx.ModelProto:
    graph = helper.make_graph(list(nodes), "net", inputs, outputs, constants, value_info=more.pop("value_info", []))
    imports = [helper.make_opsetid(domain, version) for domain, version in more.pop("imports", {"": 20}).items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def _value(name: str, shape: Sequence[Any]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def _tensor(rng: np.random.Generator, name: str, *shape: int) -> onnx.TensorProto:
    return numpy_helper.from_array(rng.normal(size=shape).astype(np.float32), name)


def _imports(model: onnx.ModelProto) -> dict[str, int]:
    return {normal_domain(entry.domain): entry.version for entry in model.opset_import}


def _names(values: Any) -> list[str]:
    return [value.name for value in values]


def _expect_sorted(model: onnx.ModelProto, what: str) -> None:
    known = {"", *_names(model.graph.input), *_names(model.graph.initializer)}
    made = {name for node in model.graph.node for name in node.output}
    for node in model.graph.node:
        for name in node.input:
            if name not in known:
                why = (
                    "which a later node makes: sort the nodes" if name in made else "which nothing in this model makes"
                )
                raise WrongAnswer(f"{what}: the node {node.name or node.op_type} reads {name!r}, {why}.")
        known |= set(node.output)


# --- extract


def _net(rng: np.random.Generator) -> onnx.ModelProto:
    """14 nodes: two inputs and one with a default, branches, an operator of the domain oplab, one with two outputs.

    One has an input left out. Two nodes have no name, and one value holds booleans.
    """
    words = [str(word) for word in rng.permutation(WORDS)]
    x, z = words.pop(), words.pop()
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def add(op: str, inputs: list[str], count: int = 1, domain: str = "", **attributes: Any) -> list[str]:
        made = [f"{words[-1]}{len(nodes)}_{k}" if count > 1 else f"{words[-1]}{len(nodes)}" for k in range(count)]
        words.insert(0, words.pop())
        name = "" if op in ("Tanh", "Mul") else f"{op.lower()}_{len(nodes)}"  # in ONNX a node's name may be missing
        nodes.append(helper.make_node(op, inputs, made, name, domain=domain, **attributes))
        return made

    def constant(*shape: int) -> str:
        constants.append(_tensor(rng, f"w{len(constants)}", *shape))
        return constants[-1].name

    [a] = add("MatMul", [x, constant(4, 4)])
    [b] = add("Tanh", [z])
    [mixed] = add("MyAdd", [a, b], domain="oplab", alpha=float(np.round(rng.normal(), 2)))
    halves = add("Split", [mixed], 2, axis=1, num_outputs=2)
    [joined] = add("Concat", halves[::-1], axis=1)
    [clipped] = add("Clip", [joined, "", constant()])
    [side] = add("Mul", [b, constant(4)])
    [sum1] = add("Add", [clipped, side])
    [far] = add("Sub", [a, sum1])
    [mask] = add("Greater", [far, z])
    [kept] = add("Where", [mask, far, z])
    [relu] = add("LeakyRelu", [kept], alpha=0.2)
    [again] = add("MatMul", [relu, constant(4, 4)])
    [end] = add("Add", [again, z])
    return _model(
        nodes,
        [_value(x, ["n", 4]), _value(z, ["n", 4]), _value(constants[-1].name, [4, 4])],
        [_value(end, ["n", 4]), _value(sum1, ["n", 4])],
        constants,
        value_info=[_value(mixed, ["n", 4])],  # what shape inference cannot know
        imports={"": int(rng.integers(18, 22)), "oplab": 1},
    )


def _cuts(model: onnx.ModelProto) -> dict[str, tuple[list[str], list[str]]]:
    """Inputs and outputs by name; the last ones name too little."""
    x, z, w = _names(model.graph.input)
    made = [name for node in model.graph.node for name in node.output]
    a, b, mixed, half0, half1, joined, clipped, side, sum1, far, mask, kept, relu, again, end = made
    return {
        "the whole": ([x, z, w], [end, sum1]),
        AGAIN: ([x, z, w], [end, sum1]),
        "after the custom operator": ([mixed, b], [sum1]),
        "from the middle to a custom operator": ([a, z], [mixed]),
        "two outputs, in another order": ([half0, half1, side], [sum1, joined]),
        "an input that is not needed": ([relu, far, z, w], [end]),
        "a branch alone": ([z], [side]),
        "an input of booleans": ([z, mask, far], [kept]),
        "an input that is an output, too": ([clipped, side], [sum1, clipped]),
        "one output of a node with two": ([mixed], [half1]),
        "one input missing": ([mixed], [sum1]),
        "both inputs missing": ([joined], [far]),
        "no input at all": ([w], [end]),
    }


def _needed(
    model: onnx.ModelProto, inputs: Sequence[str], outputs: Sequence[str]
) -> tuple[list[onnx.NodeProto], list[str]]:
    """The nodes that the outputs need, and the graph inputs that are missing."""
    wanted, nodes = set(outputs), []
    for node in reversed(model.graph.node):
        if any(name in wanted for name in node.output if name not in inputs):
            nodes.insert(0, node)
            wanted |= set(node.input)
    return nodes, [name for name in _names(model.graph.input) if name in wanted and name not in inputs]


def collect_extract(c: Collect) -> None:
    extract = c.function("extract")
    model = _net(c.rng)
    for name, (inputs, outputs) in _cuts(model).items():
        kind = tuple if name == "a branch alone" else list  # a Sequence is either
        record_model(c, name, extract, model, kind(inputs), kind(outputs))


def judge_extract(v: Judge) -> None:
    model = _net(v.rng)
    cuts = _cuts(model)
    feeds = {name: v.rng.normal(size=(3, 4)).astype(np.float32) for name in _names(model.graph.input)[:2]}
    feeds[model.graph.input[2].name] = v.rng.normal(size=(4, 4)).astype(np.float32)
    whole = tap(model, [*_names(model.graph.input), *(name for node in model.graph.node for name in node.output)])(
        feeds
    )
    good = {name: cut for name, cut in cuts.items() if not _needed(model, *cut)[1]}
    parts: dict[str, onnx.ModelProto] = {}
    with v.check("returns a model of the values named"):
        for name, (inputs, outputs) in good.items():
            with _after_others(name):
                part = recorded_model(v, name)
                _expect_ends(name, part, inputs, outputs)
            parts[name] = part
    if parts:  # else these would pass without a model
        with v.check("has the nodes that are needed, and no others"):
            for name, part in parts.items():
                with _after_others(name):
                    _expect_nodes(name, part, model, *cuts[name])
        with v.check("has the initialisers that are read"):
            for name, part in parts.items():
                _expect_initialisers(name, part, model, *cuts[name])
        with v.check("keeps versions, and has types"):
            for name, part in parts.items():
                if _imports(part) != _imports(model) or part.ir_version != model.ir_version:
                    raise WrongAnswer(
                        f"{name}: expected IR version {model.ir_version} and the imports {_imports(model)}, got {part.ir_version} and "
                        f"{_imports(part)}."
                    )
                _expect_types(name, part, _bool_values(model))
    if v.ok:
        with v.check("computes the same values"):
            for name, part in parts.items():
                inputs, outputs = cuts[name]
                found = graphs.run(
                    part, {entry: whole[entry] for entry in inputs}, f"{name}: ONNX Runtime", kernels=True
                )
                for output, got in zip(outputs, found, strict=True):
                    expect_close(got, whole[output], name=f"{name}: {output}")
    with v.check("says which inputs are missing"):
        for name, cut in cuts.items():
            missing = _needed(model, *cut)[1]
            if missing:
                _expect_refusal(v, name, cut, missing)


@contextmanager
def _after_others(name: str) -> Iterator[None]:
    """Say what is wrong if a call that was right before is not right any more."""
    try:
        yield
    except WrongAnswer as error:
        why = " The same call was right before: something is left over from it."
        raise type(error)(f"{error}{why if name == AGAIN else ''}") from None


def _called(node: onnx.NodeProto) -> str:
    return node.name or f"{node.op_type} that makes {node.output[0]!r}"


def _expect_ends(name: str, part: onnx.ModelProto, inputs: list[str], outputs: list[str]) -> None:
    for what, wanted, found in (
        ("inputs", inputs, _names(part.graph.input)),
        ("outputs", outputs, _names(part.graph.output)),
    ):
        if found != wanted:
            same = " The order has to be that of the call." if sorted(found) == sorted(wanted) else ""
            lost = (
                " An input that is not needed stays an input." if what == "inputs" and set(found) < set(wanted) else ""
            )
            raise WrongAnswer(f"{name}: expected the graph {what} {wanted}, got {found}.{same or lost}")


def _expect_nodes(
    name: str, part: onnx.ModelProto, model: onnx.ModelProto, inputs: list[str], outputs: list[str]
) -> None:
    wanted = _needed(model, inputs, outputs)[0]
    found = [node.SerializeToString() for node in part.graph.node]
    expected = [node.SerializeToString() for node in wanted]
    extra = [_called(node) for node in part.graph.node if node.SerializeToString() not in expected]
    lacking = [_called(node) for node in wanted if node.SerializeToString() not in found]
    if lacking:
        raise WrongAnswer(f"{name}: {outputs} need the node {lacking[0]}, and the part does not have it as it was.")
    if extra:
        raise WrongAnswer(
            f"{name}: the part has the node {extra[0]}, which comes before its inputs or which no output needs."
        )
    if found != expected:
        came, right = ([*map(_called, nodes)] for nodes in (part.graph.node, wanted))
        raise WrongAnswer(f"{name}: the nodes are in another order, or repeated: {came}, expected {right}.")


def _expect_initialisers(
    name: str, part: onnx.ModelProto, model: onnx.ModelProto, inputs: list[str], outputs: list[str]
) -> None:
    read = {entry for node in _needed(model, inputs, outputs)[0] for entry in node.input} - set(inputs)
    wanted = {tensor.name: tensor.SerializeToString() for tensor in model.graph.initializer if tensor.name in read}
    found = {tensor.name: tensor.SerializeToString() for tensor in part.graph.initializer}
    for entry in sorted(set(found) | set(wanted)):
        if found.get(entry) != wanted.get(entry):
            why = "is read by no node of the part" if entry not in wanted else "is missing or has changed"
            why += ", whose input of this name has no default" if entry in inputs else ""
            raise WrongAnswer(f"{name}: the initialiser {entry!r} {why}.")


def _bool_values(model: onnx.ModelProto) -> set[str]:
    return {name for node in model.graph.node if node.op_type == "Greater" for name in node.output}


def _expect_types(name: str, part: onnx.ModelProto, booleans: Set[str]) -> None:
    for value in [*part.graph.input, *part.graph.output]:
        kind = value.type.tensor_type
        shape = [dim.dim_value or dim.dim_param for dim in kind.shape.dim]
        wide = 2 if "_" in value.name else 4
        wanted = TensorProto.BOOL if value.name in booleans else TensorProto.FLOAT
        rows = 4 if value.name.startswith("w") and value.name[1:].isdigit() else "n"
        if kind.elem_type != wanted or shape != [rows, wide]:
            shown = f"{helper.tensor_dtype_to_np_dtype(kind.elem_type)}{shape}" if kind.elem_type else "no type"
            expected = f"{helper.tensor_dtype_to_np_dtype(wanted)}{[rows, wide]}"
            raise WrongAnswer(
                f"{name}: {value.name!r} has {shown}, expected {expected}. Shape inference, value_info, inputs and outputs know the types."
            )


def _expect_refusal(v: Judge, name: str, cut: tuple[list[str], list[str]], missing: list[str]) -> None:
    error = v.error(name)
    call = f"extract(model, {cut[0]}, {cut[1]})"
    if error is None:
        kind = v.value(f"{name}: type")
        raise WrongAnswer(
            f"{name}: {call} also needs the graph input {missing[0]!r}, but no error was raised: a {kind} came back."
        )
    if error.type != "ValueError":
        raise WrongAnswer(f"{name}: {call} has to raise a ValueError that names {missing}, got {error.message}")
    unnamed = [entry for entry in missing if entry not in error.message]
    if unnamed:
        raise WrongAnswer(f"{name}: the message of the ValueError does not contain {unnamed[0]!r}: {error.message}")


# --- find_the_bug


class Compare:
    """What the learner's function gets: errors by name, with a limit on names and calls."""

    def __init__(self, errors: Mapping[str, float]):
        self._errors = dict(errors)
        self.calls = 0

    def __call__(self, names: Any) -> dict[str, float]:
        names = list(names)
        self.calls += 1
        if self.calls > CALLS:
            raise RuntimeError(f"compare was called for the {CALLS + 1}th time: {CALLS} calls are allowed.")
        for name in names:
            if name not in self._errors:
                raise ValueError(f"compare knows no value {name!r}: it takes the names of values that a node makes.")
        if len(names) > NAMES:
            raise ValueError(f"compare takes at most {NAMES} names, but {len(names)} were given.")
        return {name: self._errors[name] for name in names}


@dataclass(frozen=True)
class _Bug:
    """A model, the place of its first wrong node, and the error of each value that a node makes."""

    title: str
    model: onnx.ModelProto
    place: int
    errors: dict[str, float]


def _bugs(rng: np.random.Generator) -> Iterator[_Bug]:
    """Every case is right as it is built; none is computed and thrown away.

    The fault is never the first node of several, and not the last where something after it has to be wrong too. Where it comes after
    the twelfth, a search that takes one node after the other runs out of calls.
    """
    order = rng.permutation(8).tolist()
    kinds = rng.integers(3, size=100).tolist()
    first, second = (int(rng.integers(low, low + 20)) for low in (12, 41))
    third = second + 2 * int(rng.integers(2, 6))
    for title, place, again in (
        ("eight branches", first, False),
        ("eight other branches", second, True),
        ("the same model with another fault", third, True),
    ):
        # The last two share their names, and the first has others: errors that are kept from one are those of a twin, or of no value.
        model, wrong = _wide(order, kinds, place, again, "other" if again else "value")
        yield _Bug(title, model, place, _errors(rng, model, wrong, title))
    for title, count, first, last in (
        ("one node", 1, 0, 0),
        ("12 nodes", 12, 1, 11),
        ("90 nodes", 90, CALLS, 88),
        ("a NaN among 120 nodes", 120, CALLS, 117),
        ("300 nodes", 300, CALLS, 140),
        ("300 other nodes", 300, CALLS, 299),
        ("the first of 40 nodes", 40, 0, 0),
        ("the last of 40 nodes", 40, 39, 39),
        (LIMIT, 40, 12, 37),
    ):
        place = int(rng.integers(first, last + 1))
        model, wrong = _branches(rng, count, place, hidden_at=149 if title == "300 nodes" else -1)
        yield _Bug(title, model, place, _errors(rng, model, wrong, title))
    place = int(rng.integers(3, 9))
    model, wrong = _twice(40, place)
    yield _Bug("a value that is read twice", model, place, _errors(rng, model, wrong, ""))


def _twice(count: int, place: int) -> tuple[onnx.ModelProto, frozenset[str]]:
    """A chain that rounds what the fault has spoilt away at once; the last node reads the wrong value again."""
    nodes = [
        helper.make_node(
            "Ceil" if k == place + 1 else "Tanh", [f"again_{k - 1}" if k else "x"], [f"again_{k}"], f"n_{k}"
        )
        for k in range(count - 1)
    ]
    nodes.append(helper.make_node("Add", [f"again_{count - 2}", f"again_{place}"], ["end"], "last"))
    return _model(nodes, [_value("x", ["n", 6])], [_value("end", ["n", 6])], []), frozenset({f"again_{place}", "end"})


def _wide(
    order: Sequence[int], kinds: Sequence[int], place: int, again: bool, word: str
) -> tuple[onnx.ModelProto, frozenset[str]]:
    """Nodes in eight branches that meet at the end, and the values that a fault at ``place`` spoils, as in :func:`_branches`.

    Args:
        order: the branches; the fault is in the first.
        kinds: one number below 3 for each node.
        again: every second node is in the branch of the fault, so the wrong value is always among the two newest of the eight that
            are still needed, and the model is the same for all even, or all odd, places. Else that branch rests after the fault, so
            its value is soon the oldest of them.
        word: begins the name of each value.
    """
    nodes: list[onnx.NodeProto] = []
    heads, wrong = ["x"] * 8, set()

    def add(op: str, inputs: list[str]) -> str:
        made = f"{word}_{len(nodes)}"
        if len(nodes) == place or wrong.intersection(inputs):
            wrong.add(made)
        nodes.append(helper.make_node(op, inputs, [made], name=f"node_{len(nodes)}"))
        return made

    for step in range(len(kinds) - 7):
        k = order[step % 8]
        if step >= 8:
            own = step % 2 == place % 2 if again else step == place
            k = order[0] if own else order[1 + (step // 2 if again else step) % 7]
        heads[k] = add(("Neg", "Softsign", "Tanh")[kinds[step]], [heads[k]])
    last = heads[0]
    for head in heads[1:]:
        last = add("Add", [last, head])
    return _model(nodes, [_value("x", ["n", 6])], [_value(last, ["n", 6])], []), frozenset(wrong)


def _branches(
    rng: np.random.Generator, count: int, place: int, hidden_at: int
) -> tuple[onnx.ModelProto, frozenset[str]]:
    """``count`` nodes in three branches, which meet now and then and all in the end, and the values that a fault at ``place`` spoils.

    Each node reads the last value of a branch, so at most three values are still needed after any node, each node reaches the output,
    and so does the fault. No operator swallows an error or a NaN: wrong is what the fault makes and what reads something wrong.

    Args:
        hidden_at: the node at this place makes a right value, although the fault is before it: a search that looks at one value at a
            time is misled. -1 for nowhere.
    """
    nodes: list[onnx.NodeProto] = []
    constants = [numpy_helper.from_array(rng.normal(size=6).astype(np.float32), "bias")]
    heads = ["x", "x", "x"]
    wrong: set[str] = set()
    clean = int(rng.integers(3))  # until hidden_at the fault does not get into this branch

    def add(op: str, inputs: list[str], **attributes: Any) -> str:
        made = f"{WORDS[int(rng.integers(len(WORDS)))]}_{len(nodes)}"
        if len(nodes) == place or wrong.intersection(inputs):
            wrong.add(made)
        nodes.append(helper.make_node(op, inputs, [made], name=f"{op.lower()}_{len(nodes)}", **attributes))
        return made

    while len(nodes) < count - 2:
        k, draw = int(rng.integers(3)), rng.random()
        hiding = len(nodes) <= hidden_at
        if len(nodes) == hidden_at:
            k = clean
        elif len(nodes) == place and hiding and k == clean:
            k = (clean + 1) % 3
        if draw >= 0.9 and not (hiding and k == clean):
            heads[k] = add("Add", [heads[k], heads[(k + 1) % 3]])
        elif draw < 0.3:
            weight = (rng.normal(size=(6, 6)) / 2).astype(np.float32)
            constants.append(numpy_helper.from_array(weight, f"w{len(constants)}"))
            heads[k] = add("MatMul", [heads[k], constants[-1].name])
        elif draw < 0.5:
            heads[k] = add("LeakyRelu", [heads[k]], alpha=0.5)
        elif draw < 0.65:
            heads[k] = add("Softsign", [heads[k]])
        elif draw < 0.8:
            heads[k] = add("Add", [heads[k], "bias"])
        else:
            heads[k] = add("Neg", [heads[k]])
    if count >= 3:
        last = add("Sub", [add("Add", [heads[0], heads[1]]), heads[2]])
    else:
        last = add("Add", ["x", "bias"])
    read = {name for node in nodes for name in node.input}
    used = [tensor for tensor in constants if tensor.name in read]
    return _model(nodes, [_value("x", ["n", 6])], [_value(last, ["n", 6])], used), frozenset(wrong)


def _errors(rng: np.random.Generator, model: onnx.ModelProto, wrong: Set[str], title: str) -> dict[str, float]:
    """What a phone would show: 50 times below the limit where a value is right, 10 times above it where it is wrong, or NaN.

    In the case :data:`LIMIT` a right value's error is exactly the limit, and a wrong one's is up to 1.4 times that.
    """
    names = [node.output[0] for node in model.graph.node]
    small = PHONE * 4.0 ** rng.uniform(size=len(names))
    large = 10.0 ** rng.uniform(-2, 0, size=len(names))
    if title == LIMIT:
        small, large = np.full(len(names), ROUNDING), ROUNDING * rng.uniform(1.1, 1.4, len(names))
    return {
        name: (math.nan if "NaN" in title else float(large[k])) if name in wrong else float(small[k])
        for k, name in enumerate(names)
    }


def collect_find_the_bug(c: Collect) -> None:
    find = c.function("find_the_bug")
    for bug in _bugs(c.rng):
        compare = Compare(bug.errors)
        c.value(bug.title, c.attempt(bug.title, find, bug.model, compare))
        c.value(f"{bug.title}: calls", compare.calls)


def judge_find_the_bug(v: Judge) -> None:
    bugs = list(_bugs(v.rng))
    with v.require("names a node of the model"):
        for bug in bugs:
            answer, nodes = v.value(bug.title), bug.model.graph.node
            if type(answer) is not str or answer not in _names(nodes):
                shown = "None. Is there a return?" if answer is None else repr(answer)[:80]
                cause = (
                    " That is the name of a value; the node that produces it has its own name."
                    if type(answer) is str and answer in bug.errors
                    else ""
                )
                raise WrongAnswer(
                    f"{bug.title}: expected the name of a node, for example {nodes[0].name!r}, got {shown}{cause}"
                )
    with v.check("names the first wrong node"):
        for bug in bugs:
            _expect_node(bug, v.value(bug.title), bugs)
    with v.check(f"needs at most {CALLS} calls"):
        for bug in bugs:
            calls = v.value(f"{bug.title}: calls")
            if type(calls) is not int or calls > CALLS:
                raise WrongAnswer(f"{bug.title}: {calls} calls of compare, {CALLS} are allowed.")


def _expect_node(bug: _Bug, answer: str, bugs: Sequence[_Bug]) -> None:
    name, nodes, errors = bug.title, list(bug.model.graph.node), bug.errors
    expected = nodes[bug.place]
    if answer == expected.name:
        return
    given = next(node for node in nodes if node.name == answer)
    error = errors[given.output[0]]
    why = ""
    if any(other.model == bug.model and nodes[other.place].name == answer for other in bugs):
        why = " It is the first wrong node of a model with the same names: are errors kept from one call to the next?"
    elif abs(nodes.index(given) - bug.place) == 1 and 0 < bug.place < len(nodes) - 1:
        why = " The two are next to each other in the list: is the search one too far?"
    elif bug.place in (0, len(nodes) - 1) and len(nodes) > 1:
        why = f" It is the {'last' if bug.place else 'first'} one: any node can be the wrong one."
    if error <= ROUNDING:
        early = nodes.index(given) < bug.place
        if error == ROUNDING and not why:
            why = " An error of exactly 1e-3 is rounding, too: error <= 1e-3." if early else f" {_above(bug)}"
        elif not early and not why:
            why = " After it the fault was not seen: ask for all values that are still needed, in every branch."
            if np.isnan(list(errors.values())).any():
                why += " And Python's max loses a NaN that does not come first."
        after = " It comes before the fault." if early else " It is in another branch."
        raise WrongAnswer(
            f"{name}: the result of {answer} is right (error {error:.1e}).{after} The first wrong node is {expected.name}.{why}"
        )
    spoilt = next(entry for entry in given.input if not errors.get(entry, 0.0) <= ROUNDING)
    if not why:
        why = " Ask for all values that are still needed after a node: the fault may be in a branch that fewer values do not show."
        if any(map(math.isnan, errors.values())):
            why = f" An error of NaN is wrong, too, and `nan > 1e-3` is False.{why}"
        if name == LIMIT:
            why = f" {_above(bug)}"
    raise WrongAnswer(
        f"{name}: {answer} is wrong, but so is {spoilt!r}, which it reads. The first wrong node is {expected.name}.{why}"
    )


def _above(bug: _Bug) -> str:
    value = bug.model.graph.node[bug.place].output[0]
    return f"The error of {value!r} is {bug.errors[value]:.3g}: whatever is above 1e-3 is wrong."


# --- replace_subgraph


class _Builder:
    """A model with groups and with what looks like one."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.names = [
            f"{word}{i}" for i, word in enumerate(WORDS * 4)
        ]  # the same in each model: nothing may be kept by name
        self.named = True  # in ONNX a node's name may be missing

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        made = self.names.pop()
        name = f"node_{made}" if self.named else None
        self.nodes.append(helper.make_node(op, list(inputs), [made], name=name, **attributes))
        return made

    def number(self, *shape: int, value: float | None = None) -> str:
        drawn = np.round(self.rng.normal() * 3, 3)
        value = np.full(shape, drawn if value is None else value, np.float32)
        self.constants.append(numpy_helper.from_array(value, f"number_{len(self.constants)}"))
        return self.constants[-1].name

    def scaled(self, value: str, *shape: int) -> str:
        pair = [self.number(*shape), value]
        return self.node("Mul", *(pair if self.rng.random() < 0.5 else pair[::-1]))

    def group(self, a: str, b: str) -> str:
        return self.node("Add", self.scaled(a), self.scaled(b, 1))


def _models(rng: np.random.Generator) -> dict[str, onnx.ModelProto]:
    """Models by name, with what a graph of that kind calls for."""
    made: dict[str, onnx.ModelProto] = {}

    def build(name: str, fill: Any, imports: dict[str, int] | None = None, known: bool = True) -> None:
        builder = _Builder(rng)
        last = fill(builder)
        outputs = last if isinstance(last, list) else [last]
        inputs = [_value("a", ["n", 4]), _value("b", ["n", 4]), _value("row", [1, 4]), _value("m", ["k", 4])]
        inputs += [_value("u", [None, 4]), _value("w", [None, 4]), _value("flat", [4])]
        read = {entry for node in builder.nodes for entry in node.input}
        model = _model(
            builder.nodes,
            [value for value in inputs if value.name in read],
            [
                helper.make_tensor_value_info(output, TensorProto.FLOAT, None if known else ["n", 4])
                for output in outputs
            ],
            builder.constants,
            value_info=[_value(node.output[0], ["n", 4]) for node in builder.nodes if node.domain and known],
            imports=imports or {"": int(rng.integers(18, 22))},
        )
        made[name] = onnx.shape_inference.infer_shapes(model)

    build("one group", lambda m: m.group("a", "b"))
    build("a group between others", lambda m: m.node("Tanh", m.group(m.node("Relu", "a"), m.node("Neg", "b"))))
    build("a group inside a group", lambda m: m.group(m.group("a", "b"), m.node("Tanh", "a")))
    build("no group", lambda m: m.node("Add", m.scaled("a"), m.node("Tanh", "b")))
    build("a product that others read", _shared)
    build("a product that is an output", _also_output)
    build("shapes that broadcast", lambda m: m.node("Add", m.group("a", "row"), m.group("b", "a")))
    build(
        "axes of other names",
        lambda m: m.node("MatMul", m.group("a", "b"), m.node("Transpose", m.group("m", "m"), perm=[1, 0])),
    )
    build("products with a vector", lambda m: m.node("Add", m.node("Mul", "a", m.number(4)), m.scaled("b")))
    build("a number that others read", _number_shared)
    build("a domain that is imported already", _imported, {"": 20, "oplab": 1})
    build("axes without names", lambda m: m.node("Add", m.group("u", "w"), m.node("Neg", "u")))
    build("another rank", lambda m: m.group("a", "flat"))
    build("a number with two axes", lambda m: m.node("Add", m.scaled("flat", 1, 1), m.scaled("flat")))
    build("shapes that cannot be inferred", _unknown, {"": 20, "oplab": 1}, known=False)
    build("a difference", lambda m: m.node("Sub", m.scaled("a"), m.scaled("b")))
    build("quotients", lambda m: m.node("Add", m.node("Div", "a", m.number()), m.node("Div", "b", m.number())))
    build("three terms, and a domain that is not used", _three, {"": 19, "com.microsoft": 1})
    build("the numbers 0 and 1", lambda m: m.node("Neg", _with_numbers(m, 0.0, 1.0)))
    build("nodes without names", _unnamed)
    return made


def _shared(m: _Builder) -> str:
    product = m.scaled("a")
    return m.node("Mul", m.node("Add", product, m.scaled("b")), product)


def _also_output(m: _Builder) -> list[str]:
    product = m.scaled("a")
    return [m.node("Add", product, m.scaled("b")), product, m.group("b", "a")]


def _number_shared(m: _Builder) -> str:
    number = m.number()
    total = m.node("Add", m.node("Mul", "a", number), m.scaled(m.node("Tanh", "b")))
    return m.node("Sub", total, number)


def _unknown(m: _Builder) -> str:
    return m.group(*(m.node("MyAdd", *ends, domain="oplab") for ends in (("a", "b"), ("b", "a"))))


def _three(m: _Builder) -> str:
    return m.node("Add", m.group("a", "b"), m.scaled("a"))


def _with_numbers(m: _Builder, p: float, q: float) -> str:
    return m.node("Add", m.node("Mul", m.number(value=p), "a"), m.node("Mul", "b", m.number(1, value=q)))


def _unnamed(m: _Builder) -> str:
    m.named = False
    return m.group(m.node("Tanh", "a"), m.node("Relu", m.group("a", "b")))


def _imported(m: _Builder) -> str:
    old = m.node("MyAdd", "a", "b", domain="oplab", alpha=0.5)
    return m.group(old, "b")


def _shape(model: onnx.ModelProto, name: str) -> list[Any] | None:
    for value in [*model.graph.input, *model.graph.value_info, *model.graph.output]:
        if value.name == name and value.type.tensor_type.HasField("shape"):
            dims = value.type.tensor_type.shape.dim
            return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or object() for dim in dims]
    return None


def _groups(model: onnx.ModelProto) -> dict[str, tuple[str, str, float, float]]:
    """What each group that can go computes: the name of its result, with a, b, p, q."""
    numbers = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    single = {name for name, number in numbers.items() if number.shape in ((), (1,))}
    makers = {node.output[0]: node for node in model.graph.node}
    reads = Counter(name for node in model.graph.node for name in node.input) + Counter(_names(model.graph.output))
    found = {}
    for node in model.graph.node:
        factors = []
        for name in node.input if node.op_type == "Add" else ():
            product = makers.get(name)
            if product is not None and product.op_type == "Mul" and reads[name] == 1:
                number = [entry for entry in product.input if entry in single]
                value = [entry for entry in product.input if entry not in numbers]
                if number and value:
                    factors.append((value[0], numbers[number[0]].item()))
        if len(factors) == 2 and _shape(model, factors[0][0]) == _shape(model, factors[1][0]) is not None:
            found[node.output[0]] = (factors[0][0], factors[1][0], factors[0][1], factors[1][1])
    return found


def collect_replace_subgraph(c: Collect) -> None:
    replace_subgraph = c.function("replace_subgraph")
    for name, model in _models(c.rng).items():
        record_model(c, name, replace_subgraph, model)


def judge_replace_subgraph(v: Judge) -> None:
    models = _models(v.rng)
    found: dict[str, onnx.ModelProto] = {}
    with v.check("returns a model with the same inputs and outputs"):
        for name, model in models.items():
            got = recorded_model(v, name)
            for what, wanted, came in (
                ("inputs", _names(model.graph.input), _names(got.graph.input)),
                ("outputs", _names(model.graph.output), _names(got.graph.output)),
            ):
                if wanted != came:
                    raise WrongAnswer(f"{name}: expected the graph {what} {wanted}, got {came}.")
            found[name] = got
    if not found:  # the rest would pass without a model
        return
    with v.check("replaces the groups that can go, and no others"):
        gone: set[str] = set()
        for name, got in found.items():
            _expect_groups(name, models[name], got, gone)
            gone |= {node.output[0] for node in models[name].graph.node} - {
                entry for node in got.graph.node for entry in node.output
            }
    with v.check("the nodes are in order"):
        for name, got in found.items():
            _expect_sorted(got, name)
    with v.check("imports what it uses"):
        for name, got in found.items():
            uses = any(node.domain == "oplab" for node in got.graph.node)
            wanted = _imports(models[name]) | ({"oplab": 1} if uses else {})
            if _imports(got) != wanted or len(got.opset_import) != len(wanted):
                listed = [(entry.domain, entry.version) for entry in got.opset_import]
                raise WrongAnswer(f"{name}: expected the imports {wanted}, got {listed}.")
    with v.check("nothing is left of what is gone"):
        for name, got in found.items():
            _expect_clean(name, got)
    if v.ok:
        with v.check("computes the same"):
            for name, got in found.items():
                graphs.expect_valid(got)
                sizes = {"": 3, "n": int(v.rng.integers(2, 6)), "k": int(v.rng.integers(2, 6))}
                feeds = {
                    value.name: v.rng.normal(
                        size=[dim.dim_value or sizes[dim.dim_param] for dim in value.type.tensor_type.shape.dim]
                    ).astype(np.float32)
                    for value in got.graph.input
                }
                before, after = (
                    graphs.run(of, feeds, f"{name}: ONNX Runtime", kernels=True) for of in (models[name], got)
                )
                for output, left, right in zip(_names(got.graph.output), before, after, strict=True):
                    expect_close(right, left, name=f"{name}: {output}", rtol=1e-4, atol=1e-4)


def _expect_groups(name: str, model: onnx.ModelProto, got: onnx.ModelProto, gone: Set[str]) -> None:
    """Demand that the groups that can go are gone, and nothing else; ``gone`` are values that earlier models have lost."""
    groups = _groups(model)
    before = {node.output[0]: node for node in model.graph.node}
    after = {entry: node for node in got.graph.node for entry in node.output}
    for result, (a, b, p, q) in groups.items():
        node = after.get(result)
        group = f"{name}: {result!r} is {p:.4g} * {a} + {q:.4g} * {b}"
        if node is None or (node.domain, node.op_type) != ("oplab", "MyAdd"):
            who = "no node" if node is None else f"a node {node.domain or 'ai.onnx'}::{node.op_type}"
            raise WrongAnswer(f"{group}, a group that can go, but {who} produces it.")
        given = {"alpha": 3.0, "beta": 2.0, **nodes.attributes(node)}
        pair = list(zip(node.input, (given["alpha"], given["beta"]), strict=False))
        if not any(
            [x for x, _ in pair] == [x for x, _ in way] and np.allclose([p for _, p in pair], [p for _, p in way], 1e-6)
            for way in ([(a, p), (b, q)], [(b, q), (a, p)])
        ):
            shown = " + ".join(f"{factor:.4g} * {value}" for value, factor in pair)
            raise WrongAnswer(f"{group}, but the new node computes {shown}.")
    for result, node in after.items():
        if node.op_type == "MyAdd" and result not in groups and before.get(result) != node:
            raise WrongAnswer(f"{name}: {result!r} must not be made by a MyAdd: {_why_not(model, result)}.")
    products = {entry for result in groups for entry in before[result].input}
    for result, node in before.items():
        if result not in groups and result not in products and after.get(result) != node:
            kept = " Is something kept from one call to the next?" if result in gone and result not in after else ""
            raise WrongAnswer(
                f"{name}: the node {_called(node)}, which belongs to no group that can go, is missing or was changed.{kept}"
            )
        if result in products and result in after:
            raise WrongAnswer(f"{name}: the product {result!r} is still there, although it is not read any more.")
    if len(got.graph.node) != len(model.graph.node) - 2 * len(groups):
        raise WrongAnswer(
            f"{name}: expected {len(model.graph.node) - 2 * len(groups)} nodes, got {len(got.graph.node)}."
        )


def _why_not(model: onnx.ModelProto, result: str) -> str:
    makers = {entry: node for node in model.graph.node for entry in node.output}
    add = makers.get(result)
    if add is None or add.op_type != "Add":
        return f"it was made by {add.op_type}, not by Add" if add is not None else "it was not an Add"
    reads = Counter(name for node in model.graph.node for name in node.input) + Counter(_names(model.graph.output))
    numbers = {tensor.name: tensor for tensor in model.graph.initializer}
    values = []
    for name in add.input:
        product = makers.get(name)
        if product is None or product.op_type != "Mul":
            return f"{name!r} is made by {'no node' if product is None else product.op_type}, not by Mul"
        if reads[name] > 1:
            ends = name in _names(model.graph.output)
            return f"its product {name!r} is {'an output of the model' if ends else 'read by another node, too'}"
        if not any(entry in numbers and math.prod(numbers[entry].dims) == 1 for entry in product.input):
            return f"one of its products is not a product with a single number: {name!r}"
        if any(entry in numbers and len(numbers[entry].dims) > 1 for entry in product.input):
            return f"the number of {name!r} has two axes and the value has one, so the product has two"
        values += [entry for entry in product.input if entry not in numbers]
    shapes = [
        "unknown" if shape is None else str([dim if isinstance(dim, (int, str)) else "?" for dim in shape])
        for shape in (_shape(model, value) for value in values)
    ]
    return f"its two values have shapes that are not known to be equal, {' and '.join(shapes)}"


def _expect_clean(name: str, got: onnx.ModelProto) -> None:
    read = {entry for node in got.graph.node for entry in node.input} | set(_names(got.graph.output))
    for tensor in got.graph.initializer:
        if tensor.name not in read:
            raise WrongAnswer(f"{name}: the initialiser {tensor.name!r} is still in the file, and it is not read.")
    values = {entry for node in got.graph.node for entry in node.output} | set(_names(got.graph.input)) | read
    for value in got.graph.value_info:
        if value.name not in values:
            raise WrongAnswer(f"{name}: value_info still names {value.name!r}, which no node produces any more.")
