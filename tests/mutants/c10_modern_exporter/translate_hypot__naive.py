# says: The squares overflow or underflow
def translate_hypot():
    def translate(a: FLOAT, b: FLOAT) -> FLOAT:
        return op.Sqrt(op.Add(op.Mul(a, a), op.Mul(b, b)))

    return {torch.ops.aten.hypot.default: translate}
