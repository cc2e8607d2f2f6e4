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
# # 03 · Dynamic models
#
# After this chapter you can
#
# - name the axes that may change, with both exporters, and check in the file whether they stayed dynamic;
# - turn a number that an operator takes as a constant, here an upscaling factor, into an input of the model;
# - resize a photo in ONNX Runtime exactly as PyTorch does, down to the number of pixels.
#
# This is the first difficulty in the table of chapter 00: models are dynamic, but engines prefer static ones. The model
# in the first cell returns the left half of a photo. It is exported with a photo of 150 columns and with names for its
# axes, and then it gets a photo of 300 columns. *(TorchScript path.)*

# %%
import math

import onnxruntime as ort
import torch

from oplab import lesson, quiet_exports
from oplab.figures.resizing import photos
from oplab.nets.photos import photo, to_image, to_nchw

lab = lesson("03_dynamic_models")
quiet_exports()


class LeftHalf(torch.nn.Module):
    def forward(self, photo):
        return photo[..., : math.ceil(photo.shape[3] / 2)]


example, larger = (to_nchw(photo("chelsea", size)) for size in ((100, 150), (200, 300)))
file, image_axes = lab.build / "half.onnx", {0: "batch", 2: "height", 3: "width"}
options = {"input_names": ["photo"], "output_names": ["output"], "dynamo": False}
options |= {"dynamic_axes": {"photo": image_axes, "output": image_axes}}
torch.onnx.export(LeftHalf(), (torch.from_numpy(example),), file, **options)
session = ort.InferenceSession(file, providers=["CPUExecutionProvider"])
(got,) = session.run(None, {"photo": larger})
expected = LeftHalf()(torch.from_numpy(larger)).numpy()
views = {"the photo": larger, "PyTorch": expected, "ONNX Runtime": got}
lab.figure(
    photos({title: to_image(image) for title, image in views.items()}),
    "A photo of a cat, 300 pixels wide; its left half from PyTorch, 150 pixels; and the output "
    "of ONNX Runtime, only the left quarter, 75 pixels.",
)

# %% [markdown]
# There is no error. The session accepts the larger photo, but the output always has 75 columns: half of
# the width at export. Section 2 explains why.
#
# The next cell, which is folded, loads the network and defines three helpers. `export_ts` uses the **TorchScript path**,
# `export_dynamo` the **dynamo path**. Each returns a complete model in memory. `run` runs a model in ONNX Runtime.

# %% {"jupyter": {"source_hidden": true}}
import logging

import onnx

from oplab import raises
from oplab.nets.srcnn import load_srcnn, psnr, shrink

# A failed export logs the graph that it had so far.
logging.getLogger("torch").setLevel(logging.CRITICAL)
small = shrink(torch.from_numpy(to_nchw(photo("chelsea", (300, 450)))), 3)
srcnn = load_srcnn()
CPU = ["CPUExecutionProvider"]


def export_ts(model, inputs, names, axes=None, opset=17):
    path = lab.build / "model.onnx"
    options = {"dynamo": False, "opset_version": opset, "dynamic_axes": axes}
    options |= {"input_names": names, "output_names": ["output"]}
    torch.onnx.export(model.eval(), inputs, path, **options)
    return onnx.load(path)


def export_dynamo(model, inputs, names, shapes=None, table=None):
    options = {"dynamo": True, "verbose": False, "dynamic_shapes": shapes}
    options |= {"input_names": names, "output_names": ["output"]}
    options |= {"custom_translation_table": table}
    return torch.onnx.export(model.eval(), inputs, **options).model_proto


def run(model, **feeds):
    return ort.InferenceSession(model.SerializeToString(), providers=CPU).run(None, feeds)[0]


# %% [markdown]
# ## 1. The failure: a size becomes fixed
#
# Both exporters get one example input. Its sizes are written into the file, unless you specify otherwise. The *header* of a model
# declares its inputs and outputs. `header` returns the shape of each input.


# %%
def header(model):
    return {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in model.graph.input
    }


fixed = {
    "TorchScript path": export_ts(srcnn, (small,), ["input"]),
    "dynamo path": export_dynamo(srcnn, (small,), ["input"]),
}
for path, model in fixed.items():
    print(f"{path:17}", header(model))

# %%
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

wider = small.repeat(1, 1, 1, 2)
print("PyTorch:", tuple(srcnn(wider).shape))
for model in fixed.values():
    with raises(InvalidArgument, "index: 3 Got: 300 Expected: 150"):
        run(model, input=wider.numpy())

# %% [markdown]
# This is one line of the message "Got invalid dimensions for input: input". It states the axis, the size it got and the size that
# the file requires. A wrong number of axes is rejected in the same way.

# %%
with raises(InvalidArgument, "Invalid rank"):
    run(model, input=small[0].numpy())

# %% [markdown]
# ## 2. TorchScript path: `dynamic_axes` is a label
#
# `dynamic_axes` maps the name of an input *or* output to names for its axes. SRCNN now runs at every size.

# %%
import numpy as np

