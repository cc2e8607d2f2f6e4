"""Chapter 08 judges with formulas of its own: they agree with the course's operators, and its inputs can tell right from wrong."""

from __future__ import annotations

import numpy as np
import pytest

from oplab import ops
from oplab.checks import c08_functions_and_plugins as checks
from oplab.checks.references.points import neighbours
from oplab.checks.references.resizing import resized


@pytest.fixture(scope="module")
def oplab_ops():
    import torch

    ops.load()
    return torch.ops.oplab


def test_the_resize_in_matrices_is_dynamic_resize(seed, oplab_ops):
    import torch

    rng = np.random.default_rng(seed)
    for x in checks.images(rng, 3, False):
        for factor in checks.factors(rng):
            right = oplab_ops.dynamic_resize(torch.from_numpy(x), torch.tensor([1, 1, factor, 1], dtype=torch.float32))
            made = resized({"x": x, "scales": np.array([1, 1, factor, 1], np.float32)})
            assert made.shape == tuple(right.shape)
            assert np.allclose(made, right.numpy(), rtol=0, atol=1e-5)


def test_the_images_tell_the_two_rules_for_sizes_apart():
    """10 rows at 2.3: 23 in float32, 22 in float64."""
    rows = {x.shape[2] for x in checks.images(np.random.default_rng(0), 3, False)}
    sizes = {
        (np.floor(np.float32(n) * np.float32(f)), np.floor(n * float(np.float32(f))))
        for n in rows
        for f in checks.FACTORS
    }
    assert (23.0, 22.0) in sizes


def test_neighbours_by_hand_are_knn_query(seed, oplab_ops):
    import torch

    rng = np.random.default_rng(seed)
    for case in checks.QUERIES:
        for counts in checks.CLOUDS:
            arrays = checks.cloud(rng, case, *counts)
            arrays = arrays if case.asks else {name: arrays[name] for name in ("xyz", "offset")}
            right = oplab_ops.knn_query(
                case.nsample, **{name: torch.from_numpy(value) for name, value in arrays.items()}
            )
            idx, dist = neighbours(arrays, case.nsample)
            assert np.array_equal(idx, right[0].numpy())
            assert np.allclose(dist, right[1].numpy(), rtol=1e-6, atol=0)


def test_coefficients_are_never_a_default_nor_each_other():
    for seed in range(50):
        alpha, beta = checks.coefficients(np.random.default_rng(seed))
        assert alpha != beta and not {alpha, beta} & {0.0, 1.0, 2.0, 3.0}
        assert all(float(np.float32(number)) != number for number in (alpha, beta))  # float32 does not hold them
