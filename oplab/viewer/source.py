"""Everything that can be shown, brought into one form: a light ModelProto, and where its weights are."""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import onnx

from oplab.errors import OplabError
from oplab.onnxtools.loading import texts
from oplab.viewer import graph as g
from oplab.viewer import wire
from oplab.viewer.onnx_graph import from_onnx

INFER_LIMIT = 5000  # nodes; shape inference and the checker on more than that take longer than the picture is worth
INLINE_LIMIT = 1024  # bytes of a tensor in an external file that are read, because shapes may depend on them
TEXT_SUFFIXES = (".onnxtxt", ".onnxtext", ".txtpb", ".textproto", ".prototxt", ".pbtxt", ".json", ".onnxjson")
_NO_NAMES = ("main_graph", "main", "torch_jit", "graph", "")  # what exporters write for a graph without a name
_WANTED = "a path, bytes, a ModelProto, an onnx_ir.Model, an ONNXProgram, or a traced or scripted module"


@dataclass
class Weights:
    """One part of the file of weights. It is read only when it is written out.

    Attributes:
        length: its size in bytes.
        write: writes these bytes to a file.
    """

    length: int
    write: Callable[[BinaryIO], None]


@dataclass
class Source:
    """A model, ready to be drawn and to be handed to Netron."""

    name: str
    model: g.Model
    payload: bytes  # what Netron opens; empty if Netron cannot open such a model
    suffix: str = ".onnx"
    weights: list[Weights] = field(default_factory=list)

    @property
    def weights_size(self) -> int:
        """The size of the file of weights, in bytes."""
        return sum(w.length for w in self.weights)

    def write_weights(self, out: BinaryIO) -> None:
        """Write the file that the payload's references point into."""
        for part in self.weights:
            part.write(out)


def load(model: Any) -> Source:
    """Read what a user passed to `show`.

    This is not `oplab.onnxtools.loading`: a picture never copies large weights, a model with missing weights or a wrong
    graph is still drawn, and a file in text form or a bare graph is a model here too.

    Raises:
        OplabError: it cannot be shown; the message names what it seems to be instead.
    """
    if isinstance(model, (str, os.PathLike)):
        return _from_path(Path(model).expanduser())
    if isinstance(model, (bytes, bytearray, memoryview)):
        return _from_bytes(memoryview(model).cast("B"), "model", "The bytes", [])
    if isinstance(model, onnx.ModelProto):
        proto, weights = _without_weights(model)
        return _from_proto(proto, _named(proto.graph.name), weights)
    if isinstance(model, onnx.GraphProto):
        proto = onnx.ModelProto(graph=model)
        return _from_proto(proto, _named(model.name, "graph"), [], check=False)
    if _is(model, "torch.onnx", "ONNXProgram"):
        return _from_ir(model.model)
    if _is(model, "onnx_ir", "Model"):
        return _from_ir(model)
    if _is(model, "torch", "ScriptModule") or _is(model, "torch", "Graph") or _is(model, "torch", "ScriptFunction"):
        from oplab.viewer import torchscript

        return Source(*torchscript.load(model), suffix=".netron")
    raise _not_a_model(model)


def _is(value: Any, package: str, name: str) -> bool:
    """Is this an instance of a class of that name? The package is not imported for the answer."""
    return package.split(".")[0] in sys.modules and any(
        c.__name__ == name and (c.__module__ or "").split(".")[0] == package.split(".")[0] for c in type(value).__mro__
    )


def _not_a_model(value: Any) -> OplabError:
    kind = type(value).__name__
    if _is(value, "torch", "Module"):
        return OplabError(
            f"{kind} is a PyTorch module: it has no graph yet.",
            "Export it with torch.onnx.export, or trace it with torch.jit.trace, and show the result.",
        )
    if kind == "InferenceSession":
        return OplabError("An InferenceSession does not give its model back.", "Show the file that it was made from.")
    if value is None:
        return OplabError("There is nothing to show: the model is None.", f"Pass {_WANTED}.")
    return OplabError(f"A {kind} cannot be shown.", f"Pass {_WANTED}.")


def _named(name: str | None, otherwise: str = "model") -> str:
    return otherwise if (name or "") in _NO_NAMES else str(name)


# --- files and bytes ------------------------------------------------------------------------------------------------


def _from_path(path: Path) -> Source:
    if not path.exists():
        near = sorted(p.name for p in path.parent.glob("*.onnx"))[:5] if path.parent.is_dir() else []
        fix = (
            f"Models next to it: {', '.join(near)}."
            if near
            else "Check the path; it is relative to the current folder."
        )
        raise OplabError(f"There is no file {path}.", fix)
    if path.is_dir():
        raise OplabError(f"{path} is a folder.", "Pass the path of one model file.")
    try:
        if path.suffix in TEXT_SUFFIXES:
            return _from_text(path)
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise OplabError(f"{path.name} is empty.", "Export the model again.")
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            try:
                payload, ranges = _slim(memoryview(data), path.name)
            finally:
                with contextlib.suppress(BufferError):  # an error's traceback still looks at it
                    data.close()
    except OSError as error:
        raise OplabError(f"{path} cannot be read: {error.strerror}.") from None
    weights = [Weights(r.length, _copy_range(path, r.start, r.length)) for r in ranges]
    return _from_proto(_parse(payload, path.name), path.stem, weights, folder=path.parent)


