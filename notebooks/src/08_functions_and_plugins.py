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
# # 08 · Functions and plugin-style operators
#
# After this chapter you can
#
# - put an operator, its gradient and its ONNX node into one class, and describe what the dynamo path does with that
#   class;
# - choose between composing an operator from ONNX's own nodes and writing one custom node, a *plugin*;
# - declare the type of such a node, and **run** it, because its kernel is loaded.
#
# ## 1. The problem: code that the TorchScript exporter cannot read
#
# Chapters 04 to 06 mapped operators that PyTorch knows by name. But much code has no name in PyTorch: a C library that
# works on raw memory, a module made with pybind11, a NumPy function. Here NumPy represents all of them. (The dynamo
# path can read NumPy, as a deeper section shows, but not a C library.) `library` computes `alpha * a + beta * b`. The
# **TorchScript path** exports it:

# %%
import torch

from oplab import lesson, quiet_exports

lab = lesson("08_functions_and_plugins")
quiet_exports()


def library(a, b, alpha, beta):
    """Some code that knows nothing of PyTorch."""
    return torch.from_numpy(alpha * a.detach().numpy() + beta * b.detach().numpy())


class Library(torch.nn.Module):
    def forward(self, a, b):
        return library(a, b, 3.0, 2.0)


torch.manual_seed(8)
pair = {"a": torch.rand(2, 3), "b": torch.rand(2, 3)}
baked = lab.build / "baked.onnx"
torch.onnx.export(Library(), (*pair.values(),), baked, dynamo=False, input_names=["a", "b"])
lab.show(baked)

# %% [markdown]
# There is no error. But the file has **no inputs**: what the library returned during the export became a constant. The
# tracer sees PyTorch operators only, and there were none.
#
# The next cell, which is folded, has four helpers. `export` uses the TorchScript path for any function of tensors. `stock`
# runs a model in ONNX Runtime without additions, `run` in ONNX Runtime with the course's kernels. `spoken` prints the
# warnings that the exporter's C++ code writes to stderr, where Python's `warnings` cannot catch them.

# %% {"jupyter": {"source_hidden": true}}
import io
import os
from contextlib import contextmanager

import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

from oplab import ops, raises, session

ops.load()


