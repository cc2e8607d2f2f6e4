"""ONNX Runtime's C++ headers: the Python package has none, and kernels are compiled against them.

``python -m oplab.toolchain.headers`` prints the folder and the version of its API. The headers may be older than the
runtime (the C API is backward compatible) but not newer: then ``GetApi`` returns NULL and the first use is a SIGSEGV.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from oplab import files, paths
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
SYSTEM = Path("/usr/include/onnxruntime")
PACKAGE = "libonnxruntime-dev"
# A release of each family that has the package, for machines whose own release is older.
FALLBACK_SUITES = {"debian": "trixie", "ubuntu": "resolute"}
COMPONENTS = {"debian": "main", "ubuntu": "main universe"}
ARCHIVE_URL = "https://github.com/microsoft/onnxruntime/releases/download/v{version}/{name}"
# SHA-256 of release archives by file name. An archive that is not listed is fetched only when you name its hash (the
# release's page shows it) in OPLAB_ORT_ARCHIVE_SHA256: nothing that was not checked is compiled into the course.
ARCHIVE_SHA256: dict[str, str] = {}
ARCHIVE_LIMIT = 512 << 20

_OFFLINE = "the mirror cannot be reached (no network?)"

Say = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Headers:
    """A folder that holds ``onnxruntime_cxx_api.h``, its API version (21 for ONNX Runtime 1.21), and how it was found."""

    path: Path
    api: int
    route: str


class _No(Exception):
    """Why one route does not lead to usable headers; the search goes on."""


def ort_include() -> Path:
    """The folder that holds ``onnxruntime_cxx_api.h``; fetched into the project's cache where the machine has none.

    Raises:
        OplabError: no route leads to usable headers; the message lists each with its reason.
    """
    return find().path


def api_version(folder: Path) -> int:
    """``ORT_API_VERSION`` of the headers in a folder.

    Raises:
        OplabError: ``onnxruntime_c_api.h`` is missing or does not say.
    """
    try:
        return _api_version(Path(folder))
    except _No as reason:
        raise OplabError(f"{reason}.", "Give the folder that holds onnxruntime_c_api.h.") from None


def runtime_version() -> str:
    """The version of the installed ONNX Runtime, without importing it.

    Raises:
        OplabError: it is not installed.
    """
    for name in ("onnxruntime", "onnxruntime-gpu", "onnxruntime-directml"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    raise OplabError("ONNX Runtime is not installed in this Python.", "Run `make setup`.")


def runtime_api() -> int:
    """The newest API that the installed runtime offers: 31 for 1.31.1."""
    return int(runtime_version().split(".")[1])


def cache_dir() -> Path:
    """Where fetched headers are kept."""
    return paths.build_dir() / "cache" / "ort-headers"


def look(environ: Mapping[str, str] | None = None) -> Headers | None:
    """As :func:`find`, but fetches nothing: None when no usable headers are on this machine.

    Raises:
        OplabError: ``ORT_INCLUDE_DIR`` is set to a folder that cannot be used.
    """
    environ = os.environ if environ is None else environ
    if environ.get("ORT_INCLUDE_DIR"):
        return find(environ=environ)
    for _, search in _local_routes(environ):
        with contextlib.suppress(_No):
            return search()
    return None


def find(say: Say = lambda text: None, environ: Mapping[str, str] | None = None) -> Headers:
    """Searches all routes in order and returns the first usable headers.

    Args:
        say: called with a line before something is fetched.
        environ: the environment variables; ``os.environ`` by default.

    Raises:
        OplabError: ``ORT_INCLUDE_DIR`` is set to a folder that cannot be used, or no route leads to headers.
    """
    environ = os.environ if environ is None else environ
    named = environ.get("ORT_INCLUDE_DIR")
    if named:
        try:
            return _usable(Path(named).expanduser(), "ORT_INCLUDE_DIR")
        except _No as reason:
            raise OplabError(
                f"ORT_INCLUDE_DIR is {named}, and its headers cannot be used: {reason}.",
                "Set it to the folder that holds onnxruntime_cxx_api.h, or unset it.",
            ) from None
    tried = []
    for route, search in _routes(say, environ):
        try:
            return search()
        except _No as reason:
            tried.append(f"  {route}: {reason}")
    offline = any(_OFFLINE in reason for reason in tried)
    raise OplabError("ONNX Runtime's C++ headers were not found:\n" + "\n".join(tried), _fix(offline))


def _fix(offline: bool) -> str:
    version = runtime_version()
    if sys.platform == "darwin":
        how = "Run `brew install onnxruntime` and `export ORT_INCLUDE_DIR=$(brew --prefix onnxruntime)/include/onnxruntime`"
    else:
        how = f"Install them (Debian 13, Ubuntu 25.04 or newer: sudo apt-get install {PACKAGE}; conda: onnxruntime-cpp)"
    if offline:
        how = f"Connect this machine to the network and run the same command again. Or, without a network: {how}"
    return (
        f"{how}, or download {_archive_name(version)} from ONNX Runtime's release page and set OPLAB_ORT_ARCHIVE "
        "to the file. docs/setup.md has the details."
    )


_Route = tuple[str, Callable[[], Headers]]


def _local_routes(environ: Mapping[str, str]) -> Iterator[_Route]:
    conda = environ.get("CONDA_PREFIX")
    if conda:
        folder = Path(conda, "include", "onnxruntime")
        yield f"conda ({folder})", lambda: _usable(folder, "conda")
    yield f"the system ({SYSTEM})", lambda: _usable(SYSTEM, "the system")
    cache = cache_dir()
    yield f"the project's cache ({cache})", lambda: _cached(cache)


def _routes(say: Say, environ: Mapping[str, str]) -> Iterator[_Route]:
    yield from _local_routes(environ)
    cache = cache_dir()
    yield f"the package {PACKAGE}", lambda: _fetched(cache, f"package {PACKAGE}", lambda to: _from_apt(to, say))
    yield "the release archive", lambda: _fetched(cache, "release archive", lambda to: _from_archive(to, say, environ))


# ------------------------------------------------------------------------------------------------- what is on disk


def _api_version(folder: Path) -> int:
    header = folder / "onnxruntime_c_api.h"
    try:
        with open(header, encoding="utf-8", errors="replace") as file:
            for line in file:
                if match := re.match(r"\s*#\s*define\s+ORT_API_VERSION\s+(\d+)", line):
                    return int(match[1])
    except OSError as error:
        raise _No(f"{header} cannot be read ({error.strerror})") from None
    raise _No(f"{header} does not define ORT_API_VERSION")


def _usable(folder: Path, route: str) -> Headers:
    """The headers in or under a folder, if they are complete and not newer than the runtime."""
    if not folder.is_dir():
        raise _No("there is no such folder")
    home = next((folder / layout for layout in LAYOUTS if (folder / layout / "onnxruntime_cxx_api.h").is_file()), None)
    if home is None:
        raise _No("there is no onnxruntime_cxx_api.h in it")
    absent = [name for name in NEEDED if not (home / name).is_file()]
    if absent:
        raise _No(f"{', '.join(absent)} missing in {home}")
    api, runtime = _api_version(home), runtime_api()
    if api > runtime:
        raise _No(
            f"the headers in {home} are of ONNX Runtime 1.{api}, newer than the installed runtime {runtime_version()}; "
            "a kernel compiled with them would crash"
        )
    return Headers(home.absolute(), api, route)


def _cached(cache: Path) -> Headers:
    origin = "the project's cache"
    with contextlib.suppress(OSError, ValueError):
        origin = f"{origin}, {json.loads((cache / 'origin.json').read_text(encoding='utf-8'))['route']}"
    return _usable(cache, origin)


def _fetched(cache: Path, route: str, fetch: Callable[[Path], str]) -> Headers:
    """Fetches headers into a folder beside the cache and renames it into place. One process at a time."""
    cache.parent.mkdir(parents=True, exist_ok=True)
    with files.lock(cache.parent / ".ort-headers.lock"):
        with contextlib.suppress(_No):
            return _cached(cache)  # another process fetched them while this one waited
        for left in cache.parent.glob(".ort-headers-*"):  # of a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        scratch = Path(tempfile.mkdtemp(prefix=".ort-headers-", dir=cache.parent))
        try:
            made = scratch / "headers"
            made.mkdir()
            detail = fetch(made)
            _usable(made, route)
            origin = {"route": route, "detail": detail}
            (made / "origin.json").write_text(json.dumps(origin) + "\n", encoding="utf-8")
            if cache.exists():
                os.rename(cache, scratch / "old")
            os.rename(made, cache)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return _usable(cache, route)


# --------------------------------------------------------------------------------------------- Debian's and Ubuntu's


def _os_release(path: Path = Path("/etc/os-release")) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    pairs = (line.partition("=") for line in lines if "=" in line)
    return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs}


def _family(release: Mapping[str, str]) -> tuple[str, str]:
    """("debian" or "ubuntu", its codename), also for systems made from them."""
    kin = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    for family, key in (("ubuntu", "UBUNTU_CODENAME"), ("debian", "DEBIAN_CODENAME")):
        if family in kin:
            return family, release.get(key) or release.get("VERSION_CODENAME", "")
    raise _No("this is not Debian or Ubuntu")


def rewrite_sources(folder: Path, codename: str, suite: str, components: str) -> str:
    """The machine's own package sources of one release, as deb822 text for another release.

    Mirrors and signing keys stay as the machine has them. Other suites (security, updates, other vendors') are left out.

    Args:
        folder: apt's configuration, ``/etc/apt``.
        codename: the release whose sources are taken, for example ``bookworm``.
        suite: the release that is written instead, for example ``trixie``.
        components: for example ``main universe``.
    """
    stanzas = []
    files = [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]
    for file in files:
        if not file.is_file():
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        if file.suffix == ".sources":
            stanzas += [_restated(stanza, codename, suite, components) for stanza in re.split(r"\n\s*\n", text)]
        elif file.suffix == ".list":
            for line in text.splitlines():
                match = re.match(r"\s*deb\s+(?:\[([^\]]*)\]\s+)?(\S+)\s+(\S+)\s+\S", line)
                if match and match[3] == codename:
                    fields = ["Types: deb", f"URIs: {match[2]}", f"Suites: {suite}", f"Components: {components}"]
                    key = re.search(r"signed-by=(\S+)", match[1] or "")
                    stanzas.append("\n".join(fields + ([f"Signed-By: {key[1]}"] if key else [])))
    return "\n\n".join(dict.fromkeys(filter(None, stanzas))) + "\n"


def _restated(stanza: str, codename: str, suite: str, components: str) -> str:
    """One deb822 stanza for another suite, or "" when it is not of this release."""
    fields: dict[str, str] = {}
    key = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace() and key:
            fields[key] += "\n" + line  # a key given in full runs over many lines
        elif ":" in line:
            key, _, value = line.partition(":")
            key = key.strip().lower()
            fields[key] = value.strip()
    enabled = fields.get("enabled", "yes").lower() not in ("no", "false", "0")
    if not enabled or "deb" not in fields.get("types", "").split() or codename not in fields.get("suites", "").split():
        return ""
    kept = {"Types": "deb", "URIs": fields.get("uris", ""), "Suites": suite, "Components": components}
    if "signed-by" in fields:
        kept["Signed-By"] = fields["signed-by"]
    return "\n".join(f"{name}: {value}" for name, value in kept.items())


def _from_apt(to: Path, say: Say, etc: Path = Path("/etc/apt")) -> str:
    """Downloads the package through a private apt directory and unpacks its headers, without root.

    The machine's own mirrors, proxies and keys are used and signatures are checked; the system's apt is not touched.
    """
    for tool in ("apt-get", "dpkg-deb"):
        if not shutil.which(tool):
            raise _No(f"there is no {tool}")
    family, codename = _family(_os_release())
    reasons = []
    for suite in dict.fromkeys([codename, FALLBACK_SUITES[family]]):
        sources = rewrite_sources(etc, codename, suite, COMPONENTS[family])
        if not sources.strip():
            raise _No(f"this machine's apt has no sources of {codename}")
        say(f"Looking for the package {PACKAGE} in {family.capitalize()} {suite} ...")
        with tempfile.TemporaryDirectory(prefix="apt-", dir=to.parent) as scratch:
            reason = _apt_download(Path(scratch), sources)
            found = next(Path(scratch).glob(f"{PACKAGE}_*.deb"), None)
            if found is None:
                reasons.append(f"{suite}: {reason}")
                continue
            unpacked = Path(scratch, "unpacked")
            if _run(["dpkg-deb", "-x", str(found), str(unpacked)], Path(scratch)).returncode != 0:
                reasons.append(f"{suite}: {found.name} cannot be unpacked")
                continue
            folder = unpacked / "usr" / "include" / "onnxruntime"
            try:
                headers = _usable(folder, "")
            except _No as why:
                reasons.append(f"{suite}: {why}")
                continue
            shutil.copytree(headers.path, to, dirs_exist_ok=True)
            return found.name
    raise _No("; ".join(reasons))


def _run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive", **variables}
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=300,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, f"{command[0]} took longer than 300 s", "")


def _apt_download(scratch: Path, sources: str) -> str:
    """Runs apt-get in a folder of its own; the .deb lands in it. Returns why it did not, if so."""
    for name in ("parts", "lists/partial", "cache/archives/partial"):
        (scratch / name).mkdir(parents=True)
    (scratch / "parts" / "own.sources").write_text(sources, encoding="utf-8")
    settings = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": str(scratch / "parts"),
        "Dir::State::lists": str(scratch / "lists"),
        "Dir::Cache": str(scratch / "cache"),
        "APT::Get::AllowUnauthenticated": "false",
        "Acquire::AllowInsecureRepositories": "false",
        "Acquire::Languages": "none",
        "Acquire::Retries": "1",
        "Acquire::http::Timeout": "20",
        "Acquire::https::Timeout": "20",
    }
    if os.getuid() == 0:
        settings["APT::Sandbox::User"] = "root"  # the folder is not _apt's
    config = scratch / "apt.conf"
    config.write_text("".join(f'{key} "{value}";\n' for key, value in settings.items()), encoding="utf-8")
    # On the command line too: files of /etc/apt/apt.conf.d are read after APT_CONFIG.
    options = [f"-o{key}={value}" for key, value in settings.items()]
    update = _run(["apt-get", *options, "update"], scratch, APT_CONFIG=str(config))
    got = _run(["apt-get", *options, "download", PACKAGE], scratch, APT_CONFIG=str(config))
    if got.returncode == 0:
        return ""
    if re.search(r"Unable to locate package|No candidate", got.stdout):
        network = re.search(
            r"Temporary failure|Could not resolve|Cannot initiate|Could not connect|Unable to connect", update.stdout
        )
        return _OFFLINE if network else "it has no such package"
    lines = [line for line in (update.stdout + got.stdout).splitlines() if line.startswith(("E:", "Err:", "W:"))]
    return lines[-1] if lines else f"apt-get ended with {got.returncode}"


# ------------------------------------------------------------------------------------------------ the release archive


def _archive_name(version: str) -> str:
    machine = platform.machine().lower()
    if sys.platform == "darwin":
        return f"onnxruntime-osx-{'arm64' if machine in ('arm64', 'aarch64') else 'x86_64'}-{version}.tgz"
    return f"onnxruntime-linux-{'aarch64' if machine in ('arm64', 'aarch64') else 'x64'}-{version}.tgz"


def _from_archive(to: Path, say: Say, environ: Mapping[str, str]) -> str:
    """Unpacks the headers of the release archive: the file OPLAB_ORT_ARCHIVE, or fetched when its hash is known."""
    version = runtime_version()
    name = _archive_name(version)
    expected = (environ.get("OPLAB_ORT_ARCHIVE_SHA256") or ARCHIVE_SHA256.get(name, "")).strip().lower()
    given = environ.get("OPLAB_ORT_ARCHIVE")
    if given:
        archive = Path(given).expanduser()
        if not archive.is_file():
            raise _No(f"OPLAB_ORT_ARCHIVE is {given}, and there is no such file")
    elif not expected:
        raise _No(f"the hash of {name} is not known here; set OPLAB_ORT_ARCHIVE_SHA256 to have it fetched")
    else:
        archive = to.parent / name
        say(f"Fetching {name} ...")
        _download(ARCHIVE_URL.format(version=version, name=name), archive)
    if expected and _sha256(archive) != expected:
        raise _No(f"{archive.name} has the SHA-256 {_sha256(archive)}, not {expected}")
    _unpack_headers(archive, to)
    return archive.name


def _download(url: str, to: Path) -> None:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer, open(to, "wb") as file:
            size = 0
            while chunk := answer.read(1 << 20):
                size += len(chunk)
                if size > ARCHIVE_LIMIT:
                    raise _No(f"{to.name} is larger than {ARCHIVE_LIMIT >> 20} MiB")
                file.write(chunk)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise _No(f"{to.name} cannot be fetched ({getattr(error, 'reason', error)})") from None


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
        raise _No(f"{archive.name} cannot be unpacked ({error})") from None


# --------------------------------------------------------------------------------------------------------------- CLI


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


if __name__ == "__main__":
    sys.exit(main())
