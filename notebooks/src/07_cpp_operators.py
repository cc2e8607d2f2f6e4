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
# # 07 · C++ operators for PyTorch
#
# After this chapter you can
#
# - write an operator in C++, make it available in PyTorch in three ways, and choose the right one for new code;
# - add what export and training need besides a kernel: a schema, a fake, a backward;
# - find the four faults that many custom operators have, with `opcheck` and with inputs of unusual layouts.
#
# In the previous chapters, the operators already existed and you mapped them. In this chapter you write one: `my_add`, alpha·a +
# beta·b. It is so small that you can concentrate on the code around it.
#
# You need a little C++: pointers, references, templates. If you have not written any yet, read [A1](A1_cpp_in_an_hour.ipynb)
# first. This cell compiles a loop, calls it from Python, and exports a model that uses it:

# %%
from oplab import lesson, quiet_exports

# isort: split
import os

os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"
os.environ["TORCH_LOGS"] = "-all"  # a failing export logs what it also raises
import ctypes

import torch

from oplab.toolchain.build import compile_library

lab = lesson("07_cpp_operators")
quiet_exports()
loop = ctypes.CDLL(str(compile_library(lab.cpp("07_loop.cpp"), "cpp"))).my_add
loop.argtypes = [ctypes.c_void_p] * 3 + [ctypes.c_int64]


class Loop(torch.nn.Module):
    def forward(self, a, b):
        y = torch.zeros(3, 4)
        loop(a.data_ptr(), b.data_ptr(), y.data_ptr(), y.numel())  # y = 3a + 2b
        return y


torch.manual_seed(7)
a, b = torch.randint(-8, 9, (2, 3, 4)) / 4  # quarters: 3a + 2b is exact, on any processor
print("eager:", torch.equal(Loop()(a, b), 3 * a + 2 * b))
lost = lab.build / "lost.onnx"
names = {"input_names": ["a", "b"], "output_names": ["y"]}
torch.onnx.export(Loop(), (a, b), lost, dynamo=False, opset_version=13, **names)
lab.show(lost)

# %% [markdown]
# In eager mode the result is right. The export succeeds too, with no warning about the loop, and its graph has **one Constant and no
# inputs**: the loop is gone. To the exporter, your C++ does not exist. In this chapter you give it a name that PyTorch knows.
#
# The C++ is not the cause. It is a function on plain pointers:

# %%
lab.source("07_loop.cpp")

# %% [markdown]
# ## 1. The first way: pybind11
#
# Many existing C++ operators have this form: a function on `torch::Tensor`, bound to Python by pybind11. It is short, because a
# `torch::Tensor` has all the operators that you know from Python.
#
# The build defines `TORCH_EXTENSION_NAME`. It has to be the name under which Python imports the file. `my_add_raw` has a loop
# like the one above; section 3 exports it.

# %%
lab.source("07_pybind.cpp")

# %% [markdown]
# `setup.py` describes the build. `CppExtension` takes
#
# - the module's **name**, which becomes `TORCH_EXTENSION_NAME`, and the **sources**;
# - `include_dirs`: folders with your own headers; PyTorch's headers are added for you;
# - `extra_compile_args`: flags for the compiler, here for a short build: no optimisation and no debug information. Code that you
#   install is built with `-O2`.

# %%
import shutil


def setup_py(name, include="", flags=""):
    """The text of a setup.py for one extension module."""
    return f'''\
import os

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

extension = CppExtension(
    name="{name}",
    sources=["my_add.cpp"],
    include_dirs=[{include}],
    extra_compile_args={{"cxx": ["-O0", "-g0"{flags}]}},
)
setup(name="my_add", ext_modules=[extension], cmdclass={{"build_ext": BuildExtension}})
'''


def project(name, setup, source, header=None):
    """A folder with a setup.py, my_add.cpp and, if there is one, a header in `include`."""
    folder = lab.fresh(name)
    (folder / "setup.py").write_text(setup)
    shutil.copy(lab.cpp(source), folder / "my_add.cpp")
    if header:
        (folder / "include").mkdir()
        shutil.copy(lab.cpp(header), folder / "include")
    return folder


files = "07_pybind.cpp", "07_defaults.h"
first = project("pybind", setup_py("my_lib", include='"include"'), *files)
print(setup_py("my_lib", include='"include"'))

# %% [markdown]
# Older texts end here with `python setup.py develop` or `install`. Today you use pip: `pip install --no-build-isolation .`, which
# the deeper section "A package that pip installs" does. Here, `build_extensions` runs `python setup.py build_ext`, which compiles
# the extension without installing it. The build fails:


# %%
from oplab.toolchain.build import BuildFailed
from oplab.toolchain.extensions import build_extensions


def fails_to_build(words, build, *args):
    try:
        build(*args)
    except BuildFailed as error:
        assert words in error.message
        print(f"{error.file.name}, line {error.line}: {error.message.split('error: ')[-1]}")
    else:
        raise AssertionError("the build was to fail")


fails_to_build("07_defaults.h: No such file", build_extensions, [first])

# %% [markdown]
# The header exists. But `BuildExtension` compiles with ninja, in a *different* folder, and there `include` refers to something
# else. Folders in `include_dirs` have to be absolute. (Without ninja the relative folder works, so you may see this error only on
# another machine.)

# %%
absolute = 'os.path.abspath("include")'
first = project("pybind", setup_py("my_lib", include=absolute), *files)

# %% [markdown]
# ## 2. The second and the third way
#
# The second way does not bind a function to Python. It **registers an operator with PyTorch**: `TORCH_LIBRARY` defines the
# operator with a *schema*, and names the function that computes it.

# %%
lab.source("07_aten.cpp")

# %% [markdown]
# The third way does the same through the **stable ABI**: three headers in `torch/csrc/stable`, with the promise that the compiled
# file still loads in later versions of PyTorch. It has fewer operators on tensors, so you write the loop. Note three things:
#
# - `STABLE_TORCH_LIBRARY` registers the schemas, and `STABLE_TORCH_LIBRARY_IMPL(namespace, CPU, m)` the kernels of one device;
# - `TORCH_BOX` packs the arguments into a form that does not change between versions;
# - a `float` in a schema is a `double` in C++, an `int` is an `int64_t`, and a `Tensor?` is a `std::optional<Tensor>`.

# %%
lab.source("07_stable.cpp")

# %% [markdown]
# `TORCH_TARGET_VERSION` is the oldest version of PyTorch that has to load the file: 2.13. All three builds use the same
# `setup.py`, except for the module's name, the include folder and this one flag.

# %%
target = ', "-DTORCH_TARGET_VERSION=0x020d000000000000"'
second = project("aten", setup_py("lab07_aten"), "07_aten.cpp")
third = project("stable", setup_py("lab07_stable", flags=target), "07_stable.cpp")

