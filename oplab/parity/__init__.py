"""Comparisons that can fail: of arrays, and of one model in several backends.

``from oplab.parity import parity`` compares a whole model; :mod:`oplab.parity.arrays` compares arrays and needs NumPy only. Importing
this package is cheap: what a name needs is loaded when the name is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "parity": "oplab.parity.comparison",
    "max_ulp": "oplab.parity.arrays",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
        return found
    raise AttributeError(f"module 'oplab.parity' has no attribute {name!r}")
