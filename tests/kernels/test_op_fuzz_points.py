"""10 000 random calls of knn_query and dynamic_resize, in PyTorch and in ONNX Runtime, with the sanitizers watching.

Each case has one right outcome, arrays or a refusal of one argument, worked out here in Python. Both runtimes have to come
to it, and refuse in the same words.
"""

from __future__ import annotations

import functools
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from oplab import ops
from oplab.toolchain import build
from tests.support import knn, resize
from tests.support.fuzz import DTYPES, ODD_VALUES, expect_variety, outcome, same_outcome, strided, under_the_sanitizers

pytestmark = pytest.mark.nightly

CASES = 10_000
ODD_OFFSETS = (-1, 0, 1, 10**6, 2**31 - 1, -(2**31))
CLOUDS = tuple(knn.CLOUDS)


def refused_offset(name: str, offset: np.ndarray, n: int) -> str | None:
    steps = np.diff(offset.astype(object), prepend=0)
    return name if (steps < 0).any() or (offset > n).any() or (offset[-1] if len(offset) else 0) != n else None


def refused_by_knn(nsample: int, xyz, offset, new_xyz=None, new_offset=None) -> str | None:
    """What the refusal has to begin with, or None where knn_query has to answer."""
    if nsample < 1:
        return "nsample"
    if xyz.ndim != 2 or xyz.shape[1] != 3:
        return "xyz"
    if offset.ndim != 1:
        return "offset"
    if (new_xyz is None) != (new_offset is None):
        return "new_xyz and new_offset"
    if new_xyz is not None:
        if new_xyz.ndim != 2 or new_xyz.shape[1] != 3:
            return "new_xyz"
        if new_offset.shape != offset.shape:
            return "new_offset"
    refused = refused_offset("offset", offset, len(xyz))
    if not refused and new_xyz is not None:
        refused = refused_offset("new_offset", new_offset, len(new_xyz))
    if refused:
        return refused
    if not np.isfinite(xyz).all():
        return "xyz"
    if new_xyz is not None and not np.isfinite(new_xyz).all():
        return "new_xyz"
    return "nsample" if len(xyz) and nsample > np.diff(offset, prepend=0).max() else None


@functools.cache
def knn_session(library: str, nsample: int, inputs: tuple[str, ...], dtype: type, offset_dtype: type):
    return ops.session(
        knn.make_model(nsample, inputs, dtype, offset_dtype),
        libraries=[library],
        threads=1 + (dtype is np.float32),
    )


def knn_case(random: np.random.Generator, library: str) -> str:
    import torch

    dtype, offset_dtype = DTYPES[random.integers(2)], (np.int64, np.int32)[random.integers(2)]
    batches = int(random.integers(1, 4))
    nsample = int(random.choice([1, 3, 16, 50, 0, -5], p=[0.5, 0.35, 0.1, 0.04, 0.005, 0.005]))
    feed = {}
    for prefix in ("", "new_") if random.random() < 0.5 else ("",):
        n = int(random.choice([0, 1, 7, 60], p=[0.05, 0.1, 0.45, 0.4]))
        if random.random() < 0.005:
            n = 1500  # more than one thread
        xyz, offset = knn.cloud(
            CLOUDS[random.integers(len(CLOUDS))], n, dtype, batches, seed=int(random.integers(2**31))
        )
        feed |= {f"{prefix}xyz": xyz, f"{prefix}offset": offset.astype(offset_dtype)}
    for name in feed:
        if random.random() < 0.03:
            wrong = ((5, 3, 1), (4, 2), (6,), ())[random.integers(4)]
            feed[name] = random.integers(0, 5, wrong).astype(feed[name].dtype)
        elif feed[name].size and random.random() < 0.05:
            odd = ODD_OFFSETS if "offset" in name else ODD_VALUES
            feed[name].flat[random.integers(feed[name].size)] = odd[random.integers(len(odd))]
    if len(feed) > 2 and random.random() < 0.03:
        del feed[("new_xyz", "new_offset")[random.integers(2)]]

    inputs = tuple(name if name in feed else "" for name in knn.NAMES)
    if random.random() < 0.5:
        while not inputs[-1]:
            inputs = inputs[:-1]
    in_torch = {name: torch.from_numpy(strided(value, random)) for name, value in feed.items()}
    refused = refused_by_knn(nsample, **feed)
    came = outcome(lambda: tuple(t.numpy() for t in torch.ops.oplab.knn_query(nsample, **in_torch)))
    ort = outcome(lambda: tuple(knn_session(library, nsample, inputs, dtype, offset_dtype).run(None, feed)))
    if not same_outcome(refused, came, ort):
        return f"refused for {refused}"
    for answer, expected in zip(came[0], knn.reference(nsample, **feed), strict=True):
        assert answer.dtype == expected.dtype
        assert np.array_equal(answer, expected), (answer, expected)
    return "answered"