# %% [markdown]
# Now build all three **at the same time**. The elapsed time is therefore not a useful measure: the three builds share the processor.
# The figure below shows the processor time of the compiler and the linker. The first run of this cell takes half a minute. The
# libraries and their times are cached under a key that depends on the sources, so the second run reads them.

# %%
pybind, aten, stable = build_extensions([first, second, third])

# %% {"jupyter": {"source_hidden": true}}
import matplotlib.pyplot as plt

from oplab.figures.palette import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, RED

labels = ["torch/extension.h\npybind11", "ATen/ATen.h\nTORCH_LIBRARY"]
labels += ["torch/csrc/stable\nSTABLE_TORCH_LIBRARY"]
times = [pybind.seconds, aten.seconds, stable.seconds]
ratios = [f", {t / stable.seconds:.0f}×" for t in times[:2]] + [""]
figure, axes = plt.subplots(figsize=(9, 2.6), layout="constrained")
bars = axes.barh(labels, times, color=[ORANGE, PURPLE, BLUE], height=0.6)
axes.bar_label(bars, [f"{t:.1f} s{x}" for t, x in zip(times, ratios, strict=True)], padding=5)
axes.set(xlabel="processor time of compiler and linker, seconds", xlim=(0, 1.2 * max(times)))
axes.invert_yaxis()
lab.figure(
    figure,
    "Three bars, the build time of the same operator: longest with torch/extension.h, "
    "shorter with ATen/ATen.h, and a small part of both with the headers of the stable ABI.",
)

# %% [markdown]
# Almost all of this time is spent on reading headers. Some texts state that `torch/extension.h` contains more than
# `torch/torch.h`, and that the two are the same in an extension. Read both files:

# %%
include = os.path.join(os.path.dirname(torch.__file__), "include")
for name in ("torch/csrc/api/include/torch/torch.h", "torch/extension.h"):
    lines = open(os.path.join(include, name)).read().splitlines()
    shown = [line for line in lines if line.startswith(("#include", "#ifdef TORCH_API"))]
    print(f"{name.split('include/')[-1]:18}", shown)

# %% [markdown]
# Both include `torch/all.h`. `torch/extension.h` adds `torch/python.h`, which includes pybind11. `CppExtension` defines
# `TORCH_API_INCLUDE_EXTENSION_H`, so `torch/torch.h` includes `torch/extension.h` too. That is why older sources with
# `torch/torch.h` compile.
#
# ### Load them
#
# Python imports a pybind11 module. The file has one entry point, `PyInit_my_lib`, so the name has to match.


# %%
import importlib.util

from oplab import raises


def load_module(name, file):
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


my_lib = load_module("my_lib", pybind.library)
print("its m.doc():", my_lib.__doc__)
with raises(ImportError, "PyInit_my_add"):
    load_module("my_add", pybind.library)

# %% [markdown]
# Python does not import an operator library. PyTorch loads it, and its operators appear under `torch.ops`.

# %%
torch.ops.load_library(aten.library)
torch.ops.load_library(stable.library)
print(torch.ops.lab07.my_add.default._schema)

# %%
aten_add, stable_add = torch.ops.lab07_aten.my_add, torch.ops.lab07.my_add
ways = {"pybind11": my_lib.my_add, "TORCH_LIBRARY": aten_add, "stable": stable_add}
for name, my_add in ways.items():
    print(f"{name:14} 3a + 2b: {torch.allclose(my_add(a, b), 3 * a + 2 * b)}", end="   ")
    print(f"2a + b: {torch.allclose(my_add(a, b, 2.0, 1.0), 2 * a + b)}")

# %% [markdown]
# Existing code uses the name for both formulas: some calls 3a + 2b `my_add`, some 2a + b. With the
# coefficients as arguments, the two are one operator, and the defaults are those of the first definition.
#
# ### What the file needs from PyTorch
#
# Why does the third library load in other versions? Look at the symbols that each file needs from outside: names of C++ functions
# with all their argument types, or plain C names.


# %%
import subprocess


def wanted(library):
    done = subprocess.run(["nm", "-u", library], capture_output=True, text=True, check=True)
    names = [line.split()[-1] for line in done.stdout.splitlines()]
    cpp = [name for name in names if any(part in name for part in ("2at", "3c10", "5torch"))]
    return cpp, [
        name for name in names if name.lstrip("_").startswith(("aoti_torch", "torch_"))
    ]


# %%
for label, extension in (("pybind11", pybind), ("TORCH_LIBRARY", aten), ("stable", stable)):
    cpp, c = ("yes" if names else "none" for names in wanted(extension.library))
    print(f"{label:14} C++ names of PyTorch: {cpp:5}   C names: {c}")
assert wanted(pybind.library)[0] and wanted(aten.library)[0]
assert not wanted(stable.library)[0]

# %% [markdown]
# A C++ name such as `at::_ops::add_Tensor::call(at::Tensor const&, …)` may be gone in the next release, and a class may have a
# different size: you have to compile the file again for each version of PyTorch. PyTorch's policy is to keep the C names
# for two years. **The third way compiles fast and works with several versions: it is the right choice today.** You
# still have to be able to read the first two. (The policy covers PyTorch only. The file is still named after one version of
# Python; use `py_limited_api=True` to avoid that.)

# %% [markdown]
# ## 3. What pybind11 cannot do
#
# `my_lib.my_add` computes with PyTorch's own operators, which autograd and both export paths can see.


# %%
class Call(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, a, b):
        return self.function(a, b)


# %%
import io

import onnx


def export(module, inputs):
    file = io.BytesIO()
    names = {"input_names": ["a", "b"], "output_names": ["y"]}
    torch.onnx.export(module, inputs, file, dynamo=False, opset_version=13, **names)
    return onnx.load_model_from_string(file.getvalue())


def summary(model):
    nodes, inputs = model.graph.node, model.graph.input
    return [node.op_type for node in nodes], "inputs", [value.name for value in inputs]


good = export(Call(my_lib.my_add), (a, b))
print("TorchScript path:", *summary(good))
modern = torch.onnx.export(Call(my_lib.my_add), (a, b), dynamo=True, verbose=False)
print("dynamo path:     ", *summary(modern.model_proto))

# %% [markdown]
# But you do not need C++ to call `a + b`. You need it for your own loop over raw pointers: `my_add_raw`. In eager mode, this
# function is correct:

# %%
print("eager:", torch.allclose(my_lib.my_add_raw(a, b), 3 * a + 2 * b))

# %% [markdown]
# *(TorchScript path.)* Export it. There is no error.

# %%
empty = export(Call(my_lib.my_add_raw), (a, b))
onnx.checker.check_model(empty, full_check=True)
print(*summary(empty))
lab.show(good, empty)

# %% [markdown]
# The result is the graph from the beginning: **one Constant and no inputs**. The tracer saw `torch::empty` but not the loop,
# because a write through a pointer is not an operator. The model is valid, loads and runs. Its output has nothing to do with a
# and b:

# %%
import numpy as np
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from oplab import session

