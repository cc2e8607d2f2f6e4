"""The PyTorch operator: its values, what PyTorch expects of it, its derivative, and autocast."""

import math

import numpy as np
import pytest
import torch
import torchvision
from example import inputs
from rotated_roi_align import reference, rotated_roi_align

OPERATOR = torch.ops.my.rotated_roi_align.default


def tensors(boxes, dtype=np.float64, size=(9, 7)):
    given = inputs(np.random.default_rng(0), 2, boxes, *size, dtype)
    return torch.from_numpy(given["x"]), torch.from_numpy(given["rois"])


@pytest.mark.parametrize("boxes", [0, 1, 100])
def test_it_computes_what_the_reference_does(boxes):
    x, rois = tensors(boxes)
    expected = reference.rotated_roi_align(x.numpy(), rois.numpy(), 0.75, 3, 4, 3)
    torch.testing.assert_close(rotated_roi_align(x, rois, 0.75, 3, 4, 3), torch.from_numpy(expected))


def test_without_an_angle_it_is_roi_align():
    x, rois = tensors(100, size=(16, 24))
    rois[:, 5] = 0
    batch, cx, cy, w, h, _ = rois.T
    corners = torch.stack([batch, cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2], 1)
    expected = torchvision.ops.roi_align(x, corners, (3, 4), 0.75, 2, aligned=True)
    torch.testing.assert_close(rotated_roi_align(x, rois, 0.75, 3, 4, 2), expected)


def test_a_quarter_turn():
    x, _ = tensors(1, size=(5, 5))
    whole = torch.tensor([[0, 2.5, 2.5, 5, 5, math.pi / 2]], dtype=x.dtype)
    # The box turns clockwise, so what it sees turns the other way.
    turned = torch.rot90(x[0], 1, (1, 2))
    torch.testing.assert_close(rotated_roi_align(x, whole, 1.0, 5, 5, 1)[0], turned)


def test_opcheck():
    x, rois = tensors(4)
    for one in (x.requires_grad_(), x.detach().mT.requires_grad_()):
        torch.library.opcheck(OPERATOR, (one, rois, 0.75, 3, 4, 2))


def test_gradcheck():
    x, rois = tensors(5)
    call = lambda x: rotated_roi_align(x, rois, 0.75, 2, 3, 2)  # noqa: E731
    assert torch.autograd.gradcheck(call, [x.requires_grad_()])
    assert torch.autograd.gradgradcheck(call, [x])


def test_threads_compute_the_same_bits():
    x, rois = tensors(200)
    results, before = [], torch.get_num_threads()
    for threads in (1, 4):
        torch.set_num_threads(threads)
        one = x.clone().requires_grad_()
        y = rotated_roi_align(one, rois)
        y.sin().sum().backward()
        results.append((y, one.grad))
    torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_autocast_computes_in_float32():
    x, rois = tensors(3)
    with torch.autocast("cpu", torch.bfloat16):
        assert rotated_roi_align(x.bfloat16(), rois.bfloat16()).dtype == torch.float32


@pytest.mark.parametrize("device", ["cpu", "meta"])  # the kernel and the fake
def test_inputs_that_do_not_fit(device):
    x, rois = (one.to(device) for one in tensors(3))
    for arguments, words in (((x[0], rois), "x must be"), ((x, rois[:, :5]), "rois must be")):
        with pytest.raises(RuntimeError, match=words):
            rotated_roi_align(*arguments)
    with pytest.raises(RuntimeError, match="rois must have x's dtype"):
        rotated_roi_align(x, rois.float())
