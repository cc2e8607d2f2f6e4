"""The packages step with a real uv and pip, a small environment and wheels of a few bytes from a local index."""

from __future__ import annotations

import os
import shutil
import sys
import venv
from pathlib import Path

import pytest
import setup_engine as engine
import setup_packages as packages
import setup_steps as setup

from tests.support.wheels import make_wheel

LOCK = """\
# a small lock
alpha==1.0
beta-two==2.0 ; python_full_version >= '3'
torch==2.15.0
torchvision==0.29.2
nvidia-cublas==13.0 ; sys_platform == 'linux' or sys_platform == 'darwin'
elsewhere==9.0 ; sys_platform == 'win32'
"""
REST = {"alpha": "1.0", "beta-two": "2.0"}
CUDA = {**REST, "torch": "2.15.0", "torchvision": "0.29.2", "nvidia-cublas": "13.0"}
CPU = {**REST, "torch": "2.15.0+cpu", "torchvision": "0.29.2+cpu"}
NO_NETWORK = "http://127.0.0.1:9/simple"


@pytest.fixture(scope="module")
def empty_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("venv") / ".venv"
    venv.create(folder, with_pip=True)
    return folder


@pytest.fixture
def index(tmp_path: Path) -> Path:
    for name, version in CUDA.items():
        make_wheel(tmp_path / "index", name, version)
    return tmp_path / "index"


@pytest.fixture
def cpu_index(tmp_path: Path) -> Path:
    for name in packages.TORCH:
        make_wheel(tmp_path / "cpu", name, CPU[name])
    return tmp_path / "cpu"