with raises(InvalidArgument, "Invalid input name: a"):
    session(empty).run(None, {"a": a.numpy()})
(constant,) = session(empty).run(None, {})
print("shape:", list(constant.shape), " 3a + 2b:", np.allclose(constant, 3 * a + 2 * b))

# %% [markdown]
# *(dynamo path.)* This path is stricter. Its tensors have no memory during tracing, so a pointer into them is an error.

# %%
stopped = "Failed to export the model with torch.export"
with raises(torch.onnx.OnnxExporterError, stopped):
    torch.onnx.export(Call(my_lib.my_add_raw), (a, b), dynamo=True, verbose=False)
with raises(RuntimeError, "erroneously tracing into a custom kernel"):
    torch.export.export(Call(my_lib.my_add_raw), (a, b))

# %% [markdown]
# Training does not work either. The result has no record of how it was computed:

# %%
x = a.clone().requires_grad_()
print("operators:", my_lib.my_add(x, b).requires_grad)
print("raw:      ", my_lib.my_add_raw(x, b).requires_grad)

# %% [markdown]
# The classic fix is an `autograd.Function` around it. This fixes the gradients and, with a method `symbolic`, the TorchScript
# path (chapter 08). You have to remember to call `apply`, and never the function itself.


# %%
class MyAddFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        return my_lib.my_add_raw(a, b)

    @staticmethod
    def backward(ctx, grad):
        return 3 * grad, 2 * grad


MyAddFunction.apply(x, b).sum().backward()
print("the gradient of a:", x.grad.unique().tolist())

# %% [markdown]
# ### Layouts
#
# One fault remains, and it causes no error anywhere. The loop reads memory in order. A transposed tensor stores its values in a
# different order.

# %%
turned = torch.arange(12.0).reshape(4, 3).t()
zero = torch.zeros(3, 4)
print("strides", turned.stride(), " contiguous:", turned.is_contiguous())
wrong = my_lib.my_add_raw(turned, zero) / 3
right = torch.ops.lab07.my_add(turned, zero, 1.0, 0.0)
print("raw loop:", torch.equal(wrong, turned), "  stable:", torch.equal(right, turned))


# %% {"jupyter": {"source_hidden": true}}
def grid(axes, values, title, colours):
    axes.imshow(colours, cmap="viridis", vmin=0, vmax=30)
    for (row, column), value in np.ndenumerate(np.atleast_2d(values)):
        style = {"ha": "center", "va": "center", "color": "white", "weight": "bold"}
        axes.text(column, row, f"{value:.0f}", **style)
    axes.set_title(title, fontsize=11)
    axes.set(xticks=[], yticks=[])


memory = np.arange(12.0)[None]
figure, panels = plt.subplot_mosaic(
    [["m", "m"], ["t", "w"]], figsize=(9, 3.6), height_ratios=[1, 2.4], layout="constrained"
)
grid(panels["m"], memory, "memory, in order: what the raw loop reads", memory)
grid(panels["t"], turned, "the tensor: 3 × 4, strides (1, 3)", turned)
grid(panels["w"], wrong, "what the raw loop takes it for", wrong)
lab.figure(
    figure,
    "The numbers 0 to 11 in memory. The tensor with strides (1, 3) has them column by column; "
    "the raw loop fills its result with them row by row.",
)

# %% [markdown]
# There are two fixes: follow `a.strides()`, or make the input contiguous first. `torch::stable::contiguous(a)` copies only if it
# has to. Older code asserts `a.is_contiguous()` instead and leaves the copy to the caller, who forgets it.

# %% [markdown]
# ## 4. The dispatcher
#
# Why do operators from `TORCH_LIBRARY` not disappear from the graph? Because your code does not call their kernel directly. A
# call goes to the **dispatcher**, which looks up in the operator's table what to do for these tensors, layer by layer. Tracing,
# autograd and fake tensors are such layers: each has its own entry, and sees the call by its name.


# %% {"jupyter": {"source_hidden": true}}
from matplotlib.patches import FancyBboxPatch


def box(axes, x, y, width, height, text, colour):
    style = "round,pad=0.04,rounding_size=0.12"
    patch = FancyBboxPatch((x, y), width, height, boxstyle=style, fc="none", ec=colour, lw=1.8)
    axes.add_patch(patch)
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=9.5)


def arrow(axes, start, end, style="-", colour=INK):
    axes.annotate(
        "", end, start, arrowprops={"arrowstyle": "-|>", "color": colour, "ls": style}
    )


rows = [
    ("Autograd", "requires_grad?", "register_autograd\n(section 8)"),
    ("Python: fake tensors", "no data: export, torch.compile", "register_fake\n(section 7)"),
    ("CPU", "data in memory", "STABLE_TORCH_LIBRARY_IMPL\n(lab07, CPU, m)"),
    ("CUDA", "data on a GPU", "STABLE_TORCH_LIBRARY_IMPL\n(lab07, CUDA, m)"),
]
figure, axes = plt.subplots(figsize=(11, 4.3), layout="constrained")
axes.set(xlim=(0, 11), ylim=(0, 4.3))
axes.axis("off")
box(axes, 0.1, 1.9, 2.3, 0.9, "torch.ops.lab07\n.my_add(a, b)", BLUE)
box(axes, 3.1, 0.1, 4.3, 4.0, "", GREY)
title = "the dispatcher's table for lab07::my_add"
axes.text(5.25, 3.9, title, ha="center", va="center", fontsize=9.5, weight="bold")
arrow(axes, (2.45, 2.35), (3.05, 2.35))
for number, (key, when, who) in enumerate(rows):
    y = 2.85 - 0.9 * number
    box(axes, 3.3, y, 3.9, 0.62, f"{key}\n{when}", ORANGE if number < 2 else GREEN)
    box(axes, 8.1, y, 2.8, 0.62, who, PURPLE)
    arrow(axes, (8.05, y + 0.31), (7.25, y + 0.31), ":", PURPLE)
lab.figure(
    figure,
    "The call torch.ops.lab07.my_add goes to the dispatcher's table, which has four entries: "
    "Autograd, filled by register_autograd; fake tensors, filled by register_fake; CPU and "
    "CUDA, each filled by STABLE_TORCH_LIBRARY_IMPL.",
)

# %% [markdown]
# The raw pybind11 function has no name in the dispatcher, so a call bypasses it. *(TorchScript path.)* The stable operator cannot
# become a Constant. The exporter finds a name that it does not know, and raises an error. Chapters 05 and 06 showed how to map
# such an operator.

# %%
unknown = "unrecognized namespace lab07::my_add"
with raises(torch.onnx.errors.UnsupportedOperatorError, unknown):
    export(Call(torch.ops.lab07.my_add), (a, b))

# %% [markdown]
# PyTorch also checks each call against the schema before any of your code runs:

# %%
with raises(RuntimeError, "missing value for argument 'b'"):
    torch.ops.lab07.my_add(a)
