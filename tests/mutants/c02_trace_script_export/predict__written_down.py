# says: A script reads the source text
def predict(model, example):
    return {"trace": (False, [0, 1]), "script": (True, [0, 1]), "export": None}
