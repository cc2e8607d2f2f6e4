"""The steps of the set-up. ``bootstrap`` calls ``main`` with a Python that is new enough. Standard library only."""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import setup_packages as packages
from setup_engine import (
    AGAIN,
    Console,
    SetupError,
    Step,
    Stopped,
    digest,
    explain_os_error,
    only_one,
    read_stamp,
    run_steps,
    stop_on_signals,
)
from setup_environment import ROOT, Context, Environment
from setup_pip import PackagesStep, failure_of

from oplab.errors import OplabError
from oplab.jupyter import start as lab
from oplab.toolchain import compiler


def check_compiler(env: Environment) -> None:
    """Checks at once, before gigabytes are downloaded, that a later step will find a C++ compiler.

    Raises:
        OplabError: it would not.
    """
    compiler._find(os.environ.get("CXX", "").strip(), env.variables()["PATH"])


def check_writable(root: Path) -> None:
    """Creates the folder ``build``, and checks that a file can be written in it.

    Raises:
        SetupError: it cannot.
    """
    try:
        (root / "build").mkdir(exist_ok=True)
        probe = root / "build" / f".probe-{os.getpid()}"
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise explain_os_error(error, f"the folder {root}") from error


class PythonStep(Step):
    """A virtual environment in .venv, unless the user's own environment is used."""

    name = "Python environment"

    def __init__(self, context: Context):
        self.context = context
        self.env = context.env

    def stamp(self) -> Path:
        """``python.json`` in the environment."""
        return self.env.stamps() / "python.json"

    def inputs(self) -> str:
        """The kind of environment and its folder."""
        # A folder that was moved has scripts with the old path in their first line: the environment is created again.
        return digest(self.env.kind, str(self.env.prefix))

    def intact(self, stamp: dict[str, Any]) -> bool:
        """True when its interpreter is there, and for a .venv the Python that it was created from."""
        if not os.access(self.env.python, os.X_OK):
            return False
        base = self.env.config().get("executable", "") if self.env.kind == "venv" else ""
        return not base or os.path.exists(base)

    def about(self) -> str:
        """The environment and its Python."""
        if self.env.kind == "venv":
            return f"{self.env.prefix.name} with Python {sys.version.split()[0]} ({sys.executable})"
        return f"your {self.env.kind} environment {self.env.prefix}"

    def run(self) -> dict[str, Any]:
        """Creates .venv, or checks that the user's environment has pip.

        Raises:
            SetupError: it failed; the message is the reason.
        """
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
            self.context.console.say(f"      {self.env.prefix} is incomplete or was moved: it is created again.")
            shutil.rmtree(self.env.prefix)
        try:
            import ensurepip  # noqa: F401
            import venv  # noqa: F401
        except ImportError:
            raise SetupError(
                "this Python cannot create virtual environments: its ensurepip is missing.",
                f"on Debian, Ubuntu or WSL: sudo apt-get install python{self.env.version}-venv",
            ) from None
        made = self.context.child([sys.executable, "-m", "venv", self.env.prefix])
        if made.code != 0:
            if shutil.disk_usage(self.context.root).free < 64 << 20:  # ensurepip keeps its reason to itself
                raise explain_os_error(OSError(errno.ENOSPC, ""), str(self.env.prefix))
            if "ensurepip" in made.output:
                raise SetupError(
                    "this Python cannot create virtual environments: its ensurepip does not work.",
                    f"on Debian, Ubuntu or WSL: sudo apt-get install python{self.env.version}-venv",
                )
            raise failure_of(made.output, "the virtual environment could not be created")
        return {"kind": "venv"}

    def _usable(self) -> bool:
        """True for a complete .venv that the user created: it is used as it is."""
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


