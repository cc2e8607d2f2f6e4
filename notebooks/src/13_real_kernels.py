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
# # 13 · Real kernels
#
# After this chapter you can
#
# - write a kernel with inputs and outputs of several dtypes, with optional inputs that may be absent in every way that ONNX
#   allows, with sizes that follow from attributes, and with any number of inputs;
# - distribute its rows over ONNX Runtime's threads, and prove that the result has the same bits for every number of threads;
# - tell ONNX Runtime the shapes of your outputs before the model runs, including the names of their dimensions.
#
# ## 1. The failure
#
# Chapter 12 ended with kernels that have two required inputs of one dtype. The operators that you need in practice are more complex.
# The running example is small: `Pick(x, at, scale?)` reads the elements of `x` at the indices `at`, and multiplies them by `scale`. An
# index outside `x` gives 0, and a second output counts these indices. The first version has no `scale`.

# %%
import numpy as np
import onnx
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph

from oplab import lesson, raises, session
from oplab.toolchain.build import compile_library

lab = lesson("13_real_kernels")


def model(inputs, outputs, nodes):
    """A model in ONNX's text syntax, as in chapter 01."""
    head = '<ir_version: 10, opset_import: ["": 20, "lesson": 1, "oplab": 1]>'
    return onnx.parser.parse_model(f"{head} g ({inputs}) => ({outputs}) {{ {nodes} }}")


picks = compile_library(lab.cpp("13_pick.cpp"), "ort")
X_AT, RESULTS = "float[n] x, int64[m] at", "float[m] y, int32[1] outside"
one_type = model(X_AT, RESULTS, "y, outside = lesson.OneType(x, at)")
with raises(InvalidGraph, "Type 'tensor(int64)' of input parameter (at) of operator (OneType)"):
    session(one_type, libraries=[picks])
lab.show(one_type)

# %% [markdown]
# ONNX Runtime refuses the model before anything runs. The C++ files of this chapter are in `notebooks/cpp`; `13_pick.cpp` has each
# step of `Pick` as an operator, with the step's name. There is nothing new in the kernel, which all steps share:

# %%
lab.source("13_pick.cpp", "struct PickKernel")

# %% [markdown]
# The operator declares the number of its inputs and their dtypes. This one returns the same dtype for every index, as the classic
# example does:

# %%
lab.source("13_pick.cpp", "struct OneType")

# %% [markdown]
# The kernel reads int64, but ONNX Runtime asks the operator, not the kernel.
#
# What chapter 12 explained is written once, in `13_kernel.h`: the entry point, the domain `lesson`, and `Base`, a `CustomOpBase` with
# `CreateKernelV2`. `FLOAT`, `INT64` and so on are short names of ONNX Runtime's constants, such as
# `ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT`. A kernel of this chapter is a `compute` function that may throw, and `Guarded` turns each
# exception into a status. For a user's mistake `compute`
# throws an `Ort::Exception` with the code `ORT_INVALID_ARGUMENT`.

# %%
lab.source("13_kernel.h", "struct Guarded")

# %% [markdown]
# ## 2. Several dtypes: ask by index
#
# ONNX Runtime asks `GetInputType` and `GetOutputType` for each index, more than once. Return the dtype of that index.

# %%
lab.source("13_pick.cpp", "struct ByIndex")

# %%
feeds = {
    "x": np.array([10, 20, 30], np.float32),
    "at": np.array([2, 0, 7]),
    "scale": np.array([0.5], np.float32),
}


def run(library, made, feeds):
    """The outputs of a model; it gets the feeds that it has inputs for."""
    names = [value.name for value in made.graph.input]
    return session(made, libraries=[library]).run(None, {name: feeds[name] for name in names})


y, outside = run(picks, model(X_AT, RESULTS, "y, outside = lesson.ByIndex(x, at)"), feeds)
print("y", y.tolist(), y.dtype, "  outside", outside.tolist(), outside.dtype)

# %% [markdown]
# `at` may have any shape, because the loop ends at the number of elements. If it ended at `shape[0]`, half of the first output
# below would never be written. For a scalar, `shape[0]` does not exist, and reading it is undefined behaviour.

# %%
any_shape = model(
    "float[n] x, int64[] at",
    "float[] y, int32[1] outside",
    "y, outside = lesson.ByIndex(x, at)",
)
for places in ([[2, 0], [7, 1]], 1):
    print(run(picks, any_shape, feeds | {"at": np.array(places)})[0].tolist())

# %% [markdown]
# This operator accepts one list of dtypes. To support double as well, register a **second operator object with the same name**,
# usually from a template. ONNX Runtime selects the operator that fits. Here is the smallest example: it copies its input.

# %%
lab.source("13_ask.cpp", "struct CopyOp")

# %%
ask = compile_library(lab.cpp("13_ask.cpp"), "ort")
for kind, dtype in (("float", "float32"), ("double", "float64")):
    copy = model(f"{kind}[n] x", f"{kind}[n] y", "y = lesson.Copy(x)")
    print(run(ask, copy, {"x": np.arange(3, dtype=dtype)})[0].dtype)
with raises(InvalidGraph, "Type 'tensor(float16)' of input parameter (x)"):
    session(model("float16[n] x", "float16[n] y", "y = lesson.Copy(x)"), libraries=[ask])

# %% [markdown]
# ## 3. Optional inputs
#
# Now add `scale`, input 2, which a model may leave out. ONNX has two ways to do this: a shorter list of inputs, or the empty
# name. By default every input is required, and ONNX Runtime refuses both.

# %%
ways = {"given": "x, at, scale", "left out": "x, at", 'named ""': 'x, at, ""'}


def pick(op, way, results=RESULTS, names="y, outside"):
    inputs = X_AT + ", float[k] scale" if "scale" in ways[way] else X_AT
    return model(inputs, results, f"{names} = lesson.{op}({ways[way]})")


print("given:", run(picks, pick("AllRequired", "given"), feeds)[0].tolist())
with raises(InvalidGraph, "has input size 2 not in range [min=3, max=3]"):
    session(pick("AllRequired", "left out"), libraries=[picks])
with raises(InvalidGraph, "input 2 is marked single but has an empty string in the graph"):
    session(pick("AllRequired", 'named ""'), libraries=[picks])

# %% [markdown]
# `GetInputCharacteristic` declares which inputs are optional, by index. With it, both models load. (`ThreeInputs` in the same file has
# the name, the counts and the dtypes.)

# %%
lab.source("13_pick.cpp", "struct OptionalScale")

