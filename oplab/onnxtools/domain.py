"""The domain ``oplab`` of ONNX Runtime: its versions, its kernels' attributes, and what a model gets wrong about them.

ONNX Runtime 1.31 does not report a model that asks for a version of a custom domain that does not exist, nor a node that
has an attribute that its kernel never reads: the model runs, and computes something else than its author meant.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable
from typing import TYPE_CHECKING

from oplab.errors import OplabError
from oplab.onnxtools import loading
from oplab.onnxtools.subgraphs import walk

if TYPE_CHECKING:
    import onnx

DOMAIN = "oplab"
VERSIONS = (1, 2)
# What the constructors in csrc/ort_ops read; a test holds the two together.
ATTRIBUTES = {
    "MyAdd": ("alpha", "beta"),
    "Grid": (),
    "Foo": ("attr1", "attr2"),
    "KNNQuery": ("nsample",),
    "DynamicResize": (),
    "DeformConv2d": ("kernel_shape", "strides", "pads", "dilations", "group", "offset_group"),
    "VarSum": (),
}
# TensorRT finds a plugin by these. A node that carries them runs here as well.
FOR_OTHERS = ("plugin_version", "plugin_namespace")


def check_model(source: str | bytes) -> None:
    """Refuses a model that asks the domain ``oplab`` for what it does not have.

    Args:
        source: a path, or serialized bytes. What is not a model is left to ONNX Runtime.

    Raises:
        OplabError: the model imports a version that does not exist, or a node has an attribute that its operator lacks.
    """
    if not _names_the_domain(source):
        return
    try:
        model = loading.load(source, weights=False)
    except OplabError:
        return
    for scope in (model, *model.functions):
        _check_versions(scope.opset_import)
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in walk(nodes):
            if node.domain == DOMAIN:
                _check_attributes(node)


def _names_the_domain(source: str | bytes) -> bool:
    """Whether its bytes hold the name at all: most models need not be parsed."""
    if isinstance(source, bytes):
        return DOMAIN.encode() in source
    with open(source, "rb") as file:
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return content.find(DOMAIN.encode()) >= 0
        except ValueError:  # an empty file
            return False


def _check_versions(imports: Iterable[onnx.OperatorSetIdProto]) -> None:
    for entry in imports:
        if entry.domain == DOMAIN and entry.version not in VERSIONS:
            raise OplabError(
                f"The model imports version {entry.version} of the domain {DOMAIN}, which has the versions "
                f"{' and '.join(map(str, VERSIONS))}.",
                f"Set the version in its opset_import to {VERSIONS[-1]}, or make your course newer.",
            )


def _check_attributes(node: onnx.NodeProto) -> None:
    has = ATTRIBUTES.get(node.op_type)
    for attribute in node.attribute if has is not None else ():
        if attribute.name not in has and attribute.name not in FOR_OTHERS:
            offered = f"it has {', '.join(has)}" if has else "it has none"
            raise OplabError(
                f"{node.op_type} has no attribute {attribute.name}: {offered}.",
                "Take the attribute out of the node, or correct its name.",
            )
