"""Checks of chapter 20: profiles, graphs, boxes and addresses that are drawn, so that what is wrong in them is known."""

from __future__ import annotations

import json
import math
import os
import statistics
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from oplab.checks.c_functions import c_function
from oplab.checks.draws import Draws
from oplab.checks.evidence import Collect
from oplab.checks.guarded import guarded
from oplab.checks.judge import Judge
from oplab.checks.kernels import announce
from oplab.parity.arrays import WrongAnswer

if TYPE_CHECKING:
    import onnx

WORDS = ("ash", "bay", "cove", "dale", "elm", "fern", "glen", "hill", "isle", "kelp", "loch", "moor", "oak", "reed")


# --- slow_node ---------------------------------------------------------------------------------------------------------


@dataclass
class Profile:
    """What ONNX Runtime has measured.

    Attributes:
        runs: how many there are, with those to warm up.
        calls: for each node and run, the microseconds of its calls.
        bodies: for a node with a body, named after its operator, the nodes in it.
        rest: microseconds from the last node to the end of a run; -1 where rounding has swallowed it.
    """

    warmup: int
    runs: int
    calls: dict[str, list[list[int]]]
    bodies: dict[str, list[str]] = field(default_factory=dict)
    rest: int = 7

    def per_run(self, times: Callable[[Sequence[float]], float], first: int) -> dict[str, float]:
        """Milliseconds of each node: ``times`` of what its calls add up to in each run from ``first`` on."""
        return {name: times([sum(run) for run in runs[first:]]) / 1000 for name, runs in self.calls.items()}


def profiles(rng: Draws) -> dict[str, Profile]:
    """In each, one node is the slowest, and another one seems to be if one rule is forgotten."""

    def profile(warmup: int, runs: int) -> tuple[Profile, list[str]]:
        names = [str(word) for word in rng.permutation(WORDS)[:7]]
        calls = {name: [[int(t)] for t in rng.integers(100, 400, warmup + runs)] for name in names}
        calls[names[0]] = [[int(t)] for t in rng.integers(900, 990, warmup + runs)]  # the slowest
        return Profile(warmup, warmup + runs, calls), names

    plain, _ = profile(0, 5)
    lazy, names = profile(2, 6)
    for run in range(2):
        lazy.calls[names[1]][run] = [int(rng.integers(40_000, 90_000))]
    disturbed, names = profile(1, 7)
    disturbed.calls[names[1]][int(rng.integers(1, 8))] = [int(rng.integers(40_000, 90_000))]
    bodies = {}
    for op in ("Loop", "If", "Scan"):
        bodies[op], names = profile(1, 5)
        bodies[op].calls[names[1]] = [
            [int(t) for t in rng.integers(400, 450, 3 if op != "If" else 1)] for _ in range(6)
        ]
        bodies[op].bodies[op] = names[:4] if op == "If" else names[1:4]
    branch, names = profile(1, 7)
    branch.calls[names[1]] = [[int(rng.integers(5000, 6000))] if run in (2, 5, 6) else [] for run in range(8)]
    late, names = profile(1, 5)
    late.rest = -1
    late.calls[names[0]] = late.calls.pop(names[0])  # the last one
    named, names = profile(2, 4)
    named.calls["conv_kernel_time"] = named.calls.pop(names[0])
    return {
        "a profile without warm-up": plain,
        "a node that is slow in the first two runs": lazy,
        "a run that was disturbed": disturbed,
        **{f"a node with a body, {op}": profile for op, profile in bodies.items()},
        "a node that three of seven runs call": branch,
        "a call that ends 1 µs after its run": late,
        "a node named conv_kernel_time": named,
    }


