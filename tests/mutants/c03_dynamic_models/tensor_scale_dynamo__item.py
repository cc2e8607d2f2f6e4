# says: The exporter cannot follow a number that .item() or .tolist() takes out
def tensor_scale_dynamo():
    def resize(x, factor):
        size = (torch.tensor(x.shape[2:]) * factor).int().tolist()
        return torch.ops.aten.upsample_bilinear2d(x, size, False, factor.item(), factor.item())

    return resize, {}
