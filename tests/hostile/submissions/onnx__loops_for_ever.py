# does: a Loop that never ends
# stopped by: limits
# status: failed
# says: took longer
import numpy as np
from onnx import TensorProto, helper, numpy_helper


def net(path):
    true = numpy_helper.from_array(np.array(True), "true")
    most = numpy_helper.from_array(np.array(1 << 62, np.int64), "most")
    count = helper.make_tensor_value_info("i", TensorProto.INT64, [])
    again = helper.make_tensor_value_info("again", TensorProto.BOOL, [])
    still = helper.make_tensor_value_info("still", TensorProto.BOOL, [])
    before, after = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("a", "b"))
    nodes = [helper.make_node("Identity", ["again"], ["still"]), helper.make_node("Neg", ["a"], ["b"])]
    body = helper.make_graph(nodes, "body", [count, again, before], [still, after])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy")
    loop = helper.make_node("Loop", ["most", "true", "x"], ["y"], body=body)
    graph = helper.make_graph([loop], "g", [x], [y], [true, most])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    open(path, "wb").write(model.SerializeToString())
