"""The exercise that hostile models attack: an ONNX graph of 3x + 2."""

import numpy as np

from oplab.checks import graphs
from oplab.parity.arrays import expect_close


def collect_net(c):
    path = c.scratch / "model.onnx"
    c.attempt("model", c.function("net"), str(path))
    c.file("model", path)


def judge_net(v):
    with v.check("a valid graph"):
        model = v.model("model")
        graphs.expect_inputs(model, ["x"])
        graphs.expect_valid(model)
    if v.ok:
        with v.check("matches"):
            x = v.rng.normal(size=(int(v.rng.integers(4, 9)), 4)).astype(np.float32)
            (got,) = graphs.run(model, {"x": x})
            expect_close(got, 3 * x + 2, name="y")
