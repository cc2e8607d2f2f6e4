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
# - write an operator for ONNX Runtime in C++, from the first line to a session that runs it;
# - give it attributes with defaults, and error messages that name the cause;
# - load it from Python and from a C++ program, and show that both give the same bits.
#
# No exporter is used here: the models are built by hand, as in chapter 01. Each one represents the model that the
# TorchScript path or the dynamo path writes for a custom operator (chapters 05, 06 and 10). If C++ is new to you, start
# with [A1: C++ in an hour](A1_cpp_in_an_hour.ipynb).
#
# ## 1. The failure
#
# Here is a correct model. `MyAdd` is 3a + 2b, the operator that this course uses throughout.

# %%
import onnx
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

from oplab import lesson, raises

lab = lesson("12_ort_kernels")
ort.set_default_logger_severity(4)  # what it logs, it raises too
vectors = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 20, "lesson": 1]>
    MyAdd (float[n] a, float[n] b) => (float[n] y) { y = lesson.MyAdd(a, b) }""")
onnx.checker.check_model(vectors, full_check=True)
with raises(Fail, "is not a registered function/op"):
    ort.InferenceSession(vectors.SerializeToString())
lab.show(vectors)

# %% [markdown]
# The checker has no objection: it does not know the domain `lesson` and accepts the node. ONNX Runtime has to
# *compute* the node, and looks for a **kernel**: a function for this domain, this name, this version and these types.
# There is none. The `-1` in the message only means that no version was found.
#
# In chapter 11, such kernels were written in Python. Now you write one that needs no Python.
#
# The next cell defines five helpers and the model `my_add`; open it if you like. `model` builds a model of one node in
# the domain `lesson`,
# `load` creates an ONNX Runtime session with libraries of kernels, `run` passes the inputs in order and returns the first
# output, and `build` compiles a file of `notebooks/cpp` with `compile_library`, the function that the grader uses for
# your files.

# %% {"jupyter": {"source_hidden": true}}
from contextlib import contextmanager

import numpy as np
from onnx import TensorProto, helper

from oplab.toolchain.build import compile_library


def model(op, inputs=("a", "b"), domain="lesson", version=1, **attributes):
    def value(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)  # any shape

    node = helper.make_node(op, list(inputs), ["y"], domain=domain, **attributes)
    graph = helper.make_graph([node], op, [value(name) for name in inputs], [value("y")])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(domain, version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def load(model, *libraries):
    options = ort.SessionOptions()
    for library in libraries:
        options.register_custom_ops_library(str(library))
    content = model.SerializeToString()
    return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def run(session, *arrays):
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, arrays, strict=True)))[0]


def build(name, **options):
    return compile_library(lab.cpp(name), "ort", **options)


@contextmanager
def refused(words):
    """As `raises`, for messages that name a file of this machine: prints from `words` on."""
    try:
        yield
    except Exception as error:
        before, found, after = str(error).partition(words)
        assert found, error
        print(f"{type(error).__name__}: … {(found + after).splitlines()[0]}")
    else:
        raise AssertionError("nothing was raised")


my_add = model("MyAdd")  # as `vectors`, for all shapes

# %% [markdown]
# ## 2. What a custom-op library is
#
# A shared library (`.so`, on macOS `.dylib`) with **one** C function, which ONNX Runtime looks up by its name:
#
# ```cpp
# extern "C" OrtStatus* RegisterCustomOps(OrtSessionOptions* options,
#                                         const OrtApiBase* base);
# ```
#
# `extern "C"` keeps the name as it is written; otherwise C++ would add the argument types to it. The library does not link
# against ONNX Runtime. It gets access through the second argument: `base->GetApi(…)` returns a table of about 300
# functions, `OrtApi`, and a kernel calls everything it needs through that table. So one library works in Python and in a
# C++ program, and the same source works on a phone.
#
# The header `onnxruntime_cxx_api.h` wraps the table in C++ classes. You do not link these classes either: they
# are compiled into your library.
#
# ### The naive attempt
#
# A function that computes 3a + 2b, compiled to a library.

# %%
lab.source("12_function.cpp")

# %%
with refused("ONNX Runtime calls RegisterCustomOps first"):
    build("12_function.cpp")

# %% [markdown]
# The course's build makes the linker require this symbol, so you see the error at once. Other builds do not. Then ONNX
# Runtime reports it when the library is registered. The same happens with a library of *PyTorch* operators (chapter 07),
# which people pass by mistake:

# %%
import torch  # noqa: F401  the library below needs PyTorch's own libraries in the process

from oplab.toolchain.build import library_path

with refused("undefined symbol: RegisterCustomOps"):
    load(my_add, library_path("torch"))

# %% [markdown]
# ## 3. MyAdd by hand
#
# The library has three parts, in the order in which you think of them. First the **kernel**: a struct with `ComputeV2`. It
# is created once for each node of a model, and called at each run. ONNX Runtime calls it through a C interface, so it
# returns a status (a null pointer means success) and must not throw (section 6).

# %%
lab.source("12_naive.cpp", "struct Kernel")

# %% [markdown]
# Then the **op**: the properties that ONNX Runtime has to know before it creates a kernel. `Ort::CustomOpBase` turns these
# methods into the C struct `OrtCustomOp`, a table of function pointers. Its third template argument, `true`, selects the
# functions that return a status. The default execution provider is the CPU. With `std::nothrow`, `new` returns a null
# pointer when there is no memory; without it, `new` throws.

# %%
lab.source("12_naive.cpp", "struct MyAdd : Ort::CustomOpBase<MyAdd, Kernel, true>")

# %% [markdown]
# Last the **entry point**. It puts the op into a domain and the domain into the options of a session. `InitApi` comes
# first: the C++ classes take their functions from the table that it stores. Both objects are `static`, because a session
# keeps *pointers* to them: they have to outlive every session. It is a C function, so no exception may leave it:
# `noexcept` and `try` (section 6).

# %%
lab.source("12_naive.cpp", "RegisterCustomOps")

# %%
library = build("12_naive.cpp")
ready = load(my_add, library)
print(run(ready, np.float32([1, 2, 3]), np.float32([10, 20, 30])))

# %% [markdown]
# It runs. The proof uses shapes that are not declared anywhere: many dimensions, none, and no elements.

# %%
rng = np.random.default_rng(12)
for shape in ((4,), (2, 3, 5), (), (0, 7), (1, 100_000)):
    a, b = (np.asarray(rng.normal(size=shape), np.float32) for _ in range(2))
    y = run(ready, a, b)
    assert y.dtype == np.float32 and y.shape == shape
    assert np.allclose(y, 3 * a + 2 * b, atol=1e-5)
    print(f"{str(shape):12} right")

# %% [markdown]
# ONNX Runtime checks the number of inputs and their types for you, against the declarations of the op.

# %%
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, InvalidGraph

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
with raises(InvalidArgument, "MyAdd: the shapes differ."):
    run(ready, np.ones((2, 3), "f"), np.ones(3, "f"))

# %% [markdown]
# ## 4. The order of the calls
#
# `12_traced.cpp` is the same library, but each step writes a line to a file. It runs in a separate process, so that you
# see the end too.

# %%
lab.source("12_traced.cpp", "struct Kernel")

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
import os
import subprocess
import sys


def in_a_process(code, *arguments, **environment):
    """Run Python code in a process of its own, in this chapter's build folder."""
    environment = {**os.environ, **environment}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(
        command, cwd=lab.build, env=environment, capture_output=True, text=True, timeout=600
    )


