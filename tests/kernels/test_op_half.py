"""Kernels of float16, bfloat16 and 8-bit integers: they compute in float32, and round each result once."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from functools import partial

import numpy as np
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from run_tests import CROSS

from oplab import ops
from oplab.toolchain import build
from tests.support import ROOT, knn, resize
from tests.support.halves import BFLOAT16, FLOAT16, WHOLE, in_ort
from tests.support.models import evaluate, info, one_node

HALVES = pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16], ids=lambda dtype: dtype.name)
LEAST = {FLOAT16: 2.0**-24, BFLOAT16: 2.0**-133}  # of their numbers above 0
DIGITS = {FLOAT16: 2.0**-11, BFLOAT16: 2.0**-8}  # half a unit in the last place, of a number between 1 and 2
# Every set of instructions that the library has: 1 if this processor lacks it.
CONVERSIONS = """\
#include "CSRC/common/half.h"
using namespace oplab;
extern "C" int set_count() { return static_cast<int>(sizeof(kSimdSets) / sizeof(kSimdSets[0])); }
template <Half format>
int both(int set, const uint16_t* given, const float* wide_given, int64_t count, float* widened, uint16_t* narrowed) {
  const Simd simd = kSimdSets[set].simd;
  if (!runs_here(simd)) return 1;
  widen<format>(simd, given, count, widened);
  narrow<format>(simd, wide_given, count, narrowed);
  return 0;
}
extern "C" int float16(int set, const uint16_t* a, const float* b, int64_t n, float* c, uint16_t* d) {
  return both<Half::float16>(set, a, b, n, c, d);
}
extern "C" int bfloat16(int set, const uint16_t* a, const float* b, int64_t n, float* c, uint16_t* d) {
  return both<Half::bfloat16>(set, a, b, n, c, d);
}
"""

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("compiled")]


def noise(*shape: int, seed: int = 0, dtype=np.float32) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def expect_rounded_once(got: np.ndarray, exact: np.ndarray, rounding: float = 0.51) -> None:
    """Each number is at most ``rounding`` units in the last place from the exact one: 0.5, and what float32 is away from it.

    A result that was rounded twice, or computed in the half type, is up to 1 unit away and more.
    """
    unit = np.maximum(np.abs(exact) * 2 * DIGITS[got.dtype], LEAST[got.dtype])
    away = np.abs(got.astype(np.float64) - exact) / unit
    assert away.max(initial=0) <= rounding, f"{away.max()} units in the last place"


@pytest.fixture(scope="module")
def conversions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("half")
    source = folder / "conversions.cpp"
    source.write_text(CONVERSIONS.replace("CSRC", str(ROOT / "csrc")))
    return ctypes.CDLL(str(build.compile_library(source, "cpp", cache=folder / "cache")))


@HALVES
def test_conversions(conversions, dtype):
    """Every number of the type, and the rounding of others, as NumPy does it; the same bits with every set, also of NaN."""
    every = np.arange(2**16, dtype=np.uint16)
    wide = every.view(dtype).astype(np.float32)
    # Around the borders between two numbers of the type, and any bits at all.
    near = [wide.view(np.uint32) + np.uint32(step) for step in (0, 1, 0x0FFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001)]
    any_bits = np.random.default_rng(0).integers(0, 2**32, 1_000_003, dtype=np.uint64).astype(np.uint32)
    given = np.concatenate([*near, any_bits]).view(np.float32)
    is_nan = np.isnan(given)
    with np.errstate(all="ignore"):
        expected = given.astype(dtype).view(np.uint16)
    made = set()
    for number in range(conversions.set_count()):
        widened, narrowed = np.empty(given.size, np.float32), np.empty(given.size, np.uint16)
        arrays = (np.resize(every, given.size), given, widened, narrowed)
        a, b, c, d = (each.ctypes.data_as(ctypes.c_void_p) for each in arrays)
        if getattr(conversions, dtype.name)(number, a, b, ctypes.c_int64(given.size), c, d):
            continue
        np.testing.assert_array_equal(widened[: 2**16], wide)
        np.testing.assert_array_equal(narrowed[~is_nan], expected[~is_nan])
        assert np.isnan(narrowed[is_nan].view(dtype).astype(np.float32)).all()
        made.add((widened.tobytes(), narrowed.tobytes()))
    assert len(made) == 1


# Prints, for each set of instructions that runs here, a number made of the bits of all results.
CHECKSUM = """\
#include <cstdio>
#include <vector>
#include "CSRC/common/half.h"
using namespace oplab;

template <typename T>
uint64_t hash(const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  uint64_t sum = 14695981039346656037u;
  for (size_t i = 0; i < values.size() * sizeof(T); ++i) sum = (sum ^ bytes[i]) * 1099511628211u;
  return sum;
}

