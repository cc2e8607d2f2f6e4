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

    # ANSWER c16.super_resolution: write both files and return their module, in eval mode
    @torch.library.custom_op("lab::dynamic_resize", mutates_args=())
    def dynamic_resize(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        return torch.ops.oplab.dynamic_resize(x, scales)

    @dynamic_resize.register_fake
    def _(x, scales):
        context = torch.library.get_ctx()  # both sizes are data
        sides = context.new_dynamic_size(), context.new_dynamic_size()
        return x.new_empty(x.shape[0], x.shape[1], *sides)

    class SuperResolution(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, photo, factor):
            scales = torch.cat([torch.ones(2), factor.expand(2)])
            return self.net(torch.ops.lab.dynamic_resize(photo, scales))

    def symbolic(g, x, scales):
        batch, channels, _, _ = x.type().varyingSizes()
        return g.op("lab::DynamicResize", x, scales).setType(
            x.type().with_sizes([batch, channels, None, None])
        )

    lab = Opset("lab", 1)

    @script(lab)
    def translation(x: FLOAT[...], scales: FLOAT[...]) -> FLOAT[...]:
        return lab.DynamicResize(x, scales)

    module = SuperResolution().eval()
    example = (torch.rand(2, 3, 12, 10), torch.tensor(2.0))
    names = {"input_names": ["photo", "factor"], "output_names": ["y"]}
    axes = {0: "batch", 2: "height", 3: "width"}
    torch.onnx.register_custom_op_symbolic("lab::dynamic_resize", symbolic, 9)
    torch.onnx.export(
        module,
        example,
        folder / "torchscript.onnx",
        dynamo=False,
        opset_version=17,
        dynamic_axes={"photo": axes},
        **names,
    )
    torch.onnx.export(
        module,
        example,
        folder / "dynamo.onnx",
        dynamo=True,
        verbose=False,
        external_data=False,
        dynamic_shapes={"photo": axes, "factor": {}},
        custom_translation_table={torch.ops.lab.dynamic_resize.default: translation},
        **names,
    )
    return module
    # END


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

    # ANSWER c16.point_cloud: write both files and return the network, with your operator
    @torch.library.custom_op("lab::knn", mutates_args=())
    def knn(xyz: torch.Tensor, offset: torch.Tensor, k: int) -> torch.Tensor:
        idx = torch.ops.oplab.knn_query(k, xyz, offset)[0].to(torch.int64)
        return torch.where(idx < 0, idx[:, :1], idx)

    @knn.register_fake
    def _(xyz, offset, k):
        return xyz.new_empty(xyz.shape[0], k, dtype=torch.int64)

    @parse_args("v", "v", "i")
    def symbolic(g, xyz, offset, k):
        points = xyz.type().varyingSizes()[0]
        return g.op("lab::KNN", xyz, offset, k_i=k).setType(
            xyz.type().with_sizes([points, k]).with_dtype(torch.int64)
        )

    lab = Opset("lab", 1)

    @script(lab)
    def translation(xyz: FLOAT[...], offset: INT64[...], k: int) -> INT64[...]:
        return lab.KNN(xyz, offset, k=k)

    net.knn = torch.ops.lab.knn
    net.eval()
    example = (torch.rand(60, 3), torch.tensor([25, 60]))
    names = {"input_names": ["xyz", "offset"], "output_names": ["logits"]}
    axes = {"xyz": {0: "points"}, "offset": {0: "clouds"}}
    torch.onnx.register_custom_op_symbolic("lab::knn", symbolic, 9)
    torch.onnx.export(
        net,
        example,
        folder / "torchscript.onnx",
        dynamo=False,
        opset_version=18,
        dynamic_axes=axes,
        **names,
    )
    torch.onnx.export(
        net,
        example,
        folder / "dynamo.onnx",
        dynamo=True,
        verbose=False,
        external_data=False,
        dynamic_shapes=axes,
        custom_translation_table={torch.ops.lab.knn.default: translation},
        **names,
    )
    return net
    # END
