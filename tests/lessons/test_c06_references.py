"""Chapter 06 judges with formulas of its own: they agree with torchvision, and with the course's grid operator."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torchvision

from oplab.checks import c06_library_operators as checks


@pytest.mark.parametrize("case", checks.DEFORM, ids=lambda case: case.title)
def test_deform_conv_by_hand_is_torchvisions(case):
    for seed in range(5):
        window, *drawn = checks.draw(np.random.default_rng(seed), case)
        for arrays in drawn:
            x, weight, offset = (torch.from_numpy(arrays[name]).double() for name in ("x", "weight", "offset"))
            mask, bias = (
                torch.from_numpy(arrays[name]).double() if name in arrays else None for name in ("mask", "bias")
            )
            right = torchvision.ops.deform_conv2d(
                x, offset, weight, bias, window.stride, window.pad, window.dilation, mask
            )
            assert np.allclose(checks.deform_conv_by_hand(case, window, **arrays), right.numpy(), rtol=0, atol=1e-10)


def test_a_window_never_has_equal_numbers():
    """A swap of height and width must always be visible."""
    for seed in range(50):
        window, _, _ = checks.draw(np.random.default_rng(seed), checks.DEFORM[0])
        assert all(first != second for first, second in (window.kernel, window.stride, window.pad, window.dilation))


@pytest.mark.parametrize("case", checks.GRID, ids=lambda case: case.title)
def test_voxels_are_those_of_the_operator(case):
    import torch

    from oplab import ops

    ops.load()
    for seed in range(20):
        arrays = checks.points(np.random.default_rng(seed), case, 200)
        right = torch.ops.oplab.grid(**{name: torch.from_numpy(value) for name, value in arrays.items()})
        assert np.array_equal(checks.voxels(**arrays), right.numpy())
        if len(case.optional) < 2:  # else leaving one out would not show
            shifted = {**arrays, **{name: arrays["pos"].min(0) - 1 for name in ("start", "end") if name not in arrays}}
            assert not np.array_equal(checks.voxels(**shifted), right.numpy())


def test_foo_numbers_have_fractions_and_differ():
    for seed in range(50):
        numbers = checks.foo_numbers(np.random.default_rng(seed))
        assert all(attr1 != int(attr1) for attr1, _ in numbers)
        assert len({attr2 for _, attr2 in numbers}) == len(numbers)
