# says: One way was taken at the export and is baked in
def control_flow(gate):
    class Exportable(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = gate

        def forward(self, x):
            if torch.compiler.is_exporting():
                return gate.calm(x)
            return gate(x)

    return Exportable().eval()
