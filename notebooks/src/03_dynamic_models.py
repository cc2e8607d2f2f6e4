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
# - name the axes that may change, on both exporters, and see in the file whether the exporter kept its word;
# - turn a number that an operator takes as a constant, here an upscaling factor, into an input of the model;
# - resize a photo in ONNX Runtime exactly as PyTorch does it, down to the number of pixels.
#
# Notes on deployment call it the first difficulty: models are dynamic, and engines prefer them static.

# %%
import logging
import math
import warnings

import numpy as np
import onnx
import onnxruntime as ort
import torch
import torch.nn.functional as F
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, NotImplemented
from torch.export import Dim

from oplab import lesson, quiet_exports, raises

lab = lesson("03_dynamic_models")

# %% [markdown]
# The photo, the network, and three helpers. `export_ts` is the **TorchScript path**, `export_dynamo` the **dynamo path**.
# Each returns a model that is complete in memory. `run` runs one in ONNX Runtime.

# %%
from oplab.nets.photos import photo, to_image, to_nchw
from oplab.nets.srcnn import load_srcnn, psnr, shrink

quiet_exports()
logging.getLogger("torch").setLevel(logging.CRITICAL)  # a failed export logs the graph that it had so far
small = shrink(torch.from_numpy(to_nchw(photo("chelsea", (300, 450)))), 3)
srcnn = load_srcnn()
print("photo", tuple(small.shape))

# %%
CPU = ["CPUExecutionProvider"]


def export_ts(model, inputs, names, axes=None, opset=17):
    path = lab.build / "model.onnx"
    options = {"dynamo": False, "opset_version": opset, "dynamic_axes": axes}
    torch.onnx.export(model.eval(), inputs, path, input_names=names, output_names=["output"], **options)
    return onnx.load(path)


# %%
def export_dynamo(model, inputs, names, shapes=None, table=None):
    options = {"dynamo": True, "verbose": False, "dynamic_shapes": shapes, "custom_translation_table": table}
    return torch.onnx.export(model.eval(), inputs, input_names=names, output_names=["output"], **options).model_proto


def run(model, **feeds):
    return ort.InferenceSession(model.SerializeToString(), providers=CPU).run(None, feeds)[0]


# %% [markdown]
# ## 1. The failure: a size becomes a law
#
# Both exporters get one example. Its sizes are written into the file, unless you say otherwise. The *header* of a model
# says what goes in and comes out. `header` prints the shape of each input.


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
wider = small.repeat(1, 1, 1, 2)
print("PyTorch:", tuple(srcnn(wider).shape))
for model in fixed.values():
    with raises(InvalidArgument, "index: 3 Got: 300 Expected: 150"):
        run(model, input=wider.numpy())

# %% [markdown]
# That is one line of the message "Got invalid dimensions for input: input". It names the axis, what came and what the file demands.
# A wrong number of axes is refused in the same way.

# %%
with raises(InvalidArgument, "Invalid rank"):
    run(model, input=small[0].numpy())

# %% [markdown]
# ## 2. TorchScript path: `dynamic_axes` is a label
#
# `dynamic_axes` gives names to axes, by the name of an input *or* output. SRCNN runs at every size now.

# %%
image_axes = {0: "batch", 2: "height", 3: "width"}
model = export_ts(srcnn, (small,), ["input"], {"input": image_axes, "output": image_axes})
print(header(model))
got = run(model, input=wider.numpy())
print(got.shape, "within 1e-5:", bool(np.abs(got - srcnn(wider).numpy()).max() <= 1e-5))

# %% [markdown]
# SRCNN is made of convolutions, and a convolution does not care. But a trace records **tensor operators** only. As soon as a
# size goes through Python, it is a number. This model returns the left half of a photo.


# %%
class LeftHalf(torch.nn.Module):
    def forward(self, photo):
        return photo[..., : math.ceil(photo.shape[3] / 2)]


half = export_ts(LeftHalf(), (small,), ["photo"], {"photo": image_axes, "output": image_axes})
print(header(half))
print("PyTorch:     ", tuple(LeftHalf()(wider).shape))
print("ONNX Runtime:", run(half, photo=wider.numpy()).shape)

# %% [markdown]
# The header says `width`, the session takes every width, and the answer is 75 columns for ever: half of the width at export.
# Nothing fails. The only sign was a warning while it was traced, and this notebook, like many programs, had switched
# warnings off.

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    export_ts(LeftHalf(), (small,), ["photo"], {"photo": image_axes})
print(*{str(w.message).split(". ")[0] for w in caught if w.category is torch.jit.TracerWarning})

