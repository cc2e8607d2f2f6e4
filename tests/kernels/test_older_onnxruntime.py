"""The course's kernels in ONNX Runtimes that are older than the pinned one, and as new as the headers that they are compiled with."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from oplab.toolchain import build

pytestmark = pytest.mark.nightly

# The version of the headers, and the last one that reads an absent input's type through a null pointer.
OLDER = ("1.21.1", "1.23.2")

# Optional inputs that are left out with the name "", as the TorchScript path writes them. Nothing of the course is imported: its other
# packages want the runtime that they were installed with.
RUN = """
import sys
import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper

def outputs(op, inputs, outs, feed, **attributes):
    types = {"offset": TensorProto.INT64}
    ports = [helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), None) for name in inputs if name]
    ends = [helper.make_tensor_value_info(name, kind, None) for name, kind in outs.items()]
    node = helper.make_node(op, inputs, list(outs), domain="oplab", **attributes)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("oplab", 1)]
    model = helper.make_model(helper.make_graph([node], "g", ports, ends), opset_imports=opsets, ir_version=8)
    options = ort.SessionOptions()
    options.register_custom_ops_library(sys.argv[1])
    return ort.InferenceSession(model.SerializeToString(), options).run(None, feed)

line = np.float32([[0, 0, 0], [1, 0, 0], [3, 0, 0]])
found = {"idx": TensorProto.INT32, "dist": TensorProto.FLOAT}
idx, dist = outputs("KNNQuery", ["xyz", "offset", "", ""], found, {"xyz": line, "offset": np.array([3])}, nsample=2)
assert idx.tolist() == [[0, 1], [1, 0], [2, 1]] and dist.tolist() == [[0, 1], [0, 1], [0, 2]]
size, end = np.ones(3, np.float32), np.float32([4, 1, 1])
(cells,) = outputs("Grid", ["pos", "size", "", "end"], {"y": TensorProto.INT64}, {"pos": line, "size": size, "end": end})
assert cells.tolist() == [0, 1, 3]
x, w, offset = np.ones((1, 1, 2, 2), np.float32), np.full((1, 1, 1, 1), 3, np.float32), np.zeros((1, 2, 2, 2), np.float32)
feed = {"X": x, "W": w, "o": offset, "mask": np.ones((1, 1, 2, 2), np.float32)}
(y,) = outputs("DeformConv2d", ["X", "W", "o", "", "mask"], {"y": TensorProto.FLOAT}, feed)
assert (y == 3).all()
image, scales = np.ones((1, 1, 2, 2), np.float32), np.float32([1, 1, 2, 3])
ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 2, 2])]
ports += [helper.make_tensor_value_info("scales", TensorProto.FLOAT, [4])]
nodes = [helper.make_node("DynamicResize", ["x", "scales"], ["r"], domain="oplab"), helper.make_node("Conv", ["r", "w"], ["y"])]
weights = helper.make_tensor("w", TensorProto.FLOAT, [1, 1, 1, 1], [2])
ends = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
opsets = [helper.make_opsetid("", 17), helper.make_opsetid("oplab", 1)]
model = helper.make_model(helper.make_graph(nodes, "g", ports, ends, [weights]), opset_imports=opsets, ir_version=8)
options = ort.SessionOptions()
options.register_custom_ops_library(sys.argv[1])
session = ort.InferenceSession(model.SerializeToString(), options)
assert len(session.get_outputs()[0].shape) == 4  # the sizes are data, the rank is known
(y,) = session.run(None, {"x": image, "scales": scales})
assert y.shape == (1, 1, 4, 6) and np.allclose(y, 2)
print(ort.__version__)
"""


@pytest.mark.parametrize("version", OLDER)
def test_absent_optional_inputs(version: str, tmp_path: Path):
    build.build_all(say=lambda line: None)
    wanted = [f"--target={tmp_path}", "--no-deps", f"onnxruntime=={version}"]
    got = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *wanted], capture_output=True, text=True)
    if "No matching distribution" in got.stderr:
        pytest.skip(f"pip has no onnxruntime {version} here")
    assert got.returncode == 0, got.stderr[-2000:]
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(build.library_path("ort"))],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout.strip()) == (0, version), done.stderr[-2000:]
