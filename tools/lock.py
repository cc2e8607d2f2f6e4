"""``make lock``: writes requirements.lock from pyproject.toml with uv, for every Python and system that it promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from setup_packages import uv_variables

ROOT = Path(__file__).resolve().parent.parent
OLDEST, NEWEST = 11, 14
HEAD = f"""\
# Every package that the course uses, pinned exactly, for Python 3.{OLDEST} to 3.{NEWEST} on Linux and macOS.
# Written by `make lock` from pyproject.toml; do not edit.
# No index is named: your own settings decide where packages come from. There are no hashes: PyTorch without CUDA is
# another build of the same version.
"""
# Linux with glibc 2.28 or newer, and macOS on Apple silicon: what onnxruntime has wheels for
PLATFORMS = ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28", "aarch64-apple-darwin")


def uv_compile(*arguments: str) -> subprocess.CompletedProcess[str]:
    pip = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
    env = {**os.environ, "MACOSX_DEPLOYMENT_TARGET": "14.0", **uv_variables(pip, os.environ)}
    command = ["uv", "pip", "compile", "--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
    return subprocess.run([*command, *arguments], env=env, capture_output=True, text=True)


def main() -> int:
    target, draft = ROOT / "requirements.lock", ROOT / "build" / "requirements.lock"
    draft.write_text("" if "--fresh" in sys.argv else target.read_text())  # what is in it is kept where it still fits
    options = ["--universal", "--python-version", f"3.{OLDEST}", "--extra", "dev", "--output-file", str(draft)]
    done = uv_compile(str(ROOT / "pyproject.toml"), *options)
    text = HEAD + re.sub(r"^#.*\n", "", draft.read_text(), flags=re.M)
    if done.returncode or "://" in text:
        sys.exit(done.stderr or "The lock names an address; look into your uv settings.")
    draft.write_text(text)
    for minor in range(OLDEST, NEWEST + 1):
        for platform in PLATFORMS:  # so that no package has to be compiled
            there = ["--python-version", f"3.{minor}", "--python-platform", platform, "--only-binary", ":all:"]
            done = uv_compile(str(draft), "--no-deps", *there)
            if done.returncode:
                sys.exit(f"Not everything has a wheel for Python 3.{minor} on {platform}:\n{done.stderr}")
            print(f"Python 3.{minor} on {platform}: every package has a wheel", flush=True)
    draft.replace(target)
    print(f"{target.name}: {text.count('==')} lines with a pin")
    return 0


if __name__ == "__main__":
    sys.exit(main())