# %% [markdown]
# `dynamic_axes` changes the header. It does not change, and does not check, what was recorded. So a label needs a test: run the
# file at a size that is not the example's, and compare.
#
# ## 3. Dynamo path: `dynamic_shapes` is a claim
#
# The dynamo path captures the model with `torch.export`. There a size is a *symbol*, and Python's `math.ceil` of a symbol is a
# symbol too. The same model comes out right.

# %%
half = export_dynamo(LeftHalf(), (small,), ["photo"], ({0: "batch", 2: "height", 3: "width"},))
print(header(half))
print("ONNX Runtime:", run(half, photo=wider.numpy()).shape)
print([node.op_type for node in half.graph.node])

# %% [markdown]
# `dynamic_shapes` is keyed by the arguments of `forward`, by position or by name. What you write for an axis is a claim that the
# model works for every size there. `torch.export` tests the claim against the code. You can write it in four ways:
#
# | you write | you claim |
# |---|---|
# | `"height"` | this axis is dynamic, and that is its name |
# | `Dim("height", min=2, max=4096)` | the same, with a range; one `Dim` object for several axes says that they are equal |
# | `2 * Dim("half_height")` | dynamic and even |
# | `Dim.AUTO` | nothing: find out, and name it as you like |
#
# An axis that is not mentioned has the size of the example.
#
# Now a model that needs all of that: it works on blocks of 2 × 2 pixels, and has one gain for each photo.


# %%
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
# ### A claim that is false
#
# Forget the axis of `gain`. Then `gain` has the size 2, the code multiplies the two, and so the batch is 2. Watch what becomes of
# the claim that it is dynamic. `torch.export` itself is strict:

# %%
wrong = ({0: batch, 2: even_height, 3: even_width}, None)
with raises(torch._dynamo.exc.UserError, "your code specialized it to be a constant (2)"):
    torch.export.export(Blocks(), pair, dynamic_shapes=wrong)

# %% [markdown]
# Its message ends in "Suggested fixes: batch = 2". `torch.onnx.export` **takes the suggestion** and says nothing (torch 2.15).
# A name as text is stricter.

# %%
auto = ({0: Dim.AUTO, 2: Dim.AUTO, 3: Dim.AUTO}, None)
for label, shapes in {"Dim": wrong, "Dim.AUTO": auto}.items():
    model = export_dynamo(Blocks(), pair, ["photo", "gain"], shapes)
    print(f"{label:9}", header(model))

text = ({0: "batch", 2: "height", 3: "width"}, None)
with raises(torch.onnx.OnnxExporterError, "tracing inferred a static shape of 2 for dimension"):
    export_dynamo(Blocks(), pair, ["photo", "gain"], text)

# %% [markdown]
# Three answers to the same mistake:
#
# - `Dim`: the batch has become 2. The header is honest, if you look.
# - `Dim.AUTO`: the header of `photo` still has a made-up name for the batch. It is not true, see below.
# - Text: the export fails, and says which axis it is. Prefer this one. (It finds an axis that became *one* size. It does not
#   find a range that the code has narrowed: chapter 02, section 4, has the check.)

# %%
with raises(InvalidArgument, "Got invalid dimensions"):
    run(model, photo=x.numpy(), gain=gain.numpy())
with raises(Fail, "broadcast"):
    run(model, photo=x.numpy(), gain=gain[:2].numpy())

# %% [markdown]
# Two more things that the header cannot do. The file may *say* `2*half_height`, but ONNX Runtime does not compute with names: an
# odd height fails somewhere in the middle. And the range of a `Dim` is not in the file at all.

# %%
model = export_dynamo(Blocks(), pair, ["photo", "gain"], claims["Dim"])
with raises(Fail, "Reshape node"):
    run(model, photo=torch.rand(5, 3, 7, 10).numpy(), gain=gain.numpy())

ranged = ({0: batch, 2: 2 * Dim("half_height", max=8), 3: even_width}, {0: batch})
model = export_dynamo(Blocks(), pair, ["photo", "gain"], ranged)
print(header(model)["photo"], run(model, photo=torch.rand(5, 3, 100, 10).numpy(), gain=gain.numpy()).shape)

# %% [markdown]
# One axis has to stay fixed here: SRCNN's first weights fit three channels. The TorchScript path lets you name it, which
# promises something false. The dynamo path refuses the name.

