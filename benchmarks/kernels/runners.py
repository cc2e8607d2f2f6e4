"""Contestants: models of one or more nodes in ONNX Runtime."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from oplab import ops

SIMD = "OPLAB_SIMD"  # the kernels read it when a session is created


@contextlib.contextmanager
def simd_set(name: str | None) -> Iterator[None]:
    """Sessions created within use this set of instructions; with None the one that the kernels choose."""
    before = os.environ.pop(SIMD, None)
    if name:
        os.environ[SIMD] = name
    try:
        yield
    finally:
        os.environ.pop(SIMD, None)
        if before is not None:
            os.environ[SIMD] = before


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, type],
    domains: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """Nodes made by ``helper.make_node`` as a model; shapes are not fixed. ``outputs`` is {name: np.float32, …}.

    ``domains`` adds to {"": 20, "oplab": 2}.
    """

    def info(name: str, dtype: object) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), None)

    graph = helper.make_graph(
        list(nodes),
        "bench",
        [info(name, value.dtype) for name, value in inputs.items()],
        [info(name, dtype) for name, dtype in outputs.items()],
    )
    versions = {"": 20, "oplab": 2, **(domains or {})}
    opsets = [helper.make_opsetid(name, version) for name, version in versions.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def bound(
    made: onnx.ModelProto, feed: Mapping[str, np.ndarray], threads: int, libraries: Sequence[str | Path] = ()
) -> Callable[[], list]:
    """A session whose inputs are bound and whose outputs stay with ONNX Runtime: nothing is copied from or to numpy."""
    session = ops.session(made, threads=threads, libraries=libraries)
    binding = session.io_binding()
    for name, value in feed.items():
        binding.bind_cpu_input(name, np.ascontiguousarray(value))
    for output in session.get_outputs():
        binding.bind_output(output.name, "cpu")

    def run(kept=(session, dict(feed))) -> list:
        session.run_with_iobinding(binding)
        return binding.get_outputs()

    return run


def one_node(
    op: str, feed: Mapping[str, np.ndarray], outputs: Mapping[str, type], domain: str = "oplab", **attributes: object
) -> onnx.ModelProto:
    """A model of one node whose inputs are the names of ``feed``, in order."""
    node = helper.make_node(op, list(feed), list(outputs), domain=domain, **attributes)
    return model([node], feed, outputs)
