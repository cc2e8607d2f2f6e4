"""``make deps-engines``: other engines beside ONNX Runtime, with the course's operators compiled for them.

Only ``oplab parity`` with their names needs them. Installed without their dependencies: OpenVINO needs NumPy, which is there, and
its telemetry package only for tools that the course does not use.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def requirements() -> list[str]:
    """``openvino==2026.4.1``, as pyproject.toml's extra has it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project["optional-dependencies"]["engines"]


def is_installed(requirement: str) -> bool:
    name, _, version = requirement.partition("==")
    try:
        return importlib.metadata.version(name) == version
    except importlib.metadata.PackageNotFoundError:
        return False


def main() -> int:
    missing = [requirement for requirement in requirements() if not is_installed(requirement)]
    try:
        if missing:
            print(f"Installing {', '.join(missing)}: 60 MB, 180 MB on disk ...", flush=True)
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
            if subprocess.run([*command, *missing]).returncode:
                print(
                    "\nThe engines could not be installed; the lines above say why. Everything else works without them.",
                    file=sys.stderr,
                )
                return 2
        # In another process, which sees the new packages; it prints what it compiles.
        return subprocess.run([sys.executable, "-m", "oplab.toolchain.build"], cwd=ROOT).returncode
    except KeyboardInterrupt:
        print("\nInterrupted. The same command goes on.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
