"""The toolchain: compiling the course's operators and learners' exercises, the cache, and errors that a human reads."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oplab import OplabError, paths
from oplab.toolchain import build, cache, compiler, diagnostics, recipes
from oplab.toolchain import compile as compiling
from oplab.toolchain.build import BuildFailed, compile_exercise, sanitizer_env
from oplab.toolchain.headers import ort_include

REPO = Path(__file__).resolve().parents[2]

# What a learner of chapter 12 would write: one file, no header of the course.
KERNEL = """\
#include <onnxruntime_lite_custom_op.h>

using Ort::Custom::Tensor;

struct Twice {
  Twice(const OrtApi*, const OrtKernelInfo*) {}
  void Compute(const Tensor<float>& a, Tensor<float>& y) {
    const float* pa = a.Data();
    float* py = y.Allocate(a.Shape());
    for (int64_t i = 0; i < a.NumberOfElement(); ++i) {
      py[i] = 2 * pa[i];
    }
  }
};

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base) {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  Ort::InitApi(api);
  static const Ort::Custom::OrtLiteCustomStruct<Twice> op{"Twice", "CPUExecutionProvider"};
  static const Ort::CustomOpDomain domain = [] {
    Ort::CustomOpDomain made{"test.twice"};
    made.Add(&op);
    return made;
  }();
  return api->AddCustomOpDomain(options, domain);
}
"""

OPERATOR = """\
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

torch::stable::Tensor zeros_of(torch::stable::Tensor a) {
  torch::stable::Tensor y = torch::stable::empty_like(a);
  return torch::stable::zero_(y);
}

STABLE_TORCH_LIBRARY(test_toolchain, m) { m.def("zeros_of(Tensor a) -> Tensor"); }
STABLE_TORCH_LIBRARY_IMPL(test_toolchain, CPU, m) { m.impl("zeros_of", TORCH_BOX(&zeros_of)); }
"""


def write(folder: Path, text: str, name: str = "c12_twice.cpp") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def failure(folder: Path, text: str, kind: str = "ort", name: str = "c12_twice.cpp") -> BuildFailed:
    with pytest.raises(BuildFailed) as caught:
        compile_exercise(write(folder, text, name), kind, cache=folder / "cache")
    return caught.value


def run_python(code: str, *, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300, cwd=REPO)


def alive(pid: int) -> bool:
    """A zombie that nobody has collected yet does not count."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")


@pytest.fixture
def small(course: Path) -> Path:
    """The same with sources that compile in no time, for what is not about the operators."""
    for kind, text in (("torch", "int nothing;\n"), ("ort", 'extern "C" int RegisterCustomOps() { return 0; }\n')):
        folder = course / "csrc" / f"{kind}_ops"
        for source in folder.glob("*.cpp"):
            source.unlink()
        write(folder, text, "register.cpp")
        write(folder, "// nothing\n", "other.cpp")
    for source in (course / "csrc" / "host").glob("*.cpp"):
        source.unlink()
    write(course / "csrc" / "host", "int main() { return 0; }\n", "main.cpp")
    return course


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course of its own with the real ``csrc``, so that builds here never touch the reader's ``build/``."""
    root = tmp_path / "course"
    root.mkdir()
    (root / "course.toml").write_text("")
    shutil.copytree(REPO / "csrc", root / "csrc")
    monkeypatch.setenv("ORT_INCLUDE_DIR", str(ort_include()))
    monkeypatch.setenv("OPLAB_ROOT", str(root))
    return root


