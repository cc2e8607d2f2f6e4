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
# # 18 · One operator, several engines
#
# After this chapter you can
#
# - run one model with a custom operator in ONNX Runtime, OpenVINO and ncnn;
# - list what an engine asks of an operator before you write it for that engine;
# - find which engine is wrong when two of them disagree about a stock model.
#
# An ONNX file is read by many programs. So far, the course used two of them: ONNX Runtime and ONNX's own reference
# evaluator. This chapter adds OpenVINO, Intel's engine, and ncnn, Tencent's engine for phones. Here, both run on the CPU.
# ncnn does not read ONNX; *pnnx* converts a file for it. Two sections at the end are about engines that are not run
# here: ExecuTorch and TensorRT.
#
# OpenVINO and ncnn are not needed by any other chapter, so the course does not install them. Without them, the cells
# that need them say so or print nothing; their results are here until you run them. The exercises `conversion` and
# `openvino_extension` need OpenVINO: `make deps-engines` installs the engines, and compiles the course's operators for
# OpenVINO.

# %%
import importlib.util

from oplab import lesson

lab = lesson("18_four_engines")
NAMES = {"openvino": "OpenVINO", "ncnn": "ncnn", "pnnx": "pnnx"}


def here(*packages):
    """Whether the packages are installed. If not, one line says what to do."""
    missing = [NAMES[name] for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        print(f"This needs {' and '.join(missing)}, not installed here: `make deps-engines`.")
    return not missing


installed = {name: here(name) for name in NAMES}

# %% [markdown]
# ## 1. One file, four answers
#
# The model: a matrix product, the course's operator MyAdd, and Relu. MyAdd computes `alpha * a + beta * b`.

# %%
import io
import os
import re
import signal
import subprocess
import threading
from contextlib import contextmanager

import numpy as np
import onnx
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator

ort.set_default_logger_severity(4)  # what it logs, it raises too
F = np.float32
NET = """<ir_version: 10, opset_import: ["": 18, "oplab": 1]>
    net (float[n, 4] x, float[n, 2] z) => (float[n, 2] y)
    <float[4, 2] w = {1, 0, 0, 1, 1, 0, 0, -1}> {
        h = MatMul(x, w)
        s = oplab.MyAdd <alpha: float = 0.5, beta: float = 2.0> (h, z)
        y = Relu(s)
    }"""
model = onnx.parser.parse_model(NET)
feed = {"x": np.arange(8, dtype=F).reshape(2, 4), "z": np.array([[1, -2], [3, 4]], F)}
lab.show(model)

# %% [markdown]
# Each engine is asked to load it as it is. `refusal` prints the line that names the operator.


# %%
def refusal(engine, call):
    """What the engine says about MyAdd."""
    try:
        call()
    except Exception as error:
        line = next(line for line in str(error).splitlines() if "MyAdd" in line)
        print(f"{engine:13} {type(error).__name__}: {line.strip()[-80:]}")
    else:
        raise AssertionError(f"{engine} has loaded the model")


def convert(model, feed, name):
    """Run pnnx for inputs of these sizes: the folder with its files, and how it ended."""
    import pnnx

    folder = lab.fresh(f"pnnx_{name}")
    onnx.save(model, folder / "m.onnx")
    sizes = [str(list(array.shape)).replace(" ", "") for array in feed.values()]
    command = [pnnx.EXEC_PATH, "m.onnx", "fp16=0", f"inputshape={','.join(sizes)}"]
    return folder, subprocess.run(command, cwd=folder, capture_output=True, text=True)


refusal("reference", lambda: ReferenceEvaluator(model))
refusal("ONNX Runtime", lambda: ort.InferenceSession(model.SerializeToString()))
if installed["openvino"]:
    import openvino as ov

    def read(model, core):
        return core.read_model(io.BytesIO(model.SerializeToString()))

    refusal("OpenVINO", lambda: read(model, ov.Core()))
if installed["pnnx"]:
    folder, done = convert(model, feed, "custom")
    assert done.returncode and not (folder / "m.ncnn.param").exists()
    said = re.search("unexpected op_type .*", done.stdout + done.stderr)
    print(f"{'pnnx':13} {said[0]}")
    print(f"{'':13} and then it crashed: {done.returncode < 0}")

# %% [markdown]
# Three of them give a sentence. pnnx has no place for a node that it does not know: it prints a line and crashes. A
# converter can crash like any other program, so check its exit code before you use its files.
#
# The baseline of sections 1 to 3 is ONNX's reference evaluator with MyAdd in NumPy. ONNX Runtime gets the library of
# chapter 13.

# %%
from oplab import session
from oplab.ops.reference import MyAdd as MyAddInNumPy

expected = ReferenceEvaluator(model, new_ops=[MyAddInNumPy]).run(None, feed)[0]
got = session(model).run(None, feed)[0]
print("expected     ", expected.tolist())
print("ONNX Runtime ", got.tolist())
assert np.array_equal(got, expected)

# %% [markdown]
# ## 2. OpenVINO
#
# An operator that OpenVINO cannot build from its own needs two things: a class, and a **conversion extension**, a
# function that turns a node of the file into objects of such classes. In C++ the class is compiled (see *Deeper*); in
# Python it is this:

# %%
if here("openvino"):
    seen = []  # what evaluate was called with

    class MyAdd(ov.Op):
        def __init__(self, inputs=None, alpha=3.0, beta=2.0):
            super().__init__(self)
            self.alpha, self.beta = alpha, beta
            if inputs is not None:
                self.set_arguments(inputs)
                self.constructor_validate_and_infer_types()

        def validate_and_infer_types(self):
            self.set_output_type(
                0, self.get_input_element_type(0), self.get_input_partial_shape(0)
            )

        def clone_with_new_inputs(self, inputs):
            return type(self)(inputs, self.alpha, self.beta)

        def has_evaluate(self):
            return True

        def evaluate(self, outputs, inputs):
            a, b = (tensor.data for tensor in inputs)
            seen.append((a.dtype.name, a.shape, threading.current_thread().name))
            if a.shape != b.shape:
                raise ValueError(f"a and b must have the same shape: {a.shape}, {b.shape}")
            outputs[0].shape = a.shape
            outputs[0].data[...] = self.alpha * a + self.beta * b
            return True


# %% [markdown]
# - `validate_and_infer_types` runs when the graph is built, with a **partial shape**: a size may be unknown.
# - `evaluate` runs with real arrays. It sets the shape of the output, and computes.
# - `clone_with_new_inputs` is called by every transformation that copies the graph.
# - `has_evaluate` states that there is an `evaluate`. `inputs` may be None, because OpenVINO also makes an object
#   without a graph, to learn the name of its type.
#
# The second part, the conversion, is registered for a name and a domain. `CONFIG` keeps OpenVINO from choosing a
# smaller type than float32: what it chooses without it depends on the processor, so the line that prints it begins
# with ⏱ and may differ on your machine.

# %%
CONFIG = {"INFERENCE_PRECISION_HINT": "f32"}

if here("openvino"):
    from openvino.frontend.onnx import ConversionExtension

    def core_with(kind):
        """A core that reads oplab.MyAdd as an object of this class."""

        def convert_node(node):
            inputs = [node.get_input(0), node.get_input(1)]
            values = node.get_attribute("alpha", 3.0), node.get_attribute("beta", 2.0)
            return kind(inputs, *values).outputs()

        core = ov.Core()
        core.add_extension(ConversionExtension("MyAdd", "oplab", convert_node))
        return core

    core = core_with(MyAdd)
    compiled = core.compile_model(read(model, core), "CPU", CONFIG)
    got = compiled(feed)[0]
    print("OpenVINO", got.tolist(), compiled.output(0).partial_shape)
    usual = core.get_property("CPU", "INFERENCE_PRECISION_HINT").get_type_name()
    print("⏱ without the hint, it computes here in", usual)
    assert np.array_equal(got, expected)
    print("n = 1:  ", compiled({name: array[:1] for name, array in feed.items()})[0].tolist())

# %% [markdown]
# Another size of `n` needs no second compilation, because the axis has a name in the file and is unknown to OpenVINO
# (`?`).
#
# ### What can go wrong
#
# **A clone without the attributes.** The graph that runs is a copy of the one that you read. A class that forgets
# its attributes when it is copied computes with the defaults, 3 and 2, and there is no message:

# %%
if here("openvino"):

    class Forgets(MyAdd):
        def clone_with_new_inputs(self, inputs):
            return Forgets(inputs)

    wrong = core_with(Forgets)
    got = wrong.compile_model(read(model, wrong), "CPU", CONFIG)(feed)[0]
    print("expected", expected.tolist())
    print("got     ", got.tolist())

# %% [markdown]
# **Types that change.** OpenVINO's CPU plugin computes int64 in int32, and float64 in float32. The next cell prints
# what arrives at your operator for each type in the file, and which thread calls it. OpenVINO chooses the thread by the
# processor, so this line begins with ⏱ too:


# %%
def typed(name, more=""):
    """MyAdd alone, for one element type. Default attributes."""
    return onnx.parser.parse_model(f"""<ir_version: 10, opset_import: ["": 18, "oplab": 1]>
        net ({name}[n] a, {name}[n] b) => ({name}[n] y) {{ y = oplab.MyAdd(a, b) {more} }}""")


if here("openvino"):
    for name, dtype in (
        ("float", F),
        ("float16", np.float16),
        ("double", np.float64),
        ("int64", np.int64),
    ):
        one = core.compile_model(read(typed(name), core), "CPU", CONFIG)
        seen.clear()
        got = one({"a": np.ones(3, dtype), "b": np.ones(3, dtype)})[0]
        print(f"{name:8} evaluate saw {seen[0][0]:8}; the result is {got.dtype}")
    print("⏱ it ran on", seen[0][2])

# %% [markdown]
# **Memory that is shared.** `compiled(x)` does not copy `x`. The engine keeps using its memory as the place for its
# input, and a later call may write there:

# %%
if here("openvino"):
    neg = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 18]>
        net (float[3] x) => (float[3] y) { y = Neg(x) }""")
    negate = core.compile_model(read(neg, core), "CPU", CONFIG)
    x = np.array([1, 2, 3], F)
    negate(x)
    negate(np.array([7, 8, 9], F), share_inputs=False)
    print("x is now", x.tolist())

# %% [markdown]
# The second call was told to copy its input, and it copied it into the tensor that it had: your `x`. Do the same in
# every call of a compiled model: always share, or never share.
#
# **Your exception** reaches the caller: in ONNX Runtime with the sentence of the kernel, in OpenVINO inside a
# `RuntimeError`, with its type and its sentence. (OpenVINO does not compare two axes of the same name, `n`, so the
# shapes 3 and 2 reach your code.)

# %%
from oplab import raises

ones = {"a": np.ones(3, F), "b": np.ones(2, F)}
with raises(Exception, "a and b must have the same shape"):
    session(
        onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 18, "oplab": 1]>
        net (float[n] a, float[m] b) => (float[n] y) { y = oplab.MyAdd(a, b) }""")
    ).run(None, ones)
