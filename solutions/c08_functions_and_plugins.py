"""Chapter 08: autograd Functions that define their own ONNX node.

Each exercise returns a class: a subclass of
``torch.autograd.Function``, used through its ``apply``. The grader
calls the class in its own process, and exports modules that use it over
the TorchScript path (``torch.onnx.export(..., dynamo=False)``).
``torch.ops.oplab`` is loaded when your function is called.

``my_add_function`` and ``dynamic_resize_plugin`` are repairs: the class
before each is given, and has two faults. Repair a copy of it inside
your function, because ``oplab reset`` restores that function alone. The
third, ``knn_plugin``, belongs to a deeper section, and is not a repair.

In the specifications, ``export`` means that export, and ``run`` means
ONNX Runtime with the course's kernels.

Check one with ``make check EX=c08.my_add_function``.
"""

from __future__ import annotations

import torch

from oplab import todo


class GivenMyAdd(torch.autograd.Function):
    """Given, with two faults, for ``my_add_function``."""

    @staticmethod
    def forward(ctx, a, b, alpha, beta):
        ctx.factors = [alpha, beta]
        GivenMyAdd.shape = list(a.shape)
        return alpha * a + beta * b

    @staticmethod
    def backward(ctx, grad):
        # PyTorch sums the gradient of a single row b over the rows.
        return ctx.factors.pop(0) * grad, ctx.factors.pop(0) * grad, None, None

    @staticmethod
    def symbolic(g, a, b, alpha, beta):
        if b.type().dim() < a.type().dim():
            shape = g.op("Constant", value_t=torch.tensor(GivenMyAdd.shape))
            b = g.op("Expand", b, shape)
        return g.op("oplab::MyAdd", a, b, alpha_f=alpha, beta_f=beta).setType(a.type())


def my_add_function() -> type[torch.autograd.Function]:
    """A Function for ``alpha * a + beta * b``, with gradient and node:
    repair the above.

    It is called with two tensors of the same floating dtype and two
    Python floats. ``b`` has the shape of ``a``, or is one row of it:
    its only axis is the last axis of ``a``::

        >>> add = my_add_function()
        >>> add.apply(torch.tensor([[1.0, 2.0]]), torch.tensor([10.0, 20.0]), 3.0, 0.5)
        tensor([[ 8., 16.]])

    - ``backward`` computes the gradients of ``a`` and ``b``, as often
      as it is called.
    - On the TorchScript path each call becomes one node
      ``oplab::MyAdd`` with the attributes ``alpha`` and ``beta``, both
      FLOAT, with the numbers of that call. Its output has the dtype and
      the shape of ``a``. Its kernel takes two tensors of one shape, so
      a single row is expanded before the node; otherwise the inputs are
      ``a, b``, and there is no other node. The file runs at every
      number of rows::

        >>> model = export(lambda a, b: add.apply(a, b, 3.0, 0.5), a, b)
        >>> [(node.domain, node.op_type) for node in model.graph.node]
        [('oplab', 'MyAdd')]

    Find the faults with ``gradcheck``, and by running a file at another
    size.
    """

    # ANSWER c08.my_add_function: the class above without its two faults
    class MyAdd(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b, alpha, beta):
            ctx.alpha, ctx.beta = alpha, beta
            return alpha * a + beta * b

        @staticmethod
        def backward(ctx, grad):
            return ctx.alpha * grad, ctx.beta * grad, None, None

        @staticmethod
        def symbolic(g, a, b, alpha, beta):
            if b.type().dim() < a.type().dim():
                b = g.op("Expand", b, g.op("Shape", a))
            return g.op("oplab::MyAdd", a, b, alpha_f=alpha, beta_f=beta).setType(a.type())

    return MyAdd
    # END


class GivenTaller(torch.autograd.Function):
    """Given, with two faults, for ``dynamic_resize_plugin``."""

    @staticmethod
    def forward(ctx, x, factor):
        scales = torch.cat([torch.ones(2), factor, torch.ones(1)])
        return torch.ops.oplab.dynamic_resize(x, scales)

    @staticmethod
    def symbolic(g, x, factor):
        one = g.op("Constant", value_t=torch.ones(1))
        scales = g.op("Concat", one, one, one, factor, axis_i=0)
        y = g.op("oplab::DynamicResize", x, scales)
        batch, channels, height, width = x.type().varyingSizes()
        return y.setType(x.type().with_sizes([batch, channels, height, width]))


