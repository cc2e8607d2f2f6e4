# says: a node MyAdd was to stand for them
def translate_my_add():
    @script(default_opset=op)
    def translate(a: FLOAT[...], b: FLOAT[...], alpha: float = 3.0, beta: float = 2.0) -> FLOAT[...]:
        return a * alpha + b * beta

    return torch.ops.oplab.my_add, {torch.ops.oplab.my_add.default: translate}
