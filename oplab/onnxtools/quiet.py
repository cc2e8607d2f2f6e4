"""Exports and sessions without the output that says nothing new."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


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


@contextmanager
def cpp_warnings() -> Iterator[None]:
    """Collect what C++ code writes to stderr in the block, and print its warnings, each once, at the end.

    Python's ``warnings`` does not see them, so the block's stderr is a file. Anything else that was written is dropped.
    """
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        text = file.read().decode(errors="replace")
    found = re.findall(r"Warning: (.*?)(?: \(function .*)?$", text, re.MULTILINE)
    print("\n".join(f"Warning: {line}" for line in dict.fromkeys(found)) or "no warning")
