"""What a model takes: its inputs with dtypes and shapes, arrays that fit them or a sentence why not, and random ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from oplab.errors import OplabError

LARGEST = 2**28  # elements of a random input: 2 GiB while they are drawn


@dataclass(frozen=True)
class InputSpec:
    """One input of a model that is a tensor.

    Attributes:
        name: as the graph has it.
        dtype: NumPy's; for a dtype that NumPy lacks (bfloat16) that of the package ml_dtypes.
        shape: a number, a symbolic name or None for each dimension; None where not even the rank is known.
        required: the model has no default for it.
    """

    name: str
    dtype: np.dtype
    shape: tuple[int | str | None, ...] | None
    required: bool = True

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.dtype} of any shape"
        return f"{self.dtype}[{', '.join('?' if side is None else str(side) for side in self.shape)}]"


def input_specs(model: onnx.ModelProto) -> list[InputSpec]:
    """The inputs of a model, in its order."""
    defaults = {tensor.name for tensor in model.graph.initializer}
    found = []
    for value in model.graph.input:
        tensor = value.type.tensor_type
        if value.type.WhichOneof("value") != "tensor_type" or tensor.elem_type == onnx.TensorProto.STRING:
            raise OplabError(
                f"The input {value.name} is not a tensor of numbers.",
                "Only models whose inputs are such tensors can be run.",
            )
        shape = None
        if tensor.HasField("shape"):
            shape = tuple(map(_side, tensor.shape.dim))
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        found.append(InputSpec(value.name, dtype, shape, value.name not in defaults))
    return found


def _side(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    # Paddle's exporter writes -1 for an unknown size, and ? as the name of several.
    if dim.HasField("dim_value"):
        return dim.dim_value if dim.dim_value >= 0 else None
    return dim.dim_param if any(map(str.isalpha, dim.dim_param)) else None


def checked_inputs(specs: list[InputSpec], given: Mapping[str, Any], what: str = "") -> dict[str, np.ndarray]:
    """The given arrays or tensors as new NumPy arrays, in the model's order.

    Args:
        what: which inputs these are, for the messages, where there are several sets: ``" of case 2"``.
    """
    if not isinstance(given, Mapping):
        raise OplabError(
            f"The inputs{what} are a {type(given).__name__}.", "Give a dict: the name of each input, and its array."
        )
    known = {spec.name for spec in specs}
    names = ", ".join(spec.name for spec in specs) or "none"
    for name in given:
        if name not in known:
            raise OplabError(f"There is no input {name!r}{what}.", f"The inputs are: {names}.")
    arrays = {}
    for spec in specs:
        if spec.name not in given:
            if spec.required:
                raise OplabError(
                    f"The input {spec.name} ({spec}){what} is missing.", f"The model's inputs are: {names}."
                )
            continue
        array = _array(spec.name, given[spec.name])
        if array.dtype != spec.dtype:
            raise OplabError(
                f"The input {spec.name}{what} is {array.dtype}, and the model takes {spec}.",
                f"Convert it: `{spec.name}.astype({str(spec.dtype)!r})`.",
            )
        if spec.shape is not None and not _fits(spec.shape, array.shape):
            raise OplabError(
                f"The input {spec.name}{what} has the shape {list(array.shape)}, and the model takes {spec}.",
                "Give an array of that shape, or export the model with dynamic shapes.",
            )
        arrays[spec.name] = array
    return arrays


def random_inputs(specs: list[InputSpec], seed: int, dims: Mapping[str, int] | None = None) -> dict[str, np.ndarray]:
    """Random inputs: floats from a standard normal distribution, integers from 0 to 9, bools.

    Args:
        dims: sizes by the name of a dimension or by its place: ``x.0`` is the first of the input ``x``.
    """
    sizes = dict(dims or {})
    places = {
        f"{spec.name}.{axis}": side
        for spec in specs
        for axis, side in enumerate(spec.shape or ())
        if not isinstance(side, int)
    }
    known = dict.fromkeys([*filter(None, places.values()), *places])
    for name in sizes:
        if name not in known:
            there = ", ".join(known) or "none"
            raise OplabError(f"The model has no dimension {name}.", f"Those without a size are: {there}.")
    made = {}
    for spec in specs:
        if not spec.required:
            continue
        if spec.shape is None:
            raise OplabError(
                f"Cannot generate the input {spec.name} ({spec}): its shape is not stated.",
                "Pass the inputs: --inputs X.npz.",
            )
        shape = []
        for axis, side in enumerate(spec.shape):
            place = f"{spec.name}.{axis}"
            size = side if isinstance(side, int) else sizes.get(place, sizes.get(side))
            if size is None:
                raise OplabError(
                    f"Cannot generate the input {spec.name} ({spec}): the size of {side or place} is unknown.",
                    f"Set its size, --dims {side or place}=4, or pass the inputs, --inputs X.npz.",
                )
            shape.append(size)
        if math.prod(shape) > LARGEST:
            raise OplabError(
                f"The input {spec.name} would have the shape {shape}, which is too large.", "Give smaller --dims."
            )
        # A separate generator for each input: the values of one do not depend on the shape of another.
        generator = np.random.default_rng([seed, *spec.name.encode()])
        if spec.dtype.kind == "b":
            made[spec.name] = generator.integers(0, 2, shape).astype(np.bool_)
        elif spec.dtype.kind in "iu":
            made[spec.name] = generator.integers(0, 10, shape).astype(spec.dtype)
        else:
            made[spec.name] = generator.standard_normal(shape).astype(spec.dtype)
    return made


def _fits(declared: tuple[int | str | None, ...], shape: tuple[int, ...]) -> bool:
    return len(declared) == len(shape) and all(
        side == size for side, size in zip(declared, shape, strict=True) if isinstance(side, int)
    )


def _array(name: str, value: Any) -> np.ndarray:
    if hasattr(value, "detach"):  # a tensor of PyTorch, which may be on any device and want a gradient
        value = value.detach().cpu().resolve_conj().resolve_neg()
        try:
            value = value.numpy()
        except TypeError as error:
            raise OplabError(
                f"The input {name} is {value.dtype}, which NumPy does not have: {error}.",
                "Give it in another dtype.",
            ) from None
    array = np.array(value, order="C")
    if array.dtype.kind not in "biufcV" or array.dtype.hasobject:
        raise OplabError(f"The input {name} is {array.dtype}, not an array of numbers.", "Give an array or a tensor.")
    return array
