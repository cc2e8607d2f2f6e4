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
# - put an operator, its gradient and its ONNX node into one class, and say what the dynamo path does with that class;
# - choose between composing an operator of ONNX's own nodes and writing one node of your own, a *plugin*;
# - give such a node two outputs, optional inputs and types that are true, and **run** it, because its kernel is loaded.
#
# Texts about plugins usually end at the export: the file has a strange node, and somebody else will write the rest. Here
# the rest is there. The course's library has kernels for `DynamicResize` and `KNNQuery`, and each model below runs.

# %%
import importlib.util
import io
import os
from contextlib import contextmanager

import matplotlib.pyplot as plt
import numpy as np
import onnx
import onnxruntime as ort
import torch
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

from oplab import lesson, ops, photos, quiet_exports, raises, session
from oplab.srcnn import load_srcnn

lab = lesson("08_functions_and_plugins")

# %% [markdown]
# Helpers. `export` uses the **TorchScript path** (`dynamo=False`). `Call` makes a module of any function. `stock` is
# ONNX Runtime without additions, `run` is ONNX Runtime with the course's kernels.

# %%
quiet_exports()
ops.load()


class Call(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


def export(function, inputs, outputs=("out",), opset=17, axes=None):
    """`inputs` is a dict of example tensors; `axes` names the dynamic axes."""
    buffer, names = io.BytesIO(), {"input_names": list(inputs), "output_names": list(outputs), "dynamic_axes": axes}
    module = function if isinstance(function, torch.nn.Module) else Call(function)
    torch.onnx.export(module.eval(), (*inputs.values(),), buffer, dynamo=False, opset_version=opset, **names)
    return onnx.load_model_from_string(buffer.getvalue())


# %%
def feed(runtime, feeds):
    return runtime.run(None, {name: np.asarray(value) for name, value in feeds.items()})


def stock(model, feeds):
    return feed(ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]), feeds)


def run(model, feeds):
    return feed(session(model), feeds)


def nodes(model):
    return [f"{node.domain or 'ai.onnx'}::{node.op_type}({', '.join(node.input)})" for node in model.graph.node]


# %% [markdown]
# ## 1. The problem: code that no exporter can read
#
# Chapters 04 to 06 mapped operators that PyTorch knows by name. But much code has no name in PyTorch: a C library that
# works on raw memory, a module made with pybind11, a function of NumPy. Here NumPy stands for all of them. `my_add` is
# `alpha * a + beta * b`.


# %%
def library(a, b, alpha, beta):
    """Some code that knows nothing of PyTorch."""
    return torch.from_numpy(alpha * a.detach().numpy() + beta * b.detach().numpy())


torch.manual_seed(8)
pair = {"a": torch.rand(2, 3), "b": torch.rand(2, 3)}
baked = export(lambda a, b: library(a, b, 3.0, 2.0), pair)
print("nodes:", [node.op_type for node in baked.graph.node], " inputs:", [value.name for value in baked.graph.input])
assert not baked.graph.input

# %% [markdown]
# *(TorchScript path.)* No error. The file has **no inputs**: what the library returned during the export became a
# constant. The tracer sees PyTorch's operators only, and there were none.
#
# The other case is an operator with a name that nobody has mapped, like the compiled one of chapter 07. That fails
# loudly.

# %%
with raises(torch.onnx.errors.UnsupportedOperatorError, "unrecognized namespace oplab::my_add"):
    export(lambda a, b: torch.ops.oplab.my_add(a, b, 3.0, 2.0), pair)

# %% [markdown]
# ## 2. The fix: a Function with `symbolic`
#
# A subclass of `torch.autograd.Function` is a closed box. It says what the box computes (`forward`), and in a static
# method named `symbolic` which ONNX node stands for the whole box. With `symbolic` the exporter does not use what it saw
# inside.


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
# You call the class through `apply`, never through `forward`. A module around it makes a layer of it.


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
# Look at what `symbolic` got. Tensors are values of the graph, as in chapter 05. But `alpha` and `beta` are **Python
# floats** already: a Function gets what `apply` got. So `parse_args` has no place here, and a number can become an
# attribute at once.
#
# The node runs with the course's kernel, at another size than the exported one, and not without it.

