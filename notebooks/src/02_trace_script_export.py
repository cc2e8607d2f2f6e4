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
# # 02 · Trace, script, export
#
# After this chapter you can
#
# - explain what a trace, a script and an exported program record of your model, and what each of them drops;
# - keep both branches of an `if` in the ONNX file;
# - export a model whose input is a dict, and name the inputs of the file.
#
# The deeper sections follow a model through the three steps of the TorchScript path, find an input that was baked into
# a file, and run a TorchScript file in a C++ program.
#
# ## 1. The failure
#
# The model is a volume control. It compresses a loud signal with `tanh` and multiplies a quiet signal by 3. A Python
# `if` on the signal selects the operation. Export the model with the quiet signal, and run the file with both signals.
# *(TorchScript path.)*

# %%
import onnxruntime as ort
import torch

from oplab import lesson, quiet_exports

lab = lesson("02_trace_script_export")
quiet_exports()


class Volume(torch.nn.Module):
    def forward(self, x):
        if x.abs().max() > 1:
            return torch.tanh(x)
        return x * 3


quiet, loud = torch.tensor([0.1, -0.2, 0.3]), torch.tensor([0.5, -2.0, 4.0])
file = lab.fresh("volume") / "volume.onnx"
torch.onnx.export(Volume(), (quiet,), file, dynamo=False, input_names=["x"], output_names=["y"])

session = ort.InferenceSession(file)
for name, x in {"quiet": quiet, "loud": loud}.items():
    (y,) = session.run(None, {"x": x.numpy()})
    print(f"{name:6} PyTorch {Volume()(x).numpy().round(3)}   ONNX Runtime {y.round(3)}")
lab.show(file)

# %% [markdown]
# The quiet signal is right, the loud one is wrong, and the graph shows why: the `if` is gone, and so is `Tanh`. The
# file contains only the branch that the example took.
#
# An ONNX file is a graph without Python. Your Python code first has to be turned into a graph. This step is the
# **capture**. The TorchScript path traces your model, or takes a model that you have scripted. The dynamo path
# captures it with `torch.export`. No later step can restore what the capture drops.
#
# The helpers for the whole chapter are `run`, `ops`, and one export function for each path. In both exports, the input
# `x` can have any length.

# %%
import io
import logging
import math
import re
import warnings
from contextlib import redirect_stderr

import numpy as np
import onnx
from torch import nn

from oplab import raises

logging.disable(logging.CRITICAL)  # torch.export logs a page at each capture that fails
names = {"input_names": ["x"], "output_names": ["y"]}


def ts_path(model, *inputs, **options):
    buffer = io.BytesIO()
    options = {"dynamic_axes": {"x": {0: "n"}}} | names | options
    torch.onnx.export(model, inputs, buffer, dynamo=False, **options)
    return onnx.load_from_string(buffer.getvalue())


def dynamo_path(model, *inputs, **options):
    shapes = ({0: "n"}, *[None] * (len(inputs) - 1))
    options = {"dynamic_shapes": shapes} | names | options
    return torch.onnx.export(model, inputs, dynamo=True, verbose=False, **options).model_proto


# %%
def run(model, x, **more):
    data = model.SerializeToString()
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.float32(x), **more})[0]


def ops(model):
    return " ".join(node.op_type for node in model.graph.node)


# %% [markdown]
# There was a warning. You did not see it, because this notebook turns warnings off (`quiet_exports`), and in a log of a
# few hundred lines it is easy to miss. The next cell turns them on.


# %%
def trace_warnings(model, *inputs):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.jit.trace(model, inputs, check_trace=False)
    seen = [w for w in seen if w.category is torch.jit.TracerWarning]
    return [str(w.message).split(". ")[0] for w in seen]


print(trace_warnings(Volume(), quiet))

# %% [markdown]
# The **dynamo path** does not export this model at all. That is safer: it fails at the export, not in production.

# %%
page, undecided = io.StringIO(), "Could not guard on data-dependent expression"
with redirect_stderr(page), raises(torch.onnx.OnnxExporterError, undecided):
    dynamo_path(Volume(), quiet)  # the exporter also prints how far it came

# %% [markdown]
# The two paths use different captures and give different outcomes. The next sections look at the captures
# first, and then at the files.
#
# ## 2. Trace: what happened once
#
# `torch.jit.trace` runs the model with an example and records every operator that was called. Here is the trace of
# ELU, which is one operator. `show_graph` omits the source location of each line.


# %%
def show_graph(graph):
    text = re.sub(r"(, scope: [^#\n]*)?[ ]*(# .*)?$", "", str(graph), flags=re.MULTILINE)
    print(re.sub(r"__torch__\.[\w.]*\b(\w+)", r"\1", text).strip(), "\n")


traced = torch.jit.trace(nn.ELU(), torch.ones(1))
show_graph(traced.graph)

# %% [markdown]
# How to read it:
#
# - `%input` and `%7` are *values*. Each value is assigned once. `%self` is the module.
# - `Float(1, strides=[1], …)` is the example's type: dtype, sizes, device. A trace knows the type because the model
#   ran.
# - `aten::elu` is the operator. Its schema has four arguments, so `alpha` and the two scales that you never wrote
#   became constants, `prim::Constant`. The `prim` namespace contains what is not a tensor operator: constants,
#   tuples, branches.
#
# The exporter visits each node and looks for a *symbolic function*: a Python function that writes the ONNX nodes for
# this operator. `aten::elu` has one. Chapter 04 is about operators that have none.
#
# Now trace the volume control with each of the two signals. Two examples give two graphs.

