"""The step that installs the pinned packages, and what it makes of the output of pip or uv. Standard library only."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import setup_packages as packages
import setup_uv as uv
from setup_engine import AGAIN, GIB, Console, Finished, SetupError, Step, digest, read_stamp, write_stamp
from setup_environment import Context

# What a full installation takes, measured (6.3 and 2.2 GiB), with room for the wheel that is being unpacked.
ROOM_CUDA = int(7.5 * GIB)
ROOM_PLAIN = int(3.0 * GIB)


class PackagesStep(Step):
    """The pinned packages of requirements.lock, installed by uv where it is on the PATH, else by pip."""

    name = "Packages"

    def __init__(self, context: Context):
        self.context = context
        self.env = context.env
        self.lock = context.root / "requirements.lock"
        self._pins: dict[str, str] = {}
        self._uv = uv.find(self.env.variables()["PATH"])

    def stamp(self) -> Path:
        """``packages.json`` in the environment."""
        return self.env.stamps() / "packages.json"

    def index(self) -> str:
        """Where torch comes from: TORCH_INDEX, or what was used before, or "" (the same index as all other packages)."""
        named = os.environ.get("TORCH_INDEX", "")
        if named == "default":
            return ""
        if named:
            return named
        before = read_stamp(self.env.stamps() / "torch_index.json")
        return str(before.get("index", ""))

    def inputs(self) -> str:
        """The lock, the version of Python and torch's index."""
        return digest(self.lock, self.env.version, self.index())

    def wheelhouse(self) -> Path | None:
        """The folder that OPLAB_WHEELHOUSE names, from which everything is installed then; `oplab wheelhouse` fills one.

        Raises:
            SetupError: it is not a folder, or has no wheels.
        """
        named = os.environ.get("OPLAB_WHEELHOUSE", "")
        if not named:
            return None
        folder = Path(named).expanduser().absolute()
        if not any(folder.glob("*.whl")):
            raise SetupError(
                f"OPLAB_WHEELHOUSE is {named}, where there are no wheels.",
                "fill it on a machine with a network (oplab wheelhouse DIR), or unset OPLAB_WHEELHOUSE.",
            )
        return folder

    def intact(self, stamp: dict[str, Any]) -> bool:
        """True when every pinned version is installed."""
        pins = stamp.get("pins")
        return isinstance(pins, dict) and not packages.missing(pins, packages.installed(self.env.sites()))

    def about(self) -> str:
        """How many packages are missing, and how large they are."""
        self._pins = self.pins()
        absent = packages.missing(self._pins, packages.installed(self.env.sites()))
        text = f"{len(self._pins)} pinned packages, {len(absent)} of them to install"
        if "torch" in absent:
            size = "about 6 GB on disk, one to ten minutes" if self._cuda(absent) else "about 2 GB on disk"
            text += f" ({size})"
            if self._cuda(absent) and not has_nvidia_driver():
                text += ".\n      No NVIDIA GPU was found, so 4 of these 6 GB have no use here. "
                text += "docs/setup.md, CPU-only, tells how to leave them out"
        return text

    def _cuda(self, absent: dict[str, str]) -> bool:
        return not self.index() and any(name.startswith("nvidia-") for name in absent)

    def pins(self) -> dict[str, str]:
        """The versions to install on this machine by package: pip's own parser evaluates the markers.

        Raises:
            SetupError: requirements.lock is missing or is not a lock, or pip does not work.
        """
        try:
            lines = packages.parse_lock(self.lock.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise SetupError(
                "requirements.lock is missing.", "fetch the course again, or run `git checkout requirements.lock`."
            ) from None
        except ValueError as error:
            raise SetupError(f"{error}.", "run `make lock` to write it again.") from None
        code = (
            "import json, sys; from pip._vendor.packaging.markers import Marker; "
            "print(json.dumps([not m or Marker(m).evaluate() for m in json.loads(sys.argv[1])]))"
        )
        asked = self.context.child([self.env.python, "-I", "-c", code, json.dumps([line[2] for line in lines])])
        try:
            holds = json.loads(asked.output.splitlines()[-1])
        except (ValueError, IndexError):
            raise failure_of(asked.output, "pip in the environment does not work") from None
        pins = {name: version for (name, version, _), yes in zip(lines, holds, strict=True) if yes}
        wheels = self.wheelhouse()
        without_cuda = bool(self.index()) if wheels is None else not any(wheels.glob("nvidia_*.whl"))
        if without_cuda:
            pins = {name: version for name, version in pins.items() if not packages.TORCH_ONLY.match(name)}
        return pins

    def run(self) -> dict[str, Any]:
        """Installs the packages that are missing.

        Raises:
            SetupError: it failed; the message is the reason.
        """
        pins = self._pins = self._pins or self.pins()
        sites = self.env.sites()
        tmp = self.context.build / "tmp"
        shutil.rmtree(tmp, ignore_errors=True)  # half a download of a killed run may be gigabytes
        before = read_stamp(self.env.stamps() / "torch_index.json").get("index", "")
        broken = packages.repair(sites)
        if broken:
            self.context.console.say(f"      Incomplete, to be installed again: {', '.join(broken)}")
        have = packages.installed(sites)
        switch = before != self.index() and "torch" in have
        if switch:
            unwanted = [name for name in have if name in packages.TORCH or packages.TORCH_ONLY.match(name)]
            self.pip(["uninstall", "--yes", *unwanted], PipWatch(self.context.console, tmp, sites, {}))
            have = packages.installed(sites)
        absent = packages.missing(pins, have)
        self.check_room(absent)
        write_stamp(self.env.stamps() / "torch_index.json", {"index": self.index()})
        elsewhere = packages.TORCH if self.index() and self.wheelhouse() is None else ()
        watch = PipWatch(self.context.console, tmp, sites, absent)
        self.install_pins({name: version for name, version in absent.items() if name not in elsewhere}, watch)
        if any(name in absent for name in elsewhere):
            pair = [f"{name}=={pins[name]}" for name in elsewhere]
            others = [f"{name}=={version}\n" for name, version in pins.items() if name not in elsewhere]
            held = self.context.build / "setup" / "constraints.txt"
            held.write_text("".join(others), encoding="utf-8")
            # With dependencies: a CUDA build from another index brings its own CUDA packages.
            chosen = ["--constraint", str(held), *pair]
            if not self.with_uv(["--default-index", self.index(), *chosen], watch):
                self.install(["--index-url", self.index(), *chosen], watch)
            self.compile_ahead()
        shutil.rmtree(tmp, ignore_errors=True)
        self.compile()
        left = packages.missing(pins, packages.installed(sites))
        unsound = packages.repair(sites, pins)
        if left or unsound:
            raise SetupError(
                f"pip succeeded, but these packages are missing: {', '.join([*left, *unsound])}.",
                "run the same command again; if it happens twice, remove the folder .venv first.",
            )
        return {"pins": pins, "index": self.index()}

    def compile(self) -> None:
        """Compiles the packages' Python files on all processors: pip would do it on one. What cannot be compiled is no error."""
        self.context.console.progress.update("compiling Python files")
        sites = [site for site in self.env.sites() if site.is_dir()]
        # Quiet about what is no module: templates, for example. Packages' own tests are a sixth of it, and nothing imports them.
        tests = r"site-packages/.*/tests?/"
        self.context.child([self.env.python, "-I", "-m", "compileall", "-qq", "-j", "0", "-x", tests, *sites])

    def check_room(self, absent: dict[str, str]) -> None:
        """Checks before the download of torch that the disk has room for it.

        Raises:
            SetupError: it has not.
        """
        if "torch" not in absent:
            return
        need = ROOM_CUDA if self._cuda(absent) else ROOM_PLAIN
        free = shutil.disk_usage(self.env.prefix).free
        if free < need:
            raise SetupError(
                f"the disk is too full: the packages need {need / GIB:.1f} GiB at {self.env.prefix}, "
                f"and {free / GIB:.1f} GiB are free.",
                "free some space, or take torch without CUDA (docs/setup.md, CPU-only): TORCH_INDEX=URL make lab.",
            )

    def install_pins(self, pins: dict[str, str], watch: PipWatch) -> None:
        """Installs these versions, those first that the operators are compiled with.

        Raises:
            SetupError: it failed; the message is the reason.
        """

        def wanted(names: Iterable[str]) -> list[str]:
            return ["--no-deps", *(f"{name}=={pins[name]}" for name in names)]

        first = [name for name in pins if name in packages.COMPILED_WITH]
        for group in (first, [name for name in pins if name not in first]):
            if group and self.with_uv(wanted(group), watch):
                self.compile_ahead()
        for batch in packages.batches(packages.missing(pins, packages.installed(self.env.sites()))):
            self.install(wanted(batch), watch)
            self.compile_ahead()

    def compile_ahead(self) -> None:
        """Starts to compile the operators, as soon as what that needs is installed."""
        have = packages.installed(self.env.sites(), finished=True)
        if all(
            packages.agrees(self._pins[name], have.get(name)) for name in packages.COMPILED_WITH if name in self._pins
        ):
            self.context.compile_ahead()

    def with_uv(self, arguments: list[str], watch: PipWatch) -> bool:
        """Runs ``uv pip install`` with progress; False where there is no uv, or where it failed: then pip does it."""
        if self._uv is None:
            return False
        env = {**self.env.variables(), **self.uv_variables}
        ended = self.logged([*uv.command(self._uv, str(self.env.python)), *self.source(), *arguments], env, watch)
        if ended.code != 0:
            last = next((line.strip() for line in reversed(ended.output.splitlines()) if line.strip()), "no message")
            self.context.console.say(f"      uv could not install them ({last}); pip is used.")
            self._uv = None
        return ended.code == 0

    @functools.cached_property
    def uv_variables(self) -> dict[str, str]:
        """What uv is told of pip's settings."""
        env = self.env.variables()
        listed = self.context.child([self.env.python, "-I", "-m", "pip", "config", "list"], env=env)
        return uv.variables(uv.pip_settings(listed.output), env)

    def install(self, arguments: list[str], watch: PipWatch) -> None:
        """Runs ``pip install`` with progress.

        Raises:
            SetupError: it failed; the message is the reason.
        """
        options = ["--no-warn-script-location", "--no-input", "--no-compile", *self.source()]
        self.pip(["install", *options, *arguments], watch)

    def source(self) -> list[str]:
        """The options, for pip and uv alike, that name the wheelhouse, if there is one."""
        wheels = self.wheelhouse()
        return ["--no-index", "--find-links", str(wheels)] if wheels is not None else []

    def pip(self, arguments: list[str], watch: PipWatch) -> None:
        """Runs pip with progress.

        Raises:
            SetupError: it failed; the message is the reason.
        """
        watch.tmp.mkdir(parents=True, exist_ok=True)
        env = self.env.variables()
        # Its temporary files are on the environment's disk: /tmp is often small, and often memory.
        env.update(
            TMPDIR=str(watch.tmp), PIP_USER="0", PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_ROOT_USER_ACTION="ignore"
        )
        ended = self.logged([self.env.python, "-I", "-m", "pip", *arguments], env, watch)
        if ended.code != 0:
            raise failure_of(ended.output, "pip could not install the packages", self.log)

    def logged(self, command: list[str | Path], env: dict[str, str], watch: PipWatch) -> Finished:
        """Runs pip or uv with progress, and keeps what it prints."""
        with open(self.log, "a", encoding="utf-8") as file:
            file.write(f"\n{time.strftime('%Y-%m-%d %H:%M:%S')} {shlex.join(map(str, command))}\n")
        return self.context.child(command, env=env, log=self.log, on_line=watch.line, on_tick=watch.show)

    @property
    def log(self) -> Path:
        """What pip and uv have printed."""
        return self.context.build / "setup" / "pip.log"


def has_nvidia_driver() -> bool:
    """Whether this machine has what CUDA needs besides PyTorch's packages."""
    return shutil.which("nvidia-smi") is not None or Path("/proc/driver/nvidia/version").exists()


class PipWatch:
    """Turns pip's output and its growing files into one line of progress."""

    def __init__(self, console: Console, tmp: Path, sites: list[Path], wanted: dict[str, str]):
        self.console, self.tmp, self.sites, self.wanted = console, tmp, sites, wanted
        self.package, self.file, self.size = "", "", 0.0

    def line(self, line: str) -> None:
        """Takes one line of pip's output."""
        text = line.strip()
        if match := re.match(r"Collecting ([\w.-]+)", text):
            self.package, self.file = match[1].split("==")[0], ""
        elif match := re.match(r"Downloading ([\w.-]+) \([\d.]+[KMG]iB\)", text):  # uv's, which gets several at a time
            self.package, self.file = match[1], ""
        elif match := re.match(r"Downloading \S+ \(([\d.]+) (MB|GB)\)", text):
            self.file, self.size = self.package, float(match[1]) * (1000 if match[2] == "GB" else 1)
        elif text.startswith("Installing collected packages: "):
            names = text.removeprefix("Installing collected packages: ").split(", ")
            self.package, self.file = names[0] if len(names) == 1 else "", ""
        self.show()

    def _done(self) -> int:
        have = packages.installed(self.sites, finished=True)
        return sum(packages.agrees(version, have.get(name)) for name, version in self.wanted.items())

    def _fetched(self) -> float:
        """MB of the file that pip is downloading now; pip writes it under its temporary folder."""
        newest, size = 0.0, 0
        for folder in self.tmp.glob("pip-unpack-*"):
            with contextlib.suppress(OSError):  # pip removes files and folders while they are looked at
                for entry in os.scandir(folder):
                    info = entry.stat()
                    if entry.is_file() and info.st_mtime > newest:
                        newest, size = info.st_mtime, info.st_size
        return size / 1e6

    def show(self) -> None:
        """Updates the line of progress."""
        text = f"{self._done()} of {len(self.wanted)} packages installed"
        if self.file:
            text += f"; fetching {self.file}, {min(self._fetched(), self.size):.0f} of {self.size:.0f} MB"
        elif self.package:
            text += f"; now {self.package}"
        self.console.progress.update(text)


NETWORK = re.compile(
    r"Temporary failure in name resolution|Name or service not known|nodename nor servname|NameResolutionError|"
    r"NewConnectionError|Failed to establish a new connection|Connection refused|Network is unreachable|"
    r"ConnectTimeoutError|ReadTimeoutError|Read timed out|ProxyError|Connection reset by peer|IncompleteRead|"
    r"Could not resolve|Connection timed out|Cannot initiate the connection",
    re.IGNORECASE,
)


def failure_of(output: str, what: str, log: Path | None = None) -> SetupError:
    """The error for a failed program.

    Args:
        output: what it printed; known reasons in it become a sentence.
        what: a clause that names the failure, for an unknown reason.
        log: the file with the whole output, where there is one.
    """
    if re.search(r"No space left on device|Errno 28|Disk quota exceeded|ENOSPC", output):
        return SetupError("the disk is full.", "free some space (`df -h .` shows how much there is). " + AGAIN)
    if NETWORK.search(output):
        return SetupError(
            "the package index cannot be reached: there is no network, or a proxy is needed.",
            "connect this machine (behind a proxy: set https_proxy). " + AGAIN,
        )
    if "externally-managed-environment" in output:
        return SetupError(
            "OPLAB_PYTHON is the system's own Python, which does not let pip install packages.",
            "unset OPLAB_PYTHON (then .venv is used), or set it to the Python of a virtual environment.",
        )
    if re.search(r"Read-only file system|Permission denied|Errno 13|Errno 30", output):
        return SetupError(
            "a folder of the Python environment cannot be written.",
            "make it writable for you, or copy the course to a folder of your own.",
        )
    if found := re.search(r"No matching distribution found for (\S+)", output):
        return SetupError(
            f"the package index has no {found[1]} for this Python and this kind of machine.",
            "check the address of your index (TORCH_INDEX, pip's settings) and the network. Packages are there for Python 3.11 "
            "to 3.14 on Linux (x86-64 and ARM, glibc 2.28 or newer) and macOS 14 or newer (Apple silicon).",
        )
    tail = "\n".join("    " + line for line in output.strip().splitlines()[-6:])
    where = f"read {log}. " if log else ""
    return SetupError(f"{what}. Its last lines:\n{tail}", where + AGAIN)
