# says: A NaN passes through
def compare(model, path, x):
    expected = model(x).detach().numpy()
    session = onnxruntime.InferenceSession(path)
    (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    if got.shape != expected.shape or got.dtype != expected.dtype or not np.isfinite(expected).all():
        return False, float("inf")
    gap = np.nanmax(np.abs(got - expected) - 1e-4 * np.abs(expected))
    return bool(gap <= 1e-5), float(np.nanmax(np.abs(got - expected)))
