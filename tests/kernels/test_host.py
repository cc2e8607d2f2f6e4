"""csrc/host: ONNX models run from C++, beside the same models in Python, bit for bit; and every way of calling it wrongly."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from oplab import ops
from oplab.toolchain import build, recipes
from oplab.toolchain.compile import link_runtime
from oplab.toolchain.compiler import find_compiler, run
from oplab.toolchain.sanitizer import sanitizer_env
from tests.support import deform_conv2d, foo, grid, my_add
from tests.support.models import model_of, one_node

DTYPES = "float16 float32 float64 bool int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
WAYS = ("--in-process", "--library")


pytestmark = pytest.mark.usefixtures("compiled")


def call(*words: object, program: Path | None = None, **more) -> subprocess.CompletedProcess[str]:
    command = [str(program or build.host_path()), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **more)


def register(way: str) -> list[str]:
    return [way] if way == "--in-process" else [way, str(ops.ort_library())]


def run_host(model: onnx.ModelProto, feed: dict[str, np.ndarray], folder: Path, *options: str) -> dict[str, np.ndarray]:
    onnx.save(model, folder / "model.onnx")
    words: list[object] = [folder / "model.onnx", "--outputs", folder / "out", *options]
    for number, (name, value) in enumerate(feed.items()):
        np.save(folder / f"{number}.npy", value)
        words += ["--input", f"{name}={folder / f'{number}.npy'}"]
    done = call(*words)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return {file.stem: np.load(file) for file in (folder / "out").iterdir()}


def identity_model(dtype: object, names=("y",), shape=None) -> onnx.ModelProto:
    nodes = [helper.make_node("Identity", ["x"], [name]) for name in names]
    return model_of(nodes, {"x": dtype}, dict.fromkeys(names, dtype), dict.fromkeys(["x", *names], shape))


def cases():
    """Models with an operator of the course, and their inputs."""
    random = np.random.default_rng(1)
    for dtype, shape in (("float32", ()), ("float64", (0, 3)), ("float32", (100_003,))):
        feed = {name: np.asarray(random.standard_normal(shape), dtype) for name in "ab"}
        yield my_add.model(dtype=dtype, alpha=0.3, beta=-1.7), feed
    yield foo.make_model(attr1=0.7, attr2=3), foo.pair(50, 61)
    for corner in ("neither", "end", "both"):  # an input that is left out at the end or in the middle
        feed = grid.cloud(20_000, 3, dtype=np.float64, corner=corner)
        yield grid.make_model(grid.inputs_for(corner), np.float64), feed
    feed = {"xyz": random.random((900, 3), dtype=np.float32), "offset": np.array([400, 900])}
    yield one_node("KNNQuery", feed, outputs=("idx", "dist"), nsample=5), feed
    feed, attributes = deform_conv2d.make_feed()
    yield one_node("DeformConv2d", feed, **attributes), feed


class TestAgainstPython:
    """With the same number of threads, the same bits."""

    @pytest.mark.parametrize("way", WAYS)
    def test_the_course_s_operators(self, tmp_path: Path, way: str):
        for number, (model, feed) in enumerate(cases()):
            folder = tmp_path / str(number)
            folder.mkdir()
            self.same(model, feed, run_host(model, feed, folder, *register(way), "--threads", "2"))

    def test_srcnn(self, tmp_path: Path):
        """ONNX Runtime's own kernels too."""
        import torch

        from oplab.nets.srcnn import load_srcnn

        x = torch.from_numpy(np.random.default_rng(2).random((1, 3, 40, 52), dtype=np.float32))
        file = tmp_path / "srcnn.onnx"
        torch.onnx.export(load_srcnn(), (x,), file, input_names=["x"], output_names=["y"], dynamo=False)
        model, feed = onnx.load(file), {"x": x.numpy()}
        self.same(model, feed, run_host(model, feed, tmp_path, "--threads", "2"))

    @staticmethod
    def same(model: onnx.ModelProto, feed: dict[str, np.ndarray], got: dict[str, np.ndarray]) -> None:
        session = ops.session(model, threads=2)
        names = [output.name for output in session.get_outputs()]
        assert sorted(got) == sorted(names)
        for name, array in zip(names, session.run(None, feed), strict=True):
            assert (got[name].dtype, got[name].shape) == (array.dtype, array.shape)
            assert got[name].tobytes() == array.tobytes()


