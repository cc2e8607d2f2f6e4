"""What a reader of a failed build is told: the compiler's, the linker's and the sanitizers' words, cut to a line of the exercise."""

from __future__ import annotations

import pickle
import signal
from pathlib import Path

import pytest

from oplab import OplabError
from oplab.toolchain import compiler, diagnostics
from oplab.toolchain.build import BuildFailed, compile_library, sanitizer_env
from tests.support import run_python
from tests.support.cpp import KERNEL, OPERATOR, write


def failure(folder: Path, text: str, kind: str = "ort", name: str = "c12_twice.cpp") -> BuildFailed:
    with pytest.raises(BuildFailed) as caught:
        compile_library(write(folder, text, name), kind, cache=folder / "cache")
    assert not list((folder / "cache").iterdir()), "nothing of a failed build is kept"
    return caught.value


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
        assert len(error.full_log) > 2000  # what a reader sees is short
        assert len(str(error)) < 700 and len(str(error).splitlines()) <= 3

    @pytest.mark.parametrize(
        ("right", "wrong", "line", "said"),
        [
            ("void Compute", "void compute", 19, "'Compute'"),
            ("onnxruntime_lite", "onxruntime_lite", 1, "onxruntime_lite_custom_op.h"),
        ],
    )
    def test_a_wrong_name(self, tmp_path: Path, right: str, wrong: str, line: int, said: str):
        error = failure(tmp_path, KERNEL.replace(right, wrong))
        assert error.line == line and said in error.message

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

    def test_an_entry_point_that_onnxruntime_cannot_see(self, tmp_path: Path):
        error = failure(tmp_path, KERNEL.replace('extern "C" ', ""))
        assert "RegisterCustomOps" in error.message and 'extern "C"' in error.message
        error = failure(tmp_path, "int nothing;\n")
        assert "RegisterCustomOps" in error.message and 'extern "C"' not in error.message

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


@pytest.mark.nightly
class TestSanitizers:
    # Past the end of the output: with ONNX Runtime's arena on, the write lands in the arena and is not noticed.
    @pytest.mark.parametrize(
        ("wrong", "finding"),
        [
            ("py[i + 4] = 2 * pa[i]", "heap-buffer-overflow"),
            ("py[i] = static_cast<int>(1e30f + pa[i])", "outside the range of representable values"),
        ],
    )
    def test_a_finding_names_the_line(self, tmp_path: Path, wrong: str, finding: str):
        file = write(tmp_path, KERNEL.replace("py[i] = 2 * pa[i]", wrong))
        library = compile_library(file, "ort", sanitize=True, cache=tmp_path / "cache")
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
            compile_library(write(tmp_path, KERNEL), "ort", sanitize=True, cache=tmp_path / "cache")
        assert not isinstance(caught.value, BuildFailed)
