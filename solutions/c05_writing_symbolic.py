"""Chapter 05: symbolic functions with attributes, optional inputs,
dtypes and several outputs.

``my_add``, ``plugin``, ``dtypes``, ``kthvalue`` and ``gelu_tanh`` take
no arguments and return nothing: each registers one mapping with
``torch.onnx.register_custom_op_symbolic``. ``clip`` *is* a symbolic
function. The grader calls them in separate processes and exports with
the TorchScript path, ``torch.onnx.export(..., dynamo=False)``.

``my_add`` is a repair: the function before it is given and wrong.
Repair a copy of it inside your function, because ``oplab reset``
restores that function alone.

In the specifications, ``export`` means that export, and ``run`` runs
ONNX Runtime with the kernels of ``oplab.session``.

Check one with ``make check EX=c05.my_add``.
"""

from __future__ import annotations

import math

import torch
from torch.onnx.symbolic_helper import parse_args

from oplab import todo


@parse_args("v", "v", "f", "f")
def fewer_nodes(g, a, b, alpha, beta):
    """Given, with two faults: a mapping of ``oplab::my_add`` that
    writes few nodes.
    """

    def term(x, factor):
        if abs(factor) == 1:  # nothing to multiply
            return x
        return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(factor)))

    return g.op("Add", term(a, alpha), term(b, beta))


def my_add() -> None:
    """Repair ``fewer_nodes``, and register it as the mapping of
    ``torch.ops.oplab.my_add``.

    Its author tested ``my_add(a, b, 0.5, 1.0)`` in float32, where both
    faults do not show. The schema is ``oplab::my_add(Tensor a, Tensor
    b, float alpha=3.0, float beta=2.0) -> Tensor``, and
    ``my_add(a, b, alpha, beta) = alpha a + beta b``, with the
    coefficients of each call. After the registration, for ``a`` and
    ``b`` of one shape in float16, float32 or float64 and every opset
    from 9 on::

        >>> my_add()
        >>> weighted = lambda a, b: torch.ops.oplab.my_add(a, b, 0.1, -2.0)
        >>> model = export(weighted, (a, b), opset_version=9)
        >>> y = run(model, a, b)
        >>> y.dtype == a.dtype and y.shape == a.shape
        True
        >>> allclose(y, 0.1 * a - 2.0 * b)  # float64: within 1e-12
        True

    The nodes are ONNX's own. A coefficient of 1 or -1 has no ``Mul``,
    and the graph has no ``Cast``. (A float64 tensor without axes is
    excluded: the exporter itself converts it to float32.)
    """

    # ANSWER c05.my_add: find the two faults of fewer_nodes, and register it without them
    @parse_args("v", "v", "f", "f")
    def symbolic(g, a, b, alpha, beta):
        def term(x, factor):
            if factor == 1:
                return x
            if factor == -1:
                return g.op("Neg", x)
            # float64 keeps the digits, and without axes the constant gets the dtype of x.
            constant = torch.tensor(factor, dtype=torch.float64)
            return g.op("Mul", x, g.op("Constant", value_t=constant))

        return g.op("Add", term(a, alpha), term(b, beta))

    torch.onnx.register_custom_op_symbolic("oplab::my_add", symbolic, 9)
    # END


