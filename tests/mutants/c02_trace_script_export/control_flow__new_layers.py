# says: the layers have other weights
def control_flow(gate):
    width = gate.calm.in_features

    class Exportable(nn.Module):
        def __init__(self):
            super().__init__()
            self.calm, self.loud = nn.Linear(width, width), nn.Linear(width, width)

        def forward(self, x):
            def loud(x):
                return torch.tanh(self.loud(x)) * gate.limit

            return torch.cond(x.abs().max() > gate.limit, loud, lambda x: self.calm(x), (x,))

    return Exportable().eval()
