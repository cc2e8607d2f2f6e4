"""Without parse_args; what is missing at the end is left out, and the shape of the result is known."""

from torch.onnx.symbolic_helper import _is_none


def grid():
    def symbolic(g, pos, size, start, end):
        inputs = [pos, size, start, end]
        while _is_none(inputs[-1]):
            inputs.pop()
        return g.op("oplab::Grid", *inputs).setType(pos.type().with_dtype(torch.int64).with_sizes([None]))

    torch.onnx.register_custom_op_symbolic("oplab::grid", symbolic, 9)
