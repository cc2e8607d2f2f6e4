# does: a constant of 100 GB that the optimizer would fold while the model is loaded
# stopped by: limits
# status: failed
import numpy as np
from onnx import TensorProto, helper, numpy_helper


def net(path):
    shape = numpy_helper.from_array(np.array([100_000, 250_000], np.int64), "shape")
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["huge"]),
        helper.make_node("ReduceSum", ["huge"], ["s"], keepdims=0),
        helper.make_node("Add", ["x", "s"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], [shape])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    open(path, "wb").write(model.SerializeToString())
