def kthvalue():
    def symbolic(g, x, k, dim, keepdim):
        k, dim, keepdim = (int(value.node().t("value")) for value in (k, dim, keepdim))
        axes = g.op("Constant", value_t=torch.tensor([dim]))
        start, end = (g.op("Constant", value_t=torch.tensor([n])) for n in (k - 1, k))
        found = []
        for part in g.op("TopK", x, end, axis_i=dim, largest_i=0, outputs=2):
            part = g.op("Slice", part, start, end, axes)
            if not keepdim:
                part = g.op("Squeeze", part, axes) if g.opset >= 13 else g.op("Squeeze", part, axes_i=[dim])
            found.append(part)
        return found

    torch.onnx.register_custom_op_symbolic("aten::kthvalue", symbolic, 11)
