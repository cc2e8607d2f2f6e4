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
# # 14 · Fast kernels
#
# After this chapter you can
#
# - measure a kernel so that the number means something, and plot it next to the machine's limits and next to its peers;
# - turn a naive kernel into one that comes close to ONNX Runtime's own operator or beats it, one idea at a time:
# hoist, vectorise,
#   use threads; in the deeper sections also choose the width of a vector, block, and do less work;
# - decide when a plugin is not worth it.
#
# ## 1. The failure: one node, slower than three
#
# In ONNX, `3a + 2b` is three nodes: Mul, Mul, Add. Each node reads its operands from memory and writes its result to
# memory. A single
# custom node reads a and b once and writes y once, so it should be about twice as fast.

# %%
import os
from functools import partial

import numpy as np
import onnx

from oplab import lesson, session
from oplab.figures.kernels import ladder
from oplab.timing import race, times_as_fast
from oplab.toolchain.build import compile_library

lab = lesson("14_fast_kernels")
threads = min(2, os.cpu_count() or 1)


def model(inputs, outputs, nodes, numbers=""):
    """A model in ONNX's text syntax, as in chapter 01."""
    head = '<ir_version: 10, opset_import: ["": 20, "lesson": 1, "oplab": 1]>'
    text = f"{head} g ({inputs}) => ({outputs}) {numbers} {{ {nodes} }}"
    return onnx.parser.parse_model(text)


def runner(made, *libraries, count=threads):
    """A function that runs the model and returns its first output."""
    run = session(made, threads=count, libraries=list(libraries))
    return lambda feeds: run.run(None, feeds)[0]


AB, Y, NUMBERS = "float[n] a, float[n] b", "float[n] y", "<float p = {3}, float q = {2}>"
three = model(AB, Y, "ap = Mul(a, p) bq = Mul(b, q) y = Add(ap, bq)", NUMBERS)
naive = model(AB, Y, "y = lesson.Naive(a, b)")
adds = compile_library(lab.cpp("14_my_add.cpp"), "ort")

rng = np.random.default_rng(14)
ab = {name: rng.random(1 << 22, dtype=np.float32) for name in "ab"}
both = {"three nodes": runner(three), "one node, naive": runner(naive, adds)}
seconds = race({name: partial(run, ab) for name, run in both.items()}, rounds=5)
slower = times_as_fast(seconds["three nodes"], seconds["one node, naive"])
print("equal:", np.allclose(*(run(ab) for run in both.values())))
print(f"⏱ one node takes {slower:.1f} times as long as three")
lab.figure(
    ladder(seconds, ["three nodes"]),
    "Two rows: the three nodes, and far to the right of them the naive custom node.",
)

# %% [markdown]
# The fused kernel is correct, but slower. (Part of this is threads: the three nodes may use two, this kernel one.) A
# line that begins with ⏱ depends on your machine, as do the figures of this chapter. Here are the two models and the
# kernel, a direct translation of the formula.

# %%
lab.show(three, naive)

# %%
lab.source("14_my_add.cpp", "struct Naive")

# %% [markdown]
# The C++ files of this chapter are in `notebooks/cpp`. `14_my_add.cpp` has several such functions, one for each step
# of the chapter,
# and makes an operator of each. It uses `oplab_kernel.h`, the header from chapter 13:

# %%
lab.source("14_my_add.cpp", "struct Add")

# %% [markdown]
# Before you fix the kernel: how do you know that the number is right?
#
# ## 2. Measure honestly
#
# `race` and `times_as_fast` (in `oplab/timing.py`) do the first three of these, and the figures do the last:
#
# - **Warm up.** The first run includes the cost of memory that is touched for the first time, of starting threads
# and of cold caches.
# - **Take turns.** A machine gets slower and faster for seconds at a time. In each round every contestant runs once,
# and every other
#   round runs in reverse order.
# - **Compare within a round**, then take the **median** of the ratios. A mean would follow the worst round.
# - **Show the spread.** Without the spread, you cannot judge a ratio.
#
# Comparing a kernel with itself shows what can go wrong. The correct ratio is 1.

# %%
import time

same = both["three nodes"]
apart = [[], []]
for half in apart:  # first one, then the other, as most benchmarks do
    for _ in range(12):
        started = time.perf_counter()
        same(ab)
        half.append(time.perf_counter() - started)
in_turns = race({"one": lambda: same(ab), "other": lambda: same(ab)}, rounds=12)
ratios = {
    "✗ one after the other, means": [np.mean(apart[1]) / np.mean(apart[0])],
    "✗ one after the other, run by run": np.divide(*apart[::-1]),
    "✓ alternating, round by round": in_turns["other"] / in_turns["one"],
    "✓ alternating, median": [times_as_fast(in_turns["one"], in_turns["other"])],
}

# %% {"jupyter": {"source_hidden": true}}
import matplotlib.pyplot as plt

from oplab.figures.palette import BLUE, GREY, ORANGE, RED

