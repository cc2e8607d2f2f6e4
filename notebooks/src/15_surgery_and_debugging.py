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
# # 15 · Surgery and debugging
#
# After this chapter you can
#
# - say how far a model may be from its reference, and measure how far it is;
# - look at every value inside a model, and find the first node that is wrong, among hundreds;
# - cut a model, put other nodes in, and leave a file in which everything still fits.

# %%
import copy
import io

import matplotlib.pyplot as plt
import numpy as np
import onnx
import onnxruntime as ort
import torch
import torchvision
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph

from oplab import lesson, quiet_exports, raises, session
from oplab.debug import bisect, compare_layers, drift, extract, replace, tap
from oplab.errors import OplabError
from oplab.nets import photos
from oplab.nets.srcnn import enlarge, load_srcnn, shrink

lab = lesson("15_surgery_and_debugging")
quiet_exports()

# %% [markdown]
# ## 1. The failure: the photo is wrong, and nobody complains
#
# This is the network of chapter 00, exported over the **dynamo path**. A colleague has run his tools over the file. It loads, it runs,
# and the photo that comes out is not the one that you know.

# %%
net = load_srcnn()
photo = torch.from_numpy(photos.to_nchw(photos.photo("chelsea", (150, 224))))
blurred = enlarge(shrink(photo, 2), 2)


def export(module, inputs, dynamo=True):
    """A model in one piece, on the path that is asked for."""
    names = {"input_names": ["x"], "output_names": ["y"]}
    if dynamo:
        return torch.onnx.export(module, inputs, dynamo=True, verbose=False, **names).model_proto
    buffer = io.BytesIO()
    torch.onnx.export(module, inputs, buffer, dynamo=False, **names)
    return onnx.load_model_from_string(buffer.getvalue())


# %%
good = export(net, (blurred,))
bad = copy.deepcopy(good)
for tensor in bad.graph.initializer:
    if tensor.name == "rgb_to_y":  # the weights of R, G and B in the brightness: 0.299, 0.587, 0.114
        tensor.CopyFrom(numpy_helper.from_array(np.full((1, 3, 1, 1), 1.0, np.float32), tensor.name))
onnx.checker.check_model(bad, full_check=True)
right, wrong = (session(model).run(None, {"x": blurred.numpy()})[0] for model in (good, bad))

# %%
figure, axes = plt.subplots(1, 3, figsize=(11, 2.7), layout="constrained")
for place, (title, image) in enumerate({"yours": right, "the colleague's": wrong}.items()):
    axes[place].imshow(np.clip(photos.to_image(image), 0, 1))
    axes[place].set_title(title, fontsize=11)
gap = axes[2].imshow(np.abs(right - wrong)[0].max(0) * 255, cmap="magma", vmin=0, vmax=40)
axes[2].set_title("difference, grey levels of 255", fontsize=11)
figure.colorbar(gap, ax=axes[2], shrink=0.8)
for place in axes:
    place.axis("off")

# %% [markdown]
# The checker is content, because every message in the file is well formed. ONNX Runtime runs it. Only the numbers are wrong. Two
# questions follow: **how wrong is wrong**, and **which node did it**?
#
# ## 2. How to compare two models
#
# You export, you compare, you get a number. Is it a good one? Look at three of them.

# %%
with torch.no_grad():
    expected = net(blurred).numpy()
    exact = net.double()(blurred.double()).numpy()
net.float()
for name, array in {"ONNX Runtime": right, "the colleague's file": wrong, "float64": exact}.items():
    gap = np.abs(array - expected).max()
    print(
        f"{name:21} largest difference from PyTorch: {'below 1e-5' if gap < 1e-5 else f'{gap:.1f}'}, not 0: {gap > 0}"
    )

