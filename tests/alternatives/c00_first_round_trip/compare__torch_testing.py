def compare(model, path, x):
    """assert_close checks shape, dtype and NaN by itself; infinities of one sign are equal to it."""
    with torch.inference_mode():
        expected = model(x)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    got = torch.from_numpy(session.run([session.get_outputs()[0].name], {session.get_inputs()[0].name: x.numpy()})[0])
    try:
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
        agrees = bool(torch.isfinite(expected).all())
    except AssertionError:
        agrees = False
    comparable = got.shape == expected.shape and got.dtype == expected.dtype
    if not comparable or not torch.isfinite(got).all() or not torch.isfinite(expected).all():
        return False, float("inf")
    return agrees, (got - expected).abs().max().item()
