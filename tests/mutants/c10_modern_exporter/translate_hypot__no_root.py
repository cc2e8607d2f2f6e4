# says: The square root is missing
def translate_hypot():
    def translate(a: FLOAT, b: FLOAT) -> FLOAT:
        return op.Add(op.Mul(a, a), op.Mul(b, b))

    return {torch.ops.aten.hypot.default: translate}
