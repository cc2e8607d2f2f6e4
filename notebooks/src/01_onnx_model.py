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
# # 01 · What is in an ONNX model
#
# After this chapter you can
#
# - say what each field and each attribute of an ONNX file means, and list them for any model;
# - build a model by hand, without an exporter, and check it;
# - read what the checker and ONNX Runtime report about a broken model.
#
# Exporters hide the format from you until something breaks. Then you have to read it and change it. The deeper sections
# repair broken models, and write a real network without an exporter.
#
# ## 1. The failure: a valid model that does not load
#
# The smallest useful model is a line, `y = a * x + b`. You need no exporter for it: the package `onnx` has a function
# for each part. Its checker, `onnx.checker`, accepts the model. ONNX Runtime does not.

# %%
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

from oplab import lesson, raises

lab = lesson("01_onnx_model")

nodes = [
    helper.make_node("Mul", ["a", "x"], ["ax"]),
    helper.make_node("Add", ["ax", "b"], ["y"]),
]
x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])
values = {"a": np.float32(2), "b": np.float32(3)}
constants = [numpy_helper.from_array(value, name) for name, value in values.items()]
graph = helper.make_graph(nodes, "line", [x], [y], constants)
model = helper.make_model(graph)

onnx.checker.check_model(model, full_check=True)
with raises(Fail, "Unsupported model IR version: 14"):
    ort.InferenceSession(model.SerializeToString())
lab.show(model)

# %% [markdown]
# The text of the error before `Unsupported` is a location in ONNX Runtime's source code.
#
# What you see in the code:
#
# - A **node** has an operator, the names that it reads, and the names that it produces.
# - The graph's **input** and **output** need a type and a shape. `"n"` is a size that is known only at run time.
# - The constants `a` and `b` are **initialisers**.
# - `full_check=True` also runs shape inference, which section 9 explains.
#
# The next cell has the imports of the other sections, and `run`, which runs a model once.

# %%
import copy

import torch
from IPython.display import Markdown
from onnx import AttributeProto
from onnx.checker import ValidationError
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, InvalidGraph

from oplab import quiet_exports

quiet_exports()  # no deprecation warnings, and nothing that failing exports log


