# says: Is the file loaded and run
def compare(model, path, x):
    a, b = model(x).detach().numpy(), model(x).detach().numpy()
    if not np.isfinite(a).all():
        return False, float("inf")
    return bool(np.allclose(a, b, 1e-4, 1e-5)), float(np.abs(a - b).max())
