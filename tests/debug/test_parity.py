"""Comparisons must be able to fail."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from oplab.parity.arrays import WrongAnswer, difference, expect_close, max_ulp

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def wrong(got, expected, **options):
    with pytest.raises(WrongAnswer) as caught:
        expect_close(got, expected, **options)
    return str(caught.value)


def test_equal_arrays_pass_and_report_their_error():
    assert expect_close(X.copy(), X).max_abs == 0
    assert expect_close(X + np.float32(1e-6), X).max_abs > 0
    assert expect_close(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)).total == 0


def test_shape_is_never_broadcast():
    assert "expected float32[3, 4], got float32[1, 4]" in wrong(X[:1], X)
    assert "got float32[]" in wrong(np.float32(1).reshape(()), X)


def test_dtype_has_to_agree():
    assert "expected float32[3, 4], got float64[3, 4]" in wrong(X.astype(np.float64), X)


def test_the_first_bad_index_both_values_and_both_errors_are_named():
    got = X.copy()
    got[1, 2] += 1
    got[2, 0] += 2
    message = wrong(got, X)
    assert "2 of 12 elements differ; first at [1, 2] expected 0.1818182, got 1.181818" in message
    assert "Largest error 2 absolute" in message


def test_nan_is_wrong_unless_it_is_expected():
    got = X.copy()
    got[0, 0] = np.nan
    assert "got nan" in wrong(got, X)
    assert "expected nan" in wrong(X, got)
    assert expect_close(got, got.copy()).bad == 0


def test_infinities_need_their_sign():
    inf = np.array([np.inf], np.float32)
    assert expect_close(inf, inf).bad == 0
    assert "expected -inf, got inf" in wrong(inf, -inf)
    assert "expected inf, got 1" in wrong(np.array([1], np.float32), inf)


def test_integers_and_booleans_are_exact():
    expect_close(np.array([1, 2]), np.array([1, 2]))
    assert "expected 2, got 3" in wrong(np.array([1, 3]), np.array([1, 2]))
    assert "expected True, got False" in wrong(np.array([False]), np.array([True]))
    big = np.array([2**62 + 1])
    assert "1 of 1" in wrong(big, big - 1)


def test_a_likely_cause_is_added_when_it_fits():
    a, b = X, X[::-1].copy()
    causes = {"The result is 2a + b; this course's my_add is 3a + 2b.": 2 * a + b}
    assert "The result is 2a + b" in wrong(2 * a + b, 3 * a + 2 * b, likely=causes)
    assert "2a + b" not in wrong(a, 3 * a + 2 * b, likely=causes)


def test_a_likely_cause_of_integers_has_to_be_exact():
    large = np.array([2**53, 7])
    assert "one less" not in wrong(large, large + 1, likely={"The result is one less": large - 1})
    assert "one less" in wrong(large - 1, large + 1, likely={"The result is one less": large - 1})


def test_half_precision_has_its_own_tolerance():
    half = X.astype(np.float16)
    expect_close(half * np.float16(1.002), half)
    assert "elements differ" in wrong(half * np.float16(1.05), half)


def test_the_relative_error_is_told_of_values_that_are_not_nearly_zero():
    expected = np.array([1e-17, 2.0], np.float64)
    assert difference(expected, np.array([0.5, 2.5]), 1e-6, 1e-6).max_rel == 0.25
    with pytest.raises(WrongAnswer, match=r"Largest error 0\.5 absolute \(allowed"):
        expect_close(np.array([0.5]), np.array([0.0]), name="y")


class TestUlp:
    @pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
    def test_values_next_to_each_other_signs_zeros_infinity_and_nan(self, dtype):
        for value in (0.0, 1.0, -1.0, 3.7, 1e-3, np.finfo(dtype).max, np.finfo(dtype).tiny):
            one = np.array([value], dtype)
            below = np.nextafter(one, dtype(-np.inf))
            assert max_ulp(one, below) == 1
            assert max_ulp(below, one) == 1
            assert max_ulp(one, np.nextafter(below, dtype(-np.inf)) if below > -np.inf else one) == 2
        zero, least = np.array([0.0], dtype), np.array([np.finfo(dtype).smallest_subnormal], dtype)
        assert max_ulp(zero, -zero) == 0
        assert max_ulp(-zero, least) == 1
        assert max_ulp(-least, least) == 2

        inf, nan, one = (np.array([value], dtype) for value in (np.inf, np.nan, 1))
        assert max_ulp(inf, inf) == max_ulp(nan, nan) == max_ulp(nan, -nan) == 0
        for left, right in ((inf, -inf), (inf, one), (nan, one), (nan, inf), (np.array([np.finfo(dtype).max]), inf)):
            assert max_ulp(left.astype(dtype), right) == max_ulp(right, left.astype(dtype)) == np.inf

    def test_the_largest_counts_in_any_layout(self):
        got = X.copy()
        got[1, 2] = np.nextafter(np.nextafter(got[1, 2], np.float32(9)), np.float32(9))
        assert max_ulp(X, got) == max_ulp(X.T, got.T) == max_ulp(X[:, ::2], got[:, ::2]) == 2
        assert max_ulp(np.float32(1).reshape(()), np.float32(1).reshape(())) == 0
        assert max_ulp(X[:0], X[:0]) == 0


def test_importing_the_comparisons_is_light():
    heavy = ("torch", "onnx", "onnxruntime", "oplab.parity.backends")
    code = f"import sys, oplab.parity.arrays; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=180)
    assert done.stdout.strip() == "[]", done.stderr
