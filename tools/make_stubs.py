"""Make ``exercises/`` from ``solutions/``. For authors: a learner's work in ``exercises/`` would be overwritten.

Run ``python tools/make_stubs.py --check`` to see whether the two agree, without ``--check`` to write.
"""

from __future__ import annotations

import sys
from pathlib import Path

from oplab.course.stubs import make_stub

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    only_check = "--check" in sys.argv[1:]
    differ = []
    for solution in sorted((ROOT / "solutions").rglob("*.*")):
        if solution.suffix not in (".py", ".cpp"):
            continue
        name = solution.relative_to(ROOT / "solutions")
        stub = make_stub(solution.read_text(encoding="utf-8"), str(name))
        exercise = ROOT / "exercises" / name
        if not exercise.is_file() or exercise.read_text(encoding="utf-8") != stub:
            differ.append(str(name))
            if not only_check:
                exercise.parent.mkdir(parents=True, exist_ok=True)
                exercise.write_text(stub, encoding="utf-8")
    print(
        f"{len(differ)} stubs {'differ' if only_check else 'written'}: {', '.join(differ)}"
        if differ
        else "All stubs agree."
    )
    return 1 if differ and only_check else 0


if __name__ == "__main__":
    sys.exit(main())
