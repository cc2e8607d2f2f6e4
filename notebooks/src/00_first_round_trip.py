# %% [markdown]
# # 00 · First round trip
#
# After this lesson you can
#
# - export a PyTorch model to an ONNX file that takes any image size,
# - run the file in ONNX Runtime, and check that it computes what PyTorch computes,
# - name the three links that every operator needs between PyTorch and the engine. The rest of the course is about the
#   links that are missing.
#
# Run a cell with **Shift+Enter**. The exercises are in sections 1 and 13.
#
# ## 1. The result, and the next failure
#
# A small network, SRCNN, sharpens an enlarged photo. The next cell exports it from PyTorch to an ONNX file and runs the
# file in ONNX Runtime, where there is no PyTorch. Then it passes a second photo.

# %%
import onnxruntime as ort
import torch
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from oplab import lesson, raises
from oplab.figures import drawings
from oplab.nets.photos import photo, to_image, to_nchw
from oplab.nets.srcnn import enlarge, load_srcnn, shrink

lab = lesson("00_first_round_trip")

original = torch.from_numpy(to_nchw(photo("astronaut")))
small = shrink(original, 2)
blurred = enlarge(small, 2)
net, file = load_srcnn(), lab.fresh("first") / "srcnn.onnx"
torch.onnx.export(net, (blurred,), file, verbose=False, input_names=["input"])

session = ort.InferenceSession(file)
(upscaled,) = session.run(None, {"input": blurred.numpy()})
other = enlarge(torch.from_numpy(to_nchw(photo("chelsea", (100, 150)))), 2)
with raises(InvalidArgument, "Got invalid dimensions"):
    session.run(None, {"input": other.numpy()})

images = {"input": blurred, "output of ONNX Runtime": torch.from_numpy(upscaled)}
lab.figure(
    drawings.zoom(
        {name: to_image(x) for name, x in images.items()}, top=70, left=170, size=100
    ),
    "An enlarged portrait, blurred on the left and sharp on the right, each with a detail.",
)

# %% [markdown]
# The file works for one photo and fails for the next, because the export fixed the size of the first photo. Section 8
# exports a file for all sizes. `raises` shows an expected error, and fails if there is none.
#
# **`run`** · [its stub](../exercises/c00_first_round_trip.py#line=29) · A first exercise of two minutes: the two lines
# above that load a file and run it, as a function. Write it in the stub, save, and run the next cell.

# %%
lab.check("run")

# %% [markdown]
# ## 2. From a model to a product
#
# You train a model in a **framework**. A framework is large, and it is designed for change. Phones, servers and cars
# run an **engine** instead: small, fast, and without Python. Between the two is a file in an **intermediate
# representation**. It holds the model as a static *graph*: which operators run on which tensors, and the weights, but
# no Python code. ONNX is the most common intermediate representation.
#
# ONNX is a format. It defines *what* `Asinh` or `Conv` means, and computes nothing itself. The engine does the
# computation.

# %% {"jupyter": {"source_hidden": true}}
import warnings
from pathlib import Path

import numpy as np
import onnx

from oplab.figures.palette import BLUE, GREEN, ORANGE, PURPLE

warnings.filterwarnings("ignore", category=DeprecationWarning)  # the TorchScript path warns
stages = [
    ("Framework", "PyTorch", BLUE),
    ("Intermediate representation", "an ONNX file", GREEN),
    ("Engine", "ONNX Runtime", PURPLE),
]
links = [
    (0, "1 implementation", "torch.asinh:\nC++ inside ATen", BLUE),
    (0.5, "2 mapping", "aten::asinh\nbecomes Asinh", ORANGE),
    (1, "3 ONNX operator", "Asinh,\nsince opset 9", GREEN),
    (2, "and a kernel", "the engine's own\ncode for Asinh", PURPLE),
]
lab.figure(
    drawings.pipeline(stages=stages, arrows=["export", "load, run"], links=links),
    "PyTorch exports to an ONNX file, which ONNX Runtime loads and runs. Below: the "
    "implementation, the mapping, the ONNX operator and the kernel of asinh.",
)

