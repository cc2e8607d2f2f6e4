"""An output in the memory of an input."""

from __future__ import annotations

import numpy as np
from onnx import helper

from oplab import ops
from oplab.toolchain.one_file import compile_library
from tests.clinic.tools import CPP
from tests.support.models import info, model_of


def shared(name: str) -> tuple[bool, list]:
    """Whether an operator of chapter 13 wrote where it read, and its result; between other nodes: a model's ends are the caller's."""
    nodes = [
        helper.make_node("Neg", ["x"], ["h"]),
        helper.make_node(name, ["h"], ["g", "same"], domain="lesson"),
        helper.make_node("Neg", ["g"], ["y"]),
    ]
    model = model_of(nodes, {"x": "f4"}, {"y": "f4", "same": "?"}, {"x": [8]}, domains=(("lesson", 1),))
    # ONNX Runtime decides before the run, and needs both sizes for it.
    model.graph.value_info.extend(info(name, "f4", [8]) for name in "hg")
    session = ops.session(model, libraries=[compile_library(CPP / "13_inplace.cpp", "ort")])
    y, same = session.run(None, {"x": np.arange(8, dtype=np.float32)})
    return bool(same[0]), y.tolist()


RIGHT = [0, 1, 3, 5, 7, 9, 11, 13]


def happens() -> bool:
    return shared("MayRight") != (True, RIGHT)


def way_around() -> None:
    assert shared("Plain") == (False, RIGHT)  # without the promise there is a copy, and nothing to get wrong
