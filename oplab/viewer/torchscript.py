"""The graph of a traced or scripted PyTorch module, as the same classes that an ONNX graph becomes."""

from __future__ import annotations

import json
from typing import Any

import torch

from oplab.errors import OplabError
from oplab.viewer.graph import MAX_PREVIEW, Graph, Model, Node, Param, Value, number

_DTYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}
_PLAIN = ("aten", "prim")  # PyTorch's own namespaces; others are drawn as custom operators


def load(model: Any) -> tuple[str, Model, bytes]:
    """Read a ScriptModule, a ScriptFunction or a torch.Graph: its name, the graph, and what Netron opens as ``.netron``.

    Raises:
        OplabError: a scripted module without a ``forward``.
    """
    owner = model if isinstance(model, torch.nn.Module) else None
    name = getattr(model, "original_name", "") or getattr(model, "name", "") or "TorchScript graph"
    try:
        graph = model if isinstance(model, torch.Graph) else model.inlined_graph
    except (AttributeError, RuntimeError):
        raise OplabError(
            f"{name} has no forward method, so it has no graph.", "Show one of its methods' graphs."
        ) from None
    drawn = _graph(graph, owner)
    result = Model(drawn, facts=["TorchScript"])
    return str(name), result, _for_netron(graph, owner)


class _Inlined:
    """What Netron's own PyTorch backend expects, with calls of submodules already inlined."""

    def __init__(self, graph: torch.Graph, owner: Any):
        self.graph = graph
        self._owner = owner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._owner, name)


def _for_netron(graph: torch.Graph, owner: Any) -> bytes:
    try:
        from netron.pytorch import ModelFactory

        return json.dumps(ModelFactory().open(_Inlined(graph, owner)).to_json()).encode()
    except Exception:  # upstream calls this backend experimental: loops, odd constants and bare graphs may fail
        return b""


class _Reader:
    """One graph and its blocks."""

    def __init__(self, owner: Any):
        self.owner = owner
        self.texts: dict[str, str] = {}  # values that are constants, as text
        self.params: dict[str, Param] = {}  # values that are parameters or constant tensors
        self.objects: dict[str, Any] = {}  # values that are modules

    def fill(self, graph: Graph, nodes: Any) -> None:
        produced = {value.name for value in graph.inputs}
        for node in nodes:
            if self.constant(node):
                continue
            item = self.node(node, graph)
            for name in item.inputs:
                if name not in produced:
                    graph.outer.add(name)
            produced.update(item.outputs)
            for _, body in item.bodies:
                for name in sorted(body.outer):
                    if name in produced:
                        if name not in item.inputs and name not in item.captures:
                            item.captures.append(name)
                    else:
                        graph.outer.add(name)
            graph.nodes.append(item)
        graph.outer |= (
            {v.name for v in graph.outputs if v.name not in produced} - self.texts.keys() - self.params.keys()
        )

    def constant(self, node: Any) -> bool:
        """Remember a node that only names something constant. Is it one?"""
        kind = node.kind()
        if kind == "prim::GetAttr":
            name = node.s("name")
            parent = self.objects.get(node.input().debugName(), self.owner)
            value = getattr(parent, name, None)
            out = node.output()
            if isinstance(value, torch.Tensor):
                self.params[out.debugName()] = Param("", _of_tensor(name, value))
            elif value is not None and isinstance(value, torch.nn.Module):
                self.objects[out.debugName()] = value
            elif isinstance(value, (int, float, bool, str)):
                self.texts[out.debugName()] = _text(value)
            else:
                self.params[out.debugName()] = Param("", _typed(out, name))
            return True
        if kind == "prim::Constant":
            out = node.output()
            value = out.toIValue()
            if isinstance(value, torch.Tensor):
                few = value.numel() <= MAX_PREVIEW and value.dim() <= 1
                preview = _text(value.tolist()) if few else ""
                self.params[out.debugName()] = Param("", _of_tensor(out.debugName(), value), preview)
            else:
                self.texts[out.debugName()] = _text(value)
            return True
        if kind in ("prim::ListConstruct", "prim::TupleConstruct"):
            names = [value.debugName() for value in node.inputs()]
            if all(name in self.texts for name in names):
                self.texts[node.output().debugName()] = "[" + ", ".join(self.texts[n] for n in names) + "]"
                return True
        return False

    def node(self, node: Any, graph: Graph) -> Node:
        space, _, op = node.kind().partition("::")
        item = Node(node.kind()) if space in _PLAIN else Node(op, space)
        arguments = _arguments(node)
        for i, value in enumerate(node.inputs()):
            name = value.debugName()
            formal, default = arguments[i] if i < len(arguments) else ("", None)
            if name in self.texts:
                text = self.texts[name]
                where = item.defaults if text == "None" or (default is not None and text == default) else item.attrs
                where.append((formal or f"input {i}", text))
            elif name in self.params:
                param = self.params[name]
                item.params.append(Param(formal, param.value, param.preview))
            elif name not in self.objects:
                item.inputs.append(name)
                graph.values.setdefault(name, _typed(value))
        for name in node.attributeNames():
            if node.kindOf(name) in ("s", "i", "f"):
                item.attrs.append((name, _text(getattr(node, node.kindOf(name))(name))))
        for value in node.outputs():
            item.outputs.append(value.debugName())
            graph.values[value.debugName()] = _typed(value)
        labels = ("then", "else") if node.kind() == "prim::If" else ("body",)
        for i, block in enumerate(node.blocks()):
            item.bodies.append((labels[i] if i < len(labels) else f"block {i}", self.block(block)))
        return item

    def block(self, block: Any) -> Graph:
        graph = Graph()
        graph.inputs = [_typed(value) for value in block.inputs()]
        graph.outputs = [_typed(value) for value in block.outputs()]
        graph.values.update({value.name: value for value in (*graph.inputs, *graph.outputs)})
        self.fill(graph, block.nodes())
        return graph


def _graph(graph: torch.Graph, owner: Any) -> Graph:
    reader = _Reader(owner)
    result = Graph()
    for value in graph.inputs():
        if value.type().kind() == "ClassType":
            reader.objects[value.debugName()] = owner  # the module itself
        else:
            result.inputs.append(_typed(value))
    result.outputs = [_typed(value) for value in graph.outputs()]
    result.values.update({value.name: value for value in (*result.inputs, *result.outputs)})
    reader.fill(result, graph.nodes())
    return result


def _arguments(node: Any) -> list[tuple[str, str | None]]:
    """For each argument of the node's schema its name, and its default as text."""
    text = node.schema()
    if text.startswith("("):  # "(no schema)"
        return []
    try:
        schema = torch._C.parse_schema(text)
    except RuntimeError:
        return []
    return [(a.name, _text(a.default_value) if a.has_default_value() else None) for a in schema.arguments]


def _typed(value: Any, name: str | None = None) -> Value:
    kind = value.type()
    name = value.debugName() if name is None else name
    if kind.kind() != "TensorType":
        return Value(name, str(kind.annotation_str).rpartition("torch.nn.modules.")[2])
    sizes = kind.sizes() if kind.dim() is not None else None
    shape = None if kind.dim() is None else tuple(sizes) if sizes is not None else ("?",) * kind.dim()
    return Value(name, _DTYPES.get(kind.scalarType() or "", kind.scalarType() or "Tensor"), shape)


def _of_tensor(name: str, tensor: torch.Tensor) -> Value:
    return Value(name, str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)):
        return number(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(v) for v in value) + "]"
    return str(value)
