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
    # ANSWER c15.extract: return the part, or raise a ValueError that names the missing inputs
    graph = onnx.shape_inference.infer_shapes(model).graph
    constants = {tensor.name: tensor for tensor in graph.initializer}
    maker = {name: place for place, node in enumerate(graph.node) for name in node.output}
    waiting, seen, needed, missing = list(outputs), {"", *inputs}, set(), []
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in maker:
            needed.add(maker[name])
            waiting.extend(graph.node[maker[name]].input)
        elif name not in constants:
            missing.append(name)
    if missing:
        raise ValueError(f"{list(outputs)} also need {', '.join(sorted(missing))}")

    nodes = [graph.node[place] for place in sorted(needed)]
    read = {name for node in nodes for name in node.input} - set(inputs)
    types = {value.name: value for value in [*graph.value_info, *graph.input, *graph.output]}
    part = helper.make_graph(
        nodes,
        "part",
        [types[name] for name in inputs],
        [types[name] for name in outputs],
        [tensor for name, tensor in constants.items() if name in read],
    )
    return helper.make_model(
        part, opset_imports=model.opset_import, ir_version=model.ir_version
    )
    # END


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
    # ANSWER c15.find_the_bug: return the name of the first wrong node
    nodes = model.graph.node
    last_read = {name: place for place, node in enumerate(nodes) for name in node.input}

    def wrong_after(count: int) -> bool:
        """Whether the fault is in the first ``count`` nodes: a value needed later is wrong."""
        alive = [node.output[0] for node in nodes[:count] if last_read[node.output[0]] >= count]
        # A NaN is not larger than anything, so ask for what is right.
        return not all(error <= 1e-3 for error in compare(alive).values())

    right, wrong = 0, len(nodes)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if wrong_after(middle):
            wrong = middle
        else:
            right = middle
    return nodes[right].name
    # END


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
    # ANSWER c15.replace_subgraph: return a copy in which MyAdd replaces each such group
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    inferred = onnx.shape_inference.infer_shapes(model).graph
    sizes = {
        value.name: [
            dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
            for dim in value.type.tensor_type.shape.dim
        ]
        for value in [*inferred.input, *inferred.value_info, *inferred.output]
        if value.type.tensor_type.HasField("shape")
    }
    scalars = {
        tensor.name: tensor for tensor in graph.initializer if list(tensor.dims) in ([], [1])
    }
    maker = {name: node for node in graph.node for name in node.output}
    reads = [name for node in graph.node for name in node.input]
    reads += [value.name for value in graph.output]

    def scaled(name: str) -> tuple[str, float] | None:
        """A ``Mul`` of a value and a number, read once: the value and the number."""
        node = maker.get(name)
        if node is None or node.op_type != "Mul" or reads.count(name) != 1:
            return None
        for number, value in (node.input, reversed(node.input)):
            if number in scalars and value not in scalars:
                return value, numpy_helper.to_array(scalars[number]).item()
        return None

    gone = []
    for place, node in enumerate(graph.node):
        pair = [scaled(name) for name in node.input] if node.op_type == "Add" else [None]
        if None in pair:
            continue
        (a, p), (b, q) = pair
        if a in sizes and sizes[a] == sizes.get(b) and None not in sizes[a]:
            gone += node.input
            fused = helper.make_node(
                "MyAdd", [a, b], node.output, name=node.name, domain="oplab", alpha=p, beta=q
            )
            graph.node[place].CopyFrom(fused)
    if not gone:
        return made

    kept = [node for node in graph.node if node.output[0] not in gone]
    del graph.node[:]
    graph.node.extend(kept)
    read = {name for node in kept for name in node.input}
    read |= {value.name for value in graph.output}
    for entries, alive in ((graph.initializer, read), (graph.value_info, read - set(gone))):
        left = [entry for entry in entries if entry.name in alive]
        del entries[:]
        entries.extend(left)
    if "oplab" not in {entry.domain for entry in made.opset_import}:
        made.opset_import.append(helper.make_opsetid("oplab", 1))
    return made
    # END