def run(model, **feeds):
    data = model.SerializeToString()
    session = ort.InferenceSession(data, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


# %% [markdown]
# **The naive attempt.** The message names a number, so you lower that number.

# %%
model = helper.make_model(graph, ir_version=13)
with raises(Fail, "till opset 26"):
    run(model, x=np.float32([0, 1, 2]))

# %% [markdown]
# **Why it fails.** A file carries two kinds of versions. The *IR version* is the version of the file format. The
# *opset* is the version of the operators. You specified neither, so `make_model` took the newest of each that the
# package `onnx` knows. Your runtime is older. Which versions does it accept? Test them.


# %%
def loads(**versions):
    try:
        run(helper.make_model(graph, **versions), x=np.float32([0]))
        return True
    except Fail:
        return False


# %%
def imports(version):
    return [helper.make_opsetid("", version)]


newest = onnx.defs.onnx_opset_version()
versions = range(4, onnx.IR_VERSION + 1)
ir = [n for n in versions if loads(ir_version=n, opset_imports=imports(20))]
opsets = [n for n in range(7, newest + 1) if loads(ir_version=10, opset_imports=imports(n))]

print(f"onnx {onnx.__version__} writes by default: IR {onnx.IR_VERSION}, opset {newest}")
print(
    f"onnxruntime {ort.__version__} takes:      IR up to {max(ir)}, opset up to {max(opsets)}"
)
releases = [row[:3] for row in helper.VERSION_TABLE if row[2] in (20, 26, 28)]
print("releases of onnx with IR and opset:", releases)
assert (max(ir), max(opsets)) == (13, 26) and (onnx.IR_VERSION, newest) == (14, 28)

# %% [markdown]
# **The fix.** Always specify both. An opset that is a few years old runs in more engines, and `onnx` knows the lowest
# IR version for it. Every IR version from the lowest one to 13 loads here. The course writes 10, as the dynamo path
# does.

# %%
opset = imports(20)
lowest = helper.find_min_ir_version_for(opset)
print("lowest IR version for opset 20:", lowest)
print("all from there load:", {*range(lowest, 14)} <= {*ir})

model = helper.make_model(graph, opset_imports=opset, ir_version=10)
onnx.checker.check_model(model, full_check=True)
print(run(model, x=np.float32([0, 1, 2])))

# %% [markdown]
# ## 2. Messages in messages
#
# ONNX stores its files with *protobuf*. A protobuf message has fields; a field is a number, a text, bytes, another
# message, or a list of these. An ONNX file is one `ModelProto`, and everything else is inside it. The next cell lists
# the messages that you will meet, and how many fields each may have.

# %%
messages = [
    *(onnx.ModelProto, onnx.GraphProto, onnx.NodeProto),
    *(onnx.AttributeProto, onnx.ValueInfoProto, onnx.TensorProto),
]
for message in messages:
    names = [field.name for field in message.DESCRIPTOR.fields]
    more = ", …" if len(names) > 4 else ""
    print(f"{message.__name__:15} {len(names):2}  {', '.join(names[:4])}{more}")

# %% [markdown]
# `make_node` and the similar functions only fill these messages. You can also create a message directly, like any
# Python object.

# %%
by_hand = onnx.NodeProto(op_type="Mul", input=["a", "x"], output=["ax"])
print(by_hand == nodes[0])

# %% [markdown]
# Two properties of protobuf surprise everybody once. You cannot assign to a field that is a list or a message: change
# it in place, or use `CopyFrom`. And reading a field that is not set gives 0, an empty text or an empty message;
# `HasField` tells you whether it is set.

# %%
with raises(AttributeError, "Assignment not allowed"):
    by_hand.input = ["x", "a"]
by_hand.input[:] = ["x", "a"]
attribute = AttributeProto(name="bare")
print(list(by_hand.input), " i:", attribute.i, " set:", attribute.HasField("i"))

# %% [markdown]
# Save and load. The file is the message and nothing more: no header, no checksum, and no mark that identifies it as
# ONNX.

# %%
path = lab.fresh("line") / "line.onnx"
onnx.save(model, path)

same = path.read_bytes() == model.SerializeToString()
print(path.stat().st_size, "bytes on disk, the same as in memory:", same)
print("the same after loading:", onnx.load(path) == model)

# %% [markdown]
# So an empty file is a model too, with no field set. `onnx.load` accepts it. The checker does not.

# %%
nothing = onnx.load_model_from_string(b"")
print("fields that are set:", [field.name for field, _ in nothing.ListFields()])
with raises(ValidationError, "ir_version"):
    onnx.checker.check_model(nothing)

# %% [markdown]
# ## 3. A real model, from both exporters
#
# SRCNN from chapter 00 sharpens a photo. Export it on both paths, each into one file.

# %%
from oplab.nets.srcnn import load_srcnn

net, photo = load_srcnn(), torch.full((1, 3, 24, 32), 0.5)
folder, axes = lab.fresh("srcnn"), {0: "batch", 2: "height", 3: "width"}
names = {"input_names": ["input"], "output_names": ["output"]}
on_ts_path = {"dynamo": False, "dynamic_axes": {"input": axes, "output": axes}}
on_dynamo_path = {"dynamo": True, "dynamic_shapes": (axes,), "verbose": False}
on_dynamo_path["external_data"] = False

torch.onnx.export(net, (photo,), folder / "ts.onnx", **on_ts_path, **names)
torch.onnx.export(net, (photo,), folder / "dynamo.onnx", **on_dynamo_path, **names)
ts, dynamo = onnx.load(folder / "ts.onnx"), onnx.load(folder / "dynamo.onnx")

# %% [markdown]
# Here is the file from the *TorchScript path*, drawn as boxes. Every number and name in the picture was read from the
# file.

# %% {"jupyter": {"source_hidden": true}}
from oplab.figures.messages import MEANINGS, message_name, nested

lab.figure(
    nested(ts),
    "Nested boxes: a ModelProto with its versions contains a GraphProto, which contains nodes, "
    "initialisers, an input and an output; a node contains attributes.",
)

# %% [markdown]
# Where are the bytes? A message knows its own size.

# %%
parts = {
    "initialisers": ts.graph.initializer,
    "nodes": ts.graph.node,
    "inputs, outputs": [*ts.graph.input, *ts.graph.output],
}
sizes = {name: sum(part.ByteSize() for part in entries) for name, entries in parts.items()}
for name, size in sizes.items():
    print(f"{name:16} {size:7} bytes  {100 * size / ts.ByteSize():5.1f} %")

# %% [markdown]
# The weights are nearly all of the file. The computation itself fits on a page of text. Both paths side by side:


# %%
def summary(model):
    graph = model.graph
    kinds = {
        "nodes": graph.node,
        "initialisers": graph.initializer,
        "value_info": graph.value_info,
    }
    notes = sum(len(node.metadata_props) for node in graph.node)
    return {
        "IR version": model.ir_version,
        "opset": model.opset_import[0].version,
        **{name: len(entries) for name, entries in kinds.items()},
        "metadata of nodes": notes,
    }


print(f"{'':18} TorchScript path   dynamo path")
for (name, left), right in zip(summary(ts).items(), summary(dynamo).values(), strict=True):
    print(f"{name:18} {left:16} {right:13}")

# %% [markdown]
# The TorchScript path writes fixed numbers as `Constant` nodes and writes no `value_info`. The dynamo path writes
# fixed numbers as initialisers, records the shape of every tensor, and records for each node where it came from. Read
# one of these notes before you publish such a file: it holds the folder names of the machine that exported it.

# %%
from oplab.nets import srcnn

notes = {entry.key: entry.value for entry in dynamo.graph.node[0].metadata_props}
print(*sorted(notes), sep="\n")
trace = notes["pkg.torch.onnx.stack_trace"]
print("a file name of this machine is inside:", srcnn.__file__ in trace)

# %% [markdown]
# The notes do not affect the computation. Without them the file is smaller and gives the same numbers.

# %%
lean = copy.deepcopy(dynamo)
for part in [*lean.graph.node, *lean.graph.input, *lean.graph.output, *lean.graph.value_info]:
    del part.metadata_props[:]

same = np.array_equal(run(lean, input=photo.numpy()), run(dynamo, input=photo.numpy()))
print("smaller:", lean.ByteSize() < dynamo.ByteSize(), " the same numbers:", same)

# %% [markdown]
# ## 4. Every field, and what it means
#
# What properties does an ONNX model have, and what do they mean? Read the answer from the file. Protobuf lists the
# fields of a message that are set, so a short function can walk through all of them.


# %%
def fields(message):
    """(message, field, value) of every field that is set, from the outside in."""
    for field, value in message.ListFields():
        for entry in value if field.is_repeated else [value]:
            name = field.enum_type.values_by_number[entry].name if field.enum_type else entry
            yield message_name(message), field.name, name
            if field.message_type:
                yield from fields(entry)


found = {}
for message, field, value in fields(ts):
    found.setdefault((message, field), []).append(value)
kinds = {message for message, field in found}
print(
    sum(map(len, found.values())), "values in", len(found), "fields of", len(kinds), "messages"
)

# %% [markdown]
# Now one row for each field: how often it occurs, its values, and its meaning. The order is that of the format's own
# definition.


# %%
def shown(values):
    if hasattr(values[0], "ListFields"):
        return f"→ {message_name(values[0])}"
    if isinstance(values[0], bytes):
        return f"{sum(map(len, values))} bytes"
    texts = dict.fromkeys(str(value).split("+")[0] for value in values)  # each once
    text = ", ".join(f"`{text}`" if text else "(empty)" for text in list(texts)[:3])
    return text + (", …" if len(texts) > 3 else "")


# %%
def table(found):
    lines = ["| message | field | times | values | meaning |", "|---|---|---:|---|---|"]
    for message, meanings in MEANINGS.items():
        for field, meaning in meanings.items():
            if values := found.get((message, field)):
                row = message, f"**{field}**", len(values), shown(values), meaning
                lines.append(f"| {' | '.join(map(str, row))} |")
    return lines


rows = table(found)
assert len(rows) == len(found) + 2  # no field of the file is without a row
Markdown("\n".join(rows))

# %% [markdown]
# Read the table from the top: a model has versions, a producer and one graph. The graph has nodes, initialisers,
# inputs and outputs. A node has names and attributes. That is the whole format.
#
# Operators have properties too: their *attributes*. For these, the package `onnx` provides the meaning. It
# holds the definition of each operator, with a description and a default for each attribute.


# %%
def about(node, attribute):
    definition = onnx.defs.get_schema(node.op_type, 20).attributes[attribute.name]
    default = definition.default_value
    default = helper.get_attribute_value(default) if default.type else "none"
    default = default.decode() if isinstance(default, bytes) else default
    text = " ".join(definition.description.split())
    return default, text.split(". ")[0].rstrip(".").replace("|", "/")[:130]


# %%
lines = ["| operator | attribute | type | value | default | what ONNX says |", "|---" * 6 + "|"]
for node in ts.graph.node:
    for attribute in node.attribute:
        value = helper.get_attribute_value(attribute)
        value = value if not isinstance(value, TensorProto) else f"tensor {list(value.dims)}"
        kind = AttributeProto.AttributeType.Name(attribute.type)
        default, text = about(node, attribute)
        row = node.op_type, f"**{attribute.name}**", kind, value, default, text
        lines.append(f"| {' | '.join(map(str, row))} |")
Markdown("\n".join(dict.fromkeys(lines)))  # the three Conv share some rows

# %% [markdown]
# An attribute that is not in the file has its default. Where the column shows none, ONNX's full text states which
# value applies, as for the `dilations` of a `Conv`: 1 along each axis. `Conv` has a sixth attribute, `auto_pad`,
# which the TorchScript path left out and the dynamo path wrote. So two nodes can mean the same and differ in their
# lists of attributes.
#
# ## 5. Names connect the nodes
#
# A graph contains no pointers. A node lists the *names* of the values that it reads and of the values that it produces.
# The name of the node itself, in contrast, is only a label.

# %%
for node in ts.graph.node[:3] + dynamo.graph.node[:2]:
    print(f"{node.op_type:10} {list(node.input)} -> {list(node.output)}")

# %% [markdown]
# This leads to four rules. Many broken files violate one of them.
#
# 1. Every name that is read is produced by something: a graph input, an initialiser, or a node.
# 2. No name is produced twice.
# 3. A node comes after the nodes that it reads from.
# 4. Each domain of an operator has an entry in `opset_import`.
#
# Break them one by one. `ruin` changes a copy of the line, so that the good model stays intact.


# %%
def ruin(change, start=model):
    ruined = copy.deepcopy(start)
    change(ruined)
    return ruined


def swap(m):
    first, second = copy.deepcopy(m.graph.node)
    del m.graph.node[:]
    m.graph.node.extend([second, first])


# %%
unsorted = ruin(swap)
with raises(ValidationError, "topologically sorted"):
    onnx.checker.check_model(unsorted)
print("ONNX Runtime:", run(unsorted, x=np.float32([0, 1, 2])))

# %% [markdown]
# Look closely: the checker rejects this model, but **ONNX Runtime runs it**. It sorts the nodes itself. Other engines
# do not, for example ONNX's own reference evaluator. So a file that runs for you may fail for your colleague.

# %%
from onnx.reference import ReferenceEvaluator

with raises(RuntimeError, "Unable to find input 'ax'"):
    ReferenceEvaluator(unsorted).run(None, {"x": np.float32([0])})

# %% [markdown]
# The next fault is a misspelt name. The checker's message is nearly the same, because it checks only one thing: did
# anything *above* produce this name?

# %%
misspelt = ruin(lambda m: m.graph.node[1].input.__setitem__(0, "a_x"))
with raises(ValidationError, "input 'a_x'"):
    onnx.checker.check_model(misspelt)
with raises(InvalidArgument, "a_x"):
    run(misspelt, x=np.float32([0]))

# %% [markdown]
# When you read "topologically sorted", look the name up. If it is produced further down, the order is wrong. If it is
# produced nowhere, it is a typo, or the node that produced it was removed. In the second case there is often a name
# that is produced but never read.

# %%
made = {name for node in misspelt.graph.node for name in node.output}
made |= {value.name for value in [*misspelt.graph.input, *misspelt.graph.initializer]}
read = {name for node in misspelt.graph.node for name in node.input}
read |= {entry.name for entry in misspelt.graph.output}
print("read, but not produced:", read - made, " produced, but not read:", made - read)

# %% [markdown]
# One name is an exception: the empty one. `Clip` takes its bounds as inputs, and both are optional. To pass only the
# upper bound, write `""` for the lower one, because inputs are identified by position.


# %%
def clip_instead(m):
    del m.graph.node[:], m.graph.initializer[0]
    m.graph.node.append(helper.make_node("Clip", ["x", "", "b"], ["y"]))


capped = ruin(clip_instead)
onnx.checker.check_model(capped, full_check=True)
print(run(capped, x=np.float32([-9, 0, 9])))

# %% [markdown]
# Rule 2 has an exception too: an initialiser may have the name of a graph input. It is then the default of that
# input, and the caller may leave the input out.

# %%
optional = helper.make_tensor_value_info("b", TensorProto.FLOAT, [])
with_default = ruin(lambda m: m.graph.input.append(optional))
onnx.checker.check_model(with_default, full_check=True)
numbers = np.float32([0, 1, 2])
print("b left out:", run(with_default, x=numbers))
print("b fed:     ", run(with_default, x=numbers, b=np.array(30, np.float32)))

# %% [markdown]
# A node can also read a name that is not in its `input`. The branches of an `If` are separate graphs, stored as
# attributes of type GRAPH. They have no inputs. They read the names of the graph around them, here `x`, `ax` and `b`.


# %%
def branch(name, op, reads):
    out = helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, ["n"])
    return helper.make_graph([helper.make_node(op, reads, [out.name])], name, [], [out])


