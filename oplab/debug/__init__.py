"""Why is a model wrong? Look inside, compare with torch layer by layer, find the first node that drifts, cut and replace."""

from __future__ import annotations

import importlib
from typing import Any

# Nothing is imported before it is used: what needs one tool does not load torch for the others.
_PLACES = {
    "Drift": "drifting",
    "Found": "bisecting",
    "Layers": "layers",
    "Tap": "tapping",
    "bisect": "bisecting",
    "compare_layers": "layers",
    "drift": "drifting",
    "extract": "surgery",
    "replace": "surgery",
    "tap": "tapping",
}

__all__ = ["Drift", "Found", "Layers", "Tap", "bisect", "compare_layers", "drift", "extract", "replace", "tap"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
