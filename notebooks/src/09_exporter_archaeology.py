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
# # 09 · Exporter archaeology
#
# After this chapter you can
#
# - determine what old export code does today, and prove it with a few lines;
# - port a registration to today's versions, and remove one;
# - count the calls of a mapping, so that you know that it is used at all.
#
# The code that you find in blogs, in forks and in your own repository was written for torch 1.5 to 1.12. Some of it
# fails with an error. The dangerous part runs, gives the right numbers, and never calls what you wrote.
#
# ## 1. The failure
#
# This is how texts of 2022 add the mapping that `asinh` lacks:
#
# ```python
# from torch.onnx.symbolic_registry import register_op
#
# def asinh_symbolic(g, input, *, out=None):
#     return g.op("Asinh", input)
#
# register_op("asinh", asinh_symbolic, "", 9)
# torch.onnx.export(model, x, "asinh.onnx")
# ```
#
# The first line fails today: there is no such module. You search for the name, find `register_custom_op_symbolic`, and
# change that one line. It runs. Is it right?

# %%
import torch
from torch.onnx import register_custom_op_symbolic

from oplab import lesson, quiet_exports, raises

lab = lesson("09_exporter_archaeology")
quiet_exports()  # no deprecation warnings, and no whole graph printed at each export that fails
with raises(ModuleNotFoundError, "torch.onnx.symbolic_registry"):
    import torch.onnx.symbolic_registry


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


calls = []


def asinh_symbolic(g, input, *, out=None):
    calls.append("asinh")
    return g.op("Asinh", input)


register_custom_op_symbolic("aten::asinh", asinh_symbolic, 9)
x = torch.linspace(-2, 2, 6).reshape(2, 3)
program = torch.onnx.export(Model(torch.asinh), (x,), verbose=False)
print("calls of asinh_symbolic:", len(calls))
lab.show(program.model_proto)

# %% [markdown]
# The graph has an `Asinh`, but your function was never called. Since torch 2.9 the **dynamo path** is the default. It has
# its own mapping of `asinh`, and it ignores registrations of the TorchScript path without a warning. For `asinh`, the
# result happens to be right. For an operator that the dynamo path maps in another way than you want, the model is wrong
# and there is no warning.
#
# The next cell, which is folded, has helpers. `export` uses the **TorchScript path**, `export_dynamo` the dynamo path.
# `ops` lists the nodes of a model without its constants.

# %% {"jupyter": {"source_hidden": true}}
import io
import warnings

import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph
from torch.onnx import OperatorExportTypes, unregister_custom_op_symbolic


def as_module(function):
    return function if isinstance(function, torch.nn.Module) else Model(function)


def export(function, x, opset=13, **options):
    options = {"input_names": ["x"], "output_names": ["y"], "opset_version": opset, **options}
    buffer = io.BytesIO()
    torch.onnx.export(as_module(function), (x,), buffer, dynamo=False, **options)
    return onnx.load_model_from_string(buffer.getvalue())


def export_dynamo(function, x, **options):
    program = torch.onnx.export(
        as_module(function), (x,), dynamo=True, verbose=False, **options
    )
    return program.model_proto


def ops(model):
    names = [
        f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        for node in model.graph.node
    ]
    return [name for name in names if name != "Constant"]


def run(model, x):
    providers = ["CPUExecutionProvider"]
    session = ort.InferenceSession(model.SerializeToString(), providers=providers)
    return session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]


# %% [markdown]
# **The fix** is to state which path you mean. **The proof** is the count.

# %%
print("right:", np.allclose(run(program.model_proto, x), torch.asinh(x)), " calls:", len(calls))
assert not calls
model = export(torch.asinh, x)  # dynamo=False
print(ops(model), "calls:", len(calls))
assert len(calls) == 1

# %% [markdown]
# This is the pattern of the whole chapter: run the old form, observe what happens, fix it, and count.
#
# ### register_op, argument by argument
#
# | then | now |
# |---|---|
# | `register_op("asinh", f, "", 9)` | `register_custom_op_symbolic("aten::asinh", f, 9)` |
# | `register_op("grid", f, "torch_cluster", 9)` | `register_custom_op_symbolic("torch_cluster::grid", f, 9)` |
# | the third argument: the namespace of the torch operator, empty for ATen | part of the name |
# | the fourth: this opset alone, so old code has loops over opsets | this opset **and all above** |
#
# The last row contains a trap. Below opset 9 the look-up goes *up* to the nearest registration (chapter 04). The old
# code failed at opset 8. The port writes an invalid model: `Asinh` exists since opset 9.

# %%
print("opset 20:", ops(export(torch.asinh, x, opset=20)))
leaked = export(torch.asinh, x, opset=8)
with raises(InvalidGraph, "domain_version of 8"):
    run(leaked, x)

