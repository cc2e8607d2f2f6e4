"""Make ``exercises/`` from ``solutions/``, as ``oplab author`` does; with ``--check`` only see whether the two agree."""

from __future__ import annotations

import sys
from pathlib import Path

from oplab.authoring.making import make_stubs
from oplab.course.manifest import load


def main() -> int:
    only_check = "--check" in sys.argv[1:]
    differ, said = make_stubs(load(Path(__file__).resolve().parents[1]), write=not only_check)
    names = f"{len(differ)} stubs {'differ' if only_check else 'written'}: {', '.join(differ)}"
    print(names if differ else "All stubs agree.", *said, sep="\n")
    return 1 if differ and only_check else 0


if __name__ == "__main__":
    sys.exit(main())
