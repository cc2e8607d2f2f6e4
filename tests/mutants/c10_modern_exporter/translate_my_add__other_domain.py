# says: custom::MyAdd is of another domain
def translate_my_add():
    custom = Opset("custom", 1)

    @script(custom)
    def translate(a: FLOAT[...], b: FLOAT[...], alpha: float = 3.0, beta: float = 2.0) -> FLOAT[...]:
        return custom.MyAdd(a, b, alpha=alpha, beta=beta)

    return torch.ops.oplab.my_add, {torch.ops.oplab.my_add.default: translate}
