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
# # 12 · ONNX Runtime kernels
#
# After this chapter you can
#
# - write an operator for ONNX Runtime in C++, from the first line to a session that runs it, in two styles;
# - give it attributes with defaults, a version, and error messages that name the cause, and keep its objects alive long
#   enough;
# - load it from Python and from a C++ program, and show that both give the same bits.
#
# No exporter is used here: the models are built by hand, as in chapter 01. Each one represents the model that the TorchScript
# path or the dynamo path writes for a custom operator (chapters 05, 06 and 10).

# %%
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager

import matplotlib.pyplot as plt
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, InvalidGraph, RuntimeException

from oplab import lesson, ops, paths, quiet_exports, raises, session
from oplab.toolchain.build import BuildFailed, compile_exercise, host_path, library_path

lab = lesson("12_ort_kernels")
quiet_exports()

# %% [markdown]
# Three helpers. `model` builds a model of one node in the domain `lesson`, `load` creates an ONNX Runtime session with
# libraries of kernels, and `run` passes the inputs in order and returns the first output.


# %%
def model(op, inputs=("a", "b"), domain="lesson", version=1, shape=None, **attributes):
    def value(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)  # None: any rank, any sizes

    node = helper.make_node(op, list(inputs), ["y"], domain=domain, **attributes)
    graph = helper.make_graph([node], op, [value(name) for name in inputs], [value("y")])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(domain, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


# %%
def load(model, *libraries):
    options = ort.SessionOptions()
    options.log_severity_level = 4  # what it logs, it raises too
    for library in libraries:
        options.register_custom_ops_library(str(library))
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(session, *arrays):
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, arrays, strict=True)))[0]


# %% [markdown]
# ## 1. The failure
#
# Here is a correct model. `MyAdd` is 3a + 2b, the operator that this course uses throughout.

# %%
vectors = model("MyAdd", shape=["n"])
onnx.checker.check_model(vectors, full_check=True)
with raises(Fail, "is not a registered function/op"):
    load(vectors)

# %% [markdown]
# The checker has no objection: it does not know the domain `lesson` and accepts the node. ONNX Runtime has to
# *compute* the node, and looks for a **kernel**: a function for this domain, this name, this version and these types.
# There is none. The `-1` in the message only means that no version was found. (The checker requires a shape for each input
# of a graph, so this model has one. ONNX Runtime does not need it. The next cell builds `my_add`, the same model without
# shapes, for the rest of the chapter.)
#
# In chapter 11, such kernels were written in Python. Now you write one that needs no Python.

# %%
my_add = model("MyAdd")

# %% [markdown]
# ## 2. What a custom-op library is
#
# A shared library (`.so`, on macOS `.dylib`) with **one** C function, which ONNX Runtime looks up by its name:
#
# ```cpp
# extern "C" OrtStatus* RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base);
# ```
#
# `extern "C"` keeps the name as it is written; otherwise C++ would add the argument types to it. The library does not link
# against ONNX Runtime. It gets access through the second argument: `base->GetApi(…)` returns a table of about 300 functions,
# `OrtApi`, and a kernel calls everything it needs through that table. So one library works in Python and in a C++ program,
# and the same source works on a phone.
#
# The header `onnxruntime_cxx_api.h` wraps the table in C++ classes. You do not link these classes either: they
# are compiled into your library.
#
# ### The naive attempt
#
# A function that computes 3a + 2b, compiled to a library. `compile_exercise` is the function that the grader uses for your
# files.


# %%
def build(name, *parts, **options):
    source = lab.build / f"{name}.cpp"
    source.write_text("\n".join(parts))
    return compile_exercise(source, "ort", **options)


@contextmanager
def refused(words):
    """As `raises`, for messages that name a file of this machine: prints from `words` on."""
    try:
        yield
    except Exception as error:
        assert words in str(error), error
        print(f"{type(error).__name__}: … {str(error)[str(error).index(words) :].splitlines()[0]}")
    else:
        raise AssertionError("nothing was raised")


# %%
naive = 'extern "C" float my_add(float a, float b) { return 3 * a + 2 * b; }\n'
with refused("ONNX Runtime calls RegisterCustomOps first"):
    build("naive", naive)

# %% [markdown]
# The course's build makes the linker require this symbol, so you see the error at once. Other builds do not. Then ONNX Runtime
# reports it when the library is registered. The same happens with a library of *PyTorch* operators (chapter 07), which
# people pass by mistake:

# %%
import torch  # noqa: F401  the library below needs PyTorch's own libraries in the process

with refused("undefined symbol: RegisterCustomOps"):
    load(my_add, library_path("torch"))

# %% [markdown]
# ## 3. MyAdd by hand
#
# The library has three parts, in the order in which you think of them. First the **kernel**: a struct with `ComputeV2`. It is
# created once for each node of a model, and called at each run. ONNX Runtime calls it through a C interface, so it returns a
# status (a null pointer means success) and must not throw (section 7).

# %%
kernel = r"""
#include <onnxruntime_cxx_api.h>
#include <exception>
#include <new>
#include <vector>

struct Kernel {
  OrtStatus* ComputeV2(OrtKernelContext* raw) noexcept {
    try {
      const Ort::KernelContext context{raw};            // this run: its inputs and outputs
      const Ort::ConstValue a = context.GetInput(0), b = context.GetInput(1);
      const Ort::TensorTypeAndShapeInfo info = a.GetTensorTypeAndShapeInfo();
      if (b.GetTensorTypeAndShapeInfo().GetShape() != info.GetShape()) {
        return Ort::GetApi().CreateStatus(ORT_INVALID_ARGUMENT, "MyAdd: a and b must have the same shape.");
      }
      Ort::UnownedValue y = context.GetOutput(0, info.GetShape());  // allocates: only now the shape is known

      const float* pa = a.GetTensorData<float>();       // calls into ONNX Runtime: outside of the loop
      const float* pb = b.GetTensorData<float>();
      float* py = y.GetTensorMutableData<float>();
      const size_t size = info.GetElementCount();
      for (size_t i = 0; i < size; ++i) py[i] = 3 * pa[i] + 2 * pb[i];
      return nullptr;
    } catch (const std::exception& error) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, error.what());
    }
  }
};
"""

# %% [markdown]
# Then the **op**: the properties that ONNX Runtime has to know before it creates a kernel. `Ort::CustomOpBase` turns these
# methods into the C struct `OrtCustomOp`, a table of function pointers. Its third template argument, `true`, selects the
# functions that return a status. The default execution provider is the CPU. With `std::nothrow`, `new` returns a null pointer
# when there is no memory; without it, `new` throws.

