# says: grows with the value
def compare(model, path, x):
    expected = model(x).detach().numpy()
    session = onnxruntime.InferenceSession(path)
    (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    if got.shape != expected.shape or got.dtype != expected.dtype or not np.isfinite([got, expected]).all():
        return False, float("inf")
    gap = np.abs(got - expected)
    return bool((gap <= 1e-5).all()), float(gap.max())
