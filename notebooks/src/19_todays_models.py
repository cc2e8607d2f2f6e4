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
# # 19 · Operators of today's models
#
# After this chapter you can
#
# - say which nodes an export of RMSNorm, attention or rotary embedding contains, and whether ONNX Runtime runs them;
# - run a model in a runtime that does not know its opset yet, in three ways;
# - write and use kernels for float16 and bfloat16;
# - quantise a model with a custom node.
#
# A language model repeats one block: a norm, an attention, another norm, a feed-forward layer. The next cell contains
# the first half of Llama's feed-forward layer, with an operator that is new in opset 28. The file is valid:

# %%
import numpy as np
import onnx
from onnxruntime.capi.onnxruntime_pybind11_state import Fail

from oplab import lesson, quiet_exports, raises, session

lab = lesson("19_todays_models")
quiet_exports()
feed_forward = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 28]>
    feed_forward (float[n, 256] x, float[256, 512] gate, float[256, 512] up)
    => (float[n, 512] y)
    { a = MatMul(x, gate)  b = MatMul(x, up)  y = SwiGLU(a, b) }""")
onnx.checker.check_model(feed_forward, full_check=True)
with raises(Fail, "Current official support for domain ai.onnx is till opset 26"):
    session(feed_forward)

# %% [markdown]
# Nothing is wrong with the model. `onnx` 1.23 defines the opsets up to 28, and this ONNX Runtime ends at 26. Section
# 2 runs this model in three ways. First, the operators that the runtime has already.
#
# ## 1. Three operators, two exporters
#
# ONNX got `RMSNormalization`, `Attention` and `RotaryEmbedding` in opset 23. Until then, each of them was a group of
# small nodes. These modules compute them in PyTorch, whatever the opset:

# %%
import torch
import torch.nn.functional as F


class Norm(torch.nn.Module):
    def __init__(self, width=1024):
        super().__init__()
        self.norm = torch.nn.RMSNorm(width, eps=1e-5)

    def forward(self, x):
        return self.norm(x)


class Attention(torch.nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Rotary(torch.nn.Module):
    """Rotates pairs of numbers by an angle that grows with the position."""

    def forward(self, x, cos, sin):
        first, second = x.chunk(2, -1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


torch.manual_seed(0)
queries = tuple(torch.randn(1, 8, 128, 64) for _ in range(3))
angle = torch.arange(128)[:, None] * 10000 ** (-torch.arange(32) / 32)
cases = {
    "RMSNorm": (Norm().eval(), (torch.randn(512, 1024),)),
    "attention": (Attention().eval(), queries),
    "rotary": (Rotary().eval(), (queries[0], angle.cos(), angle.sin())),
}

# %% [markdown]
# Export each of them on both paths, at three opsets:

# %%
import io


def exported(module, inputs, opset, dynamo=True):
    if dynamo:
        options = {"dynamo": True, "opset_version": opset, "verbose": False}
        return torch.onnx.export(module, inputs, **options).model_proto
    file = io.BytesIO()
    torch.onnx.export(module, inputs, file, dynamo=False, opset_version=opset)
    return onnx.load_from_string(file.getvalue())


def nodes(model):
    """The operators of a model without its constants, or how many there are."""
    kinds = [node.op_type for node in model.graph.node if node.op_type != "Constant"]
    return " ".join(kinds) if len(kinds) < 9 else f"{len(kinds)} nodes"


models = {}
for dynamo in (False, True):
    print("dynamo path" if dynamo else "TorchScript path")
    for name, (module, inputs) in cases.items():
        for opset in (20, 23, 24):
            try:
                model = models[name, opset, dynamo] = exported(module, inputs, opset, dynamo)
                result = nodes(model)
            except Exception as error:
                result = f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"
            print(f"  {name:9} {opset}  {result}")

# %% [markdown]
# - **The TorchScript path** knows the operators up to opset 20. It accepts 23 and writes the old nodes with a new
#   number. It has no RMSNorm, and refuses 24.
# - **The dynamo path** writes one node for the first two operators from opset 23 on, and the same computation as
#   small nodes before.
# - **ATen has no operator for rotary embedding.** The exporter sees products and sums and writes these. To get
#   the node, the module has to ask for it:


# %%
class RotaryNode(torch.nn.Module):
    def forward(self, x, cos, sin):
        return torch.onnx.ops.rotary_embedding(x, cos[None], sin[None])


cases["rotary node"] = (RotaryNode().eval(), cases["rotary"][1])
for opset in (18, 20, 23, 24):
    try:
        models["rotary node", opset, True] = exported(*cases["rotary node"], opset)
        print(opset, nodes(models["rotary node", opset, True]))
    except Exception as error:
        print(opset, type(error).__name__)

# %% [markdown]
# For an opset below 23, the exporter writes opset 18 and then converts the model. The conversion to 20 finds no
# RotaryEmbedding there and raises. For 18 there is nothing to convert, so nothing looks at the node. Load and run every
# export before you ship it:

# %%
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph

with raises(InvalidGraph, "No Op registered for RotaryEmbedding with domain_version of 18"):
    session(models["rotary node", 18, True])

# %% [markdown]
# Is the single node also better? The next cell runs the dynamo exports of opsets 20 and 23 and compares each with PyTorch
# in double precision. The cell after it times both forms alternately on one thread.

# %%
from functools import partial

from oplab.timing import race

exact = {}
for name, (module, inputs) in cases.items():
    reference = cases["rotary"][0] if name == "rotary node" else module
    with torch.no_grad():
        exact[name] = reference.double()(*(x.double() for x in inputs)).numpy()
    reference.float()

runs = {}
for (name, opset, dynamo), model in models.items():
    if dynamo and opset in (20, 23):
        made = session(model, threads=1)
        names = [value.name for value in made.get_inputs()]
        feeds = dict(zip(names, (x.numpy() for x in cases[name][1]), strict=True))
        runs[name, opset] = partial(made.run, None, feeds)
        error = np.abs(runs[name, opset]()[0] - exact[name]).max()
        print(f"{name:11} opset {opset}  error below 1e-5: {error < 1e-5}")

# %%
seconds = race(runs, rounds=9, warm_up=2)
print("⏱ one thread of a processor with", torch.backends.cpu.get_cpu_capability())
for (name, opset), values in seconds.items():
    print(f"⏱ {name:11} opset {opset}  {1000 * np.median(values):.2f} ms")

# %% [markdown]
# The errors are those of float32 in both forms. RMSNorm and the rotary *node* get faster. The small nodes write whole
# tensors between them: for RMSNorm, Pow and the first Mul each write one, which is read again. The single node writes only
# the result. Attention at this size gains little: both forms have its two matrix products. `rotary` is the same graph at
# both opsets, so the difference of its two times shows how exact such a measurement is.
#
# One more thing differs. ONNX lets a mask of attention **broadcast** over all four axes. ONNX Runtime broadcasts it over
# the heads, and not over the queries. A mask that hides padding, which fills a shorter text up to the length of the
# longest one, has the shape [batch, 1, 1, keys]:

# %%
MASKED = """<ir_version: 10, opset_import: ["": 23]>
    masked (float[2, 4, 6, 8] q, float[2, 4, 6, 8] k, float[2, 4, 6, 8] v, bool[2, 1, n, 6] m)
    => (float[2, 4, 6, 8] y) { FIRST y = Attention(q, k, v, MASK) }"""
EXPAND = "shape = Constant<value_ints = [2, 1, 6, 6]>() wide = Expand(m, shape)"
rng = np.random.default_rng(19)
feeds = {name: rng.standard_normal((2, 4, 6, 8)).astype(np.float32) for name in "qkv"}
feeds["m"] = np.arange(6) < np.array([6, 4])[:, None, None, None]  # the second has 4 tokens
from onnx.reference import ReferenceEvaluator

narrow = onnx.parser.parse_model(MASKED.replace("FIRST", "").replace("MASK", "m"))
wide = onnx.parser.parse_model(MASKED.replace("FIRST", EXPAND).replace("MASK", "wide"))
expected = ReferenceEvaluator(narrow).run(None, feeds)[0]
with raises(Fail, "inconsistent q_sequence_length"):
    session(narrow).run(None, feeds)
print("expanded:", np.allclose(session(wide).run(None, feeds)[0], expected, atol=1e-5))

# %% [markdown]
# The model loads, because the query axis of the mask has no fixed size in the file; the error comes when it runs. Expand
# the mask in the module before you export it:


# %%
class Masked(torch.nn.Module):
    def forward(self, q, k, v, m):
        wide = m.expand(-1, 1, q.shape[2], -1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=wide)


given = tuple(torch.from_numpy(feeds[name]) for name in "qkvm")
made = exported(Masked().eval(), given, 23)
print("Attention" in nodes(made).split(), nodes(made))
print("equal:", np.allclose(session(made).run(None, feeds)[0], expected, atol=1e-5))

# %% [markdown]
# `is_causal=True` is a mask, too: query i sees the keys 0 to i, counted from the first key, also where there are fewer
# queries than keys. If your queries are the *last* tokens of a text, it hides too much: make the mask yourself then.
#
# A `bool` mask is true where a key takes part. A mask of floats is *added* to the scores, so there 0 takes part, and
# minus infinity does not. A Cast from one to the other gives a wrong result and no error:

# %%
added = onnx.parser.parse_model(
    MASKED.replace("bool", "float").replace("FIRST", EXPAND).replace("MASK", "wide")
)
masks = {
    "cast to 1 and 0": feeds["m"].astype(np.float32),
    "0 and minus infinity": np.where(feeds["m"], 0, -np.inf).astype(np.float32),
}
for name, mask in masks.items():
    (y,) = session(added).run(None, feeds | {"m": mask})
    print(f"{name:20}  equal: {np.allclose(y, expected, atol=1e-5)}")

# %% [markdown]
# ## 2. One opset too new
#
# The model of the first cell needs opset 28. Each opset is a set of operator versions, and most nodes of a new model
# are old: `since_version` of an operator's schema is the opset that last changed it.

# %%
from onnx import defs


def too_new(model, opset):
    """The operators of a model that an older opset defines otherwise or does not have."""
    declared = {entry.domain: entry.version for entry in model.opset_import}
    return sorted(
        {
            node.op_type
            for node in model.graph.node
            if not node.domain
            and defs.get_schema(node.op_type, declared[""]).since_version > opset
        }
    )


print(too_new(feed_forward, 26), too_new(feed_forward, 24))
try:
    onnx.version_converter.convert_version(feed_forward, 26)
except RuntimeError as error:
    print(str(error).rpartition(": ")[2])  # before this: a place in the converter's source
else:
    raise AssertionError("SwiGLU was converted")

# %% [markdown]
# Only SwiGLU is too new. Once it has been replaced, you can declare opset 26 and the model means the same.
# `onnx.version_converter` does not help: it cannot convert an operator that has no older version. How do you replace
# it?
#
# ### Way 1: inline the function body
#
# Many new operators are defined as *functions*: the schema contains a graph of older operators.

# %%
for name in ("SwiGLU", "Swish"):
    print(onnx.printer.to_text(defs.get_schema(name).function_body))

# %% [markdown]
# `onnx.inliner` replaces nodes with such bodies. A body may contain another new operator: the body of SwiGLU has a
# Swish, which ONNX got in opset 24. The body of Swish has a Constant whose value is the node's attribute, `@alpha`.

# %%
import onnx.inliner


def inlined(model, *operators):
    names = [("", name) for name in operators]
    return onnx.inliner.inline_selected_functions(model, names, inline_schema_functions=True)


once, twice = inlined(feed_forward, "SwiGLU"), inlined(feed_forward, "SwiGLU", "Swish")
print("once: ", nodes(once))
print("twice:", nodes(twice))


def declared(model, opset):
    """A copy of the model with another opset."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    changed.opset_import[0].version = opset
    return changed