# %% [markdown]
# Below the pipeline, the figure shows what a single operator, `asinh`, needs to pass through it: **three links**, and a
# kernel at the end.
#
# | link | how you add it when it is missing | chapters |
# |---|---|---|
# | 1 an implementation in PyTorch | compose existing operators, or write one in Python or C++ | 03, 07, 10 |
# | 2 a mapping from it to ONNX | a symbolic function, a Function with `symbolic`, a translation table | 04, 05, 06, 08, 10 |
# | 3 an operator in ONNX | compose existing operators, or define one in your own domain | 05, 08, 10 |
# | a kernel in the engine | write it, eventually in C++, and register it | 11 to 14 |
#
# Any of them can be missing. The worst case is a new operator: all of them are missing.

# %% [markdown]
# ## 3. A model that is worth deploying
#
# **SRCNN** from the first cell makes small photos large. A bicubic filter enlarges the photo and blurs it; then three
# convolutions add the missing detail. The course includes the network and its trained weights. The photo below is not
# one of the training photos.

# %%
from oplab.nets.srcnn import psnr

for name, image in {"original": original, "small": small, "enlarged": blurred}.items():
    print(f"{name:9}{tuple(image.shape)}")

# %% [markdown]
# The four axes are batch, channels, height and width: `[N, C, H, W]`. The network takes the enlarged, blurred photo.

# %%
with torch.no_grad():
    sharp = net(blurred)  # load_srcnn returns the network in eval mode

print(net)

# %% [markdown]
# `torch.no_grad()` tells PyTorch that you will not compute gradients, so it does not keep intermediate results for
# them. This saves memory and changes no value. `eval()` is different: it switches layers such as Dropout to their
# behaviour after training. For inference you want both.
#
# How good is the result? **PSNR** compares it with the original, in decibels. Higher is better.

# %%
for name, image in [("bicubic", blurred), ("SRCNN", sharp)]:
    print(f"{name:<8} {psnr(image.clamp(0, 1), original):.1f} dB")

assert psnr(sharp.clamp(0, 1), original) > psnr(blurred.clamp(0, 1), original)

# %% {"jupyter": {"source_hidden": true}}
photos = {"small, pixels enlarged": small.repeat_interleave(2, 2).repeat_interleave(2, 3)}
photos |= {"bicubic": blurred, "SRCNN": sharp, "original": original}
images = {name: to_image(image) for name, image in photos.items()}
lab.figure(
    drawings.zoom(images, top=70, left=170, size=100),
    "The same portrait four times, with a detail. SRCNN is sharper than bicubic, and less "
    "sharp than the original.",
)

# %% [markdown]
# ## 4. Export it
#
# PyTorch has two exporters, which share one function, `torch.onnx.export`. You will meet both at work, so this course
# always states which one it means.
#
# - The **dynamo path** (`dynamo=True`, today's default) captures the model with `torch.export`.
# - The **TorchScript path** (`dynamo=False`) is the old one. It traces the model: it runs the model once and records
#   every operator that is called. PyTorch warns that this path will be removed, but most ONNX models in use were
#   exported with it.
#
# Both need one example input. For this model its values do not matter (chapter 02 has one where they do); shape and
# dtype do. Both also take names for the graph's inputs and outputs. `lab.fresh(name)` creates an empty folder for
# this lesson's files. (Later lessons also use `lab.build`, its parent folder.)

# %%
folder = lab.fresh("named")
names = {"input_names": ["input"], "output_names": ["output"]}

torch.onnx.export(net, (blurred,), folder / "torchscript.onnx", dynamo=False, **names)
torch.onnx.export(net, (blurred,), folder / "dynamo.onnx", dynamo=True, verbose=False, **names)

for file in sorted(folder.iterdir()):
    print(f"{file.name:<20} {file.stat().st_size / 1e6:.1f} MB")

# %% [markdown]
# The TorchScript path wrote one file. The dynamo path wrote two: the graph, and the weights in `dynamo.onnx.data`
# next to it. Remember the second file: it will matter later.
#
# ## 5. What is in the file
#
# An ONNX file is a `ModelProto`, a protobuf message. Chapter 01 covers it field by field; here, four questions are
# enough.

# %%
for kind in ("torchscript", "dynamo"):
    model = onnx.load(folder / f"{kind}.onnx")
    ops = [node.op_type for node in model.graph.node]
    opset, weights = model.opset_import[0].version, len(model.graph.initializer)
    print(f"{kind}: opset {opset}, {len(ops)} nodes, {weights} initialisers")
    print("   ", ", ".join(f"{ops.count(op)} {op}" for op in dict.fromkeys(ops)))

