"""Write a symbolic function."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
from torch.onnx import symbolic_helper
from torch.onnx.symbolic_helper import parse_args

from oplab.archaeology.probes.exports import (
    Model,
    X,
    attributes,
    export,
    export_dynamo,
    fails,
    node,
    ops,
    opsets,
    quiet,
    registered,
    run,
    same,
    stderr_of,
)
from oplab.archaeology.probes.subjects import (
    Mapped,
    MyClip,
    MyRelu,
    export_foo,
    handler,
    operators,
)
from oplab.archaeology.probes.table import new, old


@old("graph_argument")
def _() -> str:
    seen = []

    def look(g: Any, x: Any) -> Any:
        seen.append(type(g).__name__)
        assert not isinstance(g, torch._C.Graph)
        return g.op("Asinh", x)

    with registered("aten::asinh", look):
        export(torch.asinh, X)
    assert seen == ["GraphContext"] and not hasattr(torch._C.Graph, "op")
    return "g is a GraphContext; torch._C.Graph has no op"


@old("lowercase_graph")
def _() -> str:
    # Python 3.14 evaluates an annotation only on request, so it is evaluated here.
    return fails(AttributeError, "graph", lambda: torch._C.graph)


@old("import_graph")
def _() -> str:
    from torch._C import Graph, Node, Value

    with quiet():
        graph = torch.jit.trace(Model(torch.relu), X).graph
    assert isinstance(graph, Graph)
    assert all(isinstance(value, Value) for value in graph.inputs())
    assert all(isinstance(entry, Node) for entry in graph.nodes())
    return "a traced graph is made of them"


@old("g_op")
@new("graph_argument", "lowercase_graph")
def _() -> str:
    with registered("aten::asinh", lambda g, x: g.op("Asinh", x)):
        model = export(torch.asinh, X)
    assert ops(model) == ["Asinh"]
    return str(ops(model))


@old("g_op_checks")
def _() -> str:
    with registered("aten::asinh", lambda g, x: g.op("ASinh", x)):
        model = export(torch.asinh, X)
    assert ops(model) == ["ASinh"]
    return f"exported: {ops(model)}"


@new("g_op_checks")
def _() -> str:
    with registered("aten::asinh", lambda g, x: g.op("ASinh", x)):
        model = export(torch.asinh, X)
    return fails(onnx.checker.ValidationError, "ASinh", lambda: onnx.checker.check_model(model, full_check=True))


@old("custom_domain")
def _() -> str:
    with registered("aten::asinh", lambda g, x: g.op("custom::asinh", x).setType(x.type())):
        model = export(torch.asinh, X)
    onnx.checker.check_model(model)
    name = fails(Exception, "not a registered function/op", lambda: run(model, X))
    assert opsets(model)["custom"] == 1
    return f"{ops(model)}, custom at version 1; ONNX Runtime: {name}"


@old("parse_args")
def _() -> str:
    assert attributes(node(export_foo("v", "v", "f", "i"), "Foo")) == {"attr1": 2.5, "attr2": 3}
    cut = attributes(node(export_foo("v", "v", "i", "i"), "Foo"))
    assert cut["attr1"] == 2.0
    name = fails(AssertionError, "", lambda: export_foo("v", "v", "f"))
    return f'2.5 as "f": 2.5, as "i": {cut["attr1"]}; one code missing: {name}'


@new("parse_args")
def _() -> str:
    seen = []

    @parse_args("v", "b")
    def symbolic(g: Any, x: Any, flag: Any) -> Any:
        seen.append(flag)
        return g.op("Identity", x)

    with registered("aten::std", symbolic):
        export(lambda x: torch.std(x, True), X)
    assert seen == [True]
    return '"b" gives True'


@old("out_keyword")
def _() -> str:
    seen = []

    def symbolic(g: Any, input: Any, *, out: Any = None) -> Any:
        seen.append(out)
        return g.op("Asinh", input)

    with registered("aten::asinh", symbolic):
        export(torch.asinh, X)
    assert seen == [None]
    return "out is None"


@new("out_keyword", "pyi_files")
def _() -> str:
    schema = torch.ops.aten.asinh.default._schema
    assert [argument.name for argument in schema.arguments] == ["self"]
    return str(schema)


@old("attribute_suffix")
def _() -> str:
    def symbolic(g: Any, x: Any) -> Any:
        made = g.op("custom::All", x, a_f=1, b_i=2, c_s="three", d_t=torch.tensor(4.0), e_f=[1, 2])
        return made.setType(x.type())

    with registered("aten::asinh", symbolic):
        found = node(export(torch.asinh, X), "All")
    types = {entry.name: onnx.AttributeProto.AttributeType.Name(entry.type) for entry in found.attribute}
    assert types == {"a": "FLOAT", "b": "INT", "c": "STRING", "d": "TENSOR", "e": "FLOATS"}
    return str(types)


def _triple(constant: torch.Tensor) -> Callable[..., Any]:
    return lambda g, x: g.op("Mul", x, g.op("Constant", value_t=constant))


@old("value_t_int")
def _() -> str:
    with registered("aten::asinh", _triple(torch.tensor([3]))):
        model = export(torch.asinh, X)
        scalar = export(torch.asinh, torch.tensor(2.0))
    same(run(model, X), 3 * X)
    got = run(scalar, np.float32(2))
    assert got.shape == (1,)
    return f"3x is right; a scalar x gives the shape {list(got.shape)}"


@new("value_t_int")
def _() -> str:
    with registered("aten::asinh", _triple(torch.tensor(3.0))):
        got = run(export(torch.asinh, torch.tensor(2.0)), np.float32(2))
    assert got.shape == () and got == 6
    return "a scalar x stays a scalar"


@old("value_t_scalar")
def _() -> str:
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("custom::Knn", g.op("Constant", value_t=torch.tensor(16)), x).setType(x.type())

    with registered("aten::asinh", symbolic):
        found = node(export(torch.asinh, X), "Knn")
    assert len(found.input) == 2 and not found.attribute
    return "an input more"


@new("value_t_scalar")
def _() -> str:
    with registered("aten::asinh", lambda g, x: g.op("custom::Knn", x, nsample_i=16).setType(x.type())):
        found = node(export(torch.asinh, X), "Knn")
    assert attributes(found) == {"nsample": 16}
    return str(attributes(found))


def _clip(symbolic: Callable[..., Any], opset: int) -> onnx.ModelProto:
    with registered("prim::PythonOp", symbolic, 1):
        return export(lambda x: MyClip.apply(x, -1.0), X, opset_version=opset)


@old("clip_min_f")
def _() -> str:
    def symbolic(g: Any, *args: Any, **kwargs: Any) -> Any:
        return g.op("Clip", args[0], min_f=args[1])

    same(run(_clip(symbolic, 10), X), X.clamp(min=-1))
    name = fails(Exception, "Unrecognized attribute: min", lambda: run(_clip(symbolic, 13), X))
    return f"opset 10 is right; opset 13: {name}"


@new("clip_min_f")
def _() -> str:
    same(run(_clip(handler, 13), X), X.clamp(min=-1))
    return "opset 13 is right"


@old("my_relu")
def _() -> str:
    def symbolic(g: Any, *args: Any, **kwargs: Any) -> Any:
        return g.op("Clip", args[0], g.op("Constant", value_t=torch.tensor(0, dtype=torch.float)))

    same(run(_clip(symbolic, 11), X), X.clamp(min=0))
    fails(Exception, "", lambda: run(_clip(symbolic, 10), X))
    return "opset 11 is right; at 10 the model is invalid"


def _grid(symbolic: Callable[..., Any]) -> onnx.NodeProto:
    _, ours = operators()
    with registered("archaeology::grid", symbolic):
        model = export(lambda x, y: ours.grid(x, y, None, None), X.abs(), torch.ones(3))
    return next(entry for entry in model.graph.node if entry.domain == "custom")


@old("is_none")
def _() -> str:
    seen = []

    @parse_args("v", "v", "v", "v")
    def symbolic(g: Any, pos: Any, size: Any, start: Any, end: Any) -> Any:
        seen.append([symbolic_helper._is_none(value) for value in (pos, end)])
        return g.op("custom::grid", pos, size)

    stderr_of(lambda: _grid(symbolic))
    assert seen == [[False, True]]
    return "pos: False, end: True"


@old("torch_cluster_grid")
def _() -> str:
    made = []

    @parse_args("v", "v", "v", "v")
    def symbolic(g: Any, pos: Any, size: Any, start: Any, end: Any) -> Any:
        if symbolic_helper._is_none(end):
            return g.op("custom::grid", pos, size, start)
        return g.op("custom::grid", pos, size, start, end)

    stderr_of(lambda: made.append(_grid(symbolic)))
    assert list(made[0].input) == ["x", "y", ""]
    return f"an operator of this schema: inputs {list(made[0].input)}"


@old("scalar_helpers")
def _() -> str:
    assert symbolic_helper._scalar(torch.tensor(3)) == 3
    assert callable(symbolic_helper._if_scalar_type_as)
    return "_scalar(torch.tensor(3)) is 3"


@new("scalar_helpers")
def _() -> str:
    assert attributes(node(export_foo("v", "v", "f", "i"), "Foo"))["attr2"] == 3
    return 'parse_args: "i" gives 3'


@old("function_apply")
def _() -> str:
    my_relu = MyRelu.apply
    same(my_relu(X), X.relu())
    return "MyRelu.apply(x) is right"


class Square(torch.autograd.Function):
    """A Function with a backward."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """``x * x``"""
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        """``2 * x * grad``"""
        (x,) = ctx.saved_tensors
        return 2 * x * grad


@old("save_for_backward")
def _() -> str:
    x = X.clone().requires_grad_()
    Square.apply(x).sum().backward()
    same(x.grad, 2 * X)
    return "the gradient of x * x is 2x"


class MyAdd(torch.autograd.Function):
    """3a + 2b, mapped to three nodes."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """``3 * a + 2 * b``"""
        return 3 * a + 2 * b

    @staticmethod
    def symbolic(g: Any, a: Any, b: Any) -> Any:
        """Two nodes Mul and one Add."""
        three, two = (g.op("Constant", value_t=torch.tensor([number])) for number in (3, 2))
        return g.op("Add", g.op("Mul", a, three), g.op("Mul", b, two))


@old("my_add_symbolic")
def _() -> str:
    model = export(MyAdd.apply, X, X)
    assert sorted(ops(model)) == ["Add", "Mul", "Mul"]
    same(run(model, X, 2 * X), 7 * X)
    return f"{ops(model)}"


@old("symbolic_method")
def _() -> str:
    Mapped.calls = 0
    model = export(Mapped.apply, X)
    assert ops(model) == ["Relu"] and Mapped.calls == 1
    return f"{ops(model)}, calls: 1"


@old("symbolic_method_default")
def _() -> str:
    Mapped.calls = 0
    program = export_dynamo(Mapped.apply, X)
    found = [entry.op_type for entry in program.model.graph]
    assert Mapped.calls == 0 and "Relu" not in found
    return f"calls: 0; the forward was traced: {found}"


@new("symbolic_method_default")
def _() -> str:
    Mapped.calls = 0
    assert ops(export(Mapped.apply, X)) == ["Relu"] and Mapped.calls == 1
    return "calls with dynamo=False: 1"


class Query(torch.autograd.Function):
    """Two outputs and an optional input, as KNNQuery has them."""

    @staticmethod
    def forward(ctx: Any, nsample: int, xyz: torch.Tensor, new_xyz: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Indices int32 and distances float32, both (queries, nsample), of the nearest of ``xyz`` (points, 3)."""
        new_xyz = xyz if new_xyz is None else new_xyz
        distance, index = torch.cdist(new_xyz, xyz).topk(nsample, largest=False)
        return index.int(), distance

    @staticmethod
    def symbolic(g: Any, nsample: int, xyz: Any, new_xyz: Any = None) -> Any:
        """One node ``custom::knnquery`` with one or two inputs and two outputs."""
        inputs = [xyz] if new_xyz is None else [xyz, new_xyz]
        return g.op("custom::knnquery", *inputs, nsample_i=nsample, outputs=2)


