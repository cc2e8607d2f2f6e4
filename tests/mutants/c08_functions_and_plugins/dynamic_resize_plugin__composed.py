# says: These are ONNX's own operators
def dynamic_resize_plugin():
    class DynamicResize(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scales):
            return torch.ops.oplab.dynamic_resize(x, scales)

        @staticmethod
        def symbolic(g, x, scales):
            roi = g.op("Constant", value_t=torch.tensor([], dtype=torch.float32))
            return g.op("Resize", x, roi, scales, mode_s="cubic", cubic_coeff_a_f=-0.75)

    return DynamicResize
