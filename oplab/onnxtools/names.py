"""How a node's type is written: ``Relu`` for an operator of ONNX, ``oplab::MyAdd`` for one of another domain."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a caller that has a node has imported it
    import onnx

STANDARD = ("", "ai.onnx")  # two spellings of ONNX's own domain


def qualified(op_type: str, domain: str = "") -> str:
    """``domain::Type``, or the type alone in ONNX's own domain."""
    return op_type if domain in STANDARD else f"{domain}::{op_type}"


def node_type(node: onnx.NodeProto) -> str:
    """The type of a node, as :func:`qualified` writes it."""
    return qualified(node.op_type, node.domain)


def normal_domain(domain: str) -> str:
    """The domain, with ``""`` for both spellings of ONNX's own."""
    return "" if domain in STANDARD else domain
