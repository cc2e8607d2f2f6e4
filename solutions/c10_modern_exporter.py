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

    # ANSWER c10.translate_hypot: a table for torch.hypot, right for both dtypes and all numbers
    def translate(a: FLOAT, b: FLOAT) -> FLOAT:
        a, b = op.Abs(a), op.Abs(b)
        large, small = op.Max(a, b), op.Min(a, b)
        one = op.CastLike(1.0, large)  # a bare 1.0 is a float32, and Where does not mix dtypes
        ratio = op.Div(small, op.Where(op.Equal(large, op.CastLike(0.0, large)), one, large))
        return op.Mul(large, op.Sqrt(op.Add(one, op.Mul(ratio, ratio))))

    return {torch.ops.aten.hypot.default: translate}
    # END


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

    # ANSWER c10.translate_searchsorted: a table for torch.searchsorted and its arguments
    def translate(
        sequence: FLOAT,
        values: FLOAT,
        out_int32: bool = False,
        right: bool = False,
        side: str | None = None,
        sorter: INT64 = None,
    ) -> INT64:
        # Counting does not need an order, so the translation needs no sorter.
        row = op.Unsqueeze(sequence, [-2]) if len(sequence.shape) > 1 else sequence
        x = op.Unsqueeze(values, [-1])
        # Not(Greater), not LessOrEqual: comparisons with NaN are false, and NaN is last.
        after = right or side == "right"
        passed = op.Not(op.Greater(row, x)) if after else op.Not(op.GreaterOrEqual(row, x))
        kind = TensorProto.INT32 if out_int32 else TensorProto.INT64
        return op.ReduceSum(op.Cast(passed, to=kind), [-1], keepdims=0)

    return {torch.ops.aten.searchsorted.Tensor: translate}
    # END


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

    # ANSWER c10.data_dependent_shape: an operator with an honest fake, and its translation
    @torch.library.custom_op("c10ex::voxel_pool", mutates_args=())
    def voxel_pool(points: torch.Tensor, size: float) -> tuple[torch.Tensor, torch.Tensor]:
        cells = torch.floor(points / size)
        _, cell_of, counts = torch.unique(cells, dim=0, return_inverse=True, return_counts=True)
        sums = points.new_zeros(len(counts), points.shape[1]).index_add_(0, cell_of, points)
        return sums / counts[:, None], counts

    @voxel_pool.register_fake
    def _(points, size):
        m = torch.library.get_ctx().new_dynamic_size()  # one unknown size in both outputs
        return points.new_empty(m, points.shape[1]), points.new_empty(m, dtype=torch.int64)

    def translate(points: FLOAT, size: float) -> tuple[FLOAT, INT64]:
        cells = op.Floor(op.Div(points, op.Constant(value_float=size)))
        _, _, cell_of, counts = op.Unique(cells, axis=0)
        shape = op.Concat(op.Shape(counts), op.Shape(points, start=1), axis=0)
        sums = op.Expand(0.0, shape)
        sums = op.ScatterND(sums, op.Unsqueeze(cell_of, [1]), points, reduction="add")
        return op.Div(sums, op.Cast(op.Unsqueeze(counts, [1]), to=1)), counts

    return voxel_pool, {torch.ops.c10ex.voxel_pool.default: translate}
    # END


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

    # ANSWER c10.attach_function: export, attach what MyAdd means, verify, and write one file
    @script(oplab_1)
    def MyAdd(a, b, alpha: float, beta: float):
        left = opset20.Mul(opset20.CastLike(opset20.Constant(value_float=alpha), a), a)
        right = opset20.Mul(opset20.CastLike(opset20.Constant(value_float=beta), b), b)
        return opset20.Add(left, right)

    options = {"dynamic_shapes": dynamic_shapes, "custom_translation_table": table}
    program = torch.onnx.export(module, inputs, dynamo=True, verbose=False, **options)
    function = onnx_ir.from_proto(MyAdd.to_function_proto())
    program.model.functions[function.identifier()] = function
    expected = module(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for got, right in zip(program(*inputs), expected, strict=True):
        # The VerificationInfo below broadcasts before it compares.
        assert got.shape == right.shape, f"shape {list(got.shape)}, not {list(right.shape)}"
    for info in verify_onnx_program(program, inputs):
        assert info.actual_dtype == info.expected_dtype, f"{info.name}: {info.actual_dtype}"
        # Not "if difference > 1e-3: raise": no comparison with NaN is true.
        assert info.max_abs_diff <= 1e-3, f"{info.name}: {info.max_abs_diff}"
    program.save(path, external_data=False)
    # END
