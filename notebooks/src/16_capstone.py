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
# # 16 · Capstone
#
# After this chapter you can
#
# - take a network with an operator that neither exporter knows, and export it with both, with all sizes dynamic;
# - run it in Python and in a C++ program with a kernel that you wrote;
# - deliver evidence with it: parity, structure and latency, in one report.
#
# There are two networks. **Project one** is SRCNN with an enlargement factor that is an *input*: one file serves all factors.
# **Project two**, at the end and not needed for the report, is a classifier for point clouds, whose layers use the nearest neighbours
# of each point. This lesson does both projects with the course's operators. Then you do them with your own.

# %% [markdown]
# ## 1. Project one: the failure
#
# A camera app needs one model file and a slider. `interpolate` takes its factor as a Python number, so the first idea is to convert
# the tensor into a number. On the TorchScript path the export succeeds without an error. Look at the inputs of the file.

# %%
import io
import os

os.environ["TORCH_CPP_LOG_LEVEL"] = (
    "ERROR"  # nodes of unknown shape; chapter 08 answers the warning
)

import onnx
import torch
import torch.nn.functional as F

from oplab import lesson, ops, quiet_exports
from oplab.nets.srcnn import load_srcnn

lab = lesson("16_capstone")
quiet_exports()
ops.load()
srcnn = load_srcnn()


class Naive(torch.nn.Module):
    def forward(self, photo, factor):
        return srcnn(F.interpolate(photo, scale_factor=factor.item(), mode="bicubic"))


example = (torch.rand(2, 3, 12, 10), torch.tensor(2.0))
named = {"input_names": ["photo", "factor"], "output_names": ["y"]}
buffer = io.BytesIO()
torch.onnx.export(Naive(), example, buffer, dynamo=False, **named)
naive = onnx.load_model_from_string(buffer.getvalue())
assert len(naive.graph.input) == 1
lab.show(naive)

# %% [markdown]
# The input for the slider is missing. `.item()` returned a number, the number became a constant, and the file always enlarges by a
# factor of two.
#
# *dynamo path.* The export fails at `interpolate`: the operator needs its factor as a plain number, and here it is a symbol (chapter 03,
# section 4).

# %%
from torch.onnx._internal.exporter._errors import TorchExportError

from oplab import raises

with raises(TorchExportError, "Failed to export the model with torch.export"):
    torch.onnx.export(Naive(), example, dynamo=True, verbose=False, **named)

# %% [markdown]
# ### The parts of a project
#
# Each project has three parts, and each part is the subject of earlier chapters: an operator in PyTorch with its fake (03 and 10, in
# C++ 07), a mapping for each exporter (06 and 10), and a kernel for ONNX Runtime (12 and 13). The new task is to make all of them fit
# together.

# %% {"jupyter": {"source_hidden": true}}
from oplab.capstone.figures import parts

lab.figure(
    parts(),
    "PyTorch with the network and your operator is exported to ONNX, one file from each "
    "exporter, and ONNX Runtime loads it.",
)

# %% [markdown]
# ## 2. The fix: an operator that takes the factor as data
#
# `oplab::dynamic_resize(x, scales)` is such an operator. In the module, the factor stays a tensor throughout. The operator has a fake, in
# which height and width are new symbols from `new_dynamic_size()`. Your operator needs a fake, too (section 8 of chapter 03).


# %%
class SuperResolution(torch.nn.Module):
    """photo (N, 3, H, W), factor () -> float32 (N, 3, floor(H * factor), floor(W * factor))."""

    def __init__(self):
        super().__init__()
        self.net = srcnn

    def forward(self, photo, factor):
        scales = torch.cat([torch.ones(2), factor.expand(2)])
        return self.net(torch.ops.oplab.dynamic_resize(photo, scales))


super_resolution = SuperResolution().eval()

# %% [markdown]
# *TorchScript path.* A symbolic function is registered under the operator's name. The batch size and the channels are those of `x`; height
# and width depend on data, so they stay dynamic.


# %%
from torch.onnx import register_custom_op_symbolic