figure, axes = plt.subplots(figsize=(8.4, 2.5), layout="constrained")
for row, values in enumerate(ratios.values()):
    colour, mark = (ORANGE, "x") if row < 2 else (BLUE, "o")
    axes.plot(values, np.full(len(values), -row), mark, color=colour, alpha=0.8, ms=8)
axes.axvline(1, color=GREY, ls="--", lw=1.2)
axes.set_yticks(-np.arange(len(ratios)), list(ratios))
axes.set_xlabel("time of a kernel, relative to itself (1 is correct)")
axes.set_ylim(-len(ratios) + 0.4, 0.6)
axes.spines[["top", "right"]].set_visible(False)
lab.figure(
    figure,
    "Four rows of points around a dashed line at 1. The median of the rounds is closest to it;"
    " single runs are scattered.",
)

# %% [markdown]
# ### New memory
#
# A benchmark that keeps its results does not measure the kernel alone. Each kept result needs new memory, and the
# system has to find
# and clear every page of it during your kernel's run. When a result is dropped, the next run reuses its pages.
# `race` drops the results.
# The two measurements below cannot take turns: one would reuse the memory that the other drops.

# %%
kept = []
allocation = race({"✓ result dropped": lambda: same(ab)}, rounds=15, warm_up=2)
allocation |= race({"✗ result kept": lambda: kept.append(same(ab))}, rounds=15, warm_up=2)
kept.clear()
figure, axes = plt.subplots(figsize=(8.4, 1.7), layout="constrained")
for row, (values, colour) in enumerate(zip(allocation.values(), (BLUE, ORANGE), strict=True)):
    axes.plot(1e3 * values, np.full(len(values), -row), "|", color=colour, ms=14)
    axes.plot(1e3 * np.median(values), -row, "o", color=colour, ms=9)
axes.set_yticks([0, -1], list(allocation))
axes.set_xlim(left=0)
axes.set_ylim(-1.6, 0.6)
axes.set_xlabel("time of the three nodes, ms: each run (lines) and the median (circle)")
axes.spines[["top", "right"]].set_visible(False)
lab.figure(
    figure,
    "Two rows: runs whose result is kept take longer than runs whose result is dropped.",
)

# %% [markdown]
# Two more rules. **Threads:** give both sides the same number of threads, here the notebook's, or you compare thread
# counts. **Results:**
# check the results of what you time. A kernel that returns early is always the fastest.
#
# ## 3. The limits of the machine
#
# How fast can `3a + 2b` be at best? It moves 12 bytes for each element, and the memory bandwidth is limited. The
# *triad* of the STREAM benchmark measures this bandwidth: `c[i] = a[i] + s * b[i]` on arrays larger than most caches,
# best of several runs. For kernels that compute a lot, the other limit is arithmetic: products and sums in registers,
# with no memory access at all. Both limits are measured here on all threads of the session; kernels on one thread may
# stay below.

# %%
limits = compile_library(lab.cpp("14_limits.cpp"), "ort")
measure = runner(model("int64[1] n", "float[2] limits", "limits = lesson.Limits(n)"), limits)
bandwidth, peak = measure({"n": np.array([1 << 22])})
print("both limits are measured:", bool(bandwidth > 0.1 and peak > 0.1))
print(f"⏱ {bandwidth:.0f}·10⁹ bytes and {peak:.0f}·10⁹ operations per second")

# %%
lab.source("14_limits.cpp", "static float triad")

# %% [markdown]
# The loop that measures the arithmetic is compiled several times. On x86 it is compiled for SSE, AVX2 and AVX-512,
# the instruction sets
# that compute 4, 8 or 16 floats at once (on AArch64 for NEON: 4). At run time, `chosen_simd` finds the widest set
# that the processor has,
# and `run_vectorised` calls the version for that set (`csrc/common/simd.h`). The course's compiler flags do not name
# a processor, so all
# other code is compiled for the oldest processor of the architecture. A library that you distribute has to be built
# that way, too: with
# `-march=native`, it crashes with an illegal instruction on some machines.
#
# ## 4. `3a + 2b`, step by step
#
# The chapter improves each kernel in several steps. **Step 1, naive,** is the kernel of section 1.
# **Step 2, hoisted:** `a.Data()` looks like a field access, but it is a call into ONNX Runtime through a table of
# functions, and the
# compiler cannot know that it returns the same pointer each time. Move it out of the loop.

# %%
lab.source("14_my_add.cpp", "struct Hoisted")

# %% [markdown]
# **Step 3, vectorised:** with plain pointers, the compiler automatically computes several elements with one
# instruction. To show what
# that gains, step 2 disables it with an attribute of GCC; step 3 is the same code without the attribute. **Step 4,
# parallel:** it uses
# `parallel_for` from chapter 13, with pieces that are large enough to justify waking a thread.

# %%
lab.source("14_my_add.cpp", "struct Parallel")

