"""``make bench``: the course's kernels next to their peers, in one run.

    python -m benchmarks.kernels [--only WORDS] [--quick] [--seconds 5] [--threads 2] [--docs]

Prints a table with each peer's ratio (how many times as long as ours it takes) and writes it to build/bench/kernels.csv; --docs
also writes benchmarks/results and docs/benchmarks.md. Ctrl-C ends the run and keeps what was measured.

A kernel that is compiled for several sets of instructions is measured with each that runs here, and its ratios are judged for the
best one. With each set, the product of DeformConv2d alone is judged against the multiply-adds that were measured with that set.

Exit status: 0 all targets are reached (--quick has none); 1 one is not; 2 two results were not equal, or nothing could be
measured; 130 interrupted.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def modules() -> list[str]:
    """The kernels that are measured: each has its cases in the module of this folder that has its source's name."""
    own = {path.stem for path in Path(__file__).parent.glob("*.py")}
    return sorted(own & {path.stem for path in (ROOT / "csrc" / "ort_ops").glob("*.cpp")})


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="WORDS", help="cases whose kernel and size contain these words, in any order")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does everything run, are all results equal?")
    parser.add_argument("--seconds", type=float, help="for each case, about (default: 5; 0.05 with --quick)")
    parser.add_argument("--threads", type=int, default=2, help="on both sides; the largest cases also run on one")
    parser.add_argument("--docs", action="store_true", help="write benchmarks/results and docs/benchmarks.md as well")
    options = parser.parse_args(arguments)
    if options.threads < 1:
        parser.error("--threads must be at least 1")
    if options.seconds is None:
        options.seconds = 0.05 if options.quick else 5.0
    if not 0 < options.seconds < 3600:
        parser.error("--seconds must be a number of seconds above 0")
    if options.docs and (options.quick or options.only):
        parser.error("--docs is for a whole run: without --quick and --only")
    return options


def cases_of(name: str, quick: bool) -> list:
    """The cases of one kernel. It is compiled for several sets where its source asks which one was chosen."""
    has_sets = "chosen_simd" in (ROOT / "csrc" / "ort_ops" / f"{name}.cpp").read_text(encoding="utf-8")
    made = importlib.import_module(f".{name}", __package__).cases(quick)
    return [dataclasses.replace(case, has_sets=has_sets and not case.simd) for case in made]


def bench(options: argparse.Namespace) -> int:
    from oplab.errors import OplabError

    from . import harness, limits, processor, report

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    sets = processor.sets()
    known = [case for name in modules() for case in cases_of(name, options.quick)]
    words = (options.only or "").lower().split()
    cases = [case for case in known if all(word in case.name.lower() for word in words)]
    cases = [case for case in cases if not case.simd or case.simd in sets]
    if not cases:
        say("\n".join([f"No case's name has the words {options.only!r}. The cases:", *(case.name for case in known)]))
        return 2
    steps = sorted({1, options.threads})
    plan = [(case, threads) for case in cases for threads in (steps if case.threads else [options.threads])]

    harness.keep_memory()
    if os.getloadavg()[0] > 0.5 * (os.cpu_count() or 1):
        say(f"The machine is busy (load {os.getloadavg()[0]:.1f}): the quartiles will be far apart.")
    machine = [processor.describe()]
    results: list[harness.Result] = []
    status = 0
    try:
        say("Measuring what this machine can do at most: a triad, multiply-adds …")
        try:
            machine.append(limits.describe(sets, steps, 0.05 if options.quick else 1.0))
        except (harness.Missing, OplabError) as reason:
            say(f"  left out: {reason}")
        harness.measure(plan, options.seconds, results, say, sets)
    except harness.Unequal as difference:
        say(f"\nStopped, nothing more is measured. {difference}")
        status = 2
    except OplabError as reason:
        say(f"\n{reason}")
        status = 2
    except KeyboardInterrupt:
        say("\nInterrupted. What was measured until here:")
        status = 130
    if not results:
        return status or 2
    rows = report.rows(results, judged=not options.quick)
    missed = report.publish(rows, machine, docs=options.docs and status == 0)
    if options.quick and status == 0:
        print("All results are equal. Sizes as small as these say nothing about speed: no ratio is judged.")
    return status or int(missed)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    # A shell's background job ignores Ctrl-C, and so would this program: it is the way to end it early.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # Before torch and numpy are imported: their libraries read it once.
    os.environ["OMP_NUM_THREADS"] = str(options.threads)
    try:
        return bench(options)
    except KeyboardInterrupt:
        print("\nInterrupted before anything was measured.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
