"""The exercise that most hostile submissions attack: 3x + 2 of an array."""

import numpy as np

from oplab.parity.arrays import expect_close


def _x(rng):
    return rng.normal(size=(int(rng.integers(2, 6)), 4)).astype(np.float32)


def _right(x):
    return 3 * x + 2


def collect_mix(c):
    import torch

    c.value("y", c.function("mix")(torch.from_numpy(_x(c.rng))))


def judge_mix(v):
    from oplab import ops  # noqa: F401  # as judges of kernels do, in their own process and late

    with v.check("matches"):
        expect_close(v.array("y"), _right(_x(v.rng)), name="y")
