# says: has no attribute 'pow'
# status: error
def translate_hypot():
    def translate(a: FLOAT, b: FLOAT) -> FLOAT:
        return op.Sqrt(a.pow(2))

    return {torch.ops.aten.hypot.default: translate}
