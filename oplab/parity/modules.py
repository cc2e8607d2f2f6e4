"""How every tool runs a PyTorch module: in eval mode, as an export computes it, and without leaving a trace in it."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

TRAINING = "The module was in training mode, and ran in eval mode. Call module.eval() before you export it, too."


@contextlib.contextmanager
def evaluating(module: Any) -> Iterator[bool]:
    """In eval mode and without gradients. Modes, buffers and torch's random numbers on the CPU are restored afterwards.

    Yields:
        Whether a part of it was in training mode.
    """
    import torch

    parts, training = _parts(module), in_training(module)
    buffers = [
        (part, name, buffer, None if buffer is None else buffer.clone())
        for part in parts
        for name, buffer in part._buffers.items()
    ]
    for part in training:
        part.training = False
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            yield bool(training)
    finally:
        for part in training:
            part.training = True
        for part, name, buffer, before in buffers:
            part._buffers[name] = buffer  # a module may assign another tensor, or write into this one
            if before is not None and not torch.equal(buffer, before):
                with torch.no_grad():
                    buffer.copy_(before)


def in_training(module: Any) -> list[Any]:
    """The parts of a torch module that are in training mode; a function has none."""
    return [part for part in _parts(module) if part.training]


def _parts(module: Any) -> list[Any]:
    return list(module.modules()) if hasattr(module, "modules") else []


def arguments(module: Any, tensors: Mapping[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """Positional and keyword arguments: by name where the module has parameters of these names, else in the given order."""
    if set(tensors) <= _parameters(module):
        return (), dict(tensors)
    return tuple(tensors.values()), {}


def _parameters(module: Any) -> set[str]:
    overload = getattr(module, "default", module)  # torch.ops.oplab.grid has overloads; its own is called default
    if hasattr(overload, "_schema"):
        return {argument.name for argument in overload._schema.arguments}
    try:
        found = inspect.signature(getattr(module, "forward", module)).parameters.values()
    except (TypeError, ValueError):
        return set()
    return {parameter.name for parameter in found if parameter.kind is not parameter.POSITIONAL_ONLY}


def returned(value: Any) -> list[Any]:
    """The tensors that a module returned, however they are nested; None is not an output, as in an export."""
    from torch.utils import _pytree as pytree

    return [leaf for leaf in pytree.tree_leaves(value) if leaf is not None]


def as_array(value: Any) -> np.ndarray:
    """A tensor, an array or a number as an array of the same dtype and shape."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value)
