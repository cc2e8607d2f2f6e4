"""The five questions at a lesson's end: their form, and how they are shown."""

from __future__ import annotations

import pytest

from oplab.course import quiz
from oplab.errors import OplabError


def written(tmp_path, questions):
    """A file with one line for each question: the places of its right choices, among three."""
    text = ""
    for number, right in enumerate(questions):
        text += f'[[question]]\ntext = "Question {number} of `x < y`?"\n'
        for place in range(3):
            more = "right = true\n" if place in right else ""
            text += f'[[question.choice]]\ntext = "choice {place}"\nwhy = "because {number}{place}"\n{more}'
    file = tmp_path / "05.toml"
    file.write_text(text)
    return file


GOOD = [[0], [1], [2], [0], [1]]


def test_a_good_one_has_no_problem_and_is_shown_in_two_forms(tmp_path):
    made = quiz.read(written(tmp_path, GOOD))
    assert quiz.problems(made) == []
    bundle = made._repr_mimebundle_()
    lines = bundle["text/plain"].splitlines()
    assert lines[:2] == ["1. Question 0 of `x < y`?", "   a) choice 0"]
    assert lines[-6:] == [
        "Answers",
        "1 a) because 00",
        "2 b) because 11",
        "3 c) because 22",
        "4 a) because 30",
        "5 b) because 41",
    ]
    html = bundle["text/html"]
    assert html.count("<details>") == html.count("</details>") == 15 and "<script" not in html
    assert html.count("✓ Right.") == 5 and html.count("✗ Wrong.") == 10 and "<code>x &lt; y</code>" in html


def test_what_it_lacks_or_has_twice_is_named(tmp_path):
    for questions, words in (
        (GOOD[:4], "it has 4 questions; it has to be exactly 5."),
        ([[], *GOOD[1:]], "question 1 has 0 right choices"),
        ([[1]] * 5, "the right choice is in the same place in more than 3 questions"),
    ):
        assert any(words in problem for problem in quiz.problems(quiz.read(written(tmp_path, questions))))
    for old, new, words in (
        ('text = "choice 2"', 'text = "choice 1"', "question 1 has a choice twice."),
        ('text = "Question 1', 'text = "Question 0', "a question is there twice."),
    ):
        file = written(tmp_path, GOOD)
        file.write_text(file.read_text().replace(old, new, 1))
        assert words in quiz.problems(quiz.read(file))


def test_a_broken_file_is_a_sentence(tmp_path):
    for old, new, words in (
        ('why = "because 00"\n', "", "question 1, choice 1: why is missing or empty."),
        ("right = true", 'right = "yes"', "right is true, or is left out."),
        ("[[question]]", "[question]", "is not valid TOML"),
    ):
        file = written(tmp_path, GOOD)
        file.write_text(file.read_text().replace(old, new, 1))
        with pytest.raises(OplabError) as caught:
            quiz.read(file)
        assert words in caught.value.message and "notebooks/quiz/05.toml" in caught.value.message