choose = helper.make_node("If", ["up"], ["y"])
then_branch = helper.make_attribute("then_branch", branch("above", "Add", ["ax", "b"]))
else_branch = helper.make_attribute("else_branch", branch("below", "Neg", ["x"]))
choose.attribute.extend([then_branch, else_branch])

# %%
up = helper.make_tensor_value_info("up", TensorProto.BOOL, [])
body = helper.make_graph([nodes[0], choose], "branched", [x, up], [y], constants)
branched = helper.make_model(body, opset_imports=opset, ir_version=10)
onnx.checker.check_model(branched, full_check=True)
for flag in (True, False):
    print("up:", flag, run(branched, x=np.float32([1, 2]), up=np.array(flag)))

node = branched.graph.node[1]
print("what the If says that it reads:", list(node.input))
for entry in node.attribute:
    print(f"what its {entry.name} reads:", [list(inner.input) for inner in entry.g.node])
lab.show(branched)

# %% [markdown]
# The deeper section "Which check finds which fault" tries 17 faults with the checker and with ONNX Runtime. Neither
# finds all of them.
#
# ## 6. Tensors
#
# A `TensorProto` is a name, a dtype as a number, sizes, and the values. The values are stored in one of two forms: as
# raw bytes, or one by one in a field for their type. Both are in use, and a reader has to support both.