def _from_text(path: Path) -> Source:
    try:
        proto = onnx.load(path, load_external_data=False)
    except Exception as error:
        raise OplabError(f"{path.name} is not an ONNX model in text form: {_first_line(error)}") from None
    return _from_proto(proto, path.stem, [], folder=path.parent)


def _from_bytes(view: memoryview, name: str, what: str, weights: list[Weights]) -> Source:
    if not len(view):
        raise OplabError(f"{what} are empty.", "Export the model again.")
    payload, ranges = _slim(view, what)
    weights = [Weights(r.length, _write_slice(view, r.start, r.length)) for r in ranges]
    proto = _parse(payload, what)
    return _from_proto(proto, _named(proto.graph.name, name), weights)


def _copy_range(path: Path, start: int, length: int) -> Callable[[BinaryIO], None]:
    def write(out: BinaryIO) -> None:
        with open(path, "rb") as file:
            file.seek(start)
            left = length
            while left > 0:
                block = file.read(min(left, 1 << 20))
                if not block:
                    break
                out.write(block)
                left -= len(block)
            out.write(bytes(left))  # a file that shrank meanwhile must not shift the tensors after it

    return write


def _write_slice(view: memoryview, start: int, length: int) -> Callable[[BinaryIO], None]:
    return lambda out: out.write(view[start : start + length])


def _slim(view: memoryview, what: str) -> tuple[bytes, list[wire.Range]]:
    try:
        return wire.slim(view)
    except wire.TruncatedError:
        raise _damaged(bytes(view[:16]), what, f"cut off: the model ends after {len(view)} bytes") from None


def _damaged(head: bytes, what: str, how: str) -> OplabError:
    verb = "are" if what.startswith("The bytes") else "is"
    if head.startswith(b"PK"):
        return OplabError(
            f"{what} {verb} a zip archive, not an ONNX model; PyTorch saves its files so.",
            "Load it with torch.jit.load or torch.export.load, and show what that returns.",
        )
    if head[:1] in (b"\x08", b"\x12", b"\x3a"):  # ir_version, producer_name or graph: how ONNX files begin
        return OplabError(f"{what} {verb} {how}.", "Export or download it again.")
    return OplabError(f"{what} {verb} not an ONNX model.", "Pass a file that torch.onnx.export or onnx.save wrote.")


def _parse(payload: bytes, what: str) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(payload)
    except Exception:  # protobuf's DecodeError; its place differs between protobuf versions
        raise _damaged(payload[:16], what, "damaged") from None
    if not proto.HasField("graph"):
        verb = "are" if what.startswith("The bytes") else "is"
        raise OplabError(
            f"{what} {verb} not an ONNX model: there is no graph inside.",
            "Pass a file that torch.onnx.export or onnx.save wrote.",
        )
    return proto


# --- models in memory -----------------------------------------------------------------------------------------------


def _without_weights(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[Weights]]:
    """A copy whose large initializers are references, so that showing a model never doubles its memory."""
    light, weights, offset = onnx.ModelProto(), [], 0
    _copy_fields(model, light, "graph")
    _copy_fields(model.graph, light.graph, "initializer")
    for tensor in model.graph.initializer:
        if tensor.ByteSize() <= wire.LIMIT or not tensor.HasField("raw_data"):
            light.graph.initializer.append(tensor)
            continue
        copy = light.graph.initializer.add()
        _copy_fields(tensor, copy, "raw_data")
        length = len(tensor.raw_data)
        _refer(copy, offset, length)
        weights.append(Weights(length, lambda out, tensor=tensor: out.write(tensor.raw_data)))
        offset += length
    return light, weights


def _copy_fields(source: Any, target: Any, without: str) -> None:
    for descriptor, value in source.ListFields():
        if descriptor.name == without:
            continue
        if hasattr(value, "MergeFrom"):  # a message, or a repeated field
            getattr(target, descriptor.name).MergeFrom(value)
        else:
            setattr(target, descriptor.name, value)


