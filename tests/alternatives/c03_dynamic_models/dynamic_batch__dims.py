"""Dim objects, each batch with the same one; the even sizes are two times a half."""


def dynamic_batch(model, photo, gain, path):
    from torch.export import Dim

    batch = Dim("batch")
    shapes = ({0: batch, 2: 2 * Dim("half_height"), 3: 2 * Dim("half_width")}, {0: batch})
    torch.onnx.export(
        model,
        (photo, gain),
        path,
        input_names=["photo", "gain"],
        output_names=["output"],
        dynamic_shapes=shapes,
        external_data=False,
        verbose=False,
    )