class OplabStep(Step):
    """The course's own library, editable."""

    name = "Course library"

    def __init__(self, context: Context):
        self.context = context
        self.env = context.env

    def stamp(self) -> Path:
        """``oplab.json`` in the environment."""
        return self.env.stamps() / "oplab.json"

    def inputs(self) -> str:
        """The course's folder, pyproject.toml, the version of Python, and the files that are copied instead of linked."""
        root = self.context.root
        # pyproject's shared-data: copied, not linked
        panel = (root / "oplab" / "jupyter" / "labextension").rglob("*")
        copied = sorted([*root.glob("oplab/jupyter/*.json"), *(path for path in panel if path.is_file())])
        return digest(str(root), root / "pyproject.toml", self.env.version, *copied)

    def intact(self, stamp: dict[str, Any]) -> bool:
        """True when pip knows the library."""
        return any(True for site in self.env.sites() for _ in site.glob("operator_lab-*.dist-info/RECORD"))

    def run(self) -> dict[str, Any]:
        """Installs the library with pip.

        Raises:
            SetupError: it failed; the message is the reason.
        """
        packages.repair(self.env.sites(), ["operator-lab"])
        env = self.env.variables()
        env.update(PIP_USER="0", PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_ROOT_USER_ACTION="ignore")
        pip = [self.env.python, "-I", "-m", "pip"]
        if "oplab" in packages.installed(self.env.sites()):  # what it was called until 0.1: both own the same files
            self.context.child([*pip, "uninstall", "--yes", "oplab"], env=env)
        command = [*pip, "install", "--no-deps", "--no-build-isolation", "--no-input"]
        ended = self.context.child([*command, "-e", self.context.root], env=env)
        if ended.code != 0:
            raise failure_of(ended.output, "the course's library could not be installed")
        return {}


class HeadersStep(Step):
    """The C++ headers of ONNX Runtime; oplab.toolchain.headers searches for them."""

    name = "ONNX Runtime headers"

    def __init__(self, context: Context):
        self.context = context
        self.env = context.env

    def stamp(self) -> Path:
        """``build/setup/headers.json``."""
        return self.context.build / "setup" / "headers.json"

    def inputs(self) -> str:
        """The version of ONNX Runtime, the variables that name folders, and the code of the search."""
        runtime = packages.installed(self.env.sites()).get("onnxruntime")
        environ = [os.environ.get(name, "") for name in ("ORT_INCLUDE_DIR", "CONDA_PREFIX")]
        tools = sorted((self.context.root / "oplab" / "toolchain" / "headers").glob("*.py"))
        return digest(runtime, *environ, *tools)

    def intact(self, stamp: dict[str, Any]) -> bool:
        """True when the headers are still where they were found."""
        return Path(str(stamp.get("path")), "onnxruntime_cxx_api.h").is_file()

    def run(self) -> dict[str, Any]:
        """Searches for the headers; returns their ``path``, ``api`` and ``route``.

        Raises:
            SetupError: it failed; the message is the reason.
        """
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
        """``build/setup/operators.json``."""
        return self.context.build / "setup" / "operators.json"

    def inputs(self) -> str:
        """The sources, the code that compiles them, the libraries' versions and the compiler's variables."""
        root = self.context.root
        sources = sorted(path for path in (root / "csrc").rglob("*") if path.is_file())
        tools = sorted((root / "oplab" / "toolchain").rglob("*.py"))
        have = packages.installed(self.env.sites())
        headers = read_stamp(self.context.build / "setup" / "headers.json")
        environ = [os.environ.get(name, "") for name in ("CXX", "CXXFLAGS", "LDFLAGS")]
        named = [str(path.relative_to(root)) for path in sources + tools]
        versions = (have.get("torch"), have.get("onnxruntime"), headers.get("path"), headers.get("api"))
        return digest(*named, *sources, *tools, *versions, *environ)

    def products(self) -> dict[str, list[int]]:
        """The size in bytes and the modification time in ns of each file in build/lib, by its path there."""
        found = {}
        for path in sorted(self.lib.rglob("*")):
            if path.is_file() and not any(part.startswith(".") for part in path.relative_to(self.lib).parts):
                info = path.stat()
                found[str(path.relative_to(self.lib))] = [info.st_size, info.st_mtime_ns]
        return found

    def intact(self, stamp: dict[str, Any]) -> bool:
        """True when ``build/lib`` is as the last build left it."""
        return bool(stamp.get("products")) and stamp["products"] == self.products()

    def about(self) -> str:
        """What is compiled."""
        return "csrc/ is compiled"

    def run(self) -> dict[str, Any]:
        """Compiles what changed.

        Raises:
            SetupError: it failed; the message is the reason.
        """
        say = self.context.console.say
        self.context.console.progress.update("compiling since the packages were installed")
        if self.context.ahead.wait():
            say("      Compiled while the packages were installed.")
        ended = self.context.child(self.context.compiles, on_line=lambda line: say(f"      {line}"))
        if ended.code != 0:
            if re.search(r"No space left on device", ended.output):
                raise failure_of(ended.output, "")
            raise SetupError(
                "the operators could not be compiled; the lines above show the error.", "correct it. " + AGAIN
            )
        return {"products": self.products()}


