"""The values inside a model: any value of the main graph becomes an output, also after operators that ONNX does not know."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from oplab.debug.model import Wiring, feeds, load
from oplab.debug.surgery import cone, part
from oplab.errors import OplabError, first_line


@dataclass
class Tap:
    """A model whose ``names`` are outputs too. A call with inputs returns their values.

    Attributes:
        model: the model with the further outputs; save it, or open it in a viewer. Weights that were in other files are still there.
        names: the values that a call returns, in order.
        libraries: custom-op libraries in addition to the course's own.
        what: how messages call the model.
        folder: that of the files with the model's weights, if some are not in memory.
    """

    model: onnx.ModelProto
    names: list[str]
    libraries: Sequence[str | os.PathLike[str]] = ()
    what: str = "the model"
    folder: Path | None = None
    _session: Any = field(default=None, repr=False)

    def __call__(self, inputs: Any) -> dict[str, np.ndarray]:
        """The values by name, as arrays.

        Args:
            inputs: a mapping of input names to arrays or tensors, or a sequence in the graph's order.

        Raises:
            OplabError: the inputs do not fit, or ONNX Runtime cannot load or run the model.
        """
        given = feeds(self.model, inputs, self.what)
        wanted = [name for name in self.names if name not in given]
        found = dict(zip(wanted, self._run(wanted, given), strict=True)) if wanted else {}
        return {name: given[name] if name in given else found[name] for name in self.names}

    def _run(self, wanted: list[str], given: dict[str, np.ndarray]) -> list[np.ndarray]:
        if self._session is None:
            try:
                self._session = self.session()
            except OplabError:
                raise
            except Exception as error:
                raise OplabError(f"ONNX Runtime does not load {self.what}: {runtime_reason(error)}.") from None
        try:
            return self._session.run(wanted, given)
        except Exception as error:
            raise OplabError(f"ONNX Runtime cannot run {self.what}: {runtime_reason(error)}.") from None

    def session(self) -> Any:
        """An ONNX Runtime session of the nodes that compute ``names``: nothing else is loaded.

        Raises:
            Exception: whatever ONNX Runtime raises for a model that it rejects.
        """
        from oplab.ops.sessions import session

        wiring = Wiring(self.model)
        names = [name for name in self.names if name not in wiring.inputs]
        known = {info.name: info for info in self.model.graph.output}
        outputs = [known.get(name) or onnx.ValueInfoProto(name=name) for name in names]
        needed = part(wiring, cone(wiring, [], names)[0], self.model.graph.input, outputs)
        return session(needed, libraries=self.libraries, optimize=False, folder=self.folder)


def tap(
    model: Any,
    names: Iterable[str] | None = None,
    *,
    libraries: Sequence[str | os.PathLike[str]] = (),
    what: str = "the model",
) -> Tap:
    """Make values inside a model visible.

    ONNX Runtime runs the result without graph optimizations: each node computes what the file states.

    Args:
        model: a path, bytes, a ModelProto or an ONNXProgram.
        names: names of values, or of nodes for all of their outputs; the outputs of all nodes by default.
        libraries: custom-op libraries in addition to the course's own.
        what: how messages call the model.

    Raises:
        OplabError: the graph does not have a name, or the model is not one.
    """
    wiring = load(model, what, weights=False)
    proto = wiring.model
    chosen = wiring.resolve(names) if names is not None else list(wiring.makers)
    known = {value.name for value in proto.graph.value_info}
    there = {*wiring.outputs, *wiring.inputs}
    for name in chosen:
        if name not in there:
            # No type: ONNX Runtime infers it, also after custom operators. A type from a stale value_info could be wrong.
            proto.graph.output.append(onnx.ValueInfoProto(name=name))
    kept = [info for info in proto.graph.value_info if info.name not in chosen]
    if known & set(chosen):
        del proto.graph.value_info[:]
        proto.graph.value_info.extend(kept)
    return Tap(proto, chosen, libraries, what, wiring.folder)


def runtime_reason(error: BaseException) -> str:
    """The first line of an error of ONNX Runtime, without its prefix ``[ONNXRuntimeError] : 1 : FAIL :`` and without a full stop."""
    line = first_line(error)
    return line.split("] : ")[-1].split(" : ", 2)[-1] if "[ONNXRuntimeError]" in line else line


def range_text(array: np.ndarray) -> str:
    """The range and mean of an array of any dtype and shape, in a few words; the first element where there is no range."""
    if array.dtype.kind not in "biuf" or not array.size:
        return "empty" if not array.size else str(array.reshape(-1)[0])
    wide = array.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    if not finite.size:
        return f"none finite of {wide.size}"
    odd = f", {wide.size - finite.size} not finite" if finite.size < wide.size else ""
    return f"{finite.min():.4g} … {finite.max():.4g}, mean {finite.mean():.4g}{odd}"
