# says: k counts from 1
def kthvalue():
    @parse_args("v", "i", "i", "b")
    def symbolic(g, x, k, dim, keepdim):
        values, indices = g.op(
            "TopK", x, g.op("Constant", value_t=torch.tensor([k + 1])), axis_i=dim, largest_i=0, sorted_i=1, outputs=2
        )
        last = g.op("Constant", value_t=torch.tensor([k] if keepdim else k))
        return g.op("Gather", values, last, axis_i=dim), g.op("Gather", indices, last, axis_i=dim)

    torch.onnx.register_custom_op_symbolic("aten::kthvalue", symbolic, 11)
