# does: If within If, as deep as protobuf reads it
# stopped by: limits
# status: failed
import numpy as np
from onnx import TensorProto, helper, numpy_helper

DEPTH = 31  # one more cannot be read: protobuf stops at 100 messages within each other, and each If is three


def net(path):
    true = numpy_helper.from_array(np.array(True), "true")
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])
    leaf = graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "leaf", [], [y])
    for depth in range(DEPTH):
        node = helper.make_node("If", ["true"], ["y"], then_branch=graph, else_branch=leaf)
        graph = helper.make_graph([node], f"g{depth}", [], [y])
    graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4]))
    graph.initializer.append(true)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    open(path, "wb").write(model.SerializeToString())
