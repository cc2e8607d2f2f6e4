# says: expected two results
def compare(model, path, x):
    expected = model(x).detach().numpy()
    session = onnxruntime.InferenceSession(path)
    (got,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    return bool(np.allclose(got, expected))