from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel

session(declared(once, 24))
with raises(NoKernel, "Could not find an implementation for Swish"):
    session(declared(once, 26))
with raises(Fail, "has no data attributes"):
    session(declared(twice, 26))

# %% [markdown]
# Two traps:
#
# 1. A runtime that accepts an opset need not have a kernel for each of its operators. This one runs Swish in a model
#    of opset 24, and does not in one of opset 26, although Swish did not change. So inline Swish, too.
# 2. The inliner copies attributes from the node into the body and **does not know their defaults**. Our SwiGLU has no
#    attribute `alpha`, so the Constant in the body of Swish has no value. `check_model(model)` accepts this;
#    `full_check=True` finds it.

# %%
onnx.checker.check_model(twice)
with raises(onnx.shape_inference.InferenceError, "One and only one of the attributes"):
    onnx.checker.check_model(twice, full_check=True)

# %% [markdown]
# Write the defaults into the nodes first. The schema has them:


# %%
def with_defaults(model, *operators):
    """A copy of the model: nodes of these operators have each attribute with a default."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for node in changed.graph.node:
        if node.op_type in operators and not node.domain:
            given = {attribute.name for attribute in node.attribute}
            for name, attribute in defs.get_schema(node.op_type).attributes.items():
                if name not in given and attribute.default_value.type:
                    node.attribute.append(attribute.default_value)
    return changed


body = declared(inlined(with_defaults(feed_forward, "SwiGLU"), "SwiGLU", "Swish"), 26)
onnx.checker.check_model(body, full_check=True)
print(nodes(body), " too new:", too_new(body, 26))

# %% [markdown]
# ### Way 2: rewrite the graph
#
# A body is written to be right for every attribute and type, not to be fast. You know your model: `alpha` is 1, and
# three nodes do. They are old, so opset 20 is enough.

# %%
rewritten = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 20]>
    feed_forward (float[n, 256] x, float[256, 512] gate, float[256, 512] up)
    => (float[n, 512] y)
    { a = MatMul(x, gate)  b = MatMul(x, up)
      s = Sigmoid(a)  swish = Mul(a, s)  y = Mul(swish, b) }""")

