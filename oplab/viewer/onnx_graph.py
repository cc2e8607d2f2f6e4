"""An ONNX model as the viewer's own graph."""

from __future__ import annotations

import dataclasses
import re

import onnx

from oplab.onnxtools.names import STANDARD, normal_domain, qualified
from oplab.viewer.graph import MAX_PREVIEW, Graph, Model, Node, Param, Value, number

_DTYPES = {"FLOAT": "float32", "DOUBLE": "float64"}


def dtype_name(elem_type: int) -> str:
    """The numpy-like name of an ONNX element type: 1 -> 'float32'."""
    try:
        name = onnx.TensorProto.DataType.Name(elem_type)
    except ValueError:
        return f"type {elem_type}"
    return "" if name == "UNDEFINED" else _DTYPES.get(name, name.lower())


def _value(info: onnx.ValueInfoProto) -> Value:
    return _typed(info.name, info.type)


def _typed(name: str, proto: onnx.TypeProto) -> Value:
    kind = proto.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        tensor = getattr(proto, kind)
        shape = None
        if tensor.HasField("shape"):
            shape = tuple(d.dim_value if d.HasField("dim_value") else _symbol(d.dim_param) for d in tensor.shape.dim)
        return Value(name, dtype_name(tensor.elem_type), shape, "sparse" if kind.startswith("sparse") else "")
    if kind in ("sequence_type", "optional_type"):
        inner = _typed(name, getattr(proto, kind).elem_type)
        if inner.wrapper:
            return Value(name, inner.type_text(), None, kind.split("_")[0])
        return dataclasses.replace(inner, wrapper=kind.split("_")[0])
    if kind == "map_type":
        return Value(name, f"map({dtype_name(proto.map_type.key_type)})")
    return Value(name)


def _symbol(name: str) -> str:
    """A dimension's name; those that shape inference made up say nothing."""
    return "?" if not name or re.fullmatch(r"unk__\d+", name) else name


def _preview(tensor: onnx.TensorProto) -> str:
    count = 1
    for d in tensor.dims:
        count *= d
    if count > MAX_PREVIEW or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return ""
    try:
        array = onnx.numpy_helper.to_array(tensor)
    except Exception:  # a malformed tensor has no numbers to show, and the checker's sentence reports it already
        return ""
    if array.ndim == 0:
        return _scalar(array.item())
    if array.size == 1:
        return f"[{_scalar(array.item())}]" if array.ndim == 1 else ""
    if array.ndim != 1 or any(isinstance(x, float) and not _is_round(x) for x in array.tolist()):
        return ""  # a bias or a kernel: its numbers say nothing, and may differ in the last digit between machines
    return "[" + ", ".join(_scalar(x) for x in array.tolist()) + "]"


def _is_round(x: float) -> bool:
    return x != x or abs(x - float(f"{x:.4g}")) <= 1e-6 * abs(x)


def _scalar(x: object) -> str:
    if isinstance(x, bytes):
        x = x.decode("utf-8", "replace")
    return f'"{x}"' if isinstance(x, str) else number(x)


def _attr_text(attr: onnx.AttributeProto) -> str:
    kinds = onnx.AttributeProto
    if attr.ref_attr_name:
        return f"@{attr.ref_attr_name}"
    if attr.type == kinds.FLOAT:
        return number(attr.f)
    if attr.type == kinds.INT:
        kind = dtype_name(attr.i) if attr.name in ("to", "dtype") else ""
        return f"{kind} ({attr.i})" if kind else str(attr.i)
    if attr.type == kinds.STRING:
        return attr.s.decode("utf-8", "replace")
    if attr.type == kinds.TENSOR:
        tensor = _typed_tensor(attr.t)
        return _preview(attr.t) or tensor.type_text()
    if attr.type == kinds.SPARSE_TENSOR:
        return "sparse tensor"
    if attr.type == kinds.FLOATS:
        return _list([number(x) for x in attr.floats[: MAX_PREVIEW + 6]], len(attr.floats))
    if attr.type == kinds.INTS:
        return _list([str(x) for x in attr.ints[: MAX_PREVIEW + 6]], len(attr.ints))
    if attr.type == kinds.STRINGS:
        return _list([x.decode("utf-8", "replace") for x in attr.strings[:MAX_PREVIEW]], len(attr.strings))
    return kinds.AttributeType.Name(attr.type).lower().replace("_", " ")


def _list(items: list[str], count: int) -> str:
    return "[" + ", ".join(items) + (", …" if count > len(items) else "") + "]"


def _typed_tensor(tensor: onnx.TensorProto, name: str | None = None) -> Value:
    return Value(tensor.name if name is None else name, dtype_name(tensor.data_type), tuple(tensor.dims))


class _Schemas:
    """Operator schemas by the model's own opset versions; custom operators have none."""

    def __init__(self, opsets: dict[str, int]):
        self.opsets = opsets
        self.cache: dict[tuple[str, str], onnx.defs.OpSchema | None] = {}

    def get(self, op: str, domain: str) -> onnx.defs.OpSchema | None:
        key = (op, domain)
        if key not in self.cache:
            home = normal_domain(domain)
            version = self.opsets.get(home, self.opsets.get(domain, onnx.defs.onnx_opset_version()))
            try:
                self.cache[key] = onnx.defs.get_schema(op, version, home)
            except Exception:
                self.cache[key] = None
        return self.cache[key]


def _formal(schema: onnx.defs.OpSchema | None, position: int) -> str:
    if schema is None or not schema.inputs:
        return ""
    if position < len(schema.inputs):
        return schema.inputs[position].name
    last = schema.inputs[-1]
    return last.name if last.option == onnx.defs.OpSchema.FormalParameterOption.Variadic else ""


