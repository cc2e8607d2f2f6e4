"""The words that the course does not use: where they are looked for, and what may be allowed."""

from __future__ import annotations

import pytest

from oplab.authoring import words

LESSON = """# %% [markdown]
# Nobody checks it.

# %%
nobody = 1
"""


@pytest.fixture
def course(tmp_path):
    for folder in ("notebooks/src", "exercises", "docs", "tests"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "course.toml").write_text('hints = ["Where does it stand?"]\n')
    (tmp_path / "README.md").write_text("The value is in a file.\n")
    return tmp_path


def found(root) -> list[str]:
    return [where for where, _ in words.problems(root)]


def test_the_text_of_a_lesson_and_not_its_code(course):
    (course / "notebooks" / "src" / "01_x.py").write_text(LESSON)
    ((where, what), *rest) = [entry for entry in words.problems(course) if "01_x" in entry[0]]
    assert where == "notebooks/src/01_x.py, line 2" and not rest
    assert what.startswith("“Nobody”: write there is no …")


def test_a_message_of_the_code_and_not_its_docstring(course):
    (course / "oplab").mkdir()
    (course / "oplab" / "x.py").write_text('"""Nobody reads it."""\n\nbehind = f"{1} stands in the graph"\n')
    assert found(course) == ["course.toml, line 1", "oplab/x.py, line 3"]


@pytest.mark.parametrize(
    "line, count",
    {
        "A node with a name of its own.": 1,
        "the points of its own batch": 0,
        "There is no model, and there are no nodes.": 0,
        "This is no model.": 1,
        "It is no longer valid.": 0,
        "N stands for the batch; it stands in front of C.": 2,
        "the parameter `behind`": 0,
        "It was mended, and nobody told.": 2,
    }.items(),
)
def test_words(line, count):
    assert len(list(words.found(line))) == count


def test_a_line_is_allowed_with_its_reason_and_only_while_it_needs_to_be(course):
    allow = '[[allow]]\nfile = "course.toml"\nline = "does it stand"\nreason = "a test"\n'
    (course / "tests" / "allowed_words.toml").write_text(allow)
    assert found(course) == []
    (course / "course.toml").write_text("")
    assert found(course) == ["tests/allowed_words.toml"]
