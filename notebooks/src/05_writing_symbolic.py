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
# # 05 · Writing symbolic functions
#
# After this chapter you can
#
# - read two definitions, PyTorch's and ONNX's, and write the `g.op` calls that map the first to the second;
# - write attributes, constants, optional inputs and several outputs with the right types;
# - map an operator that ONNX does not have, and run it with your own kernel.
#
# Chapter 04 registered mappings of one line. This chapter explains `g.op` in detail. It begins with a mapping of
# PyTorch that is wrong: the model computes in float16, and its ONNX file does not. *(TorchScript path.)*

# %%
import onnx
import torch

from oplab import lesson, quiet_exports
from oplab.figures.dtypes import by_dtype

lab = lesson("05_writing_symbolic")
quiet_exports()


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


half, path = torch.tensor([0.5, 2.0], dtype=torch.float16), lab.build / "log10.onnx"
options = {"dynamo": False, "opset_version": 13, "input_names": ["x"], "output_names": ["y"]}
torch.onnx.export(Model(torch.log10), (half,), path, **options)
print("PyTorch:", torch.log10(half).dtype)
lab.figure(
    by_dtype({"log10 of a float16, exported": onnx.load(path)}),
    "The exported graph, coloured by dtype. The input x and the logarithm are float16. The "
    "constant 2.3026 is float32, so a Cast changes the logarithm to float32, and the output "
    "of Div is float32.",
)

# %% [markdown]
# The constant of the mapping has the wrong dtype. The exporter adds a `Cast`, and the output becomes a float32. Sections
# 4 and 5 explain why, and in the deeper section "A wrong mapping in PyTorch" you fix it.
#
# The next cell, which is folded, has three helpers. `export` uses the **TorchScript path** (`dynamo=False`) with dynamic
# axes. `run` runs a model in ONNX Runtime with the course's kernels. `types` lists the types of its nodes.

# %% {"jupyter": {"source_hidden": true}}
import numpy as np

from oplab import session

register = torch.onnx.register_custom_op_symbolic


def export(function, *inputs, opset=13, outputs=("out",)):
    names, path = ["x", "y"][: len(inputs)], lab.build / "model.onnx"
    pairs = zip(names, inputs, strict=True)
    axes = {name: {i: f"{name}{i}" for i in range(x.dim())} for name, x in pairs}
    options = {"dynamo": False, "opset_version": opset, "dynamic_axes": axes}
    options |= {"input_names": names, "output_names": list(outputs)}
    torch.onnx.export(Model(function), inputs, path, **options)
    return onnx.load(path)


def run(model, *arrays):
    return session(model).run(None, dict(zip("xy", map(np.asarray, arrays), strict=False)))


def types(model):
    return " ".join(node.op_type for node in model.graph.node)


# %% [markdown]
# ## 1. The failure
#
# A mapping can be wrong, and it can be missing. `torch.ops.oplab.my_add(a, b, alpha, beta)` computes
# `alpha * a + beta * b`. It is compiled C++ (chapter 07 writes it). It runs, but neither exporter knows it. First try
# the *TorchScript path*, then the *dynamo path*.

# %%
from oplab import ops, raises

ops.load()  # makes torch.ops.oplab.my_add


def weighted(a, b):
    return torch.ops.oplab.my_add(a, b, 0.1, -0.7)


a, b = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)
print(weighted(a, b).numpy().round(2))
with raises(torch.onnx.errors.UnsupportedOperatorError, "oplab::my_add"):
    export(weighted, a, b)

# %%
with raises(torch.onnx.OnnxExporterError, "No ONNX function found"):
    torch.onnx.export(Model(weighted), (a, b), dynamo=True, verbose=False)

# %% [markdown]
# Both need a mapping. This chapter writes it for the TorchScript path; chapter 10 does the same for the dynamo path.
#
# ## 2. From two definitions to one function
#
# You derive a symbolic function from two definitions. The first is the **PyTorch operator's schema**. It determines the
# arguments of your function: `g`, then one for each argument of the schema, in this order, including those with a
# default.

# %%
print(torch.ops.oplab.my_add.default._schema)

# %% [markdown]
# What exactly does your function receive? Print its arguments before you write the mapping.


# %%
def show_arguments(g, a, b, alpha, beta):
    for name, value in {"a": a, "b": b, "alpha": alpha, "beta": beta}.items():
        kind, dtype, axes = value.node().kind(), value.type().dtype(), value.type().dim()
        print(f"{name:6} {type(value).__name__}  from {kind:15} {dtype}  axes: {axes}")
    return g.op("Add", a, b)


register("oplab::my_add", show_arguments, 9)
model = export(weighted, a, b)

# %% [markdown]
# All four are values of the graph. The two Python floats have become constants: float64, without axes. This matters in
# section 5.
#
# The second definition is the **ONNX operator's schema**. `onnx.defs` has it for each opset.


# %%
def card(name, opset):
    schema = onnx.defs.get_schema(name, opset)
    print(f"{name}, version {schema.since_version} (in use at opset {opset})")
    for word, values in (("input", schema.inputs), ("output", schema.outputs)):
        for value in values:
            print(f"  {word:9} {value.name:10} {value.option.name:9} type {value.type_str}")
    for entry in schema.attributes.values():
        option = "required" if entry.required else "optional"
        print(f"  attribute {entry.name:10} {option:9} {entry.type.name}")
    for letter in schema.type_constraints:
        allowed = sorted(letter.allowed_type_strs)
        which = allowed[0] if len(allowed) == 1 else f"one of {len(allowed)} types"
        print(f"  {letter.type_param_str} is {which}")


# %%
card("Add", 13)
card("TopK", 11)

