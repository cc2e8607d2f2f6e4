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
# - decide how far a model may differ from its reference, and measure the difference;
# - inspect every value inside a model, and find the first wrong node among hundreds;
# - cut a model, replace some of its nodes, and keep the file consistent.
#
# ## 1. The failure: a valid file, a wrong photo
#
# You have exported SRCNN, which sharpens photos. A colleague has a file of the same network, and it does not sharpen as well.

# %%
import copy

import matplotlib.pyplot as plt
import numpy as np
import onnx
import torch
from onnx import numpy_helper

from oplab import lesson, quiet_exports, session
from oplab.nets import photos
from oplab.nets.srcnn import enlarge, load_srcnn, shrink

lab = lesson("15_surgery_and_debugging")
quiet_exports()
net = load_srcnn()
photo = torch.from_numpy(photos.to_nchw(photos.photo("chelsea", (150, 224))))
blurred = enlarge(shrink(photo, 2), 2)
names = {"input_names": ["x"], "output_names": ["y"]}
good = torch.onnx.export(net, (blurred,), dynamo=True, verbose=False, **names).model_proto

bad = copy.deepcopy(good)  # the colleague's file
for tensor in bad.graph.initializer:
    if (
        tensor.name == "rgb_to_y"
    ):  # the weights of R, G and B in the brightness: 0.299, 0.587, 0.114
        ones = np.full((1, 3, 1, 1), 1.0, np.float32)
        tensor.CopyFrom(numpy_helper.from_array(ones, tensor.name))
onnx.checker.check_model(bad, full_check=True)
right, wrong = (session(model).run(None, {"x": blurred.numpy()})[0] for model in (good, bad))

figure, axes = plt.subplots(1, 3, figsize=(11, 2.7), layout="constrained")
for place, (title, image) in enumerate({"yours": right, "the colleague's": wrong}.items()):
    axes[place].imshow(np.clip(photos.to_image(image), 0, 1))
    axes[place].set_title(title, fontsize=11)
gap = axes[2].imshow(np.abs(right - wrong)[0].max(0) * 255, cmap="magma", vmin=0, vmax=40)
axes[2].set_title("difference", fontsize=11)
figure.colorbar(gap, ax=axes[2], shrink=0.8, label="grey levels of 255")
for place in axes:
    place.axis("off")
lab.figure(
    figure,
    "The photo of a cat from your file, the same photo from the colleague's file, which is not "
    "as sharp, and their difference: up to 40 grey levels along the edges.",
)

# %% [markdown]
# The checker accepts the file, because every message in it is well formed. ONNX Runtime runs it. Only the numbers are wrong. This
# raises two questions: **how large a difference is an error**, and **which node causes it**?
#
# ## 2. How to compare two models
#
# You export a model, compare the outputs, and get a number. Is this number acceptable? Look at three of them.

# %%
with torch.no_grad():
    expected = net(blurred).numpy()
    exact = net.double()(blurred.double()).numpy()
net.float()
for name, array in {
    "ONNX Runtime": right,
    "the colleague's file": wrong,
    "float64": exact,
}.items():
    gap = np.abs(array - expected).max()
    size = "below 1e-5" if gap < 1e-5 else f"{gap:.1f}"
    print(f"{name:21} largest difference from PyTorch: {size}, not 0: {gap > 0}")

# %% [markdown]
# The third line is the important one. The same network in float64 does not give the same result as in float32 either. float32
# keeps 24 binary digits, about seven decimal digits. Each operation rounds its result, and a convolution adds hundreds of
# products. **A difference of the size of the rounding error is not a fault.** Two correct programs that add in a different order
# differ by as much.
#
# So a comparison needs a tolerance, and the tolerance needs a reason:
#
# | what | why |
# |---|---|
# | relative to the magnitude | 1e-4 is negligible for values near 1000, and huge for values near 1e-5 |
# | by dtype | float16 keeps three decimal digits, float32 seven |
# | by depth | rounding errors add up from layer to layer |
# | exact for integers and bool | an index that is off by one is wrong |
# | shape, dtype and NaN first | NumPy broadcasts shapes that differ, and a comparison such as `NaN > 1e-3` is false |
#
# Hand-written comparisons fail at the last row. Neither of these finds a difference:

