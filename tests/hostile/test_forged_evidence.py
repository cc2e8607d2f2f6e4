"""Evidence that a learner's process has forged: every judge answers it with a verdict, never with an exception of its own.

The evidence of each reference answer is recorded once. Then entries of it are replaced by entries of other types, by arrays of other
shapes and dtypes, and by files with something else in them, and the judge has to reject or accept what is left like any other answer.

``OPLAB_FORGERIES=10000 pytest -o faulthandler_timeout=0`` tries so many of them, in about 20 minutes of processor time; without it
there are some of each exercise.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from oplab.authoring import lint
from oplab.course.manifest import Limits, load, preloads
from oplab.grading import worker
from oplab.grading.client import Server
from oplab.grading.protocol import Job, Report
from oplab.grading.results import UNREADABLE
from tests.support import ROOT

COURSE = load(ROOT)
TOTAL = int(os.environ.get("OPLAB_FORGERIES", "450"))
EACH = -(-TOTAL // len(COURSE.exercises))
PATIENCE = 600 + TOTAL // 10  # seconds for the forgeries of one exercise
# Forked from a process without threads, as the grader's own workers are: in a fork of this one, where other tests have computed
# with several threads, PyTorch would wait for threads that the fork does not have.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["oplab.grading.worker", "torch", "onnx", "onnxruntime"])
CHAPTERS = sorted({exercise.chapter for exercise in COURSE.exercises})


class Recorder(Server):
    """A grading server that keeps the job of each judge and a copy of its evidence."""

    def __init__(self, folder: Path, *args: Any):
        super().__init__(*args)
        self.folder, self.jobs = folder, {}

    def run(self, job: Job, fresh=lambda: None):
        if job.half == "judge":
            kept = shutil.copytree(job.evidence, self.folder / job.id)
            self.jobs[job.id] = replace(job, evidence=Path(kept))
        return super().run(job, fresh)


def models() -> list[bytes]:
    """Files that are no models, and models that are unlike any that an exercise asks for."""
    info = helper.make_tensor_value_info
    nodes = [helper.make_node("Abs", ["x"], ["y"]), helper.make_node("Abs", ["y"], ["x"])]
    graphs = [
        helper.make_graph([], "empty", [], []),
        helper.make_graph(nodes, "circle", [info("x", TensorProto.FLOAT, None)], [info("y", TensorProto.FLOAT, None)]),
        helper.make_graph(
            nodes[:1], "text", [info("x", TensorProto.STRING, [0])], [info("y", TensorProto.STRING, [0])]
        ),
        helper.make_graph(
            nodes[:1], "plain", [info("x", TensorProto.FLOAT, ["n"])], [info("y", TensorProto.FLOAT, ["n"])]
        ),
    ]
    made = [helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10) for graph in graphs]
    return [
        b"",
        b"\x00" * 100,
        b"\xff\xd8\xff",
        onnx.ModelProto().SerializeToString(),
        *(m.SerializeToString() for m in made),
    ]


ARRAYS = [
    np.zeros((0,), np.float32),
    np.zeros((), np.float64),
    np.zeros((2, 0, 3), np.int64),
    np.full((1,), np.nan, np.float32),
    np.arange(3, dtype=np.int8),
    np.ones((2, 2), np.complex64),
    np.ones((1, 1, 1, 1, 1, 1), np.float16),
    np.array([True, False]),
    np.full((3, 4), np.iinfo(np.int64).min),
    np.full((2, 3), 1e300),
    np.arange(10**5, dtype=np.uint64),
]
FILES = models()
PLAIN: list[Any] = [
    {"kind": "none"},
    {"kind": "int", "value": 0},
    {"kind": "int", "value": (1 << 63) - 1},
    {"kind": "int", "value": 10**400},
    {"kind": "int", "value": "3"},
    {"kind": "float", "value": "nan"},
    {"kind": "float", "value": "1e400"},
    {"kind": "float", "value": 1.0},
    {"kind": "text", "value": "\ud800 \x1b[2J \x00"},
    {"kind": "text", "value": "x" * 100_000},
    {"kind": "text", "value": "../../etc/passwd"},
    {"kind": "list", "items": []},
    {"kind": "list", "items": [{"kind": "text", "value": "a"}, {"kind": "int", "value": 1}]},
    {"kind": "list", "items": [{"kind": "list", "items": [{"kind": "list", "items": []}]}]},
    {"kind": "list", "items": [3, None]},
    {"kind": "array", "array": []},
    {"kind": "error", "type": [], "message": {"a": 1}, "where": None},
    {"kind": "error", "type": "ValueError", "message": "\ud800" * 3000, "where": "\x1b"},
    {"kind": "error", "type": "Todo", "message": "", "where": ""},
    {"kind": "large", "file": {}, "size": "x"},
    {"kind": "strange", "type": []},
    {"kind": ["none"]},
    {},
]


def forged(item: Any, chance: random.Random, arrays: dict[str, np.ndarray], folder: Path) -> Any:
    """Something else instead of an entry of the evidence: of another type, or of the same type with another content."""
    way = chance.random()
    item = item if type(item) is dict else {}  # a forgery of a forgery
    if type(item.get("items")) is list and item["items"] and way < 0.5:
        items = list(item["items"])
        place = chance.randrange(len(items))
        change = chance.randrange(3)
        if change == 0:
            del items[place]
        elif change == 1:
            items.append(items[place])
        else:
            items[place] = forged(items[place], chance, arrays, folder)
        return {"kind": "list", "items": items}
    if way < (0.7 if item.get("kind") == "array" else 0.25):
        name = f"forged{len(arrays)}"
        arrays[name] = chance.choice(ARRAYS)
        return {"kind": "array", "array": name}
    if way < (0.7 if item.get("kind") == "file" else 0.35):
        file = f"forged{chance.randrange(1 << 30)}.bin"
        (folder / file).write_bytes(chance.choice(FILES))
        return {"kind": "file", "file": file}
    return chance.choice(PLAIN)


def forge(source: Path, folder: Path, chance: random.Random) -> None:
    """A copy of the evidence in ``source`` with one to three entries forged, removed, or exchanged with another."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder, copy_function=os.link)
    items = json.loads((source / "evidence.json").read_text())["items"]
    with np.load(source / "arrays.npz") as stored:
        arrays = dict(stored)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        if not items:
            break
        name, other = chance.choice(list(items)), chance.choice(list(items))
        way = chance.random()
        if way < 0.1:
            del items[name]
        elif way < 0.25:
            items[name], items[other] = items[other], items[name]
        else:
            items[name] = forged(items[name], chance, arrays, folder)
    (folder / "evidence.json").unlink()
    (folder / "evidence.json").write_text(json.dumps({"version": 1, "items": items}))
    (folder / "arrays.npz").unlink()
    np.savez(folder / "arrays.npz", **arrays)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Iterator[Callable[[str, int], dict[str, Job]]]:
    """The jobs of a chapter's judges, with evidence of the reference answers."""
    solutions = [trial for trial in lint.trials(COURSE) if trial.kind == "solution"]
    with Recorder(tmp_path_factory.mktemp("evidence"), preloads(COURSE.exercises)) as server:

        def record(chapter: str, seed: int) -> dict[str, Job]:
            chosen = [trial for trial in solutions if trial.exercise.chapter == chapter]
            for trial in chosen:
                assert lint.attempt(COURSE, trial, server, seed).status == "passed"
            return {trial.exercise.id: server.jobs[trial.exercise.id] for trial in chosen}

        yield record