image_axes = {0: "batch", 2: "height", 3: "width"}
model = export_ts(srcnn, (small,), ["input"], {"input": image_axes, "output": image_axes})
print(header(model))
got = run(model, input=wider.numpy())
print(got.shape, "within 1e-5:", bool(np.abs(got - srcnn(wider).numpy()).max() <= 1e-5))

# %% [markdown]
# SRCNN consists of convolutions, and a convolution works at any size. But a trace records **tensor operators** only. As
# soon as Python turns a size into a plain number, here in the `math.ceil` of `LeftHalf`, it is fixed.

# %%
half = export_ts(LeftHalf(), (small,), ["photo"], {"photo": image_axes, "output": image_axes})
print(header(half))
print("PyTorch:     ", tuple(LeftHalf()(wider).shape))
print("ONNX Runtime:", run(half, photo=wider.numpy()).shape)

# %% [markdown]
# The header states `width`, and the output has 75 columns at every width. The only sign was a warning during tracing, and
# this notebook, like many programs, had disabled warnings.

# %%
import warnings

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    export_ts(LeftHalf(), (small,), ["photo"], {"photo": image_axes})
print(*{str(w.message).split(". ")[0] for w in caught if w.category is torch.jit.TracerWarning})

# %% [markdown]
# `dynamic_axes` changes the header. It neither changes nor checks what was recorded. So a label needs a test: run the file at a
# size other than the example's, and compare.
#
# ## 3. Dynamo path: `dynamic_shapes` is a claim
#
# The dynamo path captures the model with `torch.export`. There a size is a *symbol*, and Python's `math.ceil` of a symbol is a
# symbol too. The same model is exported correctly.

# %%
half = export_dynamo(LeftHalf(), (small,), ["photo"], ({0: "batch", 2: "height", 3: "width"},))
print(header(half))
print("ONNX Runtime:", run(half, photo=wider.numpy()).shape)
print([node.op_type for node in half.graph.node])

# %% [markdown]
# `dynamic_shapes` is keyed by the arguments of `forward`, by position or by name. What you write for an axis is a claim that the
# model works for every size of that axis. `torch.export` checks the claim against the code. You can write it in four ways:
#
# | you write | you claim |
# |---|---|
# | `"height"` | this axis is dynamic, and this is its name |
# | `Dim("height", min=2, max=4096)` | the same, with a range; one `Dim` object for several axes states that their sizes are equal |
# | `2 * Dim("half_height")` | dynamic and even |
# | `Dim.AUTO` | nothing: the exporter determines it, and chooses the name |
#
# An axis that you do not mention keeps the size of the example.
#
# The next model needs all of this: it works on blocks of 2 × 2 pixels, and has one gain for each photo.

# %%
import torch.nn.functional as F
from torch.export import Dim


class Blocks(torch.nn.Module):
    def forward(self, photo, gain):
        blocks = F.pixel_unshuffle(photo, 2)  # [N, 3, H, W] -> [N, 12, H / 2, W / 2]
        return F.pixel_shuffle(blocks * gain[:, None, None, None], 2)


pair = (torch.rand(2, 3, 12, 16), torch.rand(2))
batch, even_height, even_width = Dim("batch"), 2 * Dim("half_height"), 2 * Dim("half_width")
claims = {
    "text": ({0: "batch", 2: "height", 3: "width"}, {0: "batch"}),
    "Dim": ({0: batch, 2: even_height, 3: even_width}, {0: batch}),
}

# %%
for label, shapes in claims.items():
    model = export_dynamo(Blocks(), pair, ["photo", "gain"], shapes)
    x, gain = torch.rand(5, 3, 6, 10), torch.rand(5)
    got = run(model, photo=x.numpy(), gain=gain.numpy())
    print(f"{label:5}", header(model), "right:", np.allclose(got, Blocks()(x, gain).numpy()))

# %% [markdown]
# ### A false claim
#
# Leave out the axis of `gain`. Then `gain` has the fixed size 2, the code multiplies the blocks by `gain`, and so the batch is 2.
# See what happens to the claim that the batch is dynamic. `torch.export` itself is strict:

# %%
wrong = ({0: batch, 2: even_height, 3: even_width}, None)
with raises(torch._dynamo.exc.UserError, "your code specialized it to be a constant (2)"):
    torch.export.export(Blocks(), pair, dynamic_shapes=wrong)

# %% [markdown]
# Its message ends with "Suggested fixes: batch = 2". `torch.onnx.export` **applies the suggestion** without a message (torch
# 2.15). A name given as text is stricter.

# %%
auto = ({0: Dim.AUTO, 2: Dim.AUTO, 3: Dim.AUTO}, None)
for label, shapes in {"Dim": wrong, "Dim.AUTO": auto}.items():
    model = export_dynamo(Blocks(), pair, ["photo", "gain"], shapes)
    print(f"{label:9}", header(model))

text = ({0: "batch", 2: "height", 3: "width"}, None)
with raises(torch.onnx.OnnxExporterError, "tracing inferred a static shape of 2 for dimension"):
    export_dynamo(Blocks(), pair, ["photo", "gain"], text)