onnx.save(my_add, lab.build / "my_add.onnx")
trace = lab.fresh("trace") / "steps.txt"
done = in_a_process(program, build("12_traced.cpp"), "my_add.onnx", OPLAB_TRACE=str(trace))
assert done.returncode == 0, done.stderr
lines = trace.read_text().split("\n")[:-1]
seen = set()
for line in lines:  # ONNX Runtime asks for names and types many times: print each once a step
    if line.startswith("> "):
        seen = set()
    if line not in seen:
        print(line if line.startswith("> ") else f"      {line}")
    seen.add(line)

# %% [markdown]
# Lines with `>` come from the program, the other lines from the library. Look at the end: `op -` does not wait for the end
# of the program. The library is unloaded with the last session that uses it, and its static objects are destroyed with it.
#
# The picture shows the same order, from top to bottom; a bar is the lifetime of an object.

# %% {"jupyter": {"source_hidden": true}}
from oplab.figures.palette import BLUE, ORANGE, PURPLE
from oplab.figures.sequence import sequence

PROGRAM, RUNTIME, LIBRARY = 0, 1, 2
figure = sequence(
    ["your program", "ONNX Runtime", "your library"],
    {
        "register": [
            (PROGRAM, RUNTIME, "register_custom_ops_library(file)"),
            (RUNTIME, LIBRARY, "load the library; RegisterCustomOps(options, base)"),
            (LIBRARY, RUNTIME, "AddCustomOpDomain(options, domain)"),
        ],
        "load": [
            (PROGRAM, RUNTIME, "InferenceSession(model, options)"),
            (RUNTIME, LIBRARY, "GetName, GetInputType, …"),
            (RUNTIME, LIBRARY, "CreateKernelV2(info), for each node"),
        ],
        "run": [
            (PROGRAM, RUNTIME, "session.run(…)"),
            (RUNTIME, LIBRARY, "KernelComputeV2(kernel, context)"),
            (LIBRARY, RUNTIME, "GetInput, GetOutput(shape)"),
            (PROGRAM, RUNTIME, "session.run(…)"),
            (RUNTIME, LIBRARY, "KernelComputeV2(kernel, context)"),
        ],
        "end": [
            (PROGRAM, RUNTIME, "the session is destroyed"),
            (RUNTIME, LIBRARY, "KernelDestroy(kernel)"),
            (RUNTIME, LIBRARY, "unload the library, with its statics"),
        ],
    },
    [
        (RUNTIME, 3, 12, "session", BLUE),
        (LIBRARY, 5, 12, "kernel", ORANGE),
        (LIBRARY, 1, 13, "op and domain (static)", PURPLE),
    ],
)
lab.figure(
    figure,
    "Calls between the program, ONNX Runtime and the library in four phases: register, load, "
    "run, end. The kernel lives from CreateKernelV2 until the session is destroyed, the op and "
    "the domain until the library is unloaded.",
)

# %% [markdown]
# The picture was drawn by hand, so check it against the trace: the order of the steps must be the same.

# %%
order = ["RegisterCustomOps", "op +", "> InferenceSession", "GetName", "CreateKernelV2"]
order += ["kernel +", "> session.run", "ComputeV2"]
order += ["> del session", "kernel -", "op -", "> the program ends"]
places = [lines.index(step) for step in order]
assert places == sorted(places)
print("kernels created:", lines.count("kernel +"), " runs:", lines.count("ComputeV2"))

# %% [markdown]
# One kernel serves all runs of its node, also from several threads at once. So store the attributes in it, and nothing
# that a run computes.
#
# ## 5. Attributes with defaults
#
# A kernel reads its attributes once, when it is created, from the `OrtKernelInfo`. It reads them with a C function that
# returns a status, and `CreateKernelV2` can return that status unchanged. `Scale` is x times the attribute `factor`:

# %%
lab.source("12_scale.cpp", "CreateKernelV2")

# %%
from onnxruntime.capi.onnxruntime_pybind11_state import RuntimeException

strict = build("12_scale.cpp")
x = np.float32([1, 2, 4])
print(run(load(model("Scale", ["x"], factor=2.5), strict), x))
with raises(RuntimeException, "No attribute with name:'factor'is defined"):
    load(model("Scale", ["x"]), strict)
