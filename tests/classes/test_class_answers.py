"""The answer to one exercise: what it consists of, and what does not change it."""

from __future__ import annotations

import pytest

from oplab.classes.extraction import Answers, Unreadable
from oplab.classes.versions import grader_version
from oplab.course.manifest import load
from tests.support import ROOT
from tests.support.fixture_course import COURSE

HEAD = "from oplab.course.stubs import todo\nimport torch\n\n"
STUB = 'def untouched(x):\n    # TODO c01.untouched: return 2 * x\n    raise todo("c01.untouched")\n'
REST = "def fails(x: torch.Tensor, y=-1) -> torch.Tensor:\n    return {body}\n"
OWN = "def passes(x):\n    return {body}\n"


@pytest.fixture(scope="module")
def course():
    return load(COURSE)


@pytest.fixture(scope="module")
def answers(course):
    return Answers(course, [exercise for exercise in course.exercises if exercise.kind == "python"])


def of(answers, text, id="c01.passes"):
    return answers.of({"c01_cases.py": text})[id]


def file(own="2 * x", rest="x + 1", head=HEAD):
    return f"{head}{REST.format(body=rest)}\n\n{OWN.format(body=own)}\n\n{STUB}"


def test_the_change_of_one_function_is_one_new_answer(answers):
    plain, other, own = file(), file(rest="x + 2"), file(own="x + x")
    assert of(answers, plain).sha == of(answers, other).sha != of(answers, own).sha
    assert (
        of(answers, plain, "c01.fails").sha == of(answers, own, "c01.fails").sha != of(answers, other, "c01.fails").sha
    )


def test_what_is_graded_keeps_its_lines(answers):
    text = of(answers, file()).text
    assert "def fails" not in text
    lines, whole = text.split("\n"), file().split("\n")
    assert len(lines) == len(whole) and all(mine in ("", line) for mine, line in zip(lines, whole, strict=True))
    assert lines[whole.index("def passes(x):")] == "def passes(x):"


@pytest.mark.parametrize(
    "change",
    [
        {"own": "fails(x)"},
        {"own": "globals()['fai' + 'ls'](x)"},
        {"head": HEAD + "twice = [lambda: fails]\n"},
        {"head": HEAD + "helper = lambda x: between(x)\ndef between(x):\n    return fails(x)\n"},
        {"head": "from oplab.course.stubs import todo\n"},  # the annotation of `fails` fails when the file is imported
        {"head": HEAD + "def fails(x):\n    return x\n"},
    ],
)
def test_a_function_that_could_be_noticed_stays(answers, change):
    assert "def fails" in of(answers, file(**change)).text
    assert of(answers, file(**change)).sha != of(answers, file(rest="x + 2", **change)).sha


@pytest.mark.parametrize(
    "definition",
    [
        "@print\ndef fails(x): pass\n",
        "def fails(x=print()): pass\n",
        "class fails: print()\n",
        "async def fails(): pass\n",
    ],
)
def test_a_definition_that_runs_code_stays(answers, definition):
    assert "fails" in of(answers, f"{HEAD}{definition}\n\n{OWN.format(body='2 * x')}").text


def test_what_needs_no_run(answers, course):
    stub = of(answers, file(), "c01.untouched")
    assert stub.settled is not None and stub.settled.status == "todo"
    assert of(answers, file(rest="2"), "c01.untouched").sha == stub.sha
    missing = answers.of({})["c01.passes"].settled
    assert missing.status == "error" and "c01_cases.py is missing" in missing.message
    unreadable = answers.of({"c01_cases.py": Unreadable("it is a link")})["c01.passes"].settled
    assert unreadable.status == "error" and unreadable.message == "c01_cases.py cannot be read: it is a link."


@pytest.mark.parametrize("text", ["def passes(:\n", "x = 1\0", "(" * 10_000, ""])
def test_a_text_that_is_not_python_is_graded_as_it_is(answers, text):
    assert of(answers, text).text == text and of(answers, text).settled is None


def test_every_stub_of_the_course_is_known_and_no_solution_is():
    course = load(ROOT)
    answers = Answers(course, course.exercises)
    for track, known in (("exercises", True), ("solutions", False)):
        names = {exercise.file for exercise in course.exercises}
        files = {name: (ROOT / track / name).read_text(encoding="utf-8") for name in names}
        found = answers.of(files)
        assert list(found) and {answer.settled is not None for answer in found.values()} == {known}


def test_the_graders_version_follows_the_checks_of_its_own_chapter(tmp_path, course):
    import shutil

    copy = tmp_path / "course"
    shutil.copytree(COURSE, copy)
    checks = copy / "oplab" / "checks" / "c01_cases.py"
    checks.write_text(checks.read_text() + "\n# fixed\n")
    changed = load(copy)
    for exercise, same in zip(course.exercises, changed.exercises, strict=True):
        if exercise.kind == "python":
            equal = grader_version(course, exercise) == grader_version(changed, same)
            assert equal == (exercise.chapter != "01_cases"), exercise.id
