"""``make executorch``: installs ExecuTorch in ``build/executorch``, compiles ``csrc/executorch``, and runs networks with MyAdd.

ExecuTorch is not part of the course's environment: its package asks for versions that the course does not have. In ``build/executorch``
are a Python environment that sees the course's packages, and a folder of the few more that the steps import.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import shutil
import signal
import sys
import time
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import extras

from oplab import paths
from oplab.errors import OplabError
from oplab.toolchain import cache
from oplab.toolchain.compile import must_succeed
from oplab.toolchain.compiler import OWN_SOURCES_TIMEOUT, find_compiler, is_macos, run
from oplab.toolchain.diagnostics import shown

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "csrc" / "executorch" / "my_add.cpp"
FLAGS = SOURCE.with_name("compile_flags.txt")
STEPS = ROOT / "tools" / "executorch_steps.py"
PREFIX = "result "  # of a line that a step prints for this file
Say = Callable[[str], object]
# The log of ExecuTorch's C++ on the standard error: [method.cpp:822] Missing operator: [0] lab::my_add.out
LOG = re.compile(r"^\[(?P<file>[\w.-]+):\d+\] (?:Check failed \(.*?\): (?=\w))?(?P<text>.*)$")


def folder() -> Path:
    """Everything that this makes."""
    return paths.build_dir() / "executorch"


def package() -> Path:
    """ExecuTorch: ``include``, ``lib`` and its modules."""
    return folder() / "packages" / "executorch"


def library() -> Path:
    """The kernel, compiled."""
    return folder() / "my_add.so"


def programs() -> Path:
    """The exported networks."""
    return folder() / "programs"


def python() -> Path:
    """The Python that has both the course's packages and ExecuTorch."""
    return folder() / "env" / "bin" / "python"


def make_environment() -> None:
    """A Python environment that sees the packages of this one and those of ``packages``. Made again where this one has moved."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    link = folder() / "env" / "lib" / version / "site-packages" / "course.pth"
    sites = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    content = "".join(f"{path}\n" for path in (folder() / "packages", *sites))
    if python().exists() and link.is_file() and link.read_text() == content:
        return
    venv.EnvBuilder(clear=True, symlinks=True, with_pip=False).create(folder() / "env")
    link.write_text(content)


def install(say: Say) -> bool:
    """Puts ExecuTorch in its folder, if it is not there in these versions. Torch and NumPy are the course's.

    Raises:
        OplabError: pip could not install it.
    """
    size = "19 MB to fetch, 80 MB on disk"
    return extras.install_apart("executorch", folder() / "packages", "ExecuTorch", size=size, say=say)


def command(made: Path) -> list[str]:
    """What compiles the kernel to ``made``.

    Raises:
        OplabError: there is no compiler.
    """
    include, lib = package() / "include", package() / "lib"
    # ExecuTorch has copies of PyTorch's small headers (c10), which it includes by their usual names.
    folders = (include, include / "executorch" / "runtime" / "core" / "portable_type" / "c10")
    return [
        *find_compiler().command,
        *FLAGS.read_text().split(),
        *(f"-isystem{each}" for each in folders),
        str(SOURCE),
        *("-shared", "-o", str(made), f"-L{lib}", "-lexecutorch", f"-Wl,-rpath,{lib}"),
        *(() if is_macos() else ("-Wl,-z,defs",)),
    ]


def compile_kernel(say: Say) -> bool:
    """Compiles the kernel, if something changed since the last time.

    Raises:
        BuildFailed: it does not compile.
        OplabError: there is no compiler.
    """
    made = library()
    stamp = made.with_suffix(".json")
    watched = [SOURCE, FLAGS, ROOT / "csrc" / "common" / "text.h"]
    parts = [*command(made), find_compiler().identity, *extras.requirements("executorch")]
    key = cache.digest(*parts, *(file.read_bytes() for file in watched))
    if made.is_file() and extras.recorded(stamp) == {"key": key, "size": made.stat().st_size}:
        return False
    start = time.monotonic()
    with cache.scratch(folder()) as scratch:
        done = run(command(scratch / made.name), timeout=OWN_SOURCES_TIMEOUT, cwd=scratch, limited=False)
        must_succeed(done, SOURCE, OWN_SOURCES_TIMEOUT)
        os.replace(scratch / made.name, made)
        stamp.write_text(json.dumps({"key": key, "size": made.stat().st_size}))
    say(f"{shown(made)}: compiled in {time.monotonic() - start:.1f} s, {made.stat().st_size / 1000:.0f} KB")
    return True


@dataclass
class Told:
    """What a step printed.

    Attributes:
        results: its lines of JSON as dictionaries, each with the lines of ExecuTorch's log before it as ``log``.
        ended: "", or how it ended where it did not reach its end.
        log: everything else.
    """

    results: list[dict]
    ended: str
    log: str


def step(*arguments: object) -> Told:
    """Runs a step in the environment that has ExecuTorch."""
    # Isolated: not the PYTHONPATH of whoever calls make.
    done = run([str(python()), "-I", str(STEPS), *map(str, arguments)], timeout=OWN_SOURCES_TIMEOUT, limited=False)
    results, log, rest = [], [], []
    for line in done.log.splitlines():
        said = LOG.match(line)
        if line.startswith(PREFIX):
            results.append({**json.loads(line.removeprefix(PREFIX)), "log": log})
            log = []
        elif said and said["file"] not in ("cpuinfo_utils.cpp", "operator_registry.cpp"):
            log.append(said["text"])
        else:
            rest.append(line)
    ended = ""
    if done.returncode is None:
        ended = "did not finish in time"
    elif done.returncode < 0:
        ended = f"was ended by {signal.Signals(-done.returncode).name}"
    elif done.returncode:
        ended = next((line for line in reversed(rest) if line.strip()), f"exit status {done.returncode}")
    return Told(results, ended, "\n".join(rest))


def export(say: Say) -> list[dict]:
    """Exports the networks, if something changed since the last time. Returns what the step printed.

    Raises:
        OplabError: it failed.
    """
    key = cache.digest(STEPS.read_bytes(), (folder() / "packages" / "installed.json").read_bytes(), torch_version())
    before = extras.recorded(programs() / "exported.json")
    if isinstance(before, dict) and before.get("key") == key:
        return before["results"]
    say("Exporting; the first import of ExecuTorch takes a while ...")
    with cache.scratch(folder()) as scratch:
        made = paths.created(scratch / "programs")
        told = step("export", made)
        if told.ended:
            raise OplabError(
                f"The networks could not be exported: {told.ended}", f"The command: {again('export', made)}"
            )
        (made / "exported.json").write_text(json.dumps({"key": key, "results": told.results}))
        shutil.rmtree(programs(), ignore_errors=True)
        os.replace(made, programs())
    return told.results


def torch_version() -> str:
    """The version of PyTorch, without importing it."""
    return importlib.metadata.version("torch")


def again(*arguments: object) -> str:
    """A command line that repeats a step."""
    return shlex.join([str(python()), "-I", str(STEPS), *map(str, arguments)])


def named(error: str) -> str:
    """ExecuTorch's error with the name of its number: ``… error: 0x:14 (OperatorMissing)``."""
    number = re.search(r"0x:?([0-9a-fA-F]+)$", error)
    header = package() / "include" / "executorch" / "runtime" / "core" / "error.h"
    if number and header.is_file():
        codes = re.findall(r"^\s*(\w+) = 0x([0-9a-fA-F]+),", header.read_text(), re.MULTILINE)
        for name, code in codes:
            if int(code, 16) == int(number[1], 16):
                return f"{error} ({name})"
    return error


