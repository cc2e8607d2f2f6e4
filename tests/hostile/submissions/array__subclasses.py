# does: returns an ndarray subclass that compares as it likes
# stopped by: split
# status: failed
# says: got a Liar
import numpy as np


class Liar(np.ndarray):
    def __eq__(self, other):
        return np.ones(self.shape, bool)

    def __sub__(self, other):
        return np.zeros(self.shape)


def mix(x):
    return x.numpy().view(Liar)
