# says: every answer of the file is random
def control_flow(gate):
    class Exportable(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = gate

        def forward(self, x):
            def loud(x):
                return torch.tanh(gate.loud(x)) * gate.limit

            def calm(x):
                return nn.functional.dropout(gate.calm(x), 0.5)

            return torch.cond(x.abs().max() > gate.limit, loud, calm, (x,))

    return Exportable().eval()
