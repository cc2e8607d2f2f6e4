# says: The factor gate.limit is missing
def control_flow(gate):
    class Exportable(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = gate

        def forward(self, x):
            def loud(x):
                return torch.tanh(gate.loud(x))

            def calm(x):
                return gate.drop(gate.calm(x))

            return torch.cond(x.abs().max() > gate.limit, loud, calm, (x,))

    return Exportable().eval()