# %%
left, right_shape = np.ones((2, 3), np.float32), np.ones((1, 3), np.float32)
with_nan = np.array([1, np.nan, 1], np.float32)
print("shapes [2, 3] and [1, 3]:", np.abs(left - right_shape).max())
print("a NaN is larger than 1e-3:", bool(np.abs(with_nan - 1).max() > 1e-3))

# %% [markdown]
# `oplab.debug.drift` makes these checks in the right order. Its error is the largest difference, divided by the largest finite
# magnitude that is expected. The tolerance depends on the dtype: 1e-3 for a float32 value deep inside a model.

# %%
from oplab.debug import drift

for name, array in {
    "ONNX Runtime": right,
    "the colleague's file": wrong,
    "a float16 copy": expected.astype(np.float16),
    "one row missing": expected[:, :, 1:],
}.items():
    found = drift(expected, array)
    verdict = "wrong" if found.bad else "right"
    print(f"{name:21} {verdict}  allowed {found.tolerance:.0e}  {found.reason}")

# %% [markdown]
# ## 3. Cut: extract_model, and its classic mistake
#
# Which node causes the difference? The old way is to cut the model in two and compare the halves. `onnx.utils.extract_model` cuts
# a model: it takes a file, the names of inputs, and the names of outputs. Here is the graph, with names.

# %%
lab.show(good)

# %% [markdown]
# Take the part after the first convolution.

# %%
folder = lab.fresh("cut")
onnx.save(good, folder / "whole.onnx")
first = next(node for node in good.graph.node if node.op_type == "Conv")
activation = next(node for node in good.graph.node if node.input[0] == first.output[0])
try:
    paths = folder / "whole.onnx", folder / "part.onnx"
    onnx.utils.extract_model(*paths, [first.output[0]], ["y"])
except Exception as error:
    print(type(error).__name__, "-", str(error).splitlines()[0])
    failed = error
assert "x" in str(failed)

# %% [markdown]
# It fails because of the classic mistake. The last node adds the photo itself to the detail, so `y` also needs `x`. A cut is a
# line through the graph, and **every edge that the line crosses has to be named**.

# %%
onnx.utils.extract_model(*paths, [first.output[0], "x"], ["y"])
print([node.op_type for node in onnx.load(folder / "part.onnx").graph.node])

# %% [markdown]
# `oplab.debug.extract` works on a model in memory. Its error message names the missing input and the node that reads it.

# %%
from oplab import raises
from oplab.debug import extract
from oplab.errors import OplabError

with raises(OplabError, "'x' (read by"):
    extract(good, [first.output[0]], ["y"])
part = extract(good, [first.output[0], "x"], ["y"])
print(
    [node.op_type for node in part.graph.node],
    "from",
    [value.name for value in part.graph.input],
)

# %% [markdown]
# In the exercise [`extract`](../exercises/c15_surgery_and_debugging.py#line=45) you write this function yourself.

# %%
lab.check("extract")

# %% [markdown]
# ## 4. Tap: look at a value without a cut
#
# To run a part, you need the values of its inputs, and you do not have them. There is a shorter way. Any value inside the graph
# can become an *output*: append its name to the graph's outputs. A type is not needed, because ONNX Runtime infers it.

# %%
tapped = copy.deepcopy(good)
tapped.graph.output.append(onnx.ValueInfoProto(name=first.output[0]))
values = session(tapped).run(None, {"x": blurred.numpy()})
print([list(value.shape) for value in values])

# %% [markdown]
# `tap` does this for all values at once, or for those that you name. It also works after operators that ONNX does not know: here
# is an operator of the course, whose result has no type in the file.

# %%
from onnx import TensorProto, helper

from oplab.debug import tap

two = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "ab"]
custom = helper.make_graph(
    [
        helper.make_node("MyAdd", ["a", "b"], ["sum"], domain="oplab"),
        helper.make_node("Sqrt", ["sum"], ["y"]),
    ],
    "custom",
    two,
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
)
opsets = [helper.make_opsetid("", 20), helper.make_opsetid("oplab", 1)]
custom = helper.make_model(custom, opset_imports=opsets, ir_version=10)
print(tap(custom)({"a": np.float32([1, 2]), "b": np.float32([3, 5])}))

# %% [markdown]
# With all values available, compare the two files node by node and take the first node that differs. For a short model this is the
# whole method.

# %%
healthy, sick = tap(good)(blurred), tap(bad)(blurred)
for node in good.graph.node:
    name = node.output[0]
    found = drift(healthy[name], sick[name])
    print(f"{node.op_type:12} {name:14} {'WRONG' if found.bad else 'right'}")