# %%
op = r"""
struct MyAdd : Ort::CustomOpBase<MyAdd, Kernel, true> {
  OrtStatus* CreateKernelV2(const OrtApi& api, const OrtKernelInfo*, void** made) const noexcept {
    *made = new (std::nothrow) Kernel;
    return *made ? nullptr : api.CreateStatus(ORT_FAIL, "no memory for a kernel");
  }
  const char* GetName() const { return "MyAdd"; }
  size_t GetInputTypeCount() const { return 2; }
  ONNXTensorElementDataType GetInputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
};
"""

# %% [markdown]
# Last the **entry point**. It puts the op into a domain and the domain into the options of a session. `InitApi` comes
# first: the C++ classes take their functions from the table that it stores. Both objects are `static`; section 8
# explains why. It is a C function, so no exception may leave it: `noexcept` and `try` (section 7).

# %%
entry = r"""
extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);    // null if this runtime is older than the headers
  if (!api) return base->GetApi(1)->CreateStatus(ORT_FAIL, "this ONNX Runtime is older than the library's headers");
  Ort::InitApi(api);
  try {
    static const MyAdd op;
    static const Ort::CustomOpDomain domain = [] {
      Ort::CustomOpDomain made{"lesson"};
      made.Add(&op);
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

# %%
library = build("by_hand", kernel, op, entry)
ready = load(my_add, library)
print(run(ready, np.float32([1, 2, 3]), np.float32([10, 20, 30])))

# %% [markdown]
# It runs. The proof uses shapes that are not declared anywhere: many dimensions, none, and no elements.

# %%
rng = np.random.default_rng(12)
for shape in ((4,), (2, 3, 5), (), (0, 7), (1, 100_000)):
    a, b = (np.asarray(rng.normal(size=shape), np.float32) for _ in range(2))
    y = run(ready, a, b)
    assert y.dtype == np.float32 and y.shape == shape and np.allclose(y, 3 * a + 2 * b, atol=1e-5)
    print(f"{str(shape):12} right")
lab.show(my_add)

# %% [markdown]
# ONNX Runtime checks the number of inputs and their types for you, against the declarations of the op.

# %%
with raises(InvalidGraph, "has input size 3 not in range [min=2, max=2]"):
    load(model("MyAdd", inputs=("a", "b", "c")), library)
doubles = model("MyAdd")
for value in (*doubles.graph.input, *doubles.graph.output):
    value.type.tensor_type.elem_type = TensorProto.DOUBLE
with raises(InvalidGraph, "Type 'tensor(double)' of input parameter (a)"):
    load(doubles, library)

# %% [markdown]
# It does not check that the shapes match, so the kernel does. Without that check, the kernel would read past the end of a
# shorter `b`, without an error.

# %%
with raises(InvalidArgument, "MyAdd: a and b must have the same shape."):
    run(ready, np.ones((2, 3), "f"), np.ones(3, "f"))

# %% [markdown]
# ## 4. The order of the calls
#
# The same library, but each step writes a line to a file. It runs in a separate process, so that you see the end too.

# %%
traced = r"""
#include <onnxruntime_cxx_api.h>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <vector>

static void say(const char* what) {
  std::FILE* file = std::fopen(std::getenv("OPLAB_TRACE"), "a");
  std::fprintf(file, "%s\n", what);
  std::fclose(file);
}
struct Kernel {
  Kernel() { say("kernel +"); }
  ~Kernel() { say("kernel -"); }
  OrtStatus* ComputeV2(OrtKernelContext* raw) noexcept {
    say("ComputeV2");
    try {
      *Ort::KernelContext{raw}.GetOutput(0, std::vector<int64_t>{}).GetTensorMutableData<float>() = 0;
      return nullptr;
    } catch (const std::exception& error) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, error.what());
    }
  }
};
struct MyAdd : Ort::CustomOpBase<MyAdd, Kernel, true> {
  MyAdd() { say("op +"); }
  ~MyAdd() { say("op -"); }
  OrtStatus* CreateKernelV2(const OrtApi& api, const OrtKernelInfo*, void** made) const noexcept {
    say("CreateKernelV2");
    *made = new (std::nothrow) Kernel;
    return *made ? nullptr : api.CreateStatus(ORT_FAIL, "no memory for a kernel");
  }
  const char* GetName() const { return say("GetName"), "MyAdd"; }
  size_t GetInputTypeCount() const { return 2; }
  ONNXTensorElementDataType GetInputType(size_t) const { return say("GetInputType"), ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
  size_t GetOutputTypeCount() const { return 1; }
  ONNXTensorElementDataType GetOutputType(size_t) const { return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT; }
};
"""
watched = entry.replace("const OrtApi* api", 'say("RegisterCustomOps");\n  const OrtApi* api')

# %%
program = """
import os, sys
import numpy as np, onnxruntime as ort

def say(what):
    with open(os.environ["OPLAB_TRACE"], "a") as file:
        file.write("> " + what + "\\n")

options = ort.SessionOptions()
say("register_custom_ops_library")
options.register_custom_ops_library(sys.argv[1])
say("InferenceSession")
session = ort.InferenceSession(sys.argv[2], options, providers=["CPUExecutionProvider"])
for _ in range(2):
    say("session.run")
    session.run(None, {"a": np.ones(3, "f"), "b": np.ones(3, "f")})
say("del options")
del options
say("del session")
del session
say("the program ends")
"""


# %%
def in_a_process(code, *arguments, **environment):
    """Run Python code in a process of its own, in this chapter's build folder."""
    environment = {**os.environ, **environment}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, cwd=lab.build, env=environment, capture_output=True, text=True, timeout=600)


onnx.save(my_add, lab.build / "my_add.onnx")
trace = lab.fresh("trace") / "steps.txt"
traced_library = build("traced", traced, watched)
done = in_a_process(program, traced_library, "my_add.onnx", OPLAB_TRACE=str(trace))
assert done.returncode == 0, done.stderr
lines = trace.read_text().split("\n")[:-1]
seen = set()
for line in lines:  # ONNX Runtime asks for names and types many times: once for each step of the program is enough
    if line.startswith("> "):
        seen = set()
    if line not in seen:
        print(line if line.startswith("> ") else f"      {line}")
    seen.add(line)