with raises(RuntimeException, "Attribute name and type don't match"):
    load(model("Scale", ["x"], factor=2), strict)

# %% [markdown]
# The attribute is required, and its type is exact: `factor=2` is an INT in the model, and is rejected. A custom op does
# not declare its attributes to ONNX Runtime, so the kernel has to define the default. The obvious way is to
# interpret a failure as "missing":

# %%
lab.diff("12_scale.cpp", "12_scale_default.cpp")

# %%
default = build("12_scale_default.cpp")
for attributes in ({"factor": 2.5}, {}, {"factor": 2}):
    print(f"{str(attributes):16} {run(load(model('Scale', ['x'], **attributes), default), x)}")

# %% [markdown]
# Look at the last line. The model has 2, but the kernel computes with 1: the status meant "of another type", and the
# kernel interpreted it as "missing". Both have the same error code. So a careful kernel queries the attribute again, with
# the other types, before it concludes that the attribute is missing. The course's kernels call this function for that:

# %%
from oplab import paths
from oplab.figures import listing

kernel_header = paths.root() / "csrc" / "ort_ops" / "oplab_kernel.h"
listing.source(kernel_header, "inline bool has_attribute")

# %% [markdown]
# `Ort::Status{…}` owns the `OrtStatus*` of a call and releases it. With it, a default replaces only a missing attribute:

# %%
lab.diff("12_scale_default.cpp", "12_scale_right.cpp")

# %%
right = build("12_scale_right.cpp")
print(run(load(model("Scale", ["x"]), right), x))
mistyped = model("Scale", ["x"], factor=2)
with raises(RuntimeException, "Scale: factor must be a float."):
    load(mistyped, right)

# %% [markdown]
# The exercises `my_add` and `errors` ask for the same. A status from `CreateKernelV2` makes the session
# fail to load, with your message after "Exception during initialization". The code of the status is lost: the kernel of
# `mistyped` returned `INVALID_ARGUMENT`, and Python saw RuntimeException. ONNX Runtime does not destroy a kernel that
# it never received: free what the kernel held before you return the status (`std::unique_ptr` does).
#
# ## 6. Errors
#
# ONNX Runtime calls a kernel through C function pointers, and C has no exceptions: a function reports a failure with an
# `OrtStatus*`, a code with a message, and success with a null pointer. But the kernel is C++ code, and C++ code throws. An
# exception that reaches the end of a function marked `noexcept` ends the process, and without `noexcept` it depends on the
# build of ONNX Runtime what happens ("Deeper: What happens to an exception" tries it).
#
# So check first, and return a status; catch everything else before it leaves your function. Section 3's kernel checks, but
# it catches only `std::exception`: because it is `noexcept`, a `throw 42` ends the process. Its message does not contain
# the shapes, and it loses the code of an error that ONNX Runtime itself throws. The finished kernel fixes all three. (The
# lines about `namespace` and `visibility` belong to the build: "Deeper: CMake".)

# %%
lab.diff("12_naive.cpp", "12_my_add.cpp")

# %%
library = build("12_my_add.cpp")
ready = load(my_add, library)
with raises(InvalidArgument, "MyAdd: a is [2, 3] and b is [3]: they must be equal."):
    run(ready, np.ones((2, 3), "f"), np.ones(3, "f"))
print(run(ready, np.ones(2, "f"), np.ones(2, "f")), "the session goes on")

# %% [markdown]
# ## 7. From a C++ program
#
# The last step uses no Python at all. A tutorial of 2022 shows three lines of it:
#
# ```cpp
# Ort::CustomOpDomain custom_op_domain("custom");
# custom_op_domain.Add(&custom_op);
# session_options.Add(custom_op_domain);
# ```
#
# That is registration **in process**: the kernels are compiled into the program. The other way is the one that Python
# uses, `RegisterCustomOpsLibrary`. `csrc/host` is a small program that can do both. Reduced to its calls of ONNX Runtime,
# it is this:
#
# ```cpp
# Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "host");  // first, and it dies last
# Ort::SessionOptions options;
# // By library, or in process, where the kernels are linked in:
# options.RegisterCustomOpsLibrary("/full/path/oplab_ort_ops.so");
# Ort::ThrowOnError(RegisterCustomOps(options, OrtGetApiBase()));
# Ort::Session session(env, "model.onnx", options);
#
# auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
# Ort::Value a =  // no copy
#     Ort::Value::CreateTensor<float>(memory, data, size, shape, rank);
# std::vector<Ort::Value> outputs =
#     session.Run(Ort::RunOptions{nullptr}, input_names, &a, 1, output_names, 1);
# const float* y = outputs[0].GetTensorData<float>();
# ```
#
# `CreateTensor` does not copy: `data` must stay alive until the run is over. In the real program, these calls are in the
# following files:

# %%
from oplab import paths

host = paths.root() / "csrc" / "host"
calls = "RegisterCustomOpsLibrary RegisterCustomOps Ort::Session CreateTensor .Run".split()
for call in (f"{name}(" for name in calls):
    files = [file.name for file in sorted(host.glob("*.cpp")) if call in file.read_text()]
    assert files, call
    print(f"{call:27} {', '.join(files)}")

# %% [markdown]
# Unlike a library of kernels, a program **links** against ONNX Runtime. The Python wheel has the library and no headers.
# The last lines of `csrc/host/CMakeLists.txt` set the link and the name under which the program finds the library. The
# setup has compiled the program to `build/lib/oplab_host`. First list the inputs and outputs of a model with the course's
# `oplab::MyAdd`:

# %%
from oplab.toolchain.build import host_path


