"""The headers in the package of Debian or Ubuntu, downloaded and unpacked without root."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from oplab.toolchain.headers.folders import RouteFailed, usable

PACKAGE = "libonnxruntime-dev"
# A release of each family that has the package, for machines whose own release is older.
FALLBACK_SUITES = {"debian": "trixie", "ubuntu": "resolute"}
COMPONENTS = {"debian": "main", "ubuntu": "main universe"}
OFFLINE = "the mirror cannot be reached (no network?)"


def _family(release: Mapping[str, str]) -> tuple[str, str]:
    """("debian" or "ubuntu", its codename), also for systems made from them."""
    kin = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    for family, key in (("ubuntu", "UBUNTU_CODENAME"), ("debian", "DEBIAN_CODENAME")):
        if family in kin:
            return family, release.get(key) or release.get("VERSION_CODENAME", "")
    raise RouteFailed("this is not Debian or Ubuntu")


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


def download(to: Path, say: Callable[[str], object]) -> str:
    """Downloads the package through a private apt directory and unpacks its headers, without root.

    The machine's own mirrors, proxies and keys are used and signatures are checked; the system's apt is not changed.

    Args:
        to: an empty folder for the headers; temporary files go next to it.
        say: called with a line before each attempt.

    Returns:
        The name of the package's file.
    """
    for tool in ("apt-get", "dpkg-deb"):
        if not shutil.which(tool):
            raise RouteFailed(f"there is no {tool}")
    family, codename = _family(platform.freedesktop_os_release())
    reasons = []
    for suite in dict.fromkeys([codename, FALLBACK_SUITES[family]]):
        sources = rewrite_sources(Path("/etc/apt"), codename, suite, COMPONENTS[family])
        if not sources.strip():
            raise RouteFailed(f"this machine's apt has no sources of {codename}")
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
                headers = usable(folder, "")
            except RouteFailed as why:
                reasons.append(f"{suite}: {why}")
                continue
            shutil.copytree(headers.path, to, dirs_exist_ok=True)
            return found.name
    raise RouteFailed("; ".join(reasons))


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
    """Runs apt-get in its own folder, which then holds the .deb. Returns the reason if it does not, else an empty text."""
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
        return OFFLINE if network else "it has no such package"
    lines = [line for line in (update.stdout + got.stdout).splitlines() if line.startswith(("E:", "Err:", "W:"))]
    return lines[-1] if lines else f"apt-get ended with {got.returncode}"