if here("openvino"):
    one = core.compile_model(read(typed("float"), core), "CPU", CONFIG)
    with raises(RuntimeError, "a and b must have the same shape"):
        one(ones)

# %% [markdown]
# **A version.** The file imports `oplab` in version 1. What happens with version 7, which does not exist?

# %%
new = onnx.parser.parse_model(NET.replace('"oplab": 1', '"oplab": 7'))
from oplab.toolchain.build import library_path

options = ort.SessionOptions()
options.register_custom_ops_library(str(library_path("ort")))
plain = ort.InferenceSession(new.SerializeToString(), options)
print("ONNX Runtime", np.array_equal(plain.run(None, feed)[0], expected))
if installed["openvino"]:
    got = core.compile_model(read(new, core), "CPU", CONFIG)(feed)[0]
    print("OpenVINO    ", np.array_equal(got, expected))

# %% [markdown]
# Both run it. Neither checks the version of a custom domain; your kernel or conversion can.
# (`oplab.session` does: it refuses version 7 with a sentence.)
#
# ### Without a class
#
# Often an operator is a combination of stock ones. Then the conversion returns *those*, and there is no class, no
# Python at run time, and no clone to write:

# %%
if here("openvino"):
    from openvino import opset13

    def convert_node(node):
        a, b = node.get_input(0), node.get_input(1)
        alpha = opset13.constant(node.get_attribute("alpha", 3.0), a.get_element_type())
        beta = opset13.constant(node.get_attribute("beta", 2.0), a.get_element_type())
        return opset13.add(opset13.multiply(a, alpha), opset13.multiply(b, beta)).outputs()

    stock_core = ov.Core()
    stock_core.add_extension(ConversionExtension("MyAdd", "oplab", convert_node))
    stock_only = read(model, stock_core)
    print([op.get_type_name() for op in stock_only.get_ordered_ops()])
    got = stock_core.compile_model(stock_only, "CPU", CONFIG)(feed)[0]
    print(np.allclose(got, expected))
    program = stock_core.compile_model(read(typed("float"), stock_core), "CPU", CONFIG)
    print(program({"a": np.ones(3, F), "b": np.ones(1, F)})[0])