# %%
weights = np.float32([[1, 2, 3], [4, 5, 6]])
as_bytes = numpy_helper.from_array(weights, "w")
one_by_one = helper.make_tensor("w", TensorProto.FLOAT, [2, 3], weights.flatten())
for tensor in (as_bytes, one_by_one):
    same = np.array_equal(numpy_helper.to_array(tensor), weights)
    print([field.name for field, _ in tensor.ListFields()], same)

# %% [markdown]
# You do not need to know the numbers of the dtypes. Two functions translate them, and `numpy_helper` handles any memory
# layout.

# %%
for dtype in ("float32", "float16", "int64", "bool"):
    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    name = TensorProto.DataType.Name(number)
    print(f"{number:3} {name:8} {helper.tensor_dtype_to_np_dtype(number)}")
transposed = numpy_helper.from_array(weights.T, "t")
assert np.array_equal(numpy_helper.to_array(transposed), weights.T)

# %% [markdown]
# Do not trust the sizes before you have checked them. Here they declare three values and there are two.

# %%
short = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], float_data=[1, 2])
with raises(ValidationError, "too small"):
    onnx.checker.check_tensor(short)

# %% [markdown]
# ## 7. Attributes
#
# An attribute has a type, which is taken from the type of the Python value. `1` is an INT, `1.0` a FLOAT. `LeakyRelu`
# requires a FLOAT.


# %%
def leaky(alpha):
    node = helper.make_node("LeakyRelu", ["x"], ["y"], alpha=alpha)
    graph = helper.make_graph([node], "leaky", [x], [y])
    return helper.make_model(graph, opset_imports=opset, ir_version=10)


with raises(ValidationError, "Expected: 'FLOAT', actual: 'INT'"):
    onnx.checker.check_model(leaky(1))
with raises(InvalidGraph, "Expected: 'FLOAT', actual: 'INT'"):
    run(leaky(1), x=np.float32([-1, 1]))
print(run(leaky(0.5), x=np.float32([-1, 1])))

# %% [markdown]
# `helper.get_attribute_value` reads an attribute of any type. A text comes back as bytes, because it is stored as
# bytes.

