def compare(model, path, x):
    expected = model(x).detach().cpu().numpy()
    session = onnxruntime.InferenceSession(path.read_bytes())
    got = session.run(None, {session.get_inputs()[0].name: np.ascontiguousarray(x)})[0]
    if (got.shape, got.dtype) != (expected.shape, expected.dtype) or not np.isfinite(got + expected).all():
        return (False, np.inf)
    return np.bool_(np.allclose(got, expected, rtol=1e-4, atol=1e-5)), np.abs(got - expected).max()
