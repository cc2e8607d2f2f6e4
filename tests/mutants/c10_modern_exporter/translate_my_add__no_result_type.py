# says: needs a typed result
def translate_my_add():
    @script(oplab_1)
    def translate(a: FLOAT[...], b: FLOAT[...], alpha: float = 3.0, beta: float = 2.0):
        return oplab_1.MyAdd(a, b, alpha=alpha, beta=beta)

    return torch.ops.oplab.my_add, {torch.ops.oplab.my_add.default: translate}
