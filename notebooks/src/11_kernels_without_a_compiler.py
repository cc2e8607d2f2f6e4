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
# # 11 · Kernels without a compiler
#
# After this chapter you can
#
# - run a model with a custom operator before any C++ exists, in three ways;
# - explain what each way cannot do, and demonstrate it;
# - use the slow implementation to check the fast one.
#
# In chapters 04 to 10 you put nodes of a custom domain into a model. In this chapter you implement such a node. Chapters 12
# and 13 do the same in C++.
#
# ## 1. The failure
#
# The operator is `oplab::Foo` of chapter 06: two tensors, a float and an int, `attr1 * input1 + input2 ** attr2`.

# %%
import onnx
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

from oplab import lesson, raises

lab = lesson("11_kernels_without_a_compiler")
ort.set_default_logger_severity(4)  # what it logs, it raises too
model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 18, "oplab": 2]>
    graph (float[n] a, float[n] b) => (float[n] y) {
        y = oplab.Foo <attr1: float = 0.75, attr2: int = 3> (a, b)
    }""")
onnx.checker.check_model(model, full_check=True)
with raises(Fail, "oplab:Foo(-1) is not a registered function/op"):
    ort.InferenceSession(model.SerializeToString())
with raises(NotImplementedError, "Node type 'Foo' from domain 'oplab' is unknown"):
    ReferenceEvaluator(model)
lab.show(model)

# %% [markdown]
# The file names an operator but does not define what it computes. Neither ONNX Runtime nor ONNX's own reference evaluator
# knows the operator.
#
# ### Both exporters write this node
#
# The model was written by hand here. The *TorchScript path* with a symbolic function and the *dynamo path* with a
# translation write the same node:

# %%
import io
import os

os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # warnings of a custom node's shape: chapter 08
import torch
from onnx import TensorProto, helper
from onnxscript import FLOAT, script
from onnxscript.values import Opset

from oplab import ops, quiet_exports


class FooModel(torch.nn.Module):
    def forward(self, a, b):
        return torch.ops.oplab.foo_forward(a, b, 0.75, 3)


def foo_symbolic(g, a, b, attr1, attr2):
    return g.op("oplab::Foo", a, b, attr1_f=attr1, attr2_i=attr2)


oplab_2 = Opset("oplab", 2)


@script(oplab_2)
def foo_translation(a: FLOAT[...], b: FLOAT[...], attr1: float, attr2: int) -> FLOAT[...]:
    return oplab_2.Foo(a, b, attr1=attr1, attr2=attr2)


# %%
quiet_exports()
ops.load()
pair = (torch.rand(4), torch.rand(4))
names = {"input_names": ["a", "b"], "output_names": ["y"], "opset_version": 18}
symbolic = torch.onnx.symbolic_helper.parse_args("v", "v", "f", "i")(foo_symbolic)
torch.onnx.register_custom_op_symbolic("oplab::foo_forward", symbolic, 9)
buffer = io.BytesIO()
torch.onnx.export(FooModel(), pair, buffer, dynamo=False, custom_opsets={"oplab": 2}, **names)
old = onnx.load_model_from_string(buffer.getvalue())

# %%
table = {torch.ops.oplab.foo_forward.default: foo_translation}
options = {"dynamo": True, "verbose": False, "custom_translation_table": table, **names}
new = torch.onnx.export(FooModel(), pair, **options).model_proto
for path, exported in (("TorchScript path", old), ("dynamo path", new)):
    (node,) = exported.graph.node
    attributes = {e.name: helper.get_attribute_value(e) for e in node.attribute}
    print(f"{path:17} {node.domain}::{node.op_type}", attributes)

# %% [markdown]
# From here on no exporter is involved: the meaning of a model does not depend on which exporter wrote it. The next cell has
# two helpers: `one_node` builds models of one node, and `foo_model` builds the model above for other types and attributes.

# %% {"jupyter": {"source_hidden": true}}
import numpy as np


def one_node(
    op_type, inputs, outputs, *, domain="oplab", version=1, functions=(), **attributes
):
    """A model of one node. Inputs and outputs: by name, the element type and the sizes."""
    node = helper.make_node(op_type, [*inputs], [*outputs], domain=domain, **attributes)
    values = [
        [helper.make_tensor_value_info(k, v[0], v[1:]) for k, v in side.items() if k]
        for side in (inputs, outputs)
    ]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid(domain, version)]
    graph = helper.make_graph([node], "graph", *values)
    more = {"opset_imports": imports, "functions": list(functions)}
    return helper.make_model(graph, ir_version=10, **more)


def foo_model(kind=TensorProto.FLOAT, domain="oplab", version=2, **more):
    sides = {"a": (kind, "n"), "b": (kind, "n")}, {"y": (kind, "n")}
    attributes = {"attr1": 0.75, "attr2": 3, **more}
    return one_node("Foo", *sides, domain=domain, version=version, **attributes)


rng = np.random.default_rng(11)
feeds = {name: rng.uniform(0.5, 2, 1000).astype(np.float32) for name in ("a", "b")}
doubles = {name: value.astype(np.float64) for name, value in feeds.items()}
model = foo_model()

# %% [markdown]
# ## 2. The naive attempt: a schema
#
# `onnx.defs` has a schema for each operator of ONNX, and you can register your own schema. It looks like a definition.

# %%
Schema = onnx.defs.OpSchema
floats = [("T", ["tensor(float)", "tensor(double)"], "float or double")]
schema = Schema(
    "Foo",
    "oplab",
    2,
    inputs=[Schema.FormalParameter("a", "T"), Schema.FormalParameter("b", "T")],
    outputs=[Schema.FormalParameter("y", "T")],
    type_constraints=floats,
    attributes=[
        Schema.Attribute("attr1", Schema.AttrType.FLOAT, required=True),
        Schema.Attribute("attr2", Schema.AttrType.INT, required=True),
    ],
)
onnx.defs.register_schema(schema)

# %%
with raises(onnx.checker.ValidationError, "Unrecognized attribute: attr3"):
    onnx.checker.check_model(foo_model(attr3=1.0))
with raises(Fail, "oplab:Foo(-1) is not a registered function/op"):
    ort.InferenceSession(model.SerializeToString())
with raises(NotImplementedError, "Node type 'Foo' from domain 'oplab' is unknown"):
    ReferenceEvaluator(model)
onnx.defs.deregister_schema("Foo", 2, "oplab")

# %% [markdown]
# The checker is stricter now, and nothing else has changed. A schema is a signature. It is kept in the memory of the `onnx`
# package, and ONNX Runtime never queries that package. What is missing is an **implementation** in a place where the runtime
# looks. There are four such places.

# %% {"jupyter": {"source_hidden": true}}
import matplotlib.pyplot as plt

from oplab.figures.palette import BLUE, GREEN, GREY, ORANGE, PURPLE

colours = {"OpRun": BLUE, "PyOp": ORANGE, "function": GREEN, "C++ kernel": PURPLE}
below = {
    "OpRun": ("a class in your process,\nfor onnx.reference", "new_ops=[Foo]"),
    "PyOp": (
        "a Python function that\nONNX Runtime calls back",
        "register_custom_ops_library\n(extensions)",
    ),
    "function": ("a body of ONNX operators\nin the file itself", "model.functions"),
    "C++ kernel": (
        "compiled, in a library\n(chapters 12 and 13)",
        "register_custom_ops_library\n(yours)",
    ),
}


def box(axes, x, y, width, height, title, text, colour):
    axes.add_patch(plt.Rectangle((x, y), width, height, fc="none", ec=colour, lw=2))
    axes.text(x + width / 2, y + height - 0.2, title, ha="center", va="top", weight="bold")
    axes.text(x + width / 2, y + 0.18, text, ha="center", va="bottom", size=9)


figure, axes = plt.subplots(figsize=(10.5, 3.7), layout="constrained")
box(axes, 3.9, 2.75, 4, 0.95, "model.onnx", "a node  oplab::Foo(a, b; attr1, attr2)", GREY)
for number, (title, (text, place)) in enumerate(below.items()):
    x, colour = 3.05 * number, colours[title]
    box(axes, x, 0, 2.75, 1.15, title, text, colour)
    arrow = {"arrowstyle": "-|>", "color": colour, "lw": 1.6}
    axes.annotate("", (x + 1.37, 2.05), (4.6 + 0.85 * number, 2.73), arrowprops=arrow)
    axes.annotate("", (x + 1.37, 1.17), (x + 1.37, 1.38), arrowprops=arrow)
    axes.text(x + 1.37, 1.7, place, ha="center", va="center", size=8.5, family="monospace")
axes.set(xlim=(-0.1, 12), ylim=(-0.1, 3.8))
axes.set_axis_off()
lab.figure(
    figure,
    "A node oplab::Foo in a model file, and four places for its implementation: an OpRun class "
    "for onnx.reference, a PyOp that ONNX Runtime calls back, a function in the file, "
    "and a C++ kernel.",
)

# %% [markdown]
# ## 3. First way: a class for onnx.reference
#
# `onnx.reference` is ONNX's own evaluator, in Python and NumPy. It is designed to be correct, not to be fast. A class
# that inherits from `OpRun` adds an operator; `_run` gets the inputs in their order and the attributes by name, and
# returns a **tuple**.
#
# The evaluator looks a class up by two names: its attribute `op_domain`, and **the name of the class**.


# %%
from onnx.reference.op_run import OpRun


class FooOfOplab(OpRun):
    op_domain = "oplab"

    def _run(self, a, b, attr1, attr2):
        return (attr1 * a + b**attr2,)


class Foo(OpRun):
    def _run(self, a, b, attr1, attr2):
        return (attr1 * a + b**attr2,)


for wrong in (FooOfOplab, Foo):
    with raises(NotImplementedError, "Node type 'Foo' from domain 'oplab' is unknown"):
        ReferenceEvaluator(model, new_ops=[wrong])


# %% [markdown]
# The first class has another name, the second has no domain. Both mistakes give the same message: "unknown". Now both names
# are right.


# %%
class Foo(OpRun):
    op_domain = "oplab"

    def _run(self, a, b, attr1, attr2):
        return (attr1 * a + b**attr2,)


evaluator = ReferenceEvaluator(model, new_ops=[Foo])
(got,) = evaluator.run(None, feeds)
tensors = [torch.from_numpy(feeds[name]) for name in ("a", "b")]
eager = torch.ops.oplab.foo_forward(*tensors, 0.75, 3).numpy()
print(got.dtype, got.shape, "close to PyTorch:", np.allclose(got, eager, rtol=1e-6))

# %% [markdown]
# ### What it does not check
#
# The evaluator does not check what your class returns. A class that computes in double returns double, whatever type the model
# declares.


# %%
from onnx.reference.shape_annotation_checker import ShapeAnnotationError


class Foo64(OpRun):
    op_domain = "oplab"

    def _run(self, a, b, attr1, attr2):
        return (float(attr1) * a.astype(np.float64) + b.astype(np.float64) ** attr2,)


Foo64.__name__ = "Foo"
(got,) = ReferenceEvaluator(model, new_ops=[Foo64]).run(None, feeds)
print("the model says float, the evaluator gives", got.dtype)
checked = ReferenceEvaluator(model, new_ops=[Foo64], check_shape_annotations=True)
with raises(
    ShapeAnnotationError,
    "declared element type float32 does not match actual element type float64",
):
    checked.run(None, feeds)

# %% [markdown]
# So set `check_shape_annotations` in tests. The evaluator then compares every value with the types and the shapes that the
# model declares, including named dimensions: two inputs with the axis `"n"` must have the same length.

# %%
checked = ReferenceEvaluator(model, new_ops=[Foo], check_shape_annotations=True)
with raises(ShapeAnnotationError, "symbolic dimension 'n' was previously bound to 1000"):
    checked.run(None, {**feeds, "b": feeds["b"][:1]})

# %% [markdown]
# ### When `_run` fails
#
# The evaluator replaces a TypeError or an AttributeError from `_run` with its own exception. The original one is the cause,
# printed above it in a full traceback. In this example, the class has no parameters for the attributes.


# %%
class NoAttributes(OpRun):
    op_domain = "oplab"

    def _run(self, a, b):
        return (0.75 * a + b**3,)


NoAttributes.__name__ = "Foo"
with raises(TypeError, "Issues with types"):
    ReferenceEvaluator(model, new_ops=[NoAttributes]).run(None, feeds)
try:
    ReferenceEvaluator(model, new_ops=[NoAttributes]).run(None, feeds)
except TypeError as error:
    print(
        "cause:", str(error.__cause__).split(".")[-1].split(" '")[0]
    )  # it names one of the two

# %% [markdown]
# ### Attributes that are left out, inputs that are left out
#
# An attribute that the node does not have is not passed, so give its parameter a default. An omitted input is passed as None
# if it has the empty name, and is not passed at all if it is left out at the end. A default of `None` covers both cases. The
# example is `oplab::Grid` of chapter 06, whose inputs `start` and `end` are optional.


# %%
class Grid(OpRun):
    op_domain = "oplab"

    def _run(self, pos, size, start=None, end=None):
        start = pos.min(axis=0) if start is None else start
        end = pos.max(axis=0) if end is None else end
        cells = np.trunc((end - start) / size).astype(np.int64) + 1
        steps = np.concatenate([[1], np.cumprod(cells)[:-1]])
        return ((np.trunc((pos - start) / size).astype(np.int64) * steps).sum(axis=1),)


# %%
from oplab import session

F = TensorProto.FLOAT
shapes = {"pos": (F, "n", 2), "size": (F, 2), "start": (F, 2), "end": (F, 2), "": ()}
grid_feeds = {
    "pos": rng.uniform(0, 3, (500, 2)).astype(np.float32),
    "size": np.float32([1, 0.5]),
    "start": np.float32([-1, 0]),
    "end": np.float32([3.5, 3]),
}
cases = (
    ["pos", "size"],
    ["pos", "size", "start"],
    ["pos", "size", "", "end"],
    ["pos", "size", "start", "end"],
)
for given in cases:
    ins, outs = {name: shapes[name] for name in given}, {"cluster": (TensorProto.INT64, "n")}
    grid_model = one_node("Grid", ins, outs)
    some = {name: grid_feeds[name] for name in given if name}
    evaluator = ReferenceEvaluator(grid_model, new_ops=[Grid], check_shape_annotations=True)
    (ours,) = evaluator.run(None, some)
    (theirs,) = session(grid_model).run(None, some)
    print(f"{given!s:36} equal to the C++ kernel: {np.array_equal(ours, theirs)}")
    assert ours.dtype == theirs.dtype == np.int64 and np.array_equal(ours, theirs)

# %% [markdown]
# This is what the class is for. It is a few lines of plain NumPy: you can see that it is right, so you can check the kernel
# against it. `oplab.session` is ONNX Runtime with the course's C++ kernels.
#
# **What it cannot do**: it is not a kernel. It runs where your Python process runs `onnx.reference`, and nowhere else.
# ONNX Runtime does not know that it exists.

# %% [markdown]
# ## 4. Second way: a definition in the file
#
# A **model-local function** is a small graph with a name, a domain and parameters, kept in `model.functions`. A node with that
# name means that graph. Functions of ONNX itself, for example Gelu, are defined in the same way.
#
# An attribute of the caller reaches a node inside the function through `ref_attr_name`: "take the value of the caller's
# attribute". The usual target is a Constant. A float attribute becomes a float tensor, whatever the dtype of the inputs is, so
# `CastLike` gives it the dtype of an input. (`helper.make_attribute_ref` writes the same name for both attributes. Here the names
# differ, so the code fills the field directly.)


# %%
def from_attribute(name, field, kind):
    """A Constant whose value is the caller's attribute `name`."""
    node = helper.make_node("Constant", [], [name])
    node.attribute.add(name=field, type=kind, ref_attr_name=name)
    return node


