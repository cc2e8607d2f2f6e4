"""Where the minutes of the last ``make test`` went, from the reports in build/: ``make test-times``.

It reports and never fails: how long a test takes depends on the machine.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUDGET = {
    "notebooks": 300,
    "tests": 480,
}  # seconds of `make test` on two quiet processors; the set-up and lint have the rest of 15 minutes
SHOWN = 20


def read(report: Path) -> tuple[float, Counter[str], Counter[str]]:
    """Seconds by the clock; of each module, the seconds and the number of its tests.

    Raises:
        OSError: there is no such report.
        ET.ParseError: it was cut off.
    """
    suite = ET.parse(report).getroot().find("testsuite")
    seconds: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for case in suite.iter("testcase"):
        parts = [part for part in case.get("classname", "?").split(".") if not part.startswith("Test")]
        module = "/".join(parts).removesuffix("/ipynb")
        seconds[module] += float(case.get("time", 0))
        count[module] += 1
    return float(suite.get("time", 0)), seconds, count


def main() -> int:
    all_seconds: Counter[str] = Counter()
    all_count: Counter[str] = Counter()
    for step, budget in BUDGET.items():
        report = ROOT / "build" / f"{step}.xml"
        try:
            wall, seconds, count = read(report)
        except (OSError, ET.ParseError) as error:
            print(f"{step}: {report.name} cannot be read ({error}); `make test` writes it.")
            continue
        over = f", {wall - budget:.0f} s over" if wall > budget else ""
        print(f"{step}: {count.total()} tests in {wall:.0f} s; `make test` has {budget} s for them{over}")
        all_seconds += seconds
        all_count += count
    for module, seconds in all_seconds.most_common(SHOWN):
        print(f"{seconds:7.1f} s {all_count[module]:5} tests  {module}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
