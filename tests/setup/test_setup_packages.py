"""The packages step with a real pip, a small environment and wheels of a few bytes from a local index."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterable
from pathlib import Path

import pytest
import setup_engine as engine
import setup_packages as packages
import setup_pip as pip
import setup_steps as setup
import setup_uv as uv
from setup_ahead import Ahead

from oplab import files
from tests.support import ROOT
from tests.support.wheels import make_wheel

UV = "0.13.9"  # what the tests get where the machine has none

LOCK = """\
# a small lock
alpha==1.0
beta-two==2.0 ; python_full_version >= '3'
torch==2.15.0
torchvision==0.29.2
nvidia-cublas==13.0 ; sys_platform == 'linux' or sys_platform == 'darwin'
elsewhere==9.0 ; sys_platform == 'win32'
"""


@pytest.fixture(scope="module")
def empty_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("venv") / ".venv"
    venv.create(folder, with_pip=True)
    return folder


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    pins = {"alpha": "1.0", "beta-two": "2.0", "torch": "2.15.0", "torchvision": "0.29.2", "nvidia-cublas": "13.0"}
    for name, version in pins.items():
        make_wheel(folder, name, version)
    return folder


@pytest.fixture(scope="module")
def cpu_index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cpu")
    for name, version in {"torch": "2.15.0+cpu", "torchvision": "0.29.2+cpu"}.items():
        make_wheel(folder, name, version)
    return folder


@pytest.fixture
def step(tmp_path: Path, empty_venv: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> setup.PackagesStep:
    """A course's folder with a small lock and a fresh environment."""
    for name in (
        "OPLAB_PYTHON",
        "CONDA_PREFIX",
        "TORCH_INDEX",
        "PIP_EXTRA_INDEX_URL",
        "PIP_FIND_LINKS",
        "OPLAB_WHEELHOUSE",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", index.as_uri())
    monkeypatch.setattr(uv, "find", lambda path: None)
    monkeypatch.setattr(setup.Context, "compile_ahead", lambda context: None)  # there is no course in this folder
    monkeypatch.setattr(pip, "ROOM_CUDA", 1 << 20)
    monkeypatch.setattr(pip, "ROOM_PLAIN", 1 << 20)
    (tmp_path / "requirements.lock").write_text(LOCK)
    (tmp_path / "build" / "setup").mkdir(parents=True)
    shutil.copytree(empty_venv, tmp_path / ".venv", symlinks=True)
    return again(tmp_path)


@pytest.fixture(scope="session")
def uv_program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program uv: the machine's own, or one that pip gets into build/ once."""
    if found := shutil.which("uv"):
        return found
    folder = ROOT / "build" / "cache" / f"uv-{UV}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with files.lock(folder.with_suffix(".lock"), lambda owner: None):
        if not (folder / "bin" / "uv").exists():
            get = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), f"uv=={UV}"]
            if subprocess.run(get, capture_output=True).returncode != 0:
                pytest.skip("uv is not on the PATH and could not be downloaded")
    return str(folder / "bin" / "uv")


