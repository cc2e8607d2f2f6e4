"""``make bench``: the course's kernels beside their peers, in one run.

    python -m benchmarks.kernels [--only WORDS] [--quick] [--seconds 8] [--threads 2] [--json FILE] [--list] [--docs]

Prints a table with each peer's ratio (how many times as long as ours it takes), its quartiles and what was asked for, and
writes it to build/bench, with all samples and pictures. Ctrl-C ends the run and keeps what was measured.

Exit status: 0 all ratios that were asked for are reached (--quick asks for none); 1 one is not; 2 two results were not
equal, or nothing could be measured; 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UNITS = {"bandwidth": "GB/s", "flops": "GFLOP/s"}


def modules() -> list[str]:
    """The kernels that are measured: each has its cases in the module of this folder that has its source's name."""
    own = {path.stem for path in Path(__file__).parent.glob("*.py")}
    return sorted(own & {path.stem for path in (ROOT / "csrc" / "ort_ops").glob("*.cpp")})


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    lines = __doc__.strip().splitlines()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=lines[0])
    parser.add_argument("--only", metavar="WORDS", help="cases whose kernel and size contain these words, in any order")
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes, a fraction of a second each: does it run at all?"
    )
    parser.add_argument("--seconds", type=float, help="for each case, about (default: 8; 0.05 with --quick)")
    parser.add_argument("--threads", type=int, default=2, help="on both sides (default: 2)")
    parser.add_argument("--json", type=Path, help="also write all that was measured to this file")
    parser.add_argument("--list", action="store_true", help="the cases, without measuring")
    parser.add_argument("--docs", action="store_true", help="write the tables into docs/benchmarks.md as well")
    options = parser.parse_args(arguments)
    if options.threads < 1:
        parser.error("--threads must be at least 1")
    if options.seconds is None:
        options.seconds = 0.05 if options.quick else 8.0
    if not 0 < options.seconds < 3600:
        parser.error("--seconds must be a number of seconds above 0")
    if options.docs and (options.quick or options.only):
        parser.error("--docs is for a whole run: without --quick and --only")
    return options


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


def bench(options: argparse.Namespace) -> int:
    from oplab.errors import OplabError

    from . import harness, limits, report
    from .peers import bench_dir

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    words = (options.only or "").lower().split()
    cases = [
        case
        for name in modules()
        for case in importlib.import_module(f".{name}", __package__).cases(options.quick)
        if all(word in case.name.lower() for word in words)
    ]
    if not cases:
        say(f"No case's name has the words {options.only!r}; --list prints them all.")
        return 2
    if options.list:
        print("\n".join(case.name for case in cases))
        return 0
    steps = sorted({1, options.threads})
    plan = [(case, threads) for case in cases for threads in (steps if case.threads else [options.threads])]

    harness.keep_memory()
    about = report.machine()
    if about["load"][0] > 0.5 * (about["cores"] or 1):
        say(
            f"The machine is busy (load {about['load'][0]}): ratios are formed within a round, but their spread will be wide."
        )
    bounds: dict[str, float] = {}
    results: list[harness.Result] = []
    status = 0
    try:
        say("Measuring what this machine can do at most: a triad, multiply-adds …")
        size = {"numbers": 1 << 16, "rounds": 3} if options.quick else {}
        try:
            bounds["bandwidth"] = limits.bandwidth(options.threads, **size)
            bounds["flops"] = limits.flops(options.threads, **({"steps": 1 << 12} if options.quick else {}))
        except (harness.Missing, OplabError) as reason:
            say(f"  left out: {reason}")
        harness.measure(plan, options.seconds, results, say)
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
    missed = finish(options, results, bounds, about, bench_dir(), complete=status == 0)
    return status or int(missed)


def finish(
    options: argparse.Namespace, results: list, bounds: dict[str, float], about: dict, folder: Path, complete: bool
) -> bool:
    """Prints and writes what was measured; returns whether a ratio that was asked for is not reached.

    The document keeps its tables where the run is not complete: half a table would look like a whole one.
    """
    from .. import document
    from . import pictures, report

    found, single = (
        report.rows(results, options.threads, judged=not options.quick),
        report.alone(results, options.threads),
    )
    single_head = ("kernel", "size", "ms")
    if found:
        print("\n" + document.text(found, report.HEAD))
    if single:
        print("\n" + document.text(single, single_head))
    where = f"{about['processor']}, {about['cores']} cores, {options.threads} threads on both sides"
    versions = ", ".join(f"{name} {about[name]}" for name in ("torch", "torchvision", "onnxruntime"))
    print(f"\n{where}; {versions}")
    if bounds:
        print(
            "At most: "
            + ", ".join(f"{bounds[name] / 1e9:.1f} {unit}" for name, unit in UNITS.items() if name in bounds)
        )
    verdicts = [(each, peer, each.reached(peer)) for each in results for peer in each.case.peers]
    verdicts = [] if options.quick else [each for each in verdicts if each[0].threads == options.threads]
    missed = [(each, peer) for each, peer, reached in verdicts if reached is False]
    asked = [each for each in verdicts if each[2] is not None]
    if options.quick and complete:
        print("All results are equal. Sizes as small as these say nothing about speed: no ratio is judged.")
    elif not options.quick:
        print(f"{len(asked) - len(missed)} of {len(asked)} ratios reached.")
    for each, peer in missed:
        print(
            f"  not reached: {each.case.name}: {each.ratios(peer.name)[1]:.2f} times {peer.name}, not {peer.target:g}"
        )

    tables = {"ratios": document.markdown(found, report.HEAD), "worst cases": document.markdown(single, single_head)}
    written = [folder / "kernels.json", folder / "kernels.md"]
    text = report.to_json(results, bounds, about)
    written[0].write_text(text, encoding="utf-8")
    written[1].write_text("\n\n".join(tables.values()) + "\n", encoding="utf-8")
    if options.json:
        options.json.write_text(text, encoding="utf-8")
    written += pictures.draw(results, bounds, options.threads, folder)
    if options.docs and complete:
        written.append(document.write(tables))
    print("Written: " + ", ".join(str(path.relative_to(ROOT)) for path in written))
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
