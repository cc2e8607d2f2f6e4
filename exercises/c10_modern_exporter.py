"""Chapter 10: operators on the dynamo path, from PyTorch to a file that
runs.

In this file ``export`` means ``torch.onnx.export(..., dynamo=True)`` at
its default opset, and a *table* is its argument
``custom_translation_table``. ``op`` is ONNX's opset 18, in which the
exporter translates; the file is converted to ``opset20`` afterwards.
``oplab_1`` is version 1 of the course's domain.

Check one with ``make check EX=c10.translate_hypot``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx_ir
import torch
from onnx import TensorProto
from onnxscript import FLOAT, INT64, opset20, script
from onnxscript import opset18 as op
from onnxscript.values import Opset
from torch.onnx.verification import verify_onnx_program

from oplab import todo

oplab_1 = Opset("oplab", 1)


def translate_hypot() -> dict[Callable[..., Any], Callable[..., Any]]:
    """A table with which ``torch.hypot`` is exported on the dynamo
    path, to standard operators.

    ::

        >>> program = export(model, (a, b), custom_translation_table=translate_hypot())
        >>> program(torch.tensor([3.0, 1e30]), torch.tensor([-4.0, 1e30]))[0]
        tensor([5.0000e+00, 1.4142e+30])

    ``hypot(a, b)`` is the square root of a² + b². The file returns
    PyTorch's numbers

    - for float32 and for float64, and for shapes that broadcast;
    - for all finite numbers: also where a² is too large or too small
      for the dtype, subnormal numbers, and 0 and 0.

    Returns:
        The ``custom_translation_table`` for ``torch.onnx.export``.

    About 10 lines.
    """

    # TODO c10.translate_hypot: a table for torch.hypot, right for both dtypes and all numbers
    raise todo("c10.translate_hypot")


def translate_searchsorted() -> dict[Callable[..., Any], Callable[..., Any]]:
    """A table with which ``torch.searchsorted`` is exported, to
    standard operators.

    ``searchsorted(a, b)`` returns, for each number of ``b``, how many
    numbers of the sorted row ``a`` are less: the place where it would
    be inserted. Its schema::

        >>> print(torch.ops.aten.searchsorted.Tensor._schema)
        aten::searchsorted.Tensor(Tensor sorted_sequence, Tensor self, *, bool out_int32=False,
            bool right=False, str? side=None, Tensor? sorter=None) -> Tensor

    The translation covers all of it:

    - with ``right=True``, and with ``side="right"``, numbers of ``a``
      that are equal are counted too;
    - the result is int64, with ``out_int32=True`` it is int32;
    - ``a`` may be unsorted if ``sorter`` is given: then ``a[sorter]``
      is sorted;
    - ``a`` is one row and ``b`` has any shape; or both have the same
      axes before the last one, and each row of ``b`` is searched in its
      own row of ``a``. A row of ``a`` is not empty;
    - both are float32, float64 or int64. In ``b``, infinities are
      allowed, and NaN, which is inserted at the end.

    ::

        >>> program = export(model, (a, b), custom_translation_table=translate_searchsorted())
        >>> program(torch.tensor([1.0, 3.0, 3.0, 8.0]), torch.tensor([3.0, 9.0]))[0]
        tensor([1, 4])

    Returns:
        The ``custom_translation_table`` for ``torch.onnx.export``.

    About 12 lines.
    """

    # TODO c10.translate_searchsorted: a table for torch.searchsorted and its arguments
    raise todo("c10.translate_searchsorted")


def data_dependent_shape() -> tuple[
    Callable[..., tuple[torch.Tensor, torch.Tensor]], dict[Any, Callable[..., Any]]
]:
    """Voxel pooling: one point for each occupied cell of a grid. How
    many depends on the data.

    Returns:
        ``(voxel_pool, table)``. ``voxel_pool(points, size)`` is **one
        operator** for the exporter (``torch.library.custom_op``);
        ``table`` translates it to standard operators.

    ``points`` is float32 ``[n, d]``, ``size`` a Python float above 0. A
    point is in the cell ``floor(points / size)``. For m occupied cells,
    in the order of their indices (first coordinate first), the operator
    returns

    - float32 ``[m, d]``, the mean of the points in the cell;
    - int64 ``[m]``, the number of points in the cell.

    ::

        >>> voxel_pool, table = data_dependent_shape()
        >>> voxel_pool(torch.tensor([[0.2, 0.1], [-0.5, 0.4], [0.4, 0.3]]), 1.0)
        (tensor([[-0.5000,  0.4000], [ 0.3000,  0.2000]]), tensor([1, 2]))

    A model that uses it is exported with a dynamic n. Later nodes may
    compute with m, so the file has one name for it in both outputs, and
    ``torch.library.opcheck`` passes. The file runs for every n, also
    for one point and for none.

    About 25 lines.
    """

    # TODO c10.data_dependent_shape: an operator with an honest fake, and its translation
    raise todo("c10.data_dependent_shape")


def attach_function(
    module: torch.nn.Module,
    inputs: tuple[torch.Tensor, ...],
    dynamic_shapes: Any,
    table: dict[Any, Callable[..., Any]],
    path: Path,
) -> None:
    """Ship a model with ``oplab::MyAdd`` as one file that stock ONNX
    Runtime runs, or refuse.

    - Export ``module`` on the dynamo path with ``dynamic_shapes`` and
      ``table``. The table makes each ``oplab::my_add`` one node
      ``MyAdd(a, b; alpha, beta)``. The nodes stay in the file.
    - Attach what the node means, ``alpha * a + beta * b``, as a
      model-local function: one function for float32 and float64, and
      for all nodes, whatever their attributes are.
    - Verify the result: run it on ``inputs`` and compare with PyTorch.
      Where an output is further than 1e-3 from PyTorch's, is NaN, or
      has another dtype or shape, raise an ``AssertionError`` **and
      write nothing**. The table comes from a colleague.
    - Write ``path``, one file with its weights.

    ::

        >>> attach_function(model, (a, b), None, table, "model.onnx")
        >>> onnxruntime.InferenceSession("model.onnx").run(None, feeds)  # without a library

    Args:
        module: in eval mode; PyTorch's results on ``inputs`` hold no
            NaN.
        inputs: example inputs.
        dynamic_shapes: as ``torch.onnx.export`` takes it.
        table: translations, which may be right or wrong. It is not
            changed.
        path: the file to write.

    About 20 lines.
    """

    # TODO c10.attach_function: export, attach what MyAdd means, verify, and write one file
    raise todo("c10.attach_function")
