# says: a has no gradient after backward()
def my_add_backward(name):
    @torch.library.register_fake(name)
    def fake(a, b, alpha=3.0, beta=2.0):
        torch._check(a.dim() == b.dim())
        for m, n in zip(a.shape, b.shape):
            torch._check(m == n)
        return a.new_empty(a.shape)
