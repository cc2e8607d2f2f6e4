# says: the exporter's optimiser takes what is not above 1e-8 for 0
def translate_hypot():
    def translate(a: FLOAT, b: FLOAT) -> FLOAT:
        a, b = op.Abs(a), op.Abs(b)
        large, small = op.Max(a, b), op.Min(a, b)
        ratio = op.Div(small, op.Add(large, op.CastLike(1e-12, large)))
        return op.Mul(large, op.Sqrt(op.Add(op.CastLike(1.0, large), op.Mul(ratio, ratio))))

    return {torch.ops.aten.hypot.default: translate}
