"""A model that the learner's function makes of another one: recorded with what the call has changed, and judged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oplab.checks.evidence import Collect
from oplab.checks.judge import Judge
from oplab.parity.arrays import WrongAnswer

if TYPE_CHECKING:
    import onnx


def record_model(c: Collect, name: str, call: Any, model: onnx.ModelProto, *args: list) -> None:
    """Call the learner's function on a copy of a model; record the model that came, and whether the copy or a list has changed.

    Args:
        name: the key of the evidence.
        call: the function.
        args: lists that it gets after the model.
    """
    import onnx

    given = onnx.ModelProto()
    given.CopyFrom(model)
    before = [[id(entry) for entry in arg] for arg in args]  # entries can be arrays, which have no ==
    result = c.attempt(name, call, given, *args)
    c.value(f"{name}: changed", given.SerializeToString() != model.SerializeToString())
    c.value(f"{name}: list changed", [[id(entry) for entry in arg] for arg in args] != before)
    c.value(f"{name}: type", type(result).__name__)
    if type(result) is onnx.ModelProto:
        path = c.scratch / f"{len(list(c.scratch.iterdir()))}.onnx"
        path.write_bytes(result.SerializeToString())
        c.file(name, path)


def recorded_model(v: Judge, name: str) -> onnx.ModelProto:
    """The model that :func:`record_model` recorded.

    Raises:
        WrongAnswer: none came, or the call has changed what it was given.
    """
    if v.error(name):
        v.value(name)
    kind = v.value(f"{name}: type")
    if kind != "ModelProto":
        shown = "None. Is there a return?" if kind == "NoneType" else f"something of type {kind}."
        raise WrongAnswer(f"{name}: expected a ModelProto, got {shown}")
    if v.value(f"{name}: changed"):
        raise WrongAnswer(f"{name}: the model that was given has changed. Work on a copy: `copy.CopyFrom(model)`.")
    if v.value(f"{name}: list changed"):
        raise WrongAnswer(f"{name}: the call has changed a list that it was given. Work on a copy: `list(…)`.")
    return v.model(name)
