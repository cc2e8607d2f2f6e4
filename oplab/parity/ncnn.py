"""ncnn as a backend. It runs in a process of its own, because a mistake in one of its layers ends the process."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

import numpy as np

from oplab.onnxtools import domain
from oplab.onnxtools.subgraphs import every_node
from oplab.parity.tested import REPEATS, Feed, ModelUnderTest, Runner, RunResult, Unavailable
from oplab.toolchain import compiler

LIMIT = 300.0  # seconds of one call: pnnx needs one or two for each piece of a model
CHILD = ("-P", "-m", "oplab.parity.ncnn_child")  # -P: a file ncnn.py in the user's folder is not ncnn
OPERATORS = ("MyAdd", "DynamicResize", "KNNQuery")  # that oplab.parity.ncnn_layers has


def ncnn_runner(tested: ModelUnderTest) -> Runner:
    """A model in ncnn on the CPU, in float32. pnnx converts it for each shape of the inputs, because it fixes all sizes.

    Raises:
        Unavailable: ncnn or pnnx is not installed, or there is no implementation of an operator of the model.
    """
    missing = [name for name in ("ncnn", "pnnx") if importlib.util.find_spec(name) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise Unavailable(f"{' and '.join(missing)} {verb} not installed; `make deps-engines` does it")
    domain.check_model(tested.source)
    functions = {(function.domain, function.name) for function in tested.proto.functions}
    for node in every_node(tested.proto):
        known = node.domain in ("", "ai.onnx") or (node.domain == "oplab" and node.op_type in OPERATORS)
        if not known and (node.domain, node.op_type) not in functions:
            raise Unavailable(f"ncnn has no {node.domain}.{node.op_type}")
    # Lives as long as the runner: what pnnx made for one shape is there when the shape comes again.
    folder = tempfile.TemporaryDirectory(prefix="oplab-ncnn-")
    return lambda feed: _call(tested, feed, Path(folder.name))


def _call(tested: ModelUnderTest, feed: Feed, folder: Path) -> RunResult:
    model = folder / "model.onnx"
    if isinstance(tested.source, str):
        model = Path(tested.source).resolve()
    elif not model.is_file():
        model.write_bytes(tested.source)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        here = Path(name)
        for number, array in enumerate(feed.values()):
            np.save(here / f"in{number}.npy", array)
        job = {"model": str(model), "inputs": list(feed), "cache": str(folder), "repeats": REPEATS * tested.timed}
        (here / "job.json").write_text(json.dumps(job), encoding="utf-8")
        root = str(Path(__file__).parents[2])
        paths = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        command = [sys.executable, *CHILD, name]
        done = compiler.run(command, timeout=LIMIT, limited=False, environ={"PYTHONPATH": paths})
        answer = here / "answer.json"
        if done.returncode is None:
            raise RuntimeError(f"ncnn has not answered in {LIMIT:g} seconds{_where(here)}")
        if done.returncode or not answer.is_file():
            raise RuntimeError(f"ncnn's process ended {_how(done.returncode)}{_where(here)}")
        said = json.loads(answer.read_text(encoding="utf-8"))
        if "unavailable" in said:
            raise Unavailable(said["unavailable"])
        if "failed" in said:
            raise RuntimeError(said["failed"])
        outputs = [np.load(here / f"out{number}.npy") for number in range(said["outputs"])]
    return RunResult(outputs, said["milliseconds"])


def _how(code: int) -> str:
    if code >= 0:
        return f"with the status {code}"
    return f"with {signal.Signals(-code).name if -code in iter(signal.Signals) else f'signal {-code}'}"


def _where(folder: Path) -> str:
    """The piece of the model that the process was at."""
    at = folder / "at"
    return f" ({at.read_text(encoding='utf-8')})" if at.is_file() else ""
