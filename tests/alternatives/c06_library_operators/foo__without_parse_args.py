"""The numbers are read from the constants by hand; the file is written from memory."""

import io

from torch.onnx.symbolic_helper import _maybe_get_const


def foo(module, inputs, path):
    def symbolic(g, input1, input2, attr1, attr2):
        numbers = {"attr1_f": _maybe_get_const(attr1, "f"), "attr2_i": _maybe_get_const(attr2, "i")}
        return g.op("oplab::Foo", input1, input2, **numbers).setType(input1.type())

    torch.onnx.register_custom_op_symbolic("oplab::foo_forward", symbolic, 9)
    buffer = io.BytesIO()
    names = {"input_names": ["input1", "input2"], "output_names": ["y"]}
    torch.onnx.export(module, inputs, buffer, dynamo=False, opset_version=13, custom_opsets={"oplab": 2}, **names)
    Path(path).write_bytes(buffer.getvalue())