# %%
for way in ways:
    session(pick("Unchecked", way), libraries=[picks])
print("all three load")

# %% [markdown]
# Older tutorials stop here. The kernel still reads input 2, and gets null:

# %%
lab.source("13_pick.cpp", "struct ScaleUnchecked")

# %% [markdown]
# The next cells run each model **in its own process** with the function `apart`, because two of the runs crash.

# %% {"jupyter": {"source_hidden": true}}
import subprocess
import sys

APART = """
import sys, numpy as np, oplab
library, model, feeds = sys.argv[1:]
run = oplab.session(model, libraries=[library])
given = dict(np.load(feeds))
names = [value.name for value in run.get_inputs()]
print([out.tolist() for out in run.run(None, {name: given[name] for name in names})])
"""


def apart(library, made, feeds=feeds):
    """What another process prints, or the signal that ended it."""
    onnx.save(made, lab.build / "apart.onnx")
    np.savez(lab.build / "apart.npz", **feeds)
    command = [sys.executable, "-c", APART, str(library), "apart.onnx", "apart.npz"]
    done = subprocess.run(command, cwd=lab.build, capture_output=True, text=True)
    return (
        done.stdout.strip() if done.returncode == 0 else f"ended by signal {-done.returncode}"
    )


# %%
for way in ways:
    print(f"{way:9}", apart(picks, pick("Unchecked", way)))
for way in ("left out", 'named ""'):
    assert apart(picks, pick("Unchecked", way)) == "ended by signal 11"

# %% [markdown]
# Signal 11 is a segmentation fault. `GetInput` returned a null value, and `GetTensorData` dereferenced it.
#
# ### What a kernel can ask
#
# A kernel can ask two questions: how many inputs are there, and is this input null? `Ask` has two required and two optional
# inputs, and reports both answers.

# %%
lab.source("13_ask.cpp", "struct AskKernel")

# %%
one = np.ones(1, np.float32)
ABCD = "float[1] a, float[1] b, float[1] c, float[1] d"
wirings = ["a, b, c, d", "a, b, c", 'a, b, c, ""', 'a, b, "", d']
wirings += ['a, b, "", ""', 'a, b, ""', "a, b"]
for wiring in wirings:
    made = model(ABCD, "int64[3] seen", f"seen = lesson.Ask({wiring})")
    count, *there = run(ask, made, dict.fromkeys("abcd", one))[0].tolist()
    words = []
    for index, is_there in zip((2, 3), there, strict=True):
        right = "✓" if (index < count) == bool(is_there) else "✗ the count says given"
        words.append(f"input {index} {'given ' if is_there else 'absent'} {right}")
    print(f"{wiring:13} GetInputCount() {count}   {words[0]:38} {words[1]}")

# %% [markdown]
# The count is the length of the list, including empty names. So `index < GetInputCount()` means "the list has an entry at this
# index", and not "this input is given". Each ✗ is a place where the count alone is wrong: a kernel that relies on it crashes.
#
# ### The fix
#
# Check whether the value is null. With ONNX Runtime 1.31, `GetInput` also returns null beyond the end of the list, so this one
# check covers both ways. The header promises null for an optional input that is left out; it does not mention an index beyond the
# end of the list. So the course's own kernels check the count as well: it costs nothing.

# %%
lab.source("13_pick.cpp", "struct ScaleChecked")

# %%
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

for way in ways:
    print(f"{way:9}", apart(picks, pick("Checked", way)))
assert run(picks, pick("Checked", 'named ""'), feeds)[0].tolist() == [30, 10, 0]
with raises(InvalidArgument, "Pick: scale must have one value."):
    run(picks, pick("Checked", "given"), feeds | {"scale": np.ones(0, np.float32)})

# %% [markdown]
# ### The lite API checks only the count
#
# In the lite API of chapter 12 an optional input is a `std::optional<const Tensor<T>*>`. This is shorter, but it is wrong exactly
# where the list above has a ✗: with ONNX Runtime 1.31.1 and headers 1.21, an input named `""` ends the process. Even a
# *required* input with this name does, because the lite API declares every input optional, so the model is accepted.

# %%
lab.source("13_lite.cpp", "struct LiteKernel")

# %%
lite = compile_library(lab.cpp("13_lite.cpp"), "ort")
for wiring in ("a, b, c", "a", 'a, "", c', '"", b'):
    made = model(ABCD, "int64[2] given", f"given = lesson.Lite({wiring})")
    ended = apart(lite, made, dict.fromkeys("abcd", one))
    print(f"{wiring:9}", ended)
    assert ("signal 11" in ended) == ('""' in wiring)

# %% [markdown]
# That is why the course has its own header, `csrc/ort_ops/oplab_kernel.h`. You may include it in your exercises. It takes the
# same parameters as the lite API, and asks both questions. `quote` prints lines of the header, and fails if they are no longer in
# it.

# %%
from oplab import paths

header = (paths.root() / "csrc/ort_ops/oplab_kernel.h").read_text()


def quote(*lines):
    for line in lines:
        assert line in header, line
        print(line)


quote("if (index < inputs.GetInputCount() && inputs.GetInput(index))")

# %% [markdown]
# ## 4. Several outputs
#
# `Pick` already has two outputs, but not every model needs both. An output can also be left out or named `""`. By default it is
# required.

# %%
with raises(InvalidGraph, "has output size 1 not in range [min=2, max=2]"):
    session(pick("Checked", "given", "float[m] y", "y"), libraries=[picks])

# %% [markdown]
# If an output is declared optional, it may be absent, and then `GetOutput` returns null. The kernel of section 1 checks this before it
# writes: see the line with `outside`.

# %%
lab.source("13_pick.cpp", "struct OneOutput")

# %%
for results, names in ((RESULTS, "y, outside"), ("float[m] y", "y"), ("float[m] y", 'y, ""')):
    found = run(picks, pick("OneOutput", "given", results, names), feeds)
    print(f"{names:10}", [out.tolist() for out in found])

# %% [markdown]
# ## 5. Rows on several threads
#
# ONNX Runtime has a thread pool, and a kernel may use it: `ParallelFor(fn, total, batches, data)` calls
# `fn(data, index)` for each index from 0 to total - 1, on any thread, in any order, and returns when all calls are done.
# `batches` is the largest number of groups into which the indices are divided; 0 sets no limit. Do not start your own
# threads: they would compete with the pool for the same cores, and ignore `intra_op_num_threads`.
#
# The example compares each row of an image with the row above it, `y[r] = exp(-(x[r] - x[r-1])²)`; row 0 is compared with itself.
# The second output, also named `total`, is the sum of y, a single double.