class Call(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


def as_module(function):
    return function.eval() if isinstance(function, torch.nn.Module) else Call(function).eval()


def export(function, inputs, outputs=("out",), opset=17, axes=None):
    """`inputs` is a dict of example tensors; `axes` names the dynamic axes."""
    names = {"input_names": list(inputs), "output_names": list(outputs), "dynamic_axes": axes}
    buffer, example = io.BytesIO(), (*inputs.values(),)
    torch.onnx.export(
        as_module(function), example, buffer, dynamo=False, opset_version=opset, **names
    )
    return onnx.load_model_from_string(buffer.getvalue())


def feed(runtime, feeds):
    return runtime.run(None, {name: np.asarray(value) for name, value in feeds.items()})


def stock(model, feeds):
    providers = ["CPUExecutionProvider"]
    return feed(ort.InferenceSession(model.SerializeToString(), providers=providers), feeds)


def run(model, feeds):
    return feed(session(model), feeds)


def nodes(model):
    return [
        f"{node.domain or 'ai.onnx'}::{node.op_type}({', '.join(node.input)})"
        for node in model.graph.node
    ]


def shape(value):
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        return "no shape"
    return [dim.dim_param or dim.dim_value for dim in kind.shape.dim]


@contextmanager
def spoken(show=True):
    path, kept = lab.build / "stderr.txt", os.dup(2)
    with open(path, "wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
    lines = [line.partition("Warning: ")[2] for line in path.read_text().splitlines()]
    if show:
        found = sorted({line.split(" (function")[0] for line in lines if line})
        print("\n".join(found) or "no warning")


# %% [markdown]
# The other case is an operator that has a name but no mapping, like the compiled
# one of chapter 07. Its export fails with a clear error.

# %%
assert not onnx.load(baked).graph.input
with raises(torch.onnx.errors.UnsupportedOperatorError, "unrecognized namespace oplab::my_add"):
    export(lambda a, b: torch.ops.oplab.my_add(a, b, 3.0, 2.0), pair)

# %% [markdown]
# ## 2. The fix: a Function with `symbolic`
#
# A subclass of `torch.autograd.Function` groups code into one operation. Its `forward` defines what the operation
# computes, and a static method named `symbolic` defines which ONNX node represents it. With `symbolic`, the exporter does
# not use what it recorded inside `forward`.


# %%
class MyAddFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, alpha, beta):
        return library(a, b, alpha, beta)

    @staticmethod
    def symbolic(g, a, b, alpha, beta):
        print("symbolic got:", *(type(value).__name__ for value in (a, b, alpha, beta)))
        return g.op("oplab::MyAdd", a, b, alpha_f=alpha, beta_f=beta).setType(a.type())


# %% [markdown]
# You call the class through `apply`, never through `forward`. Wrap it in a module to use it as a layer.


# %%
class MyAdd(torch.nn.Module):
    def __init__(self, alpha=3.0, beta=2.0):
        super().__init__()
        self.alpha, self.beta = alpha, beta

    def forward(self, a, b):
        return MyAddFunction.apply(a, b, self.alpha, self.beta)


rows = {"a": {0: "rows"}, "b": {0: "rows"}}
plugin = export(MyAdd(3.0, 0.5), pair, axes=rows)
print(nodes(plugin), {entry.name: entry.f for entry in plugin.graph.node[0].attribute})

# %% [markdown]
# Look at the arguments that `symbolic` got. Tensors are values of the graph, as in chapter 05. But `alpha` and `beta` are
# already **Python floats**: a Function's `symbolic` gets what `apply` got. So `parse_args` has no use here, and a number
# can become an attribute directly.
#
# With the course's kernel, the node runs at a size other than the exported one. Without the kernel, it does not run.

# %%
fresh = {"a": torch.rand(5, 3), "b": torch.rand(5, 3)}
print("equal:", np.allclose(run(plugin, fresh)[0], MyAdd(3.0, 0.5)(**fresh), rtol=0, atol=1e-6))
with raises(Fail, "oplab:MyAdd(-1) is not a registered function/op"):
    stock(plugin, fresh)
lab.show(plugin)

# %% [markdown]
# `symbolic` can also *compose* the operator from nodes that ONNX has. Then every runtime can run it.


# %%
class Composed(MyAddFunction):
    @staticmethod
    def symbolic(g, a, b, alpha, beta):
        left = g.op("Mul", a, g.op("Constant", value_t=torch.tensor(alpha)))
        right = g.op("Mul", b, g.op("Constant", value_t=torch.tensor(beta)))
        return g.op("Add", left, right)


composed = export(lambda a, b: Composed.apply(a, b, 3.0, 0.5), pair, axes=rows)
print([node.op_type for node in composed.graph.node])
print(
    "equal:",
    np.allclose(stock(composed, fresh)[0], MyAdd(3.0, 0.5)(**fresh), rtol=0, atol=1e-6),
)

# %% [markdown]
# `symbolic` is not compared with `forward`: chapter 03 had a wrong `forward` and a correct file. Compare the file with
# PyTorch yourself, as in the last line above.

# %% [markdown]
# ## 3. The gradient belongs in the class too
#
# Autograd does not record what `forward` does inside, so training stops at the Function.

# %%
leaf = {name: value.double().requires_grad_() for name, value in pair.items()}
with raises(NotImplementedError, "You must implement either the backward or vjp method"):
    MyAdd()(**leaf).sum().backward()

# %% [markdown]
# `backward` gets the gradient of the result and returns one entry for **each argument of `forward`**, not counting `ctx`:
# None for a number. `forward` saves on `ctx` what `backward` needs from the call: numbers as attributes, tensors with
# `save_for_backward`. `gradcheck` compares the gradients with finite differences of the function itself, in double
# precision.


# %%
class MyAddTrainable(MyAddFunction):
    @staticmethod
    def forward(ctx, a, b, alpha, beta):
        ctx.alpha, ctx.beta = alpha, beta
        return library(a, b, alpha, beta)

    @staticmethod
    def backward(ctx, grad):
        return ctx.alpha * grad, ctx.beta * grad, None, None


def trainable(a, b):
    return MyAddTrainable.apply(a, b, 3.0, 2.0)


print("gradcheck:", torch.autograd.gradcheck(trainable, (*leaf.values(),)))

# %% [markdown]
# The export is the same as before: a file for inference does not contain `backward`.
#
# ## 4. The dynamo path: `symbolic` is not called
#
# The **dynamo path** does not treat the Function as one operation. It traces `forward` like any other code, and your
# `symbolic` is never called. This class counts the calls; its `forward` is plain PyTorch.


# %%
class Counted(torch.autograd.Function):
    calls = 0

    @staticmethod
    def forward(ctx, a, b, alpha, beta):
        return alpha * a + beta * b

    @staticmethod
    def symbolic(g, a, b, alpha, beta):
        Counted.calls += 1
        return g.op("oplab::MyAdd", a, b, alpha_f=alpha, beta_f=beta).setType(a.type())


# %%
def dynamo(function, inputs, **options):
    module = function if isinstance(function, torch.nn.Module) else Call(function)
    options = {"input_names": list(inputs), "verbose": False, **options}
    return torch.onnx.export(
        module.eval(), (*inputs.values(),), dynamo=True, **options
    ).model_proto


def counted(a, b):
    return Counted.apply(a, b, 3.0, 0.5)


for label, path in (("TorchScript", export), ("dynamo", dynamo)):
    Counted.calls = 0
    model = path(counted, pair)
    print(
        f"{label:12} {[node.op_type for node in model.graph.node]!s:24}",
        f"symbolic called: {Counted.calls > 0}",
    )

# %% [markdown]
# There is no error and no warning, the numbers are right, and **the plugin is gone**. If your kernel was supposed to do
# the work, it will not. When `forward` calls something opaque, like a compiled operator, the export stops instead.


# %%
def compiled(a, b):
    return torch.ops.oplab.my_add(a, b, 3.0, 0.5)


with raises(
    torch.onnx.OnnxExporterError, "No ONNX function found for <OpOverload(op='oplab.my"
):
    dynamo(compiled, pair)

# %% [markdown]
# ### The modern counterpart
#
# On the dynamo path, the parts of a Function are defined in separate places:
#
# | | a Function, TorchScript path | dynamo path |
# |---|---|---|
# | what it computes | `forward` | an operator: C++ (chapter 07) or `torch.library.custom_op` |
# | its shapes without data | `forward` runs on the example | a *fake*, `register_fake` |
# | its gradient | `backward` | `torch.library.register_autograd` |
# | its node | `symbolic` | a typed function in `custom_translation_table` |
#
# `torch.ops.oplab.my_add` has the first three. It lacks a translation: typed arguments, a typed result, and the node
# between them. A number has the schema's default, because the exporter passes on only what the call gives. An `Opset` is a
# domain with its version.

# %%
from onnxscript import FLOAT, script
from onnxscript.values import Opset

oplab_1 = Opset("oplab", 1)


@script(oplab_1)
def my_add_translation(
    a: FLOAT[...], b: FLOAT[...], alpha: float = 3.0, beta: float = 2.0
) -> FLOAT[...]:
    return oplab_1.MyAdd(a, b, alpha=alpha, beta=beta)


# %%
table = {torch.ops.oplab.my_add.default: my_add_translation}
modern = dynamo(
    compiled,
    pair,
    custom_translation_table=table,
    dynamic_shapes=(({0: "rows"}, {0: "rows"}),),
)
print(nodes(modern), {entry.name: entry.f for entry in modern.graph.node[0].attribute})
print("equal:", np.allclose(run(modern, fresh)[0], compiled(**fresh), rtol=0, atol=1e-6))
print("gradcheck:", torch.autograd.gradcheck(compiled, (*leaf.values(),)))

# %% [markdown]
# The operator has its gradient without a Function around it. What else the dynamo path does with a Function, and a class
# that serves both paths, is in "Deeper: A Function on the dynamo path".

# %% [markdown]
# ## 5. Composition or plugin: DynamicResize
#
# Now a real operator. Chapter 03 exported a super-resolution net whose factor is an *input* of the file. Its first step
# is a bicubic resize by a tensor of factors. Here that step is the compiled operator `oplab::dynamic_resize`. Two classes
# share one `forward` and differ in `symbolic`. *(TorchScript path.)*


# %%
class ComposedResize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scales):
        return torch.ops.oplab.dynamic_resize(x, scales)

    @staticmethod
    def symbolic(g, x, scales):
        roi = g.op("Constant", value_t=torch.tensor([], dtype=torch.float32))
        mode = {
            "mode_s": "cubic",
            "coordinate_transformation_mode_s": "half_pixel",
            "cubic_coeff_a_f": -0.75,
        }
        return g.op("Resize", x, roi, scales, **mode)


