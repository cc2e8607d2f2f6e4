# does: a chain of 100 000 nodes
# stopped by: limits
# status: failed
from onnx import TensorProto, helper


def net(path):
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in "xy")
    node = helper.make_node("Neg", ["a"], ["b"])
    graph = helper.make_graph([], "g", [x], [y])
    data = bytearray()
    for number in range(100_000):
        node.input[0], node.output[0] = f"v{number}" if number else "x", f"v{number + 1}"
        part = node.SerializeToString()
        data += b"\x0a" + bytes([len(part)]) + part
    graph.MergeFromString(bytes(data))
    graph.node.append(helper.make_node("Neg", ["v100000"], ["y"]))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    open(path, "wb").write(model.SerializeToString())
