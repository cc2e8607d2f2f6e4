"""The photos, the super-resolution net and its committed weights."""

from __future__ import annotations

import importlib.util
import itertools
import math
import subprocess
import sys
from importlib.resources import files

import numpy as np
import onnxruntime
import pytest
import torch

from oplab.errors import OplabError
from oplab.nets import photos, srcnn, weights
from oplab.nets.photos import photo, to_image, to_nchw
from tests.support import ROOT

WEIGHTS = files("oplab").joinpath("nets", "srcnn.npz")


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


def test_every_photo_is_rgb_float32_in_unit_range():
    for name in photos.NAMES:
        image = photo(name)
        assert image.dtype == np.float32 and image.ndim == 3 and image.shape[2] == 3
        assert min(image.shape[:2]) >= 150
        assert 0 <= image.min() < image.max() <= 1
        # 8-bit photos: anything else was scaled wrongly
        assert np.abs(image * 255 - np.round(image * 255)).max() < 1e-4
        image[0, 0] = 0.5  # writable


def test_photo_is_what_scikit_image_gives():
    from skimage import data

    for name in ("astronaut", "coffee", "chelsea"):
        np.testing.assert_array_equal(np.round(photo(name) * 255).astype(np.uint8), getattr(data, name)())
    grey = photo("camera")
    assert (grey == grey[:, :, :1]).all()
    np.testing.assert_array_equal(np.round(grey[:, :, 0] * 255).astype(np.uint8), data.camera())


def test_photo_size():
    for size, shape in [(96, (96, 96, 3)), ((60, 130), (60, 130, 3)), ((1, 1), (1, 1, 3))]:
        image = photo("chelsea", size)
        assert image.shape == shape and image.dtype == np.float32
        assert abs(image.mean() - photo("chelsea").mean()) < 0.15
    np.testing.assert_array_equal(photo("chelsea", (300, 451)), photo("chelsea"))


def test_bad_size_and_unknown_photo_are_a_sentence():
    for size in (0, 301, (300, 452), "big", (1, 2, 3), 2.5):
        with pytest.raises(OplabError):
            photo("chelsea", size)
    with pytest.raises(OplabError, match="no photo named 'cat'") as caught:
        photo("cat")
    assert all(name in caught.value.fix for name in photos.NAMES)


def test_photos_do_not_import_torch_or_skimage():
    code = "import oplab.nets.photos, sys; print({'torch', 'skimage', 'PIL'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert out.strip() == "set()"


def test_layouts_round_trip():
    image = photo("coffee", (40, 50))
    batch = to_nchw(image)
    assert batch.shape == (1, 3, 40, 50) and batch.dtype == np.float32 and batch.flags.c_contiguous
    assert batch[0, 2, 7, 11] == image[7, 11, 2]
    for back in (to_image(batch), to_image(batch[0]), to_image(torch.from_numpy(batch).requires_grad_())):
        assert back.dtype == np.float32 and back.flags.writeable
        np.testing.assert_array_equal(back, image)


def test_layouts_scale_bytes_clip_and_widen_grey():
    np.testing.assert_array_equal(to_nchw(np.full((2, 4), 255, np.uint8)), np.ones((1, 1, 2, 4), np.float32))
    image = to_image(np.array([-1.0, 0.25, 2.0]).reshape(1, 1, 1, 3))
    np.testing.assert_array_equal(image[0], np.repeat(np.array([[0], [0.25], [1]], np.float32), 3, axis=1))


def test_wrong_layout_is_a_sentence():
    for call, shape in ((to_nchw, (1, 3, 4, 4)), (to_nchw, (4,)), (to_image, (2, 3, 4, 4)), (to_image, (4, 4, 3))):
        with pytest.raises(OplabError, match="shape"):
            call(np.zeros(shape, np.float32))


# --- the net and its weights


def test_weights_file_is_small_plain_float32():
    assert len(WEIGHTS.read_bytes()) < 300_000
    with WEIGHTS.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        assert {arrays[name].dtype for name in arrays.files} == {np.dtype(np.float32)}
        assert all(np.isfinite(arrays[name]).all() for name in arrays.files)
        assert set(arrays.files) == set(srcnn.SRCNN().state_dict())