with raises(RuntimeError, "Expected a value of type 'float' for argument 'alpha'"):
    torch.ops.lab07.my_add(a, b, "three")

# %% [markdown]
# ## 5. Compile while you work: one file, one second
#
# For one file you do not need a `setup.py`. `compile_library` calls the compiler once, with the flags of the course's own
# operators, and caches the library by the source's content. Your C++ exercises are built in this way when you check them.


# %%
def load_operators(name):
    torch.ops.load_library(compile_library(lab.cpp(name), "torch"))


typo = lab.build / "typo.cpp"
typo.write_text("double twice(double alpha) { return 2 * aplha; }\n")
fails_to_build("'aplha' was not declared", compile_library, typo, "torch")

# %% [markdown]
# The compiler finds a typo. It does not find a C++ `float` where the schema's `float` needs a `double`: a boxed argument is raw
# bytes, and the first four bytes of the double 3.0, read as a float, are 0.

# %%
load_operators("07_float.cpp")
halved = torch.ops.lab07_float.my_add
print("largest value with `float alpha`:", halved(a, b).abs().max().item())
assert not halved(a, b).any() and torch.ops.lab07.my_add(a, b).any()
lab.diff("07_stable.cpp", "07_float.cpp")

# %% [markdown]
# ### Checks first
#
# The kernel of section 2 trusts its caller. If the shapes differ, it may read beyond the end of a tensor without an error. Check
# the inputs **before you take the first pointer**: a failed `STD_TORCH_CHECK` becomes a RuntimeError in Python. The file
# registers the operator three times, because the lesson adds different parts to each copy later.

# %%
load_operators("07_my_add.cpp")
checked = torch.ops.lab07_checked.my_add
with raises(RuntimeError, "a and b must have the same shape"):
    checked(torch.ones(3, 4), torch.ones(4))
lab.source("07_my_add.cpp")

# %% [markdown]
# `const_data_ptr<float>()` checks the dtype for you. To support a second dtype, write the loop as a template, and choose by
# `a.scalar_type() == torch::headeronly::ScalarType::Double`.


# %%
def refusal(operator, *inputs):
    """What the RuntimeError of a call says, without PyTorch's file that it comes from."""
    try:
        operator(*inputs)
    except RuntimeError as error:
        return str(error).split(", ")[-1]
    raise AssertionError("no RuntimeError was raised")


print(refusal(checked, a.double(), b.double()))
assert refusal(checked, a.double(), b.double()).endswith("ScalarType::Float but found Double")

# %% [markdown]
# ## 6. The remaining failure: export
#
# With a schema and a kernel, the operator runs. Now put it into a model and export the model. *(dynamo path; torch.export and
# torch.compile fail in the same way.)*

# %%
model = Call(torch.ops.lab07.my_add)
with raises(Exception, "lab07.my_add.default"):
    torch.export.export(model, (a, b))
with raises(torch.onnx.OnnxExporterError, stopped):
    torch.onnx.export(model, (a, b), dynamo=True, verbose=False)
with raises(torch._dynamo.exc.Unsupported, "does not support running with fake tensors"):
    torch.compile(model, backend="eager", fullgraph=True)(a, b)

# %% [markdown]
# All three run your model with **fake tensors**: shape, dtype, strides and device, but no data. A kernel that reads data cannot
# run on them. The second way did not need anything more here, because its function calls ATen operators, which have fakes.
#
# ## 7. The fake
#
# A fake is a Python function that describes the result without computing it. Many texts write it like this:


# %%
@torch.library.register_fake("lab07::my_add")
def naive_fake(a, b, alpha=3.0, beta=2.0):
    return torch.empty_like(a)


program = torch.export.export(model, (a, b))
print([str(node.target) for node in program.graph.nodes if node.op == "call_function"])

# %% [markdown]
# The export succeeds. Is the fake correct? Do not judge it by reading it: use `opcheck`. It runs four tests on the inputs that
# you give it. Two contiguous tensors prove little, so use a transposed tensor as well.


# %%
def opcheck(operator, *inputs):
    report = torch.library.opcheck(operator.default, inputs, raise_exception=False)
    for test, outcome in report.items():
        text = " ".join(str(outcome).split())
        print(f"{test:27}", text if text == "SUCCESS" else f"FAILED: {text[:150]} …")
    return all(outcome == "SUCCESS" for outcome in report.values())


assert opcheck(torch.ops.lab07.my_add, a, b)

# %%
assert not opcheck(torch.ops.lab07.my_add, turned, zero)

# %% [markdown]
# `empty_like` keeps the strides of a transposed tensor; the kernel returns a contiguous tensor. Code that was compiled with the
# fake's strides reads the result in the wrong order. The next fake fixes this, and it also has the kernel's checks: the fake has
# to refuse what the kernel refuses, or you can export a model that cannot run.


# %%
@torch.library.register_fake("lab07_checked::my_add")
def fake(a, b, alpha=3.0, beta=2.0):
    torch._check(a.dim() == b.dim(), lambda: "a and b must have the same shape.")
    for m, n in zip(a.shape, b.shape, strict=True):
        torch._check(m == n, lambda: "a and b must have the same shape.")
    torch._check(a.dtype == b.dtype, lambda: "a and b must have the same dtype.")
    torch._check(a.device == b.device, lambda: "a and b must be on the same device.")
    return torch.empty_like(a, memory_format=torch.contiguous_format)


assert opcheck(checked, turned, zero)

# %% [markdown]
# The shape comes from `a`, never from a constant. So a dynamic size stays dynamic:

# %%
rows = torch.export.Dim("rows")
program = torch.export.export(Call(checked), (a, b), dynamic_shapes=({0: rows}, {0: rows}))
more = torch.randn(11, 4)
print("at 11 rows:", torch.allclose(program.module()(more, more), 5 * more))
with raises(Exception, "a and b must have the same shape"):
    torch.export.export(Call(checked), (a, b[:2]))

# %% [markdown]
# Why compare size by size? Some sizes depend on the data: the length of `a[a > 0]` is known only at run time. During export it is
# a symbol without a value. `a.shape == b.shape` needs True or False immediately; `torch._check(m == n, …)` records the comparison
# as a condition, which is checked when the program runs.

# %%
whole = torch.ops.lab07_whole.my_add


@torch.library.register_fake("lab07_whole::my_add")
def whole_shapes(a, b, alpha=3.0, beta=2.0):
    torch._check(a.shape == b.shape, lambda: "a and b must have the same shape.")
    return torch.empty_like(a, memory_format=torch.contiguous_format)


# %%
from contextlib import redirect_stderr, redirect_stdout


def selected(function):
    return Call(lambda a, b: function(a[a > 0], b[b > 0]))


with redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()) as said:
    with raises(Exception, "Could not guard on data-dependent expression"):
        torch.export.export(selected(whole), (a, b))  # stderr gets the program so far
