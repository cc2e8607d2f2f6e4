"""The gate itself gets another forward."""


def control_flow(gate):
    def forward(x):
        return torch.cond((x.abs() > gate.limit).any(), gate.as_loud, gate.calm, (x,))

    gate.as_loud = lambda x: torch.tanh(gate.loud(x)) * gate.limit
    gate.forward = forward
    return gate.eval()