# %%
model = export_ts(srcnn, (small,), ["input"], {"input": {1: "channels"}})
print("TorchScript path:", header(model))
with raises(torch.onnx.OnnxExporterError, "dimension inputs[0].shape[1]"):
    export_dynamo(srcnn, (small,), ["input"], ({1: "channels"},))

# %% [markdown]
# ## 4. A size that is a *value*: the factor
#
# Until now a size came from the shape of an input. Super-resolution asks for more: the user picks a **factor**, 1.5 or 2 or 3, and
# the factor decides how large the output is. The size depends on the *value* of an input.
#
# In PyTorch that is one line. The factor of this model stands in a tensor of four scales, one for each axis, as ONNX will want
# it.


# %%
class Naive(torch.nn.Module):
    def forward(self, x, scales):
        return F.interpolate(x, scale_factor=scales.tolist()[-2:], mode="bicubic", align_corners=False)


def factor(value):
    return torch.tensor([1.0, 1.0, value, value])


[tuple(Naive()(small, factor(value)).shape) for value in (1.5, 2, 3)]

# %% [markdown]
# The `.tolist()` is needed: `interpolate` takes numbers (floats too, not only integers), and no tensor.

# %%
with raises(TypeError, "invalid combination of arguments"):
    F.interpolate(small, scale_factor=factor(2)[-2:], mode="bicubic")

# %% [markdown]
# Export it. On the TorchScript path:

# %%
names = ["input", "factor"]
axes = {"input": image_axes, "output": {0: "batch", 2: "new_height", 3: "new_width"}}
naive = export_ts(Naive(), (small, factor(3)), names, axes)
print(header(naive))
print(run(naive, input=small.numpy()).shape)
lab.show(naive)

# %% [markdown]
# No error, and the input `factor` **is gone**. Its value at export, 3, stands in the graph as a constant. Two names were given, one
# was used. A program that feeds the factor finds out late; a check of the names finds out at once.

# %%
with raises(InvalidArgument, "Invalid input name"):
    run(naive, input=small.numpy(), factor=factor(2).numpy())

missing = set(names) - set(header(naive))
print("missing inputs:", missing)
assert missing == {"factor"}

# %% [markdown]
# The dynamo path notices. It follows the value as far as `interpolate`, whose schema wants floats, and stops.

# %%
shapes = ({0: "batch", 2: "height", 3: "width"}, None)
with raises(torch.onnx.OnnxExporterError, "found element of type SymFloat"):
    export_dynamo(Naive(), (small, factor(3)), names, shapes)

# %% [markdown]
# So the operator stands in the way: `aten::upsample_bicubic2d` has its scales as *arguments*, and an argument is a constant of the
# graph. Is ONNX any better?
#
# ## 5. Resize, and where it looks
#
# ONNX has `Resize`, and there the scales are an **input**.

# %%
resize = onnx.defs.get_schema("Resize", 17)
print(*[f"{i.name}: {i.option.name}" for i in resize.inputs], sep=", ")
print(", ".join(resize.attributes))

# %% [markdown]
# Four inputs, in this order: `X`, `roi` (for one mode that nobody here needs), `scales`, `sizes`. You give scales *or* sizes. The
# attributes decide which pixels are mixed, and with which weights. For PyTorch each has one right value. Find it by experiment:
# this function makes a model of one `Resize`.

# %%
from onnx import TensorProto, helper


def resize_model(inputs=("x", "", "scales"), **attributes):
    options = {"mode": "cubic"} | attributes
    node = helper.make_node("Resize", list(inputs), ["y"], **options)
    kind = TensorProto.INT64 if inputs[-1] == "sizes" else TensorProto.FLOAT
    values = [("x", TensorProto.FLOAT, list("nchw")), (inputs[-1], kind, [4]), ("y", TensorProto.FLOAT, list("abcd"))]
    x, scales, y = [helper.make_tensor_value_info(*value) for value in values]
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(helper.make_graph([node], "g", [x, scales], [y]), opset_imports=opsets, ir_version=8)


# %% [markdown]
# Where does output pixel *i* look? That is `coordinate_transformation_mode`. The picture resizes four pixels by 1.5. A ramp is
# fed, so the values that come out *are* the places.

# %%
import matplotlib.pyplot as plt

from oplab.figures.drawings import FAINT, GREEN, INK, ORANGE, RED