# %%
lab.source("13_alike.cpp", "struct AlikeKernel")

# %% [markdown]
# Here is a first attempt at `one_row`. It looks right: it clamps "the row above" to the image, and adds each element to the
# total.

# %%
lab.source("13_alike.cpp", "struct FirstTry")

# %%
alikes = compile_library(lab.cpp("13_alike.cpp"), "ort")


def alike_model(op):
    return model(
        "float[h, w] x", "float[h, w] y, double[1] total", f"y, total = lesson.{op}(x)"
    )


def alike(x):
    x = x.astype(np.float64)
    return np.exp(-((x - np.concatenate([x[:1], x[:-1]])) ** 2))


image = np.random.default_rng(6).normal(size=(5, 3)).astype(np.float32)
first = session(alike_model("FirstTry"), threads=1, libraries=[alikes])
y, total = first.run(None, {"x": image})
right = [bool(np.allclose(*pair, atol=1e-6)) for pair in zip(y, alike(image), strict=True)]
print("rows that are right:", right)
wrapped = np.exp(-((image[0] - image[-1]) ** 2))
print("row 0 as if the row above were the last:", np.allclose(y[0], wrapped, atol=1e-6))

# %% [markdown]
# ### The index is a `size_t`
#
# If `row` is an unsigned 0, `row - 1` is not -1. It is the largest `size_t`, and `min` turns it into the last row. Nothing
# crashes. Only the first row is wrong, which is easy to miss. Make the index signed first.
#
# ### Two rows, one variable
#
# `*rows.total += …` reads, adds and writes. When two threads do this at the same time, one of the sums can be lost: this is a *data
# race*. On several threads the total may be wrong. It may also be right by chance, which is worse: a test that passes proves
# little.
#
# So do not rely on chance. The result of a correct kernel **must not depend on the order** in which its rows are called. The
# course has a scheduler that runs ParallelFor's pieces in an order that it chooses, one after the other, on one thread: no race
# can happen, so a result that still differs depends on the order. (The scheduler passes ONNX Runtime's function table to the
# library with one entry replaced.)

# %%
from oplab.checks.schedules import ORDERS, ScheduledSession

tall = np.random.default_rng(7).normal(size=(2000, 8)).astype(np.float32)
MADE = {"y": (tall.shape, "float32"), "total": ((1,), "float64")}


def totals(op):
    """The kernel's total for each order in which its rows are called."""
    made = alike_model(op).SerializeToString()
    run = ScheduledSession(made, alikes, lab.fresh("scheduled"))
    return {
        label: run.run({"x": tall}, MADE, order)["total"][0] for label, order in ORDERS.items()
    }


found = totals("FirstTry")
print("\n".join(found))
print("are the totals the same?", len(set(found.values())) == 1)
assert len(set(found.values())) > 1

# %% [markdown]
# The totals differ at the 16th digit, where doubles round; with values of many magnitudes they differ at the first. So the model
# can give different bits in each run. Would a lock help? A lock removes the race but does not fix the order, so the totals still
# differ. The same is true of an atomic.
#
# ### The fix: a separate sum for each row
#
# Each row writes its own sum, and one thread adds up the sums, from top to bottom, when all rows are done.

# %%
lab.source("13_alike.cpp", "struct Fixed")

# %% [markdown]
# To test it, compare the values with NumPy. Then check for the same bits in every order, and on one, two and four of ONNX
# Runtime's own threads.

# %%
serial = session(alike_model("Fixed"), threads=1, libraries=[alikes]).run(None, {"x": tall})
print("values:", np.allclose(serial[0], alike(tall), atol=1e-6))
print("total:", np.allclose(serial[1], alike(tall).sum()))
print("orders:", len(set(totals("Fixed").values())) == 1)
for threads in (2, 4):
    parallel = session(alike_model("Fixed"), threads=threads, libraries=[alikes])
    same = [
        all(map(np.array_equal, parallel.run(None, {"x": tall}), serial)) for _ in range(50)
    ]
    print(f"{threads} threads, 50 runs: the same bits in all of them: {all(same)}")

# %% [markdown]
# ### One buffer, two rows
#
# No order reveals memory that rows **share** while they run: when rows run one after the other, each row reads the value that it
# wrote itself. So the grader also compiles `parallel` with ThreadSanitizer's instrumentation, which reports each memory access.
# It then lets two threads take turns running the rows, and compares the addresses. In `StaticGap`, `gap` is static, so all rows share it:

# %%
lab.source("13_alike.cpp", "struct StaticGap")

# %%
from oplab.checks.schedules import SHARES, WatchedSession

watched = compile_library(lab.cpp("13_alike.cpp"), "ort", sanitize="pieces")


def shared_memory(op):
    """Two rows that use the same memory, with at least one write; None if there are none."""
    run = WatchedSession(alike_model(op).SerializeToString(), watched, lab.fresh("watched"))
    return run.watch({"x": tall}, MADE, SHARES["in turns"])


print("orders:", len(set(totals("StaticGap").values())) == 1)
for op in ("StaticGap", "FirstTry", "Fixed"):
    print(f"{op:9}", shared_memory(op))

# %% [markdown]
# Every order gives the same total for `StaticGap`; only the addresses reveal the race. A local variable fixes it.
#
# How much faster is the kernel with more threads? Each point is the fastest of 25 interleaved runs, relative to one thread.
# Beyond the number of cores there is nothing to gain. The curve was measured on the machine that executed this notebook, and
# other programs on that machine distort it. The title reports how many programs needed a core when the measurement began: if this
# is more than the number of cores, the curve shows those programs and not the kernel. Run the cell on an idle machine.

# %%
import os
import time

large = np.random.default_rng(8).normal(size=(4096, 1024)).astype(np.float32)
counts = (1, 2, 3, 4)
fixed = alike_model("Fixed")
sessions = {threads: session(fixed, threads=threads, libraries=[alikes]) for threads in counts}
times = {threads: [] for threads in sessions}
busy = os.getloadavg()[0]
for _ in range(25):
    for threads, each in sessions.items():
        start = time.perf_counter()
        each.run(None, {"x": large})
        times[threads].append(time.perf_counter() - start)
speedup = {threads: min(times[1]) / min(taken) for threads, taken in times.items()}

# %% {"jupyter": {"source_hidden": true}}
import matplotlib.pyplot as plt

from oplab.figures.palette import BLUE, GREY, ORANGE

cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
figure, axes = plt.subplots(figsize=(6.6, 3.4), layout="constrained")
axes.plot([1, 4], [1, 4], ":", color=GREY, label="twice the threads, twice as fast")
axes.plot(*zip(*speedup.items(), strict=True), "o-", color=BLUE, lw=2, label="measured")
axes.axvline(cores, color=ORANGE, lw=1.4, ls="--", label=f"{cores} cores here")
axes.set(xlabel="intra_op_num_threads", ylabel="speed-up", xticks=counts)
axes.set_ylim(0, max(4.2, 1.05 * max(speedup.values())))
axes.set_title(f"4096 rows of 1024 values, measured at a load of {busy:.1f}")
axes.legend(loc="lower right")
axes.spines[["top", "right"]].set_visible(False)
lab.figure(
    figure,
    "Speed-up over the number of threads, from 1 to 4, next to a dotted line, the ideal; a"
    " dashed line is at the number of cores.",
)

# %% [markdown]
# ### Pieces
#
# Computing a row of 8 values is less work than passing it to a thread. The course's `parallel_for(context, size, piece, work)`
# calls `work(begin, end)` for many rows at once. **You choose the length of a piece, and it is fixed**: if it depended on the
# number of threads, so would the sums of pieces. Its index is signed from the first line on.

# %%
quote(
    "const int64_t begin = static_cast<int64_t>(index) * it.piece;",
    "it.work(begin, std::min(begin + it.piece, it.size));",
)

# %% [markdown]
# An exception must not leave a piece: the piece may run on a thread that does not catch it, and the behaviour is then not
# specified (chapter 12). Record the error in a variable that belongs to the row, and refuse after ParallelFor. This
# also applies to memory: a `std::vector` may throw. (`oplab::parallel_for` catches the exception, and rethrows it after
# ParallelFor.)

# %% [markdown]
# ## 6. The header on one page
#
# `oplab_kernel.h` does for you what the sections before this one do by hand. `oplab::Op<Kernel>` reads the parameters of `Compute`
# and answers ONNX Runtime's questions from them:
#
# | parameter of `Compute` | what `Op` answers | section |
# |---|---|---|
# | `const Tensor<T>& x` | a required input of dtype T | 2 |
# | `std::optional<const Tensor<T>*> x` | an optional input; `has_value()` is false if the node leaves it out, in either way | 3 |
# | `const Tensors<T>& x` | variadic, one or more | *Any number of inputs* |
# | `Tensor<T>& y` | a required output of dtype T: `y.Allocate(shape)` allocates its memory | 4 |
# | `std::optional<Tensor<T>*> y` | an optional output | *Optional outputs* |
# | `OrtKernelContext* context` | for `parallel_for` | 5 |
#
# | also in the header | |
# |---|---|
# | `int_attribute(info, "nsample")`, `float_attribute(info, "alpha", 3.0f)` | for constructors; no session if a required one is missing |
# | `string_attribute`, `floats_attribute`, …; `constant_input<float>(info, 1)` | for constructors: chapter 12, two deeper sections |
# | `Scratch<float> memory(context, size)` | memory for one call: chapter 12, the same |
# | `refuse("n is ", n, ".")`, `return invalid("Pick: …")` | a status with a message; `Op` catches exceptions that are thrown at any depth |
# | `parallel_for(context, size, piece, work)` | section 5 |
# | `static void InferShapes(Shapes& shapes)` | *Shapes before anything runs* |
# | `add_domain(options, base, [] { … return domain; })` | all of `RegisterCustomOps`: function table, `InitApi`, `try`, static domain |
#
# Here is the complete `Pick`:

# %%
lab.source("13_whole.cpp")

# %%
whole = compile_library(lab.cpp("13_whole.cpp"), "ort")
for way in ways:
    print(f"{way:9}", [out.tolist() for out in run(whole, pick("Pick", way), feeds)])
with raises(InvalidArgument, "Pick: scale must have one value."):
    run(whole, pick("Pick", "given"), feeds | {"scale": np.ones(2, np.float32)})

# %% [markdown]
# ## 7. Sizes that follow from attributes
#
# The sizes of `Pick`'s outputs are those of an input. In many operators they follow from attributes: `Windows` cuts `x` into windows
# of `size` elements, and the next window begins `step` elements further on. In PyTorch you would call
# `x.new_empty((count, size))`; here `y.Allocate({count, size})` does it. (By hand it is `context.GetOutput(0, shape)`.) In both cases
# the memory is not cleared: write each element.

# %%
lab.source("13_windows.cpp", "struct Windows")

# %%
windows = compile_library(lab.cpp("13_windows.cpp"), "ort")
line = {"x": np.arange(6, dtype=np.float32)}


def window_model(attributes):
    return model("float[n] x", "float[] y", f"y = lesson.Windows <{attributes}> (x)")


for attributes in ("size = 3", "size = 2, step = 2", "size = 3, step = 3, reversed = 1"):
    print(f"{attributes:33}", run(windows, window_model(attributes), line)[0].tolist())

# %% [markdown]
# `size` has no default: a model without it gets no session. The default of `step` is used only where the attribute is **missing**. An
# attribute of another type must not get the default: `step = 2.0` is a mistake in the model. ONNX Runtime reports both
# cases with the same code, so `int_attribute` looks for the name under every type before it uses the default.

# %%
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, RuntimeException

REFUSED = (InvalidArgument, Fail, RuntimeException)
with raises(REFUSED, "Windows: the attribute size is missing."):
    session(window_model("step = 2"), libraries=[windows])
with raises(REFUSED, "Windows: the attribute step must be an int"):
    session(window_model("size = 3, step = 2.0"), libraries=[windows])

# %% [markdown]
# ONNX has no attribute type for booleans: `True` becomes an int. So a bool attribute is an int that is 0 or 1. Refuse every other
# number, because a model that says 2 means something else than you do.

# %%
from onnx import helper

flag = helper.make_attribute("reversed", True)
print(
    helper.printable_attribute(flag),
    "has the type",
    onnx.AttributeProto.AttributeType.Name(flag.type),
)
with raises(REFUSED, "Windows: reversed must be 0 or 1, not 2."):
    session(window_model("size = 3, reversed = 2"), libraries=[windows])

