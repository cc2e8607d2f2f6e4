# does: returns an object that calls itself a Tensor
# stopped by: split
# status: failed
# says: got a Liar
import torch


class Liar:
    @property
    def __class__(self):
        return torch.Tensor

    def __getattr__(self, name):
        return lambda *args, **kwargs: self


def mix(x):
    return Liar()
