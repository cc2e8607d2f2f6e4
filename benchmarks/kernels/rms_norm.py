"""RMSNorm next to ONNX Runtime's graph of opset 20, its single node of opset 23, PyTorch, and a copy of the same bytes.

The copy is the limit that memory sets: x is read once, and y is written once, with stores that do not read it first.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import TensorProto, helper

from oplab import ops

from .harness import Case, Peer, Run, close
from .limits import copy

KERNEL = "RMSNorm"
EPSILON = 1e-6
KINDS = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
}


class Result:
    """A result whose type NumPy does not have: it becomes float32 only where it is compared."""

    def __init__(self, value: onnxruntime.OrtValue | torch.Tensor) -> None:
        self.value = value

    def numpy(self) -> np.ndarray:
        is_torch = isinstance(self.value, torch.Tensor)
        return (self.value if is_torch else torch.from_dlpack(self.value._ortvalue.to_dlpack())).float().numpy()


def case(rows: int, width: int, dtype: str, *, targets: bool = False, threads: bool = False) -> Case:
    kind = KINDS[dtype]
    size = 4 if dtype == "float32" else 2

    @functools.cache
    def inputs() -> tuple[torch.Tensor, torch.Tensor]:
        random = torch.Generator().manual_seed(rows)
        x, weight = torch.randn(rows, width, generator=random), torch.rand(width, generator=random) + 0.5
        return x.to(getattr(torch, dtype)), weight.to(getattr(torch, dtype))

    def session(
        nodes: Sequence[onnx.NodeProto], opset: int, constants: Sequence[onnx.TensorProto], threads: int
    ) -> Run:
        """The nodes with x and weight bound once, and y in memory that is used again."""
        values = [[helper.make_tensor_value_info(n, kind, None) for n in names] for names in (("x", "weight"), ("y",))]
        graph = helper.make_graph(list(nodes), "norm", *values, list(constants))
        imports = [helper.make_opsetid("", opset), helper.make_opsetid("oplab", 1)]
        made = ops.session(helper.make_model(graph, opset_imports=imports, ir_version=10), threads=threads)
        binding = made.io_binding()
        for name, value in zip(("x", "weight"), inputs(), strict=True):
            array = value.numpy() if dtype == "float32" else value.view(torch.uint16).numpy()
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, kind))
        binding.bind_output("y", "cpu")

        given = inputs()  # the binding has their addresses

        def run(kept=(made, given)) -> Result:
            made.run_with_iobinding(binding)
            return Result(binding.get_outputs()[0])

        return run

    def ours(threads: int) -> Run:
        return session(
            [helper.make_node(KERNEL, ["x", "weight"], ["y"], domain="oplab", epsilon=EPSILON)], 20, [], threads
        )

    def decomposed(threads: int) -> Run:
        steps = [
            ("Pow", ["x", "two"], "square"),
            ("ReduceMean", ["square", "last"], "mean"),
            ("Add", ["mean", "epsilon"], "shifted"),
            ("Sqrt", ["shifted"], "root"),
            ("Reciprocal", ["root"], "factor"),
            ("Mul", ["x", "factor"], "normal"),
            ("Mul", ["normal", "weight"], "y"),
        ]
        constants = [
            helper.make_tensor("two", TensorProto.FLOAT, [], [2.0]),
            helper.make_tensor("epsilon", TensorProto.FLOAT, [], [EPSILON]),
            helper.make_tensor("last", TensorProto.INT64, [1], [-1]),
        ]
        return session([helper.make_node(op, given, [made]) for op, given, made in steps], 20, constants, threads)

    def single(threads: int) -> Run:
        return session([helper.make_node("RMSNormalization", ["x", "weight"], ["y"], epsilon=EPSILON)], 23, [], threads)

    def in_torch(threads: int) -> Run:
        x, weight = inputs()
        return lambda: Result(torch.nn.functional.rms_norm(x, (width,), weight, EPSILON))

    def copied(threads: int) -> Run:
        return copy(rows * width * size, threads)

    check = close(1e-5, 1e-5) if dtype == "float32" else close(2e-2, 1e-3)  # PyTorch may round twice
    in_float = (
        Peer("ORT, opset 20", decomposed, 2.0 if targets else None, check),
        Peer("ORT RMSNormalization", single, None, check),
    )
    limit = 1 / 1.3 if targets and dtype == "bfloat16" else None
    peers = (
        *(in_float if dtype == "float32" else ()),
        Peer("torch rms_norm", in_torch, None, check),
        Peer("a copy of the bytes", copied, limit, lambda ours, theirs: None),
    )
    return Case(KERNEL, f"{rows} x {width} {dtype}", ours, peers, threads=threads)


def cases(quick: bool) -> list[Case]:
    if quick:
        return [case(16, 256, dtype) for dtype in KINDS]
    return [
        case(*size, dtype, targets=size == (8192, 2048), threads=size == (8192, 2048))
        for dtype in KINDS
        for size in ((16, 1024), (512, 2048), (8192, 2048))
    ]