# %% [markdown]
# The last line is what this way costs: MyAdd refuses b[1] for a[3], and OpenVINO's Add broadcasts it. A conversion
# should reject what the operator rejects, as far as it can: `add` has the argument `auto_broadcast`.

# %% [markdown]
# ## 3. ncnn
#
# ncnn reads two files: a **param file**, which is text with one layer in each line, and a *bin* file with the weights.
# pnnx writes both. Since it crashes on a node that it does not know, the file for pnnx has a **substitute**: a stock
# operator with the same inputs and outputs. Sub is such an operator, and it does not occur elsewhere in this model.

# %%
if here("pnnx"):
    stock = onnx.ModelProto.FromString(model.SerializeToString())
    node = stock.graph.node[1]
    node.op_type, node.domain = "Sub", ""
    del node.attribute[:]
    folder, done = convert(stock, feed, "substitute")
    assert done.returncode == 0
    param = (folder / "m.ncnn.param").read_text()
    print(param)

# %% [markdown]
# The first line is a magic number, and the second has the numbers of layers and of values: if you add a line, change
# them. Each other line is: type, name, number of inputs, number of outputs, their names, and then parameters
# `number=value`. Now Sub becomes MyAdd: parameter 0 is alpha, parameter 1 is beta. You choose these numbers, and your layer has to
# read the same ones.

# %%
if here("pnnx"):
    ours = re.sub(
        r"^BinaryOp( +\S+ +2 1 \S+ \S+ \S+) 0=1$",
        r"MyAdd   \1 0=0.5 1=2.0",
        param,
        flags=re.MULTILINE,
    )
    assert ours.count("MyAdd") == 1 and "BinaryOp" not in ours
    print("\n".join(line for line in ours.splitlines() if line.startswith("MyAdd")))

# %% [markdown]
# The layer is a class with two methods besides its constructor. `load_param` reads the numbered parameters, each with a
# default. `forward` computes; it returns 0, or another number for an error. The last argument of
# `register_custom_layer` is called when ncnn destroys a layer.

