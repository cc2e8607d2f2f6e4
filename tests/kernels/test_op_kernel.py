"""What csrc/ort_ops/oplab_kernel.h gives every kernel: optional inputs, several outputs, errors, shapes, versions.

A library made for this test uses what the course's own kernels do not use yet.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from oplab import ops
from oplab.toolchain import build
from tests.support.dtypes import DTYPES
from tests.support.models import sizes

LIBRARY = """\
#include "oplab_kernel.h"

using namespace oplab;

// Inputs and outputs of different types; says which inputs it was given, and how long they are.
template <typename T>
struct Mixed {
  Mixed(const OrtApi*, const OrtKernelInfo* info) : nsample(int_attribute(info, "nsample")) {}

  Ort::Status Compute(const Tensor<T>& xyz, const Tensor<int64_t>& offset, std::optional<const Tensor<T>*> new_xyz,
                      std::optional<const Tensor<int64_t>*> new_offset, Tensor<int32_t>& idx, OrtKernelContext*,
                      Tensor<T>& dist) {
    int32_t* i = idx.Allocate({4});
    i[0] = static_cast<int32_t>(xyz.NumberOfElement());
    i[1] = static_cast<int32_t>(offset.NumberOfElement());
    i[2] = new_xyz ? static_cast<int32_t>((*new_xyz)->NumberOfElement()) : -1;
    i[3] = new_offset ? static_cast<int32_t>((*new_offset)->NumberOfElement()) : -1;
    T* d = dist.Allocate({2});
    d[0] = new_xyz ? (*new_xyz)->Data()[0] : T(nsample);
    d[1] = new_offset ? T((*new_offset)->Data()[0]) : T(0.5);
    return Ort::Status{nullptr};
  }

  static void InferShapes(Shapes& shapes) {
    const bool given = shapes.input_count() > 2 && shapes.type(2) != ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    const Shapes::Dims points = shapes.dims(given ? 2 : 0);
    if (points.empty()) return;
    shapes.set(0, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, {points[0], {7, ""}});
    shapes.set(1, shapes.type(0), {points[0], {7, ""}});
  }

  const int64_t nsample;
};

// Fails as its attribute says.
struct Failing {
  Failing(const OrtApi*, const OrtKernelInfo* info) : how(int_attribute(info, "how", 0)) {
    if (how == 10) refuse("how must not be ", how, ".");
    if (how == 11) throw std::runtime_error("not made");
    if (how == 12) throw 12;
  }

  Ort::Status Compute(const Tensor<float>& x, Tensor<float>& y) {
    if (how == 1) return invalid("Failing: one.");
    if (how == 2) refuse("two", 2, '.');
    if (how == 3) throw std::runtime_error("three");
    if (how == 4) throw 4;
    if (how == 5) std::vector<float>().at(5);
    if (how == 6) y.Allocate({-1});
    y.Allocate(x.Shape());
    return Ort::Status{nullptr};
  }

  const int64_t how;
};

// Each element is the number of the piece that it lies in.
struct Pieces {
  Pieces(const OrtApi*, const OrtKernelInfo* info) : piece(int_attribute(info, "piece")) {}

  Ort::Status Compute(OrtKernelContext* context, const Tensor<float>& x, Tensor<int64_t>& y) {
    int64_t* q = y.Allocate(x.Shape());
    parallel_for(context, x.NumberOfElement(), piece, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (x.Data()[i] < 0) refuse("x[", i, "] is negative.");
        q[i] = begin / piece;
      }
    });
    return Ort::Status{nullptr};
  }

  const int64_t piece;
};

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  Ort::InitApi(api);
  static const Op<Mixed<float>> mixed_float{"Mixed"};
  static const Op<Mixed<double>> mixed_double{"Mixed"};
  static const Op<Failing> failing{"Failing", 3};
  static const Op<Pieces> pieces{"Pieces"};
  static const Ort::CustomOpDomain domain = [] {
    Ort::CustomOpDomain made{"test"};
    for (const OrtCustomOp* op : {static_cast<const OrtCustomOp*>(&mixed_float), static_cast<const OrtCustomOp*>(&mixed_double),
                                  static_cast<const OrtCustomOp*>(&failing), static_cast<const OrtCustomOp*>(&pieces)}) {
      made.Add(op);
    }
    return made;
  }();
  return api->AddCustomOpDomain(options, domain);
}
"""

ONNX_TYPES = {np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    build.build_all(say=lambda line: None)
    folder = tmp_path_factory.mktemp("kernel")
    source = folder / "kernel.cpp"
    source.write_text(LIBRARY)
    return build.compile_library(source, "ort", cache=folder)


def make_model(nodes: list, inputs: dict, outputs: dict, constants: dict | None = None, **versions: int):
    """Inputs and outputs by name: a dtype, and a shape or None."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, *info) for name, info in inputs.items()],
        [helper.make_tensor_value_info(name, *info) for name, info in outputs.items()],
        [onnx.numpy_helper.from_array(value, name) for name, value in (constants or {}).items()],
    )
    domains = {"": 20, "oplab": 2, "test": 3, **versions}
    opsets = [helper.make_opsetid(*domain) for domain in domains.items()]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


