"""What the checks of C++ kernels share: models of the domain ``lab``, runs of the learner's library, and what came of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from oplab.checks.evidence import Collect, Evidence
from oplab.checks.ort_errors import NO_CAUSES, SILENT, Causes, explained, status
from oplab.parity.arrays import WrongAnswer
from oplab.toolchain.findings import CASE

Values = Mapping[str, tuple[str, Sequence[int | str] | None]]  # dtype and shape by name; None is any shape
Feeds = Mapping[str, np.ndarray]


def model_of(
    nodes: Sequence[onnx.NodeProto], inputs: Values, outputs: Values, numbers: Mapping[str, float] = {}
) -> onnx.ModelProto:
    """A model of these nodes, which imports opset 20 and version 1 of the domain ``lab``.

    Args:
        inputs, outputs: of the graph.
        numbers: float initialisers without axes.
    """

    def infos(values: Values) -> list[onnx.ValueInfoProto]:
        return [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
            for name, (dtype, shape) in values.items()
        ]

    constants = [helper.make_tensor(name, TensorProto.FLOAT, [], [value]) for name, value in numbers.items()]
    graph = helper.make_graph(list(nodes), "graph", infos(inputs), infos(outputs), constants)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("lab", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def one_node(op: str, inputs: Values, outputs: Values, wired: Sequence[str] = (), **attributes: Any) -> onnx.ModelProto:
    """A model of one node ``lab::op``.

    Args:
        wired: the node's inputs, ``""`` for one that is left out; those of the graph, in their order, where it is empty.
        attributes: of the node; one that is None is left out.
    """
    held = {name: value for name, value in attributes.items() if value is not None}
    node = helper.make_node(op, list(wired or inputs), list(outputs), domain="lab", **held)
    return model_of([node], inputs, outputs)


def side_by_side(models: Sequence[onnx.ModelProto]) -> onnx.ModelProto:
    """One model with the nodes of all, which share nothing: what the k-th one calls ``x`` is ``nk_x`` here."""
    made = onnx.ModelProto()
    made.CopyFrom(models[0])
    made.graph.Clear()
    made.graph.name = "side_by_side"
    for k, model in enumerate(models):
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        graph = copy.graph
        for node in graph.node:
            node.input[:] = [name and f"n{k}_{name}" for name in node.input]
            node.output[:] = [name and f"n{k}_{name}" for name in node.output]
            node.name = f"n{k}_{node.name}"
        for value in (*graph.input, *graph.output, *graph.initializer):
            value.name = f"n{k}_{value.name}"
        for value in (*graph.input, *graph.output):
            for dim in value.type.tensor_type.shape.dim:
                if dim.dim_param:
                    dim.dim_param = f"n{k}_{dim.dim_param}"
        for kind in ("node", "input", "output", "initializer"):
            getattr(made.graph, kind).extend(getattr(graph, kind))
    return made


def without_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with inputs of any rank: ONNX Runtime then asks the kernel, and does not refuse them by itself."""
    for value in model.graph.input:
        value.type.tensor_type.ClearField("shape")
    return model


def announce(case: str) -> None:
    """Note which case runs next: where the process dies in it, the message names it."""
    os.write(2, f"{CASE}{case}\n".encode())


def session(c: Collect, title: str, model: onnx.ModelProto, threads: int = 1) -> Any:
    """An ``InferenceSession`` with the learner's library; None, and the exception as evidence under ``title``, if it is refused."""
    from oplab import ops

    announce(title)
    return c.attempt(title, ops.session, model, threads=threads, libraries=[c.library])


def record(c: Collect, title: str, run: Any, feeds: Feeds) -> list[np.ndarray] | None:
    """Run a session from :func:`session` (None does nothing); its outputs or its exception are evidence under ``title``.

    Returns:
        the outputs, or None.
    """
    announce(title)
    # A copy: ONNX Runtime passes the memory of NumPy on, and what a kernel writes there must not be the next run's input.
    found = c.attempt(title, run.run, None, {name: value.copy() for name, value in feeds.items()}) if run else None
    if found is not None:
        c.value(title, found)
    return found


def outputs(v: Evidence, title: str, count: int = 1, causes: Causes = NO_CAUSES) -> list[np.ndarray]:
    """The arrays that :func:`record` left under ``title``.

    Args:
        causes: what is special to the exercise where ONNX Runtime has refused.

    Raises:
        WrongAnswer: the session was refused or failed, with its message and the likely cause; or there are not ``count`` arrays.
    """
    error = v.error(title)
    if error:
        refused = explained(error, "ONNX Runtime says", causes)
        raise refused
    found = v.value(title)
    if type(found) is not list or len(found) != count or not all(type(entry) is np.ndarray for entry in found):
        raise WrongAnswer(f"Expected {count} arrays, got something else.")
    return found


def expect_refusal(v: Evidence, title: str, what: str = "", likely: str = "") -> None:
    """Demand that a session or a run ended in an error status with a sentence.

    Args:
        what: what is wrong with its inputs, for messages; ``title`` where it is empty.
        likely: what to do about it.

    Raises:
        WrongAnswer: there was a result, or the status has no sentence.
    """
    what, error = what or title, v.error(title)
    if error is None:
        raise WrongAnswer(
            f"{what}: expected an error status with a sentence, but there was a result. {likely}".rstrip()
        )
    if status(error.message) == SILENT:
        raise WrongAnswer(f"{what}: the status has no sentence ({error.message!r}): say what is wrong.")