class TestFiles:
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_every_dtype_comes_back(self, tmp_path: Path, dtype: str):
        bits = np.random.default_rng(3).integers(0, 256, 8 * 6, dtype=np.uint8)
        x = (bits[:6] > 127).reshape(2, 3) if dtype == "bool" else bits.view(dtype)[:6].reshape(2, 3)
        got = run_host(identity_model(dtype), {"x": x}, tmp_path)["y"]
        assert got.dtype == x.dtype and got.shape == x.shape
        assert got.tobytes() == x.tobytes()  # a NaN's bits too
        assert np.load(tmp_path / "out" / "y.npy", mmap_mode="r").offset % 64 == 0

    @pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
    def test_every_version_of_the_format(self, tmp_path: Path, version: tuple[int, int]):
        onnx.save(identity_model(np.float32), tmp_path / "m.onnx")
        x = np.arange(4, dtype=np.float32)
        with open(tmp_path / "x.npy", "wb") as file:
            np.lib.format.write_array(file, x, version=version)
        done = call(tmp_path / "m.onnx", "--input", f"x={tmp_path / 'x.npy'}", "--outputs", tmp_path)
        assert done.returncode == 0, done.stderr
        assert np.load(tmp_path / "y.npy").tolist() == x.tolist()

    def test_names_of_outputs_are_safe_names_of_files(self, tmp_path: Path):
        names = ["../../up", "a/b", "a_b", "A", "a", ".hidden", "-rf", "über", "n" * 300, "x y"]
        folder = tmp_path / "in"
        folder.mkdir()
        got = run_host(identity_model(np.float32, names), {"x": np.ones(1, np.float32)}, folder)
        assert len(got) == len(names)
        assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", stem) for stem in got)
        assert {"a_b", "a_b_2", "A", "a_2", "_.hidden", "_-rf", "x_y"} <= set(got)
        assert [entry.name for entry in tmp_path.iterdir()] == ["in"]

    def test_the_order_and_the_files_are_printed(self, tmp_path: Path):
        onnx.save(identity_model(np.float32, ("b", "a/1")), tmp_path / "m.onnx")
        np.save(tmp_path / "x.npy", np.ones((2, 1), np.float32))
        done = call("m.onnx", "--input=x=x.npy", "--outputs=out", cwd=tmp_path)
        assert done.stdout == "b  float32[2, 1] -> out/b.npy\na/1  float32[2, 1] -> out/a_1.npy\n"


class TestCommandLine:
    def test_list(self, tmp_path: Path):
        shapes = {"pos": ["points", 3], "size": [3], "end": [None]}
        onnx.save(grid.make_model(("pos", "size", "", "end"), shapes=shapes), tmp_path / "g.onnx")
        for way in WAYS:
            done = call(tmp_path / "g.onnx", "--list", *register(way))
            assert done.stdout.splitlines() == [
                "inputs",
                "  pos   float32[points, 3]",
                "  size  float32[3]",
                "  end   float32[?]",
                "outputs",
                "  cluster  int64[points]",
            ]

    def test_repeat_prints_median_and_quartiles(self, tmp_path: Path):
        onnx.save(identity_model(np.float32), tmp_path / "m.onnx")
        np.save(tmp_path / "x.npy", np.ones(3, np.float32))
        done = call("m.onnx", "--input", "x=x.npy", "--repeat", 21, "--warmup", 2, "--threads", 1, cwd=tmp_path)
        found = re.match(r"21 runs: median (\S+) ms, quartiles (\S+) and (\S+) ms\ny  float32\[3\]\n$", done.stdout)
        assert found, done.stdout
        median, low, high = map(float, found.groups())
        assert 0 <= low <= median <= high


