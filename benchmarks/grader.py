"""The grader against otter-grader: the same exercise (c04.asinh), the same right answer, in one run.

    python benchmarks/grader.py [--repeat 5] [--no-otter]

otter-grader is installed into an environment of its own, ``build/bench/otter``, that sees the course's packages. Both sides are
measured in turn, so that a busy machine slows both. Medians and the ratio are printed; ``build/bench/grader.json`` holds every sample.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "build" / "bench"
OTTER = "otter-grader==7.0.0"

NOTEBOOK_CELLS = (
    "import torch",
    'def symbolic(g, x):\n    return g.op("Asinh", x)\n\n'
    'torch.onnx.register_custom_op_symbolic("aten::asinh", symbolic, 9)',
    "import otter\ngrader = otter.Notebook()\ngrader.check('asinh')",
)

TEST_FILE = """\
OK_FORMAT = False
from otter.test_files import test_case

name = "asinh"
points = 2


@test_case()
def exports_and_matches():
    import io
    import numpy as np
    import onnxruntime
    import torch

    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.asinh(x)

    x = torch.randn(4, 5)
    for opset in (9, 13, 20):
        file = io.BytesIO()
        torch.onnx.export(Model(), (x,), file, dynamo=False, opset_version=opset, input_names=["x"])
        (y,) = onnxruntime.InferenceSession(file.getvalue()).run(None, {"x": x.numpy()})
        np.testing.assert_allclose(y, np.arcsinh(x.numpy()), rtol=1e-4, atol=1e-5)
"""


def otter_environment() -> Path:
    """An environment with otter-grader that also sees the packages of the one in use."""
    folder = BENCH / "otter"
    python = folder / "bin" / "python"
    if not (folder / "bin" / "otter").exists():
        print("Installing otter-grader into build/bench/otter …", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        site = subprocess.run(
            [sys.executable, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        own = subprocess.run(
            [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        (Path(own) / "course.pth").write_text(site + "\n")
        subprocess.run([str(python), "-m", "pip", "install", "-q", OTTER], check=True)
    return folder


def otter_assignment() -> tuple[Path, Path]:
    """A notebook with the right answer and the zip that ``otter run`` takes."""
    import nbformat

    folder = BENCH / "assignment"
    (folder / "tests").mkdir(parents=True, exist_ok=True)
    (folder / "tests" / "asinh.py").write_text(TEST_FILE)
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(text) for text in NOTEBOOK_CELLS],
        metadata={"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
    )
    nbformat.write(notebook, folder / "asinh.ipynb")
    archive = folder / "autograder.zip"
    python = otter_environment() / "bin" / "python"
    subprocess.run(
        [str(python), "-m", "otter", "generate", "-t", str(folder / "tests"), "-o", str(archive), "--no-environment"],
        check=True,
        capture_output=True,
        cwd=folder,
    )
    return folder / "asinh.ipynb", archive


def timed(command: list[str], **options) -> float:
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, **options)
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return seconds


def cold(*ids: str) -> float:
    """``oplab check`` from the shell, including the start of the server."""
    return timed([sys.executable, "-m", "oplab.cli", "check", *ids, "--track", "solutions"], cwd=ROOT)


def warm(repeat: int) -> list[float]:
    """A check in a process whose server is already running, as in a notebook or in watch mode."""
    from oplab.course import load
    from oplab.grading.client import Server
    from oplab.grading.engine import grade

    course = load(ROOT)
    exercise = course.exercise("c04.asinh")
    samples = []
    with Server() as server:
        for number in range(repeat + 1):
            started = time.perf_counter()
            outcome = grade(course, [exercise], ROOT / "solutions", server=server).exercises[0]
            assert outcome.passed, outcome.message
            if number:
                samples.append(time.perf_counter() - started)
    return samples


def memory() -> int:
    """Largest sum of resident memory of the grader's processes (shared pages counted once), in MB, with two jobs."""
    from oplab.grading.limits import descendants

    command = [sys.executable, "-m", "oplab.cli", "check", "--track", "solutions", "--jobs", "2"]
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    peak = 0
    while running.poll() is None:
        peak = max(peak, sum(proportional(pid) for pid in [running.pid, *descendants(running.pid)]))
        time.sleep(0.05)
    return peak >> 10


def proportional(pid: int) -> int:
    """Proportional set size in kB: pages shared by forks are divided among them."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--no-otter", action="store_true", help="leave the peer out")
    args = parser.parse_args()
    BENCH.mkdir(parents=True, exist_ok=True)
    samples: dict[str, list[float]] = {"oplab cold": [], "otter run": [], "oplab warm": [], "oplab all, cold": []}
    if not args.no_otter:
        notebook, archive = otter_assignment()
        otter = [
            str(otter_environment() / "bin" / "python"),
            "-m",
            "otter",
            "run",
            "-a",
            str(archive),
            "-o",
            str(BENCH),
        ]
    for number in range(args.repeat):
        print(f"round {number + 1} of {args.repeat}", flush=True)
        samples["oplab cold"].append(cold("c04.asinh"))
        if not args.no_otter:
            samples["otter run"].append(timed([*otter, str(notebook)], cwd=BENCH))
            result = json.loads((BENCH / "results.json").read_text())
            assert all(test.get("score", 1) == test.get("max_score", 1) for test in result["tests"]), result
        samples["oplab all, cold"].append(cold())
        samples["oplab warm"].extend(warm(3))
    median = {name: statistics.median(values) for name, values in samples.items() if values}
    print(f"\n{'what':<18}{'median s':>10}{'min':>8}{'max':>8}")
    for name, value in median.items():
        print(f"{name:<18}{value:>10.2f}{min(samples[name]):>8.2f}{max(samples[name]):>8.2f}")
    if "otter run" in median:
        print(f"\ncold: {median['otter run'] / median['oplab cold']:.1f} times as fast as otter run on c04.asinh")
        print(f"warm: {median['otter run'] / median['oplab warm']:.0f} times")
    peak = memory()
    print(f"memory with 2 jobs: {peak} MB (proportional set size of all processes)")
    (BENCH / "grader.json").write_text(
        json.dumps({"samples": samples, "memory_mb": peak, "cores": os.cpu_count()}, indent=1)
    )


if __name__ == "__main__":
    main()