# %% [markdown]
# The peers are the implementations that you would use otherwise: the three nodes, PyTorch's `3 * a + 2 * b`, and the
# course's `MyAdd`.

# %%
import torch

torch.set_num_threads(threads)
peers = {
    "ORT: Mul, Mul, Add": both["three nodes"],
    "torch: 3 * a + 2 * b": lambda feeds: (
        3 * torch.from_numpy(feeds["a"]) + 2 * torch.from_numpy(feeds["b"])
    ),
    "oplab::MyAdd": runner(model(AB, Y, "y = oplab.MyAdd(a, b)")),
}
names = ["Naive", "Hoisted", "Vectorised", "Parallel"]
steps = {name: runner(model(AB, Y, f"y = lesson.{name}(a, b)"), adds) for name in names}
expected = 3 * ab["a"] + 2 * ab["b"]
for name, run in (steps | peers).items():
    print(f"{name:22} equal: {np.allclose(np.asarray(run(ab)), expected)}")


# %%
def on(runs, inputs):
    """The same runs as calls without arguments, for `race`."""
    return {name: partial(run, inputs) for name, run in runs.items()}


add_seconds = race(on(steps | peers, ab), rounds=9)
hoisting = times_as_fast(add_seconds["Hoisted"], add_seconds["Naive"])
print(f"⏱ hoisting alone makes it {hoisting:.1f} times as fast")
lab.figure(
    ladder(add_seconds, peers, ("the memory's speed", 12e-9 * (1 << 22) / bandwidth)),
    "3a + 2b on 4 million floats, a row for each kernel: the steps approach a dashed line,"
    " the memory's speed, and pass the three nodes.",
)

# %% [markdown]
# A mark shows the best run, because the limit is also the best of several runs. The line ends at the median: a long
# line indicates a busy
# machine. Printed ratios are still medians over the rounds.
#
# The last steps are close to the dashed line. From there on, no further optimisation of the loop helps: the kernel
# waits for the memory.
# This is also why step 3 gains little over step 2, and why the speedup from threads is smaller than their number.
# The advantage over the
# three nodes comes from **fusing**: fewer bytes, not faster arithmetic. One trick is left. An ordinary store first
# reads its cache line
# from memory, so 16 bytes move where 12 are counted. Stores that bypass the cache (*non-temporal* stores) avoid this
# read, and can get
# past the dashed line. On x86, the course's `MyAdd` uses them for a y of 16 MiB or more.
#
# Here is the finished file, with the registration of its four operators:

# %%
lab.source("14_my_add.cpp")

# %% [markdown]
# ## 5. When a plugin is not worth it
#
# **Small tensors.** A call of `session.run` has a cost, and so has each node, whatever it computes. Chains of 1 to
# 100 nodes on 16
# floats separate the two: the time grows by the cost of a node, and the rest is the cost of the call. The best run of
# each chain counts, since whatever disturbs a run makes it longer.


# %%
def chain(step, length, numbers=""):
    """`length` steps; each one reads the results of the two steps before it."""
    names = ["b", "a", *(f"y{i}" for i in range(1, length)), "y"]
    triples = zip(names, names[1:], names[2:], strict=False)
    steps = [step.format(i=i, b=b, a=a, y=y) for i, (b, a, y) in enumerate(triples)]
    return model(AB, Y, " ".join(steps), numbers)


lengths = (1, 3, 10, 30, 100)
tiny = {name: values[:16] for name, values in ab.items()}
chains = {n: runner(chain("{y} = Add({a}, {b})", n)) for n in lengths}
seconds = race(on(chains, tiny), rounds=50, warm_up=3)
of_node, of_call = np.polyfit(lengths, [1e6 * np.min(seconds[n]) for n in lengths], 1)
print(f"⏱ session.run takes {of_call:.1f} µs, and each node {of_node:.2f} µs more")

# %% [markdown]
# So a model with one small node shows the cost of the call. This benchmark cannot show what a plugin gains: a plugin
# belongs inside a
# network, and has to be timed there. The next networks have 30 layers of `3a + 2b`.

# %%
sizes = [1 << power for power in range(4, 20, 3)]
fused = runner(chain("{y} = lesson.Parallel({a}, {b})", 30), adds)
three_each = chain("p{i} = Mul({a}, p) q{i} = Mul({b}, q) {y} = Add(p{i}, q{i})", 30, NUMBERS)
layers = {"ORT: Mul, Mul, Add": runner(three_each), "Parallel": fused}
microseconds = {name: [] for name in layers}
for size in sizes:
    part = {name: values[:size] for name, values in ab.items()}
    for name, values in race(on(layers, part), rounds=9, warm_up=3).items():
        microseconds[name].append(1e6 * np.min(values) / 30)

# %% {"jupyter": {"source_hidden": true}}
figure, axes = plt.subplots(figsize=(7.6, 3.3), layout="constrained")
looks = ((GREY, "s-"), (BLUE, "o-"))
for (name, values), (colour, style) in zip(microseconds.items(), looks, strict=True):
    axes.loglog(sizes, values, style, color=colour, label=name, lw=2)