# %% [markdown]
# ## 8. Limits
#
# - The check of orders finds results that depend on the order; the check of addresses finds memory that rows share. The second
#   check does not see accesses inside a library that your rows call, because that library is not instrumented.
# - "The same bits" holds on one machine. Another compiler or processor may fuse `a * b + c` into one rounding.
# - `oplab::Op` has variadic inputs (`const Tensors<T>&`), but no variadic outputs.
# - The crashes were observed with ONNX Runtime 1.31.1 and headers 1.21. If one of these cells no longer fails, the runtime has
#   changed, and this chapter has to be updated.
#
# ## 9. Exercises
#
# The comment at the top of each file describes what the operator computes. The files register the domain `lab`. If a kernel crashes,
# run it with `--sanitize`, for example `oplab check c13.grid --sanitize`, which finds the line.
#
# **`grid`** — `lab::Grid` by hand, on `Ort::CustomOpBase`: an int64 output, and two inputs that may be absent in each of the ways
# of section 3. An input without points is valid too.
# The stub: [exercises/csrc/c13_grid.cpp](../exercises/csrc/c13_grid.cpp#line=67)

# %%
lab.check("grid")

# %% [markdown]
# **`parallel`** — subtract from each column of a table its mean, on ONNX Runtime's threads, with the same bits for any number of
# threads. Now the sums cross the rows: choose what a piece is. The grader calls your pieces in several orders, and monitors which
# memory they use.
# The stub: [exercises/csrc/c13_parallel.cpp](../exercises/csrc/c13_parallel.cpp#line=35)

# %%
lab.check("parallel")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Any number of inputs
#
# A *variadic* operator takes a list of inputs: `Concat`, `Sum`, `Max`. Declare the last input variadic, together with the minimum
# number of inputs and whether they all have one dtype (`Homogeneity`).

# %%
lab.source("13_ask.cpp", "struct CountOp")

# %%
for letters in ("ab", "abcd"):
    made = model(ABCD, "float[1] y", f"y = lesson.Count({', '.join(letters)})")
    print(len(letters), "inputs:", run(ask, made, dict.fromkeys("abcd", one))[0].tolist())
with raises(InvalidGraph, "has input size 1 not in range [min=2"):
    session(model(ABCD, "float[1] y", "y = lesson.Count(a)"), libraries=[ask])
with raises(InvalidGraph, "Type 'tensor(int64)' of input parameter (b)"):
    made = model("float[1] a, int64[1] b", "float[1] y", "y = lesson.Count(a, b)")
    session(made, libraries=[ask])

# %% [markdown]
# In the course's header this is one parameter, `const Tensors<T>&`, for one or more inputs. `oplab::VarSum` uses it
# (`var_sum.cpp`); here it is compared with ONNX's own `Sum`.

# %%
terms = np.random.default_rng(13).normal(size=(5, 1000)).astype(np.float32)
letters = ["a", "b", "c", "d", "e"]
inputs = ", ".join(f"float[n] {name}" for name in letters)
sums = []
for op in ("oplab.VarSum", "Sum"):
    made = model(inputs, "float[n] y", f"y = {op}({', '.join(letters)})")
    sums.append(session(made).run(None, dict(zip(letters, terms, strict=True)))[0])
print("VarSum equals Sum:", np.allclose(*sums, rtol=0, atol=1e-5))

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Optional outputs
#
# Section 4's kernel learns that an output is absent from `GetOutput`, which needs a shape and allocates the memory. That is too late
# for an output that is expensive to compute. A node's outputs do not change, so a kernel can ask in its constructor: the
# `OrtKernelInfo` has their number and their names. As with inputs, the number alone is not enough.

# %%
lab.source("13_optional.cpp", "struct AskOutputs")

# %%
optional = compile_library(lab.cpp("13_optional.cpp"), "ort")
for names, results in {
    "seen": "",
    "seen, a, b": "",
    'seen, "", b': ", float[0] b",
    'seen, "", ""': "",
}.items():
    made = model("float[n] x", f"string[1] seen{results}", f"{names} = lesson.AskOutputs(x)")
    print(f"{names:13}", run(optional, made, feeds)[0].item())

# %% [markdown]
# The second line shows a limit: nothing reads `a` and `b`, but the node has them, so they count as present.
#
# In the course's header an optional output is the parameter `std::optional<Tensor<T>*>`. It has no value if the node leaves the output
# out, in either way. `Summary` sorts only if the result is wanted:

# %%
lab.source("13_optional.cpp", "struct Summary")

# %%
ASKED = {"mean": "float mean", "order": "float[n] order", "words": "string[1] words"}
for names in (
    "mean",
    "mean, order",
    'mean, "", words',
    "mean, order, words",
    'mean, order, ""',
):
    results = ", ".join(ASKED[name] for name in names.split(", ") if name in ASKED)
    made = model("float[n] x", results, f"{names} = lesson.Summary(x)")
    found = run(optional, made, {"x": np.float32([3, 1, 2])})
    print(f"{names:20}", [out.tolist() for out in found])
with raises(InvalidGraph, "output 0 is marked single but has an empty string in the graph"):
    made = model("float[n] x", "float[n] order", '"", order = lesson.Summary(x)')
    session(made, libraries=[optional])

# %% [markdown]
# Shapes of absent outputs have a trap in older versions: before ONNX Runtime 1.28, setting the shape of an output that the node does not
# have ends the process. For operators with optional outputs, `Op` does not call `InferShapes` there.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Shapes before anything runs
#
# A session knows the output shapes of ONNX's own operators before it runs, including symbolic ones such as `["n", 3]`. It does
# not know the output shape of a custom node, and all shapes that depend on it are unknown too.

# %%
shapes = compile_library(lab.cpp("13_shapes.cpp"), "ort")


def inferred(op, size, kind="float", last="z = Identity(y)", other=""):
    """The shape that the session reports for the output of a node that follows op."""
    library = ask if op == "Copy" else shapes
    made = model(f"{kind}[{size}] x{other}", f"{kind}[] z", f"y = lesson.{op}(x) {last}")
    return session(made, libraries=[library]).get_outputs()[0].shape


print("Copy without inference:", inferred("Copy", "2, 3"), inferred("Copy", "n, 3"))

# %% [markdown]
# `[]` means "not known". An operator may have a static `InferOutputShape`. With the API of chapter 12 it is one line.

# %%
lab.source("13_shapes.cpp", "static Ort::Status InferOutputShape")

# %%
for title, size in (("fixed", "2, 3"), ("symbolic", "n, 3"), ("no name", "?, 3")):
    print(f"{title:9}", inferred("Helper", size))

# %% [markdown]
# Fixed sizes are passed on. A named dimension is lost, and there is no warning. A dimension with no name becomes the **size -1**,
# and an operator that is correct in every run is refused:

# %%
ADD = {"last": "z = Add(y, b)", "other": ", float[5, 3] b"}
with raises(Fail, "Incompatible dimensions"):
    inferred("Helper", "?, 3", **ADD)

# %% [markdown]
# The double kernel no longer loads either. `SetOutputShape` also sets a type, float by default, and overwrites the type that ONNX
# Runtime had found. Here `y` becomes float, and `z` after it does not match:

# %%
with raises(
    Fail, "Type (tensor(double)) of output arg (z) of node () does not match expected type"
):
    inferred("Helper", "2, 3", kind="double")

# %% [markdown]
# Here are the reasons (ONNX Runtime 1.31.1, headers 1.21):
#
# | what you see | because |
# |---|---|
# | names are lost | the helper writes -2 as the size of a symbolic dimension; the runtime refuses it, and the status is ignored |
# | size -1 | -1 without a name is taken as a size; the dimension stays unknown only if it has a name that no other dimension has |
# | float | the default of `SetOutputShape`'s third argument; passing `T` does not help: only the **first** kernel with a name is asked |
# | a scalar looks unknown | both have no dimensions |
# | an error is not reported | a status returned here is ignored: `Compute` has to check anyway |
# | a crash before ONNX Runtime 1.24 | an input has the name "": the runtime itself dereferences a null pointer (not shown here) |
#
# The fix calls the C API that the helper uses, with size -1 **and** the name, and with the type of the input. An unknown
# dimension gets a name that no other dimension has, so the rank is kept. `oplab::Shapes` in the course's header does this; a
# kernel has a static `InferShapes`.

# %%
quote(
    "sizes.push_back(dim.name.empty() ? dim.size : -1);",
    "texts.push_back(dim.is_known() ? dim.name : fresh_name());",
)

# %%
lab.source("13_shapes.cpp", "struct NamedCopy")


# %%
def shown(shape):
    """Fresh names differ in each session, so they are not printed."""
    return ["a fresh name" if str(size).startswith("unknown_") else size for size in shape]


for kind in ("float", "double"):
    print(kind, [shown(inferred("Named", size, kind)) for size in ("2, 3", "n, 3", "?, 3")])
print("Add after it:", shown(inferred("Named", "?, 3", **ADD)))

# %% [markdown]
# A size that follows from an attribute is known, too: `shapes.int_attribute` reads it. `Windows` of section 7 does so; its number of
# windows depends on `x`, so it is not known where `n` is a name.

# %%
windowed = session(window_model("size = 3"), libraries=[windows]).get_outputs()[0].shape
print(shown(windowed))

# %% [markdown]
# `InferShapes` sees shapes, not values. A size that depends on data (`NonZero`) stays unknown, but the rank of the output can
# be known.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: In place, and what aliasing breaks
#
# May `y` have the memory of `x`? The table of an operator has two entries for it: `GetMayInplace` *permits* it for pairs of an input and
# an output, and `GetAliasMap` *declares* that they are the same memory. The kernel is registered four times: `Plain` sets neither
# entry. It computes y[i] = x[i] + x[i-1], and its second output is whether both addresses are equal.

# %%
lab.source("13_inplace.cpp", "struct PairsKernel")

# %%
lab.source("13_inplace.cpp", "struct Forwards")

# %%
lab.source("13_inplace.cpp", "size_t pair(int** input, int** output)")

# %%
lab.source("13_inplace.cpp", "struct MayWrong")

# %%
inplace = compile_library(lab.cpp("13_inplace.cpp"), "ort")
PLACES = {
    "x is a graph input": "p, shared = lesson.{op}(x)  z = Neg(p)",
    "y is a graph output": "a = Neg(x)  z, shared = lesson.{op}(a)",
    "x is read again": "a = Neg(x)  p, shared = lesson.{op}(a)  z = Add(p, a)",
    "between two nodes": "a = Neg(x)  p, shared = lesson.{op}(a)  z = Neg(p)",
}
pairs = np.float32([1, 3, 5, 7])
EXPECTED = dict(zip(PLACES, (-pairs, -pairs, -pairs - [1, 2, 3, 4], pairs), strict=True))


def try_places(op, sizes="<float[4] a, float[4] p>"):
    head = '<ir_version: 10, opset_import: ["": 20, "lesson": 1]>'
    ends = "(float[4] x) => (float[4] z, bool[1] shared)"
    for place, nodes in PLACES.items():
        text = f"{head} g {ends} {sizes} {{ {nodes.format(op=op)} }}"
        mine = np.float32([1, 2, 3, 4])
        z, shared = run(inplace, onnx.parser.parse_model(text), {"x": mine})
        right = "right" if np.array_equal(z, EXPECTED[place]) else f"WRONG {z.tolist()}"
        memory = "shared" if shared[0] else "apart "
        changed = "" if mine.tolist() == [1, 2, 3, 4] else f"  the caller has {mine.tolist()}"
        print(f"{op:9} {place:19} {memory} {right}{changed}")


for op in ("Plain", "MayWrong", "MayRight"):
    try_places(op)

# %% [markdown]
# Without an entry nothing is shared, so a kernel may write `y` before it has read all of `x`. With `GetMayInplace`, ONNX Runtime
# decides for each node: here only where `x` is an intermediate value that no other node needs, and `y` is not an output of the
# model. Then `Forwards` reads what it has just written. Such a kernel passes the test of a model with one node, and fails inside a
# network. `MayRight` goes through the elements from the end. The decision also needs both sizes before the run: without them, the
# wrong kernel is right.

# %%
try_places("MayWrong", sizes="")

# %% [markdown]
# `GetAliasMap` is for operators such as Reshape, which write nothing. ONNX Runtime shares the memory wherever it can and does not ask
# who else reads it. If the kernel writes, it changes the values of other nodes, and the caller's array:

# %%
try_places("Alias")

# %% [markdown]
# So leave both entries empty, as `oplab::Op` does. Permit in-place only for a kernel that reads each element for the last time
# before it writes there, on every thread, and test it between two nodes.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: ONNX Runtime's own MatMul from your kernel
#
# A kernel can call the operators that ONNX Runtime has. `Ort::Op::Create` finds the kernel by its name, domain, version and types, in
# your constructor, and `Invoke` calls it in `Compute`. Inputs and outputs are `OrtValue`s. The product below is an intermediate result:
# `CreateTensor` makes a value of scratch memory, without a copy.

# %%
lab.source("13_matmul.cpp", "struct Scores")

