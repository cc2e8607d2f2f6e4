# says: captures this module, and 'trace' is None
def predict(model, example):
    return {"trace": None, "script": None, "export": None}
