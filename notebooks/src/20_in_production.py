# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 20 · In production
#
# After this chapter you can
#
# - find the slow node of a model and the memory that a session keeps, from numbers that exclude the warm-up;
# - keep ONNX Runtime's optimiser away from one node, and compare detectors whose results are rounded;
# - turn an address in a crash report into a line of your source.
#
# Your detector is with a customer. It has custom nodes, it ends with non-maximum suppression, and its weights are
# random numbers from a seed, which is all that this chapter needs. The customer has moved the last layer to an engine
# that works in float16, and compares the two engines. The first report of this week:

# %%
import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

from oplab import lesson, raises, session
from oplab.toolchain.build import compile_library

lab = lesson("20_in_production")
ort.set_default_logger_severity(4)
F = np.float32
library = compile_library(lab.cpp("20_detector.cpp"), "ort")
rng = np.random.default_rng(20)

DETECTOR = """<ir_version: 10, opset_import: ["": 20, "lesson": 1]>
detector (float[1, 3, 128, 128] image) => (float[1, n, 4] boxes, float[1, 2, n] scores, int64[k, 3] found)
<int64[3] flat = {1, 16, 256}, int64[1] most = {20}, float[1] iou = {0.5}, float[1] least = {9.0}> {
    [tone]  tone = lesson.Tone(image)
    [left]  left = Conv <pads = [1, 1, 1, 1]> (tone, left_weight)
    [right] right = Conv <pads = [1, 1, 1, 1]> (tone, right_weight)
    [mix]   mix = lesson.MIX(left, right)
    [pool]  pool = MaxPool <kernel_shape = [8, 8], strides = [8, 8]> (mix)
    [relu]  relu = Relu(pool)
    [rows]  rows = Reshape(relu, flat)
    [turn]  turn = Transpose <perm = [0, 2, 1]> (rows)
    [head]  head = MatMul(turn, head_weight)
    [bias]  sum = Add(head, head_bias)
    ROUND
    [split] moves, marks = Split <axis = 2> (last, parts)
    [boxes] boxes = Add(moves, anchors)
    [score] scores = Transpose <perm = [0, 2, 1]> (marks)
    [nms]   found = NonMaxSuppression(boxes, scores, most, iou, least)
}"""
# Multiples of 1/4 and 1/8: no sum of this network is rounded in float32, on any processor.
row, column = np.divmod(np.arange(256), 16)
corner = np.stack([8 * row, 8 * column], 1)
WEIGHTS = {
    "left_weight": rng.integers(-2, 3, (16, 3, 3, 3)) / 4,
    "right_weight": rng.integers(-2, 3, (16, 3, 3, 3)) / 4,
    "head_weight": rng.integers(-8, 9, (16, 6)) / 8,
    "head_bias": np.array([0, 0, 0, 0, 16, 21]),
    "anchors": np.concatenate([corner - 12, corner + 12], 1)[None],
}


def detector(mix="Mix", rounding="last = Identity(sum)"):
    text = DETECTOR.replace("MIX", mix).replace("ROUND", rounding)
    model = onnx.parser.parse_model(text)
    tensors = [numpy_helper.from_array(value.astype(F), name) for name, value in WEIGHTS.items()]
    parts = numpy_helper.from_array(np.array([4, 2]), "parts")
    model.graph.initializer.extend([*tensors, parts])
    return model


def detect(model, image):
    """Rows of x1, y1, x2, y2 in pixels, score and class, in the order of NonMaxSuppression."""
    boxes, scores, found = session(model, libraries=[library]).run(None, {"image": image})
    batch, kind, place = found.T
    return np.column_stack([boxes[0, place][:, [1, 0, 3, 2]], scores[0, kind, place], kind])


image = rng.integers(0, 256, (1, 3, 128, 128)).astype(F) / 256
HALF = "half = Cast <to = 10> (sum)\n    last = Cast <to = 1> (half)"
ours, theirs = detect(detector(), image), detect(detector(rounding=HALF), image)
rows = min(len(ours), len(theirs))
print(f"{len(ours)} boxes in float32, {len(theirs)} with a float16 head")
print(f"largest difference of two rows: {np.abs(ours - theirs)[:rows, :4].max():.0f} pixels")

# %% [markdown]
# The image has 128 pixels. Is the engine broken? Section 4 answers this. Before that come the reports about time, about
# a result that is infinite, and about memory; after it come a crash and a device.
#
# ## 1. Which node is slow?
#
# "The detector is too slow." Measure where the time goes. `enable_profiling` makes a session write a file of events
# when `end_profiling` is called. The naive way is to add up the time of each node:

# %%
import json
from collections import Counter
from pathlib import Path


def profile(model, runs=6):
    """The path of a profile of some runs. ONNX Runtime adds the time to the file's name."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(lab.build / "profile")
    options.register_custom_ops_library(str(library))
    measured = ort.InferenceSession(model.SerializeToString(), options)
    for _ in range(runs):
        measured.run(None, {"image": image})
    return Path(measured.end_profiling())


# A library of its own: the kernels in memory have not run yet, as in a new process.
path = profile(detector())
events = json.loads(path.read_text())
nodes = [event for event in events if event["cat"] == "Node"]
print({key: nodes[0][key] for key in ("cat", "name", "ph")}, nodes[0]["args"]["op_name"])
total = Counter()
for event in nodes:
    total[event["name"]] += event["dur"]
print("the slowest node:", total.most_common(1)[0][0])

# %%
lab.source("20_detector.cpp", "struct Tone")
