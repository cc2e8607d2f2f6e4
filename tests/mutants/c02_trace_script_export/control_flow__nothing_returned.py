# says: expected a torch.nn.Module, got None
def control_flow(gate):
    gate.eval()
