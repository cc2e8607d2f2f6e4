"""oplab.checks.schedules: a kernel's pieces in an order of ours, in ONNX Runtime's C library."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from oplab import ops
from oplab.checks import schedules
from oplab.toolchain import build

SIZE = 5 * 4096  # five pieces of VarSum's


@pytest.fixture(scope="module")
def var_sum() -> bytes:
    build.build_all(say=lambda line: None)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("a", "b", "y")]
    graph = helper.make_graph([helper.make_node("VarSum", ["a", "b"], ["y"], domain="oplab")], "g", ends[:2], ends[2:])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("oplab", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


@pytest.fixture(scope="module")
def scheduled(var_sum, tmp_path_factory):
    return schedules.ScheduledSession(var_sum, ops.ort_library(), tmp_path_factory.mktemp("scheduled"))


def feed(size: int) -> dict[str, np.ndarray]:
    a, b = np.random.default_rng(1).normal(size=(2, size)).astype(np.float32)
    return {"a": a, "b": b}


@pytest.mark.parametrize("label", schedules.ORDERS)
def test_the_pieces_run_in_our_order(scheduled, label):
    seen = []

    def order(total):
        seen.extend(schedules.ORDERS[label](total))
        return seen

    given = feed(SIZE)
    got = scheduled.run(given, {"y": ((SIZE,), "float32")}, order)["y"]
    assert sorted(seen) == list(range(5)) and scheduled.pieces == [5]
    np.testing.assert_array_equal(got, given["a"] + given["b"])


def test_a_piece_that_is_not_called_is_missing(scheduled):
    """It is our order that counts, and nobody else calls the rest: NaN is what an output holds before the run."""
    got = scheduled.run(feed(SIZE), {"y": ((SIZE,), "float32")}, lambda total: [2])["y"]
    assert np.flatnonzero(~np.isnan(got)).tolist() == list(range(2 * 4096, 3 * 4096))


def test_a_refusal_is_a_sentence(scheduled):
    given = {"a": np.ones(3, np.float32), "b": np.ones(4, np.float32)}
    with pytest.raises(RuntimeError, match="VarSum: all inputs must have the same shape"):
        scheduled.run(given, {"y": ((3,), "float32")}, range)


def test_sessions_of_one_library_do_not_share_its_copy(var_sum, tmp_path):
    """The copy of the first session is mapped: written over, it would crash that session or lose what it had stored."""
    sessions = [schedules.ScheduledSession(var_sum, ops.ort_library(), tmp_path) for _ in range(3)]
    assert len(list(tmp_path.iterdir())) == 3
    given = feed(SIZE)
    for each in sessions:
        got = each.run(given, {"y": ((SIZE,), "float32")}, range)["y"]
        np.testing.assert_array_equal(got, given["a"] + given["b"])


SHARED = """\
#include <atomic>
#include <cstring>
#include <mutex>

#include "oplab_kernel.h"

using namespace oplab;

std::vector<float> everyones(4);

// y = x, by rows of four elements; the attribute `how` says what the rows do with memory on the way.
struct Planted {
  Planted(const OrtApi*, const OrtKernelInfo* info) : how(int_attribute(info, "how")) {}