# %% [markdown]
# The third line is the key. The same network in float64 is not equal to the float32 one either. float32 keeps 24 binary digits,
# about seven decimal ones. Each operation rounds its result, and a convolution adds hundreds of products. **A difference of the
# size of the rounding is not an error.** Two correct programs that add in another order differ by as much.
#
# So a comparison needs a tolerance, and the tolerance needs a reason:
#
# | what | why |
# |---|---|
# | relative to the magnitude | 1e-4 is nothing for values near 1000, and everything for values near 1e-5 |
# | by dtype | a float16 keeps three decimal digits, a float32 seven |
# | by depth | rounding errors add up from layer to layer |
# | exact for integers and bool | an index that is off by one is wrong |
# | shape, dtype and NaN first | NumPy broadcasts shapes that differ, and no number is larger than NaN |
#
# The last row is where home-made comparisons fail. Both of these find no difference:

# %%
left, right_shape = np.ones((2, 3), np.float32), np.ones((1, 3), np.float32)
with_nan = np.array([1, np.nan, 1], np.float32)
print("shapes [2, 3] and [1, 3]:", np.abs(left - right_shape).max())
print("a NaN is larger than 1e-3:", bool(np.abs(with_nan - 1).max() > 1e-3))

# %% [markdown]
# `oplab.debug.drift` does it in the right order. Its error is the largest difference, divided by the largest magnitude that was
# expected. The tolerance comes with the dtype: 1e-3 for a float32 deep inside a model.

# %%
for name, array in {
    "ONNX Runtime": right,
    "the colleague's file": wrong,
    "a float16 copy": expected.astype(np.float16),
    "one row missing": expected[:, :, 1:],
}.items():
    found = drift(expected, array)
    print(f"{name:21} {'wrong' if found.bad else 'right'}  allowed {found.tolerance:.0e}  {found.reason}")

# %% [markdown]
# ## 3. Cut: extract_model, and its classic mistake
#
# Which node did it? The old way is to cut the model in two and compare the halves. `onnx.utils.extract_model` does the cut: it takes a
# file, names of inputs, names of outputs. Here is the graph, with names.

# %%
lab.show(good)

# %% [markdown]
# Take the part behind the first convolution.

# %%
folder = lab.fresh("cut")
onnx.save(good, folder / "whole.onnx")
first = next(node for node in good.graph.node if node.op_type == "Conv")
activation = next(node for node in good.graph.node if node.input[0] == first.output[0])
try:
    onnx.utils.extract_model(folder / "whole.onnx", folder / "part.onnx", [first.output[0]], ["y"])
except Exception as error:
    print(type(error).__name__, "-", str(error).splitlines()[0])
    failed = error
assert "x" in str(failed)

# %% [markdown]
# It fails, and this is the classic mistake. The last node adds the photo itself to the detail: `y` needs `x`, too. A cut is a line through
# the graph, and **every edge that the line crosses has to be named**.

# %%
onnx.utils.extract_model(folder / "whole.onnx", folder / "part.onnx", [first.output[0], "x"], ["y"])
print([node.op_type for node in onnx.load(folder / "part.onnx").graph.node])

# %% [markdown]
# `oplab.debug.extract` works on a model in memory. Its message names the input and who reads it.

# %%
with raises(OplabError, "'x' (read by"):
    extract(good, [first.output[0]], ["y"])
part = extract(good, [first.output[0], "x"], ["y"])
print([node.op_type for node in part.graph.node], "from", [value.name for value in part.graph.input])

# %% [markdown]
# In the first exercise you write it yourself.

# %%
lab.check("extract")

# %% [markdown]
# ## 4. Tap: look at a value without a cut
#
# A cut needs the values at its inputs, and you do not have them. There is a shorter way. Any value inside the graph can become an
# *output*: append its name to the graph's outputs. A type is not needed, because ONNX Runtime works it out.

# %%
tapped = copy.deepcopy(good)
tapped.graph.output.append(onnx.ValueInfoProto(name=first.output[0]))
values = session(tapped).run(None, {"x": blurred.numpy()})
print([list(value.shape) for value in values])

