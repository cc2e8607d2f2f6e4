"""A folder with everything that the course installs: for a class room that shares one download, or a machine without a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from oplab import paths
from oplab.errors import OplabError
from oplab.updates import delivery

LOCK = "requirements.lock"
TORCH = ("torch", "torchvision")
_CUDA = re.compile(r"(nvidia-.*|cuda-.*|triton)")  # what only PyTorch asks for, and only where its wheels carry CUDA
_NOTE = """\
Operator Lab {release}: everything that it installs, for Python {python} on this kind of machine ({platform}).

With pip:
  python3 -m venv lab && . lab/bin/activate
  pip install --no-index --find-links {folder} --requirement {folder}/requirements.lock operator-lab
  oplab init course

In a clone of the repository:
  OPLAB_WHEELHOUSE={folder} make lab
"""


def make(folder: Path) -> int:
    """Fill a folder with wheels: those that requirements.lock pins, for this Python and this machine, and the course's own.

    pip fetches and shows its progress; wheels that are there already are kept. Where ``TORCH_INDEX`` names an index, PyTorch comes
    from it, and no CUDA library is fetched.

    Args:
        folder: created where it is missing.

    Returns:
        how many packages the lock has for this machine.
    """
    folder = folder.expanduser().absolute()
    index = os.environ.get("TORCH_INDEX", "").removeprefix("default")
    wanted = _pins(delivery.source() / LOCK, without_cuda=bool(index))
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    note = _NOTE.format(release=delivery.release(), python=python, platform=sys.platform, folder=folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LOCK).write_text("".join(f"{pin}\n" for pin in wanted.values()), encoding="utf-8")
        (folder / "README.txt").write_text(note, encoding="utf-8")
    except OSError as error:
        raise OplabError(
            f"{folder} cannot be written: {error.strerror}.", "Name a folder that you can write to."
        ) from None
    elsewhere = [pin for name, pin in wanted.items() if index and name in TORCH]
    if elsewhere:
        _download(folder, "--index-url", index, *elsewhere)
    _download(folder, *(pin for pin in wanted.values() if pin not in elsewhere))
    _own_wheel(folder)
    return len(wanted)


def _pins(lock: Path, without_cuda: bool) -> dict[str, str]:
    """What a lock pins for this Python and this machine, ``name==version`` by package."""
    found = {}
    try:
        for line in lock.read_text(encoding="utf-8").splitlines():
            if text := line.partition("#")[0].strip():
                one = Requirement(text)
                name = canonicalize_name(one.name)
                if (one.marker is None or one.marker.evaluate()) and not (without_cuda and _CUDA.fullmatch(name)):
                    found[name] = f"{name}{one.specifier}"
    except (OSError, InvalidRequirement) as error:
        raise OplabError(f"{lock} cannot be read: {error}.", "Install operator-lab again.") from None
    return found


def _own_wheel(folder: Path) -> None:
    """The course's own wheel: built in a clone, else fetched."""
    if not paths.SHIPPED.is_dir():
        _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(paths.PACKAGE.parent))
    elif not list(folder.glob(f"operator_lab-{delivery.release()}-*.whl")):
        try:
            _download(folder, f"operator-lab=={delivery.release()}")
        except OplabError:
            print(
                f"No index has operator-lab {delivery.release()}: copy the wheel that you have installed into {folder}."
            )


def _download(folder: Path, *what: str) -> None:
    _pip("download", "--no-deps", "--only-binary=:all:", "--dest", str(folder), *what)


def _pip(*arguments: str) -> None:
    """Runs pip, which says itself what it does. Raises OplabError if it fails."""
    command = [sys.executable, "-m", "pip", *arguments, "--disable-pip-version-check", "--no-input"]
    if subprocess.run(command, env={**os.environ, "PIP_USER": "0"}).returncode:
        raise OplabError(
            "pip could not download all packages; the reason is above.",
            "Fix that and run the same command again; it keeps what has been downloaded.",
        )
