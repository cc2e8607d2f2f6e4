# says: That happens when symbolic returns nothing
def dynamic_resize_plugin():
    class DynamicResize(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scales):
            factors = scales[2:].tolist()
            height, width = torch.ops.oplab.dynamic_resize(x, scales).shape[2:]
            return torch.ops.aten.upsample_bicubic2d(x, [height, width], False, *factors)

        @staticmethod
        def symbolic(g, x, scales):
            g.op("oplab::DynamicResize", x, scales)

    return DynamicResize
