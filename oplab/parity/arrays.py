"""Comparisons of arrays that can fail, with messages written for learners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from oplab.errors import WrongAnswer

# Relative and absolute tolerance by dtype: a few rounding errors of a short chain of operations.
TOLERANCE = {
    "float16": (1e-2, 1e-3),
    "float32": (1e-4, 1e-5),
    "float64": (1e-9, 1e-10),
}


@dataclass(frozen=True)
class Difference:
    """The difference of two arrays of one shape and dtype.

    Attributes:
        max_abs: largest absolute difference; inf if one element is finite and the other is not.
        max_rel: largest absolute difference divided by the expected magnitude, where that is above atol; NaN if it is nowhere.
        bad: the number of elements outside the tolerance.
        total: the number of elements.
        first: index of the first bad element, or None.
    """

    max_abs: float
    max_rel: float
    bad: int
    total: int
    first: tuple[int, ...] | None


def difference(expected: np.ndarray, got: np.ndarray, rtol: float, atol: float) -> Difference:
    """Measure two arrays of one shape: an element is bad when ``|got - expected| > atol + rtol * |expected|``.

    NaN equals NaN: the caller decides whether NaN is expected. Infinities are equal when their signs are.

    Args:
        expected, got: arrays of one shape, of any dtype; dtypes other than floats and complex numbers have to be equal exactly.
    """
    if expected.shape != got.shape:
        raise ValueError(f"shapes differ: {expected.shape} and {got.shape}")
    total = expected.size
    if total == 0:
        return Difference(0.0, 0.0, 0, 0, None)
    if expected.dtype.kind not in "fc":
        bad_mask = expected != got
        gap = (
            np.abs(expected.astype(np.float64) - got.astype(np.float64))
            if expected.dtype.kind in "iub"
            else bad_mask * 1.0
        )
        scale = np.maximum(np.abs(expected.astype(np.float64)), 1.0) if expected.dtype.kind in "iub" else 1.0
    else:
        wide = np.complex128 if expected.dtype.kind == "c" else np.float64
        left, right = expected.astype(wide), got.astype(wide)
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.where(same, 0.0, np.abs(left - right))
        gap = np.where(np.isnan(gap), np.inf, gap)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            scale = np.where(np.isfinite(left), np.abs(left), 1.0)
            bad_mask = gap > atol + rtol * scale
        scale = np.maximum(scale, np.finfo(np.float64).tiny)
    bad = int(bad_mask.sum())
    first = tuple(int(i) for i in np.argwhere(bad_mask)[0]) if bad else None
    counted = np.broadcast_to(scale > atol, gap.shape)  # relative to a zero, every error is infinite
    with np.errstate(over="ignore"):
        max_rel = float((gap / scale)[counted].max()) if counted.any() else float("nan")
    return Difference(float(gap.max()), max_rel, bad, total, first)


def max_ulp(expected: np.ndarray, got: np.ndarray) -> float:
    """The largest distance of two float arrays of one shape and dtype, in units of the last place.

    It is the number of floats of that dtype from one value to the other, counted through zero where their signs differ
    (0.0 and -0.0 are 0 apart). NaN is 0 from NaN; NaN and infinity are infinitely far from every other value.

    Raises:
        ValueError: the arrays are not two floats of one dtype and shape.
    """
    if expected.shape != got.shape or expected.dtype != got.dtype or expected.dtype.kind != "f":
        raise ValueError(f"not two float arrays of one kind: {describe(expected)} and {describe(got)}")
    if not expected.size:
        return 0.0
    # Read as an integer, a positive float is its number among the positive floats; a negative one counts down from the
    # most negative integer.
    as_int = np.dtype(f"i{expected.dtype.itemsize}")
    places = []
    for array in (expected, got):
        raw = np.ascontiguousarray(array).view(as_int).astype(np.int64)
        places.append(np.where(raw < 0, np.iinfo(as_int).min - raw, raw))
    one, other = places
    with np.errstate(over="ignore"):  # only where the other branch is taken
        gap = np.where((one < 0) == (other < 0), np.abs(one - other).astype(np.float64), _size(one) + _size(other))
    nan = np.isnan(expected), np.isnan(got)
    with np.errstate(invalid="ignore"):
        same = (expected == got) | (nan[0] & nan[1])
    infinite = nan[0] | nan[1] | np.isinf(expected) | np.isinf(got)
    return float(np.where(same, 0.0, np.where(infinite, np.inf, gap)).max())


def _size(places: np.ndarray) -> np.ndarray:
    return np.abs(places.astype(np.float64))


def describe(value: Any) -> str:
    """``float32[2, 3]`` for an array or tensor, the type's name for anything else."""
    dtype, shape = getattr(value, "dtype", None), getattr(value, "shape", None)
    if dtype is None or shape is None:
        return type(value).__name__
    return f"{str(dtype).replace('torch.', '')}{list(shape)}"


