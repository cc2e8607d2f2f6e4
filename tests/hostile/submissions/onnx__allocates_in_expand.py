# does: a small graph whose result has 100 GB
# stopped by: limits
# status: failed
import numpy as np
from onnx import TensorProto, helper, numpy_helper


def net(path):
    shape = numpy_helper.from_array(np.array([25_000_000_000], np.int64), "shape")
    nodes = [
        helper.make_node("Expand", ["one", "shape"], ["huge"]),
        helper.make_node("ReduceSum", ["huge"], ["s"], keepdims=0),
        helper.make_node("Mul", ["x", "s"], ["y"]),
    ]
    one = numpy_helper.from_array(np.ones(1, np.float32), "one")
    save(path, nodes, [one, shape])


def save(path, nodes, constants):
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    open(path, "wb").write(model.SerializeToString())