# %% [markdown]
# An error is better than an invalid file. A symbolic function may raise an exception. If a function that raises is
# registered at 8, opsets 7 and 8 find it.


# %%
def too_old(g, input):
    raise torch.onnx.errors.UnsupportedOperatorError("aten::asinh", g.opset, 9)


register_custom_op_symbolic("aten::asinh", too_old, 8)
for opset in (7, 8):
    with raises(torch.onnx.errors.UnsupportedOperatorError, "added in version 9"):
        export(torch.asinh, x, opset=opset)
print("opset 9: ", ops(export(torch.asinh, x, opset=9)))

# %% [markdown]
# ## 2. What the dynamo path ignores
#
# The next cells use arguments, registrations and a `symbolic` of old code in one export on the default path. Each is
# accepted. None has an effect, and there is no warning. A `prim::PythonOp` handler was the way to map Functions that have
# no `symbolic`.


# %%
class MyRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)


class Halved(torch.autograd.Function):
    used = 0

    @staticmethod
    def forward(ctx, x):
        return x * 0.5

    @staticmethod
    def symbolic(g, x):
        Halved.used += 1
        return g.op("oplab::Halved", x).setType(x.type())


count = []


def relu_handler(g, *args, **kwargs):
    count.append(kwargs["name"])
    return g.op("Relu", args[0])


def old_code(x):
    return Halved.apply(torch.asinh(MyRelu.apply(x)))


# %%
register_custom_op_symbolic("prim::PythonOp", relu_handler, 1)
options = {
    "operator_export_type": OperatorExportTypes.ONNX_ATEN,
    "custom_opsets": {"oplab": 2},
    "autograd_inlining": False,
}


def report(model):
    print("nodes:", ops(model))
    print("register_custom_op_symbolic:", len(calls), "calls")
    print("prim::PythonOp handler:     ", len(count), "calls")
    print("Function.symbolic:          ", Halved.used, "calls")
    print("custom_opsets:              ", {x.domain: x.version for x in model.opset_import})


calls.clear()
report(export_dynamo(old_code, x, **options))
assert not calls and not count and not Halved.used

# %% [markdown]
# The same code on the TorchScript path, without `operator_export_type` (section 4):

# %%
del options["operator_export_type"]
report(export(old_code, x, **options))
assert (calls, count, Halved.used) == (["asinh"], ["MyRelu"], 1)

# %% [markdown]
# If you keep old mappings, pass `dynamo=False` and count. If you move to the dynamo path, chapter 10 has the
# counterpart of each.
#
# ## 3. Removing a registration
#
# In a notebook you register the same operator many times. `unregister_custom_op_symbolic` removes a registration. It
# has three surprises. First, it needs the version of the registration. With another version, it only warns.

# %%
register_custom_op_symbolic("aten::relu", lambda g, x: g.op("Abs", x), 9)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    unregister_custom_op_symbolic("aten::relu", 12)
print(caught[-1].message)
print("still yours:", ops(export(torch.relu, x)))

# %% [markdown]
# Second, where PyTorch has its own mapping, that mapping is restored.

# %%
unregister_custom_op_symbolic("aten::relu", 9)
print("PyTorch's own:", ops(export(torch.relu, x)))

# %% [markdown]
# Third, where PyTorch has no mapping, an empty entry remains. The export fails as it should, but the message does not
# show the cause. The exporter tries to report since which opset there *is* a function, and takes the minimum of an
# empty sequence.

# %%
from torch.onnx._internal.torchscript_exporter.registration import registry

unregister_custom_op_symbolic("prim::PythonOp", 1)
for version in (8, 9):
    unregister_custom_op_symbolic("aten::asinh", version)
print("the entry:", registry.get_function_group("aten::asinh"))
with raises((ValueError, torch.onnx.errors.UnsupportedOperatorError), "min()"):
    export(torch.asinh, x)

# %% [markdown]
# If you see `min() arg is an empty sequence`, register again, or start a new process. The next cell removes the empty
# entry. It uses a private name; do not use it in your programs.

# %%
registry._registry.pop("aten::asinh")
with raises(torch.onnx.errors.UnsupportedOperatorError, "aten::asinh"):
    export(torch.asinh, x)

# %% [markdown]
# ## 4. Four export modes
#
# `operator_export_type` determines what happens to operators without a mapping. Old texts list five modes. Four are left.
# `RAW` wrote the TorchScript graph; it was removed, and the graph itself is the better answer (chapter 02).
# *(TorchScript path.)*

# %%
print([name for name in dir(OperatorExportTypes) if name.isupper()])
with raises(AttributeError, "RAW"):
    OperatorExportTypes.RAW
