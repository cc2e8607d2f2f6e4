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
# # 10 · The modern exporter
#
# After this chapter you can
#
# - export an operator that the dynamo path lacks, right for every dtype and every optional argument;
# - put your own node into the file, and know what the exporter drops without a warning;
# - find out whether an export is right, where the exporter itself does not tell you.
#
# ## 1. The failure
#
# `copysign(a, b)` has the magnitude of a and the sign of b. You have an old mapping for it, and you register it. Then
# you export on the **dynamo path**, the default of `torch.onnx.export`, with `report=True`, which writes a Markdown
# file about the export.

# %%
import logging

import torch

from oplab import lesson, quiet_exports, raises
from oplab.figures import drawings

lab = lesson("10_modern_exporter")
quiet_exports()
for name in ("torch.onnx", "torch.export"):
    logging.getLogger(name).setLevel(logging.CRITICAL)


class Copysign(torch.nn.Module):
    def forward(self, a, b):
        return torch.copysign(a, b)


called = []


def old_copysign(g, a, b):
    called.append("copysign")
    return g.op("Mul", g.op("Abs", a), g.op("Sign", b))


torch.manual_seed(10)
a, b = torch.randn(3, 4), torch.randn(3, 4)
folder = lab.fresh("report")
torch.onnx.register_custom_op_symbolic("aten::copysign", old_copysign, 13)
with raises(torch.onnx.OnnxExporterError, "No ONNX function found for"):
    torch.onnx.export(
        Copysign(), (a, b), dynamo=True, verbose=False, report=True, artifacts_dir=folder
    )
torch.onnx.unregister_custom_op_symbolic("aten::copysign", 13)
print("your function was called:", bool(called))

(file,) = folder.glob("*.md")
marks = {"✅": "✓ done", "❌": "✗ fails", "⚪": "not reached"}
lines = [line for line in file.read_text().splitlines() if line[:1] in marks]
steps = {"capture": "Obtain", "decompose": "Decompose", "translate": "Translate"}
found = {name: next(x for x in lines if x[2:].startswith(steps[name])) for name in steps}
boxes = [(name, marks[line[0]], drawings.BLUE) for name, line in found.items()]
lab.figure(
    drawings.pipeline(boxes, ["FX graph", "smaller operators"]),
    "Three steps of the exporter: capture is done, decompose is done, translate fails.",
)

# %% [markdown]
# There are two surprises. The registry of the TorchScript path was not used. And the message names `prims.signbit`, an operator that your
# model does not call. The report states which step failed, and lists the operators before and after each step:

# %%
report = file.read_text()
for line in report.splitlines():
    if "No decompositions registered for" in line and "- `" in line:
        print(line.split(". Example")[0])
    if line.startswith("Ops exist only"):
        print(line)
assert "aten.copysign.Tensor" in report and "prims.signbit.default" in report

# %% [markdown]
# So the exporter has these steps:
#
# 1. **capture**: `torch.export` runs your model on tensors without data, and writes the *FX graph*. It calls `aten.copysign.Tensor`.
# 2. **decompose**: an operator without a translation is split into smaller ones, of `aten` and finally of `prims`.
# 3. **translate**: each remaining operator becomes ONNX nodes. For `prims.signbit` there is no translation.
# 4. **optimise**, and write.
#
# The next cell, which is folded, has four helpers. `export` uses the dynamo path for any function of tensors.
# `innermost` removes the wrappers around an exporter's exception. `nodes` lists the nodes of the graph, and `fx` the
# operators of the FX graph.

# %% {"jupyter": {"source_hidden": true}}
import contextlib
import io

import numpy as np
import onnx
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from onnxscript import FLOAT, INT64, script
from onnxscript import opset18 as op
from torch.onnx.verification import verify_onnx_program

from oplab import ops, session


