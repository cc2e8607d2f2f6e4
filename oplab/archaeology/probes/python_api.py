"""onnx and ONNX Runtime from Python."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from oplab.archaeology.probes.exports import (
    X,
    export,
    fails,
    node,
    ops,
    run,
    same,
)
from oplab.archaeology.probes.table import new, old


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