moved = [12e-3 * size / bandwidth for size in sizes]
axes.loglog(sizes, moved, "--", color=RED, label="the memory's speed")
axes.set_xlabel("size, floats")
axes.set_ylabel("time of a layer, µs (best run)")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
lab.figure(
    figure,
    "Time of a layer over size, both logarithmic: two curves are flat up to a thousand floats,"
    " far above a dashed line, the memory's speed; then they rise with the size.",
)

# %% [markdown]
# On the left, a layer costs what its nodes cost: one node instead of three saves part of a microsecond for each
# layer. On the right, the
# fused node saves memory traffic, and the gain grows with the size.
#
# **Work that the runtime does well.** ONNX Runtime's matrix product has been optimised for years. Your own three
# loops are correct, and
# the compiler vectorises the inner one, but they are usually slower.

# %%
lab.source("14_matmul.cpp", "struct MatMul")

# %%
matmul = compile_library(lab.cpp("14_matmul.cpp"), "ort")
SQUARES = "float[n, k] a, float[k, m] b", "float[n, m] y"
products = {
    "three loops": runner(model(*SQUARES, "y = lesson.MatMul(a, b)"), matmul, count=1),
    "ORT's MatMul": runner(model(*SQUARES, "y = MatMul(a, b)"), count=1),
}
squares = {name: rng.random((300, 300), dtype=np.float32) for name in "ab"}
done = race(on(products, squares), rounds=9)
ahead = times_as_fast(done["ORT's MatMul"], done["three loops"])
print("equal:", np.allclose(*(run(squares) for run in products.values()), rtol=1e-4))
print(f"⏱ ORT's own is {ahead:.1f} times as fast")

# %% [markdown]
# Before you write a plugin, ask three questions. Is the tensor so large that the cost of a node does not matter?
# Does the plugin save
# memory traffic, or work, that the graph of standard nodes cannot save? Does the runtime lack a good kernel for it?
#
# ## 6. Threads must not change the result
#
# Threads make a kernel faster, but they must not change what it computes. Chapter 13's scheduler calls the pieces in different
# orders. The last step gives the same bits in each order: each piece writes its own part of the output and reads only the inputs.

# %%
from oplab.checks.schedules import ORDERS, ScheduledSession

scratch = lab.fresh("scheduled")


def same_bits(made, library, feeds):
    """Print whether each order of the pieces gives the same bits as one thread."""
    alone = runner(made, library, count=1)(feeds)
    scheduled = ScheduledSession(made.SerializeToString(), library, scratch)
    output = made.graph.output[0].name
    for label, order in ORDERS.items():
        y = scheduled.run(feeds, {output: (alone.shape, "float32")}, order)[output]
        same = np.array_equal(y, alone)
        print(f"{label:32} pieces: {scheduled.pieces[0]}  same bits as one thread: {same}")
        assert same


part = {name: values[:200_000].copy() for name, values in ab.items()}
same_bits(model(AB, Y, "y = lesson.Parallel(a, b)"), adds, part)

# %% [markdown]
# ## 7. Limits
#
# - These numbers are from one machine, for sizes that suit the lesson. On your machine, two neighbouring rows can
# change places: the
#   lesson asserts results, never times.
# - The measured peak is the best result of a simple loop. A processor that lowers its clock frequency for wide
# vectors has more than one
#   peak.
# - A sum in a different order can differ in its last bits. A fused multiply-add (AVX2, AVX-512, NEON) rounds once
# where SSE2 rounds
#   twice. The number of threads does not change the result; the processor does.
#
# ## 8. Exercises
#
# Your files are `exercises/csrc/c14_fuse_my_add.cpp`, `c14_deform_conv.cpp` and `c14_knn_grid.cpp`; the comment at
# the top of each file is
# the complete specification. **Correctness comes first:** a naive answer that is correct passes with at least two
# fifths of the points.
# The other points grow with the speed on one thread, measured in turns with a baseline, and one fifth is for pieces that threads
# can share. The message reports your speed, and which step is probably missing. A slow or busy machine costs you no points.
#
# **`fuse_my_add`** — `alpha*a + beta*b`, where b may be one row that is added to each row of a: its index
# is `i % width`. A remainder for each element is slow; a loop over the rows with a loop over b inside needs none.
# The stub: [exercises/csrc/c14_fuse_my_add.cpp](../exercises/csrc/c14_fuse_my_add.cpp#line=33)

# %%
lab.check("fuse_my_add")

# %% [markdown]
# The other two exercises belong to the deeper sections: a deformable convolution, and neighbours through a grid.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: The width of a vector
#
# In step 3, the compiler chose the vectors without knowing your processor: on x86-64 it uses 16 bytes. GCC and clang
# also let you write
# vectors yourself: `vector_size(32)` defines a type of eight floats that supports `+` and `*`. Every width compiles
# on every processor
# and the results agree up to rounding. Here is the inner loop of a matrix product, six sums that should stay in
# registers, as one source for three
# widths. The next section uses this loop.