modes = ["half_pixel", "asymmetric", "align_corners"]
ramp = np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4)
places = {}
for mode in modes:
    model = resize_model(mode="linear", coordinate_transformation_mode=mode)
    places[mode] = run(model, x=ramp, scales=np.float32([1, 1, 1, 1.5]))[0, 0, 0]
print({mode: [round(float(place), 2) for place in found] for mode, found in places.items()})

# %%
torch_places = F.interpolate(torch.from_numpy(ramp)[0], scale_factor=1.5, mode="linear", align_corners=False)[0, 0]
assert np.allclose(torch_places, places["half_pixel"]) and not np.allclose(torch_places, places["asymmetric"])

figure, drawing = plt.subplots(figsize=(9, 2.7), layout="constrained")
for row, (mode, colour) in enumerate(zip(modes, (GREEN, ORANGE, RED), strict=True)):
    for pixel in range(4):
        drawing.add_patch(plt.Rectangle((pixel - 0.5, -row - 0.3), 1, 0.6, fc="#f3f5f6", ec=FAINT))
    drawing.scatter(places[mode], [-row] * 6, color=colour, s=42, zorder=3)
drawing.set_yticks([0, -1, -2], ["half_pixel\n(PyTorch)", "asymmetric", "align_corners"], color=INK)
drawing.set_xticks(range(4), [f"pixel {i}" for i in range(4)])
drawing.set_title(
    "Four pixels become six: where each new pixel reads (beyond the outer centres: the edge's value)", size=10
)
drawing.tick_params(length=0)
drawing.set_frame_on(False)

# %% [markdown]
# `half_pixel` is the fair one: pixels are squares, and the new squares divide the same line evenly. Its rule is
# `(i + 0.5) / scale - 0.5`.
#
# ONNX also has `pytorch_half_pixel`. The name is a trap. Compare all of them with PyTorch, for two factors, one of which leaves a
# single pixel.

# %%
x = torch.rand(1, 3, 12, 12, generator=torch.manual_seed(3))
attributes = {mode: {"coordinate_transformation_mode": mode} for mode in [*modes[:1], "pytorch_half_pixel", *modes[1:]]}
attributes["half_pixel, a = -0.5"] = {"coordinate_transformation_mode": "half_pixel", "cubic_coeff_a": -0.5}
print(f"{'largest error at':22} factor 3   factor 1/12")
for label, options in attributes.items():
    found = []
    for value in (3, 1 / 12):
        got = run(resize_model(**options), x=x.numpy(), scales=factor(value).numpy())
        found.append(np.abs(got - Naive()(x, factor(value)).numpy()).max())
    print(f"{label:22} {found[0]:<10.3f} {found[1]:.3f}")

# %% [markdown]
# `pytorch_half_pixel` is `half_pixel`, except for an output of one pixel: that one reads at 0 instead of the middle. PyTorch
# reads the middle, whatever the name says, so texts that recommend it are wrong there. The cubic's
# coefficient a is −0.75 in PyTorch, and by default in ONNX too.
#
# ### Scales or sizes
#
# Given `sizes`, `Resize` computes the scale from them. That is another number as soon as the size was rounded. Five pixels
# times 2.3 are 11.5, so 11. The ratio 11 / 5 is 2.2.

# %%
line = torch.rand(1, 1, 5, 5, generator=torch.manual_seed(5)).numpy()
by_scales = run(resize_model(), x=line, scales=factor(2.3).numpy())
by_sizes = run(resize_model(("x", "", "", "sizes")), x=line, sizes=np.array([1, 1, 11, 11]))
expected = {
    "interpolate(scale_factor=2.3)": Naive()(torch.from_numpy(line), factor(2.3)).numpy(),
    "interpolate(size=(11, 11))": F.interpolate(torch.from_numpy(line), size=(11, 11), mode="bicubic").numpy(),
}
for label, right in expected.items():
    print(f"{label:30} scales: {np.abs(by_scales - right).max():.4f}   sizes: {np.abs(by_sizes - right).max():.4f}")

# %% [markdown]
# The same shape, two pictures. PyTorch has both meanings too, and each fits one of ONNX's inputs. What you may not do is to mix
# them. And a factor in the *place* of sizes is no whole number; the checker refuses it.

# %%
with raises(onnx.shape_inference.InferenceError, "sizes"):
    swapped = resize_model(("x", "", "", "scales"))
    onnx.checker.check_model(swapped, full_check=True)

# %% [markdown]
# ## 6. How many pixels are 10 × 2.3?
#
# 23. But the factor is a float32, and 2.3 as a float32 is a little less.