# %%
if here("ncnn"):
    import ncnn

    class MyAddLayer(ncnn.Layer):
        def __init__(self):
            super().__init__()
            self.one_blob_only = False  # it has two inputs
            self.support_inplace = False

        def load_param(self, numbers):
            self.alpha, self.beta = numbers.get(0, 3.0), numbers.get(1, 2.0)
            return 0

        def forward(self, bottoms, tops, options):
            a, b = (np.array(mat) for mat in bottoms)
            threads.add(threading.current_thread().name)
            if a.shape != b.shape:
                return -1
            y = np.asarray(self.alpha * a + self.beta * b, F)
            tops[0].clone_from(ncnn.Mat(y), options.blob_allocator)
            return 0

    layers = []  # ncnn keeps pointers, so Python has to keep the objects

    def create():
        layers.append(MyAddLayer())
        return layers[-1]

    threads = set()  # those that have called forward

    @contextmanager
    def quietly():
        """Suppress what C++ code writes to stderr."""
        with open(os.devnull, "w") as nowhere:
            kept = os.dup(2)
            os.dup2(nowhere.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(kept, 2)
                os.close(kept)

    def plain_net():
        """A net that computes in float32, also on a processor with float16 arithmetic."""
        net = ncnn.Net()
        net.opt.num_threads = 1
        for kind in ("packed", "storage", "arithmetic"):
            setattr(net.opt, f"use_fp16_{kind}", False)
        return net

    def extract(net, **inputs):
        """The values of out0, or the number of the error."""
        extractor = net.create_extractor()
        for name, array in inputs.items():
            extractor.input(name, ncnn.Mat(np.ascontiguousarray(array)).clone())
        code, mat = extractor.extract("out0")
        return np.array(mat) if code == 0 and not mat.empty() else f"error {code}"


if here("ncnn", "pnnx"):
    with quietly():  # "layer MyAdd not exists or registered"
        code = plain_net().load_param_mem(ours)
    print("without the layer:", code)
    net = plain_net()
    net.register_custom_layer("MyAdd", create, layers.remove)
    print("with it:          ", net.load_param_mem(ours))
    net.load_model(str(folder / "m.ncnn.bin"))
    got = extract(net, in0=feed["x"], in1=feed["z"])
    print("ncnn", got.tolist(), "on", *threads)
    assert np.allclose(got, expected)

# %% [markdown]
# The names of the file are lost: `x` has become `in0`. The param file has no types either. Our net computes in float32,
# because `plain_net` turns float16 off.
#
# ### What can go wrong
#
# **Errors are numbers.** `load_param_mem` returned -1 and the program went on. `extract` of ncnn returns a number,
# too, and a Mat that may be empty; reading an empty one can crash the process. That is why `extract` above looks at both.

# %%
if here("ncnn", "pnnx"):
    print(extract(net, in0=feed["x"], in1=feed["z"][:1]))

# %% [markdown]
# **Sizes may be fixed.** pnnx gets one size for each axis, and what the model computes from sizes becomes a constant.
# Most layers still take the size of their input, but not this model's: `y` is `x` in one row. pnnx converts it for a
# 2 × 2 input, and ncnn then runs it on a 3 × 2 input:

# %%
flat = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 18]>
    net (float[n, 2] x) => (float[1, p] y) <int64[1] one = {1}, int64[1] two = {2}> {
        size = Shape(x)
        count = ReduceProd <keepdims = 1> (size)
        shape = Concat <axis = 0> (one, count)
        y = Reshape(x, shape)
    }""")
tall = {"x": np.arange(6, dtype=F).reshape(3, 2)}
print("ONNX Runtime", ort.InferenceSession(flat.SerializeToString()).run(None, tall)[0].shape)
if installed["openvino"]:
    any_core = ov.Core()
    program = any_core.compile_model(read(flat, any_core), "CPU", CONFIG)
    print("OpenVINO    ", program(tall)[0].shape)
if here("ncnn", "pnnx"):
    folder, done = convert(flat, {"x": np.ones((2, 2), F)}, "flat")
    fixed = plain_net()
    fixed.load_param(str(folder / "m.ncnn.param"))
    fixed.load_model(str(folder / "m.ncnn.bin"))
    print((folder / "m.ncnn.param").read_text())
    print("ncnn        ", extract(fixed, in0=tall["x"]))

# %% [markdown]
# pnnx has computed the shape once, for the sizes that it was given, and has written 4 into the layer. ncnn returns
# four of the six values. There is no message.
#
# **Memory is yours.** `ncnn.Mat(array)` uses the array's memory and does not keep the array alive. `clone()` copies:

# %%
if here("ncnn"):
    x = np.array([1, 2, 3], F)
    shared, copied = ncnn.Mat(x), ncnn.Mat(x).clone()
    x[:] = 9
    print("Mat(x)        ", np.array(shared).tolist())
    print("Mat(x).clone()", np.array(copied).tolist())

# %% [markdown]
# ## 4. What each engine asks of an operator
#
# You have seen most of these lines run in a cell above. Those about ONNX Runtime's shapes and threads are from chapter
# 13.
#
# | | ONNX Runtime | OpenVINO | ncnn |
# |---|---|---|---|
# | registration | a library, for each session | a conversion, and a class if needed, for each core | a function, for each net |
# | its name | domain and type | domain and type | type |
# | attributes | by name | by name; a clone has to keep them | by number |
# | shapes | inferred if you say how, and at run time | partial ones in the graph, and at run time | at run time |
# | types | a kernel for each; others are refused | float16 and float64 arrive as float32, int64 as int32 | float32 (float16 is off here) |
# | the caller's arrays (Python) | read in place | shared, also after the call | used by a Mat, or cloned |
# | threads | the kernel may ask for more | the caller's; several may call at once | the caller's, with one thread |
# | errors | an exception with your sentence | a RuntimeError with your sentence | a number |
# | versions | not checked | not checked | there are none |
#
# Write the computation once, as a function of pointers and sizes, and put a thin class for each engine around it. The
# course does that: `csrc/common` has the computation, `csrc/ort_ops`, `csrc/torch_ops` and `csrc/openvino_ops` have
# the classes.
#
# ## 5. The same stock file, other numbers
#
# A custom operator is one that you test. What about the *stock* operators around it? The next cell has a
# function for each engine, and prints what each of them computes for one small model.


# %%
def on_reference(model, feed):
    return ReferenceEvaluator(model).run(None, feed)[0]


def on_ort(model, feed):
    return ort.InferenceSession(model.SerializeToString()).run(None, feed)[0]


def on_openvino(model, feed):
    core = ov.Core()
    try:
        return core.compile_model(read(model, core), "CPU", CONFIG)(feed)[0]
    except RuntimeError as error:  # on x86 without AVX, it has no Resize
        return f"does not run it: {str(error).strip().splitlines()[-1]}"


def on_ncnn(model, feed):
    if any(array.dtype != F for array in feed.values()):
        return "not tried: this function passes float32 only"
    folder, done = convert(model, feed, "stock")
    if done.returncode or not (folder / "m.ncnn.param").exists():
        return "pnnx does not convert it"
    net = plain_net()
    with quietly():
        if net.load_param(str(folder / "m.ncnn.param")):
            return "ncnn does not load what pnnx wrote"
    net.load_model(str(folder / "m.ncnn.bin"))
    # ncnn has no axis for the batch: [1, 1, h, w] is [1, h, w].
    arrays = {f"in{k}": a[0] if a.ndim == 4 else a for k, a in enumerate(feed.values())}
    return extract(net, **arrays)


ENGINES = {"reference": on_reference, "ONNX Runtime": on_ort}
if installed["openvino"]:
    ENGINES["OpenVINO"] = on_openvino
if installed["ncnn"] and installed["pnnx"]:
    ENGINES["ncnn"] = on_ncnn


def compare(graph, feed, machine=()):
    """Print each engine's values. Those in `machine` depend on the processor."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 18]> {graph}')
    onnx.checker.check_model(model, full_check=True)
    results = {}
    for engine, run in ENGINES.items():
        with np.errstate(all="ignore"):
            value = run(model, feed)
        results[engine] = value
        if not isinstance(value, str):
            numbers = np.ravel(value).tolist()
            form = "d" if isinstance(numbers[0], int) else ".5g"
            value = f"{value.dtype.name:8} {' '.join(format(one + 0, form) for one in numbers)}"
        print(f"{'⏱ ' if engine in machine else ''}{engine:13} {value}")
    return results


# %% [markdown]
# **Rounding of sizes.** Resize makes a row of five values 1.1 and 1.3 times as long. 5 × 1.1 is 5.5 and 5 × 1.3 is 6.5;
# the outputs have 5 and 6 values, because sizes are rounded down. Which scale is used for the coordinates: the input's,
# or the quotient of the two lengths, 5 / 5 and 6 / 5?

# %%
row = {"x": (np.arange(5, dtype=F) ** 2).reshape(1, 1, 1, 5)}


def resize(mode, scale):
    return f"""net (float[1, 1, h, w] x) => (float[1, 1, p, q] y)
        <float[4] s = {{1, 1, 1, {scale}}}> {{
        y = Resize <mode = "linear", coordinate_transformation_mode = "{mode}"> (x, "", s) }}"""