print(said.getvalue().split(" expression")[0])  # the rest names the symbols, in any order
program = torch.export.export(selected(checked), (a, b)).module()
print("as many positive values:", torch.equal(program(a, a), 5 * a[a > 0]))
with raises(RuntimeError, "Runtime assertion failed"):
    program(a, -a.abs())

# %% [markdown]
# Chapters 08 and 10 show how to map this node to ONNX. Without a mapping, the **dynamo path** now stops at a later step:

# %%
unmapped = "Failed to convert the exported program to an ONNX model"
with raises(torch.onnx.OnnxExporterError, unmapped):
    torch.onnx.export(Call(checked), (a, b), dynamo=True, verbose=False)

# %% [markdown]
# ## 8. The backward
#
# Train through the operator. There is no error and no gradient, only a warning that is easy to miss:

# %%
import warnings

x = a.clone().requires_grad_()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    checked(x, b).sum().backward()
print("gradient:", x.grad)
sentences = [part for entry in caught for part in str(entry.message).split(". ")]
print([part for part in sentences if "silently" in part])

# %% [markdown]
# `register_autograd` takes two functions. `setup_context` saves what the backward will need. `backward` gets the gradient of the
# result and returns **one entry for each argument of the schema**: None for the coefficients. Register it before the first call,
# because PyTorch caches properties of an operator. That is why the file has the copy `lab07_trained`.


# %%
def setup_context(ctx, inputs, output):
    _, _, ctx.alpha, ctx.beta = inputs


def backward(ctx, grad):
    return ctx.alpha * grad, ctx.beta * grad, None, None


trained = torch.ops.lab07_trained.my_add
torch.library.register_fake("lab07_trained::my_add", fake)
name = "lab07_trained::my_add"
torch.library.register_autograd(name, backward, setup_context=setup_context)

# %%
x, z = a.clone().requires_grad_(), b.clone().requires_grad_()
trained(x, z, -0.5).sum().backward()
print("gradients:", x.grad.unique().tolist(), z.grad.unique().tolist())
assert opcheck(trained, a.clone().requires_grad_(), b.clone().requires_grad_())

# %% [markdown]
# To verify the formula, use `gradcheck`: it changes each input slightly and compares the results. Give it float64 inputs, because
# the differences are lost in the rounding errors of float32. The course's own `oplab::my_add` supports float64, and has the same
# backward.

# %%
from oplab import ops

ops.load()
double = [torch.randn(3, 2, dtype=torch.float64).requires_grad_() for _ in range(2)]
print(torch.autograd.gradcheck(lambda a, b: torch.ops.oplab.my_add(a, b, 0.5, -3.0), double))

# %% [markdown]
# ## 9. A result that aliases an input
#
# There is a tempting shortcut: if alpha is 1 and beta is 0, the result *is* a, so return a and copy nothing.

# %%
load_operators("07_shortcut.cpp")
clever = torch.ops.lab07_clever.my_add
torch.library.register_fake("lab07_clever::my_add", fake)
source = torch.zeros(3, 4)
result = clever(source, b, 1.0, 0.0)
result += 1
print("source after a change of the result:", source.unique().tolist())
lab.source("07_shortcut.cpp", "Tensor my_add")

# %% [markdown]
# The caller changed the result and overwrote the input. The schema declares `-> Tensor`, a new tensor. Compiled code relies on
# that. `opcheck` finds the error if you pass the coefficients that take the shortcut. The last of its four tests only warns,
# unless the environment variable `CI` is set when PyTorch is loaded; the first line of the next cell makes it an error
# everywhere.

# %%
torch._functorch.config.error_on_custom_op_aliasing = True
assert opcheck(clever, a, b)
assert not opcheck(clever, a, b, 1.0, 0.0)

# %% [markdown]
# An operator that does change an input declares this in its schema, with `Tensor(a!) x`. A view of an input is `-> Tensor(a)`.
# Neither works well with export; return a new tensor.

# %% [markdown]
# ## 10. Sizes that follow from attributes
#
# The result of `my_add` has the shape of its inputs. In other operators the arguments that are not tensors, which become
# **attributes** in ONNX, decide the shape. `windows` copies `size` neighbouring values into each row. With `wrap`, the last
# windows continue at the beginning, so there are more rows.

# %%
load_operators("07_windows.cpp")
windows = torch.ops.lab07_windows.windows
print(windows.default._schema)
x = torch.arange(5.0)
print(windows(x).tolist())
print(windows(x, 2, wrap=True).tolist())
lab.source("07_windows.cpp")

# %% [markdown]
# - `int size=3` and `bool wrap=False` in the schema are an `int64_t` and a `bool` in C++. The **defaults are in the schema
#   only**: PyTorch fills them in before it calls the function, which has three parameters and no defaults.
# - `torch::stable::new_empty(in, {rows, size})` creates a tensor with a new shape, and with the dtype and the device of `in`.
#   `empty_like` cannot change the shape.
# - The sizes come from the caller, so the kernel checks them before it computes with them.
#
# A fake computes the same sizes from the same attributes. Leave out the case `wrap`, and `opcheck` finds it, but only if you
# pass `wrap=True`:


# %%
@torch.library.register_fake("lab07_windows::windows")
def windows_fake(x, size=3, wrap=False):
    return x.new_empty(x.shape[0] - size + 1, size)


assert opcheck(windows, x, 3)
assert not opcheck(windows, x, 3, True)


# %%
@torch.library.register_fake("lab07_windows::windows", allow_override=True)
def windows_fake(x, size=3, wrap=False):
    torch._check(x.dim() == 1, lambda: "x must have one axis.")
    torch._check(1 <= size, lambda: "size must be at least 1.")
    torch._check(size <= x.shape[0], lambda: "size is greater than x.")
    rows = x.shape[0] if wrap else x.shape[0] - size + 1
    return x.new_empty(rows, size)


assert opcheck(windows, x, 3, True) and opcheck(windows, x, 5)

# %% [markdown]
# ## 11. Limits
#
# - The stable ABI is newer than the other two ways. It has about forty operations on tensors. For other operations, a kernel
#   calls the dispatcher by name (`torch_call_dispatcher`), or you write it in Python.
# - A custom operator is opaque: compilers neither look into it nor fuse it. If you can compose it from ATen operators and the
#   result is fast enough, compose it.
# - `opcheck` tests the inputs that you give it. It found the errors in this chapter only because somebody thought of a transposed
#   tensor and of alpha = 1.
# - For ONNX you still need a mapping (chapter 08), and a kernel for ONNX Runtime (chapters 12 and 13).
#
# ## 12. Exercises
#
# [exercises/csrc/c07_my_add.cpp](../exercises/csrc/c07_my_add.cpp#line=22): write the whole operator, in float32 and float64, in
# the namespace `c07_my_add`, with a rule that the lesson's operator does not have: `b` may have only the first axes of `a`, and each
# of its numbers then belongs to a block of `a`. Keep sections 2 and 5 open.

