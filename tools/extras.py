"""Installs an extra of pyproject.toml, which only some users need: into the course's environment, or in a folder apart from it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable
from pathlib import Path

from setup_pip import NETWORK

from oplab import paths
from oplab.errors import OplabError
from oplab.toolchain import cache
from oplab.toolchain.compiler import OWN_SOURCES_TIMEOUT, run
from oplab.toolchain.diagnostics import shown

ROOT = Path(__file__).resolve().parent.parent


def requirements(extra: str) -> list[str]:
    """The requirements of an extra, such as ``["openvino==2026.4.1"]``."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["optional-dependencies"][extra]


def is_installed(requirement: str) -> bool:
    """Whether ``name==version`` is installed in exactly this version."""
    name, _, version = requirement.partition("==")
    try:
        return importlib.metadata.version(name) == version
    except importlib.metadata.PackageNotFoundError:
        return False


def install(extra: str, *, size: str, dependencies: bool = True) -> bool:
    """Install what is missing of an extra; its packages are pinned with ``==``.

    Args:
        extra: its name in pyproject.toml.
        size: what it costs, for the line that is printed before: ``60 MB``.
        dependencies: install what the packages depend on, too; what the lock pins keeps its version.

    Returns:
        whether everything is installed. If not, pip has printed why.
    """
    missing = [requirement for requirement in requirements(extra) if not is_installed(requirement)]
    if not missing:
        return True
    print(f"Installing {', '.join(missing)}: {size} ...", flush=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    how = ["--constraint", str(ROOT / "requirements.lock")] if dependencies else ["--no-deps"]
    return subprocess.run([*command, *how, *missing]).returncode == 0


def recorded(file: Path) -> object:
    """What a JSON file has, or None where there is none that can be read."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def install_apart(extra: str, folder: Path, what: str, *, size: str, say: Callable[[str], object]) -> bool:
    """Install an extra in a folder that the course's environment does not see, if it is not there in these versions.

    The folder appears when it is complete. No dependencies are installed: all that is needed is on the list.

    Args:
        extra: its name in pyproject.toml.
        folder: its packages' folder, as in ``sys.path``.
        what: its name in sentences: ``NVIDIA's compiler``.
        size: what it costs, for the line that is printed before.

    Returns:
        whether something was installed.

    Raises:
        OplabError: pip could not install it.
    """
    wanted = {"packages": requirements(extra), "python": sysconfig.get_python_version()}
    stamp = folder / "installed.json"
    if recorded(stamp) == wanted:
        return False
    say(f"Installing {what} ({', '.join(wanted['packages'])}) in {shown(folder)}: {size} ...")
    with cache.scratch(paths.created(folder.parent)) as scratch:
        made = scratch / folder.name
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        pip += ["--no-compile", "--only-binary=:all:", "--target", str(made)]
        done = run([*pip, *wanted["packages"]], timeout=OWN_SOURCES_TIMEOUT, limited=False)
        if done.returncode != 0:
            raise not_installed(what, size, done.log)
        (made / stamp.name).write_text(json.dumps(wanted))
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(made, folder)
    return True


def not_installed(what: str, size: str, log: str) -> OplabError:
    """The error for what pip printed. Arguments as for :func:`install_apart`."""
    failed, rest = f"{what} could not be installed", "Nothing else in the course needs it."
    if NETWORK.search(log):
        return OplabError(
            f"{failed}: the package index cannot be reached.", f"It is fetched from the network, once. {rest}"
        )
    if re.search(r"No space left on device|Disk quota exceeded", log):
        return OplabError(f"{failed}: the disk is full.", f"It takes {size}. {rest}")
    if absent := re.search(r"No matching distribution found for (\S+)", log):
        here = f"Python {sysconfig.get_python_version()} on {platform.system()} {platform.machine()}"
        # Without a list of versions, an index that was not reached looks the same.
        unsure = ", or the index cannot be reached" if "(from versions: none)" in log else ""
        return OplabError(f"{failed}: the package index has no wheel of {absent[1]} for {here}{unsure}.", rest)
    why = [line.removeprefix("ERROR: ") for line in log.splitlines() if line.startswith("ERROR")]
    return OplabError(f"{failed}: {why[-1] if why else 'pip gave no reason.'}", rest)
