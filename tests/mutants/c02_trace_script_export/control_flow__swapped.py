# says: This is what the other way gives
def control_flow(gate):
    class Exportable(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = gate

        def forward(self, x):
            def loud(x):
                return torch.tanh(gate.loud(x)) * gate.limit

            def calm(x):
                return gate.drop(gate.calm(x))

            return torch.cond(x.abs().max() > gate.limit, calm, loud, (x,))

    return Exportable().eval()
