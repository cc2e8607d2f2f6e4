"""The operators in NumPy: beside ONNX Runtime's kernels, ours and its own, and beside ONNX's reference for its own."""

from __future__ import annotations

import numpy as np
import pytest

from oplab import ops
from tests.support import foo, grid
from tests.support.models import evaluate, one_node

pytestmark = pytest.mark.usefixtures("compiled")


def noise(*shape: int, seed: int = 0, dtype=np.float32) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("attributes", [{}, {"alpha": 0.25}, {"alpha": -1.0, "beta": 7.5}])
def test_my_add(dtype, attributes):
    feed = {"a": noise(3, 4, dtype=dtype), "b": noise(3, 4, seed=1, dtype=dtype)}
    model = one_node("MyAdd", feed, **attributes)
    (got,), (kernel,) = evaluate(model, feed), ops.session(model).run(None, feed)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, kernel, rtol=1e-6)


def test_shapes_are_not_broadcast():
    feed = {"a": noise(3, 4), "b": noise(4)}
    with pytest.raises(ValueError, match=r"MyAdd: a is \[3, 4\] and b is \[4\]"):
        evaluate(one_node("MyAdd", feed), feed)


@pytest.mark.parametrize("exponent", foo.EXPONENTS)
def test_foo(exponent: int):
    model, feed = (
        foo.make_model(np.float64, attr1=0.5, attr2=exponent),
        foo.pair(5, 7, dtype=np.float64),
    )
    np.testing.assert_allclose(evaluate(model, feed)[0], ops.session(model).run(None, feed)[0], rtol=1e-14)


def test_foo_without_an_attribute():
    feed = foo.pair(2)
    with pytest.raises(ValueError, match="attr1 and attr2 are required"):
        evaluate(foo.make_model(attr1=1.0), feed)


@pytest.mark.parametrize("corner", grid.CORNERS)
@pytest.mark.parametrize("shape", [(1, 1), (300, 3), (0, 2), (40, 2, 3)])
def test_grid(corner: str, shape: tuple[int, ...]):
    feed = grid.cloud(*shape, corner=corner)
    (got,) = evaluate(grid.make_model(grid.inputs_for(corner)), feed)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, grid.in_ort(feed))


@pytest.mark.parametrize("count", [1, 2, 5])
def test_var_sum(count: int):
    feed = {f"x{number}": noise(2, 3, seed=number) for number in range(count)}
    before = feed["x0"].copy()
    model = one_node("VarSum", feed)
    (got,), (kernel,) = evaluate(model, feed), ops.session(model).run(None, feed)
    np.testing.assert_array_equal(got, kernel)
    np.testing.assert_allclose(got, sum(feed.values()), rtol=1e-6)
    np.testing.assert_array_equal(feed["x0"], before)


class TestKnn:
    def run(self, feed, names=None, nsample=4):
        model = one_node("KNNQuery", feed, names, ("idx", "dist"), nsample=nsample)
        idx, dist = evaluate(model, feed)
        kernel_idx, kernel_dist = ops.session(model).run(None, feed)
        assert (idx.dtype, dist.dtype) == (kernel_idx.dtype, kernel_dist.dtype)
        np.testing.assert_array_equal(idx, kernel_idx)
        np.testing.assert_allclose(dist, kernel_dist, rtol=1e-6)
        return idx, dist

    def test_by_hand(self):
        xyz = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 0], [5, 0, 0], [5, 3, 4]], np.float32)
        idx, dist = self.run({"xyz": xyz, "offset": np.array([3, 5])}, nsample=3)
        assert idx.dtype == np.int32 and dist.dtype == np.float32
        assert idx.tolist() == [[0, 2, 1], [1, 0, 2], [0, 2, 1], [3, 4, -1], [4, 3, -1]]
        assert dist.tolist() == [[0, 0, 1], [0, 1, 1], [0, 0, 1], [0, 5, 0], [0, 5, 0]]

    def test_batches_and_queries(self):
        feed = {"xyz": noise(20, 3), "offset": np.array([8, 20])}
        self.run(feed, ["xyz", "offset", "", ""])
        self.run(feed | {"new_xyz": noise(6, 3, seed=1), "new_offset": np.array([2, 6])})
        self.run({"xyz": noise(0, 3), "offset": np.array([0])})


@pytest.mark.parametrize("scale", [(3.0, 1.5), (0.5, 0.4), (1.0, 1.0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dynamic_resize_beside_onnx_s_resize(scale, dtype):
    x, scales = noise(2, 3, 11, 8, dtype=dtype), np.array([1, 1, *scale], np.float32)
    ours = one_node("DynamicResize", {"x": x, "scales": scales})
    (got,) = evaluate(ours, {"x": x, "scales": scales})
    (kernel,) = ops.session(ours).run(None, {"x": x, "scales": scales})
    assert kernel.dtype == got.dtype and kernel.shape == got.shape
    np.testing.assert_allclose(got, kernel, rtol=1e-4, atol=1e-4)
    feed = {"x": x.astype(np.float32), "scales": scales}
    model = one_node("Resize", feed, ["x", "", "scales"], domain="", mode="cubic")
    (expected,) = ops.session(model).run(None, feed)
    assert got.dtype == dtype and got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("leave_out", [(), ("B", "mask")])
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"strides": [2, 1], "pads": [1, 2, 1, 2]},
        {"dilations": [2, 2], "pads": [2, 2, 2, 2]},
        {"group": 2, "offset_group": 2},
        {"offset_group": 4, "kernel_shape": [3, 2]},
    ],
    ids=str,
)
def test_deform_conv2d_beside_onnx_s_deform_conv(leave_out, attributes):
    kernel, group = (3, 2), attributes.get("group", 1)
    strides, dilations = attributes.get("strides", [1, 1]), attributes.get("dilations", [1, 1])
    pads = attributes.get("pads", [0, 0, 0, 0])
    out = [
        (size + pads[axis] + pads[axis + 2] - dilations[axis] * (kernel[axis] - 1) - 1) // strides[axis] + 1
        for axis, size in enumerate((7, 9))
    ]
    places = attributes.get("offset_group", 1) * kernel[0] * kernel[1]
    feed = {
        "X": noise(2, 4, 7, 9),
        "W": noise(6, 4 // group, *kernel, seed=1),
        "offset": 3 * noise(2, 2 * places, *out, seed=2),  # far enough that many samples lie outside
        "B": noise(6, seed=3),
        "mask": noise(2, places, *out, seed=4),
    }
    names = ["" if name in leave_out else name for name in feed]
    feed = {name: value for name, value in feed.items() if name not in leave_out}
    ours = one_node("DeformConv2d", feed, names, **attributes)
    (got,), (kernel,) = evaluate(ours, feed), ops.session(ours).run(None, feed)
    np.testing.assert_allclose(got, kernel, rtol=1e-4, atol=1e-4)
    (expected,) = ops.session(one_node("DeformConv", feed, names, domain="", **attributes)).run(None, feed)
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