def events(profile: Profile) -> list[dict[str, Any]]:
    """The events as ONNX Runtime 1.31 writes them: what is inside of another one comes first."""
    made: list[dict[str, Any]] = []

    def event(cat: str, name: str, begin: int, end: int, **args: str) -> None:
        made.append(
            {"cat": cat, "pid": 7, "tid": 7, "dur": end - begin, "ts": begin, "ph": "X", "name": name, "args": args}
        )

    event("Session", "model_loading_array", 20, 700)
    event("Session", "session_initialization", 800, 12_000)
    now = 13_000
    inner = {name for names in profile.bodies.values() for name in names}
    for run in range(profile.runs):
        begin = now

        def call(name: str, run: int = run) -> None:
            nonlocal now
            for duration in profile.calls[name][run]:
                provider = "CPUExecutionProvider"
                event("Node", f"{name}_kernel_time", now, now + duration, op_name="Conv", provider=provider)
                now += duration + 2

        for name in profile.calls:
            if name not in inner:
                call(name)
        for op, names in profile.bodies.items():
            start = now
            for child in names:
                call(child)
            event("Session", "SequentialExecutor::Execute", start, now)
            event("Node", f"{op}_kernel_time", start, now, op_name=op, provider="CPUExecutionProvider")
        event("Session", "SequentialExecutor::Execute", begin, now)
        event("Session", "model_run", begin, now - 2 + profile.rest)
        now += 50
    return made


def collect_slow_node(c: Collect) -> None:
    slow_node = c.function("slow_node")
    for number, (title, profile) in enumerate(profiles(c.rng).items()):
        path = c.scratch / f"{number}.json"
        path.write_text(json.dumps(events(profile)))
        c.value(title, c.attempt(title, slow_node, path, profile.warmup))


def _slowest(times: Mapping[str, float]) -> tuple[str, float]:
    return max(times.items(), key=lambda entry: entry[1])


def judge_slow_node(v: Judge) -> None:
    drawn = profiles(v.rng)
    with v.check("a name and milliseconds"):
        for title in drawn:
            found = v.value(title)
            if type(found) is not list or [type(one) for one in found] != [str, float]:
                raise WrongAnswer(
                    f"{title}: expected a name and a float, got {v.described(title)}: {str(found)[:100]}."
                )
    for what, place in (("the slowest node", 0), ("its time per run", 1)) if v.ok else ():
        with v.check(what):
            for title, profile in drawn.items():
                right, got = _slowest(profile.per_run(statistics.median, profile.warmup)), v.value(title)
                if not _same(got[place], right[place]):
                    raise WrongAnswer(
                        f"{title}: expected {right[place]!r}, got {got[place]!r}. {_cause(profile, got)}".rstrip()
                    )


def _same(got: str | float, right: str | float) -> bool:
    return got == right if isinstance(right, str) else math.isclose(float(got), right, rel_tol=1e-6)


def _cause(profile: Profile, got: list) -> str:
    warmup, calls = profile.warmup, profile.calls
    if got[0] in profile.bodies:
        return "That node has a body, whose nodes are counted, too."
    if got[0] not in calls:
        short = [name for name in calls if str(got[0]).startswith(name) or name.startswith(str(got[0]))]
        return f"The profile is of a node {short[0]!r}." if short else "That is not the name of a node."
    mistakes = {
        "The runs that warm up are included.": profile.per_run(statistics.median, 0),
        "These are totals of all runs, with those that warm up.": profile.per_run(sum, 0),
        "The mean of all runs includes those that warm up.": profile.per_run(statistics.fmean, 0),
        "One disturbed run decides about a mean or a sum: take the median.": profile.per_run(statistics.fmean, warmup),
        "That is the sum of the runs, not the median.": profile.per_run(sum, warmup),
        "That is the longest single call.": {
            name: max([time for run in runs[warmup:] for time in run], default=0) / 1000 for name, runs in calls.items()
        },
        "That is the median of the calls: add up the calls of a run, with 0 for a run without one.": {
            name: statistics.median([time for run in runs[warmup:] for time in run] or [0]) / 1000
            for name, runs in calls.items()
        },
        "A run that does not call the node counts as 0.": {
            name: statistics.median([sum(run) for run in runs[warmup:] if run] or [0]) / 1000
            for name, runs in calls.items()
        },
    }
    for sentence, times in mistakes.items():
        if (name := _slowest(times)[0]) == got[0] and _same(got[1], times[name]):
            return sentence
    return (
        "ts and dur are microseconds."
        if _same(got[1], 1000 * profile.per_run(statistics.median, warmup)[got[0]])
        else ""
    )


# --- keep_the_node -----------------------------------------------------------------------------------------------------

