"""The wheel of chapter 17 in new environments with other versions of ONNX Runtime and PyTorch, and what the lesson says about them."""

from __future__ import annotations

import ast
import importlib.metadata
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from oplab import paths
from oplab.toolchain.build import compile_library
from oplab.toolchain.compiler import find_compiler
from oplab.toolchain.headers import ort_include
from oplab.toolchain.recipes import recipe, torch_folder
from tests.support import ROOT

pytestmark = pytest.mark.nightly

CPP = ROOT / "notebooks" / "cpp"
# The oldest that the library supports, the last one before the headers, the headers' own, the last one with a known fault, one that is
# newer than the pinned one. OPLAB_OTHER_ORT="1.22.1 1.24.4" adds others. The wheels
# before 1.19 were made for NumPy 1.
RUNTIMES = ("1.16.3", "1.20.1", "1.21.1", "1.23.2", "1.32.0", *os.environ.get("OPLAB_OTHER_ORT", "").split())
NUMPY_1 = "1.26.4"

RUN = """
import sys
import numpy as np
import onnxruntime

results = []
for model in sys.argv[2:]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if sys.argv[1] == "wheel":
        import my_add_ops
        library = my_add_ops.ort_library
    else:
        library = sys.argv[1]
    options.register_custom_ops_library(str(library))
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    ones = np.ones(100_000, np.float32)
    (y,) = session.run(None, {"a": ones, "b": ones})
    assert y.shape == ones.shape and (y == y[0]).all()
    results.append(int(y[0]))
print(onnxruntime.__version__, results, "torch" in sys.modules, hasattr(onnxruntime, "register_execution_provider_library"))
"""

IN_TORCH = """
import ctypes, sys, torch
from my_add_ops.pytorch import my_add

try:
    ctypes.CDLL(sys.argv[1])
except OSError as error:
    said = str(error).split(": ")[-2:]
else:
    said = "loaded"
print(torch.__version__.split("+")[0], my_add(torch.ones(2), torch.ones(2)).tolist(), said)
"""


def texts() -> dict[str, str]:
    """The project's files, as the cells of the lesson have them."""
    tree = ast.parse((ROOT / "notebooks" / "src" / "17_shipping.py").read_text(encoding="utf-8"))
    names = {"PYPROJECT": "pyproject.toml", "CMAKE": "CMakeLists.txt", "EXPORTS": "exports.map"}
    names |= {"INIT": "src/my_add_ops/__init__.py", "PYTORCH": "src/my_add_ops/pytorch.py"}
    found = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in names:
            found[names[node.targets[0].id]] = ast.literal_eval(node.value)
    assert set(found) == set(names.values())
    return found


def pip(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words]
    return subprocess.run([*map(str, command)], capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the lesson's package, installed from its wheel."""
    project = tmp_path_factory.mktemp("project")
    for name, text in texts().items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    (project / "cpp").mkdir()
    for name in ("17_my_add.h", "17_two_years.cpp", "17_torch.cpp"):
        shutil.copy(CPP / name, project / "cpp")
    settings = {"ORT_INCLUDE_DIR": ort_include(), "TORCH_DIR": torch_folder()}
    options = ["--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", project]
    options += [f"--config-settings=cmake.define.{name}={path}" for name, path in settings.items()]
    made = pip("wheel", *options, project)
    assert made.returncode == 0, made.stderr[-2000:]
    (wheel,) = project.glob("*.whl")
    installed = tmp_path_factory.mktemp("site")
    done = pip("install", "--no-deps", "--no-index", "--target", installed, wheel)
    assert done.returncode == 0, done.stderr[-2000:]
    return installed


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The model of last year, and the one of this year: 5 and 3 for ones."""
    import onnx

    folder = tmp_path_factory.mktemp("models")
    for op, version in (("MyAdd", 1), ("MyAdd2", 2)):
        model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": 17, "lesson": {version}]>
            g (float[n] a, float[n] b) => (float[n] y) {{ y = lesson.{op}(a, b) }}""")
        onnx.save(model, folder / f"{op}.onnx")
    return [folder / "MyAdd.onnx", folder / "MyAdd2.onnx"]


def installed(package: str, version: str) -> Path:
    """A folder with one package and nothing else, kept in ``build/cache``; the test is skipped where pip has no such version."""
    folder = paths.created(paths.build_dir() / "cache" / "other-versions") / f"{package}-{version}"
    if not folder.is_dir():
        scratch = folder.with_name(f".{folder.name}-{os.getpid()}")
        got = pip("install", "--quiet", "--no-deps", f"--target={scratch}", f"{package}=={version}")
        if "No matching distribution" in got.stderr:
            pytest.skip(f"pip has no {package} {version} here")
        assert got.returncode == 0, got.stderr[-2000:]
        scratch.rename(folder)
    return folder


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def run_in(version: str, site: Path, tmp_path: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    """The program RUN in an environment that has this ONNX Runtime, NumPy, the wheel and nothing else."""
    numpy = NUMPY_1 if _numbers(version) < (1, 19) else importlib.metadata.version("numpy")
    folders = [installed("onnxruntime", version), installed("numpy", numpy), site]
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "new"], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PYTHONPATH"] = os.pathsep.join(map(str, folders))
    command = [tmp_path / "new" / "bin" / "python", "-c", RUN, *arguments]
    return subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("version", RUNTIMES)
def test_the_wheel_in_another_onnxruntime(version: str, site: Path, models: list[Path], tmp_path: Path):
    done = run_in(version, site, tmp_path, "wheel", *models)
    plugins = _numbers(version) >= (1, 23)  # plugin execution providers
    assert (done.returncode, done.stdout.strip()) == (0, f"{version} [5, 3] False {plugins}"), done.stderr[-2000:]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("17_guarded.cpp", "The operators of `lesson` need ONNX Runtime 1.21 or newer; this is 1.20.1."),
        ("17_asks_for_less.cpp", "Unsupported version '21' in custom op"),
        ("17_unguarded.cpp", None),
    ],
)
def test_libraries_that_do_not_negotiate(name, words, site: Path, models: list[Path], tmp_path: Path):
    done = run_in("1.20.1", site, tmp_path, compile_library(CPP / name, "ort"), models[0])
    if words is None:
        assert done.returncode == -signal.SIGSEGV
    else:
        assert done.returncode == 1 and words in done.stderr


@pytest.mark.skipif(
    "OPLAB_OTHER_TORCH" not in os.environ, reason="OPLAB_OTHER_TORCH names no folder with another PyTorch"
)
def test_the_wheel_in_another_torch(site: Path, tmp_path: Path):
    """OPLAB_OTHER_TORCH=FOLDER, made with ``pip install --no-deps --target FOLDER torch==2.13.0``."""
    how, newer = recipe("torch"), tmp_path / "newer.so"
    flags = [flag.replace("0x020d", "0x020f") for flag in how.flags]
    command = [*find_compiler().command, *flags, CPP / "17_newer.cpp", *how.link, "-o", newer]
    subprocess.run([*map(str, command)], check=True)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([os.environ["OPLAB_OTHER_TORCH"], str(site)])}
    command = [sys.executable, "-P", "-c", IN_TORCH, newer]
    done = subprocess.run([*map(str, command)], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    version, rest = done.stdout.strip().split(" ", 1)
    assert version != importlib.metadata.version("torch").split("+")[0]
    assert rest == "[5.0, 5.0] ['undefined symbol', 'torch_has_storage']" or (
        version >= "2.14" and rest.endswith("loaded")
    )
