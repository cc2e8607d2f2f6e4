# says: Expected a dict, the table, got function
def translate_hypot():
    def translate(a: FLOAT, b: FLOAT) -> FLOAT:
        return op.Sqrt(op.Add(op.Mul(a, a), op.Mul(b, b)))

    return translate
