"""The steps of the set-up. ``bootstrap`` calls ``main`` with a Python that is new enough. Standard library only."""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import re
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import setup_packages as packages
from setup_engine import (
    GIB,
    Console,
    Finished,
    SetupError,
    Step,
    Stopped,
    digest,
    explain_os_error,
    only_one,
    read_stamp,
    run_child,
    run_steps,
    stop_on_signals,
    write_stamp,
)

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
AGAIN = "Run the same command again: it goes on where it stopped."

# What a full installation takes, measured (6.3 and 2.2 GiB), with room for the wheel that is being unpacked.
ROOM_CUDA = int(7.5 * GIB)
ROOM_PLAIN = int(3.0 * GIB)


# ------------------------------------------------------------------------------------------------------ environment


class Environment:
    """The Python environment that the course runs in.

    It is ``OPLAB_PYTHON``'s, or the active conda environment when it was made from environment.yml (it holds conda's
    headers), or ``.venv`` in the course's folder.
    """

    def __init__(self, root: Path = ROOT, environ: dict[str, str] | None = None):
        environ = dict(os.environ) if environ is None else environ
        self.root = root
        conda = environ.get("CONDA_PREFIX", "")
        if environ.get("OPLAB_PYTHON"):
            self.kind, self.prefix, self.python = "given", Path(sys.prefix), Path(sys.executable)
        elif conda and list(Path(conda, "conda-meta").glob("onnxruntime-cpp-*.json")):
            self.kind, self.prefix, self.python = "conda", Path(conda), Path(conda, "bin", "python")
        else:
            self.kind, self.prefix = "venv", root / ".venv"
            self.python = self.prefix / "bin" / "python"
        self.bin = self.python.parent

    @property
    def version(self) -> str:
        """``3.12`` of the environment; a .venv that exists keeps the version it was made with."""
        if self.kind == "venv":
            match = re.match(r"\d+\.\d+", self.config().get("version", ""))
            if match:
                return match[0]
        return f"{sys.version_info[0]}.{sys.version_info[1]}"

    def config(self) -> dict[str, str]:
        """The lines of pyvenv.cfg."""
        try:
            lines = (self.prefix / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
        except OSError:
            return {}
        return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}

    def sites(self) -> list[Path]:
        if self.kind == "given":
            import sysconfig

            return [
                Path(path) for path in dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
            ]
        return [self.prefix / "lib" / f"python{self.version}" / "site-packages"]

    def stamps(self) -> Path:
        """Stamps of what is in the environment lie in it, so that they go when it goes."""
        return self.prefix / "share" / "oplab-setup"

    def variables(self) -> dict[str, str]:
        """The environment variables with which the course's programs run."""
        env = dict(os.environ)
        env["PATH"] = f"{self.bin}{os.pathsep}{env.get('PATH', os.defpath)}"
        env.pop("PYTHONHOME", None)
        env.pop("OPLAB_HANDED_OVER", None)
        if self.kind == "venv":
            env["VIRTUAL_ENV"] = str(self.prefix)
        return env


class Context:
    """What all steps share."""

    def __init__(self, root: Path = ROOT, console: Console | None = None):
        self.root = root
        self.build = root / "build"
        self.console = console or Console()
        self.env = Environment(root)
        self.lock_handle: int | None = None

    def child(self, command: list[str | Path], **kwargs: Any) -> Finished:
        keep = [self.lock_handle] if self.lock_handle is not None else []
        kwargs.setdefault("env", self.env.variables())
        kwargs.setdefault("cwd", self.root)
        return run_child([str(part) for part in command], keep_open=keep, **kwargs)


# ------------------------------------------------------------------------------------------------------------ tools


def check_compiler(env: Environment) -> None:
    """Says at once, before gigabytes are downloaded, that a later step would find no C++ compiler."""
    sys.path.insert(0, str(env.root))
    from oplab.errors import OplabError  # both need only the standard library
    from oplab.toolchain import compiler

    try:
        compiler._find(os.environ.get("CXX", "").strip(), env.variables()["PATH"])
    except OplabError as error:
        raise SetupError(error.message, error.fix) from None