MODEL = "model.onnx"
# What is called, the exit code, and words of the sentence.
WRONG_CALLS = [
    ([], 2, "the model is missing"),
    (["--nothing", MODEL], 2, "there is no option --nothing"),
    ([MODEL, MODEL], 2, "there is more than one model"),
    ([MODEL, "--threads"], 2, "--threads needs a value."),
    ([MODEL, "--threads", "0"], 2, 'a whole number from 1 to 1000000, not "0"'),
    ([MODEL, "--repeat", "99999999999999999999"], 2, "--repeat takes a whole number"),
    ([MODEL, "--list=yes"], 2, "--list takes no value"),
    ([MODEL, "--input", "x"], 2, "--input takes NAME=FILE"),
    (["gone.onnx"], 2, "there is no model gone.onnx"),
    (["."], 2, ". is a folder, not a model"),
    ([MODEL], 2, "the input x (float32[n, 2]) is missing: --input x=FILE.npy"),
    ([MODEL, "--input", "x=gone.npy"], 2, "gone.npy cannot be read: No such file"),
    ([MODEL, "--input", "x=."], 2, ". is a folder, not a .npy file"),
    ([MODEL, "--input", "x=x.npy", "--input", "x=x.npy"], 2, "the input x is given twice"),
    ([MODEL, "--input", "x=x.npy", "--input", "z=x.npy"], 2, "the model has no input z; its inputs are: x."),
    ([MODEL, "--input", "x=double.npy"], 2, "float32[n, 2] in the model, and float64[3, 2] in the file"),
    ([MODEL, "--input", "x=wide.npy"], 2, "float32[n, 2] in the model, and float32[3, 4] in the file"),
    ([MODEL, "--input", "x=fortran.npy"], 2, "it is in Fortran order"),
    ([MODEL, "--input", "x=big.npy"], 2, "its numbers are big endian (>f4)"),
    ([MODEL, "--input", "x=object.npy"], 2, "it holds Python objects"),
    ([MODEL, "--input", "x=complex.npy"], 2, "its dtype <c8 is not supported"),
    ([MODEL, "--input", "x=text.npy"], 2, "it is not a .npy file"),
    ([MODEL, "--input", "x=cut.npy"], 2, "it is cut off: float32[3, 2] has 24 bytes, but the file has 20 of them"),
    ([MODEL, "--input", "x=long.npy"], 2, "it has data after the array's last element"),
    ([MODEL, "--input", "x=headless.npy"], 2, "it ends inside its header"),
    ([MODEL, "--input", "x=huge_shape.npy"], 2, "is larger than any memory"),
    ([MODEL, "--input", "x=future.npy"], 2, "it is of version 9.0 of the format"),
    ([MODEL, "--input", "x=two.npy"], 2, "a bool that is neither 0 nor 1"),
    ([MODEL, "--input", "x=x.npy", "--outputs", "text.npy"], 2, "the folder text.npy cannot be created"),
    ([MODEL, "--library", "gone.so"], 2, "there is no library gone.so"),
    ([MODEL, "--library", "text.npy"], 1, "the library text.npy cannot be registered"),
    (["text.npy"], 1, "ONNX Runtime cannot load text.npy"),
    (["grid.onnx", "--list"], 1, "Name the library that has the operator"),
    (["strings.onnx", "--input", "x=x.npy"], 2, "the input x is string in the model"),
]