def plugin() -> None:
    """Map ``oplab::my_add`` to the custom operator
    ``oplab::MyAdd(a, b; alpha, beta) -> y``.

    ``alpha`` and ``beta`` are FLOAT attributes. The file has to run
    where the kernel takes only float32 and float64, as in OpenVINO: for
    float16 the graph casts to float32 before the node and back after
    it. The graph declares the type of the node's output. After the
    call, for opset 9 and above::

        >>> plugin()
        >>> model = export(lambda a, b: torch.ops.oplab.my_add(a, b, 0.5, -2.0), (a, b))
        >>> [(node.domain, node.op_type) for node in model.graph.node]  # float32 and float64
        [('oplab', 'MyAdd')]
        >>> [node.op_type for node in model.graph.node]  # float16
        ['Cast', 'Cast', 'MyAdd', 'Cast']
        >>> y = run(model, a, b)  # 0.5 * a - 2.0 * b, in the dtype of a

    About 9 lines.
    """

    # ANSWER c05.plugin: map oplab::my_add to one oplab::MyAdd node, in float32 for float16
    @parse_args("v", "v", "f", "f")
    def symbolic(g, a, b, alpha, beta):
        half = a.type().dtype() is torch.float16
        if half:
            a, b = (g.op("Cast", x, to_i=torch.onnx.TensorProtoDataType.FLOAT) for x in (a, b))
        # ONNX has no rule for the output type of a foreign operator: it is that of an input.
        y = g.op("oplab::MyAdd", a, b, alpha_f=alpha, beta_f=beta).setType(a.type())
        return g.op("Cast", y, to_i=torch.onnx.TensorProtoDataType.FLOAT16) if half else y

    torch.onnx.register_custom_op_symbolic("oplab::my_add", symbolic, 9)
    # END


def clip(g, x, low, high):
    """The symbolic function of ``MyClip``: one ``Clip`` node, valid at
    opsets 9 to 20.

    The grader uses it as ``MyClip.symbolic``::

        class MyClip(torch.autograd.Function):
            forward = staticmethod(lambda ctx, x, low, high: x.clamp(low, high))
            symbolic = staticmethod(clip)

        >>> model = export(lambda x: MyClip.apply(x, 0, 6), (x,), opset_version=13)
        >>> [node.op_type for node in model.graph.node]
        ['Constant', 'Constant', 'Clip']

    Up to opset 10 the bounds of ``Clip`` are attributes. From 11 on
    they are inputs without axes, of the dtype of ``x`` and in its full
    precision: for a float64 ``x``, 0.1 is not rounded to float32. A
    bound that is None is omitted. ``x`` is a float16, float32 or
    float64; from opset 12 on it can be an int32 or int64 too. The graph
    has no ``Cast``.

    Args:
        g: the graph context; ``g.opset`` is the opset of the export.
        x: the value to be clipped.
        low, high: Python ints or floats, or None.

    Returns:
        the value of the Clip node. About 9 lines.
    """

    # ANSWER c05.clip: write Clip: attributes up to opset 10, inputs of the dtype of x after it
    def bound(number):
        if number is not None:
            return g.op("Constant", value_t=torch.tensor(number, dtype=x.type().dtype()))
        none = g.op("prim::Constant")  # a None inside g.op would end the process
        none.setType(torch._C.OptionalType.ofTensor())
        return none

    if g.opset < 11:
        # An attribute that is None is not written.
        return g.op("Clip", x, min_f=low, max_f=high)
    return g.op("Clip", x, bound(low), bound(high))
    # END


def dtypes() -> None:
    """Replace PyTorch's mapping of ``torch.log10`` by one that keeps
    the dtype.

    The schema is ``aten::log10(Tensor self) -> Tensor``. PyTorch's
    mapping is wrong in three ways: float16 becomes float32, float64
    loses digits, and a result without axes gets one. After the call,
    for ``x`` of any shape in float16, float32 or float64 and every
    opset from 9 on::

        >>> dtypes()
        >>> model = export(torch.log10, (x,), opset_version=9)
        >>> y = run(model, x)
        >>> y.dtype == x.dtype and y.shape == x.shape
        True
        >>> allclose(y, np.log10(x))  # float64: within 1e-12
        True
        >>> "Cast" in [node.op_type for node in model.graph.node]
        False

    (A float64 tensor without axes is excluded: the exporter itself
    converts it to float32.) About 4 lines.
    """

    # ANSWER c05.dtypes: map aten::log10, right for float16, float32 and float64, without a Cast
    def symbolic(g, x):
        # float64 keeps the digits, and without axes it takes the dtype of x.
        ln10 = g.op("Constant", value_t=torch.tensor(math.log(10), dtype=torch.float64))
        return g.op("Div", g.op("Log", x), ln10)

    torch.onnx.register_custom_op_symbolic("aten::log10", symbolic, 9)
    # END


