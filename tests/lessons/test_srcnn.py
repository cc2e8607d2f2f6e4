"""The photos, the super-resolution net and its committed weights."""

from __future__ import annotations

import importlib.util
import itertools
import math

import numpy as np
import onnxruntime
import pytest
import torch

from oplab.nets import srcnn
from oplab.nets.photos import photo, to_image, to_nchw
from tests.support import ROOT


@pytest.fixture(scope="module")
def trainer():
    spec = importlib.util.spec_from_file_location("train_srcnn", ROOT / "tools" / "train_srcnn.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def net():
    return srcnn.load_srcnn()


# --- photos


def test_photo_is_what_scikit_image_gives():
    from skimage import data

    for name in ("astronaut", "coffee", "chelsea"):
        np.testing.assert_array_equal(np.round(photo(name) * 255).astype(np.uint8), getattr(data, name)())
    grey = photo("camera")
    assert (grey == grey[:, :, :1]).all()
    np.testing.assert_array_equal(np.round(grey[:, :, 0] * 255).astype(np.uint8), data.camera())


def test_layouts_round_trip():
    image = photo("coffee", (40, 50))
    batch = to_nchw(image)
    assert batch.shape == (1, 3, 40, 50) and batch.dtype == np.float32 and batch.flags.c_contiguous
    assert batch[0, 2, 7, 11] == image[7, 11, 2]
    for back in (to_image(batch), to_image(batch[0]), to_image(torch.from_numpy(batch).requires_grad_())):
        assert back.dtype == np.float32 and back.flags.writeable
        np.testing.assert_array_equal(back, image)


# --- the net and its weights


def test_committed_weights_beat_bicubic(net, trainer):
    for name, factor in itertools.product(trainer.HELD_OUT, (2, 3)):
        image = photo(name)
        top, left = image.shape[0] // 2 - 96, image.shape[1] // 2 - 96
        x, y = trainer.pair(torch.from_numpy(to_nchw(image[top : top + 192, left : left + 192])), factor)
        assert srcnn.psnr(net(x).clamp(0, 1), y) > srcnn.psnr(x.clamp(0, 1), y), (name, factor)


@pytest.mark.nightly  # chapter 03 exports it, too
def test_exports_and_agrees_in_onnx_runtime(net):
    """Dynamic height and width, all weights inside, the same numbers."""
    x = torch.rand(1, 3, 24, 30, generator=torch.Generator().manual_seed(2))
    dynamic = ({2: torch.export.Dim("h", min=2), 3: torch.export.Dim("w", min=2)},)
    program = torch.onnx.export(net, (x,), dynamo=True, dynamic_shapes=dynamic, input_names=["photo"], verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for size in ((24, 30), (41, 17)):
        x = torch.rand(1, 3, *size, generator=torch.Generator().manual_seed(3))
        (y,) = session.run(None, {"photo": x.numpy()})
        np.testing.assert_allclose(y, net(x).numpy(), atol=1e-5)


# --- helpers


def test_enlarge_is_onnx_resize():
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator

    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="cubic", cubic_coeff_a=-0.75)
    x, scales, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "scales", "y"))
    model = helper.make_model(
        helper.make_graph([node], "resize", [x, scales], [y]),
        opset_imports=[helper.make_opsetid("", 19)],
        ir_version=10,
    )
    low = np.random.default_rng(0).random((1, 2, 5, 7), dtype=np.float32)
    for factor in (2.5, 3.0):
        (theirs,) = ReferenceEvaluator(model).run(None, {"x": low, "scales": np.float32([1, 1, factor, factor])})
        np.testing.assert_allclose(srcnn.enlarge(torch.from_numpy(low), factor).numpy(), theirs, atol=1e-5)


def test_psnr():
    a = np.zeros((4, 4), np.float32)
    assert srcnn.psnr(a, a) == math.inf
    assert srcnn.psnr(a, a + 0.1) == pytest.approx(20, abs=1e-4)
    assert srcnn.psnr(torch.from_numpy(a), a + 1) == 0