def to_resize(g, x, scales):
    batch, channels, _, _ = x.type().varyingSizes()
    result = x.type().with_sizes([batch, channels, None, None])
    return g.op("oplab::DynamicResize", x, scales).setType(result)


register_custom_op_symbolic("oplab::dynamic_resize", to_resize, 9)

# %% [markdown]
# *dynamo path.* The translation is a typed onnxscript function. onnxscript looks up its types in the module's globals, so `FLOAT` is
# imported at the top of the file and not inside a function.

# %%
from onnxscript import FLOAT, script
from onnxscript.values import Opset

oplab_1 = Opset("oplab", 1)


@script(oplab_1)
def resize_translation(x: FLOAT[...], scales: FLOAT[...]) -> FLOAT[...]:
    return oplab_1.DynamicResize(x, scales)


# %% [markdown]
# One function does both exports, because both projects need it. `external_data=False` keeps the weights in the file (chapter 00).


# %%
def deliver(module, inputs, names, axes, table, opset):
    """The folder with both files: torchscript.onnx and dynamo.onnx."""
    folder = lab.fresh(type(module).__name__)
    both = {"input_names": names[:-1], "output_names": names[-1:]}
    old = {"dynamo": False, "opset_version": opset, "dynamic_axes": axes}
    torch.onnx.export(module, inputs, folder / "torchscript.onnx", **old, **both)
    shapes = {name: axes.get(name, {}) for name in names[:-1]}
    new = {"dynamo": True, "verbose": False, "external_data": False}
    new["dynamic_shapes"] = shapes
    new["custom_translation_table"] = table
    torch.onnx.export(module, inputs, folder / "dynamo.onnx", **new, **both)
    return folder


# %%
photo_axes = {"photo": {0: "batch", 2: "height", 3: "width"}}
table = {torch.ops.oplab.dynamic_resize.default: resize_translation}
one = deliver(super_resolution, example, ["photo", "factor", "y"], photo_axes, table, 17)
for file in ("torchscript.onnx", "dynamo.onnx"):
    model = onnx.load(one / file)
    custom = [f"{node.domain}::{node.op_type}" for node in model.graph.node if node.domain]
    inputs = [value.name for value in model.graph.input]
    print(f"{file:17} inputs {inputs}  custom nodes {custom}")
    assert inputs == ["photo", "factor"]

# %%
lab.show(one / "torchscript.onnx", one / "dynamo.onnx")

# %% [markdown]
# Both files contain the same network, written differently. The TorchScript path decomposes `expand` into many small nodes; the dynamo path
# writes one Expand. Both have one node `oplab::DynamicResize`, and the convolutions are the same.
#
# ## 3. The proof
#
# Compare PyTorch, ONNX Runtime and the C++ program of chapter 12, at sizes that were not exported, and at two other factors.

# %%
import numpy as np

from oplab.parity import parity

rng = np.random.default_rng(16)
tries = [(1, 20, 30, 2.0), (3, 11, 9, 2.3), (1, 8, 8, 0.5)]
cases = [
    {"photo": rng.random((n, 3, h, w), np.float32), "factor": np.array(factor, np.float32)}
    for n, h, w, factor in tries
]
within = {"float32": (1e-3, 1e-4)}
for file in ("torchscript.onnx", "dynamo.onnx"):
    backends = ("eager", "ort", "host")
    report = parity(one / file, cases, backends, module=super_resolution, tolerances=within)
    print(file)
    print(report.text(errors=False))
    report.expect(*backends)

# %% [markdown]
# One detail will also affect your kernel. A float32 of 2.3 is 2.29999995. Ten rows times this number is 23 in float32, which rounds the
# product, but 22.9999995 in double, and `floor` makes that 22. All runtimes have to multiply in the same way: in float32.

# %%
small, factor = torch.rand(1, 3, 10, 10), torch.tensor(2.3)
ours = torch.ops.oplab.dynamic_resize(small, torch.tensor([1, 1, 2.3, 2.3])).shape[2]
theirs = F.interpolate(small, scale_factor=factor.item(), mode="bicubic").shape[2]
print("dynamic_resize:", ours, "rows   interpolate:", theirs, "rows")
assert (ours, theirs) == (23, 22)

