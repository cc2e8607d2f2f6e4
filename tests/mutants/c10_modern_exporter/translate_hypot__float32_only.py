# says: float32, whatever the inputs are: CastLike
def translate_hypot():
    def translate(a: FLOAT, b: FLOAT) -> FLOAT:
        a, b = op.Abs(a), op.Abs(b)
        large, small = op.Max(a, b), op.Min(a, b)
        ratio = small / op.Where(op.Equal(large, 0.0), 1.0, large)
        return large * op.Sqrt(1.0 + ratio * ratio)

    return {torch.ops.aten.hypot.default: translate}
