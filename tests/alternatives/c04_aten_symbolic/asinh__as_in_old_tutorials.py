"""The form that older tutorials show: parse_args, and the keyword out that the Python function has."""

from torch.onnx.symbolic_helper import parse_args


def asinh():
    @parse_args("v")
    def symbolic(g, input, *, out=None):
        return g.op("Asinh", input)

    torch.onnx.register_custom_op_symbolic("aten::asinh", symbolic, 9)