# %% [markdown]
# In a large model you replace nodes with onnxscript's pattern rewriter or with the loop of chapter 15. The cost of
# this way: the rewriting is your code, and you have to test it against the operator's definition.
#
# ### Way 3: a kernel
#
# Register an operator with the same name, inputs and attributes in your domain, here for float32 only, and move the node
# there. The kernel computes everything in one pass:

# %%
lab.source("19_swiglu.cpp", "struct SwiGLU")

# %%
from oplab.toolchain.build import compile_library

swiglu = compile_library(lab.cpp("19_swiglu.cpp"), "ort")


def moved(model, operator, domain, opset):
    """A copy of the model whose nodes of an operator are in another domain."""
    changed = declared(model, opset)
    for node in changed.graph.node:
        if node.op_type == operator:
            node.domain = domain
    changed.opset_import.append(onnx.helper.make_opsetid(domain, 1))
    return changed


kernel = moved(feed_forward, "SwiGLU", "lesson", 26)
print(nodes(kernel), " too new:", too_new(kernel, 26))

# %% [markdown]
# Why not in ONNX's domain? A runtime looks up operators of that domain in its own list. And if a later version implements
# SwiGLU, `lesson::SwiGLU` still means your kernel.
#
# Compare all three with the reference evaluator of `onnx`, which runs the original model, and measure them without
# the products:

# %%
feeds = {
    "x": rng.standard_normal((64, 256)).astype(np.float32),
    "gate": rng.standard_normal((256, 512)).astype(np.float32) / 16,
    "up": rng.standard_normal((256, 512)).astype(np.float32) / 16,
}
expected = ReferenceEvaluator(feed_forward).run(None, feeds)[0]
ways = {"1 inlined": body, "2 rewritten": rewritten, "3 kernel": kernel}
for name, model in ways.items():
    (y,) = session(model, libraries=[swiglu]).run(None, feeds)
    print(
        f"{name:11} {len(model.graph.node)} nodes, equal: {np.allclose(y, expected, atol=1e-5)}"
    )


# %%
def activation(model):
    """The part from the two products to the result."""
    known = onnx.shape_inference.infer_shapes(model)
    return onnx.utils.Extractor(known).extract_model(["a", "b"], ["y"])


wide = {name: rng.standard_normal((256, 512)).astype(np.float32) for name in "ab"}
runs = {
    name: partial(session(activation(model), libraries=[swiglu], threads=1).run, None, wide)
    for name, model in ways.items()
}
for name, values in race(runs, rounds=15, warm_up=3).items():
    print(f"⏱ {name:11} {1000 * np.median(values):.2f} ms")

# %% [markdown]
# | | what you write | what can go wrong | runs in |
# |---|---|---|---|
# | inline | nothing but defaults | the body contains something too new; defaults | any runtime that has the nodes |
# | rewrite | a graph for your attributes | your graph is wrong for other attribute values | any runtime that has the nodes |
# | kernel | C++ | a library to ship (chapter 17) | programs that load your library |
#
# Speed matters for this choice only if the operator takes a noticeable share of the run time. A kernel that is written as
# simply as this one need not win, as the times show: it calls `std::exp` for each number. Chapter 14 is about that.
#
# ## 3. float16 and bfloat16
#
# Both types have 16 bits. float16 has 11 significant bits and ends at 65504; bfloat16 has only 8, and the range of
# float32. Weights and activations tolerate this. Sums do not:

# %%
import ml_dtypes

ones = np.ones(4096)
for dtype in (np.float16, ml_dtypes.bfloat16, np.float32):
    total = ones.astype(dtype)
    total = np.add.accumulate(total, dtype=dtype)[-1]  # one after the other, in this type
    square = np.square(np.array(300, dtype))
    print(f"{np.dtype(dtype).name:9} 4096 ones add up to {total:4}, 300 squared: {square:.0f}")

# %% [markdown]
# 2049 has no float16 representation and rounds to 2048, so the sum stays there. RMSNorm computes a mean of squares, so
# both problems affect it. The next cell computes the mean of squares in three ways: square and sum in the type, square in the
# type and sum in float32, and both in float32. The rest of the norm is the same in all three.

# %%
MEANS = {
    "all in the type": lambda x: (
        np.add.accumulate(x * x, dtype=x.dtype)[-1] / x.dtype.type(x.size)
    ),
    "sum in float32": lambda x: np.add.reduce((x * x).astype(np.float32)) / x.size,
    "all in float32": lambda x: np.square(x.astype(np.float32)).mean(),
}


def norm(x, mean):
    """x / sqrt(mean of squares), rounded to the dtype of x once at the end."""
    return (x.astype(np.float32) / np.sqrt(np.float32(mean(x)))).astype(x.dtype)


row = rng.standard_normal(4096)
errors = {}
for dtype in (np.float16, ml_dtypes.bfloat16):
    for scale in (1, 300):
        x = (scale * row).astype(dtype)
        ideal = x.astype(float) / np.sqrt(np.square(x.astype(float)).mean())
        for name, mean in MEANS.items():
            with np.errstate(all="ignore"):
                away = np.abs(norm(x, mean).astype(float) - ideal).max() / np.abs(ideal).max()
            errors[np.dtype(dtype).name, scale, name] = away
            print(
                f"{np.dtype(dtype).name:9} scale {scale:3}  {name:16} relative error {away:.1g}"
            )

# %% [markdown]
# An error of 1 means that the whole result is lost: the squares are infinite, and everything is divided by infinity.
# The rule for your kernels: **read halves, compute and add in float32, round once when you store.** The course's
# kernels do this. (ONNX's RMSNormalization rounds twice: a row is normalised in `stash_type`, float32 by default, and the
# product with `scale` is computed in the type of the tensor.)
#
# In C++ the types are `Ort::Float16_t` and `Ort::BFloat16_t`. They only store: `ToFloat()` reads a number, and the constructor
# rounds a float. `oplab::add_for<Double, Ort::Float16_t, Ort::BFloat16_t>(domain, "Double")` adds one operator for each type
# ([cpp/19_double.cpp](../notebooks/cpp/19_double.cpp)).

