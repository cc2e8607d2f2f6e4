# says: One way was taken at the export and is baked in
def control_flow(gate):
    class Exportable(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = gate

        def forward(self, x):
            from torch.fx.experimental.symbolic_shapes import guard_or_false

            if guard_or_false((x.abs().max() > gate.limit).item()):
                return torch.tanh(gate.loud(x)) * gate.limit
            return gate.drop(gate.calm(x))

    return Exportable().eval()
