"""The speed of the grader and of the set-up, and where their time goes. `make test-times` does it for the notebooks and the tests.

    python -m benchmarks.suite [--only peers,grader,classes,setup] [--repeat 3] [--docs]

peers: the grader beside otter-grader and nbgrader (benchmarks/grader.py). grader: each exercise's reference answer in a warm
server, and all of them in one cold `oplab check`. classes: `oplab class grade` on classes of 10 and 20 learners, one of them with
50 kills (benchmarks/classes.py measures larger ones). setup: `make setup` in a fresh clone, which needs the package index
and 7 GB for some minutes, and once more where all is done. The longest come first; build/bench/suite.json has all figures.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from . import classes, document, grader
from .document import ROOT

SHOWN = 12
STEP = re.compile(r"^\[\d/\d\] (.+): done in (?:(\d+) min )?([\d.]+) s", re.MULTILINE)

Found = dict[str, object]


def longest(seconds: Mapping[str, float], head: tuple[str, str], most: int = SHOWN) -> str:
    """A table with the longest first, each with its part of the sum, and the rest in one row."""
    total = sum(seconds.values())
    ordered = sorted(seconds.items(), key=lambda each: -each[1])
    rows = [(name, f"{took:.2f}", f"{took / total:.0%}") for name, took in ordered[:most]]
    if rest := [took for _, took in ordered[most:]]:
        rows.append((f"{len(rest)} more", f"{sum(rest):.2f}", f"{sum(rest) / total:.0%}"))
    rows.append(("together", f"{total:.2f}", ""))
    return document.markdown(rows, (*head, "part"))


def peers(repeat: int) -> tuple[str, Found]:
    found = grader.measure(list(grader.PEERS), repeat)
    lines = [f"- {line}" for line in grader.remarks(found)]
    return "\n".join([document.markdown(grader.rows(found), grader.HEAD), "", *lines]), found


def exercises(repeat: int) -> tuple[str, Found]:
    from oplab.course.manifest import load, preloads
    from oplab.grading.client import Server
    from oplab.grading.grader import grade

    course = load(ROOT)
    warm: dict[str, list[float]] = {}
    with Server(preloads(course.exercises)) as server:  # as `oplab watch`
        grade(course, course.exercises[:1], ROOT / "solutions", server=server)  # the server is up now
        for number in range(repeat):
            say(f"  all exercises in a warm server, round {number + 1} of {repeat}")
            for exercise in course.exercises:
                started = time.perf_counter()
                outcome = grade(course, [exercise], ROOT / "solutions", server=server).exercises[0]
                if not outcome.passed:
                    raise SystemExit(f"{exercise.id}: {outcome.message}")
                warm.setdefault(exercise.id, []).append(time.perf_counter() - started)
    medians = {id: statistics.median(values) for id, values in warm.items()}
    cold = [grader.cold() for _ in range(repeat)]
    every = statistics.median(cold)
    rates = (
        f"{len(medians) / sum(medians.values()):.1f} exercises per second, one after the other in a warm server; "
        f"{len(medians) / every:.1f} with all in one cold `oplab check` of {every:.1f} s."
    )
    return f"{longest(medians, ('exercise', 'seconds, warm'))}\n\n{rates}", {"warm": warm, "cold": cold}


def whole_class(repeat: int) -> tuple[str, Found]:
    return classes.measure(["one", "stubs", "growth", "jobs", "faults"], [10, 20], "", 2, 50, say)


def setup(repeat: int) -> tuple[str, Found]:
    again = statistics.median(
        grader.timed([sys.executable, "tools/bootstrap.py", "--quiet"], cwd=ROOT) for _ in range(repeat)
    )
    (ROOT / "build" / "bench").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build" / "bench") as scratch:
        clone = Path(scratch) / "clone"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        done = subprocess.run([str(base), "tools/bootstrap.py"], cwd=clone, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"The set-up of a fresh clone failed:\n{done.stdout[-1000:]}{done.stderr[-1000:]}")
    steps = {name: 60 * int(minutes or 0) + float(rest) for name, minutes, rest in STEP.findall(done.stdout)}
    installer = "uv" if shutil.which("uv") else "pip"
    words = f"The packages were installed with {installer}. Once more, where all is done: {again:.1f} s."
    return f"{longest(steps, ('step in a fresh clone', 'seconds'))}\n\n{words}", {"steps": steps, "again": again}


PARTS: dict[str, Callable[[int], tuple[str, Found] | None]] = {
    "peers": peers,
    "grader": exercises,
    "classes": whole_class,
    "setup": setup,
}
TABLES = tuple(PARTS)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suite", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--repeat", type=int, default=3, help="how often, for what takes seconds (default: 3)")
    parser.add_argument("--docs", action="store_true", help="write the tables into docs/benchmarks.md as well")
    options = parser.parse_args()
    chosen = options.only.split(",")
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    if options.repeat < 1:
        parser.error("--repeat must be at least 1")
    folder = ROOT / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, Found] = {}
    tables: dict[str, str] = {}
    try:
        for part in chosen:
            say(f"{part}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores …")
            if made := PARTS[part](options.repeat):
                tables[part], found[part] = made
                print(f"\n{tables[part]}\n", flush=True)
    except KeyboardInterrupt:
        say("\nInterrupted; what was measured is kept.")
        raise SystemExit(130) from None
    finally:
        if found:
            (folder / "suite.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        if options.docs and tables:
            document.write(tables)


if __name__ == "__main__":
    main()
