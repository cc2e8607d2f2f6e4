"""The kernels on AArch64: compiled with Debian's cross compiler, run in its emulator, compared with the references here.

The program of ``csrc/host`` runs one model that holds every case, with ONNX Runtime's own library for AArch64. Each run takes
some seconds, nearly all of it ONNX Runtime's start in the emulator, so there is one for each set of instructions and number of
threads. A machine that is AArch64 runs the program that it has.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from run_tests import CROSS

from oplab import paths
from oplab.toolchain import build
from oplab.toolchain.headers import ort_include, runtime_version
from tests.support import deform_conv2d as deform
from tests.support import grid, knn, machine_code, models, resize

pytestmark = pytest.mark.nightly

HERE = platform.machine() in ("aarch64", "arm64")
SETS = tuple(machine_code.AARCH64)
TYPES = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float64): TensorProto.DOUBLE,
    np.dtype(np.int32): TensorProto.INT32,
    np.dtype(np.int64): TensorProto.INT64,
}
# What ONNX Runtime reads when it starts. The emulator passes on the files of the machine that it runs on, and ONNX Runtime
# for AArch64 ends with a segmentation fault when they describe an x86-64 processor.
CPUINFO = """\
processor\t: {number}
BogoMIPS\t: 50.00
Features\t: fp asimd
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x0
CPU part\t: 0xd08
CPU revision\t: 3

"""


@dataclass(frozen=True)
class Machine:
    """How the host program is started (what goes before its arguments), and the library with the same kernels."""

    command: list[str]
    library: Path
    objdump: str


@pytest.fixture(scope="module")
def machine() -> Machine:
    if HERE:
        build.build_all(say=lambda line: None)
        return Machine([str(build.host_path())], build.library_path("ort"), "objdump")
    missing = [package for package, program in CROSS.items() if not shutil.which(program)]
    if missing:
        pytest.skip(f"there is no AArch64 here: sudo apt-get install {' '.join(missing)}")
    folder = paths.build_dir() / "cache" / "aarch64"
    made = compiled(folder, onnxruntime_for_aarch64(folder))
    emulator = ["qemu-aarch64", "-L", str(root(folder)), str(made / "oplab_host")]
    return Machine(emulator, made / "ort_ops" / "oplab_ort_ops.so", "aarch64-linux-gnu-objdump")


def onnxruntime_for_aarch64(folder: Path) -> Path:
    """The shared library out of the installed version's wheel for AArch64; fetched once."""
    version = runtime_version()
    library = folder / f"onnxruntime-{version}" / f"libonnxruntime.so.{version}"
    if library.is_file():
        return library
    folder.mkdir(parents=True, exist_ok=True)
    tags = [f"--platform={tag}_aarch64" for tag in ("manylinux_2_28", "manylinux_2_27", "manylinux2014")]
    wanted = [f"--dest={folder}", "--no-deps", "--only-binary=:all:", *tags, f"onnxruntime=={version}"]
    got = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", *wanted], capture_output=True, text=True)
    if "No matching distribution" in got.stderr:
        pytest.skip(f"pip has no onnxruntime {version} for AArch64")
    assert got.returncode == 0, got.stderr[-2000:]
    (wheel,) = folder.glob(f"onnxruntime-{version}-*aarch64.whl")
    with zipfile.ZipFile(wheel) as archive:
        data = archive.read(f"onnxruntime/capi/{library.name}")
    wheel.unlink()
    library.parent.mkdir(exist_ok=True)
    part = library.with_suffix(".part")
    part.write_bytes(data)
    os.replace(part, library)
    return library


def compiled(folder: Path, runtime: Path) -> Path:
    """The folder in which CMake compiled the host program and the kernels; what has not changed is not compiled again."""
    cmake, made = build._cmake(), folder / "cmake"
    assert cmake, "CMake is missing; the set-up installs it"
    target = ["-DCMAKE_SYSTEM_NAME=Linux", "-DCMAKE_SYSTEM_PROCESSOR=aarch64"]
    compiler = [
        "-DCMAKE_CXX_COMPILER=aarch64-linux-gnu-g++",
        "-DCMAKE_CXX_FLAGS=-Wno-psabi",
    ]  # a note on GCC 10's change
    packages = [f"-DORT_INCLUDE_DIR={ort_include()}", f"-DORT_LIBRARY={runtime}"]
    where = ["-S", str(paths.root() / "csrc" / "host"), "-B", str(made)]
    for command in (
        [cmake, *where, *target, *compiler, *packages],
        [cmake, "--build", str(made), "--parallel", str(min(2, os.cpu_count() or 1))],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=540)
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        assert "warning:" not in done.stderr, done.stderr
    return made