# %% [markdown]
# ### A model that ONNX Runtime refuses
#
# PyTorch computes in bfloat16 on a CPU, and exports it. Here is the norm with the residual connection of a language
# model:


# %%
import copy


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.RMSNorm(1024, eps=1e-5)

    def forward(self, x):
        return x + self.norm(x)


block = Block().eval()
with torch.no_grad():
    block.norm.weight.uniform_(0.5, 1.5)
dtypes = {name: getattr(torch, name) for name in ("float32", "float16", "bfloat16")}
blocks = {name: copy.deepcopy(block).to(dtype) for name, dtype in dtypes.items()}
inputs = {name: torch.randn(512, 1024).to(dtype) for name, dtype in dtypes.items()}
halves = {name: exported(blocks[name], (inputs[name],), 23) for name in dtypes}
for name, model in halves.items():
    print(f"{name:9} {nodes(model)}")
    if name != "bfloat16":
        session(model)
with raises(NoKernel, "Could not find an implementation for Add"):
    session(halves["bfloat16"])

# %% [markdown]
# ONNX Runtime has no Add for bfloat16 on the CPU. The course's library has one: `oplab::RMSNorm` and `oplab::MyAdd` take
# bfloat16, and MyAdd with both factors 1 is an Add. The nodes move as in section 2. Of RMSNormalization's attributes,
# `oplab::RMSNorm` has `epsilon`; the others must have the values that it always uses:


# %%
def with_course_kernels(model):
    changed = declared(model, 23)
    changed.opset_import.append(onnx.helper.make_opsetid("oplab", 1))
    for node in changed.graph.node:
        kept = [attribute for attribute in node.attribute if attribute.name == "epsilon"]
        others = {a.name: a.i for a in node.attribute if a.name != "epsilon"}
        assert others.get("axis", -1) == -1 and others.get("stash_type", 1) == 1
        if node.op_type == "Add":
            kept = [onnx.helper.make_attribute(name, 1.0) for name in ("alpha", "beta")]
        node.op_type = {"RMSNormalization": "RMSNorm", "Add": "MyAdd"}[node.op_type]
        node.domain = "oplab"
        del node.attribute[:]
        node.attribute.extend(kept)
    return changed


ours = {name: with_course_kernels(model) for name, model in halves.items()}
lab.show(halves["bfloat16"], ours["bfloat16"])

# %% [markdown]
# NumPy itself has no bfloat16, so the numbers go in and out as `OrtValue`: 16 bits each, and the name of their type.

# %%
import onnxruntime
from onnx import TensorProto

KINDS = {torch.float32: TensorProto.FLOAT, torch.float16: TensorProto.FLOAT16}
KINDS[torch.bfloat16] = TensorProto.BFLOAT16


def value_of(tensor):
    """A torch tensor as an OrtValue."""
    kind = KINDS[tensor.dtype]
    bits = tensor if kind == TensorProto.FLOAT else tensor.view(torch.uint16)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits.numpy(), kind)


def tensor_of(value):
    return torch.from_dlpack(value._ortvalue.to_dlpack())


errors, runs = {}, {}
for name, model in ours.items():
    given = inputs[name]
    with torch.no_grad():
        ideal = copy.deepcopy(blocks[name]).double()(given.double())
        errors["PyTorch", name] = (blocks[name](given) - ideal).abs().max().item()
    contestants = {"oplab": model} | (
        {"ONNX Runtime": halves[name]} if name != "bfloat16" else {}
    )
    for who, made in contestants.items():
        made = session(made, threads=1)
        run = partial(made.run_with_ort_values, None, {"x": value_of(given)})
        runs[who, name] = run
        errors[who, name] = (tensor_of(run()[0]) - ideal).abs().max().item()
    step = torch.finfo(dtypes[name]).eps * ideal.abs().max().item()
    small = [who for who in ("PyTorch", *contestants) if errors[who, name] < 2 * step]
    print(f"{name:9} correct to two steps of the type: {', '.join(small)}")
seconds = race(runs, rounds=9, warm_up=2)

# %% {"jupyter": {"source_hidden": true}}
from oplab.figures.halves import error_and_time

lab.figure(
    error_and_time(errors, seconds),
    "Two panels by dtype: the largest error of the block for the course's kernels, for ONNX "
    "Runtime and for PyTorch, and the time of the first two on one thread. ONNX Runtime has no "
    "point at bfloat16, because it refuses the model.",
)

# %% [markdown]
# The error grows with the type's rounding step and is about the same for each library, which is what you expect if sums
# are kept in float32. What does ONNX Runtime do for float16? Look at the model that it runs:

# %%
options = onnxruntime.SessionOptions()
options.optimized_model_filepath = str(lab.build / "optimised.onnx")
onnxruntime.InferenceSession(halves["float16"].SerializeToString(), options)
print("⏱", nodes(onnx.load(lab.build / "optimised.onnx")))

# %% [markdown]
# Where it has a kernel for float16, as for RMSNormalization, it uses it. It inserts Casts around the others, so that whole
# tensors are converted, written to memory and read again. (The line depends on the processor: some compute in
# float16.)

# %% [markdown]
# ## 4. Exercises
#
# **`rms_norm`** in [exercises/csrc/c19_rms_norm.cpp](../exercises/csrc/c19_rms_norm.cpp#line=32): a kernel for float32,
# float16 and bfloat16 that rounds once. For `float`, write an overload `float read(float x)` next to the one that calls
# `ToFloat()`.

# %%
lab.check("rms_norm")

# %% [markdown]
# **`attention_export`** in [exercises/c19_todays_models.py](../exercises/c19_todays_models.py#line=49): attention with
# a mask, as one node, and as older operators for an older runtime.

# %%
lab.check("attention_export")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Function bodies that depend on the node
#
# Some operators have no single body. LinearAttention, which is new in opset 27, has a body for each combination of
# its attributes, types and optional inputs: a *context-dependent* function.

# %%
for name in (
    "SwiGLU",
    "LinearAttention",
    "CausalConvWithState",
    "RMSNormalization",
    "Attention",
):
    schema = defs.get_schema(name)
    kind = "one body" if schema.has_function else "no body"
    kind = "depends on the node" if schema.has_context_dependent_function else kind
    print(f"{name:20} last changed in opset {schema.since_version}  {kind}")