# %% [markdown]
# Lines with `>` come from the program, the other lines from the library. Look at the end: `op -` does not wait for the end of
# the program. The library is unloaded with the last session that uses it, and its static objects are destroyed with it.
#
# The picture shows the same order, from top to bottom; a bar is the lifetime of an object.

# %%
PROGRAM, RUNTIME, LIBRARY = 0.0, 3.6, 7.2
messages = [  # from, to, text
    (PROGRAM, RUNTIME, "register_custom_ops_library(file)"),
    (RUNTIME, LIBRARY, "load the library; RegisterCustomOps(options, base)"),
    (LIBRARY, RUNTIME, "AddCustomOpDomain(options, domain)"),
    (PROGRAM, RUNTIME, "InferenceSession(model, options)"),
    (RUNTIME, LIBRARY, "GetName, GetInputType, …"),
    (RUNTIME, LIBRARY, "CreateKernelV2(info), for each node"),
    (PROGRAM, RUNTIME, "session.run(…)"),
    (RUNTIME, LIBRARY, "KernelComputeV2(kernel, context)"),
    (LIBRARY, RUNTIME, "GetInput, GetOutput(shape)"),
    (PROGRAM, RUNTIME, "session.run(…)"),
    (RUNTIME, LIBRARY, "KernelComputeV2(kernel, context)"),
    (PROGRAM, RUNTIME, "the session is destroyed"),
    (RUNTIME, LIBRARY, "KernelDestroy(kernel)"),
    (RUNTIME, LIBRARY, "unload the library, with its statics"),
]
lives = [  # place, first and last row, text, colour
    (RUNTIME, 3, 12, "session", "#7a57a8"),
    (LIBRARY, 5, 12, "kernel", "#d9822b"),
    (LIBRARY + 0.42, 1, 13, "op and domain (static)", "#2e8b62"),
]

# %%
figure, axes = plt.subplots(figsize=(11, 6.4), layout="constrained")
phases = {"register": (-0.55, 2.4), "load": (2.4, 5.4), "run": (5.4, 10.4), "end": (10.4, 13.6)}
for number, (title, (first, last)) in enumerate(phases.items()):
    axes.axhspan(first, last, color="#f3f6f9" if number % 2 == 0 else "white", zorder=-1)
    axes.text(-1.75, (first + last) / 2, title, va="center", fontsize=11, color="#8a97a3")
for place, title in ((PROGRAM, "your program"), (RUNTIME, "ONNX Runtime"), (LIBRARY, "your library")):
    axes.plot([place, place], [-0.4, 13.6], color="#c9d2da", lw=1.2, zorder=0)
    axes.text(place, -0.75, title, ha="center", weight="bold", color="#22303c", fontsize=12)
for place, first, last, title, colour in lives:
    axes.plot([place, place], [first, last], color=colour, lw=8, alpha=0.75, solid_capstyle="butt", zorder=1)
    side, row = (-0.14, 7.6) if place == RUNTIME else (0.13, 8.5)
    at = "right" if place == RUNTIME else "left"
    axes.text(place + side, row, title, rotation=90, va="center", ha=at, color=colour, fontsize=10)
for row, (start, end, text) in enumerate(messages):
    gap = 0.09 if end > start else -0.09
    style = {"arrowstyle": "-|>,head_width=0.22,head_length=0.45", "color": "#22303c", "lw": 1.2}
    axes.annotate("", (end - gap, row), (start + gap, row), arrowprops=style)
    axes.text((start + end) / 2, row - 0.1, text, ha="center", va="bottom", fontsize=9.5, color="#22303c")
axes.set(xlim=(-1.85, 8.2), ylim=(13.7, -1.2))
axes.axis("off")

# %% [markdown]
# The picture was drawn by hand, so check it against the trace: the order of the steps must be the same.

# %%
order = [
    "RegisterCustomOps",
    "op +",
    "> InferenceSession",
    "GetName",
    "CreateKernelV2",
    "kernel +",
    "> session.run",
    "ComputeV2",
]
order += ["> del session", "kernel -", "op -", "> the program ends"]
places = [lines.index(step) for step in order]
assert places == sorted(places) and lines.count("ComputeV2") == 2 and lines.count("kernel +") == 1

# %% [markdown]
# ## 5. Attributes with defaults
#
# A kernel reads its attributes once, when it is created, from the `OrtKernelInfo`. It reads them with a C function that returns
# a status, and `CreateKernelV2` can return that status unchanged:

# %%
scale = r"""
#include <onnxruntime_cxx_api.h>
#include <exception>
#include <memory>
#include <new>

struct Kernel {
  OrtStatus* ComputeV2(OrtKernelContext* raw) noexcept {
    try {
      const Ort::KernelContext context{raw};
      const Ort::ConstValue x = context.GetInput(0);
      const auto info = x.GetTensorTypeAndShapeInfo();
      const float* px = x.GetTensorData<float>();
      float* py = context.GetOutput(0, info.GetShape()).GetTensorMutableData<float>();
      for (size_t i = 0, size = info.GetElementCount(); i < size; ++i) py[i] = factor * px[i];
      return nullptr;
    } catch (const std::exception& error) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, error.what());
    }
  }
  float factor = 1;
};
"""
create = """OrtStatus* CreateKernelV2(const OrtApi& api, const OrtKernelInfo* info, void** made) const noexcept {
    std::unique_ptr<Kernel> kernel{new (std::nothrow) Kernel};
    if (!kernel) return api.CreateStatus(ORT_FAIL, "no memory for a kernel");
    if (OrtStatus* failed = api.KernelInfoGetAttribute_float(info, "factor", &kernel->factor)) return failed;
    *made = kernel.release();
    return nullptr;
  }
"""
one_input = op.replace("MyAdd", "Scale").replace("return 2;", "return 1;")
scale_op = one_input.replace(op[op.index("OrtStatus*") : op.index("  const char*")], create)
scale_entry = entry.replace("MyAdd", "Scale")

# %%
strict = build("scale_strict", scale, scale_op, scale_entry)
x = np.float32([1, 2, 4])
print(run(load(model("Scale", ["x"], factor=2.5), strict), x))
with raises(RuntimeException, "No attribute with name:'factor'is defined"):
    load(model("Scale", ["x"]), strict)
with raises(RuntimeException, "Attribute name and type don't match"):
    load(model("Scale", ["x"], factor=2), strict)