attribute_nodes = [
    from_attribute("attr1", "value_float", onnx.AttributeProto.FLOAT),
    from_attribute("attr2", "value_int", onnx.AttributeProto.INT),
]
foo_body = [
    *attribute_nodes,
    helper.make_node("CastLike", ["attr1", "a"], ["factor"]),
    helper.make_node("Mul", ["factor", "a"], ["left"]),
    helper.make_node("Pow", ["b", "attr2"], ["right"]),
    helper.make_node("Add", ["left", "right"], ["y"]),
]
opset_18 = [helper.make_opsetid("", 18)]
foo_function = helper.make_function(
    "oplab", "Foo", ["a", "b"], ["y"], foo_body, opset_18, attributes=["attr1", "attr2"]
)

# %%
with_function = foo_model(functions=[foo_function])
onnx.checker.check_model(with_function, full_check=True)
stock = ort.InferenceSession(with_function.SerializeToString())  # no library is registered
(got,) = stock.run(None, feeds)
print(got.dtype, got.shape, "close to PyTorch:", np.allclose(got, eager, rtol=1e-6))
double_model = foo_model(TensorProto.DOUBLE, functions=[foo_function])
(got,) = ort.InferenceSession(double_model.SerializeToString()).run(None, doubles)
print(got.dtype, got.shape, "one body for both dtypes")

