"""The form of older texts: it looks at end alone, and a start that is None becomes the empty name."""

from torch.onnx.symbolic_helper import _is_none


def grid():
    @parse_args("v", "v", "v", "v")
    def symbolic(g, pos, size, start, end):
        if _is_none(end):
            return g.op("oplab::Grid", pos, size, start)
        return g.op("oplab::Grid", pos, size, start, end)

    torch.onnx.register_custom_op_symbolic("oplab::grid", symbolic, 9)
