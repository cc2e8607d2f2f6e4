"""Exports and sessions without the output that says nothing new."""

from __future__ import annotations

import warnings


def quiet_exports() -> None:
    """Silence warnings and logs that would hide what a lesson's output shows.

    The TorchScript path warns that it is deprecated at each export, and prints the whole graph when one fails; ONNX
    Runtime logs what it also raises. Exceptions are not touched.
    """
    import onnxruntime
    import torch

    warnings.filterwarnings("ignore")
    onnxruntime.set_default_logger_severity(4)
    torch._C._jit_set_onnx_log_enabled = lambda on: None  # an export that fails calls this to print its graph