def root(folder: Path) -> Path:
    """The folder in which the emulator looks for each file first: the C library, and a description of two processors."""
    found = ["aarch64-linux-gnu-g++", "-print-file-name=ld-linux-aarch64.so.1"]
    loader = Path(subprocess.run(found, capture_output=True, text=True, check=True).stdout.strip())
    made = folder / "root"
    shutil.rmtree(made, ignore_errors=True)
    processors = made / "sys" / "devices" / "system" / "cpu"
    processors.mkdir(parents=True)
    (made / "lib").symlink_to(loader.resolve().parent)
    (made / "proc").mkdir()
    (made / "proc" / "cpuinfo").write_text("".join(CPUINFO.format(number=number) for number in range(2)))
    for name in ("possible", "present"):
        (processors / name).write_text("0-1\n")
    return made


@dataclass(frozen=True)
class Case:
    """One node: its inputs by name (None: left out) and what it has to answer."""

    op: str
    feed: dict[str, np.ndarray | None]
    attributes: dict
    expected: dict[str, np.ndarray]


def case(op: str, outputs: tuple[str, ...], feed: dict[str, np.ndarray | None], **attributes) -> Case:
    """A case whose answer is that of the operator in NumPy."""
    given = {name: value for name, value in feed.items() if value is not None}
    names = [name if name in given else "" for name in feed]
    model = models.one_node(op, given, names, outputs, **attributes)
    return Case(op, feed, attributes, dict(zip(outputs, models.evaluate(model, given), strict=True)))


def cases() -> Iterator[tuple[str, Case]]:
    random = np.random.default_rng(15)
    for dtype in (np.float32, np.float64):
        suffix = np.dtype(dtype).name
        for name, sizes in deform.SIZES.items():
            # Further out, a float32 coordinate is coarser than the tolerance, and the emulator is slow.
            if np.prod(sizes.get("size", 1)) < 300:
                feed, attributes = deform.make_feed(**sizes, dtype=dtype)
                yield f"DeformConv2d {name} {suffix}", case("DeformConv2d", ("Y",), feed, **attributes)
        feed, attributes = deform.make_feed(n=1, channels=20, out_channels=19, size=(9, 10), dtype=dtype)
        odd = np.array([np.inf, -np.inf, 3e38, -3e38, 1e19, -1e19, 2**31, 2**63, -1.0, 1e-45, -1e-45], dtype)
        for where in random.integers(0, feed["offset"].size, 200):
            feed["offset"].flat[where] = random.choice(odd)
        y = deform.reference(**feed, **attributes).astype(dtype)
        yield f"DeformConv2d odd offsets {suffix}", Case("DeformConv2d", feed, attributes, {"Y": y})
        offset, y = feed["offset"].copy(), y.copy()
        offset[0, 7, 4, 5], y[0, :, 4, 5] = np.nan, np.nan
        yield f"DeformConv2d NaN {suffix}", Case("DeformConv2d", {**feed, "offset": offset}, attributes, {"Y": y})

        for name, sizes in resize.SIZES.items():
            if max(sizes) < 100:
                feed = resize.images(*sizes, dtype)
                y = resize.reference(**feed)
                yield f"DynamicResize {name} {suffix}", Case("DynamicResize", feed, {}, {"y": y})
        for kind in knn.CLOUDS:
            for n, nsample in ((70, 3), (900, 16)):
                xyz, offset = knn.cloud(kind, n, dtype)
                new_xyz, new_offset = knn.cloud(kind, 40, dtype, seed=1)
                feed = {"xyz": xyz, "offset": offset, "new_xyz": new_xyz, "new_offset": new_offset}
                expected = dict(zip(("idx", "dist"), knn.reference(nsample, **feed), strict=True))
                yield f"KNNQuery {kind} {n} {suffix}", Case("KNNQuery", feed, {"nsample": nsample}, expected)
        for shape in ((3, 1), (5, 64), (4, 1001)):
            feed = {"x": random.standard_normal(shape).astype(dtype), "weight": np.ones(shape[-1], dtype)}
            yield f"RMSNorm {shape} {suffix}", case("RMSNorm", ("y",), feed, epsilon=1e-3)
        for corner in grid.CORNERS:
            for shape in ((7,), (1003, 2), (5000, 3), (40, 2, 3)):
                given = grid.cloud(*shape, dtype=dtype, corner=corner)
                feed = {name: given.get(name) for name in ("pos", "size", "start", "end")}
                yield f"Grid {corner} {shape} {suffix}", case("Grid", ("cluster",), feed)

        for size in (0, 1, 3, 64, 1001, 70_000):
            a, b, c = random.standard_normal((3, size)).astype(dtype)
            yield f"MyAdd {size} {suffix}", case("MyAdd", ("y",), {"a": a, "b": b}, alpha=0.3, beta=-1.7)
            yield f"VarSum {size} {suffix}", case("VarSum", ("y",), {"x0": a, "x1": b, "x2": c})
            for exponent in (-3, 0, 2, 31):
                feed = {"input1": a, "input2": b + np.copysign(dtype(0.5), b)}
                yield f"Foo {exponent} {size} {suffix}", case("Foo", ("y",), feed, attr1=0.7, attr2=exponent)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], dict[str, Case]]:
    """The model's file, the words that give the host program its inputs, and the cases. Their names are safe in files."""
    folder = tmp_path_factory.mktemp("aarch64")
    named = {re.sub(r"[^A-Za-z0-9.-]+", "_", name): each for name, each in cases()}
    nodes, inputs, outputs, words = [], [], [], []
    for name, each in named.items():
        ports = [f"{name}.{port}" if value is not None else "" for port, value in each.feed.items()]
        ends = [f"{name}.{port}" for port in each.expected]
        nodes.append(helper.make_node(each.op, ports, ends, domain="oplab", name=name, **each.attributes))
        outputs += [
            helper.make_tensor_value_info(end, TYPES[value.dtype], None)
            for end, value in zip(ends, each.expected.values(), strict=True)
        ]
        for port, value in zip(ports, each.feed.values(), strict=True):
            if value is not None:
                np.save(folder / f"{port}.npy", value)
                inputs.append(helper.make_tensor_value_info(port, TYPES[value.dtype], None))
                words += ["--input", f"{port}={port}.npy"]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("oplab", 2)]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), folder / "model.onnx")
    return folder, words, named


