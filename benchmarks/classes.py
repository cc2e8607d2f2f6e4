"""What it costs to grade a class: `oplab class grade` on classes that are made up, by learners, answers in common and jobs."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from . import tables
from .grader import BENCH, Cost, measured
from .tables import ROOT

HEAD = ("what", "answers graded", "seconds", "processor seconds", "memory, MB")


def drawn(folder: Path, learners: int) -> None:
    """A class of answers that the course knows: some learners have the same ones."""
    from oplab.classes import demo
    from oplab.course.manifest import load

    demo.make(load(ROOT), folder, learners, 1)


def unique(folder: Path, learners: int) -> None:
    """The same, with a line in each file that is not a stub: no two learners have the same answer."""
    from oplab.course.manifest import load

    drawn(folder, learners)
    for name in {exercise.file for exercise in load(ROOT).exercises}:
        stub = (ROOT / "exercises" / name).read_text(encoding="utf-8")
        for place in (folder / "submissions").iterdir():
            text = (place / name).read_text(encoding="utf-8")
            if text != stub:
                mark = "//" if name.endswith(".cpp") else "#"
                (place / name).write_text(f"{mark} {place.name} {time.time_ns()}\n{text}", encoding="utf-8")


def of(track: str) -> Callable[[Path, int], None]:
    """A class whose learners all hand in a folder of the course; solutions in C++ get a line, so that they are compiled."""

    def make(folder: Path, learners: int) -> None:
        for number in range(learners):
            shutil.copytree(ROOT / track, folder / "submissions" / f"learner{number}")
        for path in folder.rglob("c*.cpp") if track == "solutions" else ():
            path.write_text(f"// {time.time_ns()}\n{path.read_text(encoding='utf-8')}", encoding="utf-8")
        rows = ["login", *(f"learner{number}" for number in range(learners))]
        (folder / "roster.csv").write_text("\n".join(rows) + "\n")

    return make


def cost(make: Callable[[Path, int], None], learners: int, jobs: int, exercises: str) -> tuple[int, Cost]:
    """How many answers were graded, and what it cost, without what earlier runs have compiled."""
    from oplab.toolchain.compile import exercise_cache

    BENCH.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BENCH) as scratch:
        folder = Path(scratch) / "class"
        folder.mkdir()
        make(folder, learners)
        shutil.rmtree(exercise_cache(), ignore_errors=True)
        command = [sys.executable, "-m", "oplab.cli", "class", "grade", str(folder / "submissions"), "--seed", "1"]
        command += ["--jobs", str(jobs), "--roster", str(folder / "roster.csv"), "-o", str(folder / "grades")]
        found = measured([*command, *(["--exercises", exercises] if exercises else [])], cwd=ROOT, stdout=sys.stderr)
        return json.loads((folder / "grades" / "run.json").read_text())["runs"][-1]["graded"], found


def measure(quick: bool, repeat: int) -> Iterator[str]:
    """The table, as Markdown, after each row that was measured. ``quick``: two learners and chapter 04."""
    exercises = "c04" if quick else ""
    few, many = (2, 4) if quick else (10, 20)
    plan = [
        ("a full right submission, one job", of("solutions"), 1, 1),
        ("200 submissions of stubs", of("exercises"), 200, 1),
        (f"{few} learners, one job", unique, few, 1),
        (f"{few} learners, 2 jobs", unique, few, 2),
        (f"{many} learners, 2 jobs", unique, many, 2),
        ("50 learners with answers in common, 2 jobs", drawn, 50, 2),
    ]
    rows = []
    for what, make, learners, jobs in plan[2:4] if quick else plan:
        graded, found = cost(make, learners, jobs, exercises)
        rows.append((what, str(graded), f"{found.seconds:.1f}", f"{found.processor:.1f}", str(found.megabytes)))
        yield tables.markdown(rows, HEAD)