# %%
matmul = compile_library(lab.cpp("13_matmul.cpp"), "ort")
SCORES = "float[n, d] x, float[d, m] w", "float[n, m] y"
random = np.random.default_rng(13)
matrices = {name: random.normal(size=(200, 200)).astype(np.float32) for name in "xw"}
mine = run(matmul, model(*SCORES, "y = lesson.Scores(x, w)"), matrices)[0]
nodes = run(matmul, model(*SCORES, "p = MatMul(x, w)  y = Mul(p, p)"), matrices)[0]
print("the same as the nodes MatMul and Mul:", np.allclose(mine, nodes, rtol=1e-5, atol=1e-5))
print("right:", np.allclose(mine, (matrices["x"] @ matrices["w"]) ** 2, rtol=1e-3, atol=1e-2))
with raises(InvalidArgument, "Scores: x is [200, 200] and w is [3, 3]."):
    wrong = matrices | {"w": np.ones((3, 3), np.float32)}
    run(matmul, model(*SCORES, "y = lesson.Scores(x, w)"), wrong)

# %% [markdown]
# A name that ONNX Runtime does not know is an error when the session is created, and so is a missing attribute: here *every* attribute is
# required, also one with a default in ONNX's specification. `Create` gets attributes as `Ort::OpAttr`. The file has the same kernel
# with the name `MatMull`, and with `Gemm` without its attributes:

# %%
for op, words in {"Misspelt": "Kernel not found", "WithoutAttributes": '"transA"'}.items():
    with raises((RuntimeException, Fail), words):
        session(model(*SCORES, f"y = lesson.{op}(x, w)"), libraries=[matmul])

# %% [markdown]
# `Invoke` does not check what ONNX Runtime usually checks when it loads a model: the number of inputs, and whether your output has the
# shape of the result. An operator whose result is larger writes beyond its end. So compute the shape first, and never take the
# operator's name from the model. And ONNX Runtime does not promise the same bits for each number of threads (section 5).

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Several threads on one session
#
# `session.run` may be called from several threads at once, and servers do so. All calls use **one** kernel for each node. `WithMember`
# keeps a buffer in the kernel, to save an allocation. It even locks each access, so there is no data race. `WithLocal` has the buffer in
# `Compute`.

# %%
lab.source("13_members.cpp", "struct Twice")

# %% [markdown]
# A test that starts two threads would find the mistake only now and then. Therefore the calls *meet*: each one fills the buffer, and
# then waits until another call has done the same.

# %%
lab.source("13_members.cpp", "struct Meeting")

# %%
from concurrent.futures import ThreadPoolExecutor

members = compile_library(lab.cpp("13_members.cpp"), "ort")
for op in ("WithMember", "WithLocal"):
    shared = session(
        model("float[n] x", "float[n] y", f"y = lesson.{op}(x)"), libraries=[members]
    )
    with ThreadPoolExecutor(2) as pool:
        ones, tens = (
            pool.submit(shared.run, None, {"x": np.float32([v] * 3)}) for v in (1, 10)
        )
    right = [ones.result()[0].tolist() == [2] * 3, tens.result()[0].tolist() == [20] * 3]
    print(f"{op:11} right results: {sum(right)} of 2")

# %% [markdown]
# One of the two callers gets the other's result, without an error. The lock protects each access, but not the time between them. A lock
# around all of `Compute` would be right, and the calls would wait for each other.
#
# | a member | is right |
# |---|---|
# | what the constructor computes: attributes, prepared weights, an `Ort::Op` | yes, if `Compute` only reads it |
# | a counter | if it is atomic, and no result depends on it |
# | a buffer, an iterator, a random generator, "the last shape" | no: a variable of `Compute`, or `Scratch` |
#
# `static` variables are worse: all kernels of all sessions share them. For an exercise, the grader runs your kernel from several
# threads too.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: CPU or CUDA
#
# Older kernels choose with the preprocessor, inside Compute:
#
# ```
# #ifdef USE_CUDA
#   cuda_add(size, out, X, Y, stream);  // stream: a member, from the constructor
# #else
#   for (int64_t i = 0; i < size; i++) out[i] = X[i] + Y[i];
# #endif
# ```
#
# Such a library contains one of the two branches. Today the *operator* declares where it runs, with `GetExecutionProviderType`,
# and two operators with the same name can be registered together: ONNX Runtime assigns a node to the provider that the session
# has. The stream comes from the context and not from the constructor. The rest is the same as before: null checks, dtypes by
# index, a status.

# %%
lab.source("13_twice.cpp", "struct TwiceKernel")

# %%
lab.source("13_twice.cpp", "struct OnCuda")

# %% [markdown]
# The operator for the CPU runs. An operator for a provider that the session does not have is not used as a
# fallback: the node has no implementation.

# %%
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented

twice = compile_library(lab.cpp("13_twice.cpp"), "ort")
print(run(twice, model("float[n] x", "float[n] y", "y = lesson.Twice(x)"), feeds)[0].tolist())
with raises(NotImplemented, "Could not find an implementation for TwiceOnCuda(1)"):
    on_cuda = model("float[n] x", "float[n] y", "y = lesson.TwiceOnCuda(x)")
    session(on_cuda, libraries=[twice])

# %% [markdown]
# The same file is also a CUDA source. If `nvcc` is found, the next cell compiles it with the headers that you have;
# `ORT_API_MANUAL_INIT` is explained in chapter 12, *CMake*. Running it
# requires a GPU and the package `onnxruntime-gpu`; nothing here runs it. Each nvcc supports only certain versions of g++. If the
# compilation fails, the cell shows nvcc's first error.

# %%
import shutil

from oplab.toolchain.headers import ort_include

library = lab.build / "twice_cuda.so"
library.unlink(missing_ok=True)
nvcc, result = shutil.which("nvcc"), "not compiled: no nvcc on the PATH"
if nvcc:
    flags = ["-x", "cu", "-std=c++17", "-DORT_API_MANUAL_INIT", f"-I{ort_include()}", "-shared"]
    command = [nvcc, *flags, "-Xcompiler", "-fPIC", lab.cpp("13_twice.cpp"), "-o", library]
    done = subprocess.run(command, capture_output=True, text=True)
    result = "compiled by nvcc"
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        result = f"nvcc failed: {errors[0] if errors else done.returncode}"
print("⏱ Twice for CUDA:", result)