# %% [markdown]
# Here is a photo, enlarged by one file at three factors. At factor 3 the original is known, so the quality is measured, too.

# %%
import matplotlib.pyplot as plt

from oplab import session
from oplab.nets import photos
from oplab.nets.srcnn import enlarge, psnr, shrink

original = torch.from_numpy(photos.to_nchw(photos.photo("chelsea", (120, 180))))
tiny = shrink(original, 3)
run = session(one / "dynamo.onnx")
figure, axes = plt.subplots(1, 4, figsize=(11, 2.1), layout="constrained")
images = {"the input": tiny.numpy()}
for factor in (1.5, 2.2, 3.0):
    feeds = {"photo": tiny.numpy(), "factor": np.array(factor, np.float32)}
    images[f"factor {factor}"] = image = run.run(None, feeds)[0]
for place, (title, picture) in zip(axes, images.items(), strict=True):
    place.imshow(np.clip(photos.to_image(picture), 0, 1))
    place.set_title(f"{title}: {picture.shape[2]} x {picture.shape[3]}", fontsize=10)
    place.axis("off")
blurred = enlarge(tiny, 3).clamp(0, 1)
print(
    "better than bicubic at factor 3:",
    psnr(image.clip(0, 1), original) > psnr(blurred, original),
)
assert psnr(image.clip(0, 1), original) > psnr(blurred, original)
lab.figure(
    figure,
    "A photo of a cat: the small input, and the same photo enlarged by 1.5, by 2.2 and by 3.",
)

# %% [markdown]
# ## 4. Exercises
#
# Now use your own operator. Project one takes 80 minutes and has two halves: a kernel in C++ and the PyTorch side. Both follow the same
# signature, which is at the top of both files:
#
# ```
# lab::DynamicResize(x float[N, C, H, W], scales float[4]) -> y float[N, C, H', W']
# ```
#
# The grader runs your kernel on its models, and your models on its kernel, at sizes and factors that you have not exported. The
# report at the end runs your models on your kernel.
#
# [`resize_kernel`](../exercises/csrc/c16_resize_kernel.cpp#line=28): a bicubic resize in C++, as simple as you like. The grader checks
# its correctness, not its speed.

# %%
lab.check("resize_kernel")

# %% [markdown]
# [`super_resolution`](../exercises/c16_capstone.py#line=61): your operator in PyTorch, two mappings, two files.

# %%
lab.check("super_resolution")

# %% [markdown]
# ## 5. Your report
#
# The next cell compiles your kernels, exports your networks, compares PyTorch, ONNX Runtime and the C++ program, measures all of them, and
# saves a page with the models and the kernels. `oplab capstone` does the same in a terminal and prints where the page is;
# `--to DIR` saves it in another folder. Every report gets a new folder, `build/capstone/report-001` and so on; none replaces
# another. If a project is not solved or fails, the report says so and still covers the other project.

# %%
from oplab import capstone

kept = capstone.report()

# %% [markdown]
# These are the report's figures, made with your kernels. In the latency charts lower is better, and the scale is logarithmic.

# %%
from IPython.display import display

for figures in kept.figures.values() if kept else ():
    for figure, words in figures:
        display(lab.figure(figure, words))

# %% [markdown]
# This is what you deliver: two files for each network, a kernel that is one shared library, and a page that reports which results agree,
# which nodes are in the files, and how long a call takes. The recipient can run every line of it again.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Project two, a classifier of point clouds
#
# A laser scanner returns points and nothing else. `EdgeNet` predicts which of eight solids a cloud shows. Several clouds are concatenated
# into one tensor of points; `offset[i]` is the number of points in the clouds 0 to i.

# %% {"jupyter": {"source_hidden": true}}
from oplab.nets.point_clouds import SOLIDS, cloud, clouds

