"""What Dask costs: `oplab class grade --cluster local:N` beside `--jobs N`, and two workers beside one.

    python -m benchmarks.class_cluster [--learners 12] [--exercises c04] [--waiting 24] [--repeat 3]

Each round runs one job, one worker, two jobs and two workers in turn, on the same class. real: a class that is made up. waiting:
a class whose answers wait for half a second each, so that the processors do nothing and only the engine counts: this also means
something on a machine that others use. steady is the time from the first verdict to the last, without what happens once.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from pathlib import Path

from . import document
from .classes import Class, Cost, folder
from .document import ROOT

ENGINES: tuple[int | str, ...] = (1, "local:1", 2, "local:2")
HEAD = ("class", "engine", "answers", "seconds", "steady seconds", "processor seconds", "memory, MB")
WAIT = 0.5


def waiting(place: Path, answers: int) -> Class:
    """A class of one exercise, whose answers are right and wait."""
    from oplab.course.manifest import load

    exercise = next(each for each in load(ROOT).exercises if each.kind == "python")
    group = Class(place, exercise.id)
    rows = ["login"]
    for number in range(answers):
        learner = group.submitted / f"learner{number}"
        learner.mkdir(parents=True)
        text = (ROOT / "solutions" / exercise.file).read_text(encoding="utf-8")
        (learner / exercise.file).write_text(f"{text}\n\nimport time\n\ntime.sleep({WAIT})  # {number}\n")
        rows.append(learner.name)
    (place / "roster.csv").write_text("\n".join(rows) + "\n")
    return group


def steady(folder: Path) -> float:
    """Seconds from the first verdict for which something ran to the last, for each of those after the first."""
    times = []
    for path in folder.glob("verdicts/??/*.json"):
        if json.loads(path.read_text(encoding="utf-8"))["machine"]:
            times.append(path.stat().st_mtime)
    return max(times) - min(times)


def measure(name: str, group: Class, repeat: int) -> tuple[list[tuple[str, ...]], list[str]]:
    """Rows of a table, medians of the rounds, and what follows from them."""
    runs: dict[int | str, list[tuple[Cost, float]]] = {engine: [] for engine in ENGINES}
    for turn in range(repeat):
        for engine in ENGINES:
            out = f"grades-{turn}-{engine}".replace(":", "-")
            cost = group.cost(name, out, engine)
            runs[engine].append((cost, steady(group.folder / out)))
            print(
                f"  {name}, {engine}: {cost.seconds:.1f} s, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True
            )
    seconds = {engine: statistics.median(cost.seconds for cost, _ in all) for engine, all in runs.items()}
    steadily = {engine: statistics.median(took for _, took in all) for engine, all in runs.items()}
    processor = {engine: statistics.median(cost.processor for cost, _ in all) for engine, all in runs.items()}
    rows = []
    for engine, all in runs.items():
        cost = all[0][0]
        figures = (
            f"{seconds[engine]:.1f}",
            f"{steadily[engine]:.1f}",
            f"{processor[engine]:.1f}",
            str(cost.memory >> 20),
        )
        rows.append(
            (name, f"--jobs {engine}" if isinstance(engine, int) else f"--cluster {engine}", str(cost.graded), *figures)
        )
    lines = []
    for jobs, workers in ((1, "local:1"), (2, "local:2")):
        parts = [
            f"{what[workers] / what[jobs] - 1:+.1%} {unit}"
            for what, unit in ((steadily, "steady"), (processor, "processor"))
        ]
        lines.append(
            f"- {name}: Dask against --jobs {jobs}: {', '.join(parts)} time, {seconds[workers] - seconds[jobs]:+.1f} s in all."
        )
    lines.append(
        f"- {name}: two against one, steady: {steadily[1] / steadily[2]:.2f} times as fast with --jobs, "
        f"{steadily['local:1'] / steadily['local:2']:.2f} times on Dask."
    )
    return rows, lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.class_cluster", description=__doc__.splitlines()[0])
    parser.add_argument("--learners", type=int, default=12, help="of the class that is made up; 0 leaves it out")
    parser.add_argument("--exercises", default="c04", help="what of it is graded")
    parser.add_argument("--waiting", type=int, default=24, help="answers that wait; 0 leaves them out")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    rows: list[tuple[str, ...]] = []
    lines: list[str] = []
    with folder() as place:
        groups = {}
        if options.waiting:
            groups["waiting"] = waiting(place / "waiting", options.waiting)
        if options.learners:
            groups["real"] = Class(place / "real", options.exercises).made(options.learners)
        for name, group in groups.items():
            more = measure(name, group, options.repeat)
            rows += more[0]
            lines += more[1]
    print("\n".join([document.markdown(rows, HEAD), "", *lines]))


if __name__ == "__main__":
    main()
