"""The steps of the set-up. ``bootstrap`` calls ``main`` with a Python that is new enough. Standard library only."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any

from setup_engine import (
    AGAIN,
    Console,
    Finished,
    SetupError,
    Step,
    digest,
    explain_os_error,
    failure_of,
    read_stamp,
    run_child,
    run_steps,
    stop_on_signals,
)
from setup_packages import QUIET_PIP, installed, packages

from oplab import files
from oplab.errors import OplabError
from oplab.jupyter import start as lab
from oplab.toolchain import compiler

ROOT = Path(__file__).resolve().parent.parent


class Environment:
    """The Python environment that the course runs in: ``OPLAB_PYTHON``'s, the conda environment that was created from environment.yml
    if it is active (it has conda's headers), or ``.venv`` in the course's folder.

    Attributes:
        kind: ``given``, ``conda`` or ``venv``.
        python: its interpreter; in a ``.venv`` that does not exist yet, where it will be.
        stamps: the folder for stamps about it, inside it, so that they are removed with it.
    """

    def __init__(self, root: Path):
        conda = os.environ.get("CONDA_PREFIX", "")
        if os.environ.get("OPLAB_PYTHON"):
            self.kind, self.prefix, self.python = "given", Path(sys.prefix), Path(sys.executable)
        elif conda and list(Path(conda, "conda-meta").glob("onnxruntime-cpp-*.json")):
            self.kind, self.prefix, self.python = "conda", Path(conda), Path(conda, "bin", "python")
        else:
            self.kind, self.prefix, self.python = "venv", root / ".venv", root / ".venv" / "bin" / "python"
        self.bin = self.python.parent
        self.stamps = self.prefix / "share" / "oplab-setup"

    @property
    def version(self) -> str:
        """``3.12`` of the environment; a .venv that exists keeps the version it was created with."""
        config = self.prefix / "pyvenv.cfg"
        found = re.search(r"^version\S* = (\d+\.\d+)", config.read_text(), re.M) if config.is_file() else None
        return found[1] if found and self.kind == "venv" else sysconfig.get_python_version()

    @property
    def sites(self) -> list[Path]:
        """The site-packages folders."""
        if self.kind == "given":
            return [Path(sysconfig.get_path("purelib"))]
        return [self.prefix / "lib" / f"python{self.version}" / "site-packages"]

    def variables(self) -> dict[str, str]:
        """The environment variables with which the course's programs run."""
        env = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "OPLAB_HANDED_OVER")}
        env["PATH"] = f"{self.bin}{os.pathsep}{env.get('PATH', os.defpath)}"
        return env | ({"VIRTUAL_ENV": str(self.prefix)} if self.kind == "venv" else {})


class Context:
    """What all steps share: the course's folder, its folder ``build``, the environment, and the lock that each child inherits."""

    def __init__(self, root: Path = ROOT):
        self.root, self.build = root, root / "build"
        self.console = Console()
        self.env = Environment(root)
        self.lock: int | None = None

    def child(self, command: list[Any], env: dict[str, str] | None = None, **options: Any) -> Finished:
        """Runs a command in the course's folder with the environment's variables and these, as :func:`run_child` does."""
        keep = [] if self.lock is None else [self.lock]
        env = self.env.variables() | (env or {})
        return run_child([str(part) for part in command], env=env, cwd=self.root, keep_open=keep, **options)

    def must(self, command: list[Any], what: str, env: dict[str, str] | None = None) -> dict[str, Any]:
        """As :meth:`child`, where a failure ends the set-up: ``what`` could not be done."""
        ended = self.child(command, env)
        if ended.code != 0:
            raise failure_of(ended.output, what)
        return {}

    def stamp(self, name: str) -> Path:
        return self.build / "setup" / f"{name}.json"


