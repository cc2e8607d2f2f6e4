"""The grader against otter-grader and nbgrader: the same exercises, the same right answers, in one run.

    python -m benchmarks.grader [--repeat 3] [--peers otter,nbgrader] [--peers none]

Three exercises (c04.asinh, c04.per_opset, c04.sinc) as assignments of each peer, whose tests ask what the course's checks ask: exports
at the same opsets and dtypes, a valid graph of the expected operators, the right values at sizes that were not exported. Each peer is
installed into an environment of its own below ``build/bench`` that sees the course's packages. All are measured in turn, so that a
busy machine slows all. Medians and ratios are printed; ``build/bench/grader.json`` holds every sample.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from .document import ROOT, text

BENCH = ROOT / "build" / "bench"
PEERS = {"otter": "otter-grader==7.0.0", "nbgrader": "nbgrader==0.9.6"}

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
        print(f"Installing {PEERS[peer]} into build/bench/{peer} …", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        code = "import sysconfig; print(sysconfig.get_path('purelib'))"
        site, own = (
            subprocess.run([program, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
            for program in (sys.executable, str(python))
        )
        (Path(own) / "course.pth").write_text(site + "\n")
        subprocess.run([str(python), "-m", "pip", "install", "-q", PEERS[peer]], check=True)
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


def timed(command: list[str], **options) -> float:
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, **options)
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return seconds


def otter() -> Callable[[str], float]:
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

    def run(name: str) -> float:
        home = folder / name
        command = [python, "-m", "otter", "run", "-a", str(home / "autograder.zip"), "-o", str(home)]
        seconds = timed([*command, str(home / f"{name}.ipynb")], cwd=home)
        result = json.loads((home / "results.json").read_text())
        assert all(test.get("score", 1) == test.get("max_score", 1) for test in result["tests"]), result
        return seconds

    return run


def nbgrader() -> Callable[[str], float]:
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

    def run(name: str) -> float:
        command = [program, "autograde", name, "--force"]
        seconds = timed(command, cwd=course, env=env)
        code = (
            "from nbgrader.api import Gradebook\nimport sys\n"
            "with Gradebook('sqlite:///gradebook.db') as book: print(book.find_submission(sys.argv[1], 'student').score)"
        )
        python = str(environment("nbgrader") / "bin" / "python")
        score = subprocess.run([python, "-c", code, name], capture_output=True, text=True, cwd=course, env=env)
        assert score.stdout.strip() == "2.0", f"nbgrader gave {score.stdout.strip() or score.stderr[-500:]} of 2 points"
        return seconds

    return run


def cold(*arguments: str) -> float:
    """``oplab check`` from the shell, including the start of the server."""
    return timed([sys.executable, "-m", "oplab.cli", "check", *arguments, "--track", "solutions"], cwd=ROOT)


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


def peak_memory(command: list[str], **options) -> int:
    """Largest sum of resident memory of a command's processes (shared pages divided among them), in MB."""
    from oplab.grading.processes import descendants

    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)
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


def prepared(names: list[str]) -> dict[str, Callable[[str], float]]:
    """The peers that can be used here; one that cannot is told in one line and left out."""
    peers = {}
    for name in names:
        try:
            peers[name] = {"otter": otter, "nbgrader": nbgrader}[name]()
        except (subprocess.CalledProcessError, OSError) as error:
            said = getattr(error, "stderr", None) or str(error)
            said = said.decode(errors="replace") if isinstance(said, bytes) else said
            last = (said.strip().splitlines() or ["no message"])[-1]
            print(f"{PEERS[name]} cannot be used with Python {sys.version.split()[0]}: {last[:200]}", flush=True)
    return peers


