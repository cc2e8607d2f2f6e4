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
# # 04 · ATen symbolic functions
#
# After this chapter you can
#
# - find the schema of a PyTorch operator, and the ONNX operators of each opset;
# - write a symbolic function, register it for the right opsets, and remove it again;
# - prove that the exported model is valid and matches PyTorch's results.
#
# ATen is PyTorch's library of tensor operators. A *symbolic function* maps one of them to ONNX nodes.
#
# ## 1. The failure
#
# PyTorch has `asinh`. ONNX has `Asinh`. The export still fails, at every opset, because nothing connects the two.
# *(TorchScript path.)*

# %%
import torch

from oplab import lesson, quiet_exports, raises
from oplab.figures import drawings

lab = lesson("04_aten_symbolic")
quiet_exports()  # no deprecation warnings, and no whole graph printed at each export that fails


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


x = torch.linspace(-3, 3, 7)
print(torch.asinh(x).numpy().round(4))
with raises(torch.onnx.errors.UnsupportedOperatorError, "aten::asinh"):
    torch.onnx.export(Model(torch.asinh), (x,), lab.build / "model.onnx", dynamo=False)
ends = [("PyTorch", "aten::asinh", drawings.BLUE), ("ONNX", "Asinh", drawings.GREEN)]
lab.figure(
    drawings.pipeline(ends, ["mapping: none"]),
    "Two boxes, PyTorch's aten::asinh and ONNX's Asinh. The arrow between them is labelled "
    "mapping: none.",
)

# %% [markdown]
# Three links are needed (chapter 00): PyTorch can run the operator, the exporter has a mapping, and ONNX has an
# operator (or several) for it. Link 2, the mapping, is missing here. Before you can write it, you need the exact
# interfaces of the PyTorch operator and the ONNX operator.
#
# The next cell, which is folded, has two helpers for the whole chapter. `export` uses the **TorchScript path**
# (`dynamo=False`) and makes every axis dynamic. `run` runs a model in ONNX Runtime.

# %% {"jupyter": {"source_hidden": true}}
import numpy as np
import onnx
import onnxruntime as ort


def export(function, *inputs, opset=13):
    names, path = ["x", "y"][: len(inputs)], lab.build / "model.onnx"
    pairs = zip(names, inputs, strict=True)
    axes = {name: {i: f"{name}{i}" for i in range(x.dim())} for name, x in pairs}
    options = {"dynamo": False, "opset_version": opset, "dynamic_axes": axes}
    options |= {"input_names": names, "output_names": ["out"]}
    torch.onnx.export(Model(function), inputs, path, **options)
    return onnx.load(path)


def run(model, *arrays):
    session = ort.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, dict(zip("xy", arrays, strict=False)))[0]


# %% [markdown]
# ## 2. The operator's schema
#
# The error message contains the name: `aten::asinh`. It is the kind of a node in the traced graph.

# %%
traced = torch.jit.trace(torch.asinh, x)
[node.kind() for node in traced.graph.nodes()]

# %% [markdown]
# You can look up its arguments in two places. The first is a file that PyTorch's build generates and the wheel
# contains, so you do not have to build PyTorch. It shows the *Python* function.

# %%
from pathlib import Path

stub_file = Path(torch.__file__).parent / "_C" / "_VariableFunctions.pyi"
[line.strip() for line in stub_file.read_text().splitlines() if "def asinh(" in line]

# %% [markdown]
# The second place is the operator itself. The exporter works with its schema.

# %%
print(torch.ops.aten.asinh.default._schema)
print(torch.ops.aten.hypot.default._schema)
print("overloads:", torch.ops.aten.asinh.overloads())

# %% [markdown]
# The Python function has a keyword argument `out`. The schema does not: `out` is a separate overload, and it never
# appears in the graph of a model that returns its result. A symbolic function gets the graph context `g`, then one
# value for each argument **of the schema**: `asinh(g, x)`.
#
# ## 3. The ONNX operator
#
# The `onnx` package contains the complete operator table. An *opset* is a numbered version of this table. For each
# operator, the table lists the opset in which it was added and the opsets in which it changed.

