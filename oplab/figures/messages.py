"""The messages that an ONNX file is made of: what each field means, and a picture of how they nest. Chapter 01 uses both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oplab.figures.palette import GREEN, GREY, INK, PAPER, RED, SKY

if TYPE_CHECKING:
    import onnx
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# blue, orange and violet mean PyTorch, mapping and ONNX Runtime in the lessons' pictures; all this is ONNX
_VALUES, _WEIGHTS, _NODES = SKY, RED, GREY

MEANINGS: dict[str, dict[str, str]] = {
    "ModelProto": {
        "ir_version": "edition of the file format itself: which messages and fields there are",
        "opset_import": "for each operator domain, the edition of its operators that counts in this file",
        "producer_name": "the tool that wrote the file",
        "producer_version": "that tool's version",
        "domain": "who the model belongs to, as a reversed internet name; not an operator domain",
        "model_version": "the owner's own number for this model",
        "doc_string": "text for people",
        "graph": "the computation and its weights",
        "metadata_props": "pairs of texts, free for any use",
        "training_info": "graphs for training; an engine for inference skips them",
        "functions": "operators that the file defines itself, each by nodes",
        "configuration": "how the model is spread over several devices",
    },
    "OperatorSetIdProto": {
        "domain": "the operators' domain; empty means ai.onnx",
        "version": "the opset: the edition of that domain",
    },
    "GraphProto": {
        "node": "the computation, in an order in which it can run",
        "name": "the graph's name; must not be empty",
        "initializer": "the constant tensors: weights, tables, fixed numbers",
        "sparse_initializer": "constant tensors of which only the values that are not 0 are stored",
        "doc_string": "text for people",
        "input": "what the caller has to feed: name, type, shape",
        "output": "what the caller gets: name, type, shape",
        "value_info": "types and shapes of tensors inside; may be left out",
        "quantization_annotation": "the scale and zero point of quantised tensors",
        "metadata_props": "pairs of texts, free for any use",
    },
    "NodeProto": {
        "input": "names of the tensors that it reads, by position; an empty one is left out",
        "output": "names of the tensors that it makes, by position",
        "name": "a label for messages and pictures; nothing refers to it",
        "op_type": "the operator",
        "domain": "the operator's domain; empty means ai.onnx",
        "overload": "which of several model-local functions of one name is meant",
        "attribute": "what is fixed when the file is written: strides, axes, bodies",
        "doc_string": "text for people",
        "metadata_props": "pairs of texts, free for any use",
        "device_configurations": "on which devices the node runs",
    },
    "AttributeProto": {
        "name": "the attribute's name",
        "ref_attr_name": "inside a function: take the value from this attribute of the function",
        "doc_string": "text for people",
        "type": "which one of the fields below holds the value",
        "f": "FLOAT, 32 bits",
        "i": "INT, 64 bits; also for booleans and element types",
        "s": "STRING, as bytes in UTF-8",
        "t": "TENSOR",
        "g": "GRAPH: the body of If, Loop or Scan",
        "sparse_tensor": "SPARSE_TENSOR",
        "tp": "TYPE_PROTO",
        "floats": "FLOATS, a list",
        "ints": "INTS, a list",
        "strings": "STRINGS, a list",
        "tensors": "TENSORS, a list",
        "graphs": "GRAPHS, a list",
        "sparse_tensors": "SPARSE_TENSORS, a list",
        "type_protos": "TYPE_PROTOS, a list",
    },
    "ValueInfoProto": {
        "name": "the tensor that is described",
        "type": "its type and shape",
        "doc_string": "text for people",
        "metadata_props": "pairs of texts, free for any use",
    },
    "TypeProto": {
        "tensor_type": "it is a tensor",
        "sequence_type": "it is a list of values of one type",
        "map_type": "it is a table from keys to values",
        "optional_type": "it may be missing",
        "sparse_tensor_type": "it is a sparse tensor",
        "opaque_type": "it is something that only its domain understands",
        "denotation": "what the value stands for, for example IMAGE",
    },
    "TypeProto.Tensor": {
        "elem_type": "the dtype, as a number of TensorProto.DataType",
        "shape": "the sizes; not set means that not even the rank is known",
    },
    "TensorShapeProto": {"dim": "one entry for each axis; none means a scalar"},
    "TensorShapeProto.Dimension": {
        "dim_value": "a fixed size",
        "dim_param": "a name for a size that is known at run time; one name, one size",
        "denotation": "what the axis stands for, for example DATA_CHANNEL",
    },
    "TensorProto": {
        "dims": "the sizes; none means a scalar",
        "data_type": "the dtype, as a number of TensorProto.DataType",
        "segment": "a part of a tensor that was cut into pieces; hardly used",
        "float_data": "the numbers, one by one: float32 (and complex64)",
        "int32_data": "the numbers, one by one: int32 and all smaller types, also float16 as bit patterns",
        "string_data": "the texts, one by one, as bytes",
        "int64_data": "the numbers, one by one: int64",
        "name": "the name by which nodes read it",
        "doc_string": "text for people",
        "raw_data": "the numbers as bytes, little-endian, last axis fastest",
        "external_data": "where the numbers are if they are in another file: location, offset, length",
        "data_location": "whether the numbers are here or in another file",
        "double_data": "the numbers, one by one: float64 (and complex128)",
        "uint64_data": "the numbers, one by one: uint32 and uint64",
        "metadata_props": "pairs of texts, free for any use",
    },
    "StringStringEntryProto": {"key": "the key of a pair", "value": "its text"},
}
"""For each message, what its fields mean, in the order of the format's own definition."""


