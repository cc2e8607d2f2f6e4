"""Builds a folder with a ``setup.py`` of ``torch.utils.cpp_extension`` the way its reader would, and keeps what came out.

``torch/extension.h`` takes the compiler some twenty seconds, so a folder with the same content is built once. How long the
compiler worked is kept next to the library: a figure of compile times needs no second build.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from oplab import paths
from oplab.errors import OplabError
from oplab.toolchain.compiler import OWN_SOURCES_TIMEOUT, find_compiler, run
from oplab.toolchain.diagnostics import build_failed
from oplab.toolchain.recipes import SUFFIX

__all__ = ["Extension", "build_extensions"]

# What the reader would type is `python setup.py build_ext`; the lines around it ask the system for the compiler's own time.
_PROGRAM = """\
import json, os, resource, runpy, sys
os.environ["MAX_JOBS"] = "1"
out, sys.argv = sys.argv[1], ["setup.py", "build_ext", "--build-lib", "made", "--build-temp", "objects"]
runpy.run_path("setup.py", run_name="__main__")
used = resource.getrusage(resource.RUSAGE_CHILDREN)
with open(out, "w") as file:
    json.dump({"seconds": used.ru_utime + used.ru_stime}, file)
"""


@dataclass(frozen=True)
class Extension:
    """What ``python setup.py build_ext`` made.

    Attributes:
        library: the shared library. It keeps the name that setuptools gave it.
        seconds: processor time of the compiler and the linker, in seconds, measured when it was built. The clock would
            count the other builds of the machine as well.
        fresh: False where it came from the cache.
    """

    library: Path
    seconds: float
    fresh: bool


def build_extensions(folders: Sequence[Path], *, cache: Path | None = None) -> list[Extension]:
    """Build several folders at the same time, each once for its content.

    Args:
        folders: each has a ``setup.py`` with one extension module, its sources and its headers.
        cache: where libraries are kept; ``build/cache/extensions`` by default. Several processes may share it.
    """
    cache = Path(cache or paths.build_dir() / "cache" / "extensions").resolve()
    cache.mkdir(parents=True, exist_ok=True)
    find_compiler()  # asked once, and before any thread
    with ThreadPoolExecutor(max(1, len(folders))) as pool:
        return list(pool.map(lambda folder: _built(Path(folder), cache), folders))


def _built(folder: Path, cache: Path) -> Extension:
    kept = cache / _key(folder)
    if (kept / "times.json").is_file():
        return _read(kept, fresh=False)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=cache) as made:
        scratch = Path(made)
        shutil.copytree(folder, scratch / "source")
        command = [sys.executable, "-c", _PROGRAM, str(scratch / "times.json")]
        # Without the limit on address space: setup.py imports torch, which reserves more than a compiler needs.
        done = run(command, timeout=OWN_SOURCES_TIMEOUT, cwd=scratch / "source", limited=False)
        if done.returncode != 0:
            place = folder.resolve()  # the reader's own file, not the copy that is gone by then
            sources = sorted(place.glob("*.c*"))
            log = done.log.replace(str(scratch / "source"), str(place))
            raise build_failed(log, sources[0] if sources else place / "setup.py")
        libraries = list((scratch / "source" / "made").glob(f"*{SUFFIX}"))
        if len(libraries) != 1:
            raise OplabError(
                f"{folder.name}/setup.py made {len(libraries)} libraries.", "Give it exactly one extension module."
            )
        result = scratch / "result"
        result.mkdir()
        os.replace(libraries[0], result / libraries[0].name)
        os.replace(scratch / "times.json", result / "times.json")
        try:
            os.replace(result, kept)
        except OSError:  # another process has put the same content there meanwhile
            if not (kept / "times.json").is_file():
                raise
    return _read(kept, fresh=True)


def _read(kept: Path, *, fresh: bool) -> Extension:
    (library,) = kept.glob(f"*{SUFFIX}")
    return Extension(library, float(json.loads((kept / "times.json").read_text())["seconds"]), fresh)


def _key(folder: Path) -> str:
    versions = ("1", find_compiler().identity, importlib.metadata.version("torch"), sys.version)
    digest = hashlib.sha256("\0".join(versions).encode())
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        for data in (file.relative_to(folder).as_posix().encode(), file.read_bytes()):
            digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()[:20]
