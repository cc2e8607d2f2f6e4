"""The pinned packages: what requirements.lock has, what is installed, and the step that installs it with uv. Standard library only."""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from setup_engine import Finished, SetupError, Step, digest, failure_of

if TYPE_CHECKING:
    from setup_steps import Context

QUIET_PIP = {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_ROOT_USER_ACTION": "ignore"}
TORCH = ("torch", "torchvision")
# What only PyTorch's builds for CUDA need.
TORCH_ONLY = re.compile(r"^(nvidia-.*|cuda-.*|triton)$")
# pip's settings, and the variables of uv that mean the same: uv does not read pip's.
SAME = {
    "index-url": ("UV_DEFAULT_INDEX", "UV_INDEX_URL"),
    "extra-index-url": ("UV_INDEX", "UV_EXTRA_INDEX_URL"),
    "find-links": ("UV_FIND_LINKS",),
    "no-index": ("UV_NO_INDEX",),
    "trusted-host": ("UV_INSECURE_HOST",),
    "cert": ("SSL_CERT_FILE",),
    "client-cert": ("SSL_CLIENT_CERT",),
    "proxy": ("ALL_PROXY", "all_proxy"),
}


def normalize(name: str) -> str:
    """A package's name in the one spelling that indexes compare."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse_lock(text: str) -> list[tuple[str, str, str]]:
    """(name, version, marker) for each line ``name==version ; marker`` of a lock; the marker may be "".

    Raises:
        ValueError: a line is something else.
    """
    pins = []
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split("#", 1)[0].strip()
        match = re.fullmatch(r"([A-Za-z0-9][\w.-]*)==([\w.!+]+)(?:\s*;\s*(.+))?", line)
        if match:
            pins.append((normalize(match[1]), match[2], match[3] or ""))
        elif line:
            raise ValueError(f"requirements.lock, line {number}: not an exact pin: {line}")
    return pins


def installed(sites: Iterable[Path]) -> dict[str, str]:
    """The versions of all packages in some site-packages folders, read from the names of their .dist-info folders."""
    found = {}
    for info in (info for site in sites for info in site.glob("[!~]*.dist-info")):
        name, _, version = info.name.removesuffix(".dist-info").rpartition("-")
        found[normalize(name)] = version
    return found


def agrees(pin: str, version: str | None) -> bool:
    """True when an installed version is the pinned one; a local build (``2.15.0+cpu``) of the pinned version is."""
    return version is not None and version.split("+", 1)[0] == pin


def uv_variables(listed: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that make uv look where pip would; what the user tells uv is not replaced.

    Args:
        listed: what ``pip config list`` prints.
        environ: the variables that are set.
    """
    settings: dict[str, str] = {}
    for section in ("global", "install", ":env:"):  # the last one wins, as in pip
        for name, value in re.findall(rf"^{section}\.([a-z-]+)=(.+)$", listed, re.M):
            settings[name] = str(ast.literal_eval(value))
    found = {}
    for name, same in SAME.items():
        # pip passes over a folder that is not there; uv does not.
        places = [place for place in settings.get(name, "").split() if "/" not in place or _is_there(place)]
        if places and not any(environ.get(variable) for variable in same):
            found[same[0]] = ("," if name == "find-links" else " ").join(places)
    if "UV_INDEX" in found:  # as pip does: the best version of all indexes
        found["UV_INDEX_STRATEGY"] = environ.get("UV_INDEX_STRATEGY", "unsafe-best-match")
    return found


def _is_there(place: str) -> bool:
    return urlsplit(place).scheme not in ("", "file") or os.path.exists(unquote(urlsplit(place).path))


def has_nvidia_gpu() -> bool:
    """Whether this machine has the driver that PyTorch's builds for CUDA need."""
    return shutil.which("nvidia-smi") is not None or Path("/proc/driver/nvidia/version").exists()


class Installer:
    """uv, from the PATH or from pip, with pip's settings; or pip, where uv cannot be installed or fails."""

    def __init__(self, context: Context, pin: str, source: list[str]):
        self.context, self.source = context, source
        self.pip = [context.env.python, "-I", "-m", "pip"]
        program = shutil.which("uv", path=context.env.variables()["PATH"])
        if not program and self.run([*self.pip, "install", "--quiet", "--no-deps", *source, pin]).code == 0:
            program = shutil.which("uv", path=str(context.env.bin))
        if not program:
            context.console.say("      uv could not be installed; pip is used.")
        # The bytecode as pip does: without it each start of a grader or a kernel compiles PyTorch's modules where they cannot be written.
        words = [f"--python={context.env.python}", "--no-progress", "--compile-bytecode", *source]
        self.uv = program and [program, "pip", "install", *words]
        self.variables = uv_variables(self.run([*self.pip, "config", "list"]).output, context.env.variables())

    def run(self, command: list[Any], **variables: str) -> Finished:
        """Runs uv or pip; the last line and the seconds are the progress."""
        start, last = time.monotonic(), [""]

        def show(line: str = "") -> None:
            last[0] = line.strip() or last[0]
            self.context.console.progress(f"{last[0]}  ({time.monotonic() - start:.0f} s)")

        return self.context.child(command, QUIET_PIP | variables, on_line=show, on_tick=show)

    def with_uv(self, arguments: list[str], **variables: str) -> Finished:
        return self.run([*self.uv, *arguments], **self.variables, **variables)

    def install(self, options: list[str], lines: list[str]) -> None:
        """Installs these lines of the lock.

        Raises:
            SetupError: it failed; the message is the reason.
        """
        file = self.context.build / "setup" / "packages.txt"
        file.write_text("\n".join([*lines, ""]), encoding="utf-8")
        chosen = [*options, "--requirement", str(file)]
        if self.uv:
            ended = self.with_uv(chosen)
            if ended.code == 0:
                return
            last = next((line.strip() for line in reversed(ended.output.splitlines()) if line.strip()), "no message")
            self.context.console.say(f"      uv could not install them ({last}); pip is used.")
        words = [word.replace("--default-index", "--index-url") for word in [*self.source, *chosen]]
        words = ["--force-reinstall" if word.startswith("--reinstall") else word for word in words]
        ended = self.run([*self.pip, "install", "--no-input", "--no-warn-script-location", *words])
        if ended.code != 0:
            raise failure_of(ended.output, "the packages could not be installed")


def packages(context: Context) -> Step:
    """The pinned packages.

    PyTorch comes from the index that TORCH_INDEX names; else in the build that TORCH_BACKEND names (``cpu``, ``cu132``; ``pypi`` is that of
    the usual index). Without either, what is installed stays, and a new environment gets ``cpu`` where there is no NVIDIA GPU.
    """
    env, lock, say = context.env, context.root / "requirements.lock", context.console.say
    asked = os.environ.get("TORCH_INDEX", "") or os.environ.get("TORCH_BACKEND", "")
    unfinished = env.stamps / "packages.unfinished"

    def intact(stamp: dict[str, Any]) -> bool:
        """True when every package is still there, and no other build of PyTorch is asked for."""
        return asked in ("", stamp.get("asked")) and stamp.get("have", {"": ""}).items() <= installed(env.sites).items()

    def run(before: dict[str, Any]) -> dict[str, Any]:
        try:
            lines = [line for line in lock.read_text(encoding="utf-8").splitlines() if re.match(r"\w", line)]
            pins = {name: f"{name}=={version}" for name, version, _ in parse_lock("\n".join(lines))}
        except (FileNotFoundError, ValueError) as error:
            wrong = error if isinstance(error, ValueError) else "requirements.lock is missing"
            raise SetupError(f"{wrong}.", "run `git checkout requirements.lock`.") from None
        rest = [line for line in lines if (name := line.split("==")[0]) not in TORCH and not TORCH_ONLY.match(name)]
        pair = [pins[name] for name in TORCH]
        wheels = wheelhouse()
        installer = Installer(
            context, pins.get("uv", ""), ["--no-index", "--find-links", str(wheels)] if wheels else []
        )
        have = installed(env.sites)
        has_torch = agrees(pins["torch"].split("==")[1], have.get("torch"))
        if (
            unfinished.exists()
        ):  # a killed installer leaves packages without all of their files; so all are installed again
            for info in (info for site in env.sites for info in site.glob("[!~]*.dist-info")):
                if normalize(info.name.split("-")[0]) in pins:
                    shutil.rmtree(info)
            have, has_torch = {}, False
        env.stamps.mkdir(parents=True, exist_ok=True)
        unfinished.touch()
        switch = has_torch and asked not in ("", before.get("asked"))
        again = ["--no-deps", *(f"--reinstall-package={name}" for name in TORCH if switch)]
        try:
            if wheels:
                installer.install(again, lines if list(wheels.glob("nvidia_*.whl")) else [*rest, *pair])
            elif has_torch and not switch:
                installer.install(again, rest if "+" in have["torch"] else lines)
            elif asked == "pypi" or not (asked or (installer.uv and sys.platform == "linux" and not has_nvidia_gpu())):
                installer.install(again, lines)
            else:
                installer.install(["--no-deps"], rest)
                get_torch(installer, again, pair, lines)
        except SetupError:
            unfinished.unlink()  # the installer has ended by itself: nothing is half installed
            raise
        have = installed(env.sites)
        if have["torch"].endswith("+cpu") and (unused := [name for name in have if TORCH_ONLY.match(name)]):
            installer.run([*installer.pip, "uninstall", "--yes", *unused])  # 4 GB
        unfinished.unlink()
        return {"asked": asked or before.get("asked", ""), "have": installed(env.sites)}

    def get_torch(installer: Installer, again: list[str], pair: list[str], lines: list[str]) -> None:
        """Installs PyTorch, after all else, in the build that is asked for, or without CUDA."""
        others = context.build / "setup" / "packages.txt"
        held = [*again[1:], "--constraint", str(others.rename(others.with_name("constraints.txt")))]
        if "://" in asked:  # with dependencies: a build for CUDA brings its own
            return installer.install([*held, "--default-index", asked], pair)
        if not asked:
            say("      No NVIDIA GPU: PyTorch without CUDA (TORCH_BACKEND=cu132 make lab gets it with CUDA).")
        ended = installer.with_uv(["--torch-backend", asked or "cpu", *held, *pair], UV_HTTP_RETRIES="1")
        if ended.code != 0 and asked:
            raise failure_of(ended.output, f"PyTorch's build {asked} could not be installed")
        if ended.code != 0:
            say(
                "      PyTorch's own index cannot be reached, so its usual build is installed, with 4 GB of CUDA libraries "
                "that this machine does not need."
            )
            installer.install(again, lines)

    return Step("Packages", env.stamps / "packages.json", lambda: digest(lock, env.version), intact, run)


def wheelhouse() -> Path | None:
    """The folder that OPLAB_WHEELHOUSE names, from which everything is installed then; `oplab wheelhouse` fills one."""
    named = os.environ.get("OPLAB_WHEELHOUSE", "")
    folder = Path(named).expanduser().absolute()
    if named and not any(folder.glob("*.whl")):
        raise SetupError(
            f"OPLAB_WHEELHOUSE is {named}, where there are no wheels.",
            "fill it on a machine with a network (oplab wheelhouse DIR), or unset OPLAB_WHEELHOUSE.",
        )
    return folder if named else None
