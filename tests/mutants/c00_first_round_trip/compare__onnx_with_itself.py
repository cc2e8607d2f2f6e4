# says: and the PyTorch model too
def compare(model, path, x):
    session = onnxruntime.InferenceSession(path)
    a, b = (session.run(None, {session.get_inputs()[0].name: x.numpy()})[0] for _ in range(2))
    if not np.isfinite(a).all():
        return False, float("inf")
    return bool(np.allclose(a, b, 1e-4, 1e-5)), float(np.abs(a - b).max())