# %% [markdown]
# ## 5. Against PyTorch, layer by layer
#
# Often there is no correct file, only the PyTorch module and an export that differs. Then the values have different names on the
# two sides: `layer1.0.relu` in the module, `relu_1` in the file. `compare_layers` records the values of PyTorch operator by
# operator, taps the model, and matches the values in order, by kind, by shape and, above all, by value. Take a ResNet-18 with
# random weights, exported over both paths.

# %%
import io

import torchvision

from oplab.debug import compare_layers


def export(module, inputs, dynamo=True):
    """A model in one piece, on the path that is asked for."""
    if dynamo:
        return torch.onnx.export(
            module, inputs, dynamo=True, verbose=False, **names
        ).model_proto
    buffer = io.BytesIO()
    torch.onnx.export(module, inputs, buffer, dynamo=False, **names)
    return onnx.load_model_from_string(buffer.getvalue())


torch.manual_seed(0)
resnet = torchvision.models.resnet18(weights=None).eval()
for weights in resnet.parameters():  # the last digits of torch.randn depend on the processor
    weights.data = (weights.data * 1024).round() / 1024
image = torch.rand(1, 3, 96, 96)
models = {
    "dynamo path": export(resnet, (image,)),
    "TorchScript path": export(resnet, (image,), dynamo=False),
}
for path, model in models.items():
    layers = compare_layers(resnet, model, image)
    kinds = [row.node.split()[0] for row in layers.rows]
    matched = f"{kinds.count('Conv')} Conv and {kinds.count('Relu')} Relu matched"
    print(f"{path:17} {matched}, drifts: {layers.first_bad}")

# %% [markdown]
# Exporters do not keep every layer. Both paths fold a BatchNorm into the convolution before it, so a `Conv` of the file
# corresponds to two layers of PyTorch:

# %%
print([row.layer for row in layers.rows if "Conv" in row.node][:2])

# %% [markdown]
# Now add a fault: the weights of one convolution come from an older training step. The errors rise at this convolution and
# remain.

# %%
stale = copy.deepcopy(models["dynamo path"])
sixth = [node for node in stale.graph.node if node.op_type == "Conv"][5]
tensor = next(entry for entry in stale.graph.initializer if entry.name == sixth.input[1])
step = np.random.default_rng(0).normal(0, 0.01, tuple(tensor.dims)).astype(np.float32)
older = numpy_helper.to_array(tensor) + step
tensor.CopyFrom(numpy_helper.from_array(older, tensor.name))
layers = compare_layers(resnet, stale, image)
print("first:", layers.first_bad.layer, "=", layers.first_bad.node)
assert layers.first_bad.value == sixth.output[0]

# %%
lab.figure(
    layers.figure("Error along the graph of ResNet-18, one convolution with older weights"),
    "The error of each value in the order of the graph: near 1e-6 up to the sixth convolution, "
    "above the tolerance of 1e-3 from there to the end.",
)

# %% [markdown]
# ## 6. Bisect: the first wrong node in a few runs
#
# Keeping all values of a large model takes memory, and on a device you may be able to read only a few values. You do not need all
# of them. The nodes of a graph are a list in topological order: each node comes after the nodes whose outputs it reads. After the
# first k nodes, some values are still needed: by a later node, or as an output. These values are the **frontier**. The first k
# nodes affect the result only through the frontier. So:
#
# - a fault among the first k nodes that reaches the output is visible in the frontier after k;
# - if the fault comes later, the frontier is right.
#
# One comparison shows on which side of k the fault is. Halve the list each time, and nine comparisons find one node among 300.

# %%
from oplab.debug import bisect

found = bisect(stale, models["dynamo path"], image)
print(found)
assert stale.graph.node[found.node].name == sixth.name

# %% [markdown]
# In the figure, each row is one comparison: a blue dot if the frontier is right, an orange cross if it is wrong. The grey bar
# covers the nodes that may still contain the fault.

# %% {"jupyter": {"source_hidden": true}}
from oplab.figures.palette import BLUE, GREY, ORANGE