# %%
single = np.float32(2.3)
print(f"2.3 - float32(2.3) = {2.3 - float(single):.1e}")
print(f"double:  10 x 2.3 = {10 * float(single):.7f}, floor {math.floor(10 * float(single))}")
print(f"float32: 10 x 2.3 = {np.float32(10) * single:.7f}, floor {math.floor(np.float32(10) * single)}")

# %% [markdown]
# Who multiplies how? Ask four programs, for a few sizes.

# %%
from onnx.reference import ReferenceEvaluator

reference = ReferenceEvaluator(resize_model())
rows = {}
for size, value in [(10, 2.3), (50, 2.3), (100, 2.3), (7, 2.3), (10, 1.3), (10, 0.7), (100, 1.5)]:
    x = np.zeros((1, 1, size, 1), np.float32)
    scales = np.float32([1, 1, value, 1])
    rows[size, value] = (
        Naive()(torch.from_numpy(x), torch.from_numpy(scales)).shape[2],
        F.interpolate(torch.from_numpy(x), scale_factor=(value, 1.0), mode="bicubic").shape[2],
        run(resize_model(), x=x, scales=scales).shape[2],
        reference.run(None, {"x": x, "scales": scales})[0].shape[2],
    )

# %%
columns = ["PyTorch, float32 factor", "PyTorch, Python number", "ONNX Runtime", "onnx.reference"]
print(" " * 10, *columns, sep="  ")
for (size, value), found in rows.items():
    print(f"{size:>4} x {value:<3}", *[f"{n:>{len(c)}}" for n, c in zip(found, columns, strict=True)], sep="  ")
assert rows[100, 2.3] == (229, 229, 230, 229)

# %% [markdown]
# ONNX Runtime multiplies in float32, everybody else in double. Our photo has 100 rows: at 2.3 PyTorch makes 229 of them, and ONNX
# Runtime 230. Nobody breaks a rule. The specification names no precision, and plain Python makes 114 pixels of 50 too.

# %%
print(*[line.strip() for line in resize.doc.splitlines() if "floor" in line])
print("50 x 2.3 in Python:", math.floor(50 * 2.3))
with raises(AssertionError, "Shapes are not equal"):
    got = run(resize_model(), x=small.numpy(), scales=factor(2.3).numpy())
    np.testing.assert_equal(got.shape, Naive()(small, factor(2.3)).numpy().shape, "Shapes are not equal")

# %% [markdown]
# Two systems have to agree, so one of them has to follow. ONNX Runtime's kernel is compiled; your PyTorch code is not. The ATen
# operator below `interpolate` takes the size *and* the scales, so both can be right. For bilinear there is one of the same form.

# %%
for operator in (torch.ops.aten.upsample_bicubic2d, torch.ops.aten.upsample_bilinear2d):
    print(operator.default._schema)


def bicubic(x, scales):
    """Bicubic resize as ONNX Runtime's Resize does it: sizes from a float32 product, coordinates from the scales."""
    size = torch.tensor(x.shape[-2:]) * scales[-2:]  # int64 times float32 is float32
    return torch.ops.aten.upsample_bicubic2d(x, size.int().tolist(), False, *scales[-2:].tolist())


# %%
def same_size(size, value):
    x, scales = torch.zeros(1, 1, size, 1), torch.tensor([1, 1, value, 1])
    return bicubic(x, scales).shape == run(resize_model(), x=x.numpy(), scales=scales.numpy()).shape


assert all(same_size(size, value) for size, value in rows)
draws = np.random.default_rng(6)
print(all(same_size(int(draws.integers(4, 600)), float(draws.uniform(0.3, 5))) for _ in range(300)))

# %% [markdown]
# ## 7. TorchScript path: a Function with its own mapping
#
# Now the mapping. `torch.autograd.Function` makes an operator of your own out of two methods. `forward` is what PyTorch runs.
# `symbolic` is what the TorchScript path writes into the graph instead of looking at `forward`. Its arguments are the graph
# context `g` and one graph value for each argument of `forward` (without `ctx`). `g.op` writes one node: first the inputs, then the
# attributes, each with its type at the end of its name: `_s` string, `_f` float, `_i` integer, `_t` tensor (chapter 05). `Resize`
# does not read `roi` in this mode, but opset 11 demands it, so it gets a tensor without elements. (That is no way to leave an
# input out in general: chapter 05, section 8. A Python `None` in its place crashes the process.)