class PluginResize(ComposedResize):
    @staticmethod
    def symbolic(g, x, scales):
        return g.op("oplab::DynamicResize", x, scales)


# %% [markdown]
# The net is chapter 00's SRCNN with its trained weights: it first enlarges the image, then sharpens it.

# %%
from oplab.nets import photos
from oplab.nets.srcnn import load_srcnn


class SuperResolution(torch.nn.Module):
    def __init__(self, resize):
        super().__init__()
        self.resize, self.srcnn = resize, load_srcnn()

    def forward(self, x, factor):
        return self.srcnn(self.resize(x, factor))


def factor(value):
    return torch.tensor([1, 1, value, value], dtype=torch.float32)


chelsea = torch.from_numpy(photos.to_nchw(photos.photo("chelsea", (90, 120))))
example = {"input": chelsea[..., :20, :30], "factor": factor(3)}
photo_axes = {"input": {0: "n", 2: "h", 3: "w"}, "output": {0: "n", 2: "H", 3: "W"}}

# %%
net = SuperResolution(PluginResize.apply)
with_resize = export(
    SuperResolution(ComposedResize.apply), example, ["output"], axes=photo_axes
)
with spoken():
    with_plugin = export(net, example, ["output"], axes=photo_axes)
for model in (with_resize, with_plugin):
    onnx.checker.check_model(model, full_check=True)
    print(
        nodes(model)[:2],
        {entry.domain or "ai.onnx": entry.version for entry in model.opset_import},
    )

# %% [markdown]
# Both are valid. Section 6 returns to the warning. The composition is on the left, the plugin on the right. The viewer
# marks what differs: one node, and the constant before it.

# %%
lab.show(with_resize, with_plugin)

# %% [markdown]
# Where can they run? The composition runs in every runtime that implements cubic Resize at this opset. The plugin runs where
# its kernel is available. Note that the checker accepted both: it does not know the domain `oplab`, so it does not check that
# node.

# %%
feeds = {"input": chelsea, "factor": factor(2.3)}
with raises(Fail, "oplab:DynamicResize(-1) is not a registered function/op"):
    stock(with_plugin, feeds)
print("composition, stock ONNX Runtime:", stock(with_resize, feeds)[0].shape)
print("plugin, with the kernels:       ", run(with_plugin, feeds)[0].shape)

# %% [markdown]
# ### The proof
#
# The test uses the photo and a second photo of a different size, at four factors, of which only one was exported. A crop of 10
# × 10 pixels is a trap: 10 · 2.3 is 23 in float32, which ONNX Runtime uses, and 22 in the double arithmetic of
# `torch.nn.functional.interpolate` (chapter 03).

# %%
coffee = torch.from_numpy(photos.to_nchw(photos.photo("coffee", (61, 83))))
ten = chelsea[..., :10, :10]
tests = {
    "chelsea": chelsea,
    "coffee": coffee,
    "10 × 10": ten,
    "two": chelsea.repeat(2, 1, 1, 1),
}
runtime, worst = session(with_plugin), 0.0
for label, photo in tests.items():
    for value in (1.5, 2, 2.3, 3):
        with torch.no_grad():
            expected = net(photo, factor(value)).numpy()
        (got,) = feed(runtime, {"input": photo, "factor": factor(value)})
        assert got.shape == expected.shape, (label, value)
        worst = max(worst, np.abs(got - expected).max())
print("16 runs, all within 1e-5 of PyTorch:", worst <= 1e-5)
assert worst <= 1e-5

# %%
(got,) = feed(runtime, {"input": ten, "factor": factor(2.3)})
scales = factor(2.3).tolist()[2:]
naive = torch.nn.functional.interpolate(ten, scale_factor=scales, mode="bicubic")
print("10 × 10 by 2.3: plugin", got.shape[2:], " interpolate", (*naive.shape[2:],))

# %% [markdown]
# The figure shows the photo from the plugin model next to PyTorch's, and how far the output of each file is from PyTorch's.
# One grey level is 0.004; the scale of the differences ends at 0.000002. The plugin is closer: its kernel and the PyTorch
# operator are compiled from the same code (`csrc/common/resize.h`), while ONNX Runtime's Resize has its own arithmetic.

# %% {"jupyter": {"source_hidden": true}}
import matplotlib.pyplot as plt

with torch.no_grad():
    expected = net(chelsea, factor(3)).numpy()
big = {"input": chelsea, "factor": factor(3)}
(got,), (composed_photo,) = run(with_plugin, big), run(with_resize, big)
views = {
    "input, 90 × 120": chelsea,
    "plugin in ONNX Runtime, × 3": got,
    "PyTorch, × 3": expected,
}
gaps = {"plugin − PyTorch": got, "composition − PyTorch": composed_photo}
figure, grid = plt.subplots(1, 5, figsize=(14, 2.5), layout="constrained")
for axes, (title, image) in zip(grid, views.items(), strict=False):
    axes.imshow(photos.to_image(image), interpolation="nearest")
    axes.set_title(title, fontsize=10)
for axes, (title, image) in zip(grid[3:], gaps.items(), strict=True):
    gap = np.abs(image - expected).max(1)[0]
    drawn = axes.imshow(gap, cmap="cividis", vmin=0, vmax=2e-6)
    axes.set_title(title, fontsize=10)
bar = figure.colorbar(drawn, ax=grid[3:], shrink=0.8, format="%.0e")
bar.set_label("largest difference of\nthe three channels", fontsize=8)
for axes in grid:
    axes.axis("off")
lab.figure(
    figure,
    "Three photos of a cat: the small input, the plugin's enlarged output and PyTorch's, which "
    "look the same. Two maps of differences: the plugin's is evenly dark, the composition's "
    "has light edges.",
)

# %% [markdown]
# ### Which one?
#
# | | composition | plugin |
# |---|---|---|
# | needs | ONNX operators for it, in your opset | a kernel on every runtime that you ship to |
# | runs in | every runtime, even one that you have never seen | your runtime, with your library |
# | shapes and types | ONNX infers them | you declare them (section 6) |
# | speed | what the runtime does with many nodes | what you write (chapter 14) |
# | a wrong mapping | found by comparing | found by comparing, but only by you |
#
# Compose where you can. Use a plugin for what ONNX cannot express (the nearest neighbours of "Deeper: Two outputs and
# optional inputs"), or expresses too slowly.
#
# ### The same on the dynamo path
#
# The operator has its fake: height and width are new unknown sizes, because they depend on *values*. A translation
# decides between composition and plugin.

