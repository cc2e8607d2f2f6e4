"""Records of a class keep what they hold through JSON and the folder GRADES."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from oplab.classes import records
from oplab.classes.records import Learner, Submission, Task, Verdict
from oplab.errors import OplabError
from oplab.grading.results import Check, Outcome

AT = datetime(2026, 11, 1, 12, 30, tzinfo=UTC)


def verdict(key="ab" * 32, message="no: \ud800") -> Verdict:
    outcome = Outcome(
        "c00.export", "00_first_round_trip", "failed", 0, 3, 1.5, message, (Check("runs", False, "why"),), "out", 7
    )
    return Verdict(key, "c00.export", outcome, 5, {"torch": "2"}, records.sha256("x"), 1.5, "here", AT)


@pytest.fixture
def grades(tmp_path):
    task = Task("c00.export", "ab" * 32, records.sha256("x"))
    ada = Submission("ada", "late", AT, "ada@late.zip", {"c00.export": task}, ("a sentence",))
    records.save_answer(tmp_path, task.answer, "x")
    records.save_verdict(tmp_path, verdict())
    learners = {"bob": Learner("bob"), "ada": Learner("ada", "Ada L.", "a@b.c", "2")}
    records.save_submissions(tmp_path, learners, {"ada": (ada,)}, ("zip of no one",))
    records.save_run(tmp_path, {"seed": 5})
    return tmp_path, ada, learners


def test_what_is_saved_is_loaded(grades):
    folder, ada, learners = grades
    found = records.load(folder)
    assert dict(found.learners) == learners and list(found.learners) == ["bob", "ada"]
    assert dict(found.submissions) == {"bob": (), "ada": (ada,)}
    assert found.problems == ("zip of no one",) and found.run["seed"] == 5
    assert found.verdict(ada, "c00.export") == verdict(message="no: \ufffd")
    assert found.verdict(ada, "c00.compare") is None


def test_a_verdict_that_cannot_be_understood_is_graded_again(grades):
    folder = grades[0]
    path = records.verdict_file(folder, "ab" * 32)
    for text in ("", "[]", "{", json.dumps({**json.loads(path.read_text()), "key": "cd" * 32})):
        path.write_text(text)
        assert records.load_verdict(folder, "ab" * 32) is None
    assert records.load(folder).verdicts == {}


def test_a_changed_answer_is_noticed(grades):
    folder = grades[0]
    sha = records.sha256("x")
    assert records.load_answer(folder, sha) == "x"
    records.answer_file(folder, sha).write_text("y")
    with pytest.raises(OplabError, match="was changed"):
        records.load_answer(folder, sha)
    with pytest.raises(OplabError, match="cannot be read"):
        records.load_answer(folder, "00" * 32)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 1}', '{"version": 1, "learners": [{"x": 1}], "problems": []}']
)
def test_a_broken_folder_is_a_sentence(grades, text):
    folder = grades[0]
    (folder / "submissions.json").write_text(text)
    with pytest.raises(OplabError, match=r"submissions\.json cannot be read"):
        records.load(folder)
