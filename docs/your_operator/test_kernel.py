"""ONNX Runtime's kernel alone: its values, bad input, and threads."""

import numpy as np
import pytest
from one_node import ATTRIBUTES, arrays, model, session
from rotated_roi_align import ort_library, reference


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("boxes", [0, 1, 50])
def test_it_computes_what_the_reference_does(dtype, boxes):
    given = arrays((boxes,), dtype)
    (got,) = session(model(dtype), ort_library).run(None, given)
    expected = reference.rotated_roi_align(**given, **ATTRIBUTES)
    assert got.dtype == dtype and got.shape == (boxes, 3, 3, 4)
    np.testing.assert_allclose(got, expected, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=1e-6)


def test_several_threads_compute_the_same_bits():
    given = arrays((200,))
    (expected,) = session(model(), ort_library, 1).run(None, given)
    for _ in range(3):
        (got,) = session(model(), ort_library, 4).run(None, given)
        assert got.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        (0, 2, r"rois\[1, 0\] must be the index of one of x's 2 images, but it is 2"),
        (0, -1, "must be the index"),
        (0, 0.5, "must be the index"),
        (1, np.nan, r"rois must be finite, but rois\[1, 1\] is nan"),
        (5, np.inf, "must be finite"),
        (3, -1, "must not have a negative size"),
    ],
)
def test_a_wrong_box_is_a_sentence(column, value, words):
    given, made = arrays((3,)), session(model(), ort_library)
    given["rois"][1, column] = value
    with pytest.raises(Exception, match=f"RotatedRoiAlign: .*{words}"):
        made.run(None, given)
    made.run(None, arrays((3,)))  # the session can be used again


def test_a_wrong_shape_is_a_sentence():
    given = {**arrays((3,)), "rois": np.zeros((3, 5), np.float32)}
    with pytest.raises(Exception, match=r"rois must be \[K, 6\], but its shape is \[3, 5\]"):
        session(model(), ort_library).run(None, given)


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"spatial_scale": 0.0}, "spatial_scale must be positive and finite, but it is 0"),
        ({"output_width": 0}, "output_width must be from 1 to 1024, but it is 0"),
        ({"output_height": 1000, "output_width": 1000}, "a box may have 1048576 samples"),
        ({"sampling_ratio": "text"}, "the attribute sampling_ratio must be an int"),
    ],
)
def test_a_wrong_attribute_is_a_sentence(attributes, words):
    with pytest.raises(Exception, match=f"RotatedRoiAlign: {words}"):
        session(model(**attributes), ort_library)