# %%
class NewInterpolate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scales):
        return bicubic(x, scales)

    @staticmethod
    def symbolic(g, x, scales):
        roi = g.op("Constant", value_t=torch.tensor([], dtype=torch.float32))  # not used, but opset 11 demands it
        mode = {"mode_s": "cubic", "coordinate_transformation_mode_s": "half_pixel", "cubic_coeff_a_f": -0.75}
        return g.op("Resize", x, roi, scales, **mode)


# %% [markdown]
# `StrangeSuperResolutionNet` enlarges by any factor, then sharpens with SRCNN: the course's net with its trained weights. It works
# on the brightness of the photo and gives the detail to all three colours, so nothing else is needed for colour.


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
# `factor` is an input, and `Resize` reads it. One file, saved once. The proof: four factors that it runs, three of which it never
# saw.


# %%
def prove(model, net):
    file = lab.build / "super_resolution.onnx"
    onnx.save(model, file)
    session = ort.InferenceSession(file, providers=CPU)
    photos = {}
    for value in (1.5, 2, 2.3, 3):
        (got,) = session.run(["output"], {"input": small.numpy(), "factor": factor(value).numpy()})
        expected = net(small, factor(value)).numpy()
        gap = np.abs(got - expected).max() if got.shape == expected.shape else np.inf
        print(f"factor {value:<3}  ONNX Runtime {got.shape}, PyTorch {expected.shape}, within 1e-5: {gap <= 1e-5}")
        assert gap <= 1e-5, f"factor {value}: the two disagree"
        photos[value] = got
    return photos


enlarged = prove(on_ts_path, net)

# %% [markdown]
# The comparison can fail. With the plain `interpolate` in `forward`, as older texts have it, it does, at 2.3:

# %%
with raises(AssertionError, "factor 2.3: the two disagree"):
    prove(on_ts_path, StrangeSuperResolutionNet(Naive()))  # interpolate(scale_factor=…)

# %% [markdown]
# And the exported file does not depend on `forward` at all. Here is a `forward` that is plainly wrong. The graph is the same.


# %%
class WrongForward(NewInterpolate):
    @staticmethod
    def forward(ctx, x, scales):
        return F.interpolate(x, scale_factor=scales.tolist()[-2:], mode="nearest")


other = export_ts(StrangeSuperResolutionNet(WrongForward.apply), (small, factor(3)), names, axes)
print("same nodes:", [n.op_type for n in other.graph.node] == [n.op_type for n in on_ts_path.graph.node])
print("same numbers:", np.array_equal(run(other, input=small.numpy(), factor=factor(2).numpy()), enlarged[2]))

# %% [markdown]
# So nobody but your test compares the two. Which opsets? `Resize` has cubic coordinates and its four inputs since opset 11. At 10
# the export still succeeds, and the file is invalid.

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
# The dynamo path ignores `symbolic`. It traces `forward`, and meets the same wall as before. (Shown with the `forward` that older
# texts have; with ours the exporter stops at the next operator for the same reason.)


# %%
class OldForward(NewInterpolate):
    @staticmethod
    def forward(ctx, x, scales):
        return F.interpolate(x, scale_factor=scales.tolist()[-2:], mode="bicubic", align_corners=False)


with raises(torch.onnx.OnnxExporterError, "found element of type SymFloat"):
    export_dynamo(StrangeSuperResolutionNet(OldForward.apply), (small, factor(3)), names, shapes)

# %% [markdown]
# Here an operator of your own is made with `torch.library.custom_op`. It is opaque: the exporter does not look inside. The body
# may use `.tolist()` and whatever it likes.