@pytest.fixture(scope="module")
def wrong_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrong")
    onnx.save(identity_model(np.float32, shape=["n", 2]), folder / MODEL)
    onnx.save(identity_model(TensorProto.STRING), folder / "strings.onnx")
    onnx.save(grid.make_model(), folder / "grid.onnx")
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    arrays = {
        "x": x,
        "double": x.astype(np.float64),
        "wide": np.ones((3, 4), np.float32),
        "fortran": np.asfortranarray(x),
        "big": x.astype(">f4"),
        "object": np.array([{}, None], object),
        "complex": x.astype(np.complex64),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    right = (folder / "x.npy").read_bytes()
    (folder / "text.npy").write_text("1 2 3")

    (folder / "cut.npy").write_bytes(right[:-4])
    (folder / "long.npy").write_bytes(right + b"0")
    (folder / "headless.npy").write_bytes(right[:40])

    (folder / "huge_shape.npy").write_bytes(with_header("<f4", (2**40, 2**40)))

    (folder / "future.npy").write_bytes(right[:6] + b"\x09\x00" + right[8:])
    (folder / "two.npy").write_bytes(with_header("|b1", (2,)) + b"\x01\x02")
    return folder


def with_header(descr: str, shape: tuple[int, ...], text: str = "") -> bytes:
    header = (text or f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}").encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


@pytest.mark.parametrize(("words", "code", "sentence"), WRONG_CALLS, ids=range(len(WRONG_CALLS)))
def test_a_wrong_call_is_a_sentence(wrong_files: Path, words: list[str], code: int, sentence: str):
    done = call(*words, cwd=wrong_files)
    assert sentence in done.stderr
    assert done.returncode == code
    assert done.stderr.startswith("oplab_host: ") and done.stdout == ""


class TestLibraries:
    def test_both_ways_at_once(self, wrong_files: Path):
        done = call("grid.onnx", "--list", "--in-process", *register("--library"), cwd=wrong_files)
        assert done.returncode == 1
        assert "Domain already set in registry\nONNX Runtime takes a domain from one library" in done.stderr

    def test_pytorch_s_library_by_mistake(self, wrong_files: Path):
        done = call("grid.onnx", "--list", "--library", build.library_path("torch"), cwd=wrong_files)
        assert done.returncode == 1 and "cannot be registered" in done.stderr
        assert "It is a library of operators for PyTorch" in done.stderr or sys.platform == "darwin"

    def test_a_refusal_of_a_kernel(self, wrong_files: Path, tmp_path: Path):
        np.save(tmp_path / "pos.npy", np.ones((4, 3), np.float32))
        np.save(tmp_path / "size.npy", np.ones(2, np.float32))
        for way in WAYS:
            words = ["grid.onnx", *register(way), "--input", f"pos={tmp_path / 'pos.npy'}"]
            done = call(*words, "--input", f"size={tmp_path / 'size.npy'}", cwd=wrong_files)
            assert done.returncode == 1
            assert "Grid: size must have one value for each of pos's 3 coordinates" in done.stderr

    def test_a_bare_name_is_a_file_of_this_folder(self, wrong_files: Path, tmp_path: Path):
        (tmp_path / "mine.so").symlink_to(ops.ort_library())
        done = call(wrong_files / "grid.onnx", "--list", "--library", "mine.so", cwd=tmp_path)
        assert done.returncode == 0, done.stderr


class TestBuild:
    def test_a_link_to_another_package_is_made_again(self, tmp_path: Path):
        """In a folder of its own: other tests start the program meanwhile."""
        runtime = recipes.ort_runtime()
        names = recipes.ort_runtime_names(runtime)
        assert len(names) == 2 and names[1] == runtime.name
        assert os.readlink(build.host_path().parent / names[0]) == str(runtime)
        (tmp_path / names[0]).symlink_to("/nowhere/libonnxruntime.so.1")
        (tmp_path / names[1]).write_text("a file in its place")
        link_runtime(tmp_path)
        link_runtime(tmp_path)
        assert {entry.name: os.readlink(entry) for entry in tmp_path.iterdir()} == dict.fromkeys(names, str(runtime))


# Reads each file that is named on standard input, and writes what it has read beside it.
DRIVER = """\
#include <iostream>

#include "errors.h"
#include "npy.h"

int main() {
  std::string file;
  while (std::getline(std::cin, file)) {
    try {
      const host::Array array = host::read_npy(file);
      host::write_npy(file + ".again", *array.dtype, array.shape, array.data.data());
      std::cout << "read\\n";
    } catch (const host::CallError& error) {
      std::cout << error.what() << '\\n';
    }
  }
}
"""


def damaged(random: np.random.Generator, number: int) -> tuple[bytes, bool]:
    """A .npy file, and whether it is right. Most are not: bytes changed, cut, doubled, or a header of odd words."""
    dtype = random.choice(list(DTYPES))
    shape = tuple(int(side) for side in random.integers(0, 4, random.integers(0, 4)))
    bits = random.integers(0, 2 if dtype == "bool" else 256, 8 * 27, dtype=np.uint8)
    count = int(np.prod(shape))
    array = bits.view(dtype)[:count].reshape(shape)
    text = bytearray(with_header(array.dtype.str, shape) + array.tobytes())
    way = number % 6
    if way == 1:
        for _ in range(random.integers(1, 4)):
            text[random.integers(len(text))] = random.integers(256)
    elif way == 2:
        del text[random.integers(len(text)) :]
    elif way == 3:
        start = int(random.integers(len(text)))
        text[start:start] = text[start : start + int(random.integers(1, 9))]
    elif way == 4:
        words = """{ } ( ) , : ' " 'descr' '<f4' 'fortran_order' False True 'shape' 0 3 -1 03 [ None é 2**3 '|b1' '>f4' 1,""".split()
        words += ["9" * 25, " ", "\n", "\0"]
        header = "".join(random.choice(words, random.integers(0, 14)))
        text = bytearray(with_header("", (), header) + array.tobytes())
    elif way == 5:
        shape_words = ["(3)", "(-1,)", "3", "()", "(3,,)", "(,)", "(1_0,)", "(1.0,)", f"({2**63},)", f"(0, {2**62}, 9)"]
        shape_words += ["[3]", "(3, 2", "(True,)", "(0x3,)", "(3,2,)", "( 3 , 2 )", "(3 2)"]
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {random.choice(shape_words)}, }}"
        text = bytearray(with_header("", (), header) + bytes(24))
    return bytes(text), way == 0