def refused_by_resize(x: np.ndarray, scales: np.ndarray) -> str | None:
    if x.ndim != 4 or 0 in x.shape[2:]:
        return "x"
    if scales.shape != (4,) or (scales[:2] != 1).any():
        return "scales"
    elements = x.shape[0] * x.shape[1]
    pixels = 1
    for length, scale in zip(x.shape[2:], scales[2:], strict=True):
        if not (np.isfinite(scale) and scale > 0):
            return "scales"
        new_length = np.floor(np.float32(length) * scale)
        if not 1 <= new_length < 2**31:
            return "scales"
        pixels *= int(new_length)
    return "scales" if max(pixels, pixels * elements) >= 2**31 else None


@functools.cache
def resize_session(library: str, dtype: type):
    return ops.session(resize.make_model(dtype), libraries=[library], threads=1 + (dtype is np.float32))


def resize_case(random: np.random.Generator, library: str) -> str:
    import torch

    dtype = DTYPES[random.integers(2)]
    shape = [int(side) for side in random.choice([0, 1, 2, 3], 2, p=[0.04, 0.5, 0.26, 0.2])]
    shape += [int(side) for side in random.choice([0, 1, 2, 5, 12, 40], 2, p=[0.02, 0.2, 0.2, 0.3, 0.2, 0.08])]
    if random.random() < 0.05:
        shape = [[], shape[:3], [*shape, 1], shape[1:]][random.integers(4)]
    x = random.normal(size=shape).astype(dtype)
    scales = np.array([1, 1, *10 ** random.uniform(-0.7, 0.8, 2)], np.float32)
    if random.random() < 0.003:
        scales[3] = random.uniform(300, 3000)  # more columns than are computed together
    if random.random() < 0.1:
        scales[random.integers(4)] = random.choice([*ODD_VALUES, 2, 1e5, 2e9, 1e-3])
    if random.random() < 0.04:
        scales = np.ones(((3,), (5,), (1, 4), ())[random.integers(4)], np.float32)

    refused = refused_by_resize(x, scales)
    if not refused and x.shape[2] * float(scales[2]) * x.shape[3] * float(scales[3]) > 1e6:
        return "left out"  # in order, but slow
    in_torch = [torch.from_numpy(strided(value, random)) for value in (x, scales)]
    came = outcome(lambda: (torch.ops.oplab.dynamic_resize(*in_torch).numpy(),))
    ort = outcome(lambda: tuple(resize_session(library, dtype).run(None, {"x": x, "scales": scales})))
    if not same_outcome(refused, came, ort):
        return f"refused for {refused}"
    (y,) = came[0]
    expected = resize.reference(x, scales)
    assert y.dtype == expected.dtype and y.shape == expected.shape
    np.testing.assert_allclose(y, expected, rtol=0, atol=2e-5 if dtype == np.float32 else 1e-12)
    if case_has_gradient := random.random() < 0.2:
        grad = random.normal(size=y.shape).astype(dtype)
        back = torch.ops.oplab.dynamic_resize_backward(torch.from_numpy(grad), in_torch[1], *x.shape[2:]).numpy()
        height, width = (resize.matrix(x.shape[k], scales[k]) for k in (2, 3))
        np.testing.assert_allclose(back, height.T @ grad @ width, rtol=2e-4, atol=1e-3)
    return "answered, and its gradient" if case_has_gradient else "answered"


def test_ten_thousand_calls_under_the_sanitizers():
    """In two processes, half of the cases each."""
    code = f"""
import sys
import torch
from tests.kernels.test_op_fuzz_points import knn_case, resize_case
from tests.support.fuzz import fuzz
torch.ops.load_library({str(build.compile_sanitized("torch"))!r})
cases = range(int(sys.argv[1]), int(sys.argv[2]))
for outcome, count in fuzz(cases, (knn_case, resize_case), 2027, {str(build.compile_sanitized("ort"))!r}).items():
    print(outcome, count, sep=": ")
"""

    def run(first: int) -> Counter[str]:
        # Threads that wait in a loop for the next few points would use up the processors.
        return under_the_sanitizers(code, first, first + CASES // 2, OMP_WAIT_POLICY="passive")

    with ThreadPoolExecutor(2) as pool:
        found = sum(pool.map(run, (0, CASES // 2)), Counter())
    least = {
        "knn_case: answered": 2000,
        "knn_case: refused for nsample": 200,
        "knn_case: refused for xyz": 100,
        "knn_case: refused for offset": 100,
        "knn_case: refused for new_xyz": 50,
        "knn_case: refused for new_offset": 50,
        "knn_case: refused for new_xyz and new_offset": 20,
        "resize_case: answered": 2000,
        "resize_case: answered, and its gradient": 400,
        "resize_case: refused for x": 200,
        "resize_case: refused for scales": 500,
    }
    expect_variety(found, least)