def message_name(message: Any) -> str:
    """The name of a message without its package, ``TypeProto.Tensor``: a key of :data:`MEANINGS`."""
    return message.DESCRIPTOR.full_name.removeprefix("onnx.")


def nested(model: onnx.ModelProto) -> Figure:
    """The messages of a model as boxes inside each other, with the model's own counts and values.

    Shows the first graph input and output, the first ``Conv`` (or, where there is none, the node with most attributes), and the
    largest initialiser.
    """
    import matplotlib.pyplot as plt
    from onnx import TensorProto

    graph = model.graph
    figure = plt.figure(figsize=(11.2, 6.5), dpi=100)
    axes = figure.add_axes((0, 0, 1, 1))  # one unit is one inch, so that text keeps its size in a box
    axes.set_xlim(0, 11.2)
    axes.set_ylim(0, 6.5)
    axes.set_axis_off()

    _box(axes, 0.1, 0.1, 11.0, 6.3, "ModelProto", INK)
    opsets = ", ".join(f"{entry.domain or 'ai.onnx'} {entry.version}" for entry in model.opset_import)
    producer = f"{model.producer_name} {model.producer_version.split('+')[0]}"
    for x, name, text in (
        (0.35, "ir_version", str(model.ir_version)),
        (1.75, "opset_import", opsets),
        (4.2, "producer_name, producer_version", producer),
        (7.9, "functions", str(len(model.functions))),
        (9.3, "metadata_props", str(len(model.metadata_props))),
    ):
        _fact(axes, x, 5.75, name, text)

    _box(axes, 0.3, 0.3, 10.6, 4.95, f"GraphProto   {graph.name}", GREEN)
    for y, title, values in ((2.8, "input", graph.input), (0.5, "output", graph.output)):
        _cards(axes, 0.5, y, 3.0, 1.95, f"{title}   {len(values)} × ValueInfoProto", _VALUES, len(values))
        if values:
            value, kind = values[0], values[0].type.tensor_type
            _fact(axes, 0.65, y + 1.2, "name", value.name)
            sizes = [str(d.dim_value) if d.HasField("dim_value") else d.dim_param or "?" for d in kind.shape.dim]
            _box(axes, 0.65, y + 0.12, 2.7, 0.8, "TypeProto", _VALUES, small=True)
            _text(axes, 0.78, y + 0.42, f"{TensorProto.DataType.Name(kind.elem_type)}   {_short(', '.join(sizes), 24)}")

    convs = [node for node in graph.node if node.op_type == "Conv"]
    node = convs[0] if convs else max(graph.node, key=lambda entry: len(entry.attribute))
    _cards(axes, 3.75, 0.5, 3.45, 4.25, f"node   {len(graph.node)} × NodeProto", _NODES, len(graph.node))
    for y, name, text in (
        (4.0, "op_type", node.op_type),
        (3.5, "name", node.name),
        (3.0, "input", ", ".join(node.input)),
        (2.5, "output", ", ".join(node.output)),
    ):
        _fact(axes, 3.9, y, name, _short(text, 34))
    _cards(axes, 3.9, 0.62, 3.1, 1.65, f"attribute   {len(node.attribute)} × AttributeProto", _NODES, 1)
    for i, attribute in enumerate(node.attribute[:5]):
        kind = attribute.AttributeType.Name(attribute.type)
        value = {"INT": attribute.i, "FLOAT": round(attribute.f, 4), "STRING": attribute.s.decode()}.get(
            kind, list(attribute.ints or attribute.floats) or "…"
        )
        _text(axes, 4.02, 1.76 - 0.235 * i, f"{attribute.name}  {kind}  {value}", size=8.8)

    _cards(
        axes,
        7.45,
        2.05,
        3.2,
        2.7,
        f"initializer   {len(graph.initializer)} × TensorProto",
        _WEIGHTS,
        len(graph.initializer),
    )
    if graph.initializer:
        tensor = max(graph.initializer, key=lambda entry: len(entry.raw_data))
        for y, name, text in (
            (4.0, "name", tensor.name),
            (3.5, "dims", ", ".join(map(str, tensor.dims))),
            (3.0, "data_type", f"{tensor.data_type}  ({TensorProto.DataType.Name(tensor.data_type)})"),
            (2.5, "raw_data", f"{len(tensor.raw_data):,} bytes".replace(",", " ")),
        ):
            _fact(axes, 7.6, y, name, _short(text, 36))
    count = len(graph.value_info)
    _cards(axes, 7.45, 0.5, 3.2, 1.3, f"value_info   {count} × ValueInfoProto", _VALUES, min(count, 1) or 1)
    _text(axes, 7.6, 1.05, "types and shapes of the\nvalues between the nodes", size=9.5)
    plt.close(figure)  # else the inline backend shows it a second time
    return figure


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 2] + " …"