figure, axes = plt.subplots(figsize=(9, 2.6), layout="constrained")
low, high = 0, len(stale.graph.node)
for row, step in enumerate(found.steps):
    axes.barh(row, high - low, left=low, height=0.7, color=GREY, alpha=0.35)
    mark, colour = ("X", ORANGE) if step.drift.bad else ("o", BLUE)
    axes.plot(step.cut, row, mark, color=colour, ms=8)
    low, high = (low, step.cut) if step.drift.bad else (step.cut, high)
axes.axvline(found.node + 0.5, color=GREY, lw=1, ls="--")
runs = range(len(found.steps))
axes.set(yticks=runs, yticklabels=[f"run {k + 1}" for k in runs])
axes.set(xlabel="nodes before the cut", xlim=(0, len(stale.graph.node) + 1))
axes.invert_yaxis()
axes.spines[["top", "right"]].set_visible(False)
lab.figure(
    figure,
    "One row for each run. The grey bar of nodes that may contain the fault is halved from row "
    "to row, and ends at the dashed line, the node with the older weights.",
)

# %% [markdown]
# Why compare the frontier and not only the value at k? Graphs have branches. A fault in the left branch leaves every value of the
# right branch correct, even far later in the list. The exercise `find_the_bug` has such graphs.
#
# ## 7. Five faults from practice
#
# The examples use a small network with parts that are often faulty: attention over channels, a Resize, a convolution.


# %%
class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.last = torch.nn.Conv2d(8, 3, 3, padding=1)

    def forward(self, x):
        features = torch.relu(self.first(x))
        weights = torch.softmax(features.mean((2, 3), keepdim=True), dim=1)
        features = features * weights * 8
        features = torch.nn.functional.interpolate(features, scale_factor=(2.0, 3.0))
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
    print(
        f"{found.suspects}, {found.runs} runs\n  {found.drift.reason}",
        *found.details,
        sep="\n  ",
    )
    return found


# %% [markdown]
# **A wrong axis.** Softmax over axis 1 weights the channels. Over axis 2, which has one element here, every weight becomes 1.

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
bias = numpy_helper.to_array(tensor) + np.float32([0, 0.25, 0])
tensor.CopyFrom(numpy_helper.from_array(bias, "last.bias"))
found = report(broken)
assert "last.bias" in found.details[0]

# %% [markdown]
# **A swapped scale.** The height is scaled by 3 and the width by 2, instead of the reverse. The shape reveals this, but the model
# still runs.

# %%
broken = copy.deepcopy(reference)
resize = node_of(broken, "Resize")
constant = next(node for node in broken.graph.node if resize.input[2] in node.output)
constant.attribute[0].t.CopyFrom(numpy_helper.from_array(np.float32([1, 1, 3, 2])))
found = report(broken)
assert "Constant" in found.suspects[-1]

# %% [markdown]
# **A double Cast.** A tool inserted a `Cast` to an integer type and a `Cast` back, and so removed everything after the decimal
# point. The two new nodes have no partner in the reference, so `bisect` first runs both models once with all values, to match
# them. It names the new nodes, and a wrong value after them that has a partner.


# %%
def insert(model, name, nodes):
    """Insert nodes after the value ``name``; the last one's output goes to its readers."""
    made = copy.deepcopy(model)
    place = next(k for k, node in enumerate(made.graph.node) if name in node.output) + 1
    for node in made.graph.node[place:]:
        node.input[:] = [
            nodes[-1].output[0] if entry == name else entry for entry in node.input
        ]
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
# **An overflow in float16.** The largest float16 is 65504. Here a tool moved a scale to a place before a part that runs in
# float16. Among the suspects, `tap` shows where the infinities begin.

# %%
number = numpy_helper.from_array(np.float32(2e6))
big = helper.make_node("Constant", [], ["big"], "big", value=number)
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
# ## 8. Limits
#
# - `bisect` finds faults that reach an output **on your inputs**. A fault in a branch that an `If` does not take stays hidden; try inputs
#   of several kinds.
# - If there are two faults, you get the first one. Fix it and search again.
# - Values in the bodies of `If`, `Loop` and `Scan` are not compared. The node as a whole is compared.
# - These tools disable ONNX Runtime's own graph optimisations, so that each node computes what the file specifies. If the fault
#   disappears, one of these optimisations causes it, and the next setting to look at is
#   `SessionOptions.graph_optimization_level`.
# - For patterns in large graphs there are rewriters: `onnxscript.rewriter` matches a pattern that you write as a function.
#
# On the command line, use `oplab debug bisect after.onnx before.onnx --inputs x.npz`. `oplab debug` also has `tap` and `extract`.

