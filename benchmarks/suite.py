"""Where the time of the grader, the notebooks and the set-up goes.

    python benchmarks/suite.py [--only grader,notebooks,setup] [--repeat 3]

grader: the start of the command, the start of the server, then each exercise's reference answer in a warm server. notebooks: all
of them under nbval, two at a time, as `make test` runs them. setup: `make setup` where everything is done already, and all
operators compiled from clean: build/lib is made anew. All is printed with the longest first; build/bench/suite.json holds it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("grader", "notebooks", "setup")


def timed(command: list[str], **variables: str) -> float:
    """Seconds of a command that has to succeed."""
    started = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return time.perf_counter() - started


def show(title: str, seconds: dict[str, float], most: int = 12) -> None:
    """The longest first, each with its part of the sum."""
    total = sum(seconds.values())
    print(f"\n{title}: {total:.2f} s")
    ordered = sorted(seconds.items(), key=lambda each: -each[1])
    for name, took in ordered[:most]:
        print(f"  {name:<44}{took:8.2f} s {took / total:6.0%}")
    if rest := [took for _, took in ordered[most:]]:
        print(f"  {f'{len(rest)} more':<44}{sum(rest):8.2f} s {sum(rest) / total:6.0%}")


def grader(repeat: int) -> dict[str, object]:
    from oplab.course import load
    from oplab.grading.client import Server
    from oplab.grading.engine import grade

    command = [sys.executable, "-m", "oplab.cli"]
    course = load(ROOT)
    first = course.exercises[0]
    starts = {
        "oplab list: Python and the course": statistics.median(timed([*command, "list"]) for _ in range(repeat)),
        f"oplab check {first.id}: with a server": statistics.median(
            timed([*command, "check", first.id, "--track", "solutions"]) for _ in range(repeat)
        ),
    }
    warm: dict[str, list[float]] = {}
    with Server() as server:
        grade(course, [first], ROOT / "solutions", server=server)  # the server is up now
        for _ in range(repeat):
            for exercise in course.exercises:
                started = time.perf_counter()
                outcome = grade(course, [exercise], ROOT / "solutions", server=server).exercises[0]
                assert outcome.passed, f"{exercise.id}: {outcome.message}"
                warm.setdefault(exercise.id, []).append(time.perf_counter() - started)
    medians = {id: statistics.median(values) for id, values in warm.items()}
    show("Starts", starts)
    show(f"{len(medians)} exercises in a warm server, one after the other", medians)
    every = statistics.median(timed([*command, "check", "--track", "solutions"]) for _ in range(repeat))
    warm_rate, cold_rate = len(medians) / sum(medians.values()), len(medians) / every
    print(
        f"\n{warm_rate:.1f} exercises per second, warm; {cold_rate:.1f} with all in one cold `oplab check` of {every:.1f} s"
    )
    return {"starts": starts, "warm": warm, "check all, cold": every}


def notebooks() -> dict[str, object]:
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "nbval.xml"
        wall = timed([sys.executable, "tools/run_tests.py", "notebooks"], PYTEST_ADDOPTS=f"--junitxml={report}")
        seconds: dict[str, float] = {}
        for case in ElementTree.parse(report).iter("testcase"):
            # nbval names a cell notebooks/04_x.ipynb::Cell 3; its class holds the path
            name = next(
                (part for part in case.get("classname", "").replace("/", ".").split(".") if part[:2].isdigit()), "?"
            )
            seconds[name] = seconds.get(name, 0.0) + float(case.get("time", 0))
    show("Cells of the notebooks under nbval", seconds, 20)
    print(f"  two at a time, with the start of each kernel: {wall:.1f} s by the clock")
    return {"seconds": seconds, "wall": wall}


def setup(repeat: int) -> dict[str, object]:
    again = statistics.median(timed([sys.executable, "tools/bootstrap.py", "--quiet"]) for _ in range(repeat))
    compile_all = [sys.executable, "-m", "oplab.toolchain.build"]
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as scratch:
        lib, kept = ROOT / "build" / "lib", Path(scratch) / "lib"
        if lib.exists():
            lib.rename(kept)
        try:
            clean = timed(compile_all)
        finally:
            if kept.exists() and not lib.exists():
                kept.rename(lib)
    seconds = {"all operators and the host program, compiled from clean": clean, "make setup, all done before": again}
    show("Set-up", seconds)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    chosen = options.only.split(",")
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    folder = ROOT / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    found: dict[str, object] = {}
    try:
        for part in chosen:
            found[part] = notebooks() if part == "notebooks" else globals()[part](options.repeat)
    except KeyboardInterrupt:
        print("\nInterrupted; what was measured is kept.", file=sys.stderr)
        raise SystemExit(130) from None
    finally:
        if found:
            (folder / "suite.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