rounded = compare(resize("half_pixel", 1.1), row)
print()
_ = compare(resize("half_pixel", 1.3), row)

# %% [markdown]
# For 1.3 all of them agree. For 1.1 the engines copy the row, and the reference computes other values. What does the
# standard say?

# %%
schema = onnx.defs.get_schema("Resize", 18)
text = schema.attributes["coordinate_transformation_mode"].description
for words in ("scale = ", "x_original = (x_resized + 0.5)", "x_original = x_resized * "):
    print(re.search(f"`({re.escape(words)}[^`]*)`", text)[1])
print(re.search("`(output_dimension = [^`]*)`", schema.doc)[1])

# %% [markdown]
# By this text, `scale` is the quotient of two lengths: 1 for five values out of five, and 1.2 for six out of five. At 1.1
# the engines do what it says (or skip a Resize that keeps the length; the result does not tell). At 1.3 none of them
# does, and neither does the reference: 1.2 would give 0.75 as the second value. They compute with 1.3, the number in
# `scales`. So two readings are in use, and we treat each as **allowed**. A model whose meaning depends on the choice is
# not portable: use `sizes` in place of `scales`, or scales that give whole numbers.
#
# **align_corners** has a formula with lengths and without a scale:

# %%
corners = compare(resize("align_corners", 1.3), row)
at = np.arange(6) * (5 - 1) / (6 - 1)
print("by the formula", np.interp(at, np.arange(5), np.arange(5) ** 2).round(4).tolist())

# %% [markdown]
# Now all engines agree and the *reference* differs: it uses 6.5, the length before rounding. This formula leaves no
# choice: the resized tensor has the length 6. The reference evaluator is an arbiter that is easy to run and to read. It is code
# as well, and where it surprises you, the text decides.
#
# **A converter that drops an attribute.** With `asymmetric` the coordinate is `x_resized / scale`:

# %%
dropped = compare(resize("asymmetric", 2), row)

# %% [markdown]
# The values of ncnn are not those of `asymmetric`. They are what `half_pixel` gives, and there is no message:

# %%
_ = compare(resize("half_pixel", 2), row)

# %% {"jupyter": {"source_hidden": true}}
from oplab.figures.engines import same_row

lab.figure(
    same_row(
        {
            "half_pixel, 1.1": rounded,
            "align_corners, 1.3": corners,
            "asymmetric, 2": dropped,
        }
    ),
    "Three panels with the values of the row by engine. half_pixel, 1.1: the reference is "
    "below the three engines, which agree. align_corners, 1.3: the same. asymmetric, 2: ncnn "
    "is below the other three, which agree.",
)

# %% [markdown]
# In the first two panels, the reference is the one that differs, and in the last it is ncnn. Who is right cannot be seen
# in a picture.
#
# **NaN.** Relu is `max(0, x)`, and NumPy's maximum keeps a NaN. What OpenVINO and ncnn do with it depends on the
# processor's instructions, so their lines are marked with ⏱:

# %%
_ = compare(
    "net (float[n, m] x) => (float[n, m] y) { y = Relu(x) }",
    {"x": np.array([[np.nan, -1, 2]], F)},
    machine=("OpenVINO", "ncnn"),
)

# %% [markdown]
# On the processor used here (x86), OpenVINO returned 0: the NaN that should have shown you a broken weight has
# disappeared. The standard's text, `max(0, x)`, does not say what the maximum of 0 and NaN is.
#
# **Integers.** int64 is computed in int32, and uint8 does not wrap around:

# %%
_ = compare(
    "net (int64[n] x) => (int64[n] y) { y = Add(x, x) }", {"x": np.array([5, 2**31 - 1, 2**40])}
)
print()
_ = compare(
    "net (uint8[n] x) => (uint8[n] y) { y = Add(x, x) }", {"x": np.array([5, 200], np.uint8)}
)

# %% [markdown]
# **Double precision.** The dtype of the output is right, but the values may have the precision of float32. A result that
# is close for float32 is far off for float64:

# %%
results = compare(
    "net (double[n] x) => (double[n] y) { y = Exp(x) }", {"x": np.array([0.5, 1.0, 2.0])}
)
for engine, value in results.items():
    if not isinstance(value, str):
        gap = np.abs(value / results["reference"] - 1).max()
        print(f"{engine:13} agrees to 12 digits: {gap < 1e-12!s:5}  to 6 digits: {gap < 1e-6}")

# %% [markdown]
# **Empty tensors.** The maximum of no values is minus infinity in ONNX Runtime and in the reference, and the smallest
# finite float32 in OpenVINO. The last line is from the standard:

# %%
_ = compare(
    """net (float[n, m] x) => (float[n] y) <int64[1] axis = {1}> {
        y = ReduceMax <keepdims = 0> (x, axis) }""",
    {"x": np.zeros((2, 0), F)},
)
text = onnx.defs.get_schema("ReduceMax", 18).doc
print(re.search("Reduction over an empty set [^.]*", text)[0])

# %% [markdown]
# ## 6. Which engine is wrong?
#
# The cells above had one node. A real model has hundreds, and the difference is seen at the end. Make inner values
# outputs of the model (chapter 15), and look at all of them:

