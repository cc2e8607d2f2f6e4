"""Are two models with the same picture the same model?"""

from __future__ import annotations

import hashlib
from typing import Any

from oplab.viewer.source import Source


class _Hasher:
    """A file that only hashes what is written to it."""

    def __init__(self) -> None:
        self.hash = hashlib.blake2b(digest_size=16)

    def write(self, data: Any) -> int:
        self.hash.update(data)
        return len(data)


def digest(model: Source) -> str:
    """A hash of what a model computes. Notes of the exporter, such as stack traces with line numbers, do not count."""
    hasher = _Hasher()
    hasher.write(_canonical(model))
    for part in model.weights:
        part.write(hasher)  # type: ignore[arg-type]
    return hasher.hash.hexdigest()


def weights(model: Source) -> list[str]:
    """Hashes of all the tensors of a model, in an order that does not depend on their names."""
    if model.suffix != ".onnx":
        return []
    import onnx

    from oplab.viewer.source import tensors

    found = []
    for tensor in tensors(onnx.ModelProto.FromString(model.payload).graph):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            hasher = _Hasher()
            hasher.write(repr((tensor.data_type, tuple(tensor.dims))).encode())
            try:
                hasher.write(onnx.numpy_helper.to_array(tensor).tobytes())
            except Exception:  # malformed: compare it as it is
                hasher.write(tensor.raw_data)
            found.append(hasher.hash.hexdigest())
    for part in model.weights:
        hasher = _Hasher()
        part.write(hasher)  # type: ignore[arg-type]
        found.append(hasher.hash.hexdigest())
    return sorted(found)


def _canonical(model: Source) -> bytes:
    if model.suffix != ".onnx":
        return model.payload
    import onnx

    proto = onnx.ModelProto.FromString(model.payload)
    proto.ClearField("doc_string")
    proto.ClearField("metadata_props")
    for part in (proto.graph, *proto.functions):
        _strip(part)
    return proto.SerializeToString(deterministic=True)


def _strip(graph: Any) -> None:
    graph.ClearField("doc_string")
    graph.ClearField("metadata_props")
    for node in graph.node:
        node.ClearField("doc_string")
        node.ClearField("metadata_props")
        for attribute in node.attribute:
            attribute.ClearField("doc_string")
            if attribute.HasField("g"):
                _strip(attribute.g)
            for body in attribute.graphs:
                _strip(body)
    for info in graph.value_info:
        info.ClearField("doc_string")
        info.ClearField("metadata_props")
