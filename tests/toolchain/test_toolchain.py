"""The toolchain: compiling the course's operators and learners' exercises, the cache, and errors that a human reads."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oplab import OplabError
from oplab.toolchain import build, cache, compiler, recipes
from oplab.toolchain import compile as compiling
from oplab.toolchain.build import BuildFailed, compile_library
from oplab.toolchain.headers import ort_include
from tests.support import ROOT, run_python
from tests.support.cpp import KERNEL, OPERATOR, PROGRAM, endless_compiler, write


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
    shutil.copytree(ROOT / "csrc", root / "csrc")
    monkeypatch.setenv("ORT_INCLUDE_DIR", str(ort_include()))
    monkeypatch.setenv("OPLAB_ROOT", str(root))
    return root


class TestExercise:
    def test_an_ort_kernel_compiles_loads_runs_and_shows_its_entry_point_alone(self, tmp_path: Path):
        library = compile_library(write(tmp_path, KERNEL), "ort", cache=tmp_path / "cache")
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
        if not shutil.which("nm"):
            pytest.skip("nm is not installed")
        flags = ["-gU"] if sys.platform == "darwin" else ["-D", "--defined-only"]
        symbols = subprocess.run(["nm", *flags, library], capture_output=True, text=True, check=True).stdout.split()
        assert [name.lstrip("_") for name in symbols[2::3]] == ["RegisterCustomOps"], "only the entry point is visible"

    def test_a_host_program_is_linked_with_onnx_runtime_and_runs(self, tmp_path: Path):
        source = write(tmp_path, PROGRAM)
        program = compile_library(source, "host", cache=tmp_path / "cache")
        assert program.suffix == "" and os.access(program, os.X_OK)
        done = subprocess.run([program, "5"], capture_output=True, text=True, timeout=300)
        version = importlib.metadata.version("onnxruntime")
        assert (done.returncode, done.stdout) == (5, f"{version}, a table: 1\n"), done.stderr
        assert compile_library(source, "host", cache=tmp_path / "cache") == program

    def test_a_compiler_that_takes_too_long_is_ended(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """With all that it has started: a process that has the compiler's output open would be waited for."""
        monkeypatch.setenv("CXX", str(endless_compiler(tmp_path)))
        with pytest.raises(BuildFailed, match=r"c12_twice\.cpp: error: the compiler did not finish within 1 s"):
            compile_library(write(tmp_path, KERNEL), "ort", cache=tmp_path / "cache", timeout=1)
        assert not list((tmp_path / "cache").iterdir())


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
        first = compile_library(file, "torch", cache=tmp_path / "cache")
        os.utime(file, (1, 1))
        (tmp_path / "elsewhere").mkdir()
        copy = write(tmp_path / "elsewhere", OPERATOR)
        assert compile_library(copy, "torch", cache=tmp_path / "cache") == first
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

    def test_a_library_appears_whole(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        """It is put in its place by one rename on the same disk, so half of it is never seen."""
        moved: list[tuple[Path, Path]] = []

        def watching(source: Path, target: Path) -> None:
            assert not Path(target).exists() and Path(source).stat().st_size > 1000
            assert Path(source).stat().st_dev == Path(target).parent.stat().st_dev
            moved.append((Path(source), Path(target)))
            os.rename(source, target)

        monkeypatch.setattr(compiling.os, "replace", watching)
        library = compile_library(write(tmp_path, OPERATOR), "torch", cache=tmp_path / "cache")
        assert [target.suffix for _, target in moved] == [library.suffix, ".json"]  # the record comes last
        assert moved[0][1] == library and moved[0][0].parent.parent == library.parent

    def test_the_oldest_go_when_there_are_too_many(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(cache, "KEEP", 3)
        for number in range(6):
            file = write(tmp_path, "", f"x-{number}{recipes.SUFFIX if number % 2 else ''}")  # libraries and programs
            os.utime(file, (time.time() - 90_000 - number,) * 2)
        recent = write(tmp_path, "", f"x-today{recipes.SUFFIX}")
        cache.trim(tmp_path)
        assert {file.stem for file in tmp_path.iterdir()} == {"x-0", "x-1", recent.stem}


class TestCompiler:
    def test_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.delenv("CXX", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(OplabError) as caught:
            compiler.find_compiler()
        assert caught.value.message == "No C++ compiler was found."
        for way in ("apt install g++", "dnf install gcc-c++", "xcode-select --install", "conda install"):
            assert way in caught.value.fix

    def test_cxx_that_is_not_there_or_not_a_compiler(self, monkeypatch: pytest.MonkeyPatch):
        for named, words in {"no-such-compiler": "", "/bin/true --flag": ", which is not a C"}.items():
            monkeypatch.setenv("CXX", named)
            with pytest.raises(OplabError, match=f"CXX is set to '{named}'{words}"):
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


NOTHING_TO_DO = """
import sys
from oplab.toolchain import build
build.main()
print([name for name in ("torch", "onnx", "onnxruntime", "numpy") if name in sys.modules])
"""


class TestBuild:
    def build(self, **env: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "oplab.toolchain.build"]
        return subprocess.run(command, capture_output=True, text=True, timeout=900, env={**os.environ, **env}, cwd=ROOT)

    @pytest.mark.nightly
    def test_twice(self, small: Path):
        first = self.build()
        assert first.returncode == 0, first.stderr
        for kind in recipes.KINDS:
            assert build.library_path(kind).is_file()
            assert f"Compiling csrc/{kind}_ops" in first.stdout
        before = {kind: build.library_path(kind).stat().st_mtime_ns for kind in recipes.KINDS}
        second = run_python(NOTHING_TO_DO, env=dict(os.environ))
        assert second.stdout.splitlines() == ["The operators in build/lib are up to date.", "[]"], second.stderr
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

    @pytest.mark.nightly
    def test_without_cmake(self, small: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(build, "_cmake", lambda: None)
        said: list[str] = []
        assert build.build_all(say=said.append)
        for name in ("oplab_ort_ops", "oplab_host"):
            assert any(name in line and "one call of the compiler" in line for line in said)
        assert subprocess.run([build.host_path()], timeout=180).returncode == 0
        assert recipes.kernels_path().is_file()
        assert build.build_all(say=said.append) is False

    def test_an_error_in_csrc_exits_with_2(self, small: Path):
        write(small / "csrc" / "torch_ops", "int a = nmel;\n", "other.cpp")
        done = self.build()
        assert done.returncode == 2
        assert "other.cpp:1:" in done.stderr and "nmel" in done.stderr
        assert "Traceback" not in done.stderr
        assert not build.library_path("torch").exists()

    @pytest.mark.nightly
    def test_two_at_once(self, small: Path):
        command = [sys.executable, "-m", "oplab.toolchain.build"]
        two = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) for _ in range(2)]
        said = [process.communicate(timeout=900)[0] for process in two]
        assert [process.returncode for process in two] == [0, 0]
        assert sum("Compiling csrc/ort_ops" in text for text in said) == 1
        assert sum("up to date" in text for text in said) == 1

    @pytest.mark.nightly
    def test_a_library_that_was_damaged_is_made_again(self, small: Path):
        assert build.build_all(say=lambda line: None)
        build.library_path("torch").write_bytes(b"short")
        assert build.build_all(say=lambda line: None)

    @pytest.mark.nightly
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
