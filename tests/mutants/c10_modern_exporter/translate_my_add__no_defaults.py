# says: what it leaves out needs a default
def translate_my_add():
    @script(oplab_1)
    def translate(a: FLOAT[...], b: FLOAT[...], alpha: float, beta: float) -> FLOAT[...]:
        return oplab_1.MyAdd(a, b, alpha=alpha, beta=beta)

    return torch.ops.oplab.my_add, {torch.ops.oplab.my_add.default: translate}
