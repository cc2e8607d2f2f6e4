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
import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

from oplab import lesson, session
from oplab.toolchain.build import compile_library

lab = lesson("20_in_production")
ort.set_default_logger_severity(4)
F = np.float32
library = compile_library(lab.cpp("20_detector.cpp"), "ort")
rng = np.random.default_rng(23)

DETECTOR = """<ir_version: 10, opset_import: ["": 20, "lesson": 1]>
detector (float[1, 3, 128, 128] image)
=> (float[1, n, 4] boxes, float[1, 2, n] scores, int64[k, 3] found)
<int64[3] flat = {1, 16, 256}, int64[1] most = {20},
 float[1] iou = {0.5}, float[1] least = {18.0}> {
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
    arrays = {name: value.astype(F) for name, value in WEIGHTS.items()}
    tensors = [numpy_helper.from_array(value, name) for name, value in arrays.items()]
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
gap = np.abs(ours[:rows, :4] - theirs[:rows, :4]).max()
print(f"largest difference of two rows: {gap:.0f} pixels")

# %% [markdown]
# The image has 128 pixels. Is the engine broken? Section 4 answers this. Before that come the reports about time, about
# a result that is infinite, and about memory; after it come a crash and a device.
#
# ## 1. Which node is slow?
#
# "The detector is too slow." A session with `enable_profiling` writes a file of events when `end_profiling` is called.
# An event has a kind, `cat`, and a `name`; `dur` is how long it took, and `ts` when it began, both in microseconds. The
# naive way is to add up the time of each node:

# %%
shipped = lab.fresh("shipped") / "detector.so"
shutil.copy(library, shipped)  # a new library: nothing in it has run yet, as in a new process


def profile(model, runs=6):
    """The events of some runs in a new session."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(lab.build / "profile")
    options.register_custom_ops_library(str(shipped))
    measured = ort.InferenceSession(model.SerializeToString(), options)
    for _ in range(runs):
        measured.run(None, {"image": image})
    return json.loads(Path(measured.end_profiling()).read_text())


def slowest(events):
    total = Counter()
    for event in events:
        if event["cat"] == "Node":
            total[event["name"].removesuffix("_kernel_time")] += event["dur"]
    return total.most_common(1)[0][0]


events = profile(detector())
print("⏱ the slowest node:", slowest(events))

# %% [markdown]
# Look at the calls of `tone` one by one before you optimise it. The event `model_run` is a whole run; a call belongs to
# the run in which it starts.

# %%
runs = [event for event in events if event["name"] == "model_run"]
calls = [event["dur"] / 1000 for event in events if event["name"] == "tone_kernel_time"]
print("⏱ the calls of tone, ms:", [round(call, 1) for call in calls])
later = [event for event in events if event["ts"] >= runs[1]["ts"]]
print("⏱ the slowest node from the second run on:", slowest(later))

# %% [markdown]
# The first run is **warm-up**: kernels make tables, memory is requested, caches are cold. Leave it out. (If a process
# makes one run only, the warm-up *is* the problem.) The picture shows a later run, node by node:

# %%
import matplotlib.pyplot as plt

from oplab.figures.palette import BLUE, ORANGE

begin, end = runs[-1]["ts"], runs[-1]["ts"] + runs[-1]["dur"]
inside = [e for e in events if e["cat"] == "Node" and begin <= e["ts"] < end]
figure, axes = plt.subplots(figsize=(8, 3.4), layout="constrained")
for place, event in enumerate(inside):
    bar = ((event["ts"] - begin) / 1000, event["dur"] / 1000)
    custom = event["args"]["op_name"] in ("Tone", "Mix")
    colour = ORANGE if custom else BLUE
    axes.broken_barh([bar], (place - 0.4, 0.8), facecolors=colour, hatch="//" * custom)
names = [event["name"].removesuffix("_kernel_time") for event in inside]
axes.set(yticks=range(len(names)), yticklabels=names, xlabel="time since the run began, ms")
axes.invert_yaxis()
axes.spines[["top", "right"]].set_visible(False)
lab.figure(
    figure,
    "A row for each node of one run, with a bar from its start to its end. The hatched bars are"
    " custom nodes. The bar of mix is the longest one.",
)