def expect_close(
    got: np.ndarray,
    expected: np.ndarray,
    *,
    name: str = "the result",
    rtol: float | None = None,
    atol: float | None = None,
    likely: Mapping[str, np.ndarray] | None = None,
) -> Difference:
    """Demand that ``got`` equals ``expected``: dtype and shape exactly, values within a tolerance.

    Args:
        got: the result of the learner's answer.
        expected: the right result. NaN is accepted only where this is NaN.
        name: how the message calls the arrays.
        rtol, atol: tolerances; by default those of :data:`TOLERANCE` for the dtype, 0 for integers and booleans.
        likely: known wrong answers by their cause. The first is told whose array equals ``got`` and not
            ``expected``.

    Raises:
        WrongAnswer: the message names the expected and the actual value, and where they differ.
    """
    if got.dtype != expected.dtype or got.shape != expected.shape:
        raise WrongAnswer(
            f"{name}: expected {describe(expected)}, got {describe(got)}.{_cause(got, expected, likely, rtol, atol)}"
        )
    default = TOLERANCE.get(str(expected.dtype), (0.0, 0.0))
    rtol, atol = default[0] if rtol is None else rtol, default[1] if atol is None else atol
    found = difference(expected, got, rtol, atol)
    if found.bad:
        index = found.first
        at = f"at {list(index)} " if index else ""
        raise WrongAnswer(
            f"{name}: {found.bad} of {found.total} elements differ; first {at}expected {_number(expected[index])}, "
            f"got {_number(got[index])}. Largest error {found.max_abs:.3g} absolute"
            f"{'' if np.isnan(found.max_rel) else f', {found.max_rel:.3g} relative'} "
            f"(allowed {atol:.0e} + {rtol:.0e} of the value).{_cause(got, expected, likely, rtol, atol)}"
        )
    return found


def _cause(
    got: np.ndarray,
    expected: np.ndarray,
    likely: Mapping[str, np.ndarray] | None,
    rtol: float | None,
    atol: float | None,
) -> str:
    exact = got.dtype.kind not in "fc"  # a tolerance would make any two large integers alike
    tolerance = TOLERANCE.get(str(got.dtype), (1e-6, 1e-6))
    limits = tolerance[0] if rtol is None else rtol, tolerance[1] if atol is None else atol

    def same(one: np.ndarray, other: np.ndarray) -> bool:
        if one.shape != other.shape:
            return False
        if exact:
            return np.array_equal(one, other)
        return not difference(np.asarray(one, np.float64), np.asarray(other, np.float64), *limits).bad

    for cause, array in (likely or {}).items() if got.size else ():
        if same(array, got) and (array is got or got.dtype != expected.dtype or not same(array, expected)):
            return f" {cause}"
    return ""


def _number(value: Any) -> str:
    if isinstance(value, (np.bool_, bool)):
        return str(bool(value))
    if np.issubdtype(np.asarray(value).dtype, np.integer):
        return str(int(value))
    return f"{value:.7g}" if not np.iscomplexobj(value) else str(value)
