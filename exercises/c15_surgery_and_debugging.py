"""Chapter 15: cut a model, find its fault, replace nodes.

Check one with ``make check EX=c15.extract``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx
from onnx import helper, numpy_helper

from oplab import todo


def extract(
    model: onnx.ModelProto, inputs: Sequence[str], outputs: Sequence[str]
) -> onnx.ModelProto:
    """Cut out the part of a model that computes ``outputs`` from
    ``inputs``.

    The part is a separate model:

    - its graph inputs and outputs are the values named, in the order
      given, with their types. Types come from ``onnx.shape_inference``;
      those that it cannot infer are in the file's own ``value_info``;
    - it has exactly the nodes that the outputs need, in their old
      order, and exactly the initialisers that they read. An input that
      has a default (an initialiser of its name) has none in the part;
    - the IR version and the imported opsets are those of the model. The
      model itself is not changed.

    Args:
        model: a valid model. No node has a body, and there are no
            model-local functions.
        inputs, outputs: names of values of the model. An input may also
            be a value that is not needed: it stays an input.

    Raises:
        ValueError: the outputs need other graph inputs of the model,
            which were not named. The message contains the name of
            **each** of them.

    Do not use ``oplab.debug`` here. About 20 lines.
    """
    # TODO c15.extract: return the part, or raise a ValueError that names the missing inputs
    raise todo("c15.extract")


def find_the_bug(
    model: onnx.ModelProto, compare: Callable[[list[str]], dict[str, float]]
) -> str:
    """Return the name of the node at which a model begins to differ
    from its reference.

    **One** node of ``model`` was changed. The result of that node is
    wrong, although everything that it reads is right. Because of this
    node, the model's output is wrong.

    The reference runs on a phone. You can access it only through
    ``compare``, which runs both models and returns the error of some
    values, by name. An error up to 1e-3 is rounding. The error is NaN
    if one of the two values contains a NaN.

    - ``compare`` takes at most 8 names, and you may call it at most 12
      times.
    - The names are those of values that nodes compute, and not those of
      the model's inputs.
    - The model has up to 300 nodes with one output each, in topological
      order. Branches run in parallel and join again. After each node,
      at most 8 values are still needed.

    ::

        >>> compare(["conv_3", "relu_7"])
        {'conv_3': 2.4e-07, 'relu_7': 0.81}

    About 15 lines.
    """
    # TODO c15.find_the_bug: return the name of the first wrong node
    raise todo("c15.find_the_bug")


def replace_subgraph(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy with ``oplab::MyAdd(a, b; alpha=p, beta=q)`` for
    each ``p * a + q * b``.

    A group is an ``Add`` of two ``Mul``. One input of each ``Mul``, the
    first or the second, is an initialiser with a single float32 number,
    p or q, of the shape ``[]`` or ``[1]``: with more axes the product
    could have more, too. Replace a group only where nothing else
    changes:

    - the result of neither ``Mul`` is read anywhere else, and neither
      result is an output of the model;
    - the shapes of ``a`` and ``b``, from ``onnx.shape_inference``, are
      known to be equal: ``MyAdd`` does not broadcast. Equal means the
      same rank, and the same number or the same name for each axis. An
      axis with neither may have any size, so the group stays.

    The copy is a valid model that runs with the course's kernels, and
    contains no traces of removed nodes: the nodes are in topological
    order, the result keeps the name of the ``Add``'s output, version 1
    of the domain ``oplab`` is imported (add the import if the model
    does not have it), unused initialisers are removed, and
    ``value_info`` has no entry for a value that no longer exists. A
    model without a group is returned unchanged.

    Args:
        model: a valid float32 model. Each value except the numbers has
            at least one axis. No node has a body, and there are no
            model-local functions.

    Do not use ``oplab.debug`` here. About 35 lines.
    """
    # TODO c15.replace_subgraph: return a copy in which MyAdd replaces each such group
    raise todo("c15.replace_subgraph")
