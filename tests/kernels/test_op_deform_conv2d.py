"""``oplab::DeformConv2d`` against ONNX Runtime's own DeformConv and a reference in Python."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from oplab import ops
from tests.support.deform_conv2d import CASES, INPUTS, close, make_feed, make_model, ours, reference, standard
from tests.support.dtypes import DTYPES

pytestmark = pytest.mark.usefixtures("compiled")


class TestValues:
    @pytest.mark.parametrize("case", CASES)
    @DTYPES
    def test_all_three_agree(self, dtype, case: str):
        feed, attributes = make_feed(**CASES[case], dtype=dtype)
        y = ours(feed, **attributes)
        assert y.dtype == dtype
        close(y, reference(**feed, **attributes))
        close(y, standard(feed, **attributes))

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
                "each value of the attribute strides must be between 1 and 536870912, but it is [1, 0].",
            ),
            ({"strides": [1 << 40, 1]}, "each value of the attribute strides"),
            ({"dilations": [0, 1]}, "each value of the attribute dilations"),
            ({"pads": [1, 1]}, "the attribute pads must have 4 values, but it is [1, 1]."),
            ({"pads": [0, 0, 0, -1]}, "each value of the attribute pads must be between 0"),
            ({"kernel_shape": [3]}, "the attribute kernel_shape must have 2 values"),
            ({"group": 0}, "the attribute group must be between 1 and 536870912, but it is 0."),
            ({"offset_group": -1}, "the attribute offset_group must be between 1"),
            ({"group": 1.0}, "the attribute group must be an int"),
            ({"strides": 1}, "the attribute strides must be a list of ints"),
            ({"pads": [0.0, 0.0, 0.0, 0.0]}, "the attribute pads must be a list of ints"),
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
            (
                {"W": (5, 3, 3, 3)},
                {},
                "W must have 4 channels for each of the 1 groups of X's 4, but its shape is [5, 3, 3, 3].",
            ),
            ({"offset": (2, 18, 7, 5)}, {}, "offset must have the shape [2, 18, 7, 6], but it is [2, 18, 7, 5]."),
            ({"B": (4,)}, {}, "B must have the shape [5], but it is [4]."),
            ({"mask": (2, 18, 7, 6)}, {}, "mask must have the shape [2, 9, 7, 6], but it is [2, 18, 7, 6]."),
            (
                {"X": (2, 0, 7, 6)},
                {},
                "all sizes but N must be between 1 and 536870912, but X is [2, 0, 7, 6] and W is",
            ),
            ({}, {"group": 3}, "the attribute group must divide the channels of X and of the output, but group is 3"),
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
            ({}, {"pads": [536870912] * 4}, "offset must have the shape [2, 18, 1073741829, 1073741828], but it is"),
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


def test_named_dimensions_reach_the_output():
    shapes = {"X": ["n", 4, "h", "w"], "W": [5, 4, 3, 3], "offset": ["n", 18, "oh", "ow"]}
    (output,) = ops.session(make_model(INPUTS[:3], np.float64, shapes)).get_outputs()
    assert (output.type, output.shape) == ("tensor(double)", ["n", 5, "oh", "ow"])