class TestExercise:
    def test_an_ort_kernel_compiles_loads_and_runs(self, tmp_path: Path):
        library = compile_exercise(write(tmp_path, KERNEL), "ort", cache=tmp_path / "cache")
        import numpy as np
        from onnx import TensorProto, helper

        from oplab import ops

        graph = helper.make_graph(
            [helper.make_node("Twice", ["a"], ["y"], domain="test.twice")],
            "g",
            [helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n"])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        )
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("test.twice", 1)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        (y,) = ops.session(model, libraries=[library]).run(None, {"a": np.arange(5, dtype=np.float32)})
        assert y.tolist() == [0, 2, 4, 6, 8]

    def test_a_torch_operator_compiles_loads_and_runs(self, tmp_path: Path):
        library = compile_exercise(write(tmp_path, OPERATOR), "torch", cache=tmp_path / "cache")
        code = f"""
import torch
torch.ops.load_library({str(library)!r})
print(torch.ops.test_toolchain.zeros_of(torch.ones(2, 3)).tolist())
"""
        done = run_python(code)
        assert done.stdout.strip() == "[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]", done.stderr

    def test_only_the_entry_point_is_visible(self, tmp_path: Path):
        library = compile_exercise(write(tmp_path, KERNEL), "ort", cache=tmp_path / "cache")
        if not shutil.which("nm"):
            pytest.skip("nm is not installed")
        flags = ["-gU"] if sys.platform == "darwin" else ["-D", "--defined-only"]
        symbols = subprocess.run(["nm", *flags, library], capture_output=True, text=True, check=True).stdout.split()
        assert [name.lstrip("_") for name in symbols[2::3]] == ["RegisterCustomOps"]

    def test_the_headers_of_csrc_can_be_included(self, tmp_path: Path):
        text = KERNEL.replace("#include", '#include "oplab_kernel.h"\n#include', 1)
        text = text.replace("Ort::Custom::OrtLiteCustomStruct<Twice>", "oplab::Op<Twice>")
        text = text.replace('{"Twice", "CPUExecutionProvider"}', '{"Twice"}')
        text = text.replace("void Compute", "Ort::Status Compute")
        text = text.replace("    }\n  }\n};", "    }\n    return Ort::Status{nullptr};\n  }\n};")
        assert compile_exercise(write(tmp_path, text), "ort", cache=tmp_path / "cache").is_file()

    def test_a_missing_file_is_a_sentence(self, tmp_path: Path):
        with pytest.raises(OplabError, match=r"There is no C\+\+ file .*gone\.cpp"):
            compile_exercise(tmp_path / "gone.cpp", "ort", cache=tmp_path / "cache")

    def test_a_compiler_that_takes_too_long_is_ended(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        real = compiler.find_compiler().command[0]
        child = tmp_path / "child"
        text = f'#!/bin/sh\ncase "$1" in -dM) exec {real} "$@";; esac\nsleep 600 & echo $! > {child}\nwait\n'
        slow = write(tmp_path, text, "slow-c++")
        slow.chmod(0o755)
        monkeypatch.setenv("CXX", str(slow))
        file = write(tmp_path, KERNEL)
        start = time.monotonic()
        with pytest.raises(BuildFailed, match=r"c12_twice\.cpp: error: the compiler did not finish within 5 s"):
            compile_exercise(file, "ort", cache=tmp_path / "cache", timeout=5)
        assert time.monotonic() - start < 300, "it waited for what the compiler had started"
        assert not list((tmp_path / "cache").iterdir())
        deadline = time.monotonic() + 120
        while alive(int(child.read_text())) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not alive(int(child.read_text())), "what the compiler started has to end with it"


class TestCache:
    @pytest.fixture
    def calls(self, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
        """The commands that were really run."""
        made: list[list[str]] = []

        def counting(command: list[str], **more):
            made.append(command)
            return compiler.run(command, **more)

        monkeypatch.setattr(compiling, "run", counting)
        return made

    def test_the_same_content_is_compiled_once(self, tmp_path: Path, calls: list):
        file = write(tmp_path, OPERATOR)
        first = compile_exercise(file, "torch", cache=tmp_path / "cache")
        os.utime(file, (1, 1))
        assert compile_exercise(file, "torch", cache=tmp_path / "cache") == first
        (tmp_path / "elsewhere").mkdir()
        copy = write(tmp_path / "elsewhere", OPERATOR)
        assert compile_exercise(copy, "torch", cache=tmp_path / "cache") == first
        assert len(calls) == 1

    def test_what_the_key_depends_on(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        own = write(tmp_path, "int a;", "own.h")
        write(tmp_path, "int b;", "deep.h")
        file = write(tmp_path, '#include "own.h"\n#include <deep.h>\n' + KERNEL)
        how, cxx = recipes.recipe("ort"), compiler.find_compiler()

        def key(how=how, cxx=cxx, sanitize=False) -> str:
            return cache.key(cxx, how, [file], sanitize=sanitize)

        start = key()
        seen = {start}
        for change in (
            lambda: file.write_text(file.read_text() + "\n"),
            lambda: own.write_text("int a = 1;"),
            lambda: own.write_text('#include "deep.h"'),
            lambda: (tmp_path / "deep.h").write_text("int b = 2;"),
        ):
            change()
            assert key() not in seen
            seen.add(key())
        other_compiler = compiler.Compiler(cxx.command, cxx.family, (99, 0, 0))
        assert key(cxx=other_compiler) not in seen
        assert key(sanitize=True) not in seen
        newer = recipes.Recipe(how.kind, how.flags, how.link, how.includes, "ORT API 99")
        assert key(how=newer) not in seen
        flags = recipes.Recipe(how.kind, (*how.flags, "-DX"), how.link, how.includes, how.versions)
        assert key(how=flags) not in seen
        assert key() in seen

    def test_a_header_of_the_project_is_part_of_the_key(self, course: Path):
        source = course / "csrc" / "ort_ops" / "my_add.cpp"
        how, cxx = recipes.recipe("ort"), compiler.find_compiler()
        before = cache.key(cxx, how, [source], sanitize=False)
        header = course / "csrc" / "ort_ops" / "oplab_kernel.h"
        header.write_text(header.read_text() + "// changed\n")
        assert cache.key(cxx, how, [source], sanitize=False) != before

    def test_a_library_appears_whole(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """It is put in its place by one rename on the same disk, so nobody ever sees half of it."""
        moved: list[tuple[Path, Path]] = []

        def watching(source: Path, target: Path) -> None:
            assert not Path(target).exists() and Path(source).stat().st_size > 1000
            moved.append((Path(source), Path(target)))
            os.rename(source, target)

        monkeypatch.setattr(compiling.os, "replace", watching)
        library = compile_exercise(write(tmp_path, OPERATOR), "torch", cache=tmp_path / "cache")
        assert [target for _, target in moved] == [library]
        assert moved[0][0].parent.parent == library.parent

    def test_a_failed_build_leaves_nothing_behind(self, tmp_path: Path):
        failure(tmp_path, "int broken\n")
        assert not list((tmp_path / "cache").iterdir())

    def test_two_processes_at_once(self, tmp_path: Path):
        file = write(tmp_path, OPERATOR)
        code = f"""
from pathlib import Path
from oplab.toolchain.build import compile_exercise
print(compile_exercise(Path({str(file)!r}), "torch", cache=Path({str(tmp_path / "cache")!r})))
"""
        two = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
        said = [process.communicate(timeout=300)[0].strip() for process in two]
        assert [process.returncode for process in two] == [0, 0]
        assert said[0] == said[1]
        assert [file.name for file in (tmp_path / "cache").iterdir()] == [Path(said[0]).name]

    def test_the_oldest_go_when_there_are_too_many(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(cache, "KEEP", 3)
        for number in range(6):
            file = write(tmp_path, "", f"x{number}{recipes.SUFFIX}")
            os.utime(file, (time.time() - 90_000 - number,) * 2)
        recent = write(tmp_path, "", f"today{recipes.SUFFIX}")
        cache.trim(tmp_path)
        assert {file.stem for file in tmp_path.iterdir()} == {"x0", "x1", recent.stem}


class TestErrors:
    """Each is a mistake that people make, and what they should read."""

    def test_a_missing_semicolon(self, tmp_path: Path):
        error = failure(tmp_path, KERNEL.replace("y.Allocate(a.Shape());", "y.Allocate(a.Shape())"))
        assert error.file == tmp_path / "c12_twice.cpp"
        assert error.line in (9, 10)  # clang points at the end of line 9, g++ at what follows it
        assert "';'" in error.message
        assert "float* py = y.Allocate(a.Shape())" in error.quoted_source_line
        if error.line == 10:
            assert "(look at the end of line 9)" in error.message

    def test_an_unknown_identifier(self, tmp_path: Path):
        error = failure(tmp_path, KERNEL.replace("2 * pa[i]", "alhpa * pa[i]"))
        assert error.line == 11
        assert "c12_twice.cpp:11:15: error: " in error.message
        assert "'alhpa'" in error.message
        source, caret = error.quoted_source_line.splitlines()
        assert source == "   11 |       py[i] = alhpa * pa[i];"
        assert source.index("alhpa") == caret.index("^")

    def test_a_parameter_that_the_lite_api_does_not_take(self, tmp_path: Path):
        error = failure(tmp_path, KERNEL.replace("Tensor<float>& y)", "Tensor<float> y)"))
        assert error.file == tmp_path / "c12_twice.cpp"
        assert "Twice> op" in error.quoted_source_line
        assert "parameter" in error.message and "`Ort::Custom::Tensor<T>&`" in error.message
        assert "Ort::Custom::Tensor<float> in Compute" in error.message or "clang" in str(compiler.find_compiler())

    def test_a_wrong_template_argument(self, tmp_path: Path):
        error = failure(tmp_path, KERNEL.replace("OrtLiteCustomStruct<Twice>", "OrtLiteCustomStruct<int>"))
        assert error.line == 19
        assert "non-class type 'int'" in error.message
        assert "onnxruntime_lite_custom_op.h:" in error.message and "which this line uses" in error.message

    def test_a_missing_method(self, tmp_path: Path):
        error = failure(tmp_path, KERNEL.replace("void Compute", "void compute"))
        assert error.line == 19
        assert "'Compute'" in error.message and "'Twice'" in error.message

    def test_a_missing_include(self, tmp_path: Path):
        error = failure(tmp_path, KERNEL.replace("#include", "//", 1))
        assert error.line == 3
        assert "'Ort'" in error.message

    def test_a_missing_standard_include(self, tmp_path: Path):
        error = failure(tmp_path, "std::map<int, int> counts;\n", name="c07_map.cpp")
        assert error.line == 1
        assert "std" in error.message

    def test_a_header_that_does_not_exist(self, tmp_path: Path):
        error = failure(tmp_path, KERNEL.replace("onnxruntime_lite", "onxruntime_lite"))
        assert error.line == 1
        assert "onxruntime_lite_custom_op.h" in error.message

    @pytest.mark.parametrize("kind", ["ort", "torch"])
    def test_an_undefined_symbol(self, tmp_path: Path, kind: str):
        text = {"ort": KERNEL, "torch": OPERATOR}[kind]
        call = {"ort": "float* py", "torch": "torch::stable::Tensor y"}[kind]
        text = text.replace(call, f"helper::scale(2); {call}").replace("\nstruct", "\n\nstruct")
        text = text.replace(">\n\n", ">\n\nnamespace helper { float scale(int by); }\n", 1)
        error = failure(tmp_path, text, kind)
        assert "helper::scale(int) is declared and used, but not defined" in error.message
        assert error.file == tmp_path / "c12_twice.cpp"
        assert "helper::scale(2);" in error.quoted_source_line

    @pytest.mark.parametrize("instead", ["", "static "])
    def test_an_entry_point_that_onnxruntime_cannot_see(self, tmp_path: Path, instead: str):
        error = failure(tmp_path, KERNEL.replace('extern "C" ', instead))
        assert "RegisterCustomOps" in error.message
        assert 'extern "C"' in error.message

    def test_no_entry_point(self, tmp_path: Path):
        error = failure(tmp_path, "int nothing;\n")
        assert "RegisterCustomOps" in error.message
        assert 'extern "C"' not in error.message

    def test_an_error_directive_is_passed_on(self, tmp_path: Path):
        error = failure(tmp_path, "#error c12.twice is not written yet\n")
        assert "c12.twice is not written yet" in str(error)

    def test_what_a_reader_sees_is_short(self, tmp_path: Path):
        error = failure(tmp_path, KERNEL.replace("Tensor<float>& y)", "Tensor<float> y)"))
        assert len(error.full_log) > 2000
        assert len(str(error)) < 700
        assert len(str(error).splitlines()) <= 3

    def test_it_survives_a_pipe_between_processes(self, tmp_path: Path):
        error = failure(tmp_path, "int broken\n")
        again = pickle.loads(pickle.dumps(error))
        assert (again.message, again.file, again.line) == (error.message, error.file, error.line)
        assert (again.quoted_source_line, again.full_log) == (error.quoted_source_line, error.full_log)

    def test_the_caret_stands_under_its_character_after_tabs(self, tmp_path: Path):
        file = write(tmp_path, "\t\tint x = yy;\n")
        assert diagnostics.quote(file, 1, 11).splitlines()[1] == "      | \t\t        ^"

    def test_words_of_other_linkers(self, tmp_path: Path):
        file = write(tmp_path, "float helper(int);\nfloat f() { return helper(3); }\n")
        for log in (
            "ld.lld: error: undefined symbol: helper(int)\n>>> referenced by c12_twice.cpp:2\n",
            'Undefined symbols for architecture arm64:\n  "helper(int)", referenced from:\n      f() in c12.o\n',
        ):
            error = diagnostics.build_failed(log, file)
            assert error.line == 2 and "helper(int) is declared and used" in error.message
        for log in (
            "ld.lld: error: --defsym:1: symbol not found: RegisterCustomOps\n",
            'Undefined symbols for architecture arm64:\n  "_RegisterCustomOps", referenced from:\n     -u option\n',
        ):
            assert "ONNX Runtime calls RegisterCustomOps first" in diagnostics.build_failed(log, file).message


class TestSanitizers:
    # Past the end of the output: with ONNX Runtime's arena on, the write lands in the arena and nobody notices.
    @pytest.mark.parametrize(
        ("wrong", "finding"),
        [
            ("py[i + 4] = 2 * pa[i]", "heap-buffer-overflow"),
            ("py[i] = 2 * pa[i] + ((1 << 30) * int(i + 2))", "overflow"),
            ("py[i] = static_cast<int>(1e30f + pa[i])", "outside the range of representable values"),
        ],
    )
    def test_a_finding_names_the_line(self, tmp_path: Path, wrong: str, finding: str):
        file = write(tmp_path, KERNEL.replace("py[i] = 2 * pa[i]", wrong))
        library = compile_exercise(file, "ort", sanitize=True, cache=tmp_path / "cache")
        code = f"""
import numpy as np
from onnx import TensorProto, helper
from oplab import ops
graph = helper.make_graph(
    [helper.make_node("Twice", ["a"], ["y"], domain="test.twice")], "g",
    [helper.make_tensor_value_info("a", TensorProto.FLOAT, ["n"])],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
)
opsets = [helper.make_opsetid("", 20), helper.make_opsetid("test.twice", 1)]
model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
session = ops.session(model, libraries=[{str(library)!r}])
print("before", flush=True)  # what is buffered is lost when the process aborts
session.run(None, {{"a": np.zeros(10, np.float32)}})
print("after")
"""
        done = run_python(code, env=sanitizer_env())
        assert "before" in done.stdout and "after" not in done.stdout, done.stdout + done.stderr
        assert done.returncode == -signal.SIGABRT
        assert finding in done.stderr
        assert "c12_twice.cpp:11" in done.stderr

    def test_no_sanitizer_is_not_the_exercise_s_fault(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        real = compiler.find_compiler()
        fake = write(
            tmp_path,
            f'#!/bin/sh\ncase "$1" in -print-file-name=*asan*) echo none;; *) exec {real.command[0]} "$@";; esac\n',
            "c++",
        )
        fake.chmod(0o755)
        monkeypatch.setenv("CXX", str(fake))
        with pytest.raises(OplabError, match="has no AddressSanitizer") as caught:
            compile_exercise(write(tmp_path, KERNEL), "ort", sanitize=True, cache=tmp_path / "cache")
        assert not isinstance(caught.value, BuildFailed)


class TestCompiler:
    def test_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.delenv("CXX", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(OplabError) as caught:
            compiler.find_compiler()
        assert caught.value.message == "No C++ compiler was found."
        for way in ("apt install g++", "dnf install gcc-c++", "xcode-select --install", "conda install"):
            assert way in caught.value.fix

    def test_cxx_that_is_not_there(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("CXX", "no-such-compiler")
        with pytest.raises(OplabError, match="CXX is set to 'no-such-compiler'"):
            compiler.find_compiler()

    def test_cxx_that_is_not_a_compiler(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("CXX", "/bin/true --flag")
        with pytest.raises(OplabError, match="CXX is set to '/bin/true --flag', which is not a C"):
            compiler.find_compiler()

    def test_too_old(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        old = write(
            tmp_path,
            "#!/bin/sh\necho '#define __cplusplus 201402L'\necho '#define __GNUC__ 9'\necho '#define __GNUC_MINOR__ 4'\n",
            "g++-9",
        )
        old.chmod(0o755)
        monkeypatch.setenv("CXX", str(old))
        with pytest.raises(OplabError, match=r"too old: g\+\+ 9\.4\.0 .* C\+\+20: g\+\+ 11 or newer"):
            compiler.find_compiler()

    def test_a_broken_one_is_passed_over(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        real = shutil.which(compiler.find_compiler().command[0])
        for name, text in (("c++", "#!/bin/sh\nexit 1\n"), ("g++", f'#!/bin/sh\nexec {real} "$@"\n')):
            write(tmp_path, text, name).chmod(0o755)
        monkeypatch.delenv("CXX", raising=False)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        assert compiler.find_compiler().command == (str(tmp_path / "g++"),)

    def test_a_relative_cxx(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        real = compiler.find_compiler().command[0]
        write(tmp_path, f'#!/bin/sh\nexec {real} "$@"\n', "mine").chmod(0o755)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("CXX", "./mine")
        assert compile_exercise(write(tmp_path, OPERATOR), "torch", cache=tmp_path / "cache").is_file()

    @pytest.mark.parametrize("part", [*recipes.KINDS, "host"])
    def test_csrc_compiles_without_a_warning(self, part: str):
        """As it was compiled: some warnings come from the optimiser alone."""
        build.build_all(say=lambda line: None)
        log = build.log_path(part).read_text()
        assert "warning:" not in log, log

    def test_torch_paths_are_those_of_cpp_extension(self):
        from torch.utils import cpp_extension

        flags = recipes.recipe("torch").flags
        for folder in cpp_extension.include_paths("cpu"):
            assert f"-isystem{folder}" in flags
        for folder in cpp_extension.library_paths("cpu"):
            assert f"-L{folder}" in recipes.recipe("torch").link


class TestBuild:
    def build(self, **env: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "oplab.toolchain.build"]
        return subprocess.run(command, capture_output=True, text=True, timeout=900, env={**os.environ, **env}, cwd=REPO)

    def test_twice(self, small: Path):
        first = self.build()
        assert first.returncode == 0, first.stderr
        for kind in recipes.KINDS:
            assert build.library_path(kind).is_file()
            assert f"Compiling csrc/{kind}_ops" in first.stdout
        before = {kind: build.library_path(kind).stat().st_mtime_ns for kind in recipes.KINDS}
        second = self.build()
        assert second.stdout.strip() == "The operators in build/lib are up to date."
        assert before == {kind: build.library_path(kind).stat().st_mtime_ns for kind in recipes.KINDS}
        # A change compiles again what it touches, and only that.
        other = small / "csrc" / "ort_ops" / "other.cpp"
        other.write_text("// changed\n")
        third = self.build()
        assert "Compiling csrc/ort_ops" in third.stdout and "torch_ops" not in third.stdout
        assert "Compiling csrc/host" in third.stdout  # the program has the kernels in it
        (small / "csrc" / "host" / "main.cpp").write_text("int main() { return 1; }\n")
        fourth = self.build()
        assert "Compiling csrc/host" in fourth.stdout and "ort_ops" not in fourth.stdout

    def test_without_cmake(self, small: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(build, "_cmake", lambda: None)
        said: list[str] = []
        assert build.build_all(say=said.append)
        for name in ("oplab_ort_ops", "oplab_host"):
            assert any(name in line and "one call of the compiler" in line for line in said)
        assert subprocess.run([build.host_path()], timeout=180).returncode == 0
        assert recipes.kernels_path().is_file()
        assert build.build_all(say=said.append) is False

    def test_a_cmake_that_fails_is_done_without(self, small: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(build, "_cmake", lambda: "/bin/false")
        said: list[str] = []
        assert build.build_all(say=said.append)
        assert build.library_path("ort").is_file()

    def test_nothing_to_do_imports_nothing_heavy(self, small: Path):
        code = """
import sys
from oplab.toolchain import build
build.build_all()
build.build_all()
print([name for name in ("torch", "onnx", "onnxruntime", "numpy") if name in sys.modules])
"""
        assert run_python(code, env=dict(os.environ)).stdout.splitlines()[-1] == "[]"

    def test_an_error_in_csrc_exits_with_2(self, course: Path):
        kernel = course / "csrc" / "torch_ops" / "my_add.cpp"
        kernel.write_text(kernel.read_text().replace("a.numel()", "a.nmel()"))
        done = self.build()
        assert done.returncode == 2
        assert "my_add.cpp:" in done.stderr and "nmel" in done.stderr
        assert "Traceback" not in done.stderr
        assert not build.library_path("torch").exists()

    def test_no_compiler_exits_with_2(self, small: Path, tmp_path: Path):
        done = self.build(PATH=str(tmp_path), CXX="")
        assert done.returncode == 2
        assert done.stderr.startswith("No C++ compiler was found.") and "apt install g++" in done.stderr

    def test_killed_in_the_middle_and_repeated(self, small: Path):
        process = subprocess.Popen([sys.executable, "-m", "oplab.toolchain.build"], cwd=REPO, stdout=subprocess.PIPE)
        deadline = time.monotonic() + 300
        while not list((small / "build").glob("lib/.making-*/*.o")) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        process.communicate()
        again = self.build()
        assert again.returncode == 0, again.stderr
        assert "up to date" not in again.stdout
        assert "up to date" in self.build().stdout

    def test_two_at_once(self, small: Path):
        command = [sys.executable, "-m", "oplab.toolchain.build"]
        two = [subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        said = [process.communicate(timeout=900)[0] for process in two]
        assert [process.returncode for process in two] == [0, 0]
        assert sum("Compiling csrc/ort_ops" in text for text in said) == 1
        assert sum("up to date" in text for text in said) == 1

    def test_a_library_that_was_damaged_is_made_again(self, small: Path):
        assert build.build_all(say=lambda line: None)
        build.library_path("torch").write_bytes(b"short")
        assert build.build_all(say=lambda line: None)

    def test_the_cmake_project_builds_an_exercise(self, course: Path, tmp_path: Path):
        cmake = build._cmake()
        if not cmake:
            pytest.skip("CMake is not installed")
        exercise = write(tmp_path, KERNEL)
        made = tmp_path / "made"
        where = ["-S", str(course / "csrc" / "ort_ops"), "-B", str(made)]
        flags = [f"-DORT_INCLUDE_DIR={ort_include()}", f"-DOPLAB_EXERCISE={exercise}"]
        subprocess.run([cmake, *where, *flags], check=True, capture_output=True)
        subprocess.run([cmake, "--build", str(made)], check=True, capture_output=True)
        assert (made / f"c12_twice{recipes.SUFFIX}").is_file()

    def test_a_folder_that_cannot_be_written(self, small: Path):
        (small / "build").mkdir()
        (small / "build" / "lib").write_text("a file where a folder belongs")
        done = self.build()
        assert done.returncode == 2 and "cannot be created" in done.stderr and "Traceback" not in done.stderr


def test_the_repo_s_root_is_used():
    assert paths.root() == REPO or "OPLAB_ROOT" in os.environ
