"""A folder of headers: whether it is complete, and not newer than the installed ONNX Runtime."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import re
from pathlib import Path

from oplab.errors import OplabError

# What a kernel on the lite API includes, directly or not.
NEEDED = (
    "onnxruntime_c_api.h",
    "onnxruntime_cxx_api.h",
    "onnxruntime_cxx_inline.h",
    "onnxruntime_lite_custom_op.h",
)
# Distributions put them into include/onnxruntime, source trees into include/onnxruntime/core/session.
LAYOUTS = ("", "onnxruntime", "core/session", "onnxruntime/core/session", "include", "include/onnxruntime")


@dataclasses.dataclass(frozen=True)
class Headers:
    """Usable headers.

    Attributes:
        path: the folder that holds ``onnxruntime_cxx_api.h``.
        api: their API version, 21 for ONNX Runtime 1.21.
        route: how they were found.
    """

    path: Path
    api: int
    route: str


class RouteFailed(Exception):
    """Why one route does not lead to usable headers, as a clause for the list of routes; the search goes on."""


def api_version(folder: Path) -> int:
    """``ORT_API_VERSION`` of the headers in a folder."""
    try:
        return _read_api(Path(folder))
    except RouteFailed as reason:
        raise OplabError(f"{reason}.", "Give the folder that holds onnxruntime_c_api.h.") from None


def runtime_version() -> str:
    """The version of the installed ONNX Runtime, without importing it."""
    for name in ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    raise OplabError("ONNX Runtime is not installed in this Python.", "Run `make setup`.")


def runtime_api() -> int:
    """The newest API that the installed runtime offers: 31 for 1.31.1."""
    return int(runtime_version().split(".")[1])


def _read_api(folder: Path) -> int:
    header = folder / "onnxruntime_c_api.h"
    try:
        with open(header, encoding="utf-8", errors="replace") as file:
            for line in file:
                if match := re.match(r"\s*#\s*define\s+ORT_API_VERSION\s+(\d+)", line):
                    return int(match[1])
    except OSError as error:
        raise RouteFailed(f"{header} cannot be read ({error.strerror})") from None
    raise RouteFailed(f"{header} does not define ORT_API_VERSION")


def usable(folder: Path, route: str) -> Headers:
    """The headers in or under a folder, if they are complete and not newer than the runtime.

    Args:
        folder: where to look: the folder itself, and the places in ``LAYOUTS`` under it.
        route: how the folder was found, for the result.

    Raises:
        RouteFailed: headers are missing or too new.
    """
    if not folder.is_dir():
        raise RouteFailed("there is no such folder")
    home = next((folder / layout for layout in LAYOUTS if (folder / layout / "onnxruntime_cxx_api.h").is_file()), None)
    if home is None:
        raise RouteFailed("there is no onnxruntime_cxx_api.h in it")
    absent = [name for name in NEEDED if not (home / name).is_file()]
    if absent:
        raise RouteFailed(f"{', '.join(absent)} missing in {home}")
    api, runtime = _read_api(home), runtime_api()
    if api > runtime:
        raise RouteFailed(
            f"the headers in {home} are of ONNX Runtime 1.{api}, newer than the installed runtime {runtime_version()}; "
            "a kernel compiled with them would crash"
        )
    return Headers(home.absolute(), api, route)
