# says: a Python decision on a tensor's value
def control_flow(gate):
    class Exportable(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = gate

        def forward(self, x):
            if x.abs().max() > gate.limit:
                return torch.tanh(gate.loud(x)) * gate.limit
            return gate.drop(gate.calm(x))

    return Exportable().eval()
