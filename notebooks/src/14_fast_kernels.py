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
# - turn a naive kernel into one that comes close to ONNX Runtime's own operator or beats it, one idea at a time: hoist, vectorise,
#   choose the width of a vector, block, use threads;
# - decide when a plugin is not worth it.
#
# The models in this chapter are built by hand; except for the three nodes of section 1, each has one node. No exporter is
# involved: a kernel runs the same whether the dynamo path or the TorchScript path wrote its node.

# %%
import os
import platform
import re
import time
from functools import partial
from unittest import mock

import matplotlib.pyplot as plt
import numpy as np
import torch
import torchvision
from matplotlib.ticker import LogLocator
from onnx import TensorProto, helper
from scipy.spatial import cKDTree

from oplab import lesson, ops, session
from oplab.checks.schedules import ORDERS, ScheduledSession
from oplab.figures import drawings
from oplab.timing import race, times_as_fast
from oplab.toolchain import compiler
from oplab.toolchain.build import compile_exercise

lab = lesson("14_fast_kernels")
threads = min(2, os.cpu_count() or 1)
torch.set_num_threads(threads)
rng = np.random.default_rng(14)

# %% [markdown]
# ### What each section uses
#
# The chapter improves each kernel in steps, the rungs of a ladder. Most rungs are one C++ function. `compiled` builds a library that
# registers several of them as operators of the domain `lesson`. All kernels use `oplab_kernel.h`, the header from chapter 13.

# %%
ENTRY = r"""
extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    %s
    Ort::CustomOpDomain made{"lesson"};
    %s
    return made;
  });
}
"""


def compiled(name, *parts, operators):
    """A custom-op library; `operators` are the C++ kernels by the name of the operator."""
    made = "\n    ".join(
        f'static const oplab::Op<{kernel}> op{name}{{"{name}"}};' for name, kernel in operators.items()
    )
    added = "\n    ".join(f"made.Add(&op{name});" for name in operators)
    source = lab.build / f"{name}.cpp"
    source.write_text("".join(parts) + ENTRY % (made, added))
    return compile_exercise(source, "ort")