# %% [markdown]
# `tap` does this for all values at once, or for those that you name. It also works behind operators that ONNX does not know: here is
# one of the course, whose result has no type in the file.

# %%
two = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "ab"]
custom = helper.make_graph(
    [helper.make_node("MyAdd", ["a", "b"], ["sum"], domain="oplab"), helper.make_node("Sqrt", ["sum"], ["y"])],
    "custom",
    two,
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
)
custom = helper.make_model(
    custom, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("oplab", 1)], ir_version=10
)
print(tap(custom)({"a": np.float32([1, 2]), "b": np.float32([3, 5])}))

# %% [markdown]
# With all values of a model at hand, you compare the two files node by node and take the first that differs. For five nodes that is
# the whole method.

# %%
healthy, sick = tap(good)(blurred), tap(bad)(blurred)
for node in good.graph.node:
    name = node.output[0]
    found = drift(healthy[name], sick[name])
    print(f"{node.op_type:12} {name:14} {'WRONG' if found.bad else 'right'}")

# %% [markdown]
# ## 5. Against PyTorch, layer by layer
#
# Often there is no good file. There is the PyTorch module, and an export that differs. Then the values have other names on both sides:
# `layer1.0.relu` here, `relu_1` there. `compare_layers` watches PyTorch operator by operator, taps the model, and pairs the values in
# order, by kind, by shape and, above all, by value. Take a ResNet-18 with random weights, exported over both paths.

# %%
torch.manual_seed(0)
resnet = torchvision.models.resnet18(weights=None).eval()
for weights in resnet.parameters():  # the last digits of torch.randn depend on the processor
    weights.data = (weights.data * 1024).round() / 1024
image = torch.rand(1, 3, 96, 96)
models = {"dynamo path": export(resnet, (image,)), "TorchScript path": export(resnet, (image,), dynamo=False)}
for path, model in models.items():
    layers = compare_layers(resnet, model, image)
    kinds = [row.node.split()[0] for row in layers.rows]
    print(f"{path:17} {kinds.count('Conv')} Conv and {kinds.count('Relu')} Relu matched, drifts: {layers.first_bad}")

# %% [markdown]
# Exporters do not keep every layer. Both paths fold a BatchNorm into the convolution before it, so a `Conv` of the file stands for two
# layers of PyTorch:

# %%
print([row.layer for row in layers.rows if "Conv" in row.node][:2])

# %% [markdown]
# Now a fault: the weights of one convolution come from an older training step. Errors rise there and stay.

# %%
stale = copy.deepcopy(models["dynamo path"])
sixth = [node for node in stale.graph.node if node.op_type == "Conv"][5]
tensor = next(entry for entry in stale.graph.initializer if entry.name == sixth.input[1])
older = numpy_helper.to_array(tensor) + np.random.default_rng(0).normal(0, 0.01, tuple(tensor.dims)).astype(np.float32)
tensor.CopyFrom(numpy_helper.from_array(older, tensor.name))
layers = compare_layers(resnet, stale, image)
print("first:", layers.first_bad.layer, "=", layers.first_bad.node)
assert layers.first_bad.value == sixth.output[0]

# %%
layers.figure("Error along the graph of ResNet-18, one convolution with older weights")

# %% [markdown]
# ## 6. Bisect: the first wrong node in a few runs
#
# To keep all values of a large model costs memory, and on a device you may see a few values only. You do not need them all. Think of
# the nodes as a list, in which makers come first. After the first k nodes, some values are still needed: by a later node, or as an
# output. They are the **frontier**. Everything that the first k nodes did, they did through the frontier. So:
#
# - a fault among the first k nodes that reaches the output shows in the frontier after k;
# - if the fault comes later, the frontier is right.
#
# One comparison tells on which side of k the fault lies. Halve, and nine comparisons find one node among 300.

# %%
found = bisect(stale, models["dynamo path"], image)
print(found)
assert stale.graph.node[found.node].name == sixth.name

