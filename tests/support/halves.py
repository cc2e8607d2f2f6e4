"""float16 and bfloat16 in ONNX Runtime, which takes no bfloat16 from NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from oplab import ops
from tests.support.models import model_of

FLOAT16, BFLOAT16 = (
    np.dtype(helper.tensor_dtype_to_np_dtype(each)) for each in (TensorProto.FLOAT16, TensorProto.BFLOAT16)
)
Session = Callable[[onnx.ModelProto], onnxruntime.InferenceSession]
WHOLE = functools.partial(ops.session, optimize=False)  # no Cast is removed


def in_ort(op: str, feed: dict[str, np.ndarray], outputs=("y",), session: Session = WHOLE, **attributes):
    """One node's outputs. The halves go into the session and come out of it as float32, which has all their numbers."""
    halves = {name: value.dtype for name, value in feed.items() if value.dtype in (FLOAT16, BFLOAT16)}
    dtype = next(iter(halves.values()))
    number = helper.np_dtype_to_tensor_dtype(dtype)
    into = [helper.make_node("Cast", [name], [f"{name}_half"], to=number) for name in halves]
    names = [f"{name}_half" if name in halves else name for name in feed]
    inner = [output if output == "idx" else f"{output}_half" for output in outputs]
    node = helper.make_node(op, names, inner, domain="oplab", **attributes)
    out = [
        helper.make_node("Cast", [f"{name}_half"], [name], to=TensorProto.FLOAT) for name in outputs if name != "idx"
    ]
    types = {name: np.float32 if name in halves else value.dtype for name, value in feed.items()}
    kinds = {name: np.int32 if name == "idx" else np.float32 for name in outputs}
    made = session(model_of([*into, node, *out], types, kinds))
    found = made.run(None, {name: value.astype(types[name]) for name, value in feed.items()})
    return [value if value.dtype == np.int32 else value.astype(dtype) for value in found]
