"""``make cuda``: kernels for GPUs. What a machine without a GPU can tell of them, and the numbers where there is one."""

from __future__ import annotations

import ctypes
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import build_cuda
import numpy as np
import onnxruntime
import pytest
from elftools.elf.elffile import ELFFile
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from oplab import ops
from oplab.errors import OplabError
from oplab.toolchain import build
from oplab.toolchain.compiler import find_compiler, run
from tests.support import ROOT, environment, knn
from tests.support.halves import BFLOAT16, FLOAT16, in_ort
from tests.support.models import one_node

NAMES = {np.dtype(np.float32): "float", np.dtype(np.float64): "double", FLOAT16: "float16", BFLOAT16: "bfloat16"}
DTYPES = pytest.mark.parametrize("dtype", NAMES, ids=NAMES.get)
WIDE = pytest.mark.parametrize("dtype", [np.dtype(np.float32), np.dtype(np.float64)], ids=str)

# The threads of a GPU, one after the other.
ONE_BY_ONE = """\
#include <vector>
#include "CSRC/cuda/one_thread.h"
using namespace oplab;
using namespace oplab::gpu;
template <typename T>
void add(const void* a, const void* b, double alpha, double beta, int64_t size, void* y) {
  using Number = Computed<T>;
  const MyAddTask<T> task{static_cast<const T*>(a), static_cast<const T*>(b), static_cast<Number>(alpha),
                          static_cast<Number>(beta), size, static_cast<T*>(y)};
  for (int64_t i = size - 1; i >= 0; --i) my_add_at(task, i);
}
template <typename T>
void neighbours(int64_t nsample, int64_t rows, int64_t batches, const void* points, const int64_t* offset,
                const void* queries, const int64_t* query_offset, int32_t* idx, void* dist) {
  std::vector<knn::Neighbour<Computed<T>>> found(nsample * rows);
  const KnnTask<T> task{nsample, rows, batches, static_cast<const T*>(points), offset, static_cast<const T*>(queries),
                        query_offset, found.data(), idx, static_cast<T*>(dist)};
  for (int64_t row = rows - 1; row >= 0; --row) knn_row(task, row);
}
template <typename T>
int64_t not_finite(const void* numbers, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    if (!is_finite(static_cast<const T*>(numbers)[i])) return i;
  }
  return -1;
}
#define FOR(T, name)                                                                                                  \\
  extern "C" void add_##name(const void* a, const void* b, double c, double d, int64_t e, void* f) {                  \\
    add<T>(a, b, c, d, e, f);                                                                                         \\
  }                                                                                                                   \\
  extern "C" void knn_##name(int64_t a, int64_t b, int64_t c, const void* d, const int64_t* e, const void* f,         \\
                             const int64_t* g, int32_t* h, void* i) {                                                 \\
    neighbours<T>(a, b, c, d, e, f, g, h, i);                                                                         \\
  }                                                                                                                   \\
  extern "C" int64_t not_finite_##name(const void* a, int64_t b) { return not_finite<T>(a, b); }
FOR(float, float)
FOR(double, double)
FOR(HalfBits<Half::float16>, float16)
FOR(HalfBits<Half::bfloat16>, bfloat16)
"""

# The kernels for CUDA and none for the CPU.
CUDA_ALONE = """\
#include "CSRC/ort_ops/oplab_kernel.h"
#include "CSRC/cuda/cuda_kernels.h"
extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain domain{"oplab"};
    oplab::add_my_add_cuda(domain);
    oplab::add_knn_query_cuda(domain);
    return domain;
  });
}
"""

# What ONNX Runtime asks an operator before it calls it.
ASKED = """\
#include "CSRC/cuda/knn_query.cpp"
#include "CSRC/cuda/my_add.cpp"
template <typename Kernel>
std::string answers() {
  const oplab::Op<Kernel> op("name");
  std::string text = op.GetExecutionProviderType(&op);
  for (size_t i = 0; i < op.GetInputTypeCount(&op); ++i) {
    text += op.GetInputMemoryType(&op, i) == OrtMemTypeCPUInput ? " host" : " device";
  }
  return text + "\\n";
}
extern "C" const char* asked() {
  static const std::string text = answers<oplab::KNNQueryInt64<float>>() + answers<oplab::KNNQueryInt32<Ort::Float16_t>>() +
                                  answers<oplab::MyAddCuda<double>>();
  return text.c_str();
}
"""

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("compiled")]


