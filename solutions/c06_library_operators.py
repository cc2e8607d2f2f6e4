"""Chapter 06: symbolic functions for operators that a library adds, on the TorchScript path.

``deform_conv`` and ``grid`` have no arguments and return None: each registers its mapping with
``torch.onnx.register_custom_op_symbolic``. The grader calls each one in its own process and then exports with
``torch.onnx.export(..., dynamo=False)``. ``foo`` exports a module itself.

In the specifications, ``export`` means that export and ``run`` means ONNX Runtime with the course's kernels.

Check one with ``make check EX=c06.deform_conv``.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch.onnx.symbolic_helper import parse_args

from oplab import todo


def deform_conv() -> None:
    """Map torchvision's deformable convolution to ONNX at every opset from 9 on.

    The operator, as ``torchvision.ops.deform_conv2d`` and ``DeformConv2d`` call it::

        torchvision::deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias,
            int stride_h, int stride_w, int pad_h, int pad_w, int dilation_h, int dilation_w,
            int groups, int offset_groups, bool use_mask) -> Tensor

    Its first five arguments are always tensors. If ``use_mask`` is False, ``mask`` is a placeholder: zeros of shape (N, 1).

    After the call, an export with opset ``n`` writes:

    - n >= 19: one node ``DeformConv`` of ONNX, ``onnx.defs.get_schema("DeformConv", 19)``;
    - 9 <= n < 19: one node ``oplab::DeformConv2d`` with the same inputs and attributes.

    Each call becomes its own node, and no other operator is registered.

    Every tensor that the convolution reads is an input of that node, and nothing else is::

        >>> deform_conv()
        >>> [node.op_type for node in export(model, inputs, opset_version=19).graph.node]
        ['DeformConv']
        >>> node = export(model, inputs, opset_version=13).graph.node[0]
        >>> node.domain, node.op_type
        ('oplab', 'DeformConv2d')

    About 20 lines.
    """

    # ANSWER c06.deform_conv: map all five tensors and nine parameters to DeformConv from opset 19 on, to oplab::DeformConv2d from 9 on
    def writes(name):
        @parse_args("v", "v", "v", "v", "v", "i", "i", "i", "i", "i", "i", "i", "i", "b")
        def symbolic(g, x, weight, offset, mask, bias, sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask):
            inputs = [x, weight, offset, bias]
            if use_mask:
                inputs.append(mask)
            return g.op(
                name,
                *inputs,
                strides_i=[sh, sw],
                pads_i=[ph, pw, ph, pw],
                dilations_i=[dh, dw],
                group_i=groups,
                offset_group_i=offset_groups,
            )

        return symbolic

    torch.onnx.register_custom_op_symbolic("torchvision::deform_conv2d", writes("oplab::DeformConv2d"), 9)
    torch.onnx.register_custom_op_symbolic("torchvision::deform_conv2d", writes("DeformConv"), 19)
    # END


def grid() -> None:
    """Map ``oplab::grid`` to one node ``oplab::Grid``, with its optional inputs in the correct positions.

    The operator, with the schema of torch_cluster::

        oplab::grid(Tensor pos, Tensor size, Tensor? start=None, Tensor? end=None) -> Tensor

    The ONNX operator has the inputs ``pos, size, start, end``; the last two are optional. An input that is not given is
    left out at the end of the list, or has the empty name ``""``. After the call, at every opset from 9 on::

        >>> grid()
        >>> model = export(lambda pos, size: torch.ops.oplab.grid(pos, size), ...)
        >>> list(model.graph.node[0].input)  # or ['pos', 'size', '', '']
        ['pos', 'size']
        >>> model = export(lambda pos, size, end: torch.ops.oplab.grid(pos, size, None, end), ...)
        >>> list(model.graph.node[0].input)
        ['pos', 'size', '', 'end']

    The graph's output is int64, like the operator's result. About 5 lines.
    """

    # ANSWER c06.grid: write one oplab::Grid node whose optional inputs are in their own positions, from opset 9 on
    @parse_args("v", "v", "v", "v")
    def symbolic(g, pos, size, start, end):
        return g.op("oplab::Grid", pos, size, start, end)

    torch.onnx.register_custom_op_symbolic("oplab::grid", symbolic, 9)
    # END


def foo(module: torch.nn.Module, inputs: tuple[torch.Tensor, torch.Tensor], path: Path) -> None:
    """Export a module that calls ``oplab::foo_forward`` to a model for version 2 of the domain ``oplab``.

    The operator, ``attr1 * input1 + input2 ** attr2``::

        oplab::foo_forward(Tensor input1, Tensor input2, float attr1, int attr2) -> Tensor

    Its ONNX operator ``oplab::Foo`` has two inputs, ``attr1`` (FLOAT) and ``attr2`` (INT). Use the TorchScript path and
    opset 13, and name the graph's inputs ``input1`` and ``input2``::

        >>> class Model(torch.nn.Module):
        ...     def forward(self, input1, input2):
        ...         return torch.ops.oplab.foo_forward(input1, input2, 0.75, 3)
        >>> foo(Model(), (torch.rand(2, 3), torch.rand(2, 3)), "foo.onnx")
        >>> model = onnx.load("foo.onnx")
        >>> [(entry.domain, entry.version) for entry in model.opset_import]
        [('', 13), ('oplab', 2)]

    Args:
        module: calls the operator once, with its own values of ``attr1`` and ``attr2``, wherever it stores them.
        inputs: example inputs.
        path: the file to write.

    About 12 lines.
    """

    # ANSWER c06.foo: register the mapping with both attributes, then export the module for version 2 of oplab
    @parse_args("v", "v", "f", "i")
    def symbolic(g, input1, input2, attr1, attr2):
        return g.op("oplab::Foo", input1, input2, attr1_f=attr1, attr2_i=attr2)

    torch.onnx.register_custom_op_symbolic("oplab::foo_forward", symbolic, 9)
    torch.onnx.export(
        module,
        inputs,
        path,
        dynamo=False,
        opset_version=13,
        input_names=["input1", "input2"],
        custom_opsets={"oplab": 2},
    )
    # END