@old("outputs_2")
def _() -> str:
    made = []
    stderr_of(lambda: made.append(export(lambda x: Query.apply(2, x, None), X, output_names=["idx", "dist"])))
    stderr_of(lambda: made.append(export(lambda x, y: Query.apply(2, x, y), X, X, output_names=["idx", "dist"])))
    found = [(len(node(model, "knnquery").input), len(node(model, "knnquery").output)) for model in made]
    assert found == [(1, 2), (2, 2)]
    return f"inputs and outputs: {found}"


@old("cuda_tensor_types")
def _() -> str:
    if torch.cuda.is_available():
        assert torch.cuda.IntTensor(2, 3).zero_().dtype == torch.int32
        return "an int32 tensor"
    with quiet():
        fails((RuntimeError, TypeError, AssertionError), "", lambda: torch.cuda.IntTensor(2, 3))
    return "an int32 tensor where there is a GPU, else an exception"


@new("cuda_tensor_types")
def _() -> str:
    made = torch.zeros(2, 3, dtype=torch.int32, device=X.device)
    assert made.dtype == torch.int32 and made.device == X.device
    return "on the device of the input"


def _fill(a: torch.Tensor) -> torch.Tensor:
    """A kernel that reads and writes raw memory, as a pybind function does."""
    result = torch.empty_like(a)
    pointers = (tensor.data_ptr() for tensor in (a, result))
    source, target = ((ctypes.c_float * a.numel()).from_address(pointer) for pointer in pointers)
    for i, number in enumerate(source):
        target[i] = 3 * number
    return result


@old("raw_pointers")
def _() -> str:
    same(_fill(X), 3 * X)
    model = export(_fill, X)
    assert not model.graph.input and [entry.op_type for entry in model.graph.node] == ["Constant"]
    assert not run(model).any()
    name = fails(torch.onnx.OnnxExporterError, "Cannot access data pointer", lambda: export_dynamo(_fill, X))
    return f"one Constant of zeros, no inputs; the dynamo path: {name}"


@new("raw_pointers")
def _() -> str:
    library, ours = operators()
    if not torch._C._dispatch_has_kernel_for_dispatch_key("archaeology::raw_add", "CPU"):
        library.impl("raw_add", _fill, "CPU")
    with registered("archaeology::raw_add", _triple(torch.tensor(3.0))):
        model = export(lambda x: ours.raw_add(x), X)
    assert [value.name for value in model.graph.input] == ["x"]
    same(run(model, 2 * X), 6 * X)
    return "the input is there, and other numbers are right too"
