"""Two graphs side by side, with what was added, removed or changed.

Nodes are matched by what is above and below them, not by their names: two exports of one model rarely agree on names.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from oplab.viewer import svg, text
from oplab.viewer.digest import weights
from oplab.viewer.fold import replace_run
from oplab.viewer.graph import Graph, Model, Node, Value
from oplab.viewer.source import Source

WHOLE = 40  # nodes; in larger graphs, stretches without a difference are folded
RUN = 4  # unchanged nodes in a row that are worth folding


@dataclass
class Difference:
    """What a comparison found. ``pairs`` are indices of nodes that correspond."""

    pairs: list[tuple[int, int]] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    added: list[int] = field(default_factory=list)
    changed: dict[tuple[int, int], frozenset[str]] = field(default_factory=dict)
    ends: list[str] = field(default_factory=list)  # sentences about the graph's inputs and outputs
    end_marks: tuple[dict[str, str], dict[str, str]] = field(default_factory=lambda: ({}, {}))

    def __bool__(self) -> bool:
        return bool(self.removed or self.added or self.changed or self.ends)


def compare(before: Source, after: Source, title: str | None) -> tuple[str, str, str, str]:
    """The picture of two models, its alternative text, the graphs in words, and the title. See `oplab.viewer.show`."""
    found = difference(before.model.graph, after.model.graph)
    sentence = summary(found, before.model.graph, after.model.graph)
    if not found and weights(before) != weights(after):
        sentence = "The graphs are the same; their weights differ."
    title = title or f"{before.name} → {after.name}"
    left, right = marked(before.model, after.model, found)
    picture = svg.draw_pair((left, "before: " + before.name), (right, "after: " + after.name), title, sentence)
    words = "\n".join(
        [
            f"{title}: {sentence}",
            text.describe(left, "before: " + before.name),
            text.describe(right, "after: " + after.name),
        ]
    )
    alt = f"Two graphs side by side, {title}: {sentence}"
    return picture, alt, words, title


# --- matching -------------------------------------------------------------------------------------------------------


def difference(a: Graph, b: Graph) -> Difference:
    """Match the nodes of two graphs, and say what is left over or differs."""
    result = Difference()
    there: dict[int, int] = {}
    back: dict[int, int] = {}
    for how in (_strict, _loose):
        up_a, down_a = _hashes(a, how)
        up_b, down_b = _hashes(b, how)
        for key_a, key_b in (
            (lambda i, u=up_a, d=down_a: (u[i], d[i]), lambda i, u=up_b, d=down_b: (u[i], d[i])),
            (lambda i, u=up_a: u[i], lambda i, u=up_b: u[i]),
            (lambda i, d=down_a: d[i], lambda i, d=down_b: d[i]),
        ):
            _pair_up(a, b, there, back, key_a, key_b)
    # what is left has differences on both sides; the same operator in the same place between matched nodes is still it
    near_a, near_b = _anchors(a, there), _anchors(b, {j: j for j in back})
    _pair_up(
        a,
        b,
        there,
        back,
        lambda i: (a.nodes[i].key(), near_a[i]),
        lambda j: (b.nodes[j].key(), near_b[j]),
    )
    result.pairs = sorted(there.items())
    result.removed = [i for i in range(len(a.nodes)) if i not in there]
    result.added = [j for j in range(len(b.nodes)) if j not in back]
    places_a, places_b = _places(a), _places(b)
    for i, j in result.pairs:
        left = [places_a.get(name) for name in a.nodes[i].inputs]
        right = [places_b.get(name) for name in b.nodes[j].inputs]
        differs = _differs(a.nodes[i], b.nodes[j]) | _rewired(left, right, there, back)
        if differs:
            result.changed[i, j] = frozenset(differs)
    _compare_ends(a, b, result)
    return result


def _pair_up(
    a: Graph,
    b: Graph,
    there: dict[int, int],
    back: dict[int, int],
    key_a: Callable[[int], object],
    key_b: Callable[[int], object],
) -> None:
    waiting: dict[object, list[int]] = defaultdict(list)
    for j in range(len(b.nodes)):
        if j not in back:
            waiting[key_b(j)].append(j)
    for i in range(len(a.nodes)):
        if i not in there:
            found = waiting.get(key_a(i))
            if found:
                j = found.pop(0)
                there[i], back[j] = j, i


def _strict(node: Node) -> str:
    return repr((node.key(), node.details()))


def _loose(node: Node) -> str:
    return repr(node.key())


def _hashes(graph: Graph, how: Callable[[Node], str]) -> tuple[list[str], list[str]]:
    """For each node, what is above it and what is below it, each as one hash."""
    tensors = {value.name: f"input {k}" for k, value in enumerate(graph.inputs)}
    up: list[str] = []
    for node in graph.nodes:
        mine = _hash(how(node), *(tensors.get(name, "?") for name in node.inputs))
        up.append(mine)
        for k, name in enumerate(node.outputs):
            tensors[name] = f"{mine} {k}"
    users: dict[str, list[str]] = defaultdict(list)
    for k, value in enumerate(graph.outputs):
        users[value.name].append(f"output {k}")
    down = [""] * len(graph.nodes)
    for i in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[i]
        below = [f"{k}:" + ",".join(sorted(users[name])) for k, name in enumerate(node.outputs)]
        down[i] = _hash(how(node), *below)
        for k, name in enumerate(node.inputs):
            users[name].append(f"{down[i]} {k}")
    return up, down


def _hash(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def _anchors(graph: Graph, matched: dict[int, int]) -> list[int]:
    """For each node, which matched node came last before it (as the other graph counts)."""
    result, last = [], -1
    for i in range(len(graph.nodes)):
        result.append(last)
        last = matched.get(i, last)
    return result


def _differs(a: Node, b: Node) -> set[str]:
    names: set[str] = set()
    for left, right in (
        (dict(a.attrs), dict(b.attrs)),
        (
            {p.formal or p.value.name: p.text() for p in a.params},
            {p.formal or p.value.name: p.text() for p in b.params},
        ),
    ):
        names |= {name for name in left.keys() | right.keys() if left.get(name) != right.get(name)}
    return names


Place = tuple[str, int, int]  # "input" or "node", its index, which of its outputs


def _places(graph: Graph) -> dict[str, Place]:
    """Where each tensor comes from."""
    places: dict[str, Place] = {value.name: ("input", k, 0) for k, value in enumerate(graph.inputs)}
    places.update({name: ("node", i, k) for i, node in enumerate(graph.nodes) for k, name in enumerate(node.outputs)})
    return places


def _rewired(
    left: list[Place | None], right: list[Place | None], there: dict[int, int], back: dict[int, int]
) -> set[str]:
    """Does an input come from another place, although both places are in both graphs?"""
    if len(left) != len(right):
        return set()
    for p, q in zip(left, right, strict=True):
        if p is None or q is None or p[0] != q[0]:
            continue
        if p[0] == "node" and (p[1] not in there or q[1] not in back):
            continue
        expected = there[p[1]] if p[0] == "node" else p[1]
        if (expected, p[2]) != (q[1], q[2]):
            return {"inputs"}
    return set()


def _compare_ends(a: Graph, b: Graph, result: Difference) -> None:
    for word, left, right in (("input", a.inputs, b.inputs), ("output", a.outputs, b.outputs)):
        names_a, names_b = {v.name: v for v in left}, {v.name: v for v in right}
        if len(left) == len(right) and not names_a.keys() & names_b.keys():
            continue  # only the names differ: another exporter's taste
        for name in names_a.keys() - names_b.keys():
            result.end_marks[0][name] = "removed"
        for name in names_b.keys() - names_a.keys():
            result.end_marks[1][name] = "added"
        for name in sorted(names_a.keys() - names_b.keys()):
            result.ends.append(f"{word} {name} is gone")
        for name in sorted(names_b.keys() - names_a.keys()):
            result.ends.append(f"{word} {name} is new")
        for name in (v.name for v in left if v.name in names_b):
            if _type(names_a[name]) != _type(names_b[name]):
                result.end_marks[0][name] = result.end_marks[1][name] = "changed"
                result.ends.append(f"{word} {name} is {_type(names_b[name])} instead of {_type(names_a[name])}")


def _type(value: Value) -> str:
    return value.type_text() or "of unknown type"


# --- words and marks ------------------------------------------------------------------------------------------------


def summary(found: Difference, a: Graph, b: Graph) -> str:
    """One line: "3 nodes (2 Mul, 1 Add) replaced by 1 oplab::MyAdd"."""
    if not found:
        return "The graphs are the same."
    removed = [a.nodes[i] for i in found.removed]
    added = [b.nodes[j] for j in found.added]
    parts = []
    if removed and added:
        parts.append(f"{_listed(removed)} replaced by {_listed(added)}")
    elif removed:
        parts.append(f"{_listed(removed)} removed")
    elif added:
        parts.append(f"{_listed(added)} added")
    for (i, _), names in list(found.changed.items())[:3]:
        parts.append(f"{a.nodes[i].title} changed ({', '.join(sorted(names))})")
    if len(found.changed) > 3:
        parts.append(f"{len(found.changed) - 3} more nodes changed")
    return "; ".join([*parts, *found.ends]) + "."


def _listed(nodes: list[Node]) -> str:
    counts = Counter(node.title for node in nodes)
    listed = [f"{n} {name}" for name, n in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    if len(counts) == 1:
        return listed[0]
    more = f", … {len(listed) - 4} more kinds" if len(listed) > 4 else ""
    return f"{len(nodes)} nodes ({', '.join(listed[:4])}{more})"


def marked(before: Model, after: Model, found: Difference) -> tuple[Model, Model]:
    """Copies of both models, ready to be drawn: nodes marked, long stretches without a difference folded."""
    marks_a: dict[int, tuple[str, frozenset[str]]] = {i: ("removed", frozenset()) for i in found.removed}
    marks_b: dict[int, tuple[str, frozenset[str]]] = {j: ("added", frozenset()) for j in found.added}
    for (i, j), names in found.changed.items():
        marks_a[i] = marks_b[j] = ("changed", names)
    fold = max(len(before.graph.nodes), len(after.graph.nodes)) > WHOLE
    return (
        _marked(before, marks_a, found.end_marks[0], fold),
        _marked(after, marks_b, found.end_marks[1], fold),
    )


def _marked(model: Model, marks: dict[int, tuple[str, frozenset[str]]], ends: dict[str, str], fold: bool) -> Model:
    graph = model.graph
    nodes = [
        dataclasses.replace(node, mark=marks[i][0], changed=marks[i][1]) if i in marks else node
        for i, node in enumerate(graph.nodes)
    ]
    if fold and marks:
        nodes = _without_the_same(graph, nodes)
    graph = dataclasses.replace(graph, nodes=nodes, marks=ends)
    return dataclasses.replace(model, graph=graph)


def _without_the_same(graph: Graph, nodes: list[Node]) -> list[Node]:
    """Only differences and their neighbours stay; each other stretch becomes one box."""
    touched = {name for node in nodes if node.mark for name in (*node.inputs, *node.outputs)}
    keep = [bool(node.mark) or not touched.isdisjoint((*node.inputs, *node.outputs)) for node in nodes]
    stop = len(nodes)
    while stop > 0:
        start = stop
        while start > 0 and not keep[start - 1]:
            start -= 1
        if stop - start >= RUN:
            box = Node(f"{stop - start} nodes, the same in both", block="same")
            nodes = replace_run(graph, nodes, start, stop, box)
        stop = start if start < stop else stop - 1
    return nodes