# %%
samples = {"INT": 1, "FLOAT": 1.0, "STRING": "SAME_UPPER"}
samples |= {"INTS": [1, 2], "FLOATS": [0.5, 2.0], "STRINGS": ["a", "b"]}
for kind, value in samples.items():
    attribute = helper.make_attribute("sample", value)
    assert AttributeProto.AttributeType.Name(attribute.type) == kind
    print(f"{kind:8} {attribute.type}  {helper.get_attribute_value(attribute)}")

# %% [markdown]
# An empty list has no element whose type could decide, so it needs `attr_type`.

# %%
with raises(ValueError, "empty"):
    helper.make_attribute("axes", [])
axes_of_none = helper.make_attribute("axes", [], attr_type=AttributeProto.INTS)
print(AttributeProto.AttributeType.Name(axes_of_none.type))

# %% [markdown]
# ## 8. Domains and versions
#
# `opset_import` is a list, since a model can use operators of several *domains*. ONNX's own domain is `ai.onnx`,
# written as the empty text. `com.microsoft` is ONNX Runtime's. You can even define your own operator in the file
# itself: a *model-local function* is an operator made of nodes. It has its own `opset_import`.

# %%
scaled = onnx.parser.parse_model("""
<ir_version: 10, opset_import: ["" : 20, "lab" : 1]>
caller (float[n] x) => (float[n] y) { y = lab.Soften<slope = 0.5>(x) }

<domain: "lab", opset_import: ["" : 18]>
Soften<slope>(p) => (q) { r = LeakyRelu<alpha: float = @slope>(p) q = Neg(r) }
""")
onnx.checker.check_model(scaled, full_check=True)
print(run(scaled, x=np.float32([-2, 2])))

# %% [markdown]
# The function imports opset 18 and the model imports opset 20. That is allowed as long as each operator means the
# same in both. `@slope` is a reference: the value comes from the node that calls the function. Such an attribute has
# no value itself.

# %%
(function,) = scaled.functions
alpha = function.node[0].attribute[0]
print("imports:", function.opset_import[0].version, " refers to:", alpha.ref_attr_name)
with raises(ValueError, "reference"):
    helper.get_attribute_value(alpha)

# %% [markdown]
# In an import, ONNX's own domain has two spellings: empty and `ai.onnx`. In a node, the checker accepts only the
# empty one.

# %%
spelled = ruin(lambda m: setattr(m.opset_import[0], "domain", "ai.onnx"))
onnx.checker.check_model(spelled, full_check=True)
in_a_node = ruin(lambda m: setattr(m.graph.node[0], "domain", "ai.onnx"), start=spelled)
with raises(ValidationError, "No Op registered for Mul"):
    onnx.checker.check_model(in_a_node)

# %% [markdown]
# The version matters. It decides what a node *means*. `Softmax` without attributes works along axis 1 and all axes
# after it in opset 12, and along the last axis from opset 13 on. The same node gives two results, and there is no
# warning.


# %%
def softmax(opset):
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 2, 2]) for name in "xy"]
    node = helper.make_node("Softmax", ["x"], ["y"])
    graph = helper.make_graph([node], "softmax", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=imports(opset), ir_version=7)


numbers = np.float32([[[0, 1], [2, 3]]])
for version in (12, 13):
    onnx.checker.check_model(softmax(version), full_check=True)
    print(version, run(softmax(version), x=numbers).ravel().round(3))
assert not np.allclose(run(softmax(12), x=numbers), run(softmax(13), x=numbers))

# %% {"jupyter": {"source_hidden": true}}
import matplotlib.pyplot as plt

from oplab.figures.palette import BLUE, ORANGE

panels = {"x": numbers}
panels |= {f"y at opset {v}": run(softmax(v), x=numbers) for v in (12, 13)}
figure, plots = plt.subplots(1, 3, figsize=(9.5, 2.5), layout="constrained")
for plot, (title, values) in zip(plots, panels.items(), strict=True):
    for row, colour in enumerate((BLUE, ORANGE)):
        places = [f"[0,{row},{column}]" for column in range(2)]
        bars = plot.bar(places, values[0, row], color=colour)
        plot.bar_label(bars, fmt="%.2f", fontsize=9)
    plot.set(title=title, ylabel="value", ylim=(0, 1.2 * values.max()))
    plot.spines[["top", "right"]].set_visible(False)
    plot.tick_params(labelsize=9)
lab.figure(
    figure,
    "Bar charts of x and of two Softmax outputs with two rows of two values. At opset 12 the "
    "four outputs add up to 1, at opset 13 each row does.",
)

# %% [markdown]
# In the middle plot all four numbers add up to 1. In the right plot each row of two does.

# %% [markdown]
# So writing another number into `opset_import` is a repair only when every operator in the graph means the same in both
# opsets. Otherwise, convert the model. `onnx.version_converter` writes nodes that keep the meaning.

# %%
from onnx import version_converter

converted = version_converter.convert_version(softmax(12), 13)
print("opset", converted.opset_import[0].version, [n.op_type for n in converted.graph.node])
print(run(converted, x=numbers).ravel().round(3))
assert np.allclose(run(converted, x=numbers), run(softmax(12), x=numbers))

# %% [markdown]
# ## 9. Shapes
#
# A file does not have to describe the tensors between the nodes. `onnx.shape_inference` derives their types and
# shapes from the shapes of the inputs and the rules of each operator, and writes them into `value_info`.


# %%
def size(dim):
    return dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?"


def text(value):
    kind = value.type.tensor_type
    name = TensorProto.DataType.Name(kind.elem_type)
    if not kind.HasField("shape"):
        return f"{name}, rank unknown"
    return f"{name} {[size(dim) for dim in kind.shape.dim]}"