# %% [markdown]
# In the picture each row is one comparison: blue where the frontier is right, orange where it is wrong. The grey part is what is still
# possible.

# %%
figure, axes = plt.subplots(figsize=(9, 2.6), layout="constrained")
low, high = 0, len(stale.graph.node)
for row, step in enumerate(found.steps):
    axes.barh(row, high - low, left=low, height=0.7, color="0.88")
    axes.plot(step.cut, row, "o", color="#d55e00" if step.drift.bad else "#0072b2", ms=8)
    low, high = (low, step.cut) if step.drift.bad else (step.cut, high)
axes.axvline(found.node + 0.5, color="0.3", lw=1, ls="--")
axes.set(yticks=range(len(found.steps)), yticklabels=[f"run {k + 1}" for k in range(len(found.steps))])
axes.set(xlabel="nodes before the cut", xlim=(0, len(stale.graph.node) + 1))
axes.invert_yaxis()
axes.spines[["top", "right"]].set_visible(False)

# %% [markdown]
# Why the frontier and not the one value at k? Graphs have branches. A fault in the left branch leaves every value of the right one
# right, also far behind it in the list. The exercise `find_the_bug` has such graphs.
#
# ## 7. Five faults from practice
#
# A small network with the parts that faults like: attention over channels, a Resize, a convolution.


# %%
class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, x):
        features = torch.relu(self.first(x))
        weights = torch.softmax(features.mean((2, 3), keepdim=True), dim=1)
        features = torch.nn.functional.interpolate(features * weights * 8, scale_factor=(2.0, 3.0), mode="nearest")
        return self.last(features)


# %%
torch.manual_seed(1)
small = Small().eval()
x = torch.from_numpy(photos.to_nchw(photos.photo("coffee", (24, 32))))
reference = export(small, (x,), dynamo=False)
print([node.op_type for node in reference.graph.node if node.op_type != "Constant"])


def node_of(model, op_type):
    return next(node for node in model.graph.node if node.op_type == op_type)


def report(broken, reference=reference, **options):
    found = bisect(broken, reference, x, **options)
    print(f"{found.suspects}, {found.runs} runs\n  {found.drift.reason}", *found.details, sep="\n  ")
    return found


# %% [markdown]
# **A wrong axis.** Softmax over axis 1 weighs the channels. Over axis 2, which has one element here, everything becomes 1.

# %%
broken = copy.deepcopy(reference)
next(entry for entry in node_of(broken, "Softmax").attribute if entry.name == "axis").i = 2
found = report(broken)
assert "Softmax" in found.suspects[-1]

# %% [markdown]
# **A stale constant.** One number of the last convolution's bias was not updated.

# %%
broken = copy.deepcopy(reference)
tensor = next(entry for entry in broken.graph.initializer if entry.name == "last.bias")
tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) + np.float32([0, 0.25, 0]), "last.bias"))
found = report(broken)
assert "last.bias" in found.details[0]

# %% [markdown]
# **A swapped scale.** Height times 3 and width times 2, where it was the other way round. The shape tells it, and the model still runs.

# %%
broken = copy.deepcopy(reference)
resize = node_of(broken, "Resize")
constant = next(node for node in broken.graph.node if resize.input[2] in node.output)
constant.attribute[0].t.CopyFrom(numpy_helper.from_array(np.float32([1, 1, 3, 2])))
found = report(broken)
assert "Constant" in found.suspects[-1]

# %% [markdown]
# **A double Cast.** A tool inserted `Cast` to an integer type and back, and cut off everything behind the decimal point. The two new nodes
# have no partner in the reference, so `bisect` first runs both models once with all values, to match them. It names the new nodes,
# and the first value with a partner that is wrong.