  Ort::Status Compute(OrtKernelContext* context, const Tensor<float>& x, Tensor<float>& y) {
    const int64_t rows = x.NumberOfElement() / 4;
    const float* from = x.Data();
    float* to = y.Allocate(x.Shape());
    std::vector<float> captured(4);
    std::vector<char> done(rows);  // neighbours in one word of memory
    std::mutex mutex;
    std::atomic<int> count{0};
    std::atomic_flag spin = ATOMIC_FLAG_INIT;
    int locked = 0;
    const size_t bytes = 4 * sizeof(float) * (rows > 0);  // not a constant: a call, not instructions
    parallel_for(context, rows, 2, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const float* in = from + 4 * row;
        float* out = to + 4 * row;
        done[row] = 1;
        switch (how) {
          case 1:
            for (int i = 0; i < 4; ++i) captured[i] = in[i];
            for (int i = 0; i < 4; ++i) out[i] = captured[i];
            break;
          case 3:
            std::memcpy(everyones.data(), in, bytes);
            std::memcpy(out, everyones.data(), bytes);
            break;
          case 5:
            for (int i = 0; i < 4; ++i) out[i] = in[i];
            if (row + 1 < rows) out[4] = in[4];  // the first element of the next row, with the right value
            break;
          case 6:
            for (int i = 0; i < 4; ++i) out[i] = in[i];
            if (row > 0 && out[-1] == 1e30f) out[0] = 0;  // reads the row above
            break;
          case 7:
            for (int i = 0; i < 4; ++i) out[i] = in[i];
            locked += 1;  // in front of the lock
            { const std::lock_guard<std::mutex> lock(mutex); }
            break;
          case 20: {
            thread_local std::vector<float> own(4);
            for (int i = 0; i < 4; ++i) own[i] = in[i];
            for (int i = 0; i < 4; ++i) out[i] = own[i];
            break;
          }
          case 21: {
            const std::vector<float> fresh(in, in + 4);  // freed: the next one may get the same block
            for (int i = 0; i < 4; ++i) out[i] = fresh[i];
            break;
          }
          case 22: {
            const std::lock_guard<std::mutex> lock(mutex);
            for (int i = 0; i < 4; ++i) captured[i] = in[i];
            for (int i = 0; i < 4; ++i) out[i] = captured[i];
            ++locked;
            break;
          }
          case 23:
            while (spin.test_and_set()) {
            }
            for (int i = 0; i < 4; ++i) captured[i] = in[i], out[i] = captured[i];
            spin.clear();
            ++count;
            break;
          case 24: {
            static const std::vector<float> factors(4, 1.0f);  // made by the first row, read by all
            for (int i = 0; i < 4; ++i) out[i] = in[i] * factors[i];
            break;
          }
          default: {
            float local[4];
            for (int i = 0; i < 4; ++i) local[i] = in[i];
            for (int i = 0; i < 4; ++i) out[i] = local[i];
          }
        }
      }
    });
    return Ort::Status{nullptr};
  }

  const int64_t how;
};

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  return add_domain(options, base, [] {
    static const Op<Planted> op{"Planted"};
    Ort::CustomOpDomain made{"test"};
    made.Add(&op);
    return made;
  });
}
"""


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    folder = tmp_path_factory.mktemp("watched")
    (folder / "planted.cpp").write_text(SHARED)
    library = build.compile_library(folder / "planted.cpp", "ort", sanitize="pieces", cache=folder)

    def watch(how: int, share: str) -> schedules.Conflict | None:
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy"]
        node = helper.make_node("Planted", ["x"], ["y"], domain="test", how=how)
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("test", 1)]
        graph = helper.make_graph([node], "g", ends[:1], ends[1:])
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
        (scratch := folder / f"{how}-{share}").mkdir()
        session = schedules.WatchedSession(model, library, scratch)
        x = np.arange(80, dtype=np.float32)
        made = {"y": (x.shape, "float32")}
        found = {session.watch({"x": x}, made, schedules.SHARES[share])}  # static variables are made now
        found |= {session.watch({"x": x}, made, schedules.SHARES[share]) for _ in range(4)}
        assert len(found) == 1
        np.testing.assert_array_equal(session.run({"x": x}, made, range)["y"], x)  # in order, each is right
        return found.pop()

    return watch


class TestSharedMemory:
    """What no order shows. The same answer in each run, on any number of cores: the threads take turns."""

    @pytest.mark.parametrize("share", schedules.SHARES)
    @pytest.mark.parametrize(
        ("how", "where"),
        [
            pytest.param(1, "", id="a buffer of Compute"),
            pytest.param(3, "", id="a global, by memcpy"),
            pytest.param(5, "y", id="an element of the next row"),
            pytest.param(6, "y", id="a look at the row above"),
            pytest.param(7, "", id="before the lock"),
        ],
    )
    def test_is_found(self, watched, how: int, where: str, share: str):
        found = watched(how, share)
        assert found is not None and any(found.writes) and found.where == where
        first, second = found.pieces
        assert schedules.SHARES[share](first, 10) != schedules.SHARES[share](second, 10)

    @pytest.mark.parametrize("share", schedules.SHARES)
    @pytest.mark.parametrize(
        "how",
        [
            pytest.param(0, id="the stack"),
            pytest.param(20, id="thread_local"),
            pytest.param(21, id="memory that is freed"),
            pytest.param(22, id="behind a lock"),
            pytest.param(23, id="behind an atomic flag"),
            pytest.param(24, id="a static variable that is read"),
        ],
    )
    def test_nothing_is_found(self, watched, how: int, share: str):
        assert watched(how, share) is None
