# does: If within If, as deep as protobuf reads it
# stopped by: limits
# status: failed
import numpy as np
from onnx import TensorProto, helper, numpy_helper


def net(path):
    true = numpy_helper.from_array(np.array(True), "true")
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "leaf", [], [y])
    for depth in range(30):
        node = helper.make_node("If", ["true"], ["y"], then_branch=graph, else_branch=graph)
        graph = helper.make_graph([node], f"g{depth}", [], [y])
        if graph.ByteSize() > 1 << 19:
            break
    graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4]))
    graph.initializer.append(true)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    open(path, "wb").write(model.SerializeToString())