# %% [markdown]
# The same mistake has three outcomes:
#
# - `Dim`: the batch has become 2. The header is correct, but you have to look at it.
# - `Dim.AUTO`: the header of `photo` still has a generated name for the batch. This is false, as the next cell shows.
# - Text: the export fails, and the message names the axis. Prefer text. (It detects an axis that became *one* size. It does not
#   detect a range that the code has narrowed: chapter 02 has the check for that.)

# %%
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

with raises(InvalidArgument, "Got invalid dimensions"):
    run(model, photo=x.numpy(), gain=gain.numpy())
with raises(Fail, "broadcast"):
    run(model, photo=x.numpy(), gain=gain[:2].numpy())

# %% [markdown]
# One axis has to stay fixed here: SRCNN's first operation needs three channels. The TorchScript path lets you name this axis, so
# the header promises something false. The dynamo path rejects the name.

# %%
model = export_ts(srcnn, (small,), ["input"], {"input": {1: "channels"}})
print("TorchScript path:", header(model))
with raises(torch.onnx.OnnxExporterError, "dimension inputs[0].shape[1]"):
    export_dynamo(srcnn, (small,), ["input"], ({1: "channels"},))

# %% [markdown]
# ## 4. A size that is a *value*: the factor
#
# So far, each size came from the shape of an input. Super-resolution needs more: the user picks a **factor**, 1.5 or 2 or 3, and
# the factor determines the size of the output. So the size depends on the *value* of an input.
#
# In PyTorch this takes one line. This model gets the factor as a tensor of four scales, one for each axis: the form that ONNX
# needs later.


# %%
class Naive(torch.nn.Module):
    def forward(self, x, scales):
        return F.interpolate(x, scale_factor=scales.tolist()[-2:], mode="bicubic")


def factor(value):
    return torch.tensor([1.0, 1.0, value, value])


[tuple(Naive()(small, factor(value)).shape) for value in (1.5, 2, 3)]

# %% [markdown]
# The `.tolist()` is necessary: `interpolate` takes numbers (floats as well as integers), but not a tensor.

# %%
with raises(TypeError, "invalid combination of arguments"):
    F.interpolate(small, scale_factor=factor(2)[-2:], mode="bicubic")

# %% [markdown]
# Export the model, first on the TorchScript path:

# %%
names = ["input", "factor"]
axes = {"input": image_axes, "output": {0: "batch", 2: "new_height", 3: "new_width"}}
naive = export_ts(Naive(), (small, factor(3)), names, axes)
print(header(naive))
print(run(naive, input=small.numpy()).shape)
lab.show(naive)

# %% [markdown]
# There is no error, but the input `factor` **is gone**. Its value at export, 3, is a constant in the graph. You gave two names,
# and one was used. A program that feeds the factor discovers this late; a check of the names discovers it at once.

# %%
with raises(InvalidArgument, "Invalid input name"):
    run(naive, input=small.numpy(), factor=factor(2).numpy())

missing = set(names) - set(header(naive))
print("missing inputs:", missing)
assert missing == {"factor"}

# %% [markdown]
# The dynamo path detects the problem. It follows the value as far as the ATen operator, whose schema requires floats, and stops
# with an error.

# %%
shapes = ({0: "batch", 2: "height", 3: "width"}, None)
with raises(torch.onnx.OnnxExporterError, "found element of type SymFloat"):
    export_dynamo(Naive(), (small, factor(3)), names, shapes)

# %% [markdown]
# So the obstacle is the operator: `aten::upsample_bicubic2d` takes its scales as *floats*, not as tensors, and a float is a
# constant in the graph. Does ONNX allow more?
#
# ## 5. Resize, and where it reads
#
# ONNX has `Resize`, whose scales are an **input**.

# %%
resize = onnx.defs.get_schema("Resize", 17)
print(*[f"{i.name}: {i.option.name}" for i in resize.inputs], sep=", ")
print(", ".join(resize.attributes))

# %% [markdown]
# It has four inputs, in this order: `X`, `roi` (for one mode that this chapter does not use), `scales`, `sizes`. You give scales
# *or* sizes. The attributes determine which pixels are combined, and with which weights. To match PyTorch, each attribute has one
# correct value. Find it by experiment: this function builds a model with one `Resize`.

# %%
from onnx import TensorProto, helper


def resize_model(inputs=("x", "", "scales"), **attributes):
    options = {"mode": "cubic"} | attributes
    node = helper.make_node("Resize", list(inputs), ["y"], **options)
    kind = TensorProto.INT64 if inputs[-1] == "sizes" else TensorProto.FLOAT
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, list("nchw"))
    scales = helper.make_tensor_value_info(inputs[-1], kind, [4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, list("abcd"))
    graph = helper.make_graph([node], "g", [x, scales], [y])
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


# %% [markdown]
# Where does output pixel *i* read? The attribute `coordinate_transformation_mode` determines this. The picture resizes four
# pixels by 1.5. The input is a ramp, so the output values *are* the positions.

# %%
from oplab.figures.resizing import reading_places

modes = ["half_pixel", "asymmetric", "align_corners"]
ramp = np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4)
places = {}
for mode in modes:
    model = resize_model(mode="linear", coordinate_transformation_mode=mode)
    places[mode] = run(model, x=ramp, scales=np.float32([1, 1, 1, 1.5]))[0, 0, 0]