# %% [markdown]
# Stock ONNX Runtime ran the model that it rejected in section 1. The graph is the same; only `model.functions` was added.
# Python is not needed either: `oplab_host` is the course's C++ program (chapter 12). Here it runs without a library of kernels.

# %%
import subprocess

from oplab.toolchain.build import host_path

for name, value in feeds.items():
    np.save(lab.build / f"{name}.npy", value)
given = [f"--input={name}={lab.build / name}.npy" for name in feeds]
for file, proto in (("plain", model), ("with_function", with_function)):
    onnx.save(proto, lab.build / f"{file}.onnx")
    command = [host_path(), lab.build / f"{file}.onnx", *given, f"--outputs={lab.build}"]
    done = subprocess.run(command, capture_output=True, text=True)
    print(f"{file:14} exit code {done.returncode}")
print("equal:", np.array_equal(np.load(lab.build / "y.npy"), stock.run(None, feeds)[0]))

# %% [markdown]
# The text form shows the whole file.

# %%
print(onnx.printer.to_text(with_function).replace("   ", "  "))

# %% [markdown]
# ### What the runtime does with it
#
# A function is not a kernel. ONNX Runtime **inlines** it when the session is created. Save the graph that it runs: the
# custom node is gone, so no optimisation is lost.

# %%
keep = ort.SessionOptions()
keep.optimized_model_filepath = str(lab.build / "inlined.onnx")
ort.InferenceSession(with_function.SerializeToString(), keep)
inlined = onnx.load(lab.build / "inlined.onnx")
print([node.op_type for node in inlined.graph.node], "functions left:", len(inlined.functions))
lab.show(with_function, inlined)

# %% [markdown]
# ### Defaults, and an evaluator that does not read them
#
# `attributes=` lists the attributes that the caller has to set. An attribute with a **default** goes into `attribute_protos=`
# instead. The example is `Scale(x; factor=10.0)`.

# %%
scale_body = [
    from_attribute("factor", "value_float", onnx.AttributeProto.FLOAT),
    helper.make_node("CastLike", ["factor", "x"], ["same"]),
    helper.make_node("Mul", ["same", "x"], ["y"]),
]
ten = [helper.make_attribute("factor", 10.0)]
scale_names = "oplab", "Scale", ["x"], ["y"]
scale = helper.make_function(*scale_names, scale_body, opset_18, attribute_protos=ten)
sides = {"x": (F, "n")}, {"y": (F, "n")}
ones = {"x": np.ones(2, np.float32)}
for given in ({}, {"factor": 4.0}):
    scaled = one_node("Scale", *sides, functions=[scale], **given)
    print(given, ort.InferenceSession(scaled.SerializeToString()).run(None, ones)[0])