# %% [markdown]
# Each line of a card tells you what to write:
#
# | in the definition | in `g.op("Name", …)` | section |
# |---|---|---|
# | an input | the next positional argument, a value of the graph | 2 |
# | an attribute | a keyword with the suffix of its type: `axis_i=0` | 3 |
# | an input that needs a number | a `Constant` node | 4 |
# | inputs with the same type letter | must have the same dtype; ONNX does not convert | 5 |
# | an optional input that you leave out | the none node | 8 |
# | several outputs | `outputs=2`; the result is a tuple | 7 |
#
# The picture shows this for `TopK`: every part of the definition has its place in the call.

# %% {"jupyter": {"source_hidden": true}}
from oplab.figures.symbolic import definition_and_call

parts = {  # in the definition: in the call
    "input X": "x,",
    "input K  (int64, one axis)": "k,",
    "attribute axis  INT": "axis_i=1,",
    "attribute largest  INT": "largest_i=0,",
    "outputs Values, Indices": "outputs=2)",
}
lab.figure(
    definition_and_call('g.op("TopK",', parts),
    "The five parts of TopK's definition, each with a line to its place in the call: input X "
    "to x, input K to k, attribute axis to axis_i=1, attribute largest to largest_i=0, and the "
    "two outputs to outputs=2.",
)

# %% [markdown]
# ### The naive attempt
#
# Existing code writes `my_add` like this. (Some of it even has `2a + b`: another operator with the same name.)


# %%
def from_a_tutorial(g, a, b, alpha, beta):
    three = g.op("Constant", value_t=torch.tensor([3]))
    two = g.op("Constant", value_t=torch.tensor([2]))
    return g.op("Add", g.op("Mul", a, three), g.op("Mul", b, two))


register("oplab::my_add", from_a_tutorial, 9)
print(
    "with the defaults:  ",
    np.allclose(run(export(torch.ops.oplab.my_add, a, b), a, b)[0], 3 * a + 2 * b),
)
print("with 0.1 and -0.7:  ", np.allclose(run(export(weighted, a, b), a, b)[0], weighted(a, b)))
point = torch.tensor(1.0)
print(
    "a tensor without axes becomes", run(export(weighted, point, point), point, point)[0].shape
)

# %% [markdown]
# This mapping has two faults. It ignores the coefficients of the call: there is no error, but the numbers are wrong.
# And `[3]` has an axis, so a result without axes gets one.
#
# ### The fix
#
# `alpha` and `beta` are values of the graph already. Use them.


# %%
def my_add_symbolic(g, a, b, alpha, beta):
    return g.op("Add", g.op("Mul", a, alpha), g.op("Mul", b, beta))


register("oplab::my_add", my_add_symbolic, 9)
model = export(weighted, a, b)
onnx.checker.check_model(model, full_check=True)
lab.show(model)

# %% [markdown]
# Test it with new numbers, sizes that were not used in the export, three dtypes, and no axes at all. *(TorchScript
# path.)*

# %%
rng = np.random.default_rng(5)
limits = {"float16": 1e-2, "float32": 1e-6, "float64": 1e-15}  # a rounding or two, up to 3
for dtype, within in limits.items():
    model = export(weighted, a.to(getattr(torch, dtype)), b.to(getattr(torch, dtype)))
    x, y = rng.normal(size=(2, 50, 7)).astype(dtype)
    got, expected = run(model, x, y)[0], weighted(*map(torch.from_numpy, (x, y))).numpy()
    gap = np.abs(got.astype("f8") - expected.astype("f8")).max()
    print(f"{dtype}: {types(model)} -> {got.dtype}, within {within:.0e}: {gap <= within}")
print("no axes:", run(export(weighted, point, point), point, point)[0].shape)

# %% [markdown]
# The *dynamo path* still fails: it never uses this registry.

# %%
with raises(torch.onnx.OnnxExporterError, "No ONNX function found"):
    torch.onnx.export(Model(weighted), (a, b), dynamo=True, verbose=False)

# %% [markdown]
# ## 3. Attributes and their suffixes
#
# ONNX stores the type of each attribute in the file. Python's `1` could be an INT or a FLOAT, so the suffix specifies
# it. To make the table, the cells export a node of an invented operator and read the file. The exporter has no mapping
# for `aten::asinh`, so this chapter uses that name for its experiments. *(TorchScript path; the dynamo path takes the
# types from the onnxscript function or from `torch.onnx.ops.symbolic`, chapters 08 and 10.)*


# %%
def attribute(**keyword):
    """Export one node with one attribute and return (type, value) as the file has them."""

    def symbolic(g, x):
        return g.op("oplab::Probe", x, **keyword).setType(x.type())

    register("aten::asinh", symbolic, 9)
    entries = export(torch.asinh, torch.ones(2)).graph.node[0].attribute
    kind = onnx.AttributeProto.AttributeType.Name
    return [(kind(entry.type), onnx.helper.get_attribute_value(entry)) for entry in entries]


# %%
two = torch.tensor([1, 2])
given = [{"a_f": 1}, {"a_f": [1, 2.5]}, {"a_i": 3}, {"a_i": [3, 4]}, {"a_i": True}]
given += [{"a_s": "cubic"}, {"a_s": ["a", "b"]}, {"a_t": two}, {"a_t": [two, two]}]
given += [{"a_f": []}, {"a_f": None}]
for keyword in given:
    ((name, value),) = keyword.items()
    found = attribute(**keyword)
    kind, held = found[0] if found else ("not written", "")
    shown = "" if "TENSOR" in kind else held
    print(f"{name}={str(value).replace('tensor', 'torch.tensor'):44} {kind:12} {shown}")

