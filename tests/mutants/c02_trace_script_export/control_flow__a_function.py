# says: expected a torch.nn.Module, got a function
def control_flow(gate):
    def forward(x):
        return torch.cond(x.abs().max() > gate.limit, gate.loud, gate.calm, (x,))

    return forward
