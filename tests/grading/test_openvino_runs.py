"""Chapter 18's checks on a processor where OpenVINO lacks something: the grader says so, and no answer loses its points."""

from __future__ import annotations

import platform

import pytest

from oplab.authoring import lint
from oplab.course.manifest import load
from oplab.grading.client import Server
from tests.support import ROOT


def test_no_answer_is_blamed_for_a_processor_without_avx():
    pytest.importorskip("openvino", reason="OpenVINO is not installed; `make deps-engines` does it")
    course = load(ROOT)
    trials = [trial for trial in lint.trials(course) if trial.exercise.id == "c18.conversion"]
    solution = next(trial for trial in trials if trial.kind == "solution")
    # oneDNN, which OpenVINO has inside, obeys it and takes the processor for one without AVX.
    with Server(env={"ONEDNN_MAX_CPU_ISA": "SSE41"}) as server:
        outcome = lint.attempt(course, solution, server)
    if platform.machine() not in ("x86_64", "AMD64"):
        assert outcome.status == "passed", outcome
    else:
        assert outcome.status == "grader_error", outcome
        assert "needs AVX" in outcome.message and "bad combination" in outcome.message
