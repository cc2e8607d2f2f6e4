"""Results as rows of strings: the long table as CSV, and from it the medians for docs/benchmarks.md."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Sequence
from pathlib import Path

from .. import tables
from .harness import Result
from .peers import bench_dir
from .processor import BASELINE, slug

HEAD = ("kernel", "size", "threads", "set", "peer", "ours, ms", "peer, ms", "ratio", "low", "high", "at least")
MEDIANS = ("kernel", "peer", "1 thread", "2 threads", "at least", "reached")
OURS = "ours, "  # the peer's name where it is our own kernel with a slower set
Row = dict[str, str]


def digits(number: float) -> str:
    return f"{number:.3g}" if number < 1000 else f"{number:.0f}"


def rows(results: Sequence[Result], judged: bool = True) -> list[Row]:
    """A row for each peer and each slower set, or one without a ratio where a case has neither."""
    found = []
    for result in results:
        words = [result.case.kernel, result.case.size, str(result.threads), result.simd or BASELINE]
        ours = digits(1e3 * result.median())
        targets = {peer.name: result.target(peer) for peer in result.case.peers}
        names = [name for name in result.seconds if name != "ours"]
        for name in names or [""]:
            figures = [""] * 4
            if name:
                low, middle, high = (f"{ratio:.2f}" for ratio in result.ratios(name))
                figures = [digits(1e3 * result.median(name)), middle, low, high]
            least = targets.get(name) if judged else None
            row = [*words, name, ours, *figures, "" if least is None else f"{least:.3g}"]
            found.append(dict(zip(HEAD, row, strict=True)))
    return found


def is_missed(row: Row) -> bool:
    return bool(row["at least"]) and float(row["ratio"]) < float(row["at least"])


def medians(found: Sequence[Row]) -> list[tuple[str, ...]]:
    """A row for each kernel and peer: the median of all sizes, with the lowest and the highest, on one thread and on two."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in found:
        if row["ratio"] and not row["peer"].startswith(OURS):
            groups.setdefault((row["kernel"], row["peer"]), []).append(row)
    made = []
    for words, group in groups.items():
        cells = []
        for threads in ("1", "2"):
            ratios = [float(row["ratio"]) for row in group if row["threads"] == threads]
            spread = f" ({min(ratios):.2f} – {max(ratios):.2f})" if len(ratios) > 1 else ""
            cells.append(f"{statistics.median(ratios):.2f}{spread}" if ratios else "")
        judged = [row for row in group if row["at least"]]
        least = ", ".join(sorted({row["at least"] for row in judged}, key=float))
        reached = f"{sum(not is_missed(row) for row in judged)} of {len(judged)}" if judged else ""
        made.append((*words, *cells, least, reached))
    return made


def to_csv(found: Sequence[Row], machine: Sequence[str]) -> str:
    """The rows, after lines with # that describe the machine."""
    file = io.StringIO()
    file.writelines(f"# {line}\n" for line in machine)
    writer = csv.DictWriter(file, HEAD, lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return file.getvalue()


def read(path: Path) -> tuple[list[str], list[Row]]:
    """The machine's lines and the rows of a file that :func:`to_csv` made."""
    lines = path.read_text(encoding="utf-8").splitlines()
    machine = [line[2:] for line in lines if line.startswith("# ")]
    return machine, list(csv.DictReader(lines[len(machine) :]))


def page(folder: Path) -> str:
    """The medians of each processor that has a file in the folder, as Markdown."""
    parts = []
    for path in sorted(folder.glob("*.csv")):
        machine, found = read(path)
        link = f"[{path.name}](../benchmarks/results/{path.name})"
        parts.append(f"### {path.stem}\n{' '.join(machine)} All sizes: {link}.")
        parts.append(tables.markdown(medians(found), MEDIANS))
    return "\n\n".join(parts)


def publish(found: Sequence[Row], machine: Sequence[str], docs: bool) -> bool:
    """Prints and writes what was measured, and returns whether a target is missed."""
    for table, head in (([list(row.values()) for row in found], HEAD), (medians(found), MEDIANS)):
        print("\n" + tables.text(table, head))
    print("\n" + "\n".join(machine))
    missed = [row for row in found if is_missed(row)]
    for row in missed:
        print(
            f"not reached: {row['kernel']}: {row['size']}, threads: {row['threads']}: "
            f"{row['ratio']} times {row['peer']}, not {row['at least']}"
        )
    written = [bench_dir() / "kernels.csv"]
    if docs:
        tables.RESULTS.mkdir(exist_ok=True)
        written.append(tables.RESULTS / f"{slug()}.csv")
    for path in written:
        path.write_text(to_csv(found, machine), encoding="utf-8")
    if docs:
        tables.write("medians", page(tables.RESULTS))
        written.append(tables.PAGE)
    print("\nWritten: " + ", ".join(str(path.relative_to(tables.ROOT)) for path in written))
    return bool(missed)
