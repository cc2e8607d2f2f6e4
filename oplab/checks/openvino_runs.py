"""A learner's extensions in OpenVINO: models are read and run here, and what came of them is evidence."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from oplab.checks.errors import LearnerError
from oplab.checks.evidence import Collect, Evidence
from oplab.checks.kernels import announce
from oplab.errors import OplabError
from oplab.parity.arrays import WrongAnswer
from oplab.parity.openvino import CONFIG, sentence


def installed() -> Any:
    """The module ``openvino``.

    Raises:
        OplabError: it is not installed, with the command that does it.
    """
    try:
        import openvino
    except ImportError:
        raise OplabError(
            "OpenVINO is not installed for this Python, so this exercise cannot be graded here.",
            "Run `make deps-engines` in the course's folder.",
        ) from None
    return openvino


_ENLARGE = (
    '<ir_version: 10, opset_import: ["": 18]> net (float[1, 2, 6, 8] x) => (float[1, 2, h, w] y) '
    '<float[4] s = {1, 1, 2.5, 2.5}> { y = Resize <mode = "cubic"> (x, "", s) }'
)


def expect_interpolate() -> None:
    """Find out whether Interpolate, OpenVINO's Resize, runs on this processor, and whether its results can be right.

    Without AVX, OpenVINO 2026.4 generates code for it that its own assembler refuses ("bad combination"); on an AMD EPYC it runs, and
    returns numbers such as 1e34. Some virtual machines have no AVX: it depends on the type of processor that they are given.

    Raises:
        OplabError: OpenVINO is not installed, or Interpolate does not run, or it contradicts itself.
    """
    core = installed().Core()
    image = np.arange(2 * 6 * 8, dtype=np.float32).reshape(1, 2, 6, 8) % 7
    try:
        program = core.compile_model(
            core.read_model(onnx.parser.parse_model(_ENLARGE).SerializeToString()), "CPU", CONFIG
        )
        even, turned, back = (
            np.array(program({"x": x})[0]) for x in (np.ones_like(image), image, image[..., ::-1, ::-1].copy())
        )
    except RuntimeError as error:
        raise _no_interpolate("does not run", sentence(error)[:200]) from None
    # Of an even image it makes an even one, and of an image upside down the same upside down.
    if not (np.allclose(even, 1, atol=1e-3) and np.allclose(turned, back[..., ::-1, ::-1], atol=1e-3)):
        raise _no_interpolate(
            "computes wrong numbers", f"An image of ones becomes {even.min():.3g} to {even.max():.3g}."
        )


def _no_interpolate(fault: str, seen: str) -> OplabError:
    return OplabError(
        f"OpenVINO's Interpolate {fault} on this processor, so this exercise cannot be graded here. {seen}",
        "It needs AVX on x86. A virtual machine often lacks it: let it have the host's type of processor.",
    )


class Engine:
    """OpenVINO on the CPU with a learner's extensions. What it refuses becomes evidence, as one sentence.

    Args:
        c: of the exercise.
        extensions: objects, or the path of a library.

    Raises:
        WrongAnswer: OpenVINO does not take the extensions.
    """

    def __init__(self, c: Collect, extensions: Any):
        self.c, self.core = c, installed().Core()
        try:
            self.core.add_extension(extensions)
        except (RuntimeError, TypeError) as error:
            raise WrongAnswer(f"core.add_extension does not take it. {sentence(error)[:600]}") from None
        if isinstance(extensions, str):
            ctypes.CDLL(extensions)  # a node may live longer than the Core, and its functions are in the library

    def read(self, title: str, model: onnx.ModelProto) -> Any:
        """OpenVINO's model; None, and the exception as evidence under ``title``, if there is none."""
        announce(title)
        return self.c.attempt(title, self.said, self.core.read_model, model.SerializeToString())

    def compile(self, title: str, model: Any) -> Any:
        """A program of a model from :meth:`read` (None does nothing); None, and the exception as evidence, if there is none."""
        if model is None:
            return None
        announce(title)
        config = {**CONFIG, "INFERENCE_NUM_THREADS": 2}
        return self.c.attempt(title, self.said, self.core.compile_model, model, "CPU", config)

    def record(self, title: str, program: Any, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray] | None:
        """Run a program from :meth:`compile` (None does nothing); its outputs or its exception are evidence under ``title``."""
        announce(title)
        if program is None:
            return None
        # Copies: OpenVINO shares the memory of NumPy in both directions.
        found = self.c.attempt(title, self.said, program, {name: value.copy() for name, value in feeds.items()})
        if found is None:
            return None
        arrays = [np.array(value) for value in found.values()]
        self.c.value(title, arrays)
        return arrays

    def said(self, call: Any, *args: Any) -> Any:
        """The result of a call, whose RuntimeError has OpenVINO's sentence instead of a text of many lines."""
        try:
            return call(*args)
        except RuntimeError as error:
            # Python's frames are in the message: OpenVINO makes a text of an exception in a converter.
            file = self.c.file_of_learner
            lines = re.findall(rf"^\s+{re.escape(str(file))}\((\d+)\): ", str(error), re.MULTILINE)
            if lines:
                raise LearnerError(f"{sentence(error)[:600]} ({file.name}, line {lines[0]})") from None
            raise RuntimeError(sentence(error)[:600]) from None


def outputs(v: Evidence, title: str, count: int = 1) -> list[np.ndarray]:
    """The arrays that :meth:`Engine.record` left under ``title``.

    Raises:
        WrongAnswer: OpenVINO has refused the model or the run, with its words; or there are not ``count`` arrays.
    """
    error = v.error(title)
    if error:
        message = error.message.partition(": ")[2] or error.message
        if "Port for tensor name" in message:
            message += " OpenVINO's model does not read that input: is something in its place that is constant?"
        if "evaluate() is not implemented" in message:
            message += " OpenVINO calls evaluate where has_evaluate returns true."
        raise (LearnerError if error.type == "LearnerError" else WrongAnswer)(message)
    found = v.value(title)
    if type(found) is not list or len(found) != count or not all(type(entry) is np.ndarray for entry in found):
        raise WrongAnswer(f"Expected {count} arrays, got something else.")
    return found


def expect_refusal(v: Evidence, titles: Sequence[str], what: str, likely: str = "") -> str:
    """Demand that reading, compiling or running a model was refused with a sentence, and return it.

    Args:
        titles: under which the refusal may be recorded.
        what: what is wrong with the model or its inputs.
        likely: what to do about it.

    Raises:
        WrongAnswer: there was a result, or the exception has no sentence.
    """
    for title in titles:
        error = v.error(title)
        if error is not None:
            return error.message
    raise WrongAnswer(f"{what}: expected an exception with a sentence, but there was a result. {likely}".rstrip())