def show_case(say: Say, case: dict) -> bool:
    """Prints one comparison. Returns whether it is right."""
    about = f"  {case['dtype']} {case['shape']}, alpha {case['alpha']}, beta {case['beta']}"
    if "error" in case:
        say(f"{about}: {named(case['error'])}")
        return False
    say(f"{about}: {'exactly' if case['equal'] else 'nearly' if case['close'] else 'NOT'} the numbers of PyTorch")
    return case["close"]


def show_log(say: Say, lines: list[str], wanted: str = "") -> None:
    """Prints the first line of ExecuTorch's log that has ``wanted`` in it."""
    first = next((line for line in lines if wanted in line), None)
    if first:
        say(f"    on stderr: {first}")


def compare(say: Say) -> list[str]:
    """Runs the networks without and with the kernel, and prints it. Returns what is not as it should be."""
    wrong: list[str] = []
    alone = step("run", programs())
    count = next((each["operators"] for each in alone.results if "operators" in each), 0)
    case = next((each for each in alone.results if "case" in each), {})
    say(f"Without the kernel ({count} operators):")
    if "error" in case:
        say(f"  {named(case['error'])}")
        show_log(say, case["log"], "Missing operator")
    else:
        wrong.append(f"without the kernel: {alone.ended or 'no error'}")

    told = step("run", programs(), library())
    if told.ended and not told.results:
        return [*wrong, f"with the kernel: {told.ended}"]
    for each in told.results:
        if "operators" in each:
            say(f"With the kernel ({each['operators']} operators, among them {', '.join(each['ours'])}):")
        elif "case" in each and not show_case(say, each):
            wrong.append(f"{each['case']}: not PyTorch's numbers")
    refused = {each["refused"]: each for each in told.results if "refused" in each}
    say("What is refused:")
    for title in (each["begins"] for each in told.results if "begins" in each):
        error = refused.get(title, {}).get("error", f"the process {told.ended or 'ended'}")
        say(f"  {title}: {named(error) or 'NOT refused'}")
        show_log(say, refused.get(title, {}).get("log", []))
        if not refused.get(title, {}).get("error"):
            wrong.append(f"{title}: not refused")
    if told.ended:
        wrong.append(f"with the kernel: {told.ended}")
    return wrong


def make(say: Say) -> list[str]:
    """All of it. Returns what is not as it should be: nothing, or sentences.

    Raises:
        OplabError: it cannot be done here; the sentence says why.
    """
    if sys.platform == "win32":
        raise OplabError("`make executorch` needs Linux or macOS.", "Under Windows, use WSL.")
    find_compiler()  # before anything is fetched
    with cache.one_build(paths.created(folder()) / ".lock", say):
        changed = install(say)
        make_environment()
        say(
            f"{extras.requirements('executorch')[0]} in {shown(folder())}: {'installed' if changed else 'is installed'}"
        )
        if not compile_kernel(say):
            say(f"{shown(library())}: up to date")
        results = export(say)
        sizes = [f"{each['program']}.pte {each['size']} bytes" for each in results if "program" in each]
        say(f"{shown(programs())}: {', '.join(sizes)}")
        wrong: list[str] = []
        for each in results:
            if "no_out" in each:
                say(f"An operator without a schema .out is not exported: {each['no_out'] or 'NOT true here'}")
                wrong += [] if each["no_out"] else ["an operator without .out: exported"]
        return wrong + compare(say)


def main() -> int:
    """The command."""
    try:
        wrong = make(lambda line: print(line, flush=True))
    except OplabError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted. Run the same command again to resume.", file=sys.stderr)
        return 130
    for line in wrong:
        print(f"Not as expected: {line}.", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
