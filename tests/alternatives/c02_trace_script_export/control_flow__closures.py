"""Closures without operands, and the weights in layers of the new module."""


def control_flow(gate):
    class Exportable(nn.Module):
        def __init__(self):
            super().__init__()
            self.loud, self.calm = gate.loud, gate.calm

        def forward(self, x):
            is_loud = torch.gt(torch.max(torch.abs(x)), gate.limit)
            return torch.cond(is_loud, lambda: self.loud(x).tanh() * gate.limit, lambda: self.calm(x))

    return Exportable()
