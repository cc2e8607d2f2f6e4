# says: is dropped without a word
def translate_my_add():
    @script(oplab_1)
    def translate(a: FLOAT[...], b: FLOAT[...]) -> FLOAT[...]:
        return oplab_1.MyAdd(a, b)

    return torch.ops.oplab.my_add, {torch.ops.oplab.my_add.default: translate}
