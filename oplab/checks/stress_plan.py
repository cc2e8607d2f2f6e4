"""Which models and inputs an exercise gives to :mod:`oplab.checks.stress`, and in which order they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx

from oplab.checks.kernels import Feeds

PARTS = {
    "nodes": "two nodes in one model",
    "sessions": "two sessions at once, used in turns",
    "sizes": "one session that gets other sizes in turns",
    "threads": "one session on four threads at once",
    "refusals": "each refusal three times in a row, and a right run after it",
    "status": "a refusal is a status, not an exception that leaves the kernel",
    "bounds": "inputs and outputs with pages at their ends that cannot be read or written; inputs are only read",
    "leaks": "memory in use does not grow with runs, sessions and sessions that are refused",
}
# Two pages can be read at a time (:mod:`oplab.checks.reentrancy`): of an input that has no more, each is only stopped at in the first pass,
# which in many kernels is that of a check.
INTERRUPTED = 2 * 4096
Expect = Callable[[str, str, list[np.ndarray]], None]
Refused = tuple[onnx.ModelProto, Feeds | None]


@dataclass(frozen=True)
class Stress:
    """Models and inputs for the parts.

    Attributes:
        nodes: models of one node each, by what tells them apart (``alpha = 2``): two with different attributes, one where the operator
            has none. The first one is used where one is enough.
        runs: inputs by what tells them apart (``3 rows``), of the same ranks and other sizes; each node takes those that its model has.
            The first two are for the threads: they keep the kernel busy for about a millisecond, so that threads meet, and one input of
            each is larger than :data:`INTERRUPTED` bytes, so that a run is interrupted after its kernel has looked at all inputs once.
            Small ones follow, at least one. An empty one among them finds reads of a first element that is not there.
        refused: what has to be refused, by what is wrong with it: a model with inputs, or with None where no session may be made.
        without: why a part of :data:`PARTS` does not apply.

    Raises:
        ValueError: an entry is missing or too small, or a part is left out that does not exist or that has no reason.
    """

    nodes: Mapping[str, onnx.ModelProto]
    runs: Mapping[str, Feeds]
    refused: Mapping[str, Refused] = field(default_factory=dict)
    without: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.nodes or len(self.runs) < 3:
            raise ValueError("a node and three sets of inputs are the least")
        for title in list(self.runs)[:2] if self.has("threads") else ():
            if max(value.nbytes for value in self.runs[title].values()) <= INTERRUPTED:
                raise ValueError(f"{title}: an input of the first two runs has to be larger than {INTERRUPTED} bytes")
        if unclear := [part for part, reason in self.without.items() if part not in PARTS or not reason.strip()]:
            raise ValueError(f"{unclear}: not parts, or parts that are left out without a reason")
        if not self.refused and self.has("refusals"):
            raise ValueError("nothing is refused: say why in without")

    def has(self, part: str) -> bool:
        """Whether a part of :data:`PARTS` is not left out."""
        return part not in self.without

    def feeds(self, node: str, run: str) -> dict[str, np.ndarray]:
        """Copies of the inputs: ONNX Runtime passes the memory of NumPy on, and what a kernel writes must not be the next run's input."""
        taken = {value.name for value in self.nodes[node].graph.input}
        return {name: value.copy() for name, value in self.runs[run].items() if name in taken}

    def plan(self, part: str) -> list[tuple[str, str]]:
        """The (node, run) pairs of ``alone``, ``nodes``, ``sessions`` or ``sizes``, in the order in which they run."""
        nodes, runs = self.pair, list(self.runs)
        if part == "sizes":
            return [(nodes[0], run) for run in [*runs, *reversed(runs)]]
        if part == "nodes":  # in one run each node gets other inputs
            return [(node, runs[(i + k) % len(runs)]) for i in range(len(runs)) for k, node in enumerate(nodes)]
        return [(node, run) for run in runs for node in (self.nodes if part == "alone" else nodes)]

    @property
    def pair(self) -> list[str]:
        """The two nodes that meet: the same one twice where there is only one."""
        titles = list(self.nodes)
        return titles[:2] if len(titles) > 1 else titles * 2
