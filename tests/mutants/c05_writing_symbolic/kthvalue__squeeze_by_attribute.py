# says: From opset 13 on the axes of Squeeze are an input
def kthvalue():
    @parse_args("v", "i", "i", "b")
    def symbolic(g, x, k, dim, keepdim):
        values, indices = g.op(
            "TopK", x, g.op("Constant", value_t=torch.tensor([k])), axis_i=dim, largest_i=0, sorted_i=1, outputs=2
        )
        last = g.op("Constant", value_t=torch.tensor([k - 1]))
        values, indices = (g.op("Gather", part, last, axis_i=dim) for part in (values, indices))
        if keepdim:
            return values, indices
        return g.op("Squeeze", values, axes_i=[dim]), g.op("Squeeze", indices, axes_i=[dim])

    torch.onnx.register_custom_op_symbolic("aten::kthvalue", symbolic, 11)
