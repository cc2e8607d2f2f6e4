# does: a weight that claims 10^18 elements and has none
# stopped by: split
# status: failed
from onnx import TensorProto, helper


def net(path):
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy")
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1 << 30, 1 << 30], raw_data=b"\0" * 16)
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    open(path, "wb").write(model.SerializeToString())