space = {"projection": "3d"}
figure, axes = plt.subplots(2, 4, figsize=(10, 5), subplot_kw=space, layout="constrained")
for place, name in zip(axes.flat, SOLIDS, strict=True):
    x, y, z = cloud(name, 400, rng).T
    place.scatter(x, y, z, s=4, c=z, cmap="viridis")
    place.set(xlim=(-1, 1), ylim=(-1, 1), zlim=(-1, 1))
    place.set_title(name, fontsize=11, pad=0)
    place.axis("off")
lab.figure(figure, f"Eight clouds of 400 points, one of each solid: {', '.join(SOLIDS)}.")

# %% [markdown]
# Its layers come from a known paper (*Dynamic Graph CNN*, Wang and others, 2019): a linear layer gets each point together with each of its
# 12 nearest neighbours, and the maximum over the neighbours is kept. `tools/train_edge_net.py` trained the weights in minutes on two
# cores; every training cloud was generated for the training and used once.

# %%
from oplab.nets.edge_net import NEIGHBOURS, load_edge_net

net = load_edge_net()
print(sum(parameter.numel() for parameter in net.parameters()), "parameters")
xyz, offset, label = clouds([128] * 400, np.random.default_rng(2026))
with torch.no_grad():
    called = net(torch.from_numpy(xyz), torch.from_numpy(offset)).argmax(1).numpy()
print("held-out clouds called by their names: more than 95 %:", (called == label).mean() > 0.95)
assert (called == label).mean() > 0.95

# %% [markdown]
# ### The naive attempt: all distances, and the k smallest
#
# You might think that neighbours need no new operator: subtract, square, sum, `topk`. Both exporters know these.


# %%
def naive_knn(xyz, offset, k):
    far = (xyz[:, None] - xyz[None]).square().sum(2)
    return far.topk(k, dim=1, largest=False).indices


@torch.no_grad()
def right(model, count):
    """The part of 96 clouds that is called by its name, with `count` of them in one call."""
    draw, hits = np.random.default_rng(7), []
    for _ in range(96 // count):
        xyz, offset, label = clouds([100] * count, draw)
        hits.append(
            model(torch.from_numpy(xyz), torch.from_numpy(offset)).argmax(1).numpy() == label
        )
    return np.concatenate(hits).mean()


# %%
from oplab.figures.palette import BLUE, ORANGE

together = [1, 2, 4, 8, 16]
with_topk, with_offsets = load_edge_net(naive_knn), load_edge_net()
figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
for name, model, colour, mark in (
    ("topk over all", with_topk, ORANGE, "X-"),
    ("knn_query", with_offsets, BLUE, "o-"),
):
    found = [right(model, count) for count in together]
    axes.plot(range(len(together)), np.array(found) * 100, mark, color=colour, label=name)
    alone, many = found[0] > 0.9, found[-1] > 0.9
    print(f"{name:14} alone: above 90 %: {alone}   16 together: above 90 %: {many}")
    assert (found[-1] > 0.9) == (name == "knn_query")
axes.set_xticks(range(len(together)), together)
axes.set(xlabel="clouds in one call", ylabel="accuracy, %", ylim=(0, 104))
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False)
lab.figure(
    figure,
    "Accuracy against the number of clouds in one call: knn_query stays above 90 %, topk over "
    "all points falls with each doubling.",
)

# %% [markdown]
# This fails because `topk` ignores `offset`. A test with one cloud passes. With two clouds, a point finds neighbours in the other
# cloud. Also, the table of all distances grows with the square of the number of points:

# %%
print(f"100 000 points need {100_000**2 * 3 * 4 / 1e9:.0f} GB for the differences")

# %% [markdown]
# ### The fix: a KNN node
#
# `oplab::knn_query` keeps the clouds apart, returns -1 where a cloud has too few points, and never creates a table of all distances.
# `oplab.nets.edge_net.neighbours` wraps it for the network: it replaces -1 by the row's first entry and converts int32 to int64, which
# PyTorch uses for indices. The mappings are those of chapters 08 and 13.


# %%
from onnxscript import INT32, INT64
from torch.onnx.symbolic_helper import parse_args