# %% [markdown]
# The attribute is required, and its type is exact: `factor=2` is an INT in the model, and is rejected. ONNX has no place for a
# default of *your* operator, so the kernel has to define it. The obvious way is to interpret a failure as "missing":

# %%
lenient = scale_op.replace(
    'if (OrtStatus* failed = api.KernelInfoGetAttribute_float(info, "factor", &kernel->factor)) return failed;',
    """const Ort::Status missing{api.KernelInfoGetAttribute_float(info, "factor", &kernel->factor)};
    if (!missing.IsOK()) kernel->factor = 1;""",
)
default = build("scale_default", scale, lenient, scale_entry)
for attributes in ({"factor": 2.5}, {}, {"factor": 2}):
    print(f"{str(attributes):16} {run(load(model('Scale', ['x'], **attributes), default), x)}")

# %% [markdown]
# Look at the last line. The model has 2, but the kernel computes with 1: the status meant "of another type", and the kernel
# interpreted it as "missing". Both have the same error code. So a careful kernel queries the attribute again, with the other types,
# before it concludes that the attribute is missing. `float_attribute` in `csrc/ort_ops/oplab_kernel.h` does that; the exercises
# `my_add` and `errors` ask you to do the same. (For a wrong type, ONNX Runtime's message does not name the attribute. Yours
# should.)

# %%
mistyped = model("MyAdd", domain="oplab", alpha=2)
with raises(RuntimeException, "MyAdd: the attribute alpha must be a float"):
    load(mistyped, ops.ort_library())

# %% [markdown]
# ### Output shapes
#
# `GetOutput(0, shape)` decides the shape, at each run. Before the first run the session knows only what the model
# declares, and this model declares no shape:

# %%
print(
    "declared:",
    ready.get_outputs()[0].shape,
    "  computed:",
    run(ready, np.zeros((2, 3), "f"), np.zeros((2, 3), "f")).shape,
)

# %% [markdown]
# A shape that is hard-coded in the kernel is right for one shape of the inputs only, and there is no error: `GetOutput` does
# not check the shape that it gets.

# %%
written = kernel.replace("GetOutput(0, info.GetShape())", "GetOutput(0, {2, 3})")
fixed = build("fixed", written.replace("i < size", "i < size && i < 6"), op, entry)
print(run(load(my_add, fixed), np.ones(4, "f"), np.ones(4, "f")).shape, "for inputs of shape (4,)")

# %% [markdown]
# An op can also infer its output shape from its inputs *before* the model runs (`InferOutputShape`), so that the operators
# after it can be planned. That has its own traps: chapter 13.
#
# ## 6. Domains and versions
#
# A **domain** keeps your `MyAdd` apart from every other `MyAdd`. A session takes each domain from one library; two libraries
# with the same domain are rejected.

# %%
with raises(Exception, "Domain already set in registry"):
    load(my_add, library, default)

# %% [markdown]
# (`default` has another op, but the same domain `lesson`.)
#
# An operator also has a **version**, the first version of its domain in which it exists: `start_ver_`, a member of
# `CustomOpBase`. A model imports a version of each domain. If it imports an older version, there is no kernel.

# %%
from_2 = op.replace("  OrtStatus* Create", "  MyAdd() { start_ver_ = 2; }\n  OrtStatus* Create")
newer = build("from_2", kernel, from_2, entry)
one = np.float32([1])
with raises(Fail, "lesson:MyAdd(-1) is not a registered function/op"):
    load(my_add, newer)
for version in (2, 3):
    print(f"a model of version {version}: 1 and 1 give", run(load(model("MyAdd", version=version), newer), one, one))

# %% [markdown]
# The obvious next step does not work. Here are two ops with the same name: `Old` up to version 1, and `New`, 2a + b, from
# version 2 on.

# %%
two = (kernel + op).replace("struct MyAdd", "struct Old").replace("<MyAdd,", "<Old,")
two = two.replace("  OrtStatus* Create", "  Old() { end_ver_ = 1; }\n  OrtStatus* Create")
new = (
    (kernel + from_2).replace("Kernel", "NewKernel").replace("CreateNewKernel", "CreateKernel").replace("MyAdd", "New")
)
new = new.replace("OrtNewKernel", "OrtKernel").replace("Ort::NewKernel", "Ort::Kernel").replace('"New"', '"MyAdd"')
new = new.replace("3 * pa[i] + 2 * pb[i]", "2 * pa[i] + pb[i]")
both = entry.replace("static const MyAdd op;", "static const Old op;\n  static const New later;")
both = both.replace("made.Add(&op);", "made.Add(&op);\n    made.Add(&later);")
pair = build("two_versions", two, new, both)
for version in (1, 2, 3):
    print(f"a model of version {version}: 1 and 1 give", run(load(model("MyAdd", version=version), pair), one, one))

# %% [markdown]
# 3a + 2b gives 5, 2a + b gives 3. Version 2 runs the *old* kernel, without a warning: ONNX Runtime 1.31 creates one
# schema for all ops with the same name, with the version of the first op. So never change the meaning of an operator.
# Give the new operator a new name.

# %% [markdown]
# ## 7. Errors
#
# ONNX Runtime calls a kernel through C function pointers, and C has no exceptions: a function reports a failure with an
# `OrtStatus*`, a code with a message, and success with a null pointer. But the kernel is C++ code, and C++ code throws. So
# what happens to an exception that leaves a kernel? The attribute `how` of the next three kernels selects how they fail.

# %%
misbehaves = r"""
#include <onnxruntime_lite_custom_op.h>
#include <memory>
#include <stdexcept>

static OrtStatus* misbehave(int64_t how) {
  if (how == 1) throw std::runtime_error("MyAdd: wrong shape");
  if (how == 2) throw Ort::Exception("MyAdd: wrong shape", ORT_INVALID_ARGUMENT);
  if (how == 3) throw 42;
  return Ort::GetApi().CreateStatus(ORT_INVALID_ARGUMENT, "MyAdd: wrong shape");
}
static int64_t read(const OrtKernelInfo* info, const char* name) { return Ort::ConstKernelInfo{info}.GetAttribute<int64_t>(name); }

struct Plain {
  void Compute(OrtKernelContext*) { Ort::ThrowOnError(misbehave(how)); }
  int64_t how;
};
struct WithStatus {
  OrtStatus* ComputeV2(OrtKernelContext*) { return misbehave(how); }
  int64_t how;
};
struct Lite {
  Lite(const OrtApi*, const OrtKernelInfo* info) : how(read(info, "how")) {}
  Ort::Status Compute(const Ort::Custom::Tensor<float>&, Ort::Custom::Tensor<float>&) { return Ort::Status{misbehave(how)}; }
  int64_t how;
};
"""