# %%
@torch.library.custom_op("c03::resize", mutates_args=())
def resize_op(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return bicubic(x, scales)


net_op = StrangeSuperResolutionNet(resize_op)
print(torch.equal(net_op(small, factor(2.3)), net(small, factor(2.3))))
with raises(torch.onnx.OnnxExporterError, "no fake impl registered"):
    export_dynamo(net_op, (small, factor(3)), names, shapes)

# %% [markdown]
# During an export no numbers flow, only shapes: tensors are *fake*. The operator has to say which shape comes out. But height and
# width depend on the value of `scales`, and a fake tensor has no values. What about the factor of the example?


# %%
@resize_op.register_fake
def three_times(x, scales):
    return x.new_empty(*x.shape[:2], 3 * x.shape[2], 3 * x.shape[3])


with raises(Exception, "are not equal"):
    torch.library.opcheck(resize_op, (small, factor(2.3)), test_utils=["test_schema", "test_faketensor"])

# %% [markdown]
# That is right for 3 only. `opcheck` runs operator and fake beside each other and finds it. The honest answer is "a size that
# nobody knows yet": `get_ctx().new_dynamic_size()` makes a new symbol for it.


# %%
@resize_op.register_fake
def unknown_size(x, scales):
    context = torch.library.get_ctx()
    return x.new_empty(*x.shape[:2], context.new_dynamic_size(), context.new_dynamic_size())


torch.library.opcheck(resize_op, (small, factor(2.3)), test_utils=["test_schema", "test_faketensor"])

# %% [markdown]
# The capture works now. What is missing is the mapping, link 2 of chapter 00: which ONNX nodes stand for `c03::resize`?

# %%
with raises(torch.onnx.OnnxExporterError, "No ONNX function found for"):
    export_dynamo(net_op, (small, factor(3)), names, shapes)

# %% [markdown]
# A translation is a function of `onnxscript`. Its arguments and its result carry types. `opset18` is where `op.Resize` comes from;
# `None` leaves an input out, here `roi`. The table's key is the operator's overload, `.default`.

# %%
from onnxscript import FLOAT
from onnxscript import opset18 as op


def translate(x: FLOAT, scales: FLOAT) -> FLOAT:
    return op.Resize(x, None, scales, mode="cubic", coordinate_transformation_mode="half_pixel", cubic_coeff_a=-0.75)


table = {torch.ops.c03.resize.default: translate}
on_dynamo_path = export_dynamo(net_op, (small, factor(3)), names, shapes, table)
onnx.checker.check_model(on_dynamo_path, full_check=True)
print(
    header(on_dynamo_path),
    "->",
    [dim.dim_param or dim.dim_value for dim in on_dynamo_path.graph.output[0].type.tensor_type.shape.dim],
)

# %%
again = prove(on_dynamo_path, net_op)
print("both files give the same photos:", all(np.allclose(again[value], enlarged[value], atol=1e-6) for value in again))

# %% [markdown]
# A constant in a translation is a node too, `op.Constant`. Outside an export `op` computes at once, so you can try a node before you
# use it.

# %%
print(op.Mul(np.float32([1, 2]), op.Constant(value_floats=[10.0, 0.5])))

# %% [markdown]
# `u0` and `u1` in the header of the output are the two unknown sizes. Left the naive graph, right the new one:

# %%
lab.show(naive, on_dynamo_path)

# %% [markdown]
# | | TorchScript path | dynamo path |
# |---|---|---|
# | your operator | `autograd.Function`, `forward` | `torch.library.custom_op` |
# | its shape during the export | `forward` runs on the example | the fake: `new_dynamic_size()` |
# | its mapping | `symbolic(g, …)` in the class | a typed onnxscript function in `custom_translation_table` |
# | a number that Python takes out of a tensor | a constant, with a warning | a symbol, which `interpolate`'s scales refuse |
# | opsets | 11 to 20 | 18 and newer |
#
# ## 9. One model, many factors
#
# The photos come from the file, through ONNX Runtime. All crops show the same part of the scene, pixel by pixel.

# %%
views = {"input": small.numpy()} | {f"× {value}": image for value, image in enlarged.items()}
figure, grid = plt.subplots(1, 5, figsize=(11, 2.6), width_ratios=[1, 1.5, 2, 2.3, 3], layout="constrained")
for (title, image), drawing in zip(views.items(), grid, strict=True):
    drawing.imshow(to_image(image), interpolation="nearest")
    drawing.set_title(f"{title}\n{image.shape[2]} × {image.shape[3]}", size=9, color=INK)
    drawing.set_anchor("S")
    drawing.axis("off")

# %%
figure, grid = plt.subplots(1, 5, figsize=(11, 2.5), layout="constrained")
for (title, image), drawing in zip(views.items(), grid, strict=True):
    height, width = image.shape[2:]
    window = np.s_[int(0.26 * height) : int(0.56 * height), int(0.30 * width) : int(0.50 * width)]
    drawing.imshow(to_image(image)[window], interpolation="nearest")
    drawing.set_title(title, size=10, color=INK)
    drawing.axis("off")

# %% [markdown]
# How good are they? The original is larger, so there is a truth to compare with at each factor. PSNR in decibels, more is
# better.

# %%
for value, image in enlarged.items():
    truth = to_nchw(photo("chelsea", image.shape[2:]))
    plain = bicubic(small, factor(value)).numpy()
    print(
        f"× {value:<3}  bicubic {psnr(plain.clip(0, 1), truth):.1f} dB   SRCNN {psnr(image.clip(0, 1), truth):.1f} dB"
    )

# %% [markdown]
# The net was trained at the factors 2 and 3, and there it helps. At 1.5 it sharpens what is sharp already. That a file *runs* at every
# factor says nothing about how good the model is there: that was decided in training.
#
# ## 10. A third way, and what it costs
#
# On the dynamo path you can stay within PyTorch's own operators: compute the *size* from the factor. Sizes may be unknown
# symbols there, scales may not.


# %%
class BySize(torch.nn.Module):
    def forward(self, x, scales):
        height, width = (x.shape[2] * scales[2]).int().item(), (x.shape[3] * scales[3]).int().item()
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
    print(f"factor {value:<3}  {got.shape}  as BySize in PyTorch: {close[0]}, as the resize by scales: {close[1]}")

# %% [markdown]
# It is a right export of *another* function: `Resize` with `sizes`. If that is what your model means, it is the shortest way. A net
# that was trained with scales sees its photos shifted by up to a pixel. On the TorchScript path this version loses the factor
# too.

# %%
print(header(export_ts(BySize(), (small, factor(3)), names, axes)))

# %% [markdown]
# ## 11. Limits
#
# - **Large photos drift.** Both systems compute coordinates in float32, in another order. The error of a coordinate grows with the
#   coordinate, so the same model differs more on a larger photo. Factor 2 is exact. At 1.5, on noise:

# %%
for size in (32, 256, 512):
    noise = torch.rand(1, 1, size, size, generator=torch.manual_seed(8))
    gaps = []
    for value in (1.5, 2):
        got = run(resize_model(), x=noise.numpy(), scales=factor(value).numpy())
        gaps.append(np.abs(got - bicubic(noise, factor(value)).numpy()).max())
    print(
        f"{size:>4} pixels: above 1e-5: {gaps[0] > 1e-5!s:5}  above 1e-4: {gaps[0] > 1e-4!s:5}  factor 2 above 1e-6: {gaps[1] > 1e-6}"
    )

# %% [markdown]
# - For a cubic, the scales of batch and channels have to be 1, and none may be 0 or less. ONNX Runtime says so when it runs, not
#   before.

# %%
for scales in ([1, 2, 2, 2], [1, 1, 0, 2]):
    with raises(Fail, "Resize node"):
        run(resize_model(), x=line, scales=np.float32(scales))

# %% [markdown]
# - A valid `Resize` can lack a kernel. ONNX Runtime's CPU has none for float64.

# %%
double = resize_model()
for value in (double.graph.input[0], double.graph.output[0]):
    value.type.tensor_type.elem_type = TensorProto.DOUBLE
onnx.checker.check_model(double, full_check=True)
with raises(NotImplemented, "NOT_IMPLEMENTED"):
    run(double, x=line.astype(np.float64), scales=factor(2).numpy())

# %% [markdown]
# - An unknown output size has a price: the engine cannot plan its memory ahead. Some engines want a range for each dynamic axis;
#   the ONNX file has no place for it.
# - `dynamic_shapes` describes shapes. That two *values* fit each other, as a factor and a size, no exporter can know.
#
# ## 12. Exercises
#
# Your file is `exercises/c03_dynamic_models.py`. A docstring is the specification. `lab.hint("dynamic_batch")` gives a hint.
#
# **`dynamic_batch`** — a network with two inputs, whose code you do not see: any batch, any even height and width, and a header that
# tells the truth. One axis stays fixed.

# %%
lab.check("dynamic_batch")

# %% [markdown]
# **`tensor_scale_ts`** — the TorchScript path, without looking: bicubic, with one factor for the height and one for the width. The
# graph input has two numbers; how many does `Resize` want?

# %%
lab.check("tensor_scale_ts")

# %% [markdown]
# **`tensor_scale_dynamo`** — the dynamo path, *bilinear*, with one factor that has no axes. Operator, fake, translation.

# %%
lab.check("tensor_scale_dynamo")

# %% [markdown]
# ## What to read next
#
# - Chapter 04: mappings for operators that have none. Chapter 05: `g.op` in depth.
# - Chapter 08: the same resize as a *plugin*, a node of your own domain with a kernel of your own.
# - Chapter 10: translations on the dynamo path, and data-dependent shapes in general.
# - PyTorch's pages on `torch.export` and dynamic shapes, and the page of `Resize` in the ONNX operator reference.
