# says: This is |a| + |b|
def translate_hypot():
    def translate(a: FLOAT, b: FLOAT) -> FLOAT:
        return op.Add(op.Abs(a), op.Abs(b))

    return {torch.ops.aten.hypot.default: translate}