class TestOptionalInputs:
    """The lite API reads through a null pointer at an input with the name ""."""

    FEED = {
        "xyz": np.zeros((5, 3)),
        "offset": np.array([5], np.int64),
        "new_xyz": np.full((2, 3), 8.0),
        "new_offset": np.array([1, 9], np.int64),
    }

    def mixed(self, inputs, dtype, shapes: dict | None = None):
        kinds = {"xyz": ONNX_TYPES[dtype], "new_xyz": ONNX_TYPES[dtype]}
        node = helper.make_node("Mixed", list(inputs), ["idx", "dist"], domain="test", nsample=7)
        ends = {name: (kinds.get(name, TensorProto.INT64), (shapes or {}).get(name)) for name in inputs if name}
        return make_model([node], ends, {"idx": (TensorProto.INT32, None), "dist": (ONNX_TYPES[dtype], None)})

    @DTYPES
    @pytest.mark.parametrize(
        ("inputs", "idx", "dist"),
        [
            (("xyz", "offset"), [15, 1, -1, -1], [7, 0.5]),
            (("xyz", "offset", "", ""), [15, 1, -1, -1], [7, 0.5]),
            (("xyz", "offset", "new_xyz"), [15, 1, 6, -1], [8, 0.5]),
            (("xyz", "offset", "", "new_offset"), [15, 1, -1, 2], [7, 1]),
            (("xyz", "offset", "new_xyz", "new_offset"), [15, 1, 6, 2], [8, 1]),
        ],
    )
    def test_left_out_at_the_end_or_in_the_middle(self, library: Path, inputs, idx: list, dist: list, dtype):
        session = ops.session(self.mixed(inputs, dtype), libraries=[library])
        feed = {name: self.FEED[name] for name in inputs if name}
        feed = {name: value if value.dtype == np.int64 else value.astype(dtype) for name, value in feed.items()}
        got_idx, got_dist = session.run(None, feed)
        assert got_idx.dtype == np.int32 and got_dist.dtype == dtype
        assert (got_idx.tolist(), got_dist.tolist()) == (idx, dist)

    @pytest.mark.parametrize("inputs", [("xyz",), ("", "offset"), ("xyz", "")])
    def test_a_required_input_cannot_be_left_out(self, library: Path, inputs):
        with pytest.raises(Exception, match="input size|marked single|Node with schema"):
            ops.session(self.mixed(inputs, np.float32), libraries=[library])

    def test_the_types_and_shapes_of_both_outputs(self, library: Path):
        shapes = {"xyz": ["n", 3], "new_xyz": ["m", 3]}
        for inputs, name in (
            (("xyz", "offset"), "n"),
            (("xyz", "offset", "new_xyz", "new_offset"), "m"),
            (("xyz", "offset", "", "new_offset"), "n"),
        ):
            idx, dist = ops.session(self.mixed(inputs, np.float64, shapes), libraries=[library]).get_outputs()
            assert (idx.type, idx.shape) == ("tensor(int32)", [name, 7])
            assert (dist.type, dist.shape) == ("tensor(double)", [name, 7])


