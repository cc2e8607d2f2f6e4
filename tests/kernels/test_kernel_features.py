"""What csrc/ort_ops/oplab_kernel.h offers besides what the course's own kernels use: attributes of every type, tensors of
strings, optional outputs, constant inputs and scratch memory. All of it runs once more with the sanitizers watching.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from oplab import ops
from oplab.toolchain import build
from oplab.toolchain.recipes import Sanitizer
from oplab.toolchain.sanitizer import sanitizer_env
from tests.kernels.test_op_threads import run_driver, write
from tests.support import run_python
from tests.support.models import model_of

pytestmark = pytest.mark.nightly
LIBRARY = """\
#include "oplab_kernel.h"

#include <numeric>

using namespace oplab;

// Joins what it has read; an attribute that is left out has a default, if it has one.
struct Attributes {
  Attributes(const OrtApi*, const OrtKernelInfo* info)
      : floats(floats_attribute(info, "floats", std::vector<float>{0.5f})),
        text(string_attribute(info, "text", "none")),
        texts(strings_attribute(info, "texts", std::vector<std::string>{"no", "texts"})) {
    if (int_attribute(info, "strict", 0)) {
      floats_attribute(info, "needed_floats");
      string_attribute(info, "needed_text");
      strings_attribute(info, "needed_texts");
    }
  }

  Ort::Status Compute(const Tensor<std::string>& x, Tensor<std::string>& y) {
    std::vector<std::string> found{text};
    for (float value : floats) found.push_back(make_string(value));
    for (const std::string& value : texts) found.push_back(value);
    for (const std::string& value : x.Data()) found.push_back(value);
    y.SetStringOutput(found, {static_cast<int64_t>(found.size())});
    return Ort::Status{nullptr};
  }

  const std::vector<float> floats;
  const std::string text;
  const std::vector<std::string> texts;
};

// What it was given, element by element; the second input's strings are views of ONNX Runtime's bytes.
struct Strings {
  Strings(const OrtApi*, const OrtKernelInfo*) {}
  Ort::Status Compute(const Tensor<std::string>& x, std::optional<const Tensor<std::string_view>*> more,
                      Tensor<std::string>& y, Tensor<int64_t>& lengths) {
    std::vector<std::string> out = x.Data();
    if (more) {
      if ((*more)->Shape() != x.Shape()) refuse("the shapes differ.");
      for (size_t i = 0; i < out.size(); ++i) out[i] += (*more)->Data()[i];
    }
    int64_t* length = lengths.Allocate(x.Shape());
    for (size_t i = 0; i < out.size(); ++i) length[i] = static_cast<int64_t>(out[i].size());
    y.SetStringOutput(out, x.Shape());
    return Ort::Status{nullptr};
  }
};

// y = 2x, and up to three results more.
template <typename T>
struct Stats {
  Stats(const OrtApi*, const OrtKernelInfo*) {}
  Ort::Status Compute(const Tensor<T>& x, std::optional<const Tensor<T>*> factor, Tensor<T>& y, std::optional<Tensor<double>*> sum,
                      OrtKernelContext*, std::optional<Tensor<std::string>*> text, std::optional<Tensor<int64_t>*> size) {
    const T by = factor ? *(*factor)->Data() : T(2);
    T* to = y.Allocate(x.Shape());
    for (int64_t i = 0; i < x.NumberOfElement(); ++i) to[i] = by * x.Data()[i];
    if (sum) *(*sum)->Allocate({}) = std::accumulate(to, to + x.NumberOfElement(), 0.0);
    if (text) (*text)->SetStringOutput({"a", "", "c"}, {3});
    if (size) *(*size)->Allocate({1}) = x.NumberOfElement();
    return Ort::Status{nullptr};
  }
  static void InferShapes(Shapes& shapes) {
    shapes.set(0, shapes.type(0), shapes.dims(0));
    shapes.set(1, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, {});
    shapes.set(2, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, {{3, ""}});
    shapes.set(3, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, {{1, ""}});
  }
};

