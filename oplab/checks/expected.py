"""What a result has to be, and what known mistakes would give: functions of the inputs, which only a wrong result calls.

An :class:`Expected` belongs to the judge alone: ``collect_NAME`` must not reach it (:mod:`oplab.grading.split_check`).
``tests/grading/test_causes.py`` gives each mistake to the judge as the result, and demands its sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from oplab.parity.arrays import TOLERANCE, WrongAnswer, difference, expect_close


@dataclass(frozen=True)
class Expected:
    """The right result and the known mistakes of an exercise.

    Attributes:
        right: computes the result.
        mistakes: what a mistake computes, by the sentence that names it. The first that fits is told.
        explain: a sentence on a result that no mistake gives, from the result, the right one and the inputs; it may be empty.
        tolerance: rtol and atol by dtype, where they are not the usual ones.
        wide: all functions get the inputs in float64, and what they return is rounded once to the dtype of the first input.
    """

    right: Callable[..., np.ndarray]
    mistakes: Mapping[str, Callable[..., np.ndarray]]
    explain: Callable[..., str] = lambda got, right, *inputs: ""
    tolerance: Mapping[str, tuple[float, float]] | None = None
    wide: bool = True

    def result(self, function: Callable[..., np.ndarray], *inputs: np.ndarray) -> np.ndarray:
        """What ``right`` or a mistake gives for these inputs."""
        with np.errstate(all="ignore"):
            if not self.wide:
                return np.asarray(function(*inputs))
            return np.asarray(function(*(x.astype(np.float64) for x in inputs))).astype(inputs[0].dtype)

    def judge(self, got: np.ndarray, *inputs: np.ndarray, name: str) -> None:
        """Demand the right result of these inputs; ``name`` is what a message calls it.

        Raises:
            WrongAnswer: it is another one; with the sentence of the mistake that gives it.
        """
        right = self.result(self.right, *inputs)
        rtol, atol = (TOLERANCE | dict(self.tolerance or {})).get(str(right.dtype), (0.0, 0.0))
        try:
            expect_close(got, right, name=name, rtol=rtol, atol=atol)
        except WrongAnswer as error:
            fits = got.shape == right.shape and got.dtype == right.dtype
            raise WrongAnswer(
                f"{error} {self._cause(got, right, inputs, rtol, atol) if fits else ''}".rstrip()
            ) from None

    def _cause(self, got: np.ndarray, right: np.ndarray, inputs: Sequence[np.ndarray], rtol: float, atol: float) -> str:
        for sentence, mistake in self.mistakes.items() if got.size > 1 else ():  # one number fits too many formulas
            wrong = self.result(mistake, *inputs)
            if not difference(wrong, got, rtol, atol).bad and difference(wrong, right, rtol, atol).bad:
                return sentence
        if found := self.explain(got, right, *inputs):
            return found
        if got.dtype == np.float64 and not difference(right, got, 1e-5, 1e4 * atol).bad:
            return "The numbers are right to about 7 digits, as if something were a float32."
        return ""