def call_host(*arguments):
    command = [str(host_path()), *map(str, arguments)]
    done = subprocess.run(command, cwd=lab.build, capture_output=True, text=True, timeout=600)
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
# Now compare both ways of registering with Python. The values are chosen so that a difference in rounding shows:
# coefficients that a float cannot represent exactly, and inputs from 1e-30 to 1e30. "Equal" means that every bit is equal.

# %%
from oplab import ops, session

a, b = 10.0 ** rng.uniform(-30, 30, (2, 257, 33)) * rng.choice([-1, 1], (2, 257, 33))
a, b = a.astype(np.float32), b.astype(np.float32)
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
# And with **your** library, the one of section 6:

# %%
mine = ["--library", library, *inputs, "--outputs", "mine"]
code, said, failed = call_host("my_add.onnx", *mine)
assert code == 0, failed
y = np.load(lab.build / "mine" / "y.npy")
print(said, "equal:", y.tobytes() == run(ready, a, b).tobytes())

# %% [markdown]
# For a wrong shape, the program prints a message and returns exit code 1, because the kernel returns a status:

# %%
np.save(lab.build / "short.npy", b[:5])
given = ["--input", "a=a.npy", "--input", "b=short.npy"]
code, said, failed = call_host("my_add.onnx", "--library", library, *given)
print("exit code", code, "·", failed[failed.index("MyAdd: a is") :])

# %% [markdown]
# You write such a program in "Deeper: Your own host program".
#
# ## 8. The finished file, and its limits
#
# This is the whole library, from which you can start your own. Each of its three parts keeps exceptions inside.

# %%
lab.source("12_my_add.cpp")

# %% [markdown]
# - **One thread.** These kernels use one core. `ParallelFor` is in chapter 13, and so are optional inputs, several
#   dtypes, several outputs and CUDA.
# - **The table must not be newer than the runtime.** The course compiles with the headers of ONNX Runtime 1.21 ("headers
#   1.21" in this course) and asks for their table, so `GetApi` returns null in an older runtime, and a call through it would
#   be a segmentation fault. The entry point above checks for null. Chapter 17 asks for an older table instead.
# - **A library belongs to one platform**: its processor, its C++ runtime. The model does not. Ship both, and state
#   their versions.
# - Unless a schema is registered, as in chapter 11, ONNX's checker does not look at your operator: only ONNX Runtime's
#   checks of the inputs' number and types (section 3) and the kernel itself can reject a wrong model.

# %% [markdown]
# ## 9. Exercises
#
# Each C++ file is compiled to its own library, with the domain `c12`. `make watch` runs the check each time you save a
# file; the result appears two or three seconds later.
#
# **`my_add`** in [exercises/csrc/c12_my_add.cpp](../exercises/csrc/c12_my_add.cpp#line=31) — the whole library: kernel,
# attributes with defaults, op and entry point.

# %%
lab.check("my_add")

# %% [markdown]
# **`errors`** in [exercises/csrc/c12_errors.cpp](../exercises/csrc/c12_errors.cpp#line=38) — for every wrong shape and
# attribute, return a status with a message.

# %%
lab.check("errors")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: What happens to an exception
#
# What happens to an exception that leaves a kernel? The attribute `how` of the next kernels selects how they fail.

# %%
lab.source("12_misbehaves.cpp", "static OrtStatus* misbehave")

# %% [markdown]
# There are four kernels. Without the `true` for `CustomOpBase`, the functions are `CreateKernel` and `Compute`, which
# return no status: `Plain` can only throw. `WithStatus` returns a status, `Guarded` also has `noexcept`, and `Lite` uses
# the lite API (a section below).

# %%
lab.source("12_misbehaves.cpp", "struct Plain")

# %%
lab.source("12_misbehaves.cpp", "struct WithStatus")

# %%
lab.source("12_misbehaves.cpp", "static int64_t read")

# %%
lab.source("12_misbehaves.cpp", "struct Lite")

# %%
bad = build("12_misbehaves.cpp")
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
#   a broken machine. Only a status that is returned during a run keeps `INVALID_ARGUMENT`, from `ComputeV2` or from
#   `Compute` of the lite API: from `CreateKernelV2`, Python sees RuntimeException whatever the code was.
# - **The message is lost** where the thrown object is not a `std::exception`.
# - `Compute` of the plain kernel returns nothing, so it *can only* throw.
# - **An exception on another thread is worse.** It is not specified what happens when an exception leaves a piece of
#   `ParallelFor` (chapter 13). With ONNX Runtime 1.31.1 we saw a status, a crash, and a run that did not return, depending
#   on the thread.
#
# An exception that reaches a function marked `noexcept`, or C code that was compiled without unwind tables, cannot be
# caught: `std::terminate` ends the process. Mark the functions that ONNX Runtime calls as `noexcept`, as section 3 does.
# Then the process ends at once, at the right place and in your tests, and not years later in a customer's build.

# %%
import signal

runs = """
import sys, numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.log_severity_level = 4
options.register_custom_ops_library(sys.argv[1])
session = ort.InferenceSession(sys.argv[2], options, providers=["CPUExecutionProvider"])
try:
    session.run(None, {value.name: np.ones(3, "f") for value in session.get_inputs()})
except Exception as error:
    print(type(error).__name__)
"""
onnx.save(model("Guarded", ["x"], how=1), lab.build / "throws.onnx")
onnx.save(model("Guarded", ["x"], how=4), lab.build / "answers.onnx")
for name in ("answers.onnx", "throws.onnx"):
    done = in_a_process(runs, bad, name)
    ended = f"ended by {signal.Signals(-done.returncode).name}" if done.returncode < 0 else ""
    print(f"{name:13} {ended or done.stdout.strip()}")
assert done.returncode == -signal.SIGABRT and "wrong shape" in done.stderr

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Lifetimes
#
# `Ort::CustomOpDomain` keeps **pointers** to the ops, and a session keeps a pointer to the domain. Nothing is copied.
# The op in many old texts has data members, such as its name or a provider, and is created like this:

# %%
lab.diff("12_naive.cpp", "12_dies.cpp")

# %% [markdown]
# `RegisterCustomOps` returns, `op` is freed, and the session asks the freed object for its name. That is a **use after
# free**: undefined behaviour. It may seem to work for a year, because the memory still holds the old bytes. Do not
# find out by trying. AddressSanitizer finds it each time: it marks freed memory, and checks in the compiled code detect a
# read from it. It needs a new process, with the environment that `sanitizer_env` returns.

# %%
from oplab.toolchain.build import sanitizer_env
from oplab.toolchain.findings import sanitizer_finding

dead = build("12_dies.cpp", sanitize=True)
done = in_a_process(program, dead, "my_add.onnx", OPLAB_TRACE=str(trace), **sanitizer_env())
finding = sanitizer_finding(done.stderr, lab.cpp("12_dies.cpp"))
print(finding)
assert "heap-use-after-free" in finding and "return name_;" in finding

# %% [markdown]
# The whole report has about a hundred lines: which code read, which code freed, which code allocated. `sanitizer_finding`
# reduces it to the frame in your file, and `oplab check c12.my_add --sanitize` does the same for your exercises.
#
# AddressSanitizer does not find everything. ONNX Runtime itself is not compiled with it, so a **domain** that is destroyed
# too early is read by code without checks: you get a crash without an explanation, or no crash at all. One rule covers
# both cases: *the op and the domain outlive every session.* In a library, `static` inside `RegisterCustomOps` ensures
# this, because the session keeps the library loaded (the longest bar in section 4's picture). In a program (section 7),
# declare them before the session.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Shapes, domains and versions
#
# `GetOutput(0, shape)` decides the shape of an output, at each run. Before the first run the session knows only what the
# model declares, and this model declares no shape:

# %%
zeros = np.zeros((2, 3), "f")
print("declared:", ready.get_outputs()[0].shape, "  computed:", run(ready, zeros, zeros).shape)

# %% [markdown]
# A shape that is hard-coded in the kernel is right for one shape of the inputs only, and there is no error: `GetOutput`
# does not check the shape that it gets.

# %%
lab.diff("12_naive.cpp", "12_fixed_shape.cpp")

# %%
fixed = load(my_add, build("12_fixed_shape.cpp"))
print(run(fixed, np.ones(4, "f"), np.ones(4, "f")).shape, "for inputs of shape (4,)")

# %% [markdown]
# An op can also infer its output shape from its inputs *before* the model runs (`InferOutputShape`), so that the operators
# after it can be planned. That has its own traps: chapter 13.
#
# ### Domains and versions
#
# A **domain** keeps your `MyAdd` apart from every other `MyAdd`. A session takes each domain from one library; two
# libraries with the same domain are rejected. `default` has another op than `library`, but the same domain `lesson`:

# %%
with raises(Exception, "Domain already set in registry"):
    load(my_add, library, default)

# %% [markdown]
# An operator also has a **version**, the first version of its domain in which it exists: `start_ver_`, a member of
# `CustomOpBase`. A model imports a version of each domain. The next library has three ops, with the same kernel and other
# numbers.

# %%
lab.source("12_versions.cpp", "Sum(const char* name")

# %% [markdown]
# `Newer` exists from version 2 on. If a model imports version 1, there is no kernel.

# %%
versions = build("12_versions.cpp")
one = np.float32([1])
with raises(Fail, "lesson:Newer(-1) is not a registered function/op"):
    load(model("Newer"), versions)
for version in (2, 3):
    newer = load(model("Newer", version=version), versions)
    print(f"a model of version {version}: 1 and 1 give", run(newer, one, one))

# %% [markdown]
# The obvious next step does not work: two ops with the same name, `old` up to version 1, and `changed` from version 2 on.

# %%
for version in (1, 2, 3):
    found = load(model("MyAdd", version=version), versions)
    print(f"a model of version {version}: 1 and 1 give", run(found, one, one))

# %% [markdown]
# 3a + 2b gives 5, 2a + b gives 3. Versions 2 and 3 run the *old* kernel, without a warning: ONNX Runtime 1.31 creates one
# schema for all ops with the same name, with the version of the first op. So never change the meaning of an operator.
# Give the new operator a new name.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: The lite API
#
# With the lite API, the kernel and the op take 10 lines instead of 40. `onnxruntime_lite_custom_op.h` derives the
# inputs and outputs
# from the parameters of a function: `const Tensor<T>&` is an input, `Tensor<T>&` an output. The entry point creates the op
# with `CreateLiteCustomOp`.

# %%
lab.source("12_lite.cpp")

# %%
short = load(my_add, build("12_lite.cpp"))
for shape in ((4,), (2, 3, 5), (), (0, 7)):
    a, b = (np.asarray(rng.integers(-999, 999, shape), np.float32) for _ in range(2))
    assert np.array_equal(run(short, a, b), run(ready, a, b))  # 3a + 2b is exact
with raises(InvalidArgument, "MyAdd: the shapes differ."):
    run(short, np.ones((2, 3), "f"), np.ones(3, "f"))
print("by hand and lite: the same bits")