OPTIMISERS = (
    "EliminateIdentity",
    "ConvBNFusion",
    "ConvAddFusion",
    "ConvMulFusion",
    "CommonSubexpressionElimination",
    "ConstantFolding",
    "ConvActivationFusion",
    "MatMulAddFusion",
    "MatMulScaleFusion",
    "MatmulTransposeFusion",
    "GemmActivationFusion",
    "MatMulActivationFusion",
)
IMAGE, ROWS = "float[1, 2, 4, 4]", "float[n, 4]"
# title -> the type of x, the nodes before the custom node, and the one to keep (A, B, C, D)
GRAPHS = {
    "a factor before MatMul": (ROWS, "a = Mul(x, s) |A\n b = MatMul(a, v) |B", "A"),
    "a factor between Conv and MatMul": (IMAGE, "a = Conv(x, w) |A\n c = Mul(a, s) |B\n b = MatMul(c, v) |C", "B"),
    "Relu after Conv": (IMAGE, "a = Conv(x, w) |A\n b = Relu(a) |B", "B"),
    "Conv before Relu": (IMAGE, "a = Conv(x, w) |A\n b = Relu(a) |B", "A"),
    "a normalisation after Conv": (IMAGE, "a = Conv(x, w) |A\n b = BatchNormalization(a, t, t, t, u) |B", "B"),
    "a sum after MatMul": ("float[3, 4]", "a = MatMul(x, v) |A\n c = Add(a, r) |B\n b = Relu(c) |C", "B"),
    "one of two equal nodes": (ROWS, "a = Sin(x) |A\n c = Sin(x) |B\n b = Mul(a, c) |C", "A"),
    "an Identity of a constant": (ROWS, "a = Identity(r) |A\n b = Add(x, a) |B", "A"),
    "a factor after Conv and Identity": (IMAGE, "a = Conv(x, w) |A\n c = Identity(a) |B\n b = Mul(c, s) |C", "C"),
    "the custom node": (ROWS, "a = Mul(x, s) |A\n b = MatMul(a, v) |B", "D"),
    "a node that stays anyway": (ROWS, "a = Softmax(x) |A\n b = MatMul(a, v) |B", "B"),
}


def drawn_graphs(rng: Draws) -> dict[str, tuple[onnx.ModelProto, str]]:
    """Each model, and the name of the node to keep."""
    import onnx
    from onnx import numpy_helper

    made = {}
    for title, (x, nodes, keep) in GRAPHS.items():
        names = dict(zip("ABCD", (f"{word}_{k}" for k, word in enumerate(rng.permutation(WORDS)[:4])), strict=True))
        text = f'<ir_version: 10, opset_import: ["": 20, "oplab": 1]> net ({x} x) => ({x.replace(" 2,", " 3,")} y) {{\n'
        for line in nodes.split("\n"):
            node, letter = line.split(" |")
            text += f"[{names[letter]}] {node}\n"
        model = onnx.parser.parse_model(f"{text} [{names['D']}] y = oplab.MyAdd(b, b)\n }}")
        sizes = {"s": (), "v": (4, 4), "w": (3, 2, 1, 1), "t": (3,), "u": (3,), "r": (4,)}
        read = {name for node in model.graph.node for name in node.input}
        for name, size in sizes.items():
            value = np.asarray(rng.uniform(0.1, 0.9, size), np.float32)
            if name in read:
                model.graph.initializer.append(numpy_helper.from_array(value, name))
        made[title] = model, names[keep]
    return made


def collect_keep_the_node(c: Collect) -> None:
    keep_the_node = c.function("keep_the_node")
    for title, (model, name) in drawn_graphs(c.rng).items():
        before = model.SerializeToString()
        c.value(title, c.attempt(title, keep_the_node, model, name))
        c.value(f"{title}: changed", model.SerializeToString() != before)


