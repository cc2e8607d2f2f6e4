"""``oplab new-operator``: the project passes its own tests, they notice what is wrong, and bad input leaves nothing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from onnx import helper

from oplab import paths
from oplab.cli.main import main
from oplab.errors import OplabError
from oplab.project import new, schema
from oplab.project.build import build_file, build_project
from oplab.project.layout import open_project
from oplab.toolchain.headers import ort_include

DEFAULT = schema.from_options("x,y", "z", "alpha=1.0")


def own_tests(folder: Path, *words: str) -> subprocess.CompletedProcess:
    """The project's own tests, as they are run by hand."""
    command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "no:cacheprovider", *words]
    env = {**os.environ, "PYTHONPATH": str(Path(new.__file__).parents[2]), "OPLAB_ROOT": str(paths.root())}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=500)


@pytest.fixture(scope="module")
def project(tmp_path_factory, compiled) -> Path:
    """The project that comes without options, built."""
    folder = tmp_path_factory.mktemp("default") / "soft_add"
    new.create(new.Plan("soft_add", DEFAULT), folder)
    build_project(open_project(folder), say=lambda line: None)
    return folder


def test_the_default_project_passes(project):
    done = own_tests(project)
    assert done.returncode == 0 and re.search(r"\d\d passed", done.stdout), done.stdout + done.stderr
    assert "skipped" not in done.stdout


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("text", "dtypes"),
    [
        (
            '(Tensor x, Tensor? data, Tensor w, int[] pads=[1, 2], str mode="near", float[] gains=[0.1, 2.0]) -> (Tensor lo, Tensor hi)',
            ("float", "double", "half", "bfloat16"),
        ),
        ("(Tensor x) -> Tensor", ("float",)),
        # Multi-scale deformable attention, and what it has not.
        (
            "value:float[N,S,M,D] spatial_shapes:int64[L,2] level_start_index:int64[L] locations:float[N,Q,M,L,P,2] "
            "weights:float[N,Q,M,L,P] im2col_step=64 -> y:float[N,Q,M*D]",
            ("float", "double"),
        ),
        (
            "mask?:int32[N] x:float[N,C] w:float[C,N*K,3] gains:float[K] bias?:float[C] pads=[1,2] -> lo:float[N,2*C] hi:float[]",
            ("float", "half", "bfloat16"),
        ),
    ],
    ids=["many", "one", "shapes", "more shapes"],
)
def test_another_combination_passes(tmp_path, compiled, text, dtypes):
    folder = tmp_path / "blend_all"
    new.create(new.Plan("blend_all", schema.from_text(text), "acme", dtypes), folder)
    build_project(open_project(folder), say=lambda line: None)
    done = own_tests(folder)
    assert done.returncode == 0 and re.search(r"\d\d passed", done.stdout), done.stdout + done.stderr


@pytest.mark.nightly
class TestItsTestsNotice:
    """Each change is one that a user could make by mistake; the tests that are named have to fail."""

    @pytest.fixture
    def copy(self, project, tmp_path):
        return Path(shutil.copytree(project, tmp_path / project.name, symlinks=True))

    @staticmethod
    def change(file: Path, before: str, after: str) -> None:
        text = file.read_text()
        assert text.count(before) == 1
        file.write_text(text.replace(before, after))

    @staticmethod
    def failed(folder: Path, words: str) -> str:
        done = own_tests(folder, "-k", words)
        assert done.returncode == 1, done.stdout + done.stderr
        return "\n".join(line for line in done.stdout.splitlines() if line.startswith("FAILED"))

    def test_another_formula_in_the_reference(self, copy):
        self.change(copy / "src" / "soft_add" / "reference.py", "/ (1 + t * t)\n\n", "/ (2 + t * t)\n\n")
        failed = self.failed(copy, "kernel or operator or torchscript")
        assert "test_operator.py::test_it_computes_what_the_reference_does" in failed
        assert "test_kernel.py::test_it_computes_what_the_reference_does" in failed
        assert "test_parity.py::test_all_backends_agree[torchscript]" in failed

    def test_a_wrong_backward(self, copy):
        self.change(copy / "src" / "soft_add" / "torch_op.py", "return slope, 2 * slope", "return slope, slope")
        assert "test_gradcheck" in self.failed(copy, "gradcheck")

    def test_a_fake_of_another_shape(self, copy):
        self.change(copy / "src" / "soft_add" / "torch_op.py", "torch.empty_like(x,", "torch.empty_like(x[..., :1],")
        assert "test_opcheck" in self.failed(copy, "opcheck")

    @pytest.mark.parametrize(
        ("exporter", "before"), [("dynamo", ", alpha=alpha)"), ("torchscript", ", alpha_f=alpha)")]
    )
    def test_an_attribute_that_an_exporter_drops(self, copy, exporter, before):
        self.change(copy / "src" / "soft_add" / "export.py", before, ")")
        assert f"test_all_backends_agree[{exporter}]" in self.failed(copy, exporter)

    def test_a_read_past_the_end(self, copy):
        self.change(copy / "cpp" / "soft_add.h", "static_cast<Compute<T>>(x[i])", "static_cast<Compute<T>>(x[i + 1])")
        assert "test_sanitizers.py" in self.failed(copy, "sanitizers")

    def test_a_check_that_is_missing(self, copy):
        self.change(copy / "cpp" / "soft_add.h", "if (y != x) {", "if (y.size() != x.size()) {")
        build_file(
            copy / "cpp" / "ort_op.cpp", "ort", copy / "src" / "soft_add" / "soft_add_ort.so", say=lambda line: None
        )
        assert "test_a_wrong_shape_is_a_sentence" in self.failed(copy, "kernel")


