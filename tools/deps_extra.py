"""``make deps-extra``: torch_cluster, built from source into the course's environment.

Only a comparison needs it: the course's own ``grid`` beside the operator whose meaning it has. No lesson and no exercise does.
"""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = "torch-cluster"


def requirement() -> str:
    """``torch-cluster>=1.6.3``, as pyproject.toml's extra has it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (line,) = (line for line in project["optional-dependencies"]["cluster"] if line.startswith(NAME))
    return line


def works() -> bool:
    """Whether it is there and was built for this PyTorch: one that was built for another does not load."""
    code = "import torch, torch_cluster; torch.ops.torch_cluster.grid(torch.ones(1, 1), torch.ones(1), None, None)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def main() -> int:
    if works():
        print(f"torch_cluster {importlib.metadata.version(NAME)} is installed and works.")
        return 0
    print(
        "There is no prebuilt torch_cluster for this PyTorch, so it is compiled now, which takes about 9 minutes on two "
        "cores.\nOnly a few tests need it, as a reference for the course's own grid. Ctrl-C stops the build.",
        flush=True,
    )
    start = time.monotonic()
    # Without isolation and without pip's cache: it has to be compiled against the PyTorch of this environment. And for the
    # CPU: CUDA's parts take much longer and nothing here uses them.
    command = ["-m", "pip", "install", "--no-build-isolation", "--no-cache-dir", "--force-reinstall", "--no-deps"]
    try:
        done = subprocess.run([sys.executable, *command, requirement()], env={**os.environ, "FORCE_ONLY_CPU": "1"})
    except KeyboardInterrupt:
        print("\nInterrupted. The environment is unchanged.", file=sys.stderr)
        return 130
    if done.returncode or not works():
        print(
            "\ntorch_cluster could not be installed; the lines above say why. Everything else works without it.",
            file=sys.stderr,
        )
        return 2
    print(f"torch_cluster is installed: {time.monotonic() - start:.0f} s. `make test` compares with it from now on.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