print({mode: [round(float(place), 2) for place in found] for mode, found in places.items()})
by_torch = F.interpolate(torch.from_numpy(ramp)[0], scale_factor=1.5, mode="linear")[0, 0]
same = [mode for mode in modes if np.allclose(by_torch, places[mode])]
print("PyTorch:", *same)
lab.figure(
    reading_places(places, pixels=4),
    "Four pixels, and for each of three modes the six places where the new pixels read. "
    "half_pixel spaces them evenly from edge to edge, with the two outer ones moved to the "
    "outer centres; asymmetric begins at the first centre, align_corners goes from the first "
    "centre to the last.",
)

# %% [markdown]
# `half_pixel` treats pixels as squares, and the new squares divide the same line evenly. Its rule is `(i + 0.5) / scale - 0.5`.
#
# ONNX also has `pytorch_half_pixel`. The name is misleading. Compare these four modes with PyTorch, for two factors, one of
# which leaves a single pixel.

# %%
x = torch.rand(1, 3, 12, 12, generator=torch.manual_seed(3))
four = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]
attributes = {mode: {"coordinate_transformation_mode": mode} for mode in four}
attributes["half_pixel, a = -0.5"] = attributes["half_pixel"] | {"cubic_coeff_a": -0.5}
print(f"{'largest error at':22} factor 3   factor 1/12")
for label, options in attributes.items():
    found = []
    for value in (3, 1 / 12):
        got = run(resize_model(**options), x=x.numpy(), scales=factor(value).numpy())
        found.append(np.abs(got - Naive()(x, factor(value)).numpy()).max())
    print(f"{label:22} {found[0]:<10.3f} {found[1]:.3f}")

# %% [markdown]
# `pytorch_half_pixel` is `half_pixel`, except for an output of one pixel, which reads at 0 instead of in the middle. PyTorch
# reads in the middle in spite of that name, so texts that recommend `pytorch_half_pixel` are wrong in that case. The coefficient
# a of the cubic is −0.75 in PyTorch, and by default in ONNX too.
#
#
# `Resize` has a fourth input, `sizes`, in place of the scales. The deeper section "Sizes instead of scales" shows why it
# is another function.
#
# ## 6. How many pixels are 10 × 2.3?
#
#
# The answer is 23. But the factor is a float32, and 2.3 as a float32 is slightly less than 2.3.

# %%
single = np.float32(2.3)
print(f"2.3 - float32(2.3) = {2.3 - float(single):.1e}")
print(f"double:  10 x 2.3 = {10 * float(single):.7f}, floor {math.floor(10 * float(single))}")
product = np.float32(10) * single
print(f"float32: 10 x 2.3 = {product:.7f}, floor {math.floor(product)}")

# %% [markdown]
# How is the product computed? Compare four cases at a few sizes.

# %%
from onnx.reference import ReferenceEvaluator

reference = ReferenceEvaluator(resize_model())
rows = {}
pairs = [(10, 2.3), (50, 2.3), (100, 2.3), (7, 2.3), (10, 1.3), (10, 0.7), (100, 1.5)]
for size, value in pairs:
    x = np.zeros((1, 1, size, 1), np.float32)
    scales = np.float32([1, 1, value, 1])
    rows[size, value] = (
        Naive()(torch.from_numpy(x), torch.from_numpy(scales)).shape[2],
        F.interpolate(torch.from_numpy(x), scale_factor=(value, 1.0), mode="bicubic").shape[2],
        run(resize_model(), x=x, scales=scales).shape[2],
        reference.run(None, {"x": x, "scales": scales})[0].shape[2],
    )

# %%
columns = ["PyTorch, float32 factor", "PyTorch, number", "ONNX Runtime", "onnx.reference"]
print(" " * 10, *columns, sep="  ")
for (size, value), found in rows.items():
    numbers = [f"{number:>{len(title)}}" for number, title in zip(found, columns, strict=True)]
    print(f"{size:>4} x {value:<3}", *numbers, sep="  ")
assert rows[100, 2.3] == (229, 229, 230, 229)

# %% [markdown]
# ONNX Runtime multiplies in float32, all others in double. The photo has 100 rows: at 2.3 PyTorch produces 229 rows, and ONNX
# Runtime 230. Neither breaks a rule. The specification does not define a precision, and plain Python also turns 50 pixels
# into 114.

# %%
print(*[line.strip() for line in resize.doc.splitlines() if "floor" in line])
print("50 x 2.3 in Python:", math.floor(50 * 2.3))
with raises(AssertionError, "Shapes are not equal"):
    got = run(resize_model(), x=small.numpy(), scales=factor(2.3).numpy())
    expected = Naive()(small, factor(2.3)).numpy()
    np.testing.assert_equal(got.shape, expected.shape, "Shapes are not equal")

# %% [markdown]
# The two systems have to agree, so one of them has to adapt. ONNX Runtime's kernel is compiled; your PyTorch code is not. The
# ATen operator that `interpolate` calls takes the size *and* the scales, so both can be right. The bilinear operator has the same
# form.

