"""``oplab doctor``: the versions in use, and what is missing with the command that fixes it.

It works in an environment where hardly anything is installed: nothing but the standard library is imported at the top,
and torch is examined in a separate process, which may crash.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

from oplab import paths
from oplab.errors import OplabError

PACKAGES = ("torch", "torchvision", "onnx", "onnxruntime", "onnxscript", "jupyterlab", "netron")
SETUP = "make setup"
GIB = 1 << 30


@dataclasses.dataclass(frozen=True)
class Component:
    """One line of the report.

    Attributes:
        name: what was looked at.
        value: what was found, or why it is not there.
        ok: True: it is there. False: it is needed and missing. None: it is optional and missing.
        fix: the command or sentence that fixes it; empty where nothing is missing.
    """

    name: str
    value: str
    ok: bool | None
    fix: str = ""


def report() -> list[Component]:
    """All rows, in the order in which they are printed. Never raises: an examination that fails is a row with the reason."""
    looks: list[tuple[str, Callable[[], list[Component]]]] = [
        ("System", _system),
        ("Python", _python),
        ("Packages", _packages),
        ("C++ compiler", _compiler),
        ("cmake", lambda: [_program("cmake", SETUP), _program("ninja", SETUP)]),
        ("ORT headers", _headers),
        ("Operators", _operators),
        ("Host program", _host),
        ("Folder", _folder),
        ("Grader", _grader),
        ("GPU", _gpu),
        ("torch_cluster", _cluster),
        ("Python headers", _python_headers),
        ("Chromium", _chromium),
    ]
    rows: list[Component] = []
    for name, look in looks:
        try:
            rows += look()
        except OplabError as error:
            rows.append(Component(name, error.message, False, error.fix))
        except Exception as error:  # the doctor must reach its last line
            rows.append(Component(name, f"could not be examined: {type(error).__name__}: {error}", False, SETUP))
    return rows


def _system() -> list[Component]:
    names: dict[str, str] = {}
    with contextlib.suppress(OSError):
        names = platform.freedesktop_os_release()
    system = names.get("PRETTY_NAME") or f"{platform.system()} {platform.release()}"
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return [Component("System", f"{system}, {platform.machine()}, {allowed} cores", True)]


def _python() -> list[Component]:
    value = f"{platform.python_version()} ({sys.executable})"
    if (3, 11) <= sys.version_info[:2] <= (3, 14):
        return [Component("Python", value, True)]
    return [Component("Python", value, False, "install Python 3.11 to 3.14, then: make setup PYTHON=python3.12")]


def _grader() -> list[Component]:
    """What holds a learner's code back on this kernel, always and with ``oplab check --isolate``."""
    from oplab.grading import isolation

    version = isolation.landlock_abi()
    always = "own files, own processes" if version and not isolation.can_signal_outside() else "own files"
    value = f"Landlock {version}: a worker changes only its {always}" if version else "no Landlock: limits only"
    folder = Path.cwd()
    rows = [Component("Grader", value, True if version else None, "" if version else "docs/grader.md, Isolation")]
    found = isolation.detect(folder, folder)
    fix = "" if found.offered else "Linux with Landlock, or the package bubblewrap"
    return [*rows, Component("--isolate", found.sentence().removeprefix("Isolation: "), found.offered or None, fix)]


def _version(name: str) -> str | None:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    return None


def _packages() -> list[Component]:
    rows = []
    pins = _pins()
    for name in PACKAGES:
        found, pin = _version(name), pins.get(name)
        if found is None:
            rows.append(Component(name, "not installed", False, SETUP))
        elif pin and found.split("+", 1)[0] != pin:
            rows.append(Component(name, f"{found}; the course was tested with {pin}", None, SETUP))
        else:
            rows.append(Component(name, found, True))
    return rows


def _pins() -> dict[str, str]:
    """name -> version of requirements.lock; empty when it cannot be read."""
    try:
        text = paths.part(paths.root(), "requirements.lock").read_text(encoding="utf-8")
    except (OSError, OplabError):
        return {}
    return dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", text, flags=re.MULTILINE))


def _compiler() -> list[Component]:
    from oplab.toolchain.compiler import find_compiler

    return [Component("C++ compiler", str(find_compiler()), True)]


def find_program(name: str) -> str | None:
    """A program on PATH or next to this Python (an environment that was not activated)."""
    return shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))


def _program(name: str, fix: str) -> Component:
    path = find_program(name)
    if not path:
        return Component(name, "not found", False, fix)
    done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20)
    match = re.search(r"\d+(\.\d+)+", done.stdout)
    if done.returncode != 0 or not match:
        return Component(name, f"{path} does not run", False, fix)
    return Component(name, f"{match[0]} ({path})", True)


def _headers() -> list[Component]:
    from oplab.toolchain import headers

    if _version("onnxruntime") is None:
        return [Component("ORT headers", "not examined: onnxruntime is not installed", False, SETUP)]
    found = headers.look()
    if found is None:
        return [Component("ORT headers", "not found on this machine", False, SETUP)]
    return [Component("ORT headers", f"API {found.api} ({found.path}, from {found.route})", True)]


_LOAD = """
import json, sys
answer = {}
try:
    import torch
    answer["cuda"] = torch.cuda.get_device_name(0) if torch.cuda.is_available() else ""
except Exception as error:
    answer["torch_error"] = f"{type(error).__name__}: {error}"
try:
    from oplab import ops
    ops.load()
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(ops.ort_library()))
    answer["operators"] = sorted(name.split("::")[1] for name in torch._C._dispatch_get_all_op_names()
                                 if name.startswith("oplab::"))
except Exception as error:
    answer["operators_error"] = f"{type(error).__name__}: {error}"
print(json.dumps(answer))
"""
_asked: dict[str, object] = {}


