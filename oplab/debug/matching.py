"""Which values of two graphs correspond: in the order of the graphs, by kind, by name and, above all, by value."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from oplab.debug.model import Wiring
from oplab.debug.tapping import tap

_SAMPLES = 512
_CLOSE = 1e-3


@dataclass(frozen=True)
class Item:
    """A value, with what is compared to find its counterpart.

    Attributes:
        name: its name in its own graph.
        kinds: the operator that computed it, in words that both graphs use; an item may be of several kinds.
        shape: of the array.
        samples: at most 512 of its values, at places that depend on the shape alone.
        scale: the largest magnitude of the whole array.
    """

    name: str
    kinds: frozenset[str]
    shape: tuple[int, ...]
    samples: np.ndarray
    scale: float


def item(name: str, kinds: Sequence[str], array: np.ndarray) -> Item:
    """An item of an array of any dtype. Values that are not numbers have no samples and match by kind and name."""
    if array.dtype.kind not in "biuf":
        return Item(name, frozenset(kinds), array.shape, np.empty(0), 0.0)
    flat = array.reshape(-1)
    places = np.linspace(0, flat.size - 1, min(flat.size, _SAMPLES)).astype(np.int64) if flat.size else []
    with np.errstate(invalid="ignore"):
        scale = float(np.nan_to_num(np.abs(flat.astype(np.float64)), posinf=0.0).max(initial=0.0))
    return Item(name, frozenset(kinds), array.shape, flat[places].astype(np.float64), scale)


def align(left: Sequence[Item], right: Sequence[Item]) -> list[tuple[int, int]]:
    """Pairs of indices ``(in left, in right)`` that correspond, increasing in both lists.

    A pair needs equal shapes, and close values or a common kind. Of all ways to pair without crossing, the one with the largest sum is
    taken: 3 for close values, 2 for a common kind, 1 for the same name.
    """
    score = np.zeros((len(left), len(right)))
    for i, mine in enumerate(left):
        for j, theirs in enumerate(right):
            score[i, j] = _score(mine, theirs)
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
    return pairs


def _score(mine: Item, theirs: Item) -> float:
    same_kind = bool(mine.kinds & theirs.kinds)
    if mine.shape != theirs.shape:
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


def match(
    mine: Wiring,
    theirs: Wiring,
    my_inputs: Mapping[str, np.ndarray],
    their_inputs: Mapping[str, np.ndarray],
    libraries: Sequence[str | os.PathLike[str]] = (),
) -> tuple[dict[str, str], int]:
    """The counterparts of a model's values in a reference.

    Two versions of one file have the same nodes in the same order with the same names: then nothing has to run. Otherwise both run once
    with every value visible, and the values are aligned.

    Args:
        mine, theirs: the graphs of the model and of the reference.
        my_inputs, their_inputs: arrays by input name.
        libraries: custom-op libraries in addition to the course's own.

    Returns:
        The reference's name of each value that has a counterpart, and how often the model ran.

    Raises:
        OplabError: one of the two does not run.
    """
    if _same_frame(mine, theirs):
        pairs = [
            pair for a, b in zip(mine.nodes, theirs.nodes, strict=True) for pair in zip(a.output, b.output, strict=True)
        ]
        return {a: b for a, b in pairs if a and b}, 0
    ours = tap(mine.model, libraries=libraries)(my_inputs)
    others = tap(theirs.model, libraries=libraries, what="the reference")(their_inputs)
    left = [item(name, [mine.nodes[mine.makers[name]].op_type], ours[name]) for name in mine.makers]
    right = [item(name, [theirs.nodes[theirs.makers[name]].op_type], others[name]) for name in theirs.makers]
    found = {left[i].name: right[j].name for i, j in align(left, right)}
    found |= dict(zip(mine.outputs, theirs.outputs, strict=True))
    return found, 1


def _same_frame(mine: Wiring, theirs: Wiring) -> bool:
    def frame(wiring: Wiring) -> list[tuple]:
        return [(node.op_type, node.domain, tuple(node.output)) for node in wiring.nodes]

    return frame(mine) == frame(theirs) and mine.outputs == theirs.outputs
