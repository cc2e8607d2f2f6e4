"""Checks of chapter 04: what each symbolic function writes, judged by its graph and on inputs that nobody has seen before."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from oplab.checks import graphs
from oplab.checks.base import Collect, Verdict
from oplab.parity import expect_close

if TYPE_CHECKING:
    import torch


def export(function: Callable[..., torch.Tensor], inputs: tuple[torch.Tensor, ...], opset: int, path: str) -> None:
    """Export a function of tensors over the TorchScript path, every axis dynamic, to ``path``."""
    import torch

    class Model(torch.nn.Module):
        def forward(self, *args: torch.Tensor) -> torch.Tensor:
            return function(*args)

    names = ["x", "y"][: len(inputs)]
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Model(),
            inputs,
            buffer,
            dynamo=False,
            opset_version=opset,
            input_names=names,
            output_names=["out"],
            dynamic_axes={name: {axis: f"{name}{axis}" for axis in range(x.dim())} for name, x in zip(names, inputs)},
        )
    with open(path, "wb") as stream:
        stream.write(buffer.getvalue())


def collect_asinh(c: Collect) -> None:
    import torch

    c.function("asinh")()
    for opset in (9, 13, 20):
        path = c.scratch / f"{opset}.onnx"
        c.attempt(f"opset {opset}", export, torch.asinh, (torch.ones(2, 3),), opset, path)
        c.file(f"opset {opset}", path)


def judge_asinh(v: Verdict) -> None:
    x = v.rng.normal(scale=3, size=(4, 5)).astype(np.float32)
    for opset in (9, 13, 20):
        with v.check(f"exports at opset {opset}"):
            model = v.model(f"opset {opset}")
            graphs.expect_opset(model, opset)
            graphs.expect_inputs(model, ["x"])
            graphs.expect_ops(model, {"Asinh": 1})
            graphs.expect_valid(model)
        if not v.ok:
            return
        with v.check(f"matches torch.asinh at opset {opset}"):
            (got,) = graphs.run(model, {"x": x})
            expect_close(got, np.arcsinh(x), name="asinh(x)")