print([node.kind() for node in torch.jit.trace(Model(torch.asinh), x).graph.nodes()])

# %% [markdown]
# Two operators show the difference between the modes: `mul` has a mapping, `asinh` has none.


# %%
def in_mode(mode, function, opset=13):
    return export(
        function, x, opset=opset, operator_export_type=getattr(OperatorExportTypes, mode)
    )


def both(x):
    return torch.asinh(x) * x


with raises(torch.onnx.errors.UnsupportedOperatorError, "aten::asinh"):
    in_mode("ONNX", both)

# %%
for mode in ("ONNX_ATEN", "ONNX_ATEN_FALLBACK", "ONNX_FALLTHROUGH"):
    print(mode)
    for node in in_mode(mode, both).graph.node:
        words = {entry.name: entry.s.decode() for entry in node.attribute}
        print(f"    domain {node.domain!r:19} type {node.op_type!r:8} {words or ''}")

# %% [markdown]
# - `ONNX_ATEN` converts nothing. `mul` has a mapping, but stays an `ATen` node.
# - `ONNX_ATEN_FALLBACK` converts what it can. The remaining operators are `ATen` nodes: the operator is an
#   **attribute**.
# - `ONNX_FALLTHROUGH` converts what it can. The remaining operators keep their name: the operator is the node's
#   **type**.
#
# The checker accepts all three, because it knows nothing about the domain `org.pytorch.aten`. The stock wheel of
# ONNX Runtime has no kernel for it; a build with `onnxruntime_ENABLE_ATEN` has one, which calls PyTorch. Caffe2 was the
# engine for such models until it was removed (2.9).

# %%
fallback = in_mode("ONNX_ATEN_FALLBACK", both)
onnx.checker.check_model(fallback, full_check=True)
with raises(Fail, "org.pytorch.aten:ATen"):
    run(fallback, x)
lab.show(fallback)

# %% [markdown]
# So a mode gives you an inventory: *what would I have to write?* The mapping itself gives you a model that runs.
#
# On the **dynamo path** none of this exists: the option is ignored there. On the TorchScript path it has been deprecated
# since 2.6.

# %%
print(
    "dynamo, ONNX_ATEN:",
    ops(export_dynamo(both, x, operator_export_type=OperatorExportTypes.ONNX_ATEN)),
)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    in_mode("ONNX_ATEN", torch.relu)
print(
    next(str(entry.message) for entry in caught if "operator_export_type" in str(entry.message))
)

# %% [markdown]
# ## 5. Limits
#
# - The TorchScript path still takes old mappings, but it is deprecated. Its mappings end at opset 20.
# - `registry`, `_unimplemented`, `_is_value` and everything else with a leading underscore may be removed without
#   notice.
#
# ## 6. Exercises
#
# The old code that you port is in the docstrings. The grader runs your functions in its own process, so what you registered
# in this notebook has no effect there. The library's operator is available after `relics.load()`. For a hint, call
# `lab.hint("port_register_op")`.
#
# **`port_register_op`** — two registrations of torch 1.12, one of them for a library's operator. An old script refused
# opset 8; yours must not write an invalid model there:
# [exercises/c09_exporter_archaeology.py](../exercises/c09_exporter_archaeology.py#line=60).

# %%
lab.check("port_register_op")

# %% [markdown]
# **`export_modes`** — choose the mode, and read from the file what is left to PyTorch:
# [exercises/c09_exporter_archaeology.py](../exercises/c09_exporter_archaeology.py#line=141).

# %%
lab.check("export_modes")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: A table that is executed
#
# The module `oplab.archaeology` contains the APIs and snippets of tutorials from 2021 to 2025. Each entry states what
# the tutorial shows, what happens today, what to write instead, and which chapter teaches it.

# %%
from oplab import archaeology

entries = archaeology.rows()
print(len(entries), "entries")
for status, count in archaeology.counts().items():
    print(f"{count:3} {status:8} {archaeology.STATUSES[status]}")

# %% [markdown]
# Such a table is useful only while it is true. So each entry has a *probe*, a function that shows the status on this machine,
# and, if there is a replacement, a second one that shows that it works. Here is the entry for the attempt of section 1.

# %%
import inspect

row = archaeology.find("register_default_export")
print("code:   ", row.api)
print("status: ", row.status, "-", row.today)
print("old:    ", row.old())
print("new:    ", row.new())
print(inspect.getsource(row.old))

# %% [markdown]
# A test of the course runs all of them. Here are the entries that no longer do what they did ("TS" is the TorchScript
# path).

# %%
from IPython.display import Markdown

Markdown(archaeology.markdown([entry for entry in entries if entry.status != "works"]))