# %% [markdown]
# Both graphs compute the same function but look different. The TorchScript path writes a fixed number as a `Constant`
# node; the dynamo path stores it as an *initialiser*, like the weights. The **opset** is the version of the operator
# definitions that applies to the file.
#
# `lab.show` draws a graph. In a live JupyterLab you get Netron instead, and can click on a node.

# %%
lab.show(folder / "dynamo.onnx")

# %% [markdown]
# ## 6. Run it in ONNX Runtime
#
# An `InferenceSession` loads the file, checks it, optimises the graph and picks a kernel for each node. It also knows
# the names of the inputs and outputs.

# %%
session = ort.InferenceSession(folder / "dynamo.onnx")

for value in session.get_inputs() + session.get_outputs():
    print(value.name, value.type, value.shape)

# %% [markdown]
# `run(output_names, feeds)` takes the names of the outputs that you want (`None` for all) and a dict from input names
# to **NumPy** arrays. It returns a list of arrays.

# %%
(upscaled,) = session.run(["output"], {"input": blurred.numpy()})

print(type(upscaled).__name__, upscaled.dtype, upscaled.shape)
print(f"{psnr(upscaled.clip(0, 1), original):.1f} dB")

# %% [markdown]
# The PSNR is the same as in PyTorch. ONNX Runtime is strict about names and dtypes: a wrong input name, a wrong input
# dtype and a wrong output name are three errors that you will see often.

# %%
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

with raises(ValueError, "Required inputs"):
    session.run(["output"], {"image": blurred.numpy()})

with raises(InvalidArgument, "Unexpected input data type"):
    session.run(["output"], {"input": blurred.double().numpy()})

with raises(InvalidArgument, "Invalid output name"):
    session.run(["result"], {"input": blurred.numpy()})

# %% [markdown]
# ## 7. Does it compute the same?
#
# Two programs that add the same floats in a different order can give results that differ in the last digits. So "the
# same" means "within a tolerance", for each element: `|onnx - torch| <= atol + rtol * |torch|`. First by hand, on 2 ×
# 5 numbers:

# %%
expected = np.arange(1, 11, dtype=np.float32).reshape(2, 5)
got = expected.copy()
got[1, 3] += 0.01

gap = np.abs(got - expected)
allowed = 1e-5 + 1e-4 * np.abs(expected)
print(np.round(gap, 4))
print(
    "outside the tolerance:", [tuple(map(int, place)) for place in np.argwhere(gap > allowed)]
)

# %% [markdown]
# Which tolerance? For float32 and a network of this depth, `atol=1e-5` and `rtol=1e-4` allow for rounding and for
# nothing else. A tolerance of 1 on pixels between 0 and 1 accepts every mistake. Chapter 15 returns to this.
#
# `np.allclose` does this arithmetic, and it is tempting to stop there. But a comparison is useful only if it **can
# fail**. These four cannot:

# %%
print("another shape:     ", np.allclose(np.ones((2, 5)), np.ones((1, 5))))
print("another dtype:     ", np.allclose(expected, expected.astype(np.float16)))
print("tolerance of 1:    ", np.allclose(upscaled, np.full_like(upscaled, 0.5), atol=1))
print("a thing and itself:", np.allclose(upscaled, upscaled))

# %% [markdown]
# The first one is *broadcasting*: NumPy repeats the single row and finds no difference. The last one looks silly
# here, but it happens in a script when both sides come from the same session.
#
# **NaN** goes unnoticed as well. Every `<`, `>` and `==` with NaN is false, so a test that looks for *bad* elements
# finds none.

# %%
broken = np.full_like(expected, np.nan)
gap = np.abs(broken - expected)

print("elements that are too far away:", int((gap > allowed).sum()))
print("elements that are near enough: ", int((gap <= allowed).sum()))
np.testing.assert_allclose(broken, broken)  # no error without equal_nan=False

# %% [markdown]
# So check in this order: same shape, same dtype, all values finite, and only then every difference.
# `torch.testing.assert_close` checks shape and dtype for you. You write such a comparison in the exercise `compare`.
#
# Now compare the real outputs. One is the dynamo file as exported. The other is the TorchScript file after its
# weights were rounded to 16-bit floats, as a careless converter does.

# %%
altered = onnx.load(folder / "torchscript.onnx")
for tensor in altered.graph.initializer:
    rounded = onnx.numpy_helper.to_array(tensor).astype(np.float16).astype(np.float32)
    tensor.CopyFrom(onnx.numpy_helper.from_array(rounded, tensor.name))

