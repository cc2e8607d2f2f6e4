"""``make test``, which CI runs at each push, and ``make test-all``, which proves the rest at night.

    make test                                       lint, every notebook, the tests without the mark nightly, some wrong answers
    make test TEST_ARGS="lint notebooks"            these steps
    make test TEST_ARGS=c05                         all of a chapter: its lesson, its right answers and all of its wrong ones
    make test TEST_ARGS=c05.clip                    the same of an exercise, without the lesson
    make test TEST_ARGS=tests/debug/test_parity.py  all tests of a file, a folder or an id, the nightly ones too
    make test TEST_ARGS=--failed                    what failed in the last runs
    make test TEST_ARGS="notebooks --sets 04"       these lessons once for each instruction set of the processor
    make test-all                                   everything, on inputs that are drawn anew

The last thing printed is pytest's own summary of the last step; the exit status tells whether every step passed.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import platform
import re
import secrets
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
PARTS = 16  # of the wrong answers, `make test` grades one; sixteen commits in a row cover all
LAST_WORDS = 15  # seconds that pytest has for its summary after Ctrl-C
IDS = r"c[0-9A]\d(\.\w+)?"  # of a chapter or an exercise
# What compiles the kernels for AArch64 and runs them on any other processor: a Debian package, and the program that it brings.
CROSS = {"g++-aarch64-linux-gnu": "aarch64-linux-gnu-g++", "qemu-user": "qemu-aarch64"}


class StepError(Exception):
    """Why a step cannot even begin."""


def pytest_command(*arguments: str, workers: int = 3, report: str = "") -> list[str]:
    """One worker more than the two processors that this is made for: browsers, compilers and time limits wait a third of the time.

    Args:
        workers: processes that share the tests; 0 runs them in this one.
        report: the name of the file in build/ that has the seconds of each test, for `make test-times`.
    """
    # In the folders' order, browser first: by number of tests, the few long ones would come last, on one worker.
    shared = ["-n", str(workers), "--dist", "loadscope", "--no-loadscope-reorder"] if workers else []
    written = [f"--junitxml={ROOT / 'build' / report}.xml"] if report else []
    plugins = ["-p", "pytest_no_silent_skips", "-p", "pytest_again"]
    return [PYTHON, "-m", "pytest", *plugins, "--durations=5", *shared, *written, *arguments]


def run(command: list[str], **variables: str) -> int:
    """Runs a command in the course's folder with tools/ importable; returns its exit status."""
    env = {**os.environ, "JUPYTER_PREFER_ENV_PATH": "1", "PYTHONPATH": str(ROOT / "tools"), **variables}
    env.setdefault("OMP_NUM_THREADS", str(min(2, os.cpu_count() or 1)))
    # Two or three workers share the processors: threads that spin while they wait for work take time from the others'.
    env.setdefault("OMP_WAIT_POLICY", "passive")
    sys.stdout.flush()
    with subprocess.Popen(command, cwd=ROOT, env=env) as process:
        try:
            code = process.wait()
        except KeyboardInterrupt:  # pytest gets it, too, and has a summary to write
            with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
                process.wait(LAST_WORDS)
            process.kill()
            raise
    return code


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


def notebooks(chosen: Sequence[str] = (), sets: bool = False, failed: bool = False) -> int:
    """Notebooks under nbval with the reference answers, three at a time, outputs compared.

    Args:
        chosen: numbers of chapters; all if it is empty.
        sets: run them once more for each older instruction set.
        failed: only those that failed before.
    """
    from notebooks import CELL_LIMIT
    from oplab.course.manifest import load
    from oplab.grading.client import Server

    stems = [chapter.stem for chapter in load(ROOT).chapters]
    absent = [stem for stem in stems if not (ROOT / "notebooks" / f"{stem}.ipynb").is_file()]
    if absent:
        raise StepError(
            f"course.toml lists chapters without a notebook: {', '.join(absent)}. `make notebooks` makes them."
        )
    found = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "notebooks").glob("*.ipynb"))
    if not importlib.util.find_spec("onnxruntime_extensions"):  # there is no wheel for Python 3.14
        print("Chapter 11 is not compared: onnxruntime_extensions has no package for this Python.")
        found = [path for path in found if not path.startswith("notebooks/11_")]
    if chosen:
        found = [path for path in found if Path(path).name[:2] in chosen]
    if any(path.startswith("notebooks/18_") for path in found):
        get_engines()  # chapter 18 runs them

    def run_all(paths: Sequence[str], **variables: str) -> int:
        again = ["--last-failed"] if failed else []
        nbval = ["--nbval", f"--nbval-cell-timeout={CELL_LIMIT}", *again, *paths]
        with Server.shared(load(ROOT), host=not variables, track="solutions") as host:
            host.listen()  # the lessons' checks use its server, which has everything loaded
            return run(pytest_command(*nbval, report="notebooks"), OPLAB_TRACK="solutions", **variables)

    codes = [run_all(found)]
    for name, variables in older_sets().items() if sets else ():
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


