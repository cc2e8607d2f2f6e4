# says: This is what Gather takes along axis 0
def kthvalue():
    @parse_args("v", "i", "i", "i")
    def s(g, x, k, dim, keepdim):
        values, indices = g.op("TopK", x, g.op("Constant", value_t=torch.tensor([k])), axis_i=dim, largest_i=0, outputs=2)
        last = torch.tensor([k - 1] if keepdim else k - 1)
        return tuple(g.op("Gather", v, g.op("Constant", value_t=last)) for v in (values, indices))
    torch.onnx.register_custom_op_symbolic("aten::kthvalue", s, 11)