# %%
def insert(model, name, nodes):
    """Insert nodes behind the value ``name``; the last one's output goes to its readers."""
    made = copy.deepcopy(model)
    place = next(k for k, node in enumerate(made.graph.node) if name in node.output) + 1
    for node in made.graph.node[place:]:
        node.input[:] = [nodes[-1].output[0] if entry == name else entry for entry in node.input]
    everything = [*made.graph.node[:place], *nodes, *made.graph.node[place:]]
    del made.graph.node[:]
    made.graph.node.extend(everything)
    return made


features = node_of(reference, "Relu").output[0]
there = helper.make_node("Cast", [features], ["as_int"], "to_int", to=TensorProto.INT32)
back = helper.make_node("Cast", ["as_int"], ["as_float"], "to_float", to=TensorProto.FLOAT)
found = report(insert(reference, features, [there, back]))
assert "Cast 'to_int'" in found.suspects

# %% [markdown]
# **An overflow in float16.** The largest float16 is 65504. Here a tool moved a scale in front of a part that runs in float16. Among the
# suspects, `tap` shows where the infinities begin; the mean of an infinity makes the NaN behind them.

# %%
big = helper.make_node("Constant", [], ["big"], "big", value=numpy_helper.from_array(np.float32(2e6)))
grow = helper.make_node("Mul", [features, "big"], ["grown"], "grow")
there = helper.make_node("Cast", ["grown"], ["half"], "to_half", to=TensorProto.FLOAT16)
back = helper.make_node("Cast", ["half"], ["wide"], "to_float", to=TensorProto.FLOAT)
shrunk = helper.make_node("Div", ["wide", "big"], ["shrunk"], "shrink")
overflowing = insert(reference, features, [big, grow, there, back, shrunk])
found = report(overflowing)
inside = tap(overflowing, ["grown", "half"])(x)
print("infinities:", {name: bool(np.isinf(array).any()) for name, array in inside.items()})
assert "Cast 'to_half'" in found.suspects and np.isinf(inside["half"]).any()

# %% [markdown]
# Now you. The reference runs on a phone, and you may look twelve times.

# %%
lab.check("find_the_bug")

# %% [markdown]
# ## 8. Replace: other nodes in the place of some
#
# The fault is found, or a group of nodes should become one that is faster. Surgery is short, and it has three traps. Take
# `3a + 2b`, written as three nodes, and put `oplab::MyAdd` there by hand.