# %%
lab.source("14_add_up.h", "inline void add_up")

# %% [markdown]
# You can read the assembly that the compiler generates: `g++ -S`. Below is the innermost loop for each width. On
# x86-64 the loop is
# compiled for AVX2, whatever your processor supports, because it is only read and not run. On other architectures,
# it is compiled for
# the compiler's default processor.

# %%
import platform
import re

from oplab.figures.kernels import listings
from oplab.toolchain import compiler
from oplab.toolchain.assembly import innermost_loop, is_product, uses_stack

AVX2 = ["-mavx2", "-mfma"] if platform.machine() in ("x86_64", "AMD64") else []
widths = (16, 32, 64)
shown = {}
for width in widths:
    loop = innermost_loop(lab.cpp("14_add_up.h"), [f"-DBYTES={width}", *AVX2])
    stack = sum(map(uses_stack, loop))
    marks = ["●" if uses_stack(line) else "×" if is_product(line) else "" for line in loop]
    lines = [(mark, re.sub(r"\s+", " ", line)) for mark, line in zip(marks, loop, strict=True)]
    shown[f"{width} bytes: {len(loop)} instructions,\n{stack} with the stack (●)"] = lines
    if width == 32 and AVX2 and compiler.find_compiler().family == "gcc":
        assert stack == 0
print("⏱ the loops are for", "AVX2" if AVX2 else platform.machine())
lab.figure(
    listings(shown),
    "The instructions of the innermost loop for 16, 32 and 64 bytes side by side. A cross marks"
    " a product, a circle an access to the stack.",
)

# %% [markdown]
# × is a multiply-add, ● reads or writes the stack. With GCC on x86-64: an AVX2 register has 32 bytes. GCC splits each operation
# on 64 bytes into two but keeps the *variable* in memory, so all six sums are read and written in each step,
# although twelve of the 16
# registers would hold them. The loop for 16 bytes is as short as the loop for 32, and each instruction does half of
# the work. On AArch64
# a register has 16 bytes, so check the wider variants there. clang may keep both halves in registers.
#
# So the width has to match the instruction set. Here are the times for each set that your processor has.
# `OPLAB_SIMD` selects a set when
# a session is created.

# %%
from unittest import mock

wides = compile_library(lab.cpp("14_width.cpp"), "ort")
tile_of = {
    "samples": rng.random((200, 200, 6), dtype=np.float32),
    "weights": rng.random((200, 32), dtype=np.float32),
}
product = np.swapaxes(tile_of["samples"], 1, 2) @ tile_of["weights"]
TILES = "float[t, k, 6] samples, float[k, c] weights", "float[t, 6, c] y"
contestants = {}
for simd in ("plain", "neon", "avx2", "avx512"):
    try:
        with mock.patch.dict(os.environ, OPLAB_SIMD=simd):
            for width in widths:
                made = model(*TILES, f"y = lesson.Wide{width}(samples, weights)")
                contestants[simd, width] = runner(made, wides, count=1)
    except Exception as error:  # a set that this processor does not have
        assert "OPLAB_SIMD" in str(error)
equal = [np.allclose(run(tile_of), product, rtol=1e-4) for run in contestants.values()]
print("equal:", all(equal))

# %%
wide_seconds = race(on(contestants, tile_of), rounds=15)
figure, axes = plt.subplots(figsize=(8.4, 0.3 * len(contestants) + 0.9), layout="constrained")
labels = []
for row, ((simd, width), values) in enumerate(wide_seconds.items()):
    fits = width == {"avx512": 64, "avx2": 32}.get(simd, 16)
    axes.barh(-row, 1e3 * np.min(values), color=BLUE if fits else GREY, height=0.7)
    labels.append(f"{'✓ ' if fits else ''}{simd}, {width} bytes: {1e3 * np.min(values):.2g} ms")
axes.set_yticks(-np.arange(len(labels)), labels)
axes.set_xlabel("time, ms: best run on one thread (✓: the width of the set's registers)")
axes.spines[["top", "right"]].set_visible(False)
lab.figure(
    figure,
    "A bar for each instruction set and width; widths that match a set's registers are marked.",
)

# %% [markdown]
# `run_vectorised` passes the instruction set to the struct's `run` as a template parameter, `simd`; `oplab::Vector<T, simd>` is a
# vector that fills one of its registers.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: A deformable convolution
#
# To the three questions of section 5, the answers are yes, yes and no: ONNX Runtime has a kernel for it, from opset 19
# on. See how close you get on your processor. For each output pixel and each of the filter's nine positions
# (*taps*), an offset moves the place where the image is
# read, which is usually between four pixels. The lesson's version has one image, a 3×3 kernel, pad 1 and no mask.

# %%
lab.source("14_deform.cpp", "struct Place")

# %% [markdown]
# **Step 1, naive.** The formula: for each output channel and pixel, a sum over all channels and taps.