def judge_keep_the_node(v: Judge) -> None:
    drawn = drawn_graphs(v.rng)
    with v.require("a list of optimisers"):
        for title in drawn:
            found = v.value(title)
            if type(found) is not list or not all(type(one) is str for one in found):
                raise WrongAnswer(f"{title}: expected a list of names, got {v.described(title)}.")
            if strange := [one for one in found if one not in OPTIMISERS or found.count(one) > 1]:
                raise WrongAnswer(f"{title}: {strange[0]!r} is in the list twice, or not in OPTIMISERS.")
            if v.value(f"{title}: changed"):
                raise WrongAnswer(f"{title}: the model has changed. It is the customer's: only read it.")
    with v.check("the node stays"):
        for title, (model, name) in drawn.items():
            found = v.value(title)
            if not _kept(model, name, found):
                other = next((node.op_type for node in _optimised(model, found).node if node.name == name), None)
                now = f"the node of this name is now {other}" if other else "no node has this name any more"
                more = ""
                if found and "between" in title:
                    more = " Another optimiser takes it as soon as the first is disabled."
                elif "Identity" in title:
                    more = " Two optimisers together take it: begin with all disabled, and enable one after the other."
                raise WrongAnswer(f"{title}: with {found or 'nothing'} disabled, {name!r} is lost: {now}.{more}")
    with v.check("no other optimisation is lost"):
        for title, (model, name) in drawn.items():
            found = v.value(title)
            for one in found:
                if _kept(model, name, [other for other in found if other != one]):
                    every = (
                        " All of them are disabled, and the graph is as slow as before."
                        if len(found) == len(OPTIMISERS)
                        else ""
                    )
                    raise WrongAnswer(f"{title}: {one} need not be disabled, {name!r} stays without that.{every}")


def _kept(model: onnx.ModelProto, name: str, disabled: Sequence[str]) -> bool:
    kinds = [
        (node.op_type, node.domain)
        for graph in (model.graph, _optimised(model, disabled))
        for node in graph.node
        if node.name == name
    ]
    return len(kinds) == 2 and kinds[0] == kinds[1]


def _optimised(model: onnx.ModelProto, disabled: Sequence[str]) -> onnx.GraphProto:
    import onnx
    import onnxruntime

    from oplab.ops import ort_library

    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.register_custom_ops_library(str(ort_library()))
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = f"{folder}/optimised.onnx"
        onnxruntime.InferenceSession(model.SerializeToString(), options, disabled_optimizers=list(disabled))
        return onnx.load(options.optimized_model_filepath).graph


# --- same_boxes --------------------------------------------------------------------------------------------------------

Pair = tuple[np.ndarray, np.ndarray]


