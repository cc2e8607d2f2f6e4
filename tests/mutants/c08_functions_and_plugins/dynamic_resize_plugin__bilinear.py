# says: elements differ
def dynamic_resize_plugin():
    class DynamicResize(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scales):
            height, width = torch.ops.oplab.dynamic_resize(x, scales).shape[2:]
            return torch.nn.functional.interpolate(x, size=(height, width), mode="bilinear")

        @staticmethod
        def symbolic(g, x, scales):
            batch, channels, _, _ = x.type().varyingSizes()
            y = g.op("oplab::DynamicResize", x, scales)
            return y.setType(x.type().with_sizes([batch, channels, None, None]))

    return DynamicResize
