"""``oplab::DeformConv2d`` against ONNX Runtime's own DeformConv and a reference in Python; torchvision where it is there."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from oplab import ops
from oplab.toolchain import build

ONNX_TYPES = {np.float32: TensorProto.FLOAT, np.float64: TensorProto.DOUBLE}
INPUTS = ("X", "W", "offset", "B", "mask")


@pytest.fixture(scope="module", autouse=True)
def compiled():
    build.build_all(say=lambda line: None)


def make_model(inputs=INPUTS, dtype=np.float32, shapes: dict | None = None, standard: bool = False, **attributes):
    """One node; ``standard`` makes it ONNX's own DeformConv."""
    kind = ONNX_TYPES[dtype]
    name, domain = ("DeformConv", "") if standard else ("DeformConv2d", "oplab")
    ends = [helper.make_tensor_value_info(each, kind, (shapes or {}).get(each)) for each in inputs if each]
    node = helper.make_node(name, list(inputs), ["Y"], domain=domain, **attributes)
    graph = helper.make_graph([node], "g", ends, [helper.make_tensor_value_info("Y", kind, None)])
    opsets = [helper.make_opsetid("", 19), helper.make_opsetid("oplab", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def make_feed(
    n=2,
    channels=4,
    size=(7, 6),
    out_channels=5,
    kernel=(3, 3),
    strides=(1, 1),
    pads=(1, 1, 1, 1),
    dilations=(1, 1),
    group=1,
    offset_group=1,
    dtype=np.float32,
    reach=1.5,
    seed=0,
) -> tuple[dict[str, np.ndarray], dict]:
    """The five inputs, and the node's attributes. Offsets have the standard deviation ``reach``, in pixels."""
    random = np.random.default_rng([seed, n, channels, *size, out_channels, *kernel, group, offset_group])
    out = [(size[k] + pads[k] + pads[k + 2] - dilations[k] * (kernel[k] - 1) - 1) // strides[k] + 1 for k in range(2)]
    taps = kernel[0] * kernel[1]
    feed = {
        "X": random.standard_normal((n, channels, *size)),
        "W": random.standard_normal((out_channels, channels // group, *kernel)),
        "offset": random.normal(0, reach, (n, offset_group * taps * 2, *out)),
        "B": random.standard_normal(out_channels),
        "mask": random.uniform(0, 1, (n, offset_group * taps, *out)),
    }
    attributes = {
        "strides": strides,
        "pads": pads,
        "dilations": dilations,
        "group": group,
        "offset_group": offset_group,
    }
    return {name: value.astype(dtype) for name, value in feed.items()}, attributes


def reference(
    X, W, offset, B=None, mask=None, *, strides=(1, 1), pads=(0,) * 4, dilations=(1, 1), group=1, offset_group=1
):
    """The formula of ONNX's DeformConv-19, in double, one output value after the other."""
    (n, channels, height, width), (out_channels, depth, kernel_h, kernel_w) = X.shape, W.shape
    out_h, out_w = offset.shape[2:]
    taps = kernel_h * kernel_w
    shift = offset.astype(np.float64).reshape(n, offset_group, taps, 2, out_h, out_w)
    scale = (
        np.ones((n, offset_group, taps, out_h, out_w))
        if mask is None
        else mask.reshape(n, offset_group, taps, out_h, out_w)
    )
    padded = np.zeros((n, channels, height + 2, width + 2))  # one ring of zeros: what a sample on the border mixes in
    padded[:, :, 1:-1, 1:-1] = X
    y = np.zeros((n, out_channels, out_h, out_w))
    for i, tap, row, column in itertools.product(range(n), range(taps), range(out_h), range(out_w)):
        sampled = np.zeros(channels)
        for c in range(channels):
            g = c // (channels // offset_group)
            at_y = row * strides[0] - pads[0] + tap // kernel_w * dilations[0] + shift[i, g, tap, 0, row, column]
            at_x = column * strides[1] - pads[1] + tap % kernel_w * dilations[1] + shift[i, g, tap, 1, row, column]
            if -1 < at_y < height and -1 < at_x < width:
                top, left = int(np.floor(at_y)), int(np.floor(at_x))
                down, right = at_y - top, at_x - left
                corners = padded[i, c, top + 1 : top + 3, left + 1 : left + 3]
                sampled[c] = np.array([1 - down, down]) @ corners @ np.array([1 - right, right])
            sampled[c] *= scale[i, g, tap, row, column]
        kernel = W[:, :, tap // kernel_w, tap % kernel_w]
        for k in range(out_channels):
            g = k // (out_channels // group)
            y[i, k, row, column] += kernel[k] @ sampled[g * depth : (g + 1) * depth]
    return y if B is None else y + B.reshape(1, -1, 1, 1)


def ours(feed, threads: int | None = None, inputs=None, **attributes) -> np.ndarray:
    model = make_model(inputs or tuple(feed), feed["X"].dtype.type, **attributes)
    (y,) = ops.session(model, threads=threads).run(None, feed)
    return y


def standard(feed, **attributes) -> np.ndarray:
    model = make_model(
        tuple(name if name in feed else "" for name in INPUTS), feed["X"].dtype.type, standard=True, **attributes
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feed)[0]


def close(y: np.ndarray, expected: np.ndarray, dtype=None) -> None:
    """Within the rounding of as many products as one output value sums."""
    assert y.shape == expected.shape
    tolerance = 3e-5 if (dtype or y.dtype) == np.float32 else 1e-12
    np.testing.assert_allclose(y, expected, rtol=tolerance, atol=tolerance * max(1.0, np.abs(expected).max(initial=0)))


CASES = {
    "plain": {},
    "one pixel": {"size": (1, 1), "kernel": (1, 1), "pads": (0, 0, 0, 0), "n": 1},
    "one channel": {"channels": 1, "out_channels": 1},
    "strides": {"strides": (2, 3), "size": (11, 13)},
    "dilations": {"dilations": (2, 3), "size": (11, 13)},
    "pads differ": {"pads": (0, 1, 2, 3)},
    "no pads": {"pads": (0, 0, 0, 0)},
    "flat kernel": {"kernel": (1, 4), "pads": (0, 1, 0, 2)},
    "even kernel": {"kernel": (2, 4)},
    "groups": {"group": 2, "channels": 6, "out_channels": 4},
    "depthwise": {"group": 6, "channels": 6, "out_channels": 12},
    "offset groups": {"offset_group": 3, "channels": 6},
    "groups of both kinds": {"group": 2, "offset_group": 3, "channels": 6, "out_channels": 4},
    "more channels than one run": {"channels": 150, "out_channels": 37, "size": (5, 4), "n": 1},
    "more pixels than one tile": {"size": (13, 11), "channels": 3, "out_channels": 2},
    "far away": {"reach": 30.0},
    "all differ": {
        "group": 2,
        "offset_group": 2,
        "channels": 4,
        "out_channels": 6,
        "kernel": (3, 2),
        "strides": (2, 1),
        "pads": (2, 0, 1, 1),
        "dilations": (1, 2),
        "size": (9, 8),
    },
}


class TestValues:
    @pytest.mark.parametrize("case", CASES)
    @pytest.mark.parametrize("dtype", ONNX_TYPES, ids=lambda dtype: dtype.__name__)
    def test_all_three_agree(self, dtype, case: str):
        feed, attributes = make_feed(**CASES[case], dtype=dtype)
        y = ours(feed, **attributes)
        assert y.dtype == dtype
        close(y, reference(**feed, **attributes))
        close(y, standard(feed, **attributes))

    @pytest.mark.parametrize(
        "case", [name for name, sizes in CASES.items() if name != "pads differ" and "all" not in name]
    )
    def test_torchvision(self, case: str):
        import torch
        import torchvision

        sizes = {**CASES[case]}
        if len(set(sizes.get("pads", ()))) > 1:
            sizes["pads"] = (1, 1, 1, 1)  # torchvision pads both sides alike
        feed, attributes = make_feed(**sizes)
        tensors = {name: torch.from_numpy(value) for name, value in feed.items()}
        expected = torchvision.ops.deform_conv2d(
            tensors["X"],
            tensors["offset"],
            tensors["W"],
            tensors["B"],
            stride=attributes["strides"],
            padding=attributes["pads"][:2],
            dilation=attributes["dilations"],
            mask=tensors["mask"],
        )
        close(ours(feed, **attributes), expected.numpy())

    def test_no_offset_is_a_convolution(self):
        feed, attributes = make_feed()
        feed["offset"][:], feed["mask"][:] = 0, 1
        attributes.pop("offset_group")
        graph = make_model(tuple(feed), **attributes).graph
        node = helper.make_node("Conv", ["X", "W", "B"], ["Y"], **attributes)
        plain = helper.make_graph([node], "g", [end for end in graph.input if end.name in "XWB"], graph.output)
        model = helper.make_model(plain, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        close(ours(feed, **attributes), session.run(None, {name: feed[name] for name in "XWB"})[0])

    @pytest.mark.parametrize(
        "inputs", [INPUTS[:3], INPUTS[:4], ("X", "W", "offset", "", "mask"), (*INPUTS[:3], "", ""), (*INPUTS[:4], "")]
    )
    def test_inputs_left_out(self, inputs: tuple):
        feed, attributes = make_feed()
        feed = {name: feed[name] for name in inputs if name}
        close(ours(feed, inputs=inputs, **attributes), reference(**feed, **attributes))

    def test_the_defaults(self):
        feed, _ = make_feed(pads=(0, 0, 0, 0))
        close(ours(feed), reference(**feed))
        close(ours(feed, kernel_shape=[3, 3]), standard(feed, kernel_shape=[3, 3]))

    @pytest.mark.parametrize("n", [0, 1])
    def test_no_image_at_all(self, n: int):
        feed, attributes = make_feed(n=n)
        assert ours(feed, **attributes).shape == (n, 5, 7, 6)

    def test_the_same_bits_with_any_number_of_threads(self):
        for sizes in (
            {"size": (40, 41), "channels": 20, "out_channels": 33},
            {**CASES["groups of both kinds"], "n": 5},
        ):
            feed, attributes = make_feed(**sizes)
            one, *others = (ours(feed, threads=threads, **attributes) for threads in (1, 2, 3, 8))
            for other in others:
                np.testing.assert_array_equal(one, other)


class TestOddNumbers:
    def test_a_nan_in_an_offset_reaches_its_own_pixel_only(self):
        feed, attributes = make_feed(n=1)
        feed["offset"][0, 4, 2, 3] = np.nan
        y = ours(feed, **attributes)
        assert np.isnan(y[0, :, 2, 3]).all() and np.isnan(y).sum() == y.shape[1]

    def test_infinity_in_an_offset_looks_outside(self):
        feed, attributes = make_feed(n=1)
        for value in (np.inf, -np.inf, 3e38, -3e38):
            feed["offset"][0, 5, 1, 1] = value
            close(ours(feed, **attributes), reference(**feed, **attributes))

    def test_a_nan_outside_the_samples_does_not_count(self):
        feed, attributes = make_feed(n=1, size=(8, 8), pads=(1, 1, 1, 1))
        feed["X"][0, :, 0, 0] = np.nan
        feed["offset"][:] = 0.5
        y = ours(feed, **attributes)
        assert (
            np.isnan(y[0, 0, :2, :2]).all() and np.isfinite(y[0, :, 2:, :]).all() and np.isfinite(y[0, :, :, 2:]).all()
        )

    def test_far_outside_is_the_bias(self):
        feed, attributes = make_feed()
        feed["offset"][:] = 1e9
        np.testing.assert_array_equal(ours(feed, **attributes), np.broadcast_to(feed["B"][:, None, None], (2, 5, 7, 6)))


class TestRefused:
    @pytest.mark.parametrize(
        ("attributes", "words"),
        [
            ({"strides": [1]}, "the attribute strides must have 2 values, but it is [1]."),
            (
                {"strides": [1, 0]},
                "each value of the attribute strides must be between 1 and 2147483647, but it is [1, 0].",
            ),
            ({"strides": [-1, 1]}, "each value of the attribute strides"),
            ({"strides": [1 << 40, 1]}, "each value of the attribute strides"),
            ({"dilations": [1, 1, 1]}, "the attribute dilations must have 2 values"),
            ({"dilations": [0, 1]}, "each value of the attribute dilations"),
            ({"pads": [1, 1]}, "the attribute pads must have 4 values, but it is [1, 1]."),
            ({"pads": [0, 0, 0, -1]}, "each value of the attribute pads must be between 0"),
            ({"kernel_shape": [3]}, "the attribute kernel_shape must have 2 values"),
            ({"kernel_shape": [3, -3]}, "each value of the attribute kernel_shape"),
            ({"group": 0}, "the attribute group must be between 1 and 2147483647, but it is 0."),
            ({"group": -(1 << 63)}, "the attribute group"),
            ({"offset_group": -1}, "the attribute offset_group must be between 1"),
            ({"group": 1.0}, "the attribute group must be an int"),
            ({"strides": 1}, "the attribute strides must be a list of ints"),
            ({"pads": [0.0, 0.0, 0.0, 0.0]}, "the attribute pads must be a list of ints"),
            ({"pads": "same"}, "the attribute pads must be a list of ints"),
        ],
    )
    def test_attributes_when_the_session_is_made(self, attributes: dict, words: str):
        with pytest.raises(Exception) as caught:
            ops.session(make_model(**attributes))
        assert f"DeformConv2d: {words}" in str(caught.value)

    @pytest.mark.parametrize(
        ("changed", "attributes", "words"),
        [
            ({"X": (2, 4, 7)}, {}, "X must have 4 dimensions [N, C, H, W], but its shape is [2, 4, 7]."),
            ({"W": (5, 4, 3)}, {}, "W must have 4 dimensions [oC, C/group, kH, kW], but its shape is [5, 4, 3]."),
            ({"X": ()}, {}, "X must have 4 dimensions"),
            (
                {"W": (5, 3, 3, 3)},
                {},
                "W must have 4 channels for each of the 1 groups of X's 4, but its shape is [5, 3, 3, 3].",
            ),
            ({"offset": (2, 18, 7, 5)}, {}, "offset must have the shape [2, 18, 7, 6], but it is [2, 18, 7, 5]."),
            ({"offset": (1, 18, 7, 6)}, {}, "offset must have the shape [2, 18, 7, 6]"),
            ({"offset": (2, 18)}, {}, "offset must have the shape"),
            ({"B": (4,)}, {}, "B must have the shape [5], but it is [4]."),
            ({"B": ()}, {}, "B must have the shape [5], but it is []."),
            ({"mask": (2, 18, 7, 6)}, {}, "mask must have the shape [2, 9, 7, 6], but it is [2, 18, 7, 6]."),
            (
                {"X": (2, 0, 7, 6)},
                {},
                "all sizes but N must be between 1 and 2147483647, but X is [2, 0, 7, 6] and W is",
            ),
            ({"W": (0, 4, 3, 3)}, {}, "all sizes but N"),
            ({}, {"group": 3}, "the attribute group must divide the channels of X and of the output, but group is 3"),
            ({}, {"group": 2}, "the attribute group must divide the channels"),
            (
                {},
                {"offset_group": 3},
                "the attribute offset_group must divide the channels of X, but offset_group is 3",
            ),
            ({}, {"kernel_shape": [3, 2]}, "the attribute kernel_shape is [3, 2], but W is [5, 4, 3, 3]."),
            (
                {},
                {"dilations": [9, 1]},
                "the kernel does not fit into the image: along the height the image has 7, the pads have 2 and the dilated kernel has 19.",
            ),
            ({}, {"dilations": [1, 2147483647]}, "the kernel does not fit into the image: along the width"),
            ({}, {"pads": [2147483647] * 4}, "the sizes are too large: "),
            ({}, {"strides": [2, 1]}, "offset must have the shape [2, 18, 4, 6], but it is [2, 18, 7, 6]."),
        ],
    )
    def test_shapes_when_it_runs(self, changed: dict, attributes: dict, words: str):
        feed, others = make_feed()
        feed |= {name: np.zeros(shape, np.float32) for name, shape in changed.items()}
        session = ops.session(make_model(**{**others, **attributes}))
        with pytest.raises(Exception) as caught:
            session.run(None, feed)
        assert f"DeformConv2d: {words}" in str(caught.value), caught.value
        assert type(caught.value).__name__ == "InvalidArgument"

    @pytest.mark.parametrize(
        "inputs", [("X", "W"), ("X",), ("X", "", "offset"), (*INPUTS, "more"), ("", "W", "offset")]
    )
    def test_inputs_missing_or_too_many(self, inputs: tuple):
        with pytest.raises(Exception, match="input size|marked single|Node with schema"):
            ops.session(make_model(inputs))

    def test_dtypes_that_differ(self):
        model = make_model()
        model.graph.input[2].type.tensor_type.elem_type = TensorProto.DOUBLE
        with pytest.raises(Exception, match="DeformConv2d"):
            ops.session(model)


@pytest.mark.parametrize("dtype", ONNX_TYPES, ids=lambda dtype: dtype.__name__)
def test_named_dimensions_reach_the_output(dtype):
    shapes = {"X": ["n", 4, "h", "w"], "W": [5, 4, 3, 3], "offset": ["n", 18, "oh", "ow"]}
    (output,) = ops.session(make_model(INPUTS[:3], dtype, shapes)).get_outputs()
    assert output.shape == ["n", 5, "oh", "ow"]
    assert output.type == f"tensor({'float' if dtype is np.float32 else 'double'})"
    assert onnx.helper.tensor_dtype_to_np_dtype(ONNX_TYPES[dtype]) == dtype
