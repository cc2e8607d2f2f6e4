"""Random calls in a process with the sanitizers, and the count of what came of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from oplab.toolchain.sanitizer import sanitizer_env
from tests.support import run_python

DTYPES = (np.float32, np.float64)
ODD_VALUES = (0.0, -1.0, np.nan, np.inf, -np.inf, 1e30, -1e30, 1e-30)


def under_the_sanitizers(code: str, *arguments: object, **variables: str) -> Counter[str]:
    """Runs Python that prints a line ``outcome: count`` for each outcome, and has to end without a finding."""
    done = run_python(f'{code}\nprint("clean")', *arguments, env=sanitizer_env() | variables, timeout=900)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    *lines, last = done.stdout.strip().splitlines()
    assert last == "clean"
    return Counter({outcome: int(count) for outcome, _, count in (line.rpartition(": ") for line in lines)})


def expect_variety(found: Counter[str], least: dict[str, int]) -> None:
    """A fuzz whose cases have all become alike would be clean too."""
    assert all(found[outcome] >= count for outcome, count in least.items()), found


def strided(value: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """The same values, often in a layout with gaps or with the dimensions in another order."""
    way = random.integers(3)
    if way == 0 and value.ndim:
        return np.repeat(value, 2, axis=0)[::2]
    if way == 1 and value.ndim > 1:
        return np.ascontiguousarray(value.T).T
    return value


def outcome(call: Callable[[], tuple[np.ndarray, ...]]) -> tuple[tuple[np.ndarray, ...] | None, str]:
    """What came: arrays, or the sentence of a refusal without what each runtime puts before it."""
    try:
        return call(), ""
    except Exception as error:
        found = re.search(r"(?:\.cpp:\d+, |(?:Status Message|initialization): \w+: )(.*)", str(error))
        assert found, f"not a refusal of ours: {error!r}"
        return None, found[1]


def same_outcome(refused: str | None, in_torch: tuple, in_ort: tuple) -> bool:
    """Whether there is an answer. Both runtimes have given the same one, or the same sentence."""
    (answers, sentence), (ort_answers, ort_sentence) = in_torch, in_ort
    assert sentence == ort_sentence, (sentence, ort_sentence)
    if refused:
        assert sentence.startswith((f"{refused} ", f"{refused}[")) and sentence.endswith("."), (refused, sentence)
        return False
    assert not sentence, sentence
    for answer, ort_answer in zip(answers, ort_answers, strict=True):
        np.testing.assert_array_equal(answer, ort_answer)
    return True


def fuzz(cases: range, runs: tuple[Callable[..., str], ...], seed: int, *arguments: Any) -> Counter:
    """How often each operator came to which outcome. The operators of PyTorch are loaded already."""
    outcomes: Counter = Counter()
    for case in cases:
        run = runs[case % len(runs)]
        try:
            outcomes[f"{run.__name__}: {run(np.random.default_rng([seed, case]), *arguments)}"] += 1
        except AssertionError as error:
            raise AssertionError(f"case {case} of {run.__name__}: {error}") from error
    return outcomes
