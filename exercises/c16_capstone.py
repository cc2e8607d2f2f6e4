"""Chapter 16: two networks with your own operators, delivered over both
exporters.

Each exercise here is the PyTorch half of a project. The other half is a
kernel in C++, a separate exercise: ``csrc/c16_resize_kernel.cpp`` and
``csrc/c16_knn_kernel.cpp``. Both halves follow these two signatures, so
that they fit together::

    lab::DynamicResize(x float[N, C, H, W], scales float[4]) -> y float[N, C, H', W']
    lab::KNN(xyz float[n, 3], offset int64[b]; k int) -> idx int64[n, k]

The domain ``lab`` has version 1. The grader runs your models on its own
kernels for these signatures, at sizes and factors that you have not
exported. ``torch.ops.oplab`` is loaded when your function is called. In
PyTorch, your operator may use it, or anything else: you write the
operator, its mapping for both exporters, and the kernel.

Check one with ``make check EX=c16.super_resolution``, and write your
report with ``oplab capstone``.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.onnx
from onnxscript import FLOAT, INT64, script  # onnxscript looks up a translation's types here
from onnxscript.values import Opset
from torch.onnx.symbolic_helper import parse_args

from oplab import todo


def super_resolution(net: torch.nn.Module, folder: Path) -> torch.nn.Module:
    """Deliver SRCNN with a factor that is an input.

    ``net`` is :class:`oplab.nets.srcnn.SRCNN`: it sharpens a photo that
    is already enlarged. Your module first enlarges the photo with your
    own operator; ``factor`` is a float32 tensor without dimensions, the
    same for height and width. The grader's ``net`` has different
    weights than ``load_srcnn()``, and your module does not change its
    inputs::

        >>> module = super_resolution(load_srcnn(), folder)
        >>> module(torch.rand(2, 3, 10, 8), torch.tensor(2.3)).shape
        torch.Size([2, 3, 23, 18])

    Write two files to ``folder``: ``torchscript.onnx``
    (TorchScript path) and ``dynamo.onnx`` (dynamo path). In each file

    - the inputs are ``photo`` and ``factor``, the output is ``y``, and
      batch, height and width of ``photo`` are dynamic;
    - there is one node ``lab::DynamicResize``, version 1 of its domain
      is imported, and ONNX's own Resize is not used;
    - all weights are in the file.

    ``torch.ops.oplab.dynamic_resize(x, scales)`` computes in PyTorch
    what your kernel computes. About 35 lines.
    """

    # TODO c16.super_resolution: write both files and return their module, in eval mode
    raise todo("c16.super_resolution")


def point_cloud(net: torch.nn.Module, folder: Path) -> torch.nn.Module:
    """Deliver the point-cloud classifier with your own neighbour
    search.

    ``net`` is :class:`oplab.nets.edge_net.EdgeNet` **as its training
    left it**. It calls ``net.knn(xyz, offset, k)`` for neighbours; put
    your own operator there. It returns int64 (n, k), as ``lab::KNN`` in
    ``csrc/c16_knn_kernel.cpp`` does: points of the same cloud only,
    nearest first, ties to the lower index; a row that is too short
    repeats its first entry. In each call, at least one cloud has k
    points. Clouds may be far from the origin, so compute distances from
    differences of coordinates. The grader's ``net`` has different
    weights than ``load_edge_net()``. Return the network in the state in
    which a product would ship it::

        >>> module = point_cloud(net, folder)
        >>> module(torch.rand(300, 3), torch.tensor([100, 300])).shape  # two clouds
        torch.Size([2, 8])

    Write two files to ``folder``: ``torchscript.onnx``
    (TorchScript path) and ``dynamo.onnx`` (dynamo path). In each file

    - the inputs are ``xyz`` and ``offset``, the output is ``logits``,
      and the numbers of points and of clouds are dynamic;
    - there is one node ``lab::KNN`` with the INT attribute ``k``, and
      version 1 of its domain is imported;
    - all weights are in the file.

    The TorchScript path needs opset 18 here (ScatterElements). About 40
    lines.
    """

    # TODO c16.point_cloud: write both files and return the network, with your operator
    raise todo("c16.point_cloud")
