"""Which idea a wrong answer has: failures of different learners that come from the same mistake are recognised as the same.

The course knows many wrong answers (``tests/mutants``), each with words that the message about it contains. A failure whose message
contains such words is explained by that wrong answer. An installed course may have no tests; and not every mistake is known. Then
failures are the same if their messages are, apart from numbers and names in quotation marks.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass

from oplab.authoring import mutants
from oplab.course.manifest import Course
from oplab.grading.results import Outcome

# What an array comparison reports in numbers: it differs between learners, and does not explain anything.
_FIGURES = re.compile(r"elements differ; first |^Largest error |\(allowed [-\d.e+]+ \+ ")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|nan|inf)\b", re.IGNORECASE)
_MOST = 300  # characters of a sentence on the page


@dataclass(frozen=True)
class Idea:
    """What is wrong with an answer.

    Attributes:
        exercise: its id.
        key: equal for equal mistakes.
        sentence: what the learner read about it.
        names: the known wrong answers that get this message; empty if none does.
    """

    exercise: str
    key: str
    sentence: str
    names: tuple[str, ...] = ()


def known(course: Course) -> dict[str, dict[str, tuple[str, ...]]]:
    """For each exercise the words of its known wrong answers, with their names; empty where the course has no tests."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for exercise in course.exercises:
        try:
            text = mutants.file_of(course, exercise, "mutant").read_text(encoding="utf-8")
            tables = tomllib.loads(text)
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
            continue
        words: dict[str, tuple[str, ...]] = {}
        for name, table in tables.items():
            if isinstance(table, dict) and isinstance(table.get("says"), str):
                words[table["says"]] = (*words.get(table["says"], ()), name.replace("_", " "))
        found[exercise.id] = words
    return found


def idea(outcome: Outcome, words: Mapping[str, tuple[str, ...]]) -> Idea | None:
    """What is wrong with an answer; None if it passed, is not written yet, or could not be graded.

    Args:
        outcome: of the answer.
        words: of the exercise's known wrong answers, from :func:`known`.
    """
    if outcome.status in ("passed", "todo", "grader_error"):
        return None
    messages = [check.message for check in outcome.checks if not check.passed and check.message]
    for message in (*messages, outcome.message):
        # The longest words are the most specific.
        for says in sorted((says for says in words if says in message), key=lambda says: (-len(says), says)):
            return Idea(outcome.id, says, _short(_sentence_with(says, message)), words[says])
    sentences = _sentences(messages[0] if messages else outcome.message)
    telling = [sentence for sentence in sentences if not _FIGURES.search(sentence)] or sentences
    if outcome.status in ("build_failed", "error"):
        errors = [sentence for sentence in telling if re.search(r"\w(?:Error|Exception)\b|\berror:", sentence)]
        telling = errors[:1] or telling[:1]
    text = " ".join(telling) or outcome.status.replace("_", " ")
    # An undefined name is another mistake than another undefined name; a wrong node may be called anything.
    key = normalised(text, names=outcome.status in ("build_failed", "error"))
    return Idea(outcome.id, f"{outcome.status} {key}", _short(text))


def normalised(text: str, *, names: bool = False) -> str:
    """The text without what differs between two answers with the same mistake: numbers, and names in quotation marks.

    Args:
        text: a message.
        names: keep the names.
    """
    if not names:
        text = re.sub(r"'[^'\n]*'|\"[^\"\n]*\"", "'…'", text)
    return " ".join(_NUMBER.sub("#", text).split())


def _sentences(message: str) -> list[str]:
    return [sentence.strip() for sentence in _SENTENCE.split(message) if sentence.strip()]


def _sentence_with(says: str, message: str) -> str:
    """The sentences of the message that the words are in; they may reach over the end of one."""
    for sentence in _sentences(message):
        if says in sentence:
            return sentence
    start = message.index(says)
    before = [match.end() for match in _SENTENCE.finditer(message, 0, start + 1)]
    after = _SENTENCE.search(message, start + len(says))
    return message[before[-1] if before else 0 : after.start() if after else len(message)]


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MOST else text[: _MOST - 1] + "…"
