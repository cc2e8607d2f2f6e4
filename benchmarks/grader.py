"""The grader against otter-grader and nbgrader: the same exercises, the same right answers, in one run.

Three exercises (c04.asinh, c04.per_opset, c04.sinc) as assignments of each peer, whose tests ask what the course's checks ask: exports
at the same opsets and dtypes, a valid graph of the expected operators, the right values at sizes that were not exported. Each peer is
installed into its own environment below ``build/bench`` that sees the course's packages. All are measured in turn, so that a busy
machine slows all of them.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from . import tables
from .tables import ROOT

BENCH = ROOT / "build" / "bench"

# What the tests of both peers share. `graph` is (opset, operators that must be there).
HELPERS = """\
import io
import warnings
import numpy as np
import onnx
import onnxruntime
import torch


def verify(function, reference, graphs, dtypes=("float32",), rtol=1e-4, atol=1e-5):
    class Model(torch.nn.Module):
        def forward(self, x):
            return function(x)

    rng = np.random.default_rng()
    for opset, operators in graphs:
        for dtype in dtypes:
            file = io.BytesIO()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(
                    Model(), (torch.full((2, 3), 0.5, dtype=getattr(torch, dtype)),), file, dynamo=False,
                    opset_version=opset, input_names=["x"], output_names=["out"], dynamic_axes={"x": {0: "n", 1: "m"}},
                )
            model = onnx.load_model_from_string(file.getvalue())
            onnx.checker.check_model(model, full_check=True)
            assert [value.name for value in model.graph.input] == ["x"]
            assert operators <= {node.op_type for node in model.graph.node}
            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = 1
            session = onnxruntime.InferenceSession(file.getvalue(), options)
            for shape in ((2, 3), (4, 7), (0, 3)):
                x = rng.normal(size=shape).astype(dtype)
                (y,) = session.run(None, {"x": x})
                assert y.dtype == x.dtype and y.shape == x.shape
                np.testing.assert_allclose(y, reference(x), rtol=rtol, atol=atol)