@pytest.mark.nightly
def test_damaged_files_under_the_sanitizers_beside_numpy(tmp_path: Path):
    """Whatever is read is what NumPy reads, bit for bit; a right file is read; nothing crashes."""
    driver = tmp_path / "driver.cpp"
    driver.write_text(DRIVER)
    command = recipes.host_recipe().compile_command(find_compiler(), sanitize=True)
    sources = [driver, recipes.host_folder() / "npy.cpp"]
    program = tmp_path / "driver"
    flags = [f"-I{recipes.host_folder()}", *map(str, sources), "-o", str(program), *recipes.SANITIZE["address"][:2]]
    made = run([*command, *flags], timeout=300)
    assert made.returncode == 0, made.log

    right = []
    for number in range(6000):
        text, is_right = damaged(np.random.default_rng([7, number]), number)
        (tmp_path / f"{number}.npy").write_bytes(text)
        right.append(is_right)
    names = "".join(f"{tmp_path}/{number}.npy\n" for number in range(len(right)))
    done = subprocess.run([program], input=names.encode(), capture_output=True, timeout=900, env=sanitizer_env())
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-3000:]
    said = done.stdout.decode(errors="replace").splitlines()
    assert len(said) == len(right)

    accepted = 0
    for number, (line, is_right) in enumerate(zip(said, right, strict=True)):
        if line == "read":
            accepted += 1
            theirs = np.load(tmp_path / f"{number}.npy")
            ours = np.load(tmp_path / f"{number}.npy.again")
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), number
            assert ours.tobytes() == theirs.tobytes(), number
        else:
            assert not is_right, (number, line)
            assert line.startswith(f"{tmp_path}/{number}.npy cannot be used: ") and line.endswith("."), line
    assert 1000 < accepted < 4000  # neither all nor none, or the fuzz has become blunt


@pytest.mark.nightly
def test_the_whole_program_under_the_sanitizers(wrong_files: Path, tmp_path: Path):
    program = build.compile_host_sanitized()
    env = sanitizer_env()
    for words, code, sentence in WRONG_CALLS:
        done = call(*words, program=program, cwd=wrong_files, env=env)
        assert (done.returncode, sentence in done.stderr) == (code, True), (words, done.stderr[-2000:])
    feed = grid.cloud(5000, 3)
    for name, value in feed.items():
        np.save(tmp_path / f"{name}.npy", value)
    words = [wrong_files / "grid.onnx", "--in-process", "--repeat", 3, "--outputs", tmp_path, "--threads", 2]
    for name in feed:
        words += ["--input", f"{name}={tmp_path / name}.npy"]
    done = call(*words, program=program, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    assert np.array_equal(np.load(tmp_path / "cluster.npy"), grid.in_ort(feed))