# %%
with_quiet = torch.jit.trace(Volume(), quiet, check_trace=False)
with_loud = torch.jit.trace(Volume(), loud, check_trace=False)
show_graph(with_quiet.graph)
show_graph(with_loud.graph)

# %% [markdown]
# The comparison `x.abs().max() > 1` has left no node at all: its result went to Python, and nothing in the graph
# needs it. A trace records tensor operators; Python runs once and leaves no node.
#
# The same happens to a loop. If you trace it with three numbers, the graph always has three additions. For a loop
# over an axis, the tracer does not even give a warning.


# %%
class Total(nn.Module):
    def forward(self, x):
        total = torch.zeros(())
        for i in range(x.shape[0]):
            total = total + x[i]
        return total


five = torch.arange(1.0, 6.0)
traced = torch.jit.trace(Total(), five[:3], check_trace=False)
print("additions:", str(traced.graph).count("aten::add"))
print("sum of 1 to 5:", Total()(five).item(), " traced:", traced(five).item())
print("warnings:", trace_warnings(Total(), five))

# %% [markdown]
# ## 3. Script: what is written
#
# `torch.jit.script` does not run the model. It reads the source text of `forward`, parses it, and compiles it. So the
# `if` stays, as a `prim::If` with two blocks.

# %%
scripted = torch.jit.script(Volume())
show_graph(scripted.graph)

# %% [markdown]
# There is no example, so there are no sizes: the graph knows only `%x.1 : Tensor`. The same graph is easier to read
# as code. A loop becomes `prim::Loop`, and it runs the correct number of times.

# %%
print(scripted.code)
total = torch.jit.script(Total())
print("loops:", str(total.graph).count("prim::Loop"), " sum of 1 to 5:", total(five).item())
print("in ONNX Runtime:", ops(ts_path(total, five[:3])), run(ts_path(total, five[:3]), five))

# %% [markdown]
# The disadvantage is that the compiler must understand every line, and it supports only a part of Python: no `try`,
# no `**kwargs`, no NumPy. It knows a few functions of Python's library, such as `math.sqrt`.


# %%
class Careful(nn.Module):
    def forward(self, x):
        try:
            return x * 3
        except ValueError:
            return x


with raises(torch.jit.frontend.UnsupportedNodeError, "try blocks aren't supported"):
    torch.jit.script(Careful())
print(torch.jit.trace(Careful(), quiet)(quiet))


def root(number: float) -> float:
    return math.sqrt(number)


print("math.sqrt, scripted:", torch.jit.script(root)(9.0))

# %% [markdown]
# Before you search a graph, note that a submodule appears as a call. `inlined_graph` replaces the call with the nodes
# of the submodule.


# %%
class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Volume()

    def forward(self, x):
        return self.inner(x) + 1


outer = torch.jit.script(Outer())
print("graph:        ", [node.kind() for node in outer.graph.nodes()])
print("inlined_graph:", [node.kind() for node in outer.inlined_graph.nodes()])

# %% [markdown]
# The TorchScript path accepts a scripted module and does not trace it again. `prim::If` becomes an ONNX `If`, with
# both branches in the file. (Some texts state that ONNX graphs have no control flow. They can have it: `If`, `Loop`
# and `Scan`.)

# %%
model = ts_path(scripted, quiet)
onnx.checker.check_model(model, full_check=True)
print("quiet:", run(model, quiet).round(3), " loud:", run(model, loud).round(3))
lab.show(model)

# %% [markdown]
# The dynamo path rejects a scripted module. Scripting is a solution for the TorchScript path only.

# %%
with raises(torch.onnx.OnnxExporterError, "Exporting a ScriptModule is not supported"):
    dynamo_path(scripted, quiet)

# %% [markdown]
# PyTorch has also deprecated both `torch.jit.trace` and `torch.jit.script`:

# %%
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    torch.jit.trace(nn.ELU(), quiet)
    torch.jit.script(nn.ELU())
print(*sorted({f"{w.category.__name__}: {w.message}" for w in seen}), sep="\n")

# %% [markdown]
# ## 4. torch.export: what holds, and under which condition
#
# `torch.export.export` runs the model too, but with *fake tensors*: they have a dtype and a shape, but no data. The
# size of a dynamic axis is a symbol. When Python code asks about this size, the capture records a condition. The
# result is an `ExportedProgram`.


# %%
class Window(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x):
        if x.shape[0] > 2:
            return self.linear(x)
        return x[:, :2]


