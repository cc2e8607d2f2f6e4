"""A Triton kernel is a custom operator for the exporter: it needs a translation, as any other."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from onnxscript import opset20 as op
from torch.library import triton_op, wrap_triton

from tests.clinic.tools import export, node_types, refusal, run


@triton.jit
def add_kernel(a, b, y, size, block: tl.constexpr):
    """y = a + b."""
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < size
    tl.store(y + at, tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside), mask=inside)


@triton_op("clinic::triton_add", mutates_args={})
def triton_add(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The operator. Its schema is what the exporter sees; the kernel runs on a GPU only."""
    y = torch.empty_like(a)
    wrap_triton(add_kernel)[(triton.cdiv(a.numel(), 64),)](a, b, y, a.numel(), 64)
    return y


class Model(torch.nn.Module):
    """One operator."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """a + b."""
        return triton_add(a, b)


def translation(a, b):
    """The same in ONNX's operators."""
    return op.Add(a, b)


ARGS = (torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))


def happens() -> bool:
    return "No ONNX function found" in refusal(torch.onnx.OnnxExporterError, export, Model(), ARGS)


def way_around() -> None:
    table = {torch.ops.clinic.triton_add.default: translation}
    program = export(Model(), ARGS, custom_translation_table=table)
    assert node_types(program) == ["Add"]
    assert run(program.model_proto, *ARGS)[0].tolist() == [4, 6]
