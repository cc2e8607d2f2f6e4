# says: Both layers are computed for every input
def control_flow(gate):
    class Exportable(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = gate

        def forward(self, x):
            loud = torch.tanh(gate.loud(x)) * gate.limit
            return torch.where(x.abs().max() > gate.limit, loud, gate.drop(gate.calm(x)))

    return Exportable().eval()
