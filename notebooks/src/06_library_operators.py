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
# # 06 · TorchScript and library operators
#
# After this chapter you can
#
# - map an operator that a library adds to PyTorch, with all its tensors and parameters, to ONNX or to a custom domain;
# - give a node optional inputs in the correct positions, attributes of the right type, and the version of its domain;
# - find out what a mapping has lost before a user does.
#
# PyTorch's own operators are in the namespace `aten`. A library can register more operators in its own namespace:
# `torchvision::deform_conv2d`, `torch_cluster::grid`. Some texts call them *TorchScript operators*, because a traced graph
# contains each of them as one node. The exporter knows nothing about them.

# %%
import os

os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # a custom node without a known shape makes it warn
import torch
import torchvision

from oplab import lesson, quiet_exports, raises

lab = lesson("06_library_operators")
quiet_exports()  # no warnings, and no whole graph printed at each export that fails


class Predicted(torch.nn.Module):
    """The common use of the operator: an ordinary convolution predicts the offsets."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv1 = torch.nn.Conv2d(3, 18, 3)
        self.conv2 = torchvision.ops.DeformConv2d(3, 3, 3)

    def forward(self, x):
        return self.conv2(x, self.conv1(x))


missing = "unrecognized namespace torchvision::deform_conv2d"
with raises(torch.onnx.errors.UnsupportedOperatorError, missing):
    inputs = (torch.rand(1, 3, 20, 24),)
    torch.onnx.export(Predicted().eval(), inputs, lab.build / "no.onnx", dynamo=False)

# %% [markdown]
# *(TorchScript path.)* PyTorch runs this network, and the export fails: the exporter does not know the namespace.
# torchvision has mappings for some of its operators and registers them when it is imported. `deform_conv2d` is not among
# them.

# %%
from torch.onnx._internal.torchscript_exporter.registration import registry

sorted(name for name in registry.all_functions() if name.startswith("torchvision::"))

# %% [markdown]
# The next cell, which is folded, has four helpers. `export` uses the **TorchScript path** (`dynamo=False`), `run` uses ONNX
# Runtime without custom kernels, `wiring` lists each node with its inputs, and `versions` the version of
# each domain.

# %% {"jupyter": {"source_hidden": true}}
import importlib.util
import io
import itertools
import warnings

import matplotlib.pyplot as plt
import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidGraph
from torch.onnx import register_custom_op_symbolic
from torch.onnx.symbolic_helper import _is_none, parse_args

from oplab import ops, session
from oplab.figures import deforming
from oplab.figures.palette import BLUE, GREY, ORANGE
from oplab.nets import photos


def export(module, inputs, names, opset=19, **options):
    buffer = io.BytesIO()
    settings = {"opset_version": opset, "input_names": names, "output_names": ["out"]}
    torch.onnx.export(module, inputs, buffer, **{"dynamo": False, **settings, **options})
    return onnx.load_model_from_string(buffer.getvalue())


def run(model, feeds):
    kernels = ort.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return kernels.run(None, {name: np.asarray(value) for name, value in feeds.items()})[0]


def wiring(model):
    names = [f"{node.domain or 'ai.onnx'}::{node.op_type}" for node in model.graph.node]
    inputs = [", ".join(node.input) for node in model.graph.node]
    return [f"{name}({given})" for name, given in zip(names, inputs, strict=True)]


def versions(model):
    return {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}


# %% [markdown]
# ## 1. The operator: deformable convolution
#
# A 3×3 convolution reads nine points around each output pixel. A *deformable* convolution moves each of the nine points by an
# **offset**, which may be a fraction of a pixel, and a **mask** determines how much each point counts. Usually a small
# network predicts both. Here you compute them: the nine points are on an arc around a cat's eye. Points outside the photo do
# not count; the remaining points count a little more instead.

# %%
# The weights of the nine points: smaller towards the ends of the arc.
fade = torch.tensor([1.0, 2, 3, 4, 5, 4, 3, 2, 1]) / 25
image = torch.from_numpy(photos.to_nchw(photos.photo("chelsea", (200, 300))))
eye = (75, 115)
offset, mask = deforming.arc(200, 300, eye, fade)

# %% [markdown]
# The layer is torchvision's `DeformConv2d`, depthwise (`groups=3`), with a bias that makes the colours warmer.


# %%
class Spin(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.deform = torchvision.ops.DeformConv2d(3, 3, 3, padding=1, groups=3)
        with torch.no_grad():
            self.deform.weight.copy_(fade.reshape(1, 1, 3, 3).expand(3, 1, 3, 3))
            self.deform.bias.copy_(torch.tensor([0.06, 0.02, -0.04]))

    def forward(self, image, offset, mask):
        return self.deform(image, offset, mask)


# %%
spin = Spin().eval()
with torch.no_grad():
    spun = spin(image, offset, mask)
names = ["image", "offset", "mask"]
print("image", list(image.shape), " offset", list(offset.shape), " mask", list(mask.shape))

# %% [markdown]
# Each arrow starts where an ordinary convolution reads, and ends where the deformable convolution reads. Offsets come in
# pairs: channel 2k moves point k down, and channel 2k + 1 moves it to the right. An orange arrow ends outside the photo:
# its mask is 0.

# %% {"jupyter": {"source_hidden": true}}
figure = deforming.picture(photos.to_image(image), photos.to_image(spun), offset, mask, eye)
lab.figure(
    figure,
    "A photo of a cat with arcs of arrows around its eye, orange where they leave the photo; "
    "the nine numbered arrows of one pixel, enlarged; and the photo after the convolution, "
    "blurred along circles around the eye.",
)

# %% [markdown]
# ## 2. The schema, and one letter for each argument
#
# A library's operator has a schema like any other operator. Chapter 04 read schemas through `torch.ops.aten`; here the
# namespace is the library's.

# %%
schema = torch.ops.torchvision.deform_conv2d.default._schema
letters = {"Tensor": "v", "int": "i", "bool": "b"}
for argument in schema.arguments:
    print(f"{letters[str(argument.type)]}   {str(argument.type):8}{argument.name}")

# %% [markdown]
# There are five tensors and nine other parameters: eight ints and a bool. A symbolic function gets **all of them as values of
# the graph**, including the numbers. A value of the graph is not a Python number, so it cannot become an attribute.

# %%
target = "torchvision::deform_conv2d"


def with_values(g, x, weight, offset, mask, bias, stride_h, *others):
    print("stride_h is a", type(stride_h).__name__, "of the node", stride_h.node().kind())
    return g.op("DeformConv", x, weight, offset, bias, mask, strides_i=[stride_h, stride_h])


register_custom_op_symbolic(target, with_values, 19)
with raises(TypeError, "incompatible function arguments"):
    export(spin, (image, offset, mask), names)

# %% [markdown]
# The decorator `parse_args` converts constant values to Python numbers. It takes one letter for each argument of the schema,
# not counting `g`:
#
# | letter | the function gets | letter | the function gets |
# |---|---|---|---|
# | `"v"` | the value itself: for tensors | `"is"` | a list of ints |
# | `"i"` | an int | `"fs"` | a list of floats |
# | `"f"` | a float | `"s"` | a string |
# | `"b"` | a bool | `"t"` | a constant tensor |
# | `"none"` | the value, unchanged: for arguments that you do not read | | |
#
# It checks little. If a letter is missing, it raises an AssertionError. If there is a letter **too many**, there is no error.


# %%
def fourteen(
    g, x, weight, offset, mask, bias, sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask
):
    read = {"sh": sh, "ph": ph, "groups": groups, "use_mask": use_mask}
    print({n: v if isinstance(v, int) else type(v).__name__ for n, v in read.items()})
    return g.op("DeformConv", x, weight, offset, bias, mask)


register_custom_op_symbolic(target, parse_args(*"vvvvviiiiiiii")(fourteen), 19)
with raises(AssertionError, "number of arguments (14) and their descriptors (13)"):
    export(spin, (image, offset, mask), names)
register_custom_op_symbolic(target, parse_args(*"vvvvviiiiiiiibb")(fourteen), 19)
model = export(spin, (image, offset, mask), names)

# %% [markdown]
# A function with `*others` does not get all the arguments: `parse_args` passes one argument for each parameter in the Python
# signature, and `*others` counts as one parameter. Write out all the names.


# %%
def starred(g, x, weight, offset, *others):
    print("others:", len(others), "of 11")
    return g.op("DeformConv", x, weight, offset)


register_custom_op_symbolic(target, parse_args(*"vvvvviiiiiiiib")(starred), 19)
model = export(spin, (image, offset, mask), names)

# %% [markdown]
# A letter for a number cannot work for an argument that is a tensor, because the value of `bias` is not known before the model runs.

# %%
register_custom_op_symbolic(target, parse_args(*"vvvviiiiiiiiib")(fourteen), 19)
with raises(
    torch.onnx.errors.SymbolicValueError,
    "Expected node type 'onnx::Constant' for argument 'bias'",
):
    export(spin, (image, offset, mask), names)

# %% [markdown]
# ## 3. The naive attempt: two inputs
#
# Texts about this operator often stop at a shortcut: they state that ONNX has no such operator, write a node in an invented
# domain with two of the inputs, and never run it.


# %%
@parse_args("v", "v", "v", "v", "v", "i", "i", "i", "i", "i", "i", "i", "i", "none")
def shortcut(
    g, x, weight, offset, mask, bias, sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask
):
    return g.op("custom::deform_conv2d", x, offset)


register_custom_op_symbolic(target, shortcut, 9)
register_custom_op_symbolic(target, shortcut, 19)  # replaces the experiments of section 2
lost = export(spin, (image, offset, mask), names)
print(wiring(lost))
onnx.checker.check_model(lost, full_check=True)

# %% [markdown]
# The export reports nothing. The checker accepts the model, because it does not know the domain `custom`. Only a runtime
# refuses the model.

# %%
with raises(Fail, "custom:deform_conv2d(-1) is not a registered function/op"):
    run(lost, {"image": image, "offset": offset})

# %% [markdown]
# Suppose that somebody writes the kernel. Which data would it get?

# %%
print("tensors in the node:", len(lost.graph.node[0].input), "of 5")
print("parameters in the node:", len(lost.graph.node[0].attribute), "of 9")
kept = sum(np.prod(entry.dims) for entry in lost.graph.initializer)
print("weights in the file:", kept, "of", 27 + 3)
print("graph inputs:", [value.name for value in lost.graph.input], "(mask is gone)")

# %% [markdown]
# Two networks that compute different things are exported to **the same file**.

# %%
other = Spin().eval()
with torch.no_grad():
    other.deform.weight.mul_(0.2)
    gap = (other(image, offset, mask) - spun).abs().max()
same = (
    export(other, (image, offset, mask), names).SerializeToString() == lost.SerializeToString()
)
print(f"PyTorch: up to {255 * gap:.0f} of 255 grey levels apart. The files are equal: {same}")
assert same

# %% [markdown]
# The author of a kernel for this node has to guess. Assume a good guess: nine equal weights and the correct padding. The next
# cell prints the error that each lost tensor causes on the photo, in grey levels out of 255.

# %%
even = torch.full((3, 1, 3, 3), 1 / 9)
weight, bias = spin.deform.weight.detach(), spin.deform.bias.detach()
guesses = {
    "nothing lost": (weight, bias, mask),
    "weight guessed": (even, bias, mask),
    "bias lost": (weight, None, mask),
    "mask lost": (weight, bias, None),
    "all three": (even, None, None),
}
for label, (w, b, m) in guesses.items():
    guess = torchvision.ops.deform_conv2d(image, offset, w, b, padding=1, mask=m)
    error = 255 * (guess - spun).abs()
    print(f"{label:15} mean error {error.mean():5.1f}   largest {error.max():5.1f}")

# %% [markdown]
# ## 4. The fix: DeformConv
#
# "ONNX has no deformable convolution" was once true. Check the operator schemas.

# %%
since = [
    s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.name == "DeformConv"
]
deform = onnx.defs.get_schema("DeformConv", 19)
print("versions of DeformConv:", sorted(since))
optional = {entry.name: "Optional" in str(entry.option) for entry in deform.inputs}
print("inputs:    ", [name + "?" * missing for name, missing in optional.items()])
print("attributes:", sorted(deform.attributes))

# %% [markdown]
# The table shows which PyTorch argument belongs to which ONNX input or attribute. The names differ, and so does the order;
# `print(deform.doc)` has the definition.
#
# | PyTorch | ONNX | |
# |---|---|---|
# | `input` | `X`, input 0 | |
# | `weight` | `W`, input 1 | |
# | `offset` | `offset`, input 2 | |
# | `mask`, **4th** | `mask`, input 4 | optional |
# | `bias`, **5th** | `B`, input 3 | optional |
# | `stride_h`, `stride_w` | `strides = [h, w]` | |
# | `pad_h`, `pad_w` | `pads = [top, left, bottom, right]` | h, w, h, w |
# | `dilation_h`, `dilation_w` | `dilations = [h, w]` | |
# | `groups`, `offset_groups` | `group`, `offset_group` | |
# | `use_mask` | whether `mask` is present | not an attribute |


# %%
def inputs_and_attributes(
    x, weight, offset, mask, bias, sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask
):
    inputs = [x, weight, offset, bias] + ([mask] if use_mask else [])
    sizes = {"strides_i": [sh, sw], "pads_i": [ph, pw, ph, pw], "dilations_i": [dh, dw]}
    return inputs, {**sizes, "group_i": groups, "offset_group_i": offset_groups}


@parse_args("v", "v", "v", "v", "v", "i", "i", "i", "i", "i", "i", "i", "i", "b")
def to_deform_conv(
    g, x, weight, offset, mask, bias, sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask
):
    numbers = (sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask)
    inputs, attributes = inputs_and_attributes(x, weight, offset, mask, bias, *numbers)
    return g.op("DeformConv", *inputs, **attributes)


# %%
register_custom_op_symbolic(target, to_deform_conv, 19)
axes = {
    "image": {0: "n", 2: "h", 3: "w"},
    "offset": {0: "n", 2: "oh", 3: "ow"},
    "mask": {0: "n", 2: "oh", 3: "ow"},
}
model = export(spin, (image, offset, mask), names, dynamic_axes=axes)
onnx.checker.check_model(model, full_check=True)
lab.show(model)

# %% [markdown]
# ### The proof
#
# ONNX Runtime has a kernel for DeformConv. Compare the results on the photo, and on another photo of a different size. The
# comparison has to be able to fail, so the cell also runs the model with the mask turned off.

# %%
small = torch.from_numpy(photos.to_nchw(photos.photo("coffee", (120, 90))))
for label, photo, centre in (("chelsea", image, eye), ("coffee ", small, (60, 45))):
    moved, inside = deforming.arc(*photo.shape[2:], centre, fade)
    with torch.no_grad():
        expected = spin(photo, moved, inside).numpy()
    got = run(model, {"image": photo, "offset": moved, "mask": inside})
    wrong = run(model, {"image": photo, "offset": moved, "mask": torch.ones_like(inside)})
    same, masked = (np.allclose(y, expected, rtol=0, atol=1e-5) for y in (got, wrong))
    print(f"{label} {list(got.shape)}: equal to 1e-5: {same}, without the mask: {masked}")

# %% [markdown]
# The figure compares this result with what the guess of section 3 would have produced, and shows the error of the guess.

# %%
guess = torchvision.ops.deform_conv2d(image, offset, even, None, padding=1)
got = run(model, {"image": image, "offset": offset, "mask": mask})
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 3), layout="constrained")
left.imshow(photos.to_image(got))
left.set_title("ONNX Runtime, all five tensors", fontsize=11)
middle.imshow(photos.to_image(guess))
middle.set_title("two inputs and a guess", fontsize=11)
error = right.imshow(255 * (guess - spun).abs().amax(1)[0], cmap="magma", vmin=0, vmax=80)
right.set_title("error of the guess", fontsize=11)
figure.colorbar(error, ax=right, shrink=0.9, label="grey levels")
for axes in (left, middle, right):
    axes.axis("off")
lab.figure(
    figure,
    "The blurred photo as ONNX Runtime computes it with all five tensors; the guess, which has "
    "other colours and darker borders; and a map of the guess's error, largest at the borders.",
)

# %% [markdown]
# ### A test that can detect a swap
#
# `Spin` has equal strides, equal pads, and equal dilations. Which mistakes does that hide? Introduce each mistake into the
# node, once for a convolution with equal numbers and once for a convolution in which **the two numbers of each pair differ**.


# %%
class Deform(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, x, weight, offset, mask, bias):
        return torchvision.ops.deform_conv2d(x, offset, weight, bias, mask=mask, **self.options)


def case(stride, padding, dilation, kernel, groups, offset_groups):
    torch.manual_seed(6)
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    plain = torch.nn.functional.conv2d(
        torch.zeros(1, 1, 13, 15), torch.zeros(1, 1, *kernel), **options
    )
    count, out = offset_groups * kernel[0] * kernel[1], plain.shape[2:]
    sizes = {
        "x": (2, 6, 13, 15),
        "weight": (6, 6 // groups, *kernel),
        "offset": (2, 2 * count, *out),
    }
    sizes |= {"mask": (2, count, *out), "bias": (6,)}
    return Deform(**options), {name: torch.randn(size) for name, size in sizes.items()}


# %%
cases = {
    "equal": case((1, 1), (1, 1), (1, 1), (3, 3), 1, 1),
    "all differ": case((2, 1), (1, 2), (1, 3), (3, 2), 2, 3),
}


def swap_inputs(node):
    node.input[3], node.input[4] = node.input[4], node.input[3]


def change(name, function):
    def spoil(node):
        (found,) = [entry for entry in node.attribute if entry.name == name]
        found.ints[:] = function(list(found.ints))

    return spoil


def drop_mask(node):
    del node.input[4]


# %%
mistakes = {
    "none": lambda node: None,
    "bias and mask swapped": swap_inputs,
    "mask dropped": drop_mask,
    "strides [w, h]": change("strides", lambda s: s[::-1]),
    "pads [h, h, w, w]": change("pads", lambda p: [p[0], p[0], p[1], p[1]]),
    "pads [w, h, w, h]": change("pads", lambda p: [p[1], p[0], p[1], p[0]]),
    "dilations [w, h]": change("dilations", lambda d: d[::-1]),
}


def verdict(module, tensors, spoil):
    model = export(module, tuple(tensors.values()), list(tensors))
    spoil(model.graph.node[0])
    expected = module(**tensors).numpy()
    try:
        got = run(model, tensors)
    except Exception:
        return "ORT refuses"
    if got.shape != expected.shape:
        return "another shape"
    gap = np.abs(got - expected).max()
    return "equal" if gap < 1e-4 else f"off by {gap:.1f}"


# %%
print(f"{'mistake':24}" + "".join(f"{label:14}" for label in cases))
for label, spoil in mistakes.items():
    print(f"{label:24}" + "".join(f"{verdict(*pair, spoil):14}" for pair in cases.values()))

# %% [markdown]
# With equal numbers, four of the six mistakes pass. With different numbers, none of them passes. The size of the offsets
# depends on the number of output pixels, so ONNX Runtime reports an error for each of these four. When you test a mapping, give
# the two numbers of each pair different values.
#
# ### No mask
#
# The most common model, such as `Predicted`, has no mask: an ordinary convolution predicts the offsets. torchvision then
# passes a placeholder, zeros of shape (N, 1), and `use_mask=False`. With the letter `"b"`, your function can test
# `use_mask`. With `"none"`, as in older texts, `use_mask` remains a value of the graph, and an `if` treats every such value
# as true.
#
# A model without a bias needs no such argument: torchvision then passes zeros, which become a constant of the file.

# %%
predicted, any_size = Predicted().eval(), {"x": {0: "n", 2: "h", 3: "w"}}
true_always = parse_args(*["v"] * 5, *["i"] * 8, "none")(to_deform_conv.__wrapped__)
register_custom_op_symbolic(target, true_always, 19)
model = export(predicted, (small[..., :20, :24],), ["x"], dynamic_axes=any_size)
print(wiring(model)[-1])
with raises(Fail, "Mask must be 4D"):
    run(model, {"x": small})

# %%
register_custom_op_symbolic(target, to_deform_conv, 19)
model = export(predicted, (small[..., :20, :24],), ["x"], dynamic_axes=any_size)
print(wiring(model)[-1])
expected = predicted(small).detach().numpy()
print("equal:", np.allclose(run(model, {"x": small}), expected, rtol=0, atol=1e-5))

# %% [markdown]
# ### Which opsets
#
# DeformConv is new in opset 19. A registration at 9 would apply to opsets 9 to 18 as well, and write a node that these opsets
# do not have (chapter 04). With a registration at 19, an export to an older opset fails, and the message names the version.

# %%
register_custom_op_symbolic(target, to_deform_conv, 9)
with raises(
    onnx.checker.ValidationError, "No Op registered for DeformConv with domain_version of 13"
):
    onnx.checker.check_model(export(predicted, (small,), ["x"], opset=13))
torch.onnx.unregister_custom_op_symbolic(target, 9)
with raises(torch.onnx.errors.UnsupportedOperatorError, "was added in version 19"):
    export(predicted, (small,), ["x"], opset=13)

# %% [markdown]
# There is an upper limit too: the TorchScript path has mappings up to opset 20. For a newer opset it warns and continues with
# the mappings of opset 20, so the model may be wrong. That leaves two opsets for DeformConv, 19 and 20.

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    export(predicted, (small,), ["x"], opset=21)
texts = [str(entry.message) for entry in caught]
print(*[text for text in texts if "highest" in text], sep="\n")

# %% [markdown]
# ## 5. A custom domain
#
# What if the runtime does not support opset 19, or you want to use your own faster kernel (chapter 14)? Then the node belongs
# to a *domain* that you choose. The name before `::` is the domain. **Keep every input and attribute**; only the name
# changes. *(TorchScript path.)*


# %%
@parse_args(*["v"] * 5, *["i"] * 8, "b")
def to_oplab(
    g, x, weight, offset, mask, bias, sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask
):
    numbers = (sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask)
    inputs, attributes = inputs_and_attributes(x, weight, offset, mask, bias, *numbers)
    return g.op("oplab::DeformConv2d", *inputs, **attributes)


register_custom_op_symbolic(target, to_oplab, 9)
module, tensors = cases["all differ"]
own = export(module, tuple(tensors.values()), list(tensors), opset=13)
print(wiring(own))
print(versions(own))

# %% [markdown]
# The model now imports two domains. The checker checks only the nodes of ONNX's own domain, so this node is unchecked. ONNX
# Runtime needs a kernel for it and reports that there is none.

# %%
onnx.checker.check_model(own, full_check=True)
with raises(Fail, "oplab:DeformConv2d(-1) is not a registered function/op"):
    run(own, tensors)

# %% [markdown]
# Can you test the node without a kernel? Here you can: the node is meant to equal DeformConv-19. Rename the node in a copy of
# the model, and run the copy.


# %%
def as_standard(model):
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.graph.node[0].domain, copy.graph.node[0].op_type = "", "DeformConv"
    del copy.opset_import[:]
    copy.opset_import.append(onnx.helper.make_opsetid("", 19))
    copy.ir_version = 9
    return copy


expected = module(**tensors).numpy()
print("equal:", np.allclose(run(as_standard(own), tensors), expected, atol=1e-4))

# %% [markdown]
# A domain has a version too. The exporter writes 1. `custom_opsets` changes the version; an entry for a domain that no node
# uses has no effect.

# %%
for wanted in (None, {"oplab": 2}, {"oplab_ops": 2}):
    inputs = tuple(tensors.values())
    model = export(module, inputs, list(tensors), opset=13, custom_opsets=wanted)
    print(f"{wanted!s:17}", versions(model))

# %% [markdown]
# ONNX has no shape inference for a custom node, so the exporter invents names for the dimensions of the result, and prints a
# warning to stderr. (The first cell turned the warning off.) You can state the shape with `setType` (chapter 05);
# chapter 08 does this for sizes that are not known.

# %%
[dim.dim_param or dim.dim_value for dim in own.graph.output[0].type.tensor_type.shape.dim]

# %% [markdown]
# ## 6. Attributes and the version of a domain: foo
#
# The second operator is the classic example of a custom operator. It takes two tensors, a float and an int, and computes
# `attr1 * input1 + input2 ** attr2`.

# %%
ops.load()
print(torch.ops.oplab.foo_forward.default._schema)


class FooModel(torch.nn.Module):
    def __init__(self, attr1, attr2):
        super().__init__()
        self.attr1, self.attr2 = attr1, attr2

    def forward(self, input1, input2):
        return torch.ops.oplab.foo_forward(input1, input2, self.attr1, self.attr2)


# %% [markdown]
# *(TorchScript path.)* A number becomes an attribute in two steps, and each step has a type: the letter converts the value to
# a Python number, and the suffix converts the number to an attribute. Here are four combinations for `attr1 = 2.75`.

# %%
pair, foo_names = (torch.rand(2, 3), torch.rand(2, 3)), ["input1", "input2"]


def mapped(letter, suffix):
    def symbolic(g, input1, input2, attr1, attr2):
        return g.op("oplab::Foo", input1, input2, **{f"attr1_{suffix}": attr1}, attr2_i=attr2)

    register_custom_op_symbolic(
        "oplab::foo_forward", parse_args("v", "v", letter, "i")(symbolic), 9
    )
    (attribute, _) = export(FooModel(2.75, 3), pair, foo_names).graph.node[0].attribute
    value = onnx.helper.get_attribute_value(attribute)
    return f"{onnx.AttributeProto.AttributeType.Name(attribute.type)} {value}"


for letter, suffix in (("f", "f"), ("i", "f"), ("i", "i")):
    print(f'letter "{letter}", suffix _{suffix}: {mapped(letter, suffix)}')
with raises(TypeError, "incompatible function arguments"):
    mapped("f", "i")

# %% [markdown]
# Only the last combination fails. `"i"` truncates a float without a warning: `FLOAT 2.0` has the right type and the wrong
# value. Check the value, not only the type.


# %%
@parse_args("v", "v", "f", "i")
def to_foo(g, input1, input2, attr1, attr2):
    return g.op("oplab::Foo", input1, input2, attr1_f=attr1, attr2_i=attr2)


register_custom_op_symbolic("oplab::foo_forward", to_foo, 9)

# %% [markdown]
# Foo belongs to **version 2** of the domain `oplab`: its kernel is registered for that version. The version states since when
# an operator exists: in a model that imports version 1, there is no Foo. (A version is not a way to change what an operator
# means. Chapter 12 shows what happens if you try.)

# %%
foo_feeds = {name: value.numpy() for name, value in zip(foo_names, pair, strict=True)}
with raises(Fail, "oplab:Foo(-1) is not a registered function/op"):
    session(export(FooModel(2.75, 3), pair, foo_names)).run(None, foo_feeds)
model = export(FooModel(2.75, 3), pair, foo_names, custom_opsets={"oplab": 2})
onnx.checker.check_model(model, full_check=True)
expected = FooModel(2.75, 3)(*pair).numpy()
print("equal:", np.allclose(session(model).run(None, foo_feeds)[0], expected, atol=1e-6))
lab.show(model)

# %% [markdown]
# With the letter `"v"`, the numbers remain tensors, and `g.op` takes them as the third and fourth input. This export succeeds
# too, but the kernel has two inputs and two attributes and does not accept four inputs.

# %%
register_custom_op_symbolic(
    "oplab::foo_forward",
    lambda g, a, b, attr1, attr2: g.op("oplab::Foo", a, b, attr1, attr2),
    9,
)
as_inputs = export(FooModel(2.75, 3), pair, foo_names, custom_opsets={"oplab": 2})
print(wiring(as_inputs)[-1])
with raises(InvalidGraph, "has input size 4 not in range [min=2, max=2]"):
    session(as_inputs)
register_custom_op_symbolic("oplab::foo_forward", to_foo, 9)

# %% [markdown]
# ## 7. Limits
#
# - An attribute is a constant. A number that is computed from an input is frozen at its value during the export. The
#   TorchScript path only warns, and `quiet_exports()` hides warnings, so this cell shows it. Here the number of rows was 2 at
#   export, although the axis is declared dynamic.


# %%
class Frozen(torch.nn.Module):
    def forward(self, input1, input2):
        return torch.ops.oplab.foo_forward(input1, input2, float(input1.sum()), input1.shape[0])


rows = {name: {0: "n"} for name in foo_names}
two_rows = torch.ones(2, 3), torch.ones(2, 3)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    frozen = export(Frozen(), two_rows, foo_names, dynamic_axes=rows)
for entry in seen:
    if entry.category is torch.jit.TracerWarning:
        print(str(entry.message).partition(". ")[0])
for entry in frozen.graph.node[0].attribute:
    print(entry.name, "=", onnx.helper.get_attribute_value(entry))

# %% [markdown]
# - `registry` is not public, and neither is `_is_none`, which the section on grid uses. A new version of
#   PyTorch may move or change them.
# - `onnx.checker` checks ONNX's own operators. The inputs, attributes and types of a custom node are checked only by your
#   tests and by the kernel.
# - A node in a custom domain runs only where your kernel is available. Map to an ONNX operator if there is one.
#
# ## 8. Exercises
#
# The exercises map operators that this lesson does not show. The grader runs each function in its own process, so what you
# registered in this notebook has no effect there. For a hint, call `lab.hint("ps_roi_align")`.
#
# **`ps_roi_pool`** — a float and two ints become attributes, with their types and values; the model is for version 2 of the
# domain. The operator has two results, of which a kernel computes one: `return value, None`.
# [exercises/c06_library_operators.py](../exercises/c06_library_operators.py#line=147)

# %%
lab.check("ps_roi_pool")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: A composition for newer opsets
#
# **`ps_roi_align`** — ONNX's own nodes from opset 16 on, and one node of your domain from 9 to 15. ONNX has no such operator,
# but RoiAlign computes more than you need: read `onnx.defs.get_schema("RoiAlign", 16).doc` and its inputs. torchvision's
# `aligned=True` is its mode `half_pixel`, which is new in opset 16; `batch_indices` is an int64 tensor with one dimension, for
# one box as for many. You need the number of channels: `x.type().varyingSizes()` has the sizes of a value, with None for a
# dynamic axis. (`x.type().sizes()` is None as soon as one axis is dynamic.)
# [exercises/c06_library_operators.py](../exercises/c06_library_operators.py#line=67)

# %%
lab.check("ps_roi_align")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Optional inputs: grid
#
# torch_cluster sorts points into the cells of a grid ("voxels"). Its operator has two optional tensors. The course has a
# compiled operator with the same schema, so you do not need to build torch_cluster, which takes minutes.

# %%
print(torch.ops.oplab.grid.default._schema)
points = torch.tensor([[0.2, 0.1], [0.8, 0.3], [1.4, 1.2], [2.6, 0.8]])
size, start, end = torch.tensor([1.0, 0.5]), torch.tensor([-1.0, 0.0]), torch.tensor([3.4, 1.5])
boxes = {"": (), ", start": (start,), ", None, end": (None, end), ", start, end": (start, end)}
for label, box in boxes.items():
    found = torch.ops.oplab.grid(points, size, *box).tolist()
    print(f"{f'grid(points, size{label})':31}", found)

# %% [markdown]
# Without `start`, the grid begins at the smallest coordinates; without `end`, it ends at the largest. Each combination gives
# different numbers, so a lost or shifted input gives a wrong result.

# %% [markdown]
# The figure shows the cells with `start` and `end`, and their numbers. The first dimension varies fastest.

# %% {"jupyter": {"source_hidden": true}}
cells = torch.ops.oplab.grid(points, size, start, end)
figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
columns, rows = np.arange(-1, 4.01), np.arange(0, 2.01, 0.5)
axes.vlines(columns, rows[0], rows[-1], color=GREY, lw=0.5)
axes.hlines(rows, columns[0], columns[-1], color=GREY, lw=0.5)
for j, i in np.ndindex(4, 5):
    axes.text(columns[i] + 0.95, rows[j] + 0.03, i + 5 * j, ha="right", va="bottom", fontsize=8)
axes.plot(*points.T.numpy(), "o", color=BLUE)
axes.plot(*zip(start.tolist(), end.tolist(), strict=True), "s", color=ORANGE)
labels = [*(f"cell {cell}" for cell in cells.tolist()), "start", "end"]
for label, place in zip(labels, [*points.tolist(), start.tolist(), end.tolist()], strict=True):
    axes.annotate(label, place, (-4, 5), textcoords="offset points", weight="bold", fontsize=9)
axes.set(xticks=columns, yticks=rows, xlabel="x", ylabel="y")
axes.spines[:].set_visible(False)
lab.figure(
    figure,
    "A grid of five columns and four rows of cells, numbered row by row from 0 to 19, with "
    "four points, each labelled with its cell, and squares at start and end.",
)

# %% [markdown]
# ### The naive attempt: shifted inputs
#
# *(TorchScript path.)* An argument that was left out arrives as a value of type None; `_is_none` detects it. The obvious
# approach is to pass on only the arguments that are present.


# %%
class Grid(torch.nn.Module):
    def __init__(self, *given):
        super().__init__()
        self.given = given

    def forward(self, pos, size, *box):
        return torch.ops.oplab.grid(pos, size, **dict(zip(self.given, box, strict=True)))


def grid_model(*given):
    inputs = (points, size, *({"start": start, "end": end}[name] for name in given))
    return export(
        Grid(*given), inputs, ["pos", "size", *given], opset=13, dynamic_axes={"pos": {0: "n"}}
    )


# %%
def what_is_there(g, pos, size, start, end):
    given = [value for value in (pos, size, start, end) if not _is_none(value)]
    return g.op("oplab::Grid", *given)


register_custom_op_symbolic("oplab::grid", what_is_there, 9)
shifted = grid_model("end")
print(wiring(shifted))
end_feeds = {"pos": points.numpy(), "size": size.numpy(), "end": end.numpy()}
got = session(shifted).run(None, end_feeds)[0]
right = torch.ops.oplab.grid(points, size, None, end).tolist()
print("PyTorch:", right, " ONNX Runtime:", got.tolist())

# %% [markdown]
# The model ran with the course's kernel (`oplab.session` registers it), and the numbers are wrong: a node identifies its
# inputs by their **position**. `end` was passed as the third input, and the third input is `start`.
#
# An older text tests only `end` and passes `start` on unchanged. That is correct, for a reason that the text does not give:
# if you pass a None of the graph to `g.op`, it becomes an input with an empty name. In ONNX, an empty name means "not given".


# %%
def looks_at_end(g, pos, size, start, end):
    if _is_none(end):
        return g.op("oplab::Grid", pos, size, start)
    return g.op("oplab::Grid", pos, size, start, end)


def all_four(g, pos, size, start, end):
    return g.op("oplab::Grid", pos, size, start, end)


# %%
for function in (looks_at_end, all_four):
    register_custom_op_symbolic("oplab::grid", function, 9)
    for given in ((), ("start",), ("end",), ("start", "end")):
        inputs = [*grid_model(*given).graph.node[0].input]
        print(f"{function.__name__:13} {', '.join(given):11} {inputs}")

# %% [markdown]
# At the end of the list, a missing input and an empty name mean the same. In the middle, only the empty name works. The test
# runs both functions. It uses points that were not in the export, different numbers of points, and no points at all.

# %%
fresh = np.random.default_rng(6)
GIVEN = ((), ("start",), ("end",), ("start", "end"))
for function, given in itertools.product((looks_at_end, all_four), GIVEN):
    register_custom_op_symbolic("oplab::grid", function, 9)
    model = grid_model(*given)
    onnx.checker.check_model(model, full_check=True)
    for count in (1000, 1, 0):
        pos = fresh.uniform(0, 2, (count, 2)).astype(np.float32)
        box = {name: value for name, value in (("start", start), ("end", end)) if name in given}
        feeds = {"pos": pos, "size": size.numpy()}
        feeds |= {name: value.numpy() for name, value in box.items()}
        expected = torch.ops.oplab.grid(torch.from_numpy(pos), size, **box).numpy()
        got = session(model).run(None, feeds)[0]
        assert got.dtype == np.int64 and np.array_equal(got, expected), (given, count)
print("2 functions, 4 models each, 3 sizes each: all equal")

# %% [markdown]
# torch_cluster's own operator needs the same function under a different name. If torch_cluster is installed
# (`make deps-extra` compiles it in about nine minutes), the next cell compares the two operators and exports the one of
# torch_cluster. Otherwise the cell does nothing.

# %%
if importlib.util.find_spec("torch_cluster"):
    import torch_cluster  # noqa: F401  registers torch.ops.torch_cluster

    theirs = torch.ops.torch_cluster.grid
    for box in ((None, None), (start, None), (None, end), (start, end)):
        ours = torch.ops.oplab.grid(points, size, *box)
        assert torch.equal(ours, theirs(points, size, *box)), box

    class Theirs(torch.nn.Module):
        def forward(self, pos, size, end):
            return theirs(pos, size, None, end)

    register_custom_op_symbolic("torch_cluster::grid", all_four, 9)
    other = export(Theirs(), (points, size, end), ["pos", "size", "end"])
    assert [*other.graph.node[0].input][2:] == ["", "end"]

# %% [markdown]
# A **Python** None is not a None of the graph. If you pass it to `g.op`, it ends the whole process (chapter 05).

# %% [markdown]
# ### Exercise
#
# **`spmm`** — seven arguments, of which the node has four, one of them optional and in the middle. `import oplab.ops.sparse`
# registers the operator. [exercises/c06_library_operators.py](../exercises/c06_library_operators.py#line=104)

# %%
lab.check("spmm")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: The same operators on the dynamo path
#
# The **dynamo path** has its own mapping for deform_conv2d and exports it without help. It ignores both your registrations
# and `custom_opsets`.


# %%
def dynamo(module, inputs, **options):
    return torch.onnx.export(module, inputs, dynamo=True, verbose=False, **options).model_proto


# %%
# With a batch of one, n would be fixed to 1.
two = [torch.cat([tensor, tensor]) for tensor in (image, offset, mask)]
modern = dynamo(spin, tuple(two), dynamic_shapes=({0: "n", 2: "h", 3: "w"},) * 3)
again = dynamo(module, tuple(tensors.values()), custom_opsets={"oplab": 2})
for label, model in (("Spin", modern), ("all differ", again)):
    print(f"{label:11}", wiring(model), versions(model))

# %% [markdown]
# Both models agree with PyTorch.

# %%
spin_feeds = dict(
    zip([value.name for value in modern.graph.input], (image, offset, mask), strict=True)
)
print("Spin:      ", np.allclose(run(modern, spin_feeds), spun.numpy(), atol=1e-5))
print("all differ:", np.allclose(run(again, tensors), module(**tensors).numpy(), atol=1e-4))

# %% [markdown]
# But the dynamo path does not check the opset. If you ask for opset 18, it writes the same node, and the model is
# invalid.

# %%
with raises(
    onnx.checker.ValidationError, "No Op registered for DeformConv with domain_version of 18"
):
    onnx.checker.check_model(dynamo(module, tuple(tensors.values()), opset_version=18))

# %% [markdown]
# ### A translation for grid
#
# For `oplab::grid` the dynamo path has no mapping, and it ignores your registration.


# %%
class End(torch.nn.Module):
    def forward(self, pos, size, end):
        return torch.ops.oplab.grid(pos, size, None, end)


no_function = "No ONNX function found for <OpOverload(op='oplab."
with raises(torch.onnx.OnnxExporterError, no_function + "grid'"):
    dynamo(End(), (points, size, end))

# %% [markdown]
# Its counterpart to a symbolic function is a *translation*: a typed onnxscript function that you pass to the export. Optional
# inputs are optional arguments, and the exporter adds the empty name. Chapter 10 explains each part.

# %%
from onnxscript import FLOAT, INT64, script
from onnxscript.values import Opset

oplab_1 = Opset("oplab", 1)


@script(oplab_1)
def grid_translation(
    pos: FLOAT[...], size: FLOAT[...], start: FLOAT[...] = None, end: FLOAT[...] = None
) -> INT64[...]:
    return oplab_1.Grid(pos, size, start, end)


# %%
table = {torch.ops.oplab.grid.default: grid_translation}
modern = dynamo(
    End(),
    (points, size, end),
    custom_translation_table=table,
    dynamic_shapes=({0: "n"}, None, None),
)
print(wiring(modern), versions(modern))
got = session(modern).run(None, end_feeds)[0]
print("equal:", got.tolist() == torch.ops.oplab.grid(points, size, None, end).tolist())

# %% [markdown]
# ### A translation for foo
#
# Again there is no mapping, and the fix is the same. Here the version is in the `Opset`; `custom_opsets` has no effect. A
# number in the schema is an argument of type `float` or `int`, and becomes an attribute of that type.

# %%
with raises(torch.onnx.OnnxExporterError, no_function + "foo_forward'"):
    dynamo(FooModel(2.75, 3), pair, custom_opsets={"oplab": 2})

oplab_2 = Opset("oplab", 2)


@script(oplab_2)
def foo_translation(
    input1: FLOAT[...], input2: FLOAT[...], attr1: float, attr2: int
) -> FLOAT[...]:
    return oplab_2.Foo(input1, input2, attr1=attr1, attr2=attr2)


# %%
table = {torch.ops.oplab.foo_forward.default: foo_translation}
modern = dynamo(FooModel(2.75, 3), pair, custom_translation_table=table)
print(wiring(modern), versions(modern))
expected = FooModel(2.75, 3)(*pair).numpy()
print("equal:", np.allclose(session(modern).run(None, foo_feeds)[0], expected, atol=1e-6))

# %% [markdown]
# ## Five questions

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - Chapter 07: how to write such operators in C++, with their schema.
# - Chapters 12 to 14: their kernels for ONNX Runtime. `csrc/ort_ops/grid.cpp` is the kernel that ran here.
# - `torchvision/ops/_register_onnx_ops.py` in your environment: the three mappings that the second cell lists.
# - The papers that introduced the operator: *Deformable Convolutional Networks* (2017) adds the offsets, and its second
#   version (2018) adds the mask.
#
# Previous: [05: Writing symbolic functions](05_writing_symbolic.ipynb)
# · Next: [07: C++ operators for PyTorch](07_cpp_operators.ipynb)
# · [Glossary](../docs/glossary.md)
