"""The exercise that hostile C++ attacks: 3x + 2 of a number."""

import numpy as np

from oplab.parity.arrays import expect_close


def _x(rng):
    return rng.normal(size=8).astype(np.float32)


def collect_mix(c):
    import ctypes

    mix = ctypes.CDLL(str(c.library)).mix
    mix.restype, mix.argtypes = ctypes.c_float, [ctypes.c_float]
    c.value("y", np.array([mix(float(x)) for x in _x(c.rng)], np.float32))


def judge_mix(v):
    with v.check("matches"):
        expect_close(v.array("y"), 3 * _x(v.rng) + 2, name="y")