def kthvalue() -> None:
    """Map ``torch.kthvalue`` to ONNX. It has two outputs.

    Its schema is ``aten::kthvalue(Tensor self, int k, int dim=-1, bool
    keepdim=False) -> (Tensor values, Tensor indices)``: the k-th
    smallest element along ``dim`` (k counts from 1) and its int64
    index. After the call, for ``x`` with at least one axis and without
    equal elements, in float32, float64 or int64, and every opset from
    11 on::

        >>> kthvalue()
        >>> second = lambda x: torch.kthvalue(x, 2, dim=0)
        >>> model = export(second, (x,), output_names=["values", "indices"])
        >>> run(model, np.float32([[5, 1], [4, 9], [6, 7]]))
        [array([5., 7.], dtype=float32), array([0, 2])]

    ``TopK`` finds the k smallest elements, sorted; the last of them is
    the k-th. With ``keepdim`` the axis stays, with size 1. About 8
    lines.
    """

    # ANSWER c05.kthvalue: take the last of the k smallest of TopK, from opset 11 on
    @parse_args("v", "i", "i", "b")
    def symbolic(g, x, k, dim, keepdim):
        count = g.op("Constant", value_t=torch.tensor([k]))
        values, indices = g.op("TopK", x, count, axis_i=dim, largest_i=0, sorted_i=1, outputs=2)
        # Gather: an index without axes drops the axis
        last = g.op("Constant", value_t=torch.tensor([k - 1] if keepdim else k - 1))
        return (
            g.op("Gather", values, last, axis_i=dim),
            g.op("Gather", indices, last, axis_i=dim),
        )

    torch.onnx.register_custom_op_symbolic("aten::kthvalue", symbolic, 11)
    # END


def gelu_tanh() -> None:
    """Map ``torch.ops.aten.gelu`` to standard ONNX operators.

    The string of the call chooses one of two formulas::

        none: x / 2 * (1 + erf(x / sqrt(2)))
        tanh: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))

    Its schema::

        aten::gelu(Tensor self, *, str approximate="none") -> Tensor

    After the call, for tensors of any shape in float16, float32 or
    float64 and every opset from 9 on::

        >>> gelu_tanh()
        >>> by_tanh = lambda x: torch.ops.aten.gelu(x, approximate="tanh")
        >>> model = export(by_tanh, (x,), opset_version=9)
        >>> y = run(model, x)
        >>> y.dtype == x.dtype and y.shape == x.shape
        True
        >>> allclose(y, by_tanh(x))  # float64: within 1e-11
        True
        >>> "Cast" in [node.op_type for node in model.graph.node]
        False

    From opset 20 on the graph is one ``Gelu``. Numbers far from 0 are
    right, too. (ONNX Runtime has no ``Erf`` for float64, so that model
    is not run; and its ``Gelu`` has float32 constants there: within
    1e-7. A float64 tensor without axes is excluded: the exporter itself
    converts it to float32.) About 16 lines.
    """

    # ANSWER c05.gelu_tanh: map gelu, exact and by tanh, at every opset
    @parse_args("v", "s")
    def symbolic(g, x, approximate):
        if g.opset >= 20:
            return g.op("Gelu", x, approximate_s=approximate)

        def number(value):  # without axes: it takes the dtype of x
            return g.op("Constant", value_t=torch.tensor(value, dtype=torch.float64))

        if approximate == "tanh":
            cubic = g.op("Mul", g.op("Mul", x, x), g.op("Mul", x, number(0.044715)))
            inner = g.op("Mul", g.op("Add", x, cubic), number(math.sqrt(2 / math.pi)))
            bent = g.op("Tanh", inner)
        else:
            bent = g.op("Erf", g.op("Mul", x, number(math.sqrt(0.5))))
        half = g.op("Mul", x, number(0.5))
        return g.op("Mul", half, g.op("Add", bent, number(1.0)))

    for opset in (9, 20):  # PyTorch has an entry at both, too
        torch.onnx.register_custom_op_symbolic("aten::gelu", symbolic, opset)
    # END
