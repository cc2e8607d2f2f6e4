# says: a node MyAdd was to stand for them
def translate_my_add():
    def my_add(a, b, alpha=3.0, beta=2.0):
        return alpha * a + beta * b

    return my_add, {}
