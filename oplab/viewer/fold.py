"""Large graphs made small enough to read.

Blocks that repeat one after the other (the layers of a transformer, the stages of a ResNet) are drawn once, in a panel of
their own, and appear in the graph as one box with their number. What is still too long after that is cut in the middle;
the picture states it.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from oplab.viewer.graph import Graph, Node, Param

FOLD_ABOVE = 60  # nodes; smaller graphs are drawn whole
CUT_ABOVE = 150
HEAD, TAIL = 100, 30  # what stays of a graph that is cut
MAX_PERIOD = 400
MAX_CONSTANTS = 8  # nodes that depend on no input; a lesson's picture of a few shows them
MAX_ENDS = 48  # graph inputs, and outputs, that are drawn
MAX_LEAVING = 4  # tensors that leave a folded block; with more, a box hides more than it shows
MAX_WIRES = 16  # edges of a box that represents many nodes
ROUNDS = 6


@dataclass
class Folded:
    """A graph ready to be drawn, and what a reader must know about it."""

    graph: Graph
    notes: list[str] = field(default_factory=list)
    blocks: int = 0


def fold(graph: Graph) -> Folded:
    """Fold what repeats and cut what is left over. A graph of at most :data:`FOLD_ABOVE` nodes comes back as it is, but for nodes that
    compute constants, where there are many.

    Args:
        graph: is not changed. A block's box has the block as its body.
    """
    result = Folded(graph)
    nodes = _without_constants(graph)
    constants = len(graph.nodes) - len(nodes)
    if constants > MAX_CONSTANTS or len(graph.nodes) > FOLD_ABOVE:
        graph = result.graph = dataclasses.replace(graph, nodes=nodes)
        if constants:
            result.notes.append(
                f"{constants:,} nodes that depend on no input are drawn as the constants that they compute."
            )
    if len(graph.nodes) > FOLD_ABOVE:
        for _ in range(ROUNDS):
            found = _best_repeat(nodes)
            if found is None:
                break
            start, period, times = found
            result.blocks += 1
            block = _cut_out(graph, nodes, start, start + period)
            count = sum(_weight(node) for node in nodes[start : start + period])
            ops = Counter(node.title for node in nodes[start : start + period])
            box = Node(f"{times} times the same", times=times, count=count, block=f"repeat {result.blocks}")
            box.attrs = _summary(ops, count)
            box.bodies = [("each", block)]
            nodes = replace_run(graph, nodes, start, start + period * times, box)
        drawn = len(nodes)
        if drawn > CUT_ABOVE:
            nodes, left_out = _cut(graph, nodes)
            result.notes.append(
                f"This picture shows a part of the graph: {left_out:,} of its {len(graph.nodes):,} nodes are left out."
            )
        result.graph = dataclasses.replace(graph, nodes=nodes)
    _limit_ends(result)
    return result


def _without_constants(graph: Graph) -> list[Node]:
    """The nodes, without those that depend on no input: what they compute is a constant of the nodes that read it."""
    if not graph.inputs and not graph.outer:
        return list(graph.nodes)
    outputs, folded = {value.name for value in graph.outputs}, set()
    nodes = []
    for node in graph.nodes:
        reads = {*node.inputs, *node.captures, *(name for _, body in node.bodies for name in body.outer)}
        if reads <= folded and outputs.isdisjoint(node.outputs) and not node.mark:
            folded.update(node.outputs)
        else:
            nodes.append(node)
    return [
        dataclasses.replace(
            node,
            inputs=[name for name in node.inputs if name not in folded],
            captures=[name for name in node.captures if name not in folded],
            params=[*node.params, *(Param("", graph.value(name)) for name in node.inputs if name in folded)],
        )
        for node in nodes
    ]


def _limit_ends(result: Folded) -> None:
    graph = result.graph
    for word, values in (("inputs", graph.inputs), ("outputs", graph.outputs)):
        if len(values) > MAX_ENDS:
            result.notes.append(f"{MAX_ENDS} of the graph's {len(values):,} {word} are drawn.")
    if len(graph.inputs) > MAX_ENDS or len(graph.outputs) > MAX_ENDS:
        hidden = {v.name for v in (*graph.inputs[MAX_ENDS:], *graph.outputs[MAX_ENDS:])}
        produced = {name for node in graph.nodes for name in node.outputs}
        nodes = []
        for node in graph.nodes:
            inputs = [n for n in node.inputs if n in produced or n not in hidden]
            nodes.append(dataclasses.replace(node, inputs=inputs))
        result.graph = dataclasses.replace(
            graph, inputs=graph.inputs[:MAX_ENDS], outputs=graph.outputs[:MAX_ENDS], nodes=nodes
        )


def _summary(ops: Counter[str], count: int) -> list[tuple[str, str]]:
    rows = [(f"{count} nodes", "")]
    return rows + [(f"{n} {name}", "") for name, n in sorted(ops.items(), key=lambda item: (-item[1], item[0]))[:4]]


# --- what repeats ---------------------------------------------------------------------------------------------------


def _best_repeat(nodes: list[Node]) -> tuple[int, int, int] | None:
    """(start, period, times) of the repetition that saves most, or None."""
    kinds: dict[tuple, int] = {}
    ids = np.array([kinds.setdefault(_kind(node), len(kinds)) for node in nodes])
    n = len(ids)
    candidates = []
    for period in range(1, min(n // 2, MAX_PERIOD) + 1):
        same = np.concatenate(([False], ids[:-period] == ids[period:], [False]))
        edges = np.flatnonzero(same[1:] != same[:-1])
        for begin, end in zip(edges[::2], edges[1::2], strict=True):
            length = int(end - begin)
            if length >= period:
                candidates.append((length // period * period, -period, int(begin), length))
    candidates.sort(reverse=True)
    producers = {name: i for i, node in enumerate(nodes) for name in node.outputs}
    best, saved = None, 8  # folding must pay for the panel
    for bound, negative, begin, length in candidates[:400]:
        period = -negative
        if bound <= saved:
            break
        for start in _phases(nodes, producers, begin, period, length):
            times = _verified(nodes, producers, start, period, (begin + length + period - start) // period)
            if times < 2 or (times - 1) * period <= saved or (times == 2 and period < 6):
                continue
            if _leaving(nodes, start, start + times * period) <= MAX_LEAVING:
                best, saved = (start, period, times), (times - 1) * period
                break
    return best


def _leaving(nodes: list[Node], start: int, stop: int) -> int:
    inside = {name for node in nodes[start:stop] for name in node.outputs}
    return len({name for node in nodes[stop:] for name in (*node.inputs, *node.captures) if name in inside})


def _kind(node: Node) -> tuple:
    params = tuple(p.formal for p in node.params)
    return (
        *node.key(),
        tuple(node.attrs),
        params,
        len(node.inputs),
        len(node.outputs),
        len(node.bodies),
        node.block,
        node.mark,
    )


def _phases(nodes: list[Node], producers: dict[str, int], begin: int, period: int, length: int) -> list[int]:
    """Where a block may start, those first at which the fewest tensors cross from one block to the next."""
    offsets = range(min(period, length % period + 1 if length < 2 * period else period))
    last_use: dict[int, int] = {}
    for i in range(begin, min(begin + length + period, len(nodes))):
        for name in nodes[i].inputs:
            if name in producers:
                last_use[producers[name]] = i
    crossing = []
    for offset in offsets:
        border = begin + offset + period
        count = sum(1 for p in range(max(begin - period, 0), border) if last_use.get(p, -1) >= border)
        crossing.append((count, offset))
    return [begin + offset for _, offset in sorted(crossing)[:8]]


def _verified(nodes: list[Node], producers: dict[str, int], start: int, period: int, most: int) -> int:
    """How many blocks in a row are wired like the first: each reads from itself, from the one before, or from outside."""
    times = 1
    while times < most and start + (times + 1) * period <= len(nodes):
        here = start + times * period
        for i in range(here, here + period):
            a, b = nodes[i - period], nodes[i]
            if len(a.inputs) != len(b.inputs) or _kind(a) != _kind(b):
                return times
            for left, right in zip(a.inputs, b.inputs, strict=True):
                p, q = producers.get(left, -1), producers.get(right, -1)
                if q >= start:
                    if p >= start and i - q != i - period - p:
                        return times
                    if p < start and not (times == 1 and q < here):
                        return times
                elif left != right:
                    return times
        times += 1
    return times


# --- taking out and putting in --------------------------------------------------------------------------------------


def _cut_out(graph: Graph, nodes: list[Node], start: int, stop: int) -> Graph:
    """The nodes of a block as a separate graph."""
    part = nodes[start:stop]
    produced = {name for node in part for name in node.outputs}
    needed = _used_outside(graph, nodes, start, stop)
    inputs = dict.fromkeys(n for node in part for n in (*node.inputs, *node.captures) if n not in produced)
    outputs = [name for node in part for name in node.outputs if name in needed]
    block = Graph("", [graph.value(n) for n in inputs], [graph.value(n) for n in outputs], list(part), graph.values)
    block.outer = set(inputs)
    return block


def _used_outside(graph: Graph, nodes: list[Node], start: int, stop: int) -> set[str]:
    used = {value.name for value in graph.outputs}
    for i, node in enumerate(nodes):
        if not start <= i < stop:
            used.update(node.inputs)
            used.update(node.captures)
    return used


def replace_run(graph: Graph, nodes: list[Node], start: int, stop: int, box: Node) -> list[Node]:
    """One box in the place of many nodes, with the tensors that go in and out of them."""
    part = nodes[start:stop]
    produced = {name for node in part for name in node.outputs}
    used = _used_outside(graph, nodes, start, stop)
    box.inputs = list(dict.fromkeys(n for node in part for n in (*node.inputs, *node.captures) if n not in produced))
    box.outputs = [name for node in part for name in node.outputs if name in used]
    return [*nodes[:start], box, *nodes[stop:]]


def _cut(graph: Graph, nodes: list[Node]) -> tuple[list[Node], int]:
    head, middle, tail = nodes[:HEAD], nodes[HEAD : len(nodes) - TAIL], nodes[len(nodes) - TAIL :]
    left_out = sum(_weight(node) for node in middle)
    box = Node(f"… {left_out:,} more nodes …", block="cut")
    result = replace_run(graph, nodes, HEAD, len(nodes) - TAIL, box)
    shown = {name for node in head for name in node.outputs} | {value.name for value in graph.inputs[:MAX_ENDS]}
    wanted = {name for node in tail for name in (*node.inputs, *node.captures)}
    wanted |= {value.name for value in graph.outputs[:MAX_ENDS]}
    inner = set(box.outputs)
    box.inputs = [name for name in box.inputs if name in shown][:MAX_WIRES]
    box.outputs = [name for name in box.outputs if name in wanted][-MAX_LEAVING:]
    box.attrs = _summary(Counter(node.title for node in middle if not node.block), left_out)[1:]
    hidden = inner - set(box.outputs)
    for i, node in enumerate(result[HEAD + 1 :], HEAD + 1):  # tensors of the middle that no line shows are named
        lost = [name for name in node.inputs if name in hidden]
        if lost:
            kept = [name for name in node.inputs if name not in hidden]
            result[i] = dataclasses.replace(node, inputs=kept, far=[*node.far, *lost])
    return result, left_out


def _weight(node: Node) -> int:
    return node.times * node.count if node.times else 1
