"""``python -m oplab.capstone``"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from oplab.capstone import report
from oplab.errors import OplabError


def main(argv: Sequence[str] | None = None) -> int:
    """Write the learner's report. Exit code 0: all agree, 1: they do not, or a project is not written yet, 2: it cannot be done."""
    import oplab

    parser = argparse.ArgumentParser(
        prog="python -m oplab.capstone", description="Write the report of chapter 16 about your exercises."
    )
    parser.add_argument(
        "--to", type=Path, metavar="FOLDER", help="where reports are kept (default: build/capstone); none is replaced"
    )
    arguments = parser.parse_args(argv)
    oplab.quiet_exports()
    print("Compiling, exporting and measuring: about half a minute.", flush=True)
    kept = report(arguments.to)
    if kept is None:
        return 1
    print(f"Your report: {kept.path}")
    return 0 if kept.passed and len(kept.figures) == 2 else 1


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except OplabError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit("\nStopped by Ctrl-C; earlier reports are as they were.") from None