# %% [markdown]
# - The same suffix is used for one value and for a list: `a_f=1` is FLOAT, `a_f=[1, 2.5]` is FLOATS.
# - An attribute that is `None` is omitted. Exercise `clip` can use this.
# - The suffix is not part of the name in the file: the attribute is called `a`.
#
# A wrong type raises a TypeError. The message comes from pybind11; read the name at the start: `i_` expected an int. A
# name without a suffix raises a ValueError.

# %%
with raises(TypeError, "i_(): incompatible function arguments"):
    attribute(axis_i=2.5)
with raises(TypeError, "s_(): incompatible function arguments"):
    attribute(mode_s=1)
with raises(TypeError, "t_(): incompatible function arguments"):
    attribute(value_t=1.0)
with raises(ValueError, "must be suffixed with type"):
    attribute(alpha=1.0)

# %% [markdown]
# There is no error when a number loses digits: a FLOAT is a **float32**. `0.1` becomes the nearest float32, which has
# about seven significant digits. This affects a model in double precision.

# %%
((_, stored),) = attribute(alpha_f=0.1)
print(f"stored - 0.1 = {stored - 0.1:.1e}")

# %% [markdown]
# ## 4. Constants
#
# A number that ONNX requires as an *input* needs a node: `Constant`, with the tensor `value_t`. The other attributes
# that ONNX allows for `Constant` (`value_float`, `value_ints`, …) do not work in `g.op`, and neither does a Python
# number among the inputs.


# %%
def times(second):
    """Map asinh to x * second(g), only to see what `second` may be."""
    register("aten::asinh", lambda g, x: g.op("Mul", x, second(g)), 9)
    return export(torch.asinh, torch.ones(3))


# %%
model = times(lambda g: g.op("Constant", value_t=torch.tensor([2.0, 3.0, 4.0])))
print("Constant value_t:", run(model, np.ones(3, "f"))[0])
with raises(RuntimeError, "keyword attribute 'value'"):
    times(lambda g: g.op("Constant", value_float_f=2.0))
with raises(TypeError, "z_(): incompatible function arguments"):
    times(lambda g: 2.0)

# %% [markdown]
# A torch tensor among the inputs does work, as a short form. But it is written as a tensor **without axes**: a tensor
# with one element loses its axis without a warning, and a tensor with more elements is rejected.

# %%
nodes = times(lambda g: torch.tensor([2.0])).graph.node
(constant,) = [node for node in nodes if node.op_type == "Constant"]
written = onnx.numpy_helper.to_array(constant.attribute[0].t)
print("torch.tensor([2.0]) was written with the shape", written.shape)
with raises(RuntimeError, "shape '[]' is invalid for input of size 3"):
    times(lambda g: torch.tensor([2.0, 3.0, 4.0]))

# %% [markdown]
# ## 5. Dtypes
#
# ONNX never converts between dtypes: both inputs of `Mul` must have the same dtype. So the exported graph needs equal
# dtypes. For some operators the exporter converts them, after your function has returned. For which operators, and how?
# Try five constants with `Mul` and with `Clip`. *(TorchScript path.)*

# %%
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph


def with_constant(operator, constant, dtype=torch.float32):
    """Export asinh as `operator(x, constant)`."""

    def symbolic(g, x):
        return g.op(operator, x, g.op("Constant", value_t=constant))

    register("aten::asinh", symbolic, 9)
    return export(torch.asinh, torch.ones(2, dtype=dtype))


def outcome(operator, constant, dtype):
    model = with_constant(operator, constant, getattr(torch, dtype))
    try:
        (y,) = run(model, np.ones(2, dtype))
    except (Fail, InvalidGraph):
        return "ORT refuses"
    (node,) = [node for node in model.graph.node if node.op_type == "Constant"]
    cast = ", Cast" if "Cast" in types(model) else ""
    return f"{onnx.numpy_helper.to_array(node.attribute[0].t).dtype} -> {y.dtype}{cast}"


# %%
double = torch.float64
forms = {
    "tensor(2)": torch.tensor(2),
    "tensor(2.0)": torch.tensor(2.0),
    "tensor([2.0])": torch.tensor([2.0]),
    "tensor(2.0, float64)": torch.tensor(2.0, dtype=double),
    "tensor([2.0], float64)": torch.tensor([2.0], dtype=double),
}
for operator in ("Mul", "Clip"):
    print(f"{operator:24} {'x is float16':24} {'x is float32':24} x is float64")
    for label, constant in forms.items():
        found = [outcome(operator, constant, f"float{bits}") for bits in (16, 32, 64)]
        print(f"  {label:22} {found[0]:24} {found[1]:24} {found[2]}")
print("Mul, tensor(2.5), x is int64:", outcome("Mul", torch.tensor(2.5), "int64"))

# %% [markdown]
# Read the table in three steps.
#
# - `Mul`: a constant **without axes** counts as a Python number. It takes the dtype of `x`, even if it is an int64. Only a
#   number of a higher kind promotes `x`, as in PyTorch: with 2.5, an int64 `x` becomes float32 (the last line).
# - `Mul`: a constant **with axes** counts as a tensor. If its dtype is wider, `x` is promoted to it by a `Cast` that
#   you did not write. A float32 model that becomes double runs slower, and the dtype may not fit the next node.
# - `Clip`: the exporter converts nothing. The dtype has to be right when you write it.
#
# So there are two safe ways: a float64 constant without axes where the exporter converts it, or a constant in the dtype
# of `x`, which works everywhere: `torch.tensor(number, dtype=x.type().dtype())`.
#
# ### The graph, coloured by dtype
#
# Colour makes an unexpected dtype visible. From the left: PyTorch's `log10` for a float16, with a constant that has an
# axis; a float64 constant with an axis, which promotes a float32 to double; an int64 that `Clip` does not accept. The
# last graph has one colour, as it should.