def from_onnx(proto: onnx.ModelProto) -> Model:
    """The picture's view of a ModelProto. Shapes are taken as they are: run shape inference before."""
    opsets = {normal_domain(o.domain): o.version for o in proto.opset_import}
    schemas = _Schemas(opsets)
    functions = {(f.domain, f.name) for f in proto.functions}
    model = Model(_graph(proto.graph, schemas, functions, {}), opsets=opsets)
    if "" in opsets:
        model.facts.append(f"opset {opsets['']}")
    if proto.ir_version:
        model.facts.append(f"IR {proto.ir_version}")
    model.functions = [_function(f, functions) for f in proto.functions]
    return model


def _function(proto: onnx.FunctionProto, functions: set[tuple[str, str]]) -> Graph:
    opsets = {normal_domain(o.domain): o.version for o in proto.opset_import}
    values = {info.name: _value(info) for info in proto.value_info}
    graph = Graph(qualified(proto.name, proto.domain), values=values)
    graph.inputs = [values.get(name, Value(name)) for name in proto.input]
    graph.outputs = [values.get(name, Value(name)) for name in proto.output]
    _fill(graph, list(proto.node), {}, _Schemas(opsets), functions)
    return graph


def _graph(
    proto: onnx.GraphProto,
    schemas: _Schemas,
    functions: set[tuple[str, str]],
    outer: dict[str, Param],
) -> Graph:
    graph = Graph(proto.name)
    constants = dict(outer)
    for tensor in proto.initializer:
        constants[tensor.name] = Param("", _typed_tensor(tensor), _preview(tensor))
    for sparse in proto.sparse_initializer:
        value = Value(sparse.values.name, dtype_name(sparse.values.data_type), tuple(sparse.dims), "sparse")
        constants[sparse.values.name] = Param("", value)
    for info in (*proto.value_info, *proto.output, *proto.input):
        graph.values[info.name] = _value(info)
    own = {tensor.name for tensor in proto.initializer}
    graph.inputs = [graph.values[info.name] for info in proto.input if info.name not in own]
    graph.outputs = [graph.values[info.name] for info in proto.output]
    for info in graph.inputs:
        constants.pop(info.name, None)
    for info in graph.outputs:  # an initializer that leaves the graph as it is must be seen as a tensor
        if info.name in constants and not graph.value(info.name).dtype:
            graph.values[info.name] = constants[info.name].value
    _fill(graph, list(proto.node), constants, schemas, functions)
    return graph


def _fill(
    graph: Graph,
    protos: list[onnx.NodeProto],
    constants: dict[str, Param],
    schemas: _Schemas,
    functions: set[tuple[str, str]],
) -> None:
    results = {value.name for value in graph.outputs}
    produced = {value.name for value in graph.inputs}
    for proto in protos:
        produced.update(name for name in proto.output if name)
        if proto.op_type == "Constant" and proto.domain in STANDARD and len(proto.output) == 1:
            name = proto.output[0]
            if name in results or len(proto.attribute) != 1 or proto.attribute[0].ref_attr_name:
                continue
            constants[name] = _constant(name, proto.attribute[0])
    for proto in protos:
        if len(proto.output) == 1 and proto.op_type == "Constant" and proto.output[0] in constants:
            continue
        graph.nodes.append(_node(proto, graph, constants, produced, schemas, functions))
    for value in graph.outputs:
        if value.name not in produced and value.name not in constants:
            graph.outer.add(value.name)


def _constant(name: str, attr: onnx.AttributeProto) -> Param:
    if attr.type == onnx.AttributeProto.TENSOR:
        return Param("", _typed_tensor(attr.t, name), _preview(attr.t))
    dtype = attr.name.removeprefix("value_").rstrip("s")
    return Param("", Value(name, {"float": "float32", "int": "int64"}.get(dtype, dtype), ()), _attr_text(attr))


def _node(
    proto: onnx.NodeProto,
    graph: Graph,
    constants: dict[str, Param],
    produced: set[str],
    schemas: _Schemas,
    functions: set[tuple[str, str]],
) -> Node:
    node = Node(proto.op_type, proto.domain, proto.name, outputs=[name for name in proto.output if name])
    node.function = (proto.domain, proto.op_type) in functions
    schema = schemas.get(proto.op_type, proto.domain)
    for position, name in enumerate(proto.input):
        if not name:
            continue
        if name in constants:
            node.params.append(dataclasses.replace(constants[name], formal=_formal(schema, position)))
        else:
            node.inputs.append(name)
            if name not in produced:
                graph.outer.add(name)
    for attr in proto.attribute:
        if attr.type == onnx.AttributeProto.GRAPH:
            node.bodies.append((attr.name, _graph(attr.g, schemas, functions, constants)))
        elif attr.type == onnx.AttributeProto.GRAPHS:
            for i, g in enumerate(attr.graphs):
                node.bodies.append((f"{attr.name}[{i}]", _graph(g, schemas, functions, constants)))
        else:
            text = _attr_text(attr)
            (node.defaults if _is_default(schema, attr, text) else node.attrs).append((attr.name, text))
    node.bodies.sort(key=lambda item: item[0] != "then_branch")  # stable: the order in which people read an If
    for _, body in node.bodies:
        for name in sorted(body.outer):
            if name in produced:
                if name not in node.inputs and name not in node.captures:
                    node.captures.append(name)
            else:
                graph.outer.add(name)
    return node


def _is_default(schema: onnx.defs.OpSchema | None, attr: onnx.AttributeProto, text: str) -> bool:
    if schema is None or attr.name not in schema.attributes or attr.ref_attr_name:
        return False
    default = schema.attributes[attr.name].default_value
    return bool(default.name) and default.type == attr.type and _attr_text(default) == text