class JupyterStep(Step):
    """JupyterLab's settings for this environment, and the course's notebooks marked as trusted."""

    name = "JupyterLab settings"

    def __init__(self, context: Context):
        self.context = context
        self.env = context.env
        self.script = context.root / "oplab" / "jupyter" / "settings.py"

    def stamp(self) -> Path:
        """``build/setup/jupyter.json``."""
        return self.context.build / "setup" / "jupyter.json"

    def inputs(self) -> str:
        """The script, the environment, and the notebooks."""
        lessons = sorted((self.context.root / "notebooks").glob("*.ipynb"))
        return digest(self.script, str(self.env.prefix), *lessons)

    def intact(self, stamp: dict[str, Any]) -> bool:
        """True when the settings are in the environment."""
        return (self.env.prefix / "share" / "jupyter" / "lab" / "settings" / "overrides.json").is_file()

    def run(self) -> dict[str, Any]:
        """Writes the settings and signs the notebooks.

        Raises:
            SetupError: it failed; the message is the reason.
        """
        ended = self.context.child([self.env.python, "-m", "oplab.jupyter.settings"])
        if ended.code != 0:
            raise failure_of(ended.output, "JupyterLab's settings could not be written")
        return {}


def all_steps(context: Context) -> list[Step]:
    """The steps of the set-up, in order."""
    kinds = (PythonStep, PackagesStep, OplabStep, HeadersStep, OperatorsStep, JupyterStep)
    return [kind(context) for kind in kinds]


def set_up(context: Context) -> int:
    """Runs the steps that are not done; returns how many.

    Raises:
        OplabError: a step failed, or something that it needs is missing.
    """
    steps = all_steps(context)
    if all(step.done() for step in steps):
        return 0
    check_writable(context.root)
    check_compiler(context.env)
    with only_one(context.build / "setup" / "lock", context.console) as handle:
        context.lock_handle = handle
        try:
            return run_steps(steps, context.console)
        finally:
            context.ahead.stop()


def main(arguments: list[str]) -> int:
    """Sets up, then runs ``-- ARGUMENTS`` with the environment's Python.

    Returns:
        The exit status: 0, 2 after an error that was printed, 128 and the signal's number after Ctrl-C or another signal.
    """
    parser = argparse.ArgumentParser(prog="bootstrap.py", description="Sets the course up.")
    parser.add_argument("--quiet", action="store_true", help="print nothing when everything is set up already")
    parser.add_argument(
        "--as-is", action="store_true", help="skip the set-up; run ARGUMENTS with the environment as it is"
    )
    parser.add_argument(
        "then", nargs="*", metavar="ARGUMENT", help="run the environment's Python with these afterwards"
    )
    options = parser.parse_args(arguments)
    opens = options.then[:2] == ["-m", lab.__name__]
    if opens and (wrong := lab.problem(ROOT, options.then[2:])):  # before minutes of set-up
        print(wrong, file=sys.stderr)
        return 2
    console = Console()
    start = time.monotonic()
    try:
        stop_on_signals()
        context = Context(console=console)
        ran = 0 if options.as_is else set_up(context)
    except OplabError as error:
        console.progress.clear()
        sys.stdout.flush()
        print(f"\nSet-up stopped: {error.message}", file=sys.stderr)
        if error.fix:
            print(f"  To fix it: {error.fix}", file=sys.stderr)
        return 2
    except OSError as error:
        sentence = explain_os_error(error)
        print(f"\nSet-up stopped: {sentence.message}\n  To fix it: {sentence.fix}", file=sys.stderr)
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
