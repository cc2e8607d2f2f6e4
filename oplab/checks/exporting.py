"""What the checks of symbolic functions share: an export over the TorchScript path, what is registered, and messages about an export."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from oplab.checks.errors import find_todo, first_line, innermost
from oplab.checks.ort_errors import no_symbolic
from oplab.parity.arrays import WrongAnswer

if TYPE_CHECKING:
    import numpy as np
    import torch


def export(
    function: Callable[..., torch.Tensor],
    inputs: Mapping[str, torch.Tensor],
    opset: int,
    path: Path,
    *,
    outputs: Sequence[str] = ("out",),
    axes: Mapping[str, Mapping[int, str]] | None = None,
) -> None:
    """Export a function of tensors over the TorchScript path to ``path``.

    Args:
        inputs: the example of each input, by name and in the order of the function's arguments.
        axes: names of dynamic axes; every axis of every input where it is left out.
    """
    import torch

    class Model(torch.nn.Module):
        def forward(self, *args: torch.Tensor) -> torch.Tensor:
            return function(*args)

    if axes is None:
        axes = {name: {axis: f"{name}{axis}" for axis in range(x.dim())} for name, x in inputs.items()}
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Model().eval(),
            tuple(inputs.values()),
            buffer,
            dynamo=False,
            opset_version=opset,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes={name: dict(entry) for name, entry in axes.items()},
        )
    path.write_bytes(buffer.getvalue())


class ExportError(Exception):
    """An export failed. The message is the reason that the exporter has wrapped in its own, longer ones."""


@contextmanager
def reasons(*, of_any: bool = False) -> Iterator[None]:
    """Turn an exporter's exception into an :class:`ExportError` with the innermost reason.

    Args:
        of_any: also an exception that is not the exporter's own and was raised from another: passes of the dynamo path do that.

    Raises:
        ExportError: there was such an exception in the block.
        Exception: any other one, and the exception of a stub.
    """
    import torch

    try:
        yield
    except Exception as error:
        wrapped = of_any and error.__cause__ is not None
        if find_todo(error) or not (wrapped or isinstance(error, torch.onnx.OnnxExporterError)):
            raise
        raise ExportError(first_line(innermost(error))) from error


def registrations(most: int = 40) -> list[str]:
    """What was registered in this process by ``register_custom_op_symbolic``, as ``aten::asinh from opset 9``."""
    from torch.onnx._internal.torchscript_exporter.registration import registry

    found = []
    for name in sorted(registry.all_functions()):
        functions = registry.get_function_group(name)._functions
        found += [f"{name} from opset {version}" for version in sorted(functions) if functions.overridden(version)]
    return found[:most]


def sizes(rng: np.random.Generator, rank: int) -> tuple[int, ...]:
    """A shape that was not exported: sizes from 4 to 7."""
    return tuple(int(size) for size in rng.integers(4, 8, size=rank))


def expect_shape(got: np.ndarray, wanted: Sequence[int], exported: Sequence[int], fed: str) -> None:
    """Demand the shape of a result; ``exported`` is the one at the export, and ``fed`` says what the model has read.

    Raises:
        WrongAnswer: it is another one, with the usual cause.
    """
    if got.shape == tuple(wanted):
        return
    cause = baked(exported) if got.shape == tuple(exported) else ""
    if not wanted and got.shape == (1,):
        cause = " A constant with one axis, such as torch.tensor([2.0]), gives its axis to the result; torch.tensor(2.0) has none."
    raise WrongAnswer(f"The model turns {fed} into the shape {list(got.shape)}, expected {list(wanted)}.{cause}")


def baked(exported: Sequence[int]) -> str:
    """The sentence for a model that works at the size of the export alone."""
    return f" The model was exported from {list(exported)}: a shape from that export seems to be in the graph as a constant."


def replaced(*mine: str) -> list[str]:
    """The operators that PyTorch maps and a registration of this process maps in another way, except for those called ``mine``."""
    from torch.onnx._internal.torchscript_exporter.registration import registry

    groups = {
        name: registry.get_function_group(name)._functions for name in registry.all_functions() if name not in mine
    }
    return [name for name, functions in sorted(groups.items()) if functions._base and functions._overrides]


def expect_only_mine(names: Sequence[str]) -> None:
    """Demand that the answer has replaced no mapping of PyTorch's: ``names`` is what :func:`replaced` has found.

    Raises:
        WrongAnswer: it has replaced one.
    """
    if names:
        shown = ", ".join(map(str, names))
        raise WrongAnswer(
            f"The function also replaces PyTorch's own mapping of {shown}: every other export of this process would use the new one."
        )


def own(operator: str) -> list[int]:
    """The opsets from which PyTorch has a mapping of its own of this operator, whatever was registered."""
    from torch.onnx._internal.torchscript_exporter.registration import registry

    group = registry.get_function_group(operator)
    return sorted(group._functions._base) if group else []


def expect_in_use(title: str, operator: str, opset: int, registered: Sequence[str], own: Sequence[int]) -> None:
    """Demand that an export from opset 9 on uses a registration of the answer: the look-up takes the highest version up to its opset.

    Args:
        title: which export it is about.
        registered: what :func:`registrations` has found.
        own: what :func:`own` has found.

    Raises:
        WrongAnswer: there is none, or PyTorch's own mapping is used instead.
    """
    versions = [int(entry.rsplit(" ", 1)[1]) for entry in registered if entry.startswith(f"{operator} ")]
    mine, theirs = (max((each for each in found if each <= opset), default=0) for found in (versions, own))
    if mine >= max(theirs, 1):
        return
    if mine:
        raise WrongAnswer(
            f"{title}: the export uses PyTorch's own mapping of {operator}, which is there from opset {theirs} on. The exporter takes the "
            f"highest version up to the opset of the export, and yours is {mine}: register it at {theirs}, too."
        )
    uses = " The export uses PyTorch's own mapping." if theirs else ""
    raise WrongAnswer(f"{no_symbolic(title, operator, registered, opset)}{uses}")


@contextmanager
def about(title: str) -> Iterator[None]:
    """Put ``title`` in front of the message of a :class:`WrongAnswer` that is raised in the block, unless it is there already.

    Raises:
        WrongAnswer: of the same class as the one in the block.
    """
    try:
        yield
    except WrongAnswer as error:
        raise error if str(error).startswith(title) else type(error)(f"{title}: {error}") from None