# %% [markdown]
# ONNX Runtime and the checker read these defaults. Two tools of the package onnx (1.23) do not: the reference evaluator
# raises an error, and `onnx.inliner` writes a Constant **without a value** and does not warn.

# %%
from onnx.inliner import inline_local_functions

scaled = one_node("Scale", *sides, functions=[scale])
onnx.checker.check_model(scaled, full_check=True)
with raises(ValueError, "has linked attributes but None are given"):
    ReferenceEvaluator(scaled).run(None, ones)
constant = inline_local_functions(scaled).graph.node[0]
print(constant.op_type, "with", len(constant.attribute), "attributes")

# %% [markdown]
# So copy the defaults into the nodes before you use these tools.


# %%
def spell_out(model):
    """A copy of a model whose nodes have the defaults of their functions as attributes."""
    full = onnx.ModelProto()
    full.CopyFrom(model)
    functions = {(function.domain, function.name): function for function in full.functions}
    for node in full.graph.node:
        function = functions.get((node.domain, node.op_type), onnx.FunctionProto())
        given = {attribute.name for attribute in node.attribute}
        node.attribute.extend(
            entry for entry in function.attribute_proto if entry.name not in given
        )
    return full


for repaired in (spell_out(scaled), inline_local_functions(spell_out(scaled))):
    print(
        [node.op_type for node in repaired.graph.node],
        ReferenceEvaluator(repaired).run(None, ones)[0],
    )

# %% [markdown]
# ### Three ways to get it wrong
#
# A function **imports its own opsets**. Without them, no node inside the function has a version.

# %%
without = helper.make_function(*scale_names, scale_body, [], attribute_protos=ten)
with raises(Fail, "No opset registered for domain  in function Scale"):
    ort.InferenceSession(one_node("Scale", *sides, functions=[without]).SerializeToString())

# %% [markdown]
# The version that a function imports has to be compatible with the model's. ONNX Runtime accepts this model; the checker does
# not, and the inliner leaves the node as it is.

# %%
opset_15 = [helper.make_opsetid("", 15)]
older = helper.make_function(*scale_names, scale_body, opset_15, attribute_protos=ten)
mixed = one_node("Scale", *sides, functions=[older])
mixed.opset_import[0].version = 20
with raises(
    onnx.checker.ValidationError,
    "FunctionOp imports version 15 whereas model imports version 20",
):
    onnx.checker.check_model(mixed)
print([node.op_type for node in inline_local_functions(mixed).graph.node])

# %% [markdown]
# Without CastLike, the constant stays a float. That is right for floats, and fails for doubles with an error about inconsistent
# types.

# %%
direct = [scale_body[0], helper.make_node("Mul", ["factor", "x"], ["y"])]
float_only = helper.make_function(*scale_names, direct, opset_18, attribute_protos=ten)
D = TensorProto.DOUBLE
mixed = one_node("Scale", {"x": (D, "n")}, {"y": (D, "n")}, functions=[float_only])
with raises(Fail, "(op_type:Mul): B has inconsistent type tensor(double)"):
    ort.InferenceSession(mixed.SerializeToString())

# %% [markdown]
# A function is only a composition: its body consists of operators that the runtime already has. "Deeper: A function is only
# a composition" tries it with k nearest neighbours, and finds the limits.
#
# ## 5. Which implementation is used
#
# A function can have the same name and domain as the kernel. Which of them is used when both exist? This function is wrong on
# purpose.

# %%
wrong_body = [helper.make_node("Neg", ["a"], ["y"])]
foo_names = {"domain": "oplab", "fname": "Foo", "inputs": ["a", "b"], "outputs": ["y"]}
wrong = helper.make_function(
    **foo_names, nodes=wrong_body, opset_imports=opset_18, attributes=["attr1", "attr2"]
)
contested = foo_model(functions=[wrong])
runnable = {
    "stock ONNX Runtime": ort.InferenceSession(contested.SerializeToString()),
    "ONNX Runtime with the C++ kernel": session(contested),
    "onnx.reference": ReferenceEvaluator(contested),
    "onnx.reference with the class": ReferenceEvaluator(contested, new_ops=[Foo]),
}
for name, one in runnable.items():
    (got,) = one.run(None, feeds)
    print(
        f"{name:33}",
        "the function" if np.array_equal(got, -feeds["a"]) else "the implementation",
    )

# %% [markdown]
# **The implementation takes precedence**, in both runtimes. This makes a function a useful addition to a kernel: ship the model
# with the function. Where your library is available, the kernel runs. Where it is not, the model still runs, but slower.
#
# Only kernels depend on the **version** of a domain. Foo's kernel is registered for version 2; a function and a class have no
# version.

# %%
outdated = foo_model(version=1, functions=[foo_function])
stock = ort.InferenceSession(outdated.SerializeToString())
print("function:", stock.run(None, feeds)[0].shape)
evaluator = ReferenceEvaluator(foo_model(version=1), new_ops=[Foo])
print("class:   ", evaluator.run(None, feeds)[0].shape)
with raises(Fail, "oplab:Foo(-1) is not a registered function/op"):
    session(foo_model(version=1))

# %% [markdown]
# ## 6. The proof: which implementations agree
#
# `oplab.parity.parity` runs one model in several backends and compares all outputs with those of the first backend:
# dtype and shape exactly, values within a tolerance for the dtype. `ort` is ONNX Runtime with the C++ kernels. `reference` is
# the evaluator, where your class takes precedence over the course's. `host` is a **C++ program** without any Python
# (chapter 12). The command `oplab parity model.onnx` does the same.

# %%
from oplab.parity import max_ulp, parity

backends = ["ort", "reference", "host"]
for proto, inputs, own in ((model, feeds, Foo), (grid_model, grid_feeds, Grid)):
    print(parity(proto, inputs, backends, reference=[own]).expect(*backends).text(errors=False))

# %% [markdown]
# Now compare three implementations of Foo on the same tensors. The C++ kernel is the baseline. An ULP is the distance from one
# floating-point number to the next, so "at most 4 ULP" means that the two results are at most four such steps apart.


# %%
def runners(kind):
    """Three implementations of Foo, each with a method `run`."""
    plain, closed = foo_model(kind), foo_model(kind, functions=[foo_function])
    return {
        "C++ kernel": session(plain, threads=1),
        "function": ort.InferenceSession(closed.SerializeToString()),
        "OpRun": ReferenceEvaluator(plain, new_ops=[Foo]),
    }


# %%
print(f"{'':12}{'dtype':10}{'shape':9}at most 4 ULP")
for kind, some in ((TensorProto.FLOAT, feeds), (TensorProto.DOUBLE, doubles)):
    results = {name: one.run(None, some)[0] for name, one in runners(kind).items()}
    right = results["C++ kernel"]
    for name in ("function", "OpRun"):
        got = results[name]
        print(f"{name:12}{got.dtype!s:10}{got.shape!s:9}{max_ulp(right, got) <= 4}")
        assert (
            got.dtype == right.dtype and got.shape == right.shape and max_ulp(right, got) <= 4
        )