# %%
names = ["Asinh", "Sinh", "Exp", "Cast", "Where", "Equal", "Max", "Resize", "Deg2Rad"]
history = {name: [] for name in names}
for schema in onnx.defs.get_all_schemas_with_history():
    if schema.domain == "" and schema.name in history:
        history[schema.name].append(schema.since_version)
for name in names:
    print(f"{name:8}", sorted(history[name]) or "ONNX does not have it")

# %% [markdown]
# A model written for opset 12 uses, for each operator, the newest version that is not newer than 12. `get_schema` does
# this look-up.

# %%
for opset in (9, 10, 11, 12, 13, 20):
    try:
        print(opset, "-> Resize version", onnx.defs.get_schema("Resize", opset).since_version)
    except onnx.defs.SchemaError:
        print(opset, "-> no Resize yet")

# %% [markdown]
# Versions can differ in attributes, in inputs, or only in types. One difference matters in an exercise: `Equal` is as
# old as ONNX, but it could not always compare floats.


# %%
def takes_floats(name, opset):
    schema = onnx.defs.get_schema(name, opset)
    return "tensor(float)" in schema.type_constraints[0].allowed_type_strs


for name in ("Equal", "Cast"):
    print(name, {f"opset {opset}": takes_floats(name, opset) for opset in (9, 11)})

# %% [markdown]
# ## 4. A mapping that exists: bicubic, down to Resize
#
# Before you write a mapping, read one. Bicubic interpolation is a good example. Old texts refer to
# `torch/onnx/symbolic_opset11.py`. Today this file only re-exports the names of another file.

# %%
folder = Path(torch.onnx.__file__).parent
lines = (folder / "symbolic_opset11.py").read_text().splitlines()
print(*[line.split("  #")[0] for line in lines if line.strip()], sep="\n")

# %% [markdown]
# So search the folder that contains the code now. Each file `symbolic_opsetN.py` contains the mappings that were added
# with opset N.

# %%
home = folder / "_internal" / "torchscript_exporter"
for file in sorted(home.glob("symbolic_opset*.py")):
    for line in file.read_text().splitlines():
        if "bicubic" in line:
            print(file.name, "|", line.strip())

# %% [markdown]
# `symbolic_opset11.py` registers `aten::upsample_bicubic2d`. The decorator `_apply_params` calls `_interpolate` with
# these three values, and the result is the symbolic function. You do not have to follow these calls by hand: the
# registry returns the function that the exporter uses, and Python tells you where it is defined.

# %%
import inspect

from torch.onnx._internal.torchscript_exporter.registration import registry

bicubic = registry.get_function_group("aten::upsample_bicubic2d").get(11)
source = inspect.unwrap(bicubic)
print(source.__qualname__, "in", Path(inspect.getsourcefile(source)).name)

# %% [markdown]
# The last step is a call to `g.op`. Each `g.op` writes one ONNX node. The suffix of an attribute's name is its type:
# `_s` string, `_f` float.

# %%
text = inspect.getsource(source)
print(inspect.cleandoc(text[text.rindex("return g.op(") :]))

# %% [markdown]
# Now check the result of an export. `nn.Upsample` is `interpolate` as a module. At opset 10 there is no entry, so the export
# fails. At 13 the graph has this `Resize` with these attributes. (The picture omits attributes that have their default
# value.)

# %%
twice = torch.nn.Upsample(scale_factor=2.0, mode="bicubic")
image = torch.rand(1, 3, 4, 4)
with raises(torch.onnx.errors.UnsupportedOperatorError, "added in version 11"):
    export(twice, image, opset=10)
lab.show(export(twice, image, opset=13))

# %% [markdown]
# ## 5. Your first symbolic function
#
# Two lines define the mapping, and one line registers it. The name includes its namespace. The last argument is an
# opset; the next section explains it. *(TorchScript path.)*


# %%
def asinh_symbolic(g, x):
    return g.op("Asinh", x)


