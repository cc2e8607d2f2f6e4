# says: Required inputs
# status: error
def compare(model, path, x):
    expected = model(x).detach().numpy()
    got = onnxruntime.InferenceSession(path).run(["y"], {"input": x.numpy()})[0]
    gap = np.abs(got - expected)
    return bool((gap <= 1e-5 + 1e-4 * np.abs(expected)).all()), float(gap.max())