# %% [markdown]
# The results do not agree to the last bit, and they do not need to: each rounds in its own places.
#
# ## 7. Limits: the matrix
#
# Every cell of this matrix was shown above, is shown in a deeper section below, or is shown in chapter 12.
#
# | | OpRun | function | PyOp | C++ kernel |
# |---|---|---|---|---|
# | runs in ONNX Runtime | ✗ | ✓ | ✓ | ✓ |
# | works without Python | ✗ | ✓ | ✗ | ✓ |
# | the model stays as it is | ✓ | gets a body | other domain | ✓ |
# | any algorithm | ✓ | compositions | ✓ | ✓ |
# | optional inputs | ✓ | ✗ | ✗ | ✓ |
# | defaults of attributes | ✓ | not in all tools | ✗ | ✓ |
# | digits of a float attribute | all | all | six | all |
# | an error is | an exception | a status | the end of the process | a status |
#
# - **OpRun**: the reference. It belongs in your tests, and stays there when the kernel is finished.
# - **function**: the only one of the three that you can ship. Use it wherever the operator is a composition.
# - **PyOp** ("Deeper: A Python kernel in ONNX Runtime"): for an experiment inside ONNX Runtime, in a real session. Not for
#   production: it needs Python, an error ends the process, and the last release of the package is from February 2026,
#   without a wheel for Python 3.14.
# - A runtime other than ONNX Runtime may not inline functions. `onnx.inliner` does it in the file, before you ship it.
#
# ## 8. Exercises
#
# To get a hint: `lab.hint("reference_knn")`.
#
# **`reference_knn`** in
# [exercises/c11_kernels_without_a_compiler.py](../exercises/c11_kernels_without_a_compiler.py#line=67) — a class for
# `oplab::KNNQuery`: optional inputs, two outputs, batches, ties. Write the search in NumPy: kernels are checked against this
# class.

# %%
lab.check("reference_knn")

# %% [markdown]
# Now use it to check a kernel. The course's C++ kernel and your class get the same clouds: batches, an empty batch, a batch with
# too few points, and many ties.

# %%
query = one_node(
    "KNNQuery",
    {"xyz": (F, "n", 3), "offset": (TensorProto.INT64, "b")},
    {"idx": (TensorProto.INT32, "n", 6), "dist": (F, "n", 6)},
    nsample=6,
)
own = [lab.exercises.reference_knn()]
judge = ReferenceEvaluator(query, new_ops=own, check_shape_annotations=True)
for counts in ([40], [25, 0, 30], [3, 50], [0]):
    points = (rng.integers(-4, 5, (sum(counts), 3)) / 4).astype(np.float32)
    some = {"xyz": points, "offset": np.cumsum(counts)}
    idx, dist = judge.run(None, some)
    fast_idx, fast_dist = session(query).run(None, some)
    same, close = np.array_equal(idx, fast_idx), np.allclose(dist, fast_dist)
    print(f"batches {counts!s:12} idx equal: {same}, dist close: {close}")

# %% [markdown]
# **`function_my_add`** in
# [exercises/c11_kernels_without_a_compiler.py](../exercises/c11_kernels_without_a_compiler.py#line=140) — the definition
# of MyAdd in the model, with both attributes and their defaults.

# %%
lab.check("function_my_add")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: A Python kernel in ONNX Runtime
#
# `onnxruntime_extensions` is a library of custom operators, mainly for text and images. One part of it calls back into
# Python: `onnx_op` declares a function as a kernel, a **PyOp**.

# %%
try:
    import onnxruntime_extensions as extensions
    from onnxruntime_extensions import PyOp, onnx_op
except ImportError:  # there is no wheel for Python 3.14
    extensions = None
    print("onnxruntime_extensions has no package for this Python: the cells of this section do")
    print("nothing, and PyOp is not compared.")


def with_pyops(model):
    """An ONNX Runtime session that knows the kernels which onnx_op has declared."""
    options = ort.SessionOptions()
    options.register_custom_ops_library(extensions.get_library_path())
    return ort.InferenceSession(model.SerializeToString(), options)


# %% [markdown]
# You declare the types of the inputs, the outputs and the attributes. `PyOp.dt_float` is a float tensor or a float.

# %%
foo_attributes = {"attr1": "dt_float", "attr2": "dt_int64"}


def foo_kernel(a, b, attr1, attr2):
    return attr1 * a + b**attr2


# %% [markdown]
# A warning before the first declaration: **a kernel can be declared only once in a process.** A second declaration of the same
# name and types does not replace the first. It makes every later session fail, also sessions of other models. Running a
# notebook's cell twice is enough. The next cell shows it in another process.

# %%
twice = """
import onnx, onnxruntime
from onnxruntime_extensions import PyOp, onnx_op, get_library_path
options = onnxruntime.SessionOptions()
for attempt in (1, 2):
    kernel = onnx_op(op_type="Foo", inputs=[PyOp.dt_float] * 2, outputs=[PyOp.dt_float])
    kernel(lambda a, b: a + b)
try:
    options.register_custom_ops_library(get_library_path())
    model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["": 18]>
        g (float[n] x) => (float[n] y) { y = Neg(x) }''')
    onnxruntime.InferenceSession(model.SerializeToString(), options)
except Exception as error:
    print(type(error).__name__, str(error)[:141])
"""
import sys


def in_a_process(code):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=lab.build, capture_output=True, text=True)


if extensions:
    done = in_a_process(twice)
    print(done.stdout)
    assert "Failed to add kernel for Foo ai.onnx.contrib" in done.stdout
    assert "Conflicting with a registered kernel" in done.stdout

# %% [markdown]
# The model had one Neg and no Foo at all. However, the Python body of a kernel can be replaced. The next helper does this when
# a name is already declared, so you can run the cells of this chapter as often as you like.

# %%
declared = globals().get("declared", {})


def declare(name, kind, attributes, body):
    """onnx_op for a function of two tensors of one type; a second call changes its body."""
    types = {key: getattr(PyOp, value) for key, value in attributes.items()}
    dtype = getattr(PyOp, kind)
    if (name, kind) not in declared:
        signature = {"inputs": [dtype] * 2, "outputs": [dtype], "attrs": types}
        declared[name, kind] = onnx_op(op_type=name, **signature)(body)
    declared[name, kind].body = body


# %% [markdown]
# ### The domain
#
# The kernel is declared, the library is registered, and the model still does not load.

