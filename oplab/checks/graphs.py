"""What judges ask of an ONNX model. Each function raises :class:`oplab.parity.arrays.WrongAnswer` with a sentence for the learner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx

from oplab.checks.errors import shortened
from oplab.checks.ort_errors import NO_CAUSES, Causes, sentence
from oplab.onnxtools.names import node_type, normal_domain
from oplab.onnxtools.subgraphs import bodies, every_node, reads
from oplab.parity.arrays import WrongAnswer, describe

if TYPE_CHECKING:
    import onnxruntime


def parse(data: bytes, name: str = "the model") -> onnx.ModelProto:
    """An ONNX model that is complete in one file.

    Not ``onnxtools.loading``: an answer is bytes and must not name a path of this machine, and what is wrong with it is a WrongAnswer.

    Args:
        name: names the model in messages.

    Raises:
        WrongAnswer: the bytes are not a model with an output, or its weights are in other files.
    """
    try:
        model = onnx.load_model_from_string(data)
    except Exception:
        raise WrongAnswer(f"{name}: these {len(data)} bytes are not an ONNX model.") from None
    if not model.HasField("graph") or not model.graph.output:
        raise WrongAnswer(f"{name}: these {len(data)} bytes hold no ONNX graph with an output.")
    for tensor in tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
            place = next((entry.value for entry in tensor.external_data if entry.key == "location"), "another file")
            raise WrongAnswer(
                f"{name}: the weights of {tensor.name!r} are not in the file but in {place!r}; "
                "without that file the model cannot be loaded. onnx.save writes a tensor there as long as its data_location is EXTERNAL, "
                "also when raw_data holds its bytes."
            )
    return model


def graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    """The main graph and the bodies of If, Loop and Scan, also those in model-local functions."""
    waiting = [model.graph, *(body for function in model.functions for node in function.node for body in bodies(node))]
    while waiting:
        graph = waiting.pop()
        yield graph
        waiting.extend(body for node in graph.node for body in bodies(node))


def tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every constant tensor: initialisers and attributes."""
    for graph in graphs(model):
        yield from graph.initializer
        yield from (part for sparse in graph.sparse_initializer for part in (sparse.values, sparse.indices))
    owners = [*every_node(model), *model.functions]  # a function's defaults are attributes too
    for owner in owners:
        for attribute in owner.attribute if isinstance(owner, onnx.NodeProto) else owner.attribute_proto:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            sparse = [attribute.sparse_tensor] if attribute.HasField("sparse_tensor") else []
            for entry in [*sparse, *attribute.sparse_tensors]:
                yield from (entry.values, entry.indices)


def ops(model: onnx.ModelProto) -> Counter[str]:
    """How often each operator is used; custom ones as ``domain::Type``."""
    return Counter(map(node_type, every_node(model)))


def opset(model: onnx.ModelProto, domain: str = "") -> int | None:
    """The version that the model imports of a domain, or None."""
    wanted = normal_domain(domain)
    return next((entry.version for entry in model.opset_import if normal_domain(entry.domain) == wanted), None)


def expect_opset(model: onnx.ModelProto, version: int, domain: str = "") -> None:
    """Demand that the model imports this version of a domain (ONNX's own by default).

    Raises:
        WrongAnswer: it imports another version, or not the domain.
    """
    found = opset(model, domain)
    if found != version:
        raise WrongAnswer(
            f"Expected opset {version} of domain {domain or 'ai.onnx'}, the model imports {found or 'none'}."
        )


def expect_inputs(model: onnx.ModelProto, names: Sequence[str]) -> None:
    """Demand exactly these graph inputs, in this order: an input that vanished was baked into the graph.

    Raises:
        WrongAnswer: there are others.
    """
    constants = {tensor.name for tensor in model.graph.initializer}
    found = [value.name for value in model.graph.input if value.name not in constants]
    missing = [name for name in names if name not in found]
    if missing and len(found) < len(names):
        raise WrongAnswer(
            f"Expected the graph inputs {list(names)}, got {found}: {', '.join(missing)} is missing. "
            "A missing input was baked into the graph as a constant, or nothing uses it."
        )
    if found != list(names):
        raise WrongAnswer(f"Expected the graph inputs {list(names)}, got {found}.")


def needed(model: onnx.ModelProto) -> set[str]:
    """Every value of the main graph that an output depends on."""
    makers = {output: node for node in model.graph.node for output in node.output}
    waiting, reached = [value.name for value in model.graph.output], set()
    while waiting:
        name = waiting.pop()
        if name and name not in reached:
            reached.add(name)
            waiting.extend(reads(makers[name]) if name in makers else ())
    return reached