# %%
for operator in (torch.ops.aten.upsample_bicubic2d, torch.ops.aten.upsample_bilinear2d):
    print(operator.default._schema)


def bicubic(x, scales):
    """Bicubic resize as ONNX Runtime's Resize does it.

    Sizes come from a float32 product, coordinates from the scales.
    """
    size = (torch.tensor(x.shape[-2:]) * scales[-2:]).int()  # int64 times float32 is float32
    factors = scales[-2:].tolist()
    return torch.ops.aten.upsample_bicubic2d(x, size.tolist(), False, *factors)


# %%
def same_size(size, value):
    x, scales = torch.zeros(1, 1, size, 1), torch.tensor([1, 1, value, 1])
    got = run(resize_model(), x=x.numpy(), scales=scales.numpy())
    return bicubic(x, scales).shape == got.shape


rng = np.random.default_rng(6)
drawn = [(int(rng.integers(4, 600)), float(rng.uniform(0.3, 5))) for _ in range(300)]
print(all(same_size(size, value) for size, value in [*rows, *drawn]))

# %% [markdown]
# ## 7. TorchScript path: a Function with its own mapping
#
# Now write the mapping. A subclass of `torch.autograd.Function` defines your own operator with two methods. PyTorch runs
# `forward`. The TorchScript path does not look into `forward`: it calls `symbolic`, which writes the nodes. The arguments of
# `symbolic` are the graph context `g` and one graph value for each argument of `forward` (without `ctx`). `g.op` writes one node:
# first the inputs, then the attributes, each with its type at the end of its name: `_s` string, `_f` float, `_i` integer, `_t`
# tensor (chapter 05). `Resize` does not read `roi` in this mode, but opset 11 requires it, so it gets a tensor without elements.
# (This is not a general way to omit an input: see chapter 05, section 8. A Python `None` in its place crashes the process.)


# %%
class NewInterpolate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scales):
        return bicubic(x, scales)

    @staticmethod
    def symbolic(g, x, scales):
        empty = torch.tensor([], dtype=torch.float32)
        roi = g.op("Constant", value_t=empty)  # not used, but opset 11 demands it
        place = {"coordinate_transformation_mode_s": "half_pixel"}
        cubic = {"mode_s": "cubic", "cubic_coeff_a_f": -0.75}
        return g.op("Resize", x, roi, scales, **place, **cubic)


# %% [markdown]
# `StrangeSuperResolutionNet` enlarges a photo by any factor, then sharpens it with SRCNN, the course's network with its trained
# weights. SRCNN works on the brightness of the photo and adds the detail to all three colours, so colour needs no other step.


# %%
class StrangeSuperResolutionNet(torch.nn.Module):
    def __init__(self, enlarge):
        super().__init__()
        self.enlarge, self.srcnn = enlarge, srcnn

    def forward(self, x, factor):
        return self.srcnn(self.enlarge(x, factor))


net = StrangeSuperResolutionNet(NewInterpolate.apply)
on_ts_path = export_ts(net, (small, factor(3)), names, axes)
onnx.checker.check_model(on_ts_path, full_check=True)
print(header(on_ts_path))
lab.show(on_ts_path)

# %% [markdown]
# `factor` is an input, and `Resize` reads it. The file is saved once. The test runs it with four factors, three of which the
# export did not see.


# %%
def prove(model, net):
    file = lab.build / "super_resolution.onnx"
    onnx.save(model, file)
    session = ort.InferenceSession(file, providers=CPU)
    photos = {}
    for value in (1.5, 2, 2.3, 3):
        feeds = {"input": small.numpy(), "factor": factor(value).numpy()}
        (got,) = session.run(["output"], feeds)
        expected = net(small, factor(value)).numpy()
        same = got.shape == expected.shape and np.abs(got - expected).max() <= 1e-5
        print(f"factor {value:<3}", got.shape, "PyTorch", expected.shape, "within 1e-5:", same)
        assert same, f"factor {value}: the two disagree"
        photos[value] = got
    return photos


enlarged = prove(on_ts_path, net)

# %% [markdown]
# The comparison can fail. With a plain `interpolate` in `forward`, as in older texts, it fails at 2.3:

# %%
with raises(AssertionError, "factor 2.3: the two disagree"):
    prove(on_ts_path, StrangeSuperResolutionNet(Naive()))  # interpolate(scale_factor=…)

# %% [markdown]
# The exported file does not depend on `forward` at all. This `forward` is clearly wrong, but the graph is the same.


# %%
class WrongForward(NewInterpolate):
    @staticmethod
    def forward(ctx, x, scales):
        return F.interpolate(x, scale_factor=scales.tolist()[-2:], mode="nearest")


def types(model):
    return [node.op_type for node in model.graph.node]


wrong_net = StrangeSuperResolutionNet(WrongForward.apply)
other = export_ts(wrong_net, (small, factor(3)), names, axes)
print("same nodes:", types(other) == types(on_ts_path))
got = run(other, input=small.numpy(), factor=factor(2).numpy())
print("same numbers:", np.array_equal(got, enlarged[2]))