# %% [markdown]
# The loop of `mix` calls `Data()`, a function of ONNX Runtime, twice for each element:

# %%
lab.source("20_detector.cpp", "struct Mix")

# %%
lab.source("20_detector.cpp", "struct MixFast")

# %%
print("the boxes are the same:", np.array_equal(detect(detector("MixFast"), image), ours))

# %% [markdown]
# **Limits.** A profile has a cost for each event: compare nodes within it, and measure whole runs without it. Take the
# median of the runs, since another program can disturb one of them. A node with a body (If, Loop, Scan) contains the
# time of the body's nodes.
#
# ## 2. What the optimiser does around a custom node
#
# "Since the update, the result is infinite." A session rewrites the graph before it runs it. Here a factor of 1/64 keeps
# the sums of a MatMul in range, before a custom node:

# %%
from oplab.ops import ort_library

Level = ort.GraphOptimizationLevel
GUARD = """<ir_version: 10, opset_import: ["": 20, "oplab": 1]>
guard (float[n, 4] x) => (float[n, 2] y)
<float[4, 2] w = {1, 1, 1, 1, 1, 1, 1, 1}, float small = {0.015625}> {
    [guard]  a = Mul(x, small)
    [matmul] b = MatMul(a, w)
    [add]    c = oplab.MyAdd(b, b)
    [unused] d = oplab.MyAdd(b, b)
    [same]   y = Identity(c)
}"""


def graph(text=GUARD, shape=(1, 4), level=Level.ORT_ENABLE_EXTENDED, disabled=()):
    """The nodes that run, and the first number of the result."""
    options = ort.SessionOptions()
    options.register_custom_ops_library(str(ort_library()))
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(lab.build / "optimised.onnx")
    model = onnx.parser.parse_model(text).SerializeToString()
    made = ort.InferenceSession(model, options, disabled_optimizers=list(disabled))
    nodes = onnx.load(options.optimized_model_filepath).graph.node
    result = made.run(None, {"x": np.full(shape, 1e38, F)})[0].flat[0]
    return [node.op_type for node in nodes], f"{result:.3g}"


print(*graph(level=Level.ORT_DISABLE_ALL))
print(*graph())

# %% [markdown]
# Both MyAdd are still there, although they are equal and one is unused. ONNX Runtime does not know whether your operator
# returns the same each time, so it leaves custom nodes as they are. The harm is done to the **neighbours**:
# `MatMulScaleFusion` has made the factor an attribute of `FusedMatMul`, which multiplies *after* the sum, and 4·10³⁸ is
# larger than any float32. (float16 ends at 65504, so there it happens with ordinary numbers.)
#
# The naive fix is `ORT_DISABLE_ALL`, and every Identity, constant and unfused pair comes back. Name what to leave out:

# %%
print(*graph(disabled=["MatMulScaleFusion"]))

# %% [markdown]
# With `log_severity_level = 1` a session logs a line for each optimiser, such as `GraphTransformer MatMulScaleFusion
# modified: 1`. Small rules share one line, `Level1_RuleBasedTransformer`: you have to try their names. If one optimiser
# is disabled, another may take the node. This factor is between a Conv and a MatMul:

# %%
BETWEEN = """<ir_version: 10, opset_import: ["": 20]>
between (float[1, 2, 4, 4] x) => (float[1, 1, 4, 2] y)
<float[1, 2, 1, 1] k = {1, 1}, float[4, 2] w = {1, 1, 1, 1, 1, 1, 1, 1},
 float small = {0.015625}> {
    a = Conv(x, k)
    [guard] b = Mul(a, small)
    y = MatMul(b, w)
}"""
for disabled in ([], ["ConvMulFusion"], ["ConvMulFusion", "MatMulScaleFusion"]):
    print(*graph(BETWEEN, (1, 2, 4, 4), disabled=disabled), "without", disabled)

# %% [markdown]
# **Limits.** The names are not an API: keep a test that saves the graph and looks for the node. Save a graph that you
# ship at EXTENDED, because ALL chooses layouts for the processor.
#
# ## 3. Where memory goes
#
# "After one large image, the server never gets smaller." A session takes memory through an **arena**, which keeps what
# it has. The model has six nodes, and each value has 64 MB in the large run (the cell reads Linux's `/proc`):

# %%
import os

