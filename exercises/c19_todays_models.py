"""Chapter 19: today's models.

Check one with ``make check EX=c19.one_opset_behind``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import torch
from onnx import TypeProto, helper, inliner, numpy_helper

from oplab import todo
from oplab.debug import tap


def attention_export(opset: int, heads: int, groups: int, width: int) -> onnx.ModelProto:
    """Export attention of new tokens to all tokens so far, with a mask
    that is an input.

    The file's inputs, in this order, and its output:

    - ``query``, float [batch, heads, new, width]: the last ``new`` of
      ``total`` tokens;
    - ``key`` and ``value``, float [batch, groups, total, width]: all
      tokens; the heads of one group are next to each other
      (grouped-query attention; ``enable_gqa`` in PyTorch);
    - ``real``, bool [batch, total]: False is padding, which no token
      sees;
    - ``out``: attention with the scale 1 / sqrt(width), as
      ``torch.nn.functional.scaled_dot_product_attention`` computes it.

    Query i is token ``total - new + i``. It sees itself and all tokens
    before it, except for padding. The first token is never padding.

    ``batch``, ``new`` and ``total`` are dynamic: the model runs with
    any sizes from 1 on where ``new <= total``. At opset 23 attention is
    one node, ``Attention``. Opset 20, for older runtimes, does not have
    it: there the exporter writes its definition, with the same result.

    Args:
        opset: of the model, 20 or 23.
        heads: more than ``groups``, and a multiple of it.

    Use the dynamo path. About 20 lines.
    """

    # TODO c19.attention_export: return the exported model
    raise todo("c19.attention_export")


def definition(
    node: onnx.NodeProto, opset: int, types: Mapping[str, TypeProto]
) -> onnx.FunctionProto | None:
    """ONNX's own definition of a node, made of older operators, or None
    if there is none.

    Some definitions depend on the node and on the types of its inputs:
    that of ``CausalConvWithState`` needs the number of channels, and
    there is none if the types do not tell it. Call this for nodes of
    ONNX's own domain: it looks at the name only.

    Args:
        opset: the version that the model imports.
        types: of the values that the node can read, by name, with their
            shapes.
    """
    try:
        schema = onnx.defs.get_schema(node.op_type, opset)
    except onnx.defs.SchemaError:
        return None
    data = b""
    if schema.has_function:
        data = schema.get_function_with_opset_version(schema.since_version)
    elif schema.has_context_dependent_function:
        known = [types.get(name, TypeProto()).SerializeToString() for name in node.input]
        data = schema.get_context_dependent_function_with_opset_version(
            schema.since_version, node.SerializeToString(), known
        )
    return onnx.FunctionProto.FromString(data) if data else None


def one_opset_behind(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a model that ONNX Runtime 1.31 runs: opset 26
    and IR version 13.

    The model imports opset 27 or 28. In the copy, ``definition``
    replaces

    - each node with an operator that opset 26 does not have, such as
      ``LinearAttention``, ``CausalConvWithState`` and ``SwiGLU``;
    - each ``Swish``: opset 26 has it, but ONNX Runtime 1.31 has no
      kernel for it there.

    Such nodes are also in definitions and in the bodies of If, Loop and
    Scan. An attribute that a node does not set has the default of its
    schema. An operator that opset 26 has in an older version stays as
    it is.

    The copy computes the same, and everything else is unchanged: the
    inputs and outputs of the graph with their types, the initialisers,
    the entries of ``value_info``, the other nodes with their names and
    attributes, in their order, the metadata and the imports of other
    domains.
    It has no model-local functions, no ``value_info`` of a value that
    does not exist, and ``onnx.checker.check_model(copy,
    full_check=True)`` accepts it.

    Args:
        model: a model without model-local functions; it is not changed.
            The other operators of ONNX's domain, whose name in the file
            is "", compute the same at opset 26.

    Raises:
        ValueError: such a node has no definition. The message contains
            the operator's name.

    Use ``onnx.inliner``. About 60 lines.
    """
    # TODO c19.one_opset_behind: return a copy at opset 26 that computes the same
    raise todo("c19.one_opset_behind")


def quantize_around(
    model: onnx.ModelProto, feeds: Sequence[Mapping[str, np.ndarray]]
) -> onnx.ModelProto:
    """Quantise a model with the custom node ``oplab::DynamicResize``;
    return a copy.

    - Each ``Conv`` reads its data after a pair ``QuantizeLinear`` and
      ``DequantizeLinear``, or after the ``DequantizeLinear`` of a
      ``DynamicResize``.
    - Each ``DynamicResize`` is between ``QuantizeLinear`` and
      ``DequantizeLinear`` and computes in uint8. Its result has the
      scale and zero point of its input, so one range has to fit both.
      ``scales`` stays float32.
    - Values are uint8, with one scale and zero point:
      ``(high - low) / 255`` and ``round(-low / scale)``. The range is
      that of the value in the float model, or of both values of a
      ``DynamicResize``, over **all** ``feeds``, and 0 is always in it.
    - Weights are int8 in the file, from -64 to 64, before a
      ``DequantizeLinear`` with a scale for each filter (axis 0): its
      largest magnitude divided by 64. Zero points are 0. A filter of
      zeros has any scale above 0. Float weights are removed.

    A bias may stay float32. Everything else stays: the graph's inputs
    and outputs with their types and dynamic axes, the other nodes, all
    names of nodes, and the imports. The nodes are sorted. Nothing that
    was given is changed.

    Args:
        model: opset 20 and ``oplab`` 1. Weights of ``Conv`` are
            initialisers that only ``Conv`` reads, maybe more than one.
        feeds: typical inputs by name, of several sizes.

    ``tap(model, names)`` of chapter 15 is a function from a feed to the
    values of these names. About 50 lines; fewer with ``QDQQuantizer``.
    """
    # TODO c19.quantize_around: calibrate on all feeds, return a copy that computes in 8 bits
    raise todo("c19.quantize_around")
