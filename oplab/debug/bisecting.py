"""The first node at which a model drifts from a reference, in O(log n) runs of prefixes of the graph."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from oplab.debug.drifting import Drift, drift
from oplab.debug.matching import Coverage, coverage, fed_alike, match
from oplab.debug.model import Wiring, feeds, label, load
from oplab.debug.partner import Partner
from oplab.debug.surgery import cone
from oplab.debug.tapping import tap
from oplab.errors import OplabError
from oplab.onnxtools.subgraphs import reads

Progress = Callable[["Step"], None]


@dataclass(frozen=True)
class Step:
    """One comparison: the values that are alive after the first ``cut`` nodes.

    Attributes:
        cut: the number of nodes that ran.
        of: the number of nodes in the graph.
        worst: the first value that differs, or the one with the largest error.
        drift: its difference.
    """

    cut: int
    of: int
    worst: str
    drift: Drift

    def __str__(self) -> str:
        what = self.drift.reason or f"error {self.drift.error:.1e}"
        return f"after {self.cut:>4} of {self.of} nodes: {'differs' if self.drift.bad else 'agrees '}  {self.worst!r}: {what}"


@dataclass(frozen=True)
class Found:
    """Where a model begins to drift.

    Attributes:
        node: the index of the first node whose result differs although all that it reads agrees; None if nothing differs, or only an
            output that no node computes.
        suspects: labels of the nodes that may be at fault: those without a partner in the reference right before this node, then
            this node.
        value: the first value that differs.
        drift: the difference of that value.
        runs: how many times the model, or a part of it, ran; the reference ran as often.
        steps: the comparisons in order.
        details: sentences about how the node differs from its partner in the reference.
        compared: sentences about how much of the graph could be compared, and what could not and why.
    """

    node: int | None
    suspects: list[str]
    value: str
    drift: Drift
    runs: int
    steps: list[Step] = field(repr=False)
    details: list[str] = field(default_factory=list, repr=False)
    compared: list[str] = field(default_factory=list, repr=False)

    def text(self) -> str:
        """The steps and the result, for a terminal."""
        lines = [str(step) for step in self.steps]
        if not self.drift.bad:
            agree = f"No node drifts: all outputs agree (largest error {self.drift.error:.1e})."
            return "\n".join([*lines, agree, *self.compared])
        if self.node is None:
            first = f"The output {self.value!r} differs, and no node computes it: {self._how()}."
            return "\n".join([*lines, first, *self.compared])
        first = (
            f"First node that drifts: {self.suspects[-1]}, node {self.node}. Its result {self.value!r}: {self._how()}."
        )
        lone = self.suspects[:-1]
        shown = ", ".join(lone) if len(lone) <= 4 else f"{lone[0]} … {lone[-1]}, {len(lone)} nodes"
        more = [f"Before it, without a partner in the reference: {shown}."] if lone else []
        return "\n".join(
            [
                *lines,
                first,
                *more,
                *(f"  {line}" for line in self.details),
                f"{self.runs} runs of the model.",
                *self.compared,
            ]
        )

    def _how(self) -> str:
        return (
            self.drift.reason
            or f"error {self.drift.error:.2e} of its largest value, allowed {self.drift.tolerance:.0e}"
        )

    __str__ = text


def bisect(
    model: Any,
    reference: Any,
    inputs: Any,
    *,
    tolerance: float | None = None,
    libraries: Sequence[str | os.PathLike[str]] = (),
    progress: Progress | None = None,
) -> Found:
    """Find the first node whose result differs from the reference although everything that it reads agrees.

    The search compares frontiers. The frontier after the first k nodes are the values that later nodes or the outputs read. A fault that
    reaches the output shows in every later frontier, so a binary search finds it. Each run computes only the nodes before its cut. Where
    the last frontier that agrees is not equal, or values without a partner leave a gap, one more run compares what led to the fault.

    Args:
        model: the model under test: a path, bytes, a ModelProto or an ONNXProgram.
        reference: the same, or a mapping of value names to arrays, or a torch module (its layers are matched as by
            :func:`oplab.debug.compare_layers`).
        inputs: for both, by name or in the graph's order.
        tolerance: of the error relative to a value's largest magnitude; by dtype if left out.
        libraries: custom-op libraries in addition to the course's own.
        progress: called with each step.

    Raises:
        OplabError: the inputs do not fit, the reference has other outputs, or the model does not run even in part.
    """
    wiring = load(model, weights=False)
    given = feeds(wiring.model, inputs)
    other, compared, extra = _reference(reference, wiring, given, libraries)
    search = _Search(wiring, given, other, tolerance, libraries, progress)
    found = search.run()
    details = []
    if found.node is not None and other.wiring is not None:
        details = Partner(wiring, other.wiring, other.names).differences(found.node)
    return replace(found, runs=search.runs + extra, steps=search.steps, details=details, compared=compared)


@dataclass
class _Search:
    wiring: Wiring
    given: dict[str, np.ndarray]
    reference: _Values
    tolerance: float | None
    libraries: Sequence[str | os.PathLike[str]]
    progress: Progress | None
    runs: int = 0
    steps: list[Step] = field(default_factory=list)

    def run(self) -> Found:
        n = len(self.wiring.nodes)
        cuts = [0, *(k for k in range(1, n) if self._usable(k)), n]
        bad = self._compare(n)
        if not bad.drift.bad or bad.worst not in self.wiring.makers:
            return Found(None, [], bad.worst, bad.drift, 0, [])
        low, high, exact = 0, len(cuts) - 1, True  # cuts[low] agrees: the inputs are the same
        while high - low > 1:
            middle = (low + high) // 2
            step = self._compare(cuts[middle])
            if step.drift.bad:
                high, bad = middle, step
            else:
                low, exact = middle, step.drift.error == 0
        # Equal frontiers clear all nodes before them. Otherwise a fault may have sunk below the tolerance there, and grown again.
        earlier = self._leading_to(bad.worst, cuts[low] if exact else 0)
        if earlier and (step := self._compare(cuts[high], earlier)).drift.bad:
            bad = step
        node = self.wiring.makers[bad.worst]
        suspects = [label(self.wiring.nodes[i], i) for i in [*self._alone_before(node), node]]
        return Found(node, suspects, bad.worst, bad.drift, 0, [])

    def _leading_to(self, value: str, start: int) -> list[str]:
        """The values from node ``start`` on that this one depends on and that surely have a partner."""
        before = set(cone(self.wiring, [], [value])[0]) - {self.wiring.makers[value]}
        return [name for name, i in self.wiring.makers.items() if i >= start and i in before and self._sure(name)]

    def _alone_before(self, node: int) -> list[int]:
        """The nodes without a partner between this node and the values with a partner that it depends on."""
        found, _ = cone(self.wiring, list(self.reference.names), reads(self.wiring.nodes[node]))
        # A torch module and a list of values contain no constants.
        return [i for i in found if self.reference.wiring or i in self.wiring.moving]

    def _sure(self, name: str) -> bool:
        there, theirs = self.reference.names.get(name), self.reference.wiring
        if there in (None, name) or theirs is None or there not in theirs.makers:
            return there is not None
        nodes = self.wiring.nodes[self.wiring.makers[name]], theirs.nodes[theirs.makers[there]]
        return fed_alike(*nodes, self.wiring, theirs, self.reference.names)

    def frontier(self, cut: int) -> list[str]:
        """Values computed before the cut that are outputs, or that nodes after it read; at the end, all outputs."""
        makers, readers, ends = self.wiring.makers, self.wiring.readers, set(self.wiring.outputs)
        alive = [
            name
            for name, i in makers.items()
            if i < cut and (name in ends or any(reader >= cut for reader in readers.get(name, ())))
        ]
        return alive + [name for name in self.wiring.outputs if cut == len(self.wiring.nodes) and name not in makers]

    def _usable(self, cut: int) -> bool:
        names = self.frontier(cut)
        return bool(names) and all(name in self.reference.names for name in names)

    def _compare(self, cut: int, names: Sequence[str] = ()) -> Step:
        names = names or [name for name in self.frontier(cut) if name in self.reference.names]
        expected = self.reference.get(names)
        self.runs += 1
        try:
            # Only the nodes that these values need: a fault after them has no effect, and nothing is computed in vain.
            got = tap(self.wiring, names, libraries=self.libraries)(self.given)
        except OplabError as error:
            step = Step(cut, len(self.wiring.nodes), names[-1], Drift(float("inf"), 0.0, error.message))
        else:
            drifts = {name: drift(expected[name], got[name], self.tolerance) for name in names}
            # The first bad value in the graph's order is the one to name; without one, the worst of the good ones.
            bad = [name for name in names if drifts[name].bad]
            worst = bad[0] if bad else max(names, key=lambda name: drifts[name].error)
            step = Step(cut, len(self.wiring.nodes), worst, drifts[worst])
        self.steps.append(step)
        if self.progress:
            self.progress(step)
        return step


class _Values:
    """The reference's values by the model's names, with its graph if it has one."""

    def __init__(
        self,
        names: Mapping[str, str],
        run: Callable[[list[str]], dict[str, np.ndarray]],
        wiring: Wiring | None = None,
    ):
        self.names = names
        self.wiring = wiring
        self._run = run
        self._known: dict[str, np.ndarray] = {}

    def get(self, names: Sequence[str]) -> dict[str, np.ndarray]:
        """Values by the model's names."""
        asked = [self.names[name] for name in names]
        missing = [name for name in dict.fromkeys(asked) if name not in self._known]
        if missing:
            self._known = self._run(missing) | {name: self._known[name] for name in asked if name in self._known}
        return {name: self._known[there] for name, there in zip(names, asked, strict=True)}


