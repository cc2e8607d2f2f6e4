"""Chapter 04: symbolic functions for ATen operators that the TorchScript exporter lacks.

Check one with ``make check EX=c04.asinh``.
"""

from __future__ import annotations

import torch

from oplab import todo


def asinh() -> None:
    """Register a symbolic function for ``torch.asinh`` (its schema: ``aten::asinh(Tensor self) -> Tensor``).

    After the call, ``torch.onnx.export(..., dynamo=False, opset_version=9)`` and later opsets write one ONNX ``Asinh`` node.
    """

    # TODO c04.asinh: register the mapping from aten::asinh to ONNX, valid from opset 9 on
    raise todo("c04.asinh")
