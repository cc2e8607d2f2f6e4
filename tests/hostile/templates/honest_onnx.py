import numpy as np
from onnx import TensorProto, helper, numpy_helper


def net(path):
    # ANSWER c00.net: write a graph of 3x + 2
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy")
    three, two = (numpy_helper.from_array(np.array(value, np.float32), f"c{value}") for value in (3, 2))
    nodes = [helper.make_node("Mul", ["x", "c3"], ["t"]), helper.make_node("Add", ["t", "c2"], ["y"])]
    graph = helper.make_graph(nodes, "g", [x], [y], [three, two])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    with open(path, "wb") as stream:
        stream.write(model.SerializeToString())
    # END