# %% [markdown]
# ### The timeline
#
# The figure is drawn from the same table. The upper bar of a row shows how long the old form worked, the lower bar
# since when there is a replacement. **Only the squares at the right were executed**, with torch 2.15 and ONNX Runtime
# 1.31. The bars come from release notes and pull requests. They tell you which of your old environments a line of code
# was written for.

# %% {"jupyter": {"source_hidden": true}}
lab.figure(
    archaeology.timeline(),
    "Two panels, PyTorch and ONNX Runtime versions from left to right. Each row is an API with "
    "a bar that ends where it was removed and a lower bar from its replacement on. At the "
    "right end of each row, an empty square or a crossed one is the result of the probe.",
)

# %% [markdown]
# A part of the release history is in the wheel itself: the docstring of `torch.onnx.export` lists its changes.

# %%
text = inspect.cleandoc(torch.onnx.export.__doc__)
print(text[text.index(".. versionchanged:: 2.6") :])

# %% [markdown]
# There were three periods of change.
#
# - **1.11 to 1.13**: the registry was rewritten. `register_op` was removed, `prim` became a namespace like any other,
#   `g` became a `GraphContext`, and Functions without a mapping began to be inlined.
# - **2.5 to 2.9**: a second exporter was added, and then became the default. Everything that belongs to the first
#   exporter is ignored unless you pass `dynamo=False`.
# - **ONNX Runtime 1.14 to 1.16**: the C++ wrapper `CustomOpApi` was deprecated, then removed.

# %% [markdown]
# A probe shows what happens with these versions on this machine. Two entries depend on what is installed: the CUDA
# extension and the CUDA tensor types report what they found in either case. The bars of the timeline are not executed.
# Where you depend on an exact version, install it and try.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Editing PyTorch's own files
#
# A tutorial of 2022 recommends changing PyTorch's source to support an operator: define a function with the operator's name in
# `symbolic_opset9.py`. The next cell does that in memory: a line added to a file is a name added to its module.
# *(TorchScript path.)*

# %%
import torch.onnx.symbolic_opset9 as shim
from torch.onnx._internal.torchscript_exporter import symbolic_opset9 as real

for module in (shim, real):
    module.asinh = lambda g, x: g.op("Asinh", x)
    with raises(torch.onnx.errors.UnsupportedOperatorError, "aten::asinh"):
        export(torch.asinh, x)
    del module.asinh

# %% [markdown]
# The exporter does not look up names in either file. The first file, to which old texts refer, no longer contains any
# mapping: it re-exports the names of the second. In the second, a decorator puts each function into the registry when
# the file is imported.

# %%
import inspect

print(
    [line for line in inspect.getsource(shim).splitlines() if "import *" in line][0].split(
        "  #"
    )[0]
)
lines = inspect.getsource(real).splitlines()
first = next(i for i, line in enumerate(lines) if line.startswith("def elu("))
print(*lines[first - 3 : first + 1], sep="\n")

# %% [markdown]
# Up to torch 1.12 (release history) the exporter collected every function of these modules by its name. Today only the
# registry counts. The tutorial's other experiment still works if you do it in the registry: remove `elu`, and the export fails.

# %%
elu = torch.nn.functional.elu
print(ops(export(elu, x)))
kept = registry._registry.pop("aten::elu")
with raises(torch.onnx.errors.UnsupportedOperatorError, "aten::elu"):
    export(elu, x)
registry._registry["aten::elu"] = kept

# %% [markdown]
# Do not edit an installed package: your change is lost with the next `pip install`, and other users of your code do not
# have it. `register_custom_op_symbolic` reaches the same registry from outside, and did so even before torch 1.5
# (release history).

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Functions without a symbolic: PythonOp
#
# A Function may define its own mapping, a static method `symbolic` (chapter 08). A tutorial shows one, with an annotation that
# never existed: `torch._C.graph` instead of `torch._C.Graph`. Up to Python 3.13, the class of the Function cannot even
# be created.

# %%
with raises(AttributeError, "graph"):
    print(torch._C.graph)

# %% [markdown]
# It then shows two Functions without a `symbolic`, and one handler that maps both. In the traced graph, each of them is
# a node of the kind `prim::PythonOp`. *(TorchScript path.)*


# %%
class MyClip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low):
        ctx.save_for_backward(x)
        return x.clamp(min=low)


# %%
def clipped(x):
    return MyRelu.apply(MyClip.apply(x, -1.0))


traced = torch.jit.trace(Model(clipped), x)
print([node.kind() for node in traced.graph.nodes()])

# %% [markdown]
# The tutorial asks whether these Functions need a `backward`. They do not need one for the export. They need one for
# training, and the error says so.

# %%
with raises(NotImplementedError, "backward"):
    clipped(x.clone().requires_grad_()).sum().backward()

