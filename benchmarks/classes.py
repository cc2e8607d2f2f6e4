"""What it costs to grade a class: `oplab class grade` on classes that are made up, by learners and jobs, and with kills.

    python -m benchmarks.classes [--only one,stubs,growth,jobs,faults,demo] [--learners 50,100,200] [--exercises c00,c04] [--jobs 2]

one: the processor time of a full right submission whose C++ answers were never compiled. stubs: of 200 submissions of unchanged
stubs. growth: classes of several sizes in which no two learners have the same answer, one after the other. jobs: the smallest of these
classes with one job and with two. faults: the smallest again, while processes of the run are killed at random and the command is started
again until it ends; the grades are compared with those of the undisturbed run. demo: classes of the same sizes as `oplab class demo`
makes them, in which learners have answers in common: the whole course with 1 000 learners takes half an hour, and five hours without them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from . import document
from .document import ROOT

PARTS = ("one", "stubs", "growth", "jobs", "faults", "demo")
DEFAULT = "one,stubs"  # minutes; the others take hours, or as many minutes as there are learners
STUBS = 200
HEAD = ("what", "answers graded", "seconds", "processor seconds", "memory, MB")


@dataclass(frozen=True)
class Cost:
    """One run of the command: processor time of it and of all that it has waited for, and the largest sum of PSS of its processes."""

    what: str
    graded: int
    seconds: float
    processor: float
    memory: int

    def row(self) -> tuple[str, ...]:
        return self.what, str(self.graded), f"{self.seconds:.1f}", f"{self.processor:.1f}", str(self.memory >> 20)


def family(pid: int) -> list[int]:
    from oplab.grading import processes

    return [pid, *processes.descendants(pid)]


def memory(pid: int) -> int:
    """Bytes of a process and its descendants; what several share counts once."""
    total = 0
    for each in family(pid):
        try:
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
    return total


class Class:
    """A class in a folder, and the command on it."""

    def __init__(self, folder: Path, exercises: str, seed: int = 1):
        self.folder, self.exercises, self.seed = folder, exercises, seed
        self.submitted, self.tmp = folder / "submissions", folder.with_name(f"{folder.name}-tmp")
        self.tmp.mkdir()

    def drawn(self, learners: int) -> Class:
        """Make up the class from the answers that the course knows: some learners have the same ones."""
        from oplab.classes import demo
        from oplab.course.manifest import load

        demo.make(load(ROOT), self.folder, learners, self.seed, archives=False)
        return self

    def made(self, learners: int) -> Class:
        """Make up the class; a line in each file that is not a stub makes every answer one of a kind."""
        from oplab.course.manifest import load

        course = load(ROOT)
        self.drawn(learners)
        stubs = {name: (ROOT / "exercises" / name).read_text() for name in {each.file for each in course.exercises}}
        for place in sorted(self.submitted.iterdir()):
            for name, stub in stubs.items():
                path = place / name
                if (text := path.read_text()) != stub:
                    path.write_text(f"{'//' if name.endswith('.cpp') else '#'} {place.name} {time.time_ns()}\n{text}")
        return self

    def of(self, learners: int, track: str) -> Class:
        """A class whose learners all hand in a folder of the course, ``exercises`` or ``solutions``."""
        self.submitted.mkdir(parents=True)
        rows = ["login"]
        for number in range(learners):
            shutil.copytree(ROOT / track, self.submitted / f"learner{number}")
            rows.append(f"learner{number}")
        if track == "solutions":
            for path in (self.submitted / "learner0").rglob("c*.cpp"):
                path.write_text(f"// {time.time_ns()}\n{path.read_text()}")
        (self.folder / "roster.csv").write_text("\n".join(rows) + "\n")
        return self

    def start(self, out: str, jobs: int | str) -> subprocess.Popen[str]:
        """The command; ``jobs`` is their number, or what ``--cluster`` gets."""
        command = [
            sys.executable,
            "-m",
            "oplab.cli",
            "class",
            "grade",
            str(self.submitted),
            "--cluster" if isinstance(jobs, str) else "--jobs",
            str(jobs),
            "--seed",
            "1",
        ]
        command += ["--roster", str(self.folder / "roster.csv"), "-o", str(self.folder / out)]
        if self.exercises:
            command += ["--exercises", self.exercises]
        env = {**os.environ, "TMPDIR": str(self.tmp)}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, env=env)

    def cost(self, what: str, out: str = "grades", jobs: int | str = 2) -> Cost:
        """Grade the class, without what earlier runs have compiled.

        Raises:
            SystemExit: the command failed.
        """
        from oplab.toolchain.compile import exercise_cache

        shutil.rmtree(exercise_cache(), ignore_errors=True)
        process = self.start(out, jobs)
        peak = [0]
        said: list[str] = []

        def listen() -> None:
            for line in process.stdout:
                said.append(line)
                if " answers · " in line:  # how far the command is, every ten seconds
                    print(f"    {line.strip()}", file=sys.stderr, flush=True)

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        done = threading.Event()

        def watch() -> None:
            while not done.wait(1.0):
                peak[0] = max(peak[0], memory(process.pid))

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        started = time.perf_counter()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - started
        done.set()
        watcher.join()
        listener.join(5)
        if process.returncode:
            raise SystemExit(f"{what}: exit code {process.returncode}\n{''.join(said)[-2000:]}")
        last = json.loads((self.folder / out / "run.json").read_text())["runs"][-1]
        return Cost(what, last["graded"], seconds, usage.ru_utime + usage.ru_stime, peak[0])


def grades(folder: Path) -> dict[tuple[str, str], tuple[str, int]]:
    from oplab.classes import records

    kept = records.load(folder)
    return {
        (login, id): (kept.verdicts[task.key].outcome.status, kept.verdicts[task.key].outcome.points)
        for login, all in kept.submissions.items()
        for one in all
        for id, task in one.tasks.items()
    }


def left_behind(group: Class) -> list[str]:
    """Processes that a run of this class has started and not ended, and temporary files."""
    mark = f"TMPDIR={group.tmp}".encode()
    found = [f"{path} with {sorted(each.name for each in path.rglob('*'))[:9]}" for path in group.tmp.iterdir()]
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in environ.read_bytes().split(b"\0"):
                found.append(f"process {environ.parent.name}")
        except OSError:
            continue
    return found


def faults(group: Class, count: int, jobs: int | str, say: Callable[[str], None]) -> str:
    """Kill random processes of runs, start the command again where it was the command, and compare the grades of each run that ends.

    A run that ends before all kills are done is followed by another one into a new folder.
    """
    chance, expected = random.Random(0), grades(group.folder / "grades")
    kills = of_command = runs = 0
    wrong: list[str] = []
    while kills < count:
        runs += 1
        out = f"faulty{runs}"
        process = group.start(out, jobs)
        while True:
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=chance.uniform(0.5, 8.0))
            if process.returncode == 0:
                break
            if process.returncode is None and kills < count:
                victim = chance.choice(family(process.pid))
                with suppress(OSError):
                    os.kill(victim, signal.SIGKILL)
                    kills += 1
                    of_command += victim == process.pid
                    say(f"  kill {kills} of {count}")
                if victim == process.pid:
                    process.communicate()
            if process.returncode is not None:
                process = group.start(out, jobs)
        found = grades(group.folder / out)
        wrong += [
            f"{place} {expected.get(place)} {found.get(place)}"
            for place in expected | found
            if expected.get(place) != found.get(place)
        ]
        time.sleep(2)
        wrong += left_behind(group)
    text = f"{kills} kills, {of_command} of them of the command, in {runs} runs of {len(expected)} grades each: "
    return text + ("all grades as without them, nothing left behind." if not wrong else f"WRONG: {wrong[:10]}")


@contextmanager
def folder() -> Iterator[Path]:
    place = ROOT / "build" / "bench"
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as made:
        yield Path(made)


def measure(
    parts: list[str], learners: list[int], exercises: str, jobs: int | str, kills: int, say: Callable[[str], None]
) -> tuple[str, dict[str, object]]:
    """The table of what was asked for, and all figures."""
    costs: list[Cost] = []
    lines: list[str] = []
    several = f"{jobs} jobs" if isinstance(jobs, int) else f"--cluster {jobs}"

    def note(cost: Cost) -> Cost:
        costs.append(cost)
        say("  " + ", ".join(cost.row()))
        return cost

    with folder() as place:
        if "one" in parts:
            note(Class(place / "one", exercises).of(1, "solutions").cost("a full right submission, one job", jobs=1))
        if "stubs" in parts:
            note(Class(place / "stubs", exercises).of(STUBS, "exercises").cost(f"{STUBS} submissions of stubs", jobs=1))
        if "demo" in parts:
            for size in learners:
                group = Class(place / f"demo{size}", exercises).drawn(size)
                what = f"{size} learners with answers in common"
                drawn = note(group.cost(f"{what}, {several}", jobs=jobs))
                seconds, processor = drawn.seconds / drawn.graded, drawn.processor / drawn.graded
                lines.append(f"- {what}: {seconds:.2f} s and {processor:.2f} processor seconds for each answer.")
        smallest = None
        for number, size in enumerate(learners):
            if "growth" not in parts and (number or not {"jobs", "faults"} & set(parts)):
                continue
            group = Class(place / f"of{size}", exercises).made(size)
            made = note(group.cost(f"{size} learners, {several}", jobs=jobs))
            lines.append(
                f"- {size} learners: {made.seconds / size:.2f} s and {made.processor / size:.2f} processor seconds for each."
            )
            smallest = smallest or (group, made)
        if smallest and "jobs" in parts:
            alone = note(smallest[0].cost(f"{learners[0]} learners, one job", "alone", 1))
            lines.append(
                f"- {several} are {alone.seconds / smallest[1].seconds:.2f} times as fast as one, with all that happens once."
            )
        if smallest and "faults" in parts:
            lines.append(f"- {faults(smallest[0], kills, jobs, say)}")
    table = document.markdown([cost.row() for cost in costs], HEAD)
    return "\n".join([table, "", *lines]), {"costs": [asdict(cost) for cost in costs], "remarks": lines}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.classes", description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=DEFAULT, help=f"some of {', '.join(PARTS)} (default: {DEFAULT})")
    parser.add_argument("--learners", default="50,100,200", help="sizes of classes (default: 50,100,200)")
    parser.add_argument("--exercises", default="", help="chapters or exercises; all by default")
    parser.add_argument(
        "--jobs",
        type=lambda text: int(text) if text.isdigit() else text,
        default=min(2, os.cpu_count() or 1),
        help="how many, or local:N for so many workers of Dask (default: 2)",
    )
    parser.add_argument("--faults", type=int, default=50, help="how many kills (default: 50)")
    options = parser.parse_args()
    parts = options.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    sizes = sorted(int(size) for size in options.learners.split(","))
    say = lambda line: print(line, file=sys.stderr, flush=True)  # noqa: E731
    say(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    table, _ = measure(parts, sizes, options.exercises, options.jobs, options.faults, say)
    print(table)


if __name__ == "__main__":
    main()
