"""A folder with everything that the course installs: for a class room that shares one download, or a machine without a network."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from oplab import paths
from oplab.errors import OplabError
from oplab.updates import delivery

LOCK = "requirements.lock"
TORCH = ("torch", "torchvision")
_CUDA = re.compile(r"(nvidia-.*|cuda-.*|triton)")  # what only PyTorch asks for, and only where its wheels carry CUDA
_TOGETHER = 20  # packages in one call of pip: what has come stays when the next call is interrupted
_NOTE = """\
Operator Lab {release}: everything that it installs, for Python {python} on this kind of machine ({platform}).

With pip:
  python3 -m venv lab && . lab/bin/activate
  pip install --no-index --find-links {folder} --requirement {folder}/requirements.lock operator-lab
  oplab init course

In a clone of the repository:
  OPLAB_WHEELHOUSE={folder} make lab
"""


def make(folder: Path, say: Callable[[str], object]) -> int:
    """Fill a folder with wheels: those that requirements.lock pins, for this Python and this machine, and the course's own.

    What is there already is kept, so a run that was interrupted goes on. Where ``TORCH_INDEX`` names an index, PyTorch comes from it, and
    no CUDA library is fetched.

    Args:
        folder: created where it is missing.
        say: called with each line of progress.

    Returns:
        how many packages were fetched.

    Raises:
        OplabError: the folder cannot be written, or a package cannot be fetched. What has come stays.
    """
    folder = folder.expanduser().absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OplabError(
            f"{folder} cannot be created: {error.strerror}.", "Name a folder that you can write to."
        ) from None
    lock = delivery.source() / LOCK
    index = os.environ.get("TORCH_INDEX", "")
    index = "" if index == "default" else index
    wanted = _pins(lock, without_cuda=bool(index))
    missing = [name for name in wanted if (name, wanted[name]) not in _there(folder)]
    elsewhere = [name for name in missing if index and name in TORCH]
    usual = [name for name in missing if name not in elsewhere]
    groups = [([name], ["--index-url", index]) for name in elsewhere]
    groups += [(usual[start : start + _TOGETHER], []) for start in range(0, len(usual), _TOGETHER)]
    done = len(wanted) - len(missing)
    for names, options in groups:
        say(f"{done} of {len(wanted)} packages are there; fetching {', '.join(names[:3])}{', …' * (len(names) > 3)}")
        _pip(["download", "--no-deps", "--only-binary=:all:", "--dest", str(folder), *options], names, wanted)
        done += len(names)
    _own_wheel(folder, say)
    try:
        pins = "".join(f"{name}=={version}\n" for name, version in wanted.items())
        (folder / LOCK).write_text(pins, encoding="utf-8")
        python = f"{sys.version_info[0]}.{sys.version_info[1]}"
        note = _NOTE.format(release=delivery.release(), python=python, platform=sys.platform, folder=folder)
        (folder / "README.txt").write_text(note, encoding="utf-8")
    except OSError as error:
        raise OplabError(*_why(error.errno or 0, str(error))) from None
    return len(missing)


def _pins(lock: Path, without_cuda: bool) -> dict[str, str]:
    """The versions that a lock pins for this Python and this machine, by package."""
    found = {}
    try:
        for line in lock.read_text(encoding="utf-8").splitlines():
            if not (text := line.partition("#")[0].strip()):
                continue
            one = Requirement(text)
            name = canonicalize_name(one.name)
            if (one.marker is None or one.marker.evaluate()) and not (without_cuda and _CUDA.fullmatch(name)):
                found[name] = str(one.specifier).removeprefix("==")
    except (OSError, InvalidRequirement) as error:
        raise OplabError(f"{lock} cannot be read: {error}.", "Install operator-lab again.") from None
    return found


def _there(folder: Path) -> set[tuple[str, str]]:
    """Package and public version of each wheel in a folder: ``2.15.0+cpu`` is a 2.15.0."""
    found = set()
    for file in folder.glob("*.whl"):
        try:
            name, version, _, _ = parse_wheel_filename(file.name)
        except InvalidWheelFilename:
            continue
        found.add((str(name), version.public))
    return found


def _own_wheel(folder: Path, say: Callable[[str], object]) -> None:
    """The course's own wheel: built in a clone, else fetched."""
    if ("operator-lab", delivery.release()) in _there(folder) and paths.SHIPPED.is_dir():
        return
    if paths.SHIPPED.is_dir():
        try:
            _pip(
                ["download", "--no-deps", "--dest", str(folder)], ["operator-lab"], {"operator-lab": delivery.release()}
            )
        except OplabError:
            say(
                f"No index has operator-lab {delivery.release()}: copy the wheel that you have installed into {folder} yourself."
            )
        return
    say("Building the course's own wheel ...")
    command = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(paths.PACKAGE.parent)]
    _pip(command, [], {})


def _pip(arguments: list[str], names: Iterable[str], versions: dict[str, str]) -> None:
    """Runs pip. Raises OplabError with its reason if it fails."""
    asked = [f"{name}=={versions[name]}" for name in names]
    command = [sys.executable, "-m", "pip", *arguments, *asked, "--disable-pip-version-check", "--no-input"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PIP_USER": "0"})
    if done.returncode == 0:
        return
    if re.search(r"No space left on device|Disk quota exceeded", done.stderr):
        raise OplabError(*_why(errno.ENOSPC, ""))
    if missing := re.search(r"No matching distribution found for (\S+)", done.stderr):
        raise OplabError(
            f"No index has a wheel of {missing[1]} for this Python and this kind of machine.",
            "Look at pip's settings (python -m pip config list) and at the network, and run the same command again: what has come stays.",
        )
    reason = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "pip gives no reason")
    raise OplabError(
        f"pip could not fetch the packages: {reason.strip()}", "Run the same command again: what has come stays."
    )


def _why(number: int, text: str) -> tuple[str, str]:
    if number in (errno.ENOSPC, errno.EDQUOT):
        size = "about 3 GB with CUDA, 0.8 GB without"
        return (
            f"The disk is full; the packages take {size}.",
            "Free some space, and run the same command again: what has come stays.",
        )
    return f"The folder cannot be written: {text}.", "Name a folder that you can write to."