// y = the number of values of x, of each input whether it is a constant, and the sum of the constant ones.
template <typename T>
struct Constants {
  using Optional = std::optional<const Tensor<T>*>;
  Constants(const OrtApi*, const OrtKernelInfo* info) {
    for (size_t i = 0; i < 4; ++i) {
      const std::optional<Constant<T>> value = constant_input<T>(info, i);
      constant[i] = value.has_value();
      if (!value) continue;
      if (value->Shape().size() > 1) refuse("input ", i, " is a constant of shape ", shape_text(value->Shape()), ".");
      sum = std::accumulate(value->Data(), value->Data() + value->NumberOfElement(), sum);
    }
    if (int_attribute(info, "wrong", 0)) constant_input<int8_t>(info, 1);
  }
  Ort::Status Compute(const Tensor<T>& x, Optional, Optional, Tensor<T>& y) {
    T* to = y.Allocate({6});
    to[0] = static_cast<T>(x.NumberOfElement());
    std::copy(constant, constant + 4, to + 1);
    to[5] = sum;
    return Ort::Status{nullptr};
  }
  bool constant[4];
  T sum = 0;
};

// y = x through scratch memory of size values. A negative x is refused while there is some.
struct Scratches {
  Scratches(const OrtApi*, const OrtKernelInfo* info)
      : size(int_attribute(info, "size", -2)), beyond(int_attribute(info, "beyond", 0)) {}
  Ort::Status Compute(OrtKernelContext* context, const Tensor<double>& x, Tensor<double>& y) {
    const int64_t count = x.NumberOfElement();
    Scratch<double> memory(context, size == -2 ? count : size);
    Scratch<char> second(context, 3), none(context, 0);
    if (none.size() != 0 || none.begin() != none.end() || second.end() - second.data() != 3) refuse("sizes");
    std::fill(memory.begin(), memory.end(), 7.0);
    std::fill(second.begin(), second.end(), 'x');
    for (int64_t i = 0; i < count; ++i) {
      if (x.Data()[i] < 0) refuse("x[", i, "] is negative.");
      memory[i] = x.Data()[i];
    }
    if (beyond) memory[count] = 1;
    std::copy(memory.begin(), memory.end(), y.Allocate(x.Shape()));
    return Ort::Status{nullptr};
  }
  const int64_t size, beyond;
};

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  return add_domain(options, base, [] {
    Ort::CustomOpDomain made{"test"};
    add<Attributes>(made, "Attributes");
    add<Strings>(made, "Strings");
    add_for<Stats, float, double>(made, "Stats");
    add_for<Constants, float, int64_t>(made, "Constants");
    add<Scratches>(made, "Scratches");
    return made;
  });
}
"""


def compiled(folder: Path, *, sanitize: bool | Sanitizer = False) -> Path:
    source = folder / "features.cpp"
    source.write_text(LIBRARY)
    return build.compile_library(source, "ort", sanitize=sanitize, cache=folder)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library above, or the one that is compiled with the sanitizers in the process of the last test."""
    given = os.environ.get("OPLAB_FEATURES")
    return Path(given) if given else compiled(tmp_path_factory.mktemp("features"))


def session(
    library: Path, op: str, names: tuple[str, ...], outputs: tuple[str, ...], kinds: dict, constants=(), **attributes
):
    """A session of one node; `kinds` has the NumPy type of each input and output, `constants` the values of initializers."""
    node = helper.make_node(op, list(names), list(outputs), domain="test", **attributes)
    inputs = {name: kinds[name] for name in names if name and name not in dict(constants)}
    model = model_of([node], inputs, {name: kinds[name] for name in outputs if name}, domains=[("test", 1)])
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in dict(constants).items())
    return ops.session(model, libraries=[library])


def texts_tensor(*values: str, dims: list[int] | None = None) -> TensorProto:
    dims = [len(values)] if dims is None else dims
    return helper.make_tensor("texts", TensorProto.STRING, dims, [value.encode() for value in values])


