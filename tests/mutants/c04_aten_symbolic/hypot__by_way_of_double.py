# says: helps float32 only: for float64 there is no wider type
def hypot():
    def symbolic(g, x, y):
        double = torch.onnx.TensorProtoDataType.DOUBLE
        dtype = (
            torch.onnx.TensorProtoDataType.DOUBLE
            if x.type().scalarType() == "Double"
            else torch.onnx.TensorProtoDataType.FLOAT
        )
        x, y = g.op("Cast", x, to_i=double), g.op("Cast", y, to_i=double)
        root = g.op("Sqrt", g.op("Add", g.op("Mul", x, x), g.op("Mul", y, y)))
        return g.op("Cast", root, to_i=dtype)

    torch.onnx.register_custom_op_symbolic("aten::hypot", symbolic, 9)