# %%
from onnxscript import opset18


def to_resize(x: FLOAT, scales: FLOAT) -> FLOAT:
    return opset18.Resize(
        x,
        None,
        scales,
        mode="cubic",
        coordinate_transformation_mode="half_pixel",
        cubic_coeff_a=-0.75,
    )


@script(oplab_1)
def to_plugin(x: FLOAT[...], scales: FLOAT[...]) -> FLOAT[...]:
    return oplab_1.DynamicResize(x, scales)


# %%
operator = torch.ops.oplab.dynamic_resize
batch = {"input": chelsea.repeat(2, 1, 1, 1)[..., :20, :30], "factor": factor(3)}
for translation in (to_resize, to_plugin):
    model = dynamo(
        SuperResolution(operator),
        batch,
        custom_translation_table={operator.default: translation},
        dynamic_shapes=({0: "n", 2: "h", 3: "w"}, None),
    )
    (got,) = run(model, feeds)
    print(nodes(model)[0], np.allclose(got, feed(runtime, feeds)[0], rtol=0, atol=1e-5))
    print("   output:", shape(model.graph.output[0]))

# %% [markdown]
# ## 6. The warning, and what answers it
#
# `PluginResize` declared nothing about its output, and the exporter warned. Here it is alone, without the net.

# %%
small = {"x": example["input"], "scales": factor(3)}
open_sizes = {"x": {0: "n", 2: "h", 3: "w"}}
with spoken():
    untyped = export(PluginResize.apply, small, axes=open_sizes)
print("output:", shape(untyped.graph.output[0]))

# %% [markdown]
# The output has four axes, and nothing is known about them, not even the three channels. For running, that is fine: the
# model of section 5 ran. It is not fine for the **export of what comes after the node**. Many mappings need to know a
# size. A normalisation of the channels does:

# %%
norm = torch.nn.InstanceNorm2d(3)
with (
    raises(torch.onnx.errors.SymbolicValueError, "instance_norm for unknown channel size"),
    spoken(show=False),
):
    export(lambda x, scales: norm(PluginResize.apply(x, scales)), small, axes=open_sizes)

# %% [markdown]
# ### setType in `symbolic`
#
# Chapter 05 shows the three forms of `setType`. `x.type()` would declare the output "as large as x". The correct type
# has the batch and the channels of `x`, and two sizes that are **not known**: None. `varyingSizes()` gives the sizes of
# `x`, with None for a dynamic axis (`sizes()` as a whole is None as soon as one axis is dynamic). An axis that no
# factor touches keeps its size.


# %%
class TypedResize(ComposedResize):
    @staticmethod
    def symbolic(g, x, scales):
        n, c, _, _ = x.type().varyingSizes()
        y = g.op("oplab::DynamicResize", x, scales)
        return y.setType(x.type().with_sizes([n, c, None, None]))


with spoken():
    typed = export(TypedResize.apply, small, axes=open_sizes)
print("output:", shape(typed.graph.output[0]))

# %%
normed = export(lambda x, scales: norm(TypedResize.apply(x, scales)), small, axes=open_sizes)
print([node.op_type for node in normed.graph.node if node.op_type != "Constant"])
for value in (3, 1.5):
    expected = norm(operator(coffee, factor(value)))
    print(
        value,
        np.allclose(
            run(normed, {"x": coffee, "scales": factor(value)})[0], expected, rtol=0, atol=1e-4
        ),
    )

# %% [markdown]
# ### The declared type is not checked
#
# It is tempting to declare the shape that `forward` saw. The warning is gone, the shape is complete, and the first run is
# right. In this model, a crop to the upper half follows the node.


# %%
class FrozenResize(ComposedResize):
    @staticmethod
    def symbolic(g, x, scales):
        y = g.op("oplab::DynamicResize", x, scales)
        return y.setType(x.type().with_sizes([1, 3, 60, 90]))  # 3 times 20 × 30


