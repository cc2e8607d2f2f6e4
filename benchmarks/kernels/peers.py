"""Peers that are not packages of the course: they are fetched into build/bench, or are missing with one line."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from oplab.paths import build_dir
from oplab.toolchain.compiler import find_compiler, run
from oplab.toolchain.recipes import ort_runtime

from .harness import Missing

MMDEPLOY = "mmdeploy==1.3.1"
INSIDE = "mmdeploy/lib/libmmdeploy_onnxruntime_ops.so"
RUNTIME = Path(__file__).with_name("mmdeploy_runtime.cpp")
RUNTIME_NAME, RUNTIME_VERSION = "libonnxruntime.so.1.15.1", "VERS_1.15.1"  # what that library asks for, in its folder


def bench_dir() -> Path:
    """``build/bench``, made if it is missing."""
    folder = build_dir() / "bench"
    folder.mkdir(exist_ok=True)
    return folder


def compiled(source: Path, command: Sequence[str], included: Sequence[Path] = ()) -> Path:
    """A library in ``build/bench``, compiled again when the source, what it includes or the command has changed.

    Raises:
        Missing: it does not compile.
    """
    texts = [*command, *(file.read_text(encoding="utf-8") for file in (source, *included))]
    made = bench_dir() / f"{source.stem}-{hashlib.sha256(''.join(texts).encode()).hexdigest()[:12]}.so"
    if not made.exists():
        part = made.with_suffix(f".{os.getpid()}")
        done = run([*command, str(source), "-o", str(part)], timeout=300)
        if done.returncode:
            last = (done.log.strip().splitlines() or ["no message"])[-1]
            raise Missing(f"{source.name} does not compile here ({last[:160]})")
        part.replace(made)
    return made


@functools.cache
def mmdeploy_library() -> Path:
    """MMDeploy's operators for ONNX Runtime, out of its wheel: `MMCVModulatedDeformConv2d` and others, domain `mmdeploy`.

    Raises:
        Missing: the wheel cannot be fetched here, or what it needs does not compile.
    """
    library = bench_dir() / Path(INSIDE).name
    if not library.exists():
        _fetch_mmdeploy(library)
    # A library with the name and the version that MMDeploy's was linked to; it passes on to the installed ONNX Runtime.
    script = bench_dir() / "mmdeploy_versions"
    script.write_text(f"{RUNTIME_VERSION} {{ global: OrtGetApiBase; local: *; }};\n")
    flags = ["-std=c++17", "-O2", "-fPIC", "-shared", f'-DRUNTIME="{ort_runtime()}"']
    flags += [f"-Wl,--version-script={script}", f"-Wl,-soname,{RUNTIME_NAME}", "-ldl"]
    shutil.copyfile(compiled(RUNTIME, [*find_compiler().command, *flags]), library.with_name(RUNTIME_NAME))
    return library


def _fetch_mmdeploy(library: Path) -> None:
    print(f"Fetching {MMDEPLOY} into build/bench …", file=sys.stderr, flush=True)
    # Without its dependencies, and for the platform that it was made for: only the library in it is wanted.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", MMDEPLOY]
    with tempfile.TemporaryDirectory(dir=bench_dir()) as scratch:
        done = subprocess.run([*command, "-d", scratch], capture_output=True, text=True)
        wheels = sorted(Path(scratch).glob("*.whl"))
        if done.returncode or not wheels:
            last = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
            raise Missing(f"pip cannot download {MMDEPLOY} here ({last[:160]})")
        with zipfile.ZipFile(wheels[0]) as wheel:
            Path(wheel.extract(INSIDE, scratch)).replace(library)


def torch_cluster():
    """The package torch_cluster.

    Raises:
        Missing: it is not installed, or was built for another PyTorch.
    """
    try:
        import torch_cluster
    except (ImportError, OSError) as error:
        raise Missing(
            f"torch_cluster cannot be imported; `make deps-extra` compiles it in 9 minutes ({error})"
        ) from None
    return torch_cluster