# %%
if extensions:
    declare("Foo", "dt_float", foo_attributes, foo_kernel)
    with raises(Fail, "oplab:Foo(-1) is not a registered function/op"):
        with_pyops(model)

# %% [markdown]
# All PyOps are in one domain, `ai.onnx.contrib`. `onnx_op` has no argument for another domain. So the *node* has to move,
# with a little graph surgery. The copy imports the new domain.


# %%
def to_contrib(model, op_types):
    """A copy of a model in which the nodes of these types are in ai.onnx.contrib."""
    moved = onnx.ModelProto()
    moved.CopyFrom(model)
    for node in moved.graph.node:
        if node.domain == "oplab" and node.op_type in op_types:
            node.domain = "ai.onnx.contrib"
    moved.opset_import.append(helper.make_opsetid("ai.onnx.contrib", 1))
    return moved


if extensions:
    (got,) = with_pyops(to_contrib(model, ["Foo"])).run(None, feeds)
    print(got.dtype, got.shape, "close to PyTorch:", np.allclose(got, eager, rtol=1e-6))

# %% [markdown]
# ### Types: only what is declared
#
# There is no kernel for a model of doubles. You can declare the same name again **with other types**; ONNX Runtime then chooses
# by the model's types.

# %%
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph, RuntimeException

if extensions:
    double_model = to_contrib(foo_model(TensorProto.DOUBLE), ["Foo"])
    if ("Foo", "dt_double") not in declared:
        with raises(
            InvalidGraph, "Type 'tensor(double)' of input parameter (a) of operator (Foo)"
        ):
            with_pyops(double_model)
    declare("Foo", "dt_double", foo_attributes, foo_kernel)
    (got,) = with_pyops(double_model).run(None, doubles)
    right = 0.75 * doubles["a"] + doubles["b"] ** 3
    print(got.dtype, "right to 1e-14:", np.allclose(got, right, rtol=1e-14, atol=0))

# %% [markdown]
# ### Attributes: no defaults, six digits
#
# All attributes of a PyOp are required. Look at the values that arrive.

# %%
arrived = []


def remember(a, b, attr1, attr2):
    arrived.append((attr1, attr2))
    return a


if extensions:
    declare("Remember", "dt_float", foo_attributes, remember)
    sides = {"a": (F, "n"), "b": (F, "n")}, {"y": (F, "n")}
    for attr1 in (0.75, 1234567.0, 16777213.0):
        given = {"domain": "ai.onnx.contrib", "attr1": attr1, "attr2": 2**40}
        with_pyops(one_node("Remember", *sides, **given)).run(None, feeds)
        print(f"in the model {attr1:10} in the kernel {arrived[-1][0]:10} and {arrived[-1][1]}")
    with raises(RuntimeException, "Unable to find attribute 'attr1'"):
        with_pyops(one_node("Remember", *sides, domain="ai.onnx.contrib", attr2=3))

# %% [markdown]
# A float arrives with **six significant digits**: it is passed as text. Ints keep all digits. Where the digits matter, move the
# number into a text attribute (`repr` keeps all digits), or make it an input.

# %%
if extensions:
    declare("Exact", "dt_float", {"attr1": "dt_string", "attr2": "dt_int64"}, remember)
    given = {"domain": "ai.onnx.contrib", "attr1": repr(1234567.0), "attr2": 3}
    with_pyops(one_node("Exact", *sides, **given)).run(None, feeds)
    print(arrived[-1], float(arrived[-1][0]) == 1234567)

# %% [markdown]
# ### What an exception does
#
# It ends the process. There is no status, no traceback in your notebook, and nothing that `except` could catch. So the
# next cell runs it in another process.

# %%
fatal = """
import numpy as np, onnx, onnxruntime
from onnxruntime_extensions import onnx_op, get_library_path

@onnx_op(op_type="Careful")
def careful(x):
    raise ValueError("x is not what I wanted")

options = onnxruntime.SessionOptions()
options.register_custom_ops_library(get_library_path())
model = onnx.parser.parse_model('''<ir_version: 10, opset_import: ["ai.onnx.contrib": 1]>
    g (float[n] x) => (float[n] y) { y = ai.onnx.contrib.Careful(x) }''')
session = onnxruntime.InferenceSession(model.SerializeToString(), options)
try:
    session.run(None, {"x": np.ones(3, np.float32)})
except Exception:
    print("caught")
"""
if extensions:
    done = in_a_process(fatal)
    print(
        "ended by signal", -done.returncode, "(6 is an abort), caught:", "caught" in done.stdout
    )
    assert done.returncode == -6 and "x is not what I wanted" in done.stderr

# %% [markdown]
# A result without a shape (None, a list, a Python number) causes such an exception too. Catch errors inside the kernel while
# you develop it. The grader does that for you in the exercise.
#
# ### Optional inputs
#
# The number of inputs is declared as well. ONNX Runtime rejects a node that leaves an input out, at the end or by an empty name.

# %%
if extensions:
    given = {"domain": "ai.onnx.contrib", "attr1": 1.0, "attr2": 1}
    two = one_node("Foo", {"a": (F, "n")}, {"y": (F, "n")}, **given)
    with raises(InvalidGraph, "has input size 1 not in range"):
        with_pyops(two)
    empty = one_node("Foo", {"": (), "b": (F, "n")}, {"y": (F, "n")}, **given)
    with raises(InvalidGraph, "is marked single but has an empty string"):
        with_pyops(empty)

# %% [markdown]
# ### One Python call at a time
#
# Every call takes Python's global interpreter lock (GIL). The result is converted to a **list of Python numbers** on its way
# out, and a float attribute is converted from text on its way in. You can see both conversions in the package's source.

# %%
import inspect

if extensions:
    from onnxruntime_extensions import _ocos

    source = inspect.getsource(_ocos).splitlines()
    found = [line.strip() for line in source if ".tolist()" in line or "float(v)" in line]
    print(*found, sep="\n")
    assert len(found) == 3

# %% [markdown]
# So a PyOp is slow, and a second thread hardly helps. The picture shows the number of calls in a fixed time, with one thread
# and with two, for a PyOp and for the C++ kernel.


# %%
import threading
import time


def calls_a_second(runnable, threads, seconds=0.1):
    """How many times a second all threads together run a session."""
    long = {name: np.resize(value, 20_000) for name, value in feeds.items()}
    stop, counts = time.perf_counter() + seconds, []

    def work():
        count = 0
        while time.perf_counter() < stop:
            runnable.run(None, long)
            count += 1
        counts.append(count)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    return sum(counts) / seconds


# %%
racers = {"C++ kernel": (session(model, threads=1), PURPLE)}
if extensions:
    racers = {"PyOp": (with_pyops(to_contrib(model, ["Foo"])), ORANGE)} | racers
