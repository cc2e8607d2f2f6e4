"""``make bench``: the course's kernels beside their peers, in one run.

    python -m benchmarks.kernels [--only WORDS] [--simd SETS] [--as SET] [--quick] [--seconds 5] [--threads 2]
                                 [--json FILE] [--list] [--docs]

Prints a table with each peer's ratio (how many times as long as ours it takes), its quartiles and what was asked for, and
writes it to build/bench, with all samples and pictures. Ctrl-C ends the run and keeps what was measured.

A kernel that is compiled for several sets of instructions is measured with each that runs here. Its ratios are judged for the
best one, which the peers use as well. With each set, the product of DeformConv2d alone is judged against the multiply-adds
that were measured with it. `--as avx2` hides AVX-512 from all libraries: the peers use AVX2 too, and the ratios are judged.

Exit status: 0 all ratios that were asked for are reached (--quick asks for none); 1 one is not; 2 two results were not
equal, or nothing could be measured; 130 interrupted.
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
SETS = ("avx512", "avx2", "neon", "plain")  # as processor.py has them, which imports torch
MASKED = ("avx2", "plain")


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
    parser.add_argument(
        "--simd",
        metavar="SETS",
        default=os.environ.get("OPLAB_SIMD") or None,
        help=f"of {', '.join(SETS)}: measure our kernels with these only (default: OPLAB_SIMD, or all that run here)",
    )
    parser.add_argument(
        "--as",
        dest="masked",
        choices=MASKED,
        help="hide all faster sets of this processor from the kernels and from the peers (Linux on x86-64)",
    )
    parser.add_argument("--seconds", type=float, help="for each case, about (default: 5; 0.05 with --quick)")
    parser.add_argument(
        "--threads",
        type=int,
        default=2,
        help="on both sides; the cases of DeformConv2d and some others also run on one (default: 2)",
    )
    parser.add_argument("--json", type=Path, help="also write all that was measured to this file")
    parser.add_argument("--list", action="store_true", help="the cases, without measuring")
    parser.add_argument("--docs", action="store_true", help="write the tables into docs/benchmarks.md as well")
    options = parser.parse_args(arguments)
    if options.threads < 1:
        parser.error("--threads must be at least 1")
    if options.seconds is None:
        options.seconds = 0.05 if options.quick else 5.0
    if not 0 < options.seconds < 3600:
        parser.error("--seconds must be a number of seconds above 0")
    if options.docs and (options.quick or options.simd or (options.only and not options.masked)):
        parser.error("--docs is for a whole run: without --quick, --simd and --only (--as allows --only)")
    options.simd = [word.strip() for word in options.simd.split(",")] if options.simd else []
    for word in options.simd:
        if word not in SETS:
            parser.error(f"--simd: {word!r} is not a set of instructions; they are {', '.join(SETS)}")
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

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    is_hidden = False
    if options.masked:
        from . import cpuid

        try:
            is_hidden = cpuid.hide(options.masked)  # before torch, numpy and ONNX Runtime look
        except OplabError as reason:
            say(str(reason))
            return 2

    from . import harness, limits, processor, report
    from .peers import bench_dir

    words = (options.only or "").lower().split()
    cases = [case for name in modules() for case in cases_of(name, options.quick)]
    cases = [case for case in cases if all(word in case.name.lower() for word in words)]
    if not cases:
        say(f"No case's name has the words {options.only!r}; --list prints them all.")
        return 2
    here = processor.sets()
    if lacking := [word for word in options.simd if word not in here]:
        say(f"This processor cannot run {', '.join(lacking)}; it runs {', '.join(here)}.")
        return 2
    sets = tuple(simd for simd in here if not options.simd or simd in options.simd)
    cases = [case for case in cases if not case.simd or case.simd in sets]
    if options.list:
        print("\n".join(case.name for case in cases))
        return 0
    steps = sorted({1, options.threads})
    plan = [(case, threads) for case in cases for threads in (steps if case.threads else [options.threads])]

    harness.keep_memory()
    about = report.machine() | {"sets": sets, "as": options.masked if is_hidden else None}
    if about["load"][0] > 0.5 * (about["cores"] or 1):
        say(
            f"The machine is busy (load {about['load'][0]}): ratios are formed within a round, but their spread will be wide."
        )
    bounds: dict[str, float] = {}
    peaks: list[limits.Peak] = []
    results: list[harness.Result] = []
    status = 0
    try:
        say("Measuring what this machine can do at most: a triad, multiply-adds …")
        size = {"numbers": 1 << 16, "rounds": 3} if options.quick else {}
        try:
            bounds["bandwidth"] = limits.bandwidth(options.threads, **size)
            for simd in sets:
                peaks += [limits.peak(simd, threads, 0.1 if options.quick else 1.0) for threads in steps]
            bounds["flops"] = max(each.flops for each in peaks if each.threads == options.threads)
        except (harness.Missing, OplabError) as reason:
            say(f"  left out: {reason}")
        harness.measure(plan, options.seconds, results, say, sets, best=sets[0] == here[0])
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
    missed = finish(options, results, bounds, peaks, about, bench_dir(), complete=status == 0)
    return status or int(missed)


def cases_of(name: str, quick: bool) -> list:
    """The cases of one kernel. It is compiled for several sets where its source asks which one was chosen."""
    has_sets = "chosen_simd" in (ROOT / "csrc" / "ort_ops" / f"{name}.cpp").read_text(encoding="utf-8")
    made = importlib.import_module(f".{name}", __package__).cases(quick)
    return [dataclasses.replace(case, has_sets=has_sets and not case.simd) for case in made]


def finish(
    options: argparse.Namespace,
    results: list,
    bounds: dict[str, float],
    peaks: list,
    about: dict,
    folder: Path,
    complete: bool,
) -> bool:
    """Prints and writes what was measured; returns whether a ratio that was asked for is not reached.

    The document keeps its tables where the run is not complete: half a table would look like a whole one.
    """
    from .. import document
    from . import pictures, report

    judged = not options.quick
    table = report.rows(results, judged)
    found = {
        "limits": (report.limit_rows(peaks), report.LIMITS_HEAD),
        "ratios": (table, report.HEAD),
        "sets": report.by_set(results),
        "worst cases": (report.alone(results), report.ALONE_HEAD),
        "summary": (report.summary(table), report.SUMMARY_HEAD),
    }
    remarks = {"limits": [line for each in peaks if (line := each.remark())] if judged else []}
    if "bandwidth" in bounds:
        remarks["limits"].insert(0, f"Triad, {options.threads} threads: {bounds['bandwidth'] / 1e9:.1f} GB/s.")
    verdicts = [(each, peer, each.reached(peer)) for each in results for peer in each.case.peers] if judged else []
    missed = [(each, peer) for each, peer, reached in verdicts if reached is False]
    asked = [each for each in verdicts if each[2] is not None]
    if options.quick and complete:
        outcome = ["All results are equal. Sizes as small as these say nothing about speed: no ratio is judged."]
    elif judged:
        outcome = [f"{len(asked) - len(missed)} of {len(asked)} ratios reached."]
    else:
        outcome = []
    for each, peer in missed:
        threads = f"{each.threads} thread{'s' if each.threads > 1 else ''}"
        numbers = f"{each.ratios(peer.name)[1]:.3f} times {peer.name}, not {each.target(peer):g}"
        outcome.append(f"  not reached: {each.case.name}, {threads}: {numbers}")
    remarks["ratios"] = outcome

    caption, blocks = report.caption(about), {}
    for name, (entries, head) in found.items():
        if entries:
            print("\n" + "\n".join([caption, document.text(entries, head), *(remarks.get(name, ()))]))
        lines = [f"- {line.strip()}" for line in remarks.get(name, ())]
        blocks[name] = "\n\n".join(filter(None, (caption, document.markdown(entries, head), "\n".join(lines))))

    written = [folder / "kernels.json", folder / "kernels.md"]
    limits = bounds | {"peaks": [dataclasses.asdict(each) | {"theoretical": each.theoretical} for each in peaks]}
    text = report.to_json(results, limits, about)
    written[0].write_text(text, encoding="utf-8")
    written[1].write_text("\n\n".join(blocks.values()) + "\n", encoding="utf-8")
    if options.json:
        options.json.write_text(text, encoding="utf-8")
    written += pictures.draw(results, bounds, options.threads, folder)
    if options.docs and complete:
        if options.masked:
            blocks = {f"as {options.masked}": "\n\n".join(blocks[name] for name in ("summary", "limits", "ratios"))}
        written.append(document.write(blocks))
    print("\nWritten: " + ", ".join(str(path.relative_to(ROOT)) for path in written))
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
