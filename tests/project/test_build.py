"""``oplab build`` and ``oplab test``: one file, and a project as small as one can be."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from onnx import helper

from oplab import paths
from oplab.errors import OplabError
from oplab.ops import session
from oplab.project.build import build_file, build_project, kind_of
from oplab.project.layout import Project, open_project
from oplab.project.testing import run_tests
from oplab.toolchain.build import BuildFailed
from oplab.toolchain.recipes import SUFFIX

TWICE = """#include "oplab/oplab_kernel.h"

struct Twice {
  Twice(const OrtApi*, const OrtKernelInfo*) {}
  Ort::Status Compute(const oplab::Tensor<float>& x, oplab::Tensor<float>& y) {
    const float* in = x.Data();
    float* out = y.Allocate(x.Shape());
    for (int64_t i = 0; i < x.NumberOfElement(); ++i) out[i] = 2 * in[i];
    return Ort::Status{nullptr};
  }
};

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain domain{"tiny"};
    oplab::add<Twice>(domain, "Twice");
    return domain;
  });
}
"""
TORCH = """#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

torch::stable::Tensor twice(const torch::stable::Tensor& x) {
  torch::stable::Tensor y = torch::stable::empty_like(x);
  for (int64_t i = 0; i < x.numel(); ++i) y.mutable_data_ptr<float>()[i] = 2 * x.const_data_ptr<float>()[i];
  return y;
}

