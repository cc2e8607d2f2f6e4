"""Chapter 03: models whose sizes are known only when they run.

Check one with ``make check EX=c03.dynamic_batch``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from onnxscript import FLOAT
from onnxscript import opset18 as op

from oplab import todo


def dynamic_batch(
    model: torch.nn.Module,
    photo: torch.Tensor,
    gain: torch.Tensor,
    path: Path,
) -> None:
    """Write ``model`` as an ONNX file whose header states its sizes
    correctly.

    ``model(photo, gain)`` has one gain for each photo of the batch. It
    takes every even height and width, and three channels. Its code
    computes with the sizes of ``photo``, in ways that you do not know.
    The file

    - has the inputs ``"photo"`` and ``"gain"`` and the output
      ``"output"``;
    - takes any batch, and any even height and width. In the header
      these axes have names: the name of the batch contains ``batch``
      and is the same for ``photo`` and ``gain``; the other two names
      contain ``height`` and ``width`` (``2*half_height`` is fine);
    - has the number 3 for the channels of ``photo``;
    - computes what the model computes, at every size.

    The weights may be in the file or next to it.

    Args:
        model: in eval mode; its forward's arguments are called photo
            and gain.
        photo: float32 ``[N, 3, H, W]``, one possible input, H and W 4
            or more.
        gain: float32 ``[N]``.
        path: the file to write.

    About 10 lines.
    """
    # ANSWER c03.dynamic_batch: write the file, every size named that may change, channels fixed
    # Names as text, not Dim("batch"): where the code fixes a size, the export then fails.
    torch.onnx.export(
        model,
        (photo, gain),
        path,
        dynamo=True,  # a TorchScript trace would keep sizes that Python has computed
        input_names=["photo", "gain"],
        output_names=["output"],
        dynamic_shapes={"photo": {0: "batch", 2: "height", 3: "width"}, "gain": {0: "batch"}},
        verbose=False,
    )
    # END


def tensor_scale_ts(x: torch.Tensor, factors: torch.Tensor) -> torch.Tensor:
    """Bicubic resize by two factors that are a tensor, for the
    **TorchScript path**.

    In PyTorch it returns ``[N, C, floor(H * factors[0]),
    floor(W * factors[1])]``. The products are float32, as in ONNX
    Runtime, so that both have the same size. Output pixel i is at
    ``(i + 0.5) / factor - 0.5`` in the input, even where the floor has
    cut something off; the cubic has a = -0.75.

    Exported with ``dynamo=False`` at any opset from 11 to 20, it
    becomes one ``Resize`` that reads its ``scales`` from the graph
    input ``factors``, and the graph has standard operators only::

        >>> tensor_scale_ts(torch.rand(1, 3, 10, 12), torch.tensor([2.3, 1.5])).shape
        torch.Size([1, 3, 23, 18])
        >>> model = export(tensor_scale_ts, (x, factors), opset_version=11)
        >>> [value.name for value in model.graph.input]
        ['x', 'factors']

    Args:
        x: float32 ``[N, C, H, W]``.
        factors: float32 ``[2]``, for height and width, each above 0.
            Neither argument is
        modified.

    About 20 lines.
    """

    # ANSWER c03.tensor_scale_ts: resize in PyTorch, and write the ONNX nodes that do the same
    class BicubicResize(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factors):
            # int64 * float32 is a float32 product
            size = (torch.tensor(x.shape[2:]) * factors).int().tolist()
            return torch.ops.aten.upsample_bicubic2d(x, size, False, *factors.tolist())

        @staticmethod
        def symbolic(g, x, factors):
            ones = g.op("Constant", value_t=torch.ones(2))
            scales = g.op("Concat", ones, factors, axis_i=0)
            roi = g.op("Constant", value_t=torch.tensor([]))
            place = {"coordinate_transformation_mode_s": "half_pixel"}
            cubic = {"mode_s": "cubic", "cubic_coeff_a_f": -0.75}
            return g.op("Resize", x, roi, scales, **place, **cubic)

    return BicubicResize.apply(x, factors)
    # END


def tensor_scale_dynamo() -> tuple[
    Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    dict[Any, Callable[..., Any]],
]:
    """*Bilinear* resize by one factor that is a tensor, for the
    **dynamo path**.

    Returns:
        ``(resize, table)``. ``resize(x, factor)`` is used in models;
        ``table`` is passed to ``torch.onnx.export`` as
        ``custom_translation_table``.

    ``x`` is float32 ``[N, C, H, W]``, ``factor`` a float32 tensor
    **without axes**, above 0. ``resize`` returns
    ``[N, C, floor(H * factor), floor(W * factor)]``. The products are
    float32, and output pixel i is at ``(i + 0.5) / factor - 0.5`` in
    the input::

        >>> resize, table = tensor_scale_dynamo()
        >>> resize(torch.rand(1, 3, 10, 12), torch.tensor(2.3)).shape
        torch.Size([1, 3, 23, 27])

    A model that uses it is exported with ``dynamo=True`` and every size
    of ``x`` dynamic. It then has the input ``factor``, one ``Resize``
    that reads its ``scales`` from it, and standard operators only. The
    model's code after ``resize`` may compute with the new height and
    width. For a contiguous ``x``, ``torch.library.opcheck`` passes.

    About 20 lines.
    """

    # ANSWER c03.tensor_scale_dynamo: define an operator, its fake and its translation to ONNX
    @torch.library.custom_op("c03::bilinear_by", mutates_args=())
    def resize(x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        size = (torch.tensor(x.shape[2:]) * factor).int().tolist()
        return torch.ops.aten.upsample_bilinear2d(x, size, False, factor.item(), factor.item())

    @resize.register_fake
    def _(x, factor):
        context = torch.library.get_ctx()
        return x.new_empty(*x.shape[:2], context.new_dynamic_size(), context.new_dynamic_size())

    def translate(x: FLOAT, factor: FLOAT) -> FLOAT:
        both = op.Expand(factor, op.Constant(value_ints=[2]))
        scales = op.Concat(op.Constant(value_floats=[1.0, 1.0]), both, axis=0)
        return op.Resize(
            x, None, scales, mode="linear", coordinate_transformation_mode="half_pixel"
        )

    return resize, {torch.ops.c03.bilinear_by.default: translate}
    # END