def dynamic_resize_plugin() -> type[torch.autograd.Function]:
    """A Function that resizes the height alone, and becomes a plugin
    node: repair the above.

    ``x`` is a float32 batch of images (N, C, H, W), ``factor`` a
    float32 tensor of one number. The operator
    ``torch.ops.oplab.dynamic_resize(x, scales)`` takes four numbers, as
    ONNX's Resize does: here 1, 1, the factor of the height, and 1::

        >>> taller = dynamic_resize_plugin()
        >>> taller.apply(torch.rand(2, 3, 10, 8), torch.tensor([2.3])).shape
        torch.Size([2, 3, 23, 8])

    On the TorchScript path each call becomes one node
    ``oplab::DynamicResize`` without attributes; its inputs are ``x``
    and the four numbers, which the graph makes of ``factor``. The file
    runs at factors that were not exported, and the type of the node's
    output states all that is true for **every** factor, so that the
    operators after the node can be exported too::

        >>> model = export(lambda x, factor: taller.apply(x, factor), x, factor)
        >>> model.graph.output[0].type.tensor_type.shape.dim[1].dim_value  # the channels of x
        3

    No gradient is needed. The file of the class above was compared at
    factor 1 only.
    """

    # ANSWER c08.dynamic_resize_plugin: the class above without its two faults
    class Taller(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            scales = torch.cat([torch.ones(2), factor, torch.ones(1)])
            return torch.ops.oplab.dynamic_resize(x, scales)

        @staticmethod
        def symbolic(g, x, factor):
            one = g.op("Constant", value_t=torch.ones(1))
            scales = g.op("Concat", one, one, factor, one, axis_i=0)
            y = g.op("oplab::DynamicResize", x, scales)
            batch, channels, _, width = x.type().varyingSizes()
            return y.setType(x.type().with_sizes([batch, channels, None, width]))

    return Taller
    # END


def knn_plugin() -> type[torch.autograd.Function]:
    """A Function for ``torch.ops.oplab.knn_query`` with one result or
    two, as a plugin node.

    It is called in one of these ways; ``nsample`` is a Python int,
    ``both`` a Python bool::

        >>> knn = knn_plugin()
        >>> idx, dist = knn.apply(nsample, True, xyz, offset)  # each point asks
        >>> idx = knn.apply(nsample, False, xyz, offset)  # the distances are not wanted
        >>> idx = knn.apply(nsample, False, xyz, offset, new_xyz, new_offset)  # others ask

    ``idx`` is int32 and ``dist`` float32, both of shape (points that
    ask, nsample). If ``new_xyz`` **or** ``new_offset`` is missing or
    None, the call is a self-query, like the first way.

    On the TorchScript path each call becomes one node
    ``oplab::KNNQuery`` with the INT attribute ``nsample``, the inputs
    ``xyz, offset`` and, if other points ask, ``new_xyz, new_offset``.
    In a self-query these two are absent: left out, or ``""``. ``both``
    is not an attribute: the kernel always makes two outputs, so the
    node has two. What the Function returns has its dtype, and
    ``nsample`` as the size of its second axis::

        >>> model = export(lambda xyz, offset: knn.apply(16, False, xyz, offset), xyz, offset)
        >>> list(model.graph.node[0].input), len(model.graph.node[0].output)
        (['xyz', 'offset'], 2)

    No gradient is needed. About 18 lines.
    """

    # ANSWER c08.knn_plugin: a Function for one KNNQuery with its inputs, and typed results
    class KNNQuery(torch.autograd.Function):
        @staticmethod
        def forward(ctx, nsample, both, xyz, offset, new_xyz=None, new_offset=None):
            if new_xyz is None or new_offset is None:
                new_xyz = new_offset = None
            idx, dist = torch.ops.oplab.knn_query(nsample, xyz, offset, new_xyz, new_offset)
            return (idx, dist) if both else idx

        @staticmethod
        def symbolic(g, nsample, both, xyz, offset, new_xyz=None, new_offset=None):
            own = new_xyz is None or new_offset is None
            asking, new = (xyz, []) if own else (new_xyz, [new_xyz, new_offset])
            idx, dist = g.op("oplab::KNNQuery", xyz, offset, *new, nsample_i=nsample, outputs=2)
            found = asking.type().with_sizes([asking.type().varyingSizes()[0], nsample])
            idx, dist = idx.setType(found.with_dtype(torch.int32)), dist.setType(found)
            return (idx, dist) if both else idx

    return KNNQuery
    # END