# %%
lab.source("14_deform.cpp", "struct Naive")

# %% [markdown]
# **Step 2, hoisted.** The sample at a place does not depend on the output channel. Compute all samples of a pixel
# once (a column of
# *im2col*, the matrix in which each column holds everything that one output pixel reads), and multiply this column
# by the weights of
# every output channel.

# %%
lab.source("14_deform.cpp", "struct Hoisted")

# %% [markdown]
# **Step 3, vectorised.** Two loops still process one element at a time. The loop that samples reads each channel
# from a different plane,
# far apart in memory: convert the image to *channels-last* once, and one place is four runs of neighbouring floats.
# The sum over i
# cannot be vectorised at all, because the compiler must not reorder a float sum: transpose the weights, and let the
# inner loop run over
# output channels. A pixel outside of the image is read from an extra pixel of zeros, so the loop needs no condition.

# %%
lab.source("14_deform.cpp", "struct Turned")

# %%
lab.source("14_deform.cpp", "inline void sample_all")

# %%
lab.source("14_deform.cpp", "struct Vectorised")

# %% [markdown]
# **Step 4, the width of a vector,** is the section before this one.
#
# **Step 5, blocked.** Step 3 reads all weights again for every pixel, and loads and stores a sum for each product.
# Process 48 pixels at
# once, a *tile*. For one tap, the samples of a tile are a matrix [48 × 64 channels] that stays in the cache. `Product` in
# `matrix_tile.h` multiplies some rows of this matrix by the weights of 16 output channels as step 4 does: the sums
# stay in registers,
# and each loaded weight is used for up to 12 pixels with AVX-512, 6 with AVX2, 4 with NEON and 3 with SSE2. The
# comment above `Product`
# describes how the three matrices are laid out in memory.

# %%
lab.source("14_deform.cpp", "struct Tile")

# %% [markdown]
# **Step 6, parallel.** The tiles are independent of each other. The whole file is
# [cpp/14_deform.cpp](../notebooks/cpp/14_deform.cpp).

# %%
lab.source("14_deform.cpp", "struct Blocked")

# %% [markdown]
# The peers are ONNX Runtime's DeformConv, torchvision, and the course's `DeformConv2d`. Offsets can be larger than a
# pixel, so some places
# are outside of the image. Step 4 has no row in the figure below: it is the inner loop of step 5, which was measured alone above.

# %%
import torchvision

deforms = compile_library(lab.cpp("14_deform.cpp"), "ort")
C, H = 64, 40
image = {
    "X": rng.standard_normal((1, C, H, H), np.float32),
    "W": rng.standard_normal((C, C, 3, 3), np.float32),
    "offset": 2 * rng.standard_normal((1, 18, H, H), np.float32),
}
IMAGES = "float[1, c, h, w] X, float[o, c, 3, 3] W, float[1, 18, h, w] offset"


def deform_model(op):
    return model(IMAGES, "float[1, o, h, w] Y", f"Y = {op}(X, W, offset)")


def by_torchvision(feeds):
    x, w, offset = (torch.from_numpy(feeds[name]) for name in ("X", "W", "offset"))
    return torchvision.ops.deform_conv2d(x, offset, w, padding=1).numpy()


pads = "<pads = [1, 1, 1, 1]>"
peers = {
    "torchvision": by_torchvision,
    "ORT's DeformConv": runner(deform_model(f"DeformConv{pads}")),
    "oplab::DeformConv2d": runner(deform_model(f"oplab.DeformConv2d{pads}")),
}
kernels = ["Naive", "Hoisted", "Vectorised", "Blocked", "Parallel"]
steps = {name: runner(deform_model(f"lesson.{name}"), deforms) for name in kernels}
expected = by_torchvision(image)
for name, run in (steps | peers).items():
    print(f"{name:22} equal: {np.allclose(run(image), expected, atol=2e-3)}")

# %%
deform_seconds = race(on(steps | peers, image), rounds=4)
flops = (2 * C + 8) * 9 * C * H * H
gain = times_as_fast(deform_seconds["Hoisted"], deform_seconds["Naive"])
print(f"⏱ hoisting the samples makes it {gain:.0f} times as fast")
lab.figure(
    ladder(deform_seconds, peers, ("the peak of the arithmetic", 1e-9 * flops / peak)),
    "Deformable convolution, a row for each kernel: from the naive step to the parallel one the"
    " marks move towards the peer kernels. All stay right of the peak of the arithmetic.",
)

# %% [markdown]
# Steps 3 and 5 add in a different order than step 1: the results agree up to rounding, not bit for bit. Threads
# change nothing: each
# piece of step 6 writes its own output and has its own scratch memory.

# %%
small = {name: value[..., :20, :20] if name != "W" else value for name, value in image.items()}
small = {name: np.ascontiguousarray(value) for name, value in small.items()}
same_bits(deform_model("lesson.Parallel"), deforms, small)

