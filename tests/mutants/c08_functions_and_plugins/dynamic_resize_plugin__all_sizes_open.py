# says: axis 0 is unknown, and 2 is known at export
def dynamic_resize_plugin():
    class DynamicResize(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scales):
            return torch.ops.oplab.dynamic_resize(x, scales)

        @staticmethod
        def symbolic(g, x, scales):
            y = g.op("oplab::DynamicResize", x, scales)
            return y.setType(x.type().with_sizes([None, x.type().varyingSizes()[1], None, None]))

    return DynamicResize
