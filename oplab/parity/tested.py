"""What each backend is given and gives back: a model under test, a feed, a runner, the result of a run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from oplab.onnxtools import loading
from oplab.onnxtools.subgraphs import every_node

REPEATS = 11  # of a timed run: the median of an odd number is one that was measured

Feed = Mapping[str, np.ndarray]


class Unavailable(Exception):
    """A backend cannot be used here. The text is the reason, in one line."""


@dataclass(frozen=True)
class RunResult:
    """The outputs of one run, in the model's order, and the median duration.

    Attributes:
        outputs: an array for each output of the model.
        milliseconds: the median of :data:`REPEATS` runs; None if times were not asked for.
        overflows: the nodes whose result overflows in float16 and not in float32; only ``reference`` knows them.
        terms: the largest magnitude of what is added up in an output, for outputs that a sum computes; the same.
    """

    outputs: list[np.ndarray]
    milliseconds: float | None = None
    overflows: tuple[str, ...] = ()
    terms: Mapping[str, float] = field(default_factory=dict)


Runner = Callable[[Feed], RunResult]


@dataclass(frozen=True)
class ModelUnderTest:
    """A model, with what the backends need to run it.

    Attributes:
        model: a path, bytes, a ModelProto or an ONNXProgram.
        module: the PyTorch module or function that the model was exported from, or None.
        libraries: custom-op libraries for ONNX Runtime, in addition to the course's own.
        reference: further ``OpRun`` classes for ``onnx.reference``.
        timed: whether each run is measured.
    """

    model: Any
    module: Any = None
    libraries: tuple[Path, ...] = ()
    reference: tuple[type, ...] = ()
    timed: bool = False

    @cached_property
    def source(self) -> str | bytes:
        """The path of the model, or its bytes."""
        return loading.source(self.model)

    @cached_property
    def proto(self) -> onnx.ModelProto:
        """The model, without the weights that are in other files."""
        return loading.load(self.source, "The given model", weights=False)

    @cached_property
    def outputs(self) -> list[str]:
        """The names of the outputs, in the model's order."""
        return [value.name for value in self.proto.graph.output]

    @cached_property
    def uses_float16(self) -> bool:
        """Whether an input, an output or a weight is float16, or a node converts to it."""
        graph, half = self.proto.graph, onnx.TensorProto.FLOAT16
        return (
            any(value.type.tensor_type.elem_type == half for value in (*graph.input, *graph.output))
            or any(tensor.data_type == half for tensor in graph.initializer)
            or any(one.name == "to" and one.i == half for node in every_node(self.proto) for one in node.attribute)
        )

    @cached_property
    def uses_our_domain(self) -> bool:
        """Whether a node is of the domain ``oplab``, also in a subgraph or a function."""
        return any(node.domain == "oplab" for node in every_node(self.proto))


def timed(tested: ModelUnderTest, run: Callable[[], list[np.ndarray]]) -> RunResult:
    """What one run gives, with the median duration of further ones where times were asked for."""
    outputs = run()
    if not tested.timed:
        return RunResult(outputs)
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return RunResult(outputs, statistics.median(seconds) * 1000)