torch.onnx.register_custom_op_symbolic("aten::asinh", asinh_symbolic, 9)
model = export(torch.asinh, x, opset=9)
onnx.checker.check_model(model, full_check=True)
lab.show(model)

# %% [markdown]
# Is it correct? Compare its results in ONNX Runtime with PyTorch's, for new numbers and a size that was not used in the
# export. The comparison has to be able to fail, so the cell also compares a wrong function.

# %%
fresh = np.random.default_rng(4).normal(scale=3, size=1000).astype(np.float32)
expected = torch.asinh(torch.from_numpy(fresh)).numpy()
print("asinh:", np.allclose(run(model, fresh), expected, atol=1e-6))
print("sinh: ", np.allclose(np.sinh(fresh), expected, atol=1e-6))

# %% [markdown]
# Older texts register with `torch.onnx.symbolic_registry.register_op('asinh', asinh_symbolic, '', 9)`. That module no
# longer exists.

# %%
with raises(ModuleNotFoundError, "torch.onnx.symbolic_registry"):
    import torch.onnx.symbolic_registry

# %% [markdown]
# Another form that you will see uses the decorator `parse_args` (`"v"`: a value of the graph) and the Python function's
# `out`. For `asinh` neither changes anything. Chapter 05, section 6, needs `parse_args` for arguments that are not
# tensors.

# %%
from torch.onnx.symbolic_helper import parse_args


@parse_args("v")
def asinh_in_older_texts(g, input, *, out=None):
    return g.op("Asinh", input)


torch.onnx.register_custom_op_symbolic("aten::asinh", asinh_in_older_texts, 9)
print([node.op_type for node in export(torch.asinh, x).graph.node])

# %% [markdown]
# ### Do the names of the arguments matter?
#
# Old instructions say that the names of the arguments have to be those of the `.pyi` file. That file and the schema do
# not even agree: Python's function calls the argument `input`, the schema calls it `self`.

# %%
print(torch.equal(torch.asinh(input=x), torch.ops.aten.asinh(self=x)))
with raises(TypeError, 'required positional arguments: "input"'):
    torch.asinh(self=x)

# %% [markdown]
# A symbolic function may use any names. The exporter passes the values **by position**, in the order of the schema, and
# keyword arguments such as `alpha` have their place there too. So the number and the order have to match. This function
# reads well, but its first two arguments are in the wrong order, and the difference gets the wrong sign.


# %%
def in_wrong_order(g, other, self, alpha):
    return g.op("Sub", self, other)


print(torch.ops.aten.sub.Tensor._schema)
torch.onnx.register_custom_op_symbolic("aten::sub", in_wrong_order, 9)
one, two = torch.ones(2), torch.full((2,), 2.0)
swapped = run(export(torch.sub, one, two), one.numpy(), two.numpy())
print("PyTorch:", torch.sub(one, two).numpy(), " ONNX Runtime:", swapped)
torch.onnx.register_custom_op_symbolic("aten::sub", lambda g, a, b: g.op("Sub", a, b), 9)
with raises(TypeError, "takes 3 positional arguments but 4 were given"):
    export(torch.sub, one, two)
torch.onnx.unregister_custom_op_symbolic("aten::sub", 9)

# %% [markdown]
# ## 6. What the version means
#
# The old `register_op` bound a function to a single opset. This has changed too.
#
# A registration at N applies to opset N **and above**, until a newer registration takes over. If you register at 12,
# opsets 9 and 11 fail. If you register at 9, the opsets below 9 have an unwanted result.


# %%
def outcome(function, x, opset):
    try:
        model = export(function, x, opset=opset)
    except (
        torch.onnx.errors.UnsupportedOperatorError,
        ValueError,
    ):  # ValueError: see section 8
        return "no function"
    try:
        run(model, x.numpy())
    except Exception as error:
        return f"exported, ORT: {type(error).__name__}"
    return "works"


