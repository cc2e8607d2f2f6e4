"""``make lock``: writes requirements.lock from pyproject.toml with uv, for every Python and system that it promises."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST, NEWEST = 11, 14
HEAD = """\
# Every package that the course uses, pinned exactly, for Python 3.{oldest} to 3.{newest} on Linux and macOS.
# Written by `make lock` from pyproject.toml; do not edit.
# No index is named: your own pip settings decide where packages come from. There are no hashes: TORCH_INDEX may
# bring another build of the same torch version, and pip refuses a file in which only some packages have hashes.
"""
# Linux with glibc 2.28 or newer, and macOS on Apple silicon: what onnxruntime has wheels for
PLATFORMS = ("x86_64-manylinux_2_28", "aarch64-manylinux_2_28", "aarch64-apple-darwin")


def find_uv(scratch: Path) -> str:
    """uv on PATH, or installed into a scratch environment."""
    found = shutil.which("uv")
    if found:
        return found
    print("uv is not on PATH; it is installed into a scratch environment ...")
    venv.create(scratch, with_pip=True)
    subprocess.run([scratch / "bin" / "python", "-m", "pip", "install", "--quiet", "uv"], check=True)
    return str(scratch / "bin" / "uv")


def compile_lock(uv: str, project: Path, output: Path) -> str:
    """The lock's text. What is in ``output`` is kept where it still fits, so that a lock changes little."""
    command = [uv, "pip", "compile", "--quiet", "--universal", "--python-version", f"3.{OLDEST}", "--extra", "dev"]
    command += ["--no-header", "--no-emit-index-url", "--no-emit-find-links", "--annotation-style", "line"]
    subprocess.run([*command, str(project), "--output-file", str(output)], check=True)
    text = re.sub(r"\s*# via .*", "", output.read_text(encoding="utf-8"))
    if "://" in text:
        raise SystemExit("The lock names an address; look into your uv settings.")
    return HEAD.format(oldest=OLDEST, newest=NEWEST) + text


def check_wheels(uv: str, lock: Path) -> None:
    """Every pin has a wheel for every Python and system promised; so no package has to be compiled."""
    for minor in range(OLDEST, NEWEST + 1):
        for platform in PLATFORMS:
            command = [uv, "pip", "compile", "--quiet", str(lock), "--python-version", f"3.{minor}", "--no-deps"]
            command += ["--python-platform", platform, "--only-binary", ":all:", "--output-file", "/dev/null"]
            env = {"MACOSX_DEPLOYMENT_TARGET": "14.0"}
            import os

            done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env})
            if done.returncode != 0:
                raise SystemExit(f"Not everything has a wheel for Python 3.{minor} on {platform}:\n{done.stderr}")
            print(f"Python 3.{minor} on {platform}: every package has a wheel")


def main() -> int:
    target = ROOT / "requirements.lock"
    with tempfile.TemporaryDirectory() as scratch:
        uv = find_uv(Path(scratch, "uv"))
        draft = Path(scratch, "requirements.lock")
        if target.exists() and "--fresh" not in sys.argv:
            shutil.copy(target, draft)
        text = compile_lock(uv, ROOT / "pyproject.toml", draft)
        draft.write_text(text, encoding="utf-8")
        check_wheels(uv, draft)
        target.write_text(text, encoding="utf-8")
    print(f"{target.name}: {sum('==' in line for line in text.splitlines())} pins")
    return 0


if __name__ == "__main__":
    sys.exit(main())