def judged(job: Job, source: Path, folder: Path, first: int, report: Path) -> None:
    """Judge forgeries number ``first`` and following, and write a line for each: its number, and what the worker would report."""
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    os.chdir(job.scratch)
    with report.open("a", buffering=1) as lines:
        for number in range(first, EACH):
            lines.write(f"{number} ")
            lines.flush()
            forge(source, folder, random.Random(f"{job.seed} {job.id} {number}"))
            forgery = replace(job, evidence=folder, digests={})
            try:
                verdict = worker.judge(forgery)
            except BaseException as error:
                verdict = worker.explain(error, forgery)
            trace = verdict.trace if verdict.outcome == "grader_error" else ""
            lines.write(json.dumps([verdict.outcome, f"{verdict.message} {trace}"[-3000:]]) + "\n")


def verdicts(job: Job, source: Path, folder: Path) -> list[tuple[int, str, str]]:
    """(number, outcome, message) of each forgery of one exercise. Another process judges them: a forged model may end it."""
    found: list[tuple[int, str, str]] = []
    report = folder.with_suffix(".report")
    while len(found) < EACH:
        before = len(found)
        report.write_text("")
        process = PROCESSES.Process(target=judged, args=(job, source, folder, before, report))
        process.start()
        process.join(PATIENCE)
        stuck = process.is_alive()
        process.kill()
        process.join()
        for line in report.read_text().splitlines():
            number, _, said = line.partition(" ")
            # Without a report the process ended in the middle: `failed` for the learner, see outcomes.from_judge.
            found.append((int(number), *json.loads(said)) if said else (int(number), "died", ""))
        assert not stuck, f"{job.id}, forgery {len(found) - 1}: the judge did not return in {PATIENCE} s"
        assert len(found) > before, (
            f"{job.id}, forgery {before} was not judged: the process ended with {process.exitcode}"
        )
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_no_forgery_ends_a_judge(chapter, recorded, tmp_path, seed):
    ends, judged_ones, tried = [], 0, 0
    for id, job in recorded(chapter, seed).items():
        source, scratch = job.evidence, tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        found = verdicts(replace(job, scratch=scratch), source, tmp_path / "forged")
        outcomes = [outcome for _, outcome, _ in found]
        ends += [f"{id}, forgery {number}: {said}" for number, outcome, said in found if outcome == "grader_error"]
        judged_ones, tried = judged_ones + outcomes.count("judged"), tried + len(outcomes)
    assert judged_ones > tried / 2, "where most forgeries end the process, little is tried"
    assert not ends, f"{len(ends)} of them:\n" + "\n".join(ends[:5])


CONFUSED = """
def judge_x(v):
    with v.check("sizes"):
        {reads}
        assert len(sizes) == 2, "two"
"""


def confused(reads: str, folder: Path) -> Report:
    """The report of a judge that takes the length of a number."""
    (folder / "evidence.json").write_text(json.dumps({"items": {"sizes": {"kind": "int", "value": 3}}}))
    (folder / "inputs.bin").write_bytes(b"")
    text, checks, file = CONFUSED.format(reads=reads), folder / "c01.py", folder / "x.py"
    job = Job("judge", "c01.x", "x", checks, text, file, None, None, folder, folder, 1, Limits())
    try:
        return worker.judge(job)
    except TypeError as error:
        return worker.explain(error, job)


def test_evidence_of_another_type_is_a_wrong_answer(tmp_path):
    report = confused("sizes = v.value('sizes')", tmp_path)
    assert report.outcome == "judged" and not report.checks[0].passed
    assert report.checks[0].message == (
        f"sizes: {UNREADABLE}, an int (TypeError: object of type 'int' has no len(); line 5 of c01.py)."
    )


def test_a_fault_of_a_check_that_has_read_no_evidence_is_the_graders(tmp_path):
    assert confused("sizes = 3", tmp_path).outcome == "grader_error"