def upper_half(resize):
    def function(x, scales):
        y = resize(x, scales)
        return y[:, :, : y.shape[2] // 2]

    return function


# %%
for resize in (TypedResize, FrozenResize):
    model = export(upper_half(resize.apply), small, axes=open_sizes)
    kinds = [node.op_type for node in model.graph.node]
    print(f"{resize.__name__}: {len(kinds)} nodes, Shape among them: {'Shape' in kinds}")
    for value in (3, 2):
        right = upper_half(operator)(small["x"], factor(value)).shape
        (got,) = run(model, {"x": small["x"], "scales": factor(value)})
        same = got.shape == right
        print(f"   factor {value}: {list(got.shape)}, PyTorch {list(right)}, equal: {same}")

# %% [markdown]
# The exporter folded `y.shape[2]` to the declared 60. At factor 2 the file returns 30 rows instead of 20, without an
# error. An unknown size costs a few nodes; a wrong size makes the result wrong.
#
# ## 7. Limits
#
# - `autograd.Function` with `symbolic` belongs to the TorchScript path, which is no longer developed. For a new operator,
#   write the operator (chapter 07) and a translation; keep a Function where a code base already has one.
# - `forward`, `symbolic` and the kernel are not compared automatically. Compare them yourself, on sizes that were not
#   exported.
# - A declared type is not checked. Only a run at another size shows that it is wrong.
#
# ## 8. Exercises
#
# Each exercise returns a class. For a hint, call `lab.hint("my_add_function")`.
#
# The two below are repairs: the stub has a class with two faults, which exports without an error. The third,
# `knn_plugin`, is in a deeper section.
#
# **`my_add_function`** — a Function with its gradient, and one node for each call, where `b` may be a single row:
# [exercises/c08_functions_and_plugins.py](../exercises/c08_functions_and_plugins.py#line=78).

# %%
lab.check("my_add_function")

# %% [markdown]
# **`dynamic_resize_plugin`** — a plugin node that resizes the height alone, and whose type is true at every factor. The
# grader exports it with operators after it that you have not seen, and runs the file:
# [exercises/c08_functions_and_plugins.py](../exercises/c08_functions_and_plugins.py#line=127).

# %%
lab.check("dynamic_resize_plugin")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: What goes wrong in a Function
#
# **A default.** An argument that is left out does not reach `symbolic`, whatever default `forward` has. So give
# `symbolic` the same defaults.


# %%
class WithDefaults(MyAddFunction):
    @staticmethod
    def forward(ctx, a, b, alpha=3.0, beta=2.0):
        return library(a, b, alpha, beta)


with raises(TypeError, "missing 2 required positional arguments: 'alpha' and 'beta'"):
    export(lambda a, b: WithDefaults.apply(a, b), pair)

# %% [markdown]
# **The number of gradients** is checked by PyTorch.


# %%
class Passes(MyAddFunction):
    @staticmethod
    def backward(ctx, grad):
        return grad, grad


with raises(RuntimeError, "incorrect number of gradients (expected 4, got 2)"):
    Passes.apply(*leaf.values(), 3.0, 2.0).sum().backward()

# %% [markdown]
# **Their values** are not checked. With two None added, they are still wrong, because d(3a)/da is 3. `gradcheck` reports
# it.

# %%
from torch.autograd.gradcheck import GradcheckError


class Four(MyAddFunction):
    @staticmethod
    def backward(ctx, grad):
        return grad, grad, None, None


with raises(GradcheckError, "Jacobian mismatch for output 0 with respect to input 0"):
    torch.autograd.gradcheck(lambda a, b: Four.apply(a, b, 3.0, 2.0), (*leaf.values(),))

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: A Function on the dynamo path
#
# The dynamo path even reads NumPy. `torch.export` refuses it at first (chapter 02), then the exporter tries
# `strict=True`, which turns NumPy's calls into PyTorch's. So `MyAdd`, whose `forward` calls the NumPy library, also
# becomes Mul, Mul, Add.

# %%
print([node.op_type for node in dynamo(MyAdd(3.0, 0.5), pair).graph.node])

# %% [markdown]
# If you have a Function around a compiled operator, the translation table works for it too, because `forward` is traced
# down to the operator.


# %%
class Compiled(Counted):
    @staticmethod
    def forward(ctx, a, b, alpha, beta):
        return torch.ops.oplab.my_add(a, b, alpha, beta)


def in_a_function(a, b):
    return Compiled.apply(a, b, 3.0, 0.5)


with raises(
    torch.onnx.OnnxExporterError, "No ONNX function found for <OpOverload(op='oplab.my"
):
    dynamo(in_a_function, pair)
print(nodes(dynamo(in_a_function, pair, custom_translation_table=table)))

# %% [markdown]
# ### Without an operator: `torch.onnx.ops.symbolic`
#
# You can also write a node in the model's own code. There is a catch: outside an export, the call returns **zeros**.

# %%
node = {"attrs": {"alpha": 3.0, "beta": 0.5}, "dtype": torch.float32, "version": 1}


def unguarded(a, b):
    return torch.onnx.ops.symbolic("oplab::MyAdd", (a, b), shape=a.shape, **node)


print(nodes(dynamo(unguarded, pair)))
print("in PyTorch:", unguarded(**pair).unique().tolist())
assert not unguarded(**pair).any()

# %% [markdown]
# So first check whether an export is in progress, and on which path. `is_in_onnx_export()` is true on both paths,
# `is_exporting()` on the dynamo path only. A Function's `forward` also runs on the TorchScript path, which takes its node
# from `symbolic`. So `forward` checks both conditions; then one class serves both paths.


# %%
class BothPaths(MyAddTrainable):
    @staticmethod
    def forward(ctx, a, b, alpha, beta):
        if torch.compiler.is_exporting() and torch.onnx.is_in_onnx_export():
            attributes = {**node, "attrs": {"alpha": alpha, "beta": beta}}
            return torch.onnx.ops.symbolic("oplab::MyAdd", (a, b), shape=a.shape, **attributes)
        return MyAddTrainable.forward(ctx, a, b, alpha, beta)


# %%
def both_paths(a, b):
    return BothPaths.apply(a, b, 3.0, 0.5)


expected = library(**pair, alpha=3.0, beta=0.5)
models = {
    "TorchScript": export(both_paths, pair, axes=rows),
    "dynamo": dynamo(both_paths, pair),
}
for label, model in models.items():
    print(f"{label:12}", nodes(model), np.allclose(run(model, pair)[0], expected))

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Shapes from the kernel
#
# `setType` is one answer to the warning of section 6. The kernel can also provide shapes. It may have a function that
# computes the shapes of its outputs from those of its inputs, when the model is loaded. The course's `MyAdd` has one. Here
# is a file whose output has no shape:


# %%
class Untyped(MyAddFunction):
    @staticmethod
    def symbolic(g, a, b, alpha, beta):
        return g.op("oplab::MyAdd", a, b, alpha_f=alpha, beta_f=beta)


with spoken(show=False):
    silent = export(lambda a, b: Untyped.apply(a, b, 3.0, 2.0) * 2, pair, axes=rows)
silent.graph.output[0].type.tensor_type.ClearField("shape")
del silent.graph.value_info[:]
print("onnx.shape_inference:", shape(onnx.shape_inference.infer_shapes(silent).graph.output[0]))
print("ONNX Runtime:        ", session(silent).get_outputs()[0].shape)

# %% [markdown]
# ONNX's own inference finds no shape. The session reports `['rows', 3]`, including the name: the kernel provided it, so
# the size of Mul's output is known too. If the file declares something else, the session drops the sizes on which the two
# disagree:

# %%
claimed = onnx.helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, ["rows", 4])
silent.graph.output[0].CopyFrom(claimed)
print(
    "the file says",
    shape(claimed),
    " the session knows",
    session(silent).get_outputs()[0].shape,
)

# %% [markdown]
# But all this comes too late for the exporter. The two answers do not replace each other:
#
# | | `setType` | the kernel's inference |
# |---|---|---|
# | who reads it | the exporter, and anyone who opens the file | ONNX Runtime, when it loads the file |
# | makes the operators after it exportable | yes | no |
# | is in the file | yes | no |
# | may depend on data | no | no: `DynamicResize` has no inference, because its sizes depend on data |
# | if it is wrong | wrong constants in the graph, without an error | a size is dropped; a wrong dtype does not load |
#
# On the dynamo path, the fake gives the dtype and the shape before any node is written.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Two outputs and optional inputs: KNNQuery
#
# Point clouds need an operator that ONNX cannot compose well: for each point, its nearest neighbours. The course's
# `knn_query` has the interface of a well-known CUDA operator. Several clouds are concatenated in one tensor, and `offset`
# holds the position where each one ends.