# %% [markdown]
# **`deform_conv`** — this kernel with a mask, any filter size, strides, pads (the output then has another size than the
# image) and several images. Start with the borders: write step 1, pass the checks, then add the other steps. Every
# comparison with NaN is false, so a place that is NaN looks like one that is outside: test it first, because its sample
# must be NaN and not 0. The stub: [exercises/csrc/c14_deform_conv.cpp](../exercises/csrc/c14_deform_conv.cpp#line=38)

# %%
lab.check("deform_conv")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: The roofline
#
# The roofline shows both limits in one figure. The x axis is the number of operations for each byte that a kernel
# *has to* move. The
# y axis is the number of operations per second. Below the slope, memory limits a kernel; below the flat roof,
# arithmetic does. The roof
# is the speed of independent chains of multiply and add:

# %%
lab.source("14_limits.cpp", "struct Chains")

# %%
from oplab.figures.kernels import roofline

moved = 4 * (C * H * H * 2 + C * C * 9 + 18 * H * H)
kernels = {
    "3a + 2b": (3 / 12, 3 * (1 << 22), add_seconds),
    "deformable convolution": (flops / moved, flops, deform_seconds),
}
kernels = {
    title: (intensity, work, {name: runs[name] for name in (*names, "Blocked") if name in runs})
    for title, (intensity, work, runs) in kernels.items()
}
lab.figure(
    roofline(bandwidth, peak, kernels),
    "A line that rises, the limit of memory, then is flat, the limit of arithmetic. The steps"
    " of 3a + 2b end at the rising part; those of the convolution stay below the flat part.",
)

# %% [markdown]
# The figure shows what to try next. `3a + 2b` is on the slope: move fewer bytes, fuse it with its neighbours. The
# convolution is below
# the roof, so it can still become faster: the loops that compute a place and load four pixels do few of the
# operations that are counted
# here, but they take time.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Neighbours: less work instead of faster work
#
# The task is to find the k nearest neighbours of n points, with k = 8. **Step 1, naive:** compute all n² distances and sort them.

# %%
lab.source("14_neighbours.cpp", "struct Naive")

# %% [markdown]
# **Step 2, hoisted:** nearly every distance is larger than the k-th best so far, so keep a short sorted list and
# store nothing else.

# %%
lab.source("14_neighbours.cpp", "struct Best")

# %%
lab.source("14_neighbours.cpp", "struct Hoisted")

# %% [markdown]
# **Step 3, vectorised:** keep x, y and z in three arrays, compute eight squared distances at once, and only then test whether one
# of them is small enough.

# %%
lab.source("14_neighbours.cpp", "struct Columns")

# %% [markdown]
# **Step 4, grid.** All these steps still compute n² distances. Put the points into voxels, about two in each, and store
# them voxel by voxel (count, add up, place). A search visits the query's own voxel, then the shell around it, then the
# next shell. It may stop when **the next shell is farther away than the k-th best**, and not as soon as it has k
# points: the points in the query's voxel may be in its far corner. The squares are floats: compute the bound in float,
# too, or a tiny cloud whose squares are all 0 loses its ties.
#
# The figure shows one search for four points, in two dimensions, after shell 1.

# %% {"jupyter": {"source_hidden": true}}
from oplab.figures.kernels import shells

lab.figure(
    shells(np.random.default_rng(186)),
    "Points on a grid of squares. A circle around the query through the farthest of four points"
    " that were found leaves shell 1, and contains a nearer point of shell 2.",
)

# %% [markdown]
# The search has found the four points of shells 0 and 1. The circle through the farthest of them extends beyond
# shell 1, so shell 2 has
# to be searched too: the diamond there is nearer. The code below handles the unit cube only; yours has to work for every box.

# %%
lab.source("14_neighbours.cpp", "struct Voxels")

# %% [markdown]
# **Step 5, parallel:** pieces of 256 queries. In steps 4 and 5, the queries run in the order of the voxels, so that each query
# finds in the cache what the previous query has read. The whole file is
# [cpp/14_neighbours.cpp](../notebooks/cpp/14_neighbours.cpp).

# %%
lab.source("14_neighbours.cpp", "struct Grid")

# %%
from scipy.spatial import cKDTree

knns = compile_library(lab.cpp("14_neighbours.cpp"), "ort")


def by_scipy(feeds):
    return cKDTree(feeds["xyz"]).query(feeds["xyz"], 8, workers=threads)[1]


def by_torch(feeds):
    points = torch.from_numpy(feeds["xyz"])
    apart = torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")
    return apart.topk(8, largest=False).indices.numpy()


course = model(
    "float[n, 3] xyz, int64[1] offset",
    "int32[n, 8] idx, float[n, 8] dist",
    "idx, dist = oplab.KNNQuery <nsample = 8> (xyz, offset)",
)
course_run = runner(course)


def by_course(feeds):
    return course_run(feeds | {"offset": np.array([len(feeds["xyz"])])})