RUN_THE_WHEEL = """
import sys
import numpy as np, onnxruntime, soft_add
options = onnxruntime.SessionOptions()
options.register_custom_ops_library(str(soft_add.ort_library))
run = onnxruntime.InferenceSession(sys.stdin.buffer.read(), options).run
print(run(None, dict.fromkeys("xy", np.zeros(2, np.float32)))[0])
soft_add.soft_add
"""


@pytest.mark.nightly
def test_the_wheel(project, tmp_path):
    """Small, for every Python, with the files that a user needs; a machine without PyTorch runs its kernels."""
    env = {**os.environ, "ORT_INCLUDE_DIR": str(ort_include())}
    options = ["--no-build-isolation", "--no-deps", "-q", "-w", str(tmp_path)]
    command = [sys.executable, "-m", "pip", "wheel", ".", *options]
    done = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith("soft_add-0.1.0-py3-none-") and "any" not in wheel.name
    assert wheel.stat().st_size < 500_000
    names = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("soft_add/")}
    assert {
        f"soft_add/{name}" for name in ("__init__.py", "soft_add_torch.so", "soft_add_ort.so", "soft_add_ort.toml")
    } <= names
    assert not any("__pycache__" in name for name in names)
    metadata = zipfile.ZipFile(wheel).read("soft_add-0.1.0.dist-info/METADATA").decode()
    assert "Requires-Dist: torch" in metadata and not re.search(r"^Requires-Dist: [^;]*$", metadata, re.MULTILINE)
    fresh = tmp_path / "fresh"
    venv.create(fresh, symlinks=True)
    site = next(fresh.glob("lib/python3*/site-packages"))
    for package in ("numpy", "onnxruntime"):
        for found in (Path(sysconfig.get_paths()["purelib"]) / package).parent.glob(f"{package}*"):
            (site / found.name).symlink_to(found)
    zipfile.ZipFile(wheel).extractall(site)
    node = helper.make_node("SoftAdd", ["x", "y"], ["z"], domain="my")
    ends = {name: helper.make_tensor_value_info(name, 1, [2]) for name in "xyz"}
    graph = helper.make_graph([node], "g", [ends["x"], ends["y"]], [ends["z"]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("my", 1)], ir_version=10).SerializeToString()
    done = subprocess.run(
        [fresh / "bin" / "python", "-I", "-c", RUN_THE_WHEEL], input=model, capture_output=True, timeout=60
    )
    assert done.stdout == b"[0. 0.]\n" and b"No module named 'torch'" in done.stderr, done.stderr.decode()


class TestWhatIsMade:
    @pytest.mark.parametrize(
        "text",
        [
            "(" + ", ".join(f"Tensor? an_input_with_a_long_name_{n}" for n in range(8)) + ", Tensor x) -> Tensor",
            "(int n, Tensor? mask, Tensor x, float[] s, str mode='') -> (Tensor, Tensor, Tensor)",
            "a?:int32[N] x:float[N,C,H,W] s:float[2*N] n=1 -> y:float[N,2*C] z:float[]",
        ],
    )
    def test_it_is_tidy(self, tmp_path, text):
        files = new.create(new.Plan("fold_in", schema.from_text(text)), tmp_path / "made")
        for name in files:
            content = (tmp_path / "made" / name).read_text()
            if name.parts[0] == "host" or "oplab" in name.parts:
                continue  # copies
            assert not re.search(r"\{\{|\{%", content) and content.endswith("\n"), name
            assert not re.search(r"[ \t]+$|\n{4}", content, re.MULTILINE), name
            if name.suffix == ".py":
                compile(content, str(name), "exec")
            if name.suffix in (".py", ".h", ".cpp"):
                assert max(map(len, content.splitlines())) <= 140, name

    def test_it_does_not_depend_on_the_course(self, project):
        """What is compiled includes the project's own files alone, and what libraries bring."""
        for file in [*project.rglob("*.h"), *project.rglob("*.cpp")]:
            for name in re.findall(r'^#include "(.*)"', file.read_text(), re.MULTILINE):
                assert any((folder / name).is_file() for folder in (file.parent, project / "cpp")), f"{file}: {name}"


def run(monkeypatch, *words: str) -> int:
    """The exit code of the command."""
    monkeypatch.setenv("OPLAB_ROOT", str(paths.root()))
    monkeypatch.setattr(sys, "argv", ["oplab", "new-operator", *words])
    try:
        main()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


class TestBadInput:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["torch"], "already has a package 'torch'"),
            (["class"], "'class' is a keyword"),
            (["RoiAlign"], "not in snake_case"),
            (["taken"], "exists already"),
            (["fold_in", "--to", "no/such/folder"], "There is no folder"),
            (["fold_in", "--domain", "onnx"], "'onnx' is taken"),
            (["fold_in", "--schema", "(Tensor x"], "The schema cannot be parsed"),
            (["fold_in", "--schema", "(Tensor x) -> Tensor", "--inputs", "x"], "--schema replaces"),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_it_is_one_sentence(self, tmp_path, monkeypatch, capsys, words, said):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "taken").mkdir()
        (tmp_path / "taken" / "file").write_text("mine")
        assert run(monkeypatch, *words) == 2
        out, error = capsys.readouterr()
        assert not out and said in error.splitlines()[0] and "Traceback" not in error
        assert [path.name for path in sorted(tmp_path.rglob("*"))] == ["taken", "file"]

    def test_a_failure_halfway_leaves_nothing(self, tmp_path):
        """The folder's name is short enough, and one of the files' is not."""
        with pytest.raises(OplabError, match="cannot be written: File name too long"):
            new.create(new.Plan("a" * 250, DEFAULT), tmp_path / "made")
        assert list(tmp_path.iterdir()) == []