def _ask_torch() -> dict[str, object]:
    """What torch and the compiled operators say, in a process that may crash."""
    if not _asked:
        done = subprocess.run([sys.executable, "-c", _LOAD], capture_output=True, text=True, timeout=120)
        try:
            _asked.update(json.loads(done.stdout.splitlines()[-1]))
        except (ValueError, IndexError):
            last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
            _asked.update(torch_error=last, operators_error=last)
    return _asked


def _operators() -> list[Component]:
    folder = paths.root() / "build" / "lib"
    if not any(folder.glob("*.so")) and not any(folder.glob("*.dylib")):
        return [Component("Operators", f"not compiled ({folder} is empty)", False, SETUP)]
    if _version("torch") is None or _version("onnxruntime") is None:
        return [Component("Operators", "compiled; not loaded, because packages are missing", False, SETUP)]
    answer = _ask_torch()
    if "operators" in answer:
        names = answer["operators"]
        assert isinstance(names, list)
        return [Component("Operators", f"compiled, and both libraries load ({', '.join(names)})", True)]
    return [
        Component("Operators", f"compiled, but do not load: {answer.get('operators_error')}", False, "make clean setup")
    ]


def _host() -> list[Component]:
    from oplab.toolchain.build import host_path

    program = host_path()
    if not program.is_file():
        return [Component("Host program", f"not compiled ({program} is missing)", False, SETUP)]
    done = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return [Component("Host program", f"compiled, but does not start: {last}", False, "make clean setup")]
    return [Component("Host program", f"compiled, and starts ({program})", True)]


def _folder() -> list[Component]:
    root = paths.root()
    rows = []
    try:
        with tempfile.TemporaryFile(dir=root / "build" if (root / "build").is_dir() else root):
            pass
        rows.append(Component("Course folder", f"{root} can be written", True))
    except OSError as error:
        fix = "copy the course to a folder that you can write to"
        rows.append(Component("Course folder", f"{root} cannot be written: {error.strerror}", False, fix))
    free = shutil.disk_usage(root).free
    enough = free >= GIB
    rows.append(
        Component("Free disk", f"{free / GIB:.1f} GiB", enough, "" if enough else "free some space; 1 GiB is needed")
    )
    return rows


def _gpu() -> list[Component]:
    if _version("torch") is None:
        return []
    name = _ask_torch().get("cuda")
    if name:
        return [Component("GPU", str(name), True)]
    error = _ask_torch().get("torch_error")
    if error:
        return [Component("torch", f"installed, but cannot be imported: {error}", False, SETUP)]
    return [Component("GPU", "none; the course does not need one", None)]


def _cluster() -> list[Component]:
    found = _version("torch-cluster")
    if found:
        return [Component("torch_cluster", found, True)]
    return [Component("torch_cluster", "not installed; some tests use it as a reference after `make deps-extra`", None)]


def _python_headers() -> list[Component]:
    folder = sysconfig.get_path("include")
    if folder and Path(folder, "Python.h").is_file():
        return [Component("Python headers", folder, True)]
    fix = "Debian, Ubuntu: sudo apt-get install python3-dev"
    return [
        Component("Python headers", "not found; only the pybind11 lesson of chapter 7 compiles with them", None, fix)
    ]


def find_chromium() -> str | None:
    """Chromium or Chrome: ``OPLAB_CHROMIUM``, the PATH, or where macOS keeps it. Only browser tests need it."""
    named = os.environ.get("OPLAB_CHROMIUM")
    names = [named] if named else ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
    for name in names:
        path = shutil.which(name)
        if path:
            return path
    if named or sys.platform != "darwin":
        return None
    apps = ("Chromium.app/Contents/MacOS/Chromium", "Google Chrome.app/Contents/MacOS/Google Chrome")
    return next((str(path) for app in apps if (path := Path("/Applications", app)).is_file()), None)


def _chromium() -> list[Component]:
    path = find_chromium()
    if path:
        return [Component("Chromium", path, True)]
    fix = "Debian: sudo apt-get install chromium; macOS: brew install chromium"
    return [Component("Chromium", "not found; only the browser tests of `make test` need it", None, fix)]


def _print_plain(rows: list[Component]) -> None:
    width = max(len(row.name) for row in rows)
    for row in rows:
        print(f"{_sign(row)}  {row.name:<{width}}  {row.value}")
        if row.fix and row.ok is not True:
            print(f"{'':{width + 6}}-> {row.fix}")


def _sign(row: Component) -> str:
    return "ok" if row.ok else "--" if row.ok is None else "NO"


def _print_rich(rows: list[Component]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    styles = {True: "green", None: "yellow", False: "bold red"}
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(Text(_sign(row), styles[row.ok]), row.name, Text(row.value))
        if row.fix and row.ok is not True:
            table.add_row("", "", Text(f"-> {row.fix}", "bold"))
    Console().print(table)


def main() -> int:
    """Prints the report. 0: all needed parts are there; 1: something is missing."""
    rows = report()
    try:
        _print_rich(rows)
    except ImportError:
        _print_plain(rows)
    missing = [row.name for row in rows if row.ok is False]
    print()
    if missing:
        print(f"Missing: {', '.join(missing)}. The lines with -> show how to fix it.")
        return 1
    print("Everything that the course needs is installed.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
