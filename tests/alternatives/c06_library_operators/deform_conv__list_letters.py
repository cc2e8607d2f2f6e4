"""One function that asks for the opset of the export, with its type set; defaults are left out."""


def deform_conv():
    from torch.onnx._internal.torchscript_exporter._globals import GLOBALS

    @parse_args(*"vvvvviiiiiiiib")
    def symbolic(g, x, weight, offset, mask, bias, sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask):
        names = {"strides_i": [sh, sw], "pads_i": [ph, pw, ph, pw], "dilations_i": [dh, dw]}
        if groups > 1:
            names["group_i"] = groups
        if offset_groups > 1:
            names["offset_group_i"] = offset_groups
        name = "DeformConv" if GLOBALS.export_onnx_opset_version >= 19 else "oplab::DeformConv2d"
        return g.op(name, x, weight, offset, bias, *[mask] * use_mask, **names).setType(x.type().with_sizes([None] * 4))

    torch.onnx.register_custom_op_symbolic("torchvision::deform_conv2d", symbolic, 9)