def expect_used(model: onnx.ModelProto, names: Sequence[str]) -> None:
    """Demand that an output depends on each of these graph inputs: an unused one was baked in, although it is still declared.

    Raises:
        WrongAnswer: no output depends on one of them.
    """
    reached = needed(model)
    for name in names:
        if name not in reached:
            raise WrongAnswer(
                f"No output depends on the graph input {name!r}: what was computed from it at export is in the graph as a constant, "
                f"or it was left out. The graph has {_list(ops(model))}."
            )


def expect_outputs(model: onnx.ModelProto, names: Sequence[str]) -> None:
    """Demand exactly these graph outputs, in this order.

    Raises:
        WrongAnswer: there are others.
    """
    found = [value.name for value in model.graph.output]
    if found != list(names):
        raise WrongAnswer(f"Expected the graph outputs {list(names)}, got {found}.")


def expect_ops(model: onnx.ModelProto, wanted: Mapping[str, int]) -> None:
    """Demand these operators, each this many times. Others may be there too.

    Args:
        wanted: how often by name, ``domain::Type`` or a type of ONNX.

    Raises:
        WrongAnswer: one occurs more or less often.
    """
    found = ops(model)
    for name, count in wanted.items():
        if found[name] != count:
            near = [other for other in found if other.lower() == name.lower() and other != name]
            hint = f" {near[0]} is spelled differently: names of operators are case-sensitive." if near else ""
            abroad = [other for other in found if other.endswith("::" + name)]
            if abroad:
                hint = f" {abroad[0]} is an operator of another domain: ONNX's own are written without one."
            raise WrongAnswer(
                f"Expected {count} × {name} in the graph, found {found[name]}; it has {_list(found)}.{hint}"
            )


def expect_valid(model: onnx.ModelProto) -> None:
    """Demand that onnx.checker accepts the model, with full shape inference.

    Raises:
        WrongAnswer: it rejects the model; with its message.
    """
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        raise WrongAnswer(f"onnx.checker rejects the model: {shortened(str(error))}") from None


def expect_dynamic(model: onnx.ModelProto, name: str, axes: Sequence[int]) -> None:
    """Demand that these axes of a graph input have a name instead of a fixed size.

    Raises:
        WrongAnswer: one is a number, or there is no such axis or input.
    """
    for value in model.graph.input:
        if value.name == name:
            dims = value.type.tensor_type.shape.dim
            fixed = [axis for axis in axes if axis >= len(dims) or dims[axis].HasField("dim_value")]
            if fixed:
                shape = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in dims]
                raise WrongAnswer(
                    f"Input {name!r} has the shape {shape}: axis {fixed[0]} is fixed, so only that size can be run."
                )
            return
    raise WrongAnswer(f"The graph has no input {name!r}.")


def load(
    model: onnx.ModelProto | bytes, what: str = "ONNX Runtime", *, kernels: bool = False, causes: Causes = NO_CAUSES
) -> onnxruntime.InferenceSession:
    """A session of ONNX Runtime on a model, one thread, which prints nothing.

    Args:
        model: a model, or its bytes, complete in themselves.
        what: names the runtime in messages.
        kernels: with the course's compiled operators.
        causes: what is special to the exercise in a message of the runtime (:mod:`oplab.checks.ort_errors`).

    Raises:
        WrongAnswer: ONNX Runtime rejects the model; with its message and the likely cause.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if isinstance(model, bytes):
        parse(model, what)  # weights in other files would be looked for on this machine
    data = model if isinstance(model, bytes) else model.SerializeToString()
    try:
        if kernels:
            from oplab.ops import session

            return session(data, threads=1)
        return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        with_kernels = " with the course's kernels" * kernels
        raise WrongAnswer(f"{what}{with_kernels} cannot load the model: {sentence(error, causes)}") from None


def run(
    model: onnx.ModelProto | bytes | onnxruntime.InferenceSession,
    feeds: Mapping[str, np.ndarray],
    what: str = "ONNX Runtime",
    *,
    kernels: bool = False,
    causes: Causes = NO_CAUSES,
) -> list[np.ndarray]:
    """Run a model, or a session from :func:`load`, and return its outputs.

    Args:
        feeds: arrays by the name of the graph input.
        what, kernels, causes: as for :func:`load`.

    Raises:
        WrongAnswer: ONNX Runtime rejects the model or fails; with its message and the likely cause.
    """
    import onnxruntime

    session = model
    if not isinstance(model, onnxruntime.InferenceSession):
        session = load(model, what, kernels=kernels, causes=causes)
    try:
        return session.run(None, dict(feeds))
    except Exception as error:
        shapes = ", ".join(f"{name} {describe(value)}" for name, value in feeds.items())
        raise WrongAnswer(f"{what} cannot run the model on {shapes}: {sentence(error, causes)}") from None


def _list(found: Counter[str]) -> str:
    return ", ".join(f"{count} × {name}" for name, count in sorted(found.items())) or "no nodes"