@parse_args("i", "v", "v", "v", "v")
def to_knn(g, nsample, xyz, offset, new_xyz, new_offset):
    idx, dist = g.op("oplab::KNNQuery", xyz, offset, nsample_i=nsample, outputs=2)
    found = xyz.type().with_sizes([xyz.type().varyingSizes()[0], nsample])
    return idx.setType(found.with_dtype(torch.int32)), dist.setType(found)


register_custom_op_symbolic("oplab::knn_query", to_knn, 9)


@script(oplab_1)
def knn_translation(
    nsample: int, xyz: FLOAT[...], offset: INT64[...]
) -> tuple[INT32[...], FLOAT[...]]:
    idx, dist = oplab_1.KNNQuery(xyz, offset, nsample=nsample)
    return idx, dist


# %% [markdown]
# *TorchScript path*: the export uses opset 18, because the maximum of each feature over a cloud becomes a ScatterElements with
# `reduction="max"`, which ONNX has had since opset 18. There is no warning at opset 17: the export, `onnx.checker` and ONNX Runtime
# accept the model, but another runtime may not.

# %%
cloud_axes = {"xyz": {0: "points"}, "offset": {0: "clouds"}}
for opset in (17, 18):
    words = onnx.defs.get_schema("ScatterElements", opset).attributes["reduction"].description
    print(f"ScatterElements of opset {opset}: {'with' if 'max' in words else 'without'} max")
    assert ("max" in words) == (opset == 18)
table = {torch.ops.oplab.knn_query.default: knn_translation}
example = (torch.rand(60, 3), torch.tensor([25, 60]))
two = deliver(net, example, ["xyz", "offset", "logits"], cloud_axes, table, 18)
for file in ("torchscript.onnx", "dynamo.onnx"):
    model = onnx.load(two / file)
    dims = [value.type.tensor_type.shape.dim for value in model.graph.input]
    shapes = [[dim.dim_param or dim.dim_value for dim in shape] for shape in dims]
    (node,) = [node for node in model.graph.node if node.domain == "oplab"]
    print(f"{file:17} {shapes}  {node.op_type}, nsample {node.attribute[0].i}")
    assert shapes == [["points", 3], ["clouds"]] and node.attribute[0].i == NEIGHBOURS

# %%
lab.show(two / "dynamo.onnx")

# %% [markdown]
# ### The proof
#
# First compare the numbers, for clouds of other sizes, one of them smaller than k.

# %%
cases = []
for sizes in ([100], [5, 300, 64], [80] * 8):
    points, ends, _ = clouds(sizes, rng)
    cases.append({"xyz": points, "offset": ends})
for file in ("torchscript.onnx", "dynamo.onnx"):
    report = parity(two / file, cases, backends, module=net, tolerances=within)
    report.expect(*backends)
    print(f"{file:17} {report.summary()}")

# %% [markdown]
# Then look at the classes: 400 held-out clouds at once, in ONNX Runtime. Rows are the true classes, columns the predicted classes.

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
for place, file in zip(axes, ("torchscript.onnx", "dynamo.onnx"), strict=True):
    in_ort = session(two / file).run(None, {"xyz": xyz, "offset": offset})[0].argmax(1)
    table = np.zeros((8, 8), int)
    np.add.at(table, (label, in_ort), 1)
    place.imshow(np.sqrt(table), cmap="Blues")
    for (row, column), count in np.ndenumerate(table):
        if count:
            colour = "white" if count > 25 else "black"
            place.text(column, row, count, ha="center", va="center", fontsize=9, color=colour)
    place.set_xticks(range(8), SOLIDS, rotation=45, ha="right", fontsize=9)
    place.set_yticks(range(8), SOLIDS, fontsize=9)
    place.set_title(file, fontsize=11)
    same, accurate = (in_ort == called).all(), (in_ort == label).mean() > 0.95
    print(f"{file:17} the same names as PyTorch: {same}   above 95 %: {accurate}")
    assert same
lab.figure(
    figure,
    "Two tables of eight rows and columns, one for each file, with nearly all of the 400 "
    "clouds on the diagonal.",
)