STABLE_TORCH_LIBRARY(tiny, m) { m.def("twice(Tensor x) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(tiny, CPU, m) { m.impl("twice", TORCH_BOX(&twice)); }
"""
PYPROJECT = """[project]
name = "tiny-twice"
version = "1.0"

[tool.oplab]
operator = "tiny::Twice"
"""
HOST = "#include <onnxruntime_cxx_api.h>\n\nint main() { return Ort::GetVersionString().empty(); }\n"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    for folder in ("cpp/oplab", "cpp/common", "src/tiny_twice", "tests", "host"):
        (tmp_path / "tiny" / folder).mkdir(parents=True)
    csrc = paths.root() / "csrc"
    shutil.copy(csrc / "ort_ops" / "oplab_kernel.h", tmp_path / "tiny/cpp/oplab")
    shutil.copy(csrc / "common" / "text.h", tmp_path / "tiny/cpp/common")
    (tmp_path / "tiny/cpp/ort_op.cpp").write_text(TWICE)
    (tmp_path / "tiny/cpp/torch_op.cpp").write_text(TORCH)
    (tmp_path / "tiny/pyproject.toml").write_text(PYPROJECT)
    (tmp_path / "tiny/host/main.cpp").write_text(HOST)
    (tmp_path / "tiny/tests/test_it.py").write_text("def test_it():\n    assert True\n")
    return open_project(tmp_path / "tiny")


def oplab(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "oplab.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)


class TestKind:
    @pytest.mark.parametrize(
        ("text", "kind"),
        [
            (TORCH, "torch"),
            (TWICE, "ort"),
            (HOST, "host"),
            ('#include <cmath>\nextern "C" double f() { return 1; }\n', "cpp"),
            (
                "/*\n#include <torch/csrc/stable/library.h>\n*/\n#include <onnxruntime_cxx_api.h>\n// int main() {}\n",
                "ort",
            ),
            ('#include "../torch_ops/torch_kernel.h"\n', "torch"),
        ],
    )
    def test_the_includes_tell(self, tmp_path, text, kind):
        (tmp_path / "f.cpp").write_text(text)
        assert kind_of(tmp_path / "f.cpp") == kind

    def test_both_libraries(self, tmp_path):
        (tmp_path / "f.cpp").write_text(TORCH + TWICE)
        with pytest.raises(OplabError, match="headers of PyTorch and of ONNX Runtime") as error:
            kind_of(tmp_path / "f.cpp")
        assert "--kind" in str(error.value)


class TestFile:
    def test_a_library_next_to_its_source_and_then_up_to_date(self, project, tmp_path):
        said: list[str] = []
        made = build_file(project.source("ort"), say=said.append)
        assert made == project.folder / f"cpp/ort_op{SUFFIX}" and "is ready" in said[-1]
        before = made.stat().st_mtime_ns
        build_file(project.source("ort"), say=said.append)
        assert "up to date" in said[-1] and made.stat().st_mtime_ns == before

    def test_a_broken_file_keeps_the_old_library_and_names_the_line(self, project, tmp_path):
        source, made = project.source("ort"), tmp_path / "made.so"
        build_file(source, output=made, say=str)
        old = made.read_bytes()
        source.write_text(TWICE.replace("2 * in[i];", "2 * in[i]"))
        with pytest.raises(BuildFailed, match=r"ort_op.cpp:9:5: error: expected ';'.*end of line 8"):
            build_file(source, output=made, say=str)
        assert made.read_bytes() == old and not list(tmp_path.glob(".made*"))

    def test_the_command(self, project, tmp_path):
        done = oplab("build", project.source("ort"), "-o", tmp_path / "a" / "made.so")
        assert done.returncode == 0 and (tmp_path / "a" / "made.so").is_file(), done.stderr
        project.source("ort").write_text("int broken\n")
        for words, says in {
            (project.source("ort"), "--kind", "ort"): "error:",
            (tmp_path / "gone.cpp",): "There is no C++ file",
            (project.source("torch"), "-o", project.source("torch")): "is the source itself",
            (tmp_path,): "not the project of an operator",
        }.items():
            done = oplab("build", *words)
            assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr, (words, done.stderr)


class TestProject:
    def test_everything_is_built_once(self, project):
        said: list[str] = []
        build_project(project, say=said.append)
        assert sum("is ready" in line for line in said) == 3
        torch.ops.load_library(project.library("torch"))
        assert torch.ops.tiny.twice(torch.ones(2)).tolist() == [2, 2]
        assert subprocess.run([project.host_program]).returncode == 0
        said.clear()
        build_project(open_project(project.folder / "cpp"), say=said.append)  # from a folder in it
        assert len(said) == 3 and all("up to date" in line for line in said)

    @pytest.mark.nightly
    def test_tests_pass_and_fail(self, project):
        assert run_tests(project, ["-k", "nothing"], say=str) == 2  # no test ran: not a pass
        (project.folder / "tests/test_more.py").write_text("def test_more():\n    assert 0\n")
        done = oplab("test", project.folder)
        assert done.returncode == 1 and "1 failed, 1 passed" in done.stdout
        assert oplab("test", project.folder, "--", "-k", "it").returncode == 0
        (project.folder / "tests/test_more.py").write_text("from nowhere import more\n")
        done = oplab("test", project.folder)
        assert done.returncode == 2 and "No module named 'nowhere'" in done.stdout and "Stopped" not in done.stderr

    def begun(self, project) -> tuple[subprocess.Popen[str], str]:
        """`oplab test`, and the line "now ..." that a test has printed."""
        command = [sys.executable, "-m", "oplab.cli", "test", project.folder, "--", "-s"]
        running = subprocess.Popen(
            command,
            env={**os.environ, "PYTEST_ADDOPTS": ""},  # with -v, "now" begins no line
            stdout=subprocess.PIPE,
            text=True,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        assert running.stdout is not None
        while not (line := running.stdout.readline()).startswith("now"):
            assert line, running.communicate()
        return running, line

    @pytest.mark.nightly
    def test_ctrl_c_ends_the_tests(self, project):
        text = "import time\n\ndef test_it():\n    print('now', flush=True)\n    time.sleep(600)\n"
        (project.folder / "tests/test_it.py").write_text(text)
        late = "import time\n\ndef pytest_keyboard_interrupt():\n    time.sleep(4)\n"  # as on a busy machine
        (project.folder / "tests/conftest.py").write_text(late)
        running, _ = self.begun(project)
        os.killpg(running.pid, signal.SIGINT)  # a terminal sends it to the whole group
        out, err = running.communicate(timeout=120)
        assert running.returncode == 130 and "KeyboardInterrupt" in out and "Traceback" not in err, (out, err)

    @pytest.mark.parametrize(
        ("change", "says"),
        [
            (lambda folder: (folder / "cpp/torch_op.cpp").unlink(), "The project has no"),
            (lambda folder: (folder / "pyproject.toml").write_text("[tool.black]\n"), "not the project of an operator"),
        ],
    )
    def test_what_is_wrong_is_a_sentence(self, project, change, says):
        change(project.folder)
        done = oplab("test", project.folder)
        assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="reads the processor from an ELF file, which only Linux has")
def test_a_library_for_another_processor_is_named(project, tmp_path):
    made = build_file(project.source("ort"), output=tmp_path / "made.so", say=str)
    content = bytearray(made.read_bytes())
    other = 183 if int.from_bytes(content[18:20], "little") == 62 else 62
    content[18:20] = other.to_bytes(2, "little")
    made.write_bytes(content)
    model = helper.make_model(helper.make_graph([], "g", [], []))
    with pytest.raises(OplabError, match=r"made.so was compiled for (AArch64|x86-64), and this Python runs on"):
        session(model, libraries=[made])
