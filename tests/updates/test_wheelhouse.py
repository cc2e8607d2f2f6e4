"""`oplab wheelhouse` with a real pip and wheels of a few bytes from a local index."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from oplab.errors import OplabError
from oplab.updates import delivery, wheelhouse
from tests.support.wheels import make_wheel

pytestmark = pytest.mark.nightly
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
    monkeypatch.setattr(wheelhouse, "_own_wheel", lambda folder: None)
    return folder


def there(wheels: Path) -> set[str]:
    return {file.name.removesuffix("-py3-none-any.whl") for file in wheels.glob("*.whl")}


def test_it_is_filled_and_what_is_there_is_kept(index, tmp_path):
    wheels = tmp_path / "all wheels"
    assert wheelhouse.make(wheels) == 4
    assert there(wheels) == {"alpha-1.0", "beta_two-2.0", "torch-2.15.0", "nvidia_cublas-13.0"}
    pins = ["alpha==1.0", "beta-two==2.0", "torch==2.15.0", "nvidia-cublas==13.0"]
    assert (wheels / "requirements.lock").read_text().splitlines() == pins
    assert f"OPLAB_WHEELHOUSE={wheels} make lab" in (wheels / "README.txt").read_text()
    (wheels / "beta_two-2.0-py3-none-any.whl").unlink()
    shutil.rmtree(index / "torch")
    with pytest.raises(OplabError, match="pip could not download all packages"):
        (wheels / "torch-2.15.0-py3-none-any.whl").unlink()
        wheelhouse.make(wheels)
    make_wheel(index, "torch", "2.15.0")
    wheelhouse.make(wheels)
    assert len(there(wheels)) == 4


def test_the_courses_own_wheel_is_among_them(tmp_path):
    """A clone builds it; it installs from the folder alone."""
    wheelhouse._own_wheel(tmp_path)
    assert [name.split("-")[0] for name in there(tmp_path)] == ["operator_lab"]
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet", "--find-links", tmp_path]
    done = subprocess.run([*command, "--target", tmp_path / "site", "operator-lab"], capture_output=True, text=True)
    assert done.returncode == 0 and (tmp_path / "site" / "oplab" / "shipped" / "course.toml").is_file(), done.stderr
