# says: got a PosixPath
def super_resolution(net: torch.nn.Module, folder: Path) -> torch.nn.Module:
    return folder / "dynamo.onnx"