# %% [markdown]
# ### The trap: a network directly after training
#
# `load_edge_net` returns the network in eval mode. After a training loop, it is in train mode. If you forget `eval()`, three things go
# wrong.

# %%
fresh = load_edge_net().train()
points, ends = (torch.from_numpy(value) for value in cases[1].values())
with torch.no_grad():
    gap = (fresh(points, ends) - net(points, ends)).abs().max().item()
print("in PyTorch, another answer:", gap > 0.1)
program = torch.onnx.export(
    load_edge_net().train(),
    example,
    dynamo=True,
    verbose=False,
    dynamic_shapes=cloud_axes,
    custom_translation_table={torch.ops.oplab.knn_query.default: knn_translation},
)
found = {node.op_type for node in program.model_proto.graph.node}
found &= {"Dropout", "BatchNormalization"}
print("dynamo path:", sorted(found))
moved = not torch.equal(fresh.norm.running_mean, net.norm.running_mean)
print("one call in train mode has moved the BatchNorm's numbers:", moved)
assert gap > 0.1 and "Dropout" in found and moved

# %% [markdown]
# In the file, only the Dropout is wrong: this BatchNorm has no convolution to be folded into, but it is in its inference form
# (chapter 02). The third problem is the worst: in train mode, BatchNorm *learns* from every batch. After one comparison in train mode,
# `eval()` is too late, and the network is no longer the one that you trained.
#
# ### Limits
#
# The course's operator returns -1 where *one* cloud is too small. If all of them are too small, it raises an error, because such
# a k must be a mistake. Your `lab::KNN` will accept such a k and fill the row.

# %%
with raises(RuntimeError, "nsample must not be larger than the largest batch"):
    net(torch.rand(5, 3), torch.tensor([5]))

# %% [markdown]
# - Each cloud has at least one point. `EdgeNet` finds its neighbours once, in space; the paper finds them again in each layer.
# - A file with a node in a custom domain runs only where the kernel is available. This is the cost; chapters 10 and 11 show model-local
#   functions, which need no kernel, and chapter 14 shows what a kernel can gain.
# - The kernel that you write below visits all points of a cloud for each of its points. 2 000 points need 4 million distances. The
#   course's `knn_query` searches a grid; chapter 14 explains how.
# - Points at equal distances are ordered by index, lower first. Another formula may order two *nearly* equal distances differently.
#   Therefore the grader and the report put their points on a lattice, where distances are exact.

# %% [markdown]
# ### Exercises of project two
#
# ```
# lab::KNN(xyz float[n, 3], offset int64[b]; k int) -> idx int64[n, k]
# ```
#
# [`knn_kernel`](../exercises/csrc/c16_knn_kernel.cpp#line=24). If you have solved `c13.knn_query`, start from it. The differences: every
# point is a query, there are no distances, the indices are int64, and a row that is too short repeats its first entry.

# %%
lab.check("knn_kernel")

# %% [markdown]
# [`point_cloud`](../exercises/c16_capstone.py#line=97). You get the network as its training left it. Assign your operator to `net.knn`,
# and deliver the network. Then run the cell of the report (section 5) again: it now covers both projects.

# %%
lab.check("point_cloud")

# %% [markdown]
# ## Five questions

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - `python tools/train_edge_net.py --check` prints the table of the held-out clouds; without `--check` it trains, and Ctrl-C keeps the best
#   weights so far.
# - Chapter 14, with your own `knn_kernel` in mind: where does it spend its time, and how much would a grid save?
# - `docs/host.md`: the C++ program, and how to link a kernel into it.
# - `docs/parity.md` and `docs/debug.md`, for a report that shows a difference: `oplab debug bisect` finds the first node that differs.
# - Your own operator. You know all the steps but one: chapter 17 ships it.
#
# Previous: [15: Surgery and debugging](15_surgery_and_debugging.ipynb)
# · Next: [17: Shipping](17_shipping.ipynb)
# · [Glossary](../docs/glossary.md)
