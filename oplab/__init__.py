"""Operator Lab: take an operator from PyTorch to ONNX and run it in ONNX Runtime.

Importing this package is cheap. The names below load what they need when they are first used.
"""

from __future__ import annotations

import importlib
from typing import Any

from oplab.errors import OplabError

__version__ = "0.2.0"

_HOMES = {
    "lesson": "oplab.lessons",
    "quiet_exports": "oplab.onnxtools.quiet",
    "raises": "oplab.lessons",
    "show": "oplab.viewer",
    "session": "oplab.ops",
    "todo": "oplab.course.stubs",
}
__all__ = ["OplabError", *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
        return found
    raise AttributeError(f"module 'oplab' has no attribute {name!r}")