"""
TESTS = {
    "asinh": 'asinh()\nverify(torch.asinh, np.arcsinh, [(opset, {"Asinh"}) for opset in (9, 13, 20)])\n',
    "per_opset": (
        "per_opset()\n"
        'verify(torch.sinh, np.sinh, [(7, {"Exp"}), (8, {"Exp"}), (9, {"Sinh"}), (13, {"Sinh"}), (20, {"Sinh"})])\n'
    ),
    "sinc": (
        "sinc()\n"
        'verify(torch.sinc, np.sinc, [(9, {"Sin"}), (20, {"Sin"})], ("float16", "float32", "float64"), 1e-2, 1e-3)\n'
        'verify(torch.sinc, np.sinc, [(9, {"Sin"})], ("float64",), 1e-9, 1e-10)\n'
    ),
}
EXERCISES = tuple(f"c04.{name}" for name in TESTS)
Run = Callable[[str], "Cost"]


def answer(name: str) -> str:
    """The reference answer of one exercise, with the imports that it needs."""
    from oplab.course.stubs import function_text

    text = function_text((ROOT / "solutions" / "c04_aten_symbolic.py").read_text(encoding="utf-8"), name)
    assert text is not None
    return f"import math\nimport torch\n\n\n{text}"


def environment(peer: str) -> Path:
    """The folder of an environment with a peer that also sees the packages of the one in use."""
    folder = BENCH / peer
    python = folder / "bin" / "python"
    if not (folder / "bin" / peer).exists():
        print(f"Installing {PEERS[peer][0]} into build/bench/{peer} …", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        site, own = (
            subprocess.run([program, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
            for program in (sys.executable, str(python))
        )
        (Path(own) / "course.pth").write_text(site + "\n")
        subprocess.run([str(python), "-m", "pip", "install", "-q", PEERS[peer][0]], check=True)
    return folder


def notebook(cells: list[str], metadata: list[dict] | None = None) -> object:
    import nbformat

    made = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(text) for text in cells],
        metadata={"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
    )
    for cell, extra in zip(made.cells, metadata or (), strict=False):
        cell.metadata.update(extra)
    return made


def otter() -> Run:
    """An otter assignment for each exercise; the function that comes back runs one with ``otter run``."""
    import nbformat

    python = str(environment("otter") / "bin" / "python")
    folder = BENCH / "otter-work"
    shutil.rmtree(folder, ignore_errors=True)
    for name, test in TESTS.items():
        home = folder / name
        (home / "tests").mkdir(parents=True)
        body = "\n".join(f"    {line}" if line else "" for line in HELPERS.splitlines())
        called = "\n".join(f"    {line}" for line in test.splitlines())
        (home / "tests" / f"{name}.py").write_text(
            "OK_FORMAT = False\nfrom otter.test_files import test_case\n\n"
            f'name = "{name}"\npoints = 2\n\n\n@test_case()\ndef right({name}):\n{body}\n{called}\n'
        )
        cells = [answer(name), f"import otter\ngrader = otter.Notebook()\ngrader.check({name!r})"]
        nbformat.write(notebook(cells), home / f"{name}.ipynb")
        command = [python, "-m", "otter", "generate", "-t", str(home / "tests"), "-o", str(home / "autograder.zip")]
        subprocess.run([*command, "--no-environment"], check=True, capture_output=True, cwd=home)

    def run(name: str) -> Cost:
        home = folder / name
        command = [python, "-m", "otter", "run", "-a", str(home / "autograder.zip"), "-o", str(home)]
        cost = measured(
            [*command, str(home / f"{name}.ipynb")], cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        result = json.loads((home / "results.json").read_text())
        assert all(test.get("score", 1) == test.get("max_score", 1) for test in result["tests"]), result
        return cost

    return run


def nbgrader() -> Run:
    """An nbgrader course with an assignment for each exercise; the function that comes back autogrades one submission."""
    import nbformat

    program = str(environment("nbgrader") / "bin" / "nbgrader")
    course = BENCH / "nbgrader-work"
    shutil.rmtree(course, ignore_errors=True)
    course.mkdir(parents=True)
    (course / "nbgrader_config.py").write_text(
        "c = get_config()\nc.CourseDirectory.course_id = 'bench'\nc.ExecutePreprocessor.timeout = 300\n"
    )
    # nbgrader's kernels and its messages go to folders of their own
    env = {**os.environ, "JUPYTER_CONFIG_DIR": str(course / ".config"), "JUPYTER_DATA_DIR": str(course / ".data")}
    env["PATH"] = f"{Path(program).parent}{os.pathsep}{env['PATH']}"  # nbgrader starts `alembic` by its name
    for name, test in TESTS.items():
        solution = {"schema_version": 3, "solution": True, "grade": False, "locked": False, "task": False}
        tests = {"schema_version": 3, "solution": False, "grade": True, "locked": True, "task": False, "points": 2}
        metadata = [
            {"nbgrader": {**solution, "grade_id": name, "cell_type": "code"}},
            {"nbgrader": {**tests, "grade_id": f"test_{name}", "cell_type": "code"}},
        ]
        marked = f"### BEGIN SOLUTION\n{answer(name)}\n### END SOLUTION"
        source = course / "source" / name / f"{name}.ipynb"
        source.parent.mkdir(parents=True)
        nbformat.write(notebook([marked, HELPERS + test], metadata), source)
        subprocess.run([program, "generate_assignment", name], check=True, capture_output=True, cwd=course, env=env)
        submitted = course / "submitted" / "student" / name / f"{name}.ipynb"
        submitted.parent.mkdir(parents=True)
        nbformat.write(notebook([answer(name), HELPERS + test], metadata), submitted)

    def run(name: str) -> Cost:
        command = [program, "autograde", name, "--force"]
        cost = measured(command, cwd=course, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        code = (
            "from nbgrader.api import Gradebook\nimport sys\n"
            "with Gradebook('sqlite:///gradebook.db') as book: print(book.find_submission(sys.argv[1], 'student').score)"
        )
        python = str(environment("nbgrader") / "bin" / "python")
        score = subprocess.run([python, "-c", code, name], capture_output=True, text=True, cwd=course, env=env)
        assert score.stdout.strip() == "2.0", f"nbgrader gave {score.stdout.strip() or score.stderr[-500:]} of 2 points"
        return cost

    return run


@dataclass(frozen=True)
class Cost:
    """One command: with all processes that it has waited for, and the largest sum of their memory, shared pages divided among them."""

    seconds: float
    processor: float
    megabytes: int


def measured(command: list[str], **options) -> Cost:
    """Runs a command.

    Raises:
        SystemExit: it failed.
    """
    from oplab.grading.processes import descendants

    started, peak = time.perf_counter(), 0
    running = subprocess.Popen(command, **options)
    try:
        while not (ended := os.wait4(running.pid, os.WNOHANG))[0]:
            peak = max(peak, sum(proportional(pid) for pid in [running.pid, *descendants(running.pid)]))
            time.sleep(0.1)
    except KeyboardInterrupt:
        running.wait()
        raise
    seconds = time.perf_counter() - started
    running.returncode = os.waitstatus_to_exitcode(ended[1])
    if running.returncode:
        raise SystemExit(f"{' '.join(command)} failed with {running.returncode}.")
    return Cost(seconds, ended[2].ru_utime + ended[2].ru_stime, peak >> 10)


def proportional(pid: int) -> int:
    """Proportional set size in kB."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def check(*arguments: str) -> list[str]:
    """``oplab check`` from the shell, which starts the grading server."""
    return [sys.executable, "-m", "oplab.cli", "check", *arguments, "--track", "solutions"]


