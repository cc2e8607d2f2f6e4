"""Installs an extra of pyproject.toml, which only some users need: into the course's environment, or in a folder apart from it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Callable
from pathlib import Path

import setup_packages as packages
from setup_engine import failure_of

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


def install(extra: str, *, size: str, dependencies: bool = True) -> bool:
    """Install what is missing of an extra; its packages are pinned with ``==``.

    Args:
        extra: its name in pyproject.toml.
        size: what it costs, for the line that is printed before: ``60 MB``.
        dependencies: install what the packages depend on, too; what the lock pins keeps its version.

    Returns:
        whether everything is installed. If not, pip has printed why.
    """
    have = {packages.normalize(each.name): each.version for each in importlib.metadata.distributions()}
    pins = (requirement.partition("==") for requirement in requirements(extra))
    missing = [f"{name}=={version}" for name, _, version in pins if have.get(packages.normalize(name)) != version]
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
    error = failure_of(log, "pip failed")
    reason = f"the disk is full, and it takes {size}." if "disk is full" in error.message else error.message
    return OplabError(f"{what} could not be installed: {reason}", "Nothing else in the course needs it.")