def leave_out(untested: str, why: str, fix: str) -> None:
    """A line that says what is not tested; in CI, where everything can be installed, the end of the step.

    Raises:
        StepError: the variable CI is set.
    """
    sentence = f"{untested}: {why}. {fix}"
    if os.environ.get("CI"):
        raise StepError(sentence)
    print(sentence)


def get_programs(programs: dict[str, str], untested: str) -> None:
    """Installs the Debian packages whose programs are missing.

    Args:
        programs: Debian package: the program that it brings.
        untested: the beginning of the sentence where it cannot.
    """
    missing = [package for package, program in programs.items() if not shutil.which(program)]
    refused = apt_install(missing) if missing else None
    if refused:
        leave_out(untested, refused, f"Debian: sudo apt-get install {' '.join(missing)}.")


def get_chromium() -> str | None:
    """The path of Chromium, or None."""
    if not find_chromium():
        refused = apt_install(["chromium"])
        if refused:
            fix = "Debian: sudo apt-get install chromium; macOS: brew install chromium."
            leave_out("JupyterLab is not tested in Chromium", refused, fix)
    return find_chromium()


def get_aarch64() -> None:
    """What the tests for AArch64 need, on any other processor."""
    if platform.machine() not in ("aarch64", "arm64"):
        get_programs(CROSS, "The kernels are not tested for AArch64")


def get_bubblewrap() -> None:
    """What the grader isolates a learner's code with on Linux, beside Landlock."""
    if sys.platform == "linux":
        get_programs({"bubblewrap": "bwrap"}, "Isolation is not tested with bubblewrap")


def get_engines() -> None:
    """The engines of `make deps-engines`, and the course's operators for them."""
    if run([PYTHON, "tools/deps_engines.py"]):
        leave_out("Other engines are not tested", "OpenVINO and ncnn were not installed", "Run `make deps-engines`.")


def get_dask() -> None:
    """What `oplab class grade --cluster` runs on."""
    if run([PYTHON, "tools/deps_class.py"]):
        leave_out("A class on a cluster is not tested", "Dask was not installed", "Run `make deps-class`.")


def get_site() -> None:
    """What `make site` builds the website with."""
    from extras import install

    if not install("site", size="Sphinx and a theme, 30 MB"):
        leave_out("The site is not tested", "Sphinx was not installed", "Run `make site`.")


def part_of_today() -> str:
    """Which of the wrong answers `make test` grades: ``3/8``, by the number of commits, and a line that says so."""
    words = (["rev-parse", "--is-shallow-repository"], ["rev-list", "--count", "HEAD"])
    asked = [
        subprocess.run(["git", "-C", ROOT, *each], capture_output=True, text=True).stdout.strip() for each in words
    ]
    number = int(asked[1]) % PARTS if asked[0] == "false" and asked[1].isdecimal() else 0
    why = "the number of commits decides" if number or asked[0] == "false" else "the history is shallow or missing"
    print(f"Of the wrong answers, part {number} of 0 to {PARTS - 1} is graded: {why}. `make test-all` grades all.")
    return f"{number}/{PARTS}"


