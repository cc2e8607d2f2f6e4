"""Which values of two graphs correspond: in the order of the graphs, by kind, by name and, above all, by value."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx

from oplab.debug.model import Wiring, label
from oplab.debug.tapping import tap

_SAMPLES = 512
_CLOSE = 1e-3


@dataclass(frozen=True)
class Item:
    """A value, with what is compared to find its counterpart.

    Attributes:
        name: its name in its own graph.
        real: whether it holds floating-point numbers: 1.0 and an integer 1 are not the same value.
        kinds: the operator that computed it, in words that both graphs use; an item may be of several kinds.
        shape: of the array.
        samples: at most 512 of its values, at places that depend on the shape alone.
        scale: the largest magnitude of the whole array.
    """

    name: str
    real: bool
    kinds: frozenset[str]
    shape: tuple[int, ...]
    samples: np.ndarray
    scale: float


def item(name: str, kinds: Sequence[str], array: np.ndarray) -> Item:
    """An item of an array of any dtype. Values that are not numbers have no samples and match by kind and name."""
    real = array.dtype.kind in "fV"  # V: bfloat16
    if array.dtype.kind not in "biuf":
        return Item(name, real, frozenset(kinds), array.shape, np.empty(0), 0.0)
    flat = array.reshape(-1)
    places = np.linspace(0, flat.size - 1, min(flat.size, _SAMPLES)).astype(np.int64) if flat.size else []
    with np.errstate(invalid="ignore"):
        scale = float(np.nan_to_num(np.abs(flat.astype(np.float64)), posinf=0.0).max(initial=0.0))
    return Item(name, real, frozenset(kinds), array.shape, flat[places].astype(np.float64), scale)


def align(left: Sequence[Item], right: Sequence[Item], fixed: Mapping[int, int | None]) -> list[tuple[int, int]]:
    """Pairs of indices ``(in left, in right)`` that correspond, in the order of ``left``.

    Any other pair than the fixed ones needs equal shapes, dtypes of one kind, and close values or a common kind. Of all ways to pair
    without crossing, the one with the largest sum is taken: 3 for close values, 2 for a common kind, 1 for the same name.

    Args:
        left, right: the values of the two graphs, each in its order.
        fixed: pairs that are known, which may cross; None for an item of ``left`` that has no counterpart.
    """
    score = np.zeros((len(left), len(right)))
    taken = set(fixed.values())
    for i, mine in enumerate(left):
        for j, theirs in enumerate(right):
            if i not in fixed and j not in taken:
                score[i, j] = _score(mine, theirs)
            elif fixed.get(i) == j:
                score[i, j] = 10.0
    best = np.zeros((len(left) + 1, len(right) + 1))
    for i in range(len(left) - 1, -1, -1):
        # Each cell: skip one of ours, skip one of theirs, or pair them. The running maximum from the right is the second.
        paired = np.where(score[i] > 0, score[i] + best[i + 1, 1:], 0.0)
        best[i, :-1] = np.maximum(paired, best[i + 1, :-1])
        best[i] = np.maximum.accumulate(best[i, ::-1])[::-1]
    pairs, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if score[i, j] > 0 and np.isclose(best[i, j], score[i, j] + best[i + 1, j + 1]):
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif np.isclose(best[i, j], best[i + 1, j]):
            i += 1
        else:
            j += 1
    return sorted({*pairs, *((i, j) for i, j in fixed.items() if j is not None)})


def _alike(mine: Item, theirs: Item) -> bool:
    return (mine.shape, mine.real) == (theirs.shape, theirs.real)


def _score(mine: Item, theirs: Item) -> float:
    same_kind = bool(mine.kinds & theirs.kinds)
    if not _alike(mine, theirs):
        return 0.0
    close = 3.0 if _close(mine, theirs) else 0.0
    if not close and not same_kind:
        return 0.0
    return close + (2.0 if same_kind else 0.0) + (1.0 if mine.name == theirs.name else 0.0)


def _close(mine: Item, theirs: Item) -> bool:
    if not mine.samples.size or mine.samples.shape != theirs.samples.shape:
        return False
    with np.errstate(invalid="ignore"):
        gap = np.abs(mine.samples - theirs.samples)
    gap[np.isnan(mine.samples) & np.isnan(theirs.samples)] = 0.0
    gap[mine.samples == theirs.samples] = 0.0
    return bool((gap <= _CLOSE * max(mine.scale, theirs.scale, 1e-30)).all())


@dataclass(frozen=True)
class Coverage:
    """How much of a graph has a counterpart. Nodes that depend on no input, such as constants, are not counted.

    Attributes:
        nodes, of: the number of nodes that have one, and of all.
        share: of the elements of all results, those that have one; None if the results are not known.
        alone: the labels of the nodes that have none, and why.
    """

    nodes: int
    of: int
    share: float | None
    alone: list[tuple[str, str]]

    def text(self) -> str:
        """``3 of 4 nodes, 75% of the elements that they compute``."""
        # Rounded down: 100% is all.
        share = "" if self.share is None else f", {int(100 * self.share)}% of the elements that they compute"
        return f"{self.nodes} of {self.of} nodes{share}"

    def left_out(self) -> list[str]:
        """A line for each reason, with the nodes."""
        return [
            f"Not compared, {why}: {some([name for name, its in self.alone if its == why])}."
            for why in dict.fromkeys(why for _, why in self.alone)
        ]


def some(names: Sequence[str]) -> str:
    """At most six of these names, and how many more there are."""
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")


def coverage(
    wiring: Wiring,
    paired: Collection[str],
    left: Sequence[Item] = (),
    right: Sequence[Item] = (),
) -> Coverage:
    """How much of the graph of ``wiring`` is compared.

    Args:
        wiring: the graph.
        paired: the names of its values that have a counterpart.
        left, right: all its values and those that they could have been paired with; none where they did not run.
    """
    sizes = {mine.name: math.prod(mine.shape) for mine in left}
    known = {mine.name: mine for mine in left}
    counted = {i: wiring.nodes[i] for i in wiring.moving}
    names = [name for node in counted.values() for name in node.output if name]
    alone = []
    for i, node in counted.items():
        outputs = [name for name in node.output if name]
        if not any(name in paired for name in outputs):
            mine = known.get(outputs[0]) if outputs else None
            alone.append((label(node, i), "without a counterpart" if mine is None else _why(mine, right)))
    total = sum(sizes.get(name, 0) for name in names)
    share = sum(sizes.get(name, 0) for name in names if name in paired) / total if total else None
    return Coverage(len(counted) - len(alone), len(counted), share, alone)


def _why(mine: Item, right: Sequence[Item]) -> str:
    if not any(_alike(mine, theirs) for theirs in right):
        return "no counterpart has its shape and kind of dtype"
    if not any(_score(mine, theirs) for theirs in right):
        return "another kind of operation and other numbers"
    return "its counterpart belongs to another node"


def match(
    mine: Wiring,
    theirs: Wiring,
    my_inputs: Mapping[str, np.ndarray],
    their_inputs: Mapping[str, np.ndarray],
    libraries: Sequence[str | os.PathLike[str]] = (),
) -> tuple[dict[str, str], Coverage, int]:
    """The counterparts of a model's values in a reference.

    Outputs correspond in their order. So do values whose own name and whose node's name are both in the reference, whatever the operator.
    If these are all, nothing has to run. Otherwise both run once with every value visible, and the other values are aligned. A node that
    has only one of the names is paired last, if its inputs are.

    Args:
        mine, theirs: the graphs of the model and of the reference.
        my_inputs, their_inputs: arrays by input name.
        libraries: custom-op libraries in addition to the course's own.

    Returns:
        The reference's name of each value that has a counterpart, how much that is, and how often the model ran.
    """
    outputs = dict(zip(mine.outputs, theirs.outputs, strict=True))
    if _same_frame(mine, theirs):
        names = {name: name for name in mine.makers} | outputs
        return names, coverage(mine, names), 0
    fixed = _named_alike(mine, theirs)
    ends = set(outputs.values())
    fixed = {here: there for here, there in fixed.items() if there not in ends} | outputs
    if set(mine.makers) <= set(fixed):
        return fixed, coverage(mine, fixed), 0
    ours = tap(mine, libraries=libraries)(my_inputs)
    others = tap(theirs, libraries=libraries, what="the reference")(their_inputs)
    left = [item(name, [mine.nodes[mine.makers[name]].op_type], ours[name]) for name in mine.makers]
    right = [item(name, [theirs.nodes[theirs.makers[name]].op_type], others[name]) for name in theirs.makers]
    mine_at, theirs_at = ({one.name: i for i, one in enumerate(items)} for items in (left, right))
    known = {mine_at[here]: theirs_at[there] for here, there in fixed.items() if here in mine_at and there in theirs_at}
    names = {left[i].name: right[j].name for i, j in align(left, right, known)} | outputs
    names |= _one_name_alike(mine, theirs, names)
    return names, coverage(mine, names, left, right), 1


def _same_frame(mine: Wiring, theirs: Wiring) -> bool:
    def frame(wiring: Wiring) -> list[tuple]:
        return [(node.op_type, node.domain, tuple(node.output)) for node in wiring.nodes]

    return frame(mine) == frame(theirs) and mine.outputs == theirs.outputs


def _named_alike(mine: Wiring, theirs: Wiring) -> dict[str, str]:
    there = {(node.name, name) for node in theirs.nodes for name in node.output if node.name and name}
    return {name: name for node in mine.nodes for name in node.output if (node.name, name) in there}


def _one_name_alike(mine: Wiring, theirs: Wiring, names: Mapping[str, str]) -> dict[str, str]:
    """Pairs of values that have none yet: of nodes with the same name, or with an output of the same name, and with paired inputs."""
    by_name = {node.name: node for node in theirs.nodes if node.name}
    found, taken = dict(names), set(names.values())
    for node in mine.nodes:
        for name in filter(None, node.output):
            by_output = theirs.nodes[theirs.makers[name]] if name in theirs.makers else None
            for other in filter(None, (by_output, by_name.get(node.name))):
                there = name if other is by_output else other.output[0]
                alone = other is by_output or len(node.output) == len(other.output) == 1
                if name not in found and there not in taken and alone and fed_alike(node, other, mine, theirs, found):
                    found[name] = there
                    taken.add(there)
    return found


def fed_alike(
    node: onnx.NodeProto, other: onnx.NodeProto, mine: Wiring, theirs: Wiring, names: Mapping[str, str]
) -> bool:
    """Whether the inputs of two nodes are partners, one by one; any two constants are."""
    as_inputs = dict(zip(mine.inputs, theirs.inputs, strict=False))
    return len(node.input) == len(other.input) and all(
        here in mine.constants and there in theirs.constants or names.get(here, as_inputs.get(here, "")) == there
        for here, there in zip(node.input, other.input, strict=True)
    )