# %%
three = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 18]>
    net (uint8[n] x) => (float[n] y, uint8[n] a, float[n] b) {
        a = Add(x, x)
        b = Cast <to = 1> (a)
        y = Sqrt(b)
    }""")
names = ["a", "b", "y"]
bytes_in = {"x": np.array([8, 200], np.uint8)}
whole = dict(zip(names, ReferenceEvaluator(three).run(names, bytes_in), strict=True))
shown = whole
if here("openvino"):
    recorder = ov.Core().compile_model(read(three, ov.Core()), "CPU", CONFIG)
    results = recorder(bytes_in)
    shown = {name: results[name] for name in names}
for name in names:
    texts = (" ".join(f"{one:.4g}" for one in values[name]) for values in (whole, shown))
    print("{}  expected {:10} got {}".format(name, *texts))

# %% [markdown]
# All three values differ. But two of the nodes are innocent: Sqrt gives the right root of what OpenVINO had. To see
# that, let the reference compute *one node* from the engine's inputs:


# %%
def alone(model, node, inputs):
    """What the reference computes for this node from these arrays by name."""
    ports = [
        [onnx.ValueInfoProto(name=name) for name in ends] for ends in (inputs, node.output)
    ]
    graph = onnx.helper.make_graph([node], "one", *ports)
    one = onnx.helper.make_model(graph, opset_imports=model.opset_import)
    return ReferenceEvaluator(one).run(None, inputs)[0]


have = bytes_in | shown
for node in three.graph.node:
    expected = alone(three, node, {name: have[name] for name in node.input})
    right = np.allclose(have[node.output[0]], expected, 1e-4, 1e-5)
    print(f"{node.op_type:5} {'right' if right else 'wrong'}")

# %% [markdown]
# This comparison is enough for these three nodes. It does not look at dtype or shape, and it calls NaN wrong even where
# NaN is expected. For the overflow of uint8, the text of Add has no rule; here the reference's wrap-around counts.
#
# Four rules:
#
# 1. **Judge a node by the inputs that the engine had.** What comes after a wrong node is a consequence of it.
# 2. **The standard is the arbiter.** Not the majority: programs can share a mistake, and two of three may be
#    wrong. Not ONNX Runtime either: it is one of the engines.
# 3. **Compare dtype, shape, NaN and infinity before numbers**, and choose the tolerance by dtype: a rounding error of
#    float32 is not an error, and the same number in float64 is one.
# 4. **Separate what is wrong from what is allowed.** Where the text permits two results, either is right.
#
# **`differ`** in [exercises/c18_four_engines.py](../exercises/c18_four_engines.py#line=98): the four rules as a function.

# %%
lab.check("differ")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: A conversion that computes with its inputs
#
# The exercise is about two operators. DynamicResize (chapter 08) resizes x[N, C, H, W] by scales that the model may
# compute. OpenVINO's operator for this is
# `opset13.interpolate(image, scales_or_sizes, mode, shape_calculation_mode, axes=…, coordinate_transformation_mode=…, cube_coeff=…)`,
# where the second argument has one value for each axis in `axes`. With `shape_calculation_mode="scales"` it computes
# with the scale that you give it, and with `"sizes"` with the quotient of the two sides.
#
# **`conversion`** in [exercises/c18_four_engines.py](../exercises/c18_four_engines.py#line=50).

# %%
lab.check("conversion")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: An extension for OpenVINO in C++
#
# A Python class runs under the GIL, so only one thread at a time computes. For a product, the class is C++, and a library
# registers it together with its conversion. `make deps-engines` builds the course's own operators this way, from
# `csrc/openvino_ops`. DynamicResize has a shape that depends on *values*; in the graph, its height and width are
# unknown:

# %%
resized = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 18, "oplab": 1]>
    net (float[1, 1, h, w] x, float[4] s) => (float[1, 1, p, q] y) {
        y = oplab.DynamicResize(x, s)
    }""")
image = {"x": np.arange(12, dtype=F).reshape(1, 1, 3, 4), "s": np.array([1, 1, 2, 1.5], F)}
base = session(resized).run(None, image)[0]
if here("openvino") and library_path("openvino").is_file():
    core = ov.Core()
    core.add_extension(str(library_path("openvino")))
    compiled = core.compile_model(read(resized, core), "CPU", CONFIG)
    got = compiled(image)[0]
    print(compiled.output(0).partial_shape, "in the graph,", got.shape, "after the call")
    print("the same as in ONNX Runtime:", np.array_equal(got, base))

# %% [markdown]
# Here is its class. It has the functions of section 2, and `visit_attributes`, which OpenVINO needs to write a model
# to a file and to compare two nodes. DynamicResize has no attributes to visit.

# %%
from oplab import paths
from oplab.figures import listing

operators = paths.root() / "csrc" / "openvino_ops" / "operators.cpp"
listing.source(operators, "struct DynamicResize")

# %% [markdown]
# `set_shape` comes before the first write, because it allocates the output. And each type that `evaluate` can meet needs
# its own instance of the template. At the end of the file, the macro `OPENVINO_CREATE_EXTENSIONS` lists the classes and
# their conversions; `core.add_extension(path)` finds this list by the name of one C function:

# %%
print(operators.read_text()[operators.read_text().index("OPENVINO_CREATE_EXTENSIONS") :])

# %% [markdown]
# **`openvino_extension`** in [exercises/csrc/c18_openvino_extension.cpp](../exercises/csrc/c18_openvino_extension.cpp#line=31):
# an operator that computes, and that OpenVINO's other questions break. Find out where, and fix it.

# %%
lab.check("openvino_extension")

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: ncnn, and memory that is not its own
#
# A layer such as ReLU works *in place* where it may. ncnn asks the Mat whether somebody else uses it, through a
# counter. A Mat that wraps your array has no such counter, and an in-place layer may crash on it, so this runs in a
# separate process:

# %%
import sys

IN_PLACE = """\
import sys, numpy as np, ncnn
net = ncnn.Net()
net.load_param_mem("7767517\\n2 2\\nInput in0 0 1 in0\\nReLU relu 1 1 in0 out0\\n")
x = np.array([[-1, 2], [3, -4]], np.float32)
mat = ncnn.Mat(x).clone() if sys.argv[1] == "clone" else ncnn.Mat(x)
extractor = net.create_extractor()
extractor.input("in0", mat)
code, y = extractor.extract("out0")
print(np.array(y).tolist(), "and x is", x.tolist())
"""
if here("ncnn"):
    for way in ("clone", "shared"):
        command = [sys.executable, "-c", IN_PLACE, way]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        ended = signal.Signals(-done.returncode).name if done.returncode < 0 else ""
        print(f"{way:7}", f"ended by {ended}" if ended else done.stdout.strip())