def measure(names: list[str], repeat: int) -> dict:
    """All in turn, ``repeat`` times: samples in seconds for each exercise and way, megabytes, and the number of exercises."""
    from oplab.course.manifest import load

    BENCH.mkdir(parents=True, exist_ok=True)
    total = len(load(ROOT).exercises)
    peers = prepared(names)
    first = EXERCISES[0]
    samples: dict[str, dict[str, list[float]]] = {"all": {"oplab cold": []}, **{id: {} for id in EXERCISES}}
    for number in range(repeat):
        print(f"round {number + 1} of {repeat}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
        for id in EXERCISES:
            samples[id].setdefault("oplab cold", []).append(cold(id))
            for name, run in peers.items():
                samples[id].setdefault(name, []).append(run(id.partition(".")[2]))
        for id, values in warm(5).items():
            samples[id].setdefault("oplab warm", []).extend(values)
        samples["all"]["oplab cold"].append(cold())
        samples["all"].setdefault("isolated cold", []).append(cold(first, "--isolate"))
        samples["all"].setdefault("isolated warm", []).extend(warm(5, isolated=True)[first])
    return {"samples": samples, "peers": list(peers), "memory_mb": memory(peers), "exercises": total}


def memory(peers: Iterable[str]) -> dict[str, int]:
    """Megabytes at the peak: the whole course with 2 jobs for oplab, one exercise for each peer."""
    check = [sys.executable, "-m", "oplab.cli", "check", "--track", "solutions", "--jobs", "2"]
    found = {"oplab": peak_memory(check, cwd=ROOT)}
    if "otter" in peers:
        home = BENCH / "otter-work" / "asinh"
        archive, book = str(home / "autograder.zip"), str(home / "asinh.ipynb")
        command = [str(BENCH / "otter" / "bin" / "python"), "-m", "otter", "run", "-a", archive, "-o", str(home), book]
        found["otter"] = peak_memory(command, cwd=home)
    if "nbgrader" in peers:
        programs = BENCH / "nbgrader" / "bin"
        env = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        command = [str(programs / "nbgrader"), "autograde", "asinh", "--force"]
        found["nbgrader"] = peak_memory(command, cwd=BENCH / "nbgrader-work", env=env)
    return found


def rows(found: dict) -> list[tuple[str, ...]]:
    """A row for each way of checking: seconds of each exercise, exercises per second, ratios to ours cold and warm, memory."""
    samples = found["samples"]
    median = {id: {way: statistics.median(samples[id][way]) for way in samples[id]} for id in EXERCISES}
    sums = {way: sum(median[id][way] for id in EXERCISES) for way in median[EXERCISES[0]]}
    made = []
    for way in ("oplab cold", "oplab warm", *found["peers"]):
        seconds = [f"{median[id][way]:.2f}" for id in EXERCISES]
        ratios = [f"{sums[way] / sums[f'oplab {ours}']:.1f}" for ours in ("cold", "warm")]
        megabytes = found["memory_mb"].get(way.removesuffix(" cold"), "")
        made.append((way, *seconds, f"{len(EXERCISES) / sums[way]:.2f}", *ratios, str(megabytes)))
    return made


HEAD = ("", *(f"{id}, s" for id in EXERCISES), "exercises per s", "times ours cold", "times ours warm", "memory, MB")


def remarks(found: dict) -> list[str]:
    """What the table does not hold: the whole course at once, and what --isolate costs."""
    samples, first = found["samples"], EXERCISES[0]
    extra = {
        way: statistics.median(samples["all"][f"isolated {way}"]) - statistics.median(samples[first][f"oplab {way}"])
        for way in ("cold", "warm")
    }
    every = statistics.median(samples["all"]["oplab cold"])
    return [
        f"All {found['exercises']} exercises, cold: {every:.1f} s, {every / found['exercises']:.2f} s each.",
        f"`--isolate` costs {extra['cold'] * 1000:.0f} ms cold and {extra['warm'] * 1000:.0f} ms warm.",
        "Memory is the proportional set size of all processes: the whole course with 2 jobs for oplab, one exercise for the others.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--peers", default=",".join(PEERS), help=f"some of {', '.join(PEERS)}, or none")
    args = parser.parse_args()
    names = [name for name in args.peers.split(",") if name != "none"]
    if unknown := set(names) - set(PEERS):
        parser.error(f"there is no peer {', '.join(unknown)}")
    found = measure(names, args.repeat)
    print("\n" + text(rows(found), HEAD))
    print("\n".join(remarks(found)))
    (BENCH / "grader.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