session = ort.InferenceSession(altered.SerializeToString())
(wrong,) = session.run(["output"], {"input": blurred.numpy()})
print(f"{psnr(wrong.clip(0, 1), original):.1f} dB")

# %%
gaps = {"as exported": np.abs(upscaled - sharp.numpy())}
gaps["weights rounded to float16"] = np.abs(wrong - sharp.numpy())
near = {name: bool((gap <= 1e-5).all()) for name, gap in gaps.items()}
print("within 1e-5 everywhere:", near)
assert list(near.values()) == [True, False]
lab.figure(
    drawings.errors(gaps, tolerance=1e-5),
    "Two histograms of absolute differences. All those of the exported file are below the "
    "tolerance of 1e-5; about a third of those with rounded weights are above it.",
)

# %% [markdown]
# You cannot tell the two photos apart by eye, and the PSNR is the same. The comparison can: with rounded weights, the
# differences are not rounding errors of the computation; the file holds a different model.
#
# ## 8. Another size: the naive export fails
#
# The first session and the one of section 6 take `[1, 3, 512, 512]` only. That is the example's shape, and the export
# fixed it in the file.

# %%
with raises(InvalidArgument, "Got invalid dimensions"):
    ort.InferenceSession(folder / "dynamo.onnx").run(["output"], {"input": other.numpy()})

# %% [markdown]
# Engines prefer fixed sizes, because fixed sizes let them plan memory ahead. Users have photos of all sizes. So you
# declare which axes are **dynamic**, and give each of them a name. Each exporter has its own argument for this.

# %%
folder = lab.fresh("dynamic")
axes = {0: "batch", 2: "height", 3: "width"}

on_ts_path = {"dynamo": False, "dynamic_axes": {"input": axes, "output": axes}}
on_dynamo_path = {"dynamo": True, "dynamic_shapes": (axes,), "verbose": False}

torch.onnx.export(net, (blurred,), folder / "torchscript.onnx", **on_ts_path, **names)
torch.onnx.export(net, (blurred,), folder / "dynamo.onnx", **on_dynamo_path, **names)
print([file.name for file in sorted(folder.iterdir())])

# %% [markdown]
# | | TorchScript path | dynamo path |
# |---|---|---|
# | argument | `dynamic_axes` | `dynamic_shapes` |
# | keyed by | the names of inputs *and* outputs | the arguments of `forward`; the outputs follow |
# | files | one | `….onnx` and `….onnx.data`, unless `external_data=False` |
# | a model in train mode | is exported in eval mode | keeps its Dropout |
# | highest opset | 20 | newer ones too, if you set `opset_version=` |
#
# Now one file serves every size. The next cell checks this claim on two sizes and on a batch of two.

# %%
for kind in ("torchscript", "dynamo"):
    session = ort.InferenceSession(folder / f"{kind}.onnx")
    print(kind, session.get_inputs()[0].shape, "->", session.get_outputs()[0].shape)
    for x in (blurred, other, torch.cat([small, small])):
        (got,) = session.run(["output"], {"input": x.numpy()})
        with torch.no_grad():
            near = bool((np.abs(got - net(x).numpy()) <= 1e-5).all())
        print("   ", got.shape, "within 1e-5:", near)
        assert near

# %% [markdown]
# ## 9. The file that was left behind
#
# The dynamo path keeps the larger weights in the second file. What happens if you copy only the first file to the
# server? Try it with a toy model first.

# %%
import shutil


def copy_only_the_graph(source: Path) -> str:
    copy = shutil.copy(source, lab.fresh("server"))
    try:
        ort.InferenceSession(copy)
    except Fail as error:
        return (
            str(error).split(" : ")[-1].split(". Error:")[0]
        )  # the rest names this machine's folders
    return "loads"


# %%
toy = torch.nn.Conv2d(3, 3, kernel_size=1).eval()
torch.onnx.export(toy, (blurred,), folder / "toy.onnx", dynamo=True, verbose=False)

print("toy:  ", copy_only_the_graph(folder / "toy.onnx"))
print("SRCNN:", message := copy_only_the_graph(folder / "dynamo.onnx"))
assert "External data" in message

# %% [markdown]
# Tensors up to 256 bytes stay in the `.onnx` file, so the toy model works and hides the problem. A real model does
# not load. Move both files together and keep their names, because the first file refers to the second one by name. Or
# write a single file.

