"""Operators of the course as nodes of the domain oplab, for today's exporter."""

from __future__ import annotations

from onnxscript import FLOAT, script
from onnxscript.values import Opset

oplab_1 = Opset("oplab", 1)


@script(default_opset=oplab_1)
def my_add_translation(a: FLOAT[...], b: FLOAT[...], alpha: float = 3.0, beta: float = 2.0) -> FLOAT[...]:
    return oplab_1.MyAdd(a, b, alpha=alpha, beta=beta)


@script(default_opset=oplab_1)
def dynamic_resize_translation(x: FLOAT[...], scales: FLOAT[...]) -> FLOAT[...]:
    return oplab_1.DynamicResize(x, scales)
