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
#   allows, and with any number of inputs;
# - distribute its rows over ONNX Runtime's threads, and prove that the result has the same bits for every number of threads;
# - tell ONNX Runtime the shapes of your outputs before the model runs, including the names of their dimensions.
#
# Chapter 12 ended with kernels that have two required inputs of one dtype, and run on one thread. The operators that you need in
# practice are more complex. This one is from the point-cloud networks of chapter 08:
#
# ```
# KNNQuery(xyz float[n,3], offset int64[b], new_xyz?, new_offset?; nsample) -> idx int32[m,nsample], dist float[m,nsample]
# ```
#
# It has inputs of two dtypes, outputs of two dtypes, and two optional inputs. Section 9 runs it, from PyTorch to its kernel.

# %%
import os

os.environ["TORCH_CPP_LOG_LEVEL"] = (
    "ERROR"  # section 9 exports a node whose shapes are unknown; chapter 08 answers the warning
)
import subprocess
import sys
import time

import matplotlib.pyplot as plt
import numpy as np
import onnx
import torch
from onnx import helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph, NotImplemented

from oplab import lesson, ops, paths, quiet_exports, raises, session
from oplab.figures import drawings
from oplab.toolchain.build import compile_exercise

lab = lesson("13_real_kernels")
quiet_exports()

# %% [markdown]
# ### What each section uses
#
# The C++ code of this chapter is in Python strings; `compiled` builds a library from it. The entry point and `ComputeV2` are
# `noexcept`, and catch every exception. The parts that chapter 12 explained are written once, here: the entry point, the domain
# `lesson`, and `CreateKernelV2`. A kernel of this chapter is a `compute` function that may throw. For a user's mistake it throws
# an `Ort::Exception` with the code `ORT_INVALID_ARGUMENT`; ONNX Runtime's own exceptions keep their code, and all other
# exceptions become `ORT_RUNTIME_EXCEPTION`.

# %%
HEAD = r"""
#include <onnxruntime_cxx_api.h>
#include <algorithm>
#include <cmath>
#include <exception>
#include <new>
#include <stdexcept>
#include <vector>
using Type = ONNXTensorElementDataType;
constexpr Type FLOAT = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, DOUBLE = ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE;
constexpr Type INT32 = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, INT64 = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;

template <typename Kernel>
struct Guarded : Kernel {
  OrtStatusPtr ComputeV2(OrtKernelContext* context) noexcept {
    try {
      Kernel::compute(Ort::KernelContext(context));
      return nullptr;
    } catch (const Ort::Exception& error) {
      return Ort::GetApi().CreateStatus(error.GetOrtErrorCode(), error.what());
    } catch (const std::exception& error) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, error.what());
    } catch (...) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, "an unknown C++ exception in a kernel");
    }
  }
};

template <typename Op, typename Kernel>
struct Base : Ort::CustomOpBase<Op, Guarded<Kernel>, true> {
  OrtStatusPtr CreateKernelV2(const OrtApi& api, const OrtKernelInfo*, void** kernel) const noexcept {
    *kernel = new (std::nothrow) Guarded<Kernel>;
    return *kernel ? nullptr : api.CreateStatus(ORT_FAIL, "no memory for a kernel");
  }
};
"""

# %%
ENTRY = r"""
extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (!api) return base->GetApi(1)->CreateStatus(ORT_FAIL, "this ONNX Runtime is older than the library's headers");
  Ort::InitApi(api);
  try {
    %s
    static const Ort::CustomOpDomain domain = [] {
      Ort::CustomOpDomain made{"lesson"};
      %s
      return made;
    }();
    return api->AddCustomOpDomain(options, domain);
  } catch (const std::exception& error) {
    return api->CreateStatus(ORT_FAIL, error.what());
  } catch (...) {
    return api->CreateStatus(ORT_FAIL, "an unknown C++ exception while kernels were registered");
  }
}
"""


def compiled(name, *parts, operators):
    """A custom-op library; `operators` are the C++ types of which it registers one object each."""
    made = "\n  ".join(f"static const {kind} op{i};" for i, kind in enumerate(operators))
    added = "\n    ".join(f"made.Add(&op{i});" for i in range(len(operators)))
    source = lab.build / f"{name}.cpp"
    source.write_text("".join(parts) + ENTRY % (made, added))
    return compile_exercise(source, "ort")


# %% [markdown]
# Models are built by hand with `onnx.helper`, so no exporter is involved until section 9. In a node's list of
# inputs, ONNX uses `""` for "not given".


