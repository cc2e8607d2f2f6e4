"""`oplab wheelhouse` with a real pip and wheels of a few bytes from a local index."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from oplab import paths
from oplab.errors import OplabError
from oplab.updates import delivery, wheelhouse
from tests.support import ROOT
from tests.support.wheels import make_wheel

LOCK = """\
alpha==1.0
beta-two==2.0 ; python_full_version >= '3'
torch==2.15.0
nvidia-cublas==13.0 ; sys_platform == 'linux' or sys_platform == 'darwin'
elsewhere==9.0 ; sys_platform == 'win32'
"""


@pytest.fixture
def index(tmp_path, monkeypatch) -> Path:
    """The usual index; the course is a folder with a small lock."""
    folder = tmp_path / "index"
    for name, version in {"alpha": "1.0", "beta-two": "2.0", "torch": "2.15.0", "nvidia-cublas": "13.0"}.items():
        make_wheel(folder, name, version)
    for name in ("TORCH_INDEX", "PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", folder.as_uri())
    (tmp_path / "course").mkdir()
    (tmp_path / "course" / "requirements.lock").write_text(LOCK)
    monkeypatch.setattr(delivery, "source", lambda: tmp_path / "course")
    monkeypatch.setattr(wheelhouse, "_own_wheel", lambda folder, say: None)
    return folder


def fill(wheels: Path) -> tuple[int, list[str], set[str]]:
    """How many wheels came, what was said, and the packages that are there."""
    said: list[str] = []
    count = wheelhouse.make(wheels, said.append)
    return count, said, {file.name.split("-")[0] for file in wheels.glob("*.whl")}


@pytest.mark.nightly
def test_it_is_filled_once(index, tmp_path):
    wheels = tmp_path / "all wheels"
    count, said, there = fill(wheels)
    assert count == 4 and there == {"alpha", "beta_two", "torch", "nvidia_cublas"}
    assert said == ["0 of 4 packages are there; fetching alpha, beta-two, torch, …"]
    assert (wheels / "requirements.lock").read_text().splitlines() == [
        "alpha==1.0",
        "beta-two==2.0",
        "torch==2.15.0",
        "nvidia-cublas==13.0",
    ]
    assert f"OPLAB_WHEELHOUSE={wheels} make lab" in (wheels / "README.txt").read_text()
    (wheels / "beta_two-2.0-py3-none-any.whl").unlink()
    assert fill(wheels)[:2] == (1, ["3 of 4 packages are there; fetching beta-two"])


@pytest.mark.nightly
def test_pytorch_from_another_index_brings_no_cuda(index, tmp_path, monkeypatch):
    make_wheel(tmp_path / "cpu", "torch", "2.15.0+cpu")
    monkeypatch.setenv("TORCH_INDEX", (tmp_path / "cpu").as_uri())
    assert fill(tmp_path / "wheels")[2] == {"alpha", "beta_two", "torch"}
    assert [file.name for file in (tmp_path / "wheels").glob("torch*")] == ["torch-2.15.0+cpu-py3-none-any.whl"]
    assert fill(tmp_path / "wheels")[0] == 0


@pytest.mark.nightly
def test_what_cannot_be_fetched_is_a_sentence_and_loses_nothing(index, tmp_path, monkeypatch):
    monkeypatch.setattr(wheelhouse, "_TOGETHER", 1)
    shutil.rmtree(index / "torch")
    with pytest.raises(OplabError, match="No index has a wheel of torch==2.15.0") as caught:
        fill(tmp_path / "wheels")
    assert "what has come stays" in caught.value.fix
    make_wheel(index, "torch", "2.15.0")
    assert fill(tmp_path / "wheels")[0] == 2


def test_a_folder_that_cannot_be_made(index, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OplabError, match="cannot be created: Not a directory"):
        fill(tmp_path / "file" / "wheels")


@pytest.mark.nightly
def test_the_courses_own_wheel_is_among_them(tmp_path):
    """A clone builds it; it installs from the folder alone."""
    wheelhouse._own_wheel(tmp_path, print)
    assert [name for name, _ in wheelhouse._there(tmp_path)] == ["operator-lab"]
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet", "--find-links", tmp_path]
    done = subprocess.run([*command, "--target", tmp_path / "site", "operator-lab"], capture_output=True, text=True)
    assert done.returncode == 0 and (tmp_path / "site" / "oplab" / "shipped" / "course.toml").is_file(), done.stderr


@pytest.mark.nightly
def test_an_installed_package_cannot_build_itself(tmp_path, monkeypatch, index):
    monkeypatch.undo()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())
    monkeypatch.setattr(paths, "SHIPPED", ROOT)
    said: list[str] = []
    wheelhouse._own_wheel(tmp_path, said.append)
    assert said and "copy the wheel that you have installed" in said[0]