peers = {
    "torch: cdist, topk": by_torch,
    "scipy: cKDTree": by_scipy,
    "oplab::KNNQuery": by_course,
}
POINTS = "float[n, 3] xyz", "int32[n, 8] idx"
kernels = ["Naive", "Hoisted", "Vectorised", "Grid", "Parallel"]
steps = {name: runner(model(*POINTS, f"idx = lesson.{name}(xyz)"), knns) for name in kernels}

# %%
cloud = {"xyz": rng.random((6000, 3), dtype=np.float32)}
expected = by_scipy(cloud)
for name, run in (steps | peers).items():
    print(f"{name:22} equal: {(run(cloud) == expected).mean() > 0.999}")
knn_seconds = race(on(steps | peers, cloud), rounds=4)
gain = times_as_fast(knn_seconds["Grid"], knn_seconds["Vectorised"])
print(f"⏱ the grid is {gain:.0f} times as fast as step 3")
lab.figure(
    ladder(knn_seconds, peers),
    "8 nearest neighbours of 6 000 points, a row for each kernel: the grid is far ahead of the"
    " steps that look at every pair.",
)

# %% [markdown]
# There is no dashed line: the limit of an n² loop does not apply to a search that skips most of the n² distances.
# Steps 2 and 3 do the same work faster. Step 4 does less work, and the gap grows with n. (Each mark is measured alone and not
# in turns, so compare the slopes and not two neighbouring marks.)

# %%
counts = (500, 1500, 4500, 13500, 40500)
clouds = [{"xyz": rng.random((n, 3), dtype=np.float32)} for n in counts]
curves = {
    "Vectorised": (ORANGE, "^-"),
    "Parallel": (BLUE, "o-"),
    "scipy: cKDTree": (GREY, "s-"),
}
figure, axes = plt.subplots(figsize=(6.6, 3.4), layout="constrained")
for name, (colour, style) in curves.items():
    those = clouds[: 3 if name == "Vectorised" else 5]
    run = (steps | peers)[name]
    times = [np.min(race({name: partial(run, points)}, rounds=3)[name]) for points in those]
    milliseconds = 1e3 * np.array(times)
    axes.loglog(counts[: len(those)], milliseconds, style, color=colour, lw=2, label=name)
axes.set_xlabel("points")
axes.set_ylabel("time, ms")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
lab.figure(
    figure,
    "Time over the number of points, both logarithmic: the vectorised step is steeper than the"
    " grid and scipy's tree.",
)

# %% [markdown]
# ### What the grid does not do
#
# If nearly all points are in one voxel and a few are far outside, the grid is only a list, and the search is n²
# again. This is the
# limit of a plain grid. The lesson's grid covers a box from 0 to 1; a dense cluster (a heap) of points in its corner
# shows the effect.

# %%
heap = {"xyz": cloud["xyz"] * np.float32(0.02)}
layers = int(np.cbrt(6000 / 2))
for name, points in (("spread", cloud), ("heaped", heap)):
    voxel = (points["xyz"] * layers).astype(int) @ [1, layers, layers**2]
    print(f"{name}: {np.bincount(voxel).max()} of 6000 points in the fullest voxel")
crowded = {"spread": partial(steps["Grid"], cloud), "heaped": partial(steps["Grid"], heap)}
crowded = race(crowded, rounds=3)
share = times_as_fast(crowded["spread"], crowded["heaped"])
print(f"⏱ the same points in one corner take {share:.0f} times as long")

# %% [markdown]
# The course's kernel detects this. `csrc/common/knn_grid.h` counts how many points share a voxel, and gives each search
# a budget. (Read this file after the exercise.) If a voxel is too full or a search exceeds its budget, a k-d tree is
# used instead (`knn_tree.h`). The bounds of that grid are exact, too: each layer of voxels keeps the coordinates that
# really occur, whereas this lesson uses `1 - 1e-5`. `docs/operators.md` describes what the course's kernel guarantees
# for points that do not fill a cube.
#
# **`knn_grid`** — this search for batches, for a box with sides of any length at any place, for lines, planes, heaps and
# points that are all equal.
# The stub: [exercises/csrc/c14_knn_grid.cpp](../exercises/csrc/c14_knn_grid.cpp#line=32)

# %%
lab.check("knn_grid")

# %% [markdown]
# ## Five questions

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - Chapter 15, for a fast model that gives a wrong result; chapter 16, in which your kernels become part of a whole network.
# - `csrc/ort_ops/deform_conv2d.cpp` and `matrix_tile.h`: the last step of the deformable convolution, with groups,
# every attribute and
#   every check. `csrc/common/knn_grid.h` and `knn_tree.h`: the search that cannot become quadratic.
# - S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model", 2009; J. McCalpin's
# STREAM benchmark.
# - `oplab/checks/speed.py`: how the grader measures your kernels.
#
# Previous: [13: Real kernels](13_real_kernels.ipynb)
# · Next: [15: Surgery and debugging](15_surgery_and_debugging.ipynb)
# · [Glossary](../docs/glossary.md)
