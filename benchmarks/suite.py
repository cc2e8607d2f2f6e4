"""``make bench-course``: the grader next to otter-grader and nbgrader, and what it costs to grade a class.

    python -m benchmarks.suite [--only peers,classes] [--repeat 3] [--quick] [--docs]

Half an hour together; --quick takes a minute for each part and says nothing about speed. Ctrl-C keeps what was measured.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from . import classes, grader, tables

PARTS = {"peers": grader.measure, "classes": classes.measure}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make bench-course", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--repeat", type=int, default=3, help="how often the peers are measured (default: 3)")
    parser.add_argument("--quick", action="store_true", help="each part once and small: does it run?")
    parser.add_argument("--docs", action="store_true", help="write the tables into docs/benchmarks.md as well")
    options = parser.parse_args(arguments)
    chosen = options.only.split(",")
    if unknown := sorted(set(chosen) - set(PARTS)):
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if options.repeat < 1:
        parser.error("--repeat must be at least 1")
    if options.docs and options.quick:
        parser.error("--docs is for a whole run, without --quick")
    for part in chosen:
        print(f"{part}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors …", file=sys.stderr, flush=True)
        table = ""
        try:
            for made in PARTS[part](options.quick, 1 if options.quick else options.repeat):
                table = made
        except KeyboardInterrupt:
            print(f"\nInterrupted. What was measured until here:\n\n{table or 'nothing'}")
            return 130
        print(f"\n{table}\n", flush=True)
        if options.docs:
            tables.write(part, table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