rates = {(name, threads): 0.0 for name in racers for threads in (1, 2)}
for _ in range(6):  # in turns, and the best of each: another program may take a core away
    for name, threads in rates:
        rates[name, threads] = max(
            rates[name, threads], calls_a_second(racers[name][0], threads)
        )

# %% {"jupyter": {"source_hidden": true}}
figure, axes = plt.subplots(figsize=(7.2, 2.6), layout="constrained")
for row, (name, (_, colour)) in enumerate(racers.items()):
    for threads in (1, 2):
        rate = rates[name, threads]
        axes.barh(3 * row + threads, rate, color=colour, alpha=0.45 + 0.25 * threads)
        axes.annotate(
            f"{rate:,.0f}",
            (rate, 3 * row + threads),
            (5, 0),
            textcoords="offset points",
            va="center",
        )
ticks = [
    f"{name}, {threads} thread{'s' * (threads > 1)}" for name in racers for threads in (1, 2)
]
axes.set_yticks([3 * row + threads for row in range(len(racers)) for threads in (1, 2)], ticks)
axes.margins(x=0.15)
axes.set_xlabel("calls per second, all threads together (20 000 elements each)")
axes.spines[["top", "right"]].set_visible(False)
lab.figure(
    figure,
    "Calls per second with one and with two threads, as bars: the C++ kernel makes many more "
    "calls than the PyOp.",
)

# %% [markdown]
# ### Two libraries in one graph
#
# A session can load several libraries, and a graph can use several domains. Here the PyOp and the C++ kernel of the same operator
# are in one graph and get the same tensors, and ONNX's own Sub subtracts their results.

# %%
nodes = [
    helper.make_node("Foo", ["a", "b"], ["fast"], domain="oplab", attr1=0.75, attr2=3),
    helper.make_node(
        "Foo", ["a", "b"], ["slow"], domain="ai.onnx.contrib", attr1=0.75, attr2=3
    ),
    helper.make_node("Sub", ["fast", "slow"], ["gap"]),
]
infos = [helper.make_tensor_value_info(name, F, ["n"]) for name in ("a", "b", "gap")]
domains = {"": 18, "oplab": 2, "ai.onnx.contrib": 1}
imports = [helper.make_opsetid(*entry) for entry in domains.items()]
graph = helper.make_graph(nodes, "both", infos[:2], infos[2:])
both = helper.make_model(graph, ir_version=10, opset_imports=imports)
if extensions:
    (gap,) = session(both, libraries=[extensions.get_library_path()]).run(None, feeds)
    assert np.abs(gap).max() < 1e-5
lab.show(both)

# %% [markdown]
# Each domain comes from one library. `oplab` belongs to the course, `ai.onnx.contrib` belongs to the extensions; a PyOp cannot be
# put into another domain. So a PyOp never replaces a kernel by accident, and a model for PyOps is not the same file as the model
# for production.

# %% [markdown]
# **`pyop_my_add`** in
# [exercises/c11_kernels_without_a_compiler.py](../exercises/c11_kernels_without_a_compiler.py#line=106) — MyAdd in ONNX
# Runtime with Python kernels: float and double, attributes with defaults, the domain. Call it in this notebook at most once:
# a kernel can be declared only once in a process.

# %%
lab.check("pyop_my_add")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: A function is only a composition
#
# Its body consists of operators that the runtime already has. Is `oplab::KNNQuery`, the k nearest neighbours of each point,
# such a composition? For one batch it is: compute all distances, then select the smallest with TopK.

# %%
knn_body = [
    from_attribute("nsample", "value_int", onnx.AttributeProto.INT),
    helper.make_node("Constant", [], ["axis0"], value_ints=[0]),
    helper.make_node("Constant", [], ["axis1"], value_ints=[1]),
    helper.make_node("Constant", [], ["axis2"], value_ints=[2]),
    helper.make_node("Unsqueeze", ["xyz", "axis0"], ["points"]),
    helper.make_node("Unsqueeze", ["xyz", "axis1"], ["queries"]),
    helper.make_node("Sub", ["points", "queries"], ["apart"]),
    helper.make_node("ReduceL2", ["apart", "axis2"], ["away"], keepdims=0),
    helper.make_node("Unsqueeze", ["nsample", "axis0"], ["k"]),
    helper.make_node("TopK", ["away", "k"], ["dist", "rows"], largest=0, axis=1),
    helper.make_node("Cast", ["rows"], ["idx"], to=TensorProto.INT32),
]
knn_names = "oplab", "KNNQuery", ["xyz", "offset"], ["idx", "dist"]
knn_function = helper.make_function(*knn_names, knn_body, opset_18, attributes=["nsample"])


# %%
def knn_model(nsample, functions=()):
    inputs = {"xyz": (F, "n", 3), "offset": (TensorProto.INT64, "b")}
    outputs = {"idx": (TensorProto.INT32, "n", nsample), "dist": (F, "n", nsample)}
    return one_node("KNNQuery", inputs, outputs, nsample=nsample, functions=functions)


points = (rng.integers(-40, 40, (300, 3)) / 8).astype(np.float32)
cloud = {"xyz": points, "offset": np.array([300])}
composed = ort.InferenceSession(knn_model(5, [knn_function]).SerializeToString())
compiled = session(knn_model(5))
for got, right in zip(composed.run(None, cloud), compiled.run(None, cloud), strict=True):
    print(got.dtype, got.shape, "as the C++ kernel:", np.allclose(got, right, atol=1e-6))

# %% [markdown]
# The results are equal, also where two points are equally far away: TopK puts the lower index first. But the body never reads
# `offset`, so two batches are treated as one. A cloud with fewer points than `nsample` causes an error in TopK, where the kernel
# gives a row that ends with -1. And the differences between all points at once need a lot of memory.

# %%
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, RuntimeException

two_batches = {**cloud, "offset": np.array([150, 300])}
ours, theirs = (one.run(None, two_batches)[0] for one in (composed, compiled))
same = np.array_equal(ours, theirs)
print("two batches, as the C++ kernel:", same)
with raises((Fail, InvalidArgument, RuntimeException), "TopK"):
    composed.run(None, {"xyz": cloud["xyz"][:3], "offset": np.array([3])})
for points in (300, 20_000, 100_000):
    print(f"{points:7} points: {points**2 * 3 * 4 / 1e9:8.3f} GB for the differences")
assert not same

# %% [markdown]
# Each of these could be fixed with more nodes: masks for the batches, padding for TopK, a Loop for the memory. The result would
# be a program in a graph language, slower than the kernel and harder to read. And one limit remains in ONNX Runtime: a body
# **cannot read an optional input only where it is given**: both branches of an If must be valid. KNNQuery needs a kernel.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Which implementation is fast
#
# How far is each implementation from the exact result, the same formula in double? And how long does each take? The picture
# shows both.