# %% [markdown]
# Without the `true` for `CustomOpBase`, the functions are `CreateKernel` and `Compute`, which return no status. The lite API
# is explained in section 9.

# %%
describes = op[op.index("  size_t GetInputTypeCount") :].replace("return 2;", "return 1;")
three = rf"""
struct PlainOp : Ort::CustomOpBase<PlainOp, Plain> {{
  void* CreateKernel(const OrtApi&, const OrtKernelInfo* info) const {{ return new Plain{{read(info, "how")}}; }}
  const char* GetName() const {{ return "Plain"; }}
{describes}
struct StatusOp : Ort::CustomOpBase<StatusOp, WithStatus, true> {{
  OrtStatus* CreateKernelV2(const OrtApi&, const OrtKernelInfo* info, void** made) const {{
    *made = new WithStatus{{read(info, "how")}};
    return nullptr;
  }}
  const char* GetName() const {{ return "WithStatus"; }}
{describes}"""
add_three = entry.replace(
    "static const MyAdd op;",
    """static const PlainOp plain;
  static const StatusOp status;
  static const std::unique_ptr<OrtCustomOp> lite{Ort::Custom::CreateLiteCustomOp<Lite>("Lite", "CPUExecutionProvider")};""",
)
add_three = add_three.replace("made.Add(&op);", "made.Add(&plain);\n    made.Add(&status);\n    made.Add(lite.get());")

# %%
bad = build("misbehaves", misbehaves, three, add_three)
ways = {
    1: "throw std::runtime_error",
    2: "throw Ort::Exception, INVALID_ARGUMENT",
    3: "throw 42",
    4: "return a status, INVALID_ARGUMENT",
}
for how, title in ways.items():
    print(title)
    for name in ("Plain", "WithStatus", "Lite"):
        try:
            run(load(model(name, ["x"], how=how), bad), x)
        except Exception as error:
            says = str(error).split("Status Message: ")[-1].split(" : ")[-1]
            print(f"    {name:12} {type(error).__name__:17} {says}")

# %% [markdown]
# Read the table column by column.
#
# - **Nothing crashed.** This ONNX Runtime is also written in C++: its functions let an exception pass, and it catches the
#   exception. That is how this build behaves, not a guarantee: the C API forbids exceptions, and a runtime built without
#   exceptions (phones) cannot catch them.
# - **The code is lost.** Every exception becomes RUNTIME_EXCEPTION. A caller cannot distinguish a user's mistake from
#   a broken machine. Only a status that `ComputeV2` returns keeps `INVALID_ARGUMENT`: from `CreateKernelV2`, Python sees
#   RuntimeException whatever the code was.
# - **The message is lost** where the thrown object is not a `std::exception`.
# - `Compute` of the plain kernel returns nothing, so it *can only* throw.
#
# An exception that reaches a function marked `noexcept`, or C code that was compiled without unwind tables, cannot be
# caught: `std::terminate` ends the process. Mark the functions that ONNX Runtime calls as `noexcept`, as section 3 does. Then
# the process ends at once, at the right place and in your tests, and not years later in a customer's build.

# %%
guarded = misbehaves.replace("ComputeV2(OrtKernelContext*)", "ComputeV2(OrtKernelContext*) noexcept")
noexcept_library = build("noexcept", guarded, three, add_three)
onnx.save(model("WithStatus", ["x"], how=1), lab.build / "throws.onnx")
onnx.save(model("WithStatus", ["x"], how=4), lab.build / "answers.onnx")
runs = """
import sys, numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.log_severity_level = 4
options.register_custom_ops_library(sys.argv[1])
session = ort.InferenceSession(sys.argv[2], options, providers=["CPUExecutionProvider"])
try:
    session.run(None, {session.get_inputs()[0].name: np.ones(3, "f")})
except Exception as error:
    print(type(error).__name__)
"""
for name in ("answers.onnx", "throws.onnx"):
    done = in_a_process(runs, noexcept_library, name)
    ended = f"ended by {signal.Signals(-done.returncode).name}" if done.returncode < 0 else done.stdout.strip()
    print(f"{name:13} {ended}")
assert done.returncode == -signal.SIGABRT and "wrong shape" in done.stderr

# %% [markdown]
# ### The fix
#
# Check first, and return a status; catch everything else before it leaves your function. Section 3's kernel checks, but it
# catches only `std::exception`: because it is `noexcept`, a `throw 42` ends the process. Its message does not contain the
# shapes, and it loses the code of an error that ONNX Runtime itself throws. The next kernel fixes all three.

# %%
safe = r"""
#include <onnxruntime_cxx_api.h>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <vector>

static std::string text(const std::vector<int64_t>& shape) {
  std::ostringstream out;
  for (size_t i = 0; i < shape.size(); ++i) out << (i ? ", " : "") << shape[i];
  return "[" + out.str() + "]";
}
static OrtStatus* invalid(const std::string& sentence) {
  return Ort::GetApi().CreateStatus(ORT_INVALID_ARGUMENT, sentence.c_str());
}
struct Kernel {
  OrtStatus* ComputeV2(OrtKernelContext* raw) noexcept {
    try {
      const Ort::KernelContext context{raw};
      const Ort::ConstValue a = context.GetInput(0), b = context.GetInput(1);
      const auto shape = a.GetTensorTypeAndShapeInfo().GetShape(), other = b.GetTensorTypeAndShapeInfo().GetShape();
      if (shape != other) return invalid("MyAdd: a is " + text(shape) + " and b is " + text(other) + ": they must be equal.");
      const size_t size = a.GetTensorTypeAndShapeInfo().GetElementCount();
      const float *pa = a.GetTensorData<float>(), *pb = b.GetTensorData<float>();
      float* py = context.GetOutput(0, shape).GetTensorMutableData<float>();
      for (size_t i = 0; i < size; ++i) py[i] = 3 * pa[i] + 2 * pb[i];
      return nullptr;
    } catch (const Ort::Exception& error) {  // ONNX Runtime's own: it has a code
      return Ort::GetApi().CreateStatus(error.GetOrtErrorCode(), error.what());
    } catch (const std::exception& error) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, error.what());
    } catch (...) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, "MyAdd: an unknown C++ exception");
    }
  }
};
"""

