from torch.onnx import symbolic_helper


def kthvalue():
    def symbolic(g, x, k, dim, keepdim):
        count, dim = symbolic_helper._get_const(k, "i", "k"), symbolic_helper._get_const(dim, "i", "dim")
        keep = symbolic_helper._maybe_get_const(keepdim, "b")
        values, indices = g.op(
            "TopK", x, g.op("Constant", value_t=torch.tensor([count])), axis_i=dim, largest_i=0, sorted_i=1, outputs=2
        )
        last = g.op("Constant", value_t=torch.tensor([count - 1])) if keep else torch.tensor(count - 1)
        return g.op("Gather", values, last, axis_i=dim), g.op("Gather", indices, last, axis_i=dim)

    torch.onnx.register_custom_op_symbolic("aten::kthvalue", symbolic, 11)
