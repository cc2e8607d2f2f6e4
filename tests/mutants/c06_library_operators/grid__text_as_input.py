# says: g.op was given a Python number or a text as an input
from torch.onnx.symbolic_helper import _is_none


def grid():
    @parse_args("v", "v", "v", "v")
    def symbolic(g, pos, size, start, end):
        return g.op("oplab::Grid", pos, size, "" if _is_none(start) else start, "" if _is_none(end) else end)

    torch.onnx.register_custom_op_symbolic("oplab::grid", symbolic, 9)
