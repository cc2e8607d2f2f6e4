"""``make test``: everything that CI runs. ``tools/run_tests.py [lint] [notebooks] [tests] [--no-browser] [--sets [AA ...]]``.

The last thing printed is pytest's own summary of the tests; the exit status tells whether every step passed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = sys.executable
STEPS = ("lint", "notebooks", "tests")
# What compiles the kernels for AArch64 and runs them on any other processor: a Debian package, and the program that it brings.
CROSS = {"g++-aarch64-linux-gnu": "aarch64-linux-gnu-g++", "qemu-user": "qemu-aarch64"}


class StepError(Exception):
    """Why a step cannot even begin."""


def pytest_command(*arguments: str) -> list[str]:
    return [PYTHON, "-m", "pytest", "-p", "pytest_no_silent_skips", "--durations=5", *arguments]


def run(command: list[str], **variables: str) -> int:
    """Runs a command in the course's folder with tools/ importable; returns its exit status."""
    env = {**os.environ, "JUPYTER_PREFER_ENV_PATH": "1", "PYTHONPATH": str(ROOT / "tools"), **variables}
    env.setdefault("OMP_NUM_THREADS", str(min(2, os.cpu_count() or 1)))
    # Two or three workers share the processors: threads that spin while they wait for work take time from the others'.
    env.setdefault("OMP_WAIT_POLICY", "passive")
    sys.stdout.flush()
    return subprocess.run(command, cwd=ROOT, env=env).returncode


def lint() -> int:
    """The code's rules and its layout; both are said, also when the first one fails."""
    codes = [run([PYTHON, "-m", "ruff", *words, "."]) for words in (["check"], ["format", "--check"])]
    return max(codes)


def older_sets() -> dict[str, dict[str, str]]:
    """For each older instruction set that this processor has: the variables that hold oplab, ATen, oneDNN, MKL and NumPy to it.

    ONNX Runtime's own kernels have no such switch.
    """
    from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

    newer = [name for name in __cpu_dispatch__ if __cpu_features__[name]]
    beyond_avx2 = [name for name in newer if name.startswith("AVX512") or name == "X86_V4"]
    names = ("OPLAB_SIMD", "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS")
    sets = {}
    if beyond_avx2:
        sets["avx2"] = dict(zip(names, ("avx2", "avx2", "AVX2", "AVX2"), strict=True))
        sets["avx2"]["NPY_DISABLE_CPU_FEATURES"] = " ".join(beyond_avx2)
    if newer:
        sets["plain"] = dict(zip(names, ("plain", "default", "SSE41", "SSE4_2"), strict=True))
        sets["plain"]["NPY_DISABLE_CPU_FEATURES"] = " ".join(newer)
    return sets


def notebooks(chosen: Sequence[str] | None = None) -> int:
    """All notebooks under nbval with the reference answers, three at a time, outputs compared.

    Args:
        chosen: numbers of chapters: these alone (all if it is empty), and once more for each older instruction set.
    """
    from notebooks import CELL_LIMIT
    from oplab.course.manifest import load

    stems = [chapter.stem for chapter in load(ROOT).chapters]
    absent = [stem for stem in stems if not (ROOT / "notebooks" / f"{stem}.ipynb").is_file()]
    if absent:
        raise StepError(
            f"course.toml lists chapters without a notebook: {', '.join(absent)}. `make notebooks` makes them."
        )
    found = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "notebooks").glob("*.ipynb"))
    if not found:
        print("There are no notebooks yet, and course.toml lists no chapter: nothing to run.")
        return 0
    if not importlib.util.find_spec("onnxruntime_extensions"):  # there is no wheel for Python 3.14
        print("Chapter 11 is not compared: onnxruntime_extensions has no package for this Python.")
        found = [path for path in found if not path.startswith("notebooks/11_")]
    if chosen:
        found = [path for path in found if Path(path).name[:2] in chosen]
    if any(path.startswith("notebooks/18_") for path in found):
        get_engines()  # chapter 18 runs them
    limit = f"--nbval-cell-timeout={CELL_LIMIT}"

    def run_all(paths: Sequence[str], **variables: str) -> int:
        command = pytest_command("--nbval", limit, "-n", "3", "--dist", "loadscope", *paths)
        return run(command, OPLAB_TRACK="solutions", **variables)

    codes = [run_all(found)]
    for name, variables in ({} if chosen is None else older_sets()).items():
        # Without AVX, OpenVINO has no Resize, and chapter 18 shows another result.
        with_avx = [path for path in found if path.startswith("notebooks/18_")] if name == "plain" else []
        rest = [path for path in found if path not in with_avx]
        for paths, isa in ((rest, variables["ONEDNN_MAX_CPU_ISA"]), (with_avx, "AVX")):
            if paths:
                limited = {**variables, "ONEDNN_MAX_CPU_ISA": isa}
                print(f"\n==== notebooks as a processor with {name} instructions runs them: {limited}", flush=True)
                codes.append(run_all(paths, **limited))
    return max(codes)


def find_chromium() -> str | None:
    from oplab.doctor import find_chromium

    return find_chromium()