# %% [markdown]
# So only your test compares `forward` with `symbolic`. Which opsets work? `Resize` has its cubic mode and its four inputs from
# opset 11 on. At 10 the export still succeeds, but the file is invalid.

# %%
patch = small[..., :20, :30]
for opset in (10, 11, 13, 18, 20):
    model = export_ts(net, (patch, factor(3)), names, axes, opset=opset)
    try:
        onnx.checker.check_model(model, full_check=True)
        shape = run(model, input=patch.numpy(), factor=factor(1.5).numpy()).shape
        print(opset, "valid, factor 1.5:", shape)
    except onnx.checker.ValidationError as error:
        print(opset, "invalid:", str(error).splitlines()[0].split(") ")[-1])

# %% [markdown]
# ## 8. Dynamo path: an operator with a fake and a translation
#
# The dynamo path ignores `symbolic`. It traces `forward`, and fails with the same error as before. (The cell uses the `forward`
# of older texts; with the `forward` of section 7, the exporter stops at the next operator for the same reason.)


# %%
class OldForward(NewInterpolate):
    @staticmethod
    def forward(ctx, x, scales):
        return F.interpolate(x, scale_factor=scales.tolist()[-2:], mode="bicubic")


old_net = StrangeSuperResolutionNet(OldForward.apply)
with raises(torch.onnx.OnnxExporterError, "found element of type SymFloat"):
    export_dynamo(old_net, (small, factor(3)), names, shapes)

# %% [markdown]
# On this path you define your own operator with `torch.library.custom_op`. It is opaque: the exporter does not look inside. The
# body may use `.tolist()` and any other Python code.


