"""``oplab::dynamic_resize`` in PyTorch and ``oplab::DynamicResize`` in ONNX Runtime, beside a reference that owes nothing to
either, beside ``interpolate`` and beside ONNX Runtime's own Resize."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

from oplab import ops
from tests.support.dtypes import DTYPES
from tests.support.models import sizes
from tests.support.resize import SIZES, images, make_model, reference

pytestmark = pytest.mark.usefixtures("compiled")


def in_torch(feed: dict[str, np.ndarray], device: str = "cpu") -> np.ndarray:
    return torch.ops.oplab.dynamic_resize(
        *(torch.from_numpy(feed[name]).to(device) for name in ("x", "scales"))
    ).numpy()


def in_ort(feed: dict[str, np.ndarray], threads: int | None = None) -> np.ndarray:
    return ops.session(make_model(feed["x"].dtype.type), threads=threads).run(None, feed)[0]


RUNTIMES = pytest.mark.parametrize("run", [in_torch, in_ort])


def tolerance(dtype: type) -> dict[str, float]:
    return {"rtol": 0, "atol": 5e-6 if dtype == np.float32 else 1e-13}


class TestValues:
    @pytest.mark.parametrize("what", SIZES)
    @DTYPES
    @RUNTIMES
    def test_sizes(self, run, dtype, what: str):
        feed = images(*SIZES[what], dtype)
        y = run(feed)
        expected = reference(**feed)
        assert y.dtype == dtype and y.shape == expected.shape
        np.testing.assert_allclose(y, expected, **tolerance(dtype))

    @RUNTIMES
    def test_by_hand(self, run):
        """One row of 0, 1, 2, 3, doubled. A quarter of a pixel from a pixel, the weights are those of the table."""
        x = np.arange(4, dtype=np.float64).reshape(1, 1, 1, 4)
        near, next_, far, farthest = 0.87890625, 0.26171875, -0.10546875, -0.03515625
        assert near + next_ + far + farthest == 1
        y = run({"x": x, "scales": np.array([1, 1, 1, 2], np.float32)})[0, 0, 0]
        # Pixel 3 lies at 1.25, pixel 4 at 1.75; pixel 0 at -0.25, and all that it reads to the left is the border's 0.
        np.testing.assert_allclose(y[3], far * 0 + near * 1 + next_ * 2 + farthest * 3)
        np.testing.assert_allclose(y[4], farthest * 0 + next_ * 1 + near * 2 + far * 3)
        np.testing.assert_allclose(y[0], far * 1)

    @pytest.mark.parametrize("what", [what for what in SIZES if what != "by no whole factor"])
    def test_as_interpolate(self, what: str):
        """Where both find the same size."""
        feed = images(*SIZES[what], np.float64)
        factors = tuple(float(scale) for scale in feed["scales"][2:])
        expected = torch.nn.functional.interpolate(
            torch.from_numpy(feed["x"]), scale_factor=factors, mode="bicubic", recompute_scale_factor=False
        )
        rounded = 1 in expected.shape[2:]  # interpolate computes the place of a single pixel in float32
        np.testing.assert_allclose(in_torch(feed), expected.numpy(), rtol=0, atol=1e-6 if rounded else 1e-11)

    @pytest.mark.parametrize("what", SIZES)
    def test_as_onnx_runtime_s_own_resize(self, what: str):
        """Its coordinates are float32, ours are double: the wider the image, the more that shows."""
        attributes = {"mode": "cubic", "coordinate_transformation_mode": "half_pixel", "cubic_coeff_a": -0.75}
        session = ops.session(make_model(node=helper.make_node("Resize", ["x", "", "scales"], ["y"], **attributes)))
        feed = images(*SIZES[what])
        (expected,) = session.run(None, feed)
        y = in_ort(feed)
        assert y.shape == expected.shape
        np.testing.assert_allclose(y, expected, rtol=0, atol=2e-6 * max(y.shape))

    def test_lengths_are_onnx_runtime_s(self):
        session = ops.session(make_model(node=helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="nearest")))
        random = np.random.default_rng(0)
        for _ in range(300):
            height, width = random.integers(1, 200, 2)
            scales = np.array([1, 1, *np.round(random.uniform(1, 4, 2), random.integers(1, 4))], np.float32)
            feed = {"x": np.zeros((1, 1, height, width), np.float32), "scales": scales}
            assert in_torch(feed).shape == session.run(None, feed)[0].shape, (height, width, scales)

    @RUNTIMES
    @pytest.mark.parametrize("shape", [(0, 3, 4, 5), (2, 0, 4, 5), (0, 0, 1, 1)])
    def test_no_images(self, run, shape: tuple[int, ...]):
        y = run({"x": np.empty(shape, np.float32), "scales": np.array([1, 1, 2.5, 2], np.float32)})
        assert y.shape == (*shape[:2], int(shape[2] * 2.5), shape[3] * 2)

    @DTYPES
    def test_one_thread_and_many_and_both_runtimes_give_the_same_bits(self, dtype):
        threads = torch.get_num_threads()
        for feed in (images(97, 61, 3.3, 5.7, dtype), images(400, 301, 0.31, 0.7, dtype)):
            found = [in_ort(feed, threads=1), in_ort(feed, threads=4)]
            try:
                for count in (1, 4):
                    torch.set_num_threads(count)
                    found.append(in_torch(feed))
            finally:
                torch.set_num_threads(threads)
            assert all(np.array_equal(found[0], more) for more in found[1:])

    @RUNTIMES
    def test_nan_and_infinity_stay_where_they_are_read(self, run):
        feed = images(9, 9, 2, 2)
        feed["x"][0, 0, 4, 4] = np.nan
        feed["x"][1, 2, 0, 0] = np.inf
        y = run(feed)
        bad = ~np.isfinite(y)
        assert bad[0, 0, 4:14, 4:14].any() and bad[0, 0].sum() <= 64 and bad[1, 2].sum() <= 49
        bad[0, 0], bad[1, 2] = False, False
        assert not bad.any()


def bad(x=None, scales=(1, 1, 2, 2)) -> dict[str, np.ndarray]:
    x = np.ones((1, 2, 4, 5)) if x is None else x
    return {"x": np.asarray(x, np.float32), "scales": np.asarray(scales, np.float32)}


REFUSED = {
    "x of rank 3": (bad(np.ones((2, 4, 5))), "x must have the shape [N, C, H, W], but its shape is [2, 4, 5]."),
    "x without width": (
        bad(np.ones((1, 2, 4, 0))),
        "x must have a height and a width of at least 1, but its shape is [1, 2, 4, 0].",
    ),
    "two scales": (bad(scales=[2, 2]), "scales must have the shape [4], but its shape is [2]."),
    "scales of rank 2": (bad(scales=[[1, 1, 2, 2]]), "scales must have the shape [4], but its shape is [1, 4]."),
    "N scaled": (bad(scales=[2, 1, 2, 2]), "scales must leave N and C as they are, but scales[0] is 2."),
    "C NaN": (bad(scales=[1, np.nan, 2, 2]), "scales must leave N and C as they are, but scales[1] is nan."),
    "zero": (bad(scales=[1, 1, 0, 2]), "scales must be positive, but scales[2] is 0."),
    "negative": (bad(scales=[1, 1, 2, -1.5]), "scales must be positive, but scales[3] is -1.5."),
    "NaN": (bad(scales=[1, 1, 2, np.nan]), "scales must be finite, but scales[3] is nan."),
    "infinite": (bad(scales=[1, 1, np.inf, 2]), "scales must be finite, but scales[2] is inf."),
    "no row left": (
        bad(scales=[1, 1, 0.2, 2]),
        "scales[2] is 0.2, which makes an empty image of one that is 4 high.",
    ),
    "no column left": (
        bad(scales=[1, 1, 2, 1e-40]),
        "scales[3] is 9.99995e-41, which makes an empty image of one that is 5 wide.",
    ),
    "too high": (
        bad(scales=[1, 1, 3e38, 2]),
        "scales[2] is 3e+38, which makes too large an image of one that is 4 high: y may have 2**31 - 1 elements.",
    ),
    "too large": (
        bad(scales=[1, 1, 1e4, 1e4]),
        "scales[2] is 10000 and scales[3] is 10000, which make too large an image: y would have the shape "
        "[1, 2, 40000, 50000], and it may have 2**31 - 1 elements.",
    ),
}


class TestRefusals:
    @pytest.mark.parametrize("what", REFUSED)
    @RUNTIMES
    def test_a_sentence(self, run, what: str):
        feed, sentence = REFUSED[what]
        with pytest.raises(Exception) as caught:
            run(feed)
        assert sentence in str(caught.value)
        if run is in_torch:
            assert type(caught.value) is RuntimeError and "dynamic_resize.cpp:" in str(caught.value)
            if "its shape is" in sentence:
                with pytest.raises(RuntimeError) as caught:  # the fake says the same
                    run(feed, device="meta")
                assert sentence in str(caught.value)
        else:
            assert type(caught.value).__name__ == "InvalidArgument" and f"DynamicResize: {sentence}" in str(
                caught.value
            )


class TestInPyTorch:
    def test_schema(self):
        assert str(torch.ops.oplab.dynamic_resize.default._schema) == (
            "oplab::dynamic_resize(Tensor x, Tensor scales) -> Tensor"
        )

    @pytest.mark.parametrize("device", ["cpu", "meta"])
    @pytest.mark.parametrize("dtype", [torch.float16, torch.uint8, torch.complex64], ids=str)
    def test_dtypes(self, dtype: torch.dtype, device: str):
        x, scales = torch.ones(1, 1, 4, 4, device=device), torch.ones(4, device=device)
        with pytest.raises(RuntimeError, match="x must be float32 or float64, but it is "):
            torch.ops.oplab.dynamic_resize(x.to(dtype), scales)
        with pytest.raises(RuntimeError, match="scales must be float32, but it is "):
            torch.ops.oplab.dynamic_resize(x, scales.double())

    def test_one_device(self):
        with pytest.raises(RuntimeError, match="scales must be on x's device, but scales is on meta and x is on"):
            torch.ops.oplab.dynamic_resize(torch.ones(1, 1, 4, 4), torch.ones(4, device="meta"))

    @pytest.mark.parametrize("grad", [False, True])
    @pytest.mark.parametrize("what", ["by no whole factor", "reduced", "to one pixel"])
    def test_opcheck(self, what: str, grad: bool):
        feed = images(*SIZES[what], np.float64)
        x, scales = torch.from_numpy(feed["x"]).requires_grad_(grad), torch.from_numpy(feed["scales"])
        torch.library.opcheck(torch.ops.oplab.dynamic_resize.default, (x, scales))
        y = torch.ops.oplab.dynamic_resize(x, scales).detach().requires_grad_(grad)
        torch.library.opcheck(torch.ops.oplab.dynamic_resize_backward.default, (y, scales, *x.shape[2:]))

    @pytest.mark.parametrize("what", ["by no whole factor", "one pixel", "reduced", "to one pixel"])
    def test_gradients(self, what: str):
        feed = images(*SIZES[what], np.float64)
        x, scales = torch.from_numpy(feed["x"][:1, :1]).requires_grad_(), torch.from_numpy(feed["scales"])
        assert torch.autograd.gradcheck(torch.ops.oplab.dynamic_resize, (x, scales))
        assert torch.autograd.gradgradcheck(torch.ops.oplab.dynamic_resize, (x, scales))

    def test_layouts(self):
        wide = torch.randn(9, 8, 6, 10)
        scales = torch.tensor([1, 0, 1, 0, 1.6, 0, 2.2, 0])[::2]
        for x in (wide.transpose(1, 3), wide[::2, 1::3, :, 3:], wide[:1].expand(3, -1, -1, -1), wide.flip(0)[:, :1]):
            torch.library.opcheck(torch.ops.oplab.dynamic_resize.default, (x, scales))
            y = torch.ops.oplab.dynamic_resize(x, scales)
            assert y.is_contiguous()
            expected = reference(x.contiguous().numpy(), scales.contiguous().numpy())
            np.testing.assert_allclose(y.numpy(), expected, **tolerance(np.float32))

    def test_factors_of_one_give_a_copy(self):
        x = torch.randn(1, 2, 5, 6)
        y = torch.ops.oplab.dynamic_resize(x, torch.ones(4))
        assert torch.equal(x, y) and x.data_ptr() != y.data_ptr()


class TestInONNXRuntime:
    @DTYPES
    def test_the_type_is_known_before_it_runs(self, dtype):
        (output,) = ops.session(make_model(dtype, ["n", 3, 8, 9])).get_outputs()
        assert output.type == {np.float32: "tensor(float)", np.float64: "tensor(double)"}[dtype]
        assert sizes(output) == ["n", 3, None, None] and output.shape[2] != output.shape[3]

    def test_no_two_unknown_sizes_are_taken_for_one(self):
        nodes = [helper.make_node("DynamicResize", ["x", "scales"], [name], domain="oplab") for name in "pq"]
        model = make_model(shape=["n", 3, 8, 9])
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "pq"]
        del model.graph.node[:], model.graph.output[:]
        model.graph.node.extend(nodes)
        model.graph.output.extend(outputs)
        names = [name for output in ops.session(model).get_outputs() for name in output.shape[2:]]
        names += [name for output in ops.session(model).get_outputs() for name in output.shape[2:]]
        assert len(set(names)) == 8

    def test_a_convolution_after_it_knows_its_rank(self):
        """Its channels, too; the sizes follow when it runs."""
        model = make_model(shape=["n", 3, 8, 9])
        model.graph.node[0].output[0] = "resized"
        model.graph.node.append(helper.make_node("Conv", ["resized", "w"], ["y"], pads=[1, 1, 1, 1]))
        weights = np.random.default_rng(0).normal(size=(5, 3, 3, 3)).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
        for optimize in (True, False):
            session = ops.session(model, optimize=optimize)
            (output,) = session.get_outputs()
            assert len(output.shape) == 4 and output.shape[:2] == ["n", 5]
            feed = images(8, 9, 1.5, 2)
            resized = torch.from_numpy(reference(**feed))
            expected = torch.nn.functional.conv2d(resized, torch.from_numpy(weights), padding=1)
            np.testing.assert_allclose(session.run(None, feed)[0], expected, rtol=1e-4, atol=1e-4)