# %%
ready = load(my_add, build("safe", safe, op, entry))
with raises(InvalidArgument, "MyAdd: a is [2, 3] and b is [3]: they must be equal."):
    run(ready, np.ones((2, 3), "f"), np.ones(3, "f"))
print(run(ready, np.ones(2, "f"), np.ones(2, "f")), "the session goes on")

# %% [markdown]
# A status from `CreateKernelV2` makes the session fail to load, with your message after "Exception during
# initialization". The code of the status is lost: section 5's `mistyped` model was rejected with `INVALID_ARGUMENT`, and Python
# saw RuntimeException. ONNX Runtime does not destroy a kernel that it never received: free what the kernel held before
# you return the status (`std::unique_ptr` does).
#
# ## 8. Lifetimes
#
# `Ort::CustomOpDomain` keeps **pointers** to the ops, and a session keeps a pointer to the domain. Nothing is copied.
# The op in many old texts has data members, such as its name or a provider, and is created like this:

# %%
named = op.replace("  OrtStatus* Create", "  explicit MyAdd(const char* name) : name_(name) {}\n  OrtStatus* Create")
named = named.replace('return "MyAdd";', "return name_;").replace("};\n", "  const char* name_;\n};\n")
dies = entry.replace("static const MyAdd op;", 'const auto op = std::make_unique<MyAdd>("MyAdd");')
dies = dies.replace("= [] {", "= [&] {").replace("&op", "op.get()")
print(dies[dies.index("  const auto op") :])

# %% [markdown]
# `RegisterCustomOps` returns, `op` is freed, and the session asks the freed object for its name. That is a **use after
# free**: undefined behaviour. It may seem to work for a year, because the memory still holds the old bytes. Do not
# find out by trying. AddressSanitizer finds it each time: it marks freed memory, and checks in the compiled code detect a
# read from it. It needs a new process, with the environment that `sanitizer_env` returns.

# %%
from oplab.toolchain.build import sanitizer_env
from oplab.toolchain.findings import sanitizer_finding

dead = build("dies", kernel, named, dies, sanitize=True)
done = in_a_process(runs, dead, "my_add.onnx", **sanitizer_env())
finding = sanitizer_finding(done.stderr, lab.build / "dies.cpp")
print(finding)
assert "heap-use-after-free" in finding and "return name_;" in finding

# %% [markdown]
# The whole report has about a hundred lines: which code read, which code freed, which code allocated. `sanitizer_finding`
# reduces it to the frame in your file, and `oplab check c12.my_add --sanitize` does the same for your exercises.
#
# AddressSanitizer does not find everything. ONNX Runtime itself is not compiled with it, so a **domain** that is destroyed too
# early is read by code without checks: you get a crash without an explanation, or no crash at all. One rule covers both cases:
# *the op and the domain outlive every session.* In a library, `static` inside `RegisterCustomOps` ensures this, because
# the session keeps the library loaded (the green bar in the picture). In a program (section 12), declare them before the
# session.
#
# ## 9. The lite API
#
# The lite API needs half the lines for the same operator. `onnxruntime_lite_custom_op.h` derives the inputs and outputs from
# the parameters of a function: `const Tensor<T>&` is an input, `Tensor<T>&` an output.

# %%
lite = r"""
#include <onnxruntime_lite_custom_op.h>

Ort::Status my_add(const Ort::Custom::Tensor<float>& a, const Ort::Custom::Tensor<float>& b, Ort::Custom::Tensor<float>& y) {
  if (a.Shape() != b.Shape()) return Ort::Status("MyAdd: a and b must have the same shape.", ORT_INVALID_ARGUMENT);
  const float *pa = a.Data(), *pb = b.Data();
  float* py = y.Allocate(a.Shape());
  const int64_t size = a.NumberOfElement();
  for (int64_t i = 0; i < size; ++i) py[i] = 3 * pa[i] + 2 * pb[i];
  return Ort::Status{nullptr};
}
"""
lite_entry = entry.replace(
    "static const MyAdd op;",
    """static const std::unique_ptr<OrtCustomOp> op{
      Ort::Custom::CreateLiteCustomOp("MyAdd", "CPUExecutionProvider", my_add)};""",
).replace("&op", "op.get()")

# %%
short = load(my_add, build("lite", lite, lite_entry))
for shape in ((4,), (2, 3, 5), (), (0, 7)):
    a, b = (np.asarray(rng.integers(-999, 999, shape), np.float32) for _ in range(2))  # 3a + 2b is exact
    assert np.array_equal(run(short, a, b), run(ready, a, b))
with raises(InvalidArgument, "MyAdd: a and b must have the same shape."):
    run(short, np.ones((2, 3), "f"), np.ones(3, "f"))
print("by hand and lite: the same bits")

# %% [markdown]
# For attributes, write a struct instead of the function, with a constructor `(const OrtApi*, const OrtKernelInfo*)`
# and a `Compute` with these parameters. `Lite` in section 7 is an example.
#
# | | by hand | lite |
# |---|---|---|
# | inputs, outputs, types | methods of the op | the parameters of the function |
# | attributes | in CreateKernelV2 | in the struct's constructor, which can only throw |
# | a status from Compute | `CustomOpBase<…, true>`, ComputeV2 | return `Ort::Status` |
# | a status at creation | CreateKernelV2 | not possible |
# | optional inputs | you check for count and null | a trap: chapter 13 |
#
# The course's own kernels (`csrc/ort_ops`) use neither: `Op` in `oplab_kernel.h` takes the same parameters as the lite API, and
# no exception leaves it. It is a class on top of `OrtCustomOp`; chapter 13 shows the rest of it.
#
# ## 10. The kernel of older texts
#
# Texts from 2021 to 2023 write kernels with `Ort::CustomOpApi`. This is the middle of such a kernel.

# %%
from oplab.archaeology import HERE

text = (HERE / "then.cpp").read_text()
print(text[text.index("  void Compute") : text.index("    const float* px")])
try:
    compile_exercise(HERE / "then.cpp", "ort")
except BuildFailed as error:
    print(f"The compiler stops at line {error.line}: {text.splitlines()[error.line - 1].strip()}")
else:
    raise AssertionError("it compiles")

