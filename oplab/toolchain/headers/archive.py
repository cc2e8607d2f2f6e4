"""The headers in ONNX Runtime's release archive, which the user downloads."""

from __future__ import annotations

import hashlib
import platform
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from oplab.toolchain.headers import folders
from oplab.toolchain.headers.folders import RouteFailed


def file_name() -> str:
    """The name of the release archive for this machine and the installed runtime."""
    version = folders.runtime_version()
    machine = platform.machine().lower()
    if sys.platform == "darwin":
        return f"onnxruntime-osx-{'arm64' if machine in ('arm64', 'aarch64') else 'x86_64'}-{version}.tgz"
    return f"onnxruntime-linux-{'aarch64' if machine in ('arm64', 'aarch64') else 'x64'}-{version}.tgz"


def unpack(to: Path, environ: Mapping[str, str]) -> str:
    """Unpacks the headers of the archive that the user names into an empty folder.

    Args:
        environ: ``OPLAB_ORT_ARCHIVE`` is the file; ``OPLAB_ORT_ARCHIVE_SHA256``, where it is set, must be its hash.
    """
    named = environ.get("OPLAB_ORT_ARCHIVE")
    if not named:
        raise RouteFailed("OPLAB_ORT_ARCHIVE is not set")
    archive = Path(named).expanduser()
    if not archive.is_file():
        raise RouteFailed(f"OPLAB_ORT_ARCHIVE is {named}, and there is no such file")
    expected = environ.get("OPLAB_ORT_ARCHIVE_SHA256", "").strip().lower()
    if expected and _sha256(archive) != expected:
        raise RouteFailed(f"{archive.name} has the SHA-256 {_sha256(archive)}, not {expected}")
    _unpack_headers(archive, to)
    return archive.name


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unpack_headers(archive: Path, to: Path) -> None:
    """Writes the archive's ``include/`` headers to a folder; nothing else, and never outside of it."""
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                parts = PurePosixPath(member.name).parts
                if not member.isfile() or "include" not in parts or not member.name.endswith(".h") or ".." in parts:
                    continue
                target = to.joinpath(*parts[parts.index("include") + 1 :])
                source = tar.extractfile(member)
                assert source is not None
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read())
    except (tarfile.TarError, EOFError, OSError) as error:
        raise RouteFailed(f"{archive.name} cannot be unpacked ({error})") from None
