"""OpenVINO as a backend, with the course's operators from ``csrc/openvino_ops``."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from oplab.onnxtools import domain
from oplab.parity.tested import Feed, ModelUnderTest, Runner, RunResult, Unavailable, timed
from oplab.toolchain.build import library_path

# Without the hint OpenVINO computes in bfloat16 where the processor has instructions for it, and the verdict would depend on that.
CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
_UNKNOWN = re.compile(r"No conversion rule found for operations: (.+)")
# Lines of a message that name OpenVINO's own sources or its nodes, which are numbered.
_WHERE = re.compile(
    r"^(Exception from |Check '|FrontEnd API failed|Summary:|Model wasn't fully|Node .* of type |-- Conversion is failed"
    r"|-- \S+ with a message:|While validating node )"
)
_BEFORE = re.compile(r"^\s*(While validating ONNX node '.*?': )?(\w+: Check '.*' failed at .*)?")
# The frames of a converter in Python: "At:", and one line for each.
_IN_PYTHON = re.compile(r"^At:\n(?:[ \t]+.+\(\d+\): .+\n?)+", re.MULTILINE)


def openvino_runner(tested: ModelUnderTest) -> Runner:
    """A model in OpenVINO on the CPU. It is compiled for the inputs' numbers of dimensions, since OpenVINO takes no unknown ones.

    Raises:
        Unavailable: OpenVINO is not installed, or has no implementation of an operator of the model.
    """
    try:
        import openvino
    except ImportError:
        raise Unavailable("OpenVINO is not installed; `make deps-engines` does it") from None
    domain.check_model(tested.source)
    core = openvino.Core()
    library = library_path("openvino")
    if library.is_file():
        core.add_extension(str(library))
    try:
        model = core.read_model(tested.source)
    except RuntimeError as error:
        if missing := _UNKNOWN.search(str(error)):
            how = "" if library.is_file() else "; `make deps-engines` compiles the course's operators for it"
            raise Unavailable(f"OpenVINO has no {missing[1].strip()}{how}") from None
        raise RuntimeError(sentence(error)) from None
    # Read before the first reshape, which gives the model a number of dimensions.
    unknown = {one.get_any_name() for one in model.inputs if one.partial_shape.rank.is_dynamic}
    compiled: dict[tuple[int, ...], Any] = {}

    def run(feed: Feed) -> RunResult:
        ranks = tuple(array.ndim for array in feed.values())
        try:
            if ranks not in compiled:
                shapes = {name: openvino.PartialShape([-1] * feed[name].ndim) for name in unknown}
                if shapes:
                    model.reshape(shapes)
                compiled[ranks] = core.compile_model(model, "CPU", CONFIG)
            program = compiled[ranks]
            return timed(tested, lambda: [np.array(array) for array in program(dict(feed)).values()])
        except RuntimeError as error:
            raise RuntimeError(sentence(error)) from None

    return run


def sentence(error: BaseException) -> str:
    """OpenVINO's own words in one line, without the places in its sources and without a Python traceback."""
    text = _IN_PYTHON.sub("", str(error))
    lines = [_BEFORE.sub("", line).strip() for line in text.splitlines()]
    kept = [line for line in lines if line and not _WHERE.match(line)]
    return "OpenVINO: " + " ".join(kept or lines[:1])
