"""The Python environment that the set-up fills, and what all its steps share. Standard library only."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from setup_ahead import Ahead
from setup_engine import Console, Finished, run_child

ROOT = Path(__file__).resolve().parent.parent


class Environment:
    """The Python environment that the course runs in.

    It is ``OPLAB_PYTHON``'s, or the active conda environment when it was created from environment.yml (it holds conda's
    headers), or ``.venv`` in the course's folder.

    Attributes:
        kind: ``given``, ``conda`` or ``venv``.
        prefix: its folder.
        python: its interpreter; in a ``.venv`` that does not exist yet, where it will be.
        bin: the folder of its programs.
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
        """``3.12`` of the environment; a .venv that exists keeps the version it was created with."""
        if self.kind == "venv":
            match = re.match(r"\d+\.\d+", self.config().get("version", ""))
            if match:
                return match[0]
        return f"{sys.version_info[0]}.{sys.version_info[1]}"

    def config(self) -> dict[str, str]:
        """The settings in pyvenv.cfg; empty where there is none."""
        try:
            lines = (self.prefix / "pyvenv.cfg").read_text(encoding="utf-8").splitlines()
        except OSError:
            return {}
        return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}

    def sites(self) -> list[Path]:
        """The site-packages folders."""
        if self.kind == "given":
            import sysconfig

            return [
                Path(path) for path in dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
            ]
        return [self.prefix / "lib" / f"python{self.version}" / "site-packages"]

    def stamps(self) -> Path:
        """The folder for stamps about the environment: inside it, so that they are removed with it."""
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
    """What all steps share.

    Attributes:
        root: the course's folder.
        build: its folder ``build``.
        env: the Python environment.
        lock_handle: the descriptor of the set-up's lock while it is held; each child process inherits it.
        ahead: what compiles the operators while packages are installed.
    """

    def __init__(self, root: Path = ROOT, console: Console | None = None):
        self.root = root
        self.build = root / "build"
        self.console = console or Console()
        self.env = Environment(root)
        self.lock_handle: int | None = None
        self.ahead = Ahead()

    def compile_ahead(self) -> None:
        """Starts to compile the operators in the background, unless that was done."""
        keep = [self.lock_handle] if self.lock_handle is not None else []
        self.ahead.start(
            [str(part) for part in self.compiles],
            self.build / "setup" / "operators.log",
            env=self.env.variables(),
            cwd=self.root,
            pass_fds=keep,
        )

    @property
    def compiles(self) -> list[str | Path]:
        """The command that compiles the operators; what is up to date is left alone."""
        return [self.env.python, "-u", "-m", "oplab.toolchain.build"]

    def child(self, command: list[str | Path], **kwargs: Any) -> Finished:
        """Runs a command in the course's folder with the environment's variables, as :func:`run_child` does."""
        keep = [self.lock_handle] if self.lock_handle is not None else []
        kwargs.setdefault("env", self.env.variables())
        kwargs.setdefault("cwd", self.root)
        return run_child([str(part) for part in command], keep_open=keep, **kwargs)
