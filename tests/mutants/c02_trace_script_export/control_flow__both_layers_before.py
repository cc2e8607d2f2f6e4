# says: stand outside the If node
def control_flow(gate):
    class Exportable(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = gate

        def forward(self, x):
            loud, calm = torch.tanh(gate.loud(x)) * gate.limit, gate.drop(gate.calm(x))
            return torch.cond(x.abs().max() > gate.limit, lambda a, b: a.clone(), lambda a, b: b.clone(), (loud, calm))

    return Exportable().eval()
