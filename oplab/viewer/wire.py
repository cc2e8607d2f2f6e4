"""Take the weights out of a serialized ONNX model without reading them.

A picture needs a tensor's name, type and shape, never its numbers. Parsing a 100 MB file with protobuf would copy all of
them twice. `slim` walks the wire format instead: it skips each large tensor and writes, in its place, a reference of the
kind that ONNX itself uses for external data (``location``, ``offset``, ``length``). Netron follows such a reference only
when the weight is opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

LIMIT = 4096  # bytes of one tensor that stay inline
WEIGHTS = "weights"  # the location that references name

# message -> {field number: message of that field}; everything else is copied as it is
_NESTED: dict[str, dict[int, str]] = {
    "ModelProto": {7: "GraphProto", 25: "FunctionProto"},
    "GraphProto": {1: "NodeProto", 5: "TensorProto", 15: "SparseTensorProto"},
    "FunctionProto": {7: "NodeProto"},
    "NodeProto": {5: "AttributeProto"},
    "AttributeProto": {
        5: "TensorProto",
        6: "GraphProto",
        10: "TensorProto",
        11: "GraphProto",
        22: "SparseTensorProto",
        23: "SparseTensorProto",
    },
    "SparseTensorProto": {1: "TensorProto", 2: "TensorProto"},
}
# fields of TensorProto whose bytes, when packed, are the little-endian numbers themselves
_FLOAT_DATA, _RAW_DATA, _DOUBLE_DATA = 4, 9, 10
_DATA_LOCATION, _EXTERNAL_DATA = 14, 13
_LENGTH_DELIMITED = 2


class TruncatedError(ValueError):
    """The bytes end in the middle of a field, or are not a protobuf message at all."""


@dataclass(frozen=True)
class Range:
    """Where a tensor's numbers are in the bytes that were scanned, and where they will be among the weights."""

    start: int
    length: int
    offset: int


def slim(data: memoryview | bytes) -> tuple[bytes, list[Range]]:
    """A ModelProto without its large tensors, and where their numbers are.

    Args:
        data: a serialized ModelProto; may be a memoryview of a memory-mapped file.

    Returns:
        the serialized model, in which each large tensor refers to ``weights``, and the ranges of ``data`` that, one after
        the other, make up that file.

    Raises:
        TruncatedError: ``data`` is cut off, or is not a protobuf message.
    """
    ranges: list[Range] = []
    out = bytearray()
    _message(memoryview(data), 0, len(data), "ModelProto", out, ranges)
    return bytes(out), ranges


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if at >= end or shift > 63:
            raise TruncatedError("a number is cut off")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, at
        shift += 7


def encode_varint(value: int) -> bytes:
    """A non-negative number as protobuf writes it: seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _fields(data: memoryview, at: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(field number, wire type, start of the whole field, start and end of its content)."""
    while at < end:
        start = at
        tag, at = _varint(data, at, end)
        number, wire = tag >> 3, tag & 7
        if number == 0:
            raise TruncatedError("a field has no number")
        if wire == _LENGTH_DELIMITED:
            length, at = _varint(data, at, end)
            stop = at + length
        elif wire == 0:
            _, stop = _varint(data, at, end)
        elif wire in (1, 5):
            stop = at + (8 if wire == 1 else 4)
        else:
            raise TruncatedError(f"wire type {wire} does not exist")
        if stop > end:
            raise TruncatedError("a field is longer than the file")
        yield number, wire, start, at, stop
        at = stop


def _message(data: memoryview, at: int, end: int, kind: str, out: bytearray, ranges: list[Range]) -> None:
    if kind == "TensorProto":
        _tensor(data, at, end, out, ranges)
        return
    nested = _NESTED[kind]
    for number, wire, start, content, stop in _fields(data, at, end):
        inner = nested.get(number)
        if inner is None or wire != _LENGTH_DELIMITED or stop - content <= LIMIT:
            out += data[start:stop]
            continue
        body = bytearray()
        _message(data, content, stop, inner, body, ranges)
        out += encode_varint(number << 3 | _LENGTH_DELIMITED) + encode_varint(len(body)) + body


def _tensor(data: memoryview, at: int, end: int, out: bytearray, ranges: list[Range]) -> None:
    moved = False
    for number, wire, start, content, stop in _fields(data, at, end):
        large = wire == _LENGTH_DELIMITED and stop - content > LIMIT
        if large and not moved and number in (_RAW_DATA, _FLOAT_DATA, _DOUBLE_DATA):
            offset = ranges[-1].offset + ranges[-1].length if ranges else 0
            ranges.append(Range(content, stop - content, offset))
            for key, value in (("location", WEIGHTS), ("offset", str(offset)), ("length", str(stop - content))):
                out += external_entry(key, value)
            out += encode_varint(_DATA_LOCATION << 3) + b"\x01"
            moved = True
        else:
            out += data[start:stop]


def external_entry(key: str, value: str) -> bytes:
    """One serialized ``TensorProto.external_data`` entry."""
    name, text = key.encode(), value.encode()
    entry = b"\x0a" + encode_varint(len(name)) + name + b"\x12" + encode_varint(len(text)) + text
    return encode_varint(_EXTERNAL_DATA << 3 | _LENGTH_DELIMITED) + encode_varint(len(entry)) + entry