inferred = onnx.shape_inference.infer_shapes(ts)
print("before:", len(ts.graph.value_info), " after:", len(inferred.graph.value_info))
for value in inferred.graph.value_info[-4:]:
    print(f"  {value.name:24} {text(value)}")

# %% [markdown]
# `dim_value` is a fixed size, `dim_param` a name. Shape inference cannot do arithmetic with names: it does not see
# that a padded `Conv` keeps the height, so it makes up new names, `unk__0` and so on. The dynamo path wrote the true
# names, since PyTorch knew them.

# %%
for value in dynamo.graph.value_info[-3:]:
    print(f"  {value.name:24} {text(value)}")

# %% [markdown]
# Three cases look alike in Python but have different meanings. Distinguish them with `HasField`.

# %%
shapes = {"a scalar": [], "an empty tensor": [0], "rank unknown": None}
for label, shape in shapes.items():
    kind = helper.make_tensor_value_info("t", TensorProto.FLOAT, shape).type.tensor_type
    sizes = [f"dim_value set: {d.HasField('dim_value')}" for d in kind.shape.dim]
    print(f"{label:16} shape set: {kind.HasField('shape')!s:6} axes: {len(sizes)}", *sizes)

# %% [markdown]
# Shape inference works only where the operators are known. After an operator of another domain it finds nothing, and
# there is no error.


# %%
def foreign(m):
    m.graph.node[0].domain = "lab"
    m.opset_import.append(helper.make_opsetid("lab", 1))


for candidate in (model, ruin(foreign)):
    known = onnx.shape_inference.infer_shapes(candidate).graph.value_info
    print([value.name for value in known])

# %% [markdown]
# ## 10. The text form
#
# A model can be printed as text and read back. This is the shortest way to look at a small model, and to write one.

# %%
print(onnx.printer.to_text(model))

# %%
again = onnx.parser.parse_model("""
<ir_version: 10, opset_import: ["" : 20]>
line (float[n] x) => (float[n] y) <float a = {2.0}, float b = {3.0}> {
    ax = Mul(a, x)
    y = Add(ax, b)
}
""")
print(run(again, x=np.float32([0, 1, 2])))

# %% [markdown]
# In this form `float[n] x` is a vector, `float x` a scalar, and `float[] x` a tensor of unknown rank. Weights survive
# it without losing a bit, but the form is not intended for storage.

# %%
back = onnx.parser.parse_model(onnx.printer.to_text(dynamo))
pairs = zip(dynamo.graph.initializer, back.graph.initializer, strict=True)
equal = all(np.array_equal(*map(numpy_helper.to_array, pair)) for pair in pairs)
print("weights equal to the last bit:", equal)
notes = [len(m.graph.node[0].metadata_props) for m in (dynamo, back)]
print("metadata of a node, before and after:", notes)

# %% [markdown]
# ## 11. Limits
#
# - The checker knows only the domains of ONNX. For any other domain it checks only the import: a misspelt operator
#   there passes.


# %%
def misspelt_operator(m):
    m.graph.node[0].op_type, m.graph.node[0].domain = "MyAd", "oplab"
    m.opset_import.append(helper.make_opsetid("oplab", 1))


typo = ruin(misspelt_operator)
onnx.checker.check_model(typo, full_check=True)
print("known:", sorted({schema.domain for schema in onnx.defs.get_all_schemas()}))
with raises(Fail, "MyAd"):
    run(typo, x=np.float32([0]))

# %% [markdown]
# - One message holds at most 2 GB. Larger models keep their tensors in a second file (`external_data`). Then give the
#   checker the *path*: from a message alone it does not know where to look.

# %%
path = lab.fresh("external") / "srcnn.onnx"
onnx.save(copy.deepcopy(dynamo), path, save_as_external_data=True, location="srcnn.data")
onnx.checker.check_model(path, full_check=True)
with raises(ValidationError, "should be stored in srcnn.data"):
    onnx.checker.check_model(onnx.load(path, load_external_data=False))

# %% [markdown]
# - A graph that passes every check can still compute the wrong thing.
# - You can also cut a piece out of a model, with `onnx.utils.extract_model`. Chapter 15 covers which inputs the piece
#   then needs, and how the cut can go wrong.
#
# ## 12. Exercises
#
# Each docstring is the specification. Save the file, then run the cell. A hint: `lab.hint("build")`.
#
# **`build`** — [exercises/c01_onnx_model.py](../exercises/c01_onnx_model.py#line=50) · the line again, as a function:
# for numbers of any dtype and shape, and an `x` of any rank.

# %%
lab.check("build")

# %% [markdown]
# **`shapes`** — [exercises/c01_onnx_model.py](../exercises/c01_onnx_model.py#line=75) · the dtype and shape of every
# tensor in a graph, as far as they can be known. They are in four lists.

# %%
lab.check("shapes")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Which check finds which fault
#
# The next cells try more faults with four kinds of check: the checker, the checker with full shape inference, ONNX
# Runtime when it loads the model, and ONNX Runtime when it runs the model. Each fault is a change to the good line.

# %%
faults = {
    "nodes not sorted": swap,
    "a name that no node produces": lambda m: m.graph.node[1].input.__setitem__(0, "a_x"),
    "a name made twice": lambda m: m.graph.node.append(helper.make_node("Neg", ["x"], ["ax"])),
    "an output that no node produces": lambda m: m.graph.node[1].output.__setitem__(0, "z"),
    "no opset_import": lambda m: m.ClearField("opset_import"),
    "opset 28": lambda m: setattr(m.opset_import[0], "version", 28),
    "IR version 14": lambda m: setattr(m, "ir_version", 14),
}


