# says: is true for the example only
def dynamic_resize_plugin():
    class DynamicResize(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scales):
            y = torch.ops.oplab.dynamic_resize(x, scales)
            DynamicResize.sizes = list(y.shape)
            return y

        @staticmethod
        def symbolic(g, x, scales):
            y = g.op("oplab::DynamicResize", x, scales)
            return y.setType(x.type().with_sizes([*x.type().varyingSizes()[:2], *DynamicResize.sizes[2:]]))

    return DynamicResize
