"""Chapter 01: build, read and repair ONNX models as what they are,
messages inside messages.

In the specifications, ``run`` means ONNX Runtime as the course pins it:
it accepts IR versions up to 13 and opsets of ``ai.onnx`` up to 26.

Check one with ``make check EX=c01.build``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from oplab import todo


def build(a: np.ndarray, b: np.ndarray, rank: int) -> onnx.ModelProto:
    """Make the model of ``y = a * x + b``, element by element, with no
    exporter.

    The model

    - has one input ``"x"`` and one output ``"y"``, both of the dtype of
      ``a`` and with ``rank`` axes; every axis of ``x`` is dynamic and
      has its own name;
    - has one ``Mul`` and one ``Add``, and holds ``a`` and ``b``
      themselves;
    - passes ``onnx.checker`` with ``full_check=True`` and runs in the
      course's ONNX Runtime.

    Args:
        a, b: of one dtype: float16, float32, float64, int32 or int64.
            Any shape that broadcasts to that of ``x``, so at most
            ``rank`` axes. Not always contiguous. Do not modify them.
        rank: the number of axes of ``x``, 0 or more.

    ::

        >>> model = build(np.float32([1, 10]), np.float32(3), rank=2)
        >>> run(model, x=np.float32([[1, 2], [3, 4], [5, 6]]))
        array([[ 4., 23.],
               [ 6., 43.],
               [ 8., 63.]], dtype=float32)

    About 10 lines.
    """
    # TODO c01.build: return the model of a * x + b, in the dtype of a, that ONNX Runtime runs
    raise todo("c01.build")


def shapes(model: onnx.ModelProto) -> dict[str, str]:
    """Report the dtype and shape of every tensor in the main graph.

    "Every tensor" is each graph input, each initialiser, and each
    output of a node, as far as ``onnx.shape_inference`` knows its type;
    a tensor of unknown type is left out. A value is the dtype in
    NumPy's spelling and the sizes in brackets: a number, the axis's
    name, or ``?`` for a size with neither. There are no brackets if the
    rank is unknown.

    ``model`` is valid; do not modify it. It has only tensors, no
    sequences or maps. ::

        >>> shapes(model)  # unk__0 is a name that shape inference makes up
        {'image': 'float32[batch, 3, ?, 8]', 'weight': 'float32[4, 3, 1, 1]',
         'conv': 'float32[batch, 4, unk__0, 8]',
         'count': 'int64[]', 'reshaped': 'float32'}

    About 15 lines.
    """

    # TODO c01.shapes: return {name: "dtype[sizes]"} of every tensor, after shape inference
    raise todo("c01.shapes")


def repair(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a repaired copy of a model that a careless tool has
    written.

    A model has up to four faults; some have one, some have all, some
    have none:

    1. The IR version or the opset of ``ai.onnx``, in either spelling of
       that domain, is newer than ONNX Runtime accepts. Lower the IR
       version to 13 and the opset to 26. (The operators in these models
       mean the same there. Elsewhere that would not be a repair, as the
       lesson shows.)
    2. Imports are missing: of ``ai.onnx``, which has to be 20, or of
       other domains, which have to be 1. A domain may be used in the
       body of an ``If`` or ``Loop`` only, or in a body inside a body.
    3. The nodes are not in an order in which every node comes after the
       nodes that it reads from.
    4. One name is misspelt: something in the main graph reads a name
       that nothing makes, and one name is made (by a node, an
       initialiser, or as a graph input) but never read. The two are
       meant to be the same.

    Everything else stays unchanged: the names of graph inputs and
    outputs, every node with its attributes, every tensor, the metadata.
    Bodies and model-local functions have no faults. An input ``""`` of
    a node is not a name: it means that an optional input is left out.
    Apart from fault 4, every name that is made is read.

    About 30 lines, and a helper that looks into bodies.
    """
    # TODO c01.repair: return a copy without the four faults, and with no other change
    raise todo("c01.repair")


def inventory(model: onnx.ModelProto) -> list[tuple[str, str, int, str, str, object]]:
    """List what a model requires: operators with domain and version,
    and all attributes.

    Returns one row for every attribute of every node, in any order:
    ``(place, operator, version, attribute, type, value)``. Nodes can be
    in several places: in the main graph, in the bodies of ``If``,
    ``Loop`` and ``Scan`` at any depth, and in the model-local functions
    and their bodies.

    - place: ``"main"``, or the function that holds the node, as
      ``"lab::Scale"``. A body belongs to the place of its node.
    - operator: ``"Conv"`` for one of ``ai.onnx``, else with its domain,
      ``"lab::Scale"``.
    - version: the version of the operator's domain that is imported *at
      that place*: a function has its own imports.
    - attribute, type, value: the name, the type as the format spells it
      (``"FLOAT"``, ``"INTS"``), and the value as an int, float, str or
      a list of these. A tensor is ``"float32[1, 3]"``, a graph is its
      name. An attribute that takes its value from the function's own
      attribute ``factor`` is ``"@factor"``. A node without attributes
      has one row with ``("", "", None)``.

    ::

        >>> inventory(model)
        [('main', 'Conv', 20, 'pads', 'INTS', [1, 1, 1, 1]),
         ('main', 'lab::Scale', 1, 'factor', 'FLOAT', 3.0),
         ('lab::Scale', 'LeakyRelu', 18, 'alpha', 'FLOAT', '@factor'),
         ('lab::Scale', 'Mul', 18, '', '', None)]

    About 25 lines.
    """

    # TODO c01.inventory: return one row for every attribute of every node, in every place
    raise todo("c01.inventory")
