# says: Where is 0 / 0
def translate_hypot():
    def translate(a: FLOAT, b: FLOAT) -> FLOAT:
        a, b = op.Abs(a), op.Abs(b)
        large, small = op.Max(a, b), op.Min(a, b)
        ratio = op.Div(small, large)
        return op.Mul(large, op.Sqrt(op.Add(op.CastLike(1.0, large), op.Mul(ratio, ratio))))

    return {torch.ops.aten.hypot.default: translate}