def python(context: Context) -> Step:
    """A virtual environment in .venv, unless the user's own environment is used."""
    env, say = context.env, context.console.say
    facts = {"prefix": str(env.prefix)}

    def there(stamp: dict[str, Any]) -> bool:
        return os.access(env.python, os.X_OK)  # not where the Python that it was created from is gone

    def moved(old: str) -> None:
        """In the environment's programs, replaces the folder where it was."""
        for program in env.bin.iterdir():
            data = b"\0" if program.is_symlink() else program.read_bytes()
            if b"\0" not in data and old.encode() in data:
                # another file, not the same one changed: it may be linked to uv's cache or to a copy
                new = data.replace(old.encode(), str(env.prefix).encode())
                files.write_atomically(program, new, mode=program.stat().st_mode & 0o777, sync=False)

    def run(before: dict[str, Any]) -> dict[str, Any]:
        has_pip = there({}) and context.child([env.python, "-I", "-m", "pip", "--version"]).code == 0
        if env.kind != "venv":
            if not has_pip:
                raise SetupError(f"{env.python} has no pip.", f"run `{env.python} -m ensurepip`.")
            named = "the environment in OPLAB_PYTHON" if env.kind == "given" else "your conda environment"
            say(f"      {named}: {env.prefix}")
            return facts
        activate = env.bin / "activate"
        of_user = activate.is_file() and facts["prefix"] in activate.read_text()
        if has_pip and (before or of_user):
            if before.get("prefix", facts["prefix"]) != facts["prefix"]:
                moved(before["prefix"])
            return facts
        if env.prefix.exists():
            say(f"      {env.prefix} is incomplete, or its Python no longer exists: creating it again.")
            shutil.rmtree(env.prefix)
        say(f"      {env.prefix.name} with Python {sys.version.split()[0]} ({sys.executable})")
        if not importlib.util.find_spec("ensurepip"):
            raise SetupError(
                "this Python cannot create virtual environments: its ensurepip is missing.",
                f"on Debian, Ubuntu or WSL: sudo apt-get install python{sysconfig.get_python_version()}-venv",
            )
        context.must([sys.executable, "-m", "venv", env.prefix], "the virtual environment could not be created")
        return facts

    return Step("Python environment", env.stamps / "python.json", lambda: digest(env.kind, str(env.prefix)), there, run)


def library(context: Context) -> Step:
    """The course's own library, editable."""
    root, env = context.root, context.env

    def inputs() -> str:
        # pyproject's shared-data: copied, not linked
        copied = [*root.glob("oplab/jupyter/*.json"), *(root / "oplab" / "jupyter" / "labextension").rglob("*.*")]
        return digest(str(root), root / "pyproject.toml", env.version, *sorted(copied))

    def records(stamp: dict[str, Any]) -> bool:
        return any(list(site.glob("operator_lab-*.dist-info/RECORD")) for site in env.sites)

    def run(before: dict[str, Any]) -> dict[str, Any]:
        for info in (info for site in env.sites for info in site.glob("operator_lab-*.dist-info")):
            if not (info / "RECORD").is_file():  # pip was killed, and could not remove it itself
                shutil.rmtree(info)
        command = [
            env.python,
            "-I",
            "-m",
            "pip",
            "install",
            "--no-deps",
            "--no-build-isolation",
            "--no-input",
            "-e",
            root,
        ]
        return context.must(command, "the course's library could not be installed", QUIET_PIP)

    return Step("Course library", env.stamps / "oplab.json", inputs, records, run)


def headers(context: Context) -> Step:
    """The C++ headers of ONNX Runtime; oplab.toolchain.headers searches for them."""

    def inputs() -> str:
        environ = [os.environ.get(name, "") for name in ("ORT_INCLUDE_DIR", "CONDA_PREFIX")]
        tools = sorted((context.root / "oplab" / "toolchain" / "headers").glob("*.py"))
        return digest(str(context.root), installed(context.env.sites).get("onnxruntime"), *environ, *tools)

    def run(before: dict[str, Any]) -> dict[str, Any]:
        ended = context.child([context.env.python, "-m", "oplab.toolchain.headers", "--json"])
        try:
            answer = json.loads(ended.output.splitlines()[-1])
        except (ValueError, IndexError):
            raise failure_of(ended.output, "the search for ONNX Runtime's headers failed") from None
        if ended.code != 0:
            raise SetupError(answer["error"], answer["fix"])
        context.console.say(f"      {answer['path']} (API {answer['api']}, from {answer['route']})")
        return answer

    def there(stamp: dict[str, Any]) -> bool:
        return Path(str(stamp.get("path")), "onnxruntime_cxx_api.h").is_file()

    return Step("ONNX Runtime headers", context.stamp("headers"), inputs, there, run)