# %%
opsets = (7, 8, 9, 11, 12, 13, 20)
torch.onnx.unregister_custom_op_symbolic("aten::asinh", 9)
torch.onnx.register_custom_op_symbolic("aten::asinh", asinh_symbolic, 12)
at_12 = [outcome(torch.asinh, x, opset) for opset in opsets]
torch.onnx.unregister_custom_op_symbolic("aten::asinh", 12)
torch.onnx.register_custom_op_symbolic("aten::asinh", asinh_symbolic, 9)
at_9 = [outcome(torch.asinh, x, opset) for opset in opsets]

# %%
print(f"{'opset':>5}  {'registered at 12':<18}registered at 9")
for opset, left, right in zip(opsets, at_12, at_9, strict=True):
    print(f"{opset:>5}  {left:<18}{right}")
assert at_9[:2] == ["exported, ORT: InvalidGraph"] * 2 and at_9[2:] == ["works"] * 5
assert at_12 == ["no function"] * 4 + ["works"] * 3

# %% [markdown]
# At opsets 7 and 8 the export *succeeds*, but the model is invalid: `Asinh` was added in opset 9. The exporter's
# look-up shows the reason.

# %%
from torch.onnx._internal.torchscript_exporter.registration import (
    _dispatch_opset_version as dispatch,
)

text = inspect.getsource(dispatch)
print(inspect.cleandoc(text[text.index("    if target >=") :]))

# %% [markdown]
# From opset 9 on, the look-up goes **down** to the nearest registration. Below 9 it goes **up**, to 9 at most: a legacy
# rule from the time of Caffe2. So a registration at 9 also applies to 7 and 8, a registration at 8 also applies to 7,
# and a registration at 7 does not apply to 8.

# %%
for registered in ([12], [9], [8], [7, 9]):
    print(
        f"registered at {str(registered):8}",
        {opset: dispatch(opset, registered) for opset in (7, 8, 9, 13)},
    )

# %% [markdown]
# Only a check finds this. The export gives no warning; the checker and ONNX Runtime raise an error.

# %%
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph

leaked = export(torch.asinh, x, opset=8)
with raises(onnx.checker.ValidationError, "No Op registered for Asinh"):
    onnx.checker.check_model(leaked)
with raises(InvalidGraph, "domain_version of 8"):
    run(leaked, x.numpy())

# %% [markdown]
# ### The dispatch table
#
# The picture shows, for a few operators, which registration the registry returns at each opset. A number is the opset
# of that registration. A ▲ means that it comes from a *higher* opset, so check whether its ONNX operators exist at the
# opset of the export.

# %%
columns = range(7, 21)
rows = "where relu clamp softmax hardswish gelu upsample_bicubic2d einsum bitwise_and".split()
yours = {"asinh": [9], "acosh": [12], "sinh": [7, 9]}
for name, versions in yours.items():
    for version in versions:
        torch.onnx.register_custom_op_symbolic(f"aten::{name}", asinh_symbolic, version)

# %%
from oplab.figures.symbolic import dispatch_table

answers, labels = {}, {name: f"{name}, yours at {yours[name]}" for name in yours}
for name in [*rows, *yours]:
    registered = registry.get_function_group(f"aten::{name}")._functions
    answers[labels.get(name, name)] = [dispatch(opset, registered) for opset in columns]
for name, version in (("acosh", 12), ("sinh", 7), ("sinh", 9)):
    torch.onnx.unregister_custom_op_symbolic(f"aten::{name}", version)
lab.figure(
    dispatch_table(answers, columns, labels.values()),
    "A table of twelve operators and the opsets 7 to 20: the opset of the registration that is "
    "used. The asinh registered at 9 is used at 7 and 8 too. sinh, registered at 7 and at 9, "
    "has the registration of 9 at opset 8.",
)

# %% [markdown]
# Look at the last row: `sinh` registered at 7 and at 9. Opset 8 has a ▲.
#
# ## 7. Names that are not checked
#
# Some texts say that `g.op` checks the names of ONNX operators. It does not. `ASinh` is exported without a warning.


# %%
def use(target):
    """Register a symbolic function that writes one node of type `target`."""

    def symbolic(g, x):
        return g.op(target, x).setType(x.type())

    torch.onnx.register_custom_op_symbolic("aten::asinh", symbolic, 9)


