"""The judge's side of a check: named checks of the evidence, and what part of the points a right answer gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from oplab.checks.draws import DIGEST, Draws, InputsDiffer
from oplab.checks.errors import LearnerError
from oplab.checks.evidence import Evidence
from oplab.parity.arrays import WrongAnswer


@dataclass(frozen=True)
class CheckResult:
    """One named check of an exercise. ``raised`` is set when the learner's own code failed, not its answer."""

    name: str
    passed: bool
    message: str
    raised: bool = False


class Enough(Exception):
    """A check has failed that those after it need: :meth:`Judge.require` leaves ``judge_NAME`` by it."""


class Judge(Evidence):
    """What a ``judge_…`` function works with: the evidence, the same inputs, and a list of named checks.

    Args:
        folder, digests: as for :class:`Evidence`, which raises the same exceptions.
        rng: a generator in the same state as the one that collect had.

    Attributes:
        rng: see above.
        results: the checks so far.
        share: what part of the points a right answer gets, and why not all: see :meth:`award`.
    """

    def __init__(self, folder: Path, rng: Draws, digests: Mapping[str, str] | None = None):
        super().__init__(folder, digests)
        self.rng = rng
        self.results: list[CheckResult] = []
        self.share: tuple[float, str] | None = None

    @contextmanager
    def check(self, name: str) -> Iterator[None]:
        """One named check: it fails when the block raises :class:`WrongAnswer`. Any other exception is the grader's own fault."""
        try:
            yield
        except LearnerError as error:
            self.results.append(CheckResult(name, False, str(error), raised=True))
        except WrongAnswer as error:
            self.results.append(CheckResult(name, False, str(error)))
        else:
            self.results.append(CheckResult(name, True, ""))

    @contextmanager
    def require(self, name: str) -> Iterator[None]:
        """A :meth:`check` that later ones need: where it or one before has failed, nothing is checked after it.

        Raises:
            Enough: that is so.
        """
        with self.check(name):
            yield
        if not self.ok:
            raise Enough

    def award(self, part: float, reason: str) -> None:
        """Give a right answer only ``part`` of its points, from 0 to 1; it still passes, with one point at least.

        For exercises whose entry in ``course.toml`` says ``speed = true``. ``reason`` is what the learner reads; with all of the
        points nothing is said. An answer that is wrong gets nothing, whatever is awarded.

        Raises:
            ValueError: ``part`` is not a number from 0 to 1, or less than all is given without a reason.
        """
        if not 0 <= part <= 1:
            raise ValueError(f"part is {part}")
        if part < 1 and not reason:
            raise ValueError("less than all points need a reason")
        self.share = (float(part), reason)

    @property
    def ok(self) -> bool:
        """Whether every check so far has passed."""
        return all(result.passed for result in self.results)

    def expect_same_inputs(self) -> None:
        """Compare the draws of both halves, as far as both have drawn: either may go on where the other has stopped.

        Without collect's list the answer fails.

        Raises:
            InputsDiffer: one draw differs, so collect and judge did not have the same inputs.
        """
        theirs, mine = self.draws(), bytes(self.rng.digests)
        if theirs is None:  # the last result: whatever else is wrong is reported first
            self.results.append(CheckResult("evidence", False, "The exercise's run left no list of its inputs."))
            return
        common = min(len(theirs), len(mine)) // DIGEST
        for draw in range(common):
            place = slice(draw * DIGEST, (draw + 1) * DIGEST)
            if theirs[place] != mine[place]:
                raise InputsDiffer(f"draw {draw + 1} of {common} that both have made differs")
