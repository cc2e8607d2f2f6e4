"""A model as the debugging tools see it: complete in memory, its nodes in order, and which nodes compute and read a value."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from oplab.errors import OplabError
from oplab.onnxtools import loading
from oplab.onnxtools.inputs import checked_inputs, input_specs
from oplab.onnxtools.names import node_type
from oplab.onnxtools.subgraphs import bodies, reads, walk


def load(model: Any, what: str = "the model", *, weights: bool = True) -> Wiring:
    """A copy of a model, and how its nodes are connected.

    Args:
        model: a path, bytes, a ModelProto, an onnx_ir Model, what ``torch.onnx.export`` returns, or a Wiring.
        what: how messages call it.
        weights: read those that are in files next to the model. Otherwise they stay there, and the result has their folder.

    Raises:
        OplabError: the file or its external data is missing, it is not an ONNX model, or its graph is not valid (a value that nothing
            computes, a value computed twice, a cycle).
    """
    folder = Path(model).resolve().parent if isinstance(model, (str, os.PathLike)) else None
    if isinstance(model, Wiring):
        model, folder = model.model, model.folder
    found = loading.load(model, what, weights=weights or folder is None)
    proto = found
    if found is model:  # the caller's own
        proto = onnx.ModelProto()
        proto.CopyFrom(found)
    if not proto.HasField("graph") or not proto.graph.output:
        raise OplabError(f"{what} holds no graph with an output.", "Export the model again.")
    wiring = Wiring(proto, what, None if weights else folder)
    wiring.check()
    return wiring


def label(node: onnx.NodeProto, index: int) -> str:
    """How messages call a node: its type and its name, or its index if it has no name."""
    kind = node_type(node)
    return f"{kind} {node.name!r}" if node.name else f"{kind} (node {index})"


@dataclass(frozen=True)
class Wiring:
    """Which nodes compute and read each value, in the main graph of ``model``.

    Attributes:
        model: the model.
        what: how messages call it.
        folder: that of the files with the model's weights, if some are not in memory.
    """

    model: onnx.ModelProto
    what: str = "the model"
    folder: Path | None = None

    @cached_property
    def nodes(self) -> list[onnx.NodeProto]:
        """The nodes of the main graph, in order."""
        return list(self.model.graph.node)

    @cached_property
    def constants(self) -> set[str]:
        """The names of the initializers."""
        sparse = {tensor.values.name for tensor in self.model.graph.sparse_initializer}
        return {tensor.name for tensor in self.model.graph.initializer} | sparse

    @cached_property
    def inputs(self) -> list[str]:
        """The inputs without an initializer: a caller has to feed them."""
        return [value.name for value in self.model.graph.input if value.name not in self.constants]

    @cached_property
    def outputs(self) -> list[str]:
        """The names of the outputs, in the graph's order."""
        return [value.name for value in self.model.graph.output]

    @cached_property
    def makers(self) -> dict[str, int]:
        """The index of the node that computes a value, by the value's name."""
        return {name: i for i, node in enumerate(self.nodes) for name in node.output if name}

    @cached_property
    def readers(self) -> dict[str, list[int]]:
        """The indices of the nodes that read a value, also from a body, by the value's name."""
        found: dict[str, list[int]] = {}
        for i, node in enumerate(self.nodes):
            for name in reads(node):
                found.setdefault(name, []).append(i)
        return found

    @cached_property
    def moving(self) -> list[int]:
        """The indices of the nodes that depend on an input: the others compute constants."""
        found, live = [], set(self.inputs)
        for i, node in enumerate(self.nodes):
            if not live.isdisjoint(reads(node)):
                live.update(node.output)
                found.append(i)
        return found

    @cached_property
    def values(self) -> list[str]:
        """Every value of the main graph: inputs, initializers, then the outputs of the nodes in order."""
        return [*self.inputs, *sorted(self.constants), *self.makers]

    def check(self) -> None:
        """Verify that every value is computed once, and before it is read.

        Raises:
            OplabError: naming the value and the node.
        """
        known = {*self.inputs, *self.constants}
        made: dict[str, int] = {}
        for i, node in enumerate(self.nodes):
            for name in reads(node):
                if name in known:
                    continue
                late = self.makers.get(name)
                why = (
                    "nothing computes it" if late is None else f"{label(self.nodes[late], late)} computes it only later"
                )
                raise OplabError(
                    f"{self.what} is not a valid graph: {label(node, i)} reads {name!r}, and {why}.",
                    "Run onnx.checker.check_model on it, and fix the code that made the model.",
                )
            for name in filter(None, node.output):
                if name in known:
                    other = label(self.nodes[made[name]], made[name]) if name in made else "an input"
                    raise OplabError(
                        f"{self.what} is not a valid graph: {name!r} is computed by {other} and again by {label(node, i)}.",
                        "Give each value its own name.",
                    )
                known.add(name)
                made[name] = i
        for name in self.outputs:
            if name not in known:
                raise OplabError(f"{self.what} is not a valid graph: nothing computes its output {name!r}.")

    def resolve(self, names: Iterable[str]) -> list[str]:
        """The values that these names refer to: a value's name, or a node's name for all of its outputs.

        Raises:
            OplabError: a name is neither (the message names similar ones), or it is inside the body of an If, Loop or Scan.
        """
        by_node: dict[str, list[str]] = {}
        for node in self.nodes:
            if node.name:
                by_node.setdefault(node.name, []).extend(filter(None, node.output))
        known, found = set(self.values), []
        for name in names:
            if name in known:
                found.append(name)
            elif name in by_node:
                found += by_node[name]
            else:
                raise self._unknown(name, [*known, *by_node])
        return list(dict.fromkeys(found))

    def _unknown(self, name: str, all_names: Sequence[str]) -> OplabError:
        for i, node in enumerate(self.nodes):
            if name in _inside(node):
                return OplabError(
                    f"{name!r} is inside a body of {label(node, i)}, where it has a new value in each run of the body.",
                    f"Look at the outputs of {label(node, i)} instead: {', '.join(map(repr, filter(None, node.output)))}.",
                )
        near = difflib.get_close_matches(name, all_names, n=3, cutoff=0.5)
        fix = f"Similar: {', '.join(map(repr, near))}." if near else f"The outputs are {self.outputs}."
        return OplabError(f"{self.what} has no value and no node {name!r}.", fix)


def _inside(node: onnx.NodeProto) -> set[str]:
    return {name for body in bodies(node) for inner in walk(body.node) for name in (inner.name, *inner.output)}


def feeds(model: onnx.ModelProto, inputs: Any, what: str = "the model") -> dict[str, np.ndarray]:
    """The arrays of a graph's inputs by name.

    Args:
        inputs: a mapping by name, an array or tensor, or a sequence in the graph's order.
        what: how messages call the model.
    """
    inner = "" if what == "the model" else f" of {what}"
    wanted = input_specs(model)
    if not isinstance(inputs, Mapping):
        names = [port.name for port in wanted if port.required]
        given = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        if len(given) != len(names):
            raise OplabError(f"{what} takes {len(names)} inputs, but {len(given)} were given.", f"They are {names}.")
        inputs = dict(zip(names, given, strict=True))
    return checked_inputs(wanted, inputs, inner)