# %% [markdown]
# Attention came with opset 23 and was changed after that. The inliner builds such a body from the node and the types of
# its inputs, so the model needs them: run shape inference first if it lacks them. Such a body is built by code that
# reads the node and knows the defaults, so trap 2 does not apply to the node itself. Nodes *inside* the body can fall
# into it again.

# %%
linear = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 27]>
    linear (float[1, 6, 32] q, float[1, 6, 32] k, float[1, 6, 32] v)
    => (float[1, 6, 32] y, float[1, 4, 8, 8] state)
    { y, state = LinearAttention<q_num_heads = 4, kv_num_heads = 4, update_rule = "linear">
        (q, k, v) }""")
with raises(Fail, "Current official support for domain ai.onnx is till opset 26"):
    session(linear)
older = declared(inlined(linear, "LinearAttention"), 26)
feeds = {name: rng.standard_normal((1, 6, 32)).astype(np.float32) / 3 for name in "qkv"}
got, expected = session(older).run(None, feeds), ReferenceEvaluator(linear).run(None, feeds)
close = all(np.allclose(a, b, atol=1e-5) for a, b in zip(got, expected, strict=True))
print(f"{nodes(older)}, too new: {too_new(older, 26)}, equal: {close}")
print("loops:", *{node.op_type for node in older.graph.node} & {"Scan", "Loop"})

# %% [markdown]
# The body computes one token after the other, in a Scan. That is right, and slow for long texts: for an operator of
# this kind, way 3 of section 2 may be worth the effort. Measure first. (`too_new` looks at the main graph only. The body of a Scan is a
# graph, too: the exercise below asks for all graphs.)
#
# Inlining also helps with an operator that the runtime *has*, but not in this form. The mask of section 1 needs no
# Expand then:

# %%
small = inlined(narrow, "Attention")
feeds = {name: rng.standard_normal((2, 4, 6, 8)).astype(np.float32) for name in "qkv"}
feeds["m"] = np.arange(6) < np.array([6, 4])[:, None, None, None]
(expected,) = ReferenceEvaluator(narrow).run(None, feeds)
print(nodes(small), np.allclose(session(small).run(None, feeds)[0], expected, atol=1e-5))

# %% [markdown]
# **`one_opset_behind`** in [exercises/c19_todays_models.py](../exercises/c19_todays_models.py#line=121): way 1 for any
# model. `inline_selected_functions` alone sets no defaults, gives some bodies no shapes, and does not report a node without a
# definition. So for each node, add its `definition` with its defaults to the model as a function with a new name, let the node
# call this function, and inline all functions of the model. Repeat until no node is too new.

# %%
lab.check("one_opset_behind")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Quantising around a custom node
#
# `onnxruntime.quantization` writes a model that computes in 8-bit integers. `quantize_static` runs the float model on
# example inputs to find the range of each value: the *calibration*. The model of this section enlarges a photo with
# `oplab::DynamicResize` and sharpens it with SRCNN, as in chapter 16.

# %%
from onnxscript import FLOAT, script
from onnxscript.values import Opset

from oplab import ops
from oplab.nets import photos
from oplab.nets.srcnn import load_srcnn, psnr

ops.load()
oplab_1 = Opset("oplab", 1)


@script(oplab_1)
def to_resize(x: FLOAT[...], scales: FLOAT[...]) -> FLOAT[...]:
    return oplab_1.DynamicResize(x, scales)


class Enlarge(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = load_srcnn()

    def forward(self, photo, scales):
        return self.net(torch.ops.oplab.dynamic_resize(photo, scales))


options = {"dynamo": True, "verbose": False, "opset_version": 20, "external_data": False}
options["dynamic_shapes"] = {"photo": {0: "batch", 2: "height", 3: "width"}, "scales": {}}
options["custom_translation_table"] = {torch.ops.oplab.dynamic_resize.default: to_resize}
in_float = lab.build / "enlarge.onnx"
example = (torch.rand(1, 3, 32, 40), torch.tensor([1, 1, 2.25, 2.25]))
torch.onnx.export(Enlarge().eval(), example, in_float, **options)
print(nodes(onnx.load(in_float)))

# %%
import logging

from onnxruntime.quantization import CalibrationDataReader, quantize_static


class Photos(CalibrationDataReader):
    def __init__(self):
        self.feeds = iter(
            {"photo": part(name), "scales": np.array([1, 1, factor, factor], np.float32)}
            for name in ("astronaut", "coffee", "rocket")
            for factor in (2, 3)
        )

    def get_next(self):
        return next(self.feeds, None)


def part(name, size=64):
    return photos.to_nchw(photos.photo(name, size)).astype(np.float32)


logging.disable(logging.WARNING)  # the quantizer's advice about another tool
try:
    quantize_static(in_float, lab.build / "quantised.onnx", Photos())
except Fail as error:
    print(str(error).rpartition("failed:")[2])  # before this: the path of a temporary file
else:
    raise AssertionError("the calibration found the kernel")

# %% [markdown]
# The calibration makes a session, and there is no argument for a library of kernels. But `quantize_static` has two
# halves, which you can call one after the other. The first, a *calibrator*, adds outputs with the smallest and the
# largest number of each value. Give it your session:

# %%
from onnxruntime.quantization import MinMaxCalibrater

calibrator = MinMaxCalibrater(in_float, augmented_model_path=lab.build / "augmented.onnx")
calibrator.augment_graph()
calibrator.infer_session = session(
    lab.build / "augmented.onnx"
)  # it knows the course's kernels
calibrator.collect_data(Photos())
ranges = calibrator.compute_data()
for name in ("photo", "dynamic_resize", "scales"):
    low, high = (limit.item() for limit in ranges[name].range_value)
    print(f"{name:14} {low:5.2f} to {high:.2f}")

# %% [markdown]
# The second half, `QDQQuantizer`, puts a pair QuantizeLinear and DequantizeLinear on each activation that the named
# operator types read or write, and stores their weights as int8 before a DequantizeLinear. An integer q stands for
# scale · (q − zero point). In a session, ONNX Runtime replaces a node and the pairs around it with one integer kernel.
# What if the custom operator is among the types?

# %%
from onnxruntime.quantization import QuantType
from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

from oplab.toolchain.build import library_path


def quantised(*operators, per_channel=True, seven_bits=True):
    """The model with QDQ pairs around these operators: weights int8, activations uint8."""
    quantizer = QDQQuantizer(
        onnx.load(in_float),
        per_channel=per_channel,
        reduce_range=seven_bits,  # for weights
        weight_qType=QuantType.QInt8,
        activation_qType=QuantType.QUInt8,
        tensors_range=ranges,
        nodes_to_quantize=[],
        nodes_to_exclude=[],
        op_types_to_quantize=list(operators),
        extra_options={},
    )
    quantizer.quantize_model()
    quantizer.model.topological_sort()
    return quantizer.model.model


test = {"photo": part("chelsea", 32), "scales": np.array([1, 1, 2.25, 2.25], np.float32)}
before = session(in_float).run(None, test)[0]
for operators in (["Conv"], ["Conv", "DynamicResize"]):
    after = session(quantised(*operators)).run(None, test)[0]
    print(f"{' and '.join(operators):22} {before.shape} became {after.shape}")

# %% [markdown]
# The factor 2.25 is data like any other to the quantizer. A range always includes 0, so the step of `scales` is 3/255:
# 2.25 is 191.25 steps and became 191, which is 2.247. The photo has one row and one column fewer. So leave the custom
# node out here, and place the pair yourself, around `photo` only.
#
# A float kernel between DequantizeLinear and QuantizeLinear would gain nothing. `DynamicResize` has a kernel for
# uint8: its weights add up to 1, so the result has the scale and zero point of `x`. Therefore the integers can go
# through the node:
#
# ```
# photo → QuantizeLinear → DynamicResize (uint8) → DequantizeLinear → the pair of the Conv → …
# ```
#
# One scale has to fit both sides. Bicubic weights can be negative, so the result leaves the range of the photo: see
# the ranges above.


# %%
def around_resize(model, low, high):
    """Quantise the photo before DynamicResize, and dequantise its result, with one scale."""
    scale = np.float32((high - low) / 255)
    zero = np.uint8(round(-low / scale))
    (index,) = [i for i, node in enumerate(model.graph.node) if node.op_type == "DynamicResize"]
    node = model.graph.node[index]
    photo, result = node.input[0], node.output[0]
    node.input[0], node.output[0] = "photo_8", "resized_8"
    to_8 = ("QuantizeLinear", [photo, "s8", "z8"], ["photo_8"])
    back = ("DequantizeLinear", ["resized_8", "s8", "z8"], [result])
    model.graph.node.insert(index + 1, onnx.helper.make_node(*back))
    model.graph.node.insert(index, onnx.helper.make_node(*to_8))
    for name, number in (("s8", scale), ("z8", zero)):
        model.graph.initializer.append(onnx.numpy_helper.from_array(number, name))
    onnx.checker.check_model(model)
    return model


def outer(*names):
    limits = [limit.item() for name in names for limit in ranges[name].range_value]
    return min(limits), max(limits)


variants = {
    "Conv only": quantised("Conv"),
    "photo's range": around_resize(quantised("Conv"), *outer("photo")),
    "both ranges": around_resize(quantised("Conv"), *outer("photo", "dynamic_resize")),
}
worst = {}
for photo in ("chelsea", "retina"):
    test["photo"] = part(photo, 32)
    before = session(in_float).run(None, test)[0]
    for name, model in variants.items():
        after = session(model).run(None, test)[0]
        worst[photo, name] = np.abs(after - before).max()
        print(f"⏱ {photo:8} {name:14} {psnr(after, before):.1f} dB")
        assert psnr(after, before) > 35, (photo, name)
cut_off = worst["retina", "photo's range"] > 1.5 * worst["retina", "both ranges"]
print("shape:", after.shape)
print("retina: the photo's range has the larger worst error:", cut_off)
onnx.save(variants["both ranges"], lab.build / "quantised.onnx")
small, large = (
    (lab.build / name).stat().st_size for name in ("quantised.onnx", "enlarge.onnx")
)
print("less than a third of the size:", small < large / 3)
options = onnxruntime.SessionOptions()
options.optimized_model_filepath = str(lab.build / "integers.onnx")
options.register_custom_ops_library(str(library_path("ort")))
onnxruntime.InferenceSession(lab.build / "quantised.onnx", options)
integers = onnx.load(lab.build / "integers.onnx")
print("⏱", *sorted({node.op_type for node in integers.graph.node}))

# %% [markdown]
# The last line has the operators of the model that ONNX Runtime made of it for this processor: integer convolutions, and
# the enlargement in uint8. The photo's range alone has finer steps, which is a little better for a soft photo
# such as `chelsea`, a cat. But it cuts off the overshoots of the bicubic filter, and the black border of `retina` has many
# of them.
#
# How much of the network's gain survives quantisation? Reduce a photo to half its size, enlarge it, and compare with the original:

# %%
from oplab.nets.srcnn import shrink

truth = torch.from_numpy(part("chelsea", 128))
halved = {"photo": shrink(truth, 2).numpy(), "scales": np.array([1, 1, 2, 2], np.float32)}
truth = truth.numpy()
bicubic = torch.ops.oplab.dynamic_resize(*map(torch.from_numpy, halved.values())).numpy()
scores = {"bicubic alone": psnr(bicubic, truth)}
runs = {}
for name, file in (("SRCNN, float32", "enlarge"), ("SRCNN, 8 bits", "quantised")):
    runs[name] = partial(session(lab.build / f"{file}.onnx", threads=1).run, None, halved)
    scores[name] = psnr(runs[name]()[0], truth)
for name, score in scores.items():
    print(f"⏱ {name:15} {score:.1f} dB")
for name, values in race(runs, rounds=5).items():
    print(f"⏱ {name:15} {1000 * np.median(values):.0f} ms")
lost = scores["SRCNN, float32"] - scores["SRCNN, 8 bits"]
print("still better than bicubic:", scores["SRCNN, 8 bits"] > scores["bicubic alone"])
print("less than half a dB lost:", lost < 0.5)

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Scales per channel, and weights of seven bits
#
# Two options of the section above were chosen with care. The first is `per_channel`. The channels of a convolution's weights
# differ in size, and the largest one sets the scale if there is only one for the tensor:

# %%
for tensor in onnx.load(in_float).graph.initializer:
    weights = onnx.numpy_helper.to_array(tensor)
    if weights.ndim == 4 and len(weights) > 1:
        most = np.abs(weights).reshape(len(weights), -1).max(1)
        print(f"{tensor.name}  a channel's largest: {most.min():.2f} to {most.max():.2f}")

# %% [markdown]
# Activations have one scale for all channels in any case. To compare the files and not the kernels of this processor,
# switch ONNX Runtime's optimisations off: each QDQ pair then rounds, and the convolution between two pairs computes
# in float.

# %%
test["photo"] = part("coffee", 32)
before = session(in_float).run(None, test)[0]


def decibels(optimize, **options):
    model = quantised("Conv", **options)
    return psnr(session(model, optimize=optimize).run(None, test)[0], before)


one, many = (decibels(False, per_channel=choice) for choice in (False, True))
print("one scale for each channel is better by 1 dB or more:", many > one + 1)

# %% [markdown]
# The second is `reduce_range`, which gives weights about 7 bits, from -64 to 64. One bit less should cost quality, and
# with the optimisations off it does. But x86 processors without VNNI (instructions that add products of 8-bit numbers
# in 32 bits) multiply 8-bit numbers in pairs and add each pair in 16 bits, and 2 · 255 · 127 is larger than 32767: the
# sum **saturates**. With 7 bits, 2 · 255 · 64 = 32640 fits.

# %%
print("8 bits are better in float arithmetic:", decibels(False, seven_bits=False) > many)
for seven_bits in (False, True):
    quality = decibels(True, seven_bits=seven_bits)
    print(
        f"⏱ {7 if seven_bits else 8} bits, integer kernels of this processor: {quality:.1f} dB"
    )

# %% [markdown]
# If 8 bits are several dB worse than 7 here, your processor probably has no VNNI. The file is the same on every machine,
# and so is the float arithmetic. Without `reduce_range`, a model that passes your tests on a machine with VNNI can lose
# several dB on a machine without it.
#
# **`quantize_around`** in [exercises/c19_todays_models.py](../exercises/c19_todays_models.py#line=160): the section above for
# any model with a custom node.

# %%
lab.check("quantize_around")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: One token at a time
#
# A language model writes one token per run. The keys and values of all earlier tokens do not change, so the model keeps
# them: the *key-value cache* is an input `past` and an output `present`, and the caller passes `present` as `past` in
# the next run. Many exported language models use two operators of ONNX Runtime's own domain, `com.microsoft`, which
# have no definition in ONNX. The first is `GroupQueryAttention`: 8 heads of queries share 2 heads of keys, 4 to 1, so
# the cache is a quarter of the size. It is always causal. The heads are next to each other in the last axis of q, k and v;
# the cache is [batch, heads, tokens, size]. `last`, which the documentation calls `seqlens_k`, is the index of the newest
# token, and `total` the number of tokens.

# %%
decoder = onnx.parser.parse_model("""
    <ir_version: 10, opset_import: ["": 23, "com.microsoft": 1]>
    decoder (float[1, n, 256] q, float[1, n, 64] k, float[1, n, 64] v,
             float[1, 2, old, 32] past_k, float[1, 2, old, 32] past_v,
             int32[1] last, int32 total)
    => (float[1, n, 256] y,
        float[1, 2, all, 32] present_k, float[1, 2, all, 32] present_v)
    { y, present_k, present_v = com.microsoft.GroupQueryAttention
        <num_heads = 8, kv_num_heads = 2>
        (q, k, v, past_k, past_v, last, total) }""")
runtime = session(decoder)
sequence = {
    name: rng.standard_normal((1, 6, width)).astype(np.float32)
    for name, width in zip("qkv", (256, 64, 64), strict=True)
}


def heads(name):
    return torch.from_numpy(sequence[name]).reshape(1, 6, -1, 32).transpose(1, 2)


def step(begin, end, cache, last=None):
    feeds = {name: x[:, begin:end] for name, x in sequence.items()}
    feeds |= zip(("past_k", "past_v"), cache, strict=True)
    feeds["last"] = np.array([end - 1 if last is None else last], np.int32)
    y, *cache = runtime.run(None, feeds | {"total": np.array(end, np.int32)})
    return y, cache


whole = F.scaled_dot_product_attention(
    heads("q"), heads("k"), heads("v"), is_causal=True, enable_gqa=True
)
whole = whole.transpose(1, 2).reshape(1, 6, 256).numpy()
cache = [np.zeros((1, 2, 0, 32), np.float32)] * 2  # no token yet
for begin, end in ((0, 4), (4, 5), (5, 6)):  # a prompt of four tokens, then one at a time
    before = cache
    y, cache = step(begin, end, cache)
    equal = np.allclose(y, whole[:, begin:end], atol=1e-5)
    print(f"tokens {begin} to {end - 1}: cache {cache[0].shape}, as PyTorch at once: {equal}")

# %% [markdown]
# A wrong `last` is refused only if it is too large. One too few writes the new key over the key before it, without a
# message:

# %%
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

with raises(InvalidArgument, "seqlens_k[0] = 6 is out of range"):
    step(5, 6, before, last=6)
y, after = step(5, 6, before, last=4)
print("one too few: the result is right:", np.allclose(y, whole[:, 5:], atol=0.1))
kept = np.array_equal(after[0][:, :, 4], before[0][:, :, 4])
print("the key before it is kept:", kept)

# %% [markdown]
# `Attention` of opset 23 has the same cache, without `last`. With `past`, its causal mask begins after the cached tokens,
# so `is_causal = 1` is right here. Engines have disagreed about this, so test yours:

# %%
standard = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 23]>
    decoder (float[1, n, 256] q, float[1, n, 64] k, float[1, n, 64] v,
             float[1, 2, old, 32] past_k, float[1, 2, old, 32] past_v)
    => (float[1, n, 256] y,
        float[1, 2, all, 32] present_k, float[1, 2, all, 32] present_v)
    { y, present_k, present_v = Attention<q_num_heads = 8, kv_num_heads = 2, is_causal = 1>
        (q, k, v, , past_k, past_v) }""")
