"""An operator library in Python: ``torch.ops.oplab_sparse.spmm_sum``, with the schema of ``torch_sparse::spmm_sum``.

Importing this module registers the operator. It stands for libraries that take minutes to compile: graph networks of torch_geometric
call the original.
"""

from __future__ import annotations

import torch

_LIBRARY = torch.library.Library("oplab_sparse", "DEF")
_LIBRARY.define(
    "spmm_sum(Tensor? row, Tensor rowptr, Tensor col, Tensor? value, Tensor? colptr, Tensor? csr2csc, Tensor mat) -> Tensor"
)


@torch.library.impl(_LIBRARY, "spmm_sum", "CPU")
def spmm_sum(
    row: torch.Tensor | None,
    rowptr: torch.Tensor,
    col: torch.Tensor,
    value: torch.Tensor | None,
    colptr: torch.Tensor | None,
    csr2csc: torch.Tensor | None,
    mat: torch.Tensor,
) -> torch.Tensor:
    """The product of a sparse matrix in CSR form and a dense matrix.

    Args:
        row, colptr, csr2csc: caches for the derivative; the product does not read them.
        rowptr: int64 [m + 1]; row i has the entries rowptr[i] to rowptr[i + 1].
        col: int64 [e], the column of each entry.
        value: [e], the value of each entry; every value is 1 if it is None.
        mat: [k, n].

    Returns:
        [m, n], of the dtype of ``mat``.
    """
    entries = mat[col] if value is None else mat[col] * value[:, None]
    rows = torch.repeat_interleave(rowptr.diff())
    return mat.new_zeros(len(rowptr) - 1, mat.shape[1]).index_add_(0, rows, entries)


@torch.library.register_fake("oplab_sparse::spmm_sum")
def _(row, rowptr, col, value, colptr, csr2csc, mat):
    return mat.new_empty(rowptr.shape[0] - 1, mat.shape[1])