class TestFailures:
    def failing(self, how: int, **versions: int):
        node = helper.make_node("Failing", ["x"], ["y"], domain="test", how=how)
        float_of_2 = (TensorProto.FLOAT, [2])
        return make_model([node], {"x": float_of_2}, {"y": (TensorProto.FLOAT, None)}, **versions)

    @pytest.mark.parametrize(
        ("how", "kind", "words"),
        [
            (1, "InvalidArgument", "Failing: one."),
            (2, "InvalidArgument", "Failing: two2."),
            (3, "RuntimeException", "Failing: three"),
            (4, "RuntimeException", "an unknown C++ exception in a kernel of oplab"),
            (5, "RuntimeException", "Failing: vector"),
            (6, "", "Failing: "),
        ],
    )
    def test_in_compute(self, library: Path, how: int, kind: str, words: str):
        session = ops.session(self.failing(how), libraries=[library])
        for _ in range(3):
            with pytest.raises(Exception) as caught:
                session.run(None, {"x": np.zeros(2, np.float32)})
            assert words in str(caught.value) and type(caught.value).__name__ in (kind or type(caught.value).__name__)

    @pytest.mark.parametrize(
        ("how", "words"),
        [(10, "Failing: how must not be 10."), (11, "Failing: not made"), (12, "an unknown C++ exception")],
    )
    def test_when_the_kernel_is_made(self, library: Path, how: int, words: str):
        with pytest.raises(Exception) as caught:
            ops.session(self.failing(how), libraries=[library])
        assert words in str(caught.value)

    def test_before_the_version_from_which_it_exists(self, library: Path):
        with pytest.raises(Exception, match="test:Failing.* is not a registered function/op"):
            ops.session(self.failing(0, test=2), libraries=[library])


PIECES = make_model(
    [helper.make_node("Pieces", ["x"], ["y"], domain="test", piece=10)],
    {"x": (TensorProto.FLOAT, None)},
    {"y": (TensorProto.INT64, None)},
)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_pieces_of_a_loop_do_not_depend_on_the_threads(library: Path, threads: int):
    session = ops.session(PIECES, libraries=[library], threads=threads)
    for size in (0, 1, 9, 10, 11, 20, 101):
        (y,) = session.run(None, {"x": np.zeros(size, np.float32)})
        assert y.tolist() == [i // 10 for i in range(size)]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_an_exception_of_a_piece_becomes_a_status(library: Path, threads: int):
    """On whichever thread it is thrown, in one piece or in all of them; the session lives on."""
    session = ops.session(PIECES, libraries=[library], threads=threads)
    for wrong in (*range(0, 1000, 37), slice(None)):
        x = np.zeros(1000, np.float32)
        x[wrong] = -1
        with pytest.raises(Exception, match=r"Pieces: x\[\d+\] is negative\."):
            session.run(None, {"x": x})
    assert session.run(None, {"x": np.zeros(1000, np.float32)})[0][-1] == 99


class TestShapesOfADimensionWithoutAName:
    """An unknown dimension without a name: ONNX Runtime 1.31 would take -1 for its size, and refuse these models. It gets a name."""

    TAILS = {
        "Add": ([helper.make_node("Add", ["m", "k"], ["y"])], (5, 3)),
        "Expand": ([helper.make_node("Expand", ["m", "five_by_three"], ["y"])], (5, 3)),
        "Gemm": ([helper.make_node("Gemm", ["m", "k"], ["y"], transB=1)], (5, 5)),
        "Concat": ([helper.make_node("Concat", ["m", "k"], ["y"], axis=0)], (10, 3)),
        "Shape": ([helper.make_node("Shape", ["m"], ["s"]), helper.make_node("Expand", ["k", "s"], ["y"])], (5, 3)),
    }

    @pytest.mark.parametrize("shape", [[None, 3], [None, None], None])
    @pytest.mark.parametrize("tail", TAILS)
    def test_an_operator_behind_it(self, tail: str, shape: list | None):
        nodes, expected = self.TAILS[tail]
        nodes = [helper.make_node("MyAdd", ["a", "a"], ["m"], domain="oplab"), *nodes]
        constants = {"k": np.ones((5, 3), np.float32), "five_by_three": np.array([5, 3])}
        model = make_model(nodes, {"a": (TensorProto.FLOAT, shape)}, {"y": (TensorProto.FLOAT, None)}, constants)
        (y,) = ops.session(model).run(None, {"a": np.ones((5, 3), np.float32)})
        assert y.shape == expected

    @pytest.mark.parametrize(
        ("shape", "expected"), [(["n", 3], ["n", 3]), ([2, 3], [2, 3]), ([None, 3], [None, 3]), (None, [])]
    )
    def test_what_is_known(self, shape: list | None, expected: list):
        node, kind = helper.make_node("MyAdd", ["a", "b"], ["y"], domain="oplab"), TensorProto.DOUBLE
        model = make_model([node], {"a": (kind, shape), "b": (kind, shape)}, {"y": (kind, None)})
        (output,) = ops.session(model).get_outputs()
        assert sizes(output) == expected and output.type == "tensor(double)"