# %% [markdown]
# For attributes, write a struct instead of the function, with a constructor `(const OrtApi*, const OrtKernelInfo*)`
# and a `Compute` with these parameters. `Lite` in "Deeper: What happens to an exception" is an example.
#
# | | by hand | lite |
# |---|---|---|
# | inputs, outputs, types | methods of the op | the parameters of the function |
# | attributes | in CreateKernelV2 | in the struct's constructor, which can only throw |
# | a status from Compute | `CustomOpBase<…, true>`, ComputeV2 | return `Ort::Status` |
# | a status at creation | CreateKernelV2 | not possible |
# | optional inputs | you check for count and null | a trap: chapter 13 |
#
# The course's own kernels (`csrc/ort_ops`) use neither: `Op` in `oplab_kernel.h` takes the same parameters as the lite
# API, and no exception leaves it. It is a class on top of `OrtCustomOp`; chapter 13 shows the rest of it.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Attributes of every type, and strings
#
# `oplab_kernel.h` reads each attribute type that a kernel can read, with an error that names the operator and the attribute:
#
# | in the model | in the kernel's constructor |
# |---|---|
# | INT, FLOAT | `int_attribute`, `float_attribute` |
# | INTS, FLOATS | `ints_attribute`, `floats_attribute` |
# | STRING | `string_attribute` |
# | TENSOR of strings | `strings_attribute` |
# | STRINGS | not readable |
#
# `Lookup` uses them, and tensors of strings: it finds the value of each key, and returns the keys that are not in its table.

# %%
lab.source("12_lookup.cpp", "struct Lookup")

# %% [markdown]
# A tensor of strings is an input with the type `std::string_view`, a view of ONNX Runtime's own bytes. As an output it has the
# type `std::string`, and `SetStringOutput` copies. In the header, a string needs two calls of the C API: one for its
# size, with the zero at the end, and one for its bytes.

# %%
listing.source(kernel_header, "inline std::string string_attribute")

# %%
lookup = build("12_lookup.cpp")


def look_up(attributes):
    return onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 20, "lesson": 1]>
        g (string[] key) => (float[] value, string[k] unknown)
        {{ value, unknown = lesson.Lookup <{attributes}> (key) }}""")


KEYS = 'keys = string[3] {"kg", "g", "t"}'
keys = np.array([["g", "mg"], ["", "t"]], object)
values = f"{KEYS}, values = [1000.0, 1.0, 1000000.0]"
for attributes in (values, f"{values}, otherwise = -1.0"):
    value, unknown = load(look_up(attributes), lookup).run(None, {"key": keys})
    print(value.tolist(), unknown.tolist())
with raises(InvalidArgument, 'Lookup: no value for "mg".'):
    strictly = look_up(f'{values}, missing = "refuse"')
    load(strictly, lookup).run(None, {"key": keys})

# %% [markdown]
# Now the mistakes. Integers are not floats: `helper.make_node(…, values=[1, 2])` writes INTS too. An empty list is
# refused as well,
# because ONNX Runtime reads an attribute of *any* other type as a list without values. And a list of strings is visible but not
# readable: headers 1.21 have no function for it in a kernel. Write a tensor instead, or one string with separators, which the
# TorchScript path can write as well.

# %%
for wrong, words in {
    f"{KEYS}, values = [1, 2, 3]": "values must be a list of floats with at least one value",
    f"{KEYS}": "the attribute values is missing",
    'keys = ["kg", "g"], values = [1.0, 0.001]': "keys must be a tensor of strings, not a list",
    f"{values}, missing = 1": "the attribute missing must be a string",
}.items():
    with refused(words):
        load(look_up(wrong), lookup)

# %% [markdown]
# A view has a length, so a byte that is 0 is a character like any other, and `kg\0` is not `kg`. `SetStringOutput`, and the lite
# API's `Tensor<std::string>` as an input, take C strings and stop at this byte:

# %%
_, unknown = load(look_up(values), lookup).run(None, {"key": np.array(["kg\0", "kg"], object)})
print("unknown:", unknown.tolist())

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Constant inputs and scratch memory
#
# Weights are inputs, but in a deployed model they do not change. A kernel may read such an input in its constructor and prepare
# it once: `GetTensorConstantInput` returns the tensor and whether it is a constant. `constant_input` in `oplab_kernel.h` returns
# the constant or nothing. `Project` divides each column of `w` by its length, in the constructor if `w` is a constant, else
# in each run. Its second output counts how often it did.

# %%
lab.source("12_project.cpp", "struct Project")

# %%
project_library = build("12_project.cpp")
numbers = "float[2, 2] w = {3, 0, 4, 2}"
forms = {
    "an initializer": (f"<{numbers}>", ""),
    "the output of a Constant": ("", "w = Constant <value = float[2, 2] {3, 0, 4, 2}> ()"),
    "an input": ("", ""),
    "an input with a default": ("", ""),
}
for form, (initializers, nodes) in forms.items():
    inputs = "float[n, 2] x"
    if form == "an input":
        inputs += ", float[2, 2] w"
    elif form == "an input with a default":
        inputs += f", {numbers}"
    made = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 20, "lesson": 1]>
        g ({inputs}) => (float[n, 2] y, int64[1] times) {initializers}
        {{ {nodes} y, times = lesson.Project(x, w) }}""")
    projecting = load(made, project_library)
    feed = {"x": np.eye(2, dtype="f")}
    if form == "an input":
        feed["w"] = np.float32([[3, 0], [4, 2]])
    runs_of_it = [projecting.run(None, feed) for _ in range(3)]
    assert np.allclose(runs_of_it[0][0], [[0.6, 0], [0.8, 1]])
    print(f"{form:25} prepared {[int(times[0]) for _, times in runs_of_it]} times")

# %% [markdown]
# An initializer that is also a graph input is a default, which each run may replace. So it is not a constant. A
# kernel needs both ways.
#
# ### Scratch memory
#
# In the other way, `Compute` needs memory for the prepared `w`. ONNX Runtime's allocator keeps freed memory for the
# next run. By hand it
# takes four calls; `oplab::Scratch` is an object that frees its memory when it is destroyed. Both kernels below get 16 MB,
# and refuse a negative number while they use it.

# %%
lab.source("12_scratch.cpp", "struct ByHand")

# %%
lab.source("12_scratch.cpp", "struct WithScratch")

# %% [markdown]
# The next program limits the allocator to 256 MB and calls a kernel 100 times with a negative number.