template <Half format>
void print(Simd simd) {
  std::vector<uint16_t> every(1 << 16), narrowed(1 << 20);
  std::vector<float> widened(1 << 16), given(1 << 20);
  for (size_t i = 0; i < every.size(); ++i) every[i] = static_cast<uint16_t>(i);
  uint32_t bits = 1;
  for (float& value : given) {
    bits = bits * 1664525u + 1013904223u;
    value = half::float_of(bits);
  }
  widen<format>(simd, every.data(), 1 << 16, widened.data());
  narrow<format>(simd, given.data(), 1 << 20, narrowed.data());
  std::printf("%016llx %016llx ", (unsigned long long)hash(widened), (unsigned long long)hash(narrowed));
}

int main() {
  for (const SimdSet& set : kSimdSets) {
    if (!runs_here(set.simd)) continue;
    print<Half::float16>(set.simd);
    print<Half::bfloat16>(set.simd);
    std::printf("\\n");
  }
}
"""


def test_conversions_on_aarch64(tmp_path):
    """The same bits there, with NEON and without."""
    source = tmp_path / "checksum.cpp"
    source.write_text(CHECKSUM.replace("CSRC", str(ROOT / "csrc")))
    found = set()
    for compiler, start in (("g++", []), ("aarch64-linux-gnu-g++", ["qemu-aarch64"])):
        if not all(map(shutil.which, (compiler, *start))):
            pytest.skip(f"there is no AArch64 here: sudo apt-get install {' '.join(CROSS)}")
        made = tmp_path / compiler
        subprocess.run([compiler, "-std=c++17", "-O2", "-static", source, "-o", made], check=True, timeout=300)
        lines = subprocess.run(
            [*start, made], capture_output=True, text=True, check=True, timeout=300
        ).stdout.splitlines()
        assert len(lines) >= 2
        found |= set(lines)
    assert len(found) == 1


@HALVES
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 4), (1023,), (1025,), (70_001,)])
def test_my_add(dtype, shape):
    feed = {"a": noise(*shape, dtype=dtype), "b": noise(*shape, seed=1, dtype=dtype)}
    (y,) = in_ort("MyAdd", feed, alpha=0.3, beta=-1.7)
    (expected,) = evaluate(one_node("MyAdd", feed, alpha=0.3, beta=-1.7), feed)
    assert y.shape == shape
    np.testing.assert_array_equal(y, expected)


def test_my_add_beyond_the_largest_number():
    feed = {name: np.array([60_000, -60_000, np.nan], FLOAT16) for name in "ab"}
    np.testing.assert_array_equal(in_ort("MyAdd", feed)[0], np.array([np.inf, -np.inf, np.nan], FLOAT16))
    half = in_ort("MyAdd", feed, alpha=1.0, beta=-0.5)[0]  # 60000 times 1 and 30000 are in between: float32 has them
    np.testing.assert_array_equal(half, np.array([30_000, -30_000, np.nan], FLOAT16))


@HALVES
@pytest.mark.parametrize("kind", knn.CLOUDS)
@pytest.mark.filterwarnings(
    "ignore:overflow encountered in cast"
)  # the distances between some points are too large for float16
def test_knn_query(dtype, kind):
    xyz, offset = knn.cloud(kind, 300, np.float32)
    new_xyz, new_offset = knn.cloud(kind, 40, np.float32, seed=1)
    largest = np.float32(65_504 if dtype == FLOAT16 else 3e18)  # a square of more is infinity in float32
    xyz, new_xyz = np.clip(xyz, -largest, largest), np.clip(new_xyz, -largest, largest)
    feed = {"xyz": xyz.astype(dtype), "offset": offset, "new_xyz": new_xyz.astype(dtype), "new_offset": new_offset}
    for given in (feed, {name: feed[name] for name in ("xyz", "offset")}):
        idx, dist = in_ort("KNNQuery", given, ("idx", "dist"), nsample=7)
        model = one_node("KNNQuery", given, outputs=("idx", "dist"), nsample=7)
        expected_idx, expected_dist = evaluate(model, given)
        np.testing.assert_array_equal(idx, expected_idx)
        np.testing.assert_array_equal(dist, expected_dist)


@HALVES
@pytest.mark.parametrize("name", [name for name, sizes in resize.SIZES.items() if max(sizes) < 100])
def test_dynamic_resize(dtype, name):
    feed = resize.images(*resize.SIZES[name], np.float32)
    feed["x"] = feed["x"].astype(dtype)
    (y,) = in_ort("DynamicResize", feed)
    exact = resize.reference(feed["x"].astype(np.float64), feed["scales"])
    assert y.shape == exact.shape
    # The sum of the sixteen products is rounded in float32, and their weights are as large as the pixels.
    np.testing.assert_allclose(
        y.astype(np.float64),
        exact,
        rtol=1.02 * DIGITS[dtype],
        atol=2e-6 * np.abs(feed["x"].astype(np.float32)).max(initial=1),
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.int8], ids=lambda dtype: dtype.__name__)
def test_dynamic_resize_of_bytes(dtype):
    """A photo in 8 bits: rounded to the nearest, and clipped where a cubic overshoots."""
    limits = np.iinfo(dtype)
    x = np.random.default_rng(3).integers(limits.min, limits.max + 1, (2, 3, 9, 13)).astype(dtype)
    x[0, 0, :, 6:] = limits.max
    x[0, 0, :, :6] = limits.min
    feed = {"x": x, "scales": np.array([1, 1, 2.3, 1.7], np.float32)}
    (y,) = ops.session(one_node("DynamicResize", feed)).run(None, feed)
    exact = resize.reference(x.astype(np.float64), feed["scales"])
    assert y.dtype == dtype and y.shape == exact.shape
    assert (exact > limits.max).any() and (exact < limits.min).any()
    away = np.abs(y.astype(np.float64) - np.clip(exact, limits.min, limits.max))
    assert away.max() <= 0.5 + 1e-3


class TestRMSNorm:
    @pytest.mark.parametrize("shape", [(1,), (3, 5), (0, 4), (2, 0), (2, 3, 64), (7, 65), (5, 1000), (3, 40_001)])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda dtype: dtype.__name__)
    def test_floats(self, dtype, shape):
        feed = {"x": noise(*shape, dtype=dtype) * 9, "weight": noise(shape[-1], seed=1, dtype=dtype)}
        (y,) = ops.session(one_node("RMSNorm", feed, epsilon=1e-3)).run(None, feed)
        exact = self.exact(**feed, epsilon=1e-3)
        assert y.dtype == dtype and y.shape == shape
        np.testing.assert_allclose(y, exact, rtol=2e-6 if dtype == np.float32 else 1e-14)

    @HALVES
    @pytest.mark.parametrize("shape", [(1,), (3, 5), (0, 4), (2, 3, 64), (7, 65), (5, 1000), (3, 40_001)])
    def test_rounded_once(self, dtype, shape):
        feed = {"x": (noise(*shape) * 9).astype(dtype), "weight": noise(shape[-1], seed=1, dtype=dtype)}
        (y,) = in_ort("RMSNorm", feed, epsilon=1e-3)
        expect_rounded_once(y, self.exact(**feed, epsilon=1e-3))

    @staticmethod
    def exact(x: np.ndarray, weight: np.ndarray, epsilon: float) -> np.ndarray:
        x, weight = x.astype(np.float64), weight.astype(np.float64)
        square = np.mean(x * x, axis=-1, keepdims=True) if x.size else np.ones((*x.shape[:-1], 1))
        return x / np.sqrt(square + np.float32(epsilon)) * weight

    @HALVES
    def test_nan_stays_in_its_row(self, dtype):
        x = noise(4, 70, dtype=dtype)
        x[1, 3], x[2, 69] = np.nan, np.inf
        (y,) = in_ort("RMSNorm", {"x": x, "weight": np.ones(70, dtype)})
        assert np.isnan(y[1].astype(np.float32)).all() and np.isfinite(y[[0, 3]].astype(np.float32)).all()
        assert np.isnan(y[2, 69].astype(np.float32)) and not y[2, :69].astype(np.float32).any()

    @HALVES
    def test_results_larger_than_the_caches(self, dtype):
        """Non-temporal stores; rows whose length is no multiple of a register, on several threads: the same bits."""
        feed = {"x": noise(2101, 4099, dtype=dtype), "weight": noise(4099, seed=1, dtype=dtype)}
        assert feed["x"].nbytes > 16 << 20
        one, two = (in_ort("RMSNorm", feed, session=partial(WHOLE, threads=threads))[0] for threads in (1, 2))
        assert one.tobytes() == two.tobytes()
        expect_rounded_once(one[::300], self.exact(feed["x"][::300], feed["weight"], 1e-5))

    @pytest.mark.parametrize(
        ("x", "weight", "words"),
        [
            ((), (1,), "at least one axis"),
            ((3, 4), (3,), r"x is \[3, 4\] and weight is \[3\]"),
            ((3, 4), (1, 4), r"weight is \[1, 4\]"),
            ((3, 4), (), r"weight is \[\]"),
        ],
    )
    def test_shapes(self, x, weight, words):
        feed = {"x": noise(*x), "weight": noise(*weight)}
        with pytest.raises(InvalidArgument, match=f"RMSNorm: .*{words}"):
            ops.session(one_node("RMSNorm", feed)).run(None, feed)

    @pytest.mark.parametrize("epsilon", [-1e-6, float("nan")])
    def test_epsilon(self, epsilon):
        feed = {"x": noise(2, 3), "weight": noise(3)}
        with pytest.raises(Exception, match="RMSNorm: epsilon must be 0 or more"):
            ops.session(one_node("RMSNorm", feed, epsilon=epsilon))

    def test_the_shape_is_inferred(self):
        feed = {"x": noise(2, 3), "weight": noise(3)}
        model = one_node("RMSNorm", feed)
        model.graph.input[0].CopyFrom(info("x", np.float32, ["rows", 3]))
        assert ops.session(model).get_outputs()[0].shape == ["rows", 3]