# %% [markdown]
# ### A registration without effect
#
# The tutorial registers its handler under `::prim_PythonOp`, with the node as the second parameter. That was the form for
# torch 1.9 and 1.10. Run it unchanged, with a counter.

# %%
count = []


def handler_1_10(g, n, *args, **kwargs):
    count.append(kwargs["name"])
    return g.op("Relu", args[0])


register_custom_op_symbolic("::prim_PythonOp", handler_1_10, 1)
dead = export(clipped, x)
print("right:", np.allclose(run(dead, x), clipped(x)))
print(ops(dead), "calls:", len(count))
assert not count

# %% [markdown]
# There is no error, the numbers are right, and the handler is not called. There are two reasons.
#
# - A name that begins with `::` means `aten`. You registered `aten::prim_PythonOp`, an operator that does not exist.
# - `autograd_inlining=True` is the default. A Function without a mapping is replaced by what its `forward` did. Both
#   forwards call `clamp`, so the graph has two `Clip`.
#
# So test a handler with `autograd_inlining=False`. Then a missing mapping is an error.

# %%
with raises(RuntimeError, "Couldn't export Python operator MyClip"):
    export(clipped, x, autograd_inlining=False)

# %% [markdown]
# ### The handler of today
#
# The name is `prim::PythonOp`. The node is not passed: with the old signature, `n` would be the first input.

# %%
took = []


def old_signature(g, n, *args, **kwargs):
    took.append((type(n).__name__, args))
    return g.op("Relu", n)


register_custom_op_symbolic("prim::PythonOp", old_signature, 1)
export(MyRelu.apply, x)
print("n is a", took[0][0], "and args is", took[0][1])

# %% [markdown]
# Between the two, torch 1.11 and 1.12 passed a context with the node before `g`. Today the class that marks such a
# handler is gone, so its definition fails:

# %%
with raises(AttributeError, "SymbolicContext"):

    def handler_1_12(ctx: torch.onnx.SymbolicContext, g, *args, **kwargs):
        return g.op("Relu", args[0], outputs=ctx.cur_node.outputsSize())


# %% [markdown]
# The handler gets `g`, the Function's arguments in their order (tensors as values of the graph, numbers as Python
# numbers), and the class's `name` and `module` as keyword arguments. The node is `g.original_node`. An input of a new
# node has to be a value of the graph, so the number `-1.0` becomes a `Constant`.

# %%
count = []


def handler(g, *args, **kwargs):
    count.append(kwargs["name"])
    if kwargs["name"] == "MyClip":
        low = g.op("Constant", value_t=torch.tensor(args[1]))
        return g.op("Clip", args[0], low)
    if kwargs["name"] == "MyRelu":
        return g.op("Relu", args[0])
    return torch.onnx.symbolic_helper._unimplemented("prim::PythonOp", kwargs["name"])


# %%
register_custom_op_symbolic("prim::PythonOp", handler, 1)
alive = export(clipped, x, autograd_inlining=False)
print("right:", np.allclose(run(alive, x), clipped(x)))
print(ops(alive), "calls:", count)
assert count == ["MyClip", "MyRelu"]

# %% [markdown]
# The two models compute the same result. One of them has your nodes.

# %%
lab.show(dead, alive)

# %% [markdown]
# The next cells count the calls without a registration and with each of the two, for three ways to export. ✗ marks an
# export that succeeds without a call. That is dangerous if you have registered a handler.


# %%
def outcome(name, way):
    count.clear()
    if name:
        register_custom_op_symbolic(name, handler, 1)
    try:
        way()
        text = f"exports, {len(count)} calls"
    except RuntimeError:
        text = "fails"
    if name:
        unregister_custom_op_symbolic(name, 1)
    return text


ways = {
    "autograd_inlining=True\n(default)": lambda: export(clipped, x),
    "autograd_inlining=False": lambda: export(clipped, x, autograd_inlining=False),
    "dynamo=True": lambda: export_dynamo(clipped, x),
}

# %%
unregister_custom_op_symbolic("prim::PythonOp", 1)
names = ["", "::prim_PythonOp", "prim::PythonOp"]
outcomes = [[outcome(name, way) for way in ways.values()] for name in names]
for name, line in zip(names, outcomes, strict=True):
    print(f"{name or 'nothing registered':20}", *[f"{text:18}" for text in line])
assert outcomes[1] == ["exports, 0 calls", "fails", "exports, 0 calls"]
assert outcomes[2] == ["exports, 2 calls", "exports, 2 calls", "exports, 0 calls"]

# %% {"jupyter": {"source_hidden": true}}
import matplotlib.pyplot as plt

from oplab.figures.palette import BLUE, GREY, ORANGE, PURPLE