# %%
def model_of(op, inputs, outputs, dtypes=None, shapes=None, behind=()):
    """One node of the domain `lesson`. Dtypes are float32 and shapes [name] where nothing else is said; None: no shape at all."""

    def info(name):
        kind = helper.np_dtype_to_tensor_dtype(np.dtype((dtypes or {}).get(name, "float32")))
        return helper.make_tensor_value_info(name, kind, (shapes or {}).get(name, [f"size of {name}"]))

    node = helper.make_node(op, inputs, outputs, name=op, domain="lesson")
    last = behind[-1].output if behind else outputs
    more = [name for entry in behind for name in entry.input if name not in outputs]
    given = [info(name) for name in dict.fromkeys([*inputs, *more]) if name]
    graph = helper.make_graph([node, *behind], op, given, [info(name) for name in last if name])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("lesson", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def run(library, model, feeds):
    names = [value.name for value in model.graph.input]
    return session(model, libraries=[library]).run(None, {name: feeds[name] for name in names})


# %% [markdown]
# ## 1. The failure
#
# The running example is small. `Pick(x, at, scale?)` reads the elements of `x` at the indices `at`, and multiplies them by
# `scale`. An index outside `x` gives 0, and a second output counts these indices.
#
# | | x | at | scale? | y | outside |
# |---|---|---|---|---|---|
# | dtype | float | int64 | float[1] | float | int32[1] |
#
# The first version has no `scale`. There is nothing new in its kernel.

# %%
KERNEL = r"""
struct PickKernel {
  static void compute(const Ort::KernelContext& context) {
    const Ort::ConstValue x = context.GetInput(0), at = context.GetInput(1);
    const int64_t size = x.GetTensorTypeAndShapeInfo().GetElementCount();
    const auto info = at.GetTensorTypeAndShapeInfo();
    const float* from = x.GetTensorData<float>();
    const int64_t* places = at.GetTensorData<int64_t>();
    float* y = context.GetOutput(0, info.GetShape()).GetTensorMutableData<float>();
    const float scale = scale_of(context);
    const size_t length = info.GetElementCount();
    int32_t count = 0;
    for (size_t i = 0; i < length; ++i) {
      const bool inside = places[i] >= 0 && places[i] < size;
      y[i] = inside ? scale * from[places[i]] : 0;
      count += !inside;
    }
    *context.GetOutput(1, {1}).GetTensorMutableData<int32_t>() = count;
  }
  static float scale_of(const Ort::KernelContext& context) { %s }
};
"""

# %% [markdown]
# The operator declares the number of its inputs and their dtypes. This one returns the same dtype for every index, as the classic
# example does.

# %%
OPERATOR = r"""
struct PickOp : Base<PickOp, PickKernel> {
  const char* GetName() const { return "Pick"; }
  size_t GetInputTypeCount() const { return %d; }
  size_t GetOutputTypeCount() const { return 2; }
  %s
};
"""
ONE_TYPE = "Type GetInputType(size_t) const { return FLOAT; } Type GetOutputType(size_t) const { return FLOAT; }"
one_type = compiled("one_type", HEAD, KERNEL % "return 1;", OPERATOR % (2, ONE_TYPE), operators=["PickOp"])

# %%
feeds = {"x": np.array([10, 20, 30], np.float32), "at": np.array([2, 0, 7]), "scale": np.array([0.5], np.float32)}
dtypes = {"at": "int64", "outside": "int32"}
with raises(InvalidGraph, "Type 'tensor(int64)' of input parameter (at) of operator (Pick)"):
    session(model_of("Pick", ["x", "at"], ["y", "outside"], dtypes), libraries=[one_type])

# %% [markdown]
# The kernel reads int64, but ONNX Runtime asks the operator, not the kernel, and refuses the model before anything runs.
#
# ## 2. Several dtypes: ask by index
#
# ONNX Runtime calls `GetInputType` and `GetOutputType` once for each index. Return the dtype of that index.

# %%
BY_INDEX = r"""
  Type GetInputType(size_t index) const { return index == 1 ? INT64 : FLOAT; }
  Type GetOutputType(size_t index) const { return index == 1 ? INT32 : FLOAT; }
"""
two_inputs = compiled("by_index", HEAD, KERNEL % "return 1;", OPERATOR % (2, BY_INDEX), operators=["PickOp"])
y, outside = run(two_inputs, model_of("Pick", ["x", "at"], ["y", "outside"], dtypes), feeds)
print("y", y.tolist(), y.dtype, "  outside", outside.tolist(), outside.dtype)

# %% [markdown]
# `at` may have any shape, because the loop ends at the number of elements. If it ended at `shape[0]`, half of the first output
# below would never be written. For a scalar, `shape[0]` does not exist, and reading it is undefined behaviour.

# %%
any_shape = model_of("Pick", ["x", "at"], ["y", "outside"], dtypes, {"at": None, "y": None})
for places in ([[2, 0], [7, 1]], 1):
    print(run(two_inputs, any_shape, feeds | {"at": np.array(places)})[0].tolist())

# %% [markdown]
# This operator accepts one list of dtypes. To support double as well, register a **second operator object with the same name**,
# usually from a template. ONNX Runtime selects the operator that fits. Here is the smallest example: it copies its input.

# %%
COPY = r"""
template <typename T>
struct CopyKernel {
  static void compute(const Ort::KernelContext& context) {
    const Ort::ConstValue x = context.GetInput(0);
    const auto info = x.GetTensorTypeAndShapeInfo();
    T* y = context.GetOutput(0, info.GetShape()).template GetTensorMutableData<T>();
    std::copy_n(x.GetTensorData<T>(), info.GetElementCount(), y);
  }
};
template <typename T>
struct CopyOp : Base<CopyOp<T>, CopyKernel<T>> {
  const char* GetName() const { return "Copy"; }
  size_t GetInputTypeCount() const { return 1; }
  size_t GetOutputTypeCount() const { return 1; }
  Type GetInputType(size_t) const { return Ort::TypeToTensorType<T>::type; }
  Type GetOutputType(size_t) const { return Ort::TypeToTensorType<T>::type; }
  %s
};
"""

# %%
both = ["CopyOp<float>", "CopyOp<double>"]
copy = compiled("copy", HEAD, COPY % "", operators=both)
for dtype in ("float32", "float64"):
    model = model_of("Copy", ["x"], ["y"], {"x": dtype, "y": dtype})
    print(run(copy, model, {"x": np.arange(3, dtype=dtype)})[0].dtype)
with raises(InvalidGraph, "Type 'tensor(float16)' of input parameter (x)"):
    session(model_of("Copy", ["x"], ["y"], {"x": "float16", "y": "float16"}), libraries=[copy])

# %% [markdown]
# ## 3. Optional inputs
#
# Now add `scale`, input 2, which a model may leave out. ONNX has two ways to do this: a shorter list of inputs, or the empty
# name. By default every input is required, and ONNX Runtime refuses both.

# %%
REQUIRED = "return *context.GetInput(2).GetTensorData<float>();"
required = compiled("required", HEAD, KERNEL % REQUIRED, OPERATOR % (3, BY_INDEX), operators=["PickOp"])
ways = {"given": ["x", "at", "scale"], "left out": ["x", "at"], 'named ""': ["x", "at", ""]}


def pick(way):
    return model_of("Pick", ways[way], ["y", "outside"], dtypes)


print("given:", run(required, pick("given"), feeds)[0].tolist())
with raises(InvalidGraph, "has input size 2 not in range [min=3, max=3]"):
    session(pick("left out"), libraries=[required])
with raises(InvalidGraph, "input 2 is marked single but has an empty string in the graph"):
    session(pick('named ""'), libraries=[required])

# %% [markdown]
# `GetInputCharacteristic` declares which inputs are optional, by index. Now both models load.

# %%
OPTIONAL = r"""
  OrtCustomOpInputOutputCharacteristic GetInputCharacteristic(size_t index) const {
    return index == 2 ? INPUT_OUTPUT_OPTIONAL : INPUT_OUTPUT_REQUIRED;
  }
"""
naive = compiled("naive", HEAD, KERNEL % REQUIRED, OPERATOR % (3, BY_INDEX + OPTIONAL), operators=["PickOp"])
for way in ways:
    session(pick(way), libraries=[naive])
print("all three load")

# %% [markdown]
# Older tutorials stop here. The kernel still reads input 2, and gets null. The next cells run each model **in its own process**,
# because two of the runs do not return.

# %%
APART = """
import sys, numpy as np, oplab
library, model, feeds = sys.argv[1:]
run = oplab.session(model, libraries=[library])
given = dict(np.load(feeds))
print([out.tolist() for out in run.run(None, {value.name: given[value.name] for value in run.get_inputs()})])
"""


def apart(library, model, feeds=feeds):
    """What another process prints, or the signal that ended it."""
    onnx.save(model, lab.build / "apart.onnx")
    np.savez(lab.build / "apart.npz", **feeds)
    command = [sys.executable, "-c", APART, str(library), "apart.onnx", "apart.npz"]
    done = subprocess.run(command, cwd=lab.build, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else f"ended by signal {-done.returncode}"


# %%
for way in ways:
    print(f"{way:9}", apart(naive, pick(way)))
assert apart(naive, pick("left out")) == apart(naive, pick('named ""')) == "ended by signal 11"

# %% [markdown]
# Signal 11 is a segmentation fault. `GetInput` returned a null value, and `GetTensorData` dereferenced it.
#
# ### What a kernel can ask
#
# A kernel can ask two questions: how many inputs are there, and is this input null? `Ask` has two required and two optional
# inputs, and reports both answers.

# %%
ASK = r"""
struct AskKernel {
  static void compute(const Ort::KernelContext& context) {
    int64_t* seen = context.GetOutput(0, {3}).GetTensorMutableData<int64_t>();
    seen[0] = context.GetInputCount();
    for (size_t index : {2, 3}) seen[index - 1] = context.GetInput(index) != nullptr;
  }
};
struct AskOp : Base<AskOp, AskKernel> {
  const char* GetName() const { return "Ask"; }
  size_t GetInputTypeCount() const { return 4; }
  size_t GetOutputTypeCount() const { return 1; }
  Type GetInputType(size_t) const { return FLOAT; }
  Type GetOutputType(size_t) const { return INT64; }
  OrtCustomOpInputOutputCharacteristic GetInputCharacteristic(size_t index) const {
    return index < 2 ? INPUT_OUTPUT_REQUIRED : INPUT_OUTPUT_OPTIONAL;
  }
};
"""

# %%
ask = compiled("ask", HEAD, ASK, operators=["AskOp"])
wirings = [["a", "b", "c", "d"], ["a", "b", "c"], ["a", "b", "c", ""], ["a", "b", "", "d"], ["a", "b", "", ""]]
wirings += [["a", "b", ""], ["a", "b"]]
one = np.ones(1, np.float32)
seen = {}
for wiring in wirings:
    model = model_of("Ask", wiring, ["seen"], {"seen": "int64"})
    seen[tuple(wiring)] = run(ask, model, dict.fromkeys("abcd", one))[0].tolist()
    print(f"{wiring!s:22} GetInputCount() {seen[tuple(wiring)][0]}   GetInput(2), (3): {seen[tuple(wiring)][1:]}")

# %% [markdown]
# The count is the length of the list, including empty names. So `index < GetInputCount()` means "the list has an entry at this
# index", and not "this input is given". The red cells show where the count alone is wrong: a kernel that relies on it crashes.


# %%
def table(rows, heads, widths, bad):
    """A table as a figure: `rows` of texts, red where `bad` has the (row, column)."""
    figure, axes = plt.subplots(figsize=(sum(widths), 0.36 * (len(rows) + 1)), layout="constrained")
    edges = np.concatenate([[0], np.cumsum(widths)])
    for i, row in enumerate([heads, *rows]):
        for k, text in enumerate(row):
            colour = "#f3d3d5" if (i - 1, k) in bad else "#eef1f3" if i == 0 else "white"
            axes.add_patch(plt.Rectangle((edges[k], -i - 1), widths[k], 1, fc=colour, ec="#c9d2da"))
            style = {"weight": "bold"} if i == 0 else {"family": "monospace"} if k == 0 else {}
            axes.text(edges[k] + 0.1, -i - 0.5, text, va="center", color=drawings.INK, fontsize=10, **style)
    axes.set(xlim=(-0.02, edges[-1] + 0.02), ylim=(-len(rows) - 1.05, 0.05))
    axes.axis("off")


rows, bad = [], set()
for number, (wiring, (count, *there)) in enumerate(seen.items()):
    row = ["[" + ", ".join(f'"{name}"' for name in wiring) + "]"]
    for index, is_there in ((2, there[0]), (3, there[1])):
        row += ["given" if is_there else "absent", "given" if index < count else "absent"]
        bad |= {(number, len(row) - 1)} if row[-1] != row[-2] else set()
    rows.append(row)
heads = ["the node's inputs", "input 2", "the count says", "input 3", "the count says"]
table(rows, heads, [2.3, 1.1, 1.5, 1.1, 1.5], bad)

# %% [markdown]
# ### The fix
#
# Check whether the value is null. With ONNX Runtime 1.31, `GetInput` also returns null beyond the end of the list, so this one
# check covers both ways. The header promises null for an optional input that is left out; it does not mention an index beyond the
# end of the list. So the course's own kernels check the count as well: it costs nothing.

# %%
ASKED = r"""
    if (context.GetInputCount() <= 2 || context.GetInput(2) == nullptr) return 1;
    if (context.GetInput(2).GetTensorTypeAndShapeInfo().GetElementCount() != 1) {
      throw Ort::Exception("Pick: scale must have one value.", ORT_INVALID_ARGUMENT);
    }
    return *context.GetInput(2).GetTensorData<float>();
"""
fixed = compiled("fixed", HEAD, KERNEL % ASKED, OPERATOR % (3, BY_INDEX + OPTIONAL), operators=["PickOp"])
for way in ways:
    print(f"{way:9}", apart(fixed, pick(way)))
assert run(fixed, pick('named ""'), feeds)[0].tolist() == [30, 10, 0]
with raises(InvalidArgument, "Pick: scale must have one value."):
    run(fixed, pick("given"), feeds | {"scale": np.ones(0, np.float32)})

# %% [markdown]
# ### The lite API checks only the count
#
# In the lite API of chapter 12 an optional input is a `std::optional<const Tensor<T>*>`. This is shorter, but it is wrong exactly
# where the table has red cells: with ONNX Runtime 1.31.1 and headers 1.21, an input named `""` ends the process. Even a
# *required* input with this name does, because the lite API declares every input optional, so the model is accepted.

# %%
LITE = r"""
#include <onnxruntime_lite_custom_op.h>
#include <optional>
using Ort::Custom::Tensor;

struct LiteKernel {
  LiteKernel(const OrtApi*, const OrtKernelInfo*) {}
  void Compute(const Tensor<float>& a, std::optional<const Tensor<float>*> b, std::optional<const Tensor<float>*> c,
               Tensor<int64_t>& given) {
    int64_t* out = given.Allocate({2});
    out[0] = b.has_value();
    out[1] = c.has_value();
  }
};
struct LiteOp : Ort::Custom::OrtLiteCustomStruct<LiteKernel> {
  LiteOp() : OrtLiteCustomStruct("Lite", "CPUExecutionProvider") {}
};
"""
lite = compiled("lite", LITE, operators=["LiteOp"])
for wiring in (["a", "b", "c"], ["a"], ["a", "", "c"], ["", "b"]):
    ended = apart(lite, model_of("Lite", wiring, ["given"], {"given": "int64"}), dict.fromkeys("abc", one))
    print(f"{wiring!s:22}", ended)
    assert ("signal 11" in ended) == ("" in wiring)

# %% [markdown]
# That is why the course has its own header, `csrc/ort_ops/oplab_kernel.h`. You may include it in your exercises. It takes the
# same parameters as the lite API, and asks both questions. `quote` prints lines of the header, and fails if they are no longer in
# it.

# %%
header = (paths.root() / "csrc/ort_ops/oplab_kernel.h").read_text()


def quote(*lines):
    for line in lines:
        assert line in header, line
        print(line)


quote("if (index < inputs.GetInputCount() && inputs.GetInput(index)) tensor.emplace(context, index, true);")

# %% [markdown]
# ## 4. Several outputs
#
# `Pick` already has two outputs, but not every model needs both. An output can also be left out or named `""`. By default it is
# required.

# %%
with raises(InvalidGraph, "has output size 1 not in range [min=2, max=2]"):
    session(model_of("Pick", ["x", "at"], ["y"], dtypes), libraries=[fixed])

# %% [markdown]
# If an output is declared optional, it may be absent, and then `GetOutput` returns null. Check before you write.

# %%
OPTIONAL_OUTPUT = r"""
  OrtCustomOpInputOutputCharacteristic GetOutputCharacteristic(size_t index) const {
    return index == 1 ? INPUT_OUTPUT_OPTIONAL : INPUT_OUTPUT_REQUIRED;
  }
"""
ASKS_FIRST = (KERNEL % ASKED).replace(
    "*context.GetOutput(1, {1}).GetTensorMutableData<int32_t>() = count;",
    """Ort::UnownedValue second = context.GetOutput(1, {1});
    if (second != nullptr) *second.GetTensorMutableData<int32_t>() = count;""",
)
methods = BY_INDEX + OPTIONAL + OPTIONAL_OUTPUT
outputs = compiled("outputs", HEAD, ASKS_FIRST, OPERATOR % (3, methods), operators=["PickOp"])
for wanted in (["y", "outside"], ["y"], ["y", ""]):
    print(wanted, [out.tolist() for out in run(outputs, model_of("Pick", ["x", "at"], wanted, dtypes), feeds)])

# %% [markdown]
# ## 5. Any number of inputs
#
# A *variadic* operator takes a list of inputs: `Concat`, `Sum`, `Max`. Declare the last input variadic, together with the minimum
# number of inputs and whether they all have one dtype (`Homogeneity`).

# %%
COUNT = r"""
struct CountKernel {
  static void compute(const Ort::KernelContext& context) {
    *context.GetOutput(0, {1}).GetTensorMutableData<float>() = context.GetInputCount();
  }
};
struct CountOp : Base<CountOp, CountKernel> {
  const char* GetName() const { return "Count"; }
  size_t GetInputTypeCount() const { return 1; }
  size_t GetOutputTypeCount() const { return 1; }
  Type GetInputType(size_t) const { return FLOAT; }
  Type GetOutputType(size_t) const { return FLOAT; }
  OrtCustomOpInputOutputCharacteristic GetInputCharacteristic(size_t) const { return INPUT_OUTPUT_VARIADIC; }
  int GetVariadicInputMinArity() const { return 2; }
  bool GetVariadicInputHomogeneity() const { return true; }
};
"""
count = compiled("count", HEAD, COUNT, operators=["CountOp"])

# %%
for names in ("ab", "abcd"):
    print(len(names), "inputs:", run(count, model_of("Count", [*names], ["y"]), dict.fromkeys("abcd", one))[0].tolist())
with raises(InvalidGraph, "has input size 1 not in range [min=2"):
    session(model_of("Count", ["a"], ["y"]), libraries=[count])
with raises(InvalidGraph, "Type 'tensor(int64)' of input parameter (b)"):
    session(model_of("Count", ["a", "b"], ["y"], {"b": "int64"}), libraries=[count])

# %% [markdown]
# In the course's header this is one parameter, `const Tensors<T>&`, for one or more inputs. `oplab::VarSum` uses it
# (`var_sum.cpp`); here it is compared with ONNX's own `Sum`.

# %%
terms = np.random.default_rng(13).normal(size=(5, 1000)).astype(np.float32)
names = [f"x{i}" for i in range(5)]
own = model_of("VarSum", names, ["y"])
own.graph.node[0].domain, own.opset_import[1].domain = "oplab", "oplab"
theirs = model_of("Sum", names, ["y"])
theirs.graph.node[0].domain = ""
sums = [session(model).run(None, dict(zip(names, terms, strict=True)))[0] for model in (own, theirs)]
print("VarSum equals Sum:", np.allclose(*sums, rtol=0, atol=1e-5))

# %% [markdown]
# ## 6. Rows on several threads
#
# ONNX Runtime has a thread pool, and a kernel may use it: `ParallelFor(fn, total, batches, data)` calls `fn(data, index)` for
# each index from 0 to total - 1, on any thread, in any order, and returns when all calls are done. Do not start your own threads:
# they would compete with the pool for the same cores, and ignore `intra_op_num_threads`.
#
# The example compares each row of an image with the row above it, `y[r] = exp(-(x[r] - x[r-1])²)`; row 0 is compared with itself.
# The second output, also named `total`, is the sum of y, a single double.

# %%
ROWS = r"""
struct Rows {
  const float* x;
  float* y;
  double *total, *sums;
  int64_t height, width;
};

%s

struct AlikeKernel {
  static void compute(const Ort::KernelContext& context) {
    const std::vector<int64_t> shape = context.GetInput(0).GetTensorTypeAndShapeInfo().GetShape();
    if (shape.size() != 2) throw Ort::Exception("Alike: x must have two dimensions.", ORT_INVALID_ARGUMENT);
    double* total = context.GetOutput(1, {1}).GetTensorMutableData<double>();
    float* y = context.GetOutput(0, shape).GetTensorMutableData<float>();
    std::vector<double> sums(shape[0]);
    Rows rows{context.GetInput(0).GetTensorData<float>(), y, total, sums.data(), shape[0], shape[1]};
    *total = 0;
    context.ParallelFor(one_row, shape[0], 0, &rows);
    for (double sum : sums) *total += sum;
  }
};
struct AlikeOp : Base<AlikeOp, AlikeKernel> {
  const char* GetName() const { return "Alike"; }
  size_t GetInputTypeCount() const { return 1; }
  size_t GetOutputTypeCount() const { return 2; }
  Type GetInputType(size_t) const { return FLOAT; }
  Type GetOutputType(size_t index) const { return index == 1 ? DOUBLE : FLOAT; }
};
"""

# %% [markdown]
# Here is a first attempt at `one_row`. It looks right: it clamps "the row above" to the image, and adds each element to the
# total.

# %%
FIRST_TRY = r"""
void one_row(void* data, size_t row) {
  Rows& rows = *static_cast<Rows*>(data);
  const size_t above = std::min<size_t>(row - 1, rows.height - 1);
  for (int64_t i = 0; i < rows.width; ++i) {
    const float gap = rows.x[row * rows.width + i] - rows.x[above * rows.width + i];
    rows.y[row * rows.width + i] = std::exp(-gap * gap);
    *rows.total += rows.y[row * rows.width + i];
  }
}
"""
first_try = compiled("first_try", HEAD, ROWS % FIRST_TRY, operators=["AlikeOp"])
alike_model = model_of("Alike", ["x"], ["y", "total"], {"total": "float64"}, {"x": ["h", "w"], "y": ["h", "w"]})


def alike(x):
    x = x.astype(np.float64)
    return np.exp(-((x - np.concatenate([x[:1], x[:-1]])) ** 2))


# %%
image = np.random.default_rng(6).normal(size=(5, 3)).astype(np.float32)
y, total = session(alike_model, threads=1, libraries=[first_try]).run(None, {"x": image})
print("rows that are right:", [bool(np.allclose(*pair, atol=1e-6)) for pair in zip(y, alike(image), strict=True)])
print("row 0 as if the row above were the last:", np.allclose(y[0], np.exp(-((image[0] - image[-1]) ** 2)), atol=1e-6))

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
# nothing.
#
# So do not rely on chance. The result of a correct kernel **must not depend on the order** in which its rows are called. The
# course has a scheduler that runs ParallelFor's pieces in an order that it chooses, one after the other, on one thread: no race
# can happen, so a result that still differs depends on the order. (The scheduler passes ONNX Runtime's function table to the
# library with one entry replaced.)

# %%
from oplab.checks.schedules import ORDERS, ScheduledSession


def totals(library, x):
    """The kernel's total for each order in which its rows are called."""
    run = ScheduledSession(alike_model.SerializeToString(), library, lab.fresh("scheduled"))
    shapes = {"y": (x.shape, "float32"), "total": ((1,), "float64")}
    return {label: run.run({"x": x}, shapes, order)["total"][0] for label, order in ORDERS.items()}


tall = np.random.default_rng(7).normal(size=(2000, 8)).astype(np.float32)
found = totals(first_try, tall)
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
FIXED_ROW = r"""
void one_row(void* data, size_t index) {
  const Rows& rows = *static_cast<Rows*>(data);
  const int64_t row = static_cast<int64_t>(index);
  const int64_t above = std::max<int64_t>(row - 1, 0);
  double sum = 0;
  for (int64_t i = 0; i < rows.width; ++i) {
    const float gap = rows.x[row * rows.width + i] - rows.x[above * rows.width + i];
    rows.y[row * rows.width + i] = std::exp(-gap * gap);
    sum += rows.y[row * rows.width + i];
  }
  rows.sums[row] = sum;
}
"""
fixed_rows = compiled("fixed_rows", HEAD, ROWS % FIXED_ROW, operators=["AlikeOp"])

# %% [markdown]
# To prove it, compare the values with NumPy. Then check for the same bits in every order, and on one, two and four of ONNX
# Runtime's own threads.

# %%
serial = session(alike_model, threads=1, libraries=[fixed_rows]).run(None, {"x": tall})
print("values:", np.allclose(serial[0], alike(tall), atol=1e-6), np.allclose(serial[1], alike(tall).sum()))
print("orders:", len(set(totals(fixed_rows, tall).values())) == 1)
for threads in (2, 4):
    parallel = session(alike_model, threads=threads, libraries=[fixed_rows])
    same = [all(map(np.array_equal, parallel.run(None, {"x": tall}), serial)) for _ in range(50)]
    print(f"{threads} threads, 50 runs: the same bits in all of them: {all(same)}")

# %% [markdown]
# ### One buffer, two rows
#
# No order reveals memory that rows **share** while they run: when rows run one after the other, each row reads the value that it
# wrote itself. So the grader also compiles `parallel` with ThreadSanitizer's instrumentation, which reports each memory access.
# It then lets two threads take turns running the rows, and compares the addresses. Here `gap` is static, so all rows share it:

# %%
from oplab.checks.schedules import SHARES, WatchedSession


def shared_memory(name, row):
    """Two rows that use the same memory, with at least one write; None if there are none."""
    compiled(name, HEAD, ROWS % row, operators=["AlikeOp"])
    library = compile_exercise(lab.build / f"{name}.cpp", "ort", sanitize="pieces")
    watched = WatchedSession(alike_model.SerializeToString(), library, lab.fresh("watched"))
    return watched.watch({"x": tall}, {"y": (tall.shape, "float32"), "total": ((1,), "float64")}, SHARES["in turns"])


static_gap = FIXED_ROW.replace("const float gap =", "static float gap;\n    gap =")
print(
    "orders:",
    len(set(totals(compiled("static_gap", HEAD, ROWS % static_gap, operators=["AlikeOp"]), tall).values())) == 1,
)
for name, row in {"static_gap": static_gap, "first_try": FIRST_TRY, "fixed_rows": FIXED_ROW}.items():
    print(f"{name:11}", shared_memory(name, row))

# %% [markdown]
# Every order gives the same total for `static_gap`; only the addresses reveal the race. A local variable fixes it.
#
# How much faster is the kernel with more threads? Each point is the fastest of 25 interleaved runs, relative to one thread.
# Beyond the number of cores there is nothing to gain. The curve was measured on the machine that executed this notebook, and
# other programs on that machine distort it. The title reports how many programs needed a core when the measurement began: if this
# is more than the number of cores, the curve shows those programs and not the kernel. Run the cell on an idle machine.

# %%
large = np.random.default_rng(8).normal(size=(4096, 1024)).astype(np.float32)
sessions = {threads: session(alike_model, threads=threads, libraries=[fixed_rows]) for threads in (1, 2, 3, 4)}
times = {threads: [] for threads in sessions}
busy = os.getloadavg()[0]
for _ in range(25):
    for threads, each in sessions.items():
        start = time.perf_counter()
        each.run(None, {"x": large})
        times[threads].append(time.perf_counter() - start)
speedup = {threads: min(times[1]) / min(taken) for threads, taken in times.items()}

# %%
cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
figure, axes = plt.subplots(figsize=(6.6, 3.4), layout="constrained")
axes.plot([1, 4], [1, 4], ":", color=drawings.FAINT)
style = {"rotation": 45, "rotation_mode": "anchor", "transform_rotates_text": True, "va": "bottom", "ha": "center"}
axes.text(3.4, 3.5, "twice the threads, twice as fast", color=drawings.FAINT, **style)
axes.axvline(cores, color=drawings.ORANGE, lw=1.4, ls="--")
axes.text(cores + 0.04, 0.25, f"{cores} cores here", color=drawings.ORANGE)
axes.plot(*zip(*speedup.items(), strict=True), "o-", color=drawings.VIOLET, lw=2)
axes.set(xlabel="intra_op_num_threads", ylabel="speed-up", xticks=[1, 2, 3, 4], ylim=(0, 4.2))
axes.set_title(f"4096 rows of 1024 values, measured at a load of {busy:.1f}", fontsize=11)
axes.spines[["top", "right"]].set_visible(False)

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
# specified (chapter 12, section 13). Record the error in a variable that belongs to the row, and refuse after ParallelFor. This
# also applies to memory: a `std::vector` may throw. (`oplab::parallel_for` catches the exception, and rethrows it after
# ParallelFor.)
#
# ## 7. Shapes before anything runs
#
# A session knows the output shapes of ONNX's own operators before it runs, including symbolic ones such as `["n", 3]`. It does
# not know the output shape of a custom node, and all shapes that depend on it are unknown too.


# %%
def inferred(library, size, dtype="float32", behind="Identity", other=None):
    """What the session says about the output of Copy followed by another node; its shape is not declared."""
    more = [helper.make_node(behind, ["y"] + (["b"] if other else []), ["z"])]
    kinds, shapes = dict.fromkeys("xbyz", dtype), {"x": size, "b": other, "z": None}
    out = session(model_of("Copy", ["x"], ["y"], kinds, shapes, more), libraries=[library]).get_outputs()[0]
    return out.shape


print("Copy without inference:", inferred(copy, [2, 3]), inferred(copy, ["n", 3]))

# %% [markdown]
# `[]` means "not known". An operator may have a static `InferOutputShape`. With the API of chapter 12 it is one line.

# %%
INFER = r"""
  static Ort::Status InferOutputShape(Ort::ShapeInferContext& context) {
    return context.SetOutputShape(0, context.GetInputShape(0));
  }
"""
infers = compiled("infers", HEAD, COPY % INFER, operators=both)
print(
    "fixed:",
    inferred(infers, [2, 3]),
    "  symbolic:",
    inferred(infers, ["n", 3]),
    "  no name:",
    inferred(infers, [None, 3]),
)

# %% [markdown]
# Fixed sizes are passed on. A named dimension is lost, and there is no warning. A dimension with no name becomes the **size -1**,
# and an operator that is correct in every run is refused:

# %%
with raises(Fail, "Incompatible dimensions"):
    inferred(infers, [None, 3], behind="Add", other=[5, 3])

# %% [markdown]
# The double kernel no longer loads either. `SetOutputShape` also sets a type, float by default, and overwrites the type that ONNX
# Runtime had found. Here `y` becomes float, and `z` after it does not match:

# %%
with raises(Fail, "Type (tensor(double)) of output arg (z) of node () does not match expected type (tensor(float))"):
    inferred(infers, [2, 3], dtype="float64")

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
SHAPES = r"""
#include "oplab_kernel.h"

template <typename T>
struct Copy {
  Copy(const OrtApi*, const OrtKernelInfo*) {}
  Ort::Status Compute(const oplab::Tensor<T>& x, oplab::Tensor<T>& y) {
    std::copy_n(x.Data(), x.NumberOfElement(), y.Allocate(x.Shape()));
    return Ort::Status{nullptr};
  }
  static void InferShapes(oplab::Shapes& shapes) { shapes.set(0, shapes.type(0), shapes.dims(0)); }
};
template <typename T>
struct CopyOp : oplab::Op<Copy<T>> {
  CopyOp() : oplab::Op<Copy<T>>("Copy") {}
};
"""
names_kept = compiled("names_kept", SHAPES, operators=both)


def shown(shape):
    """Fresh names differ in each session, so they are not printed."""
    return ["a fresh name" if str(size).startswith("unknown_") else size for size in shape]


for dtype in ("float32", "float64"):
    print(dtype, [shown(inferred(names_kept, size, dtype)) for size in ([2, 3], ["n", 3], [None, 3])])
print("Add after it:", shown(inferred(names_kept, [None, 3], behind="Add", other=[5, 3])))

# %% [markdown]
# ## 8. CPU or CUDA
#
# Older kernels choose with the preprocessor, inside Compute:
#
# ```
# #ifdef USE_CUDA
#   cuda_add(size, out, X, Y, compute_stream_ == nullptr ? 0 : reinterpret_cast<cudaStream_t>(compute_stream_));
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
SCALE = r"""
#ifdef __CUDACC__
#include <cuda_runtime.h>
__global__ void twice(const float* x, float* y, int64_t size) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < size) y[i] = 2 * x[i];
}
#endif

struct TwiceKernel {
  static void compute(const Ort::KernelContext& context) {
    const Ort::ConstValue in = context.GetInput(0);
    const auto info = in.GetTensorTypeAndShapeInfo();
    const int64_t size = info.GetElementCount();
    const float* x = in.GetTensorData<float>();
    float* y = context.GetOutput(0, info.GetShape()).GetTensorMutableData<float>();
#ifdef __CUDACC__  // x and y are addresses on the device: only a kernel there may read them
    if (size == 0) return;  // a grid of no blocks is an error
    const auto blocks = static_cast<unsigned>((size + 255) / 256);
    twice<<<blocks, 256, 0, static_cast<cudaStream_t>(context.GetGPUComputeStream())>>>(x, y, size);
    const cudaError_t error = cudaGetLastError();  // of the launch; the work itself goes on
    if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
#else
    for (int64_t i = 0; i < size; ++i) y[i] = 2 * x[i];
#endif
  }
};
struct TwiceOp : Base<TwiceOp, TwiceKernel> {
  const char* GetName() const { return "Twice"; }
  const char* GetExecutionProviderType() const { return PROVIDER; }
  size_t GetInputTypeCount() const { return 1; }
  size_t GetOutputTypeCount() const { return 1; }
  Type GetInputType(size_t) const { return FLOAT; }
  Type GetOutputType(size_t) const { return FLOAT; }
};
"""

# %% [markdown]
# The operator that is compiled for the CPU runs. An operator for a provider that the session does not have is not used as a
# fallback: the node has no implementation.

# %%
cpu, gpu = ('#define PROVIDER "' + name + 'ExecutionProvider"\n' for name in ("CPU", "CUDA"))
on_cpu = compiled("twice_cpu", cpu, HEAD, SCALE, operators=["TwiceOp"])
print(run(on_cpu, model_of("Twice", ["x"], ["y"]), feeds)[0].tolist())
for_cuda = compiled("twice_cuda", gpu, HEAD, SCALE, operators=["TwiceOp"])
with raises(NotImplemented, "Could not find an implementation for Twice(1)"):
    session(model_of("Twice", ["x"], ["y"]), libraries=[for_cuda])

# %% [markdown]
# The same text is also a CUDA source. If `nvcc` is found, the next cell compiles it with the headers that you have, and the
# figure reports this. Running it requires a GPU and the package `onnxruntime-gpu`; nothing here runs it.

# %%
import shutil

from oplab.toolchain.headers import ort_include

source, library = lab.build / "twice.cu", lab.build / "twice_cuda.so"
source.write_text((lab.build / "twice_cuda.cpp").read_text())
library.unlink(missing_ok=True)
nvcc = shutil.which("nvcc")
if nvcc:
    flags = ["-std=c++17", "-DORT_API_MANUAL_INIT", f"-I{ort_include()}", "-shared", "-Xcompiler", "-fPIC"]
    done = subprocess.run(
        [nvcc, *flags, source.name, "-o", library.name], cwd=lab.build, capture_output=True, text=True
    )
    assert done.returncode == 0 and library.is_file(), done.stderr

# %%
state = "compiled here by nvcc" if nvcc else "no nvcc here: not compiled"
rows = [
    ["CPUExecutionProvider", "any compiler", "the host", "compiled here, and it ran"],
    ["CUDAExecutionProvider", "nvcc", "the device", f"{state}; needs a GPU to run"],
]
table(rows, ["an operator for", "compiled by", "x and y lie on", "Twice"], [2.3, 1.3, 1.3, 4.2], set())

# %% [markdown]
# Besides the launch, there is one difference: inputs and outputs are on the device. If the *host* has to read a size, an offset
# or an attribute tensor, `GetInputMemoryType(index)` has to return `OrtMemTypeCPUInput` for that input. `KNNQuery` would need
# this for its offsets.
#
# ## 9. The whole path: from PyTorch to a kernel
#
# A plugin node such as `DynamicTRTResize` or `KNNQuery` is exported without a definition, and older courses end there: the file
# exists, but nothing can run it. Now the node has a kernel. First, the model, which calls `torch.ops.oplab.knn_query`.

# %%
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
    return g.op("oplab::KNNQuery", xyz, offset, new_xyz, new_offset, nsample_i=nsample, outputs=2)


register_custom_op_symbolic("oplab::knn_query", to_knn, 9)


def export(inputs):
    buffer, given = io.BytesIO(), names[: len(inputs)]
    axes = {name: {0: "batches" if "offset" in name else f"points of {name}"} for name in given}
    options = {"input_names": given, "output_names": ["idx", "dist"], "dynamic_axes": axes, "opset_version": 17}
    torch.onnx.export(Neighbours(), inputs, buffer, dynamo=False, **options)
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
    nsample: int, xyz: FLOAT[...], offset: INT64[...], new_xyz: FLOAT[...] = None, new_offset: INT64[...] = None
) -> tuple[INT32[...], FLOAT[...]]:
    idx, dist = oplab_1.KNNQuery(xyz, offset, new_xyz, new_offset, nsample=nsample)
    return idx, dist


def dynamo(inputs):
    table = {torch.ops.oplab.knn_query.default: knn_translation}
    program = torch.onnx.export(Neighbours(), inputs, dynamo=True, verbose=False, custom_translation_table=table)
    return program.model_proto


# %%
# multiples of 1/256: squared distances are exact, so both sides break ties alike
lattice = [torch.randint(256, (count, 3), generator=generator) / 256 for count in (60, 25)]
fresh = {"xyz": lattice[0], "offset": torch.tensor([35, 60])}
fresh |= {"new_xyz": lattice[1], "new_offset": torch.tensor([5, 25])}
models = {}
for label, exporter in (("TorchScript path", export), ("dynamo path", dynamo)):
    for inputs in ((xyz, offset), (xyz, offset, new_xyz, new_offset)):
        models[label] = model = exporter(inputs)
        given = {name: fresh[name] for name in names[: len(inputs)]}
        expected = torch.ops.oplab.knn_query(4, *given.values())
        got = session(model).run(None, {name: value.numpy() for name, value in given.items()})
        same = np.array_equal(got[0], expected[0].numpy()) and np.allclose(got[1], expected[1].numpy(), atol=1e-6)
        print(f"{label:17} {[*model.graph.node[-1].input]}  {got[0].dtype}, {got[1].dtype}  equal: {same}")
lab.show(models["TorchScript path"])

# %% [markdown]
# ## 10. The header on one page
#
# By now you have seen every part of `oplab_kernel.h`. `oplab::Op<Kernel>` reads the parameters of `Compute` and answers ONNX
# Runtime's questions from them:
#
# | parameter of `Compute` | what `Op` answers | section |
# |---|---|---|
# | `const Tensor<T>& x` | a required input of dtype T | 2 |
# | `std::optional<const Tensor<T>*> x` | an optional input; `has_value()` is false if the node leaves it out, in either way | 3 |
# | `const Tensors<T>& x` | variadic, one or more | 5 |
# | `Tensor<T>& y` | a required output of dtype T: `y.Allocate(shape)` allocates its memory | 4 |
# | `OrtKernelContext* context` | for `parallel_for` | 6 |
#
# | also in the header | |
# |---|---|
# | `int_attribute(info, "nsample")`, `float_attribute(info, "alpha", 3.0f)` | for constructors; no session if a required one is missing |
# | `refuse("n is ", n, ".")`, `return invalid("Pick: …")` | a status with a message; `Op` catches exceptions that are thrown at any depth |
# | `parallel_for(context, size, piece, work)` | 6 |
# | `static void InferShapes(Shapes& shapes)` | 7 |
# | `add_domain(options, base, [] { … return domain; })` | all of `RegisterCustomOps`: function table, `InitApi`, `try`, static domain |
#
# Here is the complete `Pick`:

# %%
WHOLE = r"""
#include "oplab_kernel.h"
using oplab::Tensor;

struct Pick {
  Pick(const OrtApi*, const OrtKernelInfo*) {}

  Ort::Status Compute(const Tensor<float>& x, const Tensor<int64_t>& at, std::optional<const Tensor<float>*> scale,
                      Tensor<float>& y, Tensor<int32_t>& outside) {
    if (scale && (*scale)->NumberOfElement() != 1) oplab::refuse("scale must have one value.");
    const float factor = scale ? *(*scale)->Data() : 1;
    const float* from = x.Data();
    const int64_t* places = at.Data();
    const int64_t size = x.NumberOfElement(), length = at.NumberOfElement();
    float* to = y.Allocate(at.Shape());
    int32_t* count = outside.Allocate({1});
    *count = 0;
    for (int64_t i = 0; i < length; ++i) {
      const bool inside = places[i] >= 0 && places[i] < size;
      to[i] = inside ? factor * from[places[i]] : 0;
      *count += !inside;
    }
    return Ort::Status{nullptr};
  }
};
struct PickOp : oplab::Op<Pick> {
  PickOp() : Op("Pick") {}
};
"""
whole = compiled("whole", WHOLE, operators=["PickOp"])
for way in ways:
    print(f"{way:9}", [out.tolist() for out in run(whole, pick(way), feeds)])
with raises(InvalidArgument, "Pick: scale must have one value."):
    run(whole, pick("given"), feeds | {"scale": np.ones(2, np.float32)})

# %% [markdown]
# ## 11. Limits
#
# - The check of orders finds results that depend on the order; the check of addresses finds memory that rows share. The second
#   check does not see accesses inside a library that your rows call, because that library is not instrumented.
# - "The same bits" holds on one machine. Another compiler or processor may fuse `a * b + c` into one rounding.
# - `InferShapes` sees shapes, not values. A size that depends on data (`NonZero`) stays unknown, but the rank of the output can
#   be known.
# - `Op` supports neither optional nor variadic outputs; section 4 shows how to write optional ones by hand.
# - The crashes were observed with ONNX Runtime 1.31.1 and headers 1.21. If one of these cells no longer fails, the runtime has
#   changed, and this chapter has to be updated.
#
# ## 12. Exercises
#
# Your files are `exercises/csrc/c13_grid.cpp`, `c13_knn_query.cpp` and `c13_parallel.cpp`. The comment at the top of each file
# describes what the operator computes. The files register the domain `lab`. If a kernel crashes, run it with `--sanitize`, for
# example `oplab check c13.grid --sanitize`, which finds the line.
#
# **`grid`** — `lab::Grid` by hand, on `Ort::CustomOpBase`: an int64 output, and two inputs that may be absent in each of the ways
# of section 3. An input without points is valid too.

# %%
lab.check("grid")

# %% [markdown]
# **`knn_query`** — `lab::KNNQuery` with `oplab::Op`: four inputs of two dtypes, two optional ones, two outputs, an attribute, and
# offsets from the model, which may be wrong.

# %%
lab.check("knn_query")

# %% [markdown]
# **`parallel`** — blur the rows of an image on ONNX Runtime's threads, and sum the result, with the same bits for any number of
# threads. The grader calls your rows in several orders, and monitors which memory they use.

# %%
lab.check("parallel")

# %% [markdown]
# ## What to read next
#
# - Chapter 14: the same kernels, fast.
# - `csrc/ort_ops/knn_query.cpp` and `grid.cpp`: the course's own kernels, for float and double, with all checks; `csrc/common`
#   has the code that they share with the PyTorch operators.
# - `docs/operators.md`: what each kernel guarantees, and the findings of sections 3 and 7 with their reasons.
# - `onnxruntime_lite_custom_op.h` in your headers: look for `has_value`, and see where the header checks the count but does not
#   check for null.
#
# Previous: [12: ONNX Runtime kernels](12_ort_kernels.ipynb)
# · Next: [14: Fast kernels](14_fast_kernels.ipynb)
# · [Glossary](../docs/glossary.md)
