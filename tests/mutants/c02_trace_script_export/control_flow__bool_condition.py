# says: condition reached torch.cond as a Python bool
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

            return torch.cond((x.abs().max() > gate.limit).item(), loud, calm, (x,))

    return Exportable().eval()