# %%
def unknown_attribute(m):
    m.graph.node[0].attribute.append(helper.make_attribute("axis", 1))


def gelu(m):
    m.graph.node[0].CopyFrom(helper.make_node("Gelu", ["x"], ["ax"], domain="com.microsoft"))
    del m.graph.initializer[0]


faults |= {
    "no name of the graph": lambda m: m.graph.ClearField("name"),
    "an unknown operator": lambda m: setattr(m.graph.node[0], "op_type", "Multiply"),
    "an attribute that Mul does not have": unknown_attribute,
    "a domain without an import": lambda m: setattr(m.graph.node[0], "domain", "lab"),
    "com.microsoft without an import": gelu,
}


# %%
def output_type(m):
    return m.graph.output[0].type.tensor_type


def constant(index, name, value):
    tensor = numpy_helper.from_array(value, name)
    return lambda m: m.graph.initializer[index].CopyFrom(tensor)


faults |= {
    "y declared as double": lambda m: setattr(output_type(m), "elem_type", TensorProto.DOUBLE),
    "y declared as a matrix": lambda m: output_type(m).shape.dim.add(dim_param="m"),
    "a is double, x is float": constant(0, "a", np.float64(2)),
    "a has 2 numbers, x has 3": constant(0, "a", np.float32([2, 2])),
    "b is 30 instead of 3": constant(1, "b", np.float32(30)),
}


# %%
def notices(model):
    data = model.SerializeToString()
    tries = [
        lambda: onnx.checker.check_model(model),
        lambda: onnx.checker.check_model(model, full_check=True),
        lambda: ort.InferenceSession(data, providers=["CPUExecutionProvider"]),
        lambda: run(model, x=np.float32([0, 1, 2])),
    ]
    return [fails(attempt) for attempt in tries]


def fails(attempt):
    try:
        attempt()
    except Exception as error:
        return type(error).__name__
    return ""


answers = {name: notices(ruin(change)) for name, change in faults.items()}

# %% {"jupyter": {"source_hidden": true}}
from matplotlib.colors import ListedColormap, to_rgba

columns = ["checker", "checker,\nfull_check", "ONNX Runtime\nloads", "ONNX Runtime\nruns"]
figure, plot = plt.subplots(figsize=(9.5, 6.2), layout="constrained")
refused = [[bool(entry) for entry in row] for row in answers.values()]
plot.pcolormesh(refused, cmap=ListedColormap([(0, 0, 0, 0), to_rgba(ORANGE, 0.25)]))
for i, row in enumerate(answers.values()):
    for j, entry in enumerate(row):
        text = f"✗ {entry}" if entry else "accepted"
        plot.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=9)
plot.set_xticks([0.5, 1.5, 2.5, 3.5], columns)
plot.set_yticks([i + 0.5 for i in range(len(answers))], answers)
plot.tick_params(length=0, labeltop=True, labelbottom=False)
plot.invert_yaxis()
plot.set_frame_on(False)
lab.figure(
    figure,
    "A table of 17 faults and four checks. An orange cell with a cross names the exception of "
    "a check that refuses the model. The last row, a wrong constant, passes all four.",
)

# %% [markdown]
# Three things to learn from the figure:
#
# - **Neither is enough.** The checker accepts versions that are too new for this runtime. ONNX Runtime accepts unsorted
#   nodes, and a missing import of `com.microsoft`, because it provides that domain itself.
# - `full_check=True` costs nothing here and finds wrong types. Always use it.
# - The last row passes every check. No check knows which numbers you want. Only a comparison can tell, as in
#   chapter 00.

# %%
assert answers["nodes not sorted"] == ["ValidationError", "ValidationError", "", ""]
assert answers["com.microsoft without an import"][1:] == ["ValidationError", "", ""]
assert answers["opset 28"] == answers["IR version 14"] == ["", "", "Fail", "Fail"]
assert not any(answers["b is 30 instead of 3"]) and answers["y declared as double"][0] == ""

# %% [markdown]
# **`repair`** — [exercises/c01_onnx_model.py](../exercises/c01_onnx_model.py#line=109) · a tool writes models with up
# to four faults: versions, imports, order, one misspelt name. Repair any of them, and change nothing else. Remember
# `""`, and the names that a branch reads.

# %%
lab.check("repair")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: The bytes of a tensor
#
# The raw form by hand: four bytes for each float32, the lowest byte first on every machine, the last axis fastest.

# %%
name = TensorProto.DataType.Name(as_bytes.data_type)
print("dims", list(as_bytes.dims), " data_type", as_bytes.data_type, "=", name)
second = as_bytes.raw_data[4:8]
print("the second number:", second.hex(" "), "=", np.frombuffer(second, "<f4")[0])
print(np.frombuffer(as_bytes.raw_data, "<f4").reshape(as_bytes.dims))

