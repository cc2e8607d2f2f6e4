# says: Expected opset 1 of domain oplab
def translate_my_add():
    oplab_2 = Opset("oplab", 2)

    @script(oplab_2)
    def translate(a: FLOAT[...], b: FLOAT[...], alpha: float = 3.0, beta: float = 2.0) -> FLOAT[...]:
        return oplab_2.MyAdd(a, b, alpha=alpha, beta=beta)

    return torch.ops.oplab.my_add, {torch.ops.oplab.my_add.default: translate}
