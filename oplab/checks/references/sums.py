"""alpha * a + beta * b and its gradients, with known mistakes: shared by chapters 07, 08, 12 and 18."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from oplab.parity.arrays import expect_close

Weights = tuple[float | None, float | None]
DEFAULTS = (3.0, 2.0)
ROUNDED = "The coefficients have passed through float32; they are doubles."


def weights_of(given: Weights, others: tuple[float, float] = DEFAULTS) -> tuple[float, float]:
    """alpha and beta: those given, and ``others`` for None."""
    alpha, beta = (other if weight is None else weight for weight, other in zip(given, others, strict=True))
    return alpha, beta


def mistaken_sums(a: np.ndarray, b: np.ndarray, given: Weights, *, double: bool = False) -> dict[str, np.ndarray]:
    """What known mistakes give, in float64, by their sentence.

    Args:
        a, b: arrays that broadcast.
        given: alpha and beta; None is left out.
        double: the operator's coefficients are doubles.
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    alpha, beta = weights_of(given)
    chosen: dict[str, tuple[float, float]] = {
        "alpha and beta are swapped.": (beta, alpha),
        "alpha and beta are ignored: this is 3 * a + 2 * b.": DEFAULTS,
        "alpha and beta have lost their fraction: they are floats.": (float(int(alpha)), float(int(beta))),
    }
    if (alpha == 0) != (beta == 0):
        chosen["A coefficient of 0 is a value, and not one that is left out."] = (given[0] or 3.0, given[1] or 2.0)
    for others in ((0.0, 0.0), (1.0, 1.0), (2.0, 1.0)) if None in given else ():
        sentence = (
            f"What is left out is alpha = 3 or beta = 2; here it is alpha = {others[0]:g} or beta = {others[1]:g}."
        )
        chosen[sentence] = weights_of(given, others)
    if double:
        chosen[ROUNDED] = (float(np.float32(alpha)), float(np.float32(beta)))
    with np.errstate(invalid="ignore"):
        found = {sentence: p * a + q * b for sentence, (p, q) in chosen.items()}
        if (alpha == 0) != (beta == 0) and not np.isfinite(a * b).all():
            found["A term was left out since its coefficient is 0: 0 times NaN is NaN."] = (
                beta * b if alpha == 0 else alpha * a
            )
    return found


def expect_gradient(
    got: np.ndarray,
    name: str,
    weights: tuple[float, float],
    upstream: np.ndarray,
    called: str = "",
    likely: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Demand the gradient of a or b: its weight times the incoming gradient, which is summed to its shape already.

    Raises:
        WrongAnswer: it is another one; ``likely`` are more known mistakes.
    """
    own, other = weights if name == "a" else weights[::-1]
    coefficient, default = ("alpha", 3.0) if name == "a" else ("beta", 2.0)
    mistakes = {
        f"The coefficient is missing: it is {coefficient} times the incoming gradient.": upstream,
        "alpha and beta are swapped.": other * upstream,
        "3 and 2 are the defaults: this call had other coefficients.": default * upstream,
        "The incoming gradient is not used: this is right for a sum only.": np.full_like(upstream, own),
        ROUNDED: float(np.float32(own)) * upstream,
        "Both coefficients were applied: the incoming gradient was changed in place by the first.": (
            own * other * upstream
        ),
    }
    right = np.asarray(own * upstream, upstream.dtype)
    expect_close(got, right, name=f"{called}the gradient of {name}", likely={**mistakes, **(likely or {})})


def expect_gradients_apart(
    found: Sequence[np.ndarray], numbers: Sequence[tuple[float, float]], upstream: np.ndarray
) -> None:
    """The gradients of a and b of two calls whose backward comes after both: of the first, of the second, of the first again."""
    for number, got in enumerate(found):
        call, place = (0, 1, 0)[number // 2], number % 2
        likely = {
            "These are the coefficients of the other call: keep them in ctx, which belongs to one call.": (
                numbers[1 - call][place] * upstream
            )
        }
        which = ("the first call", "the second call", "the first call, once more")[number // 2]
        name = f"two calls, then their gradients: {which}, the gradient of {'ab'[place]}"
        expect_close(got, numbers[call][place] * upstream, name=name, likely=likely)
