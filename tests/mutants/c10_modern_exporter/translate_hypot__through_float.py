# says: elements differ
def translate_hypot():
    def translate(a: FLOAT, b: FLOAT) -> FLOAT:
        x, y = op.Abs(op.Cast(a, to=1)), op.Abs(op.Cast(b, to=1))
        large, small = op.Max(x, y), op.Min(x, y)
        ratio = small / op.Where(op.Equal(large, 0.0), 1.0, large)
        return op.CastLike(large * op.Sqrt(1.0 + ratio * ratio), a)

    return {torch.ops.aten.hypot.default: translate}
