"""Chapter 04: symbolic functions for ATen operators that the
TorchScript exporter lacks.

Each function below takes no arguments and returns nothing: it registers
one mapping with ``torch.onnx.register_custom_op_symbolic``. The grader
calls it in a separate process and then exports with the TorchScript
path, ``torch.onnx.export(..., dynamo=False)``.

In the specifications, ``export`` means that export, ``run`` runs ONNX
Runtime, and ``allclose`` compares with NumPy.

Check one with ``make check EX=c04.asinh``.
"""

from __future__ import annotations

import math

import torch

from oplab import todo


def asinh() -> None:
    """Map ``torch.asinh`` to one ONNX node.

    The operator's schema is ``aten::asinh(Tensor self) -> Tensor``.
    After the call, for a float32 ``x`` of any shape and every opset
    from 9 on::

        >>> asinh()
        >>> model = export(torch.asinh, (x,), opset_version=9)
        >>> [node.op_type for node in model.graph.node]
        ['Asinh']
        >>> allclose(run(model, x), np.arcsinh(x))
        True

    About 4 lines.
    """

    # TODO c04.asinh: register the mapping from aten::asinh to ONNX, valid from opset 9 on
    raise todo("c04.asinh")


def per_opset() -> None:
    """Map ``torch.sinh`` to the operators of each opset.

    Its schema is ``aten::sinh(Tensor self) -> Tensor``. ONNX has
    ``Sinh`` from opset 9 on. Before that,
    ``sinh(x) = (e^x - e^-x) / 2`` has to be composed from older
    operators. After the call, for a float32 ``x`` of any shape::

        >>> per_opset()
        >>> model = {n: export(torch.sinh, (x,), opset_version=n) for n in (7, 8, 9, 13, 20)}
        >>> [n for n in model if "Sinh" in [node.op_type for node in model[n].graph.node]]
        [9, 13, 20]
        >>> all(allclose(run(model[n], x), np.sinh(x)) for n in model)
        True

    About 10 lines.
    """

    # TODO c04.per_opset: write a composition at opsets 7 and 8, the native Sinh from 9 on
    raise todo("c04.per_opset")


def sinc() -> None:
    """Map ``torch.sinc`` to standard ONNX operators.

    Its schema is ``aten::sinc(Tensor self) -> Tensor``.
    ``sinc(x) = sin(pi x) / (pi x)``, and 1 where ``x`` is 0. After the
    call, for ``x`` of any shape in float16, float32 or float64 and
    every opset from 9 on::

        >>> sinc()
        >>> model = export(torch.sinc, (x,), opset_version=9)
        >>> y = run(model, x)
        >>> y.dtype == x.dtype and allclose(y, np.sinc(x))  # for float64 within 1e-9
        True
        >>> run(model, np.float32([0, 0.5, 1.5]))
        array([ 1.        ,  0.63661975, -0.21220659], dtype=float32)

    (A float64 tensor without axes is excluded: the exporter itself
    converts it to float32.) About 8 lines.
    """

    # TODO c04.sinc: write sin(pi x) / (pi x), 1 at x = 0, in the dtype of x, from opset 9 on
    raise todo("c04.sinc")


def hypot() -> None:
    """Map ``torch.hypot`` to standard ONNX operators.

    Its schema is ``aten::hypot(Tensor self, Tensor other) -> Tensor``.
    ``hypot(x, y) = sqrt(x^2 + y^2)``, and no intermediate result leaves
    the range of the dtype. After the call, for finite ``x`` and ``y``
    of one dtype, float32 or float64, whose shapes broadcast, and every
    opset from 9 on::

        >>> hypot()
        >>> model = export(torch.hypot, (x, y), opset_version=9)
        >>> run(model, np.float32([3, 3e30, 3e-30, 0]), np.float32([-4, 4e30, 4e-30, 0]))
        array([5.e+00, 5.e+30, 5.e-30, 0.e+00], dtype=float32)

    With M and m the larger and the smaller of |x| and |y|:
    ``hypot(x, y) = M sqrt(1 + (m / M)^2)``. About 10 lines.
    """

    # TODO c04.hypot: write sqrt(x^2 + y^2) without overflow or underflow, and 0 at (0, 0)
    raise todo("c04.hypot")
