"""Chapter 20: in production.

`make check EX=c20` grades this file and `csrc/c20_crash_report.cpp`.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from oplab import todo
from oplab.ops import ort_library


def slow_node(profile: Path, warmup: int) -> tuple[str, float]:
    """Find the node that takes the most time per run.

    Args:
        profile: the file that `end_profiling` names: a JSON list of
            events with `cat`, `name`, `ts` (start) and `dur`, both in
            microseconds. An event `model_run` of the category `Session`
            is one run. An event `NAME_kernel_time` of the category
            `Node` is one call of the node NAME, in the run in which it
            starts. Its `args["op_name"]` is the operator.
        warmup: so many runs come first and do not count.

    Returns the node's name, and its time per run in milliseconds: the
    median over the runs that count of the sum of its calls in that run,
    which is 0 if it was not called. A node with a body (If, Loop, Scan)
    does not count: its time is that of the nodes in the body, which
    have their own events.

    About 15 lines.
    """
    # TODO c20.slow_node: return the slowest node's name and its milliseconds per run
    raise todo("c20.slow_node")


OPTIMISERS = (
    "EliminateIdentity",
    "ConvBNFusion",
    "ConvAddFusion",
    "ConvMulFusion",
    "CommonSubexpressionElimination",
    "ConstantFolding",
    "ConvActivationFusion",
    "MatMulAddFusion",
    "MatMulScaleFusion",
    "MatmulTransposeFusion",
    "GemmActivationFusion",
    "MatMulActivationFusion",
)


def optimised(model: onnx.ModelProto, disabled: list[str]) -> onnx.GraphProto:
    """The graph that ONNX Runtime runs: optimised, except by the
    optimisers named.

    The level is EXTENDED, so that the graph does not depend on the
    processor. The kernels of the domain oplab are known.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    options.register_custom_ops_library(str(ort_library()))
    level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.graph_optimization_level = level
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = f"{folder}/optimised.onnx"
        onnxruntime.InferenceSession(
            model.SerializeToString(), options, disabled_optimizers=disabled
        )
        return onnx.load(options.optimized_model_filepath).graph


def keep_the_node(model: onnx.ModelProto, name: str) -> list[str]:
    """Find the optimisers that have to be disabled so that a node stays
    in the graph.

    A node stays if `optimised` returns a graph in which a node has its
    name, operator and domain.

    Args:
        model: a valid model, which is not changed. Its nodes have
            different names.
        name: of one of its nodes.

    Returns names from OPTIMISERS, none of which can be left out: if any
    of them is enabled again, the node is lost. An empty list if the
    node stays anyway.

    About 10 lines.
    """

    # TODO c20.keep_the_node: return the optimisers to disable, and none that is not needed
    raise todo("c20.keep_the_node")


def same_boxes(expected: np.ndarray, got: np.ndarray) -> tuple[list[int], list[int]]:
    """Compare what two engines detect in one image, after non-maximum
    suppression.

    Args:
        expected, got: float32 arrays [boxes, 6], in any order. A row is
            x1, y1, x2, y2 as parts of the image's sides (from 0 to 1,
            x1 <= x2, y1 <= y2), score, class. Either may have no rows.

    A row of `expected` and a row of `got` are partners if

    - their classes are equal, their scores differ by at most 0.02, and
    - they overlap by at least 0.5: the area of their intersection,
      divided by that of their union. Two boxes without an area do not
      overlap.

    Each row has at most one partner: the pair that overlaps most comes
    first, then the pair that overlaps most among the rows that are
    left, and so on.

    Returns the indices of the rows of `expected` that are missing in
    `got`, and of the rows of `got` that are too many, both ascending. A
    row without a partner is in neither list if its score is within 0.02
    of the threshold of the scores, 0.3: rounding decides about such a
    row.

    About 20 lines.
    """

    # TODO c20.same_boxes: return the rows that only one of the two has
    raise todo("c20.same_boxes")
