# does: weights in another file, hidden in the branch of an If in a model-local function
# stopped by: split
# status: failed
# says: not in the file but in '/etc/passwd'
import numpy as np
from onnx import TensorProto, helper, numpy_helper


def net(path):
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="/etc/passwd")
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, [4])
    branch = helper.make_graph([helper.make_node("Constant", [], ["out"], value=weight)], "branch", [], [out])
    nodes = [
        helper.make_node("Constant", [], ["yes"], value=numpy_helper.from_array(np.array(True))),
        helper.make_node("If", ["yes"], ["w"], then_branch=branch, else_branch=branch),
        helper.make_node("Add", ["a", "w"], ["b"]),
    ]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
    function = helper.make_function("mine", "F", ["a"], ["b"], nodes, opsets[:1])
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("F", ["x"], ["y"], domain="mine")], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=opsets, functions=[function], ir_version=10)
    open(path, "wb").write(model.SerializeToString())