# %%
stray = {
    "log10, float16 in, float32 out": export(torch.log10, half),
    "Mul: a Cast that you did not write": with_constant("Mul", forms["tensor([2.0], float64)"]),
    "Clip: ONNX Runtime refuses": with_constant("Clip", forms["tensor(2)"]),
    "Mul: without axes": with_constant("Mul", forms["tensor(2.0, float64)"]),
}
lab.figure(
    by_dtype(stray),
    "Four graphs, coloured by dtype. The first changes from float16 to float32 at a Cast, the "
    "second from float32 to float64; the third has an int64 constant next to a float32; the "
    "fourth is float32 everywhere.",
)

# %% [markdown]
# ### Cast on purpose
#
# `Cast` is a node like any other. Its attribute `to` is a number from ONNX's list of types, not a torch dtype.

# %%
kinds = torch.onnx.TensorProtoDataType
print(
    {kind.name: int(kind) for kind in (kinds.FLOAT, kinds.FLOAT16, kinds.DOUBLE, kinds.INT64)}
)
with raises(TypeError, "i_(): incompatible function arguments"):
    attribute(to_i=torch.float64)

# %% [markdown]
# ## 6. The second kind: an operator that ONNX does not have
#
# `my_add` can be composed from standard operators. Many operators cannot, or the result is slow. Then you define a new
# node: a name in your own domain. A `NodeProto` may carry any domain and `op_type`; only a kernel gives it meaning.
# (TensorRT calls such a kernel a *plugin*; the node in the file is the same.) You only choose the interface: here
# `oplab::MyAdd(a, b; alpha, beta) -> y`, two inputs and two FLOAT attributes.
#
# An attribute needs a Python float, but `alpha` is a value of the graph. The decorator `parse_args` reads it. It takes
# one descriptor for each argument of the schema.
#
# | descriptor | your function gets |
# |---|---|
# | `"v"` | the value of the graph, as it is |
# | `"f"`, `"i"`, `"b"`, `"s"` | a Python float, int, bool or str |
# | `"fs"`, `"is"` | a list of floats or ints |
# | `"t"` | a torch tensor |
# | `"none"` | the value, which is not read |
#
# All descriptors except `"v"` and `"none"` require a constant, or None.

# %%
from torch.onnx.symbolic_helper import parse_args


@parse_args("v", "v", "f", "f")
def plugin_symbolic(g, a, b, alpha, beta):
    return g.op("oplab::MyAdd", a, b, alpha_f=alpha, beta_f=beta).setType(a.type())


register("oplab::my_add", plugin_symbolic, 9)
plugin = export(weighted, a, b)
onnx.checker.check_model(plugin, full_check=True)
print({entry.domain or "ai.onnx": entry.version for entry in plugin.opset_import})
lab.show(plugin)

# %% [markdown]
# The checker knows nothing about the domain `oplab`, so it accepts the node. ONNX Runtime on its own rejects the model.
# With the kernels of `oplab.session` the model runs. (Chapter 12 writes this kernel.)

# %%
import onnxruntime as ort

with raises(Fail, "is not a registered function/op"):
    ort.InferenceSession(plugin.SerializeToString(), providers=["CPUExecutionProvider"])
x, y = rng.normal(size=(2, 50, 7)).astype(np.float32)
expected = weighted(torch.from_numpy(x), torch.from_numpy(y)).numpy()
print("plugin = PyTorch:", np.allclose(run(plugin, x, y)[0], expected, rtol=0, atol=1e-6))
print("plugin = 2a + b: ", np.allclose(run(plugin, x, y)[0], 2 * x + y))

# %% [markdown]
# The same operator, mapped in two ways:

# %%
register("oplab::my_add", my_add_symbolic, 9)
lab.show(export(weighted, a, b), plugin)

# %% [markdown]
# | | standard operators | your own node |
# |---|---|---|
# | runs in | every ONNX runtime | the runtimes that have your kernel |
# | shapes and types | ONNX knows the rules | you have to specify them |
# | speed | a kernel for each node | one pass over the memory |
#
# Choose standard operators if they can express the operation. The *dynamo path* has the same two kinds, under other
# names (chapter 10).
#
# ### Types: what setType is for
#
# ONNX has a rule for the output type of each standard operator. For `oplab::MyAdd` it has none. If such a node is the
# *result* of your function and you omit `setType`, the exporter warns, and then uses the type that PyTorch recorded in
# the trace. The warning comes from C++, and `cpp_warnings` prints it.

# %%
from oplab.onnxtools.quiet import cpp_warnings


@parse_args("v", "v", "f", "f")
def untyped(g, a, b, alpha, beta):
    return g.op("oplab::MyAdd", a, b, alpha_f=alpha, beta_f=beta)


register("oplab::my_add", untyped, 9)
with cpp_warnings():
    export(weighted, a, b)

# %% [markdown]
# If the node is *inside* your function, there is no warning, and neither the rest of your function nor the file knows
# the dtype and the shape of its output. You will need three forms:
#
# - `y.setType(x.type())` – same dtype, same shape;
# - `y.setType(x.type().with_dtype(torch.int64))` – another dtype;
# - `y.setType(x.type().with_sizes([n, k]))` – another shape; `None` is an unknown size.
#
# The exporter does not check this type. The deeper section "What parse_args and setType do not check" shows a function
# with a wrong one.
#
# ## 7. Several outputs
#
# `g.op` returns one value. If the ONNX operator has two outputs and you need the second, `outputs=2` makes it return a
# tuple. `GLU` splits its input in two and multiplies the first half by the sigmoid of the second.


# %%
@parse_args("v", "i")
def glu_symbolic(g, x, dim):
    first, second = g.op("Split", x, axis_i=dim, outputs=2)
    return g.op("Mul", first, g.op("Sigmoid", second))


