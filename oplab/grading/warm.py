"""What the fork server does once, before its first fork: import the libraries, and use each of them in a small way.

What is set up at the first use is then set up in each worker. One thread only: a thread pool made here would be dead in every fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import os
import sys
from collections.abc import Sequence
from typing import Any


def warm_up(preload: Sequence[str]) -> None:
    """Import what checks need, and use it once.

    Args:
        preload: what else to warm up, some of :data:`oplab.course.manifest.PRELOADS`.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    import onnx
    import onnx.checker  # noqa: F401
    import onnxruntime  # noqa: F401
    import torch

    import oplab.checks.graphs  # noqa: F401

    torch.set_num_threads(1)
    round_trip()
    if "dynamo" in preload:
        warm_exporter()
    if "export" in preload:
        warm_capture()
    if "scipy" in preload:
        import scipy.spatial  # noqa: F401


def collapse_into_huge_pages() -> None:
    """Move this process's memory into huge pages of 2 MB, where Linux (6.1 and newer) can.

    A fork copies the page table, and most of a short job is that: 120 000 entries become 300. It takes up to a second, which is
    worth it from about a hundred jobs on.
    """
    huge, collapse = 2 << 20, 25  # MADV_COLLAPSE
    madvise = getattr(ctypes.CDLL(None), "madvise", None)
    try:
        with open("/proc/self/maps", encoding="ascii") as stream:
            mappings = [line.split() for line in stream]
    except OSError:
        return
    for place, access, _, _, inode, *name in mappings:
        first, last = (int(end, 16) for end in place.split("-"))
        first, last = (first + huge - 1) // huge * huge, last // huge * huge
        if madvise and access.startswith("rw") and inode == "0" and name in ([], ["[heap]"]) and first < last:
            madvise(ctypes.c_void_p(first), ctypes.c_size_t(last - first), collapse)


def round_trip() -> None:
    """Do once what nearly every check does: export a small model, check it, and run it."""
    import io
    import warnings

    import numpy
    import onnx
    import onnxruntime
    import torch

    numpy.random.default_rng(0).standard_normal(3)
    stream = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(_toy(), (torch.ones(2, 3),), stream, dynamo=False, input_names=["x"])
    onnx.checker.check_model(onnx.load_from_string(stream.getvalue()), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(stream.getvalue(), options, providers=["CPUExecutionProvider"])
    session.run(None, {"x": numpy.ones((2, 3), numpy.float32)})


def _toy() -> Any:
    import torch

    class Toy(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.exp(x) + 1

    return Toy()


def warm_exporter() -> None:
    """Export one toy model with ``dynamo=True``: it imports the exporter's modules and its registry's functions."""
    import io
    import logging
    import warnings

    import torch

    logging.disable(logging.CRITICAL)
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        keep_registry()
        torch.onnx.export(_toy(), (torch.ones(2, 3),), dynamo=True, verbose=False)
    logging.disable(logging.NOTSET)


def warm_capture() -> None:
    """Capture and run a module with ``torch.cond``, whose first capture imports a hundred modules."""
    import torch

    class Deciding(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 2, lambda a: a + 1, lambda a: a - 1, (x,))

    x = torch.ones(2, 3)
    torch.export.export(Deciding(), (x,))
    Deciding()(x)


def keep_registry() -> None:
    """Build the registry of the dynamo exporter once, not at each export: that is most of an export's time.

    The exporter reads the source of 500 functions for it. Each export still gets its own copy to add to. Where PyTorch's
    internals have changed, nothing is kept and exports take longer.
    """
    try:
        from torch.onnx._internal.exporter._registration import ONNXRegistry

        build = ONNXRegistry.from_torchlib.__func__
        default = inspect.signature(build).parameters["opset_version"].default
        empty = ONNXRegistry()
        empty._cleanup_registry_based_on_opset_version()
        empty.functions, empty._opset_version = {}, default
    except (ImportError, AttributeError, KeyError):
        return

    class OfAllOpsets(ONNXRegistry):
        def _cleanup_registry_based_on_opset_version(self) -> None:
            pass

    kept: dict[bool, dict[Any, list[Any]]] = {}

    def from_torchlib(cls: type[ONNXRegistry], opset_version: int = default) -> ONNXRegistry:
        vision = "torchvision" in sys.modules  # its operators are found once it is imported
        if vision not in kept:
            kept[vision] = build(OfAllOpsets).functions
        registry = cls()
        registry._opset_version = opset_version
        registry.functions = {target: list(found) for target, found in kept[vision].items()}
        registry._cleanup_registry_based_on_opset_version()
        return registry

    ONNXRegistry.from_torchlib = classmethod(from_torchlib)