CHAIN = """<ir_version: 10, opset_import: ["": 20]> chain (float[n] x) => (float[1] y) {
    a = Sin(x)
    b = Cos(x)
    c = Mul(a, b)
    d = Exp(c)
    e = Add(d, a)
    y = ReduceSum <keepdims = 1> (e) }"""
LINUX = sys.platform == "linux"
chain = onnx.parser.parse_model(CHAIN).SerializeToString()
large, small = {"x": np.ones(16 << 20, F)}, {"x": np.ones(16, F)}


def resident():
    """MB of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def kept(arena=True, shrink=False):
    """MB that a session keeps after a large run."""
    options, how = ort.SessionOptions(), ort.RunOptions()
    options.enable_cpu_mem_arena = arena
    if shrink:
        how.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    made = ort.InferenceSession(chain, options)
    made.run(None, small)
    before = resident()
    made.run(None, large, how)
    return resident() - before


ways = {"an arena": {}, "shrinks": {"shrink": True}, "no arena": {"arena": False}}
for name, how in ways.items() if LINUX else ():
    print(f"{name:9} keeps more than 100 MB: {kept(**how) > 100}")

# %% [markdown]
# The entry of `RunOptions` returns what is free at the end of *one* run. The **peak** is less than the sum of all
# values: memory of a value that is not needed any more is used for a later one. A NumPy input is used where it is. An
# output comes from the arena, unless you bind it:

# %%
made = ort.InferenceSession(chain)
result = np.zeros(1, F)
binding = made.io_binding()
binding.bind_cpu_input("x", small["x"])
binding.bind_output("y", "cpu", 0, F, [1], result.ctypes.data)
made.run_with_iobinding(binding)
print("the bound array has the result:", bool(result == made.run(None, small)[0]))

# %% [markdown]
# ## 4. Which boxes remain
#
# Back to the first report. Suppression sorts by score and keeps the best box of each group, and rounding moves both
# decisions: scores that rounding makes equal change **places**, of two boxes that overlap the **other** may remain, and
# a score at the **threshold** (here 18) is in or out. Look for partners that overlap:

# %%
import torch
from torchvision.ops import box_iou

overlap = box_iou(*(torch.from_numpy(rows[:, :4]) for rows in (ours, theirs))).numpy()
overlap[ours[:, None, 5] != theirs[None, :, 5]] = 0  # another class is another object
best, partner = overlap.max(1), overlap.argmax(1)
alone, rest = np.flatnonzero(best < 0.5), best >= 0.5
gap = np.abs(ours - theirs[partner])[rest].max(0)
print(f"corners differ by {gap[:4].max():.3f} pixels, scores by {gap[4]:.4f}")
print("without a partner:", alone.tolist(), "scores:", ours[alone, 4].round(4).tolist())

# %% [markdown]
# Each box of ours has a partner in theirs, except at the threshold: float16 has 11 significant bits, so scores near 18
# are multiples of 1/64, and NonMaxSuppression keeps only scores strictly above the threshold. (Boxes that only the
# engine has need the same comparison in the other direction.) **Limits.** Two engines that agree on an image may both
# be wrong: measure the metric of the task, too.
#
# ## 5. An address from a stripped library
#
# "It crashes." What you ship has no symbols. Compile with `-g`, keep the debug file, and strip the rest. The customer's
# program has a handler that writes the address and the memory map of the process:

# %%
from oplab.toolchain.compiler import find_compiler
from oplab.toolchain.recipes import recipe

compiler, how, work = find_compiler(), recipe("ort"), lab.fresh("crash")
CUSTOMER = """
import ctypes, sys
import numpy as np, onnx, onnxruntime