register("aten::glu", glu_symbolic, 9)
x = torch.linspace(-1, 1, 8).reshape(2, 4)
model = export(torch.nn.functional.glu, x, opset=11)
print(types(model), np.allclose(run(model, x)[0], torch.nn.functional.glu(x), atol=1e-6))

# %%
register("aten::glu", lambda g, x, dim: g.op("Mul", *g.op("Split", x, axis_i=1)), 9)
with raises(TypeError, "must be an iterable, not torch._C.Value"):
    export(torch.nn.functional.glu, x, opset=11)
torch.onnx.unregister_custom_op_symbolic("aten::glu", 9)

# %% [markdown]
# The ONNX operator determines the dtypes of the outputs. The card of `TopK` above shows them: Indices has the type `I`,
# and `I` is int64. The *dynamo path* accepts a tuple from an onnxscript function in the same way. If the *PyTorch*
# operator has two outputs, your function returns a tuple: see the deeper section "An operator with two outputs".
#
# ## 8. Optional inputs
#
# A symbolic function can also be the static method `symbolic` of a `torch.autograd.Function`. Chapter 08 is about it.
# Old texts map a clamp in this way, with the bound as an attribute:


# %%
class MyClip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low):
        return x.clamp(min=low)

    @staticmethod
    def symbolic(g, x, low):
        return g.op("Clip", x, min_f=low)


# %%
def clipped(x):
    return MyClip.apply(x, 0.5)


sample = torch.tensor([-1.0, 2.0])
print("opset 10:", run(export(clipped, sample, opset=10), sample)[0])
with raises(InvalidGraph, "Unrecognized attribute: min"):
    run(export(clipped, sample, opset=13), sample)

# %% [markdown]
# The export succeeds at 13, but the model does not load. The cards show why:

# %%
card("Clip", 10)
card("Clip", 11)

# %% [markdown]
# From version 11 on, each bound is an optional input instead of an attribute. `g.opset` is the opset of the export. (In
# a Function, `low` arrives as a Python number, not as a value of the graph.)
#
# ### Omitting an input
#
# For `max` without `min`, the place of `min` has to stay empty. In the file it is an empty name. In `g.op`, `None` makes
# torch 2.15 segfault, which cannot be caught: it becomes a null pointer in C++. The next cell exports in a separate
# process.

# %%
import subprocess
import sys

program = """
import torch
torch.onnx.register_custom_op_symbolic("aten::asinh", lambda g, x: g.op("Clip", x, None, x), 9)
class M(torch.nn.Module):
    def forward(self, x):
        return torch.asinh(x)
torch.onnx.export(M(), (torch.ones(2),), "never.onnx", dynamo=False)
"""
ended = subprocess.run([sys.executable, "-c", program], capture_output=True, cwd=lab.build)
print("ended by signal", -ended.returncode, "(11 is a segmentation fault)")
assert ended.returncode == -11

# %% [markdown]
# `g.op` needs a **none node**: a `prim::Constant` of the type Optional, which the exporter turns into the empty name.
# An ONNX `Constant` without a value is not a none node. Neither is the empty tensor that chapter 03 gave to `Resize` as
# its `roi`: that input is present but has no elements.


# %%
def none_node(g):
    return g.op("prim::Constant").setType(torch._C.OptionalType.ofTensor())


def use(second):
    register("aten::asinh", lambda g, x: g.op("Clip", x, second(g), torch.tensor(1.0)), 9)
    return export(torch.asinh, torch.ones(2))


model = use(none_node)
(node,) = [node for node in model.graph.node if node.op_type == "Clip"]
print("inputs of Clip:", list(node.input), " result:", run(model, np.float32([-3, 3]))[0])
with raises(RuntimeError, "required keyword attribute 'value' is undefined"):
    use(lambda g: g.op("Constant"))

# %% [markdown]
# At the end of the list you do not need a placeholder: omit the argument. An optional *argument* of the PyTorch
# operator arrives in the same form: `None` is a value whose node returns True for `mustBeNone()`.
# `torch.clamp(x, max=1)` shows this.


# %%
def look(g, x, low, high):
    print("low:", low.node().mustBeNone(), " high:", high.node().mustBeNone())
    return g.op("Clip", x, none_node(g), g.op("Cast", high, to_i=kinds.FLOAT))


register("aten::clamp", look, 9)
model = export(lambda x: torch.clamp(x, max=1.0), torch.ones(2))
print(types(model), "->", run(model, np.float32([-3, 3]))[0])
torch.onnx.unregister_custom_op_symbolic("aten::clamp", 9)

# %% [markdown]
# ## 9. Limits
#
# - **Float attributes are float32.** The plugin has full precision in float32, but not in float64; the composition has it
#   in float64 too.

# %%
wide = torch.from_numpy(rng.normal(size=(2, 40)))
for label, symbolic in (("composition", my_add_symbolic), ("plugin", plugin_symbolic)):
    register("oplab::my_add", symbolic, 9)
    (got,) = run(export(weighted, wide, wide), wide, wide)
    gap = np.abs(got - weighted(wide, wide).numpy()).max()
    print(f"{label:11} float64: error {'above' if gap > 1e-10 else 'below'} 1e-10")

# %% [markdown]
# - **A function that returns None leaves the node as it is.** For an `aten::` operator, the exporter then raises an error.
#   For an operator of another library, the node is exported untranslated, without an error.

# %%
register("oplab::my_add", lambda g, a, b, alpha, beta: None, 9)
with cpp_warnings():
    forgotten = export(weighted, a, b)
print([f"{node.domain}::{node.op_type}" for node in forgotten.graph.node])
for name in ("aten::asinh", "oplab::my_add"):
    torch.onnx.unregister_custom_op_symbolic(name, 9)