class TestAttributes:
    KINDS = dict.fromkeys("xy", TensorProto.STRING)

    def session(self, library: Path, **attributes):
        return session(library, "Attributes", ("x",), ("y",), self.KINDS, **attributes)

    def read(self, library: Path, **attributes) -> list[str]:
        x = np.array([], object)
        return self.session(library, **attributes).run(None, {"x": x})[0].tolist()

    def test_the_model_s_values(self, library: Path):
        texts = texts_tensor("", "größer", "with a\n new line")
        found = self.read(library, floats=[1.5, -2.0, 1e10], text="mode", texts=texts)
        assert found == ["mode", "1.5", "-2", "1e+10", "", "größer", "with a\n new line"]
        assert self.read(library, text="", texts=texts_tensor()) == ["", "0.5"]
        assert self.read(library) == ["none", "0.5", "no", "texts"]

    @pytest.mark.parametrize(
        ("name", "values", "words"),
        [
            ("floats", [1.5, "text", [1, 2], texts_tensor("a")], "a list of floats"),
            ("text", [1.5, 3, ["a"], texts_tensor("a")], "a string"),
            ("texts", [3, "a", ["a"], helper.make_tensor("", TensorProto.INT64, [1], [1])], "a tensor of strings"),
            ("texts", [texts_tensor("a", dims=[1, 1])], "a tensor of strings with one dimension"),
        ],
    )
    def test_another_type(self, library: Path, name: str, values: list, words: str):
        for value in values:
            with pytest.raises(Exception, match=f"Attributes: the attribute {name} must be {words}"):
                self.session(library, **{name: value})

    def test_one_that_is_missing_and_has_no_default(self, library: Path):
        given = {"needed_floats": [1.5], "needed_text": "a", "needed_texts": texts_tensor("a")}
        self.session(library, strict=1, **given)
        for name in given:
            rest = {each: value for each, value in given.items() if each != name}
            with pytest.raises(Exception, match=f"Attributes: the attribute {name} is missing"):
                self.session(library, strict=1, **rest)


class TestStrings:
    KINDS = {"x": TensorProto.STRING, "more": TensorProto.STRING, "y": TensorProto.STRING, "lengths": np.int64}

    @pytest.mark.parametrize("shape", [(6,), (2, 3), (), (2, 0)])
    @pytest.mark.parametrize("more", [True, False])
    def test_any_shape_and_any_text(self, library: Path, shape: tuple, more: bool):
        words = np.array(["", "größer", "日本", "a b\n", "x" * 5000, "end"], object)
        x = np.resize(words, shape) if 0 not in shape else np.empty(shape, object)
        names = ("x", "more") if more else ("x", "")
        feed = {name: x for name in names if name}
        y, lengths = session(library, "Strings", names, ("y", "lengths"), self.KINDS).run(None, feed)
        expected = np.array([text * (1 + more) for text in x.flat], object).reshape(shape)
        assert y.shape == shape and y.tolist() == expected.tolist()
        assert lengths.ravel().tolist() == [len(text.encode()) for text in expected.flat]

    def test_a_byte_that_is_0(self, library: Path):
        """A view keeps what comes after it."""
        both = session(library, "Strings", ("x", "more"), ("y", "lengths"), self.KINDS)
        _, lengths = both.run(None, {"x": np.array([""], object), "more": np.array(["a\0bc"], object)})
        assert lengths.tolist() == [4]


class TestOptionalOutputs:
    KINDS = {"sum": np.float64, "text": TensorProto.STRING, "size": np.int64}
    VALUES = {"sum": 12, "text": ["a", "", "c"], "size": [3]}
    SHAPES = {"y": ["n"], "sum": [], "text": [3], "size": [1]}

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("outputs", [("y",), ("y", "sum"), ("y", "", "text", ""), ("y", "sum", "text", "size")])
    def test_left_out_at_the_end_or_in_the_middle(self, library: Path, outputs: tuple[str, ...], dtype):
        made = session(library, "Stats", ("x",), outputs, self.KINDS | {"x": dtype, "y": dtype})
        given = [name for name in outputs if name]
        for x in (np.array([1, 2, 3], dtype), np.array([3, 2, 1], dtype)):
            y, *more = made.run(None, {"x": x})
            assert y.dtype == dtype and y.tolist() == (2 * x).tolist()
            assert [each.tolist() for each in more] == [self.VALUES[name] for name in given[1:]]

    def test_what_is_known_before_it_runs(self, library: Path):
        for outputs in (("y", "sum", "text", "size"), ("y", "", "text"), ("y",)):
            node = helper.make_node("Stats", ["x"], list(outputs), domain="test")
            kinds = self.KINDS | {"y": np.float32}
            wanted = {name: kinds[name] for name in outputs if name}
            model = model_of([node], {"x": np.float32}, wanted, {"x": ["n"]}, domains=[("test", 1)])
            for output in ops.session(model, libraries=[library]).get_outputs():
                assert output.shape == self.SHAPES[output.name]

    @pytest.mark.parametrize("outputs", [("", "sum"), ("",)])
    def test_a_required_output_cannot_be_left_out(self, library: Path, outputs):
        with pytest.raises(Exception, match="marked single|output size"):
            session(library, "Stats", ("x",), outputs, self.KINDS | {"x": np.float32})