def check_writable(root: Path) -> None:
    try:
        (root / "build").mkdir(exist_ok=True)
        probe = root / "build" / f".probe-{os.getpid()}"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise explain_os_error(error, f"the folder {root}") from error


# ------------------------------------------------------------------------------------------------------------ steps


class PythonStep(Step):
    """A virtual environment in .venv, unless the user's own environment is used."""

    name = "Python environment"

    def __init__(self, context: Context):
        self.context = context
        self.env = context.env

    def stamp(self) -> Path:
        return self.env.stamps() / "python.json"

    def inputs(self) -> str:
        # A folder that was moved has scripts with the old path in their first line: the environment is made anew.
        return digest(self.env.kind, str(self.env.prefix))

    def intact(self, stamp: dict[str, Any]) -> bool:
        if not os.access(self.env.python, os.X_OK):
            return False
        base = self.env.config().get("executable", "") if self.env.kind == "venv" else ""
        return not base or os.path.exists(base)

    def about(self) -> str:
        if self.env.kind == "venv":
            return f"{self.env.prefix.name} with Python {sys.version.split()[0]} ({sys.executable})"
        return f"your {self.env.kind} environment {self.env.prefix}"

    def run(self) -> dict[str, Any]:
        if self.env.kind != "venv":
            if self.context.child([self.env.python, "-I", "-m", "pip", "--version"]).code != 0:
                raise SetupError(
                    f"{self.env.python} has no pip.",
                    f"run `{self.env.python} -m ensurepip`, or use another environment.",
                )
            return {"kind": self.env.kind}
        if self._usable():
            return {"kind": "venv"}
        if self.env.prefix.exists():
            self.context.console.say(f"      {self.env.prefix} is incomplete or was moved: it is made anew.")
            shutil.rmtree(self.env.prefix)
        try:
            import ensurepip  # noqa: F401
            import venv  # noqa: F401
        except ImportError:
            raise SetupError(
                "this Python cannot make virtual environments: its ensurepip is missing.",
                f"on Debian, Ubuntu or WSL: sudo apt-get install python{self.env.version}-venv",
            ) from None
        made = self.context.child([sys.executable, "-m", "venv", self.env.prefix])
        if made.code != 0:
            if shutil.disk_usage(self.context.root).free < 64 << 20:  # ensurepip keeps its reason to itself
                raise explain_os_error(OSError(errno.ENOSPC, ""), str(self.env.prefix))
            if "ensurepip" in made.output:
                raise SetupError(
                    "this Python cannot make virtual environments: its ensurepip does not work.",
                    f"on Debian, Ubuntu or WSL: sudo apt-get install python{self.env.version}-venv",
                )
            raise failure_of(made.output, "the virtual environment could not be made")
        return {"kind": "venv"}

    def _usable(self) -> bool:
        """True for a .venv that somebody made before us and that is whole: then it is taken as it is."""
        old = read_stamp(self.stamp()) or self._moved()
        if old or not self.intact({}):
            return False
        pip = [info for site in self.env.sites() for info in site.glob("pip-*.dist-info")]
        if len(pip) != 1 or not packages.record_is_whole(pip[0]):
            return False
        return self.context.child([self.env.python, "-I", "-m", "pip", "--version"]).code == 0

    def _moved(self) -> bool:
        """True when .venv's own scripts name another folder."""
        try:
            return str(self.env.prefix) not in (self.env.bin / "activate").read_text(encoding="utf-8")
        except OSError:
            return True


