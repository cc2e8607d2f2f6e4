# says: expected a dict with the keys
def predict(model, example):
    return torch.jit.trace(model, example, check_trace=False).code