# %% [markdown]
# `CustomOpApi` was removed in ONNX Runtime 1.16. g++ reports "expected ')' before 'ort'" here: it does not know the
# type. Chapter 09 lists every name that was removed. The port, line by line:
#
# | then | now |
# |---|---|
# | the op passes `CustomOpApi` to the kernel, which keeps it | nothing to keep: `InitApi` stored the table |
# | `ort_.KernelInfoGetAttribute<float>(info, "attr1")` | `api.KernelInfoGetAttribute_float(info, "attr1", &attr1)`, a status |
# | `void* CreateKernel`, `void Compute` | `CreateKernelV2`, `ComputeV2`, with a status (section 7) |
# | `ort_.KernelContext_GetInput(context, 0)` | `Ort::KernelContext{context}.GetInput(0)` |
# | `OrtTensorDimensions shape(ort_, x)` | `x.GetTensorTypeAndShapeInfo().GetShape()` |
# | `ort_.GetTensorShapeElementCount(info)`, then Release | `info.GetElementCount()`; `info` frees itself |
# | `ort_.KernelContext_GetOutput(context, 0, shape.data(), shape.size())` | `context.GetOutput(0, shape)` |
# | `ort_.GetTensorData<float>(x)`, `GetTensorMutableData` | `x.GetTensorData<float>()`, `y.GetTensorMutableData<float>()` |
# | `provider_`, kept by the op | `"CPUExecutionProvider"`, or no method at all |
# | `compute_stream_`, kept by the op and the kernel | `context.GetGPUComputeStream()` in Compute (chapter 13) |

# %%
text = (HERE / "now.cpp").read_text()
print(text[text.index("  OrtStatus* ComputeV2") : text.index("      int64_t scale")])
ported = load(model("Foo", domain="archaeology"), compile_exercise(HERE / "now.cpp", "ort"))
a, b = rng.normal(size=(2, 3, 5)).astype(np.float32)
print("x + y, as the old kernel:", np.array_equal(run(ported, a, b), a + b))

# %% [markdown]
# ## 11. CMake
#
# A deployment project builds its kernels with CMake. The whole build is one target.

# %%
project = lab.fresh("project")
(project / "my_add.cpp").write_text("\n".join((safe, op, entry)))
(project / "CMakeLists.txt").write_text("""cmake_minimum_required(VERSION 3.18)
project(my_kernels LANGUAGES CXX)
find_path(ORT_INCLUDE_DIR onnxruntime_cxx_api.h PATH_SUFFIXES onnxruntime REQUIRED)

add_library(my_kernels SHARED my_add.cpp)
target_compile_features(my_kernels PRIVATE cxx_std_17)
target_compile_definitions(my_kernels PRIVATE ORT_API_MANUAL_INIT)
target_include_directories(my_kernels SYSTEM PRIVATE ${ORT_INCLUDE_DIR})
set_target_properties(my_kernels PROPERTIES PREFIX "" SUFFIX ".so" CXX_VISIBILITY_PRESET hidden)
""")

# %% [markdown]
# - `find_path` looks for the headers; you can set their folder with `-DORT_INCLUDE_DIR=…`. There is no `find_package` and no
#   `target_link_libraries`: the library does not link against ONNX Runtime.
# - `ORT_API_MANUAL_INIT` stops the headers from calling `OrtGetApiBase()` by themselves, a function that is not in
#   your library. You call `Ort::InitApi` in `RegisterCustomOps` instead.
# - `SYSTEM` keeps warnings of the headers out of your log.
# - `hidden` keeps your classes private to the library. Without it, two libraries on Linux share the static variables of inline
#   functions and templates that have the same name, and such a library is never unloaded. (In one program, section 12, two structs
#   with the name `Kernel` become one: put each into an anonymous namespace.)
#
# That last setting hides the entry point too. So the function needs an attribute that makes it visible again:

# %%
visible = (
    (project / "my_add.cpp")
    .read_text()
    .replace('extern "C" OrtStatus*', 'extern "C" __attribute__((visibility("default"))) OrtStatus*')
)
(project / "my_add.cpp").write_text(visible)

# %% [markdown]
# Call CMake twice: once to configure, once to build. If CMake is not installed, the next cell calls the compiler with the
# same flags.

# %%
from oplab.toolchain.compiler import find_compiler
from oplab.toolchain.headers import ort_include

made = project / "build" / "my_kernels.so"
if cmake := shutil.which("cmake"):
    configure = [cmake, "-S", project, "-B", project / "build", f"-DORT_INCLUDE_DIR={ort_include()}"]
    commands = [[*configure, "-DCMAKE_BUILD_TYPE=Release"], [cmake, "--build", project / "build"]]
else:
    made.parent.mkdir()
    flags = [
        "-std=c++17",
        "-O3",
        "-fPIC",
        "-shared",
        "-fvisibility=hidden",
        "-DORT_API_MANUAL_INIT",
        f"-isystem{ort_include()}",
    ]
    commands = [[*find_compiler().command, *flags, project / "my_add.cpp", "-o", made]]
for command in commands:
    subprocess.run([*map(str, command)], check=True, capture_output=True)
a, b = rng.integers(-999, 999, (2, 1000)).astype(np.float32)  # exact, whatever the compiler makes of 3a + 2b
print("the same bits:", np.array_equal(run(load(my_add, made), a, b), run(ready, a, b)))

# %% [markdown]
# `csrc/ort_ops/CMakeLists.txt` is the course's own build, and you can now read every line of it. It does more than yours:

# %%
course = (paths.root() / "csrc" / "ort_ops" / "CMakeLists.txt").read_text()
for words, why in {
    "file(STRINGS compile_flags.txt OPLAB_FLAGS)": "one list of flags, read by the Python build too",
    "-Wl,-z,defs": "a function that is used and never defined is an error now, not when the library is loaded",
    "--version-script": "a list of what is visible: RegisterCustomOps and nothing else, in place of `hidden` and its exception",
    "--defsym=oplab_entry=RegisterCustomOps": "a missing entry point is an error of the linker (section 2)",
    "OPLAB_EXERCISE": "the same project builds your exercise: -DOPLAB_EXERCISE=exercises/csrc/c12_my_add.cpp",
}.items():
    assert words in course
    print(f"{words}\n    {why}")

