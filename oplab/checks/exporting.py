"""What the checks of symbolic functions share: an export over the TorchScript path, what is registered, and messages about an export."""

from __future__ import annotations

import importlib
import io
import logging
import pkgutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oplab.checks.errors import find_todo, first_line, innermost
from oplab.checks.ort_errors import no_symbolic
from oplab.parity.arrays import WrongAnswer

if TYPE_CHECKING:
    import numpy as np
    import torch

    from oplab.checks.evidence import Collect
    from oplab.checks.judge import Judge


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


def record(
    c: Collect, title: str, function: Callable[..., object], inputs: Mapping[str, Any], opset: int, **options: Any
) -> None:
    """Record under ``title`` what :func:`export` writes; ``inputs`` are tensors or arrays, ``options`` its other arguments."""
    import torch

    path = c.scratch / f"export{len(list(c.scratch.iterdir()))}.onnx"
    examples = {name: torch.as_tensor(value) for name, value in inputs.items()}
    c.attempt(title, export, function, examples, opset, path, **options)
    c.file(title, path)


def export_dynamo(
    module: torch.nn.Module,
    inputs: tuple[torch.Tensor, ...],
    path: Path,
    names: Sequence[str],
    axes: Any,
    *,
    outputs: Sequence[str] | None = None,
    table: Any = None,
) -> list[str]:
    """Export over the dynamo path to ``path``, in one file, and return the operators of its FX graph.

    Args:
        names, outputs: of the graph.
        axes: ``dynamic_shapes``.
        table: ``custom_translation_table``.

    Raises:
        ExportError: see :func:`reasons`.
    """
    import torch

    with quiet(), reasons(of_any=True):
        program = torch.onnx.export(
            module,
            inputs,
            dynamo=True,
            input_names=list(names),
            output_names=outputs,
            dynamic_shapes=axes,
            custom_translation_table=table,
            verbose=False,
        )
    path.write_bytes(program.model_proto.SerializeToString())
    return [str(node.target) for node in program.exported_program.graph.nodes if node.op == "call_function"][:60]


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings and logs: an export or a capture that fails logs a page about it."""
    found = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(found)


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


def with_reasons(function: Callable[..., object], *args: object) -> None:
    """Call a function that exports; see :func:`reasons`."""
    with reasons():
        function(*args)


def record_export(c: Collect, name: str, function: Callable[..., object], *args: object) -> None:
    """Call an answer that exports to the path after ``args``, and record its file, complete in itself: an exporter may write the
    weights next to it.
    """
    folder = c.scratch / f"export{len(list(c.scratch.iterdir()))}"
    folder.mkdir()
    path = folder / "model.onnx"
    c.attempt(name, with_reasons, function, *args, path)
    if path.is_file():
        c.attempt(name, _in_one_file, path)
    c.file(name, path)


def _in_one_file(path: Path) -> None:
    import onnx

    from oplab.checks.graphs import tensors

    for tensor in tensors(onnx.load(path, load_external_data=False)):
        place = next((entry.value for entry in tensor.external_data if entry.key == "location"), None)
        if place is not None and not (path.parent / place).is_file():
            raise WrongAnswer(
                f"{path.name} looks for the weights of {tensor.name!r} in the file {place} next to it, and that file is missing."
            )
    path.write_bytes(onnx.load(path).SerializeToString())


def check_operators(function: Callable[..., object], *args: object, fake: bool = True) -> None:
    """Run torch.library.opcheck on each operator that ``function`` calls and PyTorch does not have; ``fake`` tests its fake, too."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Calls(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func.namespace not in ("aten", "prim", "prims"):
                seen.append((func, args, kwargs or {}))
            return func(*args, **(kwargs or {}))

    with Calls():
        function(*args)
    for operator, given, named in seen:
        torch.library.opcheck(operator, given, named, test_utils=("test_schema", "test_faketensor")[: 1 + fake])


def record_pair(c: Collect, result: object) -> bool:
    """Record whether an answer is ``(function, table)``, for :func:`expect_pair`; whether it is that."""
    fits = type(result) is tuple and len(result) == 2 and callable(result[0]) and isinstance(result[1], dict)
    kinds = [type(part).__name__ for part in (result[:5] if type(result) is tuple else (result,))]
    shown = f"({', '.join(kinds)})" if type(result) is tuple else kinds[0]
    c.value("returned", "a function and a dict" if fits else shown)
    return fits


def expect_pair(v: Judge, name: str) -> None:
    """Demand what :func:`record_pair` has recorded; ``name`` is that of the function.

    Raises:
        WrongAnswer: it was something else.
    """
    if v.value("returned") != "a function and a dict":
        raise WrongAnswer(f"Expected ({name}, table), a function and a dict, got {v.value('returned')}.")


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
    import torch
    from torch.onnx._internal.torchscript_exporter.registration import registry

    for module in pkgutil.iter_modules(torch.onnx.__path__):  # most of them are loaded by an export
        if module.name.startswith("symbolic_opset"):
            importlib.import_module(f"torch.onnx.{module.name}")
    group = registry.get_function_group(operator)
    return sorted(group._functions._base) if group else []


def expect_in_use(title: str, operator: str, opset: int, registered: Sequence[str], own: Sequence[int]) -> None:
    """Demand that an export from opset 9 on uses a registration of the answer: the look-up takes the highest version up to its opset.

    Below opset 9 the look-up goes up, and nothing is demanded.

    Args:
        title: which export it is about.
        registered: what :func:`registrations` has found.
        own: what :func:`own` has found.

    Raises:
        WrongAnswer: there is none, or PyTorch's own mapping is used instead.
    """
    versions = [int(entry.rsplit(" ", 1)[1]) for entry in registered if entry.startswith(f"{operator} ")]
    mine, theirs = (max((each for each in found if each <= opset), default=0) for found in (versions, own))
    if opset < 9 or mine >= max(theirs, 1):
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