def drawn_boxes(rng: Draws) -> dict[str, Pair]:
    """What two engines have found: the second is the first in another order, rounded, with one thing changed."""

    def scene(count: int) -> np.ndarray:
        """Boxes in different cells of a grid of 4 by 4, of different classes in turn."""
        cells = rng.permutation(16)[:count]
        low = np.stack([cells % 4, cells // 4], 1) / 4 + rng.uniform(0.01, 0.03, (count, 2))
        size = rng.uniform(0.1, 0.12, (count, 2))
        return np.column_stack([low, low + size, rng.uniform(0.5, 0.9, count), np.arange(count) % 3])

    def rounded(boxes: np.ndarray) -> np.ndarray:
        """Moved by at most a hundredth of a side, and scores by a hundredth."""
        moved = boxes.copy()
        moved[:, :4] += rng.uniform(-0.001, 0.001, (len(boxes), 4))
        moved[:, 4] += rng.uniform(-0.01, 0.01, len(boxes))
        return moved

    def moved(box: np.ndarray, part: float) -> np.ndarray:
        """To the right by a part of its width: 0.25 is an overlap of 0.6, 0.45 of 0.38."""
        return box + np.array([1, 0, 1, 0, 0, 0]) * part * (box[2] - box[0])

    def changed(row: int, column: int, by: float) -> Pair:
        first = scene(6)
        second = rounded(first)
        second[row, column] = first[row, column] + by
        return first, second[rng.permutation(6)]

    cases: dict[str, Pair] = {}
    first = scene(8)
    cases["another order"] = first, np.roll(rounded(first), 3, axis=0)
    first = scene(7)
    first[:, 5] = 1
    cases["one is missing, one is new, of the same class"] = first[:6], rounded(first)[[4, 6, 2, 1, 5, 0]]
    cases["another class"] = changed(2, 5, 4)
    cases["another score"] = changed(3, 4, 0.06)
    first = scene(5)
    second = rounded(first)
    second[1], second[3] = moved(first[1], 0.25), moved(first[3], 0.45)
    cases["a neighbour that is near, and one that is not"] = first, second[[3, 0, 4, 1, 2]]
    first = scene(4)
    two = np.vstack([moved(first[1], 0.25), rounded(first)])
    two[0, 4] += 0.015  # the row that comes first by its score is not in the best pair
    cases["two boxes where there was one"], cases["one box where there were two"] = (first, two), (two, first)
    first = scene(4)
    first[1] = moved(first[0], 0.35)
    second = first.copy()
    second[0], second[1] = moved(first[0], -0.05), moved(first[1], -0.1)
    cases["two objects side by side"] = first, second[[1, 0, 3, 2]]
    first = scene(6)
    first[[1, 4, 5], 4] = 0.31, 0.36, 0.315
    second = np.vstack([rounded(scene(1)), first[[0, 2, 3, 5]]])
    second[[0, 4], 4] = 0.29, 0.33
    cases["scores near the threshold"] = first, second
    first = scene(3)
    first[0, :4] = 0.25, 0.25, 0.75, 0.75
    cases["an overlap of exactly one half"] = first[:1], first[:1] * [1, 1, 1, 2 / 3, 1, 1]
    first = scene(3)
    first[1, 2] = first[1, 0]
    cases["a box without an area"] = first, first[::-1]
    first = scene(3)
    first[1, 2:4] = first[1, :2] + 5e-4
    cases["a box of a few millionths of the image"] = first, first[::-1]
    cases["nothing was found"] = scene(2), np.zeros((0, 6))
    cases["nothing in either"] = np.zeros((0, 6)), np.zeros((0, 6))
    return {title: (a.astype(np.float32), b.astype(np.float32)) for title, (a, b) in cases.items()}


def _overlap(a: np.ndarray, b: np.ndarray, one: float = 0.0) -> float:
    """The overlap of two rows; ``one`` is added to each side, as programs did for whole pixels."""
    sides = np.minimum(a[2:4], b[2:4]) - np.maximum(a[:2], b[:2]) + one
    both = float(np.clip(sides, 0, None).prod())
    union = float((a[2:4] - a[:2] + one).prod() + (b[2:4] - b[:2] + one).prod()) - both
    return both / union if union > 0 else 0.0


def only_one_has(
    pair: Pair,
    *,
    classes: bool = True,
    scores: bool = True,
    once: bool = True,
    best: bool = True,
    near: float = 0.02,
    early: bool = False,
    half: float = 0.5,
    place: bool = False,
    one: float = 0.0,
) -> list[list[int]]:
    """The right result, or with an argument that of a mistake."""
    a, b = (boxes.astype(np.float64) for boxes in pair)
    partners = [
        (_overlap(x, y, one), i, j)
        for i, x in enumerate(a)
        for j, y in enumerate(b)
        if (not classes or x[5] == y[5]) and (not scores or abs(x[4] - y[4]) <= 0.02) and (not place or i == j)
        if not early or min(abs(x[4] - 0.3), abs(y[4] - 0.3)) > near
    ]
    left, right = set(range(len(a))), set(range(len(b)))
    for overlap, i, j in sorted(partners, reverse=True) if best else partners:
        if overlap >= half and (not once or (i in left and j in right)):
            left.discard(i)
            right.discard(j)
    return [[k for k in sorted(rows) if abs(boxes[k, 4] - 0.3) > near] for rows, boxes in ((left, a), (right, b))]


MISTAKES: dict[str, dict[str, Any]] = {
    "Rows are compared by their place, not by their overlap.": {"place": True},
    "A row has more than one partner.": {"once": False},
    "A row takes the first partner that is good enough: the pair that overlaps most comes first.": {"best": False},
    "The class is not compared.": {"classes": False},
    "The score is not compared.": {"scores": False},
    "A row whose score is near the threshold is in neither list.": {"near": 0.0},
    "Rows near the threshold are left out too early: they can be partners.": {"early": True},
    "An overlap of exactly 0.5 is enough; an epsilon in the union makes it less.": {"half": 0.500001},
    "Sides are computed with + 1, which is for whole pixels.": {"one": 1.0},
}


def collect_same_boxes(c: Collect) -> None:
    same_boxes = c.function("same_boxes")
    for title, pair in drawn_boxes(c.rng).items():
        given = [boxes.copy() for boxes in pair]
        found = c.attempt(title, same_boxes, *given)
        c.value(title, [list(rows) for rows in found] if type(found) is tuple and len(found) == 2 else found)
        c.value(f"{title}: changed", any((x != y).any() for x, y in zip(given, pair, strict=True)))


def judge_same_boxes(v: Judge) -> None:
    drawn = drawn_boxes(v.rng)
    with v.check("two lists of indices"):
        for title in drawn:
            found = v.value(title)
            lists = type(found) is list and len(found) == 2 and all(type(rows) is list for rows in found)
            if not lists or any(type(row) not in (int, float) for rows in found for row in rows):
                raise WrongAnswer(f"{title}: expected two lists of indices, got {v.described(title)}.")
            if v.value(f"{title}: changed"):
                raise WrongAnswer(f"{title}: an argument has changed. Work on a copy.")
    with v.check("the rows that only one has"):
        for title, pair in drawn.items() if v.ok else ():
            right, found = only_one_has(pair), v.value(title)
            if found != right:
                causes = (sentence for sentence, change in MISTAKES.items() if only_one_has(pair, **change) == found)
                raise WrongAnswer(
                    f"{title}: expected {right[0]} of `expected` and {right[1]} of `got`, the function returned {found[0]} and "
                    f"{found[1]}. {next(causes, '')}".rstrip()
                )


# --- crash_report ------------------------------------------------------------------------------------------------------

SIZES = {"all of it": 4096, "a short text": 30, "exactly its length": 0, "no text": -1}


@dataclass(frozen=True)
class Crash:
    """The text of /proc/self/maps, the addresses, and the right report."""

    maps: str
    frames: list[int]
    report: str


def crashes(rng: Draws) -> dict[str, Crash]:
    """Libraries are mapped in four parts with a gap; the offsets in the file are not those in memory in the last part."""
    first, second = (str(word) for word in rng.permutation(WORDS)[:2])
    paths = (
        f"/usr/lib/lib{second}.so.1.old/app",  # begins as the path of a library does
        f"/opt/{first} {second}/lib{first}.so",
        f"/usr/lib/lib{second}.so.1",
        f"/home/lib{first}.so",
    )
    lines, bases, codes, ends = [], [], [], []
    at = 0x5500_0000_0000 + 0x1000 * int(rng.integers(1, 1 << 20))
    for path in paths:
        pages = [int(n) for n in rng.integers(2, 40, 4)]
        bases.append(at)
        offset = 0
        for kind, count in zip(("r--p", "r-xp", "r--p", "rw-p"), pages, strict=True):
            if kind == "r-xp":
                codes.append((at, at + 0x1000 * count))
            if kind == "rw-p":
                at += 0x1000  # as linkers do: the rest of the last page is mapped twice
            lines.append(f"{at:x}-{at + 0x1000 * count:x} {kind} {offset:08x} fd:01 {1500 + len(lines)}    {path}")
            at, offset = at + 0x1000 * count, offset + 0x1000 * count
        ends.append(at)
        lines.append(f"{at:x}-{at + 0x3000:x} rw-p 00000000 00:00 0 ")
        at += 0x3000 + 0x1000 * int(rng.integers(1, 1 << 20))
    stack = at
    lines.append(f"{at:x}-{at + 0x21000:x} rw-p 00000000 00:00 0                          [stack]")
    maps = "\n".join(lines) + "\n"
    names = [path.rsplit("/", 1)[1] for path in paths]

    def inside(file: int) -> int:
        return int(rng.integers(codes[file][0] + 0x10, codes[file][1] - 0x10))

    def crash(*frames: tuple[int | None, int]) -> Crash:
        """Each frame is a file, or None, and an address."""
        report = ""
        for number, (file, address) in enumerate(frames):
            place = address - (number > 0)
            report += f"#{number} {hex(place) if file is None else f'{names[file]}+{hex(place - bases[file])}'}\n"
        return Crash(maps, [address for _, address in frames], report)

    return {
        "a crash in a library": crash((1, inside(1))),
        "with the functions that called it": crash((1, inside(1)), (2, inside(2)), (0, inside(0))),
        "two libraries of one name": crash((3, inside(3)), (1, inside(1)), (3, inside(3))),
        "the first and the last byte of a file": crash(
            (2, bases[2]), (2, ends[2]), (None, ends[2] + 1), (0, codes[0][0] + 1)
        ),
        "a call through a wild pointer": crash((None, 0x10), (1, inside(1)), (None, stack + 0x123), (2, inside(2))),
        "the memory after a library, and a gap": crash((None, codes[0][0] - 0x100_0000), (None, stack - 0x800)),
        "twelve frames": crash(*((file, inside(file)) for file in (0, 1, 2) * 4)),
        "no frames": crash(),
    }


def collect_crash_report(c: Collect) -> None:
    crash_report = c_function(c, "crash_report", "pointer", "pointer", "int64", "pointer", "int64", result="int64")
    for title, crash in crashes(c.rng).items():
        maps = guarded(np.frombuffer(crash.maps.encode() + b"\0", np.uint8))
        frames = guarded(np.array(crash.frames, np.uint64))
        for what, size in SIZES.items():
            announce(f"{title}, {what}")
            size = size or len(crash.report) + 1
            text = guarded(np.full(max(size, 1), ord("?"), np.uint8))
            given = None if size < 0 else text.ctypes.data
            length = crash_report(maps.ctypes.data, frames.ctypes.data, len(crash.frames), given, max(size, 0))
            c.value(f"{title}, {what}: length", int(length))
            c.value(f"{title}, {what}", text.tobytes().split(b"\0")[0].decode(errors="replace"))
    if not os.environ.get("OPLAB_SANITIZE"):
        c.file("library", c.library)


def judge_crash_report(v: Judge) -> None:
    drawn = crashes(v.rng)
    with v.check("files and offsets"):
        for title, crash in drawn.items():
            got, right = (text.split("\n") for text in (v.value(f"{title}, all of it"), crash.report))
            for number, line in enumerate(right):
                found = got[number] if number < len(got) else "nothing"
                if found != line:
                    raise WrongAnswer(
                        f"{title}: expected the line {line!r}, got {found[:100]!r}. {_why(crash, line, found)}".rstrip()
                    )
    with v.check("length and size"):
        for title, crash in drawn.items():
            for what, size in SIZES.items():
                length, size = v.value(f"{title}, {what}: length"), size or len(crash.report) + 1
                if length != len(crash.report):
                    cut = " snprintf returns the length of the whole text, not of what fits." if length < size else ""
                    raise WrongAnswer(
                        f"{title}, {what}: the report has {len(crash.report)} characters, and {length} is returned.{cut}"
                    )
                if size > 0 and v.value(f"{title}, {what}") != crash.report[: size - 1]:
                    raise WrongAnswer(
                        f"{title}, {what}: {size} bytes hold {size - 1} characters of the report and a 0."
                    )
    if v.has("library"):
        with v.check("no memory is allocated"):
            if taken := _imports(v.bytes("library")) & {"malloc", "calloc", "realloc", "_Znwm", "_Znam", "strdup"}:
                raise WrongAnswer(
                    f"The library calls {sorted(taken)[0]}: if the crash came from malloc, the handler waits for it."
                )


def _why(crash: Crash, line: str, found: str) -> str:
    """The likely cause of a line, from the number after its last + or blank."""
    if found == "nothing":
        return "Nothing was written for this frame."
    number, place = int(line[1 : line.index(" ")]), crash.frames[int(line[1 : line.index(" ")])]
    try:
        offset = int(found.replace("+", " ").split()[-1], 16)
    except (ValueError, IndexError):
        return ""
    maps = [entry.split(None, 5) for entry in crash.maps.splitlines()]
    if "+" in line and offset in (place, place - 1):
        return "An address is of no use without where the file was loaded, which is different in each process."
    if number and "+" in line and offset == int(line.split("+")[1], 16) + 1:
        return "A return address is after the call: report the one before it."
    for entry in maps:
        begin, end = (int(part, 16) for part in entry[0].split("-"))
        if "+" in line and begin == place - (number > 0) - offset:
            if begin <= place - (number > 0) < end:
                return "The offset is from the first mapping of the file, not from the mapping of its code."
            return f"The offset is from the mapping of {entry[5]}, which is another path."
    return "The address is in no file." if "+" not in line else ""


def _imports(library: bytes) -> set[str]:
    """The functions that an ELF library takes from others; nothing of another format."""
    from elftools.elf.elffile import ELFFile

    if not library.startswith(b"\x7fELF"):
        return set()
    symbols = ELFFile(BytesIO(library)).get_section_by_name(".dynsym").iter_symbols()
    return {symbol.name for symbol in symbols if symbol["st_shndx"] == "SHN_UNDEF"}