# %%
use("ASinh")
misspelt = export(torch.asinh, x)
print("exported:", misspelt.graph.node[0].op_type)
with raises(onnx.checker.ValidationError, "No Op registered for ASinh"):
    onnx.checker.check_model(misspelt)
with raises(InvalidGraph, "ASinh"):
    run(misspelt, x.numpy())

# %% [markdown]
# A name with a namespace is an operator of *another domain*. The checker knows nothing about that domain and accepts
# the operator. Only the runtime rejects it, unless it has a kernel for it (chapters 11 to 13).

# %%
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

use("oplab::Asinh")
foreign = export(torch.asinh, x)
onnx.checker.check_model(foreign)
print({entry.domain or "ai.onnx": entry.version for entry in foreign.opset_import})
with raises(Fail, "is not a registered function/op"):
    run(foreign, x.numpy())

# %% [markdown]
# The name of the *ATen* operator has its own traps. It needs a namespace. An empty namespace means `aten`. A wrong
# namespace is accepted, but the exporter never looks it up.

# %%
torch.onnx.unregister_custom_op_symbolic("aten::asinh", 9)
with raises(torch.onnx.errors.OnnxExporterError, "must match the format domain::name"):
    torch.onnx.register_custom_op_symbolic("asinh", asinh_symbolic, 9)

torch.onnx.register_custom_op_symbolic("oplab::asinh", asinh_symbolic, 9)
print("oplab::asinh registered, torch.asinh:", outcome(torch.asinh, x, 13))
torch.onnx.register_custom_op_symbolic("::asinh", asinh_symbolic, 9)
print("::asinh registered, torch.asinh:     ", outcome(torch.asinh, x, 13))

# %% [markdown]
# ## 8. Remove a registration
#
# A registration lasts as long as the process. `unregister_custom_op_symbolic` removes it; the version has to be that of
# the registration. Where PyTorch has its own mapping, that mapping is used again.

# %%
torch.onnx.register_custom_op_symbolic("aten::relu", lambda g, x: g.op("Abs", x), 9)
print(export(torch.relu, x).graph.node[0].op_type)
torch.onnx.unregister_custom_op_symbolic("aten::relu", 9)
print(export(torch.relu, x).graph.node[0].op_type)

# %% [markdown]
# Where PyTorch has no mapping, an empty entry remains, and the next export fails with an unhelpful message (seen with
# torch 2.15). The message means that no function is registered for that operator.

# %%
torch.onnx.unregister_custom_op_symbolic("aten::asinh", 9)
with raises((ValueError, torch.onnx.errors.UnsupportedOperatorError), "min()"):
    export(torch.asinh, x)

# %% [markdown]
# ## 9. When ONNX lacks the operator: compose it
#
# ONNX has no `Deg2Rad`. `torch.deg2rad(x)` is `x * (pi / 180)`, so `Mul` and a constant are enough. But which constant?
# Three constants look alike.

# %%
import math

factor = math.pi / 180
constants = {
    "torch.tensor(f)": torch.tensor(factor),
    "torch.tensor([f], dtype=float64)": torch.tensor([factor], dtype=torch.float64),
    "torch.tensor(f, dtype=float64)": torch.tensor(factor, dtype=torch.float64),
}


def degrees_with(constant):
    def symbolic(g, x):
        return g.op("Mul", x, g.op("Constant", value_t=constant))

    torch.onnx.register_custom_op_symbolic("aten::deg2rad", symbolic, 9)


# %%
degrees = np.arange(-180.0, 181.0)
for label, constant in constants.items():
    degrees_with(constant)
    for dtype in ("float32", "float64"):
        model = export(torch.deg2rad, torch.ones(2, dtype=getattr(torch, dtype)))
        y = run(model, degrees.astype(dtype))
        error = max(np.abs(y / np.pi - degrees / 180).max(), 1e-15)
        print(f"{label:33} {dtype} -> {y.dtype}, error below 1e{math.ceil(math.log10(error))}")

