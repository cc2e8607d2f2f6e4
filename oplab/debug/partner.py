"""How a node differs from its counterpart in a reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from oplab.debug.model import Wiring
from oplab.onnxtools.names import node_type


@dataclass(frozen=True)
class Partner:
    """Two graphs whose values correspond.

    Attributes:
        mine, theirs: the graphs of the model and of the reference.
        names: the reference's name of a value by the model's.
    """

    mine: Wiring
    theirs: Wiring
    names: Mapping[str, str]

    def differences(self, node: int) -> list[str]:
        """Sentences about the node of that index; none if it has no counterpart or does not differ."""
        mine = self.mine.nodes[node]
        there = next((self.names[name] for name in mine.output if name in self.names), None)
        if there not in self.theirs.makers:
            return []
        theirs = self.theirs.nodes[self.theirs.makers[there]]
        if (mine.op_type, mine.domain) != (theirs.op_type, theirs.domain):
            return [f"It is {node_type(mine)}; in the reference {node_type(theirs)} makes this value."]
        return [*_attributes(mine, theirs), *self._inputs(mine, theirs)]

    def _inputs(self, mine: onnx.NodeProto, theirs: onnx.NodeProto) -> Iterator[str]:
        if len(mine.input) != len(theirs.input):
            yield f"It has {len(mine.input)} inputs; in the reference {len(theirs.input)}."
        as_inputs = dict(zip(self.mine.inputs, self.theirs.inputs, strict=False))
        for place, (here, there) in enumerate(zip(mine.input, theirs.input, strict=False)):
            left, right = _constant(self.mine, here), _constant(self.theirs, there)
            if left is not None and right is not None:
                yield from _constants(place, here, left, right)
            elif here in self.names or here in as_inputs:
                wanted = self.names.get(here, as_inputs.get(here))
                if wanted != there:
                    yield f"Its input {place} is {here!r}; in the reference it is {there!r}."
            elif bool(here) != bool(there):
                yield f"Its input {place} is {here!r}; in the reference it is {there!r}."


def _attributes(mine: onnx.NodeProto, theirs: onnx.NodeProto) -> Iterator[str]:
    left, right = ({entry.name: _text(entry) for entry in node.attribute} for node in (mine, theirs))
    for name in sorted({*left, *right}):
        if left.get(name) != right.get(name):
            here, there = (texts.get(name, "not set") for texts in (left, right))
            yield f"Its attribute {name} is {here}; in the reference it is {there}."


def _text(entry: onnx.AttributeProto) -> str:
    value = onnx.helper.get_attribute_value(entry)
    if isinstance(value, onnx.TensorProto):
        array = numpy_helper.to_array(value)
        return f"{array.dtype}{list(array.shape)} {np.array2string(array, threshold=6, precision=6)}"
    if isinstance(value, onnx.GraphProto):
        return f"a body of {len(value.node)} nodes"
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _constant(wiring: Wiring, name: str) -> np.ndarray | None:
    if name in wiring.makers:
        node = wiring.nodes[wiring.makers[name]]
        if node.op_type == "Identity":
            return _constant(wiring, node.input[0])
        value = next((entry.t for entry in node.attribute if entry.name == "value"), None)
        return numpy_helper.to_array(value) if node.op_type == "Constant" and value is not None else None
    return next(
        (numpy_helper.to_array(t, str(wiring.folder or "")) for t in wiring.model.graph.initializer if t.name == name),
        None,
    )


def _constants(place: int, name: str, mine: np.ndarray, theirs: np.ndarray) -> Iterator[str]:
    if (mine.dtype, mine.shape) != (theirs.dtype, theirs.shape):
        yield (
            f"Its constant {name!r} (input {place}) is {mine.dtype}{list(mine.shape)}; in the reference it is "
            f"{theirs.dtype}{list(theirs.shape)}."
        )
        return
    wrong = mine != theirs
    if mine.dtype.kind == "f":
        wrong &= ~(np.isnan(mine) & np.isnan(theirs))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        where = f" at {list(at)}" if at else ""
        yield (
            f"Its constant {name!r} (input {place}) differs in {int(wrong.sum())} of {wrong.size} values; first{where}: "
            f"{mine[at]:.6g}, in the reference {theirs[at]:.6g}."
        )