@pytest.fixture
def uv_step(step: setup.PackagesStep, uv_program: str, tmp_path: Path, monkeypatch) -> setup.PackagesStep:
    """As ``step``, on a machine that has uv, with an empty cache."""
    monkeypatch.setattr(uv, "find", lambda path: uv_program)
    for name in list(os.environ):
        if name.startswith("UV_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    return again(step.context.root)


def installer(step: setup.PackagesStep, name: str) -> str:
    (file,) = step.env.sites()[0].glob(f"{name}-*.dist-info/INSTALLER")
    return file.read_text().strip()


def again(root: Path) -> setup.PackagesStep:
    return setup.PackagesStep(setup.Context(root, engine.Console(io.StringIO())))


def run(step: setup.PackagesStep) -> str:
    """Runs the step as the engine does; returns what was said."""
    engine.run_steps([step], step.context.console)
    return step.context.console.stream.getvalue()


def have(step: setup.PackagesStep) -> dict[str, str]:
    found = packages.installed(step.env.sites())
    return {name: version for name, version in found.items() if name not in ("pip", "setuptools")}


@pytest.mark.nightly
def test_pins_are_installed_once(step: setup.PackagesStep) -> None:
    said = run(step)
    assert "5 pinned packages, 5 of them to install" in said
    pins = {"alpha": "1.0", "beta-two": "2.0", "torch": "2.15.0", "torchvision": "0.29.2", "nvidia-cublas": "13.0"}
    assert have(step) == pins
    assert again(step.context.root).done()
    assert not (step.context.build / "tmp").exists()


@pytest.mark.nightly
def test_what_a_killed_pip_left_is_repaired(step: setup.PackagesStep) -> None:
    run(step)
    site = step.env.sites()[0]
    step.stamp().unlink()
    (site / "alpha-1.0.dist-info" / "RECORD").unlink()  # killed before the last file was written
    (site / "beta_two.py").write_text("__ver")  # killed while a file was written
    (site / "~orch").mkdir()  # killed while pip removed a package
    half = step.context.build / "tmp" / "pip-unpack-x"
    half.mkdir(parents=True)
    said = run(again(step.context.root))
    assert "Incomplete, to be installed again: alpha, beta-two" in said
    assert (site / "beta_two.py").read_text() == "__version__ = '2.0'\n"
    assert packages.record_is_whole(site / "alpha-1.0.dist-info")
    assert not (site / "~orch").exists() and not half.exists()


@pytest.mark.nightly
def test_a_package_that_was_changed_is_put_right(step: setup.PackagesStep) -> None:
    run(step)
    shutil.rmtree(step.env.sites()[0] / "alpha-1.0.dist-info")
    fresh = again(step.context.root)
    assert not fresh.done()
    assert "5 pinned packages, 1 of them to install" in run(fresh)
    assert have(fresh)["alpha"] == "1.0"


@pytest.mark.nightly
def test_torch_from_another_index(step: setup.PackagesStep, cpu_index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_INDEX", cpu_index.as_uri())
    run(step)
    cpu = {"alpha": "1.0", "beta-two": "2.0", "torch": "2.15.0+cpu", "torchvision": "0.29.2+cpu"}
    assert have(step) == cpu
    monkeypatch.delenv("TORCH_INDEX")  # the next `make check` does not name it, and must change nothing
    assert again(step.context.root).done()
    monkeypatch.setenv("TORCH_INDEX", "default")
    run(again(step.context.root))
    assert have(step)["torch"] == "2.15.0" and have(step)["nvidia-cublas"] == "13.0"
    monkeypatch.setenv("TORCH_INDEX", cpu_index.as_uri())
    run(again(step.context.root))
    assert have(step) == cpu


@pytest.mark.nightly
def test_no_network_is_a_sentence(step: setup.PackagesStep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(engine.SetupError, match="the package index cannot be reached"):
        run(step)
    assert not step.stamp().exists()


@pytest.mark.nightly
def test_a_package_that_the_index_lacks_is_named(step: setup.PackagesStep) -> None:
    (step.context.root / "requirements.lock").write_text("gamma==3.0\n")
    with pytest.raises(engine.SetupError, match="the package index has no gamma==3.0 for this Python"):
        run(step)


@pytest.mark.nightly
def test_too_little_room_is_said_before_the_download(step: setup.PackagesStep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip, "ROOM_CUDA", 1 << 60)
    with pytest.raises(engine.SetupError, match="the disk is too full: the packages need"):
        run(step)
    assert have(step) == {}


@pytest.mark.nightly
@pytest.mark.parametrize("line", ["alpha>=1.0", "alpha", "-r other.txt", "alpha==1.0 @ file.whl"])
def test_a_lock_that_is_no_lock(step: setup.PackagesStep, line: str) -> None:
    (step.context.root / "requirements.lock").write_text(f"torch==2.15.0\n{line}\n")
    with pytest.raises(engine.SetupError, match="requirements.lock, line 2: not an exact pin"):
        run(step)


@pytest.mark.nightly
def test_a_missing_lock(step: setup.PackagesStep) -> None:
    (step.context.root / "requirements.lock").unlink()
    with pytest.raises(engine.SetupError, match="requirements.lock is missing"):
        run(step)


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "the disk is full"),
        (
            "Retrying ... Temporary failure in name resolution\nERROR: No matching distribution found for x",
            "no network",
        ),
        ("error: externally-managed-environment", "the system's own Python"),
        ("PermissionError: [Errno 13] Permission denied: '/usr/lib'", "cannot be written"),
        ("something else\nlast words", "pip failed. Its last lines:\n    something else\n    last words"),
    ],
)
def test_pip_s_failures_are_sentences(output: str, words: str) -> None:
    error = pip.failure_of(output, "pip failed")
    assert words in error.message and error.fix


