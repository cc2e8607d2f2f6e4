# says: alpha and beta are swapped
def translate_my_add():
    @script(oplab_1)
    def translate(a: FLOAT[...], b: FLOAT[...], alpha: float = 3.0, beta: float = 2.0) -> FLOAT[...]:
        return oplab_1.MyAdd(a, b, alpha=beta, beta=alpha)

    return torch.ops.oplab.my_add, {torch.ops.oplab.my_add.default: translate}
