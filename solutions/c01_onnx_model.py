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
    # ANSWER c01.build: return the model of a * x + b, in the dtype of a, that ONNX Runtime runs
    dtype = helper.np_dtype_to_tensor_dtype(a.dtype)
    axes = [f"size{axis}" for axis in range(rank)]
    nodes = [
        helper.make_node("Mul", ["a", "x"], ["ax"]),
        helper.make_node("Add", ["ax", "b"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "line",
        [helper.make_tensor_value_info("x", dtype, axes)],
        [helper.make_tensor_value_info("y", dtype, axes)],
        [numpy_helper.from_array(a, "a"), numpy_helper.from_array(b, "b")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    # END


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

    # ANSWER c01.shapes: return {name: "dtype[sizes]"} of every tensor, after shape inference
    def text(elem_type: int, sizes: list[object] | None) -> str:
        dtype = str(helper.tensor_dtype_to_np_dtype(elem_type))
        return dtype if sizes is None else f"{dtype}[{', '.join(map(str, sizes))}]"

    def size(dim: onnx.TensorShapeProto.Dimension) -> object:
        # A size of 0 is a size: ask which field is set, not whether its value is true.
        return dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?"

    graph = onnx.shape_inference.infer_shapes(model).graph
    tensors = graph.initializer
    found = {tensor.name: text(tensor.data_type, list(tensor.dims)) for tensor in tensors}
    # What a tool has removed can still have its entry in value_info.
    made = {name for node in graph.node for name in node.output}
    inner = [value for value in graph.value_info if value.name in made]
    for value in [*graph.input, *inner, *graph.output]:
        kind = value.type.tensor_type
        if value.name not in found and kind.elem_type:
            found[value.name] = text(
                kind.elem_type,
                [size(d) for d in kind.shape.dim] if kind.HasField("shape") else None,
            )
    return found
    # END


# ANSWER c01.repair
def read_by(node: onnx.NodeProto) -> Iterator[str]:
    """The names that a node reads, with those that its bodies take from outside."""
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for body in [attribute.g, *attribute.graphs]:
            own = {value.name for value in [*body.input, *body.initializer]}
            own |= {name for inner in body.node for name in inner.output}
            read = [name for inner in body.node for name in read_by(inner)]
            yield from (name for name in read if name not in own)


def domains(nodes: list[onnx.NodeProto]) -> set[str]:
    """The domains of nodes and of the nodes in their bodies."""
    found = {node.domain for node in nodes}
    for node in nodes:
        for attribute in node.attribute:
            for body in [attribute.g, *attribute.graphs]:
                found |= domains(list(body.node))
    return found


# END


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
    # ANSWER c01.repair: return a copy without the four faults, and with no other change
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    graph = fixed.graph

    fixed.ir_version = min(fixed.ir_version, 13)
    for entry in fixed.opset_import:
        if entry.domain in ("", "ai.onnx"):
            entry.version = min(entry.version, 26)
    imported = {
        "" if entry.domain == "ai.onnx" else entry.domain for entry in fixed.opset_import
    }
    for domain in sorted(domains(list(graph.node)) - imported):
        fixed.opset_import.append(helper.make_opsetid(domain, 1 if domain else 20))

    given = {value.name for value in [*graph.input, *graph.initializer]}
    made = given | {name for node in graph.node for name in node.output}
    read = {name for node in graph.node for name in read_by(node)}
    read |= {value.name for value in graph.output}
    if read - made:
        (wanted,), (unread,) = read - made, made - read
        if unread in {value.name for value in graph.input}:
            wanted, unread = unread, wanted  # an input keeps its name, so its reader changes
        # Bodies are right, so only the main graph's own lists can hold the misspelt name.
        for names in [names for node in graph.node for names in (node.input, node.output)]:
            names[:] = [wanted if name == unread else name for name in names]
        for tensor in graph.initializer:
            tensor.name = wanted if tensor.name == unread else tensor.name

    waiting = list(graph.node)
    ready = {value.name for value in [*graph.input, *graph.initializer]}
    ordered = []
    while waiting:
        node = next(node for node in waiting if set(read_by(node)) <= ready)
        waiting.remove(node)
        ordered.append(node)
        ready |= set(node.output)
    del graph.node[:]
    graph.node.extend(ordered)
    return fixed
    # END


# ANSWER c01.inventory
def rows(place: str, nodes: list[onnx.NodeProto], versions: dict[str, int]) -> Iterator[tuple]:
    """The rows of some nodes and of their bodies."""
    for node in nodes:
        operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        head = (place, operator, versions[node.domain])
        if not node.attribute:
            yield (*head, "", "", None)
        for attribute in node.attribute:
            kind = AttributeProto.AttributeType.Name(attribute.type)
            yield (*head, attribute.name, kind, plain(attribute))
            for body in [attribute.g, *attribute.graphs]:
                yield from rows(place, list(body.node), versions)


def plain(attribute: AttributeProto) -> object:
    """An attribute's value without protobuf."""
    if attribute.ref_attr_name:
        return f"@{attribute.ref_attr_name}"
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, TensorProto):
        return f"{helper.tensor_dtype_to_np_dtype(value.data_type)}{list(value.dims)}"
    if isinstance(value, onnx.GraphProto):
        return value.name
    if isinstance(value, (int, float)):
        return value
    return [entry.decode() if isinstance(entry, bytes) else entry for entry in value]


# END


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

    # ANSWER c01.inventory: return one row for every attribute of every node, in every place
    def imports(owner: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
        return {
            "" if entry.domain == "ai.onnx" else entry.domain: entry.version
            for entry in owner.opset_import
        }

    found = list(rows("main", list(model.graph.node), imports(model)))
    for function in model.functions:
        name = f"{function.domain}::{function.name}"
        found += rows(name, list(function.node), imports(function))
    return found
    # END
