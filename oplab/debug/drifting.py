"""The difference of two corresponding values, on a scale that does not depend on their magnitude."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# What rounding alone may do to a value deep inside a model, relative to the largest magnitude in the tensor. A float16 has 11 bits.
TOLERANCE = {"float16": 2e-2, "bfloat16": 1e-1, "float32": 1e-3, "float64": 1e-8}


@dataclass(frozen=True)
class Drift:
    """The difference of an array from the expected one.

    Attributes:
        error: largest absolute difference, divided by the largest finite magnitude that was expected; inf if shapes differ, or NaN or
            infinities are not in the same places.
        tolerance: the largest allowed error, that of the coarser dtype.
        reason: a sentence about what differs, or "".
    """

    error: float
    tolerance: float
    reason: str

    @property
    def bad(self) -> bool:
        """Whether the error is above the tolerance."""
        return not self.error <= self.tolerance


def drift(expected: np.ndarray, got: np.ndarray, tolerance: float | None = None) -> Drift:
    """Compare two corresponding values of two models.

    A float16 may correspond to a float32: dtypes of one kind are compared by value, with the tolerance of the coarser one.

    Args:
        expected: an array of the reference, of any dtype and shape.
        got: the array of the model under test.
        tolerance: of the error, by default that of :data:`TOLERANCE`, 0 for integers and booleans.
    """
    if tolerance is None:
        found = [TOLERANCE.get(str(array.dtype), 0.0) for array in (expected, got)]
        tolerance = max(found)
    if expected.shape != got.shape:
        return Drift(float("inf"), tolerance, f"the shape is {list(got.shape)} instead of {list(expected.shape)}")
    if expected.dtype.kind in "OSU" or got.dtype.kind in "OSU":
        same = bool(np.array_equal(expected, got))
        return Drift(0.0 if same else float("inf"), tolerance, "" if same else "the strings differ")
    kinds = {"f" if array.dtype.kind in "fV" else "i" for array in (expected, got)}
    if len(kinds) == 2:
        return Drift(float("inf"), tolerance, f"the dtype is {got.dtype} instead of {expected.dtype}")
    if not expected.size:
        return Drift(0.0, tolerance, "")
    left, right = expected.astype(np.float64), got.astype(np.float64)
    finite = np.isfinite(left) & np.isfinite(right)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    odd = ~(finite | same)
    if odd.any():
        at = tuple(int(i) for i in np.argwhere(odd)[0])
        return Drift(
            float("inf"), tolerance, f"{odd.sum()} of {odd.size} values are {right[at]:.3g} instead of {left[at]:.3g}"
        )
    scale = np.abs(left[finite]).max(initial=0.0)
    gap = np.abs(left[finite] - right[finite]).max(initial=0.0)
    # If all of the reference is zero there is no scale: the difference itself is then the error.
    error = float(gap / scale) if scale > 0 else float(gap)
    return Drift(
        error,
        tolerance,
        "" if error <= tolerance else f"the largest difference is {gap:.2g} at values up to {scale:.2g}",
    )
