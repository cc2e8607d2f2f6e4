"""Chapter 08: autograd Functions that define their own ONNX node.

Each exercise returns a class: a subclass of ``torch.autograd.Function``, used through its
``apply``. The grader calls the class in its own process, and exports modules that use it over
the TorchScript path (``torch.onnx.export(..., dynamo=False)``). ``torch.ops.oplab`` is loaded
when your function is called.

In the specifications, ``export`` means that export, and ``run`` means ONNX Runtime with the
course's kernels.

Check one with ``make check EX=c08.my_add_function``.
"""

from __future__ import annotations

import torch

from oplab import todo


def my_add_function() -> type[torch.autograd.Function]:
    """A Function for ``alpha * a + beta * b``, with its gradient and its node.

    It is called with two tensors of the same shape and floating dtype, and two Python floats::

        >>> add = my_add_function()
        >>> add.apply(torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0]), 3.0, 0.5)
        tensor([8., 16.])

    - ``backward`` computes the gradients of ``a`` and ``b``.
    - On the TorchScript path each call becomes one node ``oplab::MyAdd`` with the inputs
      ``a, b`` and the attributes ``alpha`` and ``beta``, both FLOAT, with the numbers of that
      call. Its output has the dtype and the shape of ``a``::

        >>> model = export(lambda a, b: add.apply(a, b, 3.0, 0.5), a, b)
        >>> [(node.domain, node.op_type) for node in model.graph.node]
        [('oplab', 'MyAdd')]

    About 12 lines.
    """

    # TODO c08.my_add_function: a Function with gradients that becomes one oplab::MyAdd
    raise todo("c08.my_add_function")


def dynamic_resize_plugin() -> type[torch.autograd.Function]:
    """A Function for ``torch.ops.oplab.dynamic_resize(x, scales)`` that becomes a plugin node.

    ``x`` is a float32 batch of images (N, C, H, W), ``scales`` a float32 tensor of four
    numbers, as ONNX's Resize takes them: 1, 1, and the factors of height and width::

        >>> resize = dynamic_resize_plugin()
        >>> resize.apply(torch.rand(2, 3, 10, 8), torch.tensor([1.0, 1.0, 2.3, 1.5])).shape
        torch.Size([2, 3, 23, 12])

    On the TorchScript path each call becomes one node ``oplab::DynamicResize`` with the inputs
    ``x, scales`` and no attributes. The file runs at factors that were not exported, and the
    type of the node's output states what is true for **every** factor, so that the operators
    after the node can be exported too::

        >>> model = export(lambda x, scales: resize.apply(x, scales), x, scales)
        >>> model.graph.output[0].type.tensor_type.shape.dim[1].dim_value  # the channels of x
        3

    No gradient is needed. About 10 lines.
    """

    # TODO c08.dynamic_resize_plugin: a Function whose node's type is true at every factor
    raise todo("c08.dynamic_resize_plugin")


def knn_plugin() -> type[torch.autograd.Function]:
    """A Function for ``torch.ops.oplab.knn_query`` that becomes a plugin node with two outputs.

    It is called in one of these ways; ``nsample`` is a Python int::

        >>> knn = knn_plugin()
        >>> idx, dist = knn.apply(nsample, xyz, offset)  # each point asks
        >>> idx, dist = knn.apply(nsample, xyz, offset, new_xyz, new_offset)  # other points ask

    ``idx`` is int32 and ``dist`` float32, both of shape (points that ask, nsample). If
    ``new_xyz`` **or** ``new_offset`` is missing or None, the call is a self-query, like the
    first way.

    On the TorchScript path each call becomes one node ``oplab::KNNQuery`` with the INT
    attribute ``nsample``, the inputs ``xyz, offset`` and, if other points ask,
    ``new_xyz, new_offset``. In a self-query these two are absent: left out, or ``""``.
    Both outputs have their dtype, and ``nsample`` as the size of their second axis::

        >>> model = export(lambda xyz, offset: knn.apply(16, xyz, offset), xyz, offset)
        >>> list(model.graph.node[0].input), len(model.graph.node[0].output)
        (['xyz', 'offset'], 2)

    No gradient is needed. About 18 lines.
    """

    # TODO c08.knn_plugin: a Function for one KNNQuery with its inputs and two typed outputs
    raise todo("c08.knn_plugin")
