"""Each question of docs/clinic.md has the state that its case finds with the installed versions, and a way around that works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from oplab import clinic
from oplab.cli.main import app
from oplab.errors import OplabError
from tests.support import ROOT

QUESTIONS = clinic.questions(ROOT)
CHEAP = clinic.find("23566", QUESTIONS)
# What not every platform's wheels bring.
OPTIONAL = {"pytorch#147374": "triton", "onnxruntime-extensions#964": "onnxruntime_extensions"}
# Cases of some milliseconds that export nothing; all others are for the night.
QUICK = ("onnxruntime#23566", "onnxruntime#26311", "onnx#7950")


@pytest.mark.parametrize(
    "question",
    [pytest.param(each, id=each.issue, marks=() if each.issue in QUICK else pytest.mark.nightly) for each in QUESTIONS],
)
def test_the_page_is_right(question):
    if question.issue in OPTIONAL:
        pytest.importorskip(OPTIONAL[question.issue], reason=f"{OPTIONAL[question.issue]} is not installed")
    wrong = clinic.ask(question, ROOT).differs(question)
    assert not wrong, wrong


def test_page_and_cases_fit_together():
    cases = {path.relative_to(ROOT).as_posix() for path in (ROOT / "tests" / "clinic").glob("*_[0-9]*.py")}
    assert {question.case for question in QUESTIONS} == cases
    assert len({question.issue for question in QUESTIONS}) == len(QUESTIONS) >= 20
    for question in QUESTIONS:
        assert Path(question.case).stem == question.issue.replace("#", "_").replace("-", "_")
        assert (ROOT / question.lesson).is_file()
        assert Path(question.lesson).name.startswith(question.chapter)
        assert question.text


def test_another_answer_names_the_page_and_the_lesson():
    assert not clinic.Answer(happens=True).differs(CHEAP)
    fixed = clinic.Answer(happens=False).differs(CHEAP)
    for words in ("onnxruntime#23566 no longer happens with torch ", "docs/clinic.md", CHEAP.case, CHEAP.lesson):
        assert words in fixed
    failed = clinic.Answer(happens=True, failure="AssertionError").differs(CHEAP)
    assert "the workaround no longer works: AssertionError" in failed


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "There is no page"),
        ("Because.", "the section pytorch#1 does not begin with"),
        (
            "*shut* · [chapter 10](../notebooks/10.ipynb) · [case](../tests/clinic/pytorch_1.py)",
            "pytorch#1 has the state shut",
        ),
    ],
)
def test_a_page_that_is_wrong(tmp_path, text, words):
    if text:
        (tmp_path / "docs").mkdir()
        (tmp_path / clinic.PAGE).write_text(f"### pytorch#1: Why?\n{text}\n\nBecause.\n", encoding="utf-8")
    with pytest.raises(OplabError, match=words):
        clinic.questions(tmp_path)


class TestCommand:
    def run(self, *words: str) -> Result:
        return CliRunner().invoke(app, ["clinic", *words])

    def test_the_list(self):
        done = self.run()
        assert done.exit_code == 0, done.output
        for question in QUESTIONS:
            assert question.issue in done.stdout

    def test_one_question(self):
        done = self.run("onnxruntime#23566")
        assert done.exit_code == 0, done.output
        assert CHEAP.text in done.stdout
        assert "happens, the workaround works" in done.stdout

    def test_bad_input(self):
        for words, sentence in (
            (["99"], "The clinic has no question 99."),
            (["23566", "--run"], "--run is for all questions."),
        ):
            with pytest.raises(OplabError, match=re.escape(sentence)):
                CliRunner().invoke(app, ["clinic", *words], catch_exceptions=False)