ctypes.CDLL(sys.argv[1]).install_reporter()
model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["": 20, "lesson": 1]>
    masked (float[n] x) => (float[n] y) { y = lesson.Mask(x, x) }''')
del model.graph.node[0].input[1:]  # the mask is optional
options = onnxruntime.SessionOptions()
options.register_custom_ops_library(sys.argv[2])
session = onnxruntime.InferenceSession(model.SerializeToString(), options)
session.run(None, {"x": np.ones(4, np.float32)})
"""


def call(*words):
    return subprocess.run([*map(str, words)], cwd=work, capture_output=True, text=True)


def crash():
    """What the customer's program wrote."""
    call(*compiler.command, *how.flags, "-g", source, *how.link, "-o", "libops.so")
    call("objcopy", "--only-keep-debug", "libops.so", "libops.debug")
    call("strip", "--strip-all", "libops.so")
    reporter = compile_library(lab.cpp("20_reporter.cpp"), "cpp")
    return call(sys.executable, "-c", CUSTOMER, reporter, work / "libops.so").stderr


source = lab.cpp("20_detector.cpp")
if LINUX:
    report = crash().splitlines()
    address = int(report[0].split()[-1], 16)
    maps = [line for line in report if line.endswith("/libops.so")]
    code = next(line for line in maps if "r-xp" in line)
    starts = {"alone": 0, "from the code": code, "from the file": maps[0]}
    for name, line in starts.items():
        base = int(line.split("-")[0], 16) if line else 0
        found = call("addr2line", "-e", "libops.debug", hex(address - base)).stdout
        number = found.split(":")[-1].split()[0]
        line = source.read_text().splitlines()[int(number) - 1] if number.isdigit() else "??"
        found = line.strip() if "y[i] = x[i]" in line else "another place, or none"
        print(f"{name:14} {found}")

# %% [markdown]
# A library is loaded at another address in each process. addr2line counts from the **first** mapping of the file, not
# from the mapping with the code. The line reads a mask that the model does not have. A return address of a caller is
# *after* the call: subtract one. `snprintf` is not on POSIX's list of async-signal-safe functions; with integers and
# short strings, glibc's does not allocate. **Limits.** The debug file has to be that of the same build (compare
# `readelf -n`).
#
# ## 6. float16 that overflows only on the device
#
# The mean of 4096 values of 300 is 300. A float16 sum of them is not a float16 number:

# %%
from onnx.reference import ReferenceEvaluator

MEAN = """<ir_version: 10, opset_import: ["": 20]> mean (float16[n] x) => (float16[1] y) {
    BODY }"""
bodies = {
    "float16": "y = ReduceMean(x)",
    "sum in float32": "w = Cast <to = 1> (x)\n m = ReduceMean(w)\n y = Cast <to = 10> (m)",
}
x = {"x": np.full(4096, 300, np.float16)}
for name, body in bodies.items():
    model = onnx.parser.parse_model(MEAN.replace("BODY", body))
    with np.errstate(over="ignore"):
        emulated = ReferenceEvaluator(model).run(None, x)[0]
    cpu = ort.InferenceSession(model.SerializeToString()).run(None, x)[0]
    print(f"{name:15} ONNX Runtime's CPU {cpu[0]}, every step in float16 {emulated[0]}")

# %% [markdown]
# ONNX Runtime's CPU inserts Casts and computes in float32. The reference evaluator rounds the result of each node to
# float16, so it shows what a device *may* do. (Inside a node NumPy may add in float32, so an overflow there can stay
# hidden.) It does not show what yours does: many keep float32 sums. Only a run there can tell.
#
# ## 7. Exercises
#
# Write what would have found the causes of this chapter's reports. **`slow_node`** in
# [exercises/c20_in_production.py](../exercises/c20_in_production.py#line=41): a script blames the wrong node.

# %%
lab.check("slow_node")

# %% [markdown]
# **`keep_the_node`** in [exercises/c20_in_production.py](../exercises/c20_in_production.py#line=100): fusions take a node.

# %%
lab.check("keep_the_node")

# %% [markdown]
# **`same_boxes`** in [exercises/c20_in_production.py](../exercises/c20_in_production.py#line=133): a test compares rows.

# %%
lab.check("same_boxes")

# %% [markdown]
# **`crash_report`** in [exercises/csrc/c20_crash_report.cpp](../exercises/csrc/c20_crash_report.cpp#line=38): a handler
# writes addresses that are useless at home. `cpp/20_reporter.cpp` is such a handler.

# %%
lab.check("crash_report")

# %% [markdown]
# ## Five questions

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - ONNX Runtime's pages on profiling, graph optimisations, memory and IOBinding.
# - `man addr2line`, `man objcopy` (the option `--add-gnu-debuglink`).
#
# Previous: [19: Operators of today's models](19_todays_models.ipynb)
# · [Glossary](../docs/glossary.md)