def grid(cells, rows, columns, mark, width, title):
    """Words in frames; `mark` gives each a symbol and a colour."""
    height = 0.55 * len(rows) + 1.1
    figure, axes = plt.subplots(figsize=(width, height), layout="constrained")
    for i, line in enumerate(cells):
        for j, text in enumerate(line):
            symbol, colour = mark(text)
            frame = {"fc": "none", "ec": colour, "lw": 2}
            axes.add_patch(plt.Rectangle((j + 0.02, i + 0.06), 0.94, 0.82, **frame))
            axes.text(j + 0.485, i + 0.47, f"{symbol} {text}", ha="center", va="center", size=9)
    axes.set_xlim(0, len(columns))
    axes.set_ylim(len(rows), 0)
    axes.set_xticks([j + 0.485 for j in range(len(columns))], columns)
    axes.set_yticks([i + 0.45 for i in range(len(rows))], rows)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel(title, fontsize=9)
    return figure


# %% {"jupyter": {"source_hidden": true}}
marks = {
    "exports, 2 calls": ("✓", BLUE),
    "fails": ("–", GREY),
    "exports, 0 calls": ("✗", ORANGE),
}
labels = ["nothing registered", "::prim_PythonOp", "prim::PythonOp"]
title = "MyRelu(MyClip(x, -1.0)): is the handler called?"
lab.figure(
    grid(outcomes, labels, list(ways), marks.get, 8, title),
    "A table of three registrations and three ways to export. The handler is called twice with "
    "prim::PythonOp on the TorchScript path, and never on the dynamo path.",
)

# %% [markdown]
# The last column is the **dynamo path**. It traces the forward, whatever is registered. There, your own operator with a
# translation replaces the handler (chapter 10).
#
# ### Clip(min_f)
#
# The tutorial writes `g.op("Clip", args[0], min_f=args[1])`. In opset 10 `min` was an attribute; in opset 11 it became an input.
# The exporter does not check this.


# %%
def by_attribute(g, *args, **kwargs):
    return g.op("Clip", args[0], min_f=args[1])


def only_clip(x):
    return MyClip.apply(x, -1.0)


register_custom_op_symbolic("prim::PythonOp", by_attribute, 1)
print("opset 10:", np.allclose(run(export(only_clip, x, opset=10), x), only_clip(x)))
at_13 = export(only_clip, x, opset=13)
with raises(InvalidGraph, "Unrecognized attribute: min"):
    run(at_13, x)

# %% [markdown]
# ### The type of a custom node
#
# For a node of your own domain, the exporter knows neither type nor shape. The tutorial copies them: `ret.setType(n.type())`.
# Today a node has no `type`, but its output has one.


# %%
def typed(type_of):
    """Map MyRelu to a custom node of a given type, and export it with a dynamic first axis."""

    def symbolic(g, *args, **kwargs):
        made = g.op("relics::MyRelu", args[0])
        return made.setType(type_of(g, args[0])) if type_of else made

    register_custom_op_symbolic("prim::PythonOp", symbolic, 1)
    model = export(MyRelu.apply, x, dynamic_axes={"x": {0: "batch"}})
    return [
        dim.dim_param or dim.dim_value
        for dim in model.graph.output[0].type.tensor_type.shape.dim
    ]


# %%
with raises(AttributeError, "type"):
    typed(lambda g, value: g.original_node.type())
print("the original node's output:", typed(lambda g, value: g.original_node.output().type()))
print("the handler's own input:   ", typed(lambda g, value: value.type()))

# %% [markdown]
# The original node comes from the trace, so it has the sizes of your example: `2`, although the axis is dynamic. A
# wrong declared shape is worse than none, because later tools rely on it. The input of your node belongs to the new
# graph, and it has kept `batch`. Where your operator changes the shape, set it: `value.type().with_sizes([None, 3])`.
# And without any `setType`? The exporter warns on stderr, and the sizes are lost: both axes have generated names.

# %%
from oplab.archaeology import probes

sizes = []
warning = probes.stderr_of(lambda: sizes.extend(typed(None)))
print(warning.partition("Warning: ")[2].partition(", so")[0])
print("without setType:", sizes)

# %% [markdown]
# You can still inspect the original node. This is the tutorial's loop over inputs and outputs, with the results of
# `requiresGrad()`.


# %%
def looking(g, *args, **kwargs):
    for i, out in enumerate(g.original_node.outputs()):
        print(f"output {i} requires grad: {out.requiresGrad()}")
    for i, arg in enumerate(args):
        is_value = torch.onnx.symbolic_helper._is_value(arg)
        print(f"arg {i}:", f"a value, requires grad: {arg.requiresGrad()}" if is_value else arg)
    return g.op("Clip", args[0], g.op("Constant", value_t=torch.tensor(args[1])))