class Call(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def export(function, inputs, table=None, shapes=None, **options):
    options = {"input_names": list("abc"[: len(inputs)]), "verbose": False, **options}
    shapes = None if shapes is None else (tuple(shapes),)
    module = Call(function).eval()
    return torch.onnx.export(
        module,
        inputs,
        dynamo=True,
        custom_translation_table=table,
        dynamic_shapes=shapes,
        **options,
    )


def nodes(program):
    return [
        f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        for node in program.model.graph
    ]


def fx(exported):
    return [str(node.target) for node in exported.graph.nodes if node.op == "call_function"]


@contextlib.contextmanager
def innermost():
    try:
        yield
    except Exception as error:
        while error.__cause__ is not None:
            error = error.__cause__
        raise error from None


# %% [markdown]
# You can also call the first step yourself. `torch.export` alone does not split the operator:

# %%
captured = torch.export.export(Call(torch.copysign), (a, b))
print(fx(captured))

# %% [markdown]
# ## 2. The naive attempt: translate it word for word
#
# The counterpart of a symbolic function is a **translation**. You pass it to the export in a table. The key is the operator of the FX
# graph, with its overload. An operator that has a translation is not decomposed.


# %%
def naive_copysign(a: FLOAT, b: FLOAT) -> FLOAT:
    return op.Mul(op.Abs(a), op.Sign(b))


key = torch.ops.aten.copysign.Tensor
naive = export(torch.copysign, (a, b), {key: naive_copysign})
print(nodes(naive), torch.equal(naive(a, b)[0], torch.copysign(a, b)))

# %% [markdown]
# It exports, and it is right, bit for bit, on the example. You can call an `ONNXProgram` with tensors: it runs itself in ONNX Runtime.
#
# Why is it still wrong? Sign of 0 is 0 in ONNX. In floating point, 0 and -0 have a sign, too.

# %%
zeros = torch.tensor([0.0, -0.0, 5.0])
naive = export(torch.copysign, (a[0], b[0]), {key: naive_copysign}, [{0: "n"}, {0: "n"}])
print(
    "PyTorch:",
    torch.copysign(torch.ones(3), zeros).tolist(),
    " ONNX:",
    naive(torch.ones(3), zeros)[0].tolist(),
)

# %% [markdown]
# **The fix**: 1 / -0 is minus infinity, which is less than 0.


# %%
def copysign(a: FLOAT, b: FLOAT) -> FLOAT:
    negative = op.Or(op.Less(b, 0.0), op.Less(op.Reciprocal(b), 0.0))
    return op.Where(negative, op.Neg(op.Abs(a)), op.Abs(a))


fixed = export(torch.copysign, (a[0], b[0]), {key: copysign}, [{0: "n"}, {0: "n"}])
signs = torch.tensor([0.0, -0.0, 5.0, -5.0, torch.inf, -torch.inf])
print(
    nodes(fixed),
    torch.equal(fixed(torch.ones(6), signs)[0], torch.copysign(torch.ones(6), signs)),
)

# %% [markdown]
# The metadata of each ONNX node records which FX node it came from: "Deeper: FX graph and ONNX graph, node by node".
#
# ## 3. A table that is not used
#
# Which object is the key? Here are three that look right, for an operator that the exporter already knows. The translation counts its
# calls.

# %%
asked = []


def sine(x: FLOAT) -> FLOAT:
    asked.append("sinc")
    return op.Sin(x)  # wrong on purpose, so that one sees who wrote the graph


for key_of_sinc in (torch.ops.aten.sinc.default, torch.ops.aten.sinc.out, torch.sinc):
    asked.clear()
    program = export(torch.sinc, (a,), {key_of_sinc: sine})
    label = key_of_sinc.__name__
    print(f"{label:13} asked: {bool(asked)!s:5} {nodes(program)}")
    assert bool(asked) == (key_of_sinc is torch.ops.aten.sinc.default)

# %% [markdown]
# Two of them are accepted and have no effect, and **there is no error**: the exporter has its own translation. The
# export fails only for an operator that the exporter lacks. The packet, which is all overloads together, is the one key
# that is refused immediately.

# %%
with raises(TypeError, "should be provided as an OpOverload"):
    export(torch.sinc, (a,), {torch.ops.aten.sinc: sine})

# %% [markdown]
# The capture shows which overload your model calls. `copysign` with a number is a different overload from `copysign`
# with a tensor, and the key of section 2 does not apply to it.


# %%
def minus(a):
    return torch.copysign(a, -2.0)


for function, inputs in ((torch.copysign, (a, b)), (minus, (a,))):
    print(fx(torch.export.export(Call(function), inputs)))
with raises(torch.onnx.OnnxExporterError, "No ONNX function found for"):
    export(minus, (a,), {key: copysign})

# %% [markdown]
# ### What else is accepted without a warning
#
# **A Python float becomes float32**, unless it is combined with a tensor whose dtype the exporter knows. It knows the dtype of an
# input. It does not know the dtype of a value that the translation has computed, here `Reciprocal(b)`. So the fix of section 2
# fails for float64, and not during the export:

# %%
wide = a.double(), b.double()
program = export(torch.copysign, wide, {key: copysign})
with raises(Fail, "bound to different types"):
    program(*wide)


# %%
def copysign(a: FLOAT, b: FLOAT) -> FLOAT:
    zero = op.CastLike(0.0, b)
    negative = op.Or(op.Less(b, zero), op.Less(op.Reciprocal(b), zero))
    return op.Where(negative, op.Neg(op.Abs(a)), op.Abs(a))


program = export(torch.copysign, wide, {key: copysign})
print(nodes(program), torch.equal(program(*wide)[0], torch.copysign(*wide)))

# %% [markdown]
# `CastLike` gives a number the dtype of another tensor; where both are float32, the optimiser removes it again.
#
# **An annotation does not restrict the dtype.** `copysign` above is annotated `FLOAT`, and was just exported for
# float64. The same holds for `FLOAT[...]` in a `@script` function. The annotation of an argument says that it is a
# tensor, and not a number; which dtypes the translation is right for is for you to test.


# %%
@script(default_opset=op)
def copysign_script(a: FLOAT[...], b: FLOAT[...]) -> FLOAT[...]:
    zero = op.CastLike(0.0, b)
    negative = op.Or(b < zero, op.Reciprocal(b) < zero)
    return op.Where(negative, op.Neg(op.Abs(a)), op.Abs(a))


program = export(torch.copysign, wide, {key: copysign_script})
dtypes = [
    str(value.dtype) for value in (*program.model.graph.inputs, *program.model.graph.outputs)
]
print(dtypes, torch.equal(program(*wide)[0], torch.copysign(*wide)))
assert set(dtypes) == {"DOUBLE"}

# %% [markdown]
# **A small number is treated as 0.** The optimiser removes `x + 0` and `x * 1` from the graph. It also takes 1e-12 for 0. This trap does
# not need a translation: a logarithm or a division is often guarded by such a number.

# %%
feeds = {"a": np.zeros(2, np.float32)}
for small in (1e-12, 1e-7):
    for optimize in (True, False):
        program = export(
            lambda x, small=small: torch.log(x + small),
            (torch.rand(5),),
            None,
            [{0: "n"}],
            optimize=optimize,
        )
        (logarithm,) = session(program, optimize=False).run(None, feeds)
        print(
            f"{small} optimize={optimize!s:5} {', '.join(nodes(program)):18}",
            f"of 0: {logarithm[0]:.2f}",
        )
        assert np.isinf(logarithm).all() == (small == 1e-12 and optimize)

# %% [markdown]
# The limit is 1e-8. Add a larger number, or export with `optimize=False`, and test with the input for which the number is there.
#
# **One tensor as two examples.** If you export with `(x, x)`, the capture takes both inputs for one (chapter
# 02). Always pass a separate tensor for each example: `x.clone()` is enough.
#
# ## 4. verify, and why to assert
#
# `verify=True` makes the exporter run the file and compare. Here is a wrong translation of `hypot`.


# %%
def sum_of_sizes(a: FLOAT, b: FLOAT) -> FLOAT:
    return op.Add(op.Abs(a), op.Abs(b))


def exported_with_verify(translation, a, b):
    """The program, and the last line that the exporter printed."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        table = {torch.ops.aten.hypot.default: translation}
        program = export(torch.hypot, (a, b), table, verify=True, verbose=True)
    return program, printed.getvalue().strip().splitlines()[-1]


wrong, said = exported_with_verify(sum_of_sizes, a, b)
print(said, "| and what came back:", type(wrong).__name__)
assert "❌" in said

# %% [markdown]
# The exporter prints a cross, and the export **succeeds**. In a script whose output is not read, the file ships. And
# the tick is no better. This translation divides by the larger number, which is the right idea but fails for 0 and 0:


# %%
def divides(a: FLOAT, b: FLOAT) -> FLOAT:
    large, small = op.Max(op.Abs(a), op.Abs(b)), op.Min(op.Abs(a), op.Abs(b))
    ratio = op.Div(small, large)
    return op.Mul(large, op.Sqrt(op.Add(1.0, op.Mul(ratio, ratio))))


with_zero = [torch.tensor([0.0, 3.0]), torch.tensor([0.0, 4.0])]
broken, said = exported_with_verify(divides, *with_zero)
print(
    said,
    "| ONNX:",
    broken(*with_zero)[0].tolist(),
    "PyTorch:",
    torch.hypot(*with_zero).tolist(),
)
assert "✅" in said

# %% [markdown]
# The exporter prints a tick for a NaN: it checks whether the difference is *larger* than its tolerance, and NaN never is. Each
# output's numbers are in a `VerificationInfo`. `verify_onnx_program` returns them, also for your own inputs.

# %%
(info,) = verify_onnx_program(broken)
print(
    "difference:",
    info.max_abs_diff,
    "| larger than 5e-3:",
    info.max_abs_diff >= 5e-3,
    "| at most 5e-3:",
    info.max_abs_diff <= 5e-3,
)

# %% [markdown]
# Two more differences are not detected. Shapes are broadcast before they are compared, and the dtype is recorded but not compared:


# %%
def one_row(x: FLOAT) -> FLOAT:
    return op.ReduceMax(op.Floor(x), op.Constant(value_ints=[0]), keepdims=1)


def as_integers(x: FLOAT) -> INT64:
    return op.Cast(op.Floor(x), to=onnx.TensorProto.INT64)


same_rows = torch.full((3, 4), 2.5)
for translation in (one_row, as_integers):
    program = export(torch.floor, (same_rows,), {torch.ops.aten.floor.default: translation})
    (info,), (got,) = verify_onnx_program(program), program(same_rows)
    print(
        f"{translation.__name__:12} difference {info.max_abs_diff} ",
        f"{list(got.shape)} {got.dtype}, expected [3, 4] torch.float32",
    )
    assert info.max_abs_diff == 0 and (
        got.shape != same_rows.shape or info.actual_dtype != info.expected_dtype
    )

# %% [markdown]
# So write the assertion yourself, in this direction: *at most*. Also call it with inputs other than those of the export. (For a
# result without elements, a VerificationInfo has an infinite difference, so only its shape and its dtype are compared.)


# %%
def verified(program, *inputs, tolerance=1e-5):
    expected = program.exported_program.module()(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for info, got, right in zip(
        verify_onnx_program(program, inputs), program(*inputs), expected, strict=True
    ):
        assert got.shape == right.shape, (
            f"{info.name}: shape {list(got.shape)}, expected {list(right.shape)}"
        )
        assert info.actual_dtype == info.expected_dtype, f"{info.name}: {info.actual_dtype}"
        assert right.numel() == 0 or info.max_abs_diff <= tolerance, (
            f"{info.name}: differs by {info.max_abs_diff:.2f}"
        )
    return program


# %%
for program, inputs in ((wrong, (a, b)), (broken, with_zero)):
    with raises(AssertionError, "hypot: differs by"):
        verified(program, *inputs)
verified(fixed, torch.ones(6), signs)
with raises(AssertionError, "copysign: differs by"):
    verified(naive, torch.ones(6), signs)

# %% [markdown]
# ## 5. Numbers and several results: cummax
#
# A translation can be plain Python. A number of the schema (`int dim`) arrives as a Python number, so you can use it in an `if`. Two
# results need a tuple, and the annotation declares it.
#
# `len(x.shape)` is the rank of an input of the translation. The result of a node has no shape yet, its `shape` is None: ask the
# inputs.
#
# ONNX has no CumMax. The largest of the first i numbers is the largest of a row in which all other numbers are minus infinity.


# %%
def cummax(x: FLOAT, dim: int) -> tuple[FLOAT, INT64]:
    if dim not in (-1, len(x.shape) - 1):
        raise NotImplementedError(f"cummax is translated for the last axis, not for {dim}")
    place = op.Range(0, op.Squeeze(op.Shape(x, start=-1)), 1)
    assert place.shape is None  # only the inputs of the translation have a shape
    seen = op.LessOrEqual(
        op.Unsqueeze(place, [0]), op.Unsqueeze(place, [1])
    )  # [i, j]: j is not behind i
    rows = op.Where(seen, op.Unsqueeze(x, [-2]), op.CastLike(float("-inf"), x))
    return op.ReduceMax(rows, [-1], keepdims=0), op.ArgMax(
        rows, axis=-1, keepdims=0, select_last_index=1
    )


# %%
table = {torch.ops.aten.cummax.default: cummax}
running = export(lambda x: torch.cummax(x, -1), (a,), table, [{0: "n", 1: "m"}])
ties = torch.randint(0, 4, (2, 9)).float()
verified(running, ties)
print("values ", running(ties)[0][0].int().tolist(), "\nindices", running(ties)[1][0].tolist())
with raises(NotImplementedError, "for the last axis, not for 0"), innermost():
    export(lambda x: torch.cummax(x, 0), (a,), table)

# %% [markdown]
# A translation that refuses some arguments is better than one that is wrong for them. This one compares m² times for a row of m.
#
# An optional argument of the schema (`Tensor? weight=None`, `str? mode=None`) is a parameter with the default None, and
# an argument after the `*` of the schema is passed by its name. None is not 0: `logit` without `eps` returns NaN outside
# of 0 to 1, and with `eps=0` it clips first.

# %%
print(torch.ops.aten.logit.default._schema)
took = []


def logit(x: FLOAT, eps: float | None = None) -> FLOAT:
    took.append(eps)
    one = op.CastLike(1.0, x)
    if eps is not None:  # not "if eps": 0 clips, too
        x = op.Clip(x, op.CastLike(eps, x), op.CastLike(1.0 - eps, x))
    return op.Log(op.Div(x, op.Sub(one, x)))


table = {torch.ops.aten.logit.default: logit}
numbers = torch.tensor([-0.5, 0.0, 0.2, 1.0, 1.5])
for options in ({}, {"eps": 0.0}, {"eps": 0.25}):
    program = export(lambda x, o=options: torch.logit(x, **o), (numbers,), table)
    got, right = program(numbers)[0], torch.logit(numbers, **options)
    same = torch.allclose(got, right, rtol=1e-5, equal_nan=True)
    print(f"{options!s:13} eps is {took[-1]!s:5} {got.numpy().round(2)!s:34} equal: {same}")
    assert same

# %% [markdown]
# ## 6. Your own node
#
# `my_add` should stay one node, `oplab::MyAdd`, because there is a kernel for it. A plain translation fails: it runs
# once, during the export, and each `oplab_1.X(…)` looks up X's schema.

# %%
from onnxscript.values import Opset

ops.load()
my_add, oplab_1 = torch.ops.oplab.my_add, Opset("oplab", 1)


def plain(a: FLOAT, b: FLOAT, alpha: float = 3.0, beta: float = 2.0) -> FLOAT:
    return oplab_1.MyAdd(a, b, alpha=alpha, beta=beta)


def half(a, b):
    return my_add(a, b, beta=0.5)


with raises(onnx.defs.SchemaError, "No schema registered for 'MyAdd'"), innermost():
    export(half, (a, b), {my_add.default: plain})

# %% [markdown]
# `@script` compiles the same function instead. Then the exporter knows only what you annotate, so **annotate the arguments and
# the result**. Give each number a type and the schema's default: a number that the call leaves out is not passed on.

# %%
my_add_translation = script(oplab_1)(plain)
rows_open = [{0: "n"}, {0: "n"}]
custom = export(half, (a, b), {my_add.default: my_add_translation}, rows_open)
(node,) = custom.model.graph
print(nodes(custom), {name: round(entry.value, 3) for name, entry in node.attributes.items()})
print("imports:", dict(sorted(custom.model.opset_imports.items())))
(got,) = session(custom).run(None, {"a": a.numpy(), "b": b.numpy()})
print("equal:", np.allclose(got, half(a, b), atol=1e-6))

# %% [markdown]
# Without the annotations, the export fails with a message that does not name them:


# %%
@script(oplab_1)
def untyped(a, b, alpha: float = 3.0, beta: float = 2.0):
    return oplab_1.MyAdd(a, b, alpha=alpha, beta=beta)


with raises(ValueError, "number of values and replacements must match"), innermost():
    export(half, (a, b), {my_add.default: untyped})

# %% [markdown]
# **A missing parameter** is the worst of these traps. The translation below has no parameters for alpha and beta, and the exporter drops
# the numbers of the call. The kernel uses its defaults.


# %%
@script(oplab_1)
def without_numbers(a: FLOAT[...], b: FLOAT[...]) -> FLOAT[...]:
    return oplab_1.MyAdd(a, b)


dropped = export(half, (a, b), {my_add.default: without_numbers})
feeds = {"a": a.numpy(), "b": b.numpy()}
for label, program in (("with numbers", custom), ("without", dropped)):
    (got,) = session(program).run(None, feeds)
    has = list(program.model.graph[0].attributes)
    right = np.allclose(got, half(a, b), atol=1e-6)
    print(f"{label:13} attributes {has!s:18} right: {right}")
assert np.allclose(got, my_add(a, b), atol=1e-6)

# %% [markdown]
# A plain function is stricter: an argument for which it has no parameter is a `TypeError`.


# %%
def without_eps(x: FLOAT) -> FLOAT:
    return op.Log(op.Div(x, op.Sub(op.CastLike(1.0, x), x)))


table = {torch.ops.aten.logit.default: without_eps}
with raises(TypeError, "takes 1 positional argument but 2 were given"), innermost():
    export(lambda x: torch.logit(x, eps=0.25), (numbers,), table)

# %% [markdown]
# **The opset.** The exporter translates in opset 18, and converts the model afterwards. A `@script` function of standard operators has to
# use opset 18, too; a plain function is traced, and does not define its own opset.

# %%
from onnxscript import opset20


@script(default_opset=opset20)
def composed_20(
    a: FLOAT[...], b: FLOAT[...], alpha: float = 3.0, beta: float = 2.0
) -> FLOAT[...]:
    return a * alpha + b * beta


@script(default_opset=op)
def composed(a: FLOAT[...], b: FLOAT[...], alpha: float = 3.0, beta: float = 2.0) -> FLOAT[...]:
    return a * alpha + b * beta


with raises(ValueError, "Opset mismatch when inlining"), innermost():
    export(half, (a, b), {my_add.default: composed_20})
print(nodes(export(half, (a, b), {my_add.default: composed})), custom.model.opset_imports[""])

# %% [markdown]
# The file with `oplab::MyAdd` needs your kernel, wherever it runs. Chapter 11 and "Deeper: Attach the meaning to the
# file" show how one file serves a runtime without it.

# %%
with raises(Fail, "oplab:MyAdd(-1) is not a registered function/op"):
    custom(a, b)

# %% [markdown]
# ## 7. From the program to a file
#
# `ONNXProgram` has the model in two forms: `program.model` to work with (ONNX IR), and `program.model_proto`, the form that onnx uses. It
# also keeps `exported_program`, the captured FX graph, which `verify_onnx_program` uses.
#
# Where are the weights stored? It depends on the function that writes the file.

# %%
folder, layer, image = lab.fresh("files"), torch.nn.Linear(100, 100), torch.rand(1, 100)
program = torch.onnx.export(layer, (image,), folder / "export.onnx", dynamo=True, verbose=False)
program.save(folder / "save.onnx")
torch.onnx.export(
    layer, (image,), folder / "one_file.onnx", dynamo=True, verbose=False, external_data=False
)
for path in sorted(folder.iterdir()):
    print(f"{path.name:18} {'above' if path.stat().st_size > 40_000 else 'below'} 40 000 bytes")

# %% [markdown]
# By default, `torch.onnx.export(…, path)` always writes a second file, which contains the tensors above 256 bytes.
# `program.save(path)` writes one file. Pass `external_data` to choose. Chapter 00 shows what happens if the second file is
# missing. (A model that you build by hand needs its versions set: chapter 01.)

# %% [markdown]
# ## 8. Limits
#
# - The exporter translates in opset 18 and converts. `opset_version=18` skips the conversion; below 18 the result is not guaranteed.
# - `custom_translation_table` cannot hold translations for complex tensors.
# - `verify_onnx_program` compares on one set of inputs. It does not cover other sizes; call it with several.
#
# ## 9. Exercises
#
# For a hint, call `lab.hint("translate_hypot")`.
#
# **`translate_hypot`** — the operator of section 4, for two dtypes, with zeros, and with numbers whose squares do not fit the dtype:
# [exercises/c10_modern_exporter.py](../exercises/c10_modern_exporter.py#line=54).

# %%
lab.check("translate_hypot")

# %% [markdown]
# **`translate_searchsorted`** — an operator with three optional arguments, two dtypes of results and three of inputs.
# `print` its schema first: [exercises/c10_modern_exporter.py](../exercises/c10_modern_exporter.py#line=95).

# %%
lab.check("translate_searchsorted")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: FX graph and ONNX graph, node by node
#
# The metadata of each ONNX node records which FX node it came from. Here is a model with one operator of each kind: one
# that ONNX has, one that PyTorch's own translation writes as several nodes, and yours.


# %%
def model(a, b):
    return torch.copysign(torch.softmax(a, -1), torch.sinc(b)) + 1


drawn = export(model, (a, b), {key: copysign})
made_from = [
    (node.op_type, node.metadata_props["pkg.torch.onnx.fx_node"].split()[0].strip("%"))
    for node in drawn.model.graph
]
for name in dict.fromkeys(name for _, name in made_from):
    print(f"{name:9} -> {[kind for kind, source in made_from if source == name]}")

# %% {"jupyter": {"source_hidden": true}}
import matplotlib.pyplot as plt

from oplab.figures.palette import BLUE, GREEN, ORANGE, PURPLE

colours = {"softmax": BLUE, "sinc": ORANGE, "copysign": PURPLE, "add": GREEN}
fx_nodes = [
    node
    for node in drawn.exported_program.graph.nodes
    if node.op in ("placeholder", "call_function", "output")
    and "scalar_tensor" not in node.name  # the 1, which becomes a constant of the file
]
words = {
    "call_function": "{0.target}",
    "placeholder": "placeholder {0.name}",
    "output": "output",
}
titles = {node.name: words[node.op].format(node) for node in fx_nodes}
figure, axes = plt.subplots(figsize=(8, 6.2), layout="constrained")
axes.axis("off")
box = {"boxstyle": "round,pad=0.35", "fc": "none", "lw": 1.8}
places = {}
for row, (_, source) in enumerate(made_from):
    places.setdefault(source, []).append(row)
for row, (kind, source) in enumerate(made_from):
    axes.text(1, -row, kind, ha="center", va="center", bbox={**box, "ec": colours[source]})
rows = np.linspace(1, -len(made_from), len(titles))
for row, (name, title) in zip(rows, titles.items(), strict=True):
    edge = {**box, "ec": colours.get(name, "0.5")}
    axes.text(0, row, title, ha="center", va="center", bbox=edge)
    for place in places.get(name, ()):
        axes.plot([0.2, 0.88], [row, -place], color=colours[name], lw=1, zorder=0)
axes.set(xlim=(-0.25, 1.15), ylim=(-len(made_from) - 0.7, 2.3))
for place, title in enumerate(("FX graph", "ONNX graph")):
    axes.text(place, 2, title, ha="center", weight="bold")
lab.figure(
    figure,
    "Two columns of boxes, FX graph and ONNX graph. Lines lead from softmax to one node, from "
    "sinc to five, from copysign to the nodes of your translation, and from add to one.",
)

# %% [markdown]
# The five nodes of `sinc` come from PyTorch's own translation, the last nodes before the addition from yours.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: An operator whose output size depends on the data
#
# So far PyTorch had the operator. If you add an operator, the capture also needs its **fake**: the shape and dtype of the output, without
# any data. `inside` keeps the points that are in a box. `custom_op` makes it opaque: the exporter cannot look inside.


# %%
@torch.library.custom_op("lab::inside", mutates_args=())
def inside(points: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    p = points.numpy()
    return torch.from_numpy(p[((p >= low.numpy()) & (p <= high.numpy())).all(axis=1)])


points, low, high = torch.rand(20, 3), torch.full((3,), 0.1), torch.full((3,), 0.8)
print("kept:", len(inside(points, low, high)), "of", len(points))
with raises(torch.onnx.OnnxExporterError, "no fake impl registered"):
    export(inside, (points, low, high))

# %% [markdown]
# ### The naive fake, and opcheck
#
# How many points are kept depends on the **data**. "As many as in the input" is the usual guess. The export accepts it.


# %%
@inside.register_fake
def as_many(points, low, high):
    return torch.empty_like(points)


def to_compress(points: FLOAT, low: FLOAT, high: FLOAT) -> FLOAT:
    fits = op.And(op.GreaterOrEqual(points, low), op.LessOrEqual(points, high))
    keep = op.ReduceMin(op.Cast(fits, to=onnx.TensorProto.INT32), [1], keepdims=0)
    return op.Compress(points, op.Cast(keep, to=onnx.TensorProto.BOOL), axis=0)


# %%
def numbered(points, low, high):
    kept = inside(points, low, high)
    return kept * torch.arange(kept.shape[0])[:, None]


table = {torch.ops.lab.inside.default: to_compress}
rows = [{0: "n"}, None, None]
lying = export(numbered, (points, low, high), table, rows)
print("the file promises", [str(size) for size in lying.model.graph.outputs[0].shape])
feeds = {name: value.numpy() for name, value in zip("abc", (points, low, high), strict=True)}
with raises(Exception, "Attempting to broadcast an axis by a dimension other than 1"):
    session(lying).run(None, feeds)

# %% [markdown]
# The range was as long as the input. `torch.library.opcheck` runs the operator and its fake, and detects the mistake before you export.

# %%
checks = {"test_utils": ("test_schema", "test_faketensor")}
with raises(Exception, "are not equal"):
    torch.library.opcheck(inside, (points, low, high), **checks)

# %% [markdown]
# It also detects an operator that writes into its input and does not declare it.


# %%
@torch.library.custom_op("lab::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x.mul_(2).clone()


doubled.register_fake(lambda x: torch.empty_like(x))
with raises(Exception, "not defined as mutable but was mutated"):
    torch.library.opcheck(doubled, (torch.ones(3),), **checks)

# %% [markdown]
# `mutates_args=("x",)` would declare it, and then the export fails. Before the translation the exporter makes the graph *functional*: a
# write in place becomes a new value. An operator that declares a write is wrapped in `auto_functionalized_v2` for that, and the wrapper has
# no translation, whatever your table has for the operator. Export an operator that returns a new tensor instead.


# %%
@torch.library.custom_op("lab::double_", mutates_args=("x",))
def double_(x: torch.Tensor) -> None:
    x.mul_(2)


def writes(x):
    y = x + 1
    double_(y)
    return y


program = torch.export.export(Call(writes), (torch.ones(3),))
print("captured:  ", fx(program))
print("functional:", fx(program.run_decompositions({})))
with raises(torch.onnx.OnnxExporterError, "Error when translating node"):
    export(writes, (torch.ones(3),), {torch.ops.lab.double_.default: lambda x: op.Add(x, x)})

# %% [markdown]
# ### The honest fake
#
# An unknown size is a new symbol, an *unbacked* one. It has no example value.


# %%
@inside.register_fake
def unknown(points, low, high):
    return points.new_empty(torch.library.get_ctx().new_dynamic_size(), points.shape[1])


torch.library.opcheck(inside, (points, low, high), **checks)
honest = export(numbered, (points, low, high), table, rows)
print("the file promises", [str(size) for size in honest.model.graph.outputs[0].shape])
for count in (20, 1000, 1, 0):
    verified(honest, cloud := torch.rand(count, 3), low, high)
    print("points kept:", len(honest(cloud, low, high)[0]), "of", count)

# %% [markdown]
# Python cannot branch on such a size, because the capture runs the model once, without data:

# %%
unheard = io.StringIO()  # the capture also prints the graph up to that point
quiet = contextlib.redirect_stdout(unheard), contextlib.redirect_stderr(unheard)
with raises(Exception, "u0 > 3"), quiet[0], quiet[1], innermost():
    export(
        lambda *x: inside(*x) if inside(*x).shape[0] > 3 else x[0],
        (points, low, high),
        table,
        rows,
    )

# %% [markdown]
# ### Do you need an operator for it?
#
# Not if PyTorch's own operators can express it. Indexing with a mask also has an unknown size, and is traced and translated today. The
# choice is between 14 nodes that you do not have to maintain, and 7 nodes that you do.


# %%
def traced(points, low, high):
    return points[((points >= low) & (points <= high)).all(1)]


for function, translations in ((traced, None), (inside, table)):
    program = verified(
        export(function, (points, low, high), translations, rows), torch.rand(50, 3), low, high
    )
    print(
        f"{len(nodes(program))} nodes, {list(map(str, program.model.graph.outputs[0].shape))}:",
        ", ".join(nodes(program)),
    )

# %% [markdown]
# In the exercise, the operator has two outputs that share their unknown size. The exercise also introduces two
# operators of ONNX: `Unique`, which finds the distinct rows (`axis=0`), and `ScatterND` with `reduction="add"`, which
# sums the values that go to the same place. Read their documentation first: `print(onnx.defs.get_schema("Unique",
# 18).doc)`.
#
# A data-dependent size has no upper bound in the file. Runtimes that plan their memory in advance (TensorRT) need one.
#
# Your stub: [exercises/c10_modern_exporter.py](../exercises/c10_modern_exporter.py#line=132).

# %%
lab.check("data_dependent_shape")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Other ways to write your own node
#
# **Register the schema with ONNX.** With a schema in `onnx.defs` the plain function of section 6 works, and `onnx.checker` also
# checks the node. A schema applies to the whole process, so it is removed again.

# %%
parameter, attribute = onnx.defs.OpSchema.FormalParameter, onnx.defs.OpSchema.Attribute
schema = onnx.defs.OpSchema(
    *("MyAdd", "oplab", 1),
    inputs=[parameter("a", "T"), parameter("b", "T")],
    outputs=[parameter("y", "T")],
    type_constraints=[("T", ["tensor(float)", "tensor(double)"], "")],
    attributes=[
        attribute(name, onnx.defs.OpSchema.AttrType.FLOAT) for name in ("alpha", "beta")
    ],
)
onnx.defs.register_schema(schema)
print(nodes(export(half, (a, b), {my_add.default: plain})))
onnx.defs.deregister_schema("MyAdd", 1, "oplab")

# %% [markdown]
# ### Without an operator: torch.onnx.ops.symbolic
#
# Chapter 08 introduced it: a node that is written in the model's code. It has a trap that tests do not find if they
# test the export alone: in PyTorch it returns **zeros**.


# %%
def unguarded(a, b):
    numbers = {"alpha": 3.0, "beta": 0.5}
    return torch.onnx.ops.symbolic(
        "oplab::MyAdd", (a, b), numbers, dtype=a.dtype, shape=a.shape, version=1
    )


def guarded(a, b):
    # for the dynamo path alone; a guard for both paths: chapter 08
    return unguarded(a, b) if torch.onnx.is_in_onnx_export() else 3.0 * a + 0.5 * b


feeds = {"a": a.numpy(), "b": b.numpy()}
for function in (unguarded, guarded):
    (got,) = session(export(function, (a, b))).run(None, feeds)
    right = torch.allclose(function(a, b), half(a, b), atol=1e-6)
    print(
        f"{function.__name__:10} file right: {np.allclose(got, half(a, b), atol=1e-6)}",
        f" PyTorch right: {right}",
    )
assert not unguarded(a, b).any() and right

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Attach the meaning to the file
#
# The file with `oplab::MyAdd` runs only where your kernel is.
#
# Chapter 01 introduced the solution, and chapter 11 explains it in depth: a **model-local function**, a definition of
# the node in the same file. A runtime with a kernel uses the kernel; any other runtime inlines the function. Can the
# exporter write it? No: **it inlines every function**, as it did with `composed` above. So attach it afterwards.
# `@script` creates a function; here its opset is that of the finished file, 20.

# %%
import onnx_ir


@script(oplab_1)
def MyAdd(a, b, alpha: float, beta: float):
    left = opset20.Mul(opset20.CastLike(opset20.Constant(value_float=alpha), a), a)
    right = opset20.Mul(opset20.CastLike(opset20.Constant(value_float=beta), b), b)
    return opset20.Add(left, right)


function = onnx_ir.from_proto(MyAdd.to_function_proto())
custom.model.functions[function.identifier()] = function
print(function.identifier(), "in the graph:", nodes(custom))

# %% [markdown]
# The proof uses stock ONNX Runtime, other sizes, and the checker. Verify *now*: before this step, the file could not run.

# %%
onnx.checker.check_model(custom.model_proto, full_check=True)
for rows_now in (3, 100, 1):
    verified(custom, torch.randn(rows_now, 4), torch.randn(rows_now, 4))
lab.show(custom)

# %% [markdown]
# Avoid two mistakes. `optimize()` inlines the function, so attach it last. And its opset has to be that of the model: the checker refuses
# any other opset.

# %%
again = export(half, (a, b), {my_add.default: my_add_translation})
again.model.functions[function.identifier()] = onnx_ir.from_proto(MyAdd.to_function_proto())
again.optimize()
print("after optimize():", nodes(again), "functions:", len(again.model.functions))
older = custom.model_proto
next(entry for entry in older.functions[0].opset_import if entry.domain == "").version = 18
with raises(onnx.checker.ValidationError, "not compatible with the version imported by model"):
    onnx.checker.check_model(older)

# %% [markdown]
# A model-local function is as fast as its nodes. For speed you need the kernel (chapters 12 to 14).
#
# **`attach_function`** — a file that stock ONNX Runtime runs, and that is refused if it does not verify:
# [exercises/c10_modern_exporter.py](../exercises/c10_modern_exporter.py#line=175).

# %%
lab.check("attach_function")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: Eleven operators of the course, on both exporters
#
# Each operator is exported in four ways: as it comes, and with your mapping, on both paths. A cell of the table is the
# result of an export that was tried, and whose file, if there is one, was run in ONNX Runtime and compared with
# PyTorch. One row is `inside`, so run "Deeper: An operator whose output size depends on the data" first. Start with the
# mappings of the **TorchScript path**.


# %% {"jupyter": {"source_hidden": true}}
def constant(g, value):
    return g.op("Constant", value_t=torch.tensor(value))


# %% {"jupyter": {"source_hidden": true}}
def ts_hypot(g, a, b):  # for numbers of ordinary size; chapter 04 has the rest
    return g.op("Sqrt", g.op("Add", g.op("Mul", a, a), g.op("Mul", b, b)))


# %% {"jupyter": {"source_hidden": true}}
letters = torch.onnx.symbolic_helper.parse_args


def ts_deform(
    g, x, weight, offset, mask, bias, sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask
):
    sizes = {"strides_i": [sh, sw], "pads_i": [ph, pw] * 2, "dilations_i": [dh, dw]}
    return g.op(
        "DeformConv",
        x,
        weight,
        offset,
        bias,
        group_i=groups,
        offset_group_i=offset_groups,
        **sizes,
    )


def ts_knn(g, k, xyz, offset, new_xyz, new_offset):  # each by its name: parse_args counts them
    return g.op("oplab::KNNQuery", xyz, offset, new_xyz, new_offset, nsample_i=k, outputs=2)


def ts_logaddexp(g, x, y):
    far = g.op("Exp", g.op("Neg", g.op("Abs", g.op("Sub", x, y))))
    return g.op("Add", g.op("Max", x, y), g.op("Log", g.op("Add", constant(g, 1.0), far)))


def ts_inside(g, points, low, high):
    fits = g.op("And", g.op("GreaterOrEqual", points, low), g.op("LessOrEqual", points, high))
    keep = g.op("ReduceMin", g.op("Cast", fits, to_i=6), constant(g, [1]), keepdims_i=0)
    return g.op("Compress", points, g.op("Cast", keep, to_i=9), axis_i=0)


# %% {"jupyter": {"source_hidden": true}}
ts_mappings = {
    "aten::asinh": lambda g, x: g.op("Asinh", x),
    "aten::logaddexp": ts_logaddexp,
    "lab::inside": ts_inside,
    "aten::hypot": ts_hypot,
    "torchvision::deform_conv2d": letters(*["v"] * 5, *["i"] * 8, "b")(ts_deform),
    "oplab::my_add": letters("v", "v", "f", "f")(
        lambda g, a, b, p, q: g.op("oplab::MyAdd", a, b, alpha_f=p, beta_f=q)
    ),
    "oplab::dynamic_resize": lambda g, x, scales: g.op("oplab::DynamicResize", x, scales),
    "oplab::knn_query": letters("i", *["v"] * 4)(ts_knn),
}

# %% [markdown]
# Then the translations of the **dynamo path**. Some operators become a composition of ONNX's own; each remaining operator is one node of
# `oplab`.

# %% {"jupyter": {"source_hidden": true}}
from onnxscript import INT32


def hypot(
    a: FLOAT, b: FLOAT
) -> FLOAT:  # for numbers of ordinary size; the exercise has the rest
    return op.Sqrt(op.Add(op.Mul(a, a), op.Mul(b, b)))


@script(oplab_1)
def to_resize(x: FLOAT[...], scales: FLOAT[...]) -> FLOAT[...]:
    return oplab_1.DynamicResize(x, scales)


@script(oplab_1)
def to_knn(
    nsample: int,
    xyz: FLOAT[...],
    offset: INT64[...],
    new_xyz: FLOAT[...] = None,
    new_offset: INT64[...] = None,
) -> tuple[INT32[...], FLOAT[...]]:
    idx, dist = oplab_1.KNNQuery(xyz, offset, new_xyz, new_offset, nsample=nsample)
    return idx, dist


# %% {"jupyter": {"source_hidden": true}}
course = torch.ops.oplab
translations = {
    torch.ops.aten.hypot.default: hypot,
    torch.ops.lab.inside.default: to_compress,
    course.my_add.default: my_add_translation,
    course.dynamic_resize.default: to_resize,
    course.knn_query.default: to_knn,
}

# %% [markdown]
# Two rows are Functions with `symbolic` (chapters 05 and 08): MyClip, and VarSum, for which there is no PyTorch
# operator. (Its kernel is in chapter 13.) On the dynamo path, the forward of VarSum writes the node with
# `torch.onnx.ops.symbolic`.


# %% {"jupyter": {"source_hidden": true}}
class MyClip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clamp(min=0)

    @staticmethod
    def symbolic(g, x):
        return g.op("Clip", x, constant(g, 0.0))


class VarSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        if torch.compiler.is_exporting() and torch.onnx.is_in_onnx_export():
            return torch.onnx.ops.symbolic(
                "oplab::VarSum", (a, b), dtype=a.dtype, shape=a.shape, version=1
            )
        return a + b

    @staticmethod
    def symbolic(g, a, b):
        return g.op("oplab::VarSum", a, b).setType(a.type())


# %% {"jupyter": {"source_hidden": true}}
import torchvision

image, cloud = torch.rand(1, 2, 6, 6), torch.rand(10, 3)
twice = torch.nn.functional.interpolate
everything = {  # the chapter that teaches it, the function, its inputs
    "bicubic, fixed factor": (
        "03",
        lambda x: twice(x, scale_factor=2.0, mode="bicubic"),
        image,
    ),
    "asinh": ("04", torch.asinh, a),
    "hypot": ("04", torch.hypot, a, b),
    "logaddexp": ("04", torch.logaddexp, a, b),
    "MyClip, a Function": ("05", MyClip.apply, a),
    "deform_conv2d": (
        "06",
        torchvision.ops.deform_conv2d,
        image,
        torch.randn(1, 18, 4, 4),
        torch.randn(3, 2, 3, 3),
    ),
    "my_add": ("07", half, a, b),
    "knn_query": (
        "07",
        lambda p, offset: course.knn_query(2, p, offset),
        cloud,
        torch.tensor([4, 10]),
    ),
    "bicubic, factor is input": (
        "08",
        course.dynamic_resize,
        image,
        torch.tensor([1.0, 1.0, 2.0, 1.5]),
    ),
    "inside, a custom_op": ("10", inside, cloud, low, high),
    "VarSum, a Function": ("13", VarSum.apply, a, b),
}

# %% [markdown]
# A cell contains `standard` for ONNX's own operators, `oplab` for a node with a kernel of the course, and `–` where the export fails. An
# operator that the dynamo path exports as it comes needs no table, so its cell appears twice. A file with other shapes, dtypes or numbers
# than PyTorch would be an error here, not a cell.


# %%
def cell(convert, function, inputs):
    try:
        file = convert(function, inputs)
    except (
        torch.onnx.OnnxExporterError,
        ValueError,
    ):  # ValueError: a name that was unregistered (chapter 04)
        return "–"
    right = function(*inputs)
    runtime = session(file)
    names = [value.name for value in runtime.get_inputs()]
    got = runtime.run(None, dict(zip(names, (x.numpy() for x in inputs), strict=True)))
    for value, expected in zip(
        got, right if isinstance(right, tuple) else (right,), strict=True
    ):
        expected = expected.numpy()
        assert (value.shape, value.dtype) == (expected.shape, expected.dtype), function
        assert np.allclose(value, expected, atol=1e-4), function
    return "oplab" if any(node.domain == "oplab" for node in file.graph.node) else "standard"


# %%
import os


@contextlib.contextmanager
def silent():
    """Without the warnings about missing shapes, which C++ code writes to stderr."""
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


# %%
def torchscript(function, inputs):
    buffer = io.BytesIO()
    options = {"dynamo": False, "opset_version": 20, "custom_opsets": {"oplab": 1}}
    with silent():
        torch.onnx.export(Call(function).eval(), inputs, buffer, **options)
    return onnx.load_model_from_string(buffer.getvalue())


def dynamo(function, inputs):
    return export(function, inputs).model_proto


def dynamo_with_table(function, inputs):
    return export(function, inputs, translations).model_proto


# %%
results = {name: {"TS": cell(torchscript, row[1], row[2:])} for name, row in everything.items()}
for name, row in everything.items():
    results[name]["dynamo"] = cell(dynamo, row[1], row[2:])
for operator, symbolic in ts_mappings.items():
    torch.onnx.register_custom_op_symbolic(operator, symbolic, 9)
for name, row in everything.items():
    results[name]["TS, yours"] = cell(torchscript, row[1], row[2:])
for name, row in everything.items():  # what exports as it comes needs no table
    known = results[name]["dynamo"]
    results[name]["dynamo, yours"] = (
        known if known != "–" else cell(dynamo_with_table, row[1], row[2:])
    )
for operator in ts_mappings:
    torch.onnx.unregister_custom_op_symbolic(operator, 9)

# %% [markdown]
# The last column is the **route**, read from the cells: what you have to provide on the dynamo path.
#
# - *nothing*: the export works as it comes. There is nothing to maintain.
# - *a table*: a translation to standard operators. The file does not need your library.
# - *a table + a kernel*: the translation writes your own node. The target needs its kernel (chapters 12 to 14), or the file contains its
#   meaning ("Deeper: Attach the meaning to the file") and is as fast as the nodes in it.
# - *a kernel*: the same, but the model's code writes the node.


# %%
def route(found):
    if found["dynamo, yours"] == "–":
        return "none"
    bring = [] if found["dynamo"] != "–" else ["a table"]
    if found["dynamo, yours"] == "oplab":
        bring.append("a kernel")
    return " + ".join(bring) or "nothing"


# %% {"jupyter": {"source_hidden": true}}
import matplotlib.pyplot as plt

from oplab.figures.palette import BLUE, ORANGE, PURPLE

columns = ["TS", "TS, yours", "dynamo", "dynamo, yours"]
shades = {"–": ORANGE, "standard": BLUE, "oplab": PURPLE}
figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
for row, found in enumerate(results.values()):
    for column, label in enumerate([*(found[label] for label in columns), route(found)]):
        corner, colour = (column + 0.02, row - 0.44), shades.get(label, "none")
        frame = plt.Rectangle(corner, 0.94, 0.88, fc="none", ec=colour, lw=1.8)
        axes.add_patch(frame)
        axes.text(column + 0.49, row, label, ha="center", va="center", fontsize=9)
axes.set_yticks(range(len(results)), [f"{name}  {everything[name][0]}" for name in results])
titles = [
    "TorchScript path\nas it comes",
    "TorchScript path\nwith your mapping",
    "dynamo path\nas it comes",
    "dynamo path\nwith your table",
    "route on the\ndynamo path",
]
axes.set_xticks([k + 0.48 for k in range(5)], titles)
axes.set_xlim(0, 5)
axes.set_ylim(len(results) - 0.4, -0.6)
axes.xaxis.tick_top()
axes.spines[:].set_visible(False)
axes.tick_params(length=0)
lab.figure(
    figure,
    "A table with a row for each operator and five columns: both exporters without and with "
    "your mapping, and the route. With your mapping, no cell is a dash.",
)

# %% [markdown]
# The number after a name is the chapter. The next cell prints the table as text and counts the cells. Each of them can be exported on
# both paths.

# %%
for name, found in results.items():
    print(
        f"{everything[name][0]}  {name:25}",
        *[f"{found[label]:10}" for label in columns],
        route(found),
    )
for label in columns:
    values = [found[label] for found in results.values()]
    print(f"{label:14}", {kind: values.count(kind) for kind in shades})
assert all(
    "–" not in (found["TS, yours"], found["dynamo, yours"]) for found in results.values()
)

# %% [markdown]
# When is the TorchScript path the right route? When your PyTorch is too old for the dynamo path, or when you own
# mappings and have no time to rewrite them. The mappings of the TorchScript path work only there (section 1). For a new
# model, use the dynamo path.
#
# What the table does not show: each cell was tested with one set of inputs only, of one size, in float32. Here is a `standard` cell,
# `logaddexp`, with larger numbers. The exporter's own translation is the formula that chapter 04 warns about.

# %%
large = torch.full((3, 4), 100.0), torch.full((3, 4), 90.0)
green = export(torch.logaddexp, (a, b))
print(
    nodes(green),
    f"ONNX: {green(*large)[0][0, 0]:.2f}  PyTorch: {torch.logaddexp(*large)[0, 0]:.2f}",
)
with raises(AssertionError, "logaddexp: differs by inf"):
    verified(green, *large)

# %% [markdown]
# So verify the cell that you need (section 4), with the numbers, sizes and dtypes of your model.
#
# ## Five questions

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - Chapter 11: model-local functions in depth, and two more ways to run a node without a compiler.
# - Chapter 15: if `verified` fails, which node is the cause?
# - PyTorch: "torch.export" on unbacked symbols and data-dependent errors, and "Custom Python Operators".
# - `torch/onnx/_internal/exporter/_core.py` in your environment: the four steps, in one function called `export`.
#
# Previous: [09: Exporter archaeology](09_exporter_archaeology.ipynb)
# · Next: [11: Kernels without a compiler](11_kernels_without_a_compiler.ipynb)
# · [Glossary](../docs/glossary.md)