# %%
numbers = [numpy_helper.from_array(np.float32(value), name) for value, name in ((3, "three"), (2, "two"))]
graph = helper.make_graph(
    [
        helper.make_node("Mul", ["a", "three"], ["a3"]),
        helper.make_node("Mul", ["b", "two"], ["b2"]),
        helper.make_node("Add", ["a3", "b2"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["y"]),
    ],
    "before",
    two,
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
    numbers,
)
before = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
before = onnx.shape_inference.infer_shapes(before)

# %% [markdown]
# **Trap 1: the order.** The new node goes to the end of the list, because `append` is at hand.

# %%
after = copy.deepcopy(before)
del after.graph.node[:3]
after.graph.node.append(helper.make_node("MyAdd", ["a", "b"], ["sum"], domain="oplab", alpha=3.0, beta=2.0))
with raises(onnx.checker.ValidationError, "Nodes in a graph must be topologically sorted"):
    onnx.checker.check_model(after)

# %% [markdown]
# **Trap 2: the import.** The node stands in the right place now. A model has to say which version of each domain it uses. The checker
# insists on it. ONNX Runtime does not for a custom domain: it takes the newest version that a library has, which may be another one
# tomorrow.

# %%
nodes = [after.graph.node[1], after.graph.node[0]]
after.graph.ClearField("node")
after.graph.node.extend(nodes)
with raises(onnx.checker.ValidationError, "No opset import for domain 'oplab'"):
    onnx.checker.check_model(after)
print("ONNX Runtime:", session(after).run(None, {"a": np.float32([1]), "b": np.float32([2])})[0])

# %% [markdown]
# **Trap 3: what the file still says about the old nodes.** `value_info` is what the file tells about shapes and dtypes inside. Here are
# the entries of two values that no longer exist. The checker and ONNX Runtime do not mind.

# %%
after.opset_import.append(helper.make_opsetid("oplab", 1))
onnx.checker.check_model(after)
print("value_info speaks of:", [value.name for value in after.graph.value_info])
print("initialisers:", [tensor.name for tensor in after.graph.initializer])

# %% [markdown]
# They do mind when such an entry is about a value that still exists. Change the dtype of what the piece computes, and the old entry
# contradicts it.

# %%
half = copy.deepcopy(before)
half.graph.node[2].CopyFrom(helper.make_node("Cast", ["a3"], ["sum"], to=TensorProto.DOUBLE))
half.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
with raises((Fail, InvalidGraph), "does not match expected type"):
    ort.InferenceSession(half.SerializeToString())

# %% [markdown]
# `oplab.debug.replace` does all of it: the piece is named by the values at its borders.

# %%
fused = replace(before, ["a", "b"], ["sum"], helper.make_node("MyAdd", ["a", "b"], ["sum"], domain="oplab"))
onnx.checker.check_model(fused)
feeds = {"a": np.float32([1, -2]), "b": np.float32([3, 1])}
print([session(model).run(None, feeds)[0].tolist() for model in (before, fused)])
lab.show(before, fused)

# %% [markdown]
# A value that others still read stays. The new piece can also be a whole model. To *insert* a node, put a piece with one node more in
# the place of another: here the last node, an `Add`, becomes `Add` and `Clip`, and the photo stays between 0 and 1.

# %%
piece = helper.make_graph(
    [
        helper.make_node("Add", ["photo", "detail"], ["sum"]),
        helper.make_node("Clip", ["sum", "low", "high"], ["clipped"]),
    ],
    "add_and_clip",
    [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("photo", "detail")],
    [helper.make_tensor_value_info("clipped", TensorProto.FLOAT, None)],
    [numpy_helper.from_array(np.float32(value), name) for value, name in ((0, "low"), (1, "high"))],
)
last = good.graph.node[-1]
print("the last node:", last.op_type, list(last.input))
clipped = replace(good, list(last.input), ["y"], helper.make_model(piece, opset_imports=good.opset_import))
result = session(clipped).run(None, {"x": blurred.numpy()})[0]
print("range", [round(float(value), 2) for value in (result.min(), result.max())])
assert np.allclose(result, np.clip(right, 0, 1), atol=1e-6)

# %% [markdown]
# The last exercise does it for every group in a graph, and leaves alone what only looks like one.

# %%
lab.check("replace_subgraph")

# %% [markdown]
# ## 9. Limits
#
# - `bisect` finds faults that reach an output **on your inputs**. A fault in a branch that an `If` does not take stays hidden; try inputs
#   of several kinds.
# - Two faults: you get the first one. Mend it and search again.
# - Values in the bodies of `If`, `Loop` and `Scan` are not compared. The node is, as a whole.
# - These tools switch off ONNX Runtime's own graph optimisations, so that each node computes what the file says. If the fault is gone
#   then, one of these optimisations makes it, and `SessionOptions.graph_optimization_level` is your next question.
# - For patterns in large graphs there are rewriters: `onnxscript.rewriter` matches a pattern that you write as a function.
#
# On the command line: `oplab debug bisect after.onnx before.onnx --inputs x.npz`, and `tap` and `extract` beside it.
#
# ## What to read next
#
# - `docs/debug.md` in this repository: how the tools match and measure.
# - ONNX: `docs/IR.md` on value_info, names and the order of nodes.
# - D. Goldberg, "What Every Computer Scientist Should Know About Floating-Point Arithmetic", ACM Computing Surveys 1991: why two right
#   programs differ.
# - Chapter 16 uses all of this on two models that you take from PyTorch to a C++ program.