# %%
lab.check("my_add")

# %% [markdown]
# [exercises/c07_cpp_operators.py](../exercises/c07_cpp_operators.py#line=63): a repair. The stub has a fake and a backward for an
# operator with the same rule, and each of the two has a fault. `opcheck` and `gradcheck` on your own operator find them, if you give
# them the right shapes.

# %%
lab.check("my_add_backward")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: A package that pip installs
#
# So far you load a library by its path. Other people want to install your operator and import it. The package has two files
# next to `setup.py`: the C++ source, and an `__init__.py` that loads the library and registers the fake.

# %%
PACKAGE_SETUP = """\
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

extension = CppExtension(
    name="my_operators._C",
    sources=["my_operators/my_add.cpp"],
    extra_compile_args={"cxx": ["-O2", "-g0", "-DTORCH_TARGET_VERSION=0x020d000000000000"]},
    py_limited_api=True,
)
setup(
    name="my-operators",
    version="1.0",
    install_requires=["torch>=2.13"],
    python_requires=">=3.10",
    packages=["my_operators"],
    ext_modules=[extension],
    cmdclass={"build_ext": BuildExtension},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
"""
INIT = """\
from pathlib import Path

import torch

(library,) = Path(__file__).parent.glob("_C*.so")
torch.ops.load_library(library)
my_add = torch.ops.lab07.my_add


@torch.library.register_fake("lab07::my_add")
def _(a, b, alpha=3.0, beta=2.0):
    return torch.empty_like(a, memory_format=torch.contiguous_format)
"""
package = lab.fresh("package")
(package / "my_operators").mkdir()
(package / "setup.py").write_text(PACKAGE_SETUP)
(package / "my_operators" / "__init__.py").write_text(INIT)
_ = shutil.copy(lab.cpp("07_stable.cpp"), package / "my_operators" / "my_add.cpp")

# %% [markdown]
# - The module's name has a dot: `_C` is put **inside** the package `my_operators`.
# - The library contains no Python, so it fits several versions of Python too: `py_limited_api` and the tag `cp310` state that.
# - pip reads `install_requires` and `python_requires` before it installs. `torch>=2.13` is the version in the flag.
# - `--no-build-isolation` matters. Without it, pip builds in a new environment that has no PyTorch, and `import torch` in
#   `setup.py` fails.
# - `--target` is used only in this lesson: it installs into a separate folder and leaves your environment as it is.

# %%
import sys

site = lab.fresh("site")
options = ["--no-build-isolation", "--no-deps", "--quiet", "--target", site]
done = subprocess.run(
    [sys.executable, "-m", "pip", "install", *options, package], capture_output=True, text=True
)
assert done.returncode == 0, done.stderr
print(sorted(path.name for path in (site / "my_operators").iterdir() if path.is_file()))
(info,) = site.glob("*.dist-info")
print([line for line in (info / "WHEEL").read_text().splitlines() if "Tag" in line][0][:16])

# %% [markdown]
# A new Python process imports the package and uses and exports the operator:

# %%
PROGRAM = """
import torch, my_operators

class Model(torch.nn.Module):
    def forward(self, a, b):
        return my_operators.my_add(a, b)

ones = torch.ones(2)
print(Model()(ones, ones))
graph = torch.export.export(Model(), (ones, ones)).graph
print([str(node.target) for node in graph.nodes if node.op == "call_function"])
"""
environment = os.environ | {"PYTHONPATH": str(site)}
done = subprocess.run(
    [sys.executable, "-c", PROGRAM], env=environment, cwd=site, capture_output=True, text=True
)
assert done.returncode == 0, done.stderr
print(done.stdout)

# %% [markdown]
# `python setup.py install` and `python setup.py develop`, in older texts, do the same without pip. setuptools has deprecated
# both. Instead of `develop`, use `pip install --no-build-isolation -e .`.
#
# ### The source archive
#
# On other machines, pip builds from a source archive (*sdist*). It contains the sources and the packages. An include folder
# adds no file to it: a header has to be named in `depends`, or the build fails everywhere but on your machine.

# %%
import tarfile

ARCHIVE_SETUP = """\
from setuptools import Extension, setup

extension = Extension("loop", ["loop.cpp"], include_dirs=["include"], depends={depends})
setup(name="loop", version="1.0", ext_modules=[extension])
"""
archive = lab.fresh("archive")
(archive / "include").mkdir()
shutil.copy(lab.cpp("07_loop.cpp"), archive / "loop.cpp")
shutil.copy(lab.cpp("07_defaults.h"), archive / "include" / "loop.h")
for depends in ([], ["include/loop.h"]):
    (archive / "setup.py").write_text(ARCHIVE_SETUP.format(depends=depends))
    command = [sys.executable, "setup.py", "--quiet", "sdist"]
    subprocess.run(command, cwd=archive, check=True, capture_output=True)
    with tarfile.open(archive / "dist" / "loop-1.0.tar.gz") as stream:
        names = [name.partition("/")[2] for name in stream.getnames()]
    code = [name for name in names if name.endswith((".cpp", ".h"))]
    print(f"depends={depends}".ljust(28), code)

# %% [markdown]
# [exercises/c07_cpp_operators.py](../exercises/c07_cpp_operators.py#line=91): write the setup.py of a package with two sources, a
# header and a folder `src`. The package is in `csrc/package`; the grader builds and installs it in a temporary folder.

# %%
lab.check("setup")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: The same for a GPU
#
# `CUDAExtension` compiles `.cu` files with nvcc and the other files with the C++ compiler; `extra_compile_args` has a list for
# each compiler. This is the form that you find in existing code:

# %%
CUDA_SETUP = """\
import os

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

extension = CUDAExtension(
    name="my_lib",
    sources=["my_add.cpp", "my_add_cuda.cu"],
    include_dirs=[os.path.abspath("include")],
    extra_compile_args={"cxx": ["-O2", "-g0"], "nvcc": ["-O2", "--use_fast_math"]},
)
setup(name="my_add", ext_modules=[extension], cmdclass={"build_ext": BuildExtension})
"""

# %% [markdown]
# `run_setup(…, stop_after="init")` runs this file, including the call of the real `CUDAExtension`, and stops before anything is
# compiled. It needs no GPU and no nvcc; without them, PyTorch only has to be told a folder for CUDA. What follows is therefore
# the description of a build, not a build: `my_add.cpp` is not compiled here, and nothing is linked.