def apt_install(packages: list[str]) -> str | None:
    """Installs Debian packages where this is root on Debian; returns why it did not, or None.

    Raises:
        StepError: apt-get failed.
    """
    if not shutil.which("apt-get"):
        return "this system has no apt-get"
    if os.getuid() != 0:
        return "you are not root, so it is not installed for you"
    print(f"Missing, and installed now: apt-get install {' '.join(packages)}", flush=True)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "--yes", "--no-install-recommends", *packages]):
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0 and command[1] == "install":
            raise StepError(f"{' '.join(command)} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return None


def get_chromium() -> str:
    """The path of Chromium; on Debian, as root, it is installed when it is missing."""
    found = find_chromium()
    if found:
        return found
    hint = "the browser tests need Chromium (Debian: sudo apt-get install chromium; macOS: brew install chromium)"
    refused = apt_install(["chromium"])
    if refused:
        raise StepError(f"{hint}; {refused}. Or leave them out: make test TEST_ARGS=--no-browser.")
    found = find_chromium()
    if not found:
        raise StepError(f"Chromium was installed by apt-get, but is not on PATH; {hint}.")
    return found


def apt_install_or_say(programs: dict[str, str], untested: str) -> None:
    """Installs the Debian packages whose programs are missing; where it cannot, prints what is not tested, why, and the command.

    Args:
        programs: Debian package: the program that it brings.
        untested: the beginning of that sentence.
    """
    missing = [package for package, program in programs.items() if not shutil.which(program)]
    refused = apt_install(missing) if missing else None
    if refused:
        print(f"{untested}: {refused}. Debian: sudo apt-get install {' '.join(missing)}.")


def get_aarch64() -> None:
    """What the tests for AArch64 need, on any other processor."""
    if platform.machine() not in ("aarch64", "arm64"):
        apt_install_or_say(CROSS, "The kernels are not tested for AArch64")


def get_bubblewrap() -> None:
    """What the grader isolates a learner's code with on Linux, beside Landlock."""
    if sys.platform == "linux":
        apt_install_or_say({"bubblewrap": "bwrap"}, "Isolation is not tested with bubblewrap")


def get_engines() -> None:
    """The engines of `make deps-engines`, and the course's operators for them.

    Raises:
        StepError: they could not be installed or compiled.
    """
    if run([PYTHON, "tools/deps_engines.py"]):
        raise StepError("the tests of other engines need `make deps-engines`, which failed; its lines above say why.")


def get_site() -> None:
    """What `make site` builds the website with.

    Raises:
        StepError: it could not be installed.
    """
    from extras import install

    if not install("site", size="Sphinx and a theme, 30 MB"):
        raise StepError("the tests of the site need Sphinx, which could not be installed; pip's lines above say why.")


def get_dask() -> None:
    """What `oplab class grade --cluster` runs on: `make deps-class`.

    Raises:
        StepError: it could not be installed.
    """
    from deps_class import install

    if not install():
        raise StepError(
            "the tests of a class on a cluster need Dask, which could not be installed; see pip's lines above."
        )


def tests(browser: bool = True) -> int:
    """All tests of ``tests/``; the browser's among them. The summary that this prints is the run's last word."""
    variables = {}
    chosen = ["tests"]
    if not browser:
        print("The browser tests are left out (--no-browser).")
        chosen += ["--ignore", "tests/browser"]
    elif any((ROOT / "tests" / "browser").glob("test_*.py")):
        variables["OPLAB_CHROMIUM"] = get_chromium()
        get_site()
    get_aarch64()
    get_bubblewrap()
    get_engines()
    get_dask()
    # One worker more than the two processors that this is made for: a third of the time of browsers and time limits is waiting.
    # In the folders' order, browser first: by number of tests, the few long ones would come last, on one worker.
    parallel = ("-n", "3", "--dist", "loadscope", "--no-loadscope-reorder")
    report = f"--junitxml={ROOT / 'build' / 'tests.xml'}"  # how long each test took
    return run(pytest_command(*parallel, report, *chosen), **variables)


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs what CI runs.")
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"{', '.join(STEPS)}; all if left out")
    parser.add_argument("--no-browser", action="store_true", help="leave the browser tests out")
    parser.add_argument(
        "--sets",
        nargs="*",
        metavar="AA",
        help="run the notebooks (or these chapters) once for each instruction set, too",
    )
    options = parser.parse_args()
    unknown = [step for step in options.steps if step not in STEPS]
    if unknown:
        parser.error(f"there is no step {unknown[0]}; there are {', '.join(STEPS)}")
    work: dict[str, Callable[[], int]] = {
        "lint": lint,
        "notebooks": notebooks if options.sets is None else lambda: notebooks(options.sets),
        "tests": lambda: tests(not options.no_browser),
    }
    # A shell gives its background jobs an ignored SIGINT, and so would every command that a test sends Ctrl-C to.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    chosen = [step for step in STEPS if step in (options.steps or STEPS)]
    failed = []
    for step in chosen:
        print(f"\n==== {step}" + (f" (failed before: {', '.join(failed)})" if failed else ""), flush=True)
        start = time.monotonic()
        try:
            code = work[step]()
        except StepError as error:
            print(f"{step}: {error}", file=sys.stderr, flush=True)
            code = 2
        except KeyboardInterrupt:
            print("\nInterrupted.", file=sys.stderr)
            return 130
        if code:
            failed.append(step)
        if code or step != chosen[-1]:
            print(f"==== {step}: {'FAILED' if code else 'passed'} in {time.monotonic() - start:.0f} s", flush=True)
    if failed:
        print(f"\nFAILED: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