def noise(*shape: int, seed: int = 0, dtype=np.float32) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


def numbers(dtype: np.dtype) -> np.ndarray:
    """Of every kind: zeros of both signs, subnormal ones, infinities and NaN among them."""
    special = [0.0, -0.0, 1e-40, -6e-8, 65504, -65504, 3e38, np.inf, -np.inf, np.nan, 1, -1]
    with np.errstate(over="ignore"):
        return np.concatenate([noise(1000, seed=1), np.array(special)]).astype(dtype)


@pytest.fixture(scope="module")
def one_by_one(tmp_path_factory):
    """What one thread of the GPU computes, compiled for the CPU."""
    folder = tmp_path_factory.mktemp("cuda")
    source = folder / "one_by_one.cpp"
    source.write_text(ONE_BY_ONE.replace("CSRC", str(ROOT / "csrc")))
    return ctypes.CDLL(str(build.compile_library(source, "cpp", cache=folder / "cache")))


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def search(one_by_one, nsample: int, xyz, offset, new_xyz=None, new_offset=None):
    if new_xyz is None:
        new_xyz, new_offset = xyz, offset
    offset, new_offset = (np.asarray(each, np.int64) for each in (offset, new_offset))
    rows = len(new_xyz)
    idx, dist = np.full((rows, nsample), -7, np.int32), np.empty((rows, nsample), xyz.dtype)
    arrays = [pointer(each) for each in (xyz, offset, new_xyz, new_offset, idx, dist)]
    counts = [ctypes.c_int64(each) for each in (nsample, rows, len(offset))]
    getattr(one_by_one, f"knn_{NAMES[xyz.dtype]}")(*counts, *arrays)
    return idx, dist


class TestOneThread:
    """The functions that the GPU's threads run, on the CPU."""

    @DTYPES
    def test_my_add(self, one_by_one, dtype):
        a = numbers(dtype)
        b = np.roll(a, 7)
        y = np.empty_like(a)
        given = (pointer(a), pointer(b), ctypes.c_double(0.5), ctypes.c_double(-7), ctypes.c_int64(a.size), pointer(y))
        getattr(one_by_one, f"add_{NAMES[dtype]}")(*given)
        computed = np.float64 if dtype == np.float64 else np.float32
        with np.errstate(all="ignore"):
            expected = (a.astype(computed) * computed(0.5) + b.astype(computed) * computed(-7)).astype(dtype)
        np.testing.assert_array_equal(y.astype(computed), expected.astype(computed))

    @WIDE
    @pytest.mark.parametrize("kind", knn.CLOUDS)
    @pytest.mark.parametrize("nsample", [1, 5, 70])
    def test_knn_is_the_reference_and_the_cpus_kernel(self, one_by_one, kind, nsample, dtype):
        xyz, offset = knn.cloud(kind, 200, dtype, batches=3)
        nsample = min(nsample, int(np.diff(offset, prepend=0).max()))
        got = search(one_by_one, nsample, xyz, offset)
        for expected in (knn.reference(nsample, xyz, offset), knn.in_ort(nsample, {"xyz": xyz, "offset": offset})):
            for mine, theirs in zip(got, expected, strict=True):
                np.testing.assert_array_equal(mine, theirs)

    @pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16], ids=str)
    def test_knn_of_halves_computes_in_float32(self, one_by_one, dtype):
        xyz = noise(150, 3, dtype=dtype)
        idx, dist = search(one_by_one, 9, xyz, [60, 150])
        expected = knn.reference(9, xyz.astype(np.float32), [60, 150])
        np.testing.assert_array_equal(idx, expected[0])
        np.testing.assert_array_equal(dist.astype(np.float32), expected[1].astype(dtype).astype(np.float32))

    def test_knn_with_queries_and_empty_batches(self, one_by_one):
        xyz, queries = noise(30, 3), noise(9, 3, seed=1)
        for offset, new_offset in (
            ([0, 20, 20, 30], [2, 2, 5, 9]),
            ([30, 30], [0, 9]),
            ([0, 30], [0, 9]),
            ([30], [9]),
        ):
            got = search(one_by_one, 4, xyz, offset, queries, new_offset)
            for mine, theirs in zip(got, knn.reference(4, xyz, offset, queries, new_offset), strict=True):
                np.testing.assert_array_equal(mine, theirs)

    @DTYPES
    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_what_is_not_finite(self, one_by_one, dtype, value):
        found = getattr(one_by_one, f"not_finite_{NAMES[dtype]}")
        found.restype = ctypes.c_int64
        given = np.array([0, -1, 6e4, 1e-7, 1, 1], dtype)
        assert found(pointer(given), ctypes.c_int64(given.size)) == -1
        given[[4, 5]] = value
        assert found(pointer(given), ctypes.c_int64(given.size)) == 4