# %% {"jupyter": {"source_hidden": true}}
figure, plot = plt.subplots(figsize=(9.5, 1.5), layout="constrained")
for i, byte in enumerate(as_bytes.raw_data):
    colour = (BLUE, ORANGE)[i // 4 % 2]
    plot.add_patch(plt.Rectangle((i + 0.04, 0), 0.92, 1, fc=colour, alpha=0.2))
    plot.text(i + 0.5, 0.5, f"{byte:02x}", ha="center", va="center", family="monospace")
for i, value in enumerate(weights.ravel()):
    place = [int(p) for p in np.unravel_index(i, weights.shape)]
    plot.text(4 * i + 2, -0.5, f"{value:g} at {place}", ha="center", va="center", fontsize=10)
plot.set(xlim=(0, 24), ylim=(-0.9, 1.05))
plot.set_title("raw_data of [[1, 2, 3], [4, 5, 6]]", fontsize=11)
plot.axis("off")
lab.figure(
    figure,
    "24 bytes in a row, in groups of four. The groups are the numbers 1 to 6 of a 2 by 3 "
    "matrix, row by row.",
)

# %% [markdown]
# The other form has fewer fields than there are dtypes. float16 does not have its own field: its bit patterns are
# stored in `int32_data`.

# %%
half = helper.make_tensor("h", TensorProto.FLOAT16, [2], np.float16([1.5, -2]))
print(list(half.int32_data), "->", np.uint16(half.int32_data).view(np.float16))

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Fields that are rarely set
#
# The table of section 4 was of the file from the TorchScript path. The file from the dynamo path has a few more fields.

# %%
more = {}
for message, field, value in fields(dynamo):
    if (message, field) not in found:
        more.setdefault((message, field), []).append(
            value if field != "value" else "…"
        )  # no folder names here
Markdown("\n".join(table(more)))

# %% [markdown]
# The following fields are empty in both files. Most models never use them. `functions`, `domain`, `external_data` and
# the other kinds of `AttributeProto` appear later in the course.

# %%
lines = ["| message | fields that are empty here |", "|---|---|"]
for message, meanings in MEANINGS.items():
    names = [field for field in meanings if not {(message, field)} & {*found, *more}]
    if empty := [f"**{field}** ({meanings[field]})" for field in names]:
        lines.append(f"| {message} | {', '.join(empty)} |")
Markdown("\n".join(lines))

# %% [markdown]
# **`inventory`** — [exercises/c01_onnx_model.py](../exercises/c01_onnx_model.py#line=147) · the tables of section 4,
# for any model: every operator with its domain and version, every attribute with its type and value, in bodies and in
# functions too.

# %%
lab.check("inventory")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: SRCNN without an exporter
#
# If you know the format, you can do the exporter's work. You need eight nodes, and the weights from PyTorch.

# %%
tensors = net.state_dict().items()
weights = {name: numpy_helper.from_array(tensor.numpy(), name) for name, tensor in tensors}
weights["rgb"] = numpy_helper.from_array(net.rgb_to_y.numpy(), "rgb")
weights["channels"] = numpy_helper.from_array(np.int64([1]), "channels")


def conv(number, reads, makes, pad):
    names = [reads, f"conv{number}.weight", f"conv{number}.bias"]
    return helper.make_node("Conv", names, [makes], f"conv{number}", pads=[pad] * 4)


# %%
nodes = [
    helper.make_node("Mul", ["input", "rgb"], ["parts"]),
    helper.make_node("ReduceSum", ["parts", "channels"], ["grey"], keepdims=1),
    conv(1, "grey", "c1", pad=4),
    helper.make_node("Relu", ["c1"], ["r1"]),
    conv(2, "r1", "c2", pad=2),
    helper.make_node("Relu", ["c2"], ["r2"]),
    conv(3, "r2", "detail", pad=2),
    helper.make_node("Add", ["input", "detail"], ["output"]),
]

# %%
shape = ["batch", 3, "height", "width"]
ends = [
    helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    for name in ("input", "output")
]
graph = helper.make_graph(nodes, "srcnn", ends[:1], ends[1:], list(weights.values()))
mine = helper.make_model(graph, opset_imports=opset, ir_version=10, producer_name="you")
onnx.checker.check_model(mine, full_check=True)

# %% [markdown]
# Compare with PyTorch, on a photo and at a size that was not exported. A comparison has to be able to fail, so one
# copy gets wrong pads: its shapes stay the same, its numbers do not.

# %%
from oplab.nets.photos import photo as load_photo
from oplab.nets.photos import to_nchw

image = to_nchw(load_photo("chelsea", (90, 120)))
with torch.no_grad():
    expected = net(torch.from_numpy(image)).numpy()

wrong = copy.deepcopy(mine)
wrong.graph.node[2].attribute[0].CopyFrom(helper.make_attribute("pads", [3, 3, 5, 5]))
candidates = {"by hand": mine, "TorchScript path": ts, "dynamo path": dynamo}
for name, candidate in (candidates | {"wrong pads": wrong}).items():
    got = run(candidate, input=image)
    near = bool((np.abs(got - expected) <= 1e-5).all())
    print(f"{name:17} {got.shape} within 1e-5: {near}")

# %% [markdown]
# The picture compares your graph with that of the dynamo path. The operators and their connections are the same; the
# names, and the defaults that are written, differ.

# %%
lab.show(dynamo, mine)

# %% [markdown]
# ## Five questions

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - The format's definition, `onnx.in.proto`, in the ONNX repository. It is one file with good comments, and you now
#   know what to look for.
# - [The list of ONNX operators](https://onnx.ai/onnx/operators/), each with its versions and attributes.
# - Chapter 04 looks up operators and their versions from PyTorch's side. Chapter 15 cuts and repairs large models.
#
# Previous: [00: First round trip](00_first_round_trip.ipynb)
# · Next: [02: Trace, script, export](02_trace_script_export.ipynb)
# · [Glossary](../docs/glossary.md)