@pytest.fixture
def root(tmp_path: Path, empty_venv: Path, index: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A course's folder with a small lock and a fresh environment, on a machine with a GPU and with uv."""
    for name in ("OPLAB_PYTHON", "CONDA_PREFIX", "TORCH_INDEX", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "UV_INDEX"):
        monkeypatch.delenv(name, raising=False)
    for name in ("TORCH_BACKEND", "OPLAB_WHEELHOUSE", "UV_DEFAULT_INDEX", "UV_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", index.as_uri())
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv-cache"))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(packages, "has_nvidia_gpu", lambda: True)
    root = tmp_path / "course"
    (root / "build" / "setup").mkdir(parents=True)
    (root / "requirements.lock").write_text(LOCK)
    shutil.copytree(empty_venv, root / ".venv", symlinks=True)
    return root


def site(root: Path) -> Path:
    (found,) = setup.Environment(root).sites
    return found


def have(root: Path) -> dict[str, str]:
    found = packages.installed([site(root)])
    return {name: version for name, version in found.items() if name not in ("pip", "setuptools")}


def run(root: Path) -> int:
    """The step as the engine runs it: 1 if there was something to do."""
    context = setup.Context(root)
    return engine.run_steps([packages.packages(context)], context.console)


def installer(root: Path, name: str) -> str:
    (file,) = site(root).glob(f"{name}-*.dist-info/INSTALLER")
    return file.read_text().strip()


def test_the_lock_is_installed_once_and_what_is_lost_comes_back(root: Path) -> None:
    assert (run(root), run(root)) == (1, 0)
    assert have(root) == CUDA and installer(root, "torch") == "uv" and list(site(root).rglob("alpha*.pyc"))
    shutil.rmtree(site(root) / "alpha-1.0.dist-info")
    assert (run(root), run(root)) == (1, 0) and have(root) == CUDA


@pytest.mark.nightly
def test_what_a_killed_installer_left_is_installed_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has its stamps as they were when it was killed: a package without all of its files looks installed."""
    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(packages.Installer, "install", lambda *_: sys.exit("killed"))
        run(root)
    (site(root) / "alpha-1.0.dist-info").mkdir()
    assert run(root) == 1 and (site(root) / "alpha.py").is_file()


def test_without_a_gpu_torch_comes_without_cuda(root: Path, cpu_index: Path, monkeypatch, capsys) -> None:
    """The choice of uv's ``--torch-backend``, with a local index in place of PyTorch's own."""
    monkeypatch.setattr(packages, "has_nvidia_gpu", lambda: False)
    with_uv = packages.Installer.with_uv

    def instead(self, arguments: list[str], **variables: str) -> engine.Finished:
        known = {"--torch-backend": "--default-index", "cpu": cpu_index.as_uri()}
        asked.extend(arguments[:2])
        return with_uv(self, [known.get(word, word) for word in arguments], **variables)

    asked: list[str] = []
    monkeypatch.setattr(packages.Installer, "with_uv", instead)
    assert (run(root), run(root)) == (1, 0)
    assert asked[-2:] == ["--torch-backend", "cpu"] and have(root) == CPU
    assert "PyTorch without CUDA (TORCH_BACKEND=cu132 make lab gets it with CUDA)." in capsys.readouterr().out
    shutil.rmtree(site(root) / "alpha-1.0.dist-info")
    run(root)  # no variable names the build, and a machine may get a GPU
    assert have(root) == CPU
    monkeypatch.setenv("TORCH_BACKEND", "pypi")
    assert (run(root), run(root)) == (1, 0) and have(root) == CUDA


@pytest.mark.nightly
def test_everything_comes_from_a_wheelhouse(root: Path, index: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", NO_NETWORK)
    monkeypatch.setenv("OPLAB_WHEELHOUSE", str(tmp_path / "nothing"))
    with pytest.raises(engine.SetupError, match="where there are no wheels"):
        run(root)
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for wheel in index.rglob("*.whl"):
        shutil.copy(wheel, wheels)
    monkeypatch.setenv("OPLAB_WHEELHOUSE", str(wheels))
    run(root)
    assert have(root) == CUDA


@pytest.mark.nightly
def test_without_uv_pip_does_it(root: Path, cpu_index: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(packages.shutil, "which", lambda *_, **__: None)
    monkeypatch.setenv("TORCH_INDEX", cpu_index.as_uri())
    run(root)
    assert "uv could not be installed; pip is used." in capsys.readouterr().out
    assert have(root) == CPU and installer(root, "torch") == "pip"


@pytest.mark.nightly
def test_no_network_and_a_missing_package_are_sentences(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "requirements.lock").write_text(LOCK + "gamma==3.0\n")
    with pytest.raises(engine.SetupError, match="the package index has no wheel of gamma==3.0"):
        run(root)
    monkeypatch.setenv("PIP_INDEX_URL", NO_NETWORK)
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(engine.SetupError, match="the package index cannot be reached"):
        run(root)
    assert have(root) == {}


def test_a_lock_that_is_missing_or_no_lock(root: Path) -> None:
    (root / "requirements.lock").write_text("torch==2.15.0\nalpha>=1.0\n")
    with pytest.raises(engine.SetupError, match="requirements.lock, line 2: not an exact pin"):
        run(root)
    (root / "requirements.lock").unlink()
    with pytest.raises(engine.SetupError, match="requirements.lock is missing"):
        run(root)


@pytest.mark.nightly
def test_an_environment_that_was_moved_is_used_and_one_that_is_broken_is_created_again(root: Path, capsys) -> None:
    def step(folder: Path) -> int:
        context = setup.Context(folder)
        return engine.run_steps([setup.python(context)], context.console)

    assert (step(root), step(root)) == (1, 0)  # the user's own, as it is
    (root / ".venv" / "mine").touch()
    moved = root.with_name("moved")
    root.rename(moved)
    assert (step(moved), step(moved)) == (1, 0) and (moved / ".venv" / "mine").exists()
    for program in ("pip", "activate"):
        text = (moved / ".venv" / "bin" / program).read_text()
        assert str(moved) in text and str(root) not in text
    (moved / ".venv" / "bin" / "python").unlink()
    assert (step(moved), step(moved)) == (1, 0) and not (moved / ".venv" / "mine").exists()
    assert "creating it again" in capsys.readouterr().out


def test_uv_gets_pip_s_settings(tmp_path: Path) -> None:
    listed = f"""\
:env:.default-timeout='180'
:env:.extra-index-url='file://{tmp_path}'
global.cert='{tmp_path}'
global.extra-index-url='file:///nowhere'
global.index-url='https://one.example/simple'
install.index-url='https://two.example/simple'
global.find-links='/nowhere {tmp_path}'
global.proxy='http://proxy.example:3128'
freeze.timeout='1'
"""
    assert packages.uv_variables(listed, {}) == {
        "UV_DEFAULT_INDEX": "https://two.example/simple",
        "UV_INDEX": f"file://{tmp_path}",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_FIND_LINKS": str(tmp_path),
        "SSL_CERT_FILE": str(tmp_path),
        "ALL_PROXY": "http://proxy.example:3128",
    }
    own = {"UV_INDEX_URL": "https://mine.example/simple", "UV_INDEX": "https://more.example", "SSL_CERT_FILE": "/mine"}
    assert set(packages.uv_variables(listed, own)) == {"UV_FIND_LINKS", "ALL_PROXY"}