# %%
@torch.library.custom_op("c03::resize", mutates_args=())
def resize_op(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return bicubic(x, scales)


net_op = StrangeSuperResolutionNet(resize_op)
print(torch.equal(net_op(small, factor(2.3)), net(small, factor(2.3))))
with raises(torch.onnx.OnnxExporterError, "no fake impl registered"):
    export_dynamo(net_op, (small, factor(3)), names, shapes)

# %% [markdown]
# This export computes no values, only shapes: tensors are *fake*. The operator has to declare the shape of its output. But
# height and width depend on the value of `scales`, and a fake tensor has no values. Can the fake use the example's factor?


# %%
@resize_op.register_fake
def three_times(x, scales):
    return x.new_empty(*x.shape[:2], 3 * x.shape[2], 3 * x.shape[3])


utils = ["test_schema", "test_faketensor"]
with raises(Exception, "are not equal"):
    torch.library.opcheck(resize_op, (small, factor(2.3)), test_utils=utils)

# %% [markdown]
# This is correct for the factor 3 only. `opcheck` runs the operator and its fake, compares them, and finds the error. The correct
# answer is "a size that is not known yet": `get_ctx().new_dynamic_size()` creates a new symbol for it.


# %%
@resize_op.register_fake
def unknown_size(x, scales):
    context = torch.library.get_ctx()
    return x.new_empty(*x.shape[:2], context.new_dynamic_size(), context.new_dynamic_size())


torch.library.opcheck(resize_op, (small, factor(2.3)), test_utils=utils)

# %% [markdown]
# Now the capture works. The mapping, link 2 of chapter 00, is still missing: which ONNX nodes implement `c03::resize`?

# %%
with raises(torch.onnx.OnnxExporterError, "No ONNX function found for"):
    export_dynamo(net_op, (small, factor(3)), names, shapes)

# %% [markdown]
# A translation is a function written with `onnxscript`. Its arguments and its result have type annotations. `op.Resize` comes
# from `opset18`; `None` omits an input, here `roi`. The table's key is the operator's overload, `.default`.

# %%
from onnxscript import FLOAT
from onnxscript import opset18 as op


def translate(x: FLOAT, scales: FLOAT) -> FLOAT:
    place = "half_pixel"
    return op.Resize(
        x, None, scales, mode="cubic", coordinate_transformation_mode=place, cubic_coeff_a=-0.75
    )


table = {torch.ops.c03.resize.default: translate}
on_dynamo_path = export_dynamo(net_op, (small, factor(3)), names, shapes, table)
onnx.checker.check_model(on_dynamo_path, full_check=True)
output = on_dynamo_path.graph.output[0].type.tensor_type.shape
print(header(on_dynamo_path), "->", [dim.dim_param or dim.dim_value for dim in output.dim])

# %%
again = prove(on_dynamo_path, net_op)
same = [np.allclose(again[value], enlarged[value], atol=1e-6) for value in again]
print("both files give the same photos:", all(same))

# %% [markdown]
# `u0` and `u1` in the header of the output are the two unknown sizes. The naive graph is on the left, the new graph on the right:

# %%
lab.show(naive, on_dynamo_path)

# %% [markdown]
# | | TorchScript path | dynamo path |
# |---|---|---|
# | your operator | `autograd.Function`, `forward` | `torch.library.custom_op` |
# | its shape during the export | `forward` runs on the example | the fake: `new_dynamic_size()` |
# | its mapping | `symbolic(g, …)` in the class | a typed onnxscript function in `custom_translation_table` |
# | a number that Python reads from a tensor | a constant, with a warning | a symbol, which the scales of `interpolate` do not accept |
# | opsets | 11 to 20 | 18 and newer |
#
# ## 9. One model, many factors
#
# The enlarged photos are outputs of the file in ONNX Runtime. All crops show the same part of the scene, pixel by pixel.

# %% {"jupyter": {"source_hidden": true}}
views = {"input": small.numpy()} | {f"× {value}": image for value, image in enlarged.items()}
views = {title: to_image(image) for title, image in views.items()}
lab.figure(
    photos(views),
    "The input, 150 pixels wide, and the outputs for the factors 1.5, 2, 2.3 and 3, each as "
    "much larger.",
)


# %% {"jupyter": {"source_hidden": true}}
def crop(image):
    """The same part of the scene at every size: 30 to 50 % of the width, 26 to 56 % down."""
    height, width = image.shape[:2]
    return image[int(0.26 * height) : int(0.56 * height), int(0.3 * width) : int(0.5 * width)]


lab.figure(
    photos({title: crop(image) for title, image in views.items()}, equal=True),
    "The same part of the photo at each factor, drawn at one size: the larger the factor, the "
    "more pixels, and the finer the edges of the eye.",
)

# %% [markdown]
# How good are they? The original is larger, so there is a ground truth to compare with at each factor. The PSNR is in decibels;
# higher is better.

# %%
for value, image in enlarged.items():
    truth = to_nchw(photo("chelsea", image.shape[2:]))
    plain = bicubic(small, factor(value)).numpy()
    quality = [psnr(picture.clip(0, 1), truth) for picture in (plain, image)]
    print(f"× {value:<3}  bicubic {quality[0]:.1f} dB   SRCNN {quality[1]:.1f} dB")

# %% [markdown]
# The network was trained at the factors 2 and 3, and it helps there. At 1.5 it sharpens a photo that is sharp already. That a
# file *runs* at every factor does not tell you how good the model is at that factor: training determines that.
#
# ## 10. Limits
#
# - **Larger photos differ more.** Both systems compute coordinates in float32, but in different orders. The error of a coordinate
#   grows with the coordinate, so the outputs of the same model differ more on a larger photo. Factor 2 is exact. At 1.5, on
#   noise:

# %%
for size in (32, 256, 512):
    noise, gaps = torch.rand(1, 1, size, size, generator=torch.manual_seed(8)), {}
    for value in (1.5, 2):
        got = run(resize_model(), x=noise.numpy(), scales=factor(value).numpy())
        gaps[value] = np.abs(got - bicubic(noise, factor(value)).numpy()).max()
    above = f"above 1e-5: {gaps[1.5] > 1e-5!s:5}  above 1e-4: {gaps[1.5] > 1e-4!s:5}"
    print(f"{size:>4} pixels: {above}  factor 2 above 1e-6: {gaps[2] > 1e-6}")

# %% [markdown]
# - In cubic mode, the scales of batch and channels have to be 1, and no scale may be 0 or less. ONNX Runtime reports this when it
#   runs the model, not before.

# %%
line = torch.rand(1, 1, 5, 5, generator=torch.manual_seed(5)).numpy()

for scales in ([1, 2, 2, 2], [1, 1, 0, 2]):
    with raises(Fail, "Resize node"):
        run(resize_model(), x=line, scales=np.float32(scales))

# %% [markdown]
# - A valid `Resize` can lack a kernel. ONNX Runtime's CPU execution provider has none for float64.

# %%
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented

double = resize_model()
for value in (double.graph.input[0], double.graph.output[0]):
    value.type.tensor_type.elem_type = TensorProto.DOUBLE
onnx.checker.check_model(double, full_check=True)
with raises(NotImplemented, "NOT_IMPLEMENTED"):
    run(double, x=line.astype(np.float64), scales=factor(2).numpy())

# %% [markdown]
# - An unknown output size has a cost: the engine cannot plan its memory in advance. Some engines require a range for each dynamic
#   axis; the ONNX file has no place for it.
# - `dynamic_shapes` describes shapes. No exporter can know whether two *values* match, such as a factor and a size.
#
# ## 11. Exercises
#
# The docstrings are the specification. `lab.hint("dynamic_batch")` gives a hint. A third exercise, for the dynamo path, is
# in a deeper section.
#
# **`dynamic_batch`** — export a network with two inputs, whose code you do not see: the file takes any batch and any even height
# and width, and its header is correct. One axis stays fixed.
# Write it in [exercises/c03_dynamic_models.py](../exercises/c03_dynamic_models.py#line=53).

# %%
lab.check("dynamic_batch")

# %% [markdown]
# **`tensor_scale_ts`** — the TorchScript path, without looking at the lesson: a bicubic resize, with one factor for the height
# and one for the width. The graph input has two numbers; how many does `Resize` need?
# Write it in [exercises/c03_dynamic_models.py](../exercises/c03_dynamic_models.py#line=86).

# %%
lab.check("tensor_scale_ts")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: What a header does not hold
# A header may *contain* `2*half_height`, but ONNX Runtime does not compute with names: an odd height
# fails at a node inside the graph. And the range of a `Dim` is not in the file at all.

# %%
model = export_dynamo(Blocks(), pair, ["photo", "gain"], claims["Dim"])
with raises(Fail, "Reshape node"):
    run(model, photo=torch.rand(5, 3, 7, 10).numpy(), gain=gain.numpy())

ranged = ({0: batch, 2: 2 * Dim("half_height", max=8), 3: even_width}, {0: batch})
model = export_dynamo(Blocks(), pair, ["photo", "gain"], ranged)
got = run(model, photo=torch.rand(5, 3, 100, 10).numpy(), gain=gain.numpy())
print(header(model)["photo"], got.shape)

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Sizes instead of scales
#
#
# With `sizes`, `Resize` computes the scale from them. As soon as the size was rounded, this scale is not the factor. Five pixels
# times 2.3 are 11.5, rounded down to 11. The ratio 11 / 5 is 2.2.

# %%
by_scales = run(resize_model(), x=line, scales=factor(2.3).numpy())
by_sizes = run(resize_model(("x", "", "", "sizes")), x=line, sizes=np.array([1, 1, 11, 11]))
five = torch.from_numpy(line)
expected = {
    "interpolate(scale_factor=2.3)": Naive()(five, factor(2.3)).numpy(),
    "interpolate(size=(11, 11))": F.interpolate(five, size=(11, 11), mode="bicubic").numpy(),
}
for label, right in expected.items():
    gaps = [np.abs(got - right).max() for got in (by_scales, by_sizes)]
    print(f"{label:30} scales: {gaps[0]:.4f}   sizes: {gaps[1]:.4f}")

# %% [markdown]
# The shapes are the same, but the pictures differ. PyTorch has both meanings too, and each corresponds to one of ONNX's inputs.
# Do not mix them. And a factor in the *place* of `sizes` does not have an integer type; the checker rejects it.

# %%
with raises(onnx.shape_inference.InferenceError, "sizes"):
    swapped = resize_model(("x", "", "", "scales"))
    onnx.checker.check_model(swapped, full_check=True)

# %% [markdown]
# ### A third way, and what it costs
#
#
# On the dynamo path PyTorch's own operators are enough: compute the *size* from the factor. On this path sizes may be unknown
# symbols, but scales may not.


# %%
class BySize(torch.nn.Module):
    def forward(self, x, scales):
        height = (x.shape[2] * scales[2]).int().item()
        width = (x.shape[3] * scales[3]).int().item()
        return F.interpolate(x, size=(height, width), mode="bicubic")


by_size = export_dynamo(BySize(), (small, factor(3)), names, shapes)
print(header(by_size))
print([node.op_type for node in by_size.graph.node])

# %%
odd = torch.rand(1, 3, 7, 9, generator=torch.manual_seed(7))
for value in (2, 2.3):
    got = run(by_size, input=odd.numpy(), factor=factor(value).numpy())
    same = BySize()(odd, factor(value)).numpy(), bicubic(odd, factor(value)).numpy()
    close = [bool(np.abs(got - expected).max() <= 1e-5) for expected in same]
    print(f"factor {value:<3}  {got.shape}  as BySize in PyTorch:", close[0], end="")
    print(", as the resize by scales:", close[1])

# %% [markdown]
# This is a correct export of *another* function: `Resize` with `sizes`. If your model means that function, this is the shortest
# way. A network that was trained with scales gets its photos shifted by up to a pixel. On the TorchScript path this version loses
# the factor too.

# %%
print(header(export_ts(BySize(), (small, factor(3)), names, axes)))

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: One factor without axes
#
# The exercise of this section has one factor instead of four scales, so the translation has to compute the scales.
# A constant in a translation is a node too, `op.Constant`. Outside an export, `op` computes the result immediately, so you can
# try a node before you use it.

# %%
print(op.Mul(np.float32([1, 2]), op.Constant(value_floats=[10.0, 0.5])))

# %% [markdown]
# **`tensor_scale_dynamo`** — the dynamo path: a *bilinear* resize, with one factor that has no axes. Write the operator, the fake
# and the translation.
# Write it in [exercises/c03_dynamic_models.py](../exercises/c03_dynamic_models.py#line=121).

# %%
lab.check("tensor_scale_dynamo")

# %% [markdown]
# ## Five questions
#
# Answer them without looking back; each choice has its explanation.

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - Chapter 04: mappings for operators that have none. Chapter 05: `g.op` in depth.
# - Chapter 08: the same resize as a *plugin*, a node in your own domain with your own kernel.
# - Chapter 10: translations on the dynamo path, and data-dependent shapes in general.
# - PyTorch's pages on `torch.export` and dynamic shapes, and the page of `Resize` in the ONNX operator reference.
#
# Previous: [02: Trace, script, export](02_trace_script_export.ipynb)
# · Next: [04: ATen symbolic functions](04_aten_symbolic.ipynb)
# · [Glossary](../docs/glossary.md)