# %%
def model_of(nodes, inputs, outputs, numbers=None):
    """A model; `inputs` and `outputs` are (dtype, shape) by name, `numbers` constants without dimensions."""

    def infos(values):
        return [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
            for name, (dtype, shape) in values.items()
        ]

    constants = [helper.make_tensor(name, TensorProto.FLOAT, [], [value]) for name, value in (numbers or {}).items()]
    graph = helper.make_graph(nodes, "graph", infos(inputs), infos(outputs), constants)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("lesson", 1), helper.make_opsetid("oplab", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


# %% [markdown]
# ## 1. The failure: one node, slower than three
#
# In ONNX, `3a + 2b` is three nodes: Mul, Mul, Add. Each node reads its operands from memory and writes its result to memory. A single
# custom node reads a and b once and writes y once, so it should be about twice as fast. Here is the kernel, a direct translation of
# the formula.

# %%
ADD = r"""
#include "oplab_kernel.h"
using oplab::Tensor;

template <typename Work>
struct Add {
  Add(const OrtApi*, const OrtKernelInfo*) {}
  Ort::Status Compute(OrtKernelContext* context, const Tensor<float>& a, const Tensor<float>& b, Tensor<float>& y) {
    Work::run(context, a, b, y.Allocate(a.Shape()), a.NumberOfElement());
    return Ort::Status{nullptr};
  }
};
"""
NAIVE = r"""
struct Naive {
  static void run(OrtKernelContext*, const Tensor<float>& a, const Tensor<float>& b, float* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) y[i] = 3 * a.Data()[i] + 2 * b.Data()[i];
  }
};
"""
naive_alone = compiled("naive_alone", ADD, NAIVE, operators={"Naive": "Add<Naive>"})

# %% [markdown]
# For comparison, here are the three nodes. `runner` creates a session with as many threads as this notebook uses.

# %%
VECTORS = {"a": ("float32", ["n"]), "b": ("float32", ["n"])}, {"y": ("float32", ["n"])}


def runner(model, *libraries, count=threads):
    made = session(model, threads=count, libraries=list(libraries))
    return lambda feeds: made.run(None, feeds)[0]


def on(runs, inputs):
    """The same runs as calls without arguments, for `race`."""
    return {name: partial(run, inputs) for name, run in runs.items()}


def add_model(op, domain="lesson"):
    return model_of([helper.make_node(op, ["a", "b"], ["y"], domain=domain)], *VECTORS)


mul = [helper.make_node("Mul", [name, factor], [name + factor]) for name, factor in (("a", "p"), ("b", "q"))]
three = model_of([*mul, helper.make_node("Add", ["ap", "bq"], ["y"])], *VECTORS, {"p": 3.0, "q": 2.0})
lab.show(three, add_model("Naive"))

# %%
ab = {name: rng.random(1 << 22, dtype=np.float32) for name in "ab"}
both = {"three nodes": runner(three), "Naive": runner(add_model("Naive"), naive_alone)}
results = {name: run(ab) for name, run in both.items()}
seconds = race(on(both, ab), rounds=5)
slower = times_as_fast(seconds["three nodes"], seconds["Naive"])
print("equal:", np.allclose(*results.values()))
print(f"⏱ one node takes {slower:.1f} times as long as three")

# %% [markdown]
# The fused kernel is correct, but much slower. A line that begins with ⏱ depends on your machine, as do the bars and curves in this
# chapter. Before you fix the kernel: how do you know that the number is right?
#
# ## 2. Measure honestly
#
# `race` and `times_as_fast` (in `oplab/timing.py`) do the first three of these, and the figures do the last:
#
# - **Warm up.** The first run includes the cost of memory that is touched for the first time, of starting threads and of cold caches.
# - **Take turns.** A machine gets slower and faster for seconds at a time. In each round every contestant runs once, and every other
#   round runs in reverse order.
# - **Compare within a round**, then take the **median** of the ratios. A mean would follow the worst round.
# - **Show the spread.** Without the spread, you cannot judge a ratio.
#
# Comparing a kernel with itself shows what can go wrong. The correct ratio is 1.

# %%
same = both["three nodes"]
apart = [[], []]
for half in apart:  # first one, then the other, as most benchmarks do
    for _ in range(12):
        started = time.perf_counter()
        same(ab)
        half.append(time.perf_counter() - started)
in_turns = race({"one": lambda: same(ab), "other": lambda: same(ab)}, rounds=12)
ratios = {
    "one after the other,\nmeans": [np.mean(apart[1]) / np.mean(apart[0])],
    "one after the other,\nrun by run": np.divide(*apart[::-1]),
    "by turns,\nround by round": in_turns["other"] / in_turns["one"],
    "by turns,\nmedian": [times_as_fast(in_turns["one"], in_turns["other"])],
}

# %%
style = {"color": drawings.INK, "size": 10}
figure, axes = plt.subplots(figsize=(8.4, 2.7), layout="constrained")
for row, values in enumerate(ratios.values()):
    colour = drawings.RED if row < 2 else drawings.GREEN
    axes.plot(values, np.full(len(values), -row), "o", color=colour, alpha=0.65, ms=9)
axes.axvline(1, color=drawings.FAINT, ls="--", lw=1.2)
axes.set_yticks(-np.arange(len(ratios)), list(ratios), **style)
axes.set_xscale("log")
axes.xaxis.set_major_formatter("{x:g}")
axes.xaxis.set_minor_locator(LogLocator(subs=(2, 5)))
axes.xaxis.set_minor_formatter("{x:g}")
axes.set_xlabel("a kernel's time, relative to itself", **style)
axes.set_ylim(-len(ratios) + 0.4, 0.6)
axes.spines[["top", "right"]].set_visible(False)

# %% [markdown]
# ### New memory
#
# A benchmark that keeps its results does not measure the kernel alone. Each kept result needs new memory, and the system has to find
# and clear every page of it during your kernel's run. When a result is dropped, the next run reuses its pages. `race` drops the results.
# The two measurements below cannot take turns: one would reuse the memory that the other drops.

# %%
kept = []
allocation = race({"result dropped": lambda: same(ab)}, rounds=15, warm_up=2)
allocation |= race({"result kept": lambda: kept.append(same(ab))}, rounds=15, warm_up=2)
kept.clear()
figure, axes = plt.subplots(figsize=(8.4, 1.7), layout="constrained")
for row, values in enumerate(allocation.values()):
    axes.barh(-row, 1e3 * np.median(values), color=[drawings.GREEN, drawings.RED][row], height=0.6)
    axes.plot(1e3 * values, np.full(len(values), -row), "|", color=drawings.INK, ms=11)
axes.set_yticks([0, -1], list(allocation), **style)
axes.set_xlabel("ms for the three nodes, median and each run", **style)
axes.spines[["top", "right"]].set_visible(False)

# %% [markdown]
# Two more rules. **Threads:** give both sides the same number of threads, here the notebook's, or you compare thread counts. **Results:**
# check the results of what you time. A kernel that returns early is always the fastest.
#
# ## 3. The limits of the machine
#
# How fast can `3a + 2b` be at best? It moves 12 bytes for each element, and the memory bandwidth is limited. The *triad* of the STREAM
# benchmark measures this bandwidth: `c[i] = a[i] + s * b[i]` on arrays that do not fit into any cache, best of several runs. For kernels
# that compute a lot, the other limit is arithmetic: products and sums in registers, with no memory access at all. Both limits are
# measured here, with the same number of threads as the ladder.

# %%
LIMITS = r"""
#include <chrono>
#include "oplab_kernel.h"
#include "matrix_tile.h"

template <typename Work>
double best_seconds(int times, const Work& work) {
  double best = 1e9;
  for (int i = 0; i < times; ++i) {
    const auto started = std::chrono::steady_clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count());
  }
  return best;
}

struct Chains {  // independent chains of multiply and add, a register each, so that none waits for another
  template <oplab::Simd simd>
  [[gnu::always_inline]] static void run(const int64_t& steps, float* out) {
    OPLAB_FUSED_SUMS
    using Register = oplab::Vector<float, simd>;
    constexpr int chains = oplab::Registers<simd>::count == 32 ? 24 : 12;  // 12 are too few for four multiply-adds at once
    typename Register::type sum[chains], factor = typename Register::type{} + 1e-6f;
    for (int r = 0; r < chains; ++r) sum[r] = factor * static_cast<float>(r + 1);  // GCC computes equal chains once
    for (int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 24
      for (int r = 0; r < chains; ++r) sum[r] += sum[r] * factor;
    }
    for (int r = 1; r < chains; ++r) sum[0] += sum[r];
    *out = sum[0][0];
    *(out + 1) = 2.0f * chains * Register::lanes;  // operations of one step
  }
};

struct Limits {  // n -> GB/s of a triad of n floats, GFLOP/s
  Limits(const OrtApi*, const OrtKernelInfo*) {}
  Ort::Status Compute(OrtKernelContext* context, const oplab::Tensor<int64_t>& n, oplab::Tensor<float>& limits) {
    const int64_t size = *n.Data(), pieces = 16, steps = 10000;
    const oplab::Simd simd = oplab::chosen_simd();
    std::vector<float> a(size, 1), b(size, 2), c(size, 0);
    const double triad = best_seconds(25, [&] {
      oplab::parallel_for(context, size, size / pieces, [&](int64_t begin, int64_t end) {
        const float *from = a.data(), *more = b.data();
        for (int64_t i = begin; i < end; ++i) c[i] = from[i] + 3 * more[i];
      });
    });
    std::vector<float> made(16 * pieces);
    const double chains = best_seconds(100, [&] {
      oplab::parallel_for(context, pieces, 1, [&](int64_t piece, int64_t) {
        oplab::run_vectorised<Chains>(simd, steps, &made[16 * piece]);
      });
    });
    float* out = limits.Allocate({2});
    out[0] = static_cast<float>(12e-9 * static_cast<double>(size) / triad);
    out[1] = static_cast<float>(1e-9 * static_cast<double>(made[1]) * steps * pieces / chains);
    return Ort::Status{nullptr};
  }
};
"""
limits = compiled("limits", LIMITS, operators={"Limits": "Limits"})
node = helper.make_node("Limits", ["n"], ["limits"], domain="lesson")
measure = runner(model_of([node], {"n": ("int64", [1])}, {"limits": ("float32", [2])}), limits)
bandwidth, peak = measure({"n": np.array([1 << 22])})
print("both limits are measured:", bool(bandwidth > 0.1 and peak > 0.1))

# %% [markdown]
# The loop over the chains is compiled several times. On x86 it is compiled for SSE, AVX2 and AVX-512, the instruction sets that compute
# 4, 8 or 16 floats at once (on AArch64 for NEON: 4). At run time, `chosen_simd` finds the widest set that the processor has, and
# `run_vectorised` calls the version for that set (`csrc/common/simd.h`). The course's compiler flags do not name a processor, so all
# other code is compiled for the oldest processor of the architecture. A library that you distribute has to be built that way, too: with
# `-march=native`, it crashes with an illegal instruction on some machines.
#
# ## 4. The ladder of `3a + 2b`
#
# **Rung 1, naive,** is the kernel of section 1. **Rung 2, hoisted:** `a.Data()` looks like a field access, but it is a call into ONNX
# Runtime through a table of functions, and the compiler cannot know that it returns the same pointer each time. Move it out of the loop.
# **Rung 3, vectorised:** with plain pointers, the compiler automatically computes several elements with one instruction. To show what
# that gains, rung 2 disables it. **Rung 4, parallel:** it uses `parallel_for` from chapter 13, with pieces that are large enough to
# justify waking a thread.

# %%
RUNGS = r"""
struct Hoisted {
  [[gnu::optimize("no-tree-vectorize")]]  // GCC's; another compiler ignores it, and this rung is then the next one
  static void run(OrtKernelContext*, const Tensor<float>& a, const Tensor<float>& b, float* y, int64_t n) {
    const float *pa = a.Data(), *pb = b.Data();
    for (int64_t i = 0; i < n; ++i) y[i] = 3 * pa[i] + 2 * pb[i];
  }
};
struct Vectorised {
  static void run(OrtKernelContext*, const Tensor<float>& a, const Tensor<float>& b, float* y, int64_t n) {
    const float *pa = a.Data(), *pb = b.Data();
    for (int64_t i = 0; i < n; ++i) y[i] = 3 * pa[i] + 2 * pb[i];
  }
};
struct Parallel {
  static void run(OrtKernelContext* context, const Tensor<float>& a, const Tensor<float>& b, float* y, int64_t n) {
    const float *pa = a.Data(), *pb = b.Data();
    oplab::parallel_for(context, n, 32768, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) y[i] = 3 * pa[i] + 2 * pb[i];
    });
  }
};
"""
names = ["Naive", "Hoisted", "Vectorised", "Parallel"]
adds = compiled("adds", ADD, NAIVE, RUNGS, operators={name: f"Add<{name}>" for name in names})

# %% [markdown]
# The peers are the implementations that you would use otherwise: the three nodes, PyTorch's `3 * a + 2 * b`, and the course's `MyAdd`.

# %%
ops.load()
peers = {
    "ORT: Mul, Mul, Add": both["three nodes"],
    "torch: 3 * a + 2 * b": lambda feeds: 3 * torch.from_numpy(feeds["a"]) + 2 * torch.from_numpy(feeds["b"]),
    "oplab::MyAdd": runner(add_model("MyAdd", "oplab")),
}
rungs = {name: runner(add_model(name), adds) for name in names}
expected = 3 * ab["a"] + 2 * ab["b"]
for name, run in (rungs | peers).items():
    print(f"{name:22} equal: {np.allclose(np.asarray(run(ab)), expected)}")

# %%
add_seconds = race(on(rungs | peers, ab), rounds=9)
hoisting = times_as_fast(add_seconds["Hoisted"], add_seconds["Naive"])
print(f"⏱ hoisting alone makes it {hoisting:.1f} times as fast")


# %%
def ladder(seconds, peers, limit=None, title=""):
    """A bar for each rung and each peer: the best run; a line from there to the median; and what the machine can do at best."""
    figure, axes = plt.subplots(figsize=(9.4, 0.42 * len(seconds) + 1.1), layout="constrained")
    for row, (name, values) in enumerate(seconds.items()):
        best, middle = 1e3 * np.min(values), 1e3 * np.median(values)
        axes.barh(-row, best, color=drawings.FAINT if name in peers else drawings.VIOLET, height=0.62)
        axes.plot([best, middle], [-row, -row], color=drawings.INK, lw=2)
        label = axes.text(
            middle * 1.08, -row, f"{best:.3g} ms" if best < 1000 else f"{best:.0f} ms", va="center", **style
        )
        label.set_bbox({"fc": "white", "ec": "none", "pad": 0.6})  # over the red line
    if limit:
        axes.axvline(1e3 * limit[1], color=drawings.RED, ls="--", lw=1.6, label=limit[0])
        axes.legend(loc="lower right", frameon=False, fontsize=10)
    axes.set_yticks(-np.arange(len(seconds)), list(seconds), **style)
    axes.set_xscale("log")
    every = [1e3 * np.min(values) for values in seconds.values()] + ([1e3 * limit[1]] if limit else [])
    axes.set_xlim(min(every) / 2, 1e3 * max(np.median(values) for values in seconds.values()) * 2.2)
    axes.set_xlabel("milliseconds, logarithmic", **style)
    axes.set_title(title, loc="left", color=drawings.INK, size=11)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


ladder(add_seconds, peers, ("the memory's speed", 12e-9 * (1 << 22) / bandwidth), "3a + 2b, 4 million floats")
plt.show()

# %% [markdown]
# A bar shows the best run, because the limit is also the best of several runs. The line ends at the median: a long line indicates a busy
# machine. Printed ratios are still medians over the rounds.
#
# The last rungs are close to the red line. From there on, no further optimisation of the loop helps: the kernel waits for the memory.
# This is also why rung 3 gains little over rung 2, and why the speedup from threads is smaller than their number. The advantage over the
# three nodes comes from **fusing**: fewer bytes, not faster arithmetic. One trick is left. An ordinary store first reads its cache line
# from memory, so 16 bytes move where 12 are counted. Stores that bypass the cache (*non-temporal* stores) avoid this read, and can get
# past the red line. On x86, the course's `MyAdd` uses them for a y of 16 MiB or more.
#
# ## 5. When a plugin is not worth it
#
# **Small tensors.** A call costs a few microseconds, whatever it computes. Below some size, the call takes nearly all of the time, and
# your plugin cannot be faster than any other node.

# %%
sizes = [1 << power for power in range(4, 23, 3)]
contestants = {"ORT: Mul, Mul, Add": runner(three), "ORT: one Add": runner(add_model("Add", "")), "Parallel": None}
contestants["Parallel"] = runner(add_model("Parallel"), adds)
microseconds = {name: [] for name in contestants}
for size in sizes:
    part = {name: values[:size] for name, values in ab.items()}
    done = race(on(contestants, part), rounds=15, warm_up=3)
    for name, values in done.items():
        microseconds[name].append(1e6 * np.min(values))

# %%
figure, axes = plt.subplots(figsize=(7.6, 3.3), layout="constrained")
for (name, values), colour in zip(
    microseconds.items(), (drawings.FAINT, drawings.ORANGE, drawings.VIOLET), strict=True
):
    axes.loglog(sizes, values, "o-", color=colour, label=name, lw=2)
axes.loglog(sizes, [12e-3 * size / bandwidth for size in sizes], "--", color=drawings.RED, label="the memory's speed")
axes.set_xlabel("floats", **style)
axes.set_ylabel("microseconds, best run", **style)
axes.set_ylim(bottom=1)
axes.legend(frameon=False, fontsize=10)
axes.spines[["top", "right"]].set_visible(False)

# %% [markdown]
# On the left, all three curves are flat and close together: what they show is the cost of a call.
#
# **Work that the runtime does well.** ONNX Runtime's matrix product has been optimised for years. Your own three loops are correct, and
# the compiler vectorises the inner one, but they are usually slower.

# %%
MATMUL = r"""
#include "oplab_kernel.h"
using oplab::Tensor;
struct MatMul {
  MatMul(const OrtApi*, const OrtKernelInfo*) {}
  Ort::Status Compute(const Tensor<float>& a, const Tensor<float>& b, Tensor<float>& y) {
    const int64_t n = a.Shape()[0], k = a.Shape()[1], m = b.Shape()[1];
    const float *pa = a.Data(), *pb = b.Data();
    float* out = y.Allocate({n, m});
    std::fill_n(out, n * m, 0.0f);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t l = 0; l < k; ++l)
        for (int64_t j = 0; j < m; ++j) out[i * m + j] += pa[i * k + l] * pb[l * m + j];
    return Ort::Status{nullptr};
  }
};
"""
matmul = compiled("matmul", MATMUL, operators={"MatMul": "MatMul"})
SQUARES = {name: ("float32", [None, None]) for name in "ab"}, {"y": ("float32", [None, None])}
products = {"three loops": "lesson", "ORT's MatMul": ""}
products = {
    name: runner(model_of([helper.make_node("MatMul", ["a", "b"], ["y"], domain=domain)], *SQUARES), matmul, count=1)
    for name, domain in products.items()
}
squares = {name: rng.random((300, 300), dtype=np.float32) for name in "ab"}
equal = np.allclose(*(run(squares) for run in products.values()), rtol=1e-4)
done = race(on(products, squares), rounds=9)
ahead = times_as_fast(done["ORT's MatMul"], done["three loops"])
print("equal:", equal)
print(f"⏱ ORT's own is {ahead:.1f} times as fast")

# %% [markdown]
# Before you write a plugin, ask three questions. Is the tensor so large that the cost of a call does not matter? Does the plugin save
# memory traffic, or work, that the graph of standard nodes cannot save? Does the runtime lack a good kernel for it?
#
# ## 6. The ladder of a deformable convolution
#
# Here the answers are yes, yes and no: ONNX Runtime has a kernel for it, from opset 19 on. See how close you get on your processor. For
# each output pixel and each of the kernel's nine positions (*taps*), an offset moves the place where the image is read, which is
# usually between four pixels. The lesson's version has one image, a 3×3 kernel, pad 1 and no mask.

# %%
DEFORM = r"""
#include <cmath>
#include "matrix_tile.h"
#include "oplab_kernel.h"
using oplab::Tensor;

struct Task {
  const float *x, *w, *offset;  // [c][h][wide], [o][c][9], [9][2][h][wide]
  float* y;                     // [o][h][wide]
  int64_t c, h, wide, o;
};
struct Place {  // of one tap at one pixel: the four pixels around it, and their weights
  Place(const Task& t, int64_t pixel, int64_t tap) {
    const float* offset = t.offset + 2 * tap * t.h * t.wide + pixel;
    const float y = static_cast<float>(pixel / t.wide - 1 + tap / 3) + offset[0];
    const float x = static_cast<float>(pixel % t.wide - 1 + tap % 3) + offset[t.h * t.wide];
    std::fill_n(at, 4, -1);  // -1: outside of the image, so it counts as 0
    std::fill_n(weight, 4, 0.0f);
    if (!(y > -1 && y < static_cast<float>(t.h) && x > -1 && x < static_cast<float>(t.wide))) return;
    const float top = std::floor(y), left = std::floor(x), down = y - top, right = x - left;
    const float weights[] = {(1 - down) * (1 - right), (1 - down) * right, down * (1 - right), down * right};
    for (int i = 0; i < 4; ++i) {
      const int64_t row = static_cast<int64_t>(top) + i / 2, column = static_cast<int64_t>(left) + i % 2;
      if (row < 0 || row >= t.h || column < 0 || column >= t.wide) continue;
      at[i] = row * t.wide + column, weight[i] = weights[i];
    }
  }
  int64_t at[4];
  float weight[4];
};
template <typename Work>
struct Deform {
  Deform(const OrtApi*, const OrtKernelInfo*) {}
  Ort::Status Compute(OrtKernelContext* context, const Tensor<float>& x, const Tensor<float>& w,
                      const Tensor<float>& offset, Tensor<float>& y) {
    const int64_t c = x.Shape()[1], h = x.Shape()[2], wide = x.Shape()[3], o = w.Shape()[0];
    Work::run(context, {x.Data(), w.Data(), offset.Data(), y.Allocate({1, o, h, wide}), c, h, wide, o});
    return Ort::Status{nullptr};
  }
};
"""

# %% [markdown]
# **Rung 1, naive.** The formula: for each output channel and pixel, a sum over all channels and taps. **Rung 2, hoisted.** The sample at a
# place does not depend on the output channel. Compute all samples of a pixel once (a column of *im2col*, the matrix in which each
# column holds everything that one output pixel reads), and multiply this column by the weights of every output channel.

# %%
DEFORM_1_2 = r"""
float sample(const Place& place, const float* plane) {
  float sum = 0;
  for (int i = 0; i < 4; ++i) {
    if (place.at[i] >= 0) sum += place.weight[i] * plane[place.at[i]];
  }
  return sum;
}
struct Naive {
  static void run(OrtKernelContext*, const Task& t) {
    const int64_t plane = t.h * t.wide;
    for (int64_t o = 0; o < t.o; ++o)
      for (int64_t pixel = 0; pixel < plane; ++pixel) {
        float sum = 0;
        for (int64_t c = 0; c < t.c; ++c)
          for (int64_t tap = 0; tap < 9; ++tap)
            sum += t.w[(o * t.c + c) * 9 + tap] * sample(Place(t, pixel, tap), t.x + c * plane);
        t.y[o * plane + pixel] = sum;
      }
  }
};
struct Hoisted {
  static void run(OrtKernelContext*, const Task& t) {
    const int64_t plane = t.h * t.wide;
    std::vector<float> column(t.c * 9);
    for (int64_t pixel = 0; pixel < plane; ++pixel) {
      for (int64_t tap = 0; tap < 9; ++tap) {
        const Place place(t, pixel, tap);
        for (int64_t c = 0; c < t.c; ++c) column[c * 9 + tap] = sample(place, t.x + c * plane);
      }
      for (int64_t o = 0; o < t.o; ++o) {
        float sum = 0;
        for (int64_t i = 0; i < t.c * 9; ++i) sum += t.w[o * t.c * 9 + i] * column[i];
        t.y[o * plane + pixel] = sum;
      }
    }
  }
};
"""

# %% [markdown]
# **Rung 3, vectorised.** Two loops still process one element at a time. The loop that samples reads each channel from a different plane,
# far apart in memory: convert the image to *channels-last* once, and one place is four runs of neighbouring floats. The sum over i
# cannot be vectorised at all, because the compiler must not reorder a float sum: transpose the weights, and let the inner loop run over
# output channels. A pixel outside of the image is read from an extra pixel of zeros, so the loop needs no condition.

# %%
DEFORM_3 = r"""
struct Turned {  // the image as [h][wide][c] with one pixel of zeros behind it
  explicit Turned(const Task& t) : image((t.h * t.wide + 1) * t.c) {
    for (int64_t c = 0; c < t.c; ++c)
      for (int64_t i = 0; i < t.h * t.wide; ++i) image[i * t.c + c] = t.x[c * t.h * t.wide + i];
  }
  std::vector<float> image;
};
[[gnu::always_inline]] inline void sample_all(const Task& t, const float* image, const Place& place, int64_t c,
                                              int64_t count, float* out) {
  const float* from[4];
  for (int i = 0; i < 4; ++i) from[i] = image + (place.at[i] < 0 ? t.h * t.wide : place.at[i]) * t.c + c;
  for (int64_t k = 0; k < count; ++k) {
    out[k] = place.weight[0] * from[0][k] + place.weight[1] * from[1][k] + place.weight[2] * from[2][k] +
             place.weight[3] * from[3][k];
  }
}
struct Vectorised {
  static void run(OrtKernelContext*, const Task& t) {
    const Turned turned(t);
    const int64_t plane = t.h * t.wide;
    std::vector<float> weights(9 * t.c * t.o), column(t.c), sums(t.o);  // weights [tap][c][o]
    for (int64_t i = 0; i < t.o * t.c * 9; ++i)
      weights[(i % 9 * t.c + i / 9 % t.c) * t.o + i / 9 / t.c] = t.w[i];
    for (int64_t pixel = 0; pixel < plane; ++pixel) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (int64_t tap = 0; tap < 9; ++tap) {
        sample_all(t, turned.image.data(), Place(t, pixel, tap), 0, t.c, column.data());
        for (int64_t c = 0; c < t.c; ++c) {
          const float *w = &weights[(tap * t.c + c) * t.o], scale = column[c];
          for (int64_t o = 0; o < t.o; ++o) sums[o] += scale * w[o];
        }
      }
      for (int64_t o = 0; o < t.o; ++o) t.y[o * plane + pixel] = sums[o];
    }
  }
};
"""

# %% [markdown]
# **Rung 4, the width of a vector.** In rung 3, the compiler chose the vectors without knowing your processor: on x86-64 it uses 16 bytes.
# GCC and clang also let you write vectors yourself: `vector_size(32)` defines a type of eight floats that supports `+` and `*`. Every
# width compiles on every processor and computes the same. Here is the core of the next rung, six sums that should stay in registers, as
# one source for three widths.

# %%
WIDTH = r"""
template <int bytes>  // of a vector; out[6][columns] = samples[terms][6], transposed, times weights[terms][columns]
[[gnu::always_inline]] inline void add_up(const float* samples, const float* weights, int64_t terms, int64_t columns, float* out) {
  OPLAB_FUSED_SUMS
  typedef float V __attribute__((vector_size(bytes)));
  V sum[6] = {}, weight;
  for (int64_t k = 0; k < terms; ++k) {
    std::memcpy(&weight, weights + k * columns, bytes);
    for (int r = 0; r < 6; ++r) sum[r] += samples[6 * k + r] * weight;
  }
  for (int r = 0; r < 6; ++r) std::memcpy(out + r * columns, &sum[r], bytes);
}
"""
WIDE = r"""
template <int bytes>
struct Wide {
  Wide(const OrtApi*, const OrtKernelInfo*) : simd(oplab::chosen_simd()) {}
  Ort::Status Compute(const oplab::Tensor<float>& samples, const oplab::Tensor<float>& weights, oplab::Tensor<float>& y) {
    const int64_t tiles = samples.Shape()[0], terms = weights.Shape()[0], columns = weights.Shape()[1];
    float* out = y.Allocate({tiles, 6, columns});
    oplab::run_vectorised<Wide>(simd, samples.Data(), weights.Data(), tiles, terms, columns, out);
    return Ort::Status{nullptr};
  }
  template <oplab::Simd>  // any width, whatever the set is
  [[gnu::always_inline]] static void run(const float* samples, const float* weights, int64_t tiles, int64_t terms,
                                         int64_t columns, float* out) {
    for (int64_t tile = 0; tile < tiles; ++tile)
      for (int64_t column = 0; column < columns; column += bytes / 4)
        add_up<bytes>(samples + tile * terms * 6, weights + column, terms, columns, out + tile * 6 * columns + column);
  }
  const oplab::Simd simd;
};
"""
widths = (16, 32, 64)
HEADERS = '#include "oplab_kernel.h"\n#include "matrix_tile.h"\n'
wides = compiled("wides", HEADERS, WIDTH, WIDE, operators={f"Wide{w}": f"Wide<{w}>" for w in widths})

# %% [markdown]
# You can read the assembly that the compiler generates: `g++ -S`. Below is the innermost loop for each width. On x86-64 the loop is
# compiled for AVX2, whatever your processor supports, because it is only read and not run. On other architectures, it is compiled for
# the compiler's default processor.

# %%
AVX2 = ["-mavx2", "-mfma"] if platform.machine() in ("x86_64", "AMD64") else []


def innermost(width):
    """The lines of assembly of the shortest loop that multiplies."""
    source = lab.build / "width.cpp"
    shown = f"void shown(const float* s, const float* w, int64_t n, float* out) {{ add_up<{width}>(s, w, n, {width // 4}, out); }}"
    source.write_text(f"#include <cstdint>\n#include <cstring>\n{WIDTH}{shown}\n")
    flags = ["-std=c++17", "-O3", "-ffp-contract=fast", "-fno-omit-frame-pointer", "-DOPLAB_FUSED_SUMS=", *AVX2]
    made = source.with_suffix(".s")
    done = compiler.run([*compiler.find_compiler().command, *flags, "-S", "-o", str(made), str(source)], timeout=120)
    assert done.returncode == 0, done.log
    lines = [line.strip() for line in made.read_text().splitlines() if re.match(r"\t[a-z]|\S+:", line)]
    labels = {line.split(":")[0]: place for place, line in enumerate(lines) if re.match(r"\S+:", line)}
    jumps = [(labels.get(line.split()[-1], place), place) for place, line in enumerate(lines)]
    loops = [lines[begin + 1 : end + 1] for begin, end in jumps if begin < end]
    return min((loop for loop in loops if any(re.match("v?f?m(ul|add|la)|fm", line) for line in loop)), key=len)


def touches_stack(line):
    return bool(re.search(r"\(%[re][sb]p\)|\[(sp|x29)\b", line))


loops = {width: innermost(width) for width in widths}
if AVX2 and compiler.find_compiler().family == "gcc":
    assert not any(map(touches_stack, loops[32]))
print(f"⏱ instructions with the stack in the loop for 64 bytes: {sum(map(touches_stack, loops[64]))}")

# %%
figure, panes = plt.subplots(1, 3, figsize=(10.6, 4.4), layout="constrained")
for pane, (width, loop) in zip(panes, loops.items(), strict=True):
    count = sum(map(touches_stack, loop))
    pane.set_title(
        f"{width} bytes: {len(loop)} instructions,\n{count} with the stack", size=11, color=drawings.INK, loc="left"
    )
    shown = loop if len(loop) <= 22 else [*loop[:21], f"… and {len(loop) - 21} more"]
    for row, line in enumerate(shown):
        colour = drawings.RED if touches_stack(line) else drawings.GREEN if re.match("v?fm", line) else drawings.INK
        pane.text(0, -row, re.sub(r"\s+", " ", line), family="monospace", size=8, color=colour)
    pane.set(xlim=(0, 1), ylim=(-22, 1))
    pane.axis("off")
figure.suptitle("innermost loop, " + ("AVX2" if AVX2 else platform.machine()), size=11, color=drawings.VIOLET)
plt.show()

# %% [markdown]
# Green is a multiply-add, red reads or writes the stack. With GCC on x86-64: an AVX2 register has 32 bytes. GCC splits each operation
# on 64 bytes into two but keeps the *variable* in memory, so all six sums are read and written in each step, although twelve of the 16
# registers would hold them. The loop for 16 bytes is as short as the loop for 32, and each instruction does half of the work. On AArch64
# a register has 16 bytes, so check the wider variants there. clang may keep both halves in registers.
#
# So the width has to match the instruction set. Here are the times for each set that your processor has. `OPLAB_SIMD` selects a set when
# a session is created.

# %%
tile_of = {"samples": rng.random((200, 200, 6), dtype=np.float32), "weights": rng.random((200, 32), dtype=np.float32)}
product = np.swapaxes(tile_of["samples"], 1, 2) @ tile_of["weights"]


def wide(width):
    node = helper.make_node(f"Wide{width}", list(tile_of), ["y"], domain="lesson")
    shapes = {"samples": ("float32", [None] * 3), "weights": ("float32", [None] * 2)}
    return runner(model_of([node], shapes, {"y": ("float32", [None] * 3)}), wides, count=1)


contestants = {}
for simd in ("plain", "neon", "avx2", "avx512"):
    try:
        with mock.patch.dict(os.environ, OPLAB_SIMD=simd):
            contestants |= {(simd, width): wide(width) for width in widths}
    except Exception as error:  # a set that this processor does not have
        assert "OPLAB_SIMD" in str(error)
print("equal:", all(np.allclose(run(tile_of), product, rtol=1e-4) for run in contestants.values()))
wide_seconds = race(on(contestants, tile_of), rounds=15)

# %%
sets = list(dict.fromkeys(simd for simd, _ in contestants))
figure, axes = plt.subplots(figsize=(8.4, 0.8 * len(sets) + 0.9), layout="constrained")
for row, ((simd, width), values) in enumerate(wide_seconds.items()):
    place, best = -row - 0.6 * sets.index(simd), 1e3 * np.min(values)
    fits = width == {"avx512": 64, "avx2": 32}.get(simd, 16)
    axes.barh(place, best, color=drawings.GREEN if fits else drawings.FAINT, height=0.8)
    axes.text(best, place, f" {width} bytes: {best:.2g} ms", va="center", **style)
axes.set_yticks([-3.6 * number - 1 for number in range(len(sets))], sets, **style)
axes.set_xlim(0, 1.25e3 * max(np.min(values) for values in wide_seconds.values()))
axes.set_xlabel("ms, best run on one thread; green is the width of the set's registers", **style)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %% [markdown]
# `run_vectorised` passes the instruction set to the struct's `run` as a template parameter, `simd`; `oplab::Vector<T, simd>` is a
# vector that fills one of its registers.
#
# **Rung 5, blocked.** Rung 3 reads all weights again for every pixel, and loads and stores a sum for each product. Process 48 pixels at
# once, a *tile*. For one tap, the samples of a tile are a matrix [48 × 64 channels] that stays in the cache. `Product` in
# `matrix_tile.h` multiplies some rows of this matrix by the weights of 16 output channels as rung 4 does: the sums stay in registers,
# and each loaded weight is used for up to 12 pixels with AVX-512, 6 with AVX2, 4 with NEON and 3 with SSE2. The comment above `Product`
# describes how the three matrices are laid out in memory.
# **Rung 6, parallel.** The tiles are independent of each other.

# %%
DEFORM_5_6 = r"""
constexpr int64_t kPixels = 48, kDepth = 64, kLanes = oplab::kPanel<float>;

struct Tile {  // the pixels [first, first + pixels) in all output channels; weights are [panel][tap][c][lane]
  template <oplab::Simd simd>
  [[gnu::always_inline]] static void run(const Task& t, const float* image, const float* weights, int64_t first,
                                         int64_t pixels, float* sums) {
    const int64_t panels = (t.o + kLanes - 1) / kLanes;
    float samples[kPixels * kDepth] = {};  // rows that the last tile does not use are multiplied too
    std::fill_n(sums, panels * kPixels * kLanes, 0.0f);
    for (int64_t tap = 0; tap < 9; ++tap)
      for (int64_t c = 0; c < t.c; c += kDepth) {
        const int64_t depth = std::min(kDepth, t.c - c);
        for (int64_t p = 0; p < pixels; ++p)
          sample_all(t, image, Place(t, first + p, tap), c, depth, samples + p * kDepth);
        for (int64_t panel = 0; panel < panels; ++panel)
          oplab::Product<float, simd, kDepth, kPixels>::add(samples, pixels, depth,
                                                            weights + ((panel * 9 + tap) * t.c + c) * kLanes, 1,
                                                            sums + panel * kPixels * kLanes);
      }
    for (int64_t o = 0; o < t.o; ++o)
      for (int64_t p = 0; p < pixels; ++p)
        t.y[o * t.h * t.wide + first + p] = sums[(o / kLanes * kPixels + p) * kLanes + o % kLanes];
  }
};
template <bool parallel>
struct Blocked {
  static void run(OrtKernelContext* context, const Task& t) {
    const Turned turned(t);
    const int64_t plane = t.h * t.wide, panels = (t.o + kLanes - 1) / kLanes, tiles = (plane + kPixels - 1) / kPixels;
    std::vector<float> weights(panels * 9 * t.c * kLanes);
    for (int64_t i = 0; i < t.o * t.c * 9; ++i) {
      const int64_t o = i / 9 / t.c;
      weights[((o / kLanes * 9 + i % 9) * t.c + i / 9 % t.c) * kLanes + o % kLanes] = t.w[i];
    }
    const oplab::Simd simd = oplab::chosen_simd();
    oplab::parallel_for(context, tiles, parallel ? 1 : tiles, [&](int64_t begin, int64_t end) {
      std::vector<float> sums(panels * kPixels * kLanes);  // scratch of this piece alone
      for (int64_t first = begin * kPixels; first < std::min(end * kPixels, plane); first += kPixels)
        oplab::run_vectorised<Tile>(simd, t, turned.image.data(), weights.data(), first,
                                    std::min(kPixels, plane - first), sums.data());
    });
  }
};
"""
kernels = {"Naive": "Naive", "Hoisted": "Hoisted", "Vectorised": "Vectorised"}
kernels |= {"Blocked": "Blocked<false>", "Parallel": "Blocked<true>"}
deforms = compiled(
    "deforms", DEFORM, DEFORM_1_2, DEFORM_3, DEFORM_5_6, operators={k: f"Deform<{v}>" for k, v in kernels.items()}
)

# %% [markdown]
# The peers are ONNX Runtime's DeformConv, torchvision, and the course's `DeformConv2d`. Offsets can be larger than a pixel, so some places
# are outside of the image. Rung 4 has no bar in the figure below: it is the inner loop of rung 5, which was measured alone above.

# %%
C, H = 64, 40
image = {"X": rng.standard_normal((1, C, H, H), np.float32), "W": rng.standard_normal((C, C, 3, 3), np.float32)}
image["offset"] = 2 * rng.standard_normal((1, 18, H, H), np.float32)
IMAGES = {name: ("float32", [None] * 4) for name in image}, {"Y": ("float32", [None] * 4)}


def deform_model(op, domain="lesson", **attributes):
    return model_of([helper.make_node(op, list(image), ["Y"], domain=domain, **attributes)], *IMAGES)


def by_torchvision(feeds):
    x, w, offset = (torch.from_numpy(feeds[name]) for name in ("X", "W", "offset"))
    return torchvision.ops.deform_conv2d(x, offset, w, padding=1).numpy()


peers = {
    "torchvision": by_torchvision,
    "ORT's DeformConv": runner(deform_model("DeformConv", "", pads=[1] * 4)),
    "oplab::DeformConv2d": runner(deform_model("DeformConv2d", "oplab", pads=[1] * 4)),
}
rungs = {name: runner(deform_model(name), deforms) for name in kernels}
expected = by_torchvision(image)
for name, run in (rungs | peers).items():
    print(f"{name:22} equal: {np.allclose(run(image), expected, atol=2e-3)}")

# %%
deform_seconds = race(on(rungs | peers, image), rounds=4)
flops = (2 * C + 8) * 9 * C * H * H
limit = ("the peak of the arithmetic", 1e-9 * flops / peak)
gain = times_as_fast(deform_seconds["Hoisted"], deform_seconds["Naive"])
print(f"⏱ hoisting the samples makes it {gain:.0f} times as fast")
ladder(deform_seconds, peers, limit, f"deformable convolution, {C} x {H} x {H}, {C} output channels")
plt.show()

# %% [markdown]
# ## 7. The roofline
#
# The roofline shows both limits in one figure. The x axis is the number of operations for each byte that a kernel *has to* move. The
# y axis is the number of operations per second. Below the slope, memory limits a kernel; below the flat roof, arithmetic does.

# %%
moved = 4 * (C * H * H * 2 + C * C * 9 + 18 * H * H)
points = [("3a + 2b", 3 / 12, 3 * (1 << 22), add_seconds, drawings.ORANGE)]
points += [("deformable convolution", flops / moved, flops, deform_seconds, drawings.VIOLET)]
across = np.logspace(-1.2, 2.3, 100)
figure, axes = plt.subplots(figsize=(8.6, 4.2), layout="constrained")
axes.loglog(across, np.minimum(across * bandwidth, peak), color=drawings.RED, lw=2)
axes.text(1.6, 1.6 * bandwidth * 0.42, "memory", color=drawings.RED, size=10)
axes.text(9, peak * 1.15, "arithmetic", color=drawings.RED, size=10)
for title, intensity, work, seconds, colour in points:
    rates = {name: 1e-9 * work / np.min(seconds[name]) for name in seconds if name in names or name == "Blocked"}
    axes.plot([intensity] * len(rates), list(rates.values()), "o", color=colour, ms=8)
    shown = []
    for name, rate in sorted(rates.items(), key=lambda entry: entry[1]):
        height = max(np.log10(rate), shown[-1] + 0.24 if shown else -9)  # labels that do not cover each other
        shown.append(height)
        label = axes.text(intensity * 1.15, 10**height, name, va="center", color=colour, size=10)
        label.set_bbox({"fc": "white", "ec": "none", "pad": 0.6})
    axes.text(intensity * 0.87, 10 ** shown[0], title, va="center", ha="right", color=colour, size=10, weight="bold")
axes.set_ylim(1e-9 * min(points[0][2] / max(add_seconds["Naive"]), flops / max(deform_seconds["Naive"])) / 2, peak * 2)
axes.set_xlabel("operations for each byte that has to be moved", **style)
axes.set_ylabel("10⁹ operations in a second", **style)
axes.spines[["top", "right"]].set_visible(False)

# %% [markdown]
# The figure shows what to try next. `3a + 2b` is on the slope: move fewer bytes, fuse it with its neighbours. The convolution is below
# the roof, so it can still become faster: the loops that compute a place and load four pixels do few of the operations that are counted
# here, but they take time.
#
# ## 8. Neighbours: less work instead of faster work
#
# The task is to find the k nearest neighbours of n points, with k = 8. **Rung 1, naive:** compute all n² distances and sort them.
# **Rung 2, hoisted:** nearly every distance is larger than the k-th best so far, so keep a short sorted list and store nothing else.
# **Rung 3, vectorised:** keep x, y and z in three arrays, compute eight squared distances at once, and only then test whether one
# of them is small enough.

# %%
KNN = r"""
#include <cmath>
#include <limits>
#include "oplab_kernel.h"
using oplab::Tensor;
constexpr int64_t K = 8;

struct Best {  // the K nearest so far, the nearest first; of two at one distance the lower index
  void offer(float square, int32_t index) {
    if (square > squares[K - 1] || (square == squares[K - 1] && index > indices[K - 1])) return;
    int64_t place = K - 1;
    for (; place > 0 && (square < squares[place - 1] || (square == squares[place - 1] && index < indices[place - 1])); --place)
      squares[place] = squares[place - 1], indices[place] = indices[place - 1];
    squares[place] = square, indices[place] = index;
  }
  void clear() {
    std::fill_n(squares, K, std::numeric_limits<float>::infinity());
    std::fill_n(indices, K, std::numeric_limits<int32_t>::max());
  }
  float squares[K];
  int32_t indices[K];
};
inline float square_of(const float* p, const float* q) {
  const float dx = p[0] - q[0], dy = p[1] - q[1], dz = p[2] - q[2];
  return dx * dx + dy * dy + dz * dz;
}
template <typename Work>
struct Nearest {
  Nearest(const OrtApi*, const OrtKernelInfo*) {}
  Ort::Status Compute(OrtKernelContext* context, const Tensor<float>& xyz, Tensor<int32_t>& idx) {
    const int64_t n = xyz.Shape()[0];
    Work::run(context, xyz.Data(), n, idx.Allocate({n, K}));
    return Ort::Status{nullptr};
  }
};
"""
KNN_1_3 = r"""
struct Naive {
  static void run(OrtKernelContext*, const float* xyz, int64_t n, int32_t* idx) {
    std::vector<std::pair<float, int32_t>> all(n);
    for (int64_t q = 0; q < n; ++q) {
      for (int64_t i = 0; i < n; ++i) all[i] = {square_of(xyz + 3 * i, xyz + 3 * q), static_cast<int32_t>(i)};
      std::partial_sort(all.begin(), all.begin() + K, all.end());
      for (int64_t k = 0; k < K; ++k) idx[q * K + k] = all[k].second;
    }
  }
};
struct Hoisted {
  static void run(OrtKernelContext*, const float* xyz, int64_t n, int32_t* idx) {
    for (int64_t q = 0; q < n; ++q) {
      Best best;
      best.clear();
      for (int64_t i = 0; i < n; ++i) best.offer(square_of(xyz + 3 * i, xyz + 3 * q), static_cast<int32_t>(i));
      std::copy_n(best.indices, K, idx + q * K);
    }
  }
};
struct Columns {  // the points in three arrays; eight more behind them, which nobody finds
  explicit Columns(int64_t n) { for (auto& axis : at) axis.assign(n + 8, std::numeric_limits<float>::infinity()); }
  void set(int64_t place, const float* p) { for (int d = 0; d < 3; ++d) at[d][place] = p[d]; }
  void offer(int64_t begin, int64_t end, const float* q, const int32_t* index, Best& best) const {
    for (; begin < end; begin += 8) {
      float square[8];
      for (int i = 0; i < 8; ++i) {
        const float dx = at[0][begin + i] - q[0], dy = at[1][begin + i] - q[1], dz = at[2][begin + i] - q[2];
        square[i] = dx * dx + dy * dy + dz * dz;
      }
      float least = square[0];
      for (int i = 1; i < 8; ++i) least = std::min(least, square[i]);
      if (least > best.squares[K - 1]) continue;
      for (int64_t i = 0; i < std::min<int64_t>(8, end - begin); ++i) best.offer(square[i], index[begin + i]);
    }
  }
  std::vector<float> at[3];
};
struct Vectorised {
  static void run(OrtKernelContext*, const float* xyz, int64_t n, int32_t* idx) {
    Columns columns(n);
    std::vector<int32_t> index(n);
    for (int64_t i = 0; i < n; ++i) columns.set(i, xyz + 3 * i), index[i] = static_cast<int32_t>(i);
    for (int64_t q = 0; q < n; ++q) {
      Best best;
      best.clear();
      columns.offer(0, n, xyz + 3 * q, index.data(), best);
      std::copy_n(best.indices, K, idx + q * K);
    }
  }
};
"""

# %% [markdown]
# **Rung 4, grid.** All these rungs still compute n² distances. Put the points into voxels, about two in each, and store them voxel by
# voxel (count, add up, place). A search visits the query's own voxel, then the shell around it, then the next shell. It may stop when
# **the next shell is farther away than the k-th best**, and not as soon as it has k points: the points in the query's voxel may be in its
# far corner.
#
# The figure shows one search for four points, in two dimensions, after shell 1.

# %%
generator = np.random.default_rng(186)
flat, query = generator.random((40, 2)) * 7, np.array([3.9, 3.3])
apart = np.linalg.norm(flat - query, axis=1)
inside = ((flat >= 2) & (flat <= 5)).all(axis=1)  # in shell 0 or 1
order = np.flatnonzero(inside)[np.argsort(apart[inside])[:4]]
reach = apart[order[-1]]
missed = flat[~inside & (apart < reach)]
assert (query + reach > 5).any() and len(missed) == 1
figure, axes = plt.subplots(figsize=(4.6, 4.4), layout="constrained")
for radius, colour in ((2, "#f0eaf7"), (1, "#ddd0ee"), (0, "#c4aee2")):
    axes.add_patch(plt.Rectangle((3 - radius, 3 - radius), 2 * radius + 1, 2 * radius + 1, color=colour, zorder=0))
    label = axes.text(3.07 - radius, 3.8 + radius, f"shell {radius}", color=drawings.VIOLET, size=9, zorder=4)
    label.set_bbox({"fc": colour, "ec": "none", "pad": 0.6})  # over the points
axes.plot(*flat.T, "o", color=drawings.FAINT, ms=4)
axes.plot(*flat[order].T, "o", color=drawings.GREEN, ms=7)
axes.plot(*missed.T, "o", color=drawings.ORANGE, ms=8)
axes.plot(*query, "*", color=drawings.RED, ms=14)
axes.add_patch(plt.Circle(query, reach, fill=False, color=drawings.GREEN, lw=1.6))
axes.set(xticks=range(8), yticks=range(8), xlim=(0, 7), ylim=(0, 7), xticklabels=[], yticklabels=[], aspect="equal")
axes.grid(color=drawings.FAINT, lw=0.5)
axes.tick_params(length=0)
plt.show()

# %% [markdown]
# The search has found the four green points. The circle through the farthest of them extends beyond shell 1, so shell 2 has to be
# searched too, and the orange point there is nearer. The code below handles the unit cube only; yours has to work for every box.
# **Rung 5, parallel:** pieces of 256 queries. In rungs 4 and 5, the queries run in the order of the voxels, so that each query
# finds in the cache what the previous query has read.

# %%
KNN_4_5 = r"""
struct Voxels {
  Voxels(const float* xyz, int64_t n) : columns(n), index(n) {
    layers = std::max<int64_t>(1, static_cast<int64_t>(std::cbrt(static_cast<double>(n) / 2)));
    std::vector<int64_t> voxel(n);
    start.assign(layers * layers * layers + 1, 0);
    for (int64_t i = 0; i < n; ++i) {
      voxel[i] = (layer(xyz[3 * i + 2]) * layers + layer(xyz[3 * i + 1])) * layers + layer(xyz[3 * i]);
      ++start[voxel[i] + 1];
    }
    for (size_t v = 1; v < start.size(); ++v) start[v] += start[v - 1];  // from counts to places
    std::vector<int64_t> next(start.begin(), start.end() - 1);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t place = next[voxel[i]]++;
      columns.set(place, xyz + 3 * i), index[place] = static_cast<int32_t>(i);
    }
  }
  int64_t layer(float coordinate) const {  // of a box from 0 to 1; what is outside of it belongs to the layer at its border
    coordinate = std::min(1.0f, std::max(0.0f, coordinate));
    return std::min(layers - 1, static_cast<int64_t>(coordinate * static_cast<float>(layers)));
  }
  void row(int64_t z, int64_t y, int64_t from, int64_t to, const float* q, Best& best) const {
    if (from >= layers || to < 0) return;
    const int64_t first = (z * layers + y) * layers;
    columns.offer(start[first + std::max<int64_t>(from, 0)], start[first + std::min(to, layers - 1) + 1], q, index.data(), best);
  }
  void search(const float* q, Best& best) const {
    const int64_t hx = layer(q[0]), hy = layer(q[1]), hz = layer(q[2]);
    for (int64_t r = 0; r < layers; ++r) {
      const double reach = (static_cast<double>(r) - 1) / static_cast<double>(layers) * (1 - 1e-5);  // borders are rounded
      if (r > 1 && reach * reach > best.squares[K - 1]) return;
      for (int64_t z = std::max<int64_t>(hz - r, 0); z <= std::min(hz + r, layers - 1); ++z)
        for (int64_t y = std::max<int64_t>(hy - r, 0); y <= std::min(hy + r, layers - 1); ++y) {
          const bool whole = z == hz - r || z == hz + r || y == hy - r || y == hy + r;
          row(z, y, hx - r, whole ? hx + r : hx - r, q, best);
          if (!whole) row(z, y, hx + r, hx + r, q, best);
        }
    }
  }
  int64_t layers;
  std::vector<int64_t> start;
  Columns columns;
  std::vector<int32_t> index;
};
template <bool parallel>
struct Grid {
  static void run(OrtKernelContext* context, const float* xyz, int64_t n, int32_t* idx) {
    const Voxels voxels(xyz, n);
    oplab::parallel_for(context, n, parallel ? 256 : n, [&](int64_t begin, int64_t end) {
      for (int64_t place = begin; place < end; ++place) {
        const int64_t q = voxels.index[place];
        Best best;
        best.clear();
        voxels.search(xyz + 3 * q, best);
        std::copy_n(best.indices, K, idx + q * K);
      }
    });
  }
};
"""
kernels = {"Naive": "Naive", "Hoisted": "Hoisted", "Vectorised": "Vectorised"}
kernels |= {"Grid": "Grid<false>", "Parallel": "Grid<true>"}
knns = compiled("knns", KNN, KNN_1_3, KNN_4_5, operators={k: f"Nearest<{v}>" for k, v in kernels.items()})


# %%
def knn_model(op):
    node = helper.make_node(op, ["xyz"], ["idx"], domain="lesson")
    return model_of([node], {"xyz": ("float32", ["n", 3])}, {"idx": ("int32", ["n", 8])})


def by_torch(feeds):
    points = torch.from_numpy(feeds["xyz"])
    return (
        torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist").topk(8, largest=False).indices.numpy()
    )


course_node = helper.make_node("KNNQuery", ["xyz", "offset"], ["idx", "dist"], domain="oplab", nsample=8)
CLOUD = {"xyz": ("float32", ["n", 3]), "offset": ("int64", [1])}
course = runner(model_of([course_node], CLOUD, {"idx": ("int32", ["n", 8]), "dist": ("float32", ["n", 8])}))
peers = {
    "torch: cdist, topk": by_torch,
    "scipy: cKDTree": lambda feeds: cKDTree(feeds["xyz"]).query(feeds["xyz"], 8, workers=threads)[1],
    "oplab::KNNQuery": lambda feeds: course(feeds | {"offset": np.array([len(feeds["xyz"])])}),
}
rungs = {name: runner(knn_model(name), knns) for name in kernels}

# %%
cloud = {"xyz": rng.random((6000, 3), dtype=np.float32)}
expected = peers["scipy: cKDTree"](cloud)
for name, run in (rungs | peers).items():
    print(f"{name:22} equal: {(run(cloud) == expected).mean() > 0.999}")
knn_seconds = race(on(rungs | peers, cloud), rounds=4)
gain = times_as_fast(knn_seconds["Grid"], knn_seconds["Naive"])
print(f"⏱ the grid makes it {gain:.0f} times as fast")
ladder(knn_seconds, peers, None, "8 nearest neighbours of 6 000 points")
plt.show()

# %% [markdown]
# There is no red line: the limit of an n² loop does not apply to a search that skips most of the n² distances.
# Rungs 2 and 3 do the same work faster. Rung 4 does less work, and the gap grows with n:

# %%
counts = (500, 1500, 4500, 13500, 40500)
clouds = [{"xyz": rng.random((n, 3), dtype=np.float32)} for n in counts]
curves = {"Vectorised": drawings.ORANGE, "Parallel": drawings.VIOLET, "scipy: cKDTree": drawings.FAINT}
figure, axes = plt.subplots(figsize=(6.6, 3.4), layout="constrained")
for name, colour in curves.items():
    those = clouds[: 3 if name == "Vectorised" else 5]
    times = [np.min(race(on({name: (rungs | peers)[name]}, points), rounds=3)[name]) for points in those]
    axes.loglog(counts[: len(those)], 1e3 * np.array(times), "o-", color=colour, lw=2, label=name)
axes.set_xlabel("points", **style)
axes.set_ylabel("milliseconds", **style)
axes.legend(frameon=False, fontsize=10)
axes.spines[["top", "right"]].set_visible(False)

# %% [markdown]
# ### What the grid does not do
#
# If nearly all points are in one voxel and a few are far outside, the grid is only a list, and the search is n² again. This is the
# limit of a plain grid. The lesson's grid covers a box from 0 to 1; a dense cluster (a heap) of points in its corner shows the effect.

# %%
heap = {"xyz": cloud["xyz"] * np.float32(0.02)}
layers = int(np.cbrt(6000 / 2))
for name, points in (("spread", cloud), ("heaped", heap)):
    voxel = (points["xyz"] * layers).astype(int) @ [1, layers, layers**2]
    print(f"{name}: {np.bincount(voxel).max()} of 6000 points in the fullest voxel")
crowded = race({"spread": partial(rungs["Grid"], cloud), "heaped": partial(rungs["Grid"], heap)}, rounds=3)
share = times_as_fast(crowded["spread"], crowded["heaped"])
print(f"⏱ the same points in one corner take {share:.0f} times as long")

# %% [markdown]
# The course's kernel detects this. `csrc/common/knn_grid.h` counts how many points share a voxel, and gives each search a budget.
# If a voxel is too full or a search exceeds its budget, a k-d tree is used instead (`knn_tree.h`). The bounds of that grid are
# exact, too: each layer of voxels keeps the coordinates that really occur, whereas this lesson uses `1 - 1e-5`.
#
# ## 9. Threads must not change the result
#
# Threads make a kernel faster, but they must not change what it computes. Chapter 13's scheduler calls the pieces in different
# orders. Rung 6 of section 6 gives the same bits in each order: each piece writes its own output and has its own scratch memory.

# %%
small = {name: value[..., :20, :20] if name != "W" else value for name, value in image.items()}
small = {name: np.ascontiguousarray(value) for name, value in small.items()}
scheduled = ScheduledSession(deform_model("Parallel").SerializeToString(), deforms, lab.fresh("scheduled"))
alone = runner(deform_model("Parallel"), deforms, count=1)(small)
for label, order in ORDERS.items():
    made = scheduled.run(small, {"Y": (alone.shape, "float32")}, order)["Y"]
    print(f"{label:32} pieces: {scheduled.pieces[0]}  same bits as one thread: {np.array_equal(made, alone)}")
    assert np.array_equal(made, alone)

# %% [markdown]
# ## 10. Limits
#
# - These numbers are from one machine, for sizes that suit the lesson. On your machine, two neighbouring bars can change places: the
#   lesson asserts results, never times.
# - The measured peak is the best result of a simple loop. A processor that lowers its clock frequency for wide vectors has more than one
#   peak.
# - A sum in a different order can differ in its last bits. In section 6, rungs 3 and 5 add in a different order than rung 1: the results
#   agree up to rounding, not bit for bit. A fused multiply-add (AVX2, AVX-512, NEON) rounds once where SSE2 rounds twice. The number of
#   threads does not change the result; the processor does.
# - The grid in section 8 assumes points that fill a cube. `docs/operators.md` describes what the course's kernel guarantees for other
#   points.
#
# ## 11. Exercises
#
# Your files are `exercises/csrc/c14_fuse_my_add.cpp`, `c14_deform_conv.cpp` and `c14_knn_grid.cpp`; the comment at the top of each file is
# the complete specification. **Correctness comes first:** a naive answer that is correct passes with at least two fifths of the points.
# The other points grow with the speed on one thread, measured in turns with a baseline, and one fifth is for pieces that threads
# can share. The message reports your speed, and which rung is probably missing. A slow or busy machine costs you no points.
#
# **`fuse_my_add`** — `alpha*a + beta*b`, where b may be one row that is added to each row of a.

# %%
lab.check("fuse_my_add")

# %% [markdown]
# **`deform_conv`** — section 6 with a mask, strides, pads and several images. Start with the borders: write rung 1, pass the checks, then
# add the other rungs.

# %%
lab.check("deform_conv")

# %% [markdown]
# **`knn_grid`** — section 8 for batches, for any box, for lines, planes, heaps and points that are all equal.

# %%
lab.check("knn_grid")

# %% [markdown]
# ## What to read next
#
# - Chapter 15, for a fast model that gives a wrong result; chapter 16, in which your kernels become part of a whole network.
# - `csrc/ort_ops/deform_conv2d.cpp` and `matrix_tile.h`: rung 6 of section 6, with groups, every attribute and every check.
#   `csrc/common/knn_grid.h` and `knn_tree.h`: the search that cannot become quadratic.
# - S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful visual performance model", 2009; J. McCalpin's STREAM benchmark.
# - `oplab/checks/speed.py`: how the grader measures your kernels.
#
# Previous: [13: Real kernels](13_real_kernels.ipynb)
# · Next: [15: Surgery and debugging](15_surgery_and_debugging.ipynb)
# · [Glossary](../docs/glossary.md)
