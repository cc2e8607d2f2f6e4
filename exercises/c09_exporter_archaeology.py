"""Chapter 09: old export code, ported to today's exporter.

All three exercises use the TorchScript path,
``torch.onnx.export(..., dynamo=False)``. The old code that they port is
in their docstrings; the operators and Functions that it needs are in
``oplab.archaeology.relics``.

In the specifications, ``export`` means such an export, and ``ops``
lists the types of a model's nodes without constants.

Check one with ``make check EX=c09.port_register_op``.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import onnx
import torch
from torch.onnx import OperatorExportTypes, register_custom_op_symbolic, symbolic_helper
from torch.onnx.symbolic_helper import parse_args

from oplab import todo
from oplab.archaeology import relics


def port_register_op() -> None:
    """Register these two mappings again. They were written for torch
    1.12::

        from torch.onnx.symbolic_registry import register_op

        def cosh(g, input, *, out=None):
            return g.op("Cosh", input)

        @parse_args("v", "f")
        def scale(g, x, factor):
            return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(factor)))

        for opset in range(9, 16):
            register_op("cosh", cosh, "", opset)
            register_op("scale", scale, "relics", opset)

    The third argument was the namespace of the *torch* operator: an
    empty one for ATen, ``relics`` for the library's
    ``torch.ops.relics.scale(x, factor)``. After the call, for float32
    tensors of any shape and every opset from 9 on::

        >>> port_register_op()
        >>> ops(export(torch.cosh, (x,), opset_version=9))
        ['Cosh']
        >>> ops(export(lambda x: torch.ops.relics.scale(x, 2.5), (x,), opset_version=20))
        ['Mul']

    The old code registered nothing for opsets 7 and 8, so an export of
    ``cosh`` failed there. Your code must not write an invalid model
    there. About 12 lines.
    """

    # TODO c09.port_register_op: register both from opset 9 on, and nothing invalid below
    raise todo("c09.port_register_op")


def port_python_op(model: torch.nn.Module, x: torch.Tensor, path: Path) -> dict[str, int]:
    """Export Functions that have no ``symbolic``, with one handler. In
    torch 1.10 it was::

        def handler(g, n, *args, **kwargs):
            name = kwargs["name"]
            if name == "MyClip":
                ret = g.op("Clip", args[0], min_f=args[1], max_f=args[2])
            elif name == "MyRelu":
                ret = g.op("Relu", args[0])
            elif name == "MyScale":
                ret = g.op("relics::Scale", args[0], factor_f=args[1])
            else:
                return _unimplemented("prim::PythonOp", "unknown Function: " + name)
            ret.setType(n.type())
            return ret

        register_custom_op_symbolic("::prim_PythonOp", handler, 1)
        torch.onnx.export(model, x, path, opset_version=9)

    Your file has opset 13, the input ``x``, the output ``y``, and a
    dynamic first axis ``batch``. Each Function becomes the node that
    the handler writes for it, and every shape in the file keeps the
    dynamic axis. A Function that the handler does not know raises an
    exception with the Function's name, and no model is written.

    Args:
        model: in eval mode; it uses ``MyClip``, ``MyRelu`` and
            ``MyScale`` of ``oplab.archaeology.relics``, with ints or
            floats, and operators of PyTorch.
        x: an example input, float32 [batch, n].
        path: the file to write.

    Returns:
        How often the handler was called in this export, by the
        Function's name:
        ``{"MyClip": 1, "MyRelu": 2}``.

    About 25 lines.
    """
    # TODO c09.port_python_op: register a handler that is called, count its calls, and export
    raise todo("c09.port_python_op")


def export_modes(model: torch.nn.Module, x: torch.Tensor, path: Path, leave: str) -> list[str]:
    """Export in the mode that leaves as much to PyTorch as ``leave``
    states; list what it left.

    ``leave`` is one of

    - ``"nothing"``: every operator becomes an ONNX operator. Where that
      is not possible, the exporter's own error is raised;
    - ``"unmapped"``: operators without a mapping become ``ATen`` nodes
      that carry the operator's name as an attribute;
    - ``"unmapped by name"``: operators without a mapping become nodes
      whose type is the operator's name;
    - ``"everything"``: every ATen operator becomes an ``ATen`` node,
      even where there is a mapping.

    Any other value is a ValueError that names it. The model calls ATen
    operators only. The file has opset 13, the input ``x`` and the
    output ``y``.

    Returns:
        The PyTorch operators that a runtime must provide, also for the
        bodies of ``If``, sorted, each once, as PyTorch names them:
        ``aten::asinh``, and with its
        overload, where the node states it, ``aten::mul.Tensor``. The
        domain ``org.pytorch.aten`` means the namespace ``aten``::

            >>> export_modes(model, x, path, "unmapped")  # asinh(x) * x
            ['aten::asinh']
            >>> export_modes(model, x, path, "everything")
            ['aten::asinh', 'aten::mul.Tensor']

    About 25 lines.
    """
    # TODO c09.export_modes: export in the right mode, and read from the file what is left
    raise todo("c09.export_modes")