# %% [markdown]
# ## 9. Exercise: find the bug
#
# The reference runs on a phone, and you may call `compare` twelve times:
# [`find_the_bug`](../exercises/c15_surgery_and_debugging.py#line=79). (`extract` was in section 3. The third exercise of this chapter
# is in the section about replacing nodes, below.)

# %%
lab.check("find_the_bug")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Replace: new nodes instead of old ones
#
# You have found the fault, or you want to replace a group of nodes by one faster node. Graph surgery takes little code, but it
# has three traps. Take `3a + 2b`, written as three nodes, and replace them by hand with one `oplab::MyAdd`.

# %%
from oplab.debug import replace

factors = {"three": 3, "two": 2}
numbers = [numpy_helper.from_array(np.float32(value), name) for name, value in factors.items()]
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
# **Trap 1: the order.** The new node goes to the end of the list, because `append` is convenient.

# %%
after = copy.deepcopy(before)
del after.graph.node[:3]
one = helper.make_node("MyAdd", ["a", "b"], ["sum"], domain="oplab", alpha=3.0, beta=2.0)
after.graph.node.append(one)
with raises(onnx.checker.ValidationError, "Nodes in a graph must be topologically sorted"):
    onnx.checker.check_model(after)

# %% [markdown]
# **Trap 2: the import.** Now the node is in the right place. A model has to declare which version of each domain it uses. The
# checker requires this. ONNX Runtime does not require it for a custom domain: it takes the newest version that a library has,
# which may be a different one tomorrow.

# %%
nodes = [after.graph.node[1], after.graph.node[0]]
after.graph.ClearField("node")
after.graph.node.extend(nodes)
with raises(onnx.checker.ValidationError, "No opset import for domain 'oplab'"):
    onnx.checker.check_model(after)
print(
    "ONNX Runtime:", session(after).run(None, {"a": np.float32([1]), "b": np.float32([2])})[0]
)

# %% [markdown]
# **Trap 3: what the file still contains about the old nodes.** `value_info` records the shapes and dtypes of the values inside.
# Its entries for two values that no longer exist are still there, and so are the factors 3 and 2. The checker reports none of it.

# %%
after.opset_import.append(helper.make_opsetid("oplab", 1))
onnx.checker.check_model(after)
print("value_info speaks of:", [value.name for value in after.graph.value_info])
print("initialisers:", [tensor.name for tensor in after.graph.initializer])

# %% [markdown]
# An old entry does cause an error if its value still exists. Change the dtype of `sum`: now the old entry contradicts it, and
# the model does not load.

# %%
half = copy.deepcopy(before)
half.graph.node[2].CopyFrom(helper.make_node("Cast", ["a3"], ["sum"], to=TensorProto.DOUBLE))
half.graph.output[0].type.tensor_type.elem_type = TensorProto.DOUBLE
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph

with raises((Fail, InvalidGraph), "does not match expected type"):
    ort.InferenceSession(half.SerializeToString())

# %% [markdown]
# `oplab.debug.replace` avoids all three traps. You specify the piece to be replaced by the values at its borders.

# %%
node = helper.make_node("MyAdd", ["a", "b"], ["sum"], domain="oplab")
fused = replace(before, ["a", "b"], ["sum"], node)
onnx.checker.check_model(fused)
feeds = {"a": np.float32([1, -2]), "b": np.float32([3, 1])}
print([session(model).run(None, feeds)[0].tolist() for model in (before, fused)])
lab.show(before, fused)

# %% [markdown]
# A value that other nodes still read is kept. The new piece can also be a whole model. To *insert* a node, replace a piece by one
# with one more node: here the last node, an `Add`, becomes `Add` and `Clip`, and the photo stays between 0 and 1.

# %%
piece = helper.make_graph(
    [
        helper.make_node("Add", ["photo", "detail"], ["sum"]),
        helper.make_node("Clip", ["sum", "low", "high"], ["clipped"]),
    ],
    "add_and_clip",
    [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        for name in ("photo", "detail")
    ],
    [helper.make_tensor_value_info("clipped", TensorProto.FLOAT, None)],
    [
        numpy_helper.from_array(np.float32(value), name)
        for name, value in {"low": 0, "high": 1}.items()
    ],
)
last = good.graph.node[-1]
print("the last node:", last.op_type, list(last.input))
piece = helper.make_model(piece, opset_imports=good.opset_import)
clipped = replace(good, list(last.input), ["y"], piece)
result = session(clipped).run(None, {"x": blurred.numpy()})[0]
print("range", [round(float(value), 2) for value in (result.min(), result.max())])
assert np.allclose(result, np.clip(right, 0, 1), atol=1e-6)

