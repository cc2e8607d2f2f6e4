"""Peers that are not packages of the course: they are fetched into build/bench, or are missing with one line."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from oplab.paths import build_dir
from oplab.toolchain.compiler import find_compiler, run
from oplab.toolchain.recipes import ort_runtime

from .harness import Missing

MMDEPLOY = "mmdeploy==1.3.1"
INSIDE = "mmdeploy/lib/libmmdeploy_onnxruntime_ops.so"
RUNTIME = Path(__file__).with_name("mmdeploy_runtime.cpp")
RUNTIME_NAME, RUNTIME_VERSION = (
    "libonnxruntime.so.1.15.1",
    "VERS_1.15.1",
)  # what that library asks for, in its own folder


def bench_dir() -> Path:
    """``build/bench``, made if it is missing."""
    folder = build_dir() / "bench"
    folder.mkdir(exist_ok=True)
    return folder


@functools.cache
def mmdeploy_library() -> Path:
    """MMDeploy's operators for ONNX Runtime, out of its wheel: `MMCVModulatedDeformConv2d` and others, domain `mmdeploy`.

    Raises:
        Missing: the wheel cannot be had here, or what it needs does not compile.
    """
    library = bench_dir() / Path(INSIDE).name
    if not library.exists():
        _fetch_mmdeploy(library)
    _compile_runtime(library.with_name(RUNTIME_NAME))
    return library


def _fetch_mmdeploy(library: Path) -> None:
    print(f"Fetching {MMDEPLOY} into build/bench …", file=sys.stderr, flush=True)
    # Without its dependencies, and for the platform that it was made for: only the library in it is wanted.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", MMDEPLOY]
    with tempfile.TemporaryDirectory(dir=bench_dir()) as scratch:
        done = subprocess.run([*command, "-d", scratch], capture_output=True, text=True)
        wheels = sorted(Path(scratch).glob("*.whl"))
        if done.returncode or not wheels:
            last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            raise Missing(f"pip cannot download {MMDEPLOY} here ({last[:160]})")
        with zipfile.ZipFile(wheels[0]) as wheel:
            if INSIDE not in wheel.namelist():
                raise Missing(f"the wheel of {MMDEPLOY} for this platform has no operators for ONNX Runtime")
            part = Path(scratch) / "library"
            with wheel.open(INSIDE) as source, part.open("wb") as target:
                shutil.copyfileobj(source, target)
        part.replace(library)


def _compile_runtime(target: Path) -> None:
    """A library with the name and the version that MMDeploy's was linked to; it passes on to the installed ONNX Runtime."""
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        part, script = Path(scratch) / "part", Path(scratch) / "versions"
        script.write_text(f"{RUNTIME_VERSION} {{ global: OrtGetApiBase; local: *; }};\n")
        runtime = f'-DRUNTIME="{ort_runtime()}"'
        link = [f"-Wl,--version-script={script}", f"-Wl,-soname,{RUNTIME_NAME}", "-ldl"]
        flags = ["-std=c++17", "-O2", "-fPIC", "-shared", runtime, str(RUNTIME), "-o", str(part)]
        done = run([*find_compiler().command, *flags, *link], timeout=120)
        if done.returncode:
            last = (done.log.strip().splitlines() or ["no message"])[-1]
            raise Missing(f"{RUNTIME.name}, which {MMDEPLOY} needs, does not compile here ({last[:160]})")
        part.replace(target)


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


def ckdtree():
    """scipy's cKDTree.

    Raises:
        Missing: scipy is not installed.
    """
    try:
        from scipy.spatial import cKDTree
    except ImportError:
        raise Missing("scipy is not installed; `make setup` installs it") from None
    return cKDTree