torch.manual_seed(2)
window, rows = Window().eval(), torch.ones(5, 4)
program = torch.export.export(window, (rows,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
text = "\n".join(line for line in str(program).splitlines() if "# File:" not in line)
print(re.sub(r"\n\s*\n", "\n", re.sub(r"\bs\d+\b", "s0", text)))

# %% [markdown]
# The exported program has four things that a trace does not have:
#
# - **The FX graph** (FX is PyTorch's own graph format). Its nodes have `op`, `target`, `args` and `users`. A target
#   such as `aten.linear.default` is an *overload*: one ATen operator with one list of argument types.
# - **The graph signature.** Weights are inputs of the graph, like `x`. The signature states which placeholder is
#   which weight and which placeholder is your input. It would also list mutated buffers.
# - **Range constraints.** The size `s0` has no fixed value: it is a symbol, and it is at least 3.
# - **Guards.** Why 3? The Python code asked whether the size is greater than 2, and the answer was yes. The program
#   keeps this condition, and raises an error for a size that does not meet it.

# %%
print(program.graph_signature.user_inputs, list(program.graph_signature.parameters))
print("5 rows:", tuple(program.module()(rows).shape))
with raises(AssertionError, "Guard failed"):
    program.module()(torch.ones(2, 4))

# %% [markdown]
# So a branch on a *size* is decided at the capture, as in a trace, but the decision is kept as a condition. A loop
# over an axis requires one exact size. If you declared the axis dynamic, that is an error:

# %%
with raises(torch._dynamo.exc.UserError, "specialized it to be a constant (5)"):
    torch.export.export(Total(), (five,), dynamic_shapes=({0: torch.export.Dim("n")},))

# %% [markdown]
# Each node of the graph stores what it is and which nodes read it. Two of these placeholders are weights.

# %%
for node in program.graph.nodes:
    readers = [reader.name for reader in node.users]
    print(f"{node.op:14} {node.name:16} {node.target!s:22} read by {readers}")

# %% [markdown]
# A branch on a *value* cannot be decided, because there is no value. Here is the error of section 1 at its source,
# with the part of the graph that was captured. The last node is where the Python code asked for the value.

# %%
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

page = io.StringIO()
with redirect_stderr(page), raises(GuardOnDataDependentSymNode, undecided):
    torch.export.export(Volume(), (quiet,))
print(list(dict.fromkeys(re.findall(r"torch\.ops\.(\S+?)\(", page.getvalue()))))

# %% [markdown]
# This leads to a trap. The exporter does not write guards to the file. The file accepts two rows, and returns the result
# of the wrong branch.

# %%
model = dynamo_path(window, rows)
print("PyTorch, 2 rows:     ", *window(torch.ones(2, 4)).detach().numpy().round(3))
print("ONNX Runtime, 2 rows:", *run(model, np.ones((2, 4))).round(3))

# %% [markdown]
# You asked for a dynamic axis, and `torch.onnx.export` lets the capture narrow the range, even a range that you state
# as a `Dim`. There is no warning, but the exported program in the result has the narrowed range.

# %%
n = torch.export.Dim("n", min=1, max=512)
options = {"dynamo": True, "verbose": False}
result = torch.onnx.export(window, (rows,), dynamic_shapes=({0: n},), **options)
ranges = result.exported_program.range_constraints.values()
print("you asked for 1 to 512, you get", *ranges)

# %% [markdown]
# `torch.export` itself is stricter. So capture first, and pass the program to `torch.onnx.export`: then a range that
# the model does not support is an error.

# %%
with raises(torch._dynamo.exc.UserError, "n = Dim('n', min=3, max=512)"):
    torch.export.export(window, (rows,), dynamic_shapes=({0: n},))
n = torch.export.Dim("n", min=3, max=512)
program = torch.export.export(window, (rows,), dynamic_shapes=({0: n},))
print(ops(torch.onnx.export(program, dynamo=True, verbose=False).model_proto))

# %% [markdown]
# ## 5. The fix: torch.cond
#
# `torch.cond(condition, one_way, other_way, operands)` is a conditional that the capture can see. The condition is a
# tensor, and the two branches are functions. Both functions are captured. *(dynamo path)*


# %%
class VolumeCond(nn.Module):
    def forward(self, x):
        def squeeze(x):
            return torch.tanh(x)

        def amplify(x):
            return x * 3

        return torch.cond(x.abs().max() > 1, squeeze, amplify, (x,))


model = dynamo_path(VolumeCond(), quiet)
onnx.checker.check_model(model, full_check=True)
lab.show(model)

# %% [markdown]
# The model was exported with three quiet numbers. To test the file, run it with another
# length and through both branches.

# %%
rng = np.random.default_rng(2)
for scale in (0.2, 5.0):
    x = (rng.uniform(-1, 1, 6) * scale).astype(np.float32)
    expected = Volume()(torch.from_numpy(x)).numpy()
    print(f"largest {np.abs(x).max():.2f}:", np.allclose(run(model, x), expected, atol=1e-6))

# %% [markdown]
# `torch.cond` has rules, and the next two cells show what happens when you break them. Both branches return the same
# number of tensors, of the same shape and dtype. A branch must not return its input unchanged: write `x.clone()`.


# %%
class Cond(nn.Module):
    def __init__(self, condition, one_way, other_way):
        super().__init__()
        self.parts = condition, one_way, other_way

    def forward(self, x):
        condition, one_way, other_way = self.parts
        return torch.cond(condition(x), one_way, other_way, (x,))


def is_loud(x):
    return x.abs().max() > 1


with raises(RuntimeError, "return input.clone()"):
    torch.export.export(Cond(is_loud, torch.tanh, lambda x: x), (quiet,))
with raises(RuntimeError, "expected same dtype"):
    torch.export.export(Cond(is_loud, torch.tanh, lambda x: x.double()), (quiet,))

# %% [markdown]
# The condition must stay a tensor. With `.item()` it is a Python number. That works in a toy model, and fails as soon
# as a branch has weights:

# %%
toy = dynamo_path(Cond(lambda x: is_loud(x).item(), torch.tanh, lambda x: x * 3), quiet)
print("toy: ", ops(toy), run(toy, quiet).round(3), run(toy, loud).round(3))
with_weights = Cond(lambda x: is_loud(x).item(), torch.tanh, lambda x: with_weights.linear(x))
with_weights.linear = nn.Linear(3, 3)
with raises(torch.onnx.OnnxExporterError, "unbacked symbols"):
    dynamo_path(with_weights, quiet, dynamic_shapes=None)

# %% [markdown]
# Two alternatives look right and are not:
#
# - `torch.where` gives the right numbers here, but it computes **both** branches every time.
# - The error message of section 4 suggests `guard_or_false`. This function is for sizes. For a value, it means: if
#   the answer is unknown, return False. One branch is baked in, and there is no error.

# %%
from torch.fx.experimental.symbolic_shapes import guard_or_false


class VolumeGuess(nn.Module):
    def forward(self, x):
        if guard_or_false((x.abs().max() > 1).item()):
            return torch.tanh(x)
        return x * 3


class VolumeWhere(nn.Module):
    def forward(self, x):
        return torch.where(x.abs().max() > 1, torch.tanh(x), x * 3)


for variant in (VolumeCond(), VolumeWhere(), VolumeGuess()):
    model = dynamo_path(variant, quiet)
    good = np.allclose(run(model, loud), Volume()(loud).numpy(), atol=1e-6)
    print(f"{type(variant).__name__:12} right on loud: {good!s:6} nodes: {ops(model)}")

# %% [markdown]
# A loop on a value has a similar fix. `torch.while_loop` becomes an ONNX `Loop`. This model doubles the signal until
# its sum reaches 100.


# %%
class Double(nn.Module):
    def forward(self, x):
        return torch.while_loop(lambda x: x.sum() < 100, lambda x: (x * 2,), (x,))[0]


model = dynamo_path(Double(), quiet.abs())
print(ops(model), run(model, [1, 2, 3, 4]), run(model, [60, 50]))

# %% [markdown]
# ### Three graphs side by side
#
# The figure shows the same volume control, drawn from the three real graphs. Boxes at the same height do the same work.
# A dashed frame marks an operation that a graph does not have.

# %%
from oplab.figures.captures import captures

shapes = ({0: torch.export.Dim.DYNAMIC},)
exported = torch.export.export(VolumeCond(), (quiet,), dynamic_shapes=shapes)
titles = ["trace, with the quiet example", "script", "torch.export, with torch.cond"]
lab.figure(
    captures(dict(zip(titles, [with_quiet, scripted, exported], strict=True))),
    "Three columns of boxes. The trace has only mul. The script has abs, max, gt, Bool, "
    "and an if with tanh or mul. torch.export has the same without Bool, with cond.",
)

# %% [markdown]
# The trace has one of the seven boxes. The script and the export have the whole decision. `aten::Bool` converts the
# tensor to a bool, because TorchScript's `prim::If` requires a bool; `torch.cond` takes the tensor. The first row
# shows the sizes: a trace has the example's size, a script has none, and an export has a symbol.
#
# | | trace | script | torch.export |
# |---|---|---|---|
# | looks at | one run with an example | the source text | one run with fake tensors |
# | `if` on a value | one branch, with a warning | both branches | an error; both branches with `torch.cond` |
# | `if` on a size | one branch, with a warning | both branches | one branch, with a guard |
# | loop over an axis | unrolled, without a warning | kept | unrolled; the size is fixed |
# | number read with `.item()` | a constant, with a warning | kept | kept |
# | a `try` block | does not matter | an error | does not matter |
# | exported to ONNX by | TorchScript path | TorchScript path | dynamo path |

# %% [markdown]
# ## 6. Limits
#
# - A capture sees only operators on tensors. The result of a NumPy computation is a constant in a trace. A script
#   rejects NumPy code, and so does `torch.export` as it is called here. (`torch.onnx.export` tries a second time with
#   `strict=True`, which can read NumPy code: see chapter 08, "A Function on the dynamo path".) A random number from Python is drawn once,
#   at the capture. A script rejects this code, too.

# %%
import random


class Numpy(nn.Module):
    def forward(self, x):
        return x + torch.from_numpy(x.numpy()[::-1].copy())


class Noisy(nn.Module):
    def forward(self, x):
        return x * random.gauss(1, 0.1)


traced = torch.jit.trace(Numpy(), quiet, check_trace=False)
good = torch.equal(traced(loud), Numpy()(loud))
print("Numpy, traced with the quiet signal, right on loud:", good)
with raises(RuntimeError, ".numpy() is not supported"):
    torch.export.export(Numpy(), (quiet,))

captured = {
    "PyTorch": Noisy(),
    "trace": torch.jit.trace(Noisy(), quiet, check_trace=False),
    "torch.export": torch.export.export(Noisy(), (quiet,)).module(),
}
for name, made in captured.items():
    print(f"Noisy, {name:13} two runs agree: {torch.equal(made(quiet), made(quiet))}")
for refused, words in ((Numpy(), "no attribute or method 'numpy'"), (Noisy(), "Random.gauss")):
    with raises(RuntimeError, words):
        torch.jit.script(refused)

# %% [markdown]
# - `torch.cond` takes one condition. For a condition that differs from element to element, use `torch.where`.
# - The TorchScript path cannot trace `torch.cond`. A model for both paths also needs the `if`, for
#   `torch.jit.script`.

# %%
with raises(RuntimeError, "torch.jit.trace a dynamo-optimized function"):
    ts_path(VolumeCond(), quiet)

# %% [markdown]
# - ONNX Runtime runs `If` and `Loop`. Not every engine does: check yours before you rely on them. Chapter 03 shows
#   models that are dynamic without a branch.
#
# ## 7. Exercises
#
# A docstring is the specification. Before the first exercise, write down what the three graphs of each module in this
# chapter contain. Then look at the graphs.
#
# **`predict`** — [exercises/c02_trace_script_export.py](../exercises/c02_trace_script_export.py#line=52) · Write a
# function that predicts this for any module. It gets 17 modules with random numbers, so it has to inspect the graphs.
# You need `inlined_graph`, a value's `uses()`, and `graph_signature.user_inputs`. In this trace, `factor` is not used:


# %%
class Scale(nn.Module):
    def forward(self, x, factor):
        return x * factor.item()


graph = torch.jit.trace(Scale(), (quiet, torch.tensor(2.0))).inlined_graph
for value in graph.inputs():
    print(f"{value.debugName():12} read by {[use.user.kind() for use in value.uses()]}")

# %%
lab.check("predict")

# %% [markdown]
# **`control_flow`** — [exercises/c02_trace_script_export.py](../exercises/c02_trace_script_export.py#line=85) · Rewrite
# a gate with two layers for the export. Both layers have to be in the file, and only one may be computed.

# %%
lab.check("control_flow")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: A dict as the model's input, and the names of inputs
#
# Detection and point-cloud models often take one dict with several tensors. Here is a small one. Pass its example as
# you pass every example, in a tuple with one entry for each argument of `forward`:


# %%
class Normalise(nn.Module):
    def forward(self, cloud):
        centred = cloud["coord"] - cloud["coord"].mean(0)
        return centred * cloud["scale"]


cloud = {"coord": torch.rand(4, 3), "scale": torch.tensor(2.0)}
plain = {"input_names": None, "output_names": None, "dynamic_shapes": None}
with redirect_stderr(page), raises(torch.onnx.OnnxExporterError, "missing a required argument"):
    dynamo_path(Normalise(), cloud, **plain)
with raises(TypeError, "missing 1 required positional argument"):
    ts_path(Normalise(), cloud)

# %% [markdown]
# The message is misleading: you did pass `cloud`. Both paths of `torch.onnx.export` take a dict that is the *last*
# entry of the tuple as keyword arguments, so `forward` was called as `forward(coord=…, scale=…)`. There are two fixes:
# put an empty dict after it, or pass the arguments by name.


# %%
def ends(model):
    return [value.name for value in [*model.graph.input, *model.graph.output]]


print("(cloud, {}):   ", ends(dynamo_path(Normalise(), cloud, {}, **plain)))
print("kwargs=:       ", ends(dynamo_path(Normalise(), kwargs={"cloud": cloud}, **plain)))
model = ts_path(Normalise(), cloud, {}, input_names=None, output_names=None)
print("on the TorchScript path:", ends(model))

# %% [markdown]
# The file has no dict: each entry became an input. Its **default name** depends on the path. The dynamo path uses the
# names of `forward`'s arguments (here with the entry's key: `cloud_coord`), and names an output after the operator that
# computes it. The TorchScript path uses the operator that reads the input, and numbers: these names change when
# you change the model. A caller has to know the names, so pass `input_names` and `output_names`.
#
# The given names are assigned in the order of the inputs, and the order of a dict is that of its keys. Swap the two
# keys, and the names are swapped too, without a warning:

# %%
cloud_names = plain | {"input_names": ["coord", "scale"], "output_names": ["y"]}
for example in (cloud, dict(reversed(cloud.items()))):
    model = dynamo_path(Normalise(), example, {}, **cloud_names)
    sizes = {v.name: len(v.type.tensor_type.shape.dim) for v in model.graph.input}
    print(list(example), "-> axes of each input:", sizes)

# %% [markdown]
# `dynamic_shapes` has the structure of the arguments, so it contains the same dict. ONNX Runtime takes one array for
# each name.

# %%
shapes = {"cloud": {"coord": {0: "points"}, "scale": None}}
model = dynamo_path(Normalise(), cloud, {}, **cloud_names | {"dynamic_shapes": shapes})
session = ort.InferenceSession(model.SerializeToString())
other = {"coord": torch.rand(9, 3), "scale": torch.tensor(0.5)}
(y,) = session.run(None, {name: tensor.numpy() for name, tensor in other.items()})
print(session.get_inputs()[0].shape, np.allclose(y, Normalise()(other).numpy(), atol=1e-6))

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: One model through the three steps of the TorchScript path
#
# 1. **Trace** the model (a ScriptModule skips this step).
# 2. Run *passes* over the graph. The most important pass is **ToONNX**: it replaces `aten` and `prim` nodes with
#    `onnx` nodes, by calling their symbolic functions.
# 3. **Serialise** the graph as protobuf.
#
# The pass is a C++ function that the exporter calls, `torch._C._jit_pass_onnx`. The next cell replaces it with a
# wrapper that records the graph before and after the pass.

# %%
torch.manual_seed(2)
net = nn.Sequential(nn.Linear(4, 3), nn.ELU(alpha=0.5), nn.Dropout(0.5)).eval()
batch = torch.ones(2, 4)
steps, real_pass = [], torch._C._jit_pass_onnx


def watched_pass(graph, *rest):
    steps.append(str(graph))
    after = real_pass(graph, *rest)
    steps.append(str(after))
    return after


torch._C._jit_pass_onnx = watched_pass
try:
    model = ts_path(net, batch)
finally:
    torch._C._jit_pass_onnx = real_pass
before, after = steps

# %% [markdown]
# This is the graph before ToONNX. Other passes have already run: the submodules are inlined, `self` is gone, and the
# weights have become inputs.

# %%
show_graph(before)

# %% [markdown]
# This is the graph after ToONNX:

# %%
show_graph(after)
assert "aten::" in before and "aten::" not in after and "onnx::Elu" in after

# %% [markdown]
# Node by node:
#
# - `aten::linear` became two nodes, `Transpose` and `Gemm`: PyTorch stores the weight as [out, in].
# - `aten::elu` became `Elu`. Its `alpha` was a constant *value* before and is an *attribute* now. The two scales are
#   gone: the symbolic function requires that they are 1.
# - `aten::dropout` disappeared. Its third argument, `train`, is 0, so its symbolic function returns the input.
#
# The next passes work on ONNX nodes: one folds the `Transpose` into `transB=1`, another propagates shapes. Step 3
# comes last.

# %%
for node in model.graph.node:
    print(onnx.printer.to_text(node).strip())
print("weights:", [(tensor.name, list(tensor.dims)) for tensor in model.graph.initializer])

# %% [markdown]
# Texts about these steps call `torch.onnx.utils._model_to_graph`. This function still exists, but it is private and
# deprecated, and `torch._C._jit_pass_onnx` is private, too: use them to inspect an export, but do not build on them.
# `_model_to_graph` calls `_optimize_graph`, which is worth reading: it is a list of passes in their order.

# %%
import inspect

source = inspect.getsource(inspect.unwrap(torch.onnx.utils._optimize_graph))
passes = re.findall(r"_C\._jit_pass_(\w+)", source)
print(len(passes), "calls of passes; ToONNX is number", passes.index("onnx") + 1)
print("before it:", passes[0], "…", *passes[passes.index("onnx") - 3 : passes.index("onnx")])
print("after it: ", *passes[passes.index("onnx") + 1 :][:6])

# %% [markdown]
# ### The dynamo path
#
# The steps of the dynamo path are `torch.export`, then *decompositions* (operators without a translation are replaced
# with simpler operators), then a translation node by node, then an optimiser. The `ONNXProgram` keeps the exported
# program from which it was created.

# %%
result = torch.onnx.export(net, (batch,), dynamo=True, verbose=False, **names)
fx = result.exported_program.graph
print("FX:  ", [str(node.target) for node in fx.nodes if node.op == "call_function"])
print("ONNX:", [node.op_type for node in result.model.graph])

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Train and eval
#
# Dropout and BatchNorm behave differently in training, and the two paths do not treat a model in train mode in the
# same way. Here are five exports of one network:


# %%
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.drop = nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(torch.relu(self.norm(self.conv(x))))


torch.manual_seed(2)
net, image = Net(), torch.rand(1, 1, 6, 6)
net.norm.running_mean += 0.2

# %%
exports = {}
for mode in ("train", "eval"):
    net.train(mode == "train")
    exports["TorchScript", mode] = ts_path(net, image)
    exports["dynamo", mode] = dynamo_path(net, image)
preserve = {"training": torch.onnx.TrainingMode.PRESERVE}
exports["TorchScript", "train, PRESERVE"] = ts_path(net.train(), image, **preserve)
for (path, mode), model in exports.items():
    print(f"{path:12}{mode:16}{ops(model)}")

# %% [markdown]
# - The **TorchScript path** sets the model to eval mode for the export, and restores its mode afterwards. Dropout is
#   removed, and BatchNorm is folded into the weights of the convolution: in eval mode it is a multiplication and an
#   addition. Only the `training=` argument keeps them.
# - The **dynamo path** leaves the mode as it is. In train mode Dropout stays in the file, and it stays *on*. There
#   is a warning.

# %%
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    dynamo_path(net.train(), image)
print([str(w.message).split(". ")[0] for w in seen if "training mode" in str(w.message)])

for mode in ("train", "eval"):
    first, second = (run(exports["dynamo", mode], image) for _ in range(2))
    print(f"exported in {mode:5} mode: two runs agree: {np.array_equal(first, second)}")

# %% [markdown]
# Look for BatchNorm in the dynamo path's train export: it is folded, as in eval mode. So the file matches neither
# mode: Dropout works as in training, BatchNorm as in inference. The convolutions of both files prove it, and Dropout
# is the only difference. (A BatchNorm with no convolution before it stays a node, also in its inference form.)


# %%
def weights(model):
    return [onnx.numpy_helper.to_array(w) for w in model.graph.initializer if w.dims]


pairs = zip(
    weights(exports["dynamo", "train"]), weights(exports["dynamo", "eval"]), strict=True
)
print("same weights:", all(np.array_equal(*pair) for pair in pairs))
lab.show(exports["dynamo", "train"], exports["dynamo", "eval"])

# %% [markdown]
# A capture runs your model. In train mode, a run changes BatchNorm's statistics. Do the captures change them, too?

# %%
captures = {
    "torch.jit.trace": lambda: torch.jit.trace(net, image, check_trace=False),
    "torch.export": lambda: torch.export.export(net, (image,)),
    "TorchScript path": lambda: ts_path(net, image),
    "dynamo path": lambda: dynamo_path(net, image),
}
for name, capture in captures.items():
    mean = net.train().norm.running_mean.clone()
    capture()
    print(f"{name:17} statistics changed: {not torch.equal(mean, net.norm.running_mean)}")

# %% [markdown]
# If you call `model.eval()` before every capture, none of this can happen.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: What is no_grad for?
#
# You see `with torch.no_grad():` around most exports, but few texts explain why. This section measures what it does.
#
# **What it does in PyTorch.** To compute gradients later, autograd keeps the tensors that the backward pass needs. A
# hook counts these tensors.

# %%
kept = []
layers = [part for _ in range(8) for part in (nn.Linear(256, 256), nn.ELU())]
deep = nn.Sequential(*layers).eval()
signal = torch.ones(1000, 256)


def count(tensor):
    kept.append(tensor.nbytes)
    return tensor


for enabled in (True, False):
    kept.clear()
    hooks = torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor)
    with torch.set_grad_enabled(enabled), hooks:
        y = deep(signal)
    print(f"gradients {enabled!s:6} kept: {len(kept):2} tensors, {sum(kept) / 1e6:5.1f} MB")
    print(f"    {y.requires_grad = }")

# %% [markdown]
# With `no_grad`, each intermediate result can be freed as soon as the next layer has used it. It is not `eval()`:
# Dropout still drops values.

# %% [markdown]
# **What it changes in the file.** ONNX has no such flag. Compare the files byte for byte:

# %%
files = {}
for path in (ts_path, dynamo_path):
    for enabled in (True, False):
        with torch.set_grad_enabled(enabled):
            files[enabled] = path(deep, signal).SerializeToString()
    print(f"{path.__name__:12} same bytes: {files[True] == files[False]}")
    assert files[True] == files[False]

# %% [markdown]
# So for most models `no_grad` changes **nothing in the export**. There is an exception that costs people days: code
# that *asks* whether gradients are enabled. PyTorch's own attention does this. Without gradients and in eval mode, it
# uses a fused operator.

# %%
torch.manual_seed(2)
attention = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
tokens = torch.rand(1, 5, 8)
for enabled in (True, False):
    with torch.set_grad_enabled(enabled):
        traced = torch.jit.trace(attention, tokens, check_trace=False)
    kinds = {node.kind() for node in traced.inlined_graph.nodes()}
    fused = "aten::_transformer_encoder_layer_fwd" in kinds
    print(f"gradients {enabled!s:6} fused: {fused!s:6} {len(kinds)} kinds of nodes")

# %% [markdown]
# A trace records what was called, and the fused operator has no symbolic function.

# %% [markdown]
# So `no_grad` saves memory while the model runs. A correct export does not need it. It does need `eval()`.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Find what was baked in
#
# In section 1 a capture dropped a branch. A capture can also drop an input, so that its value has no effect at all,
# and that is harder to notice. `factor.item()` converts a tensor to a Python number. The
# class `Scale` of the exercises does this:

# %%
both = {"input_names": ["x", "factor"]}
model = ts_path(Scale(), quiet, torch.tensor(2.0), **both)
print("TorchScript path:", [value.name for value in model.graph.input])
model = dynamo_path(Scale(), quiet, torch.tensor(2.0), **both)
print("dynamo path:     ", [value.name for value in model.graph.input])
print(run(model, quiet, factor=np.array(10, np.float32)))

# %% [markdown]
# The TorchScript path has dropped `factor`, and the name that you gave for it was not used. The only sign is the
# tracer's warning about `.item()`, which is turned off here. The dynamo path keeps `factor`. But it drops an argument
# that is a Python number:


# %%
class Times(nn.Module):
    def forward(self, x, factor):
        return x * factor


model = dynamo_path(Times(), quiet, 2.0, **both)
print("dynamo path:     ", [value.name for value in model.graph.input])

# %% [markdown]
# An input can also be declared but unused. Here the model uses only the *shape* of `like`, and the shape is known.


# %%
class Shaped(nn.Module):
    def forward(self, x, like):
        return x + torch.ones(like.shape)


two = {"input_names": ["x", "like"], "dynamic_shapes": None}
model = dynamo_path(Shaped(), quiet, loud, **two)
print("inputs:", [value.name for value in model.graph.input])
print("read:  ", sorted({name for node in model.graph.node for name in node.input}))

# %% [markdown]
# The dynamo path keeps an unused input; the TorchScript path removes it from the file. Here is one more way to get an
# unused input, seen with torch 2.15. It happens when two inputs have the same shape and you pass the same tensor as
# the example for both.


# %%
class Difference(nn.Module):
    def forward(self, x, like):
        return x * 2 - like


feeds = {"x": quiet, "like": loud.numpy()}
for title, examples in {
    "two tensors": (quiet, quiet.clone()),
    "one tensor twice": (quiet, quiet),
}.items():
    model = dynamo_path(Difference(), *examples, **two)
    good = np.allclose(run(model, **feeds), Difference()(quiet, loud).numpy())
    reads = [(node.op_type, list(node.input)) for node in model.graph.node]
    print(f"{title:17} right: {good!s:6}", reads)

# %% [markdown]
# `torch.export` identifies an input by its example tensor. If two inputs have the same tensor, it cannot tell them
# apart: both are `like` in the graph, and `x` is unused. Give each argument its own tensor.
#
# So a check of an exported file asks two questions: is the input there, and does an output depend on it? To answer
# the second question, go backwards from the outputs. There is one difficulty: the body of an `If` reads values of the
# surrounding graph, without listing them among the node's inputs.

# %%
model = dynamo_path(VolumeCond(), quiet)
node = next(node for node in model.graph.node if node.op_type == "If")
print("If reads:", list(node.input))
for attribute in node.attribute:
    inner = [(inner.op_type, list(inner.input)) for inner in attribute.g.node]
    print(f"  {attribute.name}: reads {inner}")

# %% [markdown]
# **`frozen`** — [exercises/c02_trace_script_export.py](../exercises/c02_trace_script_export.py#line=115) · You get an
# ONNX file and the names of the inputs that it should have. Which of them are used, which are declared but unused, and
# which are missing?

# %%
lab.check("frozen")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: TorchScript as a product
#
# TorchScript is more than a step of the export. For years it was PyTorch's own way to run a model without Python: one
# file with the code and the weights, and a C++ library, `libtorch`, that runs it. You will meet such files in products.
# For a new product, read the deprecation warnings of section 3 first.
#
# This model has a decision and layers that change in eval mode:


# %%
class Cleaner(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(1, 2, 3, padding=1), nn.BatchNorm1d(2)
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        y = self.drop(self.norm(self.conv(x)))
        if x.abs().max() > 1:
            return torch.tanh(y)
        return y * 3


torch.manual_seed(2)
cleaner = Cleaner().eval()
signals = [scale * torch.arange(4.0).reshape(1, 1, 4) for scale in (0.1, 3.0)]


def kinds(graph):
    return [
        n.kind() for n in graph.nodes() if n.kind() not in ("prim::Constant", "prim::GetAttr")
    ]


# %% [markdown]
# `torch.jit.freeze` prepares a script or a trace for inference. It inlines the submodules, turns the weights into
# constants of the graph, and removes what eval mode does not need. The BatchNorm is folded into the convolution. The
# decision stays.

# %%
scripted = torch.jit.script(cleaner)
frozen = torch.jit.freeze(scripted)
print(
    "scripted:",
    len(kinds(scripted.inlined_graph)),
    "nodes,",
    len(scripted.state_dict()),
    "weights",
)
print("frozen:  ", len(kinds(frozen.graph)), "nodes,", len(frozen.state_dict()), "weights")
print(kinds(frozen.graph))
with raises(RuntimeError, "only implemented for modules in eval mode"):
    torch.jit.freeze(torch.jit.script(Cleaner().train()))

# %% [markdown]
# `torch.jit.save` writes a zip file. The code in it is Python in the subset that TorchScript reads, so you can
# inspect a file that you were given. `torch.jit.load` does not need the class `Cleaner`.

# %%
import zipfile

file = lab.fresh("torchscript") / "cleaner.pt"
torch.jit.save(frozen, file)
archive = zipfile.ZipFile(file)
(source,) = [name for name in archive.namelist() if name.endswith(".py")]
print(re.sub(r"___torch_mangle_\d+\.", "", archive.read(source).decode()))
loaded = torch.jit.load(file)
print("the same:", all(torch.equal(loaded(x), frozen(x)) for x in signals))

# %% [markdown]
# `torch.jit.optimize_for_inference` goes further: it freezes a module if you have not done so, and replaces operators
# with those of the machine's libraries. It has two traps. It changes the module that you pass, and what it creates
# cannot be stored in a file: saving raises no error, but the weights are not in the file.

# %%
image_net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()).eval()
image = torch.rand(1, 1, 8, 8)
small = torch.jit.freeze(torch.jit.script(image_net))
before = kinds(small.graph)
fast = torch.jit.optimize_for_inference(small)
print("right:", torch.allclose(fast(image), image_net(image), atol=1e-6))
print("the frozen module has changed:", kinds(small.graph) != before)
torch.jit.save(fast, file.with_name("fast.pt"))
with raises(RuntimeError, "'value' is undefined"):
    torch.jit.load(file.with_name("fast.pt"))(image)

# %% [markdown]
# So save the frozen module, and optimise after loading, on the machine that runs the model.
#
# ### The same file in C++
#
# The program needs one header and the libraries that PyTorch's package contains. `torch::jit::load` returns a module,
# and `forward` takes a list of values. An error is a `c10::Error`. (Chapter 07 starts with C++; you can read this
# program without it.)

# %%
lab.source("02_load.cpp")

# %% [markdown]
# `compile_program` calls the compiler with PyTorch's folders (`-I…/torch/include`) and libraries
# (`-ltorch_cpu -lc10`). Most of the time goes into the header, about twelve seconds.

# %%
import subprocess

from oplab.toolchain.compile import compile_program

program = compile_program(lab.cpp("02_load.cpp"))
done = subprocess.run([program, file], capture_output=True, text=True, check=True)
results = [np.float32(line.split()) for line in done.stdout.splitlines()]
for x, result in zip(signals, results, strict=True):
    expected = cleaner(x).detach().numpy().ravel()
    print(
        f"largest {x.max():.1f}: C++ and Python agree:",
        np.allclose(result, expected, atol=1e-6),
    )

# %% [markdown]
# Both branches are right, in a process without Python. The program passes on what a missing file means:

# %%
done = subprocess.run([program, "missing.pt"], capture_output=True, text=True)
print(done.returncode, done.stderr.split(" because")[0])

# %% [markdown]
# ## Five questions

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - Chapter 03: dynamic axes and a factor that is an input, on both paths.
# - Chapter 04: step 2 in detail, with symbolic functions.
# - Chapter 10: the dynamo path's translations.
# - PyTorch's pages on `torch.export` and on control flow with `torch.cond`; the ONNX operators `If`, `Loop` and `Scan`.
#
# Previous: [01: What is in an ONNX model](01_onnx_model.ipynb)
# · Next: [03: Dynamic models](03_dynamic_models.ipynb)
# · [Glossary](../docs/glossary.md)