def run(
    machine: Machine, model: tuple[Path, list[str], dict[str, Case]], simd: str, threads: int
) -> dict[str, np.ndarray]:
    folder, words, _ = model
    out = f"{simd}-{threads}"
    command = [*machine.command, "model.onnx", "--in-process", "--threads", str(threads), "--outputs", out, *words]
    env = {**os.environ, "OPLAB_SIMD": simd}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return {file.stem: np.load(file) for file in (folder / out).iterdir()}


@pytest.mark.parametrize("simd", SETS)
def test_every_kernel(machine: Machine, model, simd: str):
    one, two = (run(machine, model, simd, threads) for threads in (1, 2))
    _, _, named = model
    assert len(one) == sum(len(each.expected) for each in named.values())
    for name, each in named.items():
        for port, expected in each.expected.items():
            y = one[f"{name}.{port}"]
            assert (y.dtype, y.shape) == (expected.dtype, expected.shape), name
            assert y.tobytes() == two[f"{name}.{port}"].tobytes(), f"{name}: another number of threads, other bits"
            try:
                agree(each.op, y, expected)
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}") from None


def agree(op: str, y: np.ndarray, expected: np.ndarray) -> None:
    """Points and voxels to the bit, a sum of products within its rounding."""
    if op in ("KNNQuery", "Grid", "VarSum"):
        np.testing.assert_array_equal(y, expected)
        return
    single = y.dtype == np.float32
    tolerance = {"DeformConv2d": 3e-5 if single else 1e-12, "DynamicResize": 5e-6 if single else 1e-13}.get(
        op, 1e-6 if single else 1e-14
    )
    known = np.nan_to_num(np.abs(expected)).max(initial=1)
    np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance * known)


def test_the_product_keeps_its_sums_in_registers(machine: Machine):
    code = machine_code.functions(machine.library, machine.objdump)
    for simd in SETS:
        for dtype in ("float", "double"):
            machine_code.check_product(code, machine_code.AARCH64[simd], dtype)
    machine_code.check_only_jobs_are_fused(code)