def test_net_has_the_papers_size_and_is_ready_to_use(net):
    assert sum(p.numel() for p in net.parameters()) == 57_281
    assert not net.training and not any(p.requires_grad for p in net.parameters())


def test_any_size(net):
    for shape in ((1, 3, 1, 1), (2, 3, 31, 64), (0, 3, 8, 8)):
        x = torch.rand(shape, generator=torch.Generator().manual_seed(1))
        y = net(x)
        assert y.shape == x.shape and y.dtype == torch.float32 and torch.isfinite(y).all()


def test_detail_keeps_the_colour_differences(net):
    x = torch.from_numpy(to_nchw(photo("astronaut", 48)))
    added = net(x) - x
    assert added.abs().max() > 0.01
    torch.testing.assert_close(added, added[:, :1].expand(-1, 3, -1, -1), atol=1e-6, rtol=0)
    torch.testing.assert_close(srcnn.brightness(net(x)), srcnn.brightness(x) + added[:, :1], atol=1e-6, rtol=0)


def test_held_out_photos_take_no_part_in_training(trainer):
    assert not set(trainer.TRAINING) & set(trainer.HELD_OUT)
    assert len(trainer.HELD_OUT) >= 3 and set(trainer.TRAINING + trainer.HELD_OUT) <= set(photos.NAMES)


def test_committed_weights_beat_bicubic(net, trainer):
    for name, factor in itertools.product(trainer.HELD_OUT, (2, 3)):
        image = photo(name)
        top, left = image.shape[0] // 2 - 96, image.shape[1] // 2 - 96
        x, y = trainer.pair(torch.from_numpy(to_nchw(image[top : top + 192, left : left + 192])), factor)
        assert srcnn.psnr(net(x).clamp(0, 1), y) > srcnn.psnr(x.clamp(0, 1), y), (name, factor)


def test_damaged_and_missing_weights_are_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "files", lambda _: tmp_path)
    with pytest.raises(OplabError, match="missing"):
        srcnn.load_srcnn()
    target = tmp_path / "srcnn.npz"
    target.write_bytes(WEIGHTS.read_bytes()[:1000])
    with pytest.raises(OplabError, match="cannot be read"):
        srcnn.load_srcnn()
    np.savez(target, weight=np.zeros(3, np.float32))
    with pytest.raises(OplabError, match="does not hold"):
        srcnn.load_srcnn()


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


def test_shrink_is_pillows_antialiased_bicubic():
    from PIL import Image

    image = photo("coffee", (90, 120))
    ours = srcnn.shrink(torch.from_numpy(to_nchw(image)), 3)[0, 1].numpy()
    plane = Image.fromarray(np.ascontiguousarray(image[:, :, 1]))
    pillows = np.clip(np.asarray(plane.resize((40, 30), Image.Resampling.BICUBIC)), 0, 1)
    np.testing.assert_allclose(ours, pillows, atol=1e-5)


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


def test_wrong_calls_are_a_sentence():
    x = torch.rand(1, 3, 8, 8)
    for call in (
        lambda: srcnn.shrink(x, 2.5),
        lambda: srcnn.shrink(x, 9),
        lambda: srcnn.shrink(x[0], 2),
        lambda: srcnn.shrink(x.numpy(), 2),
        lambda: srcnn.enlarge(x, math.nan),
        lambda: srcnn.enlarge(x.to(torch.uint8), 2),
    ):
        with pytest.raises(OplabError):
            call()


def test_psnr():
    a = np.zeros((4, 4), np.float32)
    assert srcnn.psnr(a, a) == math.inf
    assert srcnn.psnr(a, a + 0.1) == pytest.approx(20, abs=1e-4)
    assert srcnn.psnr(torch.from_numpy(a), a + 1) == 0
    for other in (np.zeros((1, 4), np.float32), np.zeros((1, 4, 4), np.float32)):
        with pytest.raises(OplabError, match="one shape"):
            srcnn.psnr(a, other)
