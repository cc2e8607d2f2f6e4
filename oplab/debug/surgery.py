"""Cut a part out of a graph, or replace it by another."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import onnx
from onnx import helper

from oplab.debug.model import Wiring, label, load
from oplab.errors import OplabError
from oplab.onnxtools import loading
from oplab.onnxtools.names import STANDARD, normal_domain
from oplab.onnxtools.subgraphs import bodies, reads


def cone(wiring: Wiring, inputs: Sequence[str], outputs: Sequence[str]) -> tuple[list[int], list[str]]:
    """The indices of the nodes from ``inputs`` to ``outputs``, in order, and the graph inputs that they need besides ``inputs``."""
    waiting, seen, taken, missing = list(outputs), set(inputs), set(), []
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in wiring.makers:
            taken.add(wiring.makers[name])
            waiting.extend(reads(wiring.nodes[wiring.makers[name]]))
        elif name not in wiring.constants:
            missing.append(name)
    return sorted(taken), [name for name in wiring.inputs if name in missing]


def extract(
    model: Any,
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    libraries: Sequence[str | os.PathLike[str]] = (),
) -> onnx.ModelProto:
    """The part of a model between some of its values, as a separate model with its weights in memory.

    Of weights in other files, only those of the part are read.

    Args:
        model: a path, bytes, a ModelProto or an ONNXProgram.
        inputs: the values that the part takes. Graph inputs that it needs have to be among them.
        outputs: the values that it computes.
        libraries: custom-op libraries in addition to the course's own, for types that the file does not state.

    Raises:
        OplabError: the outputs need more than these inputs (the message lists what is missing and which nodes read it), or a name is
            unknown.
    """
    wiring = load(model, weights=False)
    inputs, outputs = wiring.resolve(inputs), wiring.resolve(outputs)
    if not outputs:
        raise OplabError("extract needs at least one output.", f"The model's own are {wiring.outputs}.")
    both = [name for name in outputs if name in inputs]
    if both:
        raise OplabError(f"{both[0]!r} is an input and an output of the part: there is nothing in between.")
    taken, missing = cone(wiring, inputs, outputs)
    if missing:
        raise OplabError(
            _missing(wiring, taken, missing, outputs), f"Give inputs={[*inputs, *missing]!r}, or cut elsewhere."
        )
    types = _types(wiring, [*inputs, *outputs], libraries)
    made = part(wiring, taken, [types[name] for name in inputs], [types[name] for name in outputs], set(inputs))
    if wiring.folder:
        loading.read_weights(made, wiring.folder, "The model")
    return made


def part(
    wiring: Wiring,
    taken: Iterable[int],
    inputs: Iterable[onnx.ValueInfoProto],
    outputs: Iterable[onnx.ValueInfoProto],
    without: Container[str] = (),
) -> onnx.ModelProto:
    """A model of some nodes of another, with the initializers that they read, except those in ``without``."""
    whole, outputs = wiring.model.graph, list(outputs)
    ends, nodes = {info.name for info in outputs}, [wiring.nodes[i] for i in taken]
    used = {name for node in nodes for name in reads(node)} | ends | {info.name for info in inputs}
    graph = helper.make_graph(
        nodes,
        whole.name or "part",
        inputs,
        outputs,
        [tensor for tensor in whole.initializer if tensor.name in used and tensor.name not in without],
        sparse_initializer=[t for t in whole.sparse_initializer if t.values.name in used],
    )
    inside = {name for node in nodes for name in node.output} - ends
    graph.value_info.extend(info for info in whole.value_info if info.name in inside)
    made = onnx.ModelProto()
    for field, value in wiring.model.ListFields():  # versions, functions and metadata, and not the weights
        if field.name == "graph":
            made.graph.CopyFrom(graph)
        elif field.is_repeated:
            getattr(made, field.name).extend(value)
        else:
            setattr(made, field.name, value)
    return made


def _missing(wiring: Wiring, taken: list[int], missing: list[str], outputs: Sequence[str]) -> str:
    readers = [next((i for i in wiring.readers.get(name, ()) if i in taken), None) for name in missing]
    said = [
        f"{name!r} (read by {label(wiring.nodes[i], i)})" if i is not None else repr(name)
        for name, i in zip(missing, readers, strict=True)
    ]
    verb = "is" if len(missing) == 1 else "are"
    return (
        f"{', '.join(map(repr, outputs))} cannot be computed from these inputs alone: {', '.join(said)} {verb} missing."
    )


def _types(
    wiring: Wiring, names: Sequence[str], libraries: Sequence[str | os.PathLike[str]]
) -> dict[str, onnx.ValueInfoProto]:
    """The types of values: as the file states them, else from shape inference, else from ONNX Runtime (after custom operators)."""
    try:
        whole = onnx.shape_inference.infer_shapes(wiring.model)
    except (
        Exception
    ):  # a model over 2 GB in memory, or one whose shapes contradict each other: only the stated types are known
        whole = wiring.model
    graph = whole.graph
    known = {
        info.name: info for info in [*graph.value_info, *graph.output, *graph.input] if info.type.WhichOneof("value")
    }
    for tensor in graph.initializer:
        known.setdefault(tensor.name, helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    unknown = [name for name in names if name not in known]
    if unknown:
        known |= _asked_of_the_runtime(wiring, unknown, libraries)
    return {name: known[name] for name in names}


def _asked_of_the_runtime(
    wiring: Wiring, names: Sequence[str], libraries: Sequence[str | os.PathLike[str]]
) -> dict[str, onnx.ValueInfoProto]:
    from oplab.debug.tapping import runtime_reason, tap

    try:
        session = tap(wiring, names, libraries=libraries).session()
    except OplabError:
        raise
    except Exception as error:
        raise OplabError(
            f"The type of {names[0]!r} is not stated in the model, and ONNX Runtime does not load it: {runtime_reason(error)}.",
            "Give the library of its custom operators: libraries=[…].",
        ) from None
    by_type = {
        f"tensor({_ORT_NAMES.get(name, name.lower())})": number for name, number in onnx.TensorProto.DataType.items()
    }
    found = {}
    for output in session.get_outputs():
        if output.name in names:
            if output.type not in by_type:
                raise OplabError(f"{output.name!r} is a {output.type}: only tensors can be cut at.")
            found[output.name] = helper.make_tensor_value_info(output.name, by_type[output.type], output.shape)
    return found


_ORT_NAMES = {"FLOAT": "float", "DOUBLE": "double"}


def replace(
    model: Any,
    inputs: Sequence[str],
    outputs: Sequence[str],
    replacement: onnx.ModelProto | onnx.NodeProto | Any,
    *,
    versions: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """Replace the subgraph between ``inputs`` and ``outputs`` by another.

    The outputs keep their names, so the rest of the graph is unchanged. Names inside the replacement are made unique; the versions that
    it imports are added; shapes inside the old subgraph and after it are inferred again.

    Args:
        model: a path, bytes, a ModelProto or an ONNXProgram.
        inputs: values that the replacement reads, in the order of the replacement's inputs.
        outputs: values that it computes, in the order of the replacement's outputs.
        replacement: a model, or one node; of a node's own inputs and outputs only "" counts, an input that is left out.
        versions: versions of further domains, for a node: ``{"oplab": 1}``.

    Raises:
        OplabError: the old subgraph needs more inputs than these, other nodes read values inside it, numbers of inputs or outputs
            differ, a domain is imported in two versions, or the types of the replacement do not fit.
    """
    wiring = load(model)
    proto = wiring.model
    inputs, outputs = wiring.resolve(inputs), wiring.resolve(outputs)
    not_made = [name for name in outputs if name not in wiring.makers]
    if not_made:
        raise OplabError(f"{not_made[0]!r} is not computed by a node: it cannot be replaced.")
    taken, missing = cone(wiring, inputs, outputs)
    if missing:
        raise OplabError(
            _missing(wiring, taken, missing, outputs), f"Give inputs={[*inputs, *missing]!r}, or cut elsewhere."
        )
    gone = _removable(wiring, taken, outputs)
    new = _as_model(replacement, inputs, outputs, versions or {})
    piece = Wiring(new, "the replacement")
    for what, mine, theirs in (("inputs", inputs, piece.inputs), ("outputs", outputs, piece.outputs)):
        if len(mine) != len(theirs):
            raise OplabError(
                f"The replacement has {len(theirs)} {what} ({theirs}), but {len(mine)} were named: {mine}."
            )
    _import_versions(proto, new)
    nodes = [node for i, node in enumerate(wiring.nodes) if i not in gone]
    kept_names = {name for node in nodes for name in [*reads(node), *node.output]}
    renamed = _names_for(wiring, piece, inputs, outputs)
    inserted = [_renamed(node, renamed) for node in new.graph.node]
    # An output of the replacement that is one of its inputs or constants needs a node that produces it under its new name.
    for mine, theirs in zip(outputs, piece.outputs, strict=True):
        if theirs not in piece.makers:
            inserted.append(helper.make_node("Identity", [renamed[theirs]], [mine]))
    constants = [_renamed_tensor(tensor, renamed) for tensor in new.graph.initializer]
    graph = proto.graph
    del graph.node[:]
    graph.node.extend(_sorted([*nodes, *inserted], {*wiring.inputs, *wiring.constants, *(t.name for t in constants)}))
    still_read = kept_names | {name for node in inserted for name in reads(node)} | set(wiring.outputs)
    kept = [tensor for tensor in graph.initializer if tensor.name in still_read]
    del graph.initializer[:]
    graph.initializer.extend([*kept, *constants])
    _refresh_value_info(proto, wiring, taken, outputs)
    for function in new.functions:
        if not any((f.domain, f.name) == (function.domain, function.name) for f in proto.functions):
            proto.functions.append(function)
    Wiring(proto, "the new model").check()
    try:
        return onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    except Exception as error:
        if not _consistent(load(model).model):  # the model was inconsistent before the replacement
            return proto
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise OplabError(
            f"The replacement does not fit: {lines[0][:240] if lines else type(error).__name__}",
            "Compare dtypes and shapes of the inputs and outputs of both.",
        ) from None


def _consistent(proto: onnx.ModelProto) -> bool:
    try:
        onnx.shape_inference.infer_shapes(proto, strict_mode=True)
    except Exception:
        return False
    return True


def _removable(wiring: Wiring, taken: list[int], outputs: Sequence[str]) -> set[int]:
    """The nodes of the old subgraph that can be removed.

    A node that the rest of the graph reads as well, such as a shared shape computation, stays.
    """
    ends = {wiring.makers[name] for name in outputs}
    gone = set(taken)
    while True:
        for i in sorted(gone, reverse=True):
            outside = [
                name
                for name in wiring.nodes[i].output
                if name and name not in outputs and (name in wiring.outputs or set(wiring.readers.get(name, ())) - gone)
            ]
            if not outside:
                continue
            if i in ends:
                raise OplabError(
                    f"{label(wiring.nodes[i], i)} also computes {outside[0]!r}, which the rest of the graph reads.",
                    f"Make the replacement compute it too: outputs={[*outputs, outside[0]]!r}.",
                )
            gone.discard(i)
            break
        else:
            return gone


def _as_model(
    replacement: Any, inputs: Sequence[str], outputs: Sequence[str], versions: Mapping[str, int]
) -> onnx.ModelProto:
    if not isinstance(replacement, onnx.NodeProto):
        return load(replacement, "the replacement").model
    node = onnx.NodeProto()
    node.CopyFrom(replacement)
    given = iter([f"input_{i}" for i in range(len(inputs))])
    named = [next(given, None) if name or not replacement.input else "" for name in replacement.input or inputs]
    if None in named or next(given, None) is not None:
        wanted = sum(bool(name) for name in replacement.input)
        raise OplabError(f"The replacement has {wanted} inputs, but {len(inputs)} were named: {list(inputs)}.")
    del node.input[:], node.output[:]
    node.input.extend(named)
    node.output.extend(f"output_{i}" for i in range(len(outputs)))
    graph = helper.make_graph(
        [node],
        "replacement",
        [onnx.ValueInfoProto(name=f"input_{i}") for i in range(len(inputs))],
        [onnx.ValueInfoProto(name=name) for name in node.output],
    )
    made = onnx.ModelProto(graph=graph)
    if node.domain not in STANDARD:
        made.opset_import.append(helper.make_opsetid(node.domain, versions.get(node.domain, 1)))
    return made


def _import_versions(proto: onnx.ModelProto, new: onnx.ModelProto) -> None:
    there = {normal_domain(entry.domain): entry.version for entry in proto.opset_import}
    for entry in new.opset_import:
        domain = normal_domain(entry.domain)
        used = any(normal_domain(node.domain) == domain for node in new.graph.node)
        if domain not in there:
            proto.opset_import.append(entry)
        elif there[domain] != entry.version and used:
            raise OplabError(
                f"The model imports version {there[domain]} of the domain {domain or 'ai.onnx'!r}, "
                f"the replacement version {entry.version}.",
                "Export both for the same opset, or convert one with onnx.version_converter.convert_version.",
            )


def _names_for(wiring: Wiring, piece: Wiring, inputs: Sequence[str], outputs: Sequence[str]) -> dict[str, str]:
    """A name in the whole graph for each name of the replacement."""
    taken = {*wiring.values, *(node.name for node in wiring.nodes)}
    names = dict(zip(piece.inputs, inputs, strict=True))
    for theirs, mine in zip(piece.outputs, outputs, strict=True):
        if theirs in piece.makers:
            names[theirs] = mine
    inner = [*sorted(piece.constants), *piece.makers, *filter(None, (node.name for node in piece.nodes))]
    for name in inner:
        if name not in names:
            fresh, count = name, 0
            while fresh in taken:
                count += 1
                fresh = f"{name}_{count}"
            names[name] = fresh
            taken.add(fresh)
    return names


def _renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    made = onnx.NodeProto()
    made.CopyFrom(node)
    made.name = names.get(node.name, node.name)
    for field in (made.input, made.output):
        renamed = [names.get(name, name) for name in field]
        del field[:]
        field.extend(renamed)
    for body in bodies(made):
        _rename_body(body, names)
    return made


def _rename_body(body: onnx.GraphProto, names: Mapping[str, str]) -> None:
    own = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
    own |= {name for inner in body.node for name in inner.output}
    outer = {name: new for name, new in names.items() if name not in own}
    inner = [_renamed(node, outer) for node in body.node]
    del body.node[:]
    body.node.extend(inner)
    for value in body.output:
        value.name = outer.get(value.name, value.name)


def _renamed_tensor(tensor: onnx.TensorProto, names: Mapping[str, str]) -> onnx.TensorProto:
    made = onnx.TensorProto()
    made.CopyFrom(tensor)
    made.name = names.get(tensor.name, tensor.name)
    return made


def _sorted(nodes: list[onnx.NodeProto], known: set[str]) -> list[onnx.NodeProto]:
    """The nodes in topological order, otherwise in the given order."""
    known, waiting, done = set(known) | {""}, list(nodes), []
    while waiting:
        rest = []
        for node in waiting:
            if all(name in known for name in reads(node)):
                done.append(node)
                known.update(node.output)
            else:
                rest.append(node)
        if len(rest) == len(waiting):
            raise OplabError(
                f"With the replacement the graph has a cycle through {label(rest[0], 0)}.",
                "An input of the replacement must not depend on one of its outputs.",
            )
        waiting = rest
    return done


def _refresh_value_info(proto: onnx.ModelProto, wiring: Wiring, taken: list[int], outputs: Sequence[str]) -> None:
    """Remove stale type information: of removed values, and of all that depends on the replaced ones."""
    after, waiting = set(), list(outputs)
    while waiting:
        name = waiting.pop()
        if name not in after:
            after.add(name)
            waiting.extend(out for i in wiring.readers.get(name, ()) for out in wiring.nodes[i].output)
    stale = after | {name for i in taken for name in wiring.nodes[i].output}
    kept = [info for info in proto.graph.value_info if info.name not in stale]
    del proto.graph.value_info[:]
    proto.graph.value_info.extend(kept)
