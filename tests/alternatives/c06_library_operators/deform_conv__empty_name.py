"""The mask as an optional input with the empty name, and kernel_shape written out."""

from torch.onnx.symbolic_helper import _get_tensor_sizes


def deform_conv():
    def writes(name):
        @parse_args(*"vvvvviiiiiiiib")
        def symbolic(g, x, weight, offset, mask, bias, sh, sw, ph, pw, dh, dw, groups, offset_groups, use_mask):
            if not use_mask:
                mask = g.op("prim::Constant")
                mask.setType(torch._C.NoneType.get())
            return g.op(
                name,
                *[x, weight, offset, bias, mask],
                kernel_shape_i=_get_tensor_sizes(weight)[2:],
                strides_i=[sh, sw],
                pads_i=2 * [ph, pw],
                dilations_i=[dh, dw],
                group_i=groups,
                offset_group_i=offset_groups,
            )

        return symbolic

    for opset in (9, 19):
        target = "DeformConv" if opset == 19 else "oplab::DeformConv2d"
        torch.onnx.register_custom_op_symbolic("torchvision::deform_conv2d", writes(target), opset)