# %%
print(torch.ops.oplab.knn_query.default._schema)


def scan(seed, count):
    """Points on a ball, a box and the floor, as a scanner sees them: float32 (3 * count, 3)."""
    rng = np.random.default_rng(seed)
    ball = rng.normal(size=(count, 3))
    ball = ball / np.linalg.norm(ball, axis=1, keepdims=True) * 0.6 + [0, 0, 0.6]
    box = rng.uniform(-0.4, 0.4, size=(count, 3))
    box[np.arange(count), rng.integers(0, 3, count)] = rng.choice([-0.4, 0.4], count)
    floor = np.column_stack(
        [rng.uniform(-1.2, 2.6, count), rng.uniform(-1, 1, count), np.zeros(count)]
    )
    points = np.concatenate([ball, box + [1.6, 0, 0.4], floor])
    points = (
        points * 256
    ).round() / 256  # squared distances are exact, so there are no near ties
    return torch.from_numpy(points.astype(np.float32))


# %%
cloud = {"xyz": torch.cat([scan(1, 600), scan(2, 500)]), "offset": torch.tensor([1800, 3300])}
idx, dist = torch.ops.oplab.knn_query(8, **cloud)
print(
    "idx ",
    idx.dtype,
    list(idx.shape),
    " of the second cloud, all from it:",
    bool((idx[1800:] >= 1800).all()),
)
print(
    "dist",
    dist.dtype,
    list(dist.shape),
    " each point finds itself first:",
    bool((dist[:, 0] == 0).all()),
)

# %% [markdown]
# The points that ask can be different from the points that are searched: they are `new_xyz`, with `new_offset`. Without
# these two inputs, each point asks for its own neighbours, a *self-query*.
#
# ### The Function of older texts
#
# *(TorchScript path.)* This is the usual pattern for such operators: `nsample` becomes a constant input, and the name of
# the node is arbitrary.


# %%
class OldQuery(torch.autograd.Function):
    @staticmethod
    def forward(ctx, nsample, xyz, offset, new_xyz=None, new_offset=None):
        if new_xyz is None or new_offset is None:
            new_xyz = new_offset = None
        return torch.ops.oplab.knn_query(nsample, xyz, offset, new_xyz, new_offset)

    @staticmethod
    def symbolic(g, nsample, xyz, offset, new_xyz=None, new_offset=None):
        nsample = g.op("Constant", value_t=torch.tensor(nsample))
        if new_xyz is None or new_offset is None:
            return g.op("custom::knnquery", nsample, xyz, offset, outputs=2)
        return g.op("custom::knnquery", nsample, xyz, offset, new_xyz, new_offset, outputs=2)


# %%
ends = {"xyz": {0: "n"}, "offset": {0: "b"}, "new_xyz": {0: "m"}, "new_offset": {0: "b"}}
found = ["idx", "dist"]
with spoken():
    old = export(lambda *tensors: OldQuery.apply(8, *tensors), cloud, found, axes=ends)
print(nodes(old), [shape(value) for value in old.graph.output])
with raises(Fail, "custom:knnquery(-1) is not a registered function/op"):
    run(old, cloud)

# %% [markdown]
# It exports, but nothing can run it. `outputs=2` is right: without it, `g.op` creates one output, and the export stops.
# In a Function, a `new_xyz` or `new_offset` that was not given is **Python's** None, so `is None` is the right check. (In
# chapter 06 the function was registered by name. There, a missing argument is a None *of the graph*, and `_is_none` is
# the right check.)
#
# Three changes are left: a node that a kernel implements, `nsample` as an attribute, and the types. The mistakes come
# first. `query` makes a Function from a `symbolic`.


# %%
def query(symbolic):
    return type("KNNQuery", (OldQuery,), {"symbolic": staticmethod(symbolic)})


def one_output(g, nsample, xyz, offset, new_xyz=None, new_offset=None):
    return g.op("oplab::KNNQuery", xyz, offset, nsample_i=nsample)


with raises(RuntimeError, "incorrect number of outputs (expected 2, but got 1)"):
    export(lambda *tensors: query(one_output).apply(8, *tensors), cloud, found)

# %% [markdown]
# **An input in the wrong place.** "Pass on what is there" (chapter 06) is right for two Nones. `forward` above has its own
# rule, also from older texts: if *one* of the two is None, it is a self-query. In that case, the list `given` below moves
# `new_offset` into the place of `new_xyz`.

# %%
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph


def what_is_there(g, nsample, xyz, offset, new_xyz=None, new_offset=None):
    given = [value for value in (xyz, offset, new_xyz, new_offset) if value is not None]
    return g.op("oplab::KNNQuery", *given, nsample_i=nsample, outputs=2)


def one_none(xyz, offset, new_offset):
    return query(what_is_there).apply(8, xyz, offset, None, new_offset)


with spoken(show=False):
    shifted = export(one_none, {**cloud, "new_offset": cloud["offset"]}, found, axes=ends)
print(nodes(shifted))
with raises(InvalidGraph, "Type 'tensor(int64)' of input parameter (new_offset)"):
    run(shifted, {**cloud, "new_offset": cloud["offset"]})

# %% [markdown]
# Here the dtypes differ, so ONNX Runtime detects the mistake. In chapter 06 they did not, and the numbers were wrong
# without an error.
#
# **The wrong dtype.** The obvious `setType(xyz.type())` declares the indices as floats. No later node depends on the
# dtype here, so the export accepts this. The kernel does not.


# %%
def floats(g, nsample, xyz, offset, new_xyz=None, new_offset=None):
    idx, dist = what_is_there(g, nsample, xyz, offset, new_xyz, new_offset)
    return idx.setType(xyz.type()), dist.setType(xyz.type())


wrong = export(lambda *tensors: query(floats).apply(8, *tensors), cloud, found, axes=ends)
print([shape(value) for value in wrong.graph.output], "  8 neighbours were asked for")
with raises(Fail, "Type (tensor(float)) of output arg (idx)"):
    run(wrong, cloud)

# %% [markdown]
# The shape is as wrong as the dtype: three columns, because a point has three coordinates.
#
# ### The fix
#
# First decide whether it is a self-query. Then the list of inputs has two entries or four, never three. Each output gets
# its dtype and its shape: one row for each point that asks, and `nsample` columns.