# %% [markdown]
# So `extract` of section 3 makes a clone of each input. It costs a copy, and the caller's array stays as it is.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: ExecuTorch
#
# ExecuTorch is PyTorch's own engine for phones and microcontrollers. It reads no ONNX file: a model goes from
# `torch.export` to a `.pte` file, so your `torch.library` operator of chapter 07 is the beginning, and not the ONNX
# node. **Nothing in this section is executed here.** Run `make executorch` in a terminal: it installs ExecuTorch 1.5.1
# in `build/executorch` (19 MB to fetch, a few minutes), does all of this and prints the results. The
# package asks for about twenty others, some of which the course would have to change for it, so it gets a separate
# environment with the few that are needed. `tools/executorch_steps.py` has the steps in Python,
# `csrc/executorch/my_add.cpp` the kernel. What ExecuTorch asks of an operator, with PyTorch 2.15 on Linux:
#
# - *Registration.* The operator has a second schema whose result is an argument,
#   `my_add.out(..., *, Tensor(a!) out) -> Tensor(a!)`. An operator without it is not exported, and the message does not
#   tell you why: `AttributeError: 'NoneType' object has no attribute 'kind'`. In C++, one line registers the kernel of
#   this schema: `EXECUTORCH_LIBRARY(lab, "my_add.out", oplab::my_add_out)`.
# - *Build.* The package contains headers, CMake files and `libexecutorch.so`. A kernel is a shared library of its user, and
#   compiles in seconds: `-I` for `include` and for `include/executorch/runtime/core/portable_type/c10`, and
#   `-DC10_USING_CUSTOM_GENERATED_MACROS`. Without the second folder, `c10/util/irange.h` is not found.
# - *Run.* `ctypes.CDLL` loads the library before `Runtime.get()`, which then has 241 operators and not 240. Three models
#   with different shapes, attributes and dtypes give exactly the numbers of PyTorch.
# - *A missing kernel.* The exception is `Failed to load method forward, error: 0x:14`. It does not name the operator;
#   0x14 is `OperatorMissing` in `runtime/core/error.h`. The name is in the log, on the standard error:
#   `Missing operator: [0] lab::my_add.out`.
# - *Wrong inputs.* The shapes and dtypes of these models are fixed. Another shape is error 0x10 (`NotSupported`),
#   another dtype or one input too few 0x12 (`InvalidArgument`), before the kernel is called.
#   What the kernel checks itself is 0x12 as well, and its sentence is in the log:
#   `a and b must have the same shape, but a is [2, 3] and b is [1, 3].` No exception may leave a kernel: it calls
#   `context.fail` and returns.

# %% [markdown] {"jp-MarkdownHeadingCollapsed": true}
# ## Deeper: TensorRT
#
# TensorRT is NVIDIA's engine for its GPUs. It works in two steps. A **builder** reads the ONNX file, times several
# ways to run each part on the GPU that is present, and writes an *engine file*. The **runtime** loads this file later,
# in another process or on another machine, and runs it. By default that machine needs the same version of TensorRT and
# the same model of GPU. Chapter 08 showed how the parser finds a plugin for a node: by type, version
# and namespace. This section is about what you write then.
#
# **No cell below calls TensorRT**, which needs a GPU. What runs here is the arithmetic of a plugin, and checks of its source
# and of the model. The names are those of TensorRT's Python package, version 11.4. No plugin in C++ was compiled.
#
# A plugin is one object with three **capabilities**, because an engine has two steps:
#
# | capability | asked when | the most important methods, by their names in Python |
# |---|---|---|
# | Core | always | `plugin_name`, `plugin_version`, `plugin_namespace` |
# | Build | an engine is built | `get_output_shapes`, `get_output_data_types`, `supports_format_combination` |
# | Runtime | it runs, and is timed in the build | `on_shape_change`, `enqueue`, `get_fields_to_serialize` |
#
# In C++ the names are in camelCase: `getOutputShapes` of `IPluginV3OneBuild`, `enqueue` of `IPluginV3OneRuntime`.
# `get_capability_interface(type)` returns the part that is asked for. A **creator**, which is registered once in each
# process, makes the object from a list of *fields*: in the build from the node's attributes, and later from what
# `get_fields_to_serialize` put into the engine file. The engine file has the fields, and not your code: a process
# that loads it has to register the same plugin first.
#
# ### An operator in TensorRT and in the other engines
#
# | | TensorRT | ONNX Runtime | OpenVINO | ncnn |
# |---|---|---|---|---|
# | made by | a creator, from fields | `CreateKernelV2` | a conversion | a function |
# | shapes | *expressions* of sizes | inferred, and when it runs | partial ones in the graph | when it runs |
# | types | the builder proposes, the plugin agrees | a kernel for each | any | float32 |
# | runs | `enqueue`, on a stream | `Compute` | `evaluate` | `forward` |
# | returns | before the work is done | when it is; for CUDA, before | when it is | when it is |
# | scratch memory | asked for in the build | asked for in `Compute` | yours | yours |
# | errors | a number; in Python an exception | a status with a sentence | an exception | a number |
#
# For many operators the row of the shapes decides. An expression is made from the inputs' sizes by addition, subtraction,
# multiplication, division, minimum and maximum and a few more: `n * k`, for example, for k points near each of n points.
# The number of voxels that a cloud fills depends on values. It needs one more output, which holds the size, with a
# typical value and an upper bound (`size_tensor`).
#
# ### A plugin in Python
#
# In Python a plugin can also be two functions with decorators. `register` describes the outputs, `impl` computes
# them; TensorRT makes the object with its three parts from these two. The package calls this interface experimental. For MyAdd:

# %%
PLUGIN = """\
import tensorrt.plugin as trtp
import torch


def weighted_sum(a, b, alpha, beta, y):
    y[...] = alpha * a + beta * b


@trtp.register("oplab::MyAdd")
def describe(
    a: trtp.TensorDesc, b: trtp.TensorDesc, alpha: float, beta: float
) -> trtp.TensorDesc:
    return a.like()


@trtp.impl("oplab::MyAdd")
def compute(
    a: trtp.Tensor, b: trtp.Tensor, alpha: float, beta: float,
    outputs: tuple[trtp.Tensor], stream: int,
) -> None:
    with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
        on_gpu = [torch.as_tensor(each, device="cuda") for each in (a, b, outputs[0])]
        weighted_sum(*on_gpu[:2], alpha, beta, on_gpu[2])
"""

# %% [markdown]
# `stream` is why `compute` has a `with`. TensorRT has put the kernels that compute `a` and `b` on this stream. Work on
# another stream would not wait for them, and could read old numbers, without an exception.
#
# The decorators read the two signatures and refuse what does not follow their rules. This function knows the most
# important ones. It parses the source and does not import it:

# %%
import ast


def signature_problems(source):
    """What TensorRT would refuse in the functions `register` and `impl` of a plugin."""
    problems = []
    functions = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            functions[node.decorator_list[0].func.attr] = node.args
    kinds = {}
    for argument in functions["register"].args:
        kind = ast.unparse(argument.annotation) if argument.annotation else None
        is_tensor = kind is not None and kind.endswith("TensorDesc")
        if kind is None:
            problems.append(f"register: {argument.arg} has no annotation")
        elif is_tensor and not all(each.endswith("TensorDesc") for each in kinds.values()):
            problems.append(f"register: the tensor {argument.arg} comes after an attribute")
        elif not is_tensor and kind not in ("int", "float", "str", "bool", "bytes"):
            problems.append(f"register: {argument.arg} is a {kind}")
        kinds[argument.arg] = kind or "TensorDesc"
    if functions["register"].defaults:
        problems.append("register: an attribute has a default")
    given = [argument.arg for argument in functions["impl"].args]
    used = [n for n, kind in kinds.items() if kind.endswith("TensorDesc") or n in given]
    if given not in ([*used, "outputs", "stream"], [*used, "outputs", "stream", "tactic"]):
        problems.append(f"impl: the parameters are {', '.join(given)}")
    return problems or ["nothing to refuse"]


mistakes = {
    "as above": ("", ""),
    "a default": ("beta: float\n", "beta: float = 2.0\n"),
    "a list": ("alpha: float, beta: float\n", "alpha: list[float], beta: float\n"),
    "no stream": (", stream: int,", ","),
}
for name, (old, new) in mistakes.items():
    assert old in PLUGIN
    print(f"{name:10}", *signature_problems(PLUGIN.replace(old, new)))

# %% [markdown]
# The decorators of version 11.4 gave the same four answers, with sentences such as "Default values are not supported yet".
# They are Python, and for this test their native library was replaced by an empty one. (They also allow a NumPy array with
# one dimension as an attribute, which our function does not know.)
#
# The arithmetic is one line that knows nothing of a GPU: NumPy understands it, too. So take it out of the source and compare
# it with ONNX Runtime's kernel:

# %%
arithmetic = ast.parse(PLUGIN)
arithmetic.body = [n for n in arithmetic.body if getattr(n, "name", "") == "weighted_sum"]
scope = {}
exec(compile(arithmetic, "plugin", "exec"), scope)

two = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 18, "oplab": 1]>
    two (float[n] a, float[n] b) => (float[n] c, float[n] d) {
        c = oplab.MyAdd <alpha: float = 0.5, beta: float = -7.0> (a, b)
        d = oplab.MyAdd (a, b)
    }""")
values = {"a": np.linspace(-9, 9, 1000, dtype=F), "b": np.linspace(2, 5, 1000, dtype=F)}
expected = session(two).run(None, values)
c = np.empty(1000, F)
scope["weighted_sum"](values["a"], values["b"], 0.5, -7.0, c)
print("the same numbers:", np.array_equal(c, expected[0]))

# %% [markdown]
# ### The model for it
#
# An attribute has no default in `register`, and the second node of this model has no attributes: in ONNX Runtime alpha is
# 3 and beta is 2 then. TensorRT's creator gets the attributes that the node has. So a file for both engines **has every
# attribute**, and the namespace under which the plugin is registered:

# %%
DEFAULTS = {"alpha": 3.0, "beta": 2.0}


def for_tensorrt(model):
    """The model with all attributes in each MyAdd node, and where its plugin is registered."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for node in made.graph.node:
        if (node.domain, node.op_type) == ("oplab", "MyAdd"):
            present = {attribute.name for attribute in node.attribute}
            wanted = DEFAULTS | {"plugin_namespace": "oplab", "plugin_version": "1"}
            for name in sorted(wanted.keys() - present):
                node.attribute.append(onnx.helper.make_attribute(name, wanted[name]))
    return made


both = for_tensorrt(two)
for node in both.graph.node:
    print(sorted(attribute.name for attribute in node.attribute))
again = session(both).run(None, values)
print("the same numbers:", all(map(np.array_equal, again, expected)))

# %% [markdown]
# ### A plugin in C++
#
# `enqueue` gets addresses in the GPU's memory, and a stream. So does a CUDA kernel of ONNX Runtime. The CUDA code itself
# does not need to know the engine. The course's kernels are divided in this way; `make cuda` compiles them, without a GPU,
# into a library for ONNX Runtime ([docs/operators.md](../docs/operators.md#kernels-for-cuda)). Both engines could fill this
# struct and call this function:

# %%
from oplab import paths

cuda = paths.root() / "csrc" / "cuda"
for file, what in (
    ("one_thread.h", "struct MyAddTask"),
    ("launch.h", "cudaError_t launch_my_add"),
):
    pieces = (cuda / file).read_text().split("\n\n")
    print(next(piece for piece in pieces if what in piece), end="\n\n")

# %% [markdown]
# In ONNX Runtime, `csrc/cuda/my_add.cpp` does so in `Compute`, after the checks of chapter 13. In C++, `enqueue` has only a
# number to return, so the sentences of these checks would go to the log. What can be checked in the build belongs in
# `configurePlugin`.
#
# Run three tests once you have a GPU:
#
# - compare with ONNX Runtime on the CPU, for the smallest, the usual and the largest shape that you told the builder;
# - load the engine file in a second process: it shows whether the fields are complete;
# - run two execution contexts at once, on two streams: work on the wrong stream gives wrong numbers now and then.

# %% [markdown]
# ## Five questions

# %%
lab.quiz()

# %% [markdown]
# ## What to read next
#
# - [docs/parity.md](../docs/parity.md): `oplab parity` compares all of these engines in one table.
# - `csrc/openvino_ops/operators.cpp`: three operators for OpenVINO, each a thin class.
#
# Previous: [17: Shipping](17_shipping.ipynb)
# · Next: [19: Operators of today's models](19_todays_models.ipynb)
# · [Glossary](../docs/glossary.md)