# %% [markdown]
# In the exercise [`replace_subgraph`](../exercises/c15_surgery_and_debugging.py#line=115) you do this for
# every group in a graph, and keep the nodes that only look like a group.

# %%
lab.check("replace_subgraph")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Why engines differ
#
# An ONNX file says what is computed, and each engine decides how. Two engines that are both right differ in their last digits
# (section 2). Sometimes they differ in more than that. Here are two models of one standard node each, in ONNX Runtime and in
# `onnx.reference`.


# %%
from onnx.reference import ReferenceEvaluator


def in_two_engines(op, x, **attributes):
    """One node of the standard domain on x: ONNX Runtime's and the reference's result."""
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node(op, ["x"], ["y"], **attributes)
    graph = helper.make_graph([node], op, [value], [result])
    opsets = [helper.make_opsetid("", 20)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    engines = {"ONNX Runtime": session(model), "onnx.reference": ReferenceEvaluator(model)}
    return {name: engine.run(None, {"x": x})[0] for name, engine in engines.items()}


nothing = in_two_engines("ReduceMean", np.zeros(0, np.float32), keepdims=0)
for name, mean in nothing.items():
    print(f"the mean of nothing       {name:15} {mean}")
five = np.arange(1, 6, dtype=np.float32).reshape(1, 1, 5)
pooled = in_two_engines("LpPool", five, kernel_shape=[2], strides=[2], ceil_mode=1)
for name, norms in pooled.items():
    print(f"norms of 1 2 | 3 4 | 5    {name:15} {np.round(norms.ravel(), 2)}")

# %% [markdown]
# For each difference there are three questions: what does the definition say, which engine does it, and does your model need it?

# %%
for op in ("ReduceMean", "LpPool"):
    doc = " ".join(onnx.defs.get_schema(op, 20).doc.split())
    print(f"{op}: … {doc[-120:]}" if op == "ReduceMean" else f"{op}: {doc[:120]} …")
last = np.linalg.norm(five.ravel()[4:])
print("the norm of the last window, 5 alone:", last)
assert pooled["ONNX Runtime"].ravel()[-1] == last != pooled["onnx.reference"].ravel()[-1]
assert nothing["ONNX Runtime"] == 0 and np.isnan(nothing["onnx.reference"])

# %% [markdown]
# - **The definition leaves it open.** The mean of an empty set is undefined, so 0 and NaN are both allowed. If a batch of your model may
#   be empty, test this case in the engine that you deliver to, or keep it out of the model.
# - **An engine is wrong.** The last window has one element, 5. ONNX Runtime is right, and the reference, in this version of `onnx`,
#   counts the 5 twice. A reference is a program, too. Before you report a bug, compute the value by hand.
# - **Rounding.** Threads, vector widths and fused nodes change the order of the additions (chapters 13 and 14).
# - **Another version of the operator.** An engine may not have the version that your file imports, or accept the file and compute an
#   older one. `Resize` and `Softmax` changed their meaning between opsets (chapters 01 and 04).
# - **What the format does not contain.** PyTorch's rounding of `nearest`, the integers that a `Cast` makes of a NaN, and the order of equal
#   values differ between engines that read the same file.
#
# This is why a deployment is compared at its borders: empty and one-element axes, equal values, NaN, sizes that do not divide.
# `oplab parity` (chapter 00) runs one file on several engines and compares all outputs.

# %% [markdown]
# ## Five questions

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - `docs/debug.md` in this repository: how the tools match and measure.
# - ONNX: `docs/IR.md` on value_info, names and the order of nodes.
# - D. Goldberg, "What Every Computer Scientist Should Know About Floating-Point Arithmetic", ACM Computing Surveys 1991: why two
#   correct programs differ.
# - Chapter 16 takes two models from PyTorch to a C++ program; if your results there differ, use these tools.
#
# Previous: [14: Fast kernels](14_fast_kernels.ipynb)
# · Next: [16: Capstone](16_capstone.ipynb)
# · [Glossary](../docs/glossary.md)
