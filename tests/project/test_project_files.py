"""What a project is compiled with, what happens at a signal, and libraries that cannot be loaded."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from oplab.project.build import build_project
from oplab.project.layout import open_project
from oplab.toolchain.compiler import find_compiler
from oplab.toolchain.diagnostics import BuildFailed
from tests.support import environment
from tests.support.cpp import endless_compiler

ELF = pytest.mark.skipif(sys.platform != "linux", reason="reads the processor from an ELF file, which only Linux has")


def oplab(*words: object, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "oplab.cli", *map(str, words)]
    return subprocess.run(command, env=environment(**env), capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3]) for name in "xy"]
    node = helper.make_node("Twist", ["x"], ["y"], domain="my", alpha=2.0)
    opsets = [helper.make_opsetid("my", 1), helper.make_opsetid("", 18)]
    made = helper.make_model(helper.make_graph([node], "g", ports[:1], ports[1:]), opset_imports=opsets, ir_version=10)
    file = tmp_path_factory.mktemp("model") / "m.onnx"
    onnx.save(made, file)
    return file


def test_a_copy_of_a_project_is_not_compiled_again(copied):
    for product in (*copied.rglob("*.so"), copied / "build" / "twist_host"):
        product.unlink()
    said: list[str] = []
    build_project(open_project(copied), say=said.append)
    assert sum("is ready" in line for line in said) == 3 and not any("Compiling" in line for line in said)


@pytest.mark.parametrize("header", ["torch_kernel.h", "text.h"])
def test_the_headers_are_those_of_the_project(copied, header):
    libraries = {file: file.read_bytes() for file in copied.rglob("*.so")}
    (copied / "cpp" / "oplab" / header).write_text("#error this one\n")
    with pytest.raises(BuildFailed, match="this one"):
        build_project(open_project(copied), say=str)
    (copied / "cpp" / "oplab" / header).unlink()
    source = copied / "cpp" / ("torch_op.cpp" if header == "torch_kernel.h" else "ort_op.cpp")
    source.write_text(source.read_text().replace('"oplab/', '"'))  # the course's is no replacement
    with pytest.raises(BuildFailed, match=header if header != "text.h" else "oplab_kernel.h|text.h"):
        build_project(open_project(copied), say=str)
    assert {file: file.read_bytes() for file in copied.rglob("*.so")} == libraries


def test_the_program_contains_the_kernel(built, model, tmp_path):
    x = np.float32([-1, 0, 2])
    np.save(tmp_path / "x.npy", x)
    words = ["--in-process", "--input", f"x={tmp_path / 'x.npy'}", "--outputs", str(tmp_path / "out")]
    program = open_project(built).host_program
    done = subprocess.run([program, model, *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "out" / "y.npy"), 2 * x / (1 + x * x), rtol=1e-6)


@pytest.fixture
def edited(copied) -> Path:
    with (copied / "cpp" / "torch_op.cpp").open("a") as source:
        source.write(f"// {copied}: not compiled before\n")
    return copied


def test_no_compiler_at_all(edited, tmp_path):
    (tmp_path / "bin").mkdir()
    before = sorted(edited.rglob("*"))
    done = oplab("build", edited, PATH=str(tmp_path / "bin"), CXX="")
    assert done.returncode == 2 and "No C++ compiler was found." in done.stderr and "apt install g++" in done.stderr
    assert sorted(edited.rglob("*")) == before


def test_ctrl_c_stops_the_compiler_and_leaves_nothing(edited, tmp_path):
    before = sorted(edited.rglob("*"))
    command = [sys.executable, "-m", "oplab.cli", "build", str(edited)]
    process = subprocess.Popen(
        command,
        env={**environment(), "CXX": str(endless_compiler(tmp_path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert "Compiling" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "Stopped. Nothing was lost." in errors and "Traceback" not in errors
    assert sorted(edited.rglob("*")) == before


# --- libraries that cannot be loaded


def given_module(tmp_path: Path, library: Path) -> Path:
    text = f"import torch\n\ntorch.ops.load_library({str(library)!r})\n\ndef head(x):\n    return x\n"
    (tmp_path / "op.py").write_text(text)
    return tmp_path / "op.py"


@pytest.mark.nightly
@ELF
def test_a_library_for_a_newer_pytorch(model, tmp_path):
    (tmp_path / "x.cpp").write_text(
        'extern "C" int torch_not_in_this_version(int);\n'
        "namespace { const int used = torch_not_in_this_version(1); }\n"
        'extern "C" int get() { return used; }\n'
    )
    newer = tmp_path / "newer.so"
    command = [*find_compiler().command, "-shared", "-fPIC", str(tmp_path / "x.cpp"), "-o", str(newer)]
    subprocess.run(command, check=True)
    done = oplab("parity", model, "--module", f"{given_module(tmp_path, newer)}:head")
    assert done.returncode == 2 and "newer.so was compiled for a newer PyTorch than 2." in done.stderr
    assert "has no torch_not_in_this_version." in done.stderr and "Traceback" not in done.stderr
