# says: SIGSEGV
# status: crashed
from torch.onnx.symbolic_helper import _is_none


def grid():
    @parse_args("v", "v", "v", "v")
    def symbolic(g, pos, size, start, end):
        inputs = [None if _is_none(value) else value for value in (pos, size, start, end)]
        return g.op("oplab::Grid", *inputs)

    torch.onnx.register_custom_op_symbolic("oplab::grid", symbolic, 9)