# %% [markdown]
# - A float32 constant has lost digits. The exporter casts it to double for a double `x`; this does not restore the
#   digits.
# - A float64 constant **with an axis** counts as a real tensor: it promotes a float32 model to double. The dtype of the
#   output is wrong.
# - A float64 constant **without axes** takes the dtype of `x`, and loses no digits before that. Use this constant.
#
# The graph with the second constant shows the implicit `Cast`:

# %%
degrees_with(constants["torch.tensor([f], dtype=float64)"])
lab.show(export(torch.deg2rad, torch.ones(2)))

# %% [markdown]
# The result of a composition is only as good as its formula: test it at the ends of its range, not only around 1. The
# deeper section "A formula that stays in range" has an example.
#
# ## 10. Compared with the dynamo path
#
#
# Everything above uses the TorchScript path. `torch.onnx.export` uses the **dynamo path** by default, which has its own
# mappings. It exports `asinh` without help, and it **ignores your registration without a warning**. Count the calls.

# %%
calls = []


def counting(g, x):
    calls.append("called")
    return g.op("Asinh", x)


torch.onnx.register_custom_op_symbolic("aten::asinh", counting, 9)
export(torch.asinh, x)
print("TorchScript path, calls:", len(calls))
program = torch.onnx.export(Model(torch.asinh), (x,), dynamo=True, verbose=False)
print(
    "after the dynamo path:  ",
    len(calls),
    "  its graph:",
    [node.op_type for node in program.model.graph],
)
assert len(calls) == 1

# %% [markdown]
# Each path lacks operators that the other path has: the deeper section "Operators without a mapping, on both paths" has
# a table. Chapter 10 is about the dynamo path's own translations.
#
# ## 11. Limits
#
# - A valid graph can still lack a kernel. ONNX allows `Asinh` on doubles, but ONNX Runtime's CPU execution provider has
#   no such kernel. The session reports this.

# %%
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented

torch.onnx.register_custom_op_symbolic("aten::asinh", asinh_symbolic, 9)
double = export(torch.asinh, x.double())
onnx.checker.check_model(double, full_check=True)
with raises(NotImplemented, "NOT_IMPLEMENTED"):
    run(double, x.double().numpy())

# %% [markdown]
# - The TorchScript path treats a float64 tensor without axes as if it were a Python number, and converts it to float32
#   as soon as it is combined with a constant.

# %%
degrees_with(constants["torch.tensor(f, dtype=float64)"])
scalar = export(torch.deg2rad, torch.tensor(90.0, dtype=torch.float64))
print([node.op_type for node in scalar.graph.node], run(scalar, np.array(90.0)).dtype)

# %% [markdown]
# - The TorchScript path is deprecated; its mappings end at opset 20. Existing models still depend on it, and it accepts
#   models that the dynamo path rejects.
# - `registry` and `_dispatch_opset_version` are private parts of PyTorch. Read them, but do not depend on them.
#
# ## 12. Exercises
#
# Each function registers one mapping; its docstring is the specification. The grader runs it in a separate process, so
# your registrations in this notebook have no effect there. `lab.hint("asinh")` gives a hint. A fourth exercise, `hypot`,
# is in a deeper section.
#
# **`asinh`** — write the mapping again, without looking at the lesson: one `Asinh` node at every opset from 9 on,
# in [exercises/c04_aten_symbolic.py](../exercises/c04_aten_symbolic.py#line=40).

# %%
lab.check("asinh")

# %% [markdown]
# **`per_opset`** — `torch.sinh`: a composition that is valid at opsets 7 and 8, and the native `Sinh` from 9 on. Look
# at the dispatch table first:
# [exercises/c04_aten_symbolic.py](../exercises/c04_aten_symbolic.py#line=62).

# %%
lab.check("per_opset")

# %% [markdown]
# **`sinc`** — `sin(pi x) / (pi x)`, and 1 at 0, in float16, float32 and float64, from opset 9 on. Which comparison
# with 0 does opset 9 have?
# [exercises/c04_aten_symbolic.py](../exercises/c04_aten_symbolic.py#line=86).