def operators(context: Context) -> Step:
    """csrc/ compiled into build/lib; oplab.toolchain.build does it, and leaves alone what is up to date."""
    root, lib = context.root, context.build / "lib"

    def inputs() -> str:
        sources = sorted(path for path in (root / "csrc").rglob("*") if path.is_file())
        sources += sorted((root / "oplab" / "toolchain").rglob("*.py"))
        have, found = installed(context.env.sites), read_stamp(context.stamp("headers"))
        versions = (have.get("torch"), have.get("onnxruntime"), found.get("path"), found.get("api"))
        environ = [os.environ.get(name, "") for name in ("CXX", "CXXFLAGS", "LDFLAGS")]
        return digest(str(root), *(str(path.relative_to(root)) for path in sources), *sources, *versions, *environ)

    def products() -> dict[str, int]:
        found = (path for path in sorted(lib.rglob("[!.]*")) if path.is_file())
        return {str(path.relative_to(lib)): path.stat().st_size for path in found}

    def run(before: dict[str, Any]) -> dict[str, Any]:
        command = [context.env.python, "-u", "-m", "oplab.toolchain.build"]
        ended = context.child(command, on_line=lambda line: context.console.say(f"      {line}"))
        if ended.code != 0:
            if "No space left on device" in ended.output:
                raise failure_of(ended.output, "")
            raise SetupError("the operators could not be compiled; the lines above show the error.", AGAIN)
        return {"products": products()}

    def there(stamp: dict[str, Any]) -> bool:
        return bool(stamp.get("products")) and stamp["products"] == products()

    return Step("Operators", context.stamp("operators"), inputs, there, run)


def jupyter(context: Context) -> Step:
    """JupyterLab's settings for this environment, and the course's notebooks marked as trusted."""
    root, env = context.root, context.env
    return Step(
        "JupyterLab settings",
        context.stamp("jupyter"),
        lambda: digest(root / "oplab/jupyter/settings.py", str(env.prefix), *sorted(root.glob("notebooks/*.ipynb"))),
        lambda stamp: (env.prefix / "share" / "jupyter" / "lab" / "settings" / "overrides.json").is_file(),
        lambda before: context.must(
            [env.python, "-m", "oplab.jupyter.settings"], "JupyterLab's settings could not be written"
        ),
    )


def all_steps(context: Context) -> list[Step]:
    parts = (python, packages, library, headers, operators, jupyter)
    return [part(context) for part in parts]


def set_up(context: Context) -> int:
    """Runs the steps that are not done, one set-up of a folder at a time; returns how many."""
    steps = all_steps(context)
    if all(step.done() for step in steps):
        return 0
    context.stamp("").parent.mkdir(parents=True, exist_ok=True)
    # before gigabytes are downloaded
    compiler.find_compiler(context.env.variables()["PATH"])

    def waiting(owner: str) -> None:
        context.console.say(f"Another set-up of this folder is running (process {owner}). Waiting for it to end ...")

    with files.lock(context.build / "setup" / "lock", waiting) as context.lock:
        return run_steps(steps, context.console)


def main(arguments: list[str]) -> int:
    """Sets up, then runs ``-- ARGUMENTS`` with the environment's Python.

    Returns:
        The exit status: 0, 2 after an error that was printed, 128 and the signal's number after Ctrl-C or another signal.
    """
    parser = argparse.ArgumentParser(prog="bootstrap.py", description="Sets the course up.")
    parser.add_argument("--quiet", action="store_true", help="print nothing when everything is set up already")
    parser.add_argument(
        "--as-is", action="store_true", help="skip the set-up; run ARGUMENTS in the environment as it is"
    )
    parser.add_argument(
        "then", nargs="*", metavar="ARGUMENT", help="run the environment's Python with these afterwards"
    )
    options = parser.parse_args(arguments)
    opens = options.then[:2] == ["-m", lab.__name__]
    if opens and (wrong := lab.problem(ROOT, options.then[2:])):  # before minutes of set-up
        print(wrong, file=sys.stderr)
        return 2
    start = time.monotonic()
    context = Context()
    try:
        stop_on_signals()
        ran = 0 if options.as_is else set_up(context)
    except (OplabError, OSError) as error:
        sentence = error if isinstance(error, OplabError) else explain_os_error(error)
        context.console.clear()
        fix = f"\n  To fix it: {sentence.fix}" if sentence.fix else ""
        print(f"\nSet-up stopped: {sentence.message}{fix}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stopped:
        context.console.clear()
        print(f"\nSet-up was interrupted. {AGAIN}", file=sys.stderr)
        return 128 + (stopped.args or (2,))[0]
    took = time.monotonic() - start
    if ran:
        context.console.say(f"Everything is set up ({took:.0f} s).")
    elif not options.quiet and not options.as_is:
        context.console.say(f"Everything is set up already (checked in {took * 1000:.0f} ms).")
    if not options.then:
        return 0
    python = str(context.env.python) if os.access(context.env.python, os.X_OK) else sys.executable
    os.execve(python, [python, *options.then], context.env.variables())