feeds = {name: x[:, 5:] for name, x in sequence.items()}
feeds |= zip(("past_k", "past_v"), before, strict=True)
print("Attention:", np.allclose(session(standard).run(None, feeds)[0], whole[:, 5:], atol=1e-5))

# %% [markdown]
# The second operator is `MatMulNBits`. A run for one token reads every weight once, so its time is the size of the
# weights divided by the memory's bandwidth. Four bits for each weight, with one scale for each block of 32, are a
# sixth of float32's size. Two codes share a byte, the first in its lower half, and 8 means 0:

# %%
K, N, BLOCK = 256, 512, 32
weights = rng.standard_normal((N, K)).astype(np.float32)
blocks = weights.reshape(N, K // BLOCK, BLOCK)
scales = np.abs(blocks).max(2) / 7
codes = np.clip(np.rint(blocks / scales[..., None]), -8, 7).astype(np.int8)
unsigned = (codes + 8).astype(np.uint8)
packed = unsigned[..., 0::2] | unsigned[..., 1::2] << 4
small = onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 23, "com.microsoft": 1]>
    small (float[n, {K}] x) => (float[n, {N}] y)
    {{ y = com.microsoft.MatMulNBits<K = {K}, N = {N}, bits = 4, block_size = {BLOCK}>
        (x, packed, scales) }}""")
small.graph.initializer.extend(
    onnx.numpy_helper.from_array(array, name)
    for name, array in {"packed": packed, "scales": scales}.items()
)
x = rng.standard_normal((3, K)).astype(np.float32)
y = session(small).run(None, {"x": x})[0]
rounded = (codes * scales[..., None]).reshape(N, K)
print("as a MatMul with the rounded weights:", np.allclose(y, x @ rounded.T, atol=1e-3))
print("as a MatMul with the weights:        ", np.allclose(y, x @ weights.T, atol=1e-3))
print(f"{weights.nbytes} bytes of weights, {small.ByteSize()} in the file")

# %% [markdown]
# So judge such a file against the *rounded* weights first: that comparison finds a swapped half or a wrong scale. What the
# rounding costs is a question for the model's own task, not for `allclose`.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: A Triton operator meets the exporter
#
# Triton is a language for GPU kernels in Python. `torch.library.triton_op` turns a function that launches such kernels
# into a PyTorch operator. PyTorch's GPU packages for Linux install Triton with them. Where it is missing, the cells of
# this section say so and do nothing.
#
# A Triton kernel is compiled from its source file, so the lesson writes one. The operator is the SwiGLU of section 2.

# %%
import importlib.util
import sys

TRITON = """\
import torch
import triton
import triton.language as tl
from torch.library import triton_op, wrap_triton