def tests(browser: bool = True, every: bool = False, failed: bool = False) -> int:
    """The tests of ``tests/``, for which what they need is installed. The summary that this prints is the run's last word."""
    chosen, variables = ["tests"], {}
    chromium = get_chromium() if browser else None
    if chromium:
        variables["OPLAB_CHROMIUM"] = chromium
    else:
        chosen += ["--ignore", "tests/browser"]
    get_engines()
    if every or failed:
        get_dask()
        get_aarch64()
        get_bubblewrap()
        get_site()
    if failed:
        chosen += ["--last-failed"]
    elif not every:
        chosen += ["-m", "not nightly", "--ignore-glob=*/test_dask*"]
        variables["OPLAB_PART"] = part_of_today()
    return run(pytest_command(*chosen, report="tests"), **variables)


def steps_that_failed() -> list[str]:
    """The steps in which a test failed in the last runs. In any other one, pytest's --last-failed would run all tests."""
    try:
        failed = json.loads((ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [step for step in STEPS if any(test.startswith(f"{step}/") for test in failed)]


def some(chosen: Sequence[str]) -> int:
    """Tests by file, folder or id, and the known answers of chapters and exercises with the chapters' lessons."""
    exercises = [word for word in chosen if re.fullmatch(IDS, word)]
    paths = [word for word in chosen if word not in exercises]
    codes = []
    chapters = [word[1:] for word in exercises if "." not in word]
    if chapters:
        codes.append(notebooks(chapters))
    if exercises:
        ids = " or ".join(f"{word}." if "." not in word else f"{word}-" for word in exercises)
        codes.append(run(pytest_command("tests/grading/test_answers.py", "-k", ids)))
    if paths:
        codes.append(run(pytest_command(*paths, workers=0)))
    return max(codes)


def what_to_run(words: Sequence[str], parser: argparse.ArgumentParser) -> tuple[list[str], list[str]]:
    """Steps, and tests or exercises. A word that is neither ends the run with a sentence."""
    steps = [word for word in words if word in STEPS]
    chosen = [word for word in words if word not in STEPS]
    for word in chosen:
        if not re.fullmatch(IDS, word) and not (ROOT / word.partition("::")[0]).exists():
            parser.error(f"{word} is neither a step ({', '.join(STEPS)}), a file of tests nor a chapter such as c05")
    if steps and chosen:
        parser.error("name either steps, or files of tests and chapters")
    return steps, chosen


def main() -> int:
    parser = argparse.ArgumentParser(description="Runs the tests of the course.")
    parser.add_argument("what", nargs="*", metavar="WHAT", help=f"{', '.join(STEPS)}, a path of tests, c05, c05.clip")
    parser.add_argument("--all", action="store_true", help="the nightly tests, too, on inputs that are drawn anew")
    parser.add_argument("--failed", action="store_true", help="only the notebooks and tests that failed before")
    parser.add_argument("--no-browser", action="store_true", help="leave the browser tests out")
    parser.add_argument(
        "--sets",
        nargs="*",
        metavar="AA",
        help="run the notebooks (or these chapters) once for each instruction set, too",
    )
    options = parser.parse_args()
    steps, named = what_to_run(options.what, parser)
    browser = not options.no_browser
    work: dict[str, Callable[[], int]] = {
        "lint": lint,
        "notebooks": lambda: notebooks(options.sets or (), options.sets is not None, options.failed),
        "tests": lambda: tests(browser, options.all, options.failed),
    }
    possible = steps_that_failed() if options.failed else STEPS
    chosen = [step for step in possible if step in (steps or STEPS)]
    if named:
        work, chosen = {"tests": lambda: some(named)}, ["tests"]
    if not chosen:
        print("No test failed in the last runs.")
    if options.all:
        os.environ.setdefault("OPLAB_SEED", str(secrets.randbits(31)))
        print(f"Random inputs are drawn anew, with OPLAB_SEED={os.environ['OPLAB_SEED']}.")
    # A shell gives its background jobs an ignored SIGINT, and so would every command that a test sends Ctrl-C to.
    signal.signal(signal.SIGINT, signal.default_int_handler)
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
            return 130
        if code:
            failed.append(step)
        if step != chosen[-1]:
            print(f"==== {step}: {'FAILED' if code else 'passed'} in {time.monotonic() - start:.0f} s", flush=True)
    if failed and failed != chosen[-1:]:  # else pytest's summary is the last word
        print(f"\nFAILED: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
