"""LinearAttention is an operator of opset 27, which ONNX Runtime refuses: a runtime that is one opset late."""

from __future__ import annotations

import numpy as np
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.clinic.tools import refusal, run
from tests.support.models import info, model_of

BATCH, LENGTH, SIZE = 2, 5, 4
SHAPE = [BATCH, LENGTH, SIZE]
NEW = model_of(
    [helper.make_node("LinearAttention", ["q", "k", "v"], ["y"], q_num_heads=1, kv_num_heads=1, update_rule="linear")],
    dict.fromkeys("qkv", "f4"),
    {"y": "f4"},
    dict.fromkeys("qkvy", SHAPE),
    domains=(),
    opset=27,
    ir_version=13,
)
FEED = [np.sin(np.arange(BATCH * LENGTH * SIZE, dtype=np.float32) * step).reshape(SHAPE) for step in (1, 2, 3)]


def scan():
    """The same in operators of opset 20: state += k^T v, y = q state / sqrt(size), for each step of time."""
    step = helper.make_graph(
        [
            helper.make_node("Unsqueeze", ["kt", "last"], ["column"]),
            helper.make_node("Unsqueeze", ["vt", "middle"], ["row"]),
            helper.make_node("MatMul", ["column", "row"], ["outer"]),
            helper.make_node("Add", ["state", "outer"], ["next"]),
            helper.make_node("Unsqueeze", ["qt", "middle"], ["query"]),
            helper.make_node("MatMul", ["query", "next"], ["seen"]),
            helper.make_node("Squeeze", ["seen", "middle"], ["flat"]),
            helper.make_node("Mul", ["flat", "scale"], ["yt"]),
        ],
        "step",
        [info("state", "f4", [BATCH, SIZE, SIZE]), *(info(f"{name}t", "f4", [BATCH, SIZE]) for name in "qkv")],
        [info("next", "f4", [BATCH, SIZE, SIZE]), info("yt", "f4", [BATCH, SIZE])],
        [
            helper.make_tensor("last", 7, [1], [2]),
            helper.make_tensor("middle", 7, [1], [1]),
            helper.make_tensor("scale", 1, [], [SIZE**-0.5]),
        ],
    )
    zero = helper.make_tensor("zero", 1, [BATCH, SIZE, SIZE], np.zeros(BATCH * SIZE * SIZE))
    return model_of(
        [
            helper.make_node("Constant", [], ["start"], value=zero),
            helper.make_node(
                "Scan",
                ["start", "q", "k", "v"],
                ["state_after", "y"],
                body=step,
                num_scan_inputs=3,
                scan_input_axes=[1, 1, 1],
                scan_output_axes=[1],
            ),
        ],
        dict.fromkeys("qkv", "f4"),
        {"y": "f4"},
        dict.fromkeys("qkvy", SHAPE),
        domains=(),
    )


def happens() -> bool:
    return "Opset 27 is under development" in refusal(Exception, run, NEW, *FEED)


def way_around() -> None:
    wanted = ReferenceEvaluator(NEW).run(None, dict(zip("qkv", FEED, strict=True)))[0]
    assert np.allclose(run(scan(), *FEED)[0], wanted, atol=1e-5)