@pytest.mark.nightly
def test_a_half_made_environment_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPLAB_PYTHON", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)  # as if killed before pip was there
    (tmp_path / "build" / "setup").mkdir(parents=True)

    def python_step() -> setup.PythonStep:
        return setup.PythonStep(setup.Context(tmp_path, engine.Console(io.StringIO())))

    step = python_step()
    engine.run_steps([step], step.context.console)
    assert "is incomplete or was moved: it is created again" in step.context.console.stream.getvalue()
    assert python_step().done() and list(step.env.sites()[0].glob("pip-*.dist-info/RECORD"))

    moved = tmp_path / "moved"
    moved.mkdir()
    (tmp_path / ".venv").rename(moved / ".venv")
    there = setup.PythonStep(setup.Context(moved, engine.Console(io.StringIO())))
    assert not there.done()  # its scripts name the old folder
    assert there._moved()


def test_the_batches_put_large_packages_first_and_alone() -> None:
    names = [f"small{number}" for number in range(70)] + ["nvidia-cublas", "torch", "triton"]
    groups = packages.batches(names)
    assert groups[:3] == [["torch"], ["nvidia-cublas"], ["triton"]]  # torch before what only runs with it
    assert [len(group) for group in groups[3:]] == [30, 30, 10]
    assert sorted(sum(groups, [])) == sorted(names)


def test_another_build_of_the_pinned_torch_needs_no_cuda() -> None:
    pins = {"torch": "2.15.0", "nvidia-cublas": "13.0", "triton": "3.9", "alpha": "1.0"}
    assert packages.missing(pins, {"torch": "2.15.0+cpu"}) == {"alpha": "1.0"}
    assert packages.missing(pins, {"torch": "2.14.0+cpu"}) == pins
    assert packages.missing(pins, {"torch": "2.15.0"}) == {name: pins[name] for name in pins if name != "torch"}


def wheelhouse(folder: Path, wheels: Iterable[Path]) -> Path:
    """A folder with copies of these wheels and nothing else."""
    made = folder / "wheels"
    made.mkdir()
    for wheel in wheels:
        shutil.copy(wheel, made)
    return made


@pytest.mark.nightly
def test_everything_comes_from_a_wheelhouse(step, index, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "no network").as_uri())
    monkeypatch.setenv("OPLAB_WHEELHOUSE", str(wheelhouse(tmp_path, index.rglob("*.whl"))))
    run(step)
    assert have(step)["nvidia-cublas"] == "13.0" and len(have(step)) == 5


@pytest.mark.nightly
def test_a_wheelhouse_without_cuda(step, index, cpu_index, tmp_path, monkeypatch) -> None:
    wheels = [*cpu_index.rglob("*.whl"), *index.glob("alpha/*.whl"), *index.glob("beta-two/*.whl")]
    monkeypatch.setenv("OPLAB_WHEELHOUSE", str(wheelhouse(tmp_path, wheels)))
    run(step)
    assert have(step) == {"alpha": "1.0", "beta-two": "2.0", "torch": "2.15.0+cpu", "torchvision": "0.29.2+cpu"}
    assert again(step.context.root).done()


