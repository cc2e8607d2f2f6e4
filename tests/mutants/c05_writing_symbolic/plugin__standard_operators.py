# says: Expected 1 × oplab::MyAdd in the graph, found 0
def plugin():
    def symbolic(g, a, b, alpha, beta):
        return g.op("Add", g.op("Mul", a, alpha), g.op("Mul", b, beta))

    torch.onnx.register_custom_op_symbolic("oplab::my_add", symbolic, 9)