# %%
class KNNQuery(OldQuery):
    @staticmethod
    def symbolic(g, nsample, xyz, offset, new_xyz=None, new_offset=None):
        self_query = new_xyz is None or new_offset is None
        asking, inputs = (xyz, []) if self_query else (new_xyz, [new_xyz, new_offset])
        idx, dist = g.op("oplab::KNNQuery", xyz, offset, *inputs, nsample_i=nsample, outputs=2)
        rows = asking.type().with_sizes([asking.type().varyingSizes()[0], nsample])
        return idx.setType(rows.with_dtype(torch.int32)), dist.setType(rows)


# %%
asking = {
    "new_xyz": torch.tensor([[0.0, 0, 1.4], [-0.8, -0.3, 0.3], [2.2, -0.5, 0.7]]),
    "new_offset": torch.tensor([1, 3]),
}
with spoken():
    own = export(
        lambda *t: KNNQuery.apply(8, *t),
        cloud,
        found,
        axes={**ends, "idx": {0: "n"}, "dist": {0: "n"}},
    )
    both = {**ends, "idx": {0: "m"}, "dist": {0: "m"}}
    others = export(lambda *t: KNNQuery.apply(8, *t), {**cloud, **asking}, found, axes=both)
for model in (own, others):
    onnx.checker.check_model(model, full_check=True)
    kinds = [
        onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type)
        for value in model.graph.output
    ]
    print(nodes(model), kinds, [shape(value) for value in model.graph.output])
lab.show(others)

# %% [markdown]
# ### The proof
#
# The test uses clouds that were not exported: other sizes, three clouds in one tensor, one of them empty, one with fewer
# points than neighbours. For the missing neighbours, idx is -1 and dist is 0. In the last test, no new point asks.


# %%
def compare(sizes, asked):
    xyz, offset = (
        torch.cat([scan(40 + size, 100)[:size] for size in sizes]),
        torch.tensor(sizes).cumsum(0),
    )
    new = {
        "new_xyz": scan(50, 40)[: sum(asked)] + 1 / 16,
        "new_offset": torch.tensor(asked).cumsum(0),
    }
    feeds, padded = {"xyz": xyz, "offset": offset}, []
    for model, given in ((own, feeds), (others, {**feeds, **new})):
        right = torch.ops.oplab.knn_query(8, **given)
        got = run(model, given)
        assert got[0].dtype == np.int32 and np.array_equal(got[0], right[0])
        assert np.allclose(got[1], right[1], rtol=0, atol=1e-5)
        padded.append(int((got[0] < 0).sum()))
    return padded


for sizes, asked in (
    ([250], [7]),
    ([40, 5, 90], [3, 2, 4]),
    ([30, 0, 12], [1, 0, 6]),
    ([9, 8], [0, 0]),
):
    padded = compare(sizes, asked)
    print(f"clouds of {sizes}, {asked} new points: all equal; -1 in the two results: {padded}")

# %% [markdown]
# The figure shows the neighbours that ONNX Runtime found. A star is a point that asks, and blue lines lead to the points
# that it found. On the left is a self-query: each point is its own first neighbour. On the right, two new points ask,
# which are next to the objects.

# %% {"jupyter": {"source_hidden": true}}
from oplab.figures.palette import BLUE, ORANGE

idx, _ = run(own, cloud)
new_idx, _ = run(others, {**cloud, **asking})
points, new = cloud["xyz"].numpy(), asking["new_xyz"].numpy()
panels = {  # title: the points that are drawn; pairs of a point that asks and its neighbours
    "self-query: 12 points of the first cloud": (
        slice(0, 1800),
        [(points[i], idx[i]) for i in range(40, 1800, 150)],
    ),
    "two new points ask in the second cloud": (
        slice(1800, None),
        [(new[i], new_idx[i]) for i in (1, 2)],
    ),
}
figure = plt.figure(figsize=(12, 3.7))
for place, (title, (part, queries)) in enumerate(panels.items()):
    where = (place * 0.5 - 0.12, -0.4, 0.74, 1.7)
    axes = figure.add_axes(where, projection="3d", computed_zorder=False)
    axes.scatter(*points[part].T, s=4, color="0.6", depthshade=False)
    for point, near in queries:
        for end in points[near]:
            axes.plot(*np.stack([point, end]).T, color=BLUE, lw=1.2)
        axes.scatter(*points[near].T, s=13, color=BLUE, depthshade=False)
        axes.scatter(*point, s=70, color=ORANGE, marker="*", depthshade=False)
    axes.set_box_aspect((3.8, 2, 1.3), zoom=1.1)
    axes.view_init(22, -65)
    axes.set_axis_off()
    figure.text(place * 0.5 + 0.25, 0.93, title, ha="center", fontsize=11)
lab.figure(
    figure,
    "Two point clouds, each a ball and a box on a floor. On the left, lines go from 12 stars "
    "to their neighbours around them; on the right, from two stars next to the objects to the "
    "nearest points of the objects.",
)

# %% [markdown]
# ### The same on the dynamo path
#
# The translation has optional arguments with the default None, and a result of two types. It has to name the node's
# outputs first: `return oplab_1.KNNQuery(…)` is refused, because one call could return one value or two.

# %%
from onnxscript import INT32, INT64


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


# %%
table = {torch.ops.oplab.knn_query.default: knn_translation}
for given, dims in ((cloud, "nb"), ({**cloud, **asking}, "nbmb")):
    model = dynamo(
        lambda *tensors: torch.ops.oplab.knn_query(8, *tensors),
        given,
        custom_translation_table=table,
        dynamic_shapes=(tuple({0: name} for name in dims),),
    )
    same = [
        np.array_equal(a, b)
        for a, b in zip(run(model, given), torch.ops.oplab.knn_query(8, **given), strict=True)
    ]
    print(nodes(model), [shape(value) for value in model.graph.output], same)

# %% [markdown]
# Here the fake gave both outputs their dtype and shape, including the name `m`.
#
# ### Two more limits
#
# The exporter drops a graph input that no node reads, like `new_offset` in a self-query:

# %%
half = export(
    lambda xyz, offset, new_offset: KNNQuery.apply(8, xyz, offset, None, new_offset),
    {**cloud, "new_offset": cloud["offset"]},
    found,
    axes=ends,
)
print([value.name for value in half.graph.input])

# %% [markdown]
# **Each** output needs a type. If one is missing, the type of the other output is lost too:


# %%
def half_typed(g, nsample, xyz, offset, new_xyz=None, new_offset=None):
    idx, dist = what_is_there(g, nsample, xyz, offset, new_xyz, new_offset)
    return idx.setType(xyz.type().with_dtype(torch.int32).with_sizes([None, nsample])), dist


with spoken(show=False):
    model = export(
        lambda *tensors: query(half_typed).apply(8, *tensors), cloud, found, axes=ends
    )
print([shape(value) for value in model.graph.output])

# %% [markdown]
# **`knn_plugin`** — optional inputs that keep their places, and one result or two, as the call asks, each with its type:
# [exercises/c08_functions_and_plugins.py](../exercises/c08_functions_and_plugins.py#line=162).

# %%
lab.check("knn_plugin")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: What a plugin is in TensorRT
#
# The word comes from TensorRT, NVIDIA's inference engine. There, a *plugin* is a C++ or Python class with a kernel for
# the GPU. It is registered under three strings: a **name**, a **version** and a **namespace**. The name is the node's
# op_type; version and namespace come from two string *attributes*, `plugin_version` (default "1") and `plugin_namespace`
# (default ""). The node's **domain is not used** before TensorRT 10.10; since then, step 4 also reads a namespace from it.
# TensorRT's ONNX parser tries, in this order:
#
# 1. Since TensorRT 10.15: a registered plugin, if the node has the attribute `plugin_namespace` or the parser has
#    the flag `kENABLE_PLUGIN_OVERRIDE`. Older parsers do not have this flag.
# 2. A built-in importer, by the **op_type alone**. The parser knows most of ONNX's operators.
# 3. A model-local function of this name (chapter 10), since TensorRT 9.
# 4. A registered plugin. It gets the node's attributes as *fields*, and its inputs as tensors. If there is none, the parser
#    stops with "Plugin not found, are the plugin name, version, and namespace correct?"
#
# An old text writes such a node for the resize, with a made-up domain, and ends there. Here it is:


# %%
class TensorRTResize(ComposedResize):
    @staticmethod
    def symbolic(g, x, scales):
        return g.op("Just_A_Scope_Name::DynamicTRTResize", x, scales)


with spoken():
    strange = export(
        SuperResolution(TensorRTResize.apply), example, ["output"], axes=photo_axes
    )
print(nodes(strange)[0])
with raises(Fail, "Just_A_Scope_Name:DynamicTRTResize(-1) is not a registered function/op"):
    run(strange, feeds)

# %% [markdown]
# What would TensorRT look for? This function reads from a node what a parser before 10.10 reads.


# %%
def plugin_key(node):
    fields = {entry.name: onnx.helper.get_attribute_value(entry) for entry in node.attribute}
    version = fields.get("plugin_version", b"1").decode()
    namespace = fields.get("plugin_namespace", b"").decode()
    return {"name": node.op_type, "version": version, "namespace": namespace}, fields


for model in (strange, with_plugin):
    print(*plugin_key(model.graph.node[0]))

# %% [markdown]
# `Just_A_Scope_Name` does not appear: there, the scope is for ONNX Runtime and for readers. One name is a trap: a
# node `oplab::Resize` would be imported in step 2, as ONNX's Resize. Give a plugin a name that ONNX does not
# have.
#
# To match a plugin that is registered in a namespace, write the two attributes. ONNX Runtime's kernel ignores them, so
# one file serves both engines.


# %%
class ForBoth(ComposedResize):
    @staticmethod
    def symbolic(g, x, scales):
        n, c, _, _ = x.type().varyingSizes()
        y = g.op(
            "oplab::DynamicResize", x, scales, plugin_version_s="1", plugin_namespace_s="oplab"
        )
        return y.setType(x.type().with_sizes([n, c, None, None]))


for_both = export(SuperResolution(ForBoth.apply), example, ["output"], axes=photo_axes)
print(
    plugin_key(for_both.graph.node[0])[0],
    np.array_equal(run(for_both, feeds)[0], run(with_plugin, feeds)[0]),
)

# %% [markdown]
# ### The missing part
#
# The old node has no kernel anywhere. But it has the meaning of `DynamicResize`: same inputs, same result. So rename it
# in the file, and import the right domain. Now it runs.

# %%
node_of_the_file, (scope,) = (
    strange.graph.node[0],
    [d for d in strange.opset_import if d.domain],
)
node_of_the_file.domain = scope.domain = "oplab"
node_of_the_file.op_type = "DynamicResize"
print(
    nodes(strange)[0],
    "equal:",
    np.array_equal(run(strange, feeds)[0], run(with_plugin, feeds)[0]),
)

# %% [markdown]
# For TensorRT, the missing part is a plugin class in C++ or Python, a GPU, and the registration before the parser runs.
# This course does not cover it. Where TensorRT and a GPU are present, the next cell runs the real parser, and checks that
# it refuses the model for the reason above. Elsewhere it does nothing.
#
# The steps were taken from the parser's source (`ModelImporter.cpp` in onnx-tensorrt); only this refusal is run.

# %%
import importlib.util

if importlib.util.find_spec("tensorrt") and torch.cuda.is_available():
    import tensorrt as trt

    log = trt.Logger(trt.Logger.INTERNAL_ERROR)
    network = trt.Builder(log).create_network(0)
    parser = trt.OnnxParser(network, log)
    assert not parser.parse(with_plugin.SerializeToString())
    assert "Plugin not found" in parser.get_error(0).desc()

# %% [markdown]
# ## Five questions

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - Chapter 10: the modern exporter, with translations, fakes, data-dependent sizes, and verification.
# - Chapters 12 and 13: the kernels that ran here. `csrc/ort_ops/dynamic_resize.cpp` and `csrc/ort_ops/knn_query.cpp`.
# - In PyTorch's documentation: *Extending PyTorch* for `autograd.Function`, and *torch.library* for operators.
# - In TensorRT's documentation: *Extending TensorRT with Custom Layers*, and the C++ API reference, class
#   `nvinfer1::IPluginV3`.
# - In ONNX Runtime's documentation: *ONNX Runtime C & C++ APIs*, the page of the structs `OrtCustomOp` and
#   `OrtKernelContext`; and *Custom operators*.
#
# Previous: [07: C++ operators for PyTorch](07_cpp_operators.ipynb)
# · Next: [09: Exporter archaeology](09_exporter_archaeology.ipynb)
# · [Glossary](../docs/glossary.md)