# %%
fresh = {"a": torch.rand(5, 3), "b": torch.rand(5, 3)}
print("equal:", np.allclose(run(plugin, fresh)[0], MyAdd(3.0, 0.5)(**fresh), rtol=0, atol=1e-6))
with raises(Fail, "oplab:MyAdd(-1) is not a registered function/op"):
    stock(plugin, fresh)
lab.show(plugin)

# %% [markdown]
# `symbolic` may as well *compose* the operator of nodes that ONNX has. Then every runtime can run it.


# %%
class Composed(MyAddFunction):
    @staticmethod
    def symbolic(g, a, b, alpha, beta):
        left = g.op("Mul", a, g.op("Constant", value_t=torch.tensor(alpha)))
        right = g.op("Mul", b, g.op("Constant", value_t=torch.tensor(beta)))
        return g.op("Add", left, right)


composed = export(lambda a, b: Composed.apply(a, b, 3.0, 0.5), pair, axes=rows)
print([node.op_type for node in composed.graph.node])
print("equal:", np.allclose(stock(composed, fresh)[0], MyAdd(3.0, 0.5)(**fresh), rtol=0, atol=1e-6))

# %% [markdown]
# Three traps of `apply`. It takes no keywords. An argument that is left out does not reach `symbolic`, whatever default
# `forward` has. And nobody compares `symbolic` with `forward`: this is chapter 03's `WrongForward` again.


# %%
class WithDefaults(MyAddFunction):
    @staticmethod
    def forward(ctx, a, b, alpha=3.0, beta=2.0):
        return library(a, b, alpha, beta)


with raises(TypeError, "takes no keyword arguments"):
    WithDefaults.apply(*pair.values(), alpha=2.0)
with raises(TypeError, "missing 2 required positional arguments: 'alpha' and 'beta'"):
    export(lambda a, b: WithDefaults.apply(a, b), pair)

# %% [markdown]
# So give `symbolic` the same defaults as `forward`.
#
# ## 3. The gradient belongs to the box too
#
# Nothing inside the box can be differentiated, so training stops at it.

# %%
leaf = {name: value.double().requires_grad_() for name, value in pair.items()}
with raises(NotImplementedError, "You must implement either the backward or vjp method"):
    MyAdd()(**leaf).sum().backward()

# %% [markdown]
# `backward` gets the gradient of the result and returns one entry for **each argument of `forward`**, `ctx` not counted.
# Here is a first try, with both kinds of mistake.


# %%
class Passes(MyAddFunction):
    @staticmethod
    def backward(ctx, grad):
        return grad, grad


with raises(RuntimeError, "incorrect number of gradients (expected 4, got 2)"):
    Passes.apply(*leaf.values(), 3.0, 2.0).sum().backward()

# %% [markdown]
# PyTorch counts, but it does not compute. With two None added the numbers are still wrong, because d(3a)/da is 3.
# `gradcheck` compares with differences of the function itself, in double.


# %%
class Four(MyAddFunction):
    @staticmethod
    def backward(ctx, grad):
        return grad, grad, None, None


with raises(torch.autograd.gradcheck.GradcheckError, "Jacobian mismatch for output 0 with respect to input 0"):
    torch.autograd.gradcheck(lambda a, b: Four.apply(a, b, 3.0, 2.0), (*leaf.values(),))

# %% [markdown]
# What `backward` needs of the call, `forward` keeps on `ctx`: numbers as attributes, tensors with `save_for_backward`.


# %%
class MyAddTrainable(MyAddFunction):
    @staticmethod
    def forward(ctx, a, b, alpha, beta):
        ctx.alpha, ctx.beta = alpha, beta
        return library(a, b, alpha, beta)

    @staticmethod
    def backward(ctx, grad):
        return ctx.alpha * grad, ctx.beta * grad, None, None


print("gradcheck:", torch.autograd.gradcheck(lambda a, b: MyAddTrainable.apply(a, b, 3.0, 2.0), (*leaf.values(),)))

# %% [markdown]
# The export is the same as before: a file for inference has no place for `backward`.
#
# ## 4. The dynamo path: `symbolic` is not asked
#
# The **dynamo path** opens the box. It traces `forward` like any code, and your `symbolic` is never called. This class
# counts the calls; its `forward` is plain PyTorch.


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
    return torch.onnx.export(module.eval(), (*inputs.values(),), dynamo=True, **options).model_proto