class TestConstantInputs:
    @pytest.mark.parametrize("dtype", [np.float32, np.int64])
    @pytest.mark.parametrize(
        ("names", "constants", "expected"),
        [
            (("x", "w"), {"w": [5, 6]}, [3, 0, 1, 0, 0, 11]),
            (("x", "w"), {}, [3, 0, 0, 0, 0, 0]),
            (("x", "", "b"), {"b": [4]}, [3, 0, 0, 1, 0, 4]),
            (("x", "w", "b"), {"w": [1, 2], "b": [4]}, [3, 0, 1, 1, 0, 7]),
            (("x", "w", "b"), {"w": []}, [3, 0, 1, 0, 0, 0]),
            (("x",), {"x": [1, 1, 1]}, [3, 1, 0, 0, 0, 3]),
            (("x",), {}, [3, 0, 0, 0, 0, 0]),
        ],
    )
    def test_which_are_constant(self, library: Path, names, constants, expected, dtype):
        constants = {name: np.array(value, dtype) for name, value in constants.items()}
        made = session(library, "Constants", names, ("y",), dict.fromkeys("xwby", dtype), constants)
        feed = {value.name: np.ones(3, dtype) for value in made.get_inputs()}
        assert made.run(None, feed)[0].tolist() == expected

    def test_an_initializer_that_a_caller_may_replace(self, library: Path):
        node = helper.make_node("Constants", ["x", "w"], ["y"], domain="test")
        model = model_of([node], dict.fromkeys("xw", np.float32), {"y": np.float32}, domains=[("test", 1)])
        model.graph.initializer.append(numpy_helper.from_array(np.float32([5]), "w"))
        found = ops.session(model, libraries=[library]).run(None, {"x": np.ones(3, np.float32)})[0]
        assert found.tolist() == [3, 0, 0, 0, 0, 0]

    def test_refusals(self, library: Path):
        kinds = dict.fromkeys("xwy", np.float32)
        with pytest.raises(Exception, match=r"Constants: input 1 is a constant of shape \[1, 2\]\."):
            session(library, "Constants", ("x", "w"), ("y",), kinds, {"w": np.ones((1, 2), np.float32)})
        with pytest.raises(Exception, match="Constants: the constant input 1 has another type than the kernel reads"):
            session(library, "Constants", ("x", "w"), ("y",), kinds, {"w": np.ones(1, np.float32)}, wrong=1)


class TestScratch:
    KINDS = dict.fromkeys("xy", np.float64)

    def session(self, library: Path, **attributes):
        return session(library, "Scratches", ("x",), ("y",), self.KINDS, **attributes)

    @pytest.mark.parametrize("size", [0, 1, 7, 100_000])
    def test_memory_of_a_call(self, library: Path, size: int):
        made, x = self.session(library), np.arange(size, dtype=np.float64)
        for _ in range(3):
            assert np.array_equal(made.run(None, {"x": x})[0], x)

    @pytest.mark.parametrize("size", [-1, 2**60])
    def test_impossible_sizes(self, library: Path, size: int):
        with pytest.raises(Exception, match=f"Scratches: scratch memory for {size} elements was asked for"):
            self.session(library, size=size).run(None, {"x": np.zeros(1)})

    @pytest.mark.skipif("OPLAB_FEATURES" in os.environ, reason="AddressSanitizer ends the process at such a size")
    def test_more_than_there_is(self, library: Path):
        made = self.session(library, size=2**44)
        for _ in range(2):
            with pytest.raises(Exception, match="Scratches: .*[aA]lloc"):
                made.run(None, {"x": np.zeros(1)})

    def test_it_is_freed_when_an_exception_is_thrown(self, library: Path, tmp_path: Path):
        """100 calls of 16 MB each, in an arena of 256 MB."""
        code = """
import sys
import numpy as np
import onnxruntime as ort
memory = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
ort.create_and_register_allocator(memory, ort.OrtArenaCfg(256 << 20, -1, -1, -1))
options = ort.SessionOptions()
options.add_session_config_entry("session.use_env_allocators", "1")
options.register_custom_ops_library(sys.argv[1])
session = ort.InferenceSession(sys.argv[2], options, providers=["CPUExecutionProvider"])
for _ in range(100):
    try:
        session.run(None, {"x": np.array([0.0, -1.0])})
    except Exception as error:
        assert "Scratches: x[1] is negative." in str(error), error
    else:
        raise AssertionError
"""
        node = helper.make_node("Scratches", ["x"], ["y"], domain="test", size=1 << 21)
        model = model_of([node], {"x": np.float64}, {"y": np.float64}, domains=[("test", 1)])
        onnx.save(model, tmp_path / "model.onnx")
        done = run_python(code, str(library), tmp_path / "model.onnx", timeout=120)
        assert done.returncode == 0, done.stderr


