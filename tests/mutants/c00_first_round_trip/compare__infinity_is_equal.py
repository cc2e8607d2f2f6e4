# says: infinity - infinity is NaN
def compare(model, path, x):
    expected = model(x).detach().numpy()
    session = onnxruntime.InferenceSession(path)
    (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    if got.shape != expected.shape or got.dtype != expected.dtype or np.isnan([got, expected]).any():
        return False, float("inf")
    gap = np.where(got == expected, 0, np.abs(got - expected))
    return bool((gap <= 1e-5 + 1e-4 * np.abs(expected)).all()), float(gap.max())
