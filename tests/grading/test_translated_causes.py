"""Messages of the grader in Chinese: what is told first."""

from __future__ import annotations

import re

import pytest

from oplab.course import language

KNOWN = "They were rounded on the way, for example to half precision."  # for the fields that are translated as well
SAMPLES = {"count": "7", "total": "12", "line": "34", "rest": KNOWN, "more": f" {KNOWN}"}


@pytest.fixture(autouse=True)
def chinese(monkeypatch):
    monkeypatch.setenv(language.VARIABLE, "zh_CN")


def test_every_message_is_found_with_all_of_its_fields():
    known = language.catalogue("causes")
    for message, translation in known.items():
        fields = {key: SAMPLES.get(key, f"<{key}>") for key in re.findall(r"\{(\w+)\}", message)}
        wanted = {**fields, **{key: known[KNOWN] for key in ("rest", "more") if key in fields}}
        assert language.told(message.format(**fields), "causes") == translation.format(**wanted)
        if "more" in fields:
            wanted["more"] = ""
            assert language.told(message.format(**fields | {"more": ""}), "causes") == translation.format(**wanted)


def test_a_place_in_front_the_cause_at_the_end_and_lines_below():
    cause = language.told(KNOWN, "causes")
    assert cause and language.told(f"net.onnx: something else. {KNOWN}\n   12 | x = y", "causes") == cause
    assert language.told(f"opset 9, float32[2, 3]: {KNOWN}", "causes") == f"opset 9, float32[2, 3]：{cause}"
    assert language.told("opset 9, float32[2, 3]: Something else.", "causes") is None
    error = language.told("y: TypeError: f() (of x) fails (c04_aten_symbolic.py, line 12)", "causes")
    assert error and "c04_aten_symbolic.py 第 12 行" in error and "f() (of x) fails" in error