def _text(axes: Axes, x: float, y: float, text: str, size: float = 9.5, **style: Any) -> None:
    axes.text(x, y, text, ha="left", va="center", color=INK, size=size, **style)


def _fact(axes: Axes, x: float, y: float, name: str, text: str) -> None:
    """A field's name, paler, with its value below."""
    axes.text(x, y + 0.1, name, ha="left", va="center", color=INK, alpha=0.75, size=8.5)
    _text(axes, x, y - 0.11, text, size=10, weight="bold")


def _box(
    axes: Axes, x: float, y: float, width: float, height: float, title: str, colour: str, *, small: bool = False
) -> None:
    from matplotlib.colors import to_rgba
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0,rounding_size=0.1"
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, fc=PAPER, ec="none"))
    face = to_rgba(colour, 0.1)
    axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=style, fc=face, ec=colour, lw=1.2 if small else 1.8))
    axes.text(
        x + 0.12,
        y + height - (0.17 if small else 0.22),
        title,
        ha="left",
        va="center",
        weight="bold",
        color=INK,
        size=9 if small else 11.5,
    )


def _cards(axes: Axes, x: float, y: float, width: float, height: float, title: str, colour: str, count: int) -> None:
    """A box, and the edges of further boxes under it where there is more than one."""
    for back in range(min(count - 1, 2), 0, -1):
        _box(axes, x + 0.07 * back, y + 0.07 * back, width, height, "", colour)
    _box(axes, x, y, width, height, title, colour, small=True)
