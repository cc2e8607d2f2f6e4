"""Each mistake that a check declares, given to the judge as the result, is told its own sentence. No learner's process runs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest

from oplab.checks import c04_aten_symbolic as c04
from oplab.checks import c05_writing_symbolic as c05
from oplab.checks import c09_exporter_archaeology as c09
from oplab.checks import exporting
from oplab.checks.expected import Expected
from oplab.parity.arrays import WrongAnswer
from tests.support import ROOT

Judged = tuple[Expected, list[np.ndarray]]  # what is expected of a run, and the run's inputs


def _powers(rng: np.random.Generator, expected: Expected) -> Iterator[Judged]:
    for bound in (6, 80):
        yield expected, [np.asarray(rng.uniform(-bound, bound, (5, 4)), np.float32)]


def _sinc(rng: np.random.Generator) -> Iterator[Judged]:
    for _, dtype, (shape,) in c04.SINC:
        size = exporting.sizes(rng, len(shape))
        x = rng.uniform(0.05, 4, size) * rng.choice([-1, 1], size)
        yield c04.EXPECTED_SINC, [np.asarray(x, dtype)]


def _hypot(rng: np.random.Generator) -> Iterator[Judged]:
    for power in (0, 1, -1):
        for case in c04.HYPOT:
            times = 10.0 ** {0: 0, 1: c04.EXPONENT[case[1]], -1: c04.TINY[case[1]]}[power]
            yield c04.EXPECTED_HYPOT, [part * np.asarray(times, part.dtype) for part in c04.hypot_pair(rng, case)]


def _sum(rng: np.random.Generator) -> Iterator[Judged]:
    for case in c05._my_add_cases(rng, c05.MY_ADD_DTYPES):
        feeds = c05._pair(rng, exporting.sizes(rng, len(case.shape)), case.dtype)
        yield c05.expected_sum(case, attribute=False), list(feeds.values())


def _log10(rng: np.random.Generator) -> Iterator[Judged]:
    for case in c05.DTYPES:
        yield (
            c05.EXPECTED_LOG10,
            [np.asarray(10 ** rng.uniform(-3, 3, exporting.sizes(rng, len(case.shape))), case.dtype)],
        )
    yield c05.EXPECTED_LOG10, [np.array([1, -2, 0.5])]


def _kth(rng: np.random.Generator, place: int) -> Iterator[Judged]:
    for case in c05._kth_cases(rng):
        size = list(exporting.sizes(rng, len(case.shape)))
        size[case.numbers[1]] += max(3, case.numbers[0])
        yield c05.expected_kth(case, place), [c05._distinct(rng, tuple(size), case.dtype)]


def _scale(rng: np.random.Generator) -> Iterator[Judged]:
    for _, _, factor in c09.SCALE:
        yield c09.expected_scale(factor), [np.asarray(rng.normal(scale=3, size=(4, 5)), np.float32)]


# The runs of each exercise in the order of its judge: the first that rejects a mistake has to tell it.
RUNS: dict[str, Callable[[np.random.Generator], Iterator[Judged]]] = {
    "c04.per_opset": partial(_powers, expected=c04.EXPECTED_SINH),
    "c04.sinc": _sinc,
    "c04.hypot": _hypot,
    "c05.my_add": _sum,
    "c05.dtypes": _log10,
    "c05.kthvalue, values": partial(_kth, place=0),
    "c05.kthvalue, indices": partial(_kth, place=1),
    "c09.port_register_op, cosh": partial(_powers, expected=c09.EXPECTED_COSH),
    "c09.port_register_op, scale": _scale,
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("exercise", RUNS)
def test_each_mistake_is_told(exercise, seed):
    runs = list(RUNS[exercise](np.random.default_rng(seed)))
    told = {}
    for sentence in {sentence: None for expected, _ in runs for sentence in expected.mistakes}:
        for expected, inputs in runs:
            mistake = expected.mistakes.get(sentence, expected.right)
            try:
                expected.judge(expected.result(mistake, *inputs), *inputs, name="it")
            except WrongAnswer as error:
                told[sentence] = str(error)
                break
    assert {sentence: told.get(sentence, "it is accepted") for sentence in told if sentence not in told[sentence]} == {}
    assert told.keys() == {sentence for expected, _ in runs for sentence in expected.mistakes}


def test_every_declaration_is_tried():
    tried = [expected for runs in RUNS.values() for expected, _ in runs(np.random.default_rng(0))]
    for path in (ROOT / "oplab" / "checks").glob("c*.py"):
        for name, value in vars(importlib.import_module(f"oplab.checks.{path.stem}")).items():
            assert not isinstance(value, Expected) or value in tried, f"{path.stem}.{name} has no runs here"