# %%
lab.check("sinc")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: A formula that stays in range
#
# On paper, `log(exp(x) + exp(y))` is `logaddexp`.


# %%
def logaddexp_on_paper(g, x, y):
    return g.op("Log", g.op("Add", g.op("Exp", x), g.op("Exp", y)))


torch.onnx.register_custom_op_symbolic("aten::logaddexp", logaddexp_on_paper, 9)
paper = export(torch.logaddexp, x, x)
numbers = np.float32([1, 10, 100])
print("ONNX:   ", run(paper, numbers, numbers).round(3))
print("PyTorch:", torch.logaddexp(*[torch.from_numpy(numbers)] * 2).numpy().round(3))

# %% [markdown]
# `exp(100)` is larger than the largest float32. PyTorch's own mapping on the dynamo path is the same formula, with the
# same result at 100. That a mapping exists does not mean that it is a good one.

# %%
a, b = torch.rand(2, 3), torch.rand(2, 3)
program = torch.onnx.export(Model(torch.logaddexp), (a, b), dynamo=True, verbose=False)
names = [value.name for value in program.model_proto.graph.input]
session = ort.InferenceSession(program.model_proto.SerializeToString())
print([node.op_type for node in program.model.graph])
print(session.run(None, dict.fromkeys(names, np.full((2, 3), 100, np.float32)))[0])

# %% [markdown]
# **`hypot`** — `sqrt(x² + y²)` for two inputs that broadcast, from opset 9 on. It has to be correct at 1e30, at 1e-30
# and at (0, 0). Neither path
# has a mapping for it. [exercises/c04_aten_symbolic.py](../exercises/c04_aten_symbolic.py#line=108)

# %%
lab.check("hypot")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Operators without a mapping, on both paths
#
# Which operators lack a mapping today? Try both paths. The cell first removes the registrations of this notebook.

# %%
for name in ("asinh", "deg2rad", "logaddexp"):
    torch.onnx.unregister_custom_op_symbolic(f"aten::{name}", 9)


def torchscript_way(function, inputs):
    try:
        return " ".join(node.op_type for node in export(function, *inputs).graph.node)
    except (torch.onnx.errors.UnsupportedOperatorError, ValueError):
        return "–"


# %%
def dynamo_way(function, inputs):
    try:
        program = torch.onnx.export(Model(function), inputs, dynamo=True, verbose=False)
        return " ".join(node.op_type for node in program.model.graph)
    except torch.onnx.OnnxExporterError:
        return "–"


one = ["relu", "asinh", "sinh", "sinc", "expm1", "deg2rad", "lgamma", "erfinv"]
two = ["logaddexp", "hypot", "copysign", "cdist"]

# %%
a, b = torch.rand(2, 3), torch.rand(2, 3)
print(f"{'operator':10} {'TorchScript path':18} dynamo path")
for name in one + two:
    inputs = (a,) if name in one else (a, b)
    function = getattr(torch, name)
    left = torchscript_way(function, inputs)
    print(f"{name:10} {left if len(left) < 16 else 'yes':18} {dynamo_way(function, inputs)}")

# %% [markdown]
# Each path lacks operators that the other path has. `hypot`, the exercise above, is missing in both.
#
# ## Five questions
#
# Answer them without looking back; each choice has its explanation.

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - Chapter 05: `g.op` in depth — attributes, several outputs, optional inputs, dtypes.
# - `torch/onnx/_internal/torchscript_exporter/symbolic_opset9.py`: about three hundred mappings. Find `gelu`, and see
#   how it handles its argument.
# - The ONNX operator reference on onnx.ai, and `onnx.defs.get_schema("Where", 9).doc` for the version that you
#   target.
# - Chapter 10: the same operators on the dynamo path.
#
# Previous: [03: Dynamic models](03_dynamic_models.ipynb)
# · Next: [05: Writing symbolic functions](05_writing_symbolic.ipynb)
# · [Glossary](../docs/glossary.md)