class TestUnderTheSanitizers:
    pytestmark = pytest.mark.skipif("OPLAB_FEATURES" in os.environ, reason="runs in their process already")

    def test_all_of_this(self, tmp_path: Path):
        env = sanitizer_env() | {"OPLAB_FEATURES": str(compiled(tmp_path, sanitize=True))}
        code = f"import pytest, sys; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '-p', 'no:randomly', {__file__!r}]))"
        done = run_python(code, env=env, timeout=600)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        assert "failed" not in done.stdout and " passed" in done.stdout

    def test_they_see_scratch_memory(self, tmp_path: Path):
        """Beyond its end is a finding, and not a value in the arena."""
        code = """
import sys
from pathlib import Path
import numpy as np
from tests.kernels import test_kernel_features
made = test_kernel_features.TestScratch().session(Path(sys.argv[1]), beyond=1)
made.run(None, {"x": np.zeros(3)})
"""
        done = run_python(code, str(compiled(tmp_path, sanitize=True)), env=sanitizer_env(), timeout=300)
        assert done.returncode != 0 and "heap-buffer-overflow" in done.stderr

    def test_nothing_leaks_on_eight_threads(self, tmp_path: Path):
        node = helper.make_node("Scratches", ["x"], ["y"], domain="test")
        kinds, shapes = {"x": np.float64}, {"x": [1000], "y": [1000]}
        model = model_of([node], kinds, {"y": np.float64}, shapes, domains=[("test", 1)])
        file = write(tmp_path, "scratches", model, {"x": np.arange(1000.0)})
        status, said = run_driver(compiled(tmp_path, sanitize="address"), "address", [file], 40)
        assert status == 0 and "0 of the runs differ" in said and "ERROR" not in said, said[-3000:]


# The last runtime that reads past its list of outputs when the shape of one that is left out is set.
OLDER = "1.27.0"
RUN_OLDER = """
import sys
import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

node = helper.make_node("Stats", ["x"], ["y", "sum"][: int(sys.argv[2])], domain="test")
ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("test", 1)]
model = helper.make_model(helper.make_graph([node], "g", ports[:1], ports[1:]), opset_imports=opsets, ir_version=8)
options = ort.SessionOptions()
options.register_custom_ops_library(sys.argv[1])
(y,) = ort.InferenceSession(model.SerializeToString(), options).run(None, {"x": np.float32([1, 2])})
print(ort.__version__, y.tolist())
"""


@pytest.mark.skipif("OPLAB_FEATURES" in os.environ, reason="another runtime cannot load this library")
def test_an_absent_output_in_an_older_runtime(library: Path, tmp_path: Path):
    wanted = [f"--target={tmp_path}", "--no-deps", f"onnxruntime=={OLDER}"]
    got = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *wanted], capture_output=True, text=True)
    if "No matching distribution" in got.stderr:
        pytest.skip(f"pip has no onnxruntime {OLDER} here")
    assert got.returncode == 0, got.stderr[-2000:]
    for outputs in ("1", "2"):
        command = [sys.executable, "-c", RUN_OLDER, str(library), outputs]
        env = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout.strip()) == (0, f"{OLDER} [2.0, 4.0]"), done.stderr[-2000:]
