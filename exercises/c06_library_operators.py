"""Chapter 06: symbolic functions for operators that a library adds, on
the TorchScript path.

The lesson maps other operators. ``ps_roi_align`` and ``spmm`` have no
arguments and return None: each registers its mapping with
``torch.onnx.register_custom_op_symbolic``. The grader calls each one in
its own process and then exports with
``torch.onnx.export(..., dynamo=False)``. ``ps_roi_pool`` exports a
module itself.

Check one with ``make check EX=c06.ps_roi_align``.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch.onnx.symbolic_helper import parse_args

from oplab import todo


def ps_roi_align() -> None:
    """Map torchvision's position-sensitive RoIAlign to ONNX at every
    opset from 9 on.

    The operator, as ``torchvision.ops.ps_roi_align`` calls it::

        torchvision::ps_roi_align(
            Tensor input, Tensor rois, float spatial_scale, int pooled_height,
            int pooled_width, int sampling_ratio) -> (Tensor output, Tensor channel_mapping)

    ``input`` is [N, C * h * w, H, W] for h = pooled_height and
    w = pooled_width, and ``rois`` is [K, 5]: the number of an image,
    x1, y1, x2, y2. The output is [K, C, h, w]::

        output[k, c, i, j] = aligned[k, (c * h + i) * w + j, i, j]

    where ``aligned``, [K, C * h * w, h, w], is the result of
    ``torchvision.ops.roi_align`` for the same arguments and
    ``aligned=True``. torchvision's Python function drops
    channel_mapping: return None for it.

    After the call, an export with opset ``n`` writes:

    - n >= 16: nodes of ONNX only, ``RoiAlign`` among them. The model
      takes any number of images and boxes, also no boxes, and images of
      any size; the number of channels is fixed. A negative
      sampling_ratio means the same as 0.
    - 9 <= n < 16: one node ``oplab::PSRoIAlign`` with the inputs input,
      rois and the attributes spatial_scale (FLOAT), pooled_height,
      pooled_width, sampling_ratio (INT), unchanged.

    No other operator is registered.

        >>> ps_roi_align()
        >>> graph = export(model, inputs, opset_version=16).graph
        >>> "RoiAlign" in [node.op_type for node in graph.node]
        True
        >>> node = export(model, inputs, opset_version=13).graph.node[0]
        >>> node.domain, node.op_type
        ('oplab', 'PSRoIAlign')

    About 30 lines.
    """

    # TODO c06.ps_roi_align: write nodes of ONNX from opset 16 on, oplab::PSRoIAlign from 9 on
    raise todo("c06.ps_roi_align")


def spmm() -> None:
    """Map a sparse product to one node ``oplab::SpMM``, with each input
    in its position.

    The operator is registered by ``import oplab.ops.sparse``, with the
    schema of torch_sparse::

        oplab_sparse::spmm_sum(
            Tensor? row, Tensor rowptr, Tensor col, Tensor? value, Tensor? colptr,
            Tensor? csr2csc, Tensor mat) -> Tensor

    It computes the product of a sparse matrix and the dense matrix
    ``mat``. If ``value`` is None, every entry of the sparse matrix
    is 1. ``row``, ``colptr`` and ``csr2csc`` serve the derivative: the
    product does not depend on them, whether they are given or not.

    The ONNX operator has the inputs ``rowptr, col, value, mat``, of
    which ``value`` is optional, and no attributes. An optional input
    that is not given has the empty name ``""``. After the call, at
    every opset from 9 on::

        >>> spmm()
        >>> product = torch.ops.oplab_sparse.spmm_sum
        >>> model = export(lambda p, c, v, mat: product(None, p, c, v, None, None, mat), ...)
        >>> list(model.graph.node[0].input)
        ['p', 'c', 'v', 'mat']
        >>> model = export(lambda p, c, mat: product(None, p, c, None, None, None, mat), ...)
        >>> list(model.graph.node[0].input)
        ['p', 'c', '', 'mat']

    About 5 lines.
    """

    # TODO c06.spmm: write one oplab::SpMM node, each input in its place, from opset 9 on
    raise todo("c06.spmm")


def ps_roi_pool(
    module: torch.nn.Module, inputs: tuple[torch.Tensor, torch.Tensor], path: Path
) -> None:
    """Export a module that calls ``torchvision::ps_roi_pool`` for
    version 2 of ``oplab``.

    The operator, as ``torchvision.ops.ps_roi_pool`` calls it::

        torchvision::ps_roi_pool(
            Tensor input, Tensor rois, float spatial_scale, int pooled_height,
            int pooled_width) -> (Tensor output, Tensor channel_mapping)

    It rounds the boxes to whole pixels, so RoiAlign cannot replace it.
    torchvision's Python function drops channel_mapping: return None for
    it.

    The ONNX operator ``oplab::PSRoIPool`` has two inputs, one output,
    ``spatial_scale`` (FLOAT) and ``pooled_shape`` (INTS: height,
    width). Use the TorchScript path and opset 13, and name the graph's
    inputs ``image`` and ``boxes``. Of the inputs' sizes only the number
    of boxes is dynamic: call it ``k``. ::

        >>> class Model(torch.nn.Module):
        ...     def forward(self, x, rois):
        ...         return torchvision.ops.ps_roi_pool(x, rois, (2, 3), spatial_scale=0.25)
        >>> ps_roi_pool(Model(), (torch.rand(1, 12, 9, 9), torch.rand(4, 5)), Path("pool.onnx"))
        >>> model = onnx.load("pool.onnx")
        >>> [(entry.domain, entry.version) for entry in model.opset_import]
        [('', 13), ('oplab', 2)]

    Args:
        module: calls the operator once, with its own scale and sizes,
            wherever it stores them.
        inputs: example inputs.
        path: the file to write.

    About 16 lines.
    """

    # TODO c06.ps_roi_pool: register the mapping, then export for version 2 of oplab
    raise todo("c06.ps_roi_pool")
