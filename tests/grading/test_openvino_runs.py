"""Chapter 18's checks where OpenVINO's Resize is broken: the grader says so, and no answer loses its points."""

from __future__ import annotations

import numpy as np
import pytest

from oplab.checks import openvino_runs
from oplab.errors import OplabError

pytest.importorskip("openvino", reason="OpenVINO is not installed; `make deps-engines` does it")


class Broken:
    """An OpenVINO whose programs give a fixed answer, as it was seen on processors without AVX."""

    def __init__(self, answer):
        self.answer = answer

    def read_model(self, model):
        return model

    def compile_model(self, model, device, config):
        return self.answer


def refuses(feed):
    raise RuntimeError("Exception from src/core.cpp:1:\nbad combination")


ANSWERS = {
    "it refuses": (refuses, "does not run on this processor.*bad combination"),
    "garbage": (lambda feed: [np.full((1, 2, 15, 20), 1e34, np.float32)], "computes wrong numbers.*1e[+]34"),
    "NaN": (lambda feed: [np.full((1, 2, 15, 20), np.nan, np.float32)], "computes wrong numbers"),
    "shifted": (lambda feed: [np.repeat(np.repeat(feed["x"], 2, -1), 2, -2)[..., 1:]], "computes wrong numbers"),
}


@pytest.mark.parametrize("answer, says", ANSWERS.values(), ids=ANSWERS)
def test_a_broken_interpolate_is_not_the_learners_fault(monkeypatch, answer, says):
    monkeypatch.setattr(openvino_runs.installed(), "Core", lambda: Broken(answer))
    with pytest.raises(OplabError, match=says) as raised:
        openvino_runs.expect_interpolate()
    assert "so this exercise cannot be graded here" in str(raised.value)  # the grader's sign: it costs no points


def test_a_right_one_is_accepted():
    try:
        openvino_runs.expect_interpolate()
    except OplabError as error:
        pytest.skip(str(error))