@pytest.fixture(scope="module")
def library() -> Path:
    """``make cuda``."""
    try:
        build_cuda.check_platform()
    except OplabError as error:
        pytest.skip(error.message)
    try:
        return build_cuda.make(lambda line: print(line))
    except build_cuda.HostCompilerRefused as error:
        pytest.skip(error.message)


def code_in(library: Path) -> set[tuple[str, int]]:
    """The machine code (``sm``) and the portable code (``compute``) in a library, with the GPUs that they are for.

    Each kernel file has a container: a header, and parts, each with its own header that states kind and architecture.
    """
    content = library.read_bytes()
    found = set()
    at = -1
    while (at := content.find(struct.pack("<I", 0xBA55ED50), at + 1)) >= 0:
        _, _, header, size = struct.unpack_from("<IHHQ", content, at)
        part, end = at + header, at + header + size
        while part < end:
            kind, _, header, length, *_, architecture = struct.unpack_from("<HHIQ3II", content, part)
            found.add(({1: "compute", 2: "sm"}[kind], architecture))
            part += header + length
    return found


class TestLibrary:
    def test_what_it_exports_and_needs(self, library):
        with library.open("rb") as file:
            elf = ELFFile(file)
            symbols = list(elf.get_section_by_name(".dynsym").iter_symbols())
            needed = {tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")}
        defined = {symbol.name for symbol in symbols if symbol["st_shndx"] != "SHN_UNDEF" and symbol.name}
        assert "RegisterCustomOps" in defined and defined <= {"RegisterCustomOps", "oplab_entry"}
        # The linker has found every other symbol (-z defs). CUDA's runtime is in the library, and the driver is not needed.
        ours = ("libstdc++", "libm.", "libgcc_s", "libc.", "ld-linux", "libdl.", "libpthread.", "librt.")
        assert not [name for name in needed if not name.startswith(ours)], needed
        undefined = {symbol.name for symbol in symbols if symbol["st_shndx"] == "SHN_UNDEF"}
        assert not [name for name in undefined if name.lower().startswith(("cuda", "__cuda", "cu", "ort"))]

    def test_the_gpus_that_it_has_code_for(self, library):
        expected = {("sm", number) for number in (75, 80, 90, 100, 120)} | {("compute", 120)}
        assert code_in(library) == expected

    def test_the_documentation_installs_this_version_of_onnxruntime(self):
        text = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
        assert f"--target build/onnxruntime-gpu onnxruntime-gpu=={onnxruntime.__version__} " in text

    def test_without_cuda_a_session_has_the_cpus_kernels(self, library):
        """In another process, which a crash would end."""
        code = """if True:
            import sys, numpy as np
            from oplab import ops
            from tests.support.models import one_node
            a = np.arange(3, dtype=np.float32)
            print(ops.session(one_node("MyAdd", {"a": a, "b": a}), libraries=sys.argv[1:]).run(None, {"a": a, "b": a})[0])
            feed = {"xyz": np.eye(3, dtype=np.float32), "offset": np.array([3])}
            model = one_node("KNNQuery", feed, outputs=("idx", "dist"), nsample=1)
            print(ops.session(model, libraries=sys.argv[1:]).run(None, feed)[0].tolist())
        """
        done = subprocess.run(
            [sys.executable, "-c", code, library],
            cwd=ROOT,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert (done.returncode, done.stdout) == (0, "[ 0.  5. 10.]\n[[0], [1], [2]]\n"), done.stderr

    def test_kernels_for_cuda_alone_are_an_error_of_the_session(self, library, tmp_path):
        source = tmp_path / "register.cpp"
        source.write_text(CUDA_ALONE.replace("CSRC", str(ROOT / "csrc")))
        alone = tmp_path / "cuda_alone.so"
        for file in build_cuda.objects().glob("*.o"):
            shutil.copy(file, tmp_path)
        *_, (register, compile_it), (_, link) = build_cuda.commands(find_compiler(), tmp_path, alone)
        assert register.name == source.name
        for command in ([str(source) if word == str(register) else word for word in compile_it], link):
            done = run(command, timeout=600, cwd=tmp_path, limited=False)
            assert done.returncode == 0, done.log
        a = np.ones(2, np.float32)
        code = """if True:
            import sys, onnxruntime
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            options.register_custom_ops_library(sys.argv[1])
            try:
                onnxruntime.InferenceSession(sys.argv[2], options, providers=["CPUExecutionProvider"])
            except Exception as error:
                print(type(error).__name__, error)
        """
        model = tmp_path / "model.onnx"
        model.write_bytes(one_node("MyAdd", {"a": a, "b": a}).SerializeToString())
        done = subprocess.run([sys.executable, "-c", code, alone, model], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert "NOT_IMPLEMENTED : Could not find an implementation for MyAdd(1) node" in done.stdout

    def test_where_inputs_are(self, library, tmp_path):
        """KNNQuery reads the offsets itself: with them on the GPU it would end the process."""
        source, made = tmp_path / "asked.cpp", tmp_path / "asked.so"
        source.write_text(ASKED.replace("CSRC", str(ROOT / "csrc")))
        *_, (register, compile_it), (_, link) = build_cuda.commands(find_compiler(), tmp_path, made)
        compile_it = [str(source) if word == str(register) else word for word in compile_it]
        for file in build_cuda.objects().glob("*.cu.o"):
            shutil.copy(file, tmp_path)
        ours = {f"{tmp_path / name}.o" for name in ("my_add.cpp", "knn_query.cpp")}
        link = [word for word in link if word not in ours and "version-script" not in word and "defsym" not in word]
        for command in (compile_it, link):
            done = run(command, timeout=600, cwd=tmp_path, limited=False)
            assert done.returncode == 0, done.log
        asked = ctypes.CDLL(str(made)).asked
        asked.restype = ctypes.c_char_p
        provider = "CUDAExecutionProvider"
        offsets = f"{provider} device host device host\n"
        assert asked().decode() == f"{offsets}{offsets}{provider} device device\n"


@pytest.fixture(scope="module")
def cuda(library):
    """Sessions on the GPU: ``cuda(model)``."""
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        pytest.skip("no CUDA device: this ONNX Runtime has no CUDAExecutionProvider")
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        pytest.skip("no CUDA device: there is no driver")
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        pytest.skip("no CUDA device: the driver finds none")
    onnxruntime.preload_dlls()  # after PyTorch, which has loaded the others

    def session(model):
        made = ops.session(model, libraries=[library], providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
        assert made.get_providers()[0] == "CUDAExecutionProvider"
        return made

    return session


class TestOnAGpu:
    @WIDE
    @pytest.mark.parametrize("shape", [(), (0, 3), (7,), (1000, 1003)])
    def test_my_add_has_the_cpus_bits(self, cuda, shape, dtype):
        feed = {"a": noise(*shape, dtype=dtype), "b": noise(*shape, seed=1, dtype=dtype)}
        model = one_node("MyAdd", feed, alpha=0.5, beta=-7.0)
        np.testing.assert_array_equal(cuda(model).run(None, feed)[0], ops.session(model).run(None, feed)[0])

    @WIDE
    @pytest.mark.parametrize("kind", knn.CLOUDS)
    def test_knn_has_the_cpus_bits(self, cuda, kind, dtype):
        xyz, offset = knn.cloud(kind, 2000, dtype, batches=3)
        nsample = min(20, int(np.diff(offset, prepend=0).max()))
        feed = {"xyz": xyz, "offset": offset}
        model = knn.make_model(nsample, ("xyz", "offset"), dtype.type)
        for mine, theirs in zip(cuda(model).run(None, feed), knn.in_ort(nsample, feed), strict=True):
            np.testing.assert_array_equal(mine, theirs)

    @pytest.mark.parametrize("name", ["MyAdd", "KNNQuery"])
    def test_the_session_takes_the_kernel_for_cuda(self, cuda, library, name):
        """Where no node may fall back to the CPU; a library with kernels for the CPU alone is refused then."""
        a = np.ones(3, np.float32)
        models = {"MyAdd": one_node("MyAdd", {"a": a, "b": a}), "KNNQuery": knn.make_model(2, ("xyz", "offset"))}

        def session(kernels: Path) -> onnxruntime.InferenceSession:
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
            options.register_custom_ops_library(str(kernels))
            content = models[name].SerializeToString()
            return onnxruntime.InferenceSession(content, options, providers=["CUDAExecutionProvider"])

        session(library)
        with pytest.raises(Exception, match="fallback to CPU EP has been explicitly disabled"):
            session(ops.ort_library())

    @pytest.mark.parametrize("dtype", [FLOAT16, BFLOAT16], ids=str)
    def test_halves_have_the_cpus_bits(self, cuda, dtype):
        feed = {"a": noise(999, dtype=dtype), "b": noise(999, seed=1, dtype=dtype)}
        mine, theirs = (in_ort("MyAdd", feed, alpha=0.3, beta=-7.0, **on)[0] for on in ({"session": cuda}, {}))
        np.testing.assert_array_equal(mine.astype(np.float32), theirs.astype(np.float32))
        feed = {"xyz": noise(500, 3, dtype=dtype), "offset": np.array([200, 500])}
        results = (in_ort("KNNQuery", feed, ("idx", "dist"), nsample=9, **on) for on in ({"session": cuda}, {}))
        for mine, theirs in zip(*results, strict=True):
            np.testing.assert_array_equal(mine.astype(np.float32), theirs.astype(np.float32))

    def test_queries_int32_offsets_and_empty_batches(self, cuda):
        xyz, queries = noise(30, 3), noise(9, 3, seed=1)
        for dtype in (np.int64, np.int32):
            session = cuda(knn.make_model(4, knn.NAMES, offset_dtype=dtype))
            for offset, new_offset in (([0, 20, 20, 30], [2, 2, 5, 9]), ([30, 30], [0, 9]), ([30], [9])):
                feed = {"xyz": xyz, "offset": np.array(offset, dtype), "new_xyz": queries}
                feed["new_offset"] = np.array(new_offset, dtype)
                for mine, theirs in zip(session.run(None, feed), knn.in_ort(4, feed), strict=True):
                    np.testing.assert_array_equal(mine, theirs)

    @pytest.mark.parametrize(
        ("change", "sentence"),
        [
            ({"xyz": np.zeros((3, 2), np.float32)}, "xyz must have the shape"),
            ({"offset": np.array([2, 1, 3])}, "offset must not decrease"),
            ({"xyz": np.array([[0, 0, 0], [0, np.nan, 0], [0, 0, 0]], np.float32)}, "coordinate 1 of point 1 is nan"),
            ({"offset": np.array([1, 2, 3])}, "nsample must not be larger than the largest batch"),
        ],
    )
    def test_what_it_refuses(self, cuda, change, sentence):
        feed = {"xyz": np.eye(3, dtype=np.float32), "offset": np.array([3])} | change
        session = cuda(knn.make_model(2, ("xyz", "offset")))
        with pytest.raises(InvalidArgument, match=f"KNNQuery: .*{sentence}"):
            session.run(None, feed)