# %%
limited = """
import sys
import numpy as np, onnxruntime as ort
ort.set_default_logger_severity(4)
arena = ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR
memory = ort.OrtMemoryInfo("Cpu", arena, 0, ort.OrtMemType.DEFAULT)
ort.create_and_register_allocator(memory, ort.OrtArenaCfg(256 << 20, -1, -1, -1))
options = ort.SessionOptions()
options.add_session_config_entry("session.use_env_allocators", "1")
options.register_custom_ops_library(sys.argv[1])
session = ort.InferenceSession(sys.argv[2], options, providers=["CPUExecutionProvider"])
for number in range(1, 101):
    try:
        session.run(None, {"x": np.float32([1, -1])})
    except Exception as error:
        if "x[1] is negative." not in str(error):
            print("run", number, "…", str(error)[str(error).index("Available"):].strip())
            break
else:
    print("x[1] is negative. (100 times)")
"""
scratches = build("12_scratch.cpp")
for name in ("ByHand", "WithScratch"):
    onnx.save(model(name, ["x"], size=4_000_000), lab.build / "scratch.onnx")
    done = in_a_process(limited, scratches, "scratch.onnx")
    assert done.returncode == 0, done.stderr
    print(f"{name:12}", done.stdout.strip())

# %% [markdown]
# The exception skips `Free` and `ReleaseAllocator`, so each refused run loses 16 MB. The destructor of an object is called in
# every case. The size is checked, too: a negative number of elements, or more bytes than an integer can hold, is refused with
# a message.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: The kernel of older texts
#
# Texts from 2021 to 2023 write kernels with `Ort::CustomOpApi`, as this one does.

# %%
from oplab.archaeology import HERE
from oplab.figures import listing

listing.source(HERE / "then.cpp", "void Compute")

# %%
from oplab.toolchain.build import BuildFailed

try:
    compile_library(HERE / "then.cpp", "ort")
except BuildFailed as error:
    stop = (HERE / "then.cpp").read_text().splitlines()[error.line - 1].strip()
    print(f"The compiler stops at line {error.line}: {stop}")
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
# | `void* CreateKernel`, `void Compute` | `CreateKernelV2`, `ComputeV2`, with a status (section 6) |
# | `ort_.KernelContext_GetInput(context, 0)` | `Ort::KernelContext{context}.GetInput(0)` |
# | `OrtTensorDimensions shape(ort_, x)` | `x.GetTensorTypeAndShapeInfo().GetShape()` |
# | `ort_.GetTensorShapeElementCount(info)`, then Release | `info.GetElementCount()`; `info` frees itself |
# | `ort_.KernelContext_GetOutput(context, 0, shape.data(), shape.size())` | `context.GetOutput(0, shape)` |
# | `ort_.GetTensorData<float>(x)`, `GetTensorMutableData` | `x.GetTensorData<float>()`, `y.GetTensorMutableData<float>()` |
# | the op exists from version 1 of its domain on | `start_ver_ = 2` in the op's constructor: from version 2 on |
# | `provider_`, kept by the op | `"CPUExecutionProvider"`, or no method at all |
# | `compute_stream_`, kept by the op and the kernel | `context.GetGPUComputeStream()` in Compute (chapter 13) |

# %%
listing.source(HERE / "now.cpp", "OrtStatus* ComputeV2")

# %%
ported = load(model("Foo", domain="archaeology"), compile_library(HERE / "now.cpp", "ort"))
a, b = rng.normal(size=(2, 3, 5)).astype(np.float32)
print("x + y, as the old kernel:", np.array_equal(run(ported, a, b), a + b))

# %% [markdown]
# `now.cpp` catches only `std::exception`. Another exception, as `throw 42`, reaches `noexcept` and ends the process (section 6):
# add `catch (...)` to your port.
#
# **`port_foo`** in [exercises/csrc/c12_port_foo.cpp](../exercises/csrc/c12_port_foo.cpp#line=50) — port a kernel from 2022
# to the current API, for version 2 of its domain.

# %%
lab.check("port_foo")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: CMake
#
# A deployment project builds its kernels with CMake. The whole build is one target.

# %%
import shutil

project = lab.fresh("project")
shutil.copy(lab.cpp("12_my_add.cpp"), project / "my_add.cpp")
lists = """cmake_minimum_required(VERSION 3.18)
project(my_kernels LANGUAGES CXX)
find_path(ORT_INCLUDE_DIR onnxruntime_cxx_api.h PATH_SUFFIXES onnxruntime REQUIRED)

add_library(my_kernels SHARED my_add.cpp)
target_compile_features(my_kernels PRIVATE cxx_std_17)
target_compile_definitions(my_kernels PRIVATE ORT_API_MANUAL_INIT)
target_include_directories(my_kernels SYSTEM PRIVATE ${ORT_INCLUDE_DIR})
set_target_properties(my_kernels PROPERTIES PREFIX "" SUFFIX ".so" CXX_VISIBILITY_PRESET hidden)
"""
_ = (project / "CMakeLists.txt").write_text(lists)

# %% [markdown]
# - `find_path` looks for the headers; you can set their folder with `-DORT_INCLUDE_DIR=…`. There is no `find_package` and
#   no `target_link_libraries`: the library does not link against ONNX Runtime.
# - `ORT_API_MANUAL_INIT` stops the headers from calling `OrtGetApiBase()` by themselves, a function that is not in
#   your library. You call `Ort::InitApi` in `RegisterCustomOps` instead.
# - `SYSTEM` keeps warnings of the headers out of your log.
# - `hidden` keeps your classes private to the library. Without it, two libraries on Linux share the static variables of
#   inline functions and templates that have the same name, and such a library is never unloaded. (In one program, section
#   7, two structs with the name `Kernel` become one: `12_my_add.cpp` puts them into an anonymous namespace.)
#
# That last setting hides the entry point too. So the finished file (section 8) makes it visible again with an attribute.
#
# Call CMake twice: once to configure, once to build. If CMake is not installed, the next cell calls the compiler with the
# same flags.