# %% [markdown]
# | an operator for | compiled by | x and y are on | in this notebook |
# |---|---|---|---|
# | CPUExecutionProvider | any compiler | the host | compiled, and it ran |
# | CUDAExecutionProvider | nvcc | the device | compiled if there is an nvcc; needs a GPU to run |
#
# Besides the launch, there is one difference: inputs and outputs are on the device. If the *host* has to read a size, an offset
# or another value from an input, `GetInputMemoryType(index)` has to return `OrtMemTypeCPUInput` for that input. `KNNQuery` would need
# this for its offsets.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: The whole path: from PyTorch to a kernel
#
# This operator is from the point-cloud networks of chapter 08. It has inputs of two dtypes, outputs of two dtypes, and two optional
# inputs:
#
# ```
# KNNQuery(xyz float[n,3], offset int64[b], new_xyz?, new_offset?; nsample)
#     -> idx int32[m,nsample], dist float[m,nsample]
# ```
#
# A plugin node such as `DynamicTRTResize` or `KNNQuery` is exported without a definition, and older courses end there: the file
# exists, but nothing can run it. Now the node has a kernel. First, the model, which calls `torch.ops.oplab.knn_query`.

# %%
import os

os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # a node of unknown shapes; see chapter 08
import torch

from oplab import ops, quiet_exports

quiet_exports()
ops.load()


class Neighbours(torch.nn.Module):
    def forward(self, xyz, offset, new_xyz=None, new_offset=None):
        return torch.ops.oplab.knn_query(4, xyz, offset, new_xyz, new_offset)


generator = torch.Generator().manual_seed(13)
xyz, new_xyz = torch.rand(60, 3, generator=generator), torch.rand(25, 3, generator=generator)
offset, new_offset = torch.tensor([40, 60]), torch.tensor([10, 25])
names = ["xyz", "offset", "new_xyz", "new_offset"]

# %% [markdown]
# *(TorchScript path.)* A symbolic function, as in chapter 06: a None of the graph becomes the empty name automatically,
# `outputs=2` creates two outputs, and `nsample_i` makes nsample an attribute.

# %%
import io

from torch.onnx import register_custom_op_symbolic
from torch.onnx.symbolic_helper import parse_args


@parse_args("i", "v", "v", "v", "v")
def to_knn(g, nsample, xyz, offset, new_xyz, new_offset):
    return g.op(
        "oplab::KNNQuery", xyz, offset, new_xyz, new_offset, nsample_i=nsample, outputs=2
    )


register_custom_op_symbolic("oplab::knn_query", to_knn, 9)


def export(inputs):
    buffer, given = io.BytesIO(), names[: len(inputs)]
    axes = {name: {0: "batches" if "offset" in name else f"points of {name}"} for name in given}
    options = {"input_names": given, "output_names": ["idx", "dist"], "dynamic_axes": axes}
    torch.onnx.export(Neighbours(), inputs, buffer, dynamo=False, opset_version=17, **options)
    return onnx.load_model_from_string(buffer.getvalue())


# %% [markdown]
# *(dynamo path.)* A translation, as in chapter 10. Its return annotation declares two outputs; without the annotation the export
# fails.

# %%
from onnxscript import FLOAT, INT32, INT64, script
from onnxscript.values import Opset

oplab_1 = Opset("oplab", 1)


@script(oplab_1)
def knn_translation(
    nsample: int,
    xyz: FLOAT[...],
    offset: INT64[...],
    new_xyz: FLOAT[...] = None,
    new_offset: INT64[...] = None,
) -> tuple[INT32[...], FLOAT[...]]:
    idx, dist = oplab_1.KNNQuery(xyz, offset, new_xyz, new_offset, nsample=nsample)
    return idx, dist


def dynamo(inputs):
    table = {torch.ops.oplab.knn_query.default: knn_translation}
    options = {"dynamo": True, "verbose": False, "custom_translation_table": table}
    return torch.onnx.export(Neighbours(), inputs, **options).model_proto


# %%
# multiples of 1/256: squared distances are exact, so both sides break ties alike
lattice = [torch.randint(256, (count, 3), generator=generator) / 256 for count in (60, 25)]
fresh = {"xyz": lattice[0], "offset": torch.tensor([35, 60])}
fresh |= {"new_xyz": lattice[1], "new_offset": torch.tensor([5, 25])}
models = {}
for label, exporter in (("TorchScript path", export), ("dynamo path", dynamo)):
    for inputs in ((xyz, offset), (xyz, offset, new_xyz, new_offset)):
        models[label] = made = exporter(inputs)
        given = {name: fresh[name] for name in names[: len(inputs)]}
        idx, dist = torch.ops.oplab.knn_query(4, *given.values())
        arrays = {name: value.numpy() for name, value in given.items()}
        got = session(made).run(None, arrays)
        same = np.array_equal(got[0], idx.numpy()) and np.allclose(
            got[1], dist.numpy(), atol=1e-6
        )
        print(f"{label:17} {[*made.graph.node[-1].input]}  equal: {same}")
print(got[0].dtype, got[1].dtype)
lab.show(models["TorchScript path"])

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Neighbours in batches
#
# The last exercise is the operator of the section above. It has everything at once: four inputs of two dtypes, two of them
# optional, two outputs,
# an attribute without a default, and offsets that come from the model and may be wrong. A batch is a part of `xyz`: with the
# offsets `[40, 60]`, the points 0 to 39 are the first batch and 40 to 59 the second. An offset that is too large would be an index
# beyond the end, so check all of them before you use one.

# %%
with raises(InvalidArgument, "offset"):
    wrong = {name: value.numpy() for name, value in fresh.items()} | {
        "offset": np.array([35, 61])
    }
    session(models["TorchScript path"]).run(None, wrong)

# %% [markdown]
# **`knn_query`** — `lab::KNNQuery` with `oplab::Op`.
# The stub: [exercises/csrc/c13_knn_query.cpp](../exercises/csrc/c13_knn_query.cpp#line=50)

# %%
lab.check("knn_query")

# %% [markdown]
# ## Five questions

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - Chapter 14: the same kernels, fast.
# - `csrc/ort_ops/knn_query.cpp` and `grid.cpp`: the course's own kernels, for float and double, with all checks; `csrc/common`
#   has the code that they share with the PyTorch operators.
# - `docs/operators.md`: what each kernel guarantees, and the findings about optional inputs and shapes with their reasons.
# - `onnxruntime_lite_custom_op.h` in your headers: look for `has_value`, and see where the header checks the count but does not
#   check for null.
#
# Previous: [12: ONNX Runtime kernels](12_ort_kernels.ipynb)
# · Next: [14: Fast kernels](14_fast_kernels.ipynb)
# · [Glossary](../docs/glossary.md)
