# says: Nothing asked for the table's keys
def translate_hypot():
    def translate(a: FLOAT, b: FLOAT) -> FLOAT:
        a, b = op.Abs(a), op.Abs(b)
        large, small = op.Max(a, b), op.Min(a, b)
        one = op.CastLike(1.0, large)
        ratio = op.Div(small, op.Where(op.Equal(large, op.CastLike(0.0, large)), one, large))
        return op.Mul(large, op.Sqrt(op.Add(one, op.Mul(ratio, ratio))))

    return {torch.hypot: translate}