# %% [markdown]
# - A float64 tensor without axes becomes a float32 in a composition (chapter 04, section 11).
# - `g` is a `GraphContext`. PyTorch calls it internal; `g.op` and `g.opset` have kept their meaning so far.
# - The TorchScript path is deprecated. What you learned here about types, optional inputs and outputs belongs to ONNX,
#   and applies to every path.
#
# ## 10. Exercises
#
# The docstrings are the specification. Two more exercises, `dtypes` and `kthvalue`, are in the deeper sections.
#
# **`my_add`** – a repair: the stub has a mapping that writes fewer nodes than the lesson's, and has two faults. Run it
# with other coefficients and dtypes to find them: [exercises/c05_writing_symbolic.py](../exercises/c05_writing_symbolic.py#line=69).

# %%
lab.check("my_add")

# %% [markdown]
# **`plugin`** – write the node `oplab::MyAdd` for runtimes whose kernel does not accept float16; your graph does:
# [exercises/c05_writing_symbolic.py](../exercises/c05_writing_symbolic.py#line=94).

# %%
lab.check("plugin")

# %% [markdown]
# **`clip`** – one `Clip` for opsets 9 to 20, for five dtypes, with bounds that can be None:
# [exercises/c05_writing_symbolic.py](../exercises/c05_writing_symbolic.py#line=128).

# %%
lab.check("clip")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: A wrong mapping in PyTorch
#
# PyTorch can export `log10`. This is the mapping that wrote the first picture of this chapter:

# %%
import inspect

from torch.onnx._internal.torchscript_exporter.registration import registry

source = inspect.getsource(registry.get_function_group("aten::log10").get(13))
print(source.replace("2.30258509299404568401", "2.302585…").rstrip())

# %% [markdown]
# The table of section 5 explains its faults: the constant is float32, and it has an axis.

# %%
import math


def verdict(y, bits, x):
    """What is wrong with y = log10(x), where x is a float of that many bits."""
    if y.dtype != f"float{bits}":
        return f"{y.dtype} instead of float{bits}"
    gap = abs(float(y[0]) - math.log10(float(x[0])))
    return "digits lost" if bits == 64 and gap > 1e-10 else "fine"


# %%
kind = {16: torch.float16, 32: torch.float32, 64: torch.float64}
thirds = {bits: torch.full((2,), 1 / 3, dtype=dtype) for bits, dtype in kind.items()}
for bits, x in thirds.items():
    model = export(torch.log10, x)
    print(f"float{bits}: {types(model):22} {verdict(run(model, x)[0], bits, x)}")
print("no axes:", run(export(torch.log10, point), point)[0].shape)

# %% [markdown]
# A float16 model gets a float32 output, a float64 model has float32 digits, and a scalar gets an axis. Exercise
# `dtypes` fixes this. The *dynamo path* has its own mapping, with one of the three faults:

# %%
for bits, x in thirds.items():
    proto = torch.onnx.export(Model(torch.log10), (x,), dynamo=True, verbose=False).model_proto
    runner = ort.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (y,) = runner.run(None, {proto.graph.input[0].name: x.numpy()})
    print(f"float{bits}: {types(proto):22} {verdict(y, bits, x)}")

# %% [markdown]
# **`dtypes`** – a `log10` that keeps the dtype: [exercises/c05_writing_symbolic.py](../exercises/c05_writing_symbolic.py#line=156).

# %%
lab.check("dtypes")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: An operator with two outputs
#
# If the *PyTorch* operator has two outputs, your function returns a tuple, in the order of the schema. The exporter
# checks the number of outputs. `torch.aminmax` has two:

# %%
x = torch.linspace(-1, 1, 8).reshape(2, 4)
print(torch.ops.aten.aminmax.default._schema)
register("aten::aminmax", lambda g, x, dim, keepdim: g.op("ReduceMin", x, keepdims_i=0), 9)
with raises(RuntimeError, "incorrect number of outputs (expected 2, but got 1)"):
    export(lambda x: tuple(torch.aminmax(x)), x, outputs=("low", "high"))


# %%
def both(g, x, dim, keepdim):
    return tuple(g.op(name, x, keepdims_i=0) for name in ("ReduceMin", "ReduceMax"))


register("aten::aminmax", both, 9)
model = export(lambda x: tuple(torch.aminmax(x)), x, outputs=("low", "high"))
torch.onnx.unregister_custom_op_symbolic("aten::aminmax", 9)
print(types(model), [float(value) for value in run(model, x)])

# %% [markdown]
# **`kthvalue`** – two outputs from `TopK`. Its card is in section 2:
# [exercises/c05_writing_symbolic.py](../exercises/c05_writing_symbolic.py#line=181).

# %%
lab.check("kthvalue")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: A string argument, and an operator that is newer than your opset
#
# `"s"` of `parse_args` gives your function a Python string. It is known at the export, so a Python `if` chooses the
# nodes, and the file has only those of one branch. (`"trunc"` is not handled here.)


# %%
@parse_args("v", "v", "s")
def div_symbolic(g, x, y, rounding_mode):
    quotient = g.op("Div", x, y)
    return g.op("Floor" if rounding_mode == "floor" else "Identity", quotient)


register("aten::div", div_symbolic, 13)
print(types(export(lambda x: torch.div(x, 2.0, rounding_mode="floor"), torch.ones(2))))
torch.onnx.unregister_custom_op_symbolic("aten::div", 13)

# %% [markdown]
# `g.op` writes any name at any opset. The card of an operator says whether ONNX has it: `Gelu` begins at opset 20.

# %%
with raises(onnx.defs.SchemaError, "No schema registered for 'Gelu'"):
    card("Gelu", 19)
card("Gelu", 20)

# %% [markdown]
# PyTorch maps `gelu` at opsets 9 and 20. The exporter takes the newest entry up to the opset of the export, yours or
# PyTorch's. So an entry of yours at 9 serves opset 19, but not 20:

# %%
register("aten::gelu", lambda g, x, approximate: g.op("Identity", x), 9)
for opset in (19, 20):
    print(opset, types(export(torch.nn.functional.gelu, torch.ones(2), opset=opset)))
torch.onnx.unregister_custom_op_symbolic("aten::gelu", 9)

# %% [markdown]
# **`gelu_tanh`** – `gelu` by two formulas, which a string of the call chooses, below opset 20, and one `Gelu` from 20 on:
# [exercises/c05_writing_symbolic.py](../exercises/c05_writing_symbolic.py#line=218).

# %%
lab.check("gelu_tanh")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: What parse_args and setType do not check
#
# Too few descriptors are an error; too many are not. The wrong letter is not always an error: `"i"` on `-0.7` gives 0.


# %%
def parsed(*letters):
    def look(g, a, b, alpha, beta):
        print(letters, "->", alpha, beta)
        return g.op("Add", a, b)

    register("oplab::my_add", parse_args(*letters)(look), 9)
    export(weighted, a, b)


parsed("v", "v", "f", "f")
parsed("v", "v", "i", "i")
parsed("v", "v", "f", "f", "s")
with raises(
    AssertionError, "A mismatch between the number of arguments (4) and their descriptors (3)"
):
    parsed("v", "v", "f")

# %% [markdown]
# `"f"` works on constants only. An argument that the model computes has no value at export.

# %%
with raises(
    torch.onnx.errors.SymbolicValueError, "Expected node type 'onnx::Constant' for argument 'a'"
):
    parsed("f", "v", "f", "f")

# %% [markdown]
# ### A value inside your function
#
# This function writes MyAdd and then a Relu. It is exported with fixed sizes, so the file should contain every shape.


# %%
def inner_value(with_type):
    @parse_args("v", "v", "f", "f")
    def symbolic(g, a, b, alpha, beta):
        inner = g.op("oplab::MyAdd", a, b, alpha_f=alpha, beta_f=beta)
        if with_type:
            inner.setType(a.type())
        print("in the function:", inner.type().dtype())
        return g.op("Relu", inner)

    register("oplab::my_add", symbolic, 9)
    path = lab.build / "typed.onnx"
    torch.onnx.export(Model(weighted), (a, b), path, dynamo=False, opset_version=13)
    kind = onnx.load(path).graph.value_info[0].type.tensor_type
    dtype = onnx.TensorProto.DataType.Name(kind.elem_type)
    print("in the file:    ", dtype, [d.dim_value for d in kind.shape.dim])


# %%
for with_type in (False, True):
    print("with setType:" if with_type else "without setType:")
    with cpp_warnings():
        inner_value(with_type)

# %% [markdown]
# Without `setType`, the dtype and the shape are missing in both. A wrong type produces a model that does not load:


# %%
@parse_args("v", "v", "f", "f")
def lying(g, a, b, alpha, beta):
    y = g.op("oplab::MyAdd", a, b, alpha_f=alpha, beta_f=beta)
    y.setType(a.type().with_dtype(torch.float64))
    return g.op("Cast", y, to_i=kinds.FLOAT)


register("oplab::my_add", lying, 9)
with raises(Fail, "does not match expected type (tensor(float))"):
    run(export(weighted, a, b), a, b)

# %% [markdown]
# ### And requires_grad?
#
# A type of the TorchScript graph also records whether a gradient is required. `setType` copies this too. ONNX has no
# place for it: the exported files are equal.


# %%
def asinh(g, x):
    print("requires_grad:", x.requiresGrad())
    return g.op("Asinh", x)


register("aten::asinh", asinh, 9)
variants = [torch.ones(2, requires_grad=wanted) for wanted in (True, False)]
files = {export(torch.asinh, x).SerializeToString() for x in variants}
print("different files:", len(files))

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: How PyTorch registers
#
# PyTorch's own mappings are in the files `symbolic_opsetN.py`. The decorator `_onnx_symbolic` on each mapping adds it
# to a registry, under the operator's name and the opset N of the file.

# %%
import inspect

from torch.onnx._internal.torchscript_exporter.registration import registry

relu, clamp = (registry.get_function_group(f"aten::{name}") for name in ("relu", "clamp"))
print(inspect.getsource(relu.get(13)).split("return")[0].rstrip())
for opset in (9, 10, 11, 13, 20):
    function = clamp.get(opset)
    file = function.__module__.rsplit(".")[-1]
    print(f"aten::clamp at opset {opset:2} -> {file}.{function.__name__}")

# %% [markdown]
# `register_custom_op_symbolic` does the same with one difference. Here are its last lines, without the docstring.

# %%
source = inspect.getsource(torch.onnx.register_custom_op_symbolic)
print(inspect.cleandoc(source.rsplit('"""', 1)[1]))
from torch.onnx._internal.torchscript_exporter import registration

print(inspect.getsource(registration.custom_onnx_symbolic).rstrip().splitlines()[-1].strip())

# %% [markdown]
# The difference is `custom=True`. The registry keeps two tables for each operator, PyTorch's and yours, and your entry
# hides PyTorch's entry at the same opset. That is why `unregister_custom_op_symbolic` can restore PyTorch's entry.


# %%
def print_tables():
    print("PyTorch's:", list(table._base), " yours:", list(table._overrides), end="")
    print("  hidden at 9:", table.overridden(9))


register("aten::relu", lambda g, x: g.op("Abs", x), 9)
table = registry.get_function_group("aten::relu")._functions
print_tables()
torch.onnx.unregister_custom_op_symbolic("aten::relu", 9)
print_tables()

# %% [markdown]
# How many mappings does the registry contain? Count the entries by file. The registry is private: read it, but do not
# depend on it.