# %% [markdown]
# ## 12. From a C++ program
#
# The last step uses no Python at all. The note that this chapter follows shows three lines of it:
#
# ```cpp
# Ort::CustomOpDomain custom_op_domain("custom");
# custom_op_domain.Add(&custom_op);
# session_options.Add(custom_op_domain);
# ```
#
# That is registration **in process**: the kernels are compiled into the program. The other way is the one that Python
# uses, `RegisterCustomOpsLibrary`. `csrc/host` is a small program that can do both. Reduced to its calls of ONNX Runtime, it
# is this:
#
# ```cpp
# Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "host");                  // first, and it dies last
# Ort::SessionOptions options;
# options.RegisterCustomOpsLibrary("/full/path/oplab_ort_ops.so");  // by library, or
# Ort::ThrowOnError(RegisterCustomOps(options, OrtGetApiBase()));   // in process: the same entry point, linked in
# Ort::Session session(env, "model.onnx", options);
#
# auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
# Ort::Value a = Ort::Value::CreateTensor<float>(memory, data, size, shape, rank);  // no copy: `data` must stay alive
# std::vector<Ort::Value> outputs = session.Run(Ort::RunOptions{nullptr}, input_names, &a, 1, output_names, 1);
# const float* y = outputs[0].GetTensorData<float>();
# ```
#
# In the real program, these calls are in the following files:

# %%
host = paths.root() / "csrc" / "host"
calls = ["RegisterCustomOpsLibrary(", "RegisterCustomOps(", "Ort::Session(", "CreateTensor(", ".Run(", "InitApi("]
for call in calls:
    files = [file.name for file in sorted(host.glob("*.cpp")) if call in file.read_text()]
    assert files, call
    print(f"{call:27} {', '.join(files)}")

# %% [markdown]
# Unlike a library of kernels, a program **links** against ONNX Runtime. The Python wheel has the library and no headers. The last
# lines of `csrc/host/CMakeLists.txt` set the link and the name under which the program finds the library. The setup has compiled
# the program to `build/lib/oplab_host`. First list the inputs and outputs of a model with the course's `oplab::MyAdd`:


# %%
def call_host(*arguments):
    done = subprocess.run(
        [str(host_path()), *map(str, arguments)], cwd=lab.build, capture_output=True, text=True, timeout=600
    )
    return done.returncode, done.stdout.strip(), done.stderr.strip()


onnx.save(model("MyAdd", domain="oplab", alpha=0.1, beta=-7.3), lab.build / "course.onnx")
code, said, failed = call_host("course.onnx", "--in-process", "--list")
print(said)
assert code == 0, failed

# %% [markdown]
# Without kernels it fails as Python did, and the message tells you what to do.

# %%
code, said, failed = call_host("course.onnx", "--list")
assert code == 1 and "is not a registered function/op" in failed
print("exit code", code, "·", failed.splitlines()[-1])

# %% [markdown]
# Now compare both ways of registering with Python. The values are chosen so that a difference in rounding shows: coefficients
# that a float cannot represent exactly, and inputs from 1e-30 to 1e30. "Equal" means that every bit is equal.

# %%
a, b = (10.0 ** rng.uniform(-30, 30, (2, 257, 33)) * rng.choice([-1, 1], (2, 257, 33))).astype(np.float32)
np.save(lab.build / "a.npy", a)
np.save(lab.build / "b.npy", b)
expected = run(session(lab.build / "course.onnx"), a, b)
inputs = ["--input", "a=a.npy", "--input", "b=b.npy"]
ways = {"in process": ["--in-process"], "by library": ["--library", ops.ort_library()]}
for title, way in ways.items():
    code, said, failed = call_host("course.onnx", *way, *inputs, "--outputs", title)
    assert code == 0, failed
    y = np.load(lab.build / title / "y.npy")
    print(f"{title}: {said}, equal: {y.tobytes() == expected.tobytes()}")
    assert y.tobytes() == expected.tobytes()

# %% [markdown]
# And with **your** library, the one that CMake built in section 11:

# %%
code, said, failed = call_host("my_add.onnx", "--library", made, *inputs, "--outputs", "mine")
assert code == 0, failed
mine = np.load(lab.build / "mine" / "y.npy")
print(said, "equal:", mine.tobytes() == run(load(my_add, made), a, b).tobytes())

# %% [markdown]
# For a wrong shape, the program prints a message and returns exit code 1, because the kernel returns a status:

# %%
np.save(lab.build / "short.npy", b[:5])
code, said, failed = call_host("my_add.onnx", "--library", made, "--input", "a=a.npy", "--input", "b=short.npy")
print("exit code", code, "·", failed[failed.index("MyAdd: a is") :])

# %% [markdown]
# ## 13. Limits
#
# - **One thread.** These kernels use one core. `ParallelFor` is in chapter 13, and so are optional inputs, several
#   dtypes, several outputs and CUDA.
# - **An exception on another thread is worse.** It is not specified what happens when an exception leaves a piece of
#   `ParallelFor`. With ONNX Runtime 1.31.1 we saw a status, a crash, and a run that did not return, depending on the thread.
# - **Headers may be older than the runtime, never newer.** If they are newer, `GetApi` returns null, and a call through it would
#   be a segmentation fault. The entry point above checks for null and returns an error message.
# - **A library belongs to one platform**: its processor, its C++ runtime. The model does not. Ship both, and state
#   their versions.
# - Unless a schema is registered, as in chapter 11, ONNX's checker does not look at your operator: only ONNX Runtime's checks of
#   the inputs' number and types (section 3) and the kernel itself can reject a wrong model.
#
# ## 14. Exercises
#
# Your files are `exercises/csrc/c12_my_add.cpp`, `c12_errors.cpp` and `c12_port_foo.cpp`. Each is compiled to its own
# library, with the domain `c12`. `make watch` runs the check each time you save a file; the result appears two or three
# seconds later.
#
# **`my_add`** — the whole library: kernel, attributes with defaults, op and entry point. By hand or lite.

# %%
lab.check("my_add")

# %% [markdown]
# **`errors`** — for every wrong shape and attribute, return a status with a message.

# %%
lab.check("errors")

# %% [markdown]
# **`port_foo`** — port a kernel from 2022 to the current API, for version 2 of its domain.

# %%
lab.check("port_foo")

# %% [markdown]
# ## What to read next
#
# - Chapter 13: real kernels. `csrc/ort_ops/grid.cpp` is one.
# - `csrc/ort_ops/oplab_kernel.h` and `docs/operators.md`: how the course's kernels follow the rules of section 7.
# - `onnxruntime_c_api.h`, the struct `OrtCustomOp`: the table of functions on which everything in this chapter is built.
# - `csrc/host`: the complete program of section 12.
#
# Previous: [11: Kernels without a compiler](11_kernels_without_a_compiler.ipynb)
# · Next: [13: Real kernels](13_real_kernels.ipynb)
# · [Glossary](../docs/glossary.md)