def warm(repeat: int, isolated: bool = False) -> dict[str, list[float]]:
    """Checks in a process whose server is already running, as in a notebook or in watch mode."""
    from oplab.course.manifest import load
    from oplab.grading.client import Server
    from oplab.grading.grader import grade
    from oplab.grading.isolation import detect

    course = load(ROOT)
    samples: dict[str, list[float]] = {}
    with Server(isolation=detect(ROOT, ROOT / "solutions") if isolated else None) as server:
        for id in EXERCISES:
            for number in range(repeat + 1):
                started = time.perf_counter()
                outcome = grade(course, [course.exercise(id)], ROOT / "solutions", server=server).exercises[0]
                assert outcome.passed, outcome.message
                if number:
                    samples.setdefault(id, []).append(time.perf_counter() - started)
    return samples


PEERS: dict[str, tuple[str, Callable[[], Run]]] = {
    "otter": ("otter-grader==7.0.0", otter),
    "nbgrader": ("nbgrader==0.9.6", nbgrader),
}


def prepared() -> dict[str, Run]:
    """The peers that can be used here; one that cannot is named in one line and left out."""
    peers = {}
    for name, (package, make) in PEERS.items():
        try:
            peers[name] = make()
        except (subprocess.CalledProcessError, OSError) as error:
            said = getattr(error, "stderr", None) or str(error)
            said = said.decode(errors="replace") if isinstance(said, bytes) else said
            last = (said.strip().splitlines() or ["no message"])[-1]
            print(f"{package} cannot be used with Python {sys.version.split()[0]}: {last[:200]}", flush=True)
    return peers


def measure(quick: bool, repeat: int) -> Iterator[str]:
    """The table with the samples until then, as Markdown, after each round: all in turn, ``repeat`` times."""
    from oplab.course.manifest import load

    BENCH.mkdir(parents=True, exist_ok=True)
    peers, total, first = prepared(), len(load(ROOT).exercises), EXERCISES[0]
    samples: dict[str, dict[str, list[float]]] = {id: {} for id in EXERCISES}
    whole: list[Cost] = []
    isolated: dict[str, list[float]] = {"cold": [], "warm": []}
    peak = dict.fromkeys(peers, 0)
    for number in range(repeat):
        print(f"round {number + 1} of {repeat}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
        for id in EXERCISES:
            cost = measured(check(id), cwd=ROOT, stdout=subprocess.DEVNULL)
            samples[id].setdefault("oplab cold", []).append(cost.seconds)
            for name, run in peers.items():
                cost = run(id.partition(".")[2])
                samples[id].setdefault(name, []).append(cost.seconds)
                peak[name] = max(peak[name], cost.megabytes)
        for id, values in warm(5).items():
            samples[id].setdefault("oplab warm", []).extend(values)
        isolated["cold"].append(measured(check(first, "--isolate"), cwd=ROOT, stdout=subprocess.DEVNULL).seconds)
        isolated["warm"] += warm(5, isolated=True)[first]
        if not quick:
            whole.append(measured(check("--jobs", "2"), cwd=ROOT, stdout=subprocess.DEVNULL))
        lines = [tables.markdown(rows(samples, peak), HEAD), ""]
        if whole:
            every = statistics.median(cost.seconds for cost in whole)
            lines += [f"- All {total} exercises, cold: {every:.1f} s, {max(cost.megabytes for cost in whole)} MB."]
        extra = [
            f"{1000 * (statistics.median(isolated[way]) - statistics.median(samples[first][f'oplab {way}'])):.0f} ms {way}"
            for way in isolated
        ]
        yield "\n".join([*lines, f"- `--isolate` costs {' and '.join(extra)}."])


def rows(samples: dict[str, dict[str, list[float]]], peak: dict[str, int]) -> list[tuple[str, ...]]:
    """A row for each way of checking: seconds of each exercise, exercises per second, ratios to ours cold and warm, memory."""
    median = {id: {way: statistics.median(values) for way, values in ways.items()} for id, ways in samples.items()}
    sums = {way: sum(median[id][way] for id in EXERCISES) for way in median[EXERCISES[0]]}
    made = []
    for way in ("oplab cold", "oplab warm", *peak):
        seconds = [f"{median[id][way]:.2f}" for id in EXERCISES]
        ratios = [f"{sums[way] / sums[f'oplab {ours}']:.1f}" for ours in ("cold", "warm")]
        made.append((way, *seconds, f"{len(EXERCISES) / sums[way]:.2f}", *ratios, str(peak.get(way, ""))))
    return made


HEAD = ("", *(f"{id}, s" for id in EXERCISES), "exercises per s", "times ours cold", "times ours warm", "memory, MB")