register_custom_op_symbolic("prim::PythonOp", looking, 1)
_ = export(only_clip, x.clone().requires_grad_())

# %% [markdown]
# ### A Function that the handler does not know
#
# In the tutorial, `_unimplemented` "logs a warning and returns None". Today it raises an exception, which is what you want.
# If a handler returns None, the node is left to the exporter, and the message is about something else.


# %%
class MySwish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * torch.sigmoid(x)


register_custom_op_symbolic("prim::PythonOp", handler, 1)
with raises(torch.onnx.errors.OnnxExporterError, "MySwish"):
    export(MySwish.apply, x)
register_custom_op_symbolic("prim::PythonOp", lambda g, *args, **kwargs: None, 1)
with raises(RuntimeError, "Couldn't export operator aten::sigmoid"):
    export(MySwish.apply, x)
unregister_custom_op_symbolic("prim::PythonOp", 1)

# %% [markdown]
# `kwargs["name"]` is the name of the class alone. To tell two Functions with the same name in two modules apart, a handler
# also needs `kwargs["module"]`.
#
# **`port_python_op`** — a handler of torch 1.10 for three Functions. It has to be called, and the grader also counts
# the calls: [exercises/c09_exporter_archaeology.py](../exercises/c09_exporter_archaeology.py#line=104).

# %%
lab.check("port_python_op")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: What the export modes lose
#
# Old texts have two examples. The first one falls back for `triu`. Since opset 14 ONNX has `Trilu`, and the exporter maps it. The
# second example leaves a list as `prim::ListConstruct`. Today it is a `SequenceConstruct`.


# %%
def masked(x):
    return torch.triu(x) * x


class Listed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.sum(x)]


for opset in (13, 14):
    print("triu at opset", opset, ops(in_mode("ONNX_ATEN_FALLBACK", masked, opset)))
print("the list:", ops(in_mode("ONNX_FALLTHROUGH", torch.jit.script(Listed()))))

# %% [markdown]
# The figure shows five operators in the four modes. `scale` belongs to a library of PyTorch operators,
# `torch.ops.relics.scale(x, factor)`; `Clipped` is a Function without a `symbolic`, exported with
# `autograd_inlining=False`.

# %%
from oplab.archaeology import relics

relics.load()


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low):
        return x.clamp(min=low)


def clipped_at(x):
    return Clipped.apply(x, -1.0)


subjects = {
    "mul": lambda x: x * x,
    "asinh": torch.asinh,
    "triu, opset 13": torch.triu,
    "relics.scale": lambda x: torch.ops.relics.scale(x, 0.5),
    "Clipped": clipped_at,
}
modes = ("ONNX", "ONNX_ATEN", "ONNX_ATEN_FALLBACK", "ONNX_FALLTHROUGH")


# %%
def written(function, mode):
    kind = getattr(OperatorExportTypes, mode)
    try:
        model = export(function, x, operator_export_type=kind, autograd_inlining=False)
    except RuntimeError:
        return "error"
    (node,) = [node for node in model.graph.node if node.op_type != "Constant"]
    words = {entry.name: entry.s.decode() for entry in node.attribute if entry.s}
    if node.op_type == "ATen":
        return f"ATen, {words['operator']}"
    return f"{node.domain or 'onnx'}::{node.op_type}".replace("org.pytorch.aten", "…aten")


cells = [[written(function, mode) for mode in modes] for function in subjects.values()]


# %% {"jupyter": {"source_hidden": true}}
def mark(text):
    if text == "error":
        return "–", GREY
    if text in ("ATen, scale", "prim::PythonOp"):
        return "✗", ORANGE
    return ("✓", BLUE) if text.startswith("onnx::") else ("→", PURPLE)


title = "✓ runs · – the export fails · → left to PyTorch · ✗ left, and something is lost"
lab.figure(
    grid(cells, list(subjects), list(modes), mark, 9.5, title),
    "A table of five operators in four modes: mul runs or is left to PyTorch; asinh and triu "
    "are left or fail; relics.scale as ATen scale and Clipped as prim::PythonOp lose data.",
)

# %% [markdown]
# Look at the cells with ✗.
#
# - `ONNX_ATEN_FALLBACK` writes the library's `relics::scale` as an **ATen** operator `scale`. ATen has no such
#   operator: the namespace is lost.
# - `ONNX_FALLTHROUGH` writes `Clipped` as a `prim::PythonOp`. Neither the Function's name nor the bound -1.0 is in the
#   file.

