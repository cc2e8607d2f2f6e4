"""Chapter 06 judges with formulas of its own: they agree with torchvision, and with the course's sparse product."""

from __future__ import annotations

import numpy as np
import torch
import torchvision

from oplab.checks import c06_library_operators as checks


def test_ps_roi_align_by_hand_is_torchvisions(seed):
    rng = np.random.default_rng(seed)
    for case in 3 * [*checks.ALIGN, *checks.BELOW]:
        scale, *drawn = checks.draw_align(rng, case)
        for arrays in drawn:
            image, rois = (torch.from_numpy(arrays[name]).double() for name in ("image", "rois"))
            right = torchvision.ops.ps_roi_align(image, rois, (case.height, case.width), scale, case.ratio)
            aligned = checks.every_channel(case, scale, **arrays)
            assert np.allclose(checks.choose(case, aligned), right.numpy(), rtol=0, atol=1e-9)


def test_the_number_of_samples_is_far_from_the_next(seed):
    """A rounding error must not decide how many samples a bin has, nor whether a sample is outside the image."""
    rng = np.random.default_rng(seed)
    for case in 10 * [*checks.ALIGN, *checks.BELOW]:
        scale, *drawn = checks.draw_align(rng, case)
        for arrays in drawn:
            x1, y1, x2, y2 = arrays["rois"][:, 1:].T.astype(np.float64) * scale
            for start, end, bins, size in ((y1, y2, case.height, 2), (x1, x2, case.width, 3)):
                part = ((end - start) / bins) % 1
                assert (part > 0.29).all() and (part < 0.71).all()
                assert (start > 0.1).all() and (end < arrays["image"].shape[size] - 0.1).all()


def test_the_product_is_the_operators(seed):
    import oplab.ops.sparse  # noqa: F401  registers the operator

    rng = np.random.default_rng(seed)
    for case in 10 * checks.SPMM:
        arrays = checks.sparse(rng, case, 7, 5, 3)
        given = {name: torch.from_numpy(value) for name, value in arrays.items()}
        order = ("row", "rowptr", "col", "value", "colptr", "csr2csc", "mat")
        right = torch.ops.oplab_sparse.spmm_sum(*[given.get(name) for name in order])
        got = checks.spmm_by_hand(*[arrays.get(name) for name in ("rowptr", "col", "value", "mat")])
        assert np.allclose(got, right.numpy(), rtol=1e-4, atol=1e-5)


def test_pooling_by_hand_is_torchvisions(seed):
    rng = np.random.default_rng(seed)
    for scale, height, width, channels in checks.pool_numbers(rng):
        arrays = checks.pool_inputs(rng, scale, channels * height * width, 20)
        image, boxes = (torch.from_numpy(arrays[name]) for name in ("image", "boxes"))
        right = torchvision.ops.ps_roi_pool(image, boxes, (height, width), scale)
        got = checks.pool_by_hand(arrays["image"], arrays["boxes"], scale, [height, width])
        assert np.allclose(got, right.numpy(), rtol=1e-4, atol=1e-5)


def test_sizes_always_differ():
    """A swap of height and width must always be visible."""
    assert all(case.height != case.width for case in [*checks.ALIGN, *checks.BELOW, *checks.HEADS])
    assert all(height != width for height, width, _ in checks.POOL_SHAPES)
