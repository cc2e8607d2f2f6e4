"""What the learner's function makes of a model or of arrays: recorded with what the call has changed, and judged."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import onnx

from oplab.checks.evidence import Collect
from oplab.checks.judge import Judge
from oplab.parity.arrays import WrongAnswer

MAX_TEXT = 90_000  # characters of a result as JSON; the right ones have at most 3000
_CHANGED = {
    "ModelProto": "the model that was given has changed. Work on a copy: `copy.CopyFrom(model)`.",
    "list": "the call has changed a list that it was given. Work on a copy: `list(…)`.",
    "ndarray": "an input array has changed, in its shape or its numbers. Work on a copy.",
}


def record_model(c: Collect, name: str, call: Any, *args: Any) -> None:
    """Call the learner's function on copies; record what came, a model as a file and anything else as JSON, and what has changed.

    Args:
        name: the key of the evidence.
        call: the function.
        args: models, arrays, lists, and what cannot change.
    """
    given = [copy.deepcopy(arg) if isinstance(arg, (onnx.ModelProto, np.ndarray)) else arg for arg in args]
    before = [_state(arg) for arg in given]
    result = c.attempt(name, call, *given)
    changed = [type(arg).__name__ for arg, state in zip(given, before, strict=True) if _state(arg) != state]
    c.value(f"{name}: changed", changed)
    c.value(f"{name}: type", type(result).__name__)
    if type(result) is onnx.ModelProto:
        path = c.scratch / f"{len(list(c.scratch.iterdir()))}.onnx"
        path.write_bytes(result.SerializeToString())
        c.file(name, path)
    else:
        text = c.attempt(name, json.dumps, result, default=lambda entry: {"strange": type(entry).__name__})
        c.value(f"{name}: size", len(text or ""))
        c.value(name, text)


def _state(value: Any) -> Any:
    if isinstance(value, onnx.ModelProto):
        return value.SerializeToString()
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype, value.tobytes()
    # Entries can be arrays, which have no ==.
    return [id(entry) for entry in value] if isinstance(value, list) else value


def recorded_model(v: Judge, name: str, wanted: str = "ModelProto") -> Any:
    """What :func:`record_model` recorded: a model, or a value of JSON.

    Args:
        wanted: the type of the result.

    Raises:
        WrongAnswer: something else came, or the call has changed what it was given.
    """
    if v.error(name):
        v.value(name)
    kind = v.value(f"{name}: type")
    if kind != wanted:
        shown = "None. Is there a return?" if kind == "NoneType" else f"something of type {kind}."
        raise WrongAnswer(f"{name}: expected a {wanted}, got {shown}")
    for changed in v.value(f"{name}: changed"):
        raise WrongAnswer(f"{name}: {_CHANGED[changed]}")
    if wanted == "ModelProto":
        return v.model(name)
    if v.value(f"{name}: size") > MAX_TEXT:
        raise WrongAnswer(f"{name}: the {wanted} is much too long. Does a loop add the same entries again and again?")
    return json.loads(v.value(name))