# %%
cuda = lab.fresh("cuda")
shutil.copy(lab.cpp("07_my_add.cu"), cuda / "my_add_cuda.cu")
(cuda / "setup.py").write_text(CUDA_SETUP)
DESCRIBE = """
import os
from torch.utils import cpp_extension
from distutils.core import run_setup  # setuptools provides distutils, and torch has imported it

cpp_extension.CUDA_HOME = cpp_extension.CUDA_HOME or "/usr/local/cuda"
(described,) = run_setup("setup.py", stop_after="init").ext_modules
print("sources:", described.sources)
print("flags:  ", described.extra_compile_args)
print("your folder first:", described.include_dirs[0] == os.path.abspath("include"))
usual = cpp_extension.CppExtension("my_lib", ["my_add.cpp"]).libraries
print("linked besides:", sorted(set(described.libraries) - set(usual)))
"""
done = subprocess.run(
    [sys.executable, "-c", DESCRIBE], cwd=cuda, capture_output=True, text=True
)
assert done.returncode == 0, done.stderr
print(done.stdout)

# %% [markdown]
# - A file that ends in `.cu` is compiled by nvcc with the flags of `"nvcc"`, every other one by the C++ compiler with those of
#   `"cxx"`. A flag for both has to be in both lists. A flag that nvcc should pass on to the C++ compiler comes after `-Xcompiler`.
# - `include_dirs` is for both compilers. PyTorch's and CUDA's own headers are added after your folders.
# - `--use_fast_math` makes division, square roots and functions such as `exp` less exact. Leave it out until you have measured
#   what it gains, and what it costs.

# %%
lab.source("07_my_add.cu")

# %% [markdown]
# The launch names a **stream**: PyTorch's current stream. Without it, the kernel runs on CUDA's default stream. If the current
# stream is a different one, the kernel may start before its inputs are ready. In C++, `torch::stable::accelerator` has both
# parts: `getCurrentStream(device).nativeHandle()` is the stream, and `DeviceGuard` selects the tensors' device if there is more
# than one.
#
# Without nvcc, the next cell does nothing. With nvcc, it compiles the CUDA source; with a GPU, the result also has to be right.
# Each nvcc supports only certain versions of g++. If the compilation fails, the cell shows nvcc's first error.


# %%
def on_a_gpu():
    """Compile the source if there is an nvcc; run it if there is a GPU. Returns a sentence."""
    nvcc = shutil.which("nvcc")
    if not nvcc:
        return "no nvcc on the PATH: the CUDA source was not compiled"
    options = ["-O2", "-shared", "-Xcompiler", "-fPIC", "-o", "my_add_cuda.so"]
    command = [nvcc, "my_add_cuda.cu", *options]
    done = subprocess.run(command, cwd=cuda, capture_output=True, text=True)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error" in line]
        return f"nvcc failed: {errors[0] if errors else done.returncode}"
    if not torch.cuda.is_available():
        return "nvcc compiled the CUDA source; PyTorch sees no GPU to run it"
    library, (x, z) = ctypes.CDLL(cuda / "my_add_cuda.so"), (a.cuda(), b.cuda())
    y = torch.empty_like(x)
    numbers = ctypes.c_int64(x.numel()), ctypes.c_float(3), ctypes.c_float(2)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # not the default one: what the launch names is used
        x = x + 0
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, z, y)]
        status = library.my_add_cuda(*pointers, *numbers, ctypes.c_void_p(stream.cuda_stream))
        assert status == 0, f"CUDA error {status}"
    stream.synchronize()
    assert torch.allclose(y, 3 * x + 2 * z)
    return "nvcc compiled the CUDA source, and the GPU's result is right"


print("⏱", on_a_gpu())

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: What register_autograd covers
#
# It covers second derivatives, because `backward` is made of PyTorch's own operators. It does not cover `torch.func` (PyTorch
# 2.15): `grad` raises, and `jvp`, which is forward-mode, returns **zeros without an error** (issue 168393). `vmap` falls back to
# a loop over the kernel, with a warning.
#
# The course registers its operators in a different way: an `autograd.Function` with `setup_context`, `backward`, `jvp` and
# `vmap`, on two keys of the dispatcher (`_register_derivatives` in `oplab/ops/__init__.py`). This uses private parts of PyTorch
# and is tested with one version only. Use `register_autograd` unless you need `torch.func`.


# %%
def derivatives(my_add):
    """Name, what the operator gives, and what is right, for the sum of (3a + 2b)²."""
    x, slope = a.clone().requires_grad_(), 6 * (3 * a + 2 * b)

    def loss(a):
        return my_add(a, b).pow(2).sum()

    def gradient():
        return torch.autograd.grad(loss(x), x, create_graph=True)[0]

    yield "backward()", gradient, slope
    twice, ones = torch.full_like(a, 18), torch.ones_like(a)
    yield "backward() twice", lambda: torch.autograd.grad(gradient().sum(), x)[0], twice
    yield "torch.func.grad", lambda: torch.func.grad(loss)(a), slope
    yield "torch.func.jvp", lambda: torch.func.jvp(loss, (a,), (ones,))[1], slope.sum()
    yield "torch.func.vmap", lambda: torch.func.vmap(my_add)(a, b), 3 * a + 2 * b


def outcome(compute, right):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return "right" if torch.equal(compute(), right) else "WRONG, no error"
        except RuntimeError as error:
            return f"raises {type(error).__name__}"


print(f"{'':18}{'register_autograd':22}{'autograd.Function, two keys'}")
rows = zip(derivatives(trained), derivatives(torch.ops.oplab.my_add), strict=True)
for (name, *ours), (_, *course) in rows:
    print(f"{name:18}{outcome(*ours):22}{outcome(*course)}")

# %% [markdown]
# ### Autocast
#
# Inside `torch.autocast` a layer returns bfloat16, and its result meets tensors in float32. PyTorch casts the inputs of its
# operators, but does not cast those of yours. `register_autocast` takes one dtype. Floating-point inputs on that device are cast to it,
# except float64 inputs, which stay unchanged; each gradient is returned in the dtype of its input.

# %%
layer = torch.nn.Linear(4, 4)
with torch.autocast("cpu", dtype=torch.bfloat16):
    print(refusal(trained, layer(a), b))
torch.library.register_autocast("lab07_trained::my_add", "cpu", torch.float32)
with torch.autocast("cpu", dtype=torch.bfloat16):
    y = trained(layer(a), b)
y.sum().backward()
print(y.dtype, layer.weight.grad.dtype)

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: A real operator: neighbours in a point cloud
#
# Networks on point clouds compute the k nearest neighbours of each point many times. With PyTorch's own operators, this needs a
# matrix of all distances:


# %%
def composed(points, k):
    distances = torch.cdist(points, points)
    return distances.topk(k, largest=False, sorted=True)


for n in (1_000, 20_000, 100_000):
    print(f"{n:7} points: {n * n * 4 / 1e9:6.1f} GB of distances")

# %% [markdown]
# So this operator is almost always written in C++. The course's operator is `oplab::knn_query`, with the same parts as in this
# chapter: a schema, a kernel on the stable ABI, a fake, a backward.

# %%
print(torch.ops.oplab.knn_query.default._schema)