@pytest.mark.nightly
def test_without_a_gpu_the_cost_of_cuda_is_said(step, cpu_index, monkeypatch) -> None:
    monkeypatch.setattr(pip, "has_nvidia_driver", lambda: True)
    assert "have no use" not in step.about()
    monkeypatch.setattr(pip, "has_nvidia_driver", lambda: False)
    assert "4 of these 6 GB have no use here" in step.about()
    monkeypatch.setenv("TORCH_INDEX", cpu_index.as_uri())
    assert "have no use" not in again(step.context.root).about()


@pytest.mark.nightly
def test_a_wheelhouse_that_is_none_is_a_sentence(step, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OPLAB_WHEELHOUSE", str(tmp_path / "nothing"))
    with pytest.raises(engine.SetupError, match="where there are no wheels"):
        run(step)


@pytest.mark.nightly
def test_python_files_are_compiled(step) -> None:
    run(step)
    site = step.env.sites()[0]
    assert list(site.glob("__pycache__/alpha.*.pyc")) and list(site.glob("__pycache__/torch.*.pyc"))


@pytest.mark.nightly
def test_uv_installs_where_it_is_there(uv_step) -> None:
    run(uv_step)
    assert len(have(uv_step)) == 5 and have(uv_step)["torch"] == "2.15.0"
    assert installer(uv_step, "alpha") == installer(uv_step, "torch") == "uv"
    assert again(uv_step.context.root).done()


@pytest.mark.nightly
def test_where_uv_fails_pip_does_it(uv_step, monkeypatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")  # the user's own word for uv, which is wrong
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    said = run(uv_step)
    assert said.count("uv could not install them") == 1 and "pip is used" in said
    assert len(have(uv_step)) == 5 and installer(uv_step, "alpha") == "pip"


def test_uv_gets_pip_s_settings(tmp_path) -> None:
    listed = f"""\
:env:.default-timeout='180'
:env:.extra-index-url='file://{tmp_path}'
global.cert='/etc/ca.pem'
global.extra-index-url='file:///nowhere'
global.index-url='https://one.example/simple'
install.index-url='https://two.example/simple'
global.find-links='/nowhere {tmp_path}'
global.proxy='http://proxy.example:3128'
freeze.timeout='1'
"""
    settings = uv.pip_settings(listed)
    assert uv.variables(settings, {}) == {
        "UV_DEFAULT_INDEX": "https://two.example/simple",
        "UV_INDEX": f"file://{tmp_path}",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_FIND_LINKS": str(tmp_path),
        "SSL_CERT_FILE": "/etc/ca.pem",
        "ALL_PROXY": "http://proxy.example:3128",
    }
    own = {"UV_INDEX_URL": "https://mine.example/simple", "UV_INDEX": "https://more.example", "SSL_CERT_FILE": "/mine"}
    assert set(uv.variables(settings, own)) == {"UV_FIND_LINKS", "ALL_PROXY"}


@pytest.mark.nightly
def test_compiling_begins_before_the_last_package(step, monkeypatch) -> None:
    found = []
    monkeypatch.setattr(setup.Context, "compile_ahead", lambda context: found.append(have(step)))
    run(step)
    assert set(found[0]) == {"torch"} and set(found[-1]) == set(have(step))


def test_what_compiles_ahead_is_started_once_and_can_be_stopped(tmp_path) -> None:
    log, other = tmp_path / "log", tmp_path / "other"
    ahead = Ahead()
    assert not ahead.wait()
    ahead.start([sys.executable, "-c", "print('hello')"], log)
    ahead.start([sys.executable, "-c", "print('again')"], other)
    assert ahead.wait() and log.read_text() == "hello\n" and not other.exists()
    failing = Ahead()
    failing.start([sys.executable, "-c", "raise SystemExit(2)"], log)
    assert not failing.wait()
    endless = Ahead()
    endless.start([sys.executable, "-c", "import time; time.sleep(600)"], log)
    endless.stop()
    assert not endless.wait()