# %% {"jupyter": {"source_hidden": true}}
import time


def microseconds(run, feeds, repeats):
    run(None, feeds)
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        run(None, feeds)
        times.append(time.perf_counter() - begin)
    return 1e6 * min(times)


def race(runners):
    """Microseconds per call of each implementation, for each number of elements."""
    speeds = {name: [] for name in runners}
    for size in sizes:
        some = {name: np.resize(value, size) for name, value in feeds.items()}
        for name, one in runners.items():
            speeds[name].append(microseconds(one.run, some, 5 if size > 10_000 else 25))
    return speeds


def picture(speeds, labels, title):
    figure, axes = plt.subplots(figsize=(9, 3.8), layout="constrained")
    height = 0.0
    for name in sorted(speeds, key=lambda name: speeds[name][-1]):
        height = max(speeds[name][-1], 2.2 * height)  # labels keep apart
        axes.plot(sizes, speeds[name], f"{markers[name]}-", color=colours[name], ms=6)
        axes.text(1.4e6, height, labels[name], va="center")
    axes.set(xscale="log", yscale="log", xlim=(7, 9e7), xticks=sizes, title=title)
    axes.set(xlabel="elements", ylabel="time per call, µs")
    axes.xaxis.set_minor_locator(plt.NullLocator())
    axes.grid()
    axes.spines[["top", "right"]].set_visible(False)
    return figure


sizes = [10, 100, 1_000, 10_000, 100_000, 1_000_000]
markers = {"C++ kernel": "o", "function": "s", "OpRun": "^", "PyOp": "D"}


# %%
racers = runners(F)
if extensions:
    racers["PyOp"] = with_pyops(to_contrib(model, ["Foo"]))
exact = 0.75 * doubles["a"] + doubles["b"] ** 3
ulp = np.spacing(exact.astype(np.float32))
labels, most = {}, {}
for name, one in racers.items():
    gap = np.abs(one.run(None, feeds)[0].astype(np.float64) - exact) / ulp
    labels[name] = f"{name}: {gap.mean():.2f} ULP off, at most {gap.max():.1f}"
    most[name] = gap.max()
speeds = race(racers)
lab.figure(
    picture(speeds, labels, "oplab::Foo in float: speed, and distance from the exact result"),
    "Time per call against the number of elements, both axes logarithmic, with a line for each "
    "implementation of Foo. The label of a line has its mean and largest distance in ULP.",
)

# %% [markdown]
# The picture shows two things. The PyOp is slower than all other implementations where there is work to do. And the C++ kernel
# is hardly faster than the function, or slower: it computes each power in double, since a float cannot represent every int: the
# exponent `2**24 + 1` would become `2**24`, which is even, and the power of a negative number would get the wrong sign. With
# these inputs you see the cost and hardly the benefit. A kernel is only as fast as its author makes it; chapter 14 is about
# that.

# %%
assert all(gap < 5 for gap in most.values())
for name in ("C++ kernel", "function") if extensions else ():
    ratio = speeds["PyOp"][-1] / speeds[name][-1]
    print(f"⏱ a million elements: PyOp takes {ratio:.0f} times as long as the {name}")

# %% [markdown]
# ### All four on MyAdd
#
# The last table compares implementations of MyAdd, with **your** function of section 8 in the file. Multiplication and addition are rounded
# correctly everywhere, so you could expect the same bits. But a compiler may combine a multiplication and the addition after it
# into one instruction that rounds once, where the processor has such an instruction (FMA). So this comparison has a tolerance, too:
# four times `eps`, the gap between 1 and the next number of the dtype.


# %%
class MyAdd(OpRun):
    op_domain = "oplab"

    def _run(self, a, b, alpha=3.0, beta=2.0):
        return (alpha * a + beta * b,)


def weighted_sum(a, b, alpha, beta):
    return alpha * a + beta * b


def my_add_runners(kind):
    sides = {"a": (kind, "n"), "b": (kind, "n")}, {"y": (kind, "n")}
    plain, closed = (one_node("MyAdd", *sides, alpha=0.75, beta=-1.5) for _ in range(2))
    closed = lab.exercises.function_my_add(closed)
    found = {
        "C++ kernel": session(plain, threads=1),
        "OpRun": ReferenceEvaluator(plain, new_ops=[MyAdd]),
        "function": ort.InferenceSession(closed.SerializeToString()),
    }
    if extensions:
        moved = to_contrib(plain, ["MyAdd"])
        moved.graph.node[0].op_type = "MyAddHere"  # its own name: yours may be declared already
        for dtype in ("dt_float", "dt_double"):
            declare("MyAddHere", dtype, {"alpha": "dt_float", "beta": "dt_float"}, weighted_sum)
        found["PyOp"] = with_pyops(moved)
    return found


# %%
for kind, some in ((F, feeds), (D, doubles)):
    results = {name: one.run(None, some)[0] for name, one in my_add_runners(kind).items()}
    right = results["C++ kernel"]
    within = 4 * np.finfo(right.dtype).eps  # a and b are below 2
    for name in ("function", "OpRun"):
        got = results[name]
        close = np.abs(got - right).max() <= within
        print(f"{name:12}{got.dtype!s:10}{got.shape!s:9}within 4 eps: {close}")
    for got in results.values():
        assert got.dtype == right.dtype and np.abs(got - right).max() <= within

# %%
speeds = race(my_add_runners(F))
lab.figure(
    picture(speeds, {name: name for name in colours}, "oplab::MyAdd in float"),
    "Time per call against the number of elements, both axes logarithmic, with a line for each "
    "implementation of MyAdd.",
)

# %% [markdown]
# The kernel goes over the data once.

# %%
if extensions:
    ratio = speeds["PyOp"][-1] / speeds["C++ kernel"][-1]
    print(f"⏱ a million elements: PyOp takes {ratio:.0f} times as long as the C++ kernel")

# %% [markdown]
# ## Five questions

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - Chapter 12: the last column of the matrix, a kernel in C++ and a program that loads it.
# - Chapter 13: KNNQuery as a kernel, with its optional inputs.
# - `oplab/ops/reference.py`: the course's own classes, one for each operator. Compare your class with it after it has passed.
# - `onnx/reference/op_run.py` in your environment: how attributes and inputs reach `_run`.
# - "Functions" in ONNX's `IR.md`: what a function may refer to, and how versions are combined.
#
# Previous: [10: The modern exporter](10_modern_exporter.ipynb)
# · Next: [12: ONNX Runtime kernels](12_ort_kernels.ipynb)
# · [Glossary](../docs/glossary.md)
