"""A model from what a user has of it: a path, bytes, a ModelProto, an ``onnx_ir.Model`` or an ONNXProgram."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oplab.errors import OplabError

if TYPE_CHECKING:  # a path or bytes for ONNX Runtime need not be parsed
    import onnx


def source(model: Any) -> str | bytes:
    """What ONNX Runtime takes for a model: its path, or its bytes.

    Args:
        model: a path, bytes, a ModelProto, an ``onnx_ir.Model`` or what ``torch.onnx.export`` returns.

    Raises:
        OplabError: it is not a model, there is no such file, its weights are in a file whose folder is not known, or it has
            more than 2 GB.
    """
    if isinstance(model, (str, os.PathLike)):
        return str(_existing(model))
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    proto = _complete(_proto(model, "the model"), "This ModelProto")
    try:
        return proto.SerializeToString()
    except Exception as error:
        raise OplabError(
            f"The model cannot be turned into bytes: {error}.",
            "Models over 2 GB go through a file: save it with external data and give its path.",
        ) from None


def load(model: Any, what: str = "the model", *, weights: bool = True) -> onnx.ModelProto:
    """A model as a ModelProto. What is a ModelProto already is returned itself, not a copy.

    Args:
        model: a path, bytes, a ModelProto, an ``onnx_ir.Model`` or what ``torch.onnx.export`` returns.
        what: the model's name in messages.
        weights: read those that are in files next to the model; otherwise the references to them stay.

    Raises:
        OplabError: it is not a model, or a file is missing or cannot be read, or the weights are in a file whose folder is not
            known.
    """
    if isinstance(model, (str, os.PathLike)):
        return _from_file(_existing(model), weights)
    if isinstance(model, (bytes, bytearray, memoryview)):
        proto = parse(bytes(model), what)
    else:
        proto = _proto(model, what)
    return _complete(proto, what) if weights else proto


def parse(data: bytes, what: str = "the model") -> onnx.ModelProto:
    """A ModelProto from its bytes. It may be empty: no bytes at all are a message without fields."""
    import onnx

    try:
        proto = onnx.load_model_from_string(data)
    except Exception:  # protobuf's DecodeError; its place differs between protobuf versions
        raise OplabError(f"{what} is not an ONNX model ({len(data)} bytes).", "Export the model again.") from None
    if not all(isinstance(text, str) for text in texts(proto)):
        raise OplabError(f"{what} is damaged: a name inside is not text.", "Export or download it again.")
    return proto


def texts(message: Any) -> Iterator[object]:
    """All the strings in a protobuf message. Protobuf gives bytes for what is not UTF-8."""
    if message.DESCRIPTOR.name != "TensorProto":
        fields = message.ListFields()
    else:  # ListFields would copy its numbers
        fields = [
            (one, getattr(message, one.name))
            for one in message.DESCRIPTOR.fields
            if one.name in ("name", "external_data")
        ]
    for descriptor, value in fields:
        if descriptor.type == descriptor.TYPE_STRING:
            yield from [value] if isinstance(value, (str, bytes)) else value
        elif descriptor.type == descriptor.TYPE_MESSAGE:
            for inner in [value] if hasattr(value, "ListFields") else value:
                yield from texts(inner)


def _existing(model: str | os.PathLike[str]) -> Path:
    path = Path(model)
    if not path.is_file():
        raise OplabError(
            f"There is no model {path}.",
            "Correct the path (it is relative to the current folder), or run the cell that exports the model.",
        )
    return path


def _proto(model: Any, what: str) -> onnx.ModelProto:
    import onnx

    if isinstance(model, onnx.ModelProto):
        return model
    if hasattr(model, "model_proto"):  # an ONNXProgram
        return model.model_proto
    if type(model).__module__.split(".")[0] == "onnx_ir":
        import onnx_ir

        return onnx_ir.to_proto(model)
    start = "A" if what == "the model" else f"{what}: a"
    raise OplabError(
        f"{start} model is a path, bytes, a ModelProto, an onnx_ir.Model or an ONNXProgram, not {type(model).__name__}.",
        "Export a torch module first: `torch.onnx.export(module, inputs, dynamo=True)`.",
    )


def _complete(proto: onnx.ModelProto, what: str) -> onnx.ModelProto:
    if any(tensor.data_location == tensor.EXTERNAL for tensor in proto.graph.initializer):
        raise OplabError(
            f"{what} keeps its weights in a file next to the model, and does not state the folder.",
            "Give the path of the .onnx file instead.",
        )
    return proto


def _from_file(path: Path, weights: bool) -> onnx.ModelProto:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise OplabError(f"{path} cannot be read: {error.strerror}.") from None
    proto = parse(data, str(path))
    if weights:
        read_weights(proto, path.parent, str(path))
    return proto


def read_weights(proto: onnx.ModelProto, folder: Path, what: str) -> None:
    """Read the weights of a model that are in files of that folder."""
    import onnx

    try:
        onnx.load_external_data_for_model(proto, str(folder))
    except Exception as error:  # onnx raises its own checker errors, OSError and ValueError here
        entries = (entry for tensor in proto.graph.initializer for entry in tensor.external_data)
        where = next((entry.value for entry in entries if entry.key == "location"), "another file")
        raise OplabError(
            f"{what} keeps weights in {where!r}, which cannot be read ({str(error).splitlines()[0][:160]}).",
            "Put that file next to the model, or export again with external_data=False.",
        ) from None