@triton.jit
def kernel(a, b, y, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    gate = tl.load(a + at, mask=inside)
    tl.store(y + at, gate * tl.sigmoid(gate) * tl.load(b + at, mask=inside), mask=inside)


@triton_op("lesson19::swiglu", mutates_args=())
def swiglu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(a)
    blocks = (triton.cdiv(a.numel(), 256),)
    wrap_triton(kernel)[blocks](a, b, y, a.numel(), BLOCK=256)
    return y


class Gated(torch.nn.Module):
    def forward(self, a, b):
        return swiglu(a, b)
"""


def load_triton():
    """The module with the operator."""
    file = lab.build / "triton_swiglu.py"
    file.write_text(TRITON)
    spec = importlib.util.spec_from_file_location("triton_swiglu", file)
    sys.modules["triton_swiglu"] = made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


has_triton = importlib.util.find_spec("triton") is not None
ab = (torch.randn(4, 300), torch.randn(4, 300))


def attempt(what, act):
    """What an export contains, or the first words of its error."""
    try:
        return f"{what:28} {act()}"
    except Exception as error:
        words = str(error).partition("DispatchError'>: ")[2] or str(error)
        return f"{what:28} {type(error).__name__}: {words[:60]}"


def on_triton(*lines):
    if not has_triton:
        print("⏱ there is no Triton here")
        return
    for line in lines:
        print("⏱", line())


def first_attempts():
    gated = load_triton().Gated()
    graph = torch.export.export(gated, ab).graph
    calls = [str(node.target) for node in graph.nodes if node.op == "call_function"]
    return f"torch.export: {calls}"


def to_onnx(**options):
    module = sys.modules["triton_swiglu"].Gated()
    made = torch.onnx.export(
        module, ab, dynamo=True, verbose=False, opset_version=20, **options
    )
    return made.model_proto


on_triton(first_attempts, lambda: attempt("without a translation:", to_onnx))

# %% [markdown]
# `torch.export` takes the operator as one call: neither the export nor the fake needs a GPU. The ONNX exporter has no
# function for it, and the launch inside is not an operator that it could decompose into. So it is an operator like those
# of chapter 10, and gets what they got: a translation. Choose what it becomes: small nodes that run everywhere, or
# one node for a kernel of section 2. (For an opset below 23 the exporter first writes opset 18 and then converts the
# model, so a translation with `opset20` is refused.)


# %%
from onnxscript import opset18

lesson_1 = Opset("lesson", 1)


@script(opset18)
def as_nodes(a: FLOAT[...], b: FLOAT[...]) -> FLOAT[...]:
    return opset18.Mul(opset18.Mul(a, opset18.Sigmoid(a)), b)


@script(lesson_1)
def as_kernel(a: FLOAT[...], b: FLOAT[...]) -> FLOAT[...]:
    return lesson_1.SwiGLU(a, b)


def translated(translation):
    table = {torch.ops.lesson19.swiglu.default: translation}
    model = to_onnx(custom_translation_table=table)
    names = [value.name for value in model.graph.input]
    feeds = dict(zip(names, (x.numpy() for x in ab), strict=True))
    (y,) = session(model, libraries=[swiglu]).run(None, feeds)
    expected = (F.silu(ab[0]) * ab[1]).numpy()
    return f"{nodes(model)}, equal: {np.allclose(y, expected, atol=1e-5)}"


on_triton(
    lambda: attempt("as small nodes:", lambda: translated(as_nodes)),
    lambda: attempt("as one node:", lambda: translated(as_kernel)),
)

# %% [markdown]
# Without a GPU, PyTorch cannot run the operator itself. Above, we compared with a formula that we wrote by hand. Register
# a kernel for the CPU next to it. Then the module runs everywhere, and you can test an export against it. This does not
# test the Triton kernel: for that you need a GPU.


# %%
def on_the_cpu():
    gated = sys.modules["triton_swiglu"].Gated()
    before = attempt("eager, without a GPU:", lambda: gated(*ab).shape)

    @torch.library.register_kernel("lesson19::swiglu", "cpu")
    def _(a, b):
        return F.silu(a) * b

    return f"{before}\n⏱ with a kernel for the CPU:   {tuple(gated(*ab).shape)}"


on_triton(on_the_cpu)

# %% [markdown]
# ## Five questions

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - The schemas: `onnx/defs/nn/defs.cc` has Attention, RotaryEmbedding and LinearAttention with their bodies;
#   `docs/Changelog.md` lists what is new in each opset.
# - B. Zhang and R. Sennrich, "Root Mean Square Layer Normalization", NeurIPS 2019; J. Su et al., "RoFormer", 2021
#   (rotary embedding); N. Shazeer, "GLU Variants Improve Transformer", 2020 (SwiGLU).
# - [docs/operators.md](../docs/operators.md): which of the course's kernels take which element types.
# - `csrc/ort_ops/rms_norm.cpp` and `csrc/common/half.h`: the course's RMSNorm, for four element types and each set of
#   instructions. Read it after your own.
#
# Previous: [18: One operator, several engines](18_four_engines.ipynb)
# · Next: [20: In production](20_in_production.ipynb)
# · [Glossary](../docs/glossary.md)
