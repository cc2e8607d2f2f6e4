"""Graphs: ``show(model)`` draws a static picture, and in a live Jupyter puts the real Netron in its place.

Importing this package is cheap, because Jupyter's server does it at its start.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {"show": "oplab.viewer.view", "View": "oplab.viewer.view"}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'oplab.viewer' has no attribute {name!r}")
