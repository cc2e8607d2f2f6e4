# says: custom::DeformConv2d
def deform_conv():
    def writes(name):
        @parse_args("v", "v", "v", "v", "v", "i", "i", "i", "i", "i", "i", "i", "i", "b")
        def symbolic(g, x, weight, offset, mask, bias, sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask):
            inputs = [x, weight, offset, bias]
            if use_mask:
                inputs.append(mask)
            sizes = {"strides_i": [sh, sw], "pads_i": [ph, pw, ph, pw]}
            return g.op(name, *inputs, **sizes, dilations_i=[dh, dw], group_i=groups, offset_group_i=offset_groups)

        return symbolic

    torch.onnx.register_custom_op_symbolic("torchvision::deform_conv2d", writes("custom::DeformConv2d"), 9)
    torch.onnx.register_custom_op_symbolic("torchvision::deform_conv2d", writes("DeformConv"), 19)