def _refer(tensor: onnx.TensorProto, offset: int, length: int) -> None:
    del tensor.external_data[:]
    for key, value in (("location", wire.WEIGHTS), ("offset", str(offset)), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    tensor.data_location = onnx.TensorProto.EXTERNAL


def _from_ir(model: Any) -> Source:
    import onnx_ir as ir

    light, weights, offset = model, [], 0
    if any(v.const_value is not None and v.const_value.nbytes > wire.LIMIT for v in model.graph.initializers.values()):
        light = model.clone()  # shares the tensors
        for name, value in light.graph.initializers.items():
            tensor = value.const_value
            if tensor is None or tensor.nbytes <= wire.LIMIT or tensor.dtype == ir.DataType.STRING:
                continue
            length = tensor.nbytes
            value.const_value = ir.ExternalTensor(
                wire.WEIGHTS, offset, length, tensor.dtype, shape=tensor.shape, name=name, base_dir=""
            )
            weights.append(Weights(length, lambda out, tensor=tensor: out.write(tensor.tobytes())))
            offset += length
    return _from_proto(ir.to_proto(light), _named(model.graph.name), weights)


# --- one light proto ------------------------------------------------------------------------------------------------


def _from_proto(
    proto: onnx.ModelProto, name: str, weights: list[Weights], folder: Path | None = None, check: bool = True
) -> Source:
    if not all(isinstance(text, str) for text in texts(proto)):
        raise OplabError(f"{name} is damaged: a name inside is not text.", "Export or download it again.")
    weights = list(weights)
    problems = _adopt_external(proto, weights, folder) if folder else []
    payload = proto.SerializeToString()
    count = len(proto.graph.node)
    if check and count <= INFER_LIMIT:
        problems += _checked(proto)
    if count <= INFER_LIMIT and not _all_typed(proto.graph):
        try:
            proto = onnx.shape_inference.infer_shapes(proto, data_prop=True)
        except Exception:  # a model that cannot be inferred is still drawn; the checker has said what is wrong
            pass
    model = from_onnx(proto)
    model.problems = problems
    return Source(name, model, payload, ".onnx", weights)


def _all_typed(graph: onnx.GraphProto) -> bool:
    typed = {v.name for v in (*graph.value_info, *graph.output) if v.type.WhichOneof("value")}
    return all(name in typed for node in graph.node for name in node.output if name)


def tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """All tensors that a graph and its bodies hold."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attr in node.attribute:
            if attr.HasField("t"):
                yield attr.t
            yield from attr.tensors
            if attr.HasField("g"):
                yield from tensors(attr.g)
            for body in attr.graphs:
                yield from tensors(body)


def _adopt_external(proto: onnx.ModelProto, weights: list[Weights], folder: Path) -> list[str]:
    """Make references to files next to the model point to the one file of weights for Netron."""
    offset = sum(w.length for w in weights)
    missing: dict[str, int] = {}
    lies: dict[str, int] = {}
    for tensor in tensors(proto.graph):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entries = {e.key: e.value for e in tensor.external_data}
        location = entries.get("location", "")
        if location == wire.WEIGHTS and not (folder / wire.WEIGHTS).exists():
            continue  # ours already
        path = _beside(folder, location)
        if path is None:
            missing[location] = missing.get(location, 0) + 1
            continue
        size = path.stat().st_size
        try:
            start = int(entries.get("offset") or 0)
            length = int(entries.get("length") or max(size - start, 0))
        except ValueError:
            start = length = -1
        if not (0 <= start and 0 <= length <= size - start):
            lies[location] = lies.get(location, 0) + 1
            continue
        if length <= INLINE_LIMIT:
            with open(path, "rb") as file:
                file.seek(start)
                tensor.raw_data = file.read(length)
            del tensor.external_data[:]
            tensor.data_location = onnx.TensorProto.DEFAULT
            continue
        _refer(tensor, offset, length)
        weights.append(Weights(length, _copy_range(path, start, length)))
        offset += length
    return [
        f"The file {location} next to the model is missing: {_count(n, 'tensor')} in it are shown by shape only."
        for location, n in sorted(missing.items())
    ] + [
        f"The file {location} has no such place: {_count(n, 'tensor')} with a wrong offset or length are shown by shape only."
        for location, n in sorted(lies.items())
    ]


def _beside(folder: Path, location: str) -> Path | None:
    """The external file, if it is a plain file in the model's own folder. A model must not name files elsewhere."""
    if not location:
        return None
    path = folder / location
    try:
        inside = path.resolve().is_relative_to(folder.resolve())
        return path if inside and path.is_file() and not path.is_symlink() else None
    except (OSError, ValueError):  # too long a name, or a NUL in it
        return None


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _checked(proto: onnx.ModelProto) -> list[str]:
    """What onnx.checker reports about the model, as at most one sentence."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for tensor in tensors(copy.graph):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:  # the checker would look for the file
            del tensor.external_data[:], tensor.dims[:]
            tensor.dims.append(0)
            tensor.data_location = onnx.TensorProto.DEFAULT
            tensor.raw_data = b""
    try:
        onnx.checker.check_model(copy)
    except Exception as error:
        return [f"onnx.checker rejects this model: {_first_line(error)}"]
    return []


def _first_line(error: BaseException) -> str:
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return line if len(line) <= 300 else line[:299] + "…"
