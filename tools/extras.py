"""Installs an extra of pyproject.toml into the course's environment: what only some users need is not part of the set-up."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

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
