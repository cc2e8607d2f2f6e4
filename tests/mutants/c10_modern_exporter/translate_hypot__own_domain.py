# says: no runtime has a kernel for it
def translate_hypot():
    @script(oplab_1)
    def translate(a: FLOAT[...], b: FLOAT[...]) -> FLOAT[...]:
        return oplab_1.Hypot(a, b)

    return {torch.ops.aten.hypot.default: translate}