class PackagesStep(Step):
    """The pinned packages of requirements.lock, by pip."""

    name = "Packages"

    def __init__(self, context: Context):
        self.context = context
        self.env = context.env
        self.lock = context.root / "requirements.lock"
        self._pins: dict[str, str] = {}

    def stamp(self) -> Path:
        return self.env.stamps() / "packages.json"

    def index(self) -> str:
        """Where torch comes from: TORCH_INDEX, or what was used before, or nothing (the same index as all else)."""
        named = os.environ.get("TORCH_INDEX", "")
        if named == "default":
            return ""
        if named:
            return named
        before = read_stamp(self.env.stamps() / "torch_index.json")
        return str(before.get("index", ""))

    def inputs(self) -> str:
        return digest(self.lock, self.env.version, self.index())

    def intact(self, stamp: dict[str, Any]) -> bool:
        pins = stamp.get("pins")
        return isinstance(pins, dict) and not packages.missing(pins, packages.installed(self.env.sites()))

    def about(self) -> str:
        self._pins = self.pins()
        absent = packages.missing(self._pins, packages.installed(self.env.sites()))
        text = f"{len(self._pins)} pinned packages, {len(absent)} of them to install"
        if "torch" in absent:
            size = "about 6 GB on disk, one to ten minutes" if self._cuda(absent) else "about 2 GB on disk"
            text += f" ({size})"
        return text

    def _cuda(self, absent: dict[str, str]) -> bool:
        return not self.index() and any(name.startswith("nvidia-") for name in absent)

    def pins(self) -> dict[str, str]:
        """The pins that hold on this machine: pip's own parser evaluates the markers, in the environment's Python."""
        try:
            lines = packages.parse_lock(self.lock.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise SetupError(
                "requirements.lock is missing.", "fetch the course again, or run `git checkout requirements.lock`."
            ) from None
        except ValueError as error:
            raise SetupError(f"{error}.", "run `make lock` to write it anew.") from None
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
        if self.index():
            pins = {name: version for name, version in pins.items() if not packages.TORCH_ONLY.match(name)}
        return pins

    def run(self) -> dict[str, Any]:
        pins = self._pins or self.pins()
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
        elsewhere = packages.TORCH if self.index() else ()
        watch = PipWatch(self.context.console, tmp, sites, absent)
        for batch in packages.batches([name for name in absent if name not in elsewhere]):
            self.install(["--no-deps", *(f"{name}=={absent[name]}" for name in batch)], watch)
        if any(name in absent for name in elsewhere):
            pair = [f"{name}=={pins[name]}" for name in elsewhere]
            others = [f"{name}=={version}\n" for name, version in pins.items() if name not in elsewhere]
            held = self.context.build / "setup" / "constraints.txt"
            held.write_text("".join(others), encoding="utf-8")
            # With dependencies: a CUDA build from another index brings its own CUDA packages.
            self.install(["--index-url", self.index(), "--constraint", str(held), *pair], watch)
        shutil.rmtree(tmp, ignore_errors=True)
        left = packages.missing(pins, packages.installed(sites))
        unsound = packages.repair(sites, pins)
        if left or unsound:
            raise SetupError(
                f"pip ended well, but these packages are not there: {', '.join([*left, *unsound])}.",
                "run the same command again; if it happens twice, remove the folder .venv first.",
            )
        return {"pins": pins, "index": self.index()}

    def check_room(self, absent: dict[str, str]) -> None:
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

    def install(self, arguments: list[str], watch: PipWatch) -> None:
        self.pip(["install", "--no-warn-script-location", "--no-input", *arguments], watch)

    def pip(self, arguments: list[str], watch: PipWatch) -> None:
        """Runs pip with progress; raises SetupError with the reason when it fails."""
        watch.tmp.mkdir(parents=True, exist_ok=True)
        env = self.env.variables()
        # Its temporary files beside the environment: /tmp is often small, and often memory.
        env.update(
            TMPDIR=str(watch.tmp), PIP_USER="0", PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_ROOT_USER_ACTION="ignore"
        )
        log = self.context.build / "setup" / "pip.log"
        command = [self.env.python, "-I", "-m", "pip", *arguments]
        with open(log, "a", encoding="utf-8") as file:
            file.write(f"\n{time.strftime('%Y-%m-%d %H:%M:%S')} {shlex.join(map(str, command))}\n")
        ended = self.context.child(command, env=env, log=log, on_line=watch.line, on_tick=watch.show)
        if ended.code != 0:
            raise failure_of(ended.output, "pip could not install the packages", log)


class PipWatch:
    """Turns what pip prints, and what it writes, into one line that says how far it is."""

    def __init__(self, console: Console, tmp: Path, sites: list[Path], wanted: dict[str, str]):
        self.console, self.tmp, self.sites, self.wanted = console, tmp, sites, wanted
        self.package, self.file, self.size = "", "", 0.0

    def line(self, line: str) -> None:
        text = line.strip()
        if match := re.match(r"Collecting ([\w.-]+)", text):
            self.package, self.file = match[1].split("==")[0], ""
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
    """The reason in a failed program's output, as a sentence."""
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


class OplabStep(Step):
    """The course's own library, editable."""

    name = "Course library"

    def __init__(self, context: Context):
        self.context = context
        self.env = context.env

    def stamp(self) -> Path:
        return self.env.stamps() / "oplab.json"

    def inputs(self) -> str:
        root = self.context.root
        copied = sorted(root.glob("oplab/viewer/*.json"))  # pyproject's shared-data: copied, not linked
        return digest(str(root), root / "pyproject.toml", self.env.version, *copied)

    def intact(self, stamp: dict[str, Any]) -> bool:
        return any(True for site in self.env.sites() for _ in site.glob("oplab-*.dist-info/RECORD"))

    def run(self) -> dict[str, Any]:
        packages.repair(self.env.sites(), ["oplab"])
        env = self.env.variables()
        env.update(PIP_USER="0", PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_ROOT_USER_ACTION="ignore")
        command = [self.env.python, "-I", "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-input"]
        ended = self.context.child([*command, "-e", self.context.root], env=env)
        if ended.code != 0:
            raise failure_of(ended.output, "the course's library could not be installed")
        return {}


class HeadersStep(Step):
    """The C++ headers of ONNX Runtime; oplab.toolchain.headers knows the routes."""

    name = "ONNX Runtime headers"

    def __init__(self, context: Context):
        self.context = context
        self.env = context.env

    def stamp(self) -> Path:
        return self.context.build / "setup" / "headers.json"

    def inputs(self) -> str:
        runtime = packages.installed(self.env.sites()).get("onnxruntime")
        environ = [os.environ.get(name, "") for name in ("ORT_INCLUDE_DIR", "CONDA_PREFIX")]
        return digest(runtime, *environ, self.context.root / "oplab" / "toolchain" / "headers.py")

    def intact(self, stamp: dict[str, Any]) -> bool:
        return Path(str(stamp.get("path")), "onnxruntime_cxx_api.h").is_file()

    def run(self) -> dict[str, Any]:
        ended = self.context.child([self.env.python, "-m", "oplab.toolchain.headers", "--json"])
        try:
            answer = json.loads(ended.output.splitlines()[-1])
        except (ValueError, IndexError):
            raise failure_of(ended.output, "the search for ONNX Runtime's headers failed") from None
        if ended.code != 0:
            raise SetupError(answer["error"], answer["fix"])
        self.context.console.say(f"      {answer['path']} (API {answer['api']}, from {answer['route']})")
        return answer


class OperatorsStep(Step):
    """csrc/ compiled into build/lib; oplab.toolchain.build does it."""

    name = "Operators"

    def __init__(self, context: Context):
        self.context = context
        self.env = context.env
        self.lib = context.build / "lib"

    def stamp(self) -> Path:
        return self.context.build / "setup" / "operators.json"

    def inputs(self) -> str:
        root = self.context.root
        sources = sorted(path for path in (root / "csrc").rglob("*") if path.is_file())
        tools = sorted((root / "oplab" / "toolchain").glob("*.py"))
        have = packages.installed(self.env.sites())
        headers = read_stamp(self.context.build / "setup" / "headers.json")
        environ = [os.environ.get(name, "") for name in ("CXX", "CXXFLAGS", "LDFLAGS")]
        named = [str(path.relative_to(root)) for path in sources + tools]
        versions = (have.get("torch"), have.get("onnxruntime"), headers.get("path"), headers.get("api"))
        return digest(*named, *sources, *tools, *versions, *environ)

    def products(self) -> dict[str, list[int]]:
        found = {}
        for path in sorted(self.lib.rglob("*")):
            if path.is_file() and not any(part.startswith(".") for part in path.relative_to(self.lib).parts):
                info = path.stat()
                found[str(path.relative_to(self.lib))] = [info.st_size, info.st_mtime_ns]
        return found

    def intact(self, stamp: dict[str, Any]) -> bool:
        return bool(stamp.get("products")) and stamp["products"] == self.products()

    def about(self) -> str:
        return "csrc/ is compiled"

    def run(self) -> dict[str, Any]:
        say = self.context.console.say
        ended = self.context.child(
            [self.env.python, "-u", "-m", "oplab.toolchain.build"], on_line=lambda line: say(f"      {line}")
        )
        if ended.code != 0:
            if re.search(r"No space left on device", ended.output):
                raise failure_of(ended.output, "")
            raise SetupError("the operators could not be compiled; the lines above say why.", "mend it. " + AGAIN)
        return {"products": self.products()}


class JupyterStep(Step):
    """JupyterLab's settings for this environment, and the course's notebooks marked as trusted."""

    name = "JupyterLab settings"

    def __init__(self, context: Context):
        self.context = context
        self.env = context.env
        self.script = context.root / "tools" / "jupyter_settings.py"

    def stamp(self) -> Path:
        return self.context.build / "setup" / "jupyter.json"

    def inputs(self) -> str:
        # Not the notebooks' content: that changes each time a learner saves one.
        sources = sorted((self.context.root / "notebooks" / "src").glob("*.py"))
        names = sorted(path.name for path in (self.context.root / "notebooks").glob("*.ipynb"))
        return digest(self.script, str(self.env.prefix), *names, *sources)

    def intact(self, stamp: dict[str, Any]) -> bool:
        return (self.env.prefix / "share" / "jupyter" / "lab" / "settings" / "overrides.json").is_file()

    def run(self) -> dict[str, Any]:
        ended = self.context.child([self.env.python, self.script])
        if ended.code != 0:
            raise failure_of(ended.output, "JupyterLab's settings could not be written")
        return {}


def all_steps(context: Context) -> list[Step]:
    kinds = (PythonStep, PackagesStep, OplabStep, HeadersStep, OperatorsStep, JupyterStep)
    return [kind(context) for kind in kinds]


# ------------------------------------------------------------------------------------------------------------- main


def set_up(context: Context) -> int:
    """Does what is not done; returns how many steps ran."""
    steps = all_steps(context)
    if all(step.done() for step in steps):
        return 0
    check_writable(context.root)
    check_compiler(context.env)
    with only_one(context.build / "setup" / "lock", context.console) as handle:
        context.lock_handle = handle
        return run_steps(steps, context.console)


def main(arguments: list[str]) -> int:
    """Sets up, then runs ``-- ARGUMENTS`` with the environment's Python. Exit 2: it stopped; 130: Ctrl-C."""
    parser = argparse.ArgumentParser(prog="bootstrap.py", description="Sets the course up.")
    parser.add_argument("--quiet", action="store_true", help="say nothing when all is done already")
    parser.add_argument("--as-is", action="store_true", help="set nothing up; run ARGUMENTS with what there is")
    parser.add_argument(
        "then", nargs="*", metavar="ARGUMENT", help="run the environment's Python with these afterwards"
    )
    options = parser.parse_args(arguments)
    console = Console()
    start = time.monotonic()
    try:
        stop_on_signals()
        context = Context(console=console)
        ran = 0 if options.as_is else set_up(context)
    except SetupError as error:
        console.progress.clear()
        sys.stdout.flush()
        print(f"\nSet-up stopped: {error.message}", file=sys.stderr)
        if error.fix:
            print(f"  To mend it: {error.fix}", file=sys.stderr)
        return 2
    except OSError as error:
        sentence = explain_os_error(error)
        print(f"\nSet-up stopped: {sentence.message}\n  To mend it: {sentence.fix}", file=sys.stderr)
        return 2
    except (KeyboardInterrupt, Stopped) as stopped:
        console.progress.clear()
        print(f"\nSet-up was interrupted. {AGAIN}", file=sys.stderr)
        return 128 + getattr(stopped, "number", 2)
    took = time.monotonic() - start
    if ran:
        console.say(f"Everything is set up ({took:.0f} s).")
    elif not options.quiet and not options.as_is:
        console.say(f"Everything is set up already (checked in {took * 1000:.0f} ms).")
    if not options.then:
        return 0
    env = context.env
    python = str(env.python) if os.access(env.python, os.X_OK) else sys.executable
    os.execve(python, [python, *options.then], env.variables())
