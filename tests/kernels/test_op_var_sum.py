"""``oplab::VarSum`` in ONNX Runtime: a variadic input, one or more tensors of one shape and type."""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest
from onnx import helper

from oplab import ops
from tests.support.dtypes import DTYPES
from tests.support.models import model_of

pytestmark = pytest.mark.usefixtures("compiled")


def make_model(inputs: list[str], dtype=np.float32, shape=None):
    """One node; a name may come twice among its inputs, and "" is an input that is left out."""
    node = helper.make_node("VarSum", inputs, ["y"], domain="oplab")
    types = dict.fromkeys(filter(None, inputs), dtype)
    return model_of([node], types, {"y": dtype}, dict.fromkeys(types, shape))


def feed_of(count: int, shape: tuple[int, ...], dtype=np.float32) -> dict[str, np.ndarray]:
    random = np.random.default_rng([count, *shape])
    return {f"x{i}": np.asarray(random.standard_normal(shape), dtype) for i in range(count)}


@pytest.mark.parametrize("count", [1, 2, 3, 7, 40])
@DTYPES
def test_from_left_to_right(dtype, count: int):
    for shape in ((), (1,), (0,), (2, 0, 3), (3, 4), (2, 1, 2, 1, 2), (10_007,)):
        feed = feed_of(count, shape, dtype)
        (y,) = ops.session(make_model(list(feed), dtype)).run(None, feed)
        assert y.dtype == dtype and y.shape == shape
        np.testing.assert_array_equal(y, functools.reduce(operator.add, feed.values()))


def test_the_same_bits_with_any_number_of_threads():
    feed = feed_of(5, (100_003,))
    one, *others = (ops.session(make_model(list(feed)), threads=threads).run(None, feed)[0] for threads in (1, 2, 5))
    for other in others:
        np.testing.assert_array_equal(one, other)


def test_an_input_twice():
    feed = feed_of(1, (5,))
    (y,) = ops.session(make_model(["x0", "x0", "x0"])).run(None, feed)
    np.testing.assert_array_equal(y, feed["x0"] + feed["x0"] + feed["x0"])


def test_named_dimensions_reach_the_output():
    (output,) = ops.session(make_model(["x0", "x1", "x2"], np.float64, ["rows", 3])).get_outputs()
    assert (output.type, output.shape) == ("tensor(double)", ["rows", 3])


class TestRefused:
    @pytest.mark.parametrize("shapes", [((2, 3), (3, 2)), ((), (1,))])
    def test_shapes_that_differ(self, shapes: tuple):
        session = ops.session(make_model(["x0", "x1", "x2"]))
        first, second = shapes
        feed = {f"x{i}": np.zeros(shape, np.float32) for i, shape in enumerate((first, first, second))}
        with pytest.raises(Exception) as caught:
            session.run(None, feed)
        words = (
            f"VarSum: all inputs must have the same shape, but input 0 is {list(first)} and input 2 is {list(second)}."
        )
        assert words in str(caught.value) and type(caught.value).__name__ == "InvalidArgument"
        assert session.run(None, feed_of(3, (4,)))[0].shape == (4,)  # the session goes on

    @pytest.mark.parametrize("inputs", [["x0", "", "x1"], ["x0", ""], [""]])
    def test_an_input_without_a_name(self, inputs: list[str]):
        # ONNX Runtime 1.31 finds it when the model is loaded, and numbers a variadic input's parts all alike.
        with pytest.raises(Exception, match="Input0 is absent, but not optional. Op : VarSum"):
            ops.session(make_model(inputs))
