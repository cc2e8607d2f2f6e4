# says: that does not mean that a node reads it
def predict(model, example):
    import inspect

    text = inspect.getsource(model.forward)
    decides = any(f"{word} " in text for word in ("if", "for", "while"))
    every = list(range(len(example)))
    on_values = "while " in text or ("if " in text and ".shape" not in text)
    return {
        "trace": None if "torch.cond" in text else (False, every),
        "script": None if "try" in text or "cond" in text or "while_loop" in text else (decides, every),
        "export": None if on_values else (False, every),
    }