# %%
from oplab.toolchain.compiler import find_compiler
from oplab.toolchain.headers import ort_include

made = project / "build" / "my_kernels.so"
if cmake := shutil.which("cmake"):
    configure = [cmake, "-S", project, "-B", project / "build", "-DCMAKE_BUILD_TYPE=Release"]
    commands = [[*configure, f"-DORT_INCLUDE_DIR={ort_include()}"]]
    commands += [[cmake, "--build", project / "build"]]
else:
    made.parent.mkdir()
    flags = "-std=c++17 -O3 -fPIC -shared -fvisibility=hidden -DORT_API_MANUAL_INIT".split()
    flags += [f"-isystem{ort_include()}", project / "my_add.cpp", "-o", made]
    commands = [[*find_compiler().command, *flags]]
for command in commands:
    subprocess.run([*map(str, command)], check=True, capture_output=True)
a, b = rng.integers(-999, 999, (2, 1000)).astype(np.float32)  # 3a + 2b is exact
print("the same bits:", np.array_equal(run(load(my_add, made), a, b), run(ready, a, b)))

# %% [markdown]
# `csrc/ort_ops/CMakeLists.txt` is the course's own build, and you can now read every line of it. It does more than yours:

# %%
course = (paths.root() / "csrc" / "ort_ops" / "CMakeLists.txt").read_text()
for words, why in {
    "file(STRINGS compile_flags.txt OPLAB_FLAGS)": "one list of flags, for Python too",
    "-Wl,-z,defs": "a function that is never defined is an error now, not at the load",
    "--version-script": "a list of what is visible: RegisterCustomOps and nothing else",
    "--defsym=oplab_entry=RegisterCustomOps": "a missing entry point is an error (section 2)",
    "OPLAB_EXERCISE": "it builds your exercise: -DOPLAB_EXERCISE=exercises/csrc/c12_my_add.cpp",
}.items():
    assert words in course
    print(f"{words}\n    {why}")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Your own host program
#
# A deployment is often one small program around a session. The next one takes a model, a library of kernels and a size. It
# prints what the model's inputs are called and which shapes they have, fills each input with 1, 2, 3, …, and prints the
# first output. Nothing about the model is written down in it.

# %%
lab.source("12_counts.cpp")

# %% [markdown]
# `compile_library` with the kind `"host"` makes a program, which you can also call in a terminal. It has the flags of the
# kernels, with two differences:

# %%
from oplab.toolchain.recipes import recipe

for kind in ("ort", "host"):
    how = recipe(kind)
    linked = any("libonnxruntime" in flag for flag in how.link)
    print(f"{kind:5} linked: {linked!s:6} manual: {'-DORT_API_MANUAL_INIT' in how.flags}")

# %% [markdown]
# A program is **linked** with ONNX Runtime's library, so the headers can call `OrtGetApiBase()` by themselves before
# `main` begins, and you do not call `Ort::InitApi`. Here it runs, with the library of section 6 and the model of section
# 1, whose inputs have one dynamic dimension:

# %%
counts = compile_library(lab.cpp("12_counts.cpp"), "host")
onnx.save(vectors, lab.build / "vectors.onnx")


def call(*arguments):
    command = [str(counts), *map(str, arguments)]
    return subprocess.run(command, cwd=lab.build, capture_output=True, text=True, timeout=600)


for size in (4, 7):
    done = call("vectors.onnx", library, size)
    assert done.returncode == 0, done.stderr
    print(done.stdout)

# %% [markdown]
# Most mistakes in such a program are about lifetimes, because its objects hold addresses and copy nothing:
#
# | must live | as long as | otherwise |
# |---|---|---|
# | `Ort::Env` | every session | undefined |
# | the `AllocatedStringPtr` of a name | the call of `Run` | "Invalid input name", followed by random bytes |
# | the values of an input | the call of `Run` | other values, or a crash |
# | the `Ort::Value` of an output | its pointer is used | other values, or a crash |
#
# The second row is the most frequent one: `session.GetInputNameAllocated(0, allocator).get()` in a single expression
# frees the name at the semicolon.
#
# Now the failures. This program leaves them to chance:

# %%
import signal

for files in (("vectors.onnx", "missing.so"), ("missing.onnx", library)):
    done = call(*files, 4)
    assert "Ort::Exception" in done.stderr
    print("ended by", signal.Signals(-done.returncode).name)

# %% [markdown]
# The C++ classes throw `Ort::Exception` for each status that is not OK, and it derives from `std::exception`. An
# exception that leaves `main` ends the process with `abort`. So a program catches everything in `main`, prints the
# sentence of the exception, and returns a number that is not 0. Two mistakes it has to find without ONNX Runtime:
# `CreateTensor` accepts a buffer that is *larger* than the shape needs, and `GetTensorData<float>` does not look at the
# type of the output.
#
# **`host`** in [exercises/csrc/c12_host.cpp](../exercises/csrc/c12_host.cpp#line=72) — write a program that runs any
# model of one input on a file of floats, and ends every failure with a sentence.

# %%
lab.check("host")

# %% [markdown]
# ## Five questions

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - Chapter 13: real kernels. `csrc/ort_ops/grid.cpp` is one.
# - `csrc/ort_ops/oplab_kernel.h` and `docs/operators.md`: how the course's kernels follow the rules of section 6.
# - `onnxruntime_c_api.h`, the struct `OrtCustomOp`: the table of functions on which everything in this chapter is built.
# - `csrc/host`: the complete program of section 7.
#
# Previous: [11: Kernels without a compiler](11_kernels_without_a_compiler.ipynb)
# · Next: [13: Real kernels](13_real_kernels.ipynb)
# · [Glossary](../docs/glossary.md)
