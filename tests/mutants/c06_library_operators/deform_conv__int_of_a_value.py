# says: Without a letter in parse_args an argument is a value of the graph
def deform_conv():
    def symbolic(g, x, weight, offset, mask, bias, *numbers):
        strides = [int(number) for number in numbers[:2]]
        return g.op("DeformConv", x, weight, offset, bias, mask, strides_i=strides)

    torch.onnx.register_custom_op_symbolic("torchvision::deform_conv2d", symbolic, 19)