# %% {"jupyter": {"source_hidden": true}}
def scan(seed=7):
    """Four things on a table, as a scanner sees them: a list of float32 (n, 3), in metres."""
    rng = np.random.default_rng(seed)

    def ball(n):
        direction = rng.normal(size=(n, 3))
        length = np.linalg.norm(direction, axis=1, keepdims=True)
        return 0.5 * direction / length + [0.55, 0.55, 0.5]

    def can(n):
        angle = rng.uniform(0, 2 * np.pi, n)
        x, y = 0.4 * np.cos(angle) + 1.52, 0.4 * np.sin(angle) + 0.55
        return np.stack([x, y, rng.uniform(0, 1.3, n)], 1)

    def carton(n):
        points, face = rng.uniform(0, 1, size=(n, 3)), rng.integers(0, 3, n)
        points[np.arange(n), face] = rng.integers(0, 2, n)
        return points * [0.9, 0.6, 0.7] + [0.2, 1.25, 0]

    def table(n):
        return np.stack([rng.uniform(0, 2.2, n), rng.uniform(0, 2.1, n), np.zeros(n)], 1)

    shapes = [ball(1800), can(1800), carton(1300), table(2600)]
    return [(shape + rng.normal(0, 0.006, shape.shape)).astype(np.float32) for shape in shapes]


# %% [markdown]
# The objects have different numbers of points, so they do not fit into one tensor with a batch axis. They are concatenated, and
# `offset` states where each object ends: **`offset[i]` is the number of points in batches 0 to i**.

# %%
objects = scan()
xyz = torch.from_numpy(np.concatenate(objects))
offset = torch.tensor([len(part) for part in objects]).cumsum(0)
idx, dist = torch.ops.oplab.knn_query(24, xyz, offset)
print("offset", offset.tolist())
print("idx", idx.dtype, list(idx.shape), "  dist", dist.dtype, list(dist.shape))

# %% [markdown]
# Each point is its own nearest neighbour, at distance 0, and all neighbours are in the same object:

# %%
starts = torch.cat([torch.zeros(1, dtype=torch.int64), offset[:-1]])
batch = torch.bucketize(torch.arange(len(xyz)), offset, right=True)
assert torch.equal(idx[:, 0], torch.arange(len(xyz), dtype=torch.int32))
assert dist[:, 0].abs().max() == 0
inside = (idx >= starts[batch, None]) & (idx < offset[batch, None])
print("all neighbours in their own object:", bool(inside.all()))
for i, part in enumerate(objects):
    rows = slice(int(starts[i]), int(offset[i]))
    expected, _ = composed(torch.from_numpy(part).double(), 24)
    same = torch.allclose(dist[rows].double(), expected, atol=1e-5)
    print(f"object {i}: distances equal to cdist + topk:", same)

# %% [markdown]
# Now ignore the batches and treat the scan as one cloud. Points near another object get neighbours in that object.

# %%
mixed, _ = torch.ops.oplab.knn_query(24, xyz, offset[-1:])
strangers = (batch[mixed.long()] != batch[:, None]).any(1)
print(f"points with a neighbour in another object: {100 * strangers.float().mean():.0f} %")
# At the foot of the ball, and where it is near the can.
spots = torch.tensor([[0.72, 0.55, 0.05], [1.03, 0.55, 0.5]])
queries = torch.cdist(spots, xyz[: offset[0]]).argmin(1).tolist()

# %% {"jupyter": {"source_hidden": true}}
names = ["ball", "can", "carton", "table"]
colours = np.array([BLUE, ORANGE, GREEN, GREY])
figure = plt.figure(figsize=(13, 4), layout="constrained")
left = figure.add_subplot(131, projection="3d")
for number, name in enumerate(names):
    points = {"c": colours[number], "s": 4, "alpha": 0.7, "rasterized": True}
    left.scatter(*xyz[batch == number].T, label=name, **points)
left.legend(loc="upper right", markerscale=4, fontsize=9)
left.set(xlim=(0, 2.2), ylim=(0, 2.1), zlim=(0, 1.4), title="the scan: four objects")
left.set_box_aspect((2.2, 2.1, 1.4), zoom=1.2)
left.view_init(28, -62)
left.set_axis_off()

slab = (xyz[:, 1] - 0.55).abs() < 0.1
panels = ("batch by batch", idx), ("taken for one cloud", mixed)
for number, (title, found) in enumerate(panels):
    axes = figure.add_subplot(132 + number)
    side = xyz[slab][:, [0, 2]].T
    axes.scatter(*side, c=colours[batch[slab]], s=9, alpha=0.6, rasterized=True)
    for query in queries:
        for k in found[query].tolist():
            axes.plot(*xyz[[query, k]][:, [0, 2]].T, color=RED, lw=1)
            axes.plot(*xyz[k, [0, 2]], "o", color=colours[batch[k]], ms=6, mec=RED, mew=1)
    axes.set(title=f"{title}: slice from the side", xlabel="x, metres", ylabel="z, metres")
    axes.set(xlim=(0.45, 1.35), ylim=(-0.06, 0.7), aspect="equal")
lab.figure(
    figure,
    "A scan of a ball, a can, a carton and a table, and two slices of it. Batch by "
    "batch, the lines from two points of the ball end on the ball. Taken for one cloud, some "
    "end on the table and on the can.",
)

# %% [markdown]
# The lines lead from two points of the ball to 24 neighbours each. If the scan is treated as one cloud, the foot of the ball
# gets neighbours on the table and its side gets neighbours on the can, and a network learns edges that do not exist.
#
# If a batch has fewer points than k, there are not enough neighbours. The remaining entries hold index **-1** and distance 0. If
# points are equally near, the lower index comes first: without that rule two implementations disagree, and no test can tell why.

# %%
corners = torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [9, 9, 9]])
print(torch.ops.oplab.knn_query(3, corners, torch.tensor([3, 4]))[0].tolist())

# %% [markdown]
# The distances are differentiable; the indices are not. The last test is `opcheck`, with separate queries and a transposed cloud.

# %%
queries, ends = xyz[:8].clone(), torch.tensor([3, 3, 6, 8])
assert opcheck(torch.ops.oplab.knn_query, 5, xyz.t().contiguous().t(), offset, queries, ends)

# %% [markdown]
# [exercises/csrc/c07_knn_query.cpp](../exercises/csrc/c07_knn_query.cpp#line=66): find neighbours by comparing each query with
# every point. Make it correct first; chapter 14 makes it fast.

# %%
lab.check("knn_query")

# %% [markdown]
# ## Five questions

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - `csrc/torch_ops`: the course's operators, each in its own file, with several dtypes and with threads.
# - PyTorch's pages "Custom C++ and CUDA Operators" and "LibTorch Stable ABI", and the docstring of `torch.library.opcheck`.
# - Chapter 08 maps these operators to ONNX: as a composition, or as one node in a custom domain.
#
# Previous: [06: TorchScript and library operators](06_library_operators.ipynb)
# · Next: [08: Functions and plugin-style operators](08_functions_and_plugins.ipynb)
# · [Glossary](../docs/glossary.md)
