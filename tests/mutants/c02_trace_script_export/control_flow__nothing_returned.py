# says: got None. Is there a return?
def control_flow(gate):
    gate.eval()