def _reference(
    reference: Any,
    wiring: Wiring,
    given: dict[str, np.ndarray],
    libraries: Sequence[str | os.PathLike[str]],
) -> tuple[_Values, list[str], int]:
    """The reference's values, sentences about how many they are, and how often the model ran to match them."""
    if isinstance(reference, Mapping):
        arrays = {name: np.asarray(value) for name, value in reference.items()}
        known = {name: name for name in arrays if name in wiring.makers or name in wiring.outputs}
        _needs_outputs(known, wiring, "The mapping of values")
        compared = _sentences(coverage(wiring, known))
        return _Values(known, lambda names: {name: arrays[name] for name in names}), compared, 0
    if callable(reference) and hasattr(reference, "forward"):
        from oplab.debug.layers import compare_layers

        found = compare_layers(reference, wiring, given, libraries=libraries)
        arrays = {row.value: row.expected for row in found.rows}
        known = {name: name for name in arrays}
        return _Values(known, lambda names: {name: arrays[name] for name in names}), found.compared(), 1
    theirs = load(reference, "the reference", weights=False)
    if len(theirs.outputs) != len(wiring.outputs):
        raise OplabError(
            f"The model has {len(wiring.outputs)} outputs and the reference {len(theirs.outputs)}.",
            "Give a reference of the same model, for example an export before the change.",
        )
    theirs_given = feeds(theirs.model, _renamed_inputs(wiring, theirs, given), "the reference")
    names, found, runs = match(wiring, theirs, given, theirs_given, libraries)
    values = _Values(names, lambda asked: _run_reference(theirs, asked, theirs_given, libraries), theirs)
    return values, _sentences(found), runs


def _run_reference(
    other: Wiring,
    names: list[str],
    given: dict[str, np.ndarray],
    libraries: Sequence[str | os.PathLike[str]],
) -> dict[str, np.ndarray]:
    return tap(other, names, libraries=libraries, what="the reference")(given)


def _renamed_inputs(wiring: Wiring, theirs: Wiring, given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    if set(theirs.inputs) == set(wiring.inputs):
        return {name: given[name] for name in theirs.inputs}
    if len(theirs.inputs) != len(wiring.inputs):
        raise OplabError(
            f"The model takes the inputs {wiring.inputs} and the reference {theirs.inputs}.",
            "Give a reference that takes the same inputs.",
        )
    return {there: given[here] for here, there in zip(wiring.inputs, theirs.inputs, strict=True)}


def _sentences(found: Coverage) -> list[str]:
    return [f"Comparable: {found.text()}.", *found.left_out()]


def _needs_outputs(known: Mapping[str, str], wiring: Wiring, what: str) -> None:
    missing = [name for name in wiring.outputs if name not in known]
    if missing:
        raise OplabError(f"{what} has no value for the output {missing[0]!r}: the search needs all outputs.")
