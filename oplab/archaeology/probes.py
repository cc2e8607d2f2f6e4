"""The proofs behind table.toml: each entry is tried on this machine, by :data:`OLD` as the note has it, by :data:`NEW` as it is done today.

A probe takes nothing, returns what it saw in a few words, and raises AssertionError where the table is not true. What it registers
with the exporter, it takes away again.
"""

from __future__ import annotations

import ctypes
import functools
import inspect
import io
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxscript
import torch
from onnxscript import FLOAT, opset18
from torch.onnx import OperatorExportTypes, register_custom_op_symbolic, symbolic_helper, unregister_custom_op_symbolic
from torch.onnx.symbolic_helper import parse_args

from oplab.archaeology import HERE

OLD: dict[str, Callable[[], str]] = {}
NEW: dict[str, Callable[[], str]] = {}

X = torch.linspace(-2, 2, 6).reshape(2, 3)


def old(*ids: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    """Marks the proof of a status."""
    return functools.partial(_enter, OLD, ids)


def new(*ids: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    """Marks the proof of a replacement."""
    return functools.partial(_enter, NEW, ids)


def _enter(table: dict[str, Callable[[], str]], ids: tuple[str, ...], probe: Callable[[], str]) -> Callable[[], str]:
    @functools.wraps(probe)
    def alone() -> str:
        with untouched():
            return probe()

    for id in ids:
        assert id not in table, f"two probes for {id}"
        table[id] = alone
    return alone


@contextmanager
def untouched() -> Iterator[None]:
    """The exporter's registry as PyTorch made it: what you registered in this process is put aside, and back afterwards."""
    from torch.onnx._internal.torchscript_exporter.registration import _SymbolicFunctionGroup, registry

    groups = registry._registry
    yours = {name: group for name, group in groups.items() if group._functions._overrides or not group._functions}
    for name, group in yours.items():
        del groups[name]
        if group._functions._base:
            groups[name] = plain = _SymbolicFunctionGroup(name)
            for version, function in group._functions._base.items():
                plain.add(function, version)
    try:
        yield
    finally:
        groups.update(yours)


# --- what the probes share ------------------------------------------------------------------------------------------


class Model(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)


def export(function: Any, *inputs: torch.Tensor, **options: Any) -> onnx.ModelProto:
    """Export over the TorchScript path, without a word on stdout or in the warnings."""
    model = function if isinstance(function, (torch.nn.Module, torch.jit.ScriptModule)) else Model(function)
    names = {"input_names": ["x", "y"][: len(inputs)], "output_names": ["out"]}
    buffer = io.BytesIO()
    with quiet():
        torch.onnx.export(model, inputs, buffer, dynamo=False, **{**names, **options})
    return onnx.load_model_from_string(buffer.getvalue())


def export_dynamo(function: Any, *inputs: torch.Tensor, **options: Any) -> torch.onnx.ONNXProgram:
    """Export over the dynamo path, which is the default: no ``dynamo`` argument is given."""
    model = function if isinstance(function, torch.nn.Module) else Model(function)
    with quiet():
        program = torch.onnx.export(model, inputs, verbose=False, **options)
    assert isinstance(program, torch.onnx.ONNXProgram)
    return program


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings, and no graph on stdout where an export fails."""
    log = torch._C._jit_set_onnx_log_enabled
    torch._C._jit_set_onnx_log_enabled = lambda on: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch._C._jit_set_onnx_log_enabled = log


@contextmanager
def warned() -> Iterator[list[warnings.WarningMessage]]:
    """The Python warnings of a block, all of them, and still no graph on stdout."""
    with quiet(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


@contextmanager
def registered(name: str, function: Callable[..., Any], version: int = 9) -> Iterator[None]:
    """A registration for the length of a block. The registry is as before afterwards, also where nothing was registered."""
    from torch.onnx._internal.torchscript_exporter.registration import registry

    full = f"aten{name}" if name.startswith("::") else name
    before = full in registry.all_functions()
    register_custom_op_symbolic(name, function, version)
    try:
        yield
    finally:
        unregister_custom_op_symbolic(name, version)
        if not before:  # unregistering leaves an empty entry, on which the next export fails with another error
            registry._registry.pop(full, None)


def ops(model: onnx.ModelProto) -> list[str]:
    """The node types, custom ones as ``domain::Type``, without constants."""
    names = [f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in model.graph.node]
    return [name for name in names if name != "Constant"]


def node(model: onnx.ModelProto, type: str) -> onnx.NodeProto:
    """The first node of a type."""
    return next(node for node in model.graph.node if node.op_type == type)


def attributes(found: onnx.NodeProto) -> dict[str, Any]:
    return {entry.name: onnx.helper.get_attribute_value(entry) for entry in found.attribute}


def opsets(model: onnx.ModelProto) -> dict[str, int]:
    return {entry.domain: entry.version for entry in model.opset_import}


def run(model: onnx.ModelProto | bytes, *arrays: Any, library: Path | None = None) -> np.ndarray:
    """The first output in ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if library:
        options.register_custom_ops_library(str(library))
    data = model if isinstance(model, bytes) else model.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    feeds = zip((value.name for value in session.get_inputs()), arrays, strict=True)
    return session.run(None, {name: np.asarray(array) for name, array in feeds})[0]


def fails(kind: type[BaseException] | tuple[type[BaseException], ...], words: str, call: Callable[[], Any]) -> str:
    """Demand an exception with these words; return its type's name."""
    try:
        call()
    except kind as error:
        assert words in str(error), f"{words!r} is not in: {error}"
        return type(error).__name__
    raise AssertionError(f"nothing was raised, {words!r} was expected")


def as_printed(text: str) -> None:
    """Run a snippet with the rules of its own file: without this module's ``from __future__ import annotations``."""
    exec(compile(text, "note", "exec", dont_inherit=True), {"__name__": "note"})


def same(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-5, atol=1e-6)


def relic(g: Any, x: Any) -> Any:
    """The symbolic function that most probes register."""
    return g.op("Asinh", x)


class Counter:
    """A symbolic function that counts its calls."""

    def __init__(self, function: Callable[..., Any] = relic):
        self.function, self.calls = function, 0

    def __call__(self, g: Any, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return self.function(g, *args, **kwargs)


@functools.cache
def operators() -> Any:
    """Operators of the probes' own namespace, with the schemas of the notes. The library lives as long as the process."""
    library = torch.library.Library("archaeology", "DEF")
    library.define("grid(Tensor pos, Tensor size, Tensor? start, Tensor? end) -> Tensor")
    library.define("foo_forward(Tensor input1, Tensor input2, float attr1, int attr2) -> Tensor")
    library.define("raw_add(Tensor a) -> Tensor")

    def grid(pos: torch.Tensor, size: torch.Tensor, start: Any, end: Any) -> torch.Tensor:
        return ((pos if start is None else pos - start) / size).long().sum(-1)

    def foo(input1: torch.Tensor, input2: torch.Tensor, attr1: float, attr2: int) -> torch.Tensor:
        return attr1 * input1 + input2**attr2

    library.impl("grid", grid, "CompositeExplicitAutograd")
    library.impl("foo_forward", foo, "CompositeExplicitAutograd")
    return library, torch.ops.archaeology


class MyRelu(torch.autograd.Function):
    """The note's Function, without a ``symbolic``."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x.clamp(min=0)


class MyClip(torch.autograd.Function):
    """The note's other Function."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, low: float) -> torch.Tensor:
        return x.clamp(min=low)


class Mapped(torch.autograd.Function):
    """A Function whose ``symbolic`` shows in the graph: forward and mapping use different operators for the same numbers."""

    calls = 0

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clamp(min=0)

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        Mapped.calls += 1
        return g.op("Relu", x)


def handler(g: Any, *args: Any, **kwargs: Any) -> Any:
    """A handler of prim::PythonOp as it is written today."""
    if kwargs["name"] == "MyRelu":
        return g.op("Relu", args[0])
    if kwargs["name"] == "MyClip":
        return g.op("Clip", args[0], g.op("Constant", value_t=torch.tensor(args[1])))
    return symbolic_helper._unimplemented("prim::PythonOp", kwargs["name"])


def clipped_relu(x: torch.Tensor) -> torch.Tensor:
    return MyRelu.apply(MyClip.apply(x, -1.0))


# --- register a mapping -----------------------------------------------------------------------------------------------


@old("register_op")
def _() -> str:
    def call() -> None:
        import torch.onnx.symbolic_registry  # noqa: F401

    return fails(ModuleNotFoundError, "torch.onnx.symbolic_registry", call)


@new("register_op", "register_op_undefined")
def _() -> str:
    with registered("aten::asinh", relic):
        model = export(torch.asinh, X)
    onnx.checker.check_model(model, full_check=True)
    same(run(model, X), torch.asinh(X))
    return f"{ops(model)}, as in PyTorch"


@old("register_op_undefined")
def _() -> str:
    text = "from torch.onnx import register_custom_op_symbolic\nregister_op('asinh', None, '', 9)"
    return fails(NameError, "register_op", lambda: as_printed(text))


@old("register_op_version")
def _() -> str:
    with registered("aten::asinh", relic, 9):
        found = {opset: ops(export(torch.asinh, X, opset_version=opset)) for opset in (8, 9, 13, 20)}
        fails(Exception, "Asinh", lambda: onnx.checker.check_model(export(torch.asinh, X, opset_version=8)))
    assert set(map(tuple, found.values())) == {("Asinh",)}
    return f"registered at 9, exported at {list(found)}; at 8 the model is invalid"


@new("register_op_version")
def _() -> str:
    def refuse(g: Any, x: Any) -> Any:
        raise torch.onnx.errors.UnsupportedOperatorError("aten::asinh", g.opset, 9)

    with registered("aten::asinh", relic, 9), registered("aten::asinh", refuse, 8):
        for opset in (7, 8):
            name = fails(RuntimeError, "asinh", functools.partial(export, torch.asinh, X, opset_version=opset))
        assert ops(export(torch.asinh, X, opset_version=9)) == ["Asinh"]
    return f"opset 9 works, 7 and 8: {name}"


@old("register_custom_op_symbolic")
def _() -> str:
    _, ours = operators()
    with registered("archaeology::foo_forward", lambda g, a, b, *rest: g.op("Add", a, b)):
        found = ops(export(lambda x: ours.foo_forward(x, x, 1.0, 1), X))
    assert found == ["Add"]
    name = fails(ValueError, "cannot be modified", lambda: register_custom_op_symbolic("onnx::Relu", relic, 9))
    return f"an operator of another domain: {found}; the domain onnx: {name}"


@functools.cache
def _default_export() -> tuple[Counter, torch.onnx.ONNXProgram]:
    """One export with everything that the default path ignores: a registration, a mode, and the version of a custom domain."""
    count = Counter()
    options = {"operator_export_type": OperatorExportTypes.ONNX_ATEN, "custom_opsets": {"custom_domain": 2}}
    with registered("aten::asinh", count):
        return count, export_dynamo(_asinh_times, X, **options)


@old("register_default_export")
def _() -> str:
    count, program = _default_export()
    assert count.calls == 0
    return f"calls on the default path: {count.calls}"


def _negated(x: FLOAT["..."]) -> FLOAT["..."]:  # noqa: UP037
    """asinh(x) = -asinh(-x): a translation that shows in the graph."""
    return opset18.Neg(opset18.Asinh(opset18.Neg(x)))


@new("register_default_export")
def _() -> str:
    count = Counter()
    with registered("aten::asinh", count):
        export(torch.asinh, X)
    assert count.calls == 1
    table = {torch.ops.aten.asinh.default: onnxscript.script()(_negated)}
    program = export_dynamo(torch.asinh, X, custom_translation_table=table)
    found = [entry.op_type for entry in program.model.graph]
    assert found == ["Neg", "Asinh", "Neg"], found
    return f"calls with dynamo=False: 1; the translation table gives {found}"


@old("prim_forbidden")
def _() -> str:
    count = Counter(handler)
    with registered("prim::PythonOp", count, 1):
        export(clipped_relu, X)
    assert count.calls == 2
    return "prim::PythonOp is registered and called"


# --- Functions without a symbolic method ------------------------------------------------------------------------------


@old("prim_pythonop")
def _() -> str:
    count = Counter(handler)
    with registered("::prim_PythonOp", count, 1):
        model = export(clipped_relu, X)
        same(run(model, X), clipped_relu(X))
        name = fails(RuntimeError, "Couldn't export Python operator", lambda: _not_inlined(clipped_relu))
    assert count.calls == 0 and ops(model) == ["Clip", "Clip"]
    return f"calls: 0, and the output is right all the same; without inlining: {name}"


@new("prim_pythonop", "prim_forbidden")
def _() -> str:
    count = Counter(handler)
    with registered("prim::PythonOp", count, 1):
        model = _not_inlined(clipped_relu)
    assert count.calls == 2 and ops(model) == ["Clip", "Relu"]
    same(run(model, X), clipped_relu(X))
    return f"calls: 2, {ops(model)}"


def _not_inlined(function: Any, **options: Any) -> onnx.ModelProto:
    return export(function, X, autograd_inlining=False, **options)


@old("pythonop_inlining")
def _() -> str:
    model = export(clipped_relu, X)
    assert ops(model) == ["Clip", "Clip"]
    return f"no handler at all, and the export gives {ops(model)}"


@new("pythonop_inlining")
def _() -> str:
    return fails(RuntimeError, "Couldn't export Python operator MyClip", lambda: _not_inlined(clipped_relu))


@old("pythonop_signature")
def _() -> str:
    seen = []

    def by_the_note(g: Any, n: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append((type(n).__name__, len(args)))
        return g.op("Relu", n)

    with registered("prim::PythonOp", by_the_note, 1):
        export(MyRelu.apply, X)
    assert seen == [("Value", 0)]
    return "n is a Value, and args is empty"


@new("pythonop_signature")
def _() -> str:
    seen = []

    def today(g: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append((g.original_node.kind(), len(args)))
        return g.op("Relu", args[0])

    with registered("prim::PythonOp", today, 1):
        export(MyRelu.apply, X)
    assert seen == [("prim::PythonOp", 1)]
    return f"g.original_node.kind() is {seen[0][0]}"


@old("pythonop_name")
def _() -> str:
    seen = []

    def look(g: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(kwargs["name"])
        assert kwargs["module"] == __name__
        return handler(g, *args, **kwargs)

    with registered("prim::PythonOp", look, 1):
        export(clipped_relu, X)
    assert seen == ["MyClip", "MyRelu"]
    return str(seen)


def _typed(type_of: Callable[[Any, Any], Any]) -> onnx.ModelProto:
    """A custom node whose type is set, exported with a dynamic first axis."""

    def symbolic(g: Any, *args: Any, **kwargs: Any) -> Any:
        return g.op("archaeology::MyRelu", args[0]).setType(type_of(g, args[0]))

    with registered("prim::PythonOp", symbolic, 1):
        return export(MyRelu.apply, X, dynamic_axes={"x": {0: "n"}})


def _sizes(model: onnx.ModelProto) -> list[Any]:
    return [dim.dim_param or dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim]


@old("node_type")
def _() -> str:
    name = fails(AttributeError, "type", lambda: _typed(lambda g, x: g.original_node.type()))
    sizes = _sizes(_typed(lambda g, x: g.original_node.output().type()))
    assert sizes == [2, 3]
    return f"n.type(): {name}; the output's type on a dynamic axis: {sizes}"


@new("node_type")
def _() -> str:
    sizes = _sizes(_typed(lambda g, x: x.type()))
    assert sizes == ["n", 3]
    return f"the input's type: {sizes}"


@old("set_type")
def _() -> str:
    def untyped(g: Any, *args: Any, **kwargs: Any) -> Any:
        return g.op("archaeology::MyRelu", args[0])

    with registered("prim::PythonOp", untyped, 1):
        text = stderr_of(lambda: export(MyRelu.apply, X))
    assert "shape inference of archaeology::MyRelu type is missing" in text
    assert stderr_of(lambda: _typed(lambda g, x: x.type())) == ""
    return "without: a warning; with: none"


def stderr_of(call: Callable[[], Any]) -> str:
    """What a call writes to the process's stderr, C++ included."""
    with tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            call()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        file.seek(0)
        return file.read().decode(errors="replace")


@old("node_outputs")
def _() -> str:
    seen = []

    def look(g: Any, *args: Any, **kwargs: Any) -> Any:
        outputs = [out.requiresGrad() for out in g.original_node.outputs()]
        seen.append((outputs, args[0].requiresGrad()))
        return handler(g, *args, **kwargs)

    with registered("prim::PythonOp", look, 1):
        export(MyRelu.apply, X.clone().requires_grad_())
        export(MyRelu.apply, X)
    assert seen == [([True], True), ([False], False)]
    return "requiresGrad() of output and input: True, then False"


@old("is_value")
def _() -> str:
    seen = []

    def look(g: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append([symbolic_helper._is_value(arg) for arg in args])
        return handler(g, *args, **kwargs)

    with registered("prim::PythonOp", look, 1):
        export(lambda x: MyClip.apply(x, -1.0), X)
    assert seen == [[True, False]]
    return "MyClip(x, -1.0): [True, False]"


class Unknown(torch.autograd.Function):
    """A Function that :func:`handler` does not know."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x + 1


@old("unimplemented")
@new("unimplemented")
def _() -> str:
    with registered("prim::PythonOp", handler, 1):
        return fails(torch.onnx.errors.OnnxExporterError, "Unknown", lambda: export(Unknown.apply, X))


@old("returns_none")
def _() -> str:
    with registered("aten::asinh", lambda g, x: None):
        return fails(RuntimeError, "Couldn't export operator aten::asinh", lambda: export(torch.asinh, X))


@new("returns_none")
def _() -> str:
    def refuse(g: Any, x: Any) -> Any:
        raise torch.onnx.errors.OnnxExporterError("asinh needs a float")

    with registered("aten::asinh", refuse):
        return fails(RuntimeError, "asinh needs a float", lambda: export(torch.asinh, X))


@old("function_backward")
def _() -> str:
    x = X.clone().requires_grad_()
    return fails(NotImplementedError, "backward", lambda: MyRelu.apply(x).sum().backward())


# --- write a symbolic function ----------------------------------------------------------------------------------------


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
    # Python 3.14 evaluates an annotation only when somebody asks for it, so it is evaluated here.
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


def _foo(*codes: str) -> onnx.ModelProto:
    _, ours = operators()

    @parse_args(*codes)
    def symbolic(g: Any, a: Any, b: Any, attr1: Any, attr2: Any) -> Any:
        return g.op("custom_domain::Foo", a, b, attr1_f=attr1, attr2_i=attr2).setType(a.type())

    with registered("archaeology::foo_forward", symbolic):
        return export(
            lambda x, y: ours.foo_forward(x, y, 2.5, 3), X, X, custom_opsets={"custom_domain": 2}, opset_version=13
        )


@old("parse_args")
def _() -> str:
    assert attributes(node(_foo("v", "v", "f", "i"), "Foo")) == {"attr1": 2.5, "attr2": 3}
    cut = attributes(node(_foo("v", "v", "i", "i"), "Foo"))
    assert cut["attr1"] == 2.0
    name = fails(AssertionError, "", lambda: _foo("v", "v", "f"))
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


@new("out_keyword")
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
    assert attributes(node(_foo("v", "v", "f", "i"), "Foo"))["attr2"] == 3
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
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
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
        return 3 * a + 2 * b

    @staticmethod
    def symbolic(g: Any, a: Any, b: Any) -> Any:
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
        new_xyz = xyz if new_xyz is None else new_xyz
        distance, index = torch.cdist(new_xyz, xyz).topk(nsample, largest=False)
        return index.int(), distance

    @staticmethod
    def symbolic(g: Any, nsample: int, xyz: Any, new_xyz: Any = None) -> Any:
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


# --- export -----------------------------------------------------------------------------------------------------------


@old("export_default")
def _() -> str:
    program = _default_export()[1]
    assert program.exported_program is not None
    return f"{type(program).__name__} with {[entry.op_type for entry in program.model.graph]}"


@new("export_default")
def _() -> str:
    name = fails(torch.onnx.errors.UnsupportedOperatorError, "aten::asinh", lambda: export(torch.asinh, X))
    return f"dynamo=False without a registration: {name}"


@old("to_onnx_pass")
def _() -> str:
    assert callable(torch._C._jit_pass_onnx)
    from torch.onnx._internal.torchscript_exporter import utils

    assert "_jit_pass_onnx(graph, operator_export_type)" in inspect.getsource(utils)
    return "torch._C._jit_pass_onnx"


@old("names")
def _() -> str:
    model = export(torch.relu, X, input_names=None, output_names=None)
    names = [value.name for value in model.graph.input]
    assert names != ["0"]
    return f"relu's input is called {names[0]!r}"


@new("names")
def _() -> str:
    model = export(torch.add, X, X, input_names=["a", "b"], output_names=["sum"])
    names = [value.name for value in [*model.graph.input, *model.graph.output]]
    assert names == ["a", "b", "sum"]
    return str(names)


@old("dynamic_axes")
def _() -> str:
    model = export(torch.relu, X, dynamic_axes={"x": {0: "n"}})
    same(run(model, torch.cat([X, X])), torch.cat([X, X]).relu())
    return "exported with 2 rows, runs with 4"


@new("dynamic_axes")
def _() -> str:
    program = export_dynamo(torch.relu, X, dynamic_shapes=(({0: "n"},),), input_names=["x"])
    same(run(program.model_proto, torch.cat([X, X])), torch.cat([X, X]).relu())
    return "exported with 2 rows, runs with 4"


@old("no_grad")
def _() -> str:
    layer = torch.nn.Linear(3, 2)
    with torch.no_grad():
        without = export(layer, X)
    assert without.graph.SerializeToString() == export(layer, X).graph.SerializeToString()
    return "the two graphs are equal, byte for byte"


@old("mode_raw")
def _() -> str:
    return fails(AttributeError, "RAW", lambda: OperatorExportTypes.RAW)


@new("mode_raw")
def _() -> str:
    with quiet():
        traced = torch.jit.trace(Model(torch.asinh), X)
    kinds = [entry.kind() for entry in traced.graph.nodes()]
    assert kinds == ["aten::asinh"]
    targets = [str(entry.target) for entry in torch.export.export(Model(torch.asinh), (X,)).graph.nodes]
    assert "aten.asinh.default" in targets
    return f"{kinds}; torch.export: aten.asinh.default"


def modes(function: Callable[..., Any], mode: str, **options: Any) -> onnx.ModelProto:
    """Export in one of the modes of operator_export_type."""
    return export(function, X, operator_export_type=getattr(OperatorExportTypes, mode), **options)


def _asinh_times(x: torch.Tensor) -> torch.Tensor:
    return torch.asinh(x) * x


@old("mode_onnx")
def _() -> str:
    return fails(torch.onnx.errors.UnsupportedOperatorError, "aten::asinh", lambda: modes(_asinh_times, "ONNX"))


@old("mode_aten")
def _() -> str:
    model = modes(_asinh_times, "ONNX_ATEN")
    names = [attributes(entry)["operator"].decode() for entry in model.graph.node]
    assert set(ops(model)) == {"org.pytorch.aten::ATen"} and names == ["asinh", "mul"]
    fails(Exception, "org.pytorch.aten:ATen", lambda: run(model, X))
    return f"{set(ops(model))} with operator = {names}"


@old("mode_fallback")
def _() -> str:
    model = modes(lambda x: torch.triu(x) * x, "ONNX_ATEN_FALLBACK", opset_version=13)
    mapped = modes(lambda x: torch.triu(x) * x, "ONNX_ATEN_FALLBACK", opset_version=14)
    assert ops(model) == ["org.pytorch.aten::ATen", "Mul"] and ops(mapped) == ["Trilu", "Mul"]
    return f"triu at opset 13: {ops(model)[0]}, at 14: {ops(mapped)[0]}"


@new("mode_fallback", "mode_fallthrough")
def _() -> str:
    with registered("aten::asinh", relic):
        model = modes(_asinh_times, "ONNX")
    assert ops(model) == ["Asinh", "Mul"]
    same(run(model, X), _asinh_times(X))
    return f"{ops(model)} runs"


class Listed(torch.nn.Module):
    """The note's example: a sum in a list."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.sum(x)]


@old("mode_fallthrough")
def _() -> str:
    assert ops(modes(_asinh_times, "ONNX_FALLTHROUGH")) == ["org.pytorch.aten::asinh", "Mul"]
    with quiet():
        scripted = torch.jit.script(Listed())
    model = export(scripted, X, operator_export_type=OperatorExportTypes.ONNX_FALLTHROUGH)
    assert ops(model) == ["ReduceSum", "SequenceConstruct"]
    return f"asinh: org.pytorch.aten::asinh; the note's list: {ops(model)[-1]}"


@old("mode_default")
def _() -> str:
    program = _default_export()[1]
    found = [entry.op_type for entry in program.model.graph]
    assert found == ["Asinh", "Mul"]
    return f"ONNX_ATEN on the default path: {found}"


@new("mode_default")
def _() -> str:
    with warned() as caught:
        options = {"dynamo": False, "operator_export_type": OperatorExportTypes.ONNX_ATEN}
        torch.onnx.export(Model(torch.relu), (X,), io.BytesIO(), **options)
    texts = [str(entry.message) for entry in caught if issubclass(entry.category, DeprecationWarning)]
    assert any("operator_export_type" in text for text in texts)
    return "dynamo=False takes it, with a DeprecationWarning"


@old("custom_opsets")
@new("custom_opsets_default")
def _() -> str:
    found = opsets(_foo("v", "v", "f", "i"))
    assert found["custom_domain"] == 2
    return str(found)


@old("custom_opsets_default")
def _() -> str:
    program = _default_export()[1]
    assert set(program.model.opset_imports) == {""}
    return f"{program.model.opset_imports}"


@old("foo_model")
def _() -> str:
    text = "import torch\nclass FooModel(torch.nn.Module):\n    def __init__(self): super(FooModule, self).__init__()\nFooModel()"
    return fails(NameError, "FooModule", lambda: as_printed(text))


@new("foo_model")
def _() -> str:
    text = "import torch\nclass FooModel(torch.nn.Module):\n    def __init__(self): super().__init__()\nFooModel()"
    as_printed(text)
    return "runs"


@old("foo_forward")
def _() -> str:
    found = node(_foo("v", "v", "f", "i"), "Foo")
    assert attributes(found) == {"attr1": 2.5, "attr2": 3}
    return f"{found.domain}::{found.op_type} {attributes(found)}"


@old("error_message")
@new("error_message")
def _() -> str:
    assert issubclass(torch.onnx.errors.UnsupportedOperatorError, RuntimeError)
    return fails(
        torch.onnx.errors.UnsupportedOperatorError,
        "Exporting the operator 'aten::asinh' to ONNX opset version",
        lambda: export(torch.asinh, X),
    )


# --- look things up ---------------------------------------------------------------------------------------------------

_HOME = Path(torch.__file__).parent


@old("pyi_files")
def _() -> str:
    text = (_HOME / "_C" / "_VariableFunctions.pyi").read_text(encoding="utf-8")
    assert "def asinh(input: Tensor" in text and (_HOME / "nn" / "functional.pyi").is_file()
    return "asinh is in the first, and the second exists"


NEW["pyi_files"] = NEW["out_keyword"]


@old("ir_header")
def _() -> str:
    text = (_HOME / "include" / "torch" / "csrc" / "jit" / "ir" / "ir.h").read_text(encoding="utf-8")
    assert "struct Graph" in text and "struct Value" in text
    return "struct Graph is in it"


@old("edit_symbolic_files")
def _() -> str:
    import torch.onnx.symbolic_opset9 as shim
    from torch.onnx._internal.torchscript_exporter import symbolic_opset9 as real

    for module in (shim, real):  # what a line added to the file would do
        module.asinh = relic
        try:
            name = fails(torch.onnx.errors.UnsupportedOperatorError, "aten::asinh", lambda: export(torch.asinh, X))
        finally:
            del module.asinh
    return f"a function asinh in either file: {name}"


NEW["edit_symbolic_files"] = NEW["register_op"]


@old("elu_removed")
def _() -> str:
    from torch.onnx._internal.torchscript_exporter.registration import registry

    assert ops(export(torch.nn.functional.elu, X)) == ["Elu"]
    kept = registry._registry.pop("aten::elu")
    try:
        return fails(
            torch.onnx.errors.UnsupportedOperatorError, "aten::elu", lambda: export(torch.nn.functional.elu, X)
        )
    finally:
        registry._registry["aten::elu"] = kept


@old("bicubic_files")
def _() -> str:
    import torch.onnx.symbolic_opset11 as shim

    text = Path(inspect.getsourcefile(shim)).read_text(encoding="utf-8")
    assert "torchscript_exporter.symbolic_opset11 import" in text and "bicubic" not in text
    return "the file only imports from another one"


@new("bicubic_files")
def _() -> str:
    from torch.onnx._internal.torchscript_exporter.registration import registry

    function = inspect.unwrap(registry.get_function_group("aten::upsample_bicubic2d").get(11))
    assert '"Resize"' in inspect.getsource(function)
    return f"{function.__name__} writes Resize"


def _future(call: Callable[[], Any]) -> Any:
    with warned() as caught:
        made = call()
    assert any(entry.category is FutureWarning for entry in caught)
    return made


@old("trace_elu")
def _() -> str:
    traced = _future(lambda: torch.jit.trace(torch.nn.ELU(), torch.ones(1)))
    kinds = [entry.kind() for entry in traced.graph.nodes()]
    assert kinds == ["prim::Constant"] * 3 + ["aten::elu"]
    return "three constants and aten::elu"


@new("trace_elu")
def _() -> str:
    targets = [str(entry.target) for entry in torch.export.export(torch.nn.ELU(), (torch.ones(1),)).graph.nodes]
    assert "aten.elu.default" in targets
    return "aten.elu.default"


class Branch(torch.nn.Module):
    """A branch that depends on the data."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            return x + 1
        return x - 1


@old("script")
def _() -> str:
    scripted = _future(lambda: torch.jit.script(Branch()))
    model = export(scripted, X)
    assert "If" in ops(model)
    same(run(model, -X - 1), -X - 2)
    name = fails(Exception, "ScriptModule", lambda: export_dynamo(scripted, X))
    return f"an If in the graph; the dynamo path: {name}"


@new("script")
def _() -> str:
    class Conditional(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    program = export_dynamo(Conditional(), X)
    assert "If" in [entry.op_type for entry in program.model.graph]
    same(run(program.model_proto, -X - 1), -X - 2)
    return "torch.cond: an If"


@old("set_type_example")
def _() -> str:
    assert "test_aten_embedding_2" in register_custom_op_symbolic.__doc__
    assert not (_HOME / "test" / "onnx" / "test_operators.py").exists()
    return "named in a docstring; the file is not in the wheel"


@old("operator_table")
def _() -> str:
    versions = [
        schema.since_version
        for schema in onnx.defs.get_all_schemas_with_history()
        if schema.name == "Clip" and not schema.domain
    ]
    assert {1, 6, 11, 12, 13} <= set(versions)
    return f"Clip: {sorted(versions)}"


@old("netron")
def _() -> str:
    import netron

    assert {"file", "address", "browse"} <= set(inspect.signature(netron.start).parameters)
    return "netron.start(file, address, browse)"


# --- operators --------------------------------------------------------------------------------------------------------


@new("deform_missing")
def _() -> str:
    helper, float_ = onnx.helper, onnx.TensorProto.FLOAT
    ports = [helper.make_tensor_value_info(name, float_, None) for name in ("X", "W", "offset", "Y")]
    made = helper.make_node("DeformConv", ["X", "W", "offset"], ["Y"])
    graph = helper.make_graph([made], "g", ports[:3], ports[3:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    image = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    got = run(model, image, np.ones((1, 1, 2, 2), np.float32), np.zeros((1, 8, 2, 2), np.float32))
    same(got, [[[[8, 12], [20, 24]]]])  # without offsets: sums of 2 x 2
    return "ONNX Runtime's CPU runs it"


@old("deform_missing")
def _() -> str:
    schema = onnx.defs.get_schema("DeformConv", 19)
    names = [entry.name for entry in schema.inputs]
    assert names == ["X", "W", "offset", "B", "mask"]
    fails(onnx.defs.SchemaError, "", lambda: onnx.defs.get_schema("DeformConv", 18))
    return f"DeformConv since 19: {names}"


@old("deform_schema")
def _() -> str:
    import torchvision  # noqa: F401

    schema = torch.ops.torchvision.deform_conv2d.default._schema
    kinds = [str(argument.type) for argument in schema.arguments]
    assert kinds.count("Tensor") == 5 and len(kinds) == 14
    return "five tensors, eight ints, one bool"


def _deform_export(symbolic: Callable[..., Any]) -> onnx.ModelProto:
    import torchvision

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torchvision.ops.DeformConv2d(3, 4, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x, torch.zeros(1, 18, 4, 4))

    made = []
    with registered("torchvision::deform_conv2d", symbolic):
        stderr_of(lambda: made.append(export(Net(), torch.ones(1, 3, 6, 6))))
    return made[0]


_DEFORM = ("v",) * 5 + ("i",) * 8


@old("deform_two_inputs")
def _() -> str:
    @parse_args(*_DEFORM, "none")
    def symbolic(g, input, weight, offset, mask, bias, sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask):
        return g.op("custom::deform_conv2d", input, offset)

    found = node(_deform_export(symbolic), "deform_conv2d")
    assert len(found.input) == 2 and not found.attribute
    return "two inputs, no attributes, no weight"


@new("deform_two_inputs")
def _() -> str:
    # parse_args goes by the names of the parameters: what *args would take is dropped without a word.
    @parse_args(*_DEFORM, "b")
    def symbolic(g, input, weight, offset, mask, bias, sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask):
        words = {"strides_i": [sh, sw], "pads_i": [ph, pw, ph, pw], "dilations_i": [dh, dw], "group_i": groups}
        tensors = [input, weight, offset, bias, *([mask] if use_mask else [])]
        return g.op("custom::DeformConv2d", *tensors, offset_group_i=offset_groups, **words)

    found = node(_deform_export(symbolic), "DeformConv2d")
    assert len(found.input) == 4 and attributes(found)["strides"] == [1, 1] and len(found.attribute) == 5
    return f"four inputs (no mask), {sorted(attributes(found))}"


@old("interpolate_tensor")
def _() -> str:
    image, factor = torch.rand(1, 3, 4, 4), torch.tensor([3.0, 3.0])
    return fails(TypeError, "", lambda: torch.nn.functional.interpolate(image, scale_factor=factor, mode="bicubic"))


class NewInterpolate(torch.autograd.Function):
    """Bicubic interpolation whose factor is a tensor."""

    @staticmethod
    def forward(ctx: Any, image: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        factors = scales.tolist()[-2:]
        return torch.nn.functional.interpolate(image, scale_factor=factors, mode="bicubic", align_corners=False)

    @staticmethod
    def symbolic(g: Any, image: Any, scales: Any) -> Any:
        empty = g.op("Constant", value_t=torch.tensor([], dtype=torch.float32))
        words = {"coordinate_transformation_mode_s": "pytorch_half_pixel", "mode_s": "cubic", "nearest_mode_s": "floor"}
        return g.op("Resize", image, empty, scales, cubic_coeff_a_f=-0.75, **words)


@old("new_interpolate")
@new("interpolate_tensor")
def _() -> str:
    image, three, two = torch.rand(1, 3, 4, 4), torch.tensor([1.0, 1, 3, 3]), torch.tensor([1.0, 1, 2, 2])
    for opset in (11, 13, 20):
        model = export(NewInterpolate.apply, image, three, opset_version=opset)
        assert [value.name for value in model.graph.input] == ["x", "y"]
        got, expected = run(model, image, two), NewInterpolate.apply(image, two)
        np.testing.assert_allclose(got, expected, atol=1e-4)
    return "exported with the factor 3, right with 2, at opsets 11, 13 and 20"


@old("interpolate_resize")
def _() -> str:
    image = torch.rand(1, 3, 4, 4)
    both = [lambda x: torch.nn.functional.interpolate(x, scale_factor=2.0), torch.nn.Upsample(scale_factor=2.0)]
    found = [ops(export(entry, image)) for entry in both]
    assert found == [["Resize"], ["Resize"]]
    return str(found)


class DynamicResize(NewInterpolate):
    """A plugin instead of Resize."""

    @staticmethod
    def symbolic(g: Any, image: Any, scales: Any) -> Any:
        return g.op("Just_A_Scope_Name::DynamicTRTResize", image, scales)


@old("dynamic_trt_resize")
def _() -> str:
    image, three = torch.rand(1, 3, 4, 4), torch.tensor([1.0, 1, 3, 3])
    with warned() as caught:
        options = {"dynamo": False, "input_names": ["x", "y"]}
        text = stderr_of(lambda: torch.onnx.export(Model(DynamicResize.apply), (image, three), io.BytesIO(), **options))
    assert "shape inference of Just_A_Scope_Name::DynamicTRTResize type is missing" in text
    assert not any("shape inference" in str(entry.message) for entry in caught)
    return "the warning is on stderr, not in Python's warnings"


@new("dynamic_trt_resize")
def _() -> str:
    class Typed(NewInterpolate):
        @staticmethod
        def symbolic(g: Any, image: Any, scales: Any) -> Any:
            made = g.op("Just_A_Scope_Name::DynamicTRTResize", image, scales)
            return made.setType(image.type().with_sizes([1, 3, None, None]))

    image, three = torch.rand(1, 3, 4, 4), torch.tensor([1.0, 1, 3, 3])
    text = stderr_of(lambda: export(Typed.apply, image, three))
    assert text == ""
    return "no warning"


# --- onnx and ONNX Runtime, from Python -------------------------------------------------------------------------------


def _built(**options: Any) -> onnx.ModelProto:
    helper, float_ = onnx.helper, onnx.TensorProto.FLOAT
    ports = [helper.make_tensor_value_info(name, float_, ["n"]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", ports[:1], ports[1:])
    return helper.make_model(graph, **options)


@old("protos")
def _() -> str:
    model = _built()
    parts = [model, model.graph, model.graph.node[0], model.graph.input[0]]
    names = [type(part).__name__ for part in parts]
    assert names == ["ModelProto", "GraphProto", "NodeProto", "ValueInfoProto"]
    return str(names)


@old("helper")
def _() -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.onnx"
        onnx.save(_built(), path)
        assert onnx.load(path).graph.node[0].op_type == "Relu"
    name = fails(Exception, "", lambda: run(_built(), np.float32([-1, 2])))
    return f"built, saved and read; ONNX Runtime with the defaults: {name}"


@new("helper")
def _() -> str:
    model = _built(opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
    same(run(model, np.float32([-1, 2])), [0, 2])
    return "IR 10, opset 20: ONNX Runtime runs it"


@old("checker")
def _() -> str:
    onnx.checker.check_model(_built(), full_check=True)
    wrong = _built()
    wrong.graph.node[0].op_type = "Rellu"
    return "a wrong name: " + fails(onnx.checker.ValidationError, "Rellu", lambda: onnx.checker.check_model(wrong))


@old("extract_model")
def _() -> str:
    model = export(lambda x, y: torch.relu(x) + torch.sigmoid(y), X, X)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "m.onnx", Path(folder) / "part.onnx"
        onnx.save(model, source)
        middle = node(model, "Relu").output[0]
        onnx.utils.extract_model(str(source), str(target), ["x"], [middle])
        assert ops(onnx.load(target)) == ["Relu"]
        name = fails(Exception, "", lambda: onnx.utils.extract_model(str(source), str(target), ["x"], ["out"]))
    return f"one branch: ['Relu']; a cut that misses the other: {name}"


@old("session")
def _() -> str:
    import onnxruntime

    session = onnxruntime.InferenceSession(export(torch.relu, X).SerializeToString())
    names = session.get_inputs()[0].name, session.get_outputs()[0].name
    same(session.run([names[1]], {names[0]: X.numpy()})[0], X.relu())
    return f"names {names}"


@new("session")
def _() -> str:
    same(run(export(torch.relu, X), X), X.relu())
    return "providers=['CPUExecutionProvider']"


@old("allclose")
def _() -> str:
    assert np.allclose(np.ones((1, 5), np.float32), np.ones((6, 5), np.float64))
    return "np.allclose takes float32[1, 5] and float64[6, 5] for equal"


@new("allclose")
def _() -> str:
    from oplab.parity.arrays import WrongAnswer, expect_close

    return fails(WrongAnswer, "expected", lambda: expect_close(np.ones((1, 5), np.float32), np.ones((6, 5))))


# --- ONNX Runtime kernels in C++ --------------------------------------------------------------------------------------


@functools.cache
def compiler_log() -> str:
    """What the compiler says to ``then.cpp``, with the headers and flags of the course."""
    from oplab.toolchain.compiler import find_compiler
    from oplab.toolchain.compiler import run as call
    from oplab.toolchain.recipes import recipe

    compiler = find_compiler()
    limits = ("-fmax-errors=", "-ferror-limit=")
    command = [word for word in recipe("ort").compile_command(compiler) if not word.startswith(limits)]
    done = call([*command, "-fsyntax-only", str(HERE / "then.cpp")], timeout=120)
    assert done.returncode, "then.cpp compiles, which the table says it does not"
    return done.log


def unknown_names() -> list[str]:
    """The names of the old API that today's headers do not have, in the words of no particular compiler."""
    words = {
        "Ort::CustomOpApi": "CustomOpApi",
        "OrtTensorDimensions": "OrtTensorDimensions",
        "ORT_UNUSED_PARAMETER": "ORT_UNUSED_PARAMETER",
        "onnxruntime::kCpuExecutionProvider": "['\u2018]onnxruntime['\u2019]|kCpuExecutionProvider",
    }
    errors = [line for line in compiler_log().splitlines() if "error" in line]
    return [name for name, pattern in words.items() if any(re.search(pattern, line) for line in errors)]


def _unknown(*names: str) -> str:
    missing = [name for name in names if name not in unknown_names()]
    assert not missing, f"the compiler does not complain about {missing}"
    return f"does not compile: {', '.join(names)} is not declared"


def _headers() -> str:
    from oplab.toolchain.headers import ort_include

    return "".join(file.read_text(errors="replace") for file in sorted(ort_include().glob("onnxruntime_c*.h")))


@old("custom_op_api")
def _() -> str:
    assert "struct CustomOpApi" not in _headers()
    return _unknown("Ort::CustomOpApi")


@old("create_kernel", "shape_info_handles")
def _() -> str:
    return _unknown("Ort::CustomOpApi")


@old("tensor_dimensions")
def _() -> str:
    assert "OrtTensorDimensions" not in _headers()
    return _unknown("OrtTensorDimensions")


@old("cpu_provider_name")
def _() -> str:
    return _unknown("onnxruntime::kCpuExecutionProvider")


@old("unused_parameter")
def _() -> str:
    return _unknown("ORT_UNUSED_PARAMETER")


@functools.cache
def ported() -> Path:
    """The library made from ``now.cpp``; compiled once and kept in the project's cache."""
    from oplab.toolchain.build import compile_exercise

    return compile_exercise(HERE / "now.cpp", "ort")


def foo(*shapes: list[int], scale: str | None = None) -> onnx.ModelProto:
    """A model with one node ``archaeology::Foo``: x and y, and a scale if it has a name (``""``: an empty input)."""
    helper, kinds = onnx.helper, onnx.TensorProto
    inputs = [helper.make_tensor_value_info(name, kinds.FLOAT, None) for name in ("x", "y")]
    if scale:
        inputs.append(helper.make_tensor_value_info(scale, kinds.INT64, None))
    names = ["x", "y"] + ([] if scale is None else [scale])
    made = helper.make_node("Foo", names, ["out"], domain="archaeology")
    graph = helper.make_graph([made], "g", inputs, [helper.make_tensor_value_info("out", kinds.FLOAT, None)])
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("archaeology", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@new(
    "custom_op_api",
    "create_kernel",
    "tensor_dimensions",
    "shape_info_handles",
    "cpu_provider_name",
    "unused_parameter",
    "tensorrt",
)
@old("custom_op_base", "domain_add")
def _() -> str:
    for shape in ((3,), (2, 3, 4), (0, 5), ()):
        x, y = np.random.default_rng(9).normal(size=(2, *shape)).astype(np.float32)
        got = run(foo(), x, y, library=ported())
        assert got.shape == shape
        same(got, x + y)
    from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

    # The code of a status: an exception that leaves a kernel loses it.
    for first, second in (((6,), (4,)), ((2, 3), (3,)), ((2, 3), (3, 2)), ((), (1,)), ((4,), (0,))):
        x, y = np.ones(first, np.float32), np.ones(second, np.float32)
        words = f"Foo: x is {list(first)} and y is {list(second)}: they must be equal."
        fails(InvalidArgument, words, functools.partial(run, foo(), x, y, library=ported()))
    fails(InvalidArgument, "it is [2]", lambda: run(foo(scale="k"), x, x, np.int64([1, 2]), library=ported()))
    return "now.cpp compiles and runs"


@old("input_type_by_index", "input_optional")
def _() -> str:
    x, y = np.random.default_rng(9).normal(size=(2, 4)).astype(np.float32)
    same(run(foo(scale="k"), x, y, np.int64(5), library=ported()), 5 * (x + y))
    same(run(foo(scale=""), x, y, library=ported()), x + y)
    same(run(foo(), x, y, library=ported()), x + y)
    return "an int64 input beside floats: given, empty, and left out"


@old("compute_stream")
def _() -> str:
    assert "KernelContext_GetGPUComputeStream" in _headers()
    return "a pointer that the op stores; the context has one of its own"


@new("compute_stream")
def _() -> str:
    assert "void* GetGPUComputeStream() const" in _headers()
    return "KernelContext::GetGPUComputeStream() is declared"


# --- C++ operators of PyTorch -----------------------------------------------------------------------------------------


def _cpp_extension() -> Any:
    import logging

    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)  # it warns where CUDA has no runtime
    from torch.utils import cpp_extension

    return cpp_extension


@old("torch_header")
def _() -> str:
    text = (_HOME / "include" / "torch" / "csrc" / "api" / "include" / "torch" / "torch.h").read_text()
    guard = text.index("#ifdef TORCH_API_INCLUDE_EXTENSION_H")
    assert text.index("#include <torch/extension.h>") > guard
    assert "-DTORCH_API_INCLUDE_EXTENSION_H" in inspect.getsource(_cpp_extension())
    return "torch.h includes extension.h where TORCH_API_INCLUDE_EXTENSION_H is defined"


@new("torch_header")
def _() -> str:
    assert (_HOME / "include" / "torch" / "csrc" / "stable" / "library.h").is_file()
    return "torch/csrc/stable/library.h"


@old("pybind_module")
def _() -> str:
    assert "-DTORCH_EXTENSION_NAME=" in inspect.getsource(_cpp_extension())
    assert (_HOME / "include" / "pybind11" / "pybind11.h").is_file()
    return "the macro is defined, and pybind11 is in the wheel"


@old("torch_library")
def _() -> str:
    include = _HOME / "include" / "torch"
    assert "#define TORCH_LIBRARY(" in (include / "library.h").read_text(encoding="utf-8")
    assert "STABLE_TORCH_LIBRARY" in (include / "csrc" / "stable" / "library.h").read_text(encoding="utf-8")
    return "both macros are in the wheel's headers"


@old("cpp_extension")
def _() -> str:
    made = _cpp_extension().CppExtension("my_lib", ["my_add.cpp"])
    assert made.name == "my_lib" and "torch" in made.libraries
    assert issubclass(_cpp_extension().BuildExtension, object)
    return f"Extension({made.name!r}, {made.sources})"


@old("cuda_extension")
def _() -> str:
    module = _cpp_extension()
    flags = {"cxx": ["-O2"], "nvcc": ["-O2"]}
    words = {"name": "my_lib", "sources": ["a.cpp", "a.cu"], "include_dirs": ["./include"], "extra_compile_args": flags}
    if module.CUDA_HOME is None:
        fails(OSError, "CUDA_HOME", lambda: module.CUDAExtension(**words))
    else:
        assert "cudart" in module.CUDAExtension(**words).libraries
    return "an Extension where a CUDA toolkit is found, else an OSError about CUDA_HOME"


@old("setup_py")
def _() -> str:
    from setuptools.command import develop, install

    assert "pip" in inspect.getsource(develop) and "Deprecat" in inspect.getsource(develop)
    assert "setup.py install is deprecated" in inspect.getsource(install)
    return "both are marked as deprecated; develop calls pip"


@new("setup_py")
def _() -> str:
    from importlib.metadata import version

    assert int(version("setuptools").split(".")[0]) >= 64  # builds editable installs for pip (PEP 660)
    return "setuptools builds for pip"


@old("tensorrt")
def _() -> str:
    import importlib.util

    found = importlib.util.find_spec("tensorrt") is not None
    import onnxruntime

    assert hasattr(onnxruntime.SessionOptions, "register_custom_ops_library")
    return "ONNX Runtime: register_custom_ops_library" + ("" if not found else "; TensorRT is installed")