# %%
lost = export(clipped_at, x, operator_export_type=OperatorExportTypes.ONNX_FALLTHROUGH)
(node,) = lost.graph.node
print(node.op_type, list(node.input), sorted(entry.name for entry in node.attribute))

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: A kernel that fills a buffer
#
# An old `KNNQuery` calls a compiled function that gets raw memory and fills it. The tracer sees the tensors before and
# after the call, and nothing between them. With a `symbolic` on TS, that does not matter. Without one, the export
# succeeds. (This kernel is written with `ctypes`, so that nothing has to be compiled; a pybind function does the same.)

# %%
import ctypes


def fill(x):
    result = torch.empty_like(x)
    source, target = (at_address(tensor.data_ptr(), x.numel()) for tensor in (x, result))
    for i, number in enumerate(source):
        target[i] = 3 * number
    return result


def at_address(pointer, size):
    return (ctypes.c_float * size).from_address(pointer)


# %%
blind = export(fill, x)
print("eager:  ", fill(x).flatten().numpy().round(1))
print(
    "nodes:  ", [node.op_type for node in blind.graph.node], " inputs:", list(blind.graph.input)
)
constant = onnx.numpy_helper.to_array(blind.graph.node[0].attribute[0].t)
print("holds:  ", np.unique(constant))
assert not blind.graph.input and not constant.any()

# %% [markdown]
# The file has one `Constant`, no inputs, and not even the numbers of the example: the tracer saw no write to the buffer,
# and the exporter maps `empty_like` to zeros. The dynamo path refuses instead, and tells you what to do.

# %%
with raises(torch.onnx.OnnxExporterError, "Cannot access data pointer"):
    export_dynamo(fill, x)

# %% [markdown]
# An operator with a schema helps on both paths: `torch.library` (chapter 07). Then the code that the exporter cannot
# inspect has a name, and a mapping can be registered for it.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Ort::CustomOpApi
#
# Many kernels were written for ONNX Runtime 1.11. Here is one in that style, `out = x + y`.

# %%
from oplab import archaeology
from oplab.figures import listing

listing.source(archaeology.HERE / "then.cpp", "struct AddKernel")

# %% [markdown]
# Compile it with today's headers. GCC reports a dozen errors. These matter:
#
# ```
# then.cpp:28:8: error: 'CustomOpApi' in namespace 'Ort' does not name a type; did you mean 'CustomOpBase'?
# then.cpp:13:5: error: 'OrtTensorDimensions' was not declared in this scope
# then.cpp:35:57: error: 'onnxruntime' has not been declared
# ```
#
# Other compilers word the errors differently. Today's headers do not have these names:

# %%
from oplab.archaeology import probes

print(*probes.unknown_names(), sep="\n")

# %% [markdown]
# `Ort::CustomOpApi` was removed in ONNX Runtime 1.16. `OrtTensorDimensions` is a small struct on top of it that
# projects copied from ONNX Runtime's tests. The last two names come from ONNX Runtime's source tree, where the
# example was written; the released headers do not have them.
#
# Chapter 12 shows the port line by line. Here is the result. Its third input has both special cases of
# the old kernel: it is int64 while the other inputs are floats, and a model may leave it out.

# %%
listing.source(archaeology.HERE / "now.cpp", "struct AddKernel")

# %% [markdown]
# It compiles and runs, at shapes that the kernel does not fix in advance, with the third input given, empty, and
# absent.

# %%
library = probes.ported()
rng = np.random.default_rng(9)
for shape in ((4,), (2, 3, 5), (0, 2)):
    a, b = rng.normal(size=(2, *shape)).astype(np.float32)
    two = probes.run(probes.foo(), a, b, library=library)
    empty = probes.run(probes.foo(scale=""), a, b, library=library)
    three = probes.run(probes.foo(scale="k"), a, b, np.int64(5), library=library)
    right = (
        np.array_equal(two, a + b)
        and np.array_equal(empty, two)
        and np.allclose(three, 5 * (a + b))
    )
    print(shape, right)
    assert right

# %% [markdown]
# A wrong shape produces a status with a message, not a crash. The status also keeps its code, which an exception would
# have lost. Chapter 12 explains such a kernel in detail.

# %%
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

with raises(InvalidArgument, "Foo: x is [3] and y is [4]: they must be equal."):
    probes.run(probes.foo(), np.ones(3, np.float32), np.ones(4, np.float32), library=library)

# %% [markdown]
# ## Five questions

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - Chapter 10: what replaces all this on the dynamo path.
# - Chapter 12: the kernel of "Deeper: Ort::CustomOpApi", from the first line on.
# - `oplab/archaeology/probes/`: all the probes. Take one that concerns your code, and change it until it fails.
# - The docstring of `torch.onnx.export`: at its end, the changes by version.
#
# Previous: [08: Functions and plugin-style operators](08_functions_and_plugins.ipynb)
# · Next: [10: The modern exporter](10_modern_exporter.ipynb)
# · [Glossary](../docs/glossary.md)