# %%
single = {"external_data": False} | on_dynamo_path | names
torch.onnx.export(net, (blurred,), folder / "single.onnx", **single)
print("SRCNN in one file:", copy_only_the_graph(folder / "single.onnx"))
print([file.name for file in sorted(folder.glob("single*"))])

# %% [markdown]
# A single file can hold at most 2 GB, a limit of protobuf. That is why the second file exists. If the two files are all
# that you have, `onnx.load` reads both, and `onnx.save(model, path)` writes one.
#
# ## 10. What makes deployment hard
#
# | difficulty | example | chapters |
# |---|---|---|
# | Models are dynamic, engines prefer them static | the factor 2 as an *input*: `interpolate` takes it only as a constant | 02, 03 |
# | New operators appear faster than ONNX adopts them | deformable convolution: a paper in 2017, in ONNX in 2023 | 04 to 10 |
# | Engines differ | one runs a node, another rejects it or rounds differently | 08, 11 to 15 |
#
# ## 11. A look ahead: your own operator
#
# You can write a node for an operator that no standard defines. `oplab::MyAdd` means 3a + 2b; the part before the
# colons is its *domain*. The model is valid.

# %%
from onnx import TensorProto, helper

node = helper.make_node("MyAdd", ["a", "b"], ["y"], domain="oplab")
inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "ab"]
outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])]
graph = helper.make_graph([node], "look_ahead", inputs, outputs)
opsets = [helper.make_opsetid("", 20), helper.make_opsetid("oplab", 1)]
my_add = helper.make_model(graph, opset_imports=opsets, ir_version=10)
onnx.checker.check_model(my_add)

# %% [markdown]
# A plain ONNX Runtime has no kernel for it and raises an error. `oplab.session` creates a session that has loaded the
# course's C++ kernels, which were compiled on your machine at set-up.

# %%
import oplab

with raises(Fail, "MyAdd"):
    ort.InferenceSession(my_add.SerializeToString())

a, b = np.arange(5, dtype=np.float32), np.ones(5, dtype=np.float32)
print(oplab.session(my_add).run(["y"], {"a": a, "b": b})[0])

# %% [markdown]
# In chapter 12 you write this kernel. In chapter 14 it becomes fast.
#
# ## 12. Limits of what you have now
#
# - The exporters record one way through the model. An `if` on a tensor's value, or a loop, needs more: chapter 02.
# - Agreement on three photos is evidence, not a proof for all inputs. Test inputs like those of your users, and
#   unusual ones.
# - The file only sharpens the photo; PyTorch still enlarges it. Chapter 03 moves the enlarging into the file.
#
# ## 13. Exercises
#
# Each exercise is a function in [exercises/c00_first_round_trip.py](../exercises/c00_first_round_trip.py#line=51), a
# stub: its docstring states what it has to do. Write the answer, save the file, and run the cell. In a terminal,
# `make check` checks all exercises.
#
# **`export`** · [its stub](../exercises/c00_first_round_trip.py#line=51) · The dynamic export, as a function for any
# network that takes images. It is tested at sizes that your code never sees.

# %%
lab.check("export")

# %% [markdown]
# **`compare`** · [its stub](../exercises/c00_first_round_trip.py#line=76) · A comparison that can fail. It is tested on
# twenty-one pairs of a PyTorch model and an ONNX file. Some of them agree.

# %%
lab.check("compare")

# %% [markdown]
# **`one_file`** · [its stub](../exercises/c00_first_round_trip.py#line=96) · A model in two files, saved as one.

# %%
lab.check("one_file")

# %% [markdown]
# Stuck? `lab.hint("compare")` gives a hint, and each further call gives the next one. After you have passed, it shows
# how the reference solves the exercise.
#
#
# ## Five questions

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - Chapter [01: What is in an ONNX model](01_onnx_model.ipynb) goes through the file field by field. `oplab next`
#   names your next exercise.
# - In a hurry? Chapter [04: ATen symbolic functions](04_aten_symbolic.ipynb) adds link 2, for models whose export
#   stops with "unsupported operator".
# - PyTorch's page on `torch.onnx`, the [list of ONNX operators](https://onnx.ai/onnx/operators/), and the Python API
#   of ONNX Runtime.
#
# Next: [01: What is in an ONNX model](01_onnx_model.ipynb)
# · [Glossary](../docs/glossary.md)
