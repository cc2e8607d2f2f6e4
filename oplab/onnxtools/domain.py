"""Custom domains of ONNX Runtime, ``oplab`` and yours: versions, attributes, and what a model gets wrong about them.

ONNX Runtime 1.31 does not report a model that asks for a version of a custom domain that does not exist, nor a node that
has an attribute that its kernel never reads: the model runs, and computes something else than its author meant.

The domain of a library of your own is declared in a file next to it, ``roi.toml`` for ``roi.so``::

    domain = "acme"
    versions = [1]

    [operators]
    RotatedRoiAlign = ["spatial_scale", "sampling_ratio"]
"""

from __future__ import annotations

import mmap
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
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
    "RMSNorm": ("epsilon",),
}
# TensorRT finds a plugin by these. A node that carries them runs here as well.
FOR_OTHERS = ("plugin_version", "plugin_namespace")


@dataclass(frozen=True)
class Domain:
    """What a model may ask a domain for.

    Attributes:
        name: the domain.
        versions: the versions that exist, for example ``(1, 2)``.
        operators: the names of each operator's attributes.
        newer: what its user can do where a model needs a version that does not exist.
    """

    name: str
    versions: tuple[int, ...]
    operators: Mapping[str, tuple[str, ...]]
    newer: str


OURS = Domain(DOMAIN, VERSIONS, ATTRIBUTES, "make your course newer")


def declaration(library: Path) -> Domain | None:
    """The domain that the file next to a library declares: ``roi.toml`` for ``roi.so``. None where there is no such file."""
    file = library.with_suffix(".toml")
    if not file.is_file():
        return None
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise OplabError(
            f"{file} cannot be read: {error}.", "It declares the domain of the library next to it."
        ) from None
    name, versions, operators = (found.get(key) for key in ("domain", "versions", "operators"))
    wrong = (
        "domain has to be a name"
        if not isinstance(name, str) or not name
        else "versions has to be a list of positive integers"
        if not isinstance(versions, list) or not versions or not all(type(one) is int and one > 0 for one in versions)
        else "operators has to be a table with a list of attribute names for each operator"
        if not isinstance(operators, dict)
        or not all(isinstance(has, list) and all(isinstance(one, str) for one in has) for has in operators.values())
        else f"{', '.join(sorted(more))} is not known"
        if (more := set(found) - {"domain", "versions", "operators"})
        else ""
    )
    if wrong:
        raise OplabError(
            f"{file} does not declare a domain: {wrong}.",
            'For example: domain = "acme", versions = [1], and [operators] with MyRoi = ["spatial_scale"].',
        )
    return Domain(name, tuple(versions), {key: tuple(has) for key, has in operators.items()}, f"add it to {file.name}")


def check_model(source: str | bytes, domains: Sequence[Domain] = (OURS,)) -> None:
    """Refuses a model that asks one of the domains for what it does not have.

    Args:
        source: a path, or serialized bytes. What is not a model is left to ONNX Runtime.
        domains: the domains whose nodes are checked.

    Raises:
        OplabError: the model imports a version that does not exist, or a node has an attribute that its operator lacks.
    """
    if not _names_one(source, domains):
        return
    try:
        model = loading.load(source, weights=False)
    except OplabError:
        return
    by_name = {domain.name: domain for domain in domains}
    for scope in (model, *model.functions):
        _check_versions(scope.opset_import, by_name)
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in walk(nodes):
            if node.domain in by_name:
                _check_attributes(node, by_name[node.domain])


def _names_one(source: str | bytes, domains: Sequence[Domain]) -> bool:
    """Whether its bytes hold one of the names at all: most models need not be parsed."""
    names = [domain.name.encode() for domain in domains]
    if isinstance(source, bytes):
        return any(name in source for name in names)
    with open(source, "rb") as file:
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                return any(content.find(name) >= 0 for name in names)
        except ValueError:  # an empty file
            return False


def _check_versions(imports: Iterable[onnx.OperatorSetIdProto], domains: Mapping[str, Domain]) -> None:
    for entry in imports:
        domain = domains.get(entry.domain)
        if domain and entry.version not in domain.versions:
            has = "versions" if len(domain.versions) > 1 else "version"
            raise OplabError(
                f"The model imports version {entry.version} of the domain {domain.name}, which has the {has} "
                f"{' and '.join(map(str, domain.versions))}.",
                f"Set the version in its opset_import to {domain.versions[-1]}, or {domain.newer}.",
            )


def _check_attributes(node: onnx.NodeProto, domain: Domain) -> None:
    has = domain.operators.get(node.op_type)
    for attribute in node.attribute if has is not None else ():
        if attribute.name not in has and attribute.name not in FOR_OTHERS:
            offered = f"it has {', '.join(has)}" if has else "it has none"
            raise OplabError(
                f"{node.op_type} has no attribute {attribute.name}: {offered}.",
                "Take the attribute out of the node, or correct its name.",
            )
