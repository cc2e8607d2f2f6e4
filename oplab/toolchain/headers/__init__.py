"""ONNX Runtime's C++ headers: the Python package has none, and kernels are compiled against them.

``python -m oplab.toolchain.headers`` prints the folder and the version of its API. The headers may be older than the
runtime (the C API is backward compatible) but not newer: then ``GetApi`` returns NULL and the first use is a SIGSEGV.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from oplab import files, paths
from oplab.errors import OplabError
from oplab.toolchain.headers import archive
from oplab.toolchain.headers.apt import OFFLINE, PACKAGE, download
from oplab.toolchain.headers.folders import Headers, RouteFailed, api_version, runtime_api, runtime_version, usable

__all__ = [
    "Headers",
    "api_version",
    "cache_dir",
    "find",
    "look",
    "main",
    "ort_include",
    "runtime_api",
    "runtime_version",
]

SYSTEM = Path("/usr/include/onnxruntime")

Say = Callable[[str], None]


def ort_include() -> Path:
    """The folder that holds ``onnxruntime_cxx_api.h``; fetched into the project's cache where the machine has none.

    Raises:
        OplabError: no route leads to usable headers; the message lists each with its reason.
    """
    return find().path


def cache_dir() -> Path:
    """Where fetched headers are kept."""
    return paths.build_dir() / "cache" / "ort-headers"


def look(environ: Mapping[str, str] | None = None) -> Headers | None:
    """As :func:`find`, but fetches nothing: None when no usable headers are on this machine."""
    environ = os.environ if environ is None else environ
    if environ.get("ORT_INCLUDE_DIR"):
        return find(environ=environ)
    for _, search in _local_routes(environ):
        with contextlib.suppress(RouteFailed):
            return search()
    return None


def find(say: Say = lambda text: None, environ: Mapping[str, str] | None = None) -> Headers:
    """Searches all routes in order and returns the first usable headers.

    Args:
        say: called with a line before something is fetched.
        environ: the environment variables; ``os.environ`` by default.
    """
    environ = os.environ if environ is None else environ
    named = environ.get("ORT_INCLUDE_DIR")
    if named:
        try:
            return usable(Path(named).expanduser(), "ORT_INCLUDE_DIR")
        except RouteFailed as reason:
            raise OplabError(
                f"ORT_INCLUDE_DIR is {named}, and its headers cannot be used: {reason}.",
                "Set it to the folder that holds onnxruntime_cxx_api.h, or unset it.",
            ) from None
    tried = []
    for route, search in _routes(say, environ):
        try:
            return search()
        except RouteFailed as reason:
            tried.append(f"  {route}: {reason}")
    offline = any(OFFLINE in reason for reason in tried)
    raise OplabError("ONNX Runtime's C++ headers were not found:\n" + "\n".join(tried), _fix(offline))


def _fix(offline: bool) -> str:
    if sys.platform == "darwin":
        how = "Run `brew install onnxruntime` and `export ORT_INCLUDE_DIR=$(brew --prefix onnxruntime)/include/onnxruntime`"
    else:
        how = f"Install them (Debian 13, Ubuntu 25.04 or newer: sudo apt-get install {PACKAGE}; conda: onnxruntime-cpp)"
    if offline:
        how = f"Connect this machine to the network and run the same command again. Or, without a network: {how}"
    return (
        f"{how}, or download {archive.file_name()} from ONNX Runtime's release page and set OPLAB_ORT_ARCHIVE "
        "to the file. docs/setup.md has the details."
    )


_Route = tuple[str, Callable[[], Headers]]


def _local_routes(environ: Mapping[str, str]) -> Iterator[_Route]:
    conda = environ.get("CONDA_PREFIX")
    if conda:
        folder = Path(conda, "include", "onnxruntime")
        yield f"conda ({folder})", lambda: usable(folder, "conda")
    yield f"the system ({SYSTEM})", lambda: usable(SYSTEM, "the system")
    cache = cache_dir()
    yield f"the project's cache ({cache})", lambda: _cached(cache)


def _routes(say: Say, environ: Mapping[str, str]) -> Iterator[_Route]:
    yield from _local_routes(environ)
    cache = cache_dir()
    yield f"the package {PACKAGE}", lambda: _fetched(cache, f"package {PACKAGE}", lambda to: download(to, say))
    yield "the release archive", lambda: _fetched(cache, "release archive", lambda to: archive.unpack(to, environ))


def _cached(cache: Path) -> Headers:
    origin = "the project's cache"
    with contextlib.suppress(OSError, ValueError):
        origin = f"{origin}, {json.loads((cache / 'origin.json').read_text(encoding='utf-8'))['route']}"
    return usable(cache, origin)


def _fetched(cache: Path, route: str, fetch: Callable[[Path], str]) -> Headers:
    """Fetches headers into a folder next to the cache and renames it into place. One process at a time."""
    cache.parent.mkdir(parents=True, exist_ok=True)
    with files.lock(cache.parent / ".ort-headers.lock"):
        with contextlib.suppress(RouteFailed):
            return _cached(cache)  # another process fetched them while this one waited
        for left in cache.parent.glob(".ort-headers-*"):  # of a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        scratch = Path(tempfile.mkdtemp(prefix=".ort-headers-", dir=cache.parent))
        try:
            made = scratch / "headers"
            made.mkdir()
            detail = fetch(made)
            usable(made, route)
            origin = {"route": route, "detail": detail}
            (made / "origin.json").write_text(json.dumps(origin) + "\n", encoding="utf-8")
            if cache.exists():
                os.rename(cache, scratch / "old")
            os.rename(made, cache)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return usable(cache, route)


def main(arguments: list[str] | None = None) -> int:
    """Prints the folder and its API version; ``--json`` for programs. Exit 2 when there are no usable headers."""
    arguments = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in arguments
    try:
        found = find(say=lambda text: print(text, file=sys.stderr, flush=True))
    except OplabError as error:
        if as_json:
            print(json.dumps({"error": error.message, "fix": error.fix}))
        else:
            print(error, file=sys.stderr)
        return 2
    if as_json:
        print(json.dumps({"path": str(found.path), "api": found.api, "route": found.route}))
    else:
        print(f"{found.path} (API {found.api}, from {found.route}; the runtime is {runtime_version()})")
    return 0