# %% {"jupyter": {"source_hidden": true}}
import matplotlib.pyplot as plt

from oplab.figures.palette import BLUE

tables = [registry.get_function_group(name)._functions for name in registry.all_functions()]
counts = {opset: sum(opset in table._base for table in tables) for opset in range(7, 21)}
figure, axes = plt.subplots(figsize=(9, 2.8), layout="constrained")
axes.bar_label(axes.bar([str(opset) for opset in counts], list(counts.values()), color=BLUE))
axes.set(xlabel="opset of the file symbolic_opsetN.py", ylabel="number of mappings")
axes.set_ylim(0, 1.15 * max(counts.values()))
assert counts[9] > 300 and max(counts, key=counts.get) == 9
lab.figure(
    figure,
    "Bars: how many mappings each file symbolic_opsetN.py has, for opsets 7 to 20. Opset 9 has "
    "more than 300; no other file has a third of that.",
)

# %% [markdown]
# Most mappings are as old as opset 9, and apply to every opset above it until a newer mapping replaces them. The *dynamo
# path* has its own registry, keyed by overloads such as `torch.ops.aten.relu.default`, and never uses this one.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: symbolic_helper
#
# PyTorch's mappings use a module of helpers, and old texts use it often. Most of its names begin with an underscore:
# they are private, and some have changed in the past. Which names are public?

# %%
import inspect

from torch.onnx import symbolic_helper

members = {name: value for name, value in vars(symbolic_helper).items() if name[:2] != "__"}
own = [name for name in members if inspect.isfunction(members[name])]
own = [name for name in own if members[name].__module__ == parse_args.__module__]
tables = [name for name, value in members.items() if isinstance(value, (dict, list))]
print("public: ", *[name for name in own if name[0] != "_"])
print("tables: ", *[name for name in tables if name[0] != "_"])
print("private:", sum(name[0] == "_" for name in own), "functions")

# %% [markdown]
# The table lists the private helpers that you will see most often, and how to do the same without them:
#
# | in old texts | what it does | without it |
# |---|---|---|
# | `_is_none(v)` | the argument is None | `v.node().mustBeNone()` |
# | `_get_const(v, "f", "alpha")` | read a constant, or fail | `parse_args` |
# | `_maybe_get_const(v, "f")` | read it if it is a constant, else return `v` | `v.node().kind() == "onnx::Constant"` |
# | `_optional_input_placeholder_tensor(g)` | the none node | section 8 |
# | `_try_get_scalar_type(v)` | the dtype | `v.type().dtype()` |
# | `_scalar(t)` | a **torch** tensor without axes as a Python number | `t.item()` |
# | `_if_scalar_type_as(t, v)` | a **torch** tensor in the dtype of `v` | `torch.tensor(…, dtype=v.type().dtype())` |
# | `cast_pytorch_to_onnx["Half"]` | ONNX's number of a dtype | `torch.onnx.TensorProtoDataType.FLOAT16` |
#
# Compare the two functions that read a constant, on an argument that is a constant and on one that is not:


# %%
def readers(g, a, b, alpha, beta):
    print("_get_const:      ", symbolic_helper._get_const(alpha, "f", "alpha"))
    same = symbolic_helper._maybe_get_const(a, "t") is a
    number = symbolic_helper._maybe_get_const(alpha, "f")
    print("_maybe_get_const:", number, " a comes back as it is:", same)
    none = symbolic_helper._is_none(alpha), alpha.node().mustBeNone()
    print("_is_none, mustBeNone:", *none)
    return g.op("Add", a, symbolic_helper._get_const(b, "t", "b"))


register("oplab::my_add", readers, 9)
with raises(
    torch.onnx.errors.SymbolicValueError, "expected a constant value of the 'b' argument"
):
    export(weighted, a, b)

# %% [markdown]
# ### _scalar and _if_scalar_type_as
#
# Old instructions say: if an argument is a tensor, convert it to a number with `_scalar` and `_if_scalar_type_as`. Both
# are for *torch tensors* that your function has already, such as a constant that `parse_args` read with `"t"`. On a value
# of the graph they do nothing. `_scalar` then returns None, without an error.


# %%
def clipped_at_two(g, x):
    two = torch.tensor(2)
    print(
        "_scalar: ", symbolic_helper._scalar(two), "and of a value:", symbolic_helper._scalar(x)
    )
    bound = symbolic_helper._if_scalar_type_as(two, x)
    same = symbolic_helper._if_scalar_type_as(x, x) is x
    print("_if_scalar_type_as:", bound.dtype, " a value comes back as it is:", same)
    return g.op("Clip", x, torch.tensor(0, dtype=x.type().dtype()), bound)


register("aten::asinh", clipped_at_two, 11)
print(run(export(torch.asinh, half), np.float16([-3, 1, 3]))[0])
torch.onnx.unregister_custom_op_symbolic("aten::asinh", 11)

# %% [markdown]
# `Clip` converts nothing (section 5), and here its int64 bound became a float16, the dtype of `x`.
#
# ## Five questions
#
# Answer them without looking back; each choice has its explanation.

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - Chapter 06: `parse_args` with fourteen arguments (`deform_conv2d`), domains and their versions.
# - Chapter 08: `autograd.Function` and its `symbolic`, in depth; plugin nodes with optional inputs.
# - `symbolic_opset11.py`, `clamp`: how PyTorch itself handles what exercise `clip` asks for.
# - Chapters 07 and 12: the two kernels of `my_add`, for PyTorch and for ONNX Runtime.
#
# Previous: [04: ATen symbolic functions](04_aten_symbolic.ipynb)
# · Next: [06: TorchScript and library operators](06_library_operators.ipynb)
# · [Glossary](../docs/glossary.md)