def counted(a, b):
    return Counted.apply(a, b, 3.0, 0.5)


for label, path in (("TorchScript", export), ("dynamo", dynamo)):
    Counted.calls = 0
    model = path(counted, pair)
    print(f"{label:12} {[node.op_type for node in model.graph.node]!s:24} symbolic called: {Counted.calls > 0}")

# %% [markdown]
# No error, no warning, right numbers, and **the plugin is gone**. If a kernel of yours was to do the work, it will not.
# The dynamo path even reads NumPy: `MyAdd`, whose `forward` calls the NumPy library, becomes Mul, Mul, Add as well.

# %%
print([node.op_type for node in dynamo(MyAdd(3.0, 0.5), pair).graph.node])

# %% [markdown]
# When `forward` calls something opaque, it stops, and the message names the operator.


# %%
class Compiled(Counted):
    @staticmethod
    def forward(ctx, a, b, alpha, beta):
        return torch.ops.oplab.my_add(a, b, alpha, beta)


with raises(torch.onnx.OnnxExporterError, "No ONNX function found for <OpOverload(op='oplab.my_add'"):
    dynamo(lambda a, b: Compiled.apply(a, b, 3.0, 0.5), pair)

# %% [markdown]
# ### Its modern twin
#
# What is in the box of a Function has three places on this path:
#
# | | a Function, TorchScript path | dynamo path |
# |---|---|---|
# | what it computes | `forward` | an operator: C++ (chapter 07) or `torch.library.custom_op` |
# | its shapes without data | `forward` runs on the example | a *fake*, `register_fake` |
# | its gradient | `backward` | `torch.library.register_autograd` |
# | its node | `symbolic` | a typed function in `custom_translation_table` |
#
# `torch.ops.oplab.my_add` has the first three. What is missing is a translation: typed arguments, a typed result, the
# node in between. An `Opset` is a domain with its version.

# %%
from onnxscript import FLOAT, INT32, INT64, script
from onnxscript.values import Opset

oplab_1 = Opset("oplab", 1)


@script(oplab_1)
def my_add_translation(a: FLOAT[...], b: FLOAT[...], alpha: float, beta: float) -> FLOAT[...]:
    return oplab_1.MyAdd(a, b, alpha=alpha, beta=beta)


# %%
table = {torch.ops.oplab.my_add.default: my_add_translation}


def compiled(a, b):
    return torch.ops.oplab.my_add(a, b, 3.0, 0.5)


modern = dynamo(compiled, pair, custom_translation_table=table, dynamic_shapes=(({0: "rows"}, {0: "rows"}),))
print(nodes(modern), {entry.name: entry.f for entry in modern.graph.node[0].attribute})
print("equal:", np.allclose(run(modern, fresh)[0], compiled(**fresh), rtol=0, atol=1e-6))

# %% [markdown]
# The operator keeps its gradient without a Function around it. If you have such a Function anyway, the table serves it
# too, because `forward` is traced down to the operator.

# %%
print("gradcheck:", torch.autograd.gradcheck(compiled, (*leaf.values(),)))
print(nodes(dynamo(lambda a, b: Compiled.apply(a, b, 3.0, 0.5), pair, custom_translation_table=table)))

# %% [markdown]
# ### Without an operator: `torch.onnx.ops.symbolic`
#
# A node can also be written down in the model's own code. There is a catch: outside an export the call returns **zeros**.

# %%
node = {"attrs": {"alpha": 3.0, "beta": 0.5}, "dtype": torch.float32, "version": 1}


def unguarded(a, b):
    return torch.onnx.ops.symbolic("oplab::MyAdd", (a, b), shape=a.shape, **node)


print(nodes(dynamo(unguarded, pair)))
print("in PyTorch:", unguarded(**pair).unique().tolist())
assert not unguarded(**pair).any()

# %% [markdown]
# So ask first whether an export is under way. The same guard works in a Function's `forward`: then one class serves both
# paths.


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


for label, model in (("TorchScript", export(both_paths, pair, axes=rows)), ("dynamo", dynamo(both_paths, pair))):
    print(f"{label:12}", nodes(model), np.allclose(run(model, pair)[0], library(**pair, alpha=3.0, beta=0.5)))
